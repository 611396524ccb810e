package collectors

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Kinds is the table of kinds, in the order in which people read of them. A new service is one file and one line here.
var Kinds = []Kind{
	newKind("xmpp_status", newXMPPStatusSettings, newXMPPStatus, "prosody"),
	newKind("xmpp_metrics", newXMPPMetricsSettings, newXMPPMetrics, "prosody"),
	newKind("xmpp_proxy", newXMPPProxySettings, newXMPPProxy, "nginx", "caddy", "haproxy", "traefik", "apache"),
	newKind("xmpp_rest", newXMPPRestSettings, newXMPPRest, "prosody"),
	newKind("xmpp_c2s", newXMPPC2SSettings, newXMPPC2S, "prosody", "ejabberd"),
	newKind("irc_rpc", newIRCRPCSettings, newIRCRPC, "unrealircd"),
	newKind("irc_tls", newIRCTLSSettings, newIRCTLS, "unrealircd", "inspircd", "ngircd", "ergo", "ircd"),
	newKind("irc_services", newIRCServicesSettings, newIRCServices, "atheme", "anope", "services"),
	newKind("plant_store", newPlantStoreSettings, newPlantStore),
	newKind("identity", newIdentitySettings, newIdentity),
	newKind("docs_search", newDocsSearchSettings, newDocsSearch, "docs"),
	newKind("web_irc", newWebSettings, newWeb, "thelounge", "kiwiirc", "gamja"),
	newKind("web_panel", newWebSettings, newWeb),
	newKind("log_viewer", newWebSettings, newWeb),
	newKind("http", newWebSettings, newWeb, "nginx", "caddy", "haproxy", "traefik", "apache", "https", "website", "web"),
	newKind("tcp", newTCPSettings, newTCP, "redis", "postgres", "postgresql", "mysql", "mariadb", "biboumi"),
	newKind("openmetrics", newOpenMetricsSettings, newOpenMetrics, "prometheus", "metrics", "bridge"),
	newKind("volume", newVolumeSettings, newMeasurements(measureVolume).collector, "disk"),
	newKind("tls", newTLSEndpointSettings, newTLSEndpoint, "certificate", "ssl"),
	newKind("docker", newDockerSettings, newDocker, "container", "podman"),
}

// newKind makes an entry of the table, so that a collector is made of settings of its own type. Watches are the programs that
// it is made for, as people may call the kind.
func newKind[S config.Settings](name string, defaults func() S, build func(S, Deps) (Collector, error), watches ...string) Kind {
	return Kind{
		Kind: config.Kind{Name: name, Defaults: func() config.Settings { return defaults() }, Watches: watches},
		New: func(s config.Settings, d Deps) (Collector, error) {
			own, ok := s.(S)
			if !ok {
				return nil, failure.Errorf(failure.Internal, "settings of kind %s are a %T", name, s)
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

// ConfigKinds is the table as the configuration's reader wants it.
func ConfigKinds() []config.Kind {
	kinds := make([]config.Kind, len(Kinds))
	for i, k := range Kinds {
		kinds[i] = k.Kind
	}
	return kinds
}
