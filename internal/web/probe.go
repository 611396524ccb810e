package web

import (
	"log/slog"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// prober probes a target before its schedule does.
type prober interface {
	// Probe requests a probe of a target, and does not wait for its result. The error wraps one of package poll.
	Probe(target string) error
}

// probeAsked is the body of the answer to a request for a probe.
type probeAsked struct {
	Schema status.Schema `json:"schema"`
	Target string        `json:"target"`
}

// serveProbe probes a target now, although it waits after a refused credential.
func serveProbe(w http.ResponseWriter, r *http.Request, src prober, log *slog.Logger) {
	target := r.PathValue("target")
	if err := src.Probe(target); err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	log.Info("a probe was requested over HTTP", "target", target)
	writeJSON(w, http.StatusAccepted, probeAsked{Target: target}, log)
}

// probeForm is the form on a target's debug page that requests a probe, for the users that may change maintenance.
type probeForm struct {
	*forms

	source prober
}

// tokenFor returns the token of the form, "" for a user that gets no form.
func (f *probeForm) tokenFor(r *http.Request) string {
	user, refusal := f.user(r)
	if refusal != "" {
		return ""
	}
	return f.token(user)
}

// post requests a probe, and leads back to the target's page.
func (f *probeForm) post(w http.ResponseWriter, r *http.Request) {
	_, user, code, refusal := f.accept(w, r, maxMaintenanceBody)
	if refusal != "" {
		http.Error(w, refusal, code)
		return
	}
	target := r.PathValue("target")
	if err := f.source.Probe(target); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	f.options.Log.Info("a probe was requested on the page of the target", "target", target, "user", user)
	redirect(w, http.StatusSeeOther, target)
}
