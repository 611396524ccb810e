package collectors

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// certified is a certificate with its key.
type certified struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificate describes one to be made. The zero value is for nobody, by itself, from an hour ago to tomorrow.
type certificate struct {
	by          *certified
	name        string
	names       []string // DNS names or addresses
	begins, end time.Time
	authority   bool
	of          *certified // whose name and key it bears, where it is another certificate for the same one
}

// The days on which the certificates of these tests end, so that golden pages can hold them.
var (
	firstDay  = time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	secondDay = time.Date(2190, 2, 1, 0, 0, 0, 0, time.UTC)
	thirdDay  = time.Date(2190, 3, 1, 0, 0, 0, 0, time.UTC)
	longAgo   = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (c certificate) make(t *testing.T) *certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	if c.begins.IsZero() {
		c.begins = time.Now().Add(-time.Hour)
	}
	if c.end.IsZero() {
		c.end = time.Now().Add(24 * time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: c.name}, NotBefore: c.begins, NotAfter: c.end,
		BasicConstraintsValid: true, IsCA: c.authority,
	}
	if c.authority {
		template.KeyUsage = x509.KeyUsageCertSign
	}
	for _, name := range c.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if c.of != nil {
		template.Subject, key = c.of.cert.Subject, c.of.key
	}
	parent, signer := template, key
	if c.by != nil {
		parent, signer = c.by.cert, c.by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &certified{cert, key}
}

// chain is what a server shows: its own certificate, then the others.
func chain(leaf *certified, others ...*certified) tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}
	for _, o := range others {
		c.Certificate = append(c.Certificate, o.cert.Raw)
	}
	return c
}

