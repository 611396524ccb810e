//go:build bench && realservers

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// A server that is measured is a process of its own, so that its processor time is not the client's: this program again,
// with these variables.
const (
	serveVariable   = "CHATSTACK_BENCH_SERVE" // what it serves
	addressVariable = "CHATSTACK_BENCH_ADDRESS"
	seriesVariable  = "CHATSTACK_BENCH_SERIES"
	profileVariable = "CHATSTACK_BENCH_PROFILE" // begins the names of the files that profiles are written to
	configVariable  = "CHATSTACK_BENCH_CONFIG"  // configures an exporter
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveVariable); kind != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		end := profileTo(os.Getenv(profileVariable))
		if err := serve(ctx, kind, os.Getenv(addressVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		end()
		stop()
		return
	}
	os.Exit(m.Run())
}

// serve serves what is wanted until the context ends.
func serve(ctx context.Context, kind, address string) error {
	if kind == "exporter" {
		addresses, none := []string{address}, ""
		return must(app.New(app.Options{ //nolint:contextcheck // its socket lives as long as the process
			ConfigFile: os.Getenv(configVariable),
			Lookup:     func(string) (string, bool) { return "", false },
			Web:        &toolkit.FlagConfig{WebListenAddresses: &addresses, WebConfigFile: &none},
			Log:        discardLog,
		})).Run(ctx)
	}
	ours, theirs, poller, err := servePage(must(strconv.Atoi(os.Getenv(seriesVariable))))
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: time.Minute,
		Handler: map[string]http.Handler{serverOurs: ours, serverPromhttp: theirs, serverBare: serveBare(poller)}[kind],
	}
	context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck,gosec // the process ends
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// seriesCollector makes n series in families of a hundred, as a busy upstream has them.
type seriesCollector []*prometheus.Desc

func newSeriesCollector(n int) (c seriesCollector) {
	for i := range n / 100 {
		c = append(c,
			prometheus.NewDesc(fmt.Sprintf("chatstack_bench_family_%d", i), "Series, for a benchmark.", []string{"host", "number"}, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c seriesCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c seriesCollector) Collect(ch chan<- prometheus.Metric) {
	for i, d := range c {
		for n := range 100 {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(i*n)+0.5, "chat.example.org", fmt.Sprint(n))
		}
	}
}

// source is a poller as the metrics page wants it; nothing else is asked.
type source struct {
	web.Source
	poller *poll.Poller
}

func (s source) Page(h http.Header) poll.Page { return s.poller.Page(h) }

// servePage serves n series the way of ours, from the page that is kept, and of promhttp, which encodes them for each scrape.
func servePage(n int) (ours, theirs http.Handler, poller *poll.Poller, err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newSeriesCollector(n))
	poller, err = poll.New(nil, registry, nil, discardLog, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	return web.New(source{poller: poller}, web.Options{}),
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), poller, nil
}

// serveBare writes bytes that it has, and looks at nothing but the encoding.
func serveBare(poller *poll.Poller) http.Handler {
	body := func(encoding string) poll.Page {
		return poller.Page(http.Header{"Accept": {metricsAccept}, "Accept-Encoding": {encoding}})
	}
	identity, packed := body("identity"), body("gzip")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := identity
		if r.Header.Get("Accept-Encoding") == "gzip" {
			b = packed
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Type", b.ContentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(b.Start)+len(b.End)))
		w.Write(b.Start) //nolint:errcheck,gosec // the client's loss
		w.Write(b.End)   //nolint:errcheck,gosec // as above
	})
}

// profileTo begins a profile of processor time in prefix.cpu. Its end writes what memory is used for to prefix.heap.
func profileTo(prefix string) (end func()) {
	if prefix == "" {
		return func() {}
	}
	cpu, heap := must(os.Create(prefix+".cpu")), must(os.Create(prefix+".heap")) //nolint:gosec // the parent's choice
	must(0, pprof.StartCPUProfile(cpu))
	return func() {
		pprof.StopCPUProfile()
		runtime.GC()
		must(0, errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close()))
	}
}

// startSelf starts this program as a server.
func startSelf(t *testing.T, kind string, variables ...string) *realstack.Program {
	t.Helper()
	return realstack.StartProgram(t, "bench", "/metrics", append(variables, serveVariable+"="+kind), func(p *realstack.Program) []string {
		return []string{"/usr/bin/env", addressVariable + "=" + p.Addr, must(os.Executable())}
	})
}

