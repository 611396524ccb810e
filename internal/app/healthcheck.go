package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
)

// Healthcheck asks the exporter that listens on this address of the same host whether its poll loop goes round. It is
// for a HEALTHCHECK in an image without a shell. An exporter that wants a password or a client's certificate first is
// alive, since it says so; whether its poll loop goes round is then not known here.
func Healthcheck(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("read --web.listen-address: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}
	// With TLS 1.3 the refusal comes after the handshake, and may be lost with the connection: that a certificate was
	// asked for is what is sure.
	var asked atomic.Bool
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			// It is this very host's own process, and it is not told anything.
			InsecureSkipVerify: true, //nolint:gosec // see above
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked.Store(true)
				return &tls.Certificate{}, nil // none to show
			},
		},
	}
	target := "://" + net.JoinHostPort(host, port) + "/-/healthy"
	status, err := ask(ctx, transport, "http"+target)
	if status == http.StatusBadRequest { // what net/http says to plain HTTP on a TLS port
		status, err = ask(ctx, transport, "https"+target)
	}
	switch {
	case err != nil && asked.Load() && ctx.Err() == nil:
		return nil // it speaks TLS, and refuses this client for want of a certificate
	case err != nil:
		return fmt.Errorf("ask %s for its health: %w", address, err)
	case status != http.StatusOK && status != http.StatusUnauthorized:
		return fmt.Errorf("ask %s for its health: status %d", address, status)
	}
	return nil
}

func ask(ctx context.Context, transport *http.Transport, target string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
