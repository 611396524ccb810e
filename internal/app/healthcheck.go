package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
)

// Healthcheck asks the exporter with the same --web.listen-address on this host whether its poll loop is running. It is for
// a HEALTHCHECK in an image without a shell. It asks over the exporter's Unix socket, and over HTTP where there is none. There
// an exporter that wants a password or a client's certificate first is alive, since it says so; out gets that its loop is unknown.
func Healthcheck(ctx context.Context, o Options, out io.Writer) error {
	if found, err := askSocket(ctx, o); found {
		return err
	}
	address := (*o.Web.WebListenAddresses)[0]
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
	status, said, err := ask(ctx, transport, "http"+target)
	if status == http.StatusBadRequest { // what net/http says to plain HTTP on a TLS port
		status, said, err = ask(ctx, transport, "https"+target)
	}
	switch {
	case status == http.StatusUnauthorized, err != nil && asked.Load() && ctx.Err() == nil:
		fmt.Fprintln(out, "alive, loop unknown") //nolint:errcheck // the exit code says enough
		return nil
	case err != nil:
		return fmt.Errorf("ask %s for its health: %w", address, err)
	}
	return verdictOf(address, status, said)
}

func verdictOf(where string, status int, said string) error {
	if status != http.StatusOK {
		return fmt.Errorf("ask %s for its health: status %d: %s", where, status, said)
	}
	return nil
}

// askSocket asks over the Unix socket and reports whether a process listens there.
func askSocket(ctx context.Context, o Options) (found bool, err error) {
	path, err := healthSocket(o, "")
	if err != nil || o.RuntimeDirectory == "" || checkPrivate(o.RuntimeDirectory) != nil {
		return false, nil //nolint:nilerr // HTTP is left, and the exporter has logged what is wrong
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	status, said, err := ask(ctx, transport, "http://localhost/-/healthy")
	switch {
	case err == nil:
		return true, verdictOf(path, status, said)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EINVAL):
		return false, nil // none, another user's, one that a killed process left, or a path that is too long for any
	}
	return true, fmt.Errorf("ask %s for its health: %w", path, err)
}

// ask returns the status and the beginning of the answer.
func ask(ctx context.Context, transport *http.Transport, target string) (status int, said string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 200))
	return resp.StatusCode, strings.TrimSpace(string(body)), errors.Join(err, resp.Body.Close())
}
