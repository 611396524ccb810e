package story

import (
	"fmt"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// bridgeTargets are the check of the bridge, and both of its servers.
func (s *site) bridgeTargets() string {
	c := s.chat
	return fmt.Sprintf(`
  - {kind: xmpp_status, url: "%[1]sstatus"}
  - {kind: xmpp_c2s, address: %[2]q, domain: %[3]s, ca_file: %[4]q}
  - {kind: irc_tls, address: %[5]q, ca_file: %[4]q, schedule: "@every 1m"}
  - kind: relay
    name: crossing
    irc: {address: %[5]q, user: %[6]s, password: %[7]q, channel: %[8]q, ca_file: %[4]q}
    xmpp: {address: %[2]q, user: %[6]s@%[3]s, password: %[7]q, room: %[9]q, ca_file: %[4]q}
`, c.URL("xmpp"), c.XMPPClientAddress(), simstack.XMPPDomain, c.CAFile(), c.IRCAddress(), simstack.RelayUser, simstack.RelayPassword,
		simstack.RelayChannel, simstack.RelayRoom)
}

// followBridge has the bridge relay while it does not hang and its container runs.
func (s *site) followBridge() {
	if s.chat == nil {
		return
	}
	if err := s.chat.Switch("bridge", "frozen", s.frozen || s.services["bridge"].ended.Load()); err != nil {
		panic(err) // there is no such fault
	}
}

// chatFault makes a fault of a simulated service.
func chatFault(begins, ends, service, name string) fault[*site] {
	turn := func(on bool) func(*world, *site) {
		return func(w *world, s *site) { must(w.T, s.chat.Switch(service, name, on)) }
	}
	return fault[*site]{
		begins,
		ends,
		turn(true),
		turn(false),
	}
}

func freeze(on bool) func(*world, *site) {
	return func(_ *world, s *site) {
		s.frozen = on
		s.followBridge()
	}
}

// stopXMPP stops the XMPP server for clients, with its status.
func stopXMPP(on bool) func(*world, *site) {
	return func(w *world, s *site) {
		must(w.T, s.chat.Switch("xmpp", "stopped", on))
		must(w.T, s.chat.Switch("xmpp_c2s", "stopped", on))
	}
}

// relayFaults happen to a bridge, its servers, and the check of it.
var relayFaults = []fault[*site]{
	{
		"bridge hangs",
		"bridge relays",
		freeze(true),
		freeze(false),
	},
	chatFault("bridge drops each third message", "bridge drops nothing", "bridge", "drops_third"),
	chatFault("bridge relays to IRC only", "bridge relays both ways", "bridge", "only_to_irc"),
	chatFault("bridge is slow", "bridge is fast", "bridge", "late"),
	chatFault("bridge says everything twice", "bridge says everything once", "bridge", "twice"),
	chatFault("check is kicked", "", "bridge", "kicked"),
	chatFault("check is banned", "check is not banned", "bridge", "banned"),
	chatFault("check is throttled", "check is not throttled", "bridge", "throttled"),
	chatFault("check has an old password", "check has its password", "bridge", "wrong_password"),
	chatFault("component is disconnected", "component is connected", "xmpp", "component_disconnected"),
	chatFault("ircd stops", "ircd starts", "irc_tls", "stopped"),
	{
		"prosody stops",
		"prosody starts",
		stopXMPP(true),
		stopXMPP(false),
	},
}

// expire has the servers of both sides serve one certificate that has expired.
func expire(on bool) func(*world, *site) {
	return func(w *world, s *site) {
		must(w.T, s.chat.Switch("irc_tls", "expired_certificate", on))
		must(w.T, s.chat.Switch("xmpp_c2s", "expired_certificate", on))
	}
}

// certificateFaults happen to the certificate of both servers.
var certificateFaults = []fault[*site]{{
	"certificate expires",
	"certificate is renewed",
	expire(true),
	expire(false),
}}

var bridgedKeeping = []exporterSpec{{
	name:       "a",
	env:        "prod",
	targets:    true,
	containers: true,
	relay:      true,
	saves:      true,
}}

var bridged = []exporterSpec{{
	name:       "a",
	env:        "prod",
	targets:    true,
	containers: true,
	relay:      true,
}}

// relayScenarios are about a bridge whose relaying is checked.
var relayScenarios = []scenario{
	{
		name:      "a certificate expires that two servers serve: one message",
		exporters: bridged,
		lasts:     60 * time.Minute,
		script: `
			1m certificate expires
			20m a shows: irc_tls TLSCertificateExpiry pending, certificate of xmpp_c2s; irc_tls TargetDown pending, certificate of xmpp_c2s; xmpp_c2s TLSCertificateExpiry critical; xmpp_c2s TargetDown pending, certificate of xmpp_c2s
			25m certificate is renewed
		`,
		notifications: `
			2m45s page: TLSCertificateExpiry critical xmpp_c2s xmpp_c2s
			3m30s chat: TLSCertificateExpiry warning xmpp_c2s xmpp_c2s
			43m30s chat: TLSCertificateExpiry warning xmpp_c2s xmpp_c2s is over
		`,
	},
	{
		name:      "a certificate expires, and a token is rejected at the same time: two causes",
		exporters: bridged,
		lasts:     20 * time.Minute,
		script: `
			1m certificate expires
			1m api refuses
		`,
		notifications: `
			2m45s page: TLSCertificateExpiry critical xmpp_c2s xmpp_c2s
			3m30s chat: TLSCertificateExpiry warning xmpp_c2s xmpp_c2s
			5m30s chat: TargetDown warning api
			7m45s page: TargetDown critical api
		`,
	},
	{
		name:      "the exporter restarts while the bridge hangs",
		exporters: bridgedKeeping,
		lasts:     30 * time.Minute,
		script: `
			1m bridge hangs
			9m a shows: crossing BridgeNotRelaying critical
			10m a restarts
			10m40s a shows: crossing BridgeNotRelaying critical; crossing RelayUnwatched pending
			20m bridge relays
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			24m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over; BridgeNotRelaying critical crossing xmpp to irc is over
		`,
	},
	{
		name:      "the exporter restarts while the bridge relays one way only",
		exporters: bridgedKeeping,
		lasts:     30 * time.Minute,
		script: `
			1m bridge relays to IRC only
			9m a shows: crossing BridgeNotRelaying critical
			10m a restarts
			10m40s a shows: crossing BridgeNotRelaying critical; crossing RelayUnwatched pending
			20m bridge relays both ways
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp
			24m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over
		`,
	},
	{
		name: "half an hour in which the bridge relays", exporters: bridged, lasts: 30 * time.Minute,
	},
	{
		name:      "the bridge hangs for 10 minutes: one page",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m bridge hangs
			9m a shows: crossing BridgeNotRelaying critical
			11m bridge relays
			12m a shows:
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			14m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over; BridgeNotRelaying critical crossing xmpp to irc is over
		`,
	},
	{
		name:      "the bridge hangs for 2 hours: one page, no unstable target, and no slow bridge afterwards",
		exporters: bridged,
		lasts:     3 * time.Hour,
		script: `
			1m bridge hangs
			2h a shows: crossing BridgeNotRelaying critical
			121m bridge relays
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			2h4m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over; BridgeNotRelaying critical crossing xmpp to irc is over
		`,
	},
	{
		name:      "the bridge's container stops: a page of the container only",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m bridge stops
			1m component is disconnected
			10m a shows: bridge ContainerDown critical; crossing BridgeNotRelaying pending, container of bridge; xmpp_status XMPPComponentDisconnected pending, container of bridge
			11m bridge starts
			11m component is connected
		`,
		notifications: `
			4m0s chat: ContainerDown warning bridge
			7m15s page: ContainerDown critical bridge
			14m0s chat: ContainerDown warning bridge is over
		`,
	},
	{
		name:      "the bridge loses its connection to the XMPP server: one page",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m bridge hangs
			1m component is disconnected
			15m a shows: crossing BridgeNotRelaying critical; xmpp_status XMPPComponentDisconnected pending, dependency of crossing
			16m bridge relays
			16m component is connected
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp; BridgeNotRelaying critical crossing xmpp to irc
			19m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over; BridgeNotRelaying critical crossing xmpp to irc is over
		`,
	},
	{
		name:      "the bridge relays to IRC only",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m bridge relays to IRC only
			11m bridge relays both ways
		`,
		notifications: `
			3m45s page: BridgeNotRelaying critical crossing irc to xmpp
			4m30s chat: BridgeNotRelaying critical crossing irc to xmpp
			14m30s chat: BridgeNotRelaying critical crossing irc to xmpp is over
		`,
	},
	{
		// One message in three each way is lost, so two of three checks fail.
		name:      "the bridge drops one message in three for 2 hours: it is unstable",
		exporters: bridged,
		lasts:     150 * time.Minute,
		script: `
			1m bridge drops each third message
			2h1m bridge drops nothing
		`,
		notifications: `
			12m30s chat: TargetUnstable warning crossing
			2h22m30s chat: TargetUnstable warning crossing is over
		`,
	},
	{
		name:      "the bridge takes 7 s for each message for 40 minutes",
		exporters: bridged,
		lasts:     100 * time.Minute,
		script: `
			1m bridge is slow
			41m bridge is fast
		`,
		notifications: `
			10m30s chat: BridgeSlow warning crossing irc to xmpp; BridgeSlow warning crossing xmpp to irc
			1h30m30s chat: BridgeSlow warning crossing irc to xmpp is over; BridgeSlow warning crossing xmpp to irc is over
		`,
	},
	{
		name:      "the bridge says everything twice for 10 minutes",
		exporters: bridged,
		lasts:     40 * time.Minute,
		script: `
			1m bridge says everything twice
			11m bridge says everything once
		`,
		notifications: `
			3m30s chat: BridgeDuplicates warning crossing irc to xmpp; BridgeDuplicates warning crossing xmpp to irc
			28m30s chat: BridgeDuplicates warning crossing irc to xmpp is over; BridgeDuplicates warning crossing xmpp to irc is over
		`,
	},
	{
		name:      "the IRC server stops: no word about the bridge",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m ircd stops
			11m ircd starts
		`,
		notifications: `
			5m30s chat: TargetDown warning irc_tls
			7m45s page: TargetDown critical irc_tls
			15m30s chat: TargetDown warning irc_tls is over
		`,
	},
	{
		name:      "the XMPP server stops: no word about the bridge",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m prosody stops
			11m prosody starts
		`,
		notifications: `
			5m30s chat: TargetDown warning xmpp_c2s; TargetDown warning xmpp_status
			7m45s page: TargetDown critical xmpp_c2s; TargetDown critical xmpp_status
			15m30s chat: TargetDown warning xmpp_c2s is over; TargetDown warning xmpp_status is over
		`,
	},
	{
		name:      "the check is banned for 10 minutes",
		exporters: bridged,
		lasts:     30 * time.Minute,
		script: `
			1m check is banned
			10m a shows: crossing RelaySessionDown warning; crossing RelayUnwatched pending, dependency of crossing
			11m check is not banned
		`,
		notifications: `
			8m30s chat: RelaySessionDown warning crossing irc; RelaySessionDown warning crossing xmpp
			18m30s chat: RelaySessionDown warning crossing irc is over; RelaySessionDown warning crossing xmpp is over
		`,
	},
	{
		name:      "the check is kicked once, and joins again",
		exporters: bridged,
		lasts:     15 * time.Minute,
		script: `
			1m check is kicked
		`,
	},
}
