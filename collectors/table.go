package collectors

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Kinds is the table of kinds, in the order of the documentation. A new service is one file and one row here.
var Kinds = []Kind{
	newKind(newXMPPStatusSettings, newXMPPStatus, httpReasons, config.Row{
		Name:     "xmpp_status",
		Alone:    true,
		Path:     xmppStatusPath,
		Programs: []string{"prosody"},
	}),
	newKind(newXMPPMetricsSettings, newXMPPMetrics, httpReasons, config.Row{
		Name:     "xmpp_metrics",
		Alone:    true,
		Path:     metricsPath,
		Programs: []string{"prosody"},
	}),
	newKind(newXMPPProxySettings, newXMPPProxy, httpReasons, config.Row{
		Name:        "xmpp_proxy",
		EachAddress: true,
		Path:        xmppProxyPath,
		Programs:    []string{"nginx", "caddy", "haproxy", "traefik", "apache"},
	}),
	newKind(newXMPPRestSettings, newXMPPRest, contentReasons, config.Row{
		Name:     "xmpp_rest",
		Programs: []string{"prosody"},
	}),
	newKind(newXMPPC2SSettings, newXMPPC2S, starttlsReasons, config.Row{
		Name:        "xmpp_c2s",
		EachAddress: true,
		Programs:    []string{"prosody", "ejabberd"},
	}),
	newKind(newIRCRPCSettings, newIRCRPC, rpcReasons, config.Row{
		Name:     "irc_rpc",
		Alone:    true,
		Path:     ircRPCPath,
		Programs: []string{"unrealircd"},
	}),
	newKind(newIRCTLSSettings, newIRCTLS, ircReasons, config.Row{
		Name:        "irc_tls",
		EachAddress: true,
		Interval:    ircInterval,
		OnlyFirst:   true,
		Programs:    []string{"unrealircd", "inspircd", "ngircd", "ergo", "ircd"},
	}),
	newKind(newIRCLoginSettings, newIRCLogin, loginReasons, config.Row{
		Name:      "irc_login",
		Interval:  ircInterval,
		OnlyFirst: true,
	}),
	newKind(newXMPPLoginSettings, newXMPPLogin, loginReasons, config.Row{
		Name: "xmpp_login",
	}),
	newKind(newRelaySettings, newRelay, relayReasons, config.Row{
		Name:      "relay",
		OnlyFirst: true,
	}),
	newKind(newIRCServicesSettings, newIRCServices, rpcReasons, config.Row{
		Name:     "irc_services",
		Path:     "/",
		Programs: []string{"atheme", "anope", "services"},
	}),
	newKind(newPlantStoreSettings, newPlantStore, contentReasons, config.Row{
		Name:     "plant_store",
		Alone:    true,
		Optional: true,
	}),
	newKind(newIdentitySettings, newIdentity, contentReasons, config.Row{
		Name:  "identity",
		Alone: true,
	}),
	newKind(newDocsSearchSettings, newDocsSearch, httpReasons, config.Row{
		Name:     "docs_search",
		Optional: true,
		Path:     docsSearchPath,
		Programs: []string{"docs"},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name:        "web_irc",
		EachAddress: true,
		Programs:    []string{"thelounge", "kiwiirc", "gamja"},
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name:        "web_panel",
		EachAddress: true,
		Optional:    true,
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name:        "log_viewer",
		EachAddress: true,
		Optional:    true,
	}),
	newKind(newWebSettings, newWeb, contentReasons, config.Row{
		Name:        "http",
		EachAddress: true,
		Programs:    []string{"nginx", "caddy", "haproxy", "traefik", "apache", "https", "website", "web"},
	}),
	newKind(newTCPSettings, newTCP, tcpReasons, config.Row{
		Name:        "tcp",
		EachAddress: true,
		Programs:    []string{"redis", "postgres", "postgresql", "mysql", "mariadb", "biboumi"},
	}),
	newKind(newOpenMetricsSettings, newOpenMetrics, httpReasons, config.Row{
		Name:     "openmetrics",
		Path:     metricsPath,
		Programs: []string{"prometheus", "metrics", "bridge"},
	}),
	newKind(newVolumeSettings, newVolume(newMeasurements(measureVolume)), volumeReasons, config.Row{
		Name:     "volume",
		Programs: []string{"disk"},
	}),
	newKind(newBackupSettings, newBackup(newMeasurements(newestFile)), backupReasons, config.Row{
		Name:     "backup",
		Optional: true,
	}),
	newKind(newTLSEndpointSettings, newTLSEndpoint, tlsReasons, config.Row{
		Name:        "tls",
		EachAddress: true,
		Programs:    []string{"certificate", "ssl"},
	}),
	newKind(newDockerSettings, newDocker, httpReasons, config.Row{
		Name:     "docker",
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

// newKind returns a row of the table for settings of type S.
func newKind[S config.Settings](defaults func() S, build func(S, Deps) (Collector, error), reasons []failure.Reason, row config.Row) Kind {
	withDefaults := func() config.Settings {
		s := defaults()
		s.Common().Page = !row.Optional
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
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
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

// Variables returns the environment variables that targets read, in the order of the kinds.
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
