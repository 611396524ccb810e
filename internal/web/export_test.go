package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"
)

// NewAt is New with a fixed time for the status page.
func NewAt(src Source, o Options, now time.Time) http.Handler {
	look := newAssets()
	page := newPages(src, look, o)
	page.now = func() time.Time { return now }
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /", New(src, o))
	return mux
}

// RenderMarkdown exports renderMarkdown to tests.
func RenderMarkdown(text string, link func(string) string) string {
	return string(renderMarkdown(text, link))
}

// RenderPage renders the status page without any cache.
func RenderPage(src Source, o Options) (int, error) {
	d, err := newPages(src, newAssets(), o).page()
	if err != nil {
		return 0, err
	}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	d.Serve(w, r, "")
	return w.Body.Len(), nil
}
