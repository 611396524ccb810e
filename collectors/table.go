package collectors

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Kinds is the table of kinds, in the order of the documentation. A new service is one file and one line here.
var Kinds = []Kind{
	newKind("xmpp_status", newXMPPStatusSettings, newXMPPStatus, httpReasons, "prosody"),
	newKind("xmpp_metrics", newXMPPMetricsSettings, newXMPPMetrics, httpReasons, "prosody"),
	eachAddress(newKind("xmpp_proxy", newXMPPProxySettings, newXMPPProxy, httpReasons, "nginx", "caddy", "haproxy", "traefik", "apache")),
	newKind("xmpp_rest", newXMPPRestSettings, newXMPPRest, contentReasons, "prosody"),
	eachAddress(newKind("xmpp_c2s", newXMPPC2SSettings, newXMPPC2S, starttlsReasons, "prosody", "ejabberd")),
	newKind("irc_rpc", newIRCRPCSettings, newIRCRPC, rpcReasons, "unrealircd"),
	eachAddress(newKind("irc_tls", newIRCTLSSettings, newIRCTLS, ircReasons, "unrealircd", "inspircd", "ngircd", "ergo", "ircd")),
	newKind("irc_login", newIRCLoginSettings, newIRCLogin, loginReasons),
	newKind("xmpp_login", newXMPPLoginSettings, newXMPPLogin, loginReasons),
	newKind("relay", newRelaySettings, newRelay, relayReasons),
	newKind("irc_services", newIRCServicesSettings, newIRCServices, rpcReasons, "atheme", "anope", "services"),
	newKind("plant_store", newPlantStoreSettings, newPlantStore, contentReasons),
	newKind("identity", newIdentitySettings, newIdentity, contentReasons),
	newKind("docs_search", newDocsSearchSettings, newDocsSearch, httpReasons, "docs"),
	eachAddress(newKind("web_irc", newWebSettings, newWeb, contentReasons, "thelounge", "kiwiirc", "gamja")),
	eachAddress(newKind("web_panel", newWebSettings, newWeb, contentReasons)),
	eachAddress(newKind("log_viewer", newWebSettings, newWeb, contentReasons)),
	eachAddress(newKind("http", newWebSettings, newWeb, contentReasons, "nginx", "caddy", "haproxy", "traefik", "apache", "https", "website", "web")),
	eachAddress(newKind("tcp", newTCPSettings, newTCP, tcpReasons, "redis", "postgres", "postgresql", "mysql", "mariadb", "biboumi")),
	newKind("openmetrics", newOpenMetricsSettings, newOpenMetrics, httpReasons, "prometheus", "metrics", "bridge"),
	newKind("volume", newVolumeSettings, newVolume(newMeasurements(measureVolume)), volumeReasons, "disk"),
	newKind("backup", newBackupSettings, newBackup(newMeasurements(newestFile)), backupReasons),
	eachAddress(newKind("tls", newTLSEndpointSettings, newTLSEndpoint, tlsReasons, "certificate", "ssl")),
	newKind("docker", newDockerSettings, newDocker, httpReasons, "container", "podman"),
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

// optionalKinds are the kinds whose targets have page: false by default: a chat stack works without them.
var optionalKinds = []string{"docs_search", "log_viewer", "web_panel", "plant_store", "backup"}

// newKind returns an entry of the table for settings of type S. programs are the programs that the kind supports: if somebody
// writes "kind: prosody", the error names the kinds to use.
func newKind[S config.Settings](name string, defaults func() S, build func(S, Deps) (Collector, error), reasons []failure.Reason, programs ...string) Kind {
	withDefaults := func() config.Settings {
		s := defaults()
		s.Common().Page = !slices.Contains(optionalKinds, name)
		return s
	}
	return Kind{
		Reasons: reasons,
		Kind:    config.Kind{Name: name, Defaults: withDefaults, Programs: programs},
		New: func(s config.Settings, d Deps) (Collector, error) {
			own, ok := s.(S)
			if !ok {
				return nil, failure.Errorf(failure.Internal, "settings of kind %s are a %T", name, s)
			}
			return build(own, d)
		},
	}
}

// eachAddress allows addresses: all for a kind.
func eachAddress(k Kind) Kind {
	k.EachAddress = true
	return k
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
