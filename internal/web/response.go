package web

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// pageHeader sets the headers of a page for people. The content type is HTML unless set before, and a page with forms has set its policy.
func pageHeader(h http.Header) {
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", htmlType)
	}
	if h.Get("Content-Security-Policy") == "" {
		site.Protect(h)
	}
	h.Set("Cache-Control", "no-store")
}

const htmlType = "text/html; charset=utf-8"

// page is a text or HTML template.
type page interface {
	Execute(w io.Writer, data any) error
	Name() string
}

// render writes a page that is not cached. If the template fails, it writes only an error.
func render(w http.ResponseWriter, page page, data any, log *slog.Logger) {
	renderWith(w, http.StatusOK, page, data, log)
}

// renderWith is render with a status.
func renderWith(w http.ResponseWriter, code int, page page, data any, log *slog.Logger) {
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		log.Error("page does not render", "page", page.Name(), "err", err)
		http.Error(w, "the page does not render: see the exporter's log", http.StatusInternalServerError)
		return
	}
	pageHeader(w.Header())
	w.WriteHeader(code)
	w.Write(b.Bytes()) //nolint:errcheck // the browser is gone
}

// redirect leads to a path that is relative, like all links: a proxy may add a path.
func redirect(w http.ResponseWriter, code int, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(code)
}

// errorAnswer is the body of an error.
type errorAnswer struct {
	Schema status.Schema `json:"schema"`
	Error  string        `json:"error"`
}

func writeError(w http.ResponseWriter, code int, err error, log *slog.Logger) {
	writeJSON(w, code, errorAnswer{Error: err.Error()}, log)
}

func writeJSON(w http.ResponseWriter, status int, value any, log *slog.Logger) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		log.Error("response cannot be encoded as JSON", "err", err)
		http.Error(w, "the response cannot be encoded as JSON: see the exporter's log", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client is gone
}

// orEmpty makes a nil list an empty list in JSON.
func orEmpty(list []string) []string { return append([]string{}, list...) }
