package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// ErrFingerprint means that the server's certificate is not the pinned one.
var ErrFingerprint = errors.New("certificate does not have the configured fingerprint")

// IsSet reports whether any key of t is set.
func (t *TLS) IsSet() bool { return !reflect.ValueOf(*t).IsZero() }

// Roots reads the authorities of CAFile. Without one it returns nil, which means the system's.
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
		return nil, fmt.Errorf("read authorities: %s contains no PEM certificate", t.CAFile)
	}
	return pool, nil
}

// pair reads the client's certificate and key. It returns none if there is none.
func (t *TLS) pair() ([]tls.Certificate, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// IsGlob reports whether a path is a pattern as filepath.Match reads them.
func IsGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

// GlobParent returns the deepest directory of a glob without wildcards. A directory that may not be read looks empty to
// filepath.Glob.
func GlobParent(pattern string) string {
	dir := filepath.Dir(pattern)
	for IsGlob(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// Peer is a server's certificates from a handshake, with the result of verification by authority, name and date, even if
// the configuration does not require that.
type Peer struct {
	// Certificates are in the order of the handshake, the server's own first. There is at least one.
	Certificates []*x509.Certificate
	// Chains lead from the server's own certificate to an authority and are valid now. They are empty if Err is not nil.
	Chains [][]*x509.Certificate
	// Err is why the certificates do not verify.
	Err error
	// Accepted is whether the configuration trusts the server: by its pin, by verification, or because it skips that.
	Accepted bool
}

// ClientFor returns the TLS configuration for one server. Name is its DNS name or IP address, which ServerName overrides.
// It offers the application protocols of alpn, which ALPN overrides, too. Each call reads the files, so a renewed one counts at once.
// Every handshake calls seen with the certificates, accepted or not, perhaps after the client has given up.
func (t *TLS) ClientFor(name string, alpn []string, seen func(Peer)) (*tls.Config, error) {
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	pair, err := t.pair()
	if err != nil {
		return nil, err
	}
	name = t.NameFor(name)
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
			err := t.accept(p)
			p.Accepted = err == nil
			seen(p)
			return err
		},
	}, nil
}

// NameFor is the name that the certificate of the server at host must have: ServerName, else host. Certificates have A-labels.
func (t *TLS) NameFor(host string) string { return ASCIIHost(cmp.Or(t.ServerName, host)) }

// verify applies the rules of crypto/tls.
func verify(name string, roots *x509.CertPool, shown []*x509.Certificate) Peer {
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	return Peer{Certificates: shown, Chains: chains, Err: err}
}

// accept checks the pin if there is one, else the verification unless that is disabled.
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
