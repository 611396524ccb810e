package app

import (
	"io"
	"strings"
	"testing"
)

// TestTargetsThatDisturbEachOtherAreWarnedOf has sessions that count as users, and probes that a server throttles together.
func TestTargetsThatDisturbEachOtherAreWarnedOf(t *testing.T) {
	const counters = "  - {kind: irc_rpc, url: 'https://irc.test/api', user: a, password: long-password}\n" +
		"  - {kind: xmpp_metrics, url: 'http://xmpp.test/metrics'}\n"
	const login, client = "  - {kind: irc_login, address: 'irc.test:6697'}\n",
		"  - {kind: xmpp_login, user: a@chat.test, password: long-password}\n"
	const relay = "  - " +
		"{kind: relay, irc: {address: irc.test, channel: '#a'}, xmpp: {user: a@chat.test, password: long-password, room: a@rooms.test}}\n"
	for name, tt := range map[string]struct {
		text string
		want []string // in the texts of the warnings
	}{
		"sessions are users": {
			"targets:\n" + counters + relay,
			[]string{"so that IRCUsersGone never fires; set alerts.irc_users_gone.bots", "so that XMPPSessionsGone never fires"},
		},
		"they are accounted for": {
			"alerts: {irc_users_gone: {bots: 1}, xmpp_sessions_gone: {bots: 1}}\ntargets:\n" + counters + relay,
			nil,
		},
		"the alerts are off": {
			"alerts: {irc_users_gone: {typical: 0}, xmpp_sessions_gone: {typical: 0}}\ntargets:\n" + counters + relay,
			nil,
		},
		"public and not there": {
			"targets:\n" + client + "public: {listen_address: '127.0.0.1:1', services: [{name: XMPP, targets: [xmpp_c2s]}]}\n",
			[]string{"the public service XMPP has this target, which is not configured"},
		},
		"short secret": {
			"targets:\n" + strings.Replace(client, "long-password", "sesame7", 1),
			[]string{"password: shorter than 8 bytes"},
		},
		"nobody counts":        {"targets:\n" + relay, nil},
		"a login is soon over": {"targets:\n" + counters + login + client, nil},
		"two probes of a server": {
			"poll: {interval: 30s}\ntargets:\n" + login + "  - {kind: irc_tls, address: 'irc.test:6697'}\n",
			[]string{"with irc_tls it connects more than 3 times in 60 s"},
		},
		"of a local server": {
			"poll: {interval: 30s}\ntargets:\n  - {kind: irc_login, address: 'localhost:6697'}\n" +
				"  - {kind: irc_tls, address: 'localhost:6697'}\n",
			nil,
		},
		"of two servers": {"poll: {interval: 30s}\ntargets:\n" + login + "  - {kind: irc_tls, address: 'other.test:6697'}\n", nil},
		"not so often":   {"poll: {interval: 60s}\ntargets:\n" + login + "  - {kind: irc_tls, address: 'irc.test:6697'}\n", nil},
		"by a schedule": {
			"poll: {interval: 30s}\ntargets:\n" + strings.Replace(login, "}", ", schedule: '@every 1m'}", 1) +
				"  - {kind: irc_tls, address: 'irc.test:6697', schedule: '@every 1m'}\n",
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := LoadConfig(options(nil, io.Discard).with(tt.text))
			must(t, err)
			got := Warnings(cfg)
			for i, w := range got {
				if i >= len(tt.want) || !strings.Contains(w.Text, tt.want[i]) {
					t.Errorf("unexpected: %s: %s", w.Target, w.Text)
				}
			}
			if len(got) < len(tt.want) {
				t.Errorf("got %d warnings, want %q", len(got), tt.want)
			}
		})
	}
}
