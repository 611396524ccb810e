package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// CertificateWatch sees the certificates that one server presents during one probe, including refused ones.
type CertificateWatch struct {
	Trust *config.TLS
	// Host is the server's name or address, unless Trust sets another one.
	Host string
	// ALPN are the application protocols that the client offers, unless Trust names others.
	ALPN []string

	mu   sync.Mutex // the transport's goroutines outlive a request that was given up
	peer *config.Peer
}

// ClientConfig returns a TLS configuration whose handshakes report to the watch.
func (w *CertificateWatch) ClientConfig() (*tls.Config, error) {
	return w.Trust.ClientFor(w.Host, w.ALPN, func(p config.Peer) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.peer = &p
	})
}

func (w *CertificateWatch) last() *config.Peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peer
}

// Record writes to r the certificates of the last handshake and of the server's certificate file, even if the probe fails.
// It changes nothing if an earlier exchange of the probe has seen a certificate.
func (w *CertificateWatch) Record(r *Record) {
	if r.certificateSeen {
		return
	}
	r.Certificate = Certificate{}
	peer := w.last()
	var served *x509.Certificate
	if peer != nil {
		r.certificateSeen = true
		served = peer.Certificates[0]
		verified := peer.Err == nil
		r.Certificate.Leaf, r.Certificate.Verified = served.NotAfter, &verified
		if verified {
			r.Certificate.Chain = chainEnd(peer.Chains)
		} else if peer.Accepted {
			r.NoteOnce("the certificate is accepted as configured, but does not verify: " + failure.OneLine(peer.Err.Error()))
		}
	}
	if w.Trust.CertificateFile == "" {
		return
	}
	file, err := loadedFile(w.Trust.CertificateFile, w.Trust.NameFor(w.Host), served)
	if err != nil {
		// The file says nothing about the server's health.
		r.NoteOnce(err.Error())
		return
	}
	r.Certificate.File = file.leaf.NotAfter
	if served != nil {
		matches := served.Equal(file.leaf)
		r.Certificate.MatchesFile = &matches
		if !matches {
			r.NoteOnce(fmt.Sprintf("the server presents another certificate than the one in %s: reload the server", file.path))
		}
	}
}

// chainEnd returns until when verification succeeds. A chain expires with the first of its certificates, and a client needs
// only the chain that expires last: an old cross-signed root does no harm while another chain is valid.
func chainEnd(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		end := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if end.After(last) {
			last = end
		}
	}
	return last
}

// withTLSHint adds a hint to the error of a failed handshake. It returns other errors unchanged.
func withTLSHint(err error) error {
	if failure.HasHint(err) {
		return err
	}
	if hint := tlsHint(err); hint != "" {
		return failure.Errorf(failure.TLS, "%w", err).WithHint(hint)
	}
	return err
}

func tlsHint(err error) string {
	if errors.Is(err, config.ErrFingerprint) {
		return "if the certificate was renewed, set fingerprint to the new one's; if not, another server may be answering"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is not for %s: if the server is the right one, set server_name to a name that its certificate has; otherwise install the right certificate", failure.OneLine(wrong.Host))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		if time.Now().Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("the certificate is valid only from %s: check the clocks of both machines", stamp(invalid.Cert.NotBefore))
		}
		return fmt.Sprintf("the certificate expired at %s: renew it, and reload the server", stamp(invalid.Cert.NotAfter))
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if unknown.Cert != nil && signsItself(unknown.Cert) {
			return "the certificate or its authority is self-signed and not trusted: if it is your own, set ca_file to it or pin the certificate with fingerprint; if not, another server may be answering"
		}
		return "no trusted authority signed the certificate: let the server send the whole chain (fullchain.pem, not cert.pem), or set ca_file to the authority's certificate"
	}
	if failure.HasType[x509.SystemRootsError](err) {
		return "this machine has no readable certificate authorities: install the package ca-certificates, or set ca_file to the authority's certificate"
	}
	if plain := plainAnswer(err); plain != "" {
		return fmt.Sprintf("this port does not speak TLS, it answers with %q: set the port that does", failure.OneLine(plain))
	}
	if strings.Contains(err.Error(), "no application protocol") {
		return "the server serves none of the application protocols that the exporter offers: set alpn to one that it serves, or alpn: [] to offer none"
	}
	if strings.Contains(err.Error(), "unrecognized name") {
		return "the server has no certificate for the requested name: set server_name or domain to a virtual host that it serves"
	}
	return ""
}

// signsItself reports whether a certificate is self-signed, whether it is an authority or not.
func signsItself(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// stamp formats a time for people.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
