package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestGuardLooksAtWhatIsSent(t *testing.T) {
	good := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/containers/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	for _, tt := range []struct {
		name   string
		adjust func(*http.Request)
	}{
		{"opaque", func(r *http.Request) { r.URL.Opaque = "//engine/images/json" }},
		{"raw path", func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/containers/a/json", "/containers/a%2Fjson" }},
		{"path with a query in it", func(r *http.Request) { r.URL.Path = "/images/json?/containers/json" }},
		{"body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("{}")) }},
		{"upgrade", func(r *http.Request) { r.Header.Set("Upgrade", "tcp") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := good()
			tt.adjust(req)
			guard := guard{next: roundTrip(func(*http.Request) (*http.Response, error) {
				t.Error("the call was sent")
				return nil, errors.New("sent")
			})}
			resp, err := guard.RoundTrip(req)
			if err == nil {
				resp.Body.Close() //nolint:errcheck // it is empty
				t.Error("let through")
			}
		})
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

func TestGuardClosesTheBodyOfWhatItRefuses(t *testing.T) {
	body := &closeCounter{Reader: strings.NewReader("{}")}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/containers/x/restart", body)
	req.Body = body
	if _, err := (guard{}).RoundTrip(req); err == nil { //nolint:bodyclose // there is none
		t.Fatal("let through")
	}
	if body.closed != 1 {
		t.Errorf("closed %d times, want once", body.closed)
	}
}

// TestGuardHoldsForRedirects has an engine lead a client from a path that is let through to one that is not.
func TestGuardHoldsForRedirects(t *testing.T) {
	var reached []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.URL.Path)
		http.Redirect(w, r, "/images/json", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: guard{next: server.Client().Transport}}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close() //nolint:errcheck // nobody reads it
		t.Error("a redirect to a refused path was followed")
	}
	if want := []string{"/events"}; !slices.Equal(reached, want) {
		t.Errorf("paths that were reached: %q, want %q", reached, want)
	}
}
