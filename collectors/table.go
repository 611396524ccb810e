package collectors

import (
	"cmp"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The roles of the containers behind targets.
var (
	roleXMPP        = config.Role{Name: "xmpp", Title: "XMPP server", Rank: 1, Core: true}
	roleXMPPProxy   = config.Role{Name: "xmpp_proxy", Title: "XMPP over HTTPS", Server: "xmpp", Rank: 5}
	roleIRC         = config.Role{Name: "irc", Title: "IRC server", Rank: 2, Core: true}
	roleIRCServices = config.Role{Name: "irc_services", Title: "IRC services", Rank: 3, Core: true}
	roleBridge      = config.Role{Name: "bridge", Title: "bridge", Rank: 4, Core: true}
	roleIdentity    = config.Role{Name: "identity", Title: "identity API", Rank: 6}
	roleWebIRC      = config.Role{Name: "web_irc", Title: "web IRC client", Rank: 7}
	roleWebPanel    = config.Role{Name: "web_panel", Title: "web panel"}
	roleDocs        = config.Role{Name: "docs", Title: "documentation"}
	rolePlantStore  = config.Role{Name: "plant_store", Title: "plant store", Rank: 8}
	roleLogViewer   = config.Role{Name: "log_viewer", Title: "log viewer"}
)

// Roles are the roles in the order in which init writes them.
var Roles = []config.Role{
	roleXMPP, roleXMPPProxy, roleIRC, roleIRCServices, roleBridge, roleIdentity, roleWebIRC, roleWebPanel, roleDocs, rolePlantStore, roleLogViewer,
}

// Kinds is the table of kinds, in the order of the documentation. A new service is one file and one row here.
var Kinds = []Kind{
	newKind(noDefaults[XMPPStatus], newXMPPStatus, httpReasons, config.Row{
		Name: "xmpp_status", Title: "XMPP server", Role: roleXMPP, Part: "status", ServesModules: true,
		Rank: 4,
		Path: xmppStatusPath, Alone: true,
		Side: sideXMPP, ShowsServer: true,
		Programs: []string{"prosody"},
		Init:     config.Endpoint{Port: 5280, URL: "http://%s" + xmppStatusPath, Sure: true},
	}),
	newKind(newXMPPMetricsSettings, newXMPPMetrics, httpReasons, config.Row{
		Name: "xmpp_metrics", Title: "XMPP server metrics", Role: roleXMPP, ServesPage: true,
		Path: metricsPath, Alone: true, Duty: statisticsDuty,
		ShowsServer: true, ValueAlerts: []string{health.AlertCertificateExpiry, health.AlertAuthFailureRate, health.AlertSessionsGone},
		Programs: []string{"prosody"},
		Init:     config.Endpoint{Port: 5280, URL: "http://%s" + metricsPath, Sure: true},
	}),
	newKind(noDefaults[XMPPProxy], newXMPPProxy, httpReasons, config.Row{
		Name: "xmpp_proxy", Title: "XMPP over HTTPS", Role: roleXMPPProxy,
		Loss: "Web clients cannot reach the XMPP server.", Rank: 9,
		Path: xmppProxyPath, EachAddress: true,
		Programs: []string{"nginx", "caddy", "haproxy", "traefik", "apache"},
		Init:     config.Endpoint{Port: 5281, URL: "https://%s" + xmppProxyPath, AnyPort: true, Sure: true, NamesRole: true},
	}),
	newKind(newXMPPRestSettings, newXMPPRest, contentReasons, config.Row{
		Name: "xmpp_rest", Title: "XMPP server REST API", Role: roleXMPP,
		ShowsServer: true,
		Programs:    []string{"prosody"},
	}),
	newKind(noDefaults[XMPPC2S], newXMPPC2S, starttlsReasons, config.Row{
		Name: "xmpp_c2s", Title: "XMPP server login port", Role: roleXMPP,
		Loss: "Nobody can log in to the XMPP server.", Rank: 1,
		EachAddress: true,
		Side:        sideXMPP, ShowsServer: true, Direct: true,
		Programs: []string{"prosody", "ejabberd"},
		Init:     config.Endpoint{Port: 5222, Sure: true, NamesRole: true, NeedsDomain: true},
	}),
	newKind(newIRCRPCSettings, newIRCRPC, rpcReasons, config.Row{
		Name: "irc_rpc", Title: "IRC server", Role: roleIRC, Part: "RPC",
		Rank: 7,
		Path: ircRPCPath, Alone: true,
		Side: sideIRC, ValueAlerts: []string{health.AlertCertificateExpiry, health.AlertUsersGone},
		Programs: []string{"unrealircd"},
		Init:     config.Endpoint{Port: 8600, URL: "https://%s" + ircRPCPath, Sure: true, NamesRole: true, Credentials: []string{"user (IRC_RPC_USER)", "password_file (IRC_RPC_PASSWORD)"}},
	}),
	newKind(noDefaults[IRCTLS], newIRCTLS, ircReasons, config.Row{
		Name: "irc_tls", Title: "IRC server TLS port", Role: roleIRC,
		Loss: "IRC clients cannot connect over TLS.", Rank: 5,
		EachAddress: true, Interval: ircInterval, LeastInterval: ircInterval, OnlyFirst: true, Duty: connectDuty,
		Side:     sideIRC,
		Programs: []string{"unrealircd", "inspircd", "ngircd", "ergo", "ircd"},
		Init:     config.Endpoint{Port: 6697, TLS: true, Sure: true, NamesRole: true},
	}),
	newKind(newIRCLoginSettings, newIRCLogin, loginReasons, config.Row{
		Name: "irc_login", Title: "IRC login", Role: roleIRC,
		Rank:     6,
		Steps:    true,
		Interval: ircInterval, OnlyFirst: true, Duty: connectDuty,
		Side: sideIRC,
	}),
	newKind(newXMPPLoginSettings, newXMPPLogin, loginReasons, config.Row{
		Name: "xmpp_login", Title: "XMPP login", Role: roleXMPP,
		Rank:  3,
		Steps: true,
		Side:  sideXMPP,
	}),
	newKind(newRelaySettings, newRelay, relayReasons, config.Row{
		Name: "relay", Title: "bridge between IRC and XMPP", Role: roleBridge, Relay: true,
		Loss: "Messages do not cross between IRC and XMPP.", Rank: 2,
		Steps: true, OnlyFirst: true, JoinTime: chat.MaxJoin, Duty: relayDuty,
	}),
	newKind(noDefaults[IRCServices], newIRCServices, rpcReasons, config.Row{
		Name: "irc_services", Title: "IRC services", Role: roleIRCServices,
		Loss: "Nobody can log in to an account on IRC.", Rank: 8,
		Path:     "/",
		Programs: []string{"atheme", "anope", "services"},
		Init:     config.Endpoint{Port: 8081, URL: "http://%s/", Beside: roleIRC.Name},
	}),
	newKind(newPlantStoreSettings, newPlantStore, contentReasons, config.Row{
		Name: "plant_store", Title: "plant store", Role: rolePlantStore,
		Loss: "The plant store does not answer.", Rank: 12,
		Steps: true, Alone: true, Optional: true, Duty: canaryDuty,
		Init: config.Endpoint{Port: 8000, URL: "http://%s", AnyPort: true, Credentials: []string{"token_file (PLANT_STORE_TOKEN)"}},
	}),
	newKind(newIdentitySettings, newIdentity, contentReasons, config.Row{
		Name: "identity", Title: "identity API", Role: roleIdentity,
		Loss: "The bridge cannot look up who somebody is.", Rank: 10,
		Alone: true, Retry: bridgeRetry,
		Init: config.Endpoint{Port: 3000, URL: "http://%s", AnyPort: true, Credentials: []string{"token_file (BRIDGE_IDENTITY_TOKEN)"}},
	}),
	newKind(newDocsSearchSettings, newDocsSearch, httpReasons, config.Row{
		Name: "docs_search", Title: "documentation search", Role: roleDocs,
		Path: docsSearchPath, Optional: true,
		Programs: []string{"docs"},
		Init:     config.Endpoint{Port: 3000, URL: "http://%s" + docsSearchPath, AnyPort: true},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name: "web_irc", Title: "web IRC client", Role: roleWebIRC,
		Loss: "The web IRC client does not open.", Rank: 11,
		EachAddress: true,
		Programs:    []string{"thelounge", "kiwiirc", "gamja"},
		Init:        config.Endpoint{Port: 9000, URL: "http://%s/", AnyPort: true},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name: "web_panel", Title: "web panel", Role: roleWebPanel,
		Optional: true, EachAddress: true,
		Init: config.Endpoint{Port: 8080, URL: "http://%s/", AnyPort: true},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name: "log_viewer", Title: "log viewer", Role: roleLogViewer,
		Optional: true, EachAddress: true,
		Init: config.Endpoint{Port: 8082, URL: "http://%s/", AnyPort: true},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name: "http", Title: "HTTP service",
		EachAddress: true,
		Programs:    []string{"nginx", "caddy", "haproxy", "traefik", "apache", "https", "website", "web"},
		Init:        config.Endpoint{Port: 80, URL: "http://%s/", AnyPort: true, Role: config.WebServer},
	}),
	newKind(noDefaults[TCP], newTCP, tcpReasons, config.Row{
		Name: "tcp", Title: "TCP service",
		EachAddress: true,
		Programs:    []string{"redis", "postgres", "postgresql", "mysql", "mariadb", "biboumi"},
	}),
	newKind(noDefaults[OpenMetrics], newOpenMetrics, httpReasons, config.Row{
		Name: "openmetrics", Title: "metrics endpoint", ServesPage: true,
		Path:     metricsPath,
		Programs: []string{"prometheus", "metrics", "bridge"},
	}),
	newKind(noDefaults[Volume], newVolume(newMeasurements(measureVolume)), volumeReasons, config.Row{
		Name: "volume", Title: "data volume", Local: true,
		ValueAlerts: []string{health.AlertVolumeUsage},
		Programs:    []string{"disk"},
	}),
	newKind(newBackupSettings, newBackup(newMeasurements(newestFile)), backupReasons, config.Row{
		Name: "backup", Title: "backup", Local: true,
		Optional: true,
	}),
	newKind(noDefaults[TLSEndpoint], newTLSEndpoint, tlsReasons, config.Row{
		Name: "tls", Title: "TLS certificate",
		EachAddress: true,
		Programs:    []string{"certificate", "ssl"},
	}),
	newKind(newDockerSettings, newDocker, httpReasons, config.Row{
		Name: "docker", Title: "Docker Engine", Engine: true, Local: true, Steps: true,
		Programs: []string{"container", "podman"},
	}),
}

// The reasons why probes can fail, by protocol.
var (
	connectReasons  = []failure.Reason{failure.DNS, failure.Refused, failure.Closed, failure.Timeout, failure.Throttled}
	tcpReasons      = slices.Concat(connectReasons, []failure.Reason{failure.Mismatch})
	starttlsReasons = slices.Concat(tcpReasons, []failure.Reason{failure.TLS, failure.NotFound, failure.Malformed, failure.TooLarge})
	ircReasons      = slices.Concat(tcpReasons, []failure.Reason{failure.TLS, failure.Malformed, failure.TooLarge})
	tlsReasons      = slices.Concat(starttlsReasons, []failure.Reason{failure.Forbidden}) // Forbidden: of certificate_file
	httpReasons     = slices.Concat(connectReasons, []failure.Reason{
		failure.TLS, failure.Unauthorized, failure.Forbidden, failure.NotFound, failure.HTTPStatus, failure.Malformed, failure.TooLarge,
	})
	contentReasons = slices.Concat(httpReasons, []failure.Reason{failure.Mismatch})
	rpcReasons     = slices.Concat(contentReasons, []failure.Reason{failure.RPCError})
	loginReasons   = slices.Concat(tlsReasons, []failure.Reason{failure.Unauthorized})
	relayReasons   = slices.Concat(loginReasons, []failure.Reason{failure.NotDelivered})
	backupReasons  = []failure.Reason{failure.Closed, failure.Timeout, failure.Forbidden, failure.NotFound}
	volumeReasons  = slices.Concat(backupReasons, []failure.Reason{failure.Mismatch})
)

// noDefaults makes the settings of a kind whose keys have no defaults.
func noDefaults[T any]() *T { return new(T) }

// newKind returns a row of the table for settings of type S.
func newKind[S config.Settings](defaults func() S, build func(S, Deps) (Collector, error), reasons []failure.Reason, row config.Row) Kind {
	withDefaults := func() config.Settings {
		s := defaults()
		common := s.Common()
		common.Page, common.Slow = !row.Optional, cmp.Or(common.Slow, config.UsualSlow)
		return s
	}
	return Kind{
		Reasons: reasons,
		Kind:    config.Kind{Row: row, Defaults: withDefaults},
		New: func(s config.Settings, d Deps) (Collector, error) {
			own, ok := s.(S)
			if !ok {
				return nil, failure.Errorf(failure.Internal, "settings of kind %s are a %T", row.Name, s)
			}
			return build(own, d)
		},
	}
}

// KindOf finds an entry of the table.
func KindOf(name string) (Kind, bool) {
	for i := range Kinds { // a row is large
		if Kinds[i].Name == name {
			return Kinds[i], true
		}
	}
	return Kind{}, false
}

// ConfigKinds returns the table for internal/config.
func ConfigKinds() []config.Kind {
	kinds := make([]config.Kind, len(Kinds))
	for i, k := range Kinds {
		kinds[i] = k.Kind
	}
	return kinds
}

// Variables returns the environment variables that a configuration reads: those of targets in the order of the kinds, then the others.
func Variables() []string {
	var names []string
	//nolint:errcheck // without targets, nothing is loaded
	config.Load(config.Source{Kinds: ConfigKinds(), Lookup: func(name string) (string, bool) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return "", false
	}})
	return names
}
