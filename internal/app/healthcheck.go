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
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// Healthcheck checks whether the poll loop of the exporter with the same --web.listen-address on this host is running,
// as the HEALTHCHECK of an image without a shell. It uses the exporter's Unix socket, or HTTP without one. Over HTTP,
// an exporter that requires a password or a client certificate counts as alive;
// Healthcheck writes to out that the state of the loop is unknown.
func Healthcheck(ctx context.Context, o Options, out io.Writer) error {
	if found, err := askSocket(ctx, o); found {
		return err
	}
	address := (*o.Web.WebListenAddresses)[0]
	own, err := ownAddress(address)
	if err != nil {
		return err
	}
	// With TLS 1.3 the refusal comes after the handshake and may be lost with the connection. So remember that the exporter requested a
	// certificate.
	var certificateRequested atomic.Bool
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			// The process is on this host, and the request has no secrets.
			InsecureSkipVerify: true, //nolint:gosec // see above
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				certificateRequested.Store(true)
				return &tls.Certificate{}, nil // send none
			},
		},
	}
	target := "://" + own + "/-/healthy"
	status, said, err := ask(ctx, transport, "http"+target)
	if status == http.StatusBadRequest { // net/http's response to plain HTTP on a TLS port
		status, said, err = ask(ctx, transport, "https"+target)
	}
	switch {
	case status == http.StatusUnauthorized, err != nil && certificateRequested.Load() && ctx.Err() == nil:
		fmt.Fprintln(out, "alive, loop unknown") //nolint:errcheck // the exit code says enough
		return nil
	case err != nil:
		return fmt.Errorf("ask %s for its health: %w", address, err)
	}
	return verdictOf(address, status, said)
}

// ownAddress is the address at which this host reaches an exporter with that --web.listen-address.
func ownAddress(listens string) (string, error) {
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return "", fmt.Errorf("read --web.listen-address: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

func verdictOf(where string, status int, said string) error {
	if status != http.StatusOK {
		return fmt.Errorf("ask %s for its health: status %d: %s", where, status, said)
	}
	return nil
}

// askSocket checks over the Unix socket; found reports whether a process listens there.
func askSocket(ctx context.Context, o Options) (found bool, err error) {
	path, err := socketIn(o.RuntimeDirectory, o, "")
	if err != nil || o.RuntimeDirectory == "" || checkPrivate(o.RuntimeDirectory, os.Getuid()) != nil {
		return false, nil //nolint:nilerr // HTTP still works, and the exporter has logged the error
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialSocket(path)}
	status, said, err := ask(ctx, transport, "http://localhost/-/healthy")
	switch {
	case err == nil:
		return true, verdictOf(path, status, said)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.EINVAL):
		return false, nil // no socket, another user's, a killed process's, or the path is too long
	}
	return true, fmt.Errorf("ask %s for its health: %w", path, err)
}

// ask returns the status and the beginning of the response.
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
