package web_test

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// kept is a web.Source whose maintenance can be set and ended.
type kept struct {
	shown

	register *maintenance.Register
}

func (k kept) Maintenance() []maintenance.Entry { return k.register.List() }

func (k kept) SetMaintenance(kind, name, reason string, until time.Time) (maintenance.Entry, bool, []string, error) {
	set, replaced, err := k.register.Set(kind, name, reason, until)
	return set, replaced, []string{"an alert has already fired"}, err
}

func (k kept) EndMaintenance(kind, name string) ([]string, error) {
	return nil, k.register.End(kind, name)
}

// unsaved is a maintenance.Store that keeps nothing.
type unsaved struct{}

func (unsaved) Load(any) error { return nil }

func (unsaved) Save(any) error { return nil }

// newKept returns a source, and its pages as a listener serves them that has checked the passwords of users.
func newKept(t *testing.T, lifecycle bool, users ...string) (kept, http.Handler) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	register, err := maintenance.New(unsaved{}, log)
	must(t, err)
	register.Configure([]config.Maintenance{{
		Kind:  "target",
		Name:  "docker",
		From:  time.Now().Add(-time.Hour),
		Until: time.Now().Add(time.Hour),
	}})
	k := kept{shown{report: healthyReport()}, register}
	return k, web.New(k, web.Options{Lifecycle: lifecycle, Users: func() []string { return users }, Log: log})
}

// visit is a request to a page with forms, by default that of maintenance.
type visit struct {
	user, host string
	header     map[string]string
	form       url.Values // nil for a GET
	path       string
	query      string
}

func (v visit) send(t *testing.T, h http.Handler) reply {
	t.Helper()
	method := http.MethodGet
	if v.form != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://exporter.example"+cmp.Or(v.path, "/maintenance")+v.query,
		strings.NewReader(v.form.Encode()))
	if v.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.host != "" {
		r.Host = v.host
	}
	if v.user != "" {
		r.SetBasicAuth(v.user, "checked by the listener")
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

// tokenOf returns the token in the forms of alice.
func tokenOf(t *testing.T, h http.Handler) string {
	t.Helper()
	return tokenIn(t, visit{user: "alice"}.send(t, h).body)
}

func wish(token string, more ...string) url.Values {
	form := url.Values{"token": {token}, "subject": {"target/irc_rpc"}, "duration": {"2h"}, "reason": {"upgrade"}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// set lists what forms have set.
func (k kept) set() (names []string) {
	for _, e := range k.register.List() {
		if e.Source == maintenance.FromAPI {
			names = append(names, e.Kind+"/"+e.Name+" "+e.Reason)
		}
	}
	return names
}

func TestMaintenanceIsSetAndEndedOnThePage(t *testing.T) {
	k, h := newKept(t, true, "alice")
	form := visit{user: "alice", query: "?subject=target%2Firc_rpc"}.send(t, h)
	holds(t, string(form.body), `<option value="target/irc_rpc" selected>`,
		`<option value="container/chat-irc-1">`, "(set in exporter.yaml)")
	if policy := form.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") ||
		!strings.Contains(policy, "frame-ancestors 'none'") || form.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", form.Header)
	}
	token := tokenOf(t, h)
	answer := visit{user: "alice", form: wish(token), header: map[string]string{"Origin": "http://exporter.example"}}.send(t, h)
	location := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusSeeOther || !strings.HasPrefix(location, "maintenance?outcome=") || len(k.set()) != 1 ||
		k.set()[0] != "target/irc_rpc upgrade" {
		t.Fatalf("status %d to %q, set %q", answer.StatusCode, location, k.set())
	}
	for range 2 { // a reload shows it again
		page := visit{user: "alice", query: strings.TrimPrefix(location, "maintenance")}.send(t, h)
		holds(t, string(page.body), "The target irc_rpc is under maintenance until",
			"an alert has already fired", `<button name="end" value="target/irc_rpc">`)
	}
	if page := (visit{user: "alice", query: "?outcome=The+exporter+is+broken"}).send(t, h); strings.Contains(string(page.body), "broken") {
		t.Error("a link chooses the text of the page")
	}
	answer = visit{user: "alice", form: url.Values{"token": {token}, "end": {"target/irc_rpc"}}}.send(t, h)
	if answer.StatusCode != http.StatusSeeOther || len(k.set()) != 0 {
		t.Errorf("status %d, set %q", answer.StatusCode, k.set())
	}
	holds(t, string(visit{user: "alice", query: strings.TrimPrefix(answer.Header.Get("Location"), "maintenance")}.send(t, h).body),
		"Maintenance of the target irc_rpc has ended.")
	if strings.Contains(string(visit{user: "alice"}.send(t, h).body), `value="target/docker">End now`) {
		t.Error("what exporter.yaml sets has a button to end it")
	}
}

// TestMaintenancePageRefuses everything but a form of its own, and says what to do.
func TestMaintenancePageRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		locked, open bool // without lifecycle; without passwords
		visit        func(token string) visit
		status       int
		want         string
	}{
		"without lifecycle": {
			locked: true,
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token)} },
			status: 403,
			want:   "--web.enable-lifecycle",
		},
		"without passwords": {
			open:   true,
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token)} },
			status: 403,
			want:   "basic_auth_users",
		},
		"a browser without passwords": {
			open: true,
			visit: func(token string) visit {
				return visit{
					form:   wish(token),
					header: map[string]string{"Origin": "http://exporter.example", "Sec-Fetch-Site": "same-origin"},
				}
			},
			status: 403,
			want:   "Set basic_auth_users",
		},
		"rebinding, where a browser sends no password": {visit: func(token string) visit {
			return visit{
				host:   "evil.example",
				form:   wish(token),
				header: map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
			}
		}, status: 403, want: "Only a user with a password"},
		"an unknown user": {
			visit:  func(token string) visit { return visit{user: "mallory", form: wish(token)} },
			status: 403,
			want:   "Only a user with a password",
		},
		"another origin": {visit: func(token string) visit {
			return visit{user: "alice", form: wish(token), header: map[string]string{"Origin": "https://evil.example"}}
		}, status: 403, want: "from another site"},
		"another site": {visit: func(token string) visit {
			return visit{user: "alice", form: wish(token), header: map[string]string{"Sec-Fetch-Site": "cross-site"}}
		}, status: 403, want: "from another site"},
		"the same site": {visit: func(token string) visit {
			return visit{user: "alice", form: wish(token), header: map[string]string{"Sec-Fetch-Site": "same-site"}}
		}, status: 403, want: "from another site"},
		"an opaque origin": {visit: func(token string) visit {
			return visit{user: "alice", form: wish(token), header: map[string]string{"Origin": "null"}}
		}, status: 403, want: "from another site"},
		"no token": {
			visit:  func(string) visit { return visit{user: "alice", form: wish("")} },
			status: 403,
			want:   "Send it again from here",
		},
		"a wrong token": {
			visit:  func(string) visit { return visit{user: "alice", form: wish(strings.Repeat("0", 64))} },
			status: 403,
			want:   "Send it again from here",
		},
		"another user's token": {
			visit:  func(token string) visit { return visit{user: "bob", form: wish(token)} },
			status: 403,
			want:   "Send it again from here",
		},
		"a token in the query": {visit: func(token string) visit {
			form := wish("")
			form.Del("token")
			return visit{user: "alice", form: form, query: "?token=" + token}
		}, status: 403, want: "Send it again from here"},
		"a long form": {visit: func(token string) visit {
			return visit{user: "alice", form: wish(token, "reason", strings.Repeat("x", 5000))}
		}, status: 413, want: "too long"},
		"nothing selected": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "subject", "")} },
			status: 400,
			want:   "no target or container is selected",
		},
		"no duration": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "duration", " ")} },
			status: 400,
			want:   "the duration is empty",
		},
		"an odd duration": {
			visit: func(token string) visit { return visit{user: "alice", form: wish(token, "duration", "<soon>")} }, status: 400,
			want: "must be one such as 30m, 2h or 1d12h. Correct the form and send it again.",
		},
		"too long": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "duration", "31d")} },
			status: 400,
			want:   "the maximum is",
		},
		"an unknown kind": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "subject", "stack/x")} },
			status: 400,
			want:   "must be target, container or workload",
		},
		"an end of nothing": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "end", "target/irc_rpc")} },
			status: 404,
			want:   "not under maintenance",
		},
		"an end of the file's": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "end", "target/docker")} },
			status: 409,
			want:   "by the configuration",
		},
		"an end of nobody": {
			visit:  func(token string) visit { return visit{user: "alice", form: wish(token, "end", "x")} },
			status: 400,
			want:   "unknown what to end",
		},
		"a GET changes nothing": {
			visit:  func(token string) visit { return visit{user: "alice", query: "?" + wish(token).Encode()} },
			status: 200,
			want:   "Set maintenance",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, free := newKept(t, true, "alice", "bob")
			token := tokenOf(t, free)
			k, h := newKept(t, true, "alice", "bob")
			switch {
			case c.locked:
				k, h = newKept(t, false, "alice")
			case c.open:
				k, h = newKept(t, true)
			default:
				token = tokenOf(t, h)
			}
			answer := c.visit(token).send(t, h)
			if answer.StatusCode != c.status || !strings.Contains(string(answer.body), c.want) {
				t.Errorf("status %d, want %d and %q: %s", answer.StatusCode, c.status, c.want, answer.body)
			}
			if strings.Contains(string(answer.body), "<soon>") {
				t.Error("the form's text is not escaped")
			}
			if set := k.set(); len(set) > 0 {
				t.Errorf("it has set %q", set)
			}
		})
	}
}

