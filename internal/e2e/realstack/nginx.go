//go:build realservers

package realstack

import (
	"context"
	"net/http"
	"syscall"
	"testing"
)

// Nginx is the HTTPS proxy of an XMPP server. It answers /health itself.
type Nginx struct {
	*Process
	// Addr is host:port.
	Addr string
	// Authority signed its certificate, which is for XMPPDomain, localhost and 127.0.0.1.
	Authority *Authority
}

// StartNginx starts an HTTPS proxy that passes requests on to a URL without a path, as Prosody.URL is.
func StartNginx(tb testing.TB, upstream string) *Nginx {
	tb.Helper()
	n := newNginx(tb, upstream, "")
	n.ready = func(ctx context.Context) error {
		transport := &http.Transport{TLSClientConfig: n.Authority.client()}
		defer transport.CloseIdleConnections()
		return answers(ctx, transport, n.URL()+"/health")
	}
	n.Start()
	return n
}

// StartNginxWith is StartNginx with additional lines for its server, which may refuse usual clients. Files are in its directory.
func StartNginxWith(tb testing.TB, lines string, files map[string][]byte) *Nginx {
	tb.Helper()
	n := newNginx(tb, "http://127.0.0.1:1", lines)
	for name, content := range files {
		n.write(name, content)
	}
	n.ready = func(ctx context.Context) error { return accepts(ctx, n.Addr) }
	n.Start()
	return n
}

func newNginx(tb testing.TB, upstream, lines string) *Nginx {
	tb.Helper()
	program := binary(tb, "nginx", "nginx")
	port := freePort(tb)
	n := &Nginx{Process: newProcess(tb, "nginx", true), Addr: address(port), Authority: NewAuthority(tb)}
	n.argv = []string{program, "-c", n.path("nginx.conf"), "-e", n.path("server.log"), "-p", n.dir}
	certificate, key := n.Authority.Issue(XMPPDomain, "localhost", "127.0.0.1")
	n.write("certificate.pem", certificate)
	n.write("key.pem", key)
	n.configure("nginx.conf", struct {
		Upstream, Dir, Lines string
		Port                 int
	}{
		upstream,
		n.dir,
		lines,
		port,
	})
	return n
}

// CertificateFile is the path of its certificate.
func (n *Nginx) CertificateFile() string { return n.path("certificate.pem") }

// Renew replaces the certificate and its key, both PEM, on disk. The server uses the old ones until Reload.
func (n *Nginx) Renew(certificate, key []byte) {
	n.tb.Helper()
	n.write("certificate.pem", certificate)
	n.write("key.pem", key)
}

// Reload makes the server reload its files, without waiting for it.
func (n *Nginx) Reload() {
	n.tb.Helper()
	if err := syscall.Kill(n.PID(), syscall.SIGHUP); err != nil {
		n.tb.Fatalf("reload nginx: %v", err)
	}
}

// URL returns the proxy's URL, without a slash at its end.
func (n *Nginx) URL() string { return "https://" + n.Addr }
