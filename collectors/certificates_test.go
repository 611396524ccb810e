package collectors

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// tlsServerOf serves HTTPS with certificates.
func tlsServerOf(t *testing.T, shown ...tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: shown, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// readNamed makes one reading of a target with a name.
func readNamed(t *testing.T, c Collector) (*Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b := &Batch{Target: "endpoint"}
	return b, c.Collect(ctx, b)
}

// goldenCertificates compares with a page of a success or, where a reason is wanted, of a failure.
func goldenCertificates(t *testing.T, name string, b *Batch, err error, want failure.Reason) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got %v, want trust", err)
		}
		goldenPage(t, "certificates/"+name, b)
		return
	}
	wantReason(t, err, want)
	goldenFailure(t, "certificates/"+name, b, err)
}

func pinOf(c *exchangetest.Certified) string {
	digest := sha256.Sum256(c.Cert.Raw)
	return hex.EncodeToString(digest[:])
}

// TestCertificateIsReportedWhateverItIsWorth asks HTTPS servers with certificates of every kind: when the server's own
// ends is known even if it is refused, and nothing is invented of what is not.
func TestCertificateIsReportedWhateverItIsWorth(t *testing.T) {
	dir := t.TempDir()
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	between := exchangetest.Certificate{
		Name:      "between",
		Authority: true,
		By:        root,
		End:       exchangetest.FirstDay,
	}.Make(t)
	leafOf := func(c exchangetest.Certificate) *exchangetest.Certified {
		if c.End.IsZero() {
			c.End = exchangetest.SecondDay
		}
		if c.Names == nil {
			c.Names = []string{"127.0.0.1", "chat.test"}
		}
		return c.Make(t)
	}
	good, own := leafOf(exchangetest.Certificate{By: root}), leafOf(exchangetest.Certificate{})
	below := leafOf(exchangetest.Certificate{By: between})
	over := leafOf(exchangetest.Certificate{By: root, Begins: exchangetest.LongAgo, End: exchangetest.LongAgo.AddDate(1, 0, 0)})
	early := leafOf(exchangetest.Certificate{By: root, Begins: exchangetest.FirstDay})
	other := leafOf(exchangetest.Certificate{By: root, Names: []string{"other.test"}})
	ca := exchangetest.Write(t, filepath.Join(dir, "ca.pem"), root)
	for name, c := range map[string]struct {
		shown tls.Certificate
		trust config.TLS
		want  failure.Reason
		hint  string
	}{
		"good": {
			exchangetest.Chain(good),
			config.TLS{CAFile: ca},
			"",
			"",
		},
		"good_for_a_name": {
			exchangetest.Chain(good),
			config.TLS{CAFile: ca, ServerName: "chat.test"},
			"",
			"",
		},
		"whole_chain": {
			exchangetest.Chain(below, between),
			config.TLS{CAFile: ca},
			"",
			"",
		},
		"incomplete_chain": {
			exchangetest.Chain(below),
			config.TLS{CAFile: ca},
			failure.TLS,
			"fullchain.pem",
		},
		"signed_by_itself": {
			exchangetest.Chain(own),
			config.TLS{CAFile: ca},
			failure.TLS,
			"self-signed",
		},
		"expired": {
			exchangetest.Chain(over),
			config.TLS{CAFile: ca},
			failure.TLS,
			"expired at 2021-01-01 00:00 UTC",
		},
		"not_yet_valid": {
			exchangetest.Chain(early),
			config.TLS{CAFile: ca},
			failure.TLS,
			"is valid only from 2190-01-01 00:00 UTC",
		},
		"wrong_name": {
			exchangetest.Chain(other),
			config.TLS{CAFile: ca},
			failure.TLS,
			"not for 127.0.0.1",
		},
		"right_by_server_name": {
			exchangetest.Chain(other),
			config.TLS{CAFile: ca, ServerName: "other.test"},
			"",
			"",
		},
		"system_authorities": {
			exchangetest.Chain(good),
			config.TLS{},
			failure.TLS,
			"ca_file",
		},
		"pinned": {
			exchangetest.Chain(own),
			config.TLS{Fingerprint: strings.ToUpper(pinOf(own))},
			"",
			"",
		},
		"pinned_and_expired": {
			exchangetest.Chain(over),
			config.TLS{Fingerprint: pinOf(over)},
			"",
			"",
		},
		"another_pin": {
			exchangetest.Chain(good),
			config.TLS{Fingerprint: pinOf(own)},
			failure.TLS,
			"was renewed",
		},
		"the_pin_is_appended": {
			exchangetest.Chain(good, own),
			config.TLS{Fingerprint: pinOf(own)},
			failure.TLS,
			"was renewed",
		},
		"the_pin_is_above": {
			exchangetest.Chain(below, between),
			config.TLS{Fingerprint: pinOf(between)},
			failure.TLS,
			"was renewed",
		},
		"pinned_with_its_chain": {
			exchangetest.Chain(below, between),
			config.TLS{Fingerprint: pinOf(below)},
			"",
			"",
		},
		"anything_goes": {
			exchangetest.Chain(over),
			config.TLS{InsecureSkipVerify: true},
			"",
			"",
		},
		"authorities_are_gone": {
			exchangetest.Chain(good),
			config.TLS{CAFile: ca + ".gone"},
			failure.TLS,
			"",
		},
		"authority_is_no_leaf": {
			exchangetest.Chain(root),
			config.TLS{CAFile: ca},
			failure.TLS,
			"only as the common name (CN)",
		},
		"nobody_needs_a_chain": {
			exchangetest.Chain(good, over, between),
			config.TLS{CAFile: ca},
			"",
			"",
		},
		"the_leaf_stands_second": {
			exchangetest.Chain(between, below),
			config.TLS{InsecureSkipVerify: true},
			"",
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the_leaf_stands_second" {
				c.shown.PrivateKey = between.Key
			}
			b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, c.shown), c.trust))
			goldenCertificates(t, name, b, err, c.want)
			if err != nil && !strings.Contains(failure.HintOf(err), c.hint) {
				t.Errorf("hint %q lacks %q", failure.HintOf(err), c.hint)
			}
			if noted := len(b.Notes) > 0; noted != (strings.HasPrefix(name, "pinned") || name == "anything_goes" ||
				name == "the_leaf_stands_second") {
				t.Errorf("notes: %q", b.Notes)
			}
		})
	}
}

