package collectors

import "github.com/chatstack-exporter/chatstack_exporter/internal/config"

// XMPPProxy is the block of the HTTPS proxy in front of the XMPP server.
type XMPPProxy struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
}

// xmppProxyPath is where the proxy answers by itself by default.
const xmppProxyPath = "/health"

// Environ implements config.Settings.
func (s *XMPPProxy) Environ(e *config.Env) {
	e.String("url", "XMPP_PROXY_URL", &s.URL)
	e.TLS("XMPP_PROXY", &s.TLS)
}

// newXMPPProxy requests GET /health. The proxy answers by itself, so this does not check the XMPP server behind it.
func newXMPPProxy(s *XMPPProxy, d Deps) (Collector, error) {
	return &page{http: d.http(s.HTTP), defaultPath: xmppProxyPath}, nil
}
