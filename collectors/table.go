package collectors

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Kinds is the table of kinds, in the order in which people read of them. A new service is one file and one line here.
var Kinds = []Kind{
	kind("xmpp_status", newXMPPStatusSettings, newXMPPStatus),
	kind("xmpp_metrics", newXMPPMetricsSettings, newXMPPMetrics),
	kind("xmpp_proxy", newXMPPProxySettings, newXMPPProxy),
	kind("xmpp_rest", newXMPPRestSettings, newXMPPRest),
	kind("xmpp_c2s", newXMPPC2SSettings, newXMPPC2S),
	kind("irc_rpc", newIRCRPCSettings, newIRCRPC),
	kind("irc_tls", newIRCTLSSettings, newIRCTLS),
	kind("irc_services", newIRCServicesSettings, newIRCServices),
	kind("plant_store", newPlantStoreSettings, newPlantStore),
	kind("identity", newIdentitySettings, newIdentity),
	kind("docs_search", newDocsSearchSettings, newDocsSearch),
	kind("web_irc", newWebSettings, newWeb),
	kind("web_panel", newWebSettings, newWeb),
	kind("log_viewer", newWebSettings, newWeb),
	kind("http", newWebSettings, newWeb),
	kind("tcp", newTCPSettings, newTCP),
	kind("openmetrics", newOpenMetricsSettings, newOpenMetrics),
	kind("volume", newVolumeSettings, newMeasurements(measureVolume).collector),
	kind("tls", newTLSEndpointSettings, newTLSEndpoint),
	kind("docker", newDockerSettings, newDocker),
}

// kind makes an entry of the table, so that a collector is made of settings of its own type.
func kind[S config.Settings](name string, defaults func() S, build func(S, Deps) (Collector, error)) Kind {
	return Kind{
		Kind: config.Kind{Name: name, Defaults: func() config.Settings { return defaults() }},
		New: func(s config.Settings, d Deps) (Collector, error) {
			own, ok := s.(S)
			if !ok {
				return nil, Failf(Internal, "settings of kind %s are a %T", name, s)
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
