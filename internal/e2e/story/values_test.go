package story

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

var valueScenarios = []scenario{
	{
		name:  "a container loses a process, and goes on",
		lasts: 16 * time.Minute,
		script: `
			1m other loses a process
			1m20s a shows:
			1m40s a shows: other ContainerOOMKill warning
		`,
		notifications: `
			3m0s chat: ContainerOOMKill warning other
			14m0s chat: ContainerOOMKill warning other is over
		`,
	},
	{
		name:  "a container is killed for want of memory, which is reported as a restart",
		lasts: 14 * time.Minute,
		script: `
			1m other is killed for memory
			2m a shows: other ContainerRestarts warning
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning other
			13m0s chat: ContainerRestarts warning other is over
		`,
	},
	{
		name: "a container loses a process under maintenance", lasts: 10 * time.Minute,
		script: `
			30s other is maintained
			1m other loses a process
			3m other is released
		`,
	},
	{
		name:  "everybody leaves for 20 minutes",
		lasts: 40 * time.Minute,
		script: `
			0s prometheus remembers people
			0s a sees people
			1m a sees nobody
			21m a sees people
		`,
		notifications: `
			13m0s chat: IRCUsersGone warning
			13m0s chat: XMPPSessionsGone warning
			28m0s chat: IRCUsersGone warning is over
			28m0s chat: XMPPSessionsGone warning is over
		`,
	},
	{
		name: "everybody leaves for 9 minutes", lasts: 15 * time.Minute,
		script: `
			0s prometheus remembers people
			0s a sees people
			1m a sees nobody
			10m a sees people
		`,
	},
	{
		name: "few people leave", lasts: 15 * time.Minute,
		script: `
			0s prometheus remembers few
			0s a sees nobody
		`,
	},
	{
		name: "everybody leaves, 2 hours after the installation", lasts: 15 * time.Minute,
		script: `
			0s prometheus remembers 2 hours
			0s a sees nobody
		`,
	},
	{
		name:  "a volume fills, until somebody makes room",
		lasts: 115 * time.Minute,
		script: `
			0s prometheus remembers a volume fill
			0s a sees the volume fill
			40m a sees room on the volume
		`,
		notifications: `
			32m0s chat: DataVolumeFilling warning
			1h42m0s chat: DataVolumeFilling warning is over
		`,
	},
	{
		name: "a volume was filled by one large file", lasts: 45 * time.Minute,
		script: `
			0s prometheus remembers a large file
			0s a sees the volume stand
		`,
	},
	{
		name:  "somebody tries passwords in bursts",
		lasts: 10 * time.Minute,
		script: `
			0s prometheus remembers failed logins
			1m a sees 120 failed logins
		`,
		notifications: `7m0s chat: XMPPAuthFailuresSustained warning`,
	},
	{
		name:  "a flood of logins is one message",
		lasts: 100 * time.Minute,
		script: `
			1m a sees a flood of logins
		`,
		notifications: `
			8m30s chat: XMPPAuthFailureRate warning
			23m30s chat: XMPPAuthFailureRate warning is over
		`,
	},
	{
		name: "somebody forgot a password", lasts: 10 * time.Minute,
		script: `
			0s prometheus remembers failed logins
			1m a sees 10 failed logins
		`,
	},
	{
		name: "logins fail at the XMPP server, which the exporter judges itself",
		exporters: []exporterSpec{{
			name:    "a",
			env:     "prod",
			targets: true,
			relay:   true,
			logins:  true,
		}},
		lasts: 40 * time.Minute,
		script: `
			2m logins fail
			9m a shows: xmpp_metrics XMPPAuthFailureRate critical
			20m logins succeed
		`,
		notifications: `
			8m15s page: XMPPAuthFailureRate critical
			9m0s chat: XMPPAuthFailureRate warning
			29m0s chat: XMPPAuthFailureRate warning is over
		`,
	},
}

// loginFaults happen to the XMPP server.
var loginFaults = []fault[*site]{chatFault("logins fail", "logins succeed", "xmpp", "auth_failures")}

