package simstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificates are what the services that speak TLS show: the good one under "", the bad ones under their fault's name.
type certificates struct {
	caPEM []byte
	shown map[string]*tls.Certificate
}

// newCertificates makes an authority of its own and what it signs.
func newCertificates(host string) (*certificates, error) {
	now := time.Now()
	names := []string{"localhost", xmppDomain, ircName, "127.0.0.1", "::1", host}
	known, err := newAuthority("simulated chat stack", nil)
	if err != nil {
		return nil, err
	}
	unknown, err := newAuthority("somebody else", nil)
	if err != nil {
		return nil, err
	}
	between, err := newAuthority("intermediate", known)
	if err != nil {
		return nil, err
	}
	c := &certificates{caPEM: known.pem, shown: map[string]*tls.Certificate{}}
	for _, leaf := range []struct {
		fault string
		by    *authority
		names []string
		until time.Time
	}{
		{"", known, names, now.AddDate(0, 0, 60)},
		{"expired_certificate", known, names, now.AddDate(0, 0, -1)},
		{"wrong_name_certificate", known, []string{"other.example"}, now.AddDate(0, 0, 60)},
		{"other_certificate", unknown, names, now.AddDate(0, 0, 60)},
		{"incomplete_chain", between, names, now.AddDate(0, 0, 60)},
	} {
		if c.shown[leaf.fault], err = leaf.by.issue(leaf.names, leaf.until); err != nil {
			return nil, err
		}
	}
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

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// newAuthority makes an authority that another one vouches for, or itself where by is nil.
func newAuthority(name string, by *authority) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().AddDate(0, -6, 0),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	parent, signer := template, (*ecdsa.PrivateKey)(nil)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	key, der, err := sign(template, parent, signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read own certificate: %w", err)
	}
	return &authority{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func (a *authority) issue(names []string, until time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		NotBefore:   time.Now().AddDate(0, -3, 0),
		NotAfter:    until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, der, err := sign(template, a.cert, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}, nil
}

// sign makes a key and a certificate for it; a nil signer means that the key signs itself.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	if signer == nil {
		signer = key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	return key, der, nil
}
