package collectors

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Kinds is the table of kinds, in the order of the documentation. A new service is one file and one line here.
var Kinds = []Kind{
	newKind("xmpp_status", newXMPPStatusSettings, newXMPPStatus, ofHTTP, "prosody"),
	newKind("xmpp_metrics", newXMPPMetricsSettings, newXMPPMetrics, ofHTTP, "prosody"),
	newKind("xmpp_proxy", newXMPPProxySettings, newXMPPProxy, ofHTTP, "nginx", "caddy", "haproxy", "traefik", "apache"),
	newKind("xmpp_rest", newXMPPRestSettings, newXMPPRest, ofContent, "prosody"),
	newKind("xmpp_c2s", newXMPPC2SSettings, newXMPPC2S, ofStream, "prosody", "ejabberd"),
	newKind("irc_rpc", newIRCRPCSettings, newIRCRPC, ofRPC, "unrealircd"),
	newKind("irc_tls", newIRCTLSSettings, newIRCTLS, ofIRC, "unrealircd", "inspircd", "ngircd", "ergo", "ircd"),
	newKind("irc_services", newIRCServicesSettings, newIRCServices, ofRPC, "atheme", "anope", "services"),
	newKind("plant_store", newPlantStoreSettings, newPlantStore, ofContent),
	newKind("identity", newIdentitySettings, newIdentity, ofContent),
	newKind("docs_search", newDocsSearchSettings, newDocsSearch, ofHTTP, "docs"),
	newKind("web_irc", newWebSettings, newWeb, ofContent, "thelounge", "kiwiirc", "gamja"),
	newKind("web_panel", newWebSettings, newWeb, ofContent),
	newKind("log_viewer", newWebSettings, newWeb, ofContent),
	newKind("http", newWebSettings, newWeb, ofContent, "nginx", "caddy", "haproxy", "traefik", "apache", "https", "website", "web"),
	newKind("tcp", newTCPSettings, newTCP, ofTCP, "redis", "postgres", "postgresql", "mysql", "mariadb", "biboumi"),
	newKind("openmetrics", newOpenMetricsSettings, newOpenMetrics, ofHTTP, "prometheus", "metrics", "bridge"),
	newKind("volume", newVolumeSettings, newMeasurements(measureVolume).collector, ofVolume, "disk"),
	newKind("tls", newTLSEndpointSettings, newTLSEndpoint, ofTLSPort, "certificate", "ssl"),
	newKind("docker", newDockerSettings, newDocker, ofHTTP, "container", "podman"),
}

// The reasons why probes can fail, by protocol.
var (
	ofConnecting = []failure.Reason{failure.DNS, failure.Refused, failure.Closed, failure.Timeout}
	ofTCP        = slices.Concat(ofConnecting, []failure.Reason{failure.Mismatch})
	ofStream     = slices.Concat(ofTCP, []failure.Reason{failure.TLS, failure.NotFound, failure.Malformed, failure.TooLarge})
	ofIRC        = slices.Concat(ofTCP, []failure.Reason{failure.TLS, failure.Malformed, failure.TooLarge, failure.Throttled})
	ofTLSPort    = slices.Concat(ofStream, []failure.Reason{failure.Forbidden, failure.Throttled}) // Forbidden: of certificate_file
	ofHTTP       = slices.Concat(ofConnecting, []failure.Reason{
		failure.TLS, failure.Unauthorized, failure.Forbidden, failure.NotFound, failure.HTTPStatus, failure.Malformed, failure.TooLarge,
	})
	ofContent = slices.Concat(ofHTTP, []failure.Reason{failure.Mismatch})
	ofRPC     = slices.Concat(ofContent, []failure.Reason{failure.RPCError})
	ofVolume  = []failure.Reason{failure.Closed, failure.Timeout, failure.Forbidden, failure.NotFound, failure.Mismatch}
)

// warnOnly are the kinds whose targets do not page by default: a chat stack works without them.
var warnOnly = []string{"docs_search", "log_viewer", "web_panel", "plant_store"}

// newKind returns an entry of the table for settings of type S. watches are the programs that the kind is for, which people
// may write by mistake in place of the kind.
func newKind[S config.Settings](name string, defaults func() S, build func(S, Deps) (Collector, error), reasons []failure.Reason, watches ...string) Kind {
	withDefaults := func() config.Settings {
		s := defaults()
		s.Common().Page = !slices.Contains(warnOnly, name)
		return s
	}
	return Kind{
		Reasons: reasons,
		Kind:    config.Kind{Name: name, Defaults: withDefaults, Watches: watches},
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

// ConfigKinds returns the table for internal/config.
func ConfigKinds() []config.Kind {
	kinds := make([]config.Kind, len(Kinds))
	for i, k := range Kinds {
		kinds[i] = k.Kind
	}
	return kinds
}
