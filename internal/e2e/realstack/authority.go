//go:build realservers

package realstack

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// Authority is a certificate authority for a test.
type Authority struct {
	// File is the path of the authority's certificate, PEM.
	File string

	tb   testing.TB
	made *exchangetest.Certified
}

// NewAuthority creates an authority that is valid for a day. The test's end removes its file.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	return NewAuthorityUntil(tb, time.Now().Add(24*time.Hour))
}

// NewAuthorityUntil is NewAuthority with another expiry.
func NewAuthorityUntil(tb testing.TB, end time.Time) *Authority {
	tb.Helper()
	return newAuthority(tb, exchangetest.Certificate{Name: "test authority", End: end})
}

// Below creates an intermediate authority that this one signs. Its file has only its own certificate.
func (a *Authority) Below() *Authority {
	a.tb.Helper()
	return a.BelowUntil(time.Now().Add(24 * time.Hour))
}

// BelowUntil is Below with another expiry.
func (a *Authority) BelowUntil(end time.Time) *Authority {
	a.tb.Helper()
	return newAuthority(a.tb, exchangetest.Certificate{Name: "test intermediate authority", By: a.made, End: end})
}

func newAuthority(tb testing.TB, c exchangetest.Certificate) *Authority {
	tb.Helper()
	c.Authority, c.Begins = true, beginOf(c.End)
	made := c.Make(tb)
	return &Authority{exchangetest.Write(tb, filepath.Join(tb.TempDir(), "ca.pem"), made), tb, made}
}

// Certificate returns the authority's certificate, PEM.
func (a *Authority) Certificate() []byte {
	a.tb.Helper()
	certificate, _ := a.made.PEM(a.tb)
	return certificate
}

// Pool trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.made.Cert)
	return pool
}

// Issue makes a certificate, valid for a day for servers and clients, and its key, both PEM. Names are DNS names or
// addresses; the first is the common name.
func (a *Authority) Issue(names ...string) (certificate, key []byte) {
	a.tb.Helper()
	return a.IssueUntil(time.Now().Add(24*time.Hour), names...)
}

// IssueUntil is Issue with another expiry, which may be in the past. The certificate lives at least 90 days.
func (a *Authority) IssueUntil(end time.Time, names ...string) (certificate, key []byte) {
	a.tb.Helper()
	return a.Sign(exchangetest.Certificate{
		Name:   names[0],
		Names:  names,
		Begins: beginOf(end),
		End:    end,
	}).PEM(a.tb)
}

// beginOf is when a certificate begins that ends then and has already begun.
func beginOf(end time.Time) time.Time {
	ago, before := time.Now().Add(-time.Hour), end.Add(-90*24*time.Hour)
	if before.Before(ago) {
		return before
	}
	return ago
}

// Sign makes any certificate by this authority.
func (a *Authority) Sign(c exchangetest.Certificate) *exchangetest.Certified {
	a.tb.Helper()
	c.By = a.made
	return c.Make(a.tb)
}

// client returns a TLS configuration that trusts this authority.
func (a *Authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
}
