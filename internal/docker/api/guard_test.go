package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// refusedCalls are calls that change an engine, read more than this exporter has a use for, or try to look like one
// that it makes.
var refusedCalls = []struct{ method, url string }{
	{"POST", "/containers/x/restart"},
	{"POST", "/v1.41/containers/x/restart"},
	{"POST", "/containers/x/json"},
	{"POST", "/containers/create"},
	{"POST", "/_ping"},
	{"PUT", "/containers/x/archive"},
	{"DELETE", "/containers/x"},
	{"PATCH", "/containers/x/json"},
	{"OPTIONS", "/containers/json"},
	{"CONNECT", "/containers/json"},
	{"TRACE", "/events"},
	{"GET", "/version"},
	{"GET", "/v1.51/info"},
	{"HEAD", "/containers/json"},
	{"HEAD", "/containers/x/archive"},
	{"HEAD", "/v1.41/_ping"},
	{"get", "/containers/json"},
	{"GET", ""},
	{"GET", "/"},
	{"GET", "/v1.41"},
	{"GET", "/images/json"},
	{"GET", "/v1.41/images/json"},
	{"GET", "/containers/x/archive"},
	{"GET", "/containers/x/export"},
	{"GET", "/containers/x/top"},
	{"GET", "/containers/x/changes"},
	{"GET", "/containers/x/attach/ws"},
	{"GET", "/containers/x"},
	{"GET", "/exec/x/json"},
	{"GET", "/secrets"},
	{"GET", "/swarm"},
	{"GET", "/system/df"},
	{"GET", "/containers/../images/json"},
	{"GET", "/containers/./json"},
	{"GET", "/containers/../json"},
	{"GET", "/v1.41/../images/json"},
	{"GET", "/v1.41/containers/../../images/json"},
	{"GET", "/v1.41/v1.41/containers/json"},
	{"GET", "/v2.0/containers/json"},
	{"GET", "/v1.41x/containers/json"},
	{"GET", "/v1./containers/json"},
	{"GET", "//containers/json"},
	{"GET", "/containers//json"},
	{"GET", "/containers/x//json"},
	{"GET", "/containers/x/json/"},
	{"GET", "/containers/x/json/../archive"},
	{"GET", "/containers/x%2Fjson"},
	{"GET", "/containers/x%2F..%2Fy/json"},
	{"GET", "/containers/%2e%2e/json"},
	{"GET", "/containers/x%00/json"},
	{"GET", "/containers/x%0d%0aPOST/json"},
	{"GET", "/containers/x/json%0a"},
	{"GET", "/containers/x/json;archive"},
	{"GET", "/containers/x/json%3Fy"},
	{"GET", "/Containers/json"},
	{"GET", "/containers/-x/json"},
	{"GET", "/containers/x y/json"},
	{"GET", "/containers/ü/json"},
}

var allowedCalls = []struct{ method, url string }{
	{"HEAD", "/_ping"},
	{"", "/_ping"},
	{"GET", "/_ping"},
	{"GET", "/v1.41/_ping"},
	{"GET", "/events?since=1"},
	{"GET", "/containers/json?all=1"},
	{"GET", "/v1.41/containers/json"},
	{"GET", "/v1.41/containers/0964525b476d/json"},
	{"GET", "/v1.41/containers/chat_xmpp-1.a/json"},
	{"GET", "/v1.41/containers/json/json"},
	{"GET", "/v1.41/containers/x/stats?stream=0"},
	{"GET", "/v1.41/containers/x/logs?stderr=1"},
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestGuardLetsNothingButReadingCallsPass(t *testing.T) {
	var sent int
	guard := guard{next: roundTrip(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}
	for _, tt := range refusedCalls {
		u, err := url.Parse("http://engine" + tt.url)
		if err != nil {
			t.Fatal(err)
		}
		req := &http.Request{Method: tt.method, URL: u, Header: http.Header{}}
		resp, err := guard.RoundTrip(req.WithContext(t.Context()))
		if err == nil {
			resp.Body.Close() //nolint:errcheck // it is empty
			t.Errorf("%s %s: let through", tt.method, tt.url)
			continue
		}
		if got := failure.ReasonOf(err); got != failure.Internal {
			t.Errorf("%s %s: reason: got %s, want %s", tt.method, tt.url, got, failure.Internal)
		}
		if !strings.Contains(err.Error(), tt.method) || !strings.Contains(err.Error(), u.RequestURI()) {
			t.Errorf("%s %s: error %q names no method or path", tt.method, tt.url, err)
		}
	}
	if sent != 0 {
		t.Errorf("calls that were sent: got %d, want none", sent)
	}
	for _, tt := range allowedCalls {
		u, err := url.Parse("http://engine" + tt.url)
		if err != nil {
			t.Fatal(err)
		}
		req := &http.Request{Method: tt.method, URL: u, Header: http.Header{}}
		resp, err := guard.RoundTrip(req.WithContext(t.Context()))
		if err != nil {
			t.Errorf("%s %s: got error %v, want it let through", tt.method, tt.url, err)
			continue
		}
		resp.Body.Close() //nolint:errcheck // it is empty
	}
	if sent != len(allowedCalls) {
		t.Errorf("calls that were sent: got %d, want %d", sent, len(allowedCalls))
	}
}

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

func TestGuardHoldsWhateverTheClient(t *testing.T) {
	var reached atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if r.URL.Path == "/events" {
			http.Redirect(w, r, "/images/json", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: guard{next: server.Client().Transport}}
	do := func(method, path string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close() //nolint:errcheck // nobody reads it
		}
		return err
	}
	for _, tt := range refusedCalls {
		if err := do(tt.method, tt.url); err == nil {
			t.Errorf("%s %s: let through", tt.method, tt.url)
		}
	}
	if got := reached.Load(); got != 0 {
		t.Errorf("calls that reached the engine: got %d, want none", got)
	}
	if err := do(http.MethodGet, "/containers/json"); err != nil {
		t.Errorf("a call that reads: %v", err)
	}
	if err := do(http.MethodGet, "/events"); err == nil {
		t.Error("a redirect to a refused path was followed")
	}
	if got := reached.Load(); got != 2 {
		t.Errorf("calls that reached the engine: got %d, want 2", got)
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