// rival is a server that is scraped in turn with the others, and stopped meanwhile.
type rival struct {
	name, addr, path string
	*realstack.Process
	clients []*client

	bytes      int
	times      []float64 // of all scrapes, in microseconds
	p50, speed []float64 // of each turn: in microseconds, and scrapes per second
	cpu        time.Duration
	failed     error // why it is scraped no more
}

// nginxConfig has one process do everything, so that its processor time is easily read.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	default_type "application/openmetrics-text; version=1.0.0; charset=utf-8";
	gzip_static on;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	sendfile on;
	tcp_nopush on;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; root %[1]s; }
}
`

const prometheusConfig = `scrape_configs:
- job_name: ours
  scrape_interval: %[2]s
  scrape_timeout: %[2]s
  static_configs: [{targets: [%[1]q]}]
`

const telegrafConfig = `[agent]
interval = %q
flush_interval = "1s"
metric_buffer_limit = 200000
metric_batch_size = 200000
omit_hostname = true
[[inputs.prometheus]]
urls = ["http://%s/metrics"]
metric_version = 2
url_tag = ""
[[outputs.prometheus_client]]
listen = %q
read_timeout = "1h"
write_timeout = "1h"
metric_version = 2
expiration_interval = "0s"
collectors_exclude = ["gocollector", "process"]
`

// startRivals starts the servers of a page of as many series: ours first; nginx, which has it in files; and Prometheus and
// Telegraf, which have scraped it.
func (s *suite) startRivals(t *testing.T, series int) (all []*rival) {
	t.Helper()
	variable := fmt.Sprintf("%s=%d", seriesVariable, series)
	add := func(name, path string, p *realstack.Process, addr string) {
		r := &rival{
			name:    name,
			addr:    addr,
			path:    path,
			Process: p,
		}
		err := await(2*awaitWithin, func() error {
			page, err := get(t.Context(), http.DefaultTransport, "http://"+addr+path, "identity")
			if err == nil && strings.Count(string(page), "\n") < series {
				err = fmt.Errorf("a page of %d bytes", len(page))
			}
			return err
		})
		if err != nil {
			s.absent(t, fmt.Sprintf("%s: has not %s series: %v", name, thousands(series), err))
			return
		}
		all = append(all, r)
	}
	for _, name := range []string{serverOurs, serverBare, serverPromhttp} {
		p := startSelf(t, name, variable)
		add(name, "/metrics", p.Process, p.Addr)
	}
	if program := realstack.Installed("nginx"); program != "" {
		p := realstack.StartProgram(t, "nginx", "/metrics", nil, func(p *realstack.Program) []string {
			for name, encoding := range map[string]string{"metrics": "identity", "metrics.gz": "gzip"} {
				p.File(name, string(must(get(t.Context(), http.DefaultTransport, "http://"+all[0].addr+"/metrics", encoding))))
			}
			dir := strings.TrimSuffix(p.File("mark", ""), "/mark")
			return []string{program, "-p", dir, "-c", p.File("nginx.conf", fmt.Sprintf(nginxConfig, dir, p.Addr)), "-e", "stderr"}
		})
		add(serverNginx, "/metrics", p.Process, p.Addr)
	}
	// Never stopped, so that those who scrape it do not think that it is gone.
	source := startSelf(t, serverBare, variable)
	if realstack.Installed("prometheus") != "" {
		p := realstack.StartPrometheus(t, fmt.Sprintf(prometheusConfig, source.Addr, s.plan.every), nil)
		add(serverFederate, "/federate?match[]=%7Bjob%3D%22ours%22%7D", p.Process, p.Addr)
	}
	if program := os.Getenv(telegrafVariable); program != "" {
		p := realstack.StartProgram(t, "telegraf", "/metrics", nil, func(p *realstack.Program) []string {
			return []string{program, p.File("telegraf.conf", fmt.Sprintf(telegrafConfig, s.plan.every.String(), source.Addr, p.Addr))}
		})
		add(serverTelegraf, "/metrics", p.Process, p.Addr)
	}
	return all
}

// measureScrapes scrapes all servers of pages of each size, in turns.
func (s *suite) measureScrapes(t *testing.T) {
	t.Helper()
	for _, n := range s.plan.sizes {
		t.Run(fmt.Sprintf("series=%d", n), func(t *testing.T) {
			rivals := s.startRivals(t, n)
			for _, r := range rivals {
				r.Hang()
			}
			for _, encoding := range []string{"identity", "gzip"} {
				for _, scrapers := range []int{1, 8} {
					s.contest(t, rivals, scrapeRow{Series: n, Encoding: encoding, Scrapers: scrapers})
				}
			}
		})
	}
}

// contest has all servers scraped in turns, of which each begins with another one. A server that does not serve is noted and
// left out.
func (s *suite) contest(t *testing.T, rivals []*rival, row scrapeRow) {
	t.Helper()
	all := make([]*rival, len(rivals))
	for i, r := range rivals {
		all[i] = &rival{
			name:    r.name,
			addr:    r.addr,
			path:    r.path,
			Process: r.Process,
		}
		all[i].dial(t, row.Encoding, row.Scrapers)
	}
	for begun := time.Now(); row.Rounds < s.plan.rounds &&
		(row.Rounds < s.plan.leastTurns || time.Since(begun) < s.plan.most); row.Rounds++ {
		for i := range all {
			c := all[(row.Rounds+i)%len(all)]
			if c.failed != nil {
				continue
			}
			if c.failed = c.turn(s.plan.turn); c.failed != nil {
				s.absent(t, fmt.Sprintf("%s, %s: %v", c.name, row.where(), c.failed))
			}
		}
	}
	ours := all[0]
	if ours.failed != nil {
		t.Fatalf("scrape ours: %v", ours.failed)
	}
	for _, c := range all {
		if c.failed != nil {
			continue
		}
		if c.bytes < ours.bytes/4 {
			t.Errorf("%s serves %d B, ours %d B: that is not the same page", c.name, c.bytes, ours.bytes)
		}
		row.Server, row.Bytes, row.Scrapes = c.name, c.bytes, len(c.times)
		row.P50, row.P99, row.PerSecond = median(c.p50), quantile(c.times, 0.99), median(c.speed)
		row.CPU, row.Ratio, row.Speed = float64(c.cpu)/1e3/float64(len(c.times)), ratio(c.p50, ours.p50), ratio(c.speed, ours.speed)
		s.Scrape = append(s.Scrape, row)
		t.Logf("%+v", row)
	}
}

// turn scrapes for one turn, with each client at least once.
func (r *rival) turn(d time.Duration) error {
	r.Resume()
	defer r.Hang()
	// What slept must wake up first; those that take long for a scrape have the time in it.
	if n := len(r.p50); n == 0 || r.p50[n-1] < 20_000 {
		if _, err := r.together(d / 4); err != nil {
			return err
		}
	}
	cpu, begun := cpuTime(r.PID()), time.Now()
	times, err := r.together(d)
	if err != nil {
		return err
	}
	r.speed = append(r.speed, float64(len(times))/time.Since(begun).Seconds())
	r.cpu += cpuTime(r.PID()) - cpu
	r.times = append(r.times, times...)
	r.p50 = append(r.p50, median(times))
	return nil
}

// together has all clients scrape until the time is over, and returns what the scrapes took, in microseconds.
func (r *rival) together(d time.Duration) (all []float64, err error) {
	var group sync.WaitGroup
	errs, took := make([]error, len(r.clients)), make([][]float64, len(r.clients))
	begun := time.Now()
	for i, client := range r.clients {
		group.Go(func() {
			for len(took[i]) == 0 || time.Since(begun) < d {
				start := time.Now()
				if errs[i] = client.scrape(); errs[i] != nil {
					return
				}
				took[i] = append(took[i], float64(time.Since(start))/1e3)
			}
		})
	}
	group.Wait()
	r.bytes = r.clients[0].bytes
	for _, times := range took {
		all = append(all, times...)
	}
	return all, errors.Join(errs...)
}

// client scrapes over one connection, with as little work of its own as there can be.
type client struct {
	conn          net.Conn
	in            *bufio.Reader
	request, sink []byte
	bytes         int // of the last page
}

// dial opens the connections of as many clients.
func (r *rival) dial(t *testing.T, encoding string, clients int) {
	t.Helper()
	for range clients {
		conn := must(new(net.Dialer).DialContext(t.Context(), "tcp", r.addr))
		t.Cleanup(func() { conn.Close() }) //nolint:errcheck,gosec // read to its end
		r.clients = append(r.clients, &client{
			conn: conn,
			in:   bufio.NewReaderSize(conn, 64<<10),
			sink: make([]byte, 256<<10),
			request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nAccept-Encoding: %s\r\n\r\n",
				r.path, r.addr, metricsAccept, encoding),
		})
	}
}

// scrape gets the page once. The wrappers hide what else a body and io.Discard can do, so that all is copied through sink.
func (c *client) scrape() error {
	if err := c.conn.SetDeadline(time.Now().Add(awaitWithin)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, c.sink)
	c.bytes = int(n)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}
