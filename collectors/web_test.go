package collectors

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func webProbe(t *testing.T, url string, change func(*Web)) Collector {
	t.Helper()
	s := newWebSettings()
	s.Name, s.URL = "web_panel", url
	if change != nil {
		change(s)
	}
	return newProbe(t, newWeb, s)
}

// htmlPage answers with a status and a body.
func htmlPage(t *testing.T, status int, body string) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // a test's server
	})
}

func TestWebStatusAndBody(t *testing.T) {
	expect := func(status ...string) func(*Web) { return func(s *Web) { s.ExpectStatus = status } }
	body := func(expect, refuse string) func(*Web) {
		return func(s *Web) { s.ExpectBody, s.RefuseBody = expect, refuse }
	}
	for name, c := range map[string]struct {
		change func(*Web)
		status int
		body   string
		want   failure.Reason // "" is up
		hint   string
	}{
		"page":                  {nil, 200, "<html>", "", ""},
		"no content":            {nil, 204, "", "", ""},
		"login":                 {nil, 401, "", failure.Unauthorized, "expect_status"},
		"login expected":        {expect("2xx", "401"), 401, "", "", ""},
		"forbidden":             {nil, 403, "", failure.Forbidden, "user and password"},
		"missing":               {nil, 404, "", failure.NotFound, ""},
		"error":                 {nil, 502, "", failure.HTTPStatus, ""},
		"class expected":        {expect("5xx"), 503, "", "", ""},
		"other class":           {expect("5xx"), 200, "", failure.HTTPStatus, ""},
		"exactly":               {expect("204"), 200, "", failure.HTTPStatus, ""},
		"body matches":          {body("(?i)welcome", ""), 200, "<p>Welcome, alice", "", ""},
		"body does not":         {body("(?i)welcome", ""), 200, "<p>alice", failure.Mismatch, "expect_body"},
		"no body":               {body("(?i)welcome", ""), 200, "", failure.Mismatch, "expect_body"},
		"body refused":          {body("", "database error"), 200, "alice: database error", failure.Mismatch, "refuse_body"},
		"body not refused":      {body("", "database error"), 200, "alice", "", ""},
		"status before body":    {body("alice", "alice"), 500, "alice", failure.HTTPStatus, ""},
		"both, one is not so":   {body("alice", "error"), 200, "alice error", failure.Mismatch, "refuse_body"},
		"body over the limit":   {nil, 200, strings.Repeat("x", 2<<20), failure.TooLarge, "limits.body"},
		"redirect without goal": {nil, 302, "", failure.HTTPStatus, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(t, webProbe(t, htmlPage(t, c.status, c.body), c.change), 10*time.Second)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.want)
			if !strings.Contains(failure.HintOf(err), c.hint) {
				t.Errorf("hint: got %q, want %q in it", failure.HintOf(err), c.hint)
			}
			if err != nil && strings.Contains(err.Error(), "alice") {
				t.Errorf("the body stands in %q", err)
			}
			goldenFailure(t, "web/"+strings.NewReplacer(" ", "_", ",", "").Replace(name), b, err)
		})
	}
}

func TestWebRedirects(t *testing.T) {
	elsewhere := "HTTP/1.1 302 Found\r\nLocation: http://sso.invalid/?user=alice\r\nContent-Length: 0\r\n\r\n"
	endless := "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	redirects := func(s *Web) { s.ExpectStatus = []string{"2xx", "3xx"} }
	head := func(s *Web) { redirects(s); s.Method = http.MethodHead }
	for name, c := range map[string]struct {
		answer string
		change func(*Web)
		want   failure.Reason // "" is up
	}{
		"elsewhere":                     {elsewhere, nil, failure.HTTPStatus},
		"elsewhere, expected":           {elsewhere, redirects, ""},
		"elsewhere, expected by head":   {elsewhere, head, ""},
		"elsewhere, body expected":      {elsewhere, func(s *Web) { redirects(s); s.ExpectBody = "x" }, failure.HTTPStatus},
		"endless":                       {endless, nil, failure.HTTPStatus},
		"endless, but status expected":  {endless, redirects, failure.HTTPStatus},
		"head follows none, not wanted": {endless, func(s *Web) { s.Method = http.MethodHead }, failure.HTTPStatus},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(t, webProbe(t, "http://"+exchangetest.RawServer(t, "tcp", exchangetest.Say(c.answer))+"/", c.change), 10*time.Second)
			if b.HTTPStatus != http.StatusFound {
				t.Errorf("status: got %d, want 302", b.HTTPStatus)
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), "alice") {
				t.Errorf("the redirect's goal stands in %q", err)
			}
		})
	}
	t.Run("same host", func(t *testing.T) {
		url := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			io.WriteString(w, "please log in") //nolint:errcheck // a test's server
		})
		if _, err := read(t, webProbe(t, url+"/", func(s *Web) { s.ExpectBody = "log in" }), 10*time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestWebSendsWhatItIsGiven(t *testing.T) {
	var got *http.Request
	url := answering(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	s := func(s *Web) {
		s.Method = http.MethodHead
		s.Headers = map[string]config.Secret{"x-api-key": config.NewSecret("sesame"), "host": config.NewSecret("panel.test")}
		s.User, s.Password = "alice", config.NewSecret("open")
	}
	b := readUp(t, webProbe(t, url+"/panel?key=sesame", s))
	user, password, _ := got.BasicAuth()
	if got.Method != http.MethodHead || got.Host != "panel.test" || got.Header.Get("X-Api-Key") != "sesame" || user != "alice" || password != "open" || got.URL.RawQuery != "key=sesame" {
		t.Errorf("got %s %s of %s with %v", got.Method, got.URL, got.Host, got.Header)
	}
	if e := b.Exchanges[0]; e.Request != "HEAD "+url+"/panel" {
		t.Errorf("shown as %q", e.Request)
	}
	readUp(t, webProbe(t, url, func(w *Web) { s(w); w.Token = config.NewSecret("bear") }))
	if a := got.Header.Get("Authorization"); a != "Bearer bear" {
		t.Errorf("with a token too: got %q, want it alone", a)
	}
}
