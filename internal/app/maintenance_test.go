package app

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// answer is what the maintenance API says.
type answer struct {
	status      int
	Error       string
	Warnings    []string
	Maintenance json.RawMessage
	text        string
}

func (a answer) warns(of string) bool { return strings.Contains(strings.Join(a.Warnings, "\n"), of) }

// ask makes one request of the maintenance API.
func (e *exporter) ask(t *testing.T, method, path, body string, header map[string]string) answer {
	t.Helper()
	h := http.Header{}
	if method == http.MethodPost {
		h.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		h.Set(name, value)
	}
	r := e.do(t, method, "/api/v1/maintenance"+path, body, h)
	a := answer{status: r.status, text: string(r.body)}
	if strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(r.body, &a); err != nil {
			t.Fatalf("%s %s: %v\n%s", method, path, err, r.body)
		}
	}
	return a
}

func lifecycle(o *Options) { o.EnableLifecycle = true }

// oneTarget is a configuration with one target, which is down.
const oneTarget = "targets:\n  - {kind: irc_services, url: \"http://127.0.0.1:1/\", container: chat-irc-1}\n"

func TestMaintenanceBadWishesFail(t *testing.T) {
	e, _ := startWithFile(t, nil, oneTarget, lifecycle)
	good := `{"kind":"target","name":"irc_services","duration":"1h"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             map[string]string
		status             int
		want               string
	}{
		"no JSON":    {body: "kind=target", status: 400, want: "invalid JSON at byte 1"},
		"cut":        {body: good[:20], status: 400, want: "ends in the middle"},
		"two values": {body: good + good, status: 400, want: "more than one"},
		"a list":     {body: "[]", status: 400, want: "a JSON array, must be an object"},
		"nothing":    {body: "", status: 400, want: "it is empty"},
		"a number":   {body: `{"kind":"target","name":5}`, status: 400, want: "name is a JSON number, must be a string"},
		"an odd time": {
			body:   `{"kind":"target","name":"irc_services","until":"tomorrow"}`,
			status: 400,
			want:   "must be a time with its zone",
		},
		"a key too many": {body: `{"kind":"target","nick":"x"}`, status: 400, want: `unknown key "nick"; known keys: `},
		"a long body":    {body: good + strings.Repeat(" ", 5000), status: 413, want: "longer than 4096"},
		"form": {
			body:   good,
			header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			status: 415,
			want:   "application/json",
		},
		"text": {
			body:   good,
			header: map[string]string{"Content-Type": "text/plain"},
			status: 415,
			want:   "application/json",
		},
		"no kind":      {body: `{"name":"x","duration":"1h"}`, status: 400, want: "kind is"},
		"unknown kind": {body: `{"kind":"stack","name":"x","duration":"1h"}`, status: 400, want: `kind is "stack"`},
		"unknown target": {
			body:   `{"kind":"target","name":"irc_service","duration":"1h"}`,
			status: 404,
			want:   `no configured target is called "irc_service"`,
		},
		"unpolled target": {body: `{"kind":"target","name":"irc_rpc","duration":"1h"}`, status: 404, want: "no configured target"},
		"odd container": {
			body:   `{"kind":"container","name":"a b","duration":"1h"}`,
			status: 400,
			want:   "is not a valid name of a container",
		},
		"no end": {body: `{"kind":"target","name":"irc_services"}`, status: 400, want: "one of duration and until"},
		"two ends": {
			body:   `{"kind":"target","name":"irc_services","duration":"1h","until":"2100-01-01T00:00:00Z"}`,
			status: 400,
			want:   "one of duration and until",
		},
		"odd duration": {body: `{"kind":"target","name":"irc_services","duration":"soon"}`, status: 400, want: `duration is "soon"`},
		"past": {
			body:   `{"kind":"target","name":"irc_services","until":"2020-01-01T00:00:00Z"}`,
			status: 400,
			want:   "would end at 2020-01-01T00:00:00Z",
		},
		"no time":  {body: `{"kind":"target","name":"irc_services","duration":"0s"}`, status: 400, want: "would end at"},
		"too long": {body: `{"kind":"target","name":"irc_services","duration":"31d"}`, status: 400, want: "the maximum is 720h"},
		"far": {
			body:   `{"kind":"target","name":"irc_services","until":"2100-01-01T00:00:00Z"}`,
			status: 400,
			want:   "the maximum is 720h",
		},
		"a reason of lines": {
			body:   `{"kind":"target","name":"irc_services","duration":"1h","reason":"a\nb"}`,
			status: 400,
			want:   "one line",
		},
		"end of nothing": {
			method: "DELETE",
			path:   "/target/irc_services",
			status: 404,
			want:   "not under maintenance",
		},
		"another method": {
			method: "PUT",
			body:   good,
			status: 405,
			want:   "does not support PUT, only GET, HEAD, POST",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			if a := e.ask(t, c.method, c.path, c.body, c.header); a.status != c.status || !strings.Contains(a.Error, c.want) {
				t.Errorf("status %d, error %q; want %d, %q\n%s", a.status, a.Error, c.status, c.want, a.text)
			}
		})
	}
	if a := e.ask(t, http.MethodGet, "", "", nil); string(a.Maintenance) != "[]" {
		t.Errorf("a bad wish came true: %s", a.Maintenance)
	}
}

// TestChangesOverHTTPRequireTheirFlagAndNoBrowser has everything that can be changed so.
func TestChangesOverHTTPRequireTheirFlagAndNoBrowser(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		content := engineTarget(startEngine(t, "irc")) + "  - {kind: irc_services, url: \"http://127.0.0.1:1/\"}\n"
		locked, _ := startWithFile(t, nil, content, nil)
		open, _ := startWithFile(t, nil, content, lifecycle)
		for _, c := range []struct{ method, path string }{
			{http.MethodPost, "/-/reload"},
			{http.MethodPost, "/api/v1/maintenance"},
			{http.MethodDelete, "/api/v1/maintenance/target/irc_services"},
			{http.MethodDelete, "/api/v1/containers/local/irc"},
			{http.MethodPost, "/api/v1/targets/irc_services/probe"},
			{http.MethodPost, "/api/v1/drill"},
			{http.MethodDelete, "/api/v1/drill/a"},
		} {
			body := `{"kind":"target","name":"irc_services","duration":"1h"}`
			isAPI := strings.HasPrefix(c.path, "/api/")
			said := locked.do(t, c.method, c.path, body, http.Header{"Content-Type": {"application/json"}})
			if said.status != http.StatusForbidden || !strings.Contains(string(said.body), "--web.enable-lifecycle") ||
				json.Valid(said.body) != isAPI {
				t.Errorf("%s %s without the flag: status %d, want 403, in JSON if it is of the API: %s",
					c.method, c.path, said.status, said.body)
			}
			for _, from := range [][2]string{
				{"Origin", open.url},
				{"Origin", "https://evil.example"},
				{"Sec-Fetch-Site", "same-origin"},
				{"Sec-Fetch-Site", "same-site"},
				{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "none"},
			} {
				r := open.do(t, c.method, c.path, body, http.Header{"Content-Type": {"application/json"}, from[0]: {from[1]}})
				if r.status != http.StatusForbidden || json.Valid(r.body) != isAPI {
					t.Errorf("%s %s with %s: status %d, want 403, in JSON if it is of the API: %s",
						c.method, c.path, from, r.status, r.body)
				}
			}
		}
		for _, e := range []*exporter{locked, open} {
			if a := e.ask(t, http.MethodGet, "", "", nil); a.status != http.StatusOK || string(a.Maintenance) != "[]" {
				t.Errorf("reading: status %d, %s", a.status, a.Maintenance)
			}
		}
		if status, body := open.post(t, "/-/reload"); status != http.StatusOK {
			t.Errorf("reload with the flag: status %d: %s", status, body)
		}
	})
}

// TestMaintenanceFormRequiresAPassword of the listener, whatever name a browser has for the exporter.
func TestMaintenanceFormRequiresAPassword(t *testing.T) {
	web := filepath.Join(t.TempDir(), "web.yml")
	rewrite(t, web, "basic_auth_users:\n  alice: "+ownPortBcrypt+"\n")
	e, _ := startWithFile(t, nil, oneTarget, func(o *Options) {
		lifecycle(o)
		o.Web.WebConfigFile = &web
	})
	send := func(method, host, password, form string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, e.url+"/maintenance", strings.NewReader(form))
		must(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if host != "" {
			req.Host = host
			req.Header.Set("Origin", "http://"+host)
		}
		if password != "" {
			req.SetBasicAuth("alice", password)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		must(t, err)
		defer resp.Body.Close() //nolint:errcheck // read to its end
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return reply{resp.StatusCode, resp.Header, body}
	}
	page := send(http.MethodGet, "", ownPortPassword, "")
	token := regexp.MustCompile(`name="token" value="([0-9a-f]{64})"`).FindSubmatch(page.body)
	if token == nil {
		t.Fatalf("status %d, no form: %s", page.status, page.body)
	}
	form := "subject=target%2Firc_services&duration=1h&token=" + string(token[1])
	for name, c := range map[string]struct {
		host, password, form string
		status               int
	}{
		"no password":    {form: form, status: http.StatusUnauthorized},
		"wrong password": {password: "wrong", form: form, status: http.StatusUnauthorized},
		"rebinding":      {host: "evil.example", form: form, status: http.StatusUnauthorized},
		"no token":       {password: ownPortPassword, form: "subject=target%2Firc_services&duration=1h", status: http.StatusForbidden},
		"an unknown target": {
			password: ownPortPassword,
			form:     strings.Replace(form, "irc_services", "nobody", 1),
			status:   http.StatusNotFound,
		},
		"a name of its own": {
			host:     "exporter.example",
			password: ownPortPassword,
			form:     form,
			status:   http.StatusSeeOther,
		},
		"again": {password: ownPortPassword, form: form, status: http.StatusSeeOther},
		"an end of nothing": {
			password: ownPortPassword,
			form:     "end=target%2Fnobody&token=" + string(token[1]),
			status:   http.StatusNotFound,
		},
	} {
		before := len(e.app.Maintenance())
		if r := send(http.MethodPost, c.host, c.password, c.form); r.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, r.status, c.status, r.body)
		}
		if after := len(e.app.Maintenance()); after != before && c.status != http.StatusSeeOther {
			t.Errorf("%s: it has changed maintenance", name)
		}
	}
	if list := e.app.Maintenance(); len(list) != 1 || list[0].Name != "irc_services" {
		t.Errorf("got %+v", list)
	}
	// The file takes effect at once.
	rewrite(t, web, "")
	if r := send(http.MethodPost, "", "", form); r.status != http.StatusForbidden || !strings.Contains(string(r.body), "basic_auth_users") {
		t.Errorf("without passwords: status %d: %s", r.status, r.body)
	}
}

func TestMaintenanceShowsEverywhereUntilItEnds(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state.json")
		content := "state_file: " + file + "\n" + oneTarget
		e, path := startWithFile(t, nil, content, lifecycle)
		shown := func(kind, name string) func(page) bool {
			return func(p page) bool {
				v, ok := p.Value("chatstack_maintenance", "kind", kind, "name", name)
				return ok && v == 1
			}
		}
		a := e.ask(t, http.MethodPost, "", `{"kind":"target","name":"irc_services","duration":"1d12h","reason":"<upgrade>"}`, nil)
		var set maintenance.Entry
		if err := json.Unmarshal(a.Maintenance, &set); err != nil || a.status != http.StatusCreated || len(a.Warnings) > 0 {
			t.Fatalf("status %d, %v, %s", a.status, err, a.text)
		}
		if got, want := set.Until.Sub(set.From), 36*time.Hour; (got-want).Abs() > time.Second || !set.Active ||
			set.Source != maintenance.FromAPI {
			t.Errorf("got %+v, want %s from now on", set, want)
		}
		if a := e.ask(t, http.MethodPost, "", `{"kind":"container","name":"chat-irc-1","duration":"2h"}`,
			nil); a.status != http.StatusCreated || !a.warns(`the exporter sees no container "chat-irc-1"`) {
			t.Errorf("a container that is not there: status %d, warnings %q, want 201 and one", a.status, a.Warnings)
		}
		e.wait(t, "both on the page", func(p page) bool {
			return shown("target", "irc_services")(p) && shown("container", "chat-irc-1")(p)
		})
		e.waitForPage(t, "nder maintenance until ", "&lt;upgrade&gt;", "container <b>chat-irc-1</b>: until")
		// A reload, which changes the configuration's windows, is no business of switches.
		rewrite(t, path,
			content+"maintenance:\n  - {kind: container, name: window, from: 2020-01-01T00:00:00Z, until: 2020-01-02T00:00:00Z}\n")
		must(t, e.app.Reload(t.Context()))
		if p := e.scrape(t); !shown("target", "irc_services")(p) || !shown("container", "chat-irc-1")(p) {
			t.Error("a reload ended maintenance")
		}
		if a := e.ask(t, http.MethodDelete, "/target/irc_services", "", nil); a.status != http.StatusOK || len(a.Warnings) > 0 {
			t.Errorf("its end: status %d, %s", a.status, a.text)
		}
		e.wait(t, "its end on the page", func(p page) bool { return !shown("target", "irc_services")(p) })
		e.waitForPage(t, "Its container chat-irc-1 is under maintenance until ")
		must(t, e.stop())
		again, _ := startWithFile(t, nil, content, nil)
		p := again.scrape(t)
		if !shown("container", "chat-irc-1")(p) || shown("target", "irc_services")(p) {
			t.Errorf("after a restart: %v, want the container alone", p["chatstack_maintenance"])
		}
	})
}

func TestMaintenanceWarnsOfWhatItsUserShouldKnow(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		from := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		content := "maintenance:\n  - {kind: target, name: docker, from: " + from + ", until: " + until + "}\n"
		e, _ := startWithFile(t, stack.Environ(), content, lifecycle)
		p := e.wait(t, "containers on the page", func(p page) bool {
			return len(p["chatstack_container_state"].GetMetric()) > 0
		})
		if v, ok := p.Value("chatstack_maintenance", "kind", "target", "name", "docker"); !ok || v != 1 {
			t.Error("the configuration's window is not on the page")
		}
		container := exportertest.Label(p["chatstack_container_state"].GetMetric()[0], "container")
		a := e.ask(t, http.MethodPost, "", `{"kind":"container","name":"`+container+`","duration":"1h"}`, nil)
		if a.status != http.StatusCreated || !a.warns("no state_file") || a.warns("at the moment") {
			t.Errorf("%s: status %d, warnings %q, want one about the state file alone", container, a.status, a.Warnings)
		}
		if a := e.ask(t, http.MethodPost, "", `{"kind":"container","name":"`+container+`","duration":"2h"}`,
			nil); a.status != http.StatusOK {
			t.Errorf("another end: status %d, want 200", a.status)
		}
		if a := e.ask(t, http.MethodDelete, "/target/docker", "", nil); a.status != http.StatusConflict ||
			!strings.Contains(a.Error, "by the configuration") {
			t.Errorf("end of a window: status %d, %q, want 409", a.status, a.Error)
		}
		e.ask(t, http.MethodPost, "", `{"kind":"target","name":"docker","duration":"1h"}`, nil)
		if a := e.ask(t, http.MethodDelete, "/target/docker", "", nil); a.status != http.StatusOK || !a.warns("maintenance continues") {
			t.Errorf("end of a switch beside a window: status %d, warnings %q", a.status, a.Warnings)
		}
	})
}

// TestMaintenanceSaysWhichAlertsGoOn has a target fire before it, or its container, is put under maintenance.
func TestMaintenanceSaysWhichAlertsGoOn(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e, _ := startWithFile(t, nil, oneTarget, lifecycle)
		const goesOn = "TargetDown of irc_services has already fired and keeps firing; silence it in Alertmanager"
		wishes := []string{
			`{"kind":"target","name":"irc_services","duration":"1h"}`, `{"kind":"container","name":"chat-irc-1","duration":"1h"}`,
		}
		if a := e.ask(t, http.MethodPost, "", wishes[0], nil); a.status != http.StatusCreated || a.warns("fired") {
			t.Errorf("before the alert: status %d, warnings %q", a.status, a.Warnings)
		}
		e.ask(t, http.MethodDelete, "/target/irc_services", "", nil)
		time.Sleep(6 * time.Minute)
		e.waitForPage(t, "critical")
		for _, wish := range wishes {
			if a := e.ask(t, http.MethodPost, "", wish, nil); a.status != http.StatusCreated || !a.warns(goesOn) {
				t.Errorf("%s: status %d, warnings %q, want %s", wish, a.status, a.Warnings, goesOn)
			}
		}
		if a := e.ask(t, http.MethodPost, "", `{"kind":"container","name":"other","duration":"1h"}`, nil); a.warns("fired") {
			t.Errorf("another container: warnings %q", a.Warnings)
		}
		e.waitForPage(t, "; its alert fired before: silence it in Alertmanager")
	})
}

func TestMaintenanceThatIsOverIsWarnedOf(t *testing.T) {
	over, to := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC), time.Now().Add(time.Hour)
	cfg := &config.Config{
		Maintenance: []config.Maintenance{
			{Kind: "container", Name: "chat-irc-1", Until: over},
			{Kind: "container", Name: "chat-xmpp-1", Until: to},
			{Kind: "target", Name: "irc_rpc", Until: over},
			{Kind: "target", Name: "irc_tls", Until: to},
			{Kind: "target", Name: "docs_search", Until: to},
		},
		Unconfigured: []string{"irc_rpc", "docs_search"},
	}
	want := []Warning{
		{"maintenance", "maintenance[0] of container chat-irc-1 ended at 2026-05-02T00:00:00Z; remove it, or set a new time"},
		{"irc_rpc", "maintenance[2] of target irc_rpc ended at 2026-05-02T00:00:00Z; remove it, or set a new time"},
		{"docs_search", "maintenance[4] has no effect, because target docs_search is not configured"},
	}
	if got := Warnings(cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMaintenanceOfAWorkload has a slash in the workload's name, in a body and in a path.
func TestMaintenanceOfAWorkload(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e, _ := startWithFile(t, nil, engineTarget(startEngine(t, "irc")), lifecycle)
		for _, path := range []string{"/workload/chat/irc", "/workload/chat%2Firc"} {
			a := e.ask(t, http.MethodPost, "", `{"kind": "workload", "name": "chat/irc", "duration": "1h"}`, nil)
			if a.status != http.StatusCreated || !strings.Contains(string(a.Maintenance), `"chat/irc"`) {
				t.Errorf("status %d: %s", a.status, a.text)
			}
			page := string(e.get(t, "/metrics", nil).body)
			if !strings.Contains(page, `chatstack_maintenance{kind="workload",name="chat/irc"} 1`) {
				t.Errorf("the page does not show the maintenance")
			}
			if a := e.ask(t, http.MethodDelete, path, "", nil); a.status != http.StatusOK {
				t.Errorf("%s: status %d: %s", path, a.status, a.text)
			}
		}
		for _, name := range []string{"a/b/c", "/a", "a/", "a b"} {
			a := e.ask(t, http.MethodPost, "", `{"kind": "workload", "name": "`+name+`", "duration": "1h"}`, nil)
			if a.status != http.StatusBadRequest {
				t.Errorf("%q: status %d: %s", name, a.status, a.text)
			}
		}
	})
}