// TestMachineWithoutAuthoritiesSaysWhatToDo runs one test again in a process of its own: Go reads the authorities once.
func TestMachineWithoutAuthoritiesSaysWhatToDo(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program,
		"-test.run=^TestCertificateIsReportedWhateverItIsWorth$/^system_authorities$", "-test.v")
	cmd.Env = []string{"SSL_CERT_FILE=" + t.TempDir(), "SSL_CERT_DIR=" + filepath.Join(t.TempDir(), "absent"), "TMPDIR=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "--- PASS: TestCertificateIsReportedWhateverItIsWorth/system_authorities") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOldCrossSignedRootEndsNothing is the fault of September 2021: clients that know the new root do not need the old
// one that also vouches for it.
func TestOldCrossSignedRootEndsNothing(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	leaf := exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}, End: exchangetest.SecondDay}.Make(t)
	for name, c := range map[string]struct{ begins, end, crossEnd time.Time }{
		"after the old root's end": {exchangetest.LongAgo, exchangetest.LongAgo.AddDate(1, 0, 0), exchangetest.SecondDay},
		// Both chains verify still, and the one through the old root ends first.
		"the old root's last day": {time.Time{}, exchangetest.FirstDay, exchangetest.ThirdDay},
	} {
		t.Run(name, func(t *testing.T) {
			old := exchangetest.Certificate{
				Name:      "old root",
				Authority: true,
				Begins:    c.begins,
				End:       c.end,
			}.Make(t)
			cross := exchangetest.Certificate{
				By:        old,
				Of:        root,
				Authority: true,
				End:       c.crossEnd,
			}.Make(t)
			ca := exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), old, root)
			b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, exchangetest.Chain(leaf, cross)), config.TLS{CAFile: ca}))
			goldenCertificates(t, "cross_signed", b, err, "")
		})
	}
}

