package collectors

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TLSEndpoint is the block of a server of which only the certificate is of interest.
type TLSEndpoint struct {
	config.Target `yaml:",inline"`
	// Address is host:port; empty where only certificate_file is looked at.
	Address string `yaml:"address"`
	// StartTLS is how TLS begins: "" at once, "xmpp-client" or "xmpp-server" in an XMPP stream.
	StartTLS string `yaml:"starttls"`
	// Domain is the virtual host: it is asked for in the XMPP stream and, where server_name is not set, in SNI and
	// verification.
	Domain     string `yaml:"domain"`
	config.TLS `yaml:",inline"`
}

func newTLSEndpointSettings() *TLSEndpoint { return &TLSEndpoint{} }

// Environ implements config.Settings. Several targets are of this kind, so no variable speaks of one.
func (s *TLSEndpoint) Environ(*config.Env) {}

// Configured implements config.Settings.
func (s *TLSEndpoint) Configured() bool { return s.Address != "" || s.CertificateFile != "" }

// Check implements config.Settings.
func (s *TLSEndpoint) Check(r *config.Report) {
	if s.Address != "" {
		checkAddress(r, s.Address, "")
	}
	switch s.StartTLS {
	case "":
	case xmppClient, xmppServer:
		if s.Address == "" {
			r.Faultf("starttls", "is set without an address; write host:port there")
		}
		if s.Domain == "" {
			r.Faultf("domain", "must be set with starttls: the virtual host to ask for, such as chat.example.org")
		}
	default:
		r.Faultf("starttls", "is %q, must be %q, %q or empty", s.StartTLS, xmppClient, xmppServer)
	}
	checkDomain(r, s.Domain)
	s.TLS.Check(r)
}

// tlsEndpoint looks at certificates and says nothing inside TLS.
type tlsEndpoint struct{ server tlsServer }

func newTLSEndpoint(s *TLSEndpoint, _ Deps) (Collector, error) {
	return &tlsEndpoint{tlsServer{address: s.Address, startTLS: s.StartTLS, domain: s.Domain, trust: s.TLS}}, nil
}

// Collect implements Collector.
func (c *tlsEndpoint) Collect(ctx context.Context, b *Batch) error {
	if c.server.address == "" {
		return keepFileOnly(b, &c.server.trust)
	}
	return c.server.session(ctx, b, nil)
}

// keepFileOnly writes when certificate files end that no connection is compared with: of several the one that ends
// first, or the one for the server's name where that is set. The error is that of a file that cannot be read.
func keepFileOnly(b *Batch, trust *config.TLS) error {
	files, err := readCertificateFiles(trust.CertificateFile)
	if trust.ServerName != "" {
		var file certificateFile
		if file, err = loadedFile(trust.CertificateFile, trust.ServerName, nil); err != nil {
			return err
		}
		files = []certificateFile{file}
	}
	if len(files) == 0 {
		return err
	}
	first := slices.MinFunc(files, func(a, b certificateFile) int { return a.leaf.NotAfter.Compare(b.leaf.NotAfter) })
	b.certificateEnd("file", first.leaf.NotAfter)
	b.noteOnce(fmt.Sprintf("of %d certificate files, %s ends first", len(files), first.path))
	return err
}

// tlsServer is a server that speaks TLS, at once or after it was asked to.
type tlsServer struct {
	address  string // host:port
	startTLS string
	domain   string
	trust    config.TLS
}

// String is the server as it stands in errors and on the debug page.
func (s *tlsServer) String() string {
	if s.startTLS != "" {
		return "starttls " + s.startTLS + " " + s.address
	}
	return "tls " + s.address
}

// session connects, takes the connection to TLS and lets talk speak; without talk it ends there. It writes the exchange
// and what is known of the certificates to b.
func (s *tlsServer) session(ctx context.Context, b *Batch, talk func(*tls.Conn) error) error {
	timing, clientTrace := trace()
	e := &Exchange{Request: s.String()}
	b.Exchanges = append(b.Exchanges, e)
	watch := &certificateWatch{trust: &s.trust, host: cmp.Or(s.domain, hostOf(s.address))}
	defer watch.keep(b)
	last := "tls"
	if talk != nil {
		last = "reply"
	}
	if err := s.exchange(httptrace.WithClientTrace(ctx, clientTrace), watch, timing, talk); err != nil {
		err = withTLSHint(fmt.Errorf("%s: %w", s, err))
		e.Phases, e.Err = timing.end("failed"), failure.OneLine(err.Error())
		return err
	}
	e.Phases = timing.end(last)
	return nil
}

func (s *tlsServer) exchange(ctx context.Context, watch *certificateWatch, timing *tracer, talk func(*tls.Conn) error) error {
	tlsConfig, err := watch.client()
	if err != nil {
		return failure.Errorf(failure.TLS, "%w", err)
	}
	raw, err := dial(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	defer raw.Close() //nolint:errcheck // all is said, or given up
	// Whoever reads or writes then is woken, with an error that says why.
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a closed one wakes them too
	defer stop()
	if s.startTLS != "" {
		if err := s.beginXMPP(ctx, &opening{Conn: raw}); err != nil {
			return err
		}
		timing.phase("starttls")
	}
	first := &opening{Conn: raw}
	conn := tls.Client(first, tlsConfig)
	if err := conn.HandshakeContext(ctx); err != nil {
		return first.explain(fmt.Errorf("handshake: %w", err))
	}
	defer conn.Close() //nolint:errcheck // the goodbye of TLS, which a server need not hear
	if talk == nil {
		return nil
	}
	timing.phase("tls")
	return talk(conn)
}

// hostOf is the host of host:port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// withPort gives an address without a port the port that is usual.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// checkAddress reports a fault unless the key address holds host:port, or a host where a port is usual.
func checkAddress(r *config.Report, address, usualPort string) {
	if _, rest, found := strings.Cut(address, "://"); found {
		rest = rest[strings.LastIndex(rest, "@")+1:] // what is before may be a password
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			rest = rest[:end]
		}
		r.Faultf("address", "is %q, must be host:port without a scheme; write %s", address, cmp.Or(withPort(rest, cmp.Or(usualPort, "PORT")), "host:port"))
		return
	}
	if usualPort != "" {
		address = withPort(address, usualPort)
	}
	host, port, err := net.SplitHostPort(address)
	n, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") || numberErr != nil || n == 0 {
		r.Faultf("address", "is %q, must be host:port such as irc.example.org:6697", address)
	}
}

// checkDomain reports a fault if the key domain holds something that is no virtual host.
func checkDomain(r *config.Report, domain string) {
	if strings.ContainsAny(domain, "/@:<>&'\" \t\r\n") {
		r.Faultf("domain", "is %q, must be a virtual host such as chat.example.org", domain)
	}
}
