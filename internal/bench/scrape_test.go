package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// A server that is measured is a process of its own, so that its processor time can be told from the client's: this
// program again, with these variables.
const (
	serveVariable  = "CHATSTACK_BENCH_SERVE"
	seriesVariable = "CHATSTACK_BENCH_SERIES"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveVariable); kind != "" {
		if err := serve(kind, os.Getenv(seriesVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// metricsAccept is what Prometheus accepts.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// serve serves a page of as many series until its input ends. It says its address on its output.
func serve(kind, series string) error {
	n, err := strconv.Atoi(series)
	if err != nil {
		return fmt.Errorf("%s: %w", seriesVariable, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newSeriesCollector(n))
	poller, err := poll.New(nil, registry, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	handler, known := map[string]http.Handler{
		"ours":     web.New(source{poller: poller}, web.Options{}),
		"bare":     bare(poller.Snapshot().Page),
		"promhttp": promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
	}[kind]
	if !known {
		return fmt.Errorf("%s: there is no server %q", serveVariable, kind)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the process
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		server.Close()                //nolint:errcheck,gosec // the process ends
	}()
	fmt.Println(l.Addr()) //nolint:forbidigo // for the parent
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare writes bytes that it has, and looks at nothing but the encoding.
func bare(page *exposition.Page) http.Handler {
	body := func(encoding string) exposition.Body {
		return page.Negotiate(http.Header{"Accept": {metricsAccept}, "Accept-Encoding": {encoding}})
	}
	identity, packed := body("identity"), body("gzip")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := identity
		if r.Header.Get("Accept-Encoding") == "gzip" {
			b = packed
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Type", b.ContentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(b.Bytes)))
		w.Write(b.Bytes) //nolint:errcheck,gosec // the client's loss
	})
}

// rival is a server that is scraped in turn with the others.
type rival struct {
	name string
	// addr and path are where its page is.
	addr, path string
	pid        int

	times    []time.Duration
	cpu      time.Duration
	size     int
	together []float64 // scrapes per second of several clients
}

// startServer starts this program as a server and ends it with the benchmark.
func startServer(b *testing.B, kind string, series int) *rival {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), serveVariable+"="+kind, fmt.Sprintf("%s=%d", seriesVariable, series))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close() //nolint:errcheck,gosec // it ends all the same
		cmd.Wait()    //nolint:errcheck,gosec // killed at the worst
	})
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatalf("server %s says no address: %v", kind, err)
	}
	return &rival{name: kind, addr: strings.TrimSpace(addr), path: "/metrics", pid: cmd.Process.Pid}
}

// cpuTime is how long a process has been on a processor.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		tb.Fatalf("process %d tells no processor time: %v", pid, err)
	}
	var sum time.Duration
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(stat), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// client scrapes over one connection, with as little work of its own as there can be.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	sink    []byte
}

func (r *rival) dial(b *testing.B, encoding string) *client {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", r.addr)
	if err != nil {
		b.Fatal(err)
	}
	return &client{
		conn: conn, in: bufio.NewReaderSize(conn, 64<<10), sink: make([]byte, 256<<10),
		request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nAccept-Encoding: %s\r\n\r\n", r.path, r.addr, metricsAccept, encoding),
	}
}

// onlyReader and onlyWriter hide what else a body and io.Discard can do, so that all is copied through the client's own
// buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// scrape gets the page once and returns its size.
func (c *client) scrape() (int, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	n, err := io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{resp.Body}, c.sink)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	return int(n), resp.Body.Close()
}

const (
	// turn is about how long one contender is measured before the next one's turn comes.
	turn = 50 * time.Millisecond
	// clients scrape at once where throughput is measured.
	clients = 4
)

// take measures the rival for one turn.
func (r *rival) take(b *testing.B, encoding string) {
	b.Helper()
	c := r.dial(b, encoding)
	defer c.conn.Close() //nolint:errcheck // read to its end
	if _, err := c.scrape(); err != nil {
		b.Fatalf("scrape %s: %v", r.name, err)
	}
	cpu, begun := cpuTime(b, r.pid), time.Now()
	count := 0
	for count == 0 || time.Since(begun) < turn {
		start := time.Now()
		n, err := c.scrape()
		if err != nil {
			b.Fatalf("scrape %s: %v", r.name, err)
		}
		r.times = append(r.times, time.Since(start))
		r.size = n
		count++
	}
	r.cpu += cpuTime(b, r.pid) - cpu
	r.takeTogether(b, encoding, (count+clients-1)/clients)
}

// takeTogether has several clients scrape at once, each as often.
func (r *rival) takeTogether(b *testing.B, encoding string, each int) {
	b.Helper()
	var all [clients]*client
	for i := range all {
		all[i] = r.dial(b, encoding)
		defer all[i].conn.Close() //nolint:errcheck // read to its end
	}
	var (
		group sync.WaitGroup
		errs  [clients]error
	)
	start := time.Now()
	for i, c := range all {
		group.Go(func() {
			for range each {
				if _, errs[i] = c.scrape(); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		b.Fatalf("scrape %s: %v", r.name, err)
	}
	r.together = append(r.together, float64(clients*each)/time.Since(start).Seconds())
}

// BenchmarkScrapeHTTP scrapes servers over loopback, in turns, and prints what a scrape takes: ours, a handler that
// writes the same bytes and does nothing else, promhttp, which gathers and encodes for each scrape, and with the build
// tag realservers, as CI has it, nginx with the same bytes in a file and Prometheus' /federate.
func BenchmarkScrapeHTTP(b *testing.B) {
	for _, n := range sizes {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(fmt.Sprintf("series=%d/%s", n, encoding), func(b *testing.B) {
				ours := startServer(b, "ours", n)
				rivals := []*rival{ours, startServer(b, "bare", n), startServer(b, "promhttp", n)}
				rivals = append(rivals, installed(b, ours, n)...)
				for b.Loop() {
					for _, r := range rivals {
						r.take(b, encoding)
					}
				}
				tell(b, rivals)
			})
		}
	}
}

// tell prints the numbers of rivals, of which the first is ours and the second the one that it is measured by.
func tell(b *testing.B, rivals []*rival) {
	b.Helper()
	perScrape := func(r *rival) time.Duration { return r.cpu / time.Duration(len(r.times)) }
	b.ReportMetric(0, "ns/op")
	var table strings.Builder
	for _, r := range rivals {
		p50 := quantile(r.times, 0.5)
		b.ReportMetric(float64(p50)/1e3, r.name+"-p50-us")
		fmt.Fprintf(&table, "%-9s %9d B  p50 %9.1f us  p99 %9.1f us  cpu %9.1f us  %8.0f scrapes/s  p50 %8.2f times ours, cpu %8.2f\n",
			r.name, r.size, float64(p50)/1e3, float64(quantile(r.times, 0.99))/1e3, float64(perScrape(r))/1e3, median(r.together),
			float64(p50)/float64(quantile(rivals[0].times, 0.5)), float64(perScrape(r))/float64(perScrape(rivals[0])))
	}
	b.ReportMetric(float64(quantile(rivals[0].times, 0.5))/float64(quantile(rivals[1].times, 0.5)), "ours/bare")
	b.Logf("%d turns\n%s", b.N, table.String())
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
