//go:build realservers

package collectors

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// certificateFacts are what one reading tells of a target's certificates, by metric and, of ends, by source.
func certificateFacts(t *testing.T, b *Batch, success bool) map[string]float64 {
	t.Helper()
	facts := map[string]float64{}
	for _, m := range b.Metrics(success) {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		var name string
		switch m.Desc() {
		case certificateVerifiedDesc:
			name = "verified"
		case certificateMatchesFileDesc:
			name = "matches_file"
		case certificateNotAfterDesc:
			i := slices.IndexFunc(out.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "source" })
			name = out.GetLabel()[i].GetValue()
		default:
			continue
		}
		facts[name] = out.GetGauge().GetValue()
	}
	return facts
}

// endOf is the end of the first certificate of a PEM text.
func endOf(t *testing.T, text []byte) float64 {
	t.Helper()
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return float64(cert.NotAfter.Unix())
}

// TestRealProxyCertificates has nginx show certificates of every kind, and one that it was not told to load.
func TestRealProxyCertificates(t *testing.T) {
	nginx := realstack.StartNginx(t, "http://127.0.0.1:1")
	trust := config.TLS{CAFile: nginx.Authority.File, CertificateFile: nginx.CertificateFile()}
	port := &TLSEndpoint{}
	port.Address, port.TLS = nginx.Addr, trust
	direct, err := newTLSEndpoint(port, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	probes := map[string]Collector{"https": proxyProbe(t, nginx.URL()+"/health", trust), "tls": direct}
	// await reads both probes until each sees the certificate that ends then, and compares what they tell.
	await := func(what string, end float64, reason failure.Reason, want map[string]float64) {
		t.Helper()
		for name, probe := range probes {
			var facts map[string]float64
			var err error
			var b *Batch
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				b, err = readNamed(t, probe)
				if facts = certificateFacts(t, b, err == nil); facts["leaf"] == end {
					break
				}
			}
			for fact, value := range want {
				got, known := facts[fact]
				if absent := value < 0; known == absent || !absent && got != value {
					t.Errorf("%s, %s: %s is %v, known %v, want %v; all: %v", what, name, fact, got, known, value, facts)
				}
			}
			if reason == "" && err != nil || reason != "" && (err == nil || failure.ReasonOf(err) != reason) {
				t.Errorf("%s, %s: got %v, want reason %q", what, name, err, reason)
			}
		}
	}
	const absent = -1
	first, err := os.ReadFile(nginx.CertificateFile())
	if err != nil {
		t.Fatal(err)
	}
	served := endOf(t, first)
	await("as installed", served, "",
		map[string]float64{"leaf": served, "file": served, "verified_chain": served, "verified": 1, "matches_file": 1})

	soon := time.Now().Add(2 * time.Hour)
	certificate, key := nginx.Authority.IssueUntil(soon, "127.0.0.1")
	nginx.Renew(certificate, key)
	renewed := endOf(t, certificate)
	await("renewed on the disk", served, "", map[string]float64{"leaf": served, "file": renewed, "verified": 1, "matches_file": 0})
	nginx.Reload()
	await("reloaded", renewed, "",
		map[string]float64{"leaf": renewed, "file": renewed, "verified_chain": renewed, "verified": 1, "matches_file": 1})

	show := func(end time.Time, by *realstack.Authority, more []byte, names ...string) float64 {
		t.Helper()
		certificate, key := by.IssueUntil(end, names...)
		nginx.Renew(append(slices.Clone(certificate), more...), key)
		nginx.Reload()
		return endOf(t, certificate)
	}
	refused := func(end float64) map[string]float64 {
		return map[string]float64{"leaf": end, "file": end, "verified_chain": absent, "verified": 0, "matches_file": 1}
	}
	end := show(time.Now().Add(-3*time.Hour), nginx.Authority, nil, "127.0.0.1")
	await("expired", end, failure.TLS, refused(end))
	end = show(soon.Add(time.Minute), nginx.Authority, nil, "other.test")
	await("for another name", end, failure.TLS, refused(end))
	below := nginx.Authority.Below()
	intermediate, err := os.ReadFile(below.File)
	if err != nil {
		t.Fatal(err)
	}
	end = show(soon.Add(2*time.Minute), below, nil, "127.0.0.1")
	await("incomplete chain", end, failure.TLS, refused(end))
	end = show(soon.Add(3*time.Minute), below, intermediate, "127.0.0.1")
	await("whole chain", end, "", map[string]float64{"leaf": end, "verified_chain": end, "verified": 1, "matches_file": 1})
}