// valueFaults are values that an exporter's page has.
var valueFaults = []fault[*exporter]{
	{
		"sees nobody",
		"sees people",
		func(_ *world, e *exporter) { e.sees = people(0) },
		func(_ *world, e *exporter) { e.sees = people(1) },
	},
	{
		"sees the volume fill",
		"sees room on the volume",
		func(_ *world, e *exporter) {
			e.sees = volume(0.7, 0.1/6)
		},
		func(_ *world, e *exporter) { e.sees = volume(0.3, 0) },
	},
	{
		"sees the volume stand",
		"",
		func(_ *world, e *exporter) { e.sees = volume(0.7, 0) },
		nil,
	},
	{
		"sees 120 failed logins",
		"",
		func(_ *world, e *exporter) { e.sees = failedLogins(120) },
		nil,
	},
	{
		"sees a flood of logins",
		"",
		func(_ *world, e *exporter) { e.sees = loginsFor(12*time.Minute, 600) },
		nil,
	},
	{
		"sees 10 failed logins",
		"",
		func(_ *world, e *exporter) { e.sees = failedLogins(10) },
		nil,
	},
	{
		"sees a certificate of 2 days",
		"",
		func(_ *world, e *exporter) { e.sees = expired(time.Now().Add(48 * time.Hour)) },
		nil,
	},
	{
		"sees that certificate and a full disk",
		"sees that certificate and no full disk",
		func(_ *world, e *exporter) {
			certificate := expired(time.Now().Add(47 * time.Hour))
			e.sees = func() string { return certificate() + "chatstack_volume_used_ratio{volume=\"web\"} 0.97\n" }
		},
		func(_ *world, e *exporter) { e.sees = expired(time.Now().Add(47 * time.Hour)) },
	},
}

func people(number int) func() string {
	return func() string {
		return fmt.Sprintf("chatstack_xmpp_sessions %d\nchatstack_irc_users %[1]d\n", number)
	}
}

// volume has a part of it used, and so much more of it each hour.
func volume(used, hourly float64) func() string {
	began := time.Now()
	return func() string {
		return fmt.Sprintf("chatstack_volume_used_ratio{volume=\"data\"} %g\n", used+hourly*time.Since(began).Hours())
	}
}

// failedLogins are so many within the next two minutes.
func failedLogins(number float64) func() string { return loginsFor(2*time.Minute, number) }

// loginsFor are so many failed logins within that time.
func loginsFor(burst time.Duration, number float64) func() string {
	began := time.Now()
	return func() string {
		return fmt.Sprintf("xmpp_c2s_auth_failure_total{host=\"chat.test\"} %g\n", number*min(1, float64(time.Since(began))/float64(burst)))
	}
}

// memories are what Prometheus has of the time before.
var memories = []fault[*server]{
	remembers("people", 12*time.Hour, map[string][2]float64{"chatstack:xmpp_sessions": {7, 7}, "chatstack:irc_users": {5, 5}}),
	remembers("few", 12*time.Hour, map[string][2]float64{"chatstack:xmpp_sessions": {4, 4}, "chatstack:irc_users": {4, 4}}),
	remembers("2 hours", 2*time.Hour, map[string][2]float64{"chatstack:xmpp_sessions": {7, 7}, "chatstack:irc_users": {7, 7}}),
	remembers("a volume fill", 6*time.Hour, map[string][2]float64{`chatstack:volume_used_ratio{volume="data"}`: {0.6, 0.7}}),
	remembers("failed logins", 50*time.Minute,
		map[string][2]float64{`chatstack:xmpp_auth_failures_per_minute{instance="a",job="chatstack_exporter"}`: {11, 11}}),
	{
		"remembers a large file",
		"",
		func(w *world, p *server) {
			w.forget()
			p.remember(w.T, 6*time.Hour, time.Hour, map[string][2]float64{`chatstack:volume_used_ratio{volume="data"}`: {0.2, 0.2}})
			p.remember(w.T, time.Hour, 0, map[string][2]float64{`chatstack:volume_used_ratio{volume="data"}`: {0.7, 0.7}})
		},
		nil,
	},
}

