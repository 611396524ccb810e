//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

const (
	bodiesPassword = "sesame-own-port"
	bodiesBcrypt   = "$2a$04$zHsYhEEcr2fk2cX5ruyqBesp58fWiFjYEnoWdGUZz6AezVPFM1auK"
)

// TestRequestsThatDoNotEndHoldNobodyUp has one client take all the connections it gets, to a process that may open 1,024
// files, while another one scrapes from elsewhere.
func TestRequestsThatDoNotEndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	wantDescriptors(t, 4*crowd)
	for protection, webConfig := range map[string]string{"open": "", "password": "basic_auth_users: {prometheus: " + bodiesBcrypt + "}\n"} {
		t.Run(protection, func(t *testing.T) {
			t.Parallel()
			stack := simstacktest.Start(t, simstack.Options{})
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "web.yml"), []byte(webConfig), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := command(t, dir, canaryEvery(4*time.Second, stack, filepath.Join(dir, "state.json")), stack.Environ())
			cmd.Args = append(cmd.Args, "--web.config.file=web.yml")
			prepare(cmd, "ulimit -n 1024")
			e := start(t, cmd)
			wait := func(what string, reached func(page) bool) (p page) {
				if !exportertest.Eventually(patience, 50*time.Millisecond,
					func() bool { p = e.scrapeFrom(t, "127.0.0.2"); return reached(p) }) {
					t.Fatalf("never reached: %s", what)
				}
				return p
			}
			before := wait("every target up", page.AllUp)
			descriptors := e.descriptors(t)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var flood sync.WaitGroup
			var held atomic.Int64
			var ended [len(ways)]atomic.Int64
			for i := range 800 {
				flood.Go(func() {
					for ctx.Err() == nil {
						if holdConnection(ctx, e.url, i%len(ways), i) < time.Second {
							exportertest.Pause(ctx, 50*time.Millisecond) // refused
							continue
						}
						held.Add(1)
						if ctx.Err() == nil {
							ended[i%len(ways)].Add(1)
						}
					}
				})
			}
			wait("the flood has its share", func(page) bool { return e.descriptors(t) >= descriptors+300 })
			last := wait("connections end and are taken again while readings go on", func(p page) bool {
				for target := range before.Verdicts() {
					const success = "chatstack_probe_last_success_timestamp_seconds"
					if p.Sum(success, "target", target) < before.Sum(success, "target", target)+8 {
						return false
					}
				}
				return min(ended[0].Load(), ended[1].Load(), ended[2].Load()) >= 170
			})
			if !last.AllUp() {
				t.Errorf("verdicts under the flood: %v", last.Verdicts())
			}
			cancel()
			flood.Wait()
			wait("descriptors are free again", func(p page) bool { return p.AllUp() && e.descriptors(t) <= descriptors+2 })
			if !strings.Contains(e.Stderr.String(), "too many connections, refusing new ones") {
				t.Error("the log does not say that connections were refused")
			}
			t.Logf("%d connections held, at most %d MiB resident", held.Load(), e.peakMemory(t)>>20)
			e.stop(t)
		})
	}
}

// scrapeFrom scrapes with the password, by a connection of its own from this address of the host.
func (e *exporter) scrapeFrom(t *testing.T, address string) page {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("prometheus", bodiesPassword)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}, Timeout: patience}
	body, err := exportertest.Answer(client.Do, req)
	return parse(t, body, err)
}

// ways are how a client keeps the server waiting: for a body that does not come, for one of which a byte comes each second,
// and for a header of which a byte comes each second.
var ways = [...]struct {
	request string
	drips   bool
}{
	{"%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", false},
	{"%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", true},
	{"%s HTTP/1.1\r\nHost: slow\r\nX-Slow: ", true},
}

// holdConnection sends a request that does not end, in one of the ways, and returns for how long the exporter kept the
// connection.
func holdConnection(ctx context.Context, url string, way, i int) time.Duration {
	begun := time.Now()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return 0
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // it holds nothing more
	defer stop()
	defer conn.Close() //nolint:errcheck // see above
	paths := []string{"GET /metrics", "POST /-/reload", "GET /", "POST /api/v1/maintenance"}
	if _, err := fmt.Fprintf(conn, ways[way].request, paths[i%len(paths)]); err != nil {
		return 0
	}
	var dripping sync.WaitGroup
	if ways[way].drips {
		dripping.Go(func() {
			for exportertest.Pause(ctx, time.Second) {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
			}
		})
	}
	io.Copy(io.Discard, conn) //nolint:errcheck // its end is what counts
	took := time.Since(begun)
	conn.Close() //nolint:errcheck // so that the dripping ends
	dripping.Wait()
	return took
}