// write writes certificates to a file.
func write(t *testing.T, path string, certs ...*certified) string {
	t.Helper()
	var b bytes.Buffer
	for _, c := range certs {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tlsServerOf serves HTTPS with a certificate.
func tlsServerOf(t *testing.T, shown tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12}
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

func pinOf(c *certified) string {
	digest := sha256.Sum256(c.cert.Raw)
	return hex.EncodeToString(digest[:])
}

// TestCertificateIsReportedWhateverItIsWorth asks HTTPS servers with certificates of every kind: when the server's own
// ends is known even if it is refused, and nothing is invented of what is not.
func TestCertificateIsReportedWhateverItIsWorth(t *testing.T) {
	dir := t.TempDir()
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	between := certificate{name: "between", authority: true, by: root, end: firstDay}.make(t)
	leafOf := func(c certificate) *certified {
		if c.end.IsZero() {
			c.end = secondDay
		}
		if c.names == nil {
			c.names = []string{"127.0.0.1", "chat.test"}
		}
		return c.make(t)
	}
	good, own := leafOf(certificate{by: root}), leafOf(certificate{})
	below := leafOf(certificate{by: between})
	over := leafOf(certificate{by: root, begins: longAgo, end: longAgo.AddDate(1, 0, 0)})
	early := leafOf(certificate{by: root, begins: firstDay})
	other := leafOf(certificate{by: root, names: []string{"other.test"}})
	ca := write(t, filepath.Join(dir, "ca.pem"), root)
	for name, c := range map[string]struct {
		shown tls.Certificate
		trust config.TLS
		want  failure.Reason
		hint  string
	}{
		"good":                   {chain(good), config.TLS{CAFile: ca}, "", ""},
		"good_for_a_name":        {chain(good), config.TLS{CAFile: ca, ServerName: "chat.test"}, "", ""},
		"whole_chain":            {chain(below, between), config.TLS{CAFile: ca}, "", ""},
		"incomplete_chain":       {chain(below), config.TLS{CAFile: ca}, failure.TLS, "fullchain.pem"},
		"signed_by_itself":       {chain(own), config.TLS{CAFile: ca}, failure.TLS, "signed by itself"},
		"expired":                {chain(over), config.TLS{CAFile: ca}, failure.TLS, "ended at 2021-01-01 00:00 UTC"},
		"not_yet_valid":          {chain(early), config.TLS{CAFile: ca}, failure.TLS, "begins only at 2190-01-01 00:00 UTC"},
		"wrong_name":             {chain(other), config.TLS{CAFile: ca}, failure.TLS, "not for 127.0.0.1"},
		"right_by_server_name":   {chain(other), config.TLS{CAFile: ca, ServerName: "other.test"}, "", ""},
		"system_authorities":     {chain(good), config.TLS{}, failure.TLS, "ca_file"},
		"pinned":                 {chain(own), config.TLS{Fingerprint: pinOf(own)}, "", ""},
		"pinned_and_expired":     {chain(over), config.TLS{Fingerprint: pinOf(over)}, "", ""},
		"another_pin":            {chain(good), config.TLS{Fingerprint: pinOf(own)}, failure.TLS, "renewed on purpose"},
		"the_pin_is_appended":    {chain(good, own), config.TLS{Fingerprint: pinOf(own)}, failure.TLS, "renewed on purpose"},
		"the_pin_is_above":       {chain(below, between), config.TLS{Fingerprint: pinOf(between)}, failure.TLS, "renewed on purpose"},
		"pinned_with_its_chain":  {chain(below, between), config.TLS{Fingerprint: pinOf(below)}, "", ""},
		"anything_goes":          {chain(over), config.TLS{InsecureSkipVerify: true}, "", ""},
		"authorities_are_gone":   {chain(good), config.TLS{CAFile: ca + ".gone"}, failure.TLS, ""},
		"authority_is_no_leaf":   {chain(root), config.TLS{CAFile: ca}, failure.TLS, "not for 127.0.0.1"},
		"nobody_needs_a_chain":   {chain(good, over, between), config.TLS{CAFile: ca}, "", ""},
		"the_leaf_stands_second": {chain(between, below), config.TLS{InsecureSkipVerify: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the_leaf_stands_second" {
				c.shown.PrivateKey = between.key
			}
			b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, c.shown), c.trust))
			goldenCertificates(t, name, b, err, c.want)
			if err != nil && !strings.Contains(failure.HintOf(err), c.hint) {
				t.Errorf("hint %q lacks %q", failure.HintOf(err), c.hint)
			}
			if noted := len(b.Notes) > 0; noted != (strings.HasPrefix(name, "pinned") || name == "anything_goes" || name == "the_leaf_stands_second") {
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
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestCertificateIsReportedWhateverItIsWorth$/^system_authorities$", "-test.v")
	cmd.Env = []string{"SSL_CERT_FILE=" + t.TempDir(), "SSL_CERT_DIR=" + filepath.Join(t.TempDir(), "absent"), "TMPDIR=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCertificateIsReportedWhateverItIsWorth/system_authorities") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOldCrossSignedRootEndsNothing is the fault of September 2021: clients that know the new root do not need the old
// one that also vouches for it.
func TestOldCrossSignedRootEndsNothing(t *testing.T) {
	old := certificate{name: "old root", authority: true, begins: longAgo, end: longAgo.AddDate(1, 0, 0)}.make(t)
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	cross := certificate{by: old, of: root, authority: true, end: secondDay}.make(t)
	leaf := certificate{by: root, names: []string{"127.0.0.1"}, end: secondDay}.make(t)
	ca := write(t, filepath.Join(t.TempDir(), "ca.pem"), old, root)
	b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, chain(leaf, cross)), config.TLS{CAFile: ca}))
	goldenCertificates(t, "cross_signed", b, err, "")

	t.Run("the old root's last day", func(t *testing.T) {
		// Both chains verify still, and the one through the old root ends first.
		old := certificate{name: "old root", authority: true, end: firstDay}.make(t)
		cross := certificate{by: old, of: root, authority: true, end: thirdDay}.make(t)
		ca := write(t, filepath.Join(t.TempDir(), "ca.pem"), old, root)
		b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, chain(leaf, cross)), config.TLS{CAFile: ca}))
		goldenCertificates(t, "cross_signed", b, err, "")
	})
}

