package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

func TestPublicPageHasAListenerOfItsOwn(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		const content = "public:\n  listen_address: 127.0.0.1:0\n  title: Our chat\n" +
			"  services: [{name: Services, targets: [irc_services]}]\n"
		e := startExporter(t, only(stack, "IRC_SERVICES_"), content)
		e.wait(t, "up", func(p page) bool { return p.Up("irc_services") })
		public := &exporter{url: "http://" + e.app.public.listener.Addr().String(), client: e.client}
		if code, body := public.text(t, "/status.json"); code != http.StatusOK ||
			!strings.Contains(body, `"services":[{"name":"Services","state":"operational",`) {
			t.Errorf("status %d: %s", code, body)
		}
		for _, path := range []string{"/metrics", "/api/v1/status", "/-/healthy"} {
			if code, body := public.text(t, path); code != http.StatusNotFound || body != "not found\n" {
				t.Errorf("%s: status %d, %s", path, code, body)
			}
		}
		if code, _ := e.text(t, "/status.json"); code != http.StatusNotFound {
			t.Errorf("the exporter's own listener: status %d", code)
		}
	})
}

func (e *exporter) text(t *testing.T, path string) (code int, body string) {
	t.Helper()
	r := e.get(t, path, http.Header{})
	return r.status, string(r.body)
}

// TestUpdateReachesUsersAndANoteDoesNot: neither the page nor its feed or JSON has a note, or who wrote.
func TestUpdateReachesUsersAndANoteDoesNot(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		web := filepath.Join(t.TempDir(), "web.yml")
		rewrite(t, web, "basic_auth_users:\n  alice: "+ownPortBcrypt+"\n")
		const public = "public:\n  listen_address: 127.0.0.1:0\n  services: [{name: Services, targets: [irc_services]}]\n"
		e, _ := startWithFile(t, nil, oneTarget+public, func(o *Options) {
			lifecycle(o)
			o.Web.WebConfigFile = &web
		})
		e.url = strings.Replace(e.url, "://", "://alice:"+ownPortPassword+"@", 1)
		users := &exporter{url: "http://" + e.app.public.listener.Addr().String(), client: e.client}
		time.Sleep(time.Minute)
		_, body := users.text(t, "/status.json") // there is no alert yet
		says(t, "after a minute, the JSON", body, `"state":"outage"`, `"incidents":[]`)
		time.Sleep(20 * time.Minute)
		d, path := describe(t, e), "/api/v1/incidents/"+e.incidentsOf(t)[0].ID
		for list, text := range map[string]string{"updates": "We are on it.", "notes": "The disk was full."} {
			code, body := e.exchange(t, http.MethodPost, path+"/"+list, `{"text": "`+text+`"}`)
			if code != http.StatusCreated {
				t.Errorf("%s: %d\n%s", list, code, body)
			}
			d.hold(t, schemaOf("/api/v1/incidents/{id}/"+list, "post", "201"), body)
		}
		time.Sleep(10 * time.Second)
		for _, path := range []string{"/", "/status.json", "/incidents.atom"} {
			_, body := users.text(t, path)
			says(t, path, body, "We are on it.")
			if strings.Contains(body, "The disk was full.") || strings.Contains(body, "alice") {
				t.Errorf("%s has a note or its author: %s", path, body)
			}
		}
		page := e.get(t, strings.TrimPrefix(path, "/api/v1"), nil)
		says(t, "the page of the incident", string(page.body), "The disk was full.", "We are on it.")
		says(t, "the log", e.log.String(), `msg="an update for users was added"`)
	})
}
