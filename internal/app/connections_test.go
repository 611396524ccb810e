package app

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/http2"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

func tcpFrom(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 40000} }

// servePipes serves an exporter of nothing over pipes, as Run does over sockets, with this --web.config.file.
func servePipes(t *testing.T, webConfig string) *exportertest.Pipes {
	t.Helper()
	o := options(nil, &logBuffer{})
	if webConfig != "" {
		path := filepath.Join(t.TempDir(), "web.yml")
		rewrite(t, path, webConfig)
		o.Web.WebConfigFile = &path
	}
	a, err := New(o)
	must(t, err)
	t.Cleanup(a.close)
	return exportertest.ServePipes(t, a.server, func(p net.Listener) error { return toolkit.Serve(p, a.server, o.Web, o.Log) })
}

// askOver sends a request and returns the answer's status.
func askOver(t *testing.T, c net.Conn, path string) (int, error) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

var webConfigs = map[string]string{"open": "", "password": "basic_auth_users: {prometheus: " + ownPortBcrypt + "}\n"}

func TestBodyThatDoesNotComeHoldsNoConnection(t *testing.T) {
	for protection, webConfig := range webConfigs {
		for name, body := range map[string]struct {
			header, first, drip string // drip is sent every second
		}{
			"none":           {header: "Content-Length: 9"},
			"half":           {header: "Content-Length: 9", first: "half"},
			"byte by byte":   {header: "Content-Length: 1000", drip: "x"},
			"chunk by chunk": {header: "Transfer-Encoding: chunked", drip: "1\r\nx\r\n"},
			"expected":       {header: "Content-Length: 9\r\nExpect: 100-continue"},
		} {
			t.Run(protection+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := servePipes(t, webConfig)
					for _, request := range []string{
						"GET /", "GET /metrics", "GET /-/healthy", "GET /-/ready", "POST /-/reload", "GET /api/v1/status",
						"POST /api/v1/maintenance", "DELETE /api/v1/maintenance/target/x", "GET /badge/stack.svg",
						"GET /nothing", "PUT /metrics",
					} {
						c := p.Dial(tcpFrom("192.0.2.1"))
						begun := time.Now()
						must(t, c.SetReadDeadline(begun.Add(time.Hour)))
						var sending sync.WaitGroup
						sending.Go(func() {
							_, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", request, body.header, body.first)
							for err == nil && body.drip != "" {
								time.Sleep(time.Second)
								_, err = io.WriteString(c, body.drip)
							}
						})
						if _, err := io.Copy(io.Discard, c); err != nil {
							t.Errorf("%s: %v after %s, want the end of the connection", request, err, time.Since(begun))
						} else if took := time.Since(begun); took > 15*time.Second {
							t.Errorf("%s: the connection ended after %s, want 15s at most", request, took)
						}
						c.Close() //nolint:errcheck,gosec // in memory
						sending.Wait()
					}
				})
			})
		}
	}
}

func TestIdleConnectionsEndButNotThoseOfScrapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servePipes(t, "").Dial(tcpFrom("192.0.2.1"))
		for range 3 {
			if status, err := askOver(t, c, "/metrics"); err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v", status, err)
			}
			time.Sleep(time.Minute)
		}
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("idle for two minutes: %v, want its end", err)
		}
	})
}

func TestEventStreamOutlivesTheDeadlinesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servePipes(t, "").Dial(tcpFrom("192.0.2.1"))
		var heard bytes.Buffer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(&heard, c) //nolint:errcheck // what was heard counts
		}()
		if _, err := io.WriteString(c, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		select {
		case <-ended:
			t.Error("the stream has ended")
		default:
		}
		c.Close() //nolint:errcheck,gosec // in memory
		<-ended
		if n := strings.Count(heard.String(), "still here"); n < 38 {
			t.Errorf("%d heartbeats in ten minutes, want one every 15 s", n)
		}
	})
}

