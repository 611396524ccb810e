package exchange

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// rsaOf is an RSA key of a length that no library makes any more, or that takes minutes. It signs nothing that verifies.
type rsaOf int

func (bits rsaOf) Public() crypto.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits)-1)
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
}

func (bits rsaOf) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return make([]byte, bits/8), nil
}

// issue makes a certificate for irc.test of a template.
func issue(t *testing.T, by *x509.Certificate, signer crypto.Signer, template *x509.Certificate, key crypto.Signer) tls.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(0x4142434445464748), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// with returns a certificate with other bytes in it.
func with(t *testing.T, c tls.Certificate, old, changed string) tls.Certificate {
	t.Helper()
	der := bytes.Replace(c.Certificate[0], []byte(old), []byte(changed), 1)
	if bytes.Equal(der, c.Certificate[0]) {
		t.Fatalf("%q is not in the certificate", old)
	}
	c.Certificate = [][]byte{der}
	return c
}

// writePair writes a pair of files for a client.
func writePair(t *testing.T, c *exchangetest.Certified) config.TLS {
	t.Helper()
	certificate, key := c.PEM(t)
	dir := t.TempDir()
	trust := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for path, content := range map[string][]byte{trust.CertFile: certificate, trust.KeyFile: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return trust
}

// servingTLS is a server that answers anything over HTTP, on several connections at a time.
func servingTLS(t *testing.T, how *tls.Config) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // a test's server
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close() //nolint:errcheck // a test's server
				server := tls.Server(conn, how)
				if n, _ := server.Read(make([]byte, 512)); n > 0 {
					exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(server)
				}
				exchangetest.Hold(conn) // a reset would overtake the alert
			})
		}
	})
	return l.Addr().String()
}

