package status

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestImpactIsWhatUsersLoseMost says nothing of what users need not notice: a server that refuses only the exporter.
func TestImpactIsWhatUsersLoseMost(t *testing.T) {
	kinds := map[string]string{"web": "web_irc", "login": "xmpp_c2s", "bridge": "relay", "refuses": "xmpp_c2s", "page": "http"}
	problem := func(name, alert string) *health.Event {
		return &health.Event{
			Of:         health.Key(health.TargetSubject(name)),
			TargetKind: kinds[name],
			Alert:      alert,
			RefusesUs:  name == "refuses",
		}
	}
	down := func(name string) *health.Event { return problem(name, health.AlertTargetDown) }
	relay := func(alert string) *health.Event { return problem("bridge", alert) }
	const web, login, bridge = "The web IRC client does not open.", "Nobody can log in to the XMPP server.",
		"Messages do not cross between IRC and XMPP."
	for name, c := range map[string]struct {
		before   string
		problems []*health.Event
		want     string
	}{
		"nothing":                      {},
		"one":                          {problems: []*health.Event{down("web")}, want: web},
		"the worst":                    {problems: []*health.Event{down("web"), down("login"), down("page")}, want: login},
		"the worst was before":         {before: login, problems: []*health.Event{down("web")}, want: login},
		"it gets worse":                {before: web, problems: []*health.Event{down("login")}, want: login},
		"it is over":                   {before: web, want: web},
		"only operators notice":        {problems: []*health.Event{down("page")}},
		"of an earlier version":        {before: "It is dark.", problems: []*health.Event{down("page")}, want: "It is dark."},
		"the exporter is refused":      {problems: []*health.Event{down("refuses")}},
		"an expiring certificate":      {problems: []*health.Event{problem("login", health.AlertChainInvalid)}},
		"a bridge that relays nothing": {problems: []*health.Event{relay(health.AlertBridgeNotRelaying)}, want: bridge},
		"a bridge that nobody checks":  {problems: []*health.Event{relay(health.AlertRelaySessionDown)}},
		"a container": {problems: []*health.Event{{
			Of:    health.Key(health.ContainerSubject("local", "login")),
			Alert: health.AlertContainerDown,
		}}},
	} {
		if got := Impact(c.before, c.problems); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
