//go:build soak

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// between is a random time between two.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// weather switches faults of the stack on and off. It goes through all of them in random order before one comes again.
type weather struct {
	stack    *simstack.Stack
	left     []simstack.Fault
	switched int
}

// storm switches faults until ctx is done, and then all of them off.
func (w *weather) storm(ctx context.Context, t *testing.T, r *rand.Rand) {
	t.Helper()
	turn := func(f simstack.Fault, on bool) { //nolint:contextcheck // a service outlives the storm
		if err := w.stack.Switch(f.Service, f.Name, on); err != nil {
			t.Errorf("switch %s of %s: %v", f.Name, f.Service, err)
		}
		w.switched++
	}
	var on []simstack.Fault
	for exportertest.Pause(ctx, between(r, 20*time.Millisecond, 200*time.Millisecond)) {
		if len(on) > 8 || len(on) > 0 && r.IntN(3) == 0 {
			i := r.IntN(len(on))
			turn(on[i], false)
			on = slices.Delete(on, i, i+1)
			continue
		}
		if len(w.left) == 0 {
			w.left = w.stack.Faults()
			r.Shuffle(len(w.left), func(i, j int) { w.left[i], w.left[j] = w.left[j], w.left[i] })
		}
		f := w.left[0]
		w.left = w.left[1:]
		if !slices.Contains(on, f) {
			turn(f, true)
			on = append(on, f)
		}
	}
	for _, f := range on {
		turn(f, false)
	}
}

// configuration is the exporter's file. It can be broken or changed, and be made good again.
type configuration struct {
	path, good string
}

func writeConfiguration(t *testing.T, stack *simstack.Stack) *configuration {
	t.Helper()
	dir := t.TempDir()
	c := &configuration{path: filepath.Join(dir, "exporter.yaml"), good: fmt.Sprintf(`
state_file: %s
limits:
  metrics_body: 2MiB
  body: 256KiB
targets:
  - kind: plant_store
    mode: canary
  - kind: xmpp_c2s
    address: %s
  - kind: tls
    name: xmpp_s2s
    address: %s
    starttls: xmpp-server
    domain: %s
    ca_file: %s
  - kind: irc_tls
    address: %s
  - kind: volume
    name: data
    path: %s
  - kind: openmetrics
    name: bridge
    url: %s/metrics
`, filepath.Join(dir, "state.json"), stack.XMPPClientAddress(), stack.XMPPServerAddress(), simstack.XMPPDomain, stack.CAFile(),
		stack.IRCAddress(), dir,
		stack.Environ()["XMPP_REST_URL"])}
	c.write(t, c.good)
	return c
}

func (c *configuration) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(c.path, []byte(content), 0o600); err != nil {
		t.Error(err)
	}
}

// edit changes the file now and then and has it read, until ctx is done: to a broken one, to one in which targets are
// changed, new or gone, and back.
func (c *configuration) edit(ctx context.Context, t *testing.T, r *rand.Rand, e *exporter) {
	t.Helper()
	for exportertest.Pause(ctx, between(r, time.Second, 4*time.Second)) {
		content := c.good
		switch r.IntN(4) {
		case 0:
			content += "  - kind: telepathy\n"
		case 1:
			content = strings.ReplaceAll(content, "metrics_body: 2MiB", "metrics_body: 3MiB") // every collector is made anew
		case 2:
			content += fmt.Sprintf("  - kind: tcp\n    name: port-%d\n    address: %s\n", r.IntN(3), strings.TrimPrefix(e.url, "http://"))
		}
		c.write(t, content)
		e.reload(t)
	}
}

// paths are what browsers and others ask for.
var paths = []string{
	"/", "/", "/metrics", "/api/v1/status", "/api/v1/status?x=1", "/api/v1/discovery", "/api/v1/maintenance", "/api/v1/openapi.yaml",
	"/api/v1/history/target/irc_rpc/up", "/api/v1/no-such-path", "/badge/irc_rpc.svg", "/badge/docker.svg", "/debug/targets/docker",
	"/debug/targets/xmpp_metrics", "/debug/targets/nobody", "/-/healthy", "/-/ready", "/assets/nothing.js", "/runbooks",
	"/runbooks/TargetDown", "/runbooks/Nothing",
}

// crowd are clients that come and go.
type crowd struct {
	url string

	mu     sync.Mutex
	asked  map[string]int // answers by what was asked for
	faults []string
}

