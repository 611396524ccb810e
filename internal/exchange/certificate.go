package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
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

	mu    sync.Mutex // the transport's goroutines outlive a request that was given up
	peer  *peer
	asked clientCertificate
	other otherCertificate
}

// ClientConfig returns a TLS configuration whose handshakes report to the watch. Its error is about the exporter's own files.
func (w *CertificateWatch) ClientConfig() (*tls.Config, error) {
	c, err := clientFor(w.Trust, w.Host, w.ALPN, func(p peer) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.peer = &p
	})
	if err != nil {
		return nil, ownFileError(err)
	}
	pair := c.Certificates
	c.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked = clientMissing
		for i := range pair {
			if w.asked = clientForeign; request.SupportsCertificate(&pair[i]) == nil {
				w.asked = clientSent
				return &pair[i], nil
			}
		}
		return &tls.Certificate{}, nil
	}
	return c, nil
}

// ownFileError is the error of a file of the exporter itself, which says nothing about the server.
func ownFileError(err error) error {
	return failure.Errorf(failure.TLS, "%w", err).WithHint("the exporter cannot use this file, so it asks the server nothing: " +
		"correct ca_file, or cert_file and key_file, and who may read them")
}

func (w *CertificateWatch) last() *peer {
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
	r.Certificate = Certificate{Limits: w.Trust.CertificateExpiry}
	var served []*x509.Certificate
	if peer := w.last(); peer != nil {
		r.certificateSeen = true
		leaf, verified := peer.certificates[0], peer.err == nil
		r.Certificate.Leaf, r.Certificate.Verified = validityOf(leaf), &verified
		if verified {
			r.Certificate.Chain = chainEnd(peer.chains)
		} else if peer.accepted {
			r.NoteOnce("the certificate is accepted as configured, but does not verify: " + failure.OneLine(peer.err.Error()))
		}
		served = append(served, leaf)
		if other := w.other.record(r, verified); other != nil {
			served = append(served, other)
		}
	}
	if w.Trust.CertificateFile != "" {
		w.recordFile(r, served)
	}
}

// recordFile compares the served certificates, or none, with the server's certificate file.
func (w *CertificateWatch) recordFile(r *Record, served []*x509.Certificate) {
	files, err := loadableFiles(w.Trust.CertificateFile, nameFor(w.Trust, w.Host), served)
	if err != nil {
		// The file says nothing about the server's health.
		r.NoteOnce(err.Error())
		return
	}
	c := compareFiles(files, served)
	r.Certificate.File = c.end()
	for _, f := range c.unserved {
		w.recordUnserved(r, f, served, len(c.loaded) > 0)
	}
	for _, f := range c.renewed {
		r.NoteOnce(fmt.Sprintf("the server presents another certificate than the one in %s: reload the server", f.path))
	}
	switch {
	case len(c.stale) > 0:
		r.Certificate.MatchesFile, r.Certificate.Stale = new(false), validityOf(firstToEnd(c.stale))
	case len(served) > 0 && len(c.loaded) > 0:
		r.Certificate.MatchesFile = new(true)
	}
}

// recordUnserved writes what is known of a file whose certificate is of another algorithm than all served ones. The other algorithm
// may be one that the server does not have, which is no renewal that it has missed.
func (w *CertificateWatch) recordUnserved(r *Record, f certificateFile, served []*x509.Certificate, anyLoaded bool) {
	switch file := fmt.Sprintf("the %s certificate in %s", algorithmOf(f.leaf), f.path); {
	case w.other.state == otherNone:
		r.NoteOnce(fmt.Sprintf("the server does not serve %s, only one with %s: let the server load it too, or correct certificate_file",
			file, algorithmOf(served[0])))
		if !anyLoaded {
			r.Certificate.MatchesFile, r.Certificate.Stale = new(false), validityOf(served[0])
		}
	case !anyLoaded:
		r.NoteOnce(fmt.Sprintf("the server serves a certificate with %s; whether it also serves %s cannot be seen",
			algorithmOf(served[0]), file))
	}
}

// chainEnd returns the certificate at whose end verification begins to fail. A chain expires with the first of its certificates, and a
// client needs only the chain that expires last: an old cross-signed root does no harm while another chain is valid.
func chainEnd(chains [][]*x509.Certificate) Validity {
	var last Validity
	for _, chain := range chains {
		end := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if end.NotAfter.After(last.Ends) {
			last = validityOf(end)
		}
	}
	return last
}

// signsItself reports whether a certificate is self-signed, whether it is an authority or not.
func signsItself(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// stamp formats a time for people.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
