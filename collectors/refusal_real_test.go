//go:build realservers

package collectors

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// shortRSA makes a certificate for 127.0.0.1 with an RSA key so short that Go makes none, and its key.
func shortRSA(t *testing.T, by *exchangetest.Certified) (certificate, private []byte) {
	t.Helper()
	private, err := exec.CommandContext(t.Context(), "openssl", "genrsa", "768").Output()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	//nolint:forcetypeassert // an RSA key is one
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, key.(crypto.Signer).Public(), by.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), private
}

// TestRealRefusalsHaveTheirOwnWords has nginx refuse usual clients, or be refused by them.
func TestRealRefusalsHaveTheirOwnWords(t *testing.T) {
	t.Parallel()
	root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
	authority := exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)
	client, clientKey := exchangetest.Certificate{By: root, Name: "exporter"}.Make(t).PEM(t)
	strange, strangeKey := exchangetest.Certificate{
		By:   exchangetest.Certificate{Name: "another", Authority: true}.Make(t),
		Name: "exporter",
	}.Make(t).PEM(t)
	clientCA, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pair := func(certificate, key []byte) config.TLS {
		dir := t.TempDir()
		trust := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
		for path, content := range map[string][]byte{trust.CertFile: certificate, trust.KeyFile: key} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return trust
	}
	short, shortKey := shortRSA(t, root)
	const verify, weak = "ssl_verify_client on; ssl_client_certificate client-ca.pem;", "ssl_ciphers DEFAULT:@SECLEVEL=0;"
	for name, tt := range map[string]struct {
		lines  string
		files  map[string][]byte
		trust  config.TLS
		reason failure.Reason // "" for success
		hint   string
	}{
		"no client certificate": {
			lines:  verify,
			files:  map[string][]byte{"client-ca.pem": clientCA},
			reason: failure.HTTPStatus,
			hint:   "set cert_file and key_file",
		},
		"a foreign one": {
			lines:  verify,
			files:  map[string][]byte{"client-ca.pem": clientCA},
			trust:  pair(strange, strangeKey),
			reason: failure.HTTPStatus,
			hint:   "names no authority",
		},
		"the client certificate": {lines: verify, files: map[string][]byte{"client-ca.pem": clientCA}, trust: pair(client, clientKey)},
		"old versions":           {lines: "ssl_protocols TLSv1 TLSv1.1; " + weak, reason: failure.TLS, hint: "neither TLS 1.2 nor TLS 1.3"},
		"old ciphers": {
			lines:  "ssl_protocols TLSv1.2; ssl_ciphers CAMELLIA;",
			reason: failure.TLS,
			hint:   "no cipher or signature",
		},
		"a short RSA key": {
			lines:  weak,
			files:  map[string][]byte{"certificate.pem": short, "key.pem": shortKey},
			reason: failure.TLS,
			hint:   "too short",
		},
		"nothing but its own limits": {},
	} {
		server := realstack.StartNginxWith(t, tt.lines, tt.files)
		s := newWebSettings()
		s.URL, s.TLS = "https://"+server.Addr+"/health", tt.trust
		s.CAFile = server.Authority.File
		if name == "a short RSA key" {
			s.CAFile = authority
		}
		err := probeLogin(t, newProbe(t, newWeb, s))
		wantLogin(t, name, err, tt.reason)
		if err != nil && !strings.Contains(failure.HintOf(err), tt.hint) {
			t.Errorf("%s: %v, hint %q, want %q in it", name, err, failure.HintOf(err), tt.hint)
		}
	}
}

// TestRealIRCServersAskForACertificateAndDoWithout checks the TLS port of real IRC servers,
// InspIRCd of which asks clients for certificates.
func TestRealIRCServersAskForACertificateAndDoWithout(t *testing.T) {
	t.Parallel()
	for _, server := range []*realstack.IRC{realstack.StartNgIRCd(t), realstack.StartInspIRCd(t)} {
		s := &TLSEndpoint{}
		s.Address, s.CAFile = server.TLSAddr, server.Authority.File
		wantLogin(t, server.TLSAddr, probeLogin(t, newProbe(t, newTLSEndpoint, s)), "")
	}
}

// TestRealWebServerIsNoIRCServer logs in to a real web server as if it were an IRC server.
func TestRealWebServerIsNoIRCServer(t *testing.T) {
	t.Parallel()
	server := realstack.StartNginxWith(t, "", nil)
	s := newIRCLoginSettings()
	s.Address, s.Nick, s.CAFile = server.Addr, "probe", server.Authority.File
	err := probeLogin(t, newProbe(t, newIRCLogin, s))
	wantLogin(t, server.Addr, err, failure.Malformed)
	if hint := failure.HintOf(err); !strings.Contains(hint, "this is the port of a web server") {
		t.Errorf("%v: hint %q", err, hint)
	}
}