// TestEachRefusalOfAHandshakeHasItsOwnWords has servers that refuse, or are refused, over IRC and HTTP.
func TestEachRefusalOfAHandshakeHasItsOwnWords(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
	other := exchangetest.Certificate{Name: "other root", Authority: true}.Make(t)
	good := exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"irc.test"}}.Make(t))
	named := func() *x509.Certificate { return &x509.Certificate{DNSNames: []string{"irc.test"}} }
	key := exchangetest.Certificate{}.Make(t).Key
	pool := x509.NewCertPool()
	pool.AddCert(root.Cert)
	client, foreign := exchangetest.Certificate{By: root, Name: "client"}.Make(t),
		exchangetest.Certificate{By: other, Name: "client"}.Make(t)
	old := exchangetest.Certificate{
		By:     root,
		Name:   "client",
		Begins: time.Now().Add(-2 * time.Hour),
		End:    time.Now().Add(-time.Hour),
	}.Make(t)
	shows := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const sha256RSA, sha1RSA = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05"
	authority := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "RSA root"},
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	rsaRoot, err := x509.ParseCertificate(issue(t, authority, rsaKey, authority, rsaKey).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	sha1 := issue(t, rsaRoot, rsaKey, named(), key)
	sha1.Certificate[0] = bytes.ReplaceAll(sha1.Certificate[0], []byte(sha256RSA), []byte(sha1RSA))
	asks := func(version uint16) *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{good},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
			MaxVersion:   version,
		}
	}
	for name, tt := range map[string]struct {
		server *tls.Config
		client config.TLS
		hint   string // "" for success
	}{
		"nothing": {server: shows(good)},
		"a common name alone": {
			server: shows(issue(t, root.Cert, root.Key, &x509.Certificate{Subject: pkix.Name{CommonName: "irc.test"}}, key)),
			hint:   "common name (CN)",
		},
		"another name": {
			server: shows(issue(t, root.Cert, root.Key, &x509.Certificate{DNSNames: []string{"mail.test"}}, key)),
			hint:   "change server_name",
		},
		"another authority": {
			server: shows(exchangetest.Chain(exchangetest.Certificate{By: other, Names: []string{"irc.test"}}.Make(t))),
			hint:   "change ca_file",
		},
		"self-signed": {server: shows(issue(t, named(), key, named(), key)), hint: "change ca_file"},
		"only for clients": {
			server: shows(issue(t, root.Cert, root.Key,
				&x509.Certificate{DNSNames: []string{"irc.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key)),
			hint: "serverAuth",
		},
		"a short RSA key": {server: shows(issue(t, root.Cert, root.Key, named(), rsaOf(1016))), hint: "too short"},
		"a long RSA key": {
			server: shows(issue(t, root.Cert, root.Key, named(), rsaOf(8200))),
			hint:   "longer than clients accept",
		},
		"a negative serial number": {
			server: shows(with(t, issue(t, root.Cert, root.Key, named(), key), "ABCDEFGH", "\x81BCDEFGH")),
			hint:   "serial number",
		},
		"a malformed certificate": {
			server: shows(with(t, issue(t, root.Cert, root.Key, named(), key), "irc.test", "irc.\xffest")),
			hint:   "malformed",
		},
		"an unknown kind of key": {
			server: shows(with(t, issue(t, root.Cert, root.Key, named(), key), "\x2a\x86\x48\xce\x3d\x02\x01",
				"\x2a\x86\x48\xce\x3d\x02\x7f")),
			hint: "kind that clients do not support",
		},
		"signed with SHA-1": {server: shows(sha1), hint: "SHA-1"},
		"the key of another": {
			server: shows(tls.Certificate{Certificate: good.Certificate, PrivateKey: key}),
			hint:   "belong together",
		},
		"an old version": {
			server: &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			hint:   "neither TLS 1.2 nor TLS 1.3",
		},
		"an old cipher": {
			server: &tls.Config{
				Certificates: []tls.Certificate{good},
				MaxVersion:   tls.VersionTLS12,
				CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA},
			},
			hint: "no cipher or signature",
		},
		"another protocol": {
			server: &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"h3"}},
			client: config.TLS{ALPN: []string{"irc"}},
			hint:   "change alpn",
		},
		"a fault of the server": {
			server: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no key") }},
			hint:   "fails by itself",
		},
		"no client certificate, 1.3": {server: asks(tls.VersionTLS13), hint: "set cert_file and key_file"},
		"no client certificate, 1.2": {server: asks(tls.VersionTLS12), hint: "set cert_file and key_file"},
		"a foreign one, 1.3":         {server: asks(tls.VersionTLS13), client: writePair(t, foreign), hint: "change cert_file"},
		"a foreign one, 1.2":         {server: asks(tls.VersionTLS12), client: writePair(t, foreign), hint: "change cert_file"},
		"an expired one, 1.3": {
			server: asks(tls.VersionTLS13),
			client: writePair(t, old),
			hint:   "refuses the certificate in cert_file",
		},
		"an expired one, 1.2": {
			server: asks(tls.VersionTLS12),
			client: writePair(t, old),
			hint:   "refuses the certificate in cert_file",
		},
		"the client certificate, 1.3": {server: asks(tls.VersionTLS13), client: writePair(t, client)},
		"the client certificate, 1.2": {server: asks(tls.VersionTLS12), client: writePair(t, client)},
	} {
		t.Run(name, func(t *testing.T) {
			address := servingTLS(t, tt.server)
			tt.client.CAFile, tt.client.ServerName = exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root,
				&exchangetest.Certified{Cert: rsaRoot}), "irc.test"
			port := &TLSServer{Address: address, IRC: true, Trust: tt.client}
			web := &HTTP{Settings: config.HTTP{URL: "https://" + address, TLS: tt.client}, Limit: 100}
			_, webErr := web.Get(t.Context(), &Record{}, nil)
			for kind, err := range map[string]error{
				"http": webErr,
				"irc": port.Converse(t.Context(), &Record{}, func(conn *tls.Conn) error {
					exchangetest.Say("CAP LS 302\r\n")(conn)
					_, err := conn.Read(make([]byte, 1))
					return err
				}),
			} {
				if tt.hint == "" {
					if err != nil {
						t.Errorf("%s: %v", kind, err)
					}
					continue
				}
				wantReason(t, err, failure.TLS)
				if got := failure.HintOf(err); err != nil && !strings.Contains(got, tt.hint) {
					t.Errorf("%s: %v: hint %q, want %q in it", kind, err, got, tt.hint)
				}
			}
		})
	}
}
