package status

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestImpactIsWhatUsersLoseMost says nothing of what users need not notice: a server that refuses only the exporter.
func TestImpactIsWhatUsersLoseMost(t *testing.T) {
	targets := []health.Target{
		{Name: "web", Kind: "web_irc"},
		{Name: "login", Kind: "xmpp_c2s"},
		{Name: "bridge", Kind: "relay"},
		{Name: "refuses", Kind: "xmpp_c2s", RefusesUs: true},
		{Name: "page", Kind: "http"},
	}
	down := func(name string) *health.Problem {
		return &health.Problem{Subject: health.TargetSubject(name), Alert: health.AlertTargetDown}
	}
	relay := func(alert string) *health.Problem {
		return &health.Problem{Subject: health.TargetSubject("bridge"), Alert: alert}
	}
	const web, login, bridge = "The web IRC client does not open.", "Nobody can log in to the XMPP server.",
		"Messages do not cross between IRC and XMPP."
	for name, c := range map[string]struct {
		before   string
		problems []*health.Problem
		want     string
	}{
		"nothing":                 {},
		"one":                     {problems: []*health.Problem{down("web")}, want: web},
		"the worst":               {problems: []*health.Problem{down("web"), down("login"), down("page")}, want: login},
		"the worst was before":    {before: login, problems: []*health.Problem{down("web")}, want: login},
		"it gets worse":           {before: web, problems: []*health.Problem{down("login")}, want: login},
		"it is over":              {before: web, want: web},
		"only operators notice":   {problems: []*health.Problem{down("page")}},
		"of an earlier version":   {before: "It is dark.", problems: []*health.Problem{down("page")}, want: "It is dark."},
		"the exporter is refused": {problems: []*health.Problem{down("refuses")}},
		"an expiring certificate": {problems: []*health.Problem{{
			Subject: health.TargetSubject("login"),
			Alert:   health.AlertChainInvalid,
		}}},
		"a bridge that relays nothing": {problems: []*health.Problem{relay(health.AlertBridgeNotRelaying)}, want: bridge},
		"a bridge that nobody checks":  {problems: []*health.Problem{relay(health.AlertRelaySessionDown)}},
		"a container": {problems: []*health.Problem{{
			Subject: health.ContainerSubject("local", "login"),
			Alert:   health.AlertContainerDown,
		}}},
	} {
		if got := Impact(c.before, c.problems, targets); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