// TestClientLeavesHalfOfTheConnectionsToOthers opens them until one is closed at once.
func TestClientLeavesHalfOfTheConnectionsToOthers(t *testing.T) {
	const tooMany = 4000
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, "")
		// open returns how many of the clients' connections are served while all of them stay open.
		open := func(n int, from func(i int) net.Addr) (conns []net.Conn) {
			for i := range n {
				c := p.Dial(from(i))
				if status, err := askOver(t, c, "/-/healthy"); err != nil || status != http.StatusOK {
					return conns
				}
				conns = append(conns, c)
			}
			return conns
		}
		flood := open(tooMany, func(int) net.Addr { return tcpFrom("192.0.2.1") })
		if len(flood) < 10 || len(flood) == tooMany {
			t.Fatalf("one client has %d connections, want a share", len(flood))
		}
		network := open(len(flood), func(i int) net.Addr { return tcpFrom(fmt.Sprintf("2001:db8::%x", i)) })
		if len(network) < len(flood)-1 {
			t.Errorf("beside %d connections of one client, others have %d", len(flood), len(network))
		}
		if n := len(open(10, func(int) net.Addr { return &net.UnixAddr{Net: "unix"} })); n != 10 {
			t.Errorf("%d of 10 connections over a Unix socket", n)
		}
		for _, c := range network {
			c.Close() //nolint:errcheck,gosec // in memory
		}
		synctest.Wait()
		if n := len(open(10, func(int) net.Addr { return tcpFrom("192.0.2.1") })); n != 0 {
			t.Errorf("the client with its share gets %d more", n)
		}
		flood[0].Close() //nolint:errcheck,gosec // in memory
		synctest.Wait()
		if n := len(open(10, func(int) net.Addr { return tcpFrom("192.0.2.1") })); n != 1 {
			t.Errorf("after the end of one connection, the client gets %d more, want 1", n)
		}
		if n := len(open(tooMany, func(i int) net.Addr { return tcpFrom(fmt.Sprintf("2001:db8:0:1::%x", i)) })); n != len(flood) {
			t.Errorf("one IPv6 network has %d connections, want the share of a client, %d", n, len(flood))
		}
		for _, c := range flood {
			c.Close() //nolint:errcheck,gosec // in memory
		}
		synctest.Wait()
	})
}

// limitedPipes serves over pipes with limits: 10 connections, 3 of one client, with a proxy at 127.0.0.1. Requests for
// /wait are answered when release is closed.
func limitedPipes(t *testing.T) (p *exportertest.Pipes, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
	})}
	newConnections(slog.New(slog.DiscardHandler), 10, 3,
		func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }).limit(server)
	return exportertest.ServePipes(t, server, server.Serve), release
}

// isOpen reports whether the server has not closed a connection that sent nothing.
func isOpen(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func TestFullListenerClosesTheConnectionThatWasSilentLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := limitedPipes(t)
		conns := make([]net.Conn, 10)
		for i := range conns {
			conns[i] = p.Dial(tcpFrom(fmt.Sprintf("192.0.2.%d", i)))
			time.Sleep(time.Second)
		}
		if status, err := askOver(t, conns[0], "/"); err != nil || status != http.StatusOK {
			t.Fatalf("the first of ten: status %d, %v", status, err)
		}
		var later []net.Conn
		for i := range 4 {
			c := p.Dial(tcpFrom(fmt.Sprintf("198.51.100.%d", i)))
			if status, err := askOver(t, c, "/"); err != nil || status != http.StatusOK {
				t.Errorf("new client %d of a full listener: status %d, %v", i, status, err)
			}
			later = append(later, c)
		}
		for i, c := range conns {
			if open, want := isOpen(t, c), i == 0 || i > 4; open != want {
				t.Errorf("connection %d: open %t, want %t", i, open, want)
			}
		}
		for _, c := range slices.Concat(conns, later) {
			c.Close() //nolint:errcheck,gosec // in memory
		}
		synctest.Wait()
		if status, err := askOver(t, p.Dial(tcpFrom("192.0.2.1")), "/"); err != nil || status != http.StatusOK {
			t.Errorf("after all are gone: status %d, %v", status, err)
		}
	})
}

func TestTrustedProxyStandsForManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := limitedPipes(t)
		// ask starts a request that is not answered, and returns the status if it is refused at once.
		ask := func(from, header string) (status int) {
			c := p.Dial(tcpFrom(from))
			if _, err := fmt.Fprintf(c, "GET /wait HTTP/1.1\r\nHost: x\r\n%s\r\n", header); err != nil {
				return 0
			}
			must(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return http.StatusOK
			}
			resp.Body.Close() //nolint:errcheck,gosec // only the status counts
			c.Close()         //nolint:errcheck,gosec // in memory
			return resp.StatusCode
		}
		for i, test := range []struct {
			header string
			want   int
		}{
			{"X-Forwarded-For: 192.0.2.1\r\n", http.StatusOK},
			{"X-Forwarded-For: 198.51.100.7, 192.0.2.1\r\n", http.StatusOK},
			{"X-Forwarded-For: 198.51.100.8\r\nX-Forwarded-For: 192.0.2.1:4711, 127.0.0.1\r\n", http.StatusOK},
			{"X-Forwarded-For: 198.51.100.9, 192.0.2.1\r\n", http.StatusTooManyRequests},
			{"X-Forwarded-For: 2001:db8::1\r\n", http.StatusOK},
			{"X-Forwarded-For: [2001:db8::2]\r\n", http.StatusOK},
			{"X-Forwarded-For: [2001:db8::3]:80\r\n", http.StatusOK},
			{"X-Forwarded-For: 2001:db8::4\r\n", http.StatusTooManyRequests},
			{"X-Forwarded-For: 198.51.100.9\r\n", http.StatusOK},
		} {
			if got := ask("127.0.0.1", test.header); got != test.want {
				t.Errorf("request %d, %q: status %d, want %d", i, test.header, got, test.want)
			}
		}
		for i := range 4 {
			want := http.StatusOK
			if i == 3 {
				want = 0 // closed at once: what a client writes into the header does not count
			}
			if got := ask("203.0.113.1", fmt.Sprintf("X-Forwarded-For: 10.0.0.%d\r\n", i)); got != want {
				t.Errorf("connection %d of another address: status %d, want %d", i, got, want)
			}
		}
		close(release)
		synctest.Wait()
		if got := ask("127.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n"); got != http.StatusOK {
			t.Errorf("after the end of the client's requests: status %d", got)
		}
	})
}

func TestShareOfAPublicClient(t *testing.T) {
	c := publicConnections(slog.New(slog.DiscardHandler), nil)
	if c.most != ownConnections(c.log).most/4 || c.share != max(32, c.most/16) {
		t.Errorf("%d connections, %d of one client", c.most, c.share)
	}
}

func TestLongHeaderIsRefused(t *testing.T) {
	for protection, webConfig := range webConfigs {
		for name, c := range map[string]struct {
			length  int
			refused bool
		}{
			"cookies of other services": {8 << 10, false},
			"a flood":                   {64 << 10, true},
		} {
			t.Run(protection+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					conn := servePipes(t, webConfig).Dial(tcpFrom("192.0.2.1"))
					// For a second the server goes on reading after a refusal.
					defer time.Sleep(time.Second)

					//nolint:errcheck // in memory
					defer conn.Close()
					//nolint:errcheck // what is not read is refused
					go fmt.Fprintf(conn, "GET /-/healthy HTTP/1.1\r\nHost: x\r\nCookie: %s\r\n\r\n", strings.Repeat("a", c.length))
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					must(t, err)
					defer resp.Body.Close() //nolint:errcheck // only the status counts
					if refused := resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge; refused != c.refused {
						t.Errorf("a header of %d bytes: status %d", c.length, resp.StatusCode)
					}
				})
			})
		}
	}
}

func TestOneConnectionHasFewRequestsOpen(t *testing.T) {
	dir := t.TempDir()
	certificate, key := newIdentity(t, "server").PEM(t)
	for name, content := range map[string][]byte{"server.crt": certificate, "server.key": key} {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	p := servePipes(t, fmt.Sprintf("tls_server_config: {cert_file: %[1]s/server.crt, key_file: %[1]s/server.key}\n", dir))
	//nolint:gosec // only limits are asked for
	c := tls.Client(p.Dial(tcpFrom("192.0.2.1")), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	//nolint:errcheck // in memory
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	go func() {
		io.WriteString(c, http2.ClientPreface)  //nolint:errcheck // reading tells
		http2.NewFramer(c, nil).WriteSettings() //nolint:errcheck,gosec // as above
	}()
	frame, err := http2.NewFramer(nil, c).ReadFrame()
	must(t, err)
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("got %v, want settings", frame)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n > maxHTTP2Streams {
		t.Errorf("%d requests of one connection, want %d at most", n, maxHTTP2Streams)
	}
}
