package web

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
)

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// pageHeader is what every page for people is sent with; it is HTML unless its type is set.
func pageHeader(h http.Header) {
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/html; charset=utf-8")
	}
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// page is a template of text or of HTML.
type page interface {
	Execute(w io.Writer, data any) error
	Name() string
}

// render writes a page for people that is not kept, or none at all.
func render(w http.ResponseWriter, page page, data any, log *slog.Logger) {
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		log.Error("page does not render", "page", page.Name(), "err", err)
		http.Error(w, "the page does not render; the log says why", http.StatusInternalServerError)
		return
	}
	pageHeader(w.Header())
	w.Write(b.Bytes()) //nolint:errcheck // the browser has gone, and knows it
}

func writeError(w http.ResponseWriter, status int, err error, log *slog.Logger) {
	writeJSON(w, status, map[string]string{"error": err.Error()}, log)
}

func writeJSON(w http.ResponseWriter, status int, value any, log *slog.Logger) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		log.Error("answer is no JSON", "err", err)
		http.Error(w, "the answer is not JSON; the log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client has gone, and knows it
}

// atLeastEmpty makes JSON of nothing an empty list.
func atLeastEmpty(list []string) []string { return append([]string{}, list...) }
