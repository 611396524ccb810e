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
	peer  *config.Peer
	asked clientCertificate
}

// ClientConfig returns a TLS configuration whose handshakes report to the watch.
func (w *CertificateWatch) ClientConfig() (*tls.Config, error) {
	c, err := w.Trust.ClientFor(w.Host, w.ALPN, func(p config.Peer) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.peer = &p
	})
	if err != nil {
		return nil, err
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
	r.Certificate = Certificate{Limits: w.Trust.CertificateExpiry}
	peer := w.last()
	var served *x509.Certificate
	if peer != nil {
		r.certificateSeen = true
		served = peer.Certificates[0]
		verified := peer.Err == nil
		r.Certificate.Leaf, r.Certificate.Verified = validityOf(served), &verified
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
	r.Certificate.File = validityOf(file.leaf)
	if served != nil {
		matches := served.Equal(file.leaf)
		r.Certificate.MatchesFile = &matches
		if !matches {
			r.NoteOnce(fmt.Sprintf("the server presents another certificate than the one in %s: reload the server", file.path))
		}
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
