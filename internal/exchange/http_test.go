package exchange

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestBodyMayBeAsLongAsTheLimit(t *testing.T) {
	if got, err := readLimited(strings.NewReader("12345"), 5); err != nil || string(got) != "12345" {
		t.Errorf("5 of 5 bytes: got %q, error %v", got, err)
	}
	_, err := readLimited(strings.NewReader("12345"), 4)
	wantReason(t, err, failure.TooLarge)
}

func TestPrintableURLHidesWhatMayBeSecret(t *testing.T) {
	for raw, want := range map[string]string{
		"http://user:pass@host:1/path?token=1#x": "http://host:1/path",
		"http://host/":                           "http://host/",
		"http://bad host":                        "<no URL>",
		"http://user@müller.test:1/":             "http://xn--mller-kva.test:1/",
		"http://[::1]:1/":                        "http://[::1]:1/",
	} {
		if got := PrintableURL(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// TestRedirectKeepsSchemeAndHost has redirects after which a token would go to another server, or in plain text, and other spellings of
// the same server, where net/http alone would leave the token out.
func TestRedirectKeepsSchemeAndHost(t *testing.T) {
	request := func(url string) *http.Request {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for to, follows := range map[string]bool{
		"https://chat.test/other": true, "http://chat.test/": false, "https://chat.test:8443/": false, "https://other.test/": false,
		"https://chat.test:443/": true, "https://Chat.TEST/": true, "HTTPS://chat.test./": true, "http://chat.test:443/": false,
		"https://named.test/": true, "https://Named.test:443/": true, "https://named.test:8443/": false,
		"https://chat.test.evil.test/": false,
	} {
		first, next := request("https://chat.test/"), request(to)
		first.Host = "named.test"
		first.Header.Set("Authorization", "Bearer sesame")
		err := followOnServer(next, []*http.Request{first})
		if follows != (err == nil) || !follows && !errors.Is(err, ErrRedirect) {
			t.Errorf("to %s: got %v, want followed %t", to, err, follows)
		}
		if sent := next.Header.Get("Authorization"); (sent != "") != follows {
			t.Errorf("to %s: sends the credential %q, want that it does: %t", to, sent, follows)
		}
		if follows && (next.URL.Host != "chat.test" || next.Host != "named.test") {
			t.Errorf("to %s: asks %s for %s, want the same as before", to, next.URL.Host, next.Host)
		}
	}
}

// visit makes the requests of one probe, one after the other.
func visit(t *testing.T, h *HTTP, paths ...string) (r *Record, last error) {
	t.Helper()
	r = &Record{}
	for _, path := range paths {
		_, last = h.Do(t.Context(), r, http.MethodGet, h.Settings.URL+path, http.Header{"Authorization": {"Bearer sesame"}}, nil)
	}
	return r, last
}

// TestFirstVisitIsABrowsers has a page that redirects to itself until its cookie comes back, and a session over two requests.
func TestFirstVisitIsABrowsers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Cookie("seen")
		switch {
		case r.Header.Get("Authorization") != "Bearer sesame":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/without" && err == nil:
			w.WriteHeader(http.StatusTeapot)
		case r.URL.Path == "/circle" || r.URL.Path == "/page" && err != nil:
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			// The spelling differs, as behind a proxy that writes the port, or has another name of itself.
			http.Redirect(w, r, "http://LOCALHOST:"+r.Host[strings.LastIndex(r.Host, ":")+1:]+r.URL.Path, http.StatusFound)
		case r.URL.Path == "/page":
			w.WriteHeader(http.StatusOK)
		}
	}))
	defer server.Close()
	h := &HTTP{Settings: config.HTTP{URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}, Limit: 1000}
	for _, tt := range []struct {
		name   string
		paths  []string
		status int
	}{
		{"a redirect to itself with a cookie", []string{"/page"}, http.StatusOK},
		{"a cookie of the request before", []string{"/page", "/without"}, http.StatusTeapot},
		{"no cookie of another probe", []string{"/without"}, http.StatusOK},
	} {
		if r, err := visit(t, h, tt.paths...); err != nil || r.HTTPStatus != tt.status {
			t.Errorf("%s: status %d, error %v, want %d", tt.name, r.HTTPStatus, err, tt.status)
		}
	}
	if _, err := visit(t, h, "/circle"); !strings.Contains(failure.HintOf(err), "in a circle") {
		t.Errorf("a circle: got %v, hint %q", err, failure.HintOf(err))
	}
}

// TestChallengeIsNotTheService: a front that asks for a browser says nothing about the service or a login.
func TestChallengeIsNotTheService(t *testing.T) {
	for _, tt := range []struct {
		field, value string
		status       int
		want         bool
	}{
		{
			"Cf-Mitigated",
			"challenge",
			http.StatusForbidden,
			true,
		},
		{
			"Cf-Mitigated",
			"challenge",
			http.StatusServiceUnavailable,
			true,
		},
		{
			"X-Amzn-Waf-Action",
			"challenge",
			http.StatusAccepted,
			true,
		},
		{
			"X-Amzn-Waf-Action",
			"captcha",
			http.StatusMethodNotAllowed,
			true,
		},
		{
			"Server",
			"cloudflare",
			http.StatusForbidden,
			false,
		}, // the service's own answer
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(tt.field, tt.value)
			w.WriteHeader(tt.status)
		}))
		h := &HTTP{Settings: config.HTTP{URL: server.URL}, Limit: 1000}
		r, err := visit(t, h, "/")
		server.Close()
		if errors.Is(err, ErrChallenge) != tt.want || r.HTTPStatus != tt.status {
			t.Errorf("%s: %s with status %d: got %v and status %d, want a challenge: %t",
				tt.field, tt.value, tt.status, err, r.HTTPStatus, tt.want)
		}
	}
}
