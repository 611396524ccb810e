package exchangetest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
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

// Certified is a certificate with its key.
type Certified struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// Certificate describes one to be made. The zero value is for nobody, by itself, from an hour ago to tomorrow.
type Certificate struct {
	By          *Certified
	Name        string
	Names       []string // DNS names or addresses
	Begins, End time.Time
	Authority   bool
	RSA         bool       // whether its key is an RSA key
	Of          *Certified // whose name and key it bears, where it is another certificate for the same one
}

// The days on which the certificates of these tests end, so that golden pages can hold them.
var (
	FirstDay  = time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	SecondDay = time.Date(2190, 2, 1, 0, 0, 0, 0, time.UTC)
	ThirdDay  = time.Date(2190, 3, 1, 0, 0, 0, 0, time.UTC)
	LongAgo   = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Make makes the certificate and a key.
func (c Certificate) Make(tb testing.TB) *Certified {
	tb.Helper()
	key := c.newKey(tb)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	if c.Begins.IsZero() {
		c.Begins = time.Now().Add(-time.Hour)
	}
	if c.End.IsZero() {
		c.End = time.Now().Add(24 * time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: c.Name},
		NotBefore:             c.Begins,
		NotAfter:              c.End,
		BasicConstraintsValid: true,
		IsCA:                  c.Authority,
	}
	if c.Authority {
		template.KeyUsage = x509.KeyUsageCertSign
	}
	for _, name := range c.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if c.Of != nil {
		template.Subject, key = c.Of.Cert.Subject, c.Of.Key
	}
	parent, signer := template, key
	if c.By != nil {
		parent, signer = c.By.Cert, c.By.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return &Certified{cert, key}
}

func (c Certificate) newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	var key crypto.Signer
	var err error
	if c.RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// PEM is the certificate and its key.
func (c *Certified) PEM(tb testing.TB) (certificate, key []byte) {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.Key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Chain is what a server shows: its own certificate, then the others.
func Chain(leaf *Certified, others ...*Certified) tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{leaf.Cert.Raw}, PrivateKey: leaf.Key}
	for _, o := range others {
		c.Certificate = append(c.Certificate, o.Cert.Raw)
	}
	return c
}

// Write writes certificates to a file.
func Write(tb testing.TB, path string, certs ...*Certified) string {
	tb.Helper()
	var b bytes.Buffer
	for _, c := range certs {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Cert.Raw}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