func TestRenewedFileThatWasNotLoadedShows(t *testing.T) {
	dir := t.TempDir()
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	ca := exchangetest.Write(t, filepath.Join(dir, "ca.pem"), root)
	old := exchangetest.Certificate{
		By:     root,
		Names:  []string{"chat.test"},
		Begins: exchangetest.LongAgo,
		End:    exchangetest.FirstDay,
	}.Make(t)
	renewed := exchangetest.Certificate{By: root, Names: []string{"chat.test"}, End: exchangetest.SecondDay}.Make(t)
	wild := exchangetest.Certificate{
		By:     root,
		Names:  []string{"*.test"},
		Begins: exchangetest.LongAgo.AddDate(1, 0, 0),
		End:    exchangetest.ThirdDay,
	}.Make(t)
	foreign := exchangetest.Certificate{By: root, Names: []string{"other.example"}, End: exchangetest.ThirdDay}.Make(t)
	url := tlsServerOf(t, exchangetest.Chain(old))
	live := func(name string) string { return filepath.Join(dir, "live", name, "fullchain.pem") }
	glob := filepath.Join(dir, "live", "*", "fullchain.pem")
	exchangetest.Write(t, live("other.example"), foreign)
	for _, step := range []struct {
		name, file string
		change     func()
	}{
		{"file_matches", live("chat.test"), func() { exchangetest.Write(t, live("chat.test"), old, root) }},
		{"file_matches", glob, func() {}},
		{"file_renewed", live("chat.test"), func() { exchangetest.Write(t, live("chat.test"), renewed, root) }},
		{"file_renewed", glob, func() {}},
		{"file_renewed_under_another_name", glob, func() {}},
		// Issued before the renewed one, though it ends later.
		{"file_renewed", glob, func() { exchangetest.Write(t, live("wild"), wild) }},
		{"file_of_another", live("other.example"), func() {}},
		{"file_beside_another", glob, func() { exchangetest.Write(t, live("chat.test-0001"), old) }},
		{"no_file_fits", glob, func() {
			for _, name := range []string{"chat.test", "chat.test-0001", "wild"} {
				if err := os.RemoveAll(filepath.Dir(live(name))); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"no_file", live("chat.test"), func() {}},
		{"no_file", filepath.Join(dir, "dead", "*.pem"), func() {}},
	} {
		step.change()
		trust := config.TLS{CAFile: ca, ServerName: "chat.test", CertificateFile: step.file}
		if step.name == "file_renewed_under_another_name" {
			// It is reached by an address that its certificate is not for, as a pinned one often is.
			trust = config.TLS{Fingerprint: pinOf(old), CertificateFile: step.file}
		}
		b, err := readNamed(t, proxyProbe(t, url, trust))
		name := map[string]string{"file_beside_another": "file_matches", "no_file_fits": "no_file"}[step.name]
		if name == "" {
			name = step.name
		}
		goldenCertificates(t, name, b, err, "")
		if noted := len(b.Notes) > 0; noted == (name == "file_matches") {
			t.Errorf("%s, %s: notes %q", step.name, step.file, b.Notes)
		}
	}
}

// TestBothCertificatesOfAServerAreReported has the RSA one expire first, which its file has replaced.
func TestBothCertificatesOfAServerAreReported(t *testing.T) {
	dir := t.TempDir()
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	names := []string{"127.0.0.1"}
	ec := exchangetest.Certificate{By: root, Names: names, End: exchangetest.SecondDay}.Make(t)
	rsa := exchangetest.Certificate{
		By:    root,
		Names: names,
		RSA:   true,
		End:   exchangetest.FirstDay,
	}.Make(t)
	renewed := exchangetest.Certificate{
		By:    root,
		Names: names,
		RSA:   true,
		End:   exchangetest.ThirdDay,
	}.Make(t)
	trust := config.TLS{
		CAFile:          exchangetest.Write(t, filepath.Join(dir, "ca.pem"), root),
		CertificateFile: exchangetest.Write(t, filepath.Join(dir, "rsa.pem"), renewed),
	}
	b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, exchangetest.Chain(ec), exchangetest.Chain(rsa)), trust))
	goldenCertificates(t, "two_certificates", b, err, "")
	for _, c := range b.Conditions(err) {
		if c.Alert == health.AlertServedNotRenewed &&
			(!c.Holds || len(c.Certificates) != 1 || !c.Certificates[0].Ends.Equal(exchangetest.FirstDay)) {
			t.Errorf("got %+v, want that it holds for the RSA certificate", c)
		}
	}
}