// TestStatusPageOffersFormsOnlyWithPasswords, and the page of maintenance says why it has none.
func TestStatusPageOffersFormsOnlyWithPasswords(t *testing.T) {
	const link, row = `<a href="maintenance">`, `<a href="maintenance?subject=target%2Firc_rpc">Set maintenance</a>`
	_, offering := newKept(t, true, "alice")
	holds(t, string(fetch(t, offering, "/").body), link, row, `<a href="maintenance?subject=container%2Fchat-irc-1">`)
	for want, h := range map[string]http.Handler{
		"--web.enable-lifecycle": second(newKept(t, false, "alice")), "basic_auth_users": second(newKept(t, true)),
	} {
		if page := string(fetch(t, h, "/").body); strings.Contains(page, `href="maintenance`) {
			t.Error("the status page offers a form")
		}
		page := visit{user: "alice"}.send(t, h)
		holds(t, string(page.body), want, "(set in exporter.yaml)")
		if page.StatusCode != http.StatusOK || strings.Contains(string(page.body), "<form") {
			t.Errorf("status %d, or a form: %s", page.StatusCode, page.body)
		}
	}
}

func second(_ kept, h http.Handler) http.Handler { return h }

// TestAPIRefusesBrowsersWithPasswords too: only the forms have a token.
func TestAPIRefusesBrowsersWithPasswords(t *testing.T) {
	k, h := newKept(t, true, "alice")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://exporter.example/api/v1/maintenance",
		strings.NewReader(`{"kind":"target","name":"irc_rpc","duration":"1h"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.SetBasicAuth("alice", "checked by the listener")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(k.set()) > 0 {
		t.Errorf("status %d, set %q", w.Code, k.set())
	}
}
