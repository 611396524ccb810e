package collectors

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var (
	moduleProblemsDesc = readDesc("chatstack_xmpp_module_problems",
		"Modules in this state on the XMPP server's status page, per virtual host or component (* is global).", "host", "state")
	componentConnectedDesc = readDesc("chatstack_xmpp_component_connected",
		"Whether the external component, such as the bridge, is connected to the XMPP server.", "host")
	moduleStatusDesc = readDesc(moduleStatusFamily,
		"State of a module on the XMPP server's status page: 0 ok, 1 info, 2 warn, 3 error, per virtual host or component (* is global). "+
			"Absent for modules that are not loaded.",
		"host", "module")
)

// moduleStatusFamily comes from the status page because prosody_module_status on the metrics page drops to 0 at every change.
const moduleStatusFamily = "xmpp_module_status"

// xmppStatusPath is where the server has the page by default.
const xmppStatusPath = "/status"

// moduleLevels map the states of a module to metric values.
var moduleLevels = map[string]float64{"core": 0, "info": 1, "warn": 2, "error": 3}

// XMPPStatus is the block of the XMPP server's status page.
type XMPPStatus struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
}

func newXMPPStatusSettings() *XMPPStatus { return &XMPPStatus{} }

// Environ implements config.Settings.
func (s *XMPPStatus) Environ(e *config.Env) {
	e.Origin("url", "XMPP_REST_URL", &s.URL)
	e.TLS("XMPP_REST", &s.TLS)
}

// xmppStatus requests GET /status. The target is up if the page answers. Its status is 200 even if modules are broken, so
// their states become metrics.
type xmppStatus struct{ http exchange.HTTP }

func newXMPPStatus(s *XMPPStatus, d Deps) (Collector, error) {
	return &xmppStatus{d.http(s.HTTP)}, nil
}

// moduleStatus is one module's entry on the status page. Any of its fields may be missing.
type moduleStatus struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// maxHosts and maxModules bound the series of one page: three per host and one per module.
const (
	maxHosts   = 1000
	maxModules = 10_000
)

// hints say what to do about a status.
func (c *xmppStatus) hints(a *exchange.Answer) map[int]string {
	enable := cmp.Or(a.IfFrom(exchange.Prosody, "enable the XMPP server's module http_status"), seeTargets)
	hints := hintsForPage("url", a.URL, xmppStatusPath, enable)
	hints[http.StatusForbidden] = a.IfFrom(exchange.Prosody,
		"the status module's own allow list refuses this address: add it to http_status_allow_cidr in the XMPP server's configuration")
	return hints
}

// Collect implements Collector.
func (c *xmppStatus) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, nil)
	if err != nil {
		return err
	}
	if err := a.WantOK(c.hints(a)); err != nil {
		return err
	}
	var hosts map[string]map[string]json.RawMessage
	if err := json.Unmarshal(a.Body, &hosts); err != nil {
		b.Note("what the server has at " + exchange.PathOf(a.URL) +
			" is not the expected JSON; the server is up, but the state of its modules is unknown")
		b.Gauge(familyAvailableDesc, 0, moduleStatusFamily)
		return nil //nolint:nilerr // any answer counts as up
	}
	if len(hosts) > maxHosts {
		b.Note(fmt.Sprintf("the status page has %d hosts, more than %d; only their components are shown", len(hosts), maxHosts))
		b.Gauge(familyAvailableDesc, 0, moduleStatusFamily)
		b.figures = c.components(b, hosts)
		return nil
	}
	connected := c.components(b, hosts)
	states := c.moduleStates(b, hosts)
	b.Gauge(familyAvailableDesc, boolValue(states > 0), moduleStatusFamily)
	errorStates := 0
	for host, modules := range hosts {
		problems := map[string]int{"warn": 0, "error": 0}
		inError := health.Condition{Alert: health.AlertModuleProblem, Of: host}
		for name, raw := range modules {
			var m moduleStatus
			if err := json.Unmarshal(raw, &m); err != nil {
				b.Note("a module's entry on the status page has an unexpected form")
			}
			if _, known := problems[m.Type]; known {
				problems[m.Type]++
			}
			if m.Type == "error" {
				inError.Modules = append(inError.Modules, name)
			}
		}
		errorStates += problems["error"]
		b.conditions = append(b.conditions, inError)
		if n := problems["error"]; n > 0 {
			b.Note(failure.OneLine(host) + ": " + wording.Count(n, "module") + " in state error")
		}
		for state, n := range problems {
			b.Gauge(moduleProblemsDesc, float64(n), host, state)
		}
	}
	if len(hosts) > 0 {
		b.Figure(Figure{Name: "modules in error", Value: float64(errorStates)})
	}
	b.figures = append(b.figures, connected...)
	return nil
}

// components adds whether each component is connected, for the first maxHosts by name, and returns how many of them are.
func (c *xmppStatus) components(b *Batch, hosts map[string]map[string]json.RawMessage) (figures []Figure) {
	told, sum := 0, 0.0
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		raw, is := hosts[host]["component"]
		// A global module has this name, but is not a component.
		if !is || host == "*" {
			continue
		}
		if told++; told > maxHosts {
			b.Note(fmt.Sprintf("the status page has more than %d components; the others are left out", maxHosts))
			break
		}
		var m moduleStatus
		// An entry of an unexpected form counts as not connected; the loop over hosts notes it.
		connected := json.Unmarshal(raw, &m) == nil && m.Type == "info" && m.Message == "Connected"
		b.Gauge(componentConnectedDesc, boolValue(connected), host)
		sum += boolValue(connected)
		b.Condition(health.AlertComponentDisconnected, host, !connected)
		if !connected {
			b.Note(failure.OneLine(host) + ": the component, such as the bridge, is not connected")
		}
	}
	if told > 0 {
		figures = []Figure{{Name: "components connected", Value: sum}}
	}
	return figures
}

// moduleStates adds the state of each module, unless there are too many, and returns how many it added. It skips unknown
// states.
func (c *xmppStatus) moduleStates(b *Batch, hosts map[string]map[string]json.RawMessage) int {
	modules := 0
	for _, of := range hosts {
		modules += len(of)
	}
	if modules > maxModules {
		b.Note(fmt.Sprintf("the status page has %d modules, more than %d; their states are left out", modules, maxModules))
		return 0
	}
	told := 0
	for host, of := range hosts {
		for name, raw := range of {
			var m moduleStatus
			if err := json.Unmarshal(raw, &m); err != nil {
				continue // the loop over hosts notes it
			}
			if level, known := moduleLevels[m.Type]; known {
				b.Gauge(moduleStatusDesc, level, host, name)
				told++
			}
		}
	}
	return told
}