func TestFileOfAServerThatIsDownIsReported(t *testing.T) {
	leaf := exchangetest.Certificate{Names: []string{"chat.test"}, End: exchangetest.FirstDay}.Make(t)
	file := exchangetest.Write(t, filepath.Join(t.TempDir(), "chain.pem"), leaf)
	b, err := readNamed(t, proxyProbe(t, "https://127.0.0.1:1/health", config.TLS{CertificateFile: file}))
	goldenCertificates(t, "down_with_a_file", b, err, failure.Refused)
}

// TestOneReadingReportsACertificateOnce covers readings of several requests, the first of which shows nothing.
func TestOneReadingReportsACertificateOnce(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	leaf := exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}, End: exchangetest.FirstDay}.Make(t)
	dir := t.TempDir()
	trust := config.TLS{
		CAFile:          exchangetest.Write(t, filepath.Join(dir, "ca.pem"), root),
		CertificateFile: exchangetest.Write(t, filepath.Join(dir, "chain.pem"), leaf),
	}
	b := &Batch{Target: "endpoint"}
	down := &exchange.HTTP{Settings: config.HTTP{URL: "https://127.0.0.1:1/", TLS: trust}, Limit: 1}
	up := &exchange.HTTP{Settings: config.HTTP{URL: tlsServerOf(t, exchangetest.Chain(leaf)), TLS: trust}, Limit: 1}
	for i, h := range []*exchange.HTTP{down, up, up, down} {
		if _, err := h.Get(t.Context(), &b.Record, nil); (err != nil) != (h == down) {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	goldenPage(t, "certificates/several_requests", b)
}

// TestProxyIsNotTheTarget has an HTTPS proxy with a certificate of its own in between.
func TestProxyIsNotTheTarget(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	ca := exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)
	leaf := exchangetest.Certificate{By: root, Names: []string{"chat.test"}, End: exchangetest.FirstDay}.Make(t)
	target := tlsServerOf(t, exchangetest.Chain(leaf))
	between := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil || r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n") //nolint:errcheck // a test's server
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(there, here) //nolint:errcheck // until the client leaves
			there.Close()        //nolint:errcheck,gosec // a test's server
		}()
		io.Copy(here, there) //nolint:errcheck // until the server leaves
		here.Close()         //nolint:errcheck,gosec // a test's server
		<-done
	}))
	between.Config.ErrorLog = log.New(io.Discard, "", 0)
	between.TLS = &tls.Config{Certificates: []tls.Certificate{
		exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}, End: exchangetest.ThirdDay}.Make(t)),
	}, MinVersion: tls.VersionTLS12}
	between.StartTLS()
	t.Cleanup(between.Close)
	for name, trust := range map[string]config.TLS{
		"through_a_proxy":        {CAFile: ca, ServerName: "chat.test"},
		"pinned_through_a_proxy": {Fingerprint: pinOf(leaf), ServerName: "chat.test"},
	} {
		s := &XMPPProxy{}
		s.URL, s.ProxyURL, s.TLS = target, between.URL, trust
		probe, err := newXMPPProxy(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		b, err := readNamed(t, probe)
		if trust.Fingerprint != "" {
			// The pin is the target's. The proxy is verified by the system's authorities, which do not know this one.
			wantReason(t, err, failure.TLS)
			if !b.Certificate.Leaf.Ends.IsZero() {
				t.Error("the proxy's certificate passes for the target's")
			}
			continue
		}
		goldenCertificates(t, name, b, err, "")
	}
}

func TestUnreadableCertificateFilesAreToldApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	leaf := exchangetest.Certificate{Names: []string{"chat.test"}, End: exchangetest.SecondDay}.Make(t)
	sooner := exchangetest.Certificate{Names: []string{"irc.test"}, End: exchangetest.FirstDay}.Make(t)
	key, err := x509.MarshalPKCS8PrivateKey(leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	exchangetest.Write(t, at("good/a.pem"), leaf)
	exchangetest.Write(t, at("good/b.pem"), sooner)
	for name, content := range map[string]string{
		"empty.pem": "", "key.pem": string(keyPEM), "torn.pem": "-----BEGIN CERTIFICATE-----\nMIIB",
		"large.pem":   strings.Repeat("x", 1<<20+1),
		"not_der.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("nonsense")})),
		"both.pem":    string(keyPEM) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Cert.Raw})),
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file, name string
		want       failure.Reason
	}{
		"file_one":            {at("good/a.pem"), "", ""},
		"file_behind_a_key":   {at("both.pem"), "", ""},
		"file_first_of_two":   {at("good/*.pem"), "", ""},
		"file_for_a_name":     {at("good/*.pem"), "chat.test", ""},
		"file_for_no_name":    {at("good/*.pem"), "mail.test", failure.Mismatch},
		"file_missing":        {at("none.pem"), "", failure.NotFound},
		"file_glob_of_none":   {at("good/*.crt"), "", failure.NotFound},
		"file_glob_nowhere":   {at("bad/*/a.pem"), "", failure.NotFound},
		"file_empty":          {at("empty.pem"), "", failure.Malformed},
		"file_key":            {at("key.pem"), "", failure.Malformed},
		"file_torn":           {at("torn.pem"), "", failure.Malformed},
		"file_not_der":        {at("not_der.pem"), "", failure.Malformed},
		"file_directory":      {at("good"), "", failure.Malformed},
		"file_large":          {at("large.pem"), "", failure.TooLarge},
		"file_some_of_many":   {at("*o*.pem"), "", failure.Malformed}, // both.pem, not_der.pem and torn.pem
		"file_name_among_bad": {at("*o*.pem"), "chat.test", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &TLSEndpoint{}
			s.CertificateFile, s.ServerName = c.file, c.name
			probe, err := newTLSEndpoint(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := readNamed(t, probe)
			goldenCertificates(t, name, b, err, c.want)
			if err != nil {
				wantListed(t, "tls", c.want)
			}
		})
	}
}

func TestEngineOverTLSReportsItsCertificate(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	leaf := exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}, End: exchangetest.FirstDay}.Make(t)
	dir := t.TempDir()
	s := newDockerSettings()
	s.Host = strings.Replace(tlsServerOf(t, exchangetest.Chain(leaf)), "https://", "tcp://", 1)
	s.TLS = config.TLS{
		CAFile:          exchangetest.Write(t, filepath.Join(dir, "ca.pem"), root),
		CertificateFile: exchangetest.Write(t, filepath.Join(dir, "chain.pem"), leaf),
	}
	probe, err := newDocker(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := readNamed(t, probe)
	if err == nil {
		t.Fatal("a server without an API passes for an engine")
	}
	compareGolden(t, "certificates/several_requests", pageOf(t, b, false))
}
