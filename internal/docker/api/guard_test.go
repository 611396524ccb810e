package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
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

// TestRecordIsOfTheLastTry tries a call again, as the client does with a ping, once it has failed.
func TestRecordIsOfTheLastTry(t *testing.T) {
	failure := errors.New("the engine hung up")
	c := &call{}
	rec := recorder{limit: 1, next: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			return nil, failure
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
	})}
	ctx := context.WithValue(t.Context(), callKey{}, c)
	if _, err := rec.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodHead, "/_ping", http.NoBody)); err == nil || !errors.Is(c.err, failure) { //nolint:bodyclose // there is none
		t.Fatalf("got error %v, recorded %v, want %v", err, c.err, failure)
	}
	resp, err := rec.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/_ping", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is empty
	if c.err != nil || c.Status != http.StatusOK {
		t.Errorf("recorded status %d and error %v, want 200 and none", c.Status, c.err)
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

// TestFailedHeadIsNoLongerInUse has the transport keep the request, as it does until its connection has ended.
func TestFailedHeadIsNoLongerInUse(t *testing.T) {
	var kept *http.Request
	rec := recorder{next: roundTrip(func(r *http.Request) (*http.Response, error) {
		kept = r
		return nil, errors.New("the engine hung up")
	})}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/_ping", http.NoBody)
	if _, err := rec.RoundTrip(req); err == nil { //nolint:bodyclose // there is none
		t.Fatal("no error")
	}
	req.Method = http.MethodGet // as the client does
	if kept.Method != http.MethodHead {
		t.Error("the request that was sent has changed")
	}
}

// TestDecodedAnswerIsReadToItsEnd has an answer whose end comes after it, as that of an engine's list does: a connection of
// which it was not read is lost.
func TestDecodedAnswerIsReadToItsEnd(t *testing.T) {
	content := strings.NewReader(`[{"Id":"1"}]` + "\n")
	var list []struct{ ID string }
	rec := recorder{limit: 1 << 20, next: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(iotest.OneByteReader(content))}, nil
	})}
	ctx := context.WithValue(t.Context(), callKey{}, &call{decode: func(r io.Reader) error { return json.NewDecoder(r).Decode(&list) }})
	resp, err := rec.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/containers/json", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	instead, err := io.ReadAll(resp.Body)
	if err != nil || string(instead) != "null" || len(list) != 1 || list[0].ID != "1" {
		t.Fatalf("got %v, then %q, %v", list, instead, err)
	}
	if content.Len() > 0 {
		t.Errorf("%d bytes were not read", content.Len())
	}
}
