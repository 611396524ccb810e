package config

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrFingerprint is what a handshake ends with when the server shows another certificate than the pinned one.
var ErrFingerprint = errors.New("certificate does not have the configured fingerprint")

// Roots reads the authorities of CAFile; nil without one, which stands for the system's.
func (t *TLS) Roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil //nolint:nilnil // crypto/tls reads a nil pool as the system's
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read authorities: %s holds no PEM certificate", t.CAFile)
	}
	return pool, nil
}

// IsGlob reports whether a path is a pattern as filepath.Match reads them.
func IsGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

// Peer is what a server showed of its certificates in a handshake, and what verification by authority, name and date
// makes of them, whether or not the configuration asks for that verification.
type Peer struct {
	// Certificates are those that the server sent, its own first. There is at least one.
	Certificates []*x509.Certificate
	// Chains lead from the server's own certificate to an authority, and are valid now. There is none where Err says why.
	Chains [][]*x509.Certificate
	// Err is why the certificates do not verify; nil where they do.
	Err error
	// Accepted tells that the configuration trusts the server: for its pin, because it verifies, or because it need not.
	Accepted bool
}

// ClientFor returns the configuration of a client of one server: name is its DNS name or IP address, which ServerName
// replaces. CAFile is read anew at each call, so that a renewed one counts at once. In every handshake seen is told of
// the certificates before they are accepted or refused; it may be called after the client gave up.
func (t *TLS) ClientFor(name string, seen func(Peer)) (*tls.Config, error) {
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	name = t.NameFor(name)
	return &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies, since it also sees certificates that it refuses
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("tls: the server showed no certificate")
			}
			p := verify(name, roots, s.PeerCertificates)
			err := t.accept(p)
			p.Accepted = err == nil
			seen(p)
			return err
		},
	}, nil
}

// NameFor is what the certificate of the server at host must be for: ServerName, else host.
func (t *TLS) NameFor(host string) string {
	if t.ServerName != "" {
		return t.ServerName
	}
	return host
}

// verify applies the rules of crypto/tls.
func verify(name string, roots *x509.CertPool, shown []*x509.Certificate) Peer {
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	return Peer{Certificates: shown, Chains: chains, Err: err}
}

// accept decides on a server: by the pin where there is one, else by verification unless that is switched off.
func (t *TLS) accept(p Peer) error {
	if pin := t.PinnedSHA256(); pin != nil {
		if got := sha256.Sum256(p.Certificates[0].Raw); !bytes.Equal(got[:], pin) {
			return fmt.Errorf("%w: it is %s", ErrFingerprint, hex.EncodeToString(got[:]))
		}
		return nil
	}
	if p.Err != nil && !t.InsecureSkipVerify {
		return &tls.CertificateVerificationError{UnverifiedCertificates: p.Certificates, Err: p.Err}
	}
	return nil
}
