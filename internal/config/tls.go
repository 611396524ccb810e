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

// Client returns a client's TLS configuration. CAFile is read anew at each call, so that a renewed one counts at once.
func (t *TLS) Client() (*tls.Config, error) {
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: roots, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // only when written out
	if pin := t.PinnedSHA256(); pin != nil {
		c.InsecureSkipVerify = true // replaced by the pin, which is stricter
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return ErrFingerprint
			}
			if got := sha256.Sum256(s.PeerCertificates[0].Raw); !bytes.Equal(got[:], pin) {
				return fmt.Errorf("%w: it is %s", ErrFingerprint, hex.EncodeToString(got[:]))
			}
			return nil
		}
	}
	return c, nil
}
