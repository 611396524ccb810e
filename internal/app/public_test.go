package app

import (
	"net/http"
	"strings"
	"testing"

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
