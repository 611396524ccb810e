package app

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

const (
	ownPortPassword = "sesame-own-port"
	ownPortBcrypt   = "$2a$04$zHsYhEEcr2fk2cX5ruyqBesp58fWiFjYEnoWdGUZz6AezVPFM1auK"
)

// newIdentity makes a key and a certificate that it signs itself, for loopback.
func newIdentity(t *testing.T, name string) *exchangetest.Certified {
	t.Helper()
	return exchangetest.Certificate{Name: name, Names: []string{"127.0.0.1"}, Authority: true}.Make(t)
}

// The shipped example is what is tried, whole and in halves.
func TestOwnPortIsClosedToStrangersAndHealthyAllTheSame(t *testing.T) {
	binary := buildBinary(t)
	example := contentOf(t, "../../deploy/systemd/web.yml")
	both := strings.Replace(string(example), "<bcrypt>", ownPortBcrypt, 1)
	encryption, authentication, found := strings.Cut(both, "basic_auth_users:")
	if !found {
		t.Fatal("the example has no basic_auth_users")
	}
	server, identity, another := newIdentity(t, "server"), newIdentity(t, "client"), newIdentity(t, "stranger")
	serverPEM, serverKey := server.PEM(t)
	clientPEM, _ := identity.PEM(t)
	client, stranger := exchangetest.Chain(identity), exchangetest.Chain(another)
	trust := x509.NewCertPool()
	trust.AddCert(server.Cert)

	// who may ask as whom; a status of 0 is a connection that is refused.
	type visitor struct {
		certificate    *tls.Certificate
		user, password string
		want           int
	}
	for name, c := range map[string]struct {
		config   string
		scheme   string
		visitors map[string]visitor
	}{
		"password": {"basic_auth_users:" + authentication, "http", map[string]visitor{
			"nobody":         {want: http.StatusUnauthorized},
			"wrong password": {user: "prometheus", password: "wrong", want: http.StatusUnauthorized},
			"unknown user":   {user: "mallory", password: ownPortPassword, want: http.StatusUnauthorized},
			"prometheus":     {user: "prometheus", password: ownPortPassword, want: http.StatusOK},
		}},
		"certificate": {encryption, "https", map[string]visitor{
			"nobody":     {},
			"stranger":   {certificate: &stranger},
			"prometheus": {certificate: &client, want: http.StatusOK},
		}},
		"both": {both, "https", map[string]visitor{
			"password alone":    {user: "prometheus", password: ownPortPassword},
			"certificate alone": {certificate: &client, want: http.StatusUnauthorized},
			"prometheus": {
				certificate: &client,
				user:        "prometheus",
				password:    ownPortPassword,
				want:        http.StatusOK,
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directoryWith(t, "poll: {}\n")
			for file, content := range map[string][]byte{
				"web.yml": []byte(c.config), "server.crt": serverPEM, "server.key": serverKey, "client_ca.crt": clientPEM,
			} {
				must(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
			}
			p := startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--web.config.file=web.yml")
			address := strings.TrimPrefix(exporterOf(t, p).url, "http://")
			for _, who := range slices.Sorted(maps.Keys(c.visitors)) {
				v := c.visitors[who]
				config := &tls.Config{RootCAs: trust}
				if v.certificate != nil {
					// Shown whatever authorities the server names, as a stranger would.
					config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return v.certificate, nil }
				}
				transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
				for _, path := range []string{
					"/", "/metrics", "/-/healthy", "/-/ready", "/debug/targets/x", "/debug/targets/", "/maintenance", "/api/v1/maintenance",
					"/runbooks", "/runbooks/TargetDown", "/runbooks/TargetDown.md",
				} {
					want := v.want
					if path == "/debug/targets/x" && want == http.StatusOK {
						want = http.StatusNotFound
					}
					if got := visit(t, transport, c.scheme+"://"+address+path, v.user, v.password); got != want {
						t.Errorf("%s asks for %s: status %d, want %d", who, path, got, want)
					}
				}
			}
			check := func() int {
				return startProgram(t, binary, dir, nil, "healthcheck", "--web.listen-address="+address).ExitCode(t, patience)
			}
			for range 5 { // what becomes of a refusal depends on who closes first
				if code := check(); code != 0 {
					t.Errorf("healthcheck: exit code %d, want 0", code)
				}
			}
			p.Terminate(t)
			p.ExitCode(t, patience)
			if code := check(); code != 1 {
				t.Errorf("healthcheck after the end: exit code %d, want 1", code)
			}
			for _, secret := range []string{ownPortPassword, ownPortBcrypt} {
				if strings.Contains(p.Stderr.String()+p.Stdout.String(), secret) {
					t.Errorf("the log has %q", secret)
				}
			}
		})
	}
}

// visit returns the status of the answer, or 0 for a connection that is refused.
func visit(t *testing.T, transport http.RoundTripper, url, user, password string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	resp.Body.Close() //nolint:errcheck,gosec // nobody reads it
	return resp.StatusCode
}
