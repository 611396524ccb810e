package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

//go:embed openapi.yaml
var openAPI []byte

// newReports keeps the report as JSON.
func newReports() *kept {
	return &kept{make: func(r *status.Report) ([]byte, error) {
		body, err := json.Marshal(r)
		return append(body, '\n'), err
	}}
}

// serveReport answers with what is known now, in JSON.
func serveReport(w http.ResponseWriter, r *http.Request, src reporter, reports *kept, log *slog.Logger) {
	a := reports.of(src.Report())
	if a.err != nil {
		log.Error("report is no JSON", "err", a.err)
		http.Error(w, "the report is no JSON; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	a.write(w, r)
}

// serveHistory answers with how a number was during the last day.
func serveHistory(w http.ResponseWriter, r *http.Request, src charter, log *slog.Logger) {
	name := r.PathValue("name")
	h, ok := src.Chart(name)
	if !ok {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no history %q; /api/v1/status names those that there are, as charts", name), log)
		return
	}
	writeJSON(w, http.StatusOK, h, log)
}

// serveOpenAPI answers with the description of everything below /api and /badge.
func serveOpenAPI(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(openAPI) //nolint:errcheck // the client has gone, and knows it
}

// elsewhere is the pattern of what none of the API's own takes.
const elsewhere = "/api/"

// serveElsewhere answers a path below /api that there is none of, or a method that a path does not have, in the form of
// all errors; without it, the latter would be answered by the multiplexer, in plain text.
func serveElsewhere(w http.ResponseWriter, r *http.Request, mux *http.ServeMux, log *slog.Logger) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != elsewhere {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s has no method %s, but %s; /api/v1/openapi.yaml describes all paths",
			r.URL.Path, r.Method, strings.Join(allowed, ", ")), log)
		return
	}
	writeError(w, http.StatusNotFound, fmt.Errorf("there is no %s; /api/v1/openapi.yaml describes all paths", r.URL.Path), log)
}
