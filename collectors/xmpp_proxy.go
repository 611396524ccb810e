package collectors

import (
	"context"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// XMPPProxy is the block of the HTTPS proxy in front of the XMPP server.
type XMPPProxy struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
}

func newXMPPProxySettings() *XMPPProxy { return &XMPPProxy{} }

// Environ implements config.Settings.
func (s *XMPPProxy) Environ(e *config.Env) {
	e.Base("url", "XMPP_PROXY_URL", "/health", &s.URL)
	e.TLS("XMPP_PROXY", &s.TLS)
}

// xmppProxy requests GET /health. The proxy answers by itself, so this does not check the XMPP server behind it.
type xmppProxy struct{ http exchange.HTTP }

func newXMPPProxy(s *XMPPProxy, d Deps) (Collector, error) {
	s.URL = config.WithPath(s.URL, "/health")
	return &xmppProxy{d.http(s.HTTP)}, nil
}

// Collect implements Collector.
func (c *xmppProxy) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, nil)
	if err != nil {
		return err
	}
	return a.WantOK(http.MethodGet, c.http.Settings.URL, nil)
}