func TestChainEnd(t *testing.T) {
	at := func(days ...time.Time) []*x509.Certificate {
		certs := make([]*x509.Certificate, len(days))
		for i, d := range days {
			certs[i] = &x509.Certificate{NotAfter: d}
		}
		return certs
	}
	for name, c := range map[string]struct {
		chains [][]*x509.Certificate
		want   time.Time
	}{
		"leaf ends first":               {[][]*x509.Certificate{at(firstDay, secondDay, thirdDay)}, firstDay},
		"root ends first":               {[][]*x509.Certificate{at(thirdDay, secondDay, firstDay)}, firstDay},
		"in between ends first":         {[][]*x509.Certificate{at(thirdDay, firstDay, secondDay)}, firstDay},
		"leaf alone":                    {[][]*x509.Certificate{at(secondDay)}, secondDay},
		"shorter chain first":           {[][]*x509.Certificate{at(thirdDay, firstDay), at(thirdDay, secondDay)}, secondDay},
		"shorter chain last":            {[][]*x509.Certificate{at(thirdDay, secondDay), at(thirdDay, firstDay)}, secondDay},
		"not the latest of all":         {[][]*x509.Certificate{at(secondDay, thirdDay), at(firstDay, thirdDay)}, secondDay},
		"three, the best in the middle": {[][]*x509.Certificate{at(secondDay, firstDay), at(thirdDay, thirdDay), at(thirdDay, secondDay)}, thirdDay},
		"before 1970":                   {[][]*x509.Certificate{at(time.Unix(-10, 0))}, time.Unix(-10, 0)},
	} {
		if got := chainEnd(c.chains); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestRenewedFileThatWasNotLoadedShows(t *testing.T) {
	dir := t.TempDir()
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	ca := write(t, filepath.Join(dir, "ca.pem"), root)
	old := certificate{by: root, names: []string{"chat.test"}, begins: longAgo, end: firstDay}.make(t)
	renewed := certificate{by: root, names: []string{"chat.test"}, end: secondDay}.make(t)
	wild := certificate{by: root, names: []string{"*.test"}, begins: longAgo.AddDate(1, 0, 0), end: thirdDay}.make(t)
	foreign := certificate{by: root, names: []string{"other.example"}, end: thirdDay}.make(t)
	url := tlsServerOf(t, chain(old))
	live := func(name string) string { return filepath.Join(dir, "live", name, "fullchain.pem") }
	glob := filepath.Join(dir, "live", "*", "fullchain.pem")
	write(t, live("other.example"), foreign)
	for _, step := range []struct {
		name, file string
		change     func()
	}{
		{"file_matches", live("chat.test"), func() { write(t, live("chat.test"), old, root) }},
		{"file_matches", glob, func() {}},
		{"file_renewed", live("chat.test"), func() { write(t, live("chat.test"), renewed, root) }},
		{"file_renewed", glob, func() {}},
		// Issued before the renewed one, though it ends later.
		{"file_renewed", glob, func() { write(t, live("wild"), wild) }},
		{"file_of_another", live("other.example"), func() {}},
		{"file_beside_another", glob, func() { write(t, live("chat.test-0001"), old) }},
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
		b, err := readNamed(t, proxyProbe(t, url, config.TLS{CAFile: ca, ServerName: "chat.test", CertificateFile: step.file}))
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

func TestFileOfAServerThatIsDownIsReported(t *testing.T) {
	leaf := certificate{names: []string{"chat.test"}, end: firstDay}.make(t)
	file := write(t, filepath.Join(t.TempDir(), "chain.pem"), leaf)
	b, err := readNamed(t, proxyProbe(t, "https://127.0.0.1:1/health", config.TLS{CertificateFile: file}))
	goldenCertificates(t, "down_with_a_file", b, err, failure.Refused)
}

// TestOneReadingReportsACertificateOnce covers readings of several requests, the first of which shows nothing.
func TestOneReadingReportsACertificateOnce(t *testing.T) {
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	leaf := certificate{by: root, names: []string{"127.0.0.1"}, end: firstDay}.make(t)
	dir := t.TempDir()
	trust := config.TLS{CAFile: write(t, filepath.Join(dir, "ca.pem"), root), CertificateFile: write(t, filepath.Join(dir, "chain.pem"), leaf)}
	b := &Batch{Target: "endpoint"}
	down := &httpTarget{settings: config.HTTP{URL: "https://127.0.0.1:1/", TLS: trust}, limit: 1}
	up := &httpTarget{settings: config.HTTP{URL: tlsServerOf(t, chain(leaf)), TLS: trust}, limit: 1}
	for i, h := range []*httpTarget{down, up, up, down} {
		if _, err := h.get(t.Context(), b, nil); (err != nil) != (h == down) {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	goldenPage(t, "certificates/several_requests", b)
}

// TestProxyIsNotTheTarget has an HTTPS proxy with a certificate of its own in between.
func TestProxyIsNotTheTarget(t *testing.T) {
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	ca := write(t, filepath.Join(t.TempDir(), "ca.pem"), root)
	leaf := certificate{by: root, names: []string{"chat.test"}, end: firstDay}.make(t)
	target := tlsServerOf(t, chain(leaf))
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
	between.TLS = &tls.Config{Certificates: []tls.Certificate{chain(certificate{by: root, names: []string{"127.0.0.1"}, end: thirdDay}.make(t))}, MinVersion: tls.VersionTLS12}
	between.StartTLS()
	t.Cleanup(between.Close)
	for name, trust := range map[string]config.TLS{
		"through_a_proxy":        {CAFile: ca, ServerName: "chat.test"},
		"pinned_through_a_proxy": {Fingerprint: pinOf(leaf), ServerName: "chat.test"},
	} {
		s := newXMPPProxySettings()
		s.URL, s.ProxyURL, s.TLS = target, between.URL, trust
		probe, err := newXMPPProxy(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		b, err := readNamed(t, probe)
		if trust.Fingerprint != "" {
			// The pin is the target's. The proxy is verified by the system's authorities, which do not know this one.
			wantReason(t, err, failure.TLS)
			if b.certified {
				t.Error("the proxy's certificate passes for the target's")
			}
			continue
		}
		goldenCertificates(t, name, b, err, "")
	}
}

func TestPlainTextHasNoCertificate(t *testing.T) {
	u, err := url.Parse(serving(t, http.StatusOK, ""))
	if err != nil {
		t.Fatal(err)
	}
	b, err := readNamed(t, proxyProbe(t, u.String(), config.TLS{}))
	if err != nil || len(b.Metrics(true)) != 0 {
		t.Errorf("got %d metrics, error %v", len(b.Metrics(true)), err)
	}
}

func TestUnreadableCertificateFilesAreToldApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	leaf := certificate{names: []string{"chat.test"}, end: secondDay}.make(t)
	sooner := certificate{names: []string{"irc.test"}, end: firstDay}.make(t)
	key, err := x509.MarshalPKCS8PrivateKey(leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	write(t, at("good/a.pem"), leaf)
	write(t, at("good/b.pem"), sooner)
	for name, content := range map[string]string{
		"empty.pem": "", "key.pem": string(keyPEM), "torn.pem": "-----BEGIN CERTIFICATE-----\nMIIB", "large.pem": strings.Repeat("x", maxCertificateFile+1),
		"not_der.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("nonsense")})),
		"both.pem":    string(keyPEM) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.cert.Raw})),
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
			s := newTLSEndpointSettings()
			s.CertificateFile, s.ServerName = c.file, c.name
			probe, err := newTLSEndpoint(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := readNamed(t, probe)
			goldenCertificates(t, name, b, err, c.want)
		})
	}
	t.Run("no permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			err := fileError("/secret.pem", &os.PathError{Op: "open", Path: "/secret.pem", Err: os.ErrPermission})
			wantReason(t, err, failure.Forbidden)
			return
		}
		if err := os.Chmod(at("good"), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(at("good"), 0o700) //nolint:errcheck,gosec // so that it can be removed
		for _, file := range []string{at("good/a.pem"), at("good/*.pem")} {
			_, err := readCertificateFiles(file)
			wantReason(t, err, failure.Forbidden)
		}
	})
	t.Run("too many", func(t *testing.T) {
		many := t.TempDir()
		for i := range maxCertificateFiles + 1 {
			if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("%d.pem", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := readCertificateFiles(filepath.Join(many, "*.pem"))
		wantReason(t, err, failure.TooLarge)
	})
}

func TestEngineOverTLSReportsItsCertificate(t *testing.T) {
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	leaf := certificate{by: root, names: []string{"127.0.0.1"}, end: firstDay}.make(t)
	dir := t.TempDir()
	s := newDockerSettings()
	s.Host = strings.Replace(tlsServerOf(t, chain(leaf)), "https://", "tcp://", 1)
	s.TLS = config.TLS{CAFile: write(t, filepath.Join(dir, "ca.pem"), root), CertificateFile: write(t, filepath.Join(dir, "chain.pem"), leaf)}
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

// TestRenewedFileShowsUnderAnotherName reaches a server by an address that its certificate is not for, as a pinned one
// often is.
func TestRenewedFileShowsUnderAnotherName(t *testing.T) {
	dir := t.TempDir()
	root := certificate{name: "root", authority: true, end: thirdDay}.make(t)
	old := certificate{by: root, names: []string{"chat.test"}, begins: longAgo, end: firstDay}.make(t)
	renewed := certificate{by: root, names: []string{"chat.test"}, end: secondDay}.make(t)
	foreign := certificate{by: root, names: []string{"other.example"}, end: thirdDay}.make(t)
	write(t, filepath.Join(dir, "live", "chat.test", "fullchain.pem"), renewed, root)
	write(t, filepath.Join(dir, "live", "other.example", "fullchain.pem"), foreign, root)
	trust := config.TLS{Fingerprint: pinOf(old), CertificateFile: filepath.Join(dir, "live", "*", "fullchain.pem")}
	b, err := readNamed(t, proxyProbe(t, tlsServerOf(t, chain(old)), trust))
	goldenCertificates(t, "file_renewed_under_another_name", b, err, "")
}

func TestHintOfACertificateTakesNobodyElsesPlace(t *testing.T) {
	expired := x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotAfter: time.Unix(1_700_000_000, 0)}}
	for _, tt := range []struct {
		name string
		err  error
		want string // a part of the hint
	}{
		{"its own hint", failure.Errorf(failure.TLS, "handshake: %w", expired).WithHint("write https"), "write https"},
		{"expired", fmt.Errorf("handshake: %w", expired), "ended at 2023-11-14 22:13 UTC"},
		{"not for this", x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign, Cert: expired.Cert}, failure.Explain(failure.TLS)},
		{"no name", errors.New("remote error: tls: unrecognized name"), "set server_name or domain"},
		{"no certificate at all", syscall.ECONNREFUSED, failure.Explain(failure.Refused)},
	} {
		if got := failure.HintOf(withTLSHint(tt.err)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: hint: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}

// TestServedCertificateGoesBeforeANewerOne has the file of the one that is served come first and last of those that a glob
// names.
func TestServedCertificateGoesBeforeANewerOne(t *testing.T) {
	dir := t.TempDir()
	old := certificate{names: []string{"chat.test"}, begins: longAgo, end: firstDay}.make(t)
	renewed := certificate{names: []string{"chat.test"}, end: secondDay}.make(t)
	other := certificate{names: []string{"chat.test"}, begins: longAgo, end: thirdDay}.make(t)
	files := map[*certified]string{old: write(t, filepath.Join(dir, "a.pem"), old), renewed: write(t, filepath.Join(dir, "b.pem"), renewed)}
	for served, want := range map[*certified]string{old: files[old], renewed: files[renewed], other: files[renewed]} {
		if got, err := loadedFile(filepath.Join(dir, "*.pem"), "chat.test", served.cert); err != nil || got.path != want {
			t.Errorf("got %s, %v, want %s", got.path, err, want)
		}
	}
}

func TestGlobBelowAFileIsToldFromOneOfNothing(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "chain.pem"), certificate{names: []string{"chat.test"}}.make(t))
	_, err := readCertificateFiles(filepath.Join(file, "*.pem"))
	wantReason(t, err, failure.Internal)
	if err != nil && !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v, want what is wrong there", err)
	}
}