// TestRealXMPPStreams negotiates TLS with Prosody, on the ports of its clients and of other servers.
func TestRealXMPPStreams(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Federation: true})
	trust := config.TLS{CAFile: prosody.Authority.File}
	probe := func(address, kind, domain string, trust config.TLS) Collector {
		c, err := newTLSEndpoint(&TLSEndpoint{
			Endpoint: at(address),
			StartTLS: kind,
			Domain:   domain,
			TLS:      trust,
		}, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	client, server := prosody.ClientAddr, prosody.ServerAddr
	for name, c := range map[string]struct {
		probe Collector
		want  failure.Reason
	}{
		"c2s":                    {probe(client, exchange.XMPPClient, realstack.XMPPDomain, trust), ""},
		"c2s, another host":      {probe(client, exchange.XMPPClient, realstack.OtherDomain, trust), ""},
		"s2s":                    {probe(server, exchange.XMPPServer, realstack.XMPPDomain, trust), ""},
		"s2s, another host":      {probe(server, exchange.XMPPServer, realstack.OtherDomain, trust), ""},
		"c2s, unknown host":      {probe(client, exchange.XMPPClient, "unknown.test", trust), failure.NotFound},
		"s2s, unknown host":      {probe(server, exchange.XMPPServer, "unknown.test", trust), failure.NotFound},
		"c2s, unknown authority": {probe(client, exchange.XMPPClient, realstack.XMPPDomain, config.TLS{}), failure.TLS},
		"c2s, tls at once":       {probe(client, "", "", trust), failure.TLS},
		"s2s asked as c2s":       {probe(server, exchange.XMPPClient, realstack.XMPPDomain, trust), failure.Mismatch},
		"another name in its SNI": {
			probe(client, exchange.XMPPClient, realstack.XMPPDomain, config.TLS{CAFile: trust.CAFile, ServerName: "mail.test"}),
			failure.TLS,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := readNamed(t, c.probe)
			if c.want == "" && err != nil || c.want != "" && (err == nil || failure.ReasonOf(err) != c.want) {
				t.Fatalf("got %v, want reason %q", err, c.want)
			}
			if c.want != "" {
				return
			}
			if facts := certificateFacts(t, b, true); facts["verified"] != 1 || facts["leaf"] == 0 ||
				facts["verified_chain"] != facts["leaf"] {
				t.Errorf("got %v", facts)
			}
			if e := b.Exchanges[0]; !slices.Equal(phases(e), []string{"connect", "starttls", "tls"}) {
				t.Errorf("phases %v", phases(e))
			}
		})
	}
	t.Run("hung and stopped", func(t *testing.T) {
		p := c2sProbe(t, client, trust)
		prosody.Hang()
		_, err := read(t, p, 300*time.Millisecond)
		wantReason(t, err, failure.Timeout)
		prosody.Resume()
		if _, err := read(t, p, 10*time.Second); err != nil {
			t.Error(err)
		}
		prosody.Stop()
		mustFail(t, p, failure.Refused)
	})
	for line := range strings.Lines(prosody.Log()) {
		if strings.Contains(line, "\terror\t") && !strings.Contains(line, "certmanager") { // it looks for a directory at its start
			t.Errorf("the server logs %s", line)
		}
	}
}

// fetch returns the body of a page.
func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestRealXMPPProbesCostWhatTargetsSays compares the column of costs with the server's log and metrics.
func TestRealXMPPProbesCostWhatTargetsSays(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Federation: true})
	trust := config.TLS{CAFile: prosody.Authority.File}
	document, err := os.ReadFile("../TARGETS.md")
	if err != nil {
		t.Fatal(err)
	}
	encrypted := func() (n float64) {
		t.Helper()
		page := fetch(t, prosody.URL()+"/metrics")
		for _, m := range regexp.MustCompile(`(?m)^prosody_mod_c2s__encrypted_total\S* (\S+)$`).FindAllStringSubmatch(page, -1) {
			value, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			n += value
		}
		return n
	}
	for kind, c := range map[string]struct {
		row, address, session string
		lines                 int // of each probe
		says                  string
	}{
		exchange.XMPPServer: {
			"| your `tls` |",
			prosody.ServerAddr,
			"s2sin",
			0,
			"none for s2s",
		},
		exchange.XMPPClient: {
			"| `xmpp_c2s` |",
			prosody.ClientAddr,
			"c2s",
			2,
			"each probe writes two info lines to the server's log",
		},
	} {
		p, err := newTLSEndpoint(&TLSEndpoint{
			Endpoint: at(c.address),
			StartTLS: kind,
			Domain:   realstack.XMPPDomain,
			TLS:      trust,
		}, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		lines := func() int {
			return len(regexp.MustCompile(`(?m)\s`+c.session+`\w{6,}\s+info\s`).FindAllString(prosody.Log(), -1))
		}
		// The first probe also asks for another certificate, on a connection of its own.
		if _, err := readNamed(t, p); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if fetch(t, prosody.URL()+"/metrics"); lines() >= 2*c.lines {
				break
			}
		}
		const probes = 5
		logged, counted := lines(), encrypted()
		for range probes {
			if _, err := readNamed(t, p); err != nil {
				t.Fatal(err)
			}
		}
		if got := encrypted() - counted; got != 0 {
			t.Errorf("%s: prosody_mod_c2s__encrypted_total rose by %v in %d probes", kind, got, probes)
		}
		_, row, _ := strings.Cut(string(document), c.row)
		row, _, _ = strings.Cut(row, "\n")
		if !strings.Contains(row, c.says) {
			t.Errorf("%s: the README does not say %q: %s", kind, c.says, row)
		}
		if strings.Contains(row, "one connection in `prosody_mod_c2s__encrypted_total`") {
			t.Errorf("%s: the README says that a probe is counted in prosody_mod_c2s__encrypted_total, which it is not", kind)
		}
		// The server learns a moment later that a connection is closed; its page of metrics is made after that.
		for range 100 {
			if fetch(t, prosody.URL()+"/metrics"); lines()-logged >= c.lines*probes {
				break
			}
		}
		if got := lines() - logged; got != c.lines*probes {
			t.Errorf("%s: %d probes wrote %d lines, want %d each:\n%s", kind, probes, got, c.lines, prosody.Log())
		}
	}
}

