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

// xmppProxyPath is where the proxy answers by itself by default.
const xmppProxyPath = "/health"

func newXMPPProxySettings() *XMPPProxy { return &XMPPProxy{} }

// Environ implements config.Settings.
func (s *XMPPProxy) Environ(e *config.Env) {
	e.String("url", "XMPP_PROXY_URL", &s.URL)
	e.TLS("XMPP_PROXY", &s.TLS)
}

// xmppProxy requests GET /health. The proxy answers by itself, so this does not check the XMPP server behind it.
type xmppProxy struct{ http exchange.HTTP }

func newXMPPProxy(s *XMPPProxy, d Deps) (Collector, error) {
	return &xmppProxy{d.http(s.HTTP)}, nil
}

// Collect implements Collector.
func (c *xmppProxy) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, nil)
	if err != nil {
		return err
	}
	url := c.http.Settings.URL
	return a.WantOK(http.MethodGet, url, hintsForPage("url", url, xmppProxyPath, ""))
}
