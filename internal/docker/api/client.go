// Package api is a read-only client of a Docker Engine. Its transport refuses every call except a few that only read.
package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Client has the settings to reach one engine. It holds no connection.
type Client struct {
	// Host is the endpoint as configured, for errors.
	Host     string
	Endpoint Endpoint
	Trust    config.TLS
	// TLSKeys is true if a key of the configuration enables TLS.
	TLSKeys bool
	// Limit bounds each answer, and each event, in bytes.
	Limit     int64
	UserAgent string
}

// Session is a client with its own connections. Close it after use.
type Session struct {
	*Client
	http      http.RoundTripper // to the engine, and to no path that does more than read
	transport *http.Transport
	// scheme is http or https, version that of the API; empty before Negotiate.
	scheme, version string
	watch           *exchange.CertificateWatch
	wire            *exchange.Wire
}

// dialTimeout bounds a dial whose caller has given up.
const dialTimeout = 10 * time.Second

// Open returns a session with at most this many connections. It reads the certificate files.
func (c *Client) Open(connections int) (*Session, error) {
	transport := &http.Transport{
		MaxConnsPerHost:        connections,
		MaxIdleConnsPerHost:    connections,
		MaxResponseHeaderBytes: exchange.MaxHeaderBytes,
		DisableCompression:     true,
	}
	seen := &exchange.Wire{AddressKey: "host"}
	if c.TLSKeys {
		seen.PlainHint = RemoveTLSKeys + " and write tcp:// in the host"
	}
	transport.DialContext = seen.Watch(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return exchange.DialWithin(ctx, dialTimeout, c.Endpoint.Network, c.Endpoint.Address)
	})
	watch := &exchange.CertificateWatch{Trust: &c.Trust, Host: config.HostOf(c.Endpoint.Address), ALPN: exchange.HTTPProtocols}
	scheme := "http"
	if c.Endpoint.TLS {
		tlsConfig, err := watch.ClientConfig()
		if err != nil {
			return nil, failure.Errorf(failure.TLS, "reach %s: %w", c.Host, err)
		}
		scheme, transport.TLSClientConfig = "https", tlsConfig
	}
	return &Session{
		Client:    c,
		http:      guard{transport},
		transport: transport,
		scheme:    scheme,
		watch:     watch,
		wire:      seen,
	}, nil
}

// Close ends the session's idle connections.
func (s *Session) Close() { s.transport.CloseIdleConnections() }

// RecordCertificate writes the state of the engine's certificate to r, if the endpoint uses TLS.
func (s *Session) RecordCertificate(r *exchange.Record) {
	if s.Endpoint.TLS {
		s.watch.Record(r)
	}
}

// Hints for the most frequent failures.
const (
	// HintEvents is for a stream of events that was cut.
	HintEvents   = "the engine, or a proxy in front of it, keeps closing GET /events: check the proxy's idle timeout and the engine's log"
	hintNoSocket = "no Docker Engine listens on this socket: start it, or mount the socket into the exporter's container"
	hintSocket   = "the exporter's user may not open the socket: add it to the socket's group, usually docker (group_add in compose), " +
		"or run a read-only socket proxy and write its tcp:// address"
	hintProxy = "a proxy in front of the engine refuses this call: allow GET on /_ping, /events, /containers/json, " +
		"/containers/{id}/json and /containers/{id}/stats; in most socket proxies these are PING=1, EVENTS=1 and CONTAINERS=1"
	hintTLS = "the engine requires TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1"

	hintClientCertificate = "the engine requires a client certificate: set cert_file and key_file, " +
		"or DOCKER_CERT_PATH with DOCKER_TLS_VERIFY=1"
	hintClientAuthority = "the engine refuses the certificate in cert_file: use a client certificate that the engine's authority (its " +
		"tlscacert) has signed and that has not expired, with its key in key_file"
)

// wrap says what failed.
func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

// withHint adds a hint to an error of a socket or of the client certificate.
func (s *Session) withHint(err error) error {
	unix, reason, hint := s.Endpoint.Network == "unix", failure.ReasonOf(err), ""
	switch {
	case reason == failure.TLS && s.Endpoint.TLS && exchange.RefusesClient(err):
		hint = hintClientCertificate
		if s.Trust.CertFile != "" {
			hint = hintClientAuthority
		}
	case failure.HasType[*failure.Error](err):
	case unix && reason == failure.Refused:
		hint = hintNoSocket
	case unix && reason == failure.Forbidden:
		hint = hintSocket
	}
	if hint == "" {
		return err
	}
	return failure.Errorf(reason, "%w", err).WithHint(hint)
}
