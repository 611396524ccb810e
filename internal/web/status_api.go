package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

//go:embed openapi.yaml
var openAPI []byte

// reportCache keeps what is made from a report. What is made from a newer one serves too.
func reportCache[V any]() *site.Cache[*status.Report, V] {
	return &site.Cache[*status.Report, V]{Serves: func(made, asked *status.Report) bool { return made.Revision > asked.Revision }}
}

// reporter has the current report.
type reporter interface {
	// Report returns the current report. Equal pointers mean equal reports.
	Report() *status.Report
}

// historian has the histories of numbers.
type historian interface {
	// Chart returns a number's history of the last day, or false for an unknown name.
	Chart(name string) (status.History, bool)
}

// serveReport responds with the current report as JSON.
func serveReport(
	w http.ResponseWriter, r *http.Request, src reporter, reports *site.Cache[*status.Report, *site.Document], log *slog.Logger,
) {
	report := src.Report()
	d, err := reports.Get(report.Made, report, func() (*site.Document, error) { return newJSON(report) })
	if err != nil {
		log.Error("report cannot be encoded as JSON", "err", err)
		http.Error(w, "the report cannot be encoded as JSON: see the exporter's log", http.StatusInternalServerError)
		return
	}
	d.Serve(w, r, "private, no-cache")
}

// newJSON returns a value as a document of one line, which is smaller than writeJSON's.
func newJSON(value any) (*site.Document, error) {
	body, err := json.Marshal(value)
	return site.NewDocument("application/json", append(body, '\n')), err
}

// serveHistory responds with a number's history of the last day.
func serveHistory(w http.ResponseWriter, r *http.Request, src historian, log *slog.Logger) {
	name := r.PathValue("name")
	h, ok := src.Chart(name)
	if !ok {
		writeError(w, http.StatusNotFound, fmt.Errorf("unknown history %q: /api/v1/status lists all names as charts", name), log)
		return
	}
	writeJSON(w, http.StatusOK, h, log)
}

// serveOpenAPI responds with the description of everything below /api and /badge.
func serveOpenAPI(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(openAPI) //nolint:errcheck // the client is gone
}

// unknownPaths is the pattern that catches what no other pattern of the API matches.
const unknownPaths = "/api/"

// serveUnknown responds to an unknown path or method below /api with a JSON error. The multiplexer would respond to an unknown
// method in plain text.
func serveUnknown(w http.ResponseWriter, r *http.Request, mux *http.ServeMux, log *slog.Logger) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != unknownPaths {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s does not support %s, only %s: /api/v1/openapi.yaml describes all paths",
			r.URL.Path, r.Method, strings.Join(allowed, ", ")), log)
		return
	}
	writeError(w, http.StatusNotFound, fmt.Errorf("unknown path %s: /api/v1/openapi.yaml describes all paths", r.URL.Path), log)
}
