package collectors

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func bomb(t *testing.T, size int) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
}

// TestEveryFailureShapeHasItsReason asks the simplest of the HTTP collectors; the others share its transport.
func TestEveryFailureShapeHasItsReason(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   failure.Reason
	}{
		"401":   {exchangetest.Say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"), failure.Unauthorized},
		"403":   {exchangetest.Say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), failure.Forbidden},
		"404":   {exchangetest.Say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), failure.NotFound},
		"500":   {exchangetest.Say("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), failure.HTTPStatus},
		"204":   {exchangetest.Say("HTTP/1.1 204 No Content\r\n\r\n"), failure.HTTPStatus},
		"hangs": {exchangetest.Hold, failure.Timeout},
		"hangs after the header": {func(c net.Conn) {
			exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")(c)
			exchangetest.Hold(c)
		}, failure.Timeout},
		"closes without a word": {func(net.Conn) {}, failure.Closed},
		"resets":                {exchangetest.Reset, failure.Closed},
		"truncated":             {exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), failure.Closed},
		"truncated chunk":       {exchangetest.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), failure.Closed},
		"truncated header":      {exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), failure.Closed},
		"no http":               {exchangetest.Say("SSH-2.0-OpenSSH_9.2\r\n"), failure.Malformed},
		"bad header":            {exchangetest.Say("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), failure.Malformed},
		"bad length":            {exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n"), failure.Malformed},
		"bad chunk":             {exchangetest.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab"), failure.Malformed},
		"bad gzip":              {exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\nabcdefghijklmnopqrst"), failure.Malformed},
		"header flood":          {exchangetest.Say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*exchange.MaxHeaderBytes) + "\r\n\r\n"), failure.TooLarge},
		"huge body":             {exchangetest.Say("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20+1)), failure.TooLarge},
		"gzip bomb":             {exchangetest.Say(bomb(t, 8<<20)), failure.TooLarge},
		"redirect elsewhere":    {exchangetest.Say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:1/health\r\nContent-Length: 0\r\n\r\n"), failure.HTTPStatus},
		"redirect to nowhere":   {exchangetest.Say("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), failure.HTTPStatus},
		"redirect to no URL":    {exchangetest.Say("HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"), failure.Malformed},
		"endless extension":     {exchangetest.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 20_000)), failure.Malformed},
		"endless redirect":      {exchangetest.Say("HTTP/1.1 302 Found\r\nLocation: /health\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), failure.HTTPStatus},
	} {
		t.Run(name, func(t *testing.T) {
			probe := proxyProbe(t, "http://"+exchangetest.RawServer(t, "tcp", c.answer)+"/health", config.TLS{})
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 100 * time.Millisecond
			}
			b, err := read(t, probe, timeout)
			wantReason(t, err, c.want)
			if strings.Contains(err.Error(), "[::1") {
				t.Errorf("got %q, which repeats what a redirect holds", err)
			}
			goldenFailure(t, "http/"+strings.ReplaceAll(name, " ", "_"), b, err)
		})
	}
}

func proxyProbe(t *testing.T, url string, trust config.TLS) Collector {
	t.Helper()
	s := newXMPPProxySettings()
	s.URL, s.TLS = url, trust
	return newProbe(t, newXMPPProxy, s)
}

func TestNobodyThere(t *testing.T) {
	for url, want := range map[string]failure.Reason{
		"http://127.0.0.1:1/health":             failure.Refused,
		"http://no-such-host.invalid:80/health": failure.DNS,
	} {
		b, _ := readFails(t, proxyProbe(t, url, config.TLS{}), want)
		if e := b.Exchanges[0]; e.Err == "" || len(e.Phases) == 0 || e.Phases[len(e.Phases)-1].Name != "failed" {
			t.Errorf("%s: the exchange ends with %q in %+v, want what failed", url, e.Err, e.Phases)
		}
	}
}

func TestRedirectOnTheSameHostIsFollowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			http.Redirect(w, r, "/health/", http.StatusFound)
		}
	}))
	defer server.Close()
	if _, err := read(t, proxyProbe(t, server.URL+"/health", config.TLS{}), 10*time.Second); err != nil {
		t.Error(err)
	}
}

func TestFiveRedirectsAreFollowed(t *testing.T) {
	for _, redirects := range []int{5, 6} {
		left := redirects
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if left--; left >= 0 {
				http.Redirect(w, r, "/health", http.StatusFound)
			}
		}))
		_, err := read(t, proxyProbe(t, server.URL+"/health", config.TLS{}), 10*time.Second)
		server.Close()
		if redirects == 5 && err != nil {
			t.Errorf("%d redirects: %v", redirects, err)
		} else if redirects == 6 {
			wantReason(t, err, failure.HTTPStatus)
		}
	}
}

func TestTrust(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	leaf := server.Certificate()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(leaf.Raw)
	pin := hex.EncodeToString(digest[:])
	for name, c := range map[string]struct {
		trust config.TLS
		want  failure.Reason
	}{
		"unknown authority": {config.TLS{}, failure.TLS},
		"own authority":     {config.TLS{CAFile: authority}, ""},
		"other name":        {config.TLS{CAFile: authority, ServerName: "chat.test"}, failure.TLS},
		"pinned":            {config.TLS{Fingerprint: pin}, ""},
		"pinned, any case":  {config.TLS{Fingerprint: strings.ToUpper(pin)}, ""},
		"another pin":       {config.TLS{Fingerprint: strings.Repeat("00", 32)}, failure.TLS},
		"written out":       {config.TLS{InsecureSkipVerify: true}, ""},
		"authority is gone": {config.TLS{CAFile: authority + ".gone"}, failure.TLS},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, proxyProbe(t, server.URL+"/health", c.trust), 10*time.Second)
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want trust", err)
				}
				return
			}
			wantReason(t, err, c.want)
		})
	}
	t.Run("plain text on a tls port", func(t *testing.T) {
		mustFail(t, proxyProbe(t, "https://"+exchangetest.RawServer(t, "tcp", exchangetest.Say("HTTP/1.1 400 Bad Request\r\n\r\n"))+"/", config.TLS{}), failure.TLS)
	})
	t.Run("expired", func(t *testing.T) {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{expired(t)}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		ended := make(chan struct{})
		go func() { defer close(ended); s.Serve(l) }() //nolint:errcheck // ends with Close
		defer func() { s.Close(); <-ended }()          //nolint:errcheck // a test's server
		mustFail(t, proxyProbe(t, "https://"+l.Addr().String()+"/", config.TLS{}), failure.TLS)
	})
}

func TestConnectionsAreFresh(t *testing.T) {
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen[r.RemoteAddr] = true }))
	defer server.Close()
	probe := proxyProbe(t, server.URL, config.TLS{})
	for range 3 {
		if err := probe.Collect(context.Background(), &Batch{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d connections for 3 readings", len(seen))
	}
}

func TestProxyIsAskedForItsHealth(t *testing.T) {
	for _, base := range []string{"", "/", "/health"} {
		var asked string
		url := answering(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path })
		if _, err := read(t, proxyProbe(t, url+base, config.TLS{}), 10*time.Second); err != nil || asked != "/health" {
			t.Errorf("with url ending in %q: asked for %q, %v, want /health", base, asked, err)
		}
	}
}