// TestRealServerWithTwoCertificates has nginx serve an ECDSA and an RSA certificate.
func TestRealServerWithTwoCertificates(t *testing.T) {
	authority := realstack.NewAuthority(t)
	issue := func(rsa bool, left time.Duration) (certificate, key []byte) {
		return authority.Sign(exchangetest.Certificate{Names: []string{"127.0.0.1"}, RSA: rsa, End: time.Now().Add(left)}).PEM(t)
	}
	ec, ecKey := issue(false, 20*time.Hour)
	rsa, rsaKey := issue(true, 10*time.Hour)
	const second = "ssl_certificate rsa.pem; ssl_certificate_key rsa-key.pem;"
	for name, c := range map[string]struct {
		lines, note string
		other       bool
		// matches are whether the ECDSA file, the RSA file and both by a glob match; -1 is unknown. The leaf's always does.
		least float64
	}{
		"both": {
			second,
			"also has an ",
			true,
			1,
		},
		"both in TLS 1.3": {
			second + " ssl_protocols TLSv1.3;",
			"only TLS 1.3",
			false,
			-1,
		},
		"one": {
			"",
			"does not serve the RSA certificate",
			false,
			0,
		},
	} {
		nginx := realstack.StartNginxWith(t, c.lines,
			map[string][]byte{"certificate.pem": ec, "key.pem": ecKey, "rsa.pem": rsa, "rsa-key.pem": rsaKey})
		dir := filepath.Dir(nginx.CertificateFile())
		probes := func(file string) map[string]Collector {
			trust := config.TLS{CAFile: authority.File, CertificateFile: filepath.Join(dir, file)}
			port := &TLSEndpoint{}
			port.Address, port.TLS = nginx.Addr, trust
			return map[string]Collector{"https": proxyProbe(t, nginx.URL()+"/health", trust), "tls": newProbe(t, newTLSEndpoint, port)}
		}
		seen := map[float64]bool{}
		for file, end := range map[string]float64{"certificate.pem": endOf(t, ec), "rsa.pem": endOf(t, rsa), "[cr]*[ea].pem": 0} {
			for kind, probe := range probes(file) {
				b, err := readNamed(t, probe)
				facts := certificateFacts(t, b, err == nil)
				seen[facts["leaf"]], seen[facts["other_leaf"]] = true, true
				matches, known := facts["matches_file"]
				want := c.least
				if end == facts["leaf"] || end == 0 {
					want = 1
				}
				if err != nil || known != (want >= 0) || known && matches != want || (facts["other_leaf"] > 0) != c.other {
					t.Errorf("%s, %s, %s: %v, %v; want matches_file %v; notes %q", name, kind, file, err, facts, want, b.Notes)
				}
				if file != "certificate.pem" && want < 1 && !strings.Contains(strings.Join(b.Notes, "; "), c.note) {
					t.Errorf("%s, %s, %s: notes %q, want %q", name, kind, file, b.Notes, c.note)
				}
			}
		}
		if c.other && (!seen[endOf(t, ec)] || !seen[endOf(t, rsa)]) {
			t.Errorf("%s: seen %v, want both certificates", name, seen)
		}
		if !c.other {
			continue
		}
		renewed, key := issue(true, 15*time.Hour)
		for file, content := range map[string][]byte{"rsa.pem": renewed, "rsa-key.pem": key} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for kind, probe := range probes("rsa.pem") {
			if b, err := readNamed(t, probe); certificateFacts(t, b, err == nil)["matches_file"] != 0 ||
				!strings.Contains(strings.Join(b.Notes, "; "), "rsa.pem: reload the server") {
				t.Errorf("renewed, %s: %v, %v, notes %q", kind, err, certificateFacts(t, b, err == nil), b.Notes)
			}
		}
		nginx.Reload()
		for deadline := time.Now().Add(time.Minute); ; {
			b, err := readNamed(t, probes("rsa.pem")["tls"])
			if certificateFacts(t, b, err == nil)["matches_file"] == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("reloaded: %v, notes %q", err, b.Notes)
			}
		}
	}
}
