package collectors

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var (
	certificateNotAfterDesc = prometheus.NewDesc("chatstack_tls_certificate_not_after_timestamp_seconds",
		"When a certificate ends: the one that the server shows (leaf), the first of the chain that verifies (verified_chain), the one in the server's file (file).",
		[]string{"endpoint", "source"}, nil)
	certificateVerifiedDesc = prometheus.NewDesc("chatstack_tls_certificate_verified",
		"Whether authority, name and date of the server's certificate verify, whatever the connection was trusted for.",
		[]string{"endpoint"}, nil)
	certificateMatchesFileDesc = prometheus.NewDesc("chatstack_tls_certificate_matches_file",
		"Whether the server shows the certificate that its file holds. It is 0 from a renewal until the server reloads.",
		[]string{"endpoint"}, nil)
)

// certificateWatch looks at the certificates of one server during one reading, also at those that are refused.
type certificateWatch struct {
	trust *config.TLS
	// host is the server's name or address, where trust does not name it.
	host string

	mu   sync.Mutex // the transport's goroutines outlive a request that was given up
	peer *config.Peer
}

// client returns a TLS configuration that reports to the watch.
func (w *certificateWatch) client() (*tls.Config, error) {
	return w.trust.ClientFor(w.host, func(p config.Peer) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.peer = &p
	})
}

func (w *certificateWatch) last() *config.Peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peer
}

// keep writes to b what the last handshake showed and what the server's file holds. It is true even if the reading
// fails; it counts for nothing where an earlier exchange of the reading has shown a certificate already.
func (w *certificateWatch) keep(b *Batch) {
	if b.certified || b.Target == "" {
		return // without a name, an endpoint's metrics cannot be told from another's
	}
	b.certificates = nil
	peer := w.last()
	var served *x509.Certificate
	if peer != nil {
		b.certified = true
		served = peer.Certificates[0]
		b.certificateEnd("leaf", served.NotAfter)
		if peer.Err == nil {
			b.certificateEnd("verified_chain", chainEnd(peer.Chains))
		} else if peer.Accepted {
			b.noteOnce("the certificate is accepted as configured, but does not verify: " + failure.OneLine(peer.Err.Error()))
		}
		b.certificateGauge(certificateVerifiedDesc, boolValue(peer.Err == nil))
	}
	if w.trust.CertificateFile == "" {
		return
	}
	file, err := loadedFile(w.trust.CertificateFile, w.trust.NameFor(w.host), served)
	if err != nil {
		// The server itself is fine, as far as this tells.
		b.noteOnce(err.Error())
		return
	}
	b.certificateEnd("file", file.leaf.NotAfter)
	if served != nil {
		matches := served.Equal(file.leaf)
		b.certificateGauge(certificateMatchesFileDesc, boolValue(matches))
		if !matches {
			b.noteOnce(fmt.Sprintf("the server shows another certificate than %s holds: it has to be reloaded", file.path))
		}
	}
}

func (b *Batch) certificateEnd(source string, end time.Time) {
	b.certificateGauge(certificateNotAfterDesc, float64(end.Unix()), source)
}

func (b *Batch) certificateGauge(desc *prometheus.Desc, value float64, labels ...string) {
	labels = append([]string{b.Target}, labels...)
	b.certificates = append(b.certificates, newMetric(desc, prometheus.GaugeValue, value, labels))
}

// noteOnce adds a line for people unless it is there already.
func (b *Batch) noteOnce(line string) {
	if !slices.Contains(b.Notes, line) {
		b.Note(line)
	}
}

// chainEnd is until when verification will go well: a chain ends with the first of its certificates, and a client needs
// only the chain that ends last. So an old cross-signed root ends nothing while there is another way to an authority.
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

// withTLSHint says what to do about a certificate that does not verify, or about a handshake that failed otherwise.
// Other errors are returned as they are.
func withTLSHint(err error) error {
	if known, ok := errors.AsType[*failure.Error](err); ok && known.Hint != "" {
		return err
	}
	if hint := tlsHint(err); hint != "" {
		return failure.Errorf(failure.TLS, "%w", err).WithHint(hint)
	}
	return err
}

func tlsHint(err error) string {
	if errors.Is(err, config.ErrFingerprint) {
		return "if the certificate was renewed on purpose, set fingerprint to the new one's; else somebody else may answer there"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is not for %s: if the server is the right one, set server_name to a name that its certificate has; else give it the right certificate", failure.OneLine(wrong.Host))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		if time.Now().Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("the certificate begins only at %s: look at the clocks of both machines", stamp(invalid.Cert.NotBefore))
		}
		return fmt.Sprintf("the certificate ended at %s: renew it, and reload the server", stamp(invalid.Cert.NotAfter))
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if unknown.Cert != nil && signsItself(unknown.Cert) {
			return "the certificate, or the authority behind it, is signed by itself, and nobody has named it as trusted: only if it is your own, name it with ca_file, or pin the certificate with fingerprint; else somebody else may answer there"
		}
		return "no trusted authority stands behind the certificate: let the server send the whole chain (fullchain.pem, not cert.pem), or name the authority with ca_file"
	}
	if failure.HasType[x509.SystemRootsError](err) {
		return "this machine has no certificate authorities that can be read: install the package ca-certificates, or name the authority with ca_file"
	}
	if plain := plainAnswer(err); plain != "" {
		return fmt.Sprintf("this port does not speak TLS, it answers with %q: name the port that does", failure.OneLine(plain))
	}
	if strings.Contains(err.Error(), "unrecognized name") {
		return "the server has no certificate for the name that was asked for: set server_name or domain to a virtual host that it serves"
	}
	return ""
}

// signsItself is true of an authority too, but also of a server's certificate, which is none.
func signsItself(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// stamp is a time as people read it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
