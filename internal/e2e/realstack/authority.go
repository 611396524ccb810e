//go:build realservers

package realstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of a test's own.
type Authority struct {
	// File holds the authority's certificate, PEM.
	File string

	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that nobody trusts yet, for a day. Its file ends with the test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	return NewAuthorityUntil(tb, time.Now().Add(24*time.Hour))
}

// NewAuthorityUntil is NewAuthority with another end.
func NewAuthorityUntil(tb testing.TB, end time.Time) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, File: filepath.Join(tb.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              end,
		Subject:               pkix.Name{CommonName: "test authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	certPEM, _, key := a.sign(a.cert)
	a.key = key
	if err := os.WriteFile(a.File, certPEM, 0o644); err != nil {
		tb.Fatalf("write certificate of authority: %v", err)
	}
	return a
}

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Below makes an authority that this one vouches for. Its file holds its own certificate alone.
func (a *Authority) Below() *Authority {
	a.tb.Helper()
	below := &Authority{tb: a.tb, File: filepath.Join(a.tb.TempDir(), "intermediate.pem")}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "test intermediate authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	certPEM, _, key := a.sign(template)
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.tb.Fatalf("read certificate: %v", err)
	}
	below.cert, below.key = cert, key
	if err := os.WriteFile(below.File, certPEM, 0o644); err != nil {
		a.tb.Fatalf("write certificate of authority: %v", err)
	}
	return below
}

// Issue makes a certificate, valid for a day for servers and clients, and its key, both PEM. Names are DNS names or
// addresses; the first is the common name.
func (a *Authority) Issue(names ...string) (certificate, key []byte) {
	a.tb.Helper()
	return a.IssueUntil(time.Now().Add(24*time.Hour), names...)
}

// IssueUntil is Issue with another end, which may be past: the certificate begins a day before it, or an hour ago.
func (a *Authority) IssueUntil(end time.Time, names ...string) (certificate, key []byte) {
	a.tb.Helper()
	begin := time.Now().Add(-time.Hour)
	if end.Before(begin) {
		begin = end.Add(-24 * time.Hour)
	}
	template := &x509.Certificate{
		NotBefore:   begin,
		NotAfter:    end,
		Subject:     pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	certificate, key, _ = a.sign(template)
	return certificate, key
}

// sign makes a key and a certificate for it, signed by the authority or, before that has a key, by itself.
func (a *Authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, key *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatalf("make key: %v", err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.tb.Fatalf("make serial number: %v", err)
	}
	template.SerialNumber = serial
	if template.NotAfter.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	if err != nil {
		a.tb.Fatalf("sign certificate: %v", err)
	}
	if a.key == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.tb.Fatalf("read certificate: %v", err)
		}
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatalf("write key: %v", err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return certPEM, keyPEM, key
}

// client is a TLS client that trusts this authority.
func (a *Authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
}
