package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

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

// ClientCertificates reads the client's certificate with its key, if there is one.
func (t *TLS) ClientCertificates() ([]tls.Certificate, error) {
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
