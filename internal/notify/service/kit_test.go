package service

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// seen is a request that a stand-in got.
type seen struct {
	Method, Host, Path, Query string
	Header                    http.Header
	Body                      string
}

// json returns the body as JSON.
func (s *seen) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s.Body), &m); err != nil {
		t.Fatalf("the body %q is not JSON: %v", s.Body, err)
	}
	return m
}

// standIn is a server for all hosts of the vendors, with a certificate of an authority of its own.
type standIn struct {
	options Options
	// answer replaces the answer to requests, if it is not nil.
	answer http.HandlerFunc

	mu   sync.Mutex
	seen []seen
}

// names are the hosts of the URLs in these tests.
var names = []string{
	"ntfy.sh", "api.telegram.org", "hook.example.org", "discord.com", "slack.com", "hooks.slack.com", "matrix.example.org",
	"gotify.example.org", "api.pushover.net", "mail.example.org",
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{}
	server := httptest.NewUnstartedServer(s)
	authority := exchangetest.Certificate{Name: "authority", Authority: true}.Make(t)
	leaf := exchangetest.Certificate{By: authority, Name: "server", Names: names}.Make(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{exchangetest.Chain(leaf)}} //nolint:gosec // a test's server
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	s.options = Options{
		CAFile: exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), authority),
		dial:   dialTo(server.Listener.Addr().String()),
	}
	return s
}

// dialTo connects to one address instead of all others.
func dialTo(address string) dialFunc {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, seen{
		r.Method,
		r.Host,
		r.URL.EscapedPath(),
		r.URL.RawQuery,
		r.Header,
		string(body),
	})
	answer := s.answer
	s.mu.Unlock()
	if answer == nil {
		answer = accept
	}
	answer(w, r)
}

// accept answers as each service does.
func accept(w http.ResponseWriter, r *http.Request) {
	answer := `{}`
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/sendMessage"):
		answer = `{"ok":true,"result":{"message_id":42}}`
	case strings.HasSuffix(path, "/chat.postMessage"):
		answer = `{"ok":true,"ts":"1700000000.000100"}`
	case strings.HasSuffix(path, "/v3/login"):
		answer = `{"access_token":"syt_of_the_login"}`
	case strings.Contains(path, "/v3/join/"):
		answer = `{"room_id":"!room:example.org"}`
	case strings.Contains(path, "/m.room.message/"):
		answer = `{"event_id":"$event"}`
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer) //nolint:errcheck,gosec // the client may be gone
}

// requests returns what came since the last call.
func (s *standIn) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.seen
	s.seen = nil
	return got
}

// respond changes the answer.
func (s *standIn) respond(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

// status answers with a status, headers (name, value, ...) and a body.
func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body) //nolint:errcheck,gosec // the client may be gone
	}
}

// services are a URL of each service over HTTP, with the secrets in it.
var services = []struct {
	name, url string
	secrets   []string
}{
	{"ntfy", "ntfy://phil:s3sam-open@ntfy.sh/secret-topic", []string{"s3sam-open", "secret-topic", "cGhpbDpzM3NhbS1vcGVu"}},
	{"telegram", "telegram://123456:AAF-s3sam_open@telegram?chats=@ops", []string{"AAF-s3sam_open", "123456"}},
	{
		"generic",
		"generic://user:s3sam-open@hook.example.org/T0PSECRET/in?key=Qu3rySecret&@X-Token=H3aderSecret",
		[]string{"s3sam-open", "T0PSECRET", "Qu3rySecret", "H3aderSecret"},
	},
	{"discord", "discord://s3sam_open-token@123456789", []string{"s3sam_open-token"}},
	{"slack", "slack://hook:T12345678-B12345678-s3samopens3samopens3samop@webhook", []string{"s3samopens3samopens3samop", "B12345678"}},
	{
		"slack",
		"slack://xoxb:123456789012-1234567890123-s3samopens3samopens3samop@C123",
		[]string{"s3samopens3samopens3samop", "1234567890123"},
	},
	{"matrix", "matrix://:syt_s3sam_open@matrix.example.org/?rooms=!room:example.org", []string{"syt_s3sam_open"}},
	{"matrix", "matrix://bot:s3sam-open@matrix.example.org/?rooms=!room:example.org", []string{"s3sam-open", "syt_of_the_login"}},
	{"gotify", "gotify://gotify.example.org/sub/As3samopenToken", []string{"As3samopenToken"}},
	{"pushover", "pushover://shoutrrr:as3samopentoken@us3samuserkey", []string{"as3samopentoken", "us3samuserkey"}},
}

// message is a whole message.
func message() *Message {
	return &Message{
		Title:  "[CRITICAL] XMPP server is down",
		Text:   "Users cannot log in.\nCause: *xmpp_status* <refused> & more.",
		Link:   "https://status.example.org/incidents#7_a",
		Level:  LevelCritical,
		Thread: "cause7",
		ID:     "id1",
	}
}

// open parses a URL.
func open(t *testing.T, url string, o Options) Receiver {
	t.Helper()
	r, err := Parse(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// soon is a context for a test that expects an answer.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wantFailure checks an error: its reason, that it says what to do, and that it shows no secret and no URL.
func wantFailure(t *testing.T, err error, want failure.Reason, secrets []string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want)
	}
	if got := failure.ReasonOf(err); got != want {
		t.Errorf("reason %s, want %s: %v", got, want, err)
	}
	if !failure.HasHint(err) {
		t.Errorf("no hint: %v", err)
	}
	text := err.Error() + "\n" + failure.HintOf(err)
	wantNoSecret(t, text, secrets)
	if strings.Contains(text, "://") && !strings.Contains(text, "generic+https://") {
		t.Errorf("the error shows a URL: %s", text)
	}
}

func wantNoSecret(t *testing.T, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		for _, form := range []string{secret, strings.ToLower(secret), url.QueryEscape(secret), url.PathEscape(secret)} {
			if strings.Contains(text, form) {
				t.Errorf("shows the secret %q: %s", form, text)
			}
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
