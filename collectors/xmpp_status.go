package collectors

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

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

// Environ implements config.Settings.
func (s *XMPPStatus) Environ(e *config.Env) {
	e.Origin("url", "XMPP_REST_URL", &s.URL)
	e.TLS("XMPP_REST", &s.TLS)
}

// xmppStatus requests GET /status. The target is up if the page answers. Its status is 200 even if modules are broken, so
// their states become metrics.
type xmppStatus struct {
	http   exchange.HTTP
	loaded loadedModules
	log    *slog.Logger
}

func newXMPPStatus(s *XMPPStatus, d Deps) (Collector, error) {
	c := &xmppStatus{http: d.http(s.HTTP), loaded: loadedModules{state: d.State}, log: d.Log}
	if err := d.State.Load(&c.loaded.moduleMemory); err != nil {
		d.Log.Error("saved modules are lost; none counts as missing", "err", err)
	}
	return c, nil
}

// ForgetModule implements ModuleForgetter.
func (c *xmppStatus) ForgetModule(host, module string) error { return c.loaded.forget(host, module) }

// moduleStatus is one module's entry on the status page. Any of its fields may be missing.
type moduleStatus struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Time    any    `json:"time"` // when it said that, or was loaded
	odd     bool   // the entry has an unexpected form
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (m *moduleStatus) UnmarshalJSON(entry []byte) error {
	type fields moduleStatus
	m.odd = json.Unmarshal(entry, (*fields)(m)) != nil
	return nil
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
	if err == nil {
		err = a.WantOK(c.hints(a))
	}
	if err != nil {
		c.loaded.lose()
		return err
	}
	var hosts map[string]map[string]moduleStatus
	if err := json.Unmarshal(a.Body, &hosts); err != nil {
		b.Note("what the server has at " + exchange.PathOf(a.URL) +
			" is not the expected JSON; the server is up, but the state of its modules is unknown")
		b.Gauge(familyAvailableDesc, 0, moduleStatusFamily)
		return nil //nolint:nilerr // any answer counts as up
	}
	connected := c.components(b, hosts)
	if len(hosts) > maxHosts {
		b.Note(fmt.Sprintf("the status page has %d hosts, more than %d; only their components are shown", len(hosts), maxHosts))
		b.Gauge(familyAvailableDesc, 0, moduleStatusFamily)
	} else {
		c.modules(b, hosts)
		if err := c.loaded.read(hosts, time.Now()); err != nil {
			c.log.Error("cannot save which modules the XMPP server has", "err", err)
		}
		c.loaded.report(b)
	}
	b.figures = append(b.figures, connected...)
	return nil
}

// modules adds the states of modules, unless there are too many, and how many have problems.
func (c *xmppStatus) modules(b *Batch, hosts map[string]map[string]moduleStatus) {
	all := 0
	for _, modules := range hosts {
		all += len(modules)
	}
	if all > maxModules {
		b.Note(fmt.Sprintf("the status page has %d modules, more than %d; their states are left out", all, maxModules))
	}
	states, errorStates := 0, 0
	for host, modules := range hosts {
		warnings := 0
		inError := health.Condition{Alert: health.AlertModuleProblem, Of: host}
		for name, m := range modules {
			if m.odd {
				b.Note("a module's entry on the status page has an unexpected form")
			} else if level, known := moduleLevels[m.Type]; known && all <= maxModules {
				b.Gauge(moduleStatusDesc, level, host, name)
				states++
			}
			switch m.Type {
			case "warn":
				warnings++
			case "error":
				inError.Modules = append(inError.Modules, name)
			}
		}
		b.conditions = append(b.conditions, inError)
		n := len(inError.Modules)
		errorStates += n
		if n > 0 {
			b.Note(failure.OneLine(host) + ": " + wording.Count(n, "module") + " in state error")
		}
		b.Gauge(moduleProblemsDesc, float64(warnings), host, "warn")
		b.Gauge(moduleProblemsDesc, float64(n), host, "error")
	}
	b.Gauge(familyAvailableDesc, boolValue(states > 0), moduleStatusFamily)
	if len(hosts) > 0 {
		b.Figure(Figure{Name: "modules in error", Value: float64(errorStates)})
	}
}

// components adds whether each component is connected, for the first maxHosts by name, and returns how many of them are.
func (c *xmppStatus) components(b *Batch, hosts map[string]map[string]moduleStatus) (figures []Figure) {
	count, sum := 0, 0.0
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		m, is := hosts[host]["component"]
		// A global module has this name, but is not a component.
		if !is || host == "*" {
			continue
		}
		if count++; count > maxHosts {
			b.Note(fmt.Sprintf("the status page has more than %d components; the others are left out", maxHosts))
			break
		}
		connected := !m.odd && m.Type == "info" && m.Message == "Connected"
		b.Gauge(componentConnectedDesc, boolValue(connected), host)
		sum += boolValue(connected)
		b.Condition(health.AlertComponentDisconnected, host, !connected)
		if !connected {
			b.Note(failure.OneLine(host) + ": the component, such as the bridge, is not connected")
		}
	}
	if count > 0 {
		figures = []Figure{{Name: "components connected", Value: sum}}
	}
	return figures
}
