//go:build bench && realservers

package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// metricsAccept is what Prometheus accepts.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

var discardLog = slog.New(slog.DiscardHandler)

// awaitWithin bounds the wait for a server to be as it should.
const awaitWithin = time.Minute

// must returns what nothing went wrong with. A part of the suite ends by its panic, and no other part.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// get asks for a page, as Prometheus does at a steady rate, and returns it as it came.
func get(ctx context.Context, by http.RoundTripper, url, encoding string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Accept": {metricsAccept}, "Accept-Encoding": {encoding}, "X-Prometheus-Scrape-Timeout-Seconds": {"10"}}
	return exportertest.Answer(by.RoundTrip, req)
}

// getPage asks for a page whole.
func getPage(ctx context.Context, addr string) ([]byte, error) {
	return get(ctx, http.DefaultTransport, "http://"+addr+"/metrics", "identity")
}

// await asks again and again until ready returns nil, and returns its last error where that is not within the time.
func await(within time.Duration, ready func() error) (err error) {
	for begun := time.Now(); time.Since(begun) < within; time.Sleep(20 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %w", within, err)
}

// cpuTime is how long processes have been on a processor.
func cpuTime(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		for _, name := range must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))) {
			stat, err := os.ReadFile(name)
			if err != nil {
				continue // the thread has ended
			}
			sum += time.Duration(must(strconv.ParseInt(string(bytes.Fields(stat)[0]), 10, 64)))
		}
	}
	return sum
}

// procNumber is the number behind a key in a file of /proc.
func procNumber(file, key string) (n float64) {
	_, rest, _ := strings.Cut(string(must(os.ReadFile("/proc/"+file))), key)
	must(fmt.Sscan(rest, &n))
	return n
}

// memoryOf is what a process has resident, and the most it had, in MB.
func memoryOf(pid int) (rss, peak float64) {
	status := fmt.Sprintf("%d/status", pid)
	return procNumber(status, "VmRSS:") * 1024 / 1e6, procNumber(status, "VmHWM:") * 1024 / 1e6
}

// count adds up the samples that begin with a prefix, and how many there are.
func count(page []byte, prefix string) (n int, sum float64) {
	for line := range bytes.Lines(page) {
		if line[0] == '#' || !bytes.HasPrefix(line, []byte(prefix)) {
			continue
		}
		n++
		if v, err := strconv.ParseFloat(string(bytes.TrimSpace(line[bytes.LastIndexByte(line, ' ')+1:])), 64); err == nil {
			sum += v
		}
	}
	return n, sum
}

// services are the addresses of n HTTP services, with TLS if that is not nil. A thousand share a server, since a port has no
// room for the ended connections of many more.
func services(t *testing.T, n int, secure *tls.Config) (addresses []string) {
	t.Helper()
	var service *httptest.Server
	for i := range n {
		if i%1000 == 0 {
			//nolint:errcheck // nobody to tell
			service = httptest.NewUnstartedServer(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "OK\n") }))
			if service.TLS = secure; secure != nil {
				service.StartTLS()
			} else {
				service.Start()
			}
			t.Cleanup(service.Close)
		}
		addresses = append(addresses, service.Listener.Addr().String())
	}
	return addresses
}

// secureServices are services with TLS, and the file of the authority that their certificate is of.
func secureServices(t *testing.T, n int) (addresses []string, authority string) {
	t.Helper()
	a := realstack.NewAuthority(t)
	certificate := must(tls.X509KeyPair(a.Issue("127.0.0.1")))
	return services(t, n, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), a.File
}

// configure starts what an exporter is to carry, and returns its configuration. Upstream series have other values each time.
func (l load) configure(t *testing.T, interval time.Duration) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "poll: {interval: %s, timeout: %s}\ntargets:\n", interval, min(interval, 10*time.Second))
	for i, address := range services(t, l.targets, nil) {
		fmt.Fprintf(&b, "  - {kind: http, name: service-%d, url: %q}\n", i, "http://"+address)
	}
	if l.tls > 0 {
		addresses, authority := secureServices(t, l.tls)
		for i, address := range addresses {
			fmt.Fprintf(&b, "  - {kind: tls, name: secure-%d, address: %q, ca_file: %q}\n", i, address, authority)
		}
	}
	if l.containers > 0 {
		engine := simstacktest.StartEngine(t, nil)
		for i := range l.containers {
			engine.Add(simstack.ContainerSpec{
				Name:       fmt.Sprintf("chat-service-%d", i),
				Image:      "service:1",
				Health:     true,
				WorkingSet: 12e6,
			})
		}
		fmt.Fprintf(&b, "  - {kind: docker, host: %q, resources: engine, max_containers: 100000}\n", engine.Host())
	}
	if l.series > 0 {
		var pages [2]bytes.Buffer
		for turn := range pages {
			for i := range l.series {
				if i%100 == 0 {
					fmt.Fprintf(&pages[turn],
						"# HELP upstream_family_%[1]d Series, to be carried.\n# TYPE upstream_family_%[1]d gauge\n", i/100)
				}
				fmt.Fprintf(&pages[turn], "upstream_family_%d{host=\"chat.example.org\",number=\"%d\"} %d.5\n", i/100, i%100, i*3+turn)
			}
			pages[turn].WriteString("# EOF\n")
		}
		var asked atomic.Int64
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", openMetricsType)
			w.Write(pages[asked.Add(1)%2].Bytes()) //nolint:errcheck // nobody to tell
		}))
		t.Cleanup(upstream.Close)
		fmt.Fprintf(&b, "  - {kind: openmetrics, name: upstream, url: %q}\n", upstream.URL)
	}
	return b.String()
}

// missing returns an error that says what of the load a page does not show.
func (l load) missing(page []byte) error {
	targets := l.targets + l.tls + min(l.containers, 1) + min(l.series, 1)
	for _, want := range []struct {
		prefix string
		n      int
		sum    float64
	}{
		{"chatstack_probe_success{", targets, float64(targets)},
		{`chatstack_container_health{container="chat-service-`, 4 * l.containers, float64(l.containers)},
		{`chatstack_container_memory_working_set_bytes{`, l.containers, 12e6 * float64(l.containers)},
	} {
		if n, sum := count(page, want.prefix); n != want.n || sum != want.sum {
			return fmt.Errorf("%s: %d series that add up to %g, want %d and %g", want.prefix, n, sum, want.n, want.sum)
		}
	}
	if n, _ := count(page, "upstream_family_"); n != l.series {
		return fmt.Errorf("%d upstream series, want %d", n, l.series)
	}
	return nil
}

// carrier is an exporter with its load.
type carrier struct {
	load
	program string // its name
	*realstack.Exporter
	scrapes []float64     // in milliseconds
	before  time.Duration // its processor time, when it began to be measured
}

// carry starts an exporter that carries a load.
func carry(t *testing.T, e exporter, l load, interval time.Duration) *carrier {
	t.Helper()
	return &carrier{
		load:     l,
		program:  e.name,
		Exporter: realstack.StartExporter(t, e.path, l.configure(t, interval), nil, "--log.level=warn"),
	}
}

// scrape gets the page compressed, which must show all of the load, and returns what that took.
func (c *carrier) scrape(ctx context.Context) (page []byte, compressed int, took time.Duration, err error) {
	begun := time.Now()
	packed, err := get(ctx, http.DefaultTransport, c.URL()+"/metrics", "gzip")
	if err != nil {
		return nil, 0, 0, err
	}
	took = time.Since(begun)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		page, err = io.ReadAll(r)
	}
	if err == nil {
		err = c.missing(page)
	}
	return page, len(packed), took, err
}
