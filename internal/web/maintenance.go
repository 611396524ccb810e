package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// maxMaintenanceBody limits the body of POST /api/v1/maintenance, in bytes.
const maxMaintenanceBody = 4 << 10

// maintenanceRequest is the body of POST /api/v1/maintenance.
type maintenanceRequest struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Duration has the configuration's format, such as 2h or 1d12h; Until has that of RFC 3339. Exactly one of them is required.
	Duration string     `json:"duration"`
	Until    *time.Time `json:"until"`
	Reason   string     `json:"reason"`
}

// end returns when a maintenance that begins now ends.
func (w *maintenanceRequest) end(now time.Time) (time.Time, error) {
	switch {
	case (w.Duration == "") == (w.Until == nil):
		return time.Time{}, errors.New("one of duration and until must be set")
	case w.Until != nil:
		return *w.Until, nil
	}
	d, err := config.ParseDuration(w.Duration)
	if err != nil {
		return time.Time{}, fmt.Errorf("duration is %q, must be one such as 30m, 2h or 1d12h", w.Duration)
	}
	return now.Add(d.Std()), nil
}

// bodyForm is what the body of a request must be like.
type bodyForm struct {
	what  string // such as "a maintenance"
	limit int64  // in bytes
	// example is a valid body, keys are the names of its keys.
	example, keys string
}

var maintenanceForm = bodyForm{
	what:    "a maintenance",
	limit:   maxMaintenanceBody,
	example: `{"kind": "target", "name": "irc_rpc", "duration": "1h"}`,
	keys:    "kind, name, duration or until, and reason",
}

// read decodes the body of a request. It rejects unknown keys: a mistyped key must not start an unintended maintenance. With an error it
// returns the status of the response.
func (f *bodyForm) read(w http.ResponseWriter, r *http.Request, into any) (status int, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("the content type must be application/json")
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, f.limit))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one JSON value")
			if _, long := errors.AsType[*http.MaxBytesError](more); long {
				err = more
			}
		}
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", f.limit)
	}
	if err != nil {
		return http.StatusBadRequest, fmt.Errorf("the body is not %s: %s", f.what, f.explain(err))
	}
	return 0, nil
}

// explain says what is wrong with a body without Go's terms.
func (f *bodyForm) explain(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return "it is a JSON " + wrong.Value + ", must be an object such as " + f.example
		}
		return fmt.Sprintf("%s is a JSON %s, must be a string", wrong.Field, wrong.Value)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Sprintf("until is %s, must be a time with its zone such as 2026-05-01T22:00:00Z", wrong.Value)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("invalid JSON at byte %d", wrong.Offset)
	}
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends in the middle of the JSON"
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "unknown key " + key + "; known keys: " + f.keys
	}
	return err.Error()
}

// maintainer sets and ends maintenance.
type maintainer interface {
	// Maintenance lists current and planned maintenance by kind and name.
	Maintenance() []maintenance.Entry
	// SetMaintenance puts a target or container under maintenance until a time. It replaces one that SetMaintenance set before.
	// Warnings are for the user. The error wraps one of package maintenance.
	SetMaintenance(kind, name, reason string, until time.Time) (set maintenance.Entry, replaced bool, warnings []string, err error)
	// EndMaintenance ends what SetMaintenance set; warnings and error as there.
	EndMaintenance(kind, name string) (warnings []string, err error)
}

// forgetter forgets containers and modules.
type forgetter interface {
	// ForgetContainer forgets a container that is gone. The error wraps one of package collectors.
	ForgetContainer(dockerHost, name string) error
	// ForgetModule forgets a missing module of the XMPP server. The error wraps one of package collectors.
	ForgetModule(host, module string) error
}

// maintenanceList is the body of the answer to GET.
type maintenanceList struct {
	Schema      status.Schema       `json:"schema"`
	Maintenance []maintenance.Entry `json:"maintenance"`
}

// maintenanceSet is the body of the answer to POST.
type maintenanceSet struct {
	Schema      status.Schema     `json:"schema"`
	Maintenance maintenance.Entry `json:"maintenance"`
	Warnings    []string          `json:"warnings"`
}

// changed is the body of the answer to DELETE.
type changed struct {
	Schema   status.Schema `json:"schema"`
	Warnings []string      `json:"warnings"`
}

// serveMaintenance lists current and planned maintenance.
func serveMaintenance(w http.ResponseWriter, src maintainer, log *slog.Logger) {
	writeJSON(w, http.StatusOK, maintenanceList{Maintenance: src.Maintenance()}, log)
}

// serveSetMaintenance puts a target or container under maintenance from now on.
func serveSetMaintenance(w http.ResponseWriter, r *http.Request, src maintainer, log *slog.Logger) {
	var request maintenanceRequest
	code, err := maintenanceForm.read(w, r, &request)
	if err != nil {
		writeError(w, code, err, log)
		return
	}
	until, err := request.end(time.Now())
	if err != nil {
		writeError(w, http.StatusBadRequest, err, log)
		return
	}
	set, replaced, warnings, err := src.SetMaintenance(request.Kind, request.Name, request.Reason, until)
	if err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	code = http.StatusCreated
	if replaced {
		code = http.StatusOK
	}
	writeJSON(w, code, maintenanceSet{Maintenance: set, Warnings: orEmpty(warnings)}, log)
}

// serveEndMaintenance ends a maintenance that the API set.
func serveEndMaintenance(w http.ResponseWriter, r *http.Request, src maintainer, log *slog.Logger) {
	warnings, err := src.EndMaintenance(r.PathValue("kind"), r.PathValue("name"))
	if err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusOK, changed{Warnings: orEmpty(warnings)}, log)
}

// serveForgetContainer forgets a container that is gone, so that it no longer counts as missing.
func serveForgetContainer(w http.ResponseWriter, r *http.Request, src forgetter, log *slog.Logger) {
	if err := src.ForgetContainer(r.PathValue("docker_host"), r.PathValue("name")); err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusOK, changed{Warnings: []string{}}, log)
}

// serveForgetModule forgets a module that the XMPP server has no longer, so that it no longer counts as missing.
func serveForgetModule(w http.ResponseWriter, r *http.Request, src forgetter, log *slog.Logger) {
	if err := src.ForgetModule(r.PathValue("host"), r.PathValue("module")); err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusOK, changed{Warnings: []string{}}, log)
}

func statusOf(err error) int {
	for _, known := range []struct {
		err    error
		status int
	}{
		{maintenance.ErrInvalid, http.StatusBadRequest},
		{maintenance.ErrUnknown, http.StatusNotFound},
		{maintenance.ErrNone, http.StatusNotFound},
		{maintenance.ErrConfigured, http.StatusConflict},
		{maintenance.ErrTooMany, http.StatusConflict},
		{collectors.ErrContainerUnknown, http.StatusNotFound},
		{collectors.ErrContainerNeeded, http.StatusConflict},
		{collectors.ErrModuleUnknown, http.StatusNotFound},
		{poll.ErrTargetUnknown, http.StatusNotFound},
		{poll.ErrTooSoon, http.StatusTooManyRequests},
		{ErrDrillInvalid, http.StatusBadRequest},
		{ErrDrillRunning, http.StatusConflict},
		{ErrNoDrill, http.StatusNotFound},
		{errNoPublicPage, http.StatusConflict},
		{incident.ErrUnknown, http.StatusNotFound},
		{incident.ErrInvalid, http.StatusBadRequest},
		{incident.ErrTooMany, http.StatusConflict},
		{incident.ErrClosed, http.StatusConflict},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}