func (c *crowd) note(kind, fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[kind]++
	if fault != "" && len(c.faults) < 20 {
		c.faults = append(c.faults, fault)
	}
}

// come brings all kinds of clients until ctx is done, and waits until they have gone.
func (c *crowd) come(ctx context.Context, seeds *rand.Rand) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, kind := range []struct {
		clients int
		visit   func(context.Context, *rand.Rand, *http.Client)
	}{{3, c.scrape}, {3, c.load}, {8, c.listen}, {2, c.mumble}} {
		for range kind.clients {
			r := rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64())) //nolint:gosec // it is to be repeatable
			all.Go(func() {
				// One keeps its connections, one makes each anew.
				clients := [2]*http.Client{}
				for i := range clients {
					transport := &http.Transport{DisableCompression: true, DisableKeepAlives: i > 0}
					defer transport.CloseIdleConnections()
					clients[i] = &http.Client{Transport: transport}
				}
				for exportertest.Pause(ctx, between(r, time.Millisecond, 200*time.Millisecond)) {
					kind.visit(ctx, r, clients[r.IntN(2)])
				}
			})
		}
	}
}

// get asks for a path and gives the answer to read, unless ctx was done. Whatever the stack does, an answer comes.
func (c *crowd) get(ctx context.Context, client *http.Client, path string, header http.Header, read func(*http.Response) error) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		c.note(kind, err.Error())
		return
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		if !endedByContext(ctx, err) {
			c.note(kind, err.Error())
		}
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	fault := ""
	// Right after a reload a new target has not been read: /-/ready says so.
	if resp.StatusCode >= http.StatusInternalServerError && path != "/-/ready" {
		fault = fmt.Sprintf("get %s: status %d", path, resp.StatusCode)
	}
	if err := read(resp); err != nil && !endedByContext(ctx, err) {
		fault = fmt.Sprintf("read %s: %v", path, err)
	}
	c.note(kind, fault)
}

// endedByContext reports whether ctx ended the call. A dial may time out a moment before ctx does.
func endedByContext(ctx context.Context, err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ctx.Err() != nil || ok && timeout.Timeout()
}

func whole(resp *http.Response) error {
	_, err := io.Copy(io.Discard, resp.Body)
	return err
}

// some reads the beginning of an answer and goes.
func some(resp *http.Response) error {
	_, err := io.CopyN(io.Discard, resp.Body, 100)
	return err
}

// scrape asks as Prometheus does. Each tenth goes in the middle of the answer.
func (c *crowd) scrape(ctx context.Context, r *rand.Rand, client *http.Client) {
	header := http.Header{}
	if r.IntN(2) == 0 {
		header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	}
	if r.IntN(2) == 0 {
		header.Set("Accept-Encoding", "gzip")
		c.get(ctx, client, "/metrics", header, whole)
		return
	}
	read := func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Contains(body, []byte("chatstack_exporter_build_info{")) {
			err = fmt.Errorf("a page of %d bytes without the build", len(body))
		}
		return err
	}
	if r.IntN(10) == 0 {
		read = some
	}
	c.get(ctx, client, "/metrics", header, read)
}

// load asks for pages.
func (c *crowd) load(ctx context.Context, r *rand.Rand, client *http.Client) {
	c.get(ctx, client, paths[r.IntN(len(paths))], http.Header{"Accept": {"text/html"}}, whole)
}

// listen holds an event stream for a while.
func (c *crowd) listen(ctx context.Context, r *rand.Rand, client *http.Client) {
	listening, cancel := context.WithTimeout(ctx, between(r, 10*time.Millisecond, 3*time.Second))
	defer cancel()
	c.get(listening, client, "/api/v1/events", http.Header{}, whole)
}

// mumble connects and says nothing, or not all, or does not read, and goes.
func (c *crowd) mumble(ctx context.Context, r *rand.Rand, _ *http.Client) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		if !endedByContext(ctx, err) {
			c.note("connection", err.Error())
		}
		return
	}
	//nolint:errcheck // that is what it is for
	defer conn.Close()
	//nolint:errcheck,gosec // nobody to tell
	io.WriteString(conn, []string{
		"", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\r\n\r\n",
	}[r.IntN(5)])
	c.note("connection", "")
	exportertest.Pause(ctx, between(r, time.Millisecond, time.Second))
}
