package web_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// waiting is a web.Source whose target waits until somebody asks for a probe.
type waiting struct {
	probed

	asked *[]string
}

func (w waiting) Probe(target string) error {
	switch target {
	case "irc_rpc":
		*w.asked = append(*w.asked, target)
		return nil
	case "irc_tls":
		return fmt.Errorf("%w: the server limits this address; try again in 8m0s", poll.ErrTooSoon)
	}
	return fmt.Errorf("%w %q: /debug/targets/ lists all targets", poll.ErrTargetUnknown, target)
}

func (waiting) Maintenance() []maintenance.Entry { return nil }

func newWaiting(lifecycle bool) (*[]string, http.Handler) {
	w := waiting{failing(), new([]string)}
	return w.asked, web.New(w,
		web.Options{Lifecycle: lifecycle, Users: func() []string { return []string{"alice"} }, Log: slog.New(slog.DiscardHandler)})
}

func TestProbeIsRequestedOverTheAPI(t *testing.T) {
	asked, h := newWaiting(true)
	for _, c := range []struct {
		target string
		status int
		want   string
	}{
		{"irc_rpc", http.StatusAccepted, `"target": "irc_rpc"`},
		{"irc_tls", http.StatusTooManyRequests, "try again in 8m0s"},
		{"nobody", http.StatusNotFound, "/debug/targets/ lists all targets"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/targets/"+c.target+"/probe", http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: status %d, %s", c.target, w.Code, w.Body)
		}
	}
	if len(*asked) != 1 {
		t.Errorf("probed: %q", *asked)
	}
}

// submit sends the form of a target's page as alice.
func submit(t *testing.T, h http.Handler, user, target, token, origin string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://exporter.example/debug/targets/"+target,
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if user != "" {
		r.SetBasicAuth(user, "checked by the listener")
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestProbeIsRequestedOnThePageOfATarget(t *testing.T) {
	asked, h := newWaiting(true)
	page := func(user string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://exporter.example/debug/targets/irc_rpc", http.NoBody)
		r.Header.Set("Accept", "text/html")
		if user != "" {
			r.SetBasicAuth(user, "checked by the listener")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	form := page("alice")
	holds(t, form.Body.String(), "<button>Probe now</button>")
	if policy := form.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") ||
		form.Header().Get("Referrer-Policy") != "same-origin" {
		t.Errorf("headers %v", form.Header())
	}
	stranger := page("")
	if strings.Contains(stranger.Body.String(), "<button>") ||
		!strings.Contains(stranger.Header().Get("Content-Security-Policy"), "form-action 'none'") {
		t.Error("a reader without a password gets the form")
	}
	token := tokenOf(t, h)
	for name, c := range map[string]struct {
		user, target, token, origin string
		status                      int
	}{
		"without a password": {target: "irc_rpc", token: token, status: http.StatusForbidden},
		"of another user": {
			user:   "bob",
			target: "irc_rpc",
			token:  token,
			status: http.StatusForbidden,
		},
		"without the token": {user: "alice", target: "irc_rpc", status: http.StatusForbidden},
		"from another site": {
			user:   "alice",
			target: "irc_rpc",
			token:  token,
			origin: "https://evil.example",
			status: http.StatusForbidden,
		},
		"too soon": {
			user:   "alice",
			target: "irc_tls",
			token:  token,
			status: http.StatusTooManyRequests,
		},
		"of no target": {
			user:   "alice",
			target: "nobody",
			token:  token,
			status: http.StatusNotFound,
		},
		"from its own origin": {
			user:   "alice",
			target: "irc_rpc",
			token:  token,
			origin: "http://exporter.example",
			status: http.StatusSeeOther,
		},
	} {
		w := submit(t, h, c.user, c.target, c.token, c.origin)
		if w.Code != c.status {
			t.Errorf("a form %s: status %d, want %d: %s", name, w.Code, c.status, w.Body)
		}
		if w.Code == http.StatusSeeOther && w.Header().Get("Location") != "irc_rpc" {
			t.Errorf("it leads to %q", w.Header().Get("Location"))
		}
	}
	if len(*asked) != 1 {
		t.Errorf("probed: %q", *asked)
	}
	_, locked := newWaiting(false)
	if w := submit(t, locked, "alice", "irc_rpc", token, ""); w.Code != http.StatusForbidden {
		t.Errorf("without --web.enable-lifecycle: status %d", w.Code)
	}
}
