package app

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// TestStatesOfModulesAreToldOnce has an XMPP server whose metrics page tells the states of modules as its status page
// does, and reloads between configurations that ask for both, for one, and for both again.
func TestStatesOfModulesAreToldOnce(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/status" {
				io.WriteString(w, `{"a.test":{"roster":{"type":"warn"}}}`) //nolint:errcheck // a test's server
				return
			}
			w.Header().Set("Content-Type", "application/openmetrics-text")
			//nolint:errcheck // a test's server
			io.WriteString(w, "# TYPE xmpp_module_status gauge\nxmpp_module_status{host=\"a.test\",module=\"roster\"} 3\n"+
				"xmpp_module_status{host=\"a.test\",module=\"vcard\"} 0\n# EOF\n")
		})
		metrics := "targets:\n  - kind: xmpp_metrics\n    url: " + server + "/metrics\n"
		both := metrics + "  - kind: xmpp_status\n    url: " + server + "/status\n"
		e, file := startWithFile(t, nil, both, nil)

		wantStates := func(what string, states int, roster, clashes float64) {
			t.Helper()
			p := e.wait(t, what, func(p page) bool {
				got, told := p.Value("xmpp_module_status", "host", "a.test", "module", "roster")
				left, read := p.Value("chatstack_upstream_dropped_series", "target", "xmpp_metrics", "reason", "clash")
				return told && got == roster && read && left == clashes
			})
			if n := len(p["xmpp_module_status"].GetMetric()); n != states {
				t.Errorf("%s: %d series of modules, want %d", what, n, states)
			}
			told := 0
			for _, m := range p["chatstack_xmpp_family_available"].GetMetric() {
				if exportertest.Label(m, "family") == "xmpp_module_status" {
					told++
					if m.GetGauge().GetValue() != 1 {
						t.Errorf("%s: xmpp_module_status is told to have no source", what)
					}
				}
			}
			if told != 1 {
				t.Errorf("%s: told %d times whether xmpp_module_status has a source, want once", what, told)
			}
			h, _ := e.app.History("xmpp_metrics")
			if noted := strings.Contains(strings.Join(h.Last[0].Notes, "\n"), "clash: xmpp_module_status"); noted != (clashes > 0) {
				t.Errorf("%s: notes %q, want the clash in them: %v", what, h.Last[0].Notes, clashes > 0)
			}
		}
		reload := func(content string) {
			t.Helper()
			rewrite(t, file, content)
			must(t, e.app.Reload(t.Context()))
		}
		wantStates("both", 1, 2, 2)
		reload(metrics)
		wantStates("the metrics page alone", 2, 3, 0)
		reload(both)
		wantStates("both again", 1, 2, 2)
	})
}
