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
	sent := guard{next: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent") })}
	for name, adjust := range map[string]func(*http.Request){
		"opaque":                    func(r *http.Request) { r.URL.Opaque = "//engine/images/json" },
		"raw path":                  func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/containers/a/json", "/containers/a%2Fjson" },
		"path with a query in it":   func(r *http.Request) { r.URL.Path = "/images/json?/containers/json" },
		"body":                      func(r *http.Request) { r.Body = &closeCounter{Reader: strings.NewReader("{}")} },
		"upgrade":                   func(r *http.Request) { r.Header.Set("Upgrade", "tcp") },
		"nothing that is forbidden": func(*http.Request) {},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/containers/json", http.NoBody)
		adjust(req)
		_, err := sent.RoundTrip(req) //nolint:bodyclose // there is none
		if allowed := strings.HasPrefix(name, "nothing"); (err.Error() == "sent") != allowed {
			t.Errorf("%s: got %v, want it sent: %t", name, err, allowed)
		}
		if body, ok := req.Body.(*closeCounter); ok && body.closed != 1 {
			t.Errorf("%s: closed %d times, want once", name, body.closed)
		}
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

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
