package simstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"time"
)

// certificates has the valid certificate under "", and each bad one under its fault's name.
type certificates struct {
	caPEM []byte
	shown map[string]*tls.Certificate
}

// newCertificates creates an authority and the certificates that it signs.
func newCertificates() (*certificates, error) {
	names := []string{"localhost", XMPPDomain, ircName, loopback, "::1"}
	var failed error
	sign := func(by *tls.Certificate, days int, names ...string) *tls.Certificate {
		if failed != nil {
			return nil
		}
		made, err := certify(by, days, names...)
		failed = err
		return made
	}
	known := sign(nil, 365)
	c := &certificates{shown: map[string]*tls.Certificate{
		"":                       sign(known, 60, names...),
		"expired_certificate":    sign(known, -1, names...),
		"wrong_name_certificate": sign(known, 60, "other.example"),
		"other_certificate":      sign(sign(nil, 365), 60, names...),
		"incomplete_chain":       sign(sign(known, 365), 60, names...),
	}}
	if failed != nil {
		return nil, fmt.Errorf("make certificates: %w", failed)
	}
	c.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate[0]})
	short := c.shown["incomplete_chain"]
	short.Certificate = short.Certificate[:1]
	return c, nil
}

// config is the TLS side of a service. Tickets are off, since a resumed session would not see another certificate.
func (c *certificates) config(s *service) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			for fault, certificate := range c.shown {
				if fault != "" && s.on(fault) {
					return certificate, nil
				}
			}
			return c.shown[""], nil
		},
	}
}

// certify makes a certificate that expires after so many days: for a server with these names, or for an authority without
// names. by signs it and is added to the chain; if by is nil, the certificate is self-signed.
func certify(by *tls.Certificate, days int, names ...string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{NotBefore: time.Now().AddDate(0, -3, 0), NotAfter: time.Now().AddDate(0, 0, days)}
	if len(names) == 0 {
		template.Subject.CommonName = "simulated authority " + rand.Text()
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		template.Subject.CommonName = names[0]
		template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if by == nil {
		by = &tls.Certificate{Leaf: template, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	chain := append([][]byte{der}, by.Certificate...)
	return &tls.Certificate{Certificate: chain[:min(2, len(chain))], PrivateKey: key, Leaf: cert}, err
}
