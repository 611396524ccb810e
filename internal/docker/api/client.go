// Package api gives the Docker Engine's own client limits, errors with hints, and a transport that refuses all but a few reading calls.
package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/docker/docker/client"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// Client has the settings to reach one engine. It holds no connection.
type Client struct {
	// Host is the endpoint as configured, for errors.
	Host     string
	Endpoint Endpoint
	Trust    config.TLS
	// TLSKeys is true if a key of the configuration enables TLS.
	TLSKeys bool
	// Limit bounds each log and each event in bytes; a list of containers may have twice as many.
	Limit     int64
	UserAgent string
}

// Session is a client with its own connections. Close it after use.
type Session struct {
	*Client
	docker    *client.Client
	transport *http.Transport
	watch     *exchange.CertificateWatch
	wire      *exchange.Wire
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
			return nil, fmt.Errorf("reach %s: %w", c.Host, err)
		}
		scheme, transport.TLSClientConfig = "https", tlsConfig
	}
	docker, err := c.guarded(scheme, transport)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", c.Host, err)
	}
	return &Session{
		Client:    c,
		docker:    docker,
		transport: transport,
		watch:     watch,
		wire:      seen,
	}, nil
}

// guarded returns the engine's own client, whose requests to this transport are guarded, bounded and recorded.
func (c *Client) guarded(scheme string, transport http.RoundTripper) (*client.Client, error) {
	host := c.Endpoint.Address
	if c.Endpoint.Network == "unix" {
		host = "docker"
	}
	return client.NewClientWithOpts(
		// The client's methods that dial by themselves fail, because "http" and "https" are no networks.
		client.WithHost(scheme+"://"+host),
		client.WithScheme(scheme),
		client.WithUserAgent(c.UserAgent),
		client.WithHTTPClient(&http.Client{ // after WithHost, which expects another transport
			Transport:     recorder{guard{transport}, c.Limit},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	)
}

// Close ends the session's idle connections.
func (s *Session) Close() { s.transport.CloseIdleConnections() }

// RecordCertificate writes the state of the engine's certificate to r, if the endpoint uses TLS.
func (s *Session) RecordCertificate(r *exchange.Record) {
	if s.Endpoint.TLS {
		s.watch.Record(r)
	}
}
