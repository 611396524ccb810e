package exchange

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// peer is a server's certificates from a handshake, with the result of verification by authority, name and date, even if
// the configuration does not require that.
type peer struct {
	// certificates are in the order of the handshake, the server's own first. There is at least one.
	certificates []*x509.Certificate
	// chains lead from the server's own certificate to an authority and are valid now. They are empty if err is not nil.
	chains [][]*x509.Certificate
	// err is why the certificates do not verify.
	err error
	// accepted is whether the configuration trusts the server: by its pin, by verification, or because it skips that.
	accepted bool
}

// clientFor returns the TLS configuration for one server. Name is its DNS name or IP address, which ServerName overrides.
// It offers the application protocols of alpn, which ALPN overrides, too. Each call reads the files, so a renewed one counts at once.
// Every handshake calls seen with the certificates, accepted or not, perhaps after the client has given up.
func clientFor(t *config.TLS, name string, alpn []string, seen func(peer)) (*tls.Config, error) {
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	pair, err := t.ClientCertificates()
	if err != nil {
		return nil, err
	}
	name = nameFor(t, name)
	if t.ALPN != nil {
		alpn = t.ALPN
	}
	return &tls.Config{
		ServerName:         name,
		NextProtos:         alpn,
		Certificates:       pair,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, since it also sees certificates that it refuses
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("tls: the server showed no certificate")
			}
			p := verify(name, roots, s.PeerCertificates)
			err := accept(t, p)
			p.accepted = err == nil
			seen(p)
			return err
		},
	}, nil
}

// nameFor is the name that the certificate of the server at host must have: ServerName, else host. Certificates have A-labels.
func nameFor(t *config.TLS, host string) string { return ASCIIHost(cmp.Or(t.ServerName, host)) }

// verify applies the rules of crypto/tls.
func verify(name string, roots *x509.CertPool, shown []*x509.Certificate) peer {
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	return peer{certificates: shown, chains: chains, err: err}
}

// accept checks the pin if there is one, else the verification unless that is disabled.
func accept(t *config.TLS, p peer) error {
	if pin := t.PinnedSHA256(); pin != nil {
		if got := sha256.Sum256(p.certificates[0].Raw); !bytes.Equal(got[:], pin) {
			return fmt.Errorf("%w: it is %s", failure.ErrFingerprint, hex.EncodeToString(got[:]))
		}
		return nil
	}
	if p.err != nil && !t.InsecureSkipVerify {
		return &tls.CertificateVerificationError{UnverifiedCertificates: p.certificates, Err: p.err}
	}
	return nil
}