func remembers(what string, long time.Duration, lines map[string][2]float64) fault[*server] {
	return fault[*server]{
		"remembers " + what,
		"",
		func(w *world, p *server) {
			w.forget()
			p.remember(w.T, long, 0, lines)
		},
		nil,
	}
}

// span is a value that a series has for a time.
type span struct {
	value float64
	lasts time.Duration
}

// TestAlertsLookBackForADay asks the expressions of the alerts that look back for days, which promtool takes minutes for.
func TestAlertsLookBackForADay(t *testing.T) {
	const h, none = time.Hour, -1
	settings := alerts.Defaults()
	settings.Of("irc_servers_split").Enabled = true
	var shipped bytes.Buffer
	must(t, alerts.Write(&shipped, settings))
	exprs := map[string]string{}
	for _, m := range regexp.MustCompile(`- alert: (\w+)\n +expr: (.*)\n`).FindAllStringSubmatch(shipped.String(), -1) {
		exprs[m[1]] = m[2]
	}
	series := map[string]string{
		"XMPPSessionsGone": "chatstack:xmpp_sessions",
		"IRCUsersGone":     "chatstack:irc_users",
		"IRCServersSplit":  "chatstack:irc_servers",
	}
	gone := []string{"XMPPSessionsGone", "IRCUsersGone"}
	for _, c := range []struct {
		alerts []string
		spans  []span
		want   bool
	}{
		{gone, []span{{9, 12*h + time.Minute}, {0, 12*h - 3*time.Minute}}, true},
		{gone, []span{{9, 12*h - 3*time.Minute}, {0, 12*h + time.Minute}}, false},
		{gone, []span{{9, 3 * h}, {none, 20 * h}, {0, 15 * time.Minute}}, true},
		{gone, []span{{9, 3 * h}, {none, 24 * h}, {9, h}, {0, 15 * time.Minute}}, false},
		{gone, []span{{1, 14 * h}, {9, 11*h + 40*time.Minute}, {0, 15 * time.Minute}}, false},
		{gone, []span{{9, 23 * h}, {1, 13 * h}, {0, 15 * time.Minute}}, false},
		{[]string{"IRCServersSplit"}, []span{{3, 25 * h}, {2, time.Minute}}, true},
		{[]string{"IRCServersSplit"}, []span{{3, 23 * h}, {2, time.Minute}}, false},
		{[]string{"IRCServersSplit"}, []span{{3, 25 * h}, {2, 24*h - time.Minute}}, true},
		{[]string{"IRCServersSplit"}, []span{{3, 25 * h}, {2, 24*h + time.Minute}}, false},
		{[]string{"IRCServersSplit"}, []span{{2, h}, {3, 46 * h}, {2, time.Minute}}, false},
		{[]string{"IRCServersSplit"}, []span{{2, h}, {3, 49 * h}, {2, time.Minute}}, true},
		{[]string{"IRCServersSplit"}, []span{{3, 49 * h}}, false},
	} {
		for _, name := range c.alerts {
			t.Run(fmt.Sprintf("%s/%v", name, c.spans), func(t *testing.T) {
				p := newServer(t, nil)
				left := time.Duration(0)
				for _, s := range c.spans {
					left += s.lasts
				}
				for _, s := range c.spans {
					if s.value >= 0 {
						p.remember(t, left, left-s.lasts, map[string][2]float64{series[name]: {s.value, s.value}})
					}
					left -= s.lasts
				}
				query, err := p.engine.NewInstantQuery(t.Context(), p.db, promql.NewPrometheusQueryOpts(false, 0), exprs[name], p.now())
				must(t, err)
				defer query.Close()
				found, err := query.Exec(t.Context()).Vector()
				must(t, err)
				if got := len(found) == 1; got != c.want {
					t.Errorf("%s: got %v, want that it fires: %t", exprs[name], found, c.want)
				}
			})
		}
	}
}
