package collectors

import (
	"net"
	"net/url"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// XMPPC2S is the block of the port that the XMPP server's clients connect to.
type XMPPC2S struct {
	config.Target `yaml:",inline"`
	Endpoint      `yaml:",inline"` // with port 5222 where it has none
	// Domain is the virtual host of the stream and, unless server_name is set, the name that the certificate must have.
	Domain            string `yaml:"domain"`
	config.Connection `yaml:",inline"`
	config.TLS        `yaml:",inline"`

	guessed bool // the address is derived from the environment
}

// c2sPort is where clients connect to an XMPP server.
const c2sPort = "5222"

// Environ implements config.Settings. If the domain is known and the file has no address, the address is port 5222 of the
// host in XMPP_REST_URL.
func (s *XMPPC2S) Environ(e *config.Env) {
	// The variable is for the stack's own server, not for a target with another name.
	if s.Domain == "" || s.Name == "" || s.Name == s.Kind {
		e.String("domain", "XMPP_DOMAIN", &s.Domain)
	}
	if s.Domain == "" {
		e.String("domain", "XMPP_REST_USERNAME", &s.Domain)
		_, s.Domain, _ = strings.Cut(s.Domain, "@")
		s.Domain, _, _ = strings.Cut(s.Domain, "/")
	}
	if u, err := url.Parse(e.Get("XMPP_REST_URL")); err == nil && u.Hostname() != "" && s.Domain != "" && s.Address == "" {
		e.String("address", "XMPP_REST_URL", &s.Address)
		s.Address = net.JoinHostPort(u.Hostname(), c2sPort)
		s.guessed = true
	}
	e.TLS("XMPP_C2S", &s.TLS)
}

// Warnings implements config.Settings.
func (s *XMPPC2S) Warnings() []string {
	warnings := s.TLS.Warnings()
	if s.guessed {
		warnings = append(warnings, "address "+s.Address+
			" is guessed from XMPP_REST_URL, because a domain is set; if clients connect elsewhere, set address in the configuration file")
	}
	return warnings
}

// Check implements config.Settings.
func (s *XMPPC2S) Check(r *config.Report) {
	exchange.CheckAddress(r, s.Address, c2sPort)
	if s.Domain == "" {
		r.Faultf("domain", "must be set: the virtual host, such as chat.example.org; variable XMPP_DOMAIN")
	}
	exchange.CheckDomain(r, s.Domain)
	s.CheckConnection(r)
	s.TLS.Check(r)
}

// newXMPPC2S negotiates a client's stream up to TLS. It does not log in, and the server counts one encrypted connection.
func newXMPPC2S(s *XMPPC2S, _ Deps) (Collector, error) {
	return &tlsEndpoint{exchange.TLSServer{
		Address:    exchange.WithPort(s.Address, c2sPort),
		Connection: s.Connection,
		StartTLS:   exchange.XMPPClient,
		Domain:     s.Domain,
		Trust:      s.TLS,
	}}, nil
}
