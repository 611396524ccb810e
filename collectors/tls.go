package collectors

import (
	"cmp"
	"context"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// Endpoint is where a server without a URL is.
type Endpoint struct {
	// Address is host:port. For some kinds it may lack the port.
	Address string `yaml:"address"`
}

// HostName implements config.Settings for the kinds that embed Endpoint.
func (e *Endpoint) HostName() string { return config.HostOf(e.Address) }

// Place implements config.Settings for the kinds that embed Endpoint.
func (e *Endpoint) Place() string { return e.Address }

// Configured implements config.Settings for the kinds that embed Endpoint.
func (e *Endpoint) Configured() bool { return e.Address != "" }

// TLSEndpoint is the block of a server whose certificate alone is checked.
type TLSEndpoint struct {
	config.Target `yaml:",inline"`
	Endpoint      `yaml:",inline"` // without an address, only certificate_file is checked
	// StartTLS is how TLS begins: at once (""), or in an XMPP stream ("xmpp-client", "xmpp-server").
	StartTLS string `yaml:"starttls"`
	// Domain is the virtual host for the XMPP stream and, unless server_name is set, for SNI and verification.
	Domain            string `yaml:"domain"`
	config.Connection `yaml:",inline"`
	config.TLS        `yaml:",inline"`
}

// Place implements config.Settings.
func (s *TLSEndpoint) Place() string { return cmp.Or(s.Address, s.CertificateFile) }

// Configured implements config.Settings.
func (s *TLSEndpoint) Configured() bool { return s.Address != "" || s.CertificateFile != "" }

// Check implements config.Settings.
func (s *TLSEndpoint) Check(r *config.Report) {
	if s.Address != "" {
		exchange.CheckAddress(r, s.Address, "")
	}
	switch s.StartTLS {
	case "":
	case exchange.XMPPClient, exchange.XMPPServer:
		if s.Address == "" {
			r.Faultf("starttls", "requires an address; write host:port there")
		}
		if s.Domain == "" {
			r.Faultf("domain", "must be set with starttls: the virtual host, such as chat.example.org")
		}
	default:
		r.Faultf("starttls", "is %q, must be %q, %q or empty", s.StartTLS, exchange.XMPPClient, exchange.XMPPServer)
	}
	exchange.CheckDomain(r, s.Domain)
	s.CheckConnection(r)
	s.TLS.Check(r)
}

// tlsEndpoint negotiates TLS, and sends nothing inside.
type tlsEndpoint struct{ server exchange.TLSServer }

func newTLSEndpoint(s *TLSEndpoint, _ Deps) (Collector, error) {
	return &tlsEndpoint{exchange.TLSServer{
		Address:    s.Address,
		Connection: s.Connection,
		StartTLS:   s.StartTLS,
		Domain:     s.Domain,
		Trust:      s.TLS,
	}}, nil
}

// Collect implements Collector.
func (c *tlsEndpoint) Collect(ctx context.Context, b *Batch) error {
	if c.server.Address == "" {
		return exchange.RecordCertificateFiles(&b.Record, &c.server.Trust)
	}
	return c.server.Converse(ctx, &b.Record, nil)
}
