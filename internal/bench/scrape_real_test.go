//go:build bench && realservers

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rival is a server that is scraped in turn with the others, and stopped meanwhile.
type rival struct {
	name string
	// addr and path are where its page is.
	addr, path string
	pid        int
}

// stop stops the server's process until the next go.
func (r *rival) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop %s: %v", r.name, err)
	}
}

func (r *rival) goOn(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.pid, syscall.SIGCONT); err != nil {
		t.Errorf("continue %s: %v", r.name, err)
	}
}

// startSelf starts this program as a server and ends it with the test, or earlier by the function that it returns.
func startSelf(t *testing.T, kind string, variables ...string) (addr string, pid int, end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self) //nolint:gosec // ourselves
	cmd.Env = append(append(os.Environ(), serveVariable+"="+kind), variables...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also while it is stopped
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		stdin.Close() //nolint:errcheck,gosec // it ends all the same
		cmd.Wait()    //nolint:errcheck,gosec // killed at the worst
	})
	t.Cleanup(end)
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("server %s says no address: %v", kind, err)
	}
	return strings.TrimSpace(addr), cmd.Process.Pid, end
}

// startServer starts this program as a server of as many series.
func startServer(t *testing.T, name, kind string, series int) *rival {
	t.Helper()
	addr, pid, _ := startSelf(t, kind, fmt.Sprintf("%s=%d", seriesVariable, series))
	return &rival{name: name, addr: addr, path: "/metrics", pid: pid}
}

// client scrapes over one connection, with as little work of its own as there can be.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	sink    []byte
}

func (r *rival) dial(t *testing.T, encoding string) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck,gosec // read to its end
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
	if err := c.conn.SetDeadline(time.Now().Add(awaitWithin)); err != nil {
		return 0, err
	}
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

// contest is a server scraped by some clients, in turns.
type contest struct {
	*rival
	clients []*client

	bytes int
	times []time.Duration // of all turns
	p50   []float64       // of each turn, in microseconds
	speed []float64       // of each turn, scrapes per second
	cpu   time.Duration
	// failed is why it is scraped no more.
	failed error
}

// scrapePlan is how much is scraped.
type scrapePlan struct {
	sizes  []int
	rounds int
	// turn is about how long one server is scraped before the next one's turn comes.
	turn time.Duration
	// every is how often those that serve the page again scrape it.
	every time.Duration
	// most is after what time a contest has no further round, once it has least.
	most  time.Duration
	least int
}

var (
	// A round of 100,000 series and 8 scrapers takes half a minute, with the servers that encode for each scrape.
	wholeScrapes = scrapePlan{sizes: sizes, turn: 100 * time.Millisecond, every: 15 * time.Second, rounds: 15, most: 20 * time.Second, least: 3}
	shortScrapes = scrapePlan{sizes: sizes[:1], turn: 5 * time.Millisecond, every: time.Second, rounds: 2, most: time.Minute, least: 2}
)

// takeScrapes scrapes all servers of pages of each size, in turns.
func (s *suite) takeScrapes(t *testing.T) {
	t.Helper()
	for _, n := range s.scrapes.sizes {
		t.Run(fmt.Sprintf("series=%d", n), func(t *testing.T) {
			ours := startServer(t, serverOurs, "ours", n)
			rivals := append([]*rival{ours, startServer(t, serverBare, "bare", n), startServer(t, "promhttp", "promhttp", n)}, s.installed(t, ours, n)...)
			// Before the servers' own ends come.
			t.Cleanup(func() {
				for _, r := range rivals {
					r.goOn(t)
				}
			})
			for _, r := range rivals {
				r.stop(t)
			}
			for _, encoding := range []string{"identity", "gzip"} {
				for _, scrapers := range []int{1, 8} {
					s.contest(t, rivals, n, encoding, scrapers)
					s.save(t)
				}
			}
		})
	}
}

// contest has all servers scraped in turns, of which each begins with another one. A server that does not serve is noted and
// left out.
func (s *suite) contest(t *testing.T, rivals []*rival, series int, encoding string, scrapers int) {
	t.Helper()
	all := make([]*contest, len(rivals))
	for i, r := range rivals {
		all[i] = &contest{rival: r}
		for range scrapers {
			all[i].clients = append(all[i].clients, r.dial(t, encoding))
		}
	}
	rounds := 0
	for begun := time.Now(); rounds < s.scrapes.rounds && (rounds < s.scrapes.least || time.Since(begun) < s.scrapes.most); rounds++ {
		for i := range all {
			c := all[(rounds+i)%len(all)]
			if c.failed != nil {
				continue
			}
			if c.failed = c.take(t, s.scrapes.turn); c.failed != nil {
				s.absent(t, fmt.Sprintf("%s, %s series, %s, %s: %v", c.name, thousands(series), encoding, counted(scrapers, "scraper"), c.failed))
			}
		}
	}
	if all[0].failed != nil {
		t.Fatalf("scrape ours: %v", all[0].failed)
	}
	for _, c := range all {
		if c.failed != nil {
			continue
		}
		if least := all[0].bytes / 4; c.bytes < least {
			t.Errorf("%s serves %d B, ours %d B: that is not the same page", c.name, c.bytes, all[0].bytes)
		}
		row := scrapeRow{
			Series: series, Encoding: encoding, Scrapers: scrapers, Server: c.name, Bytes: c.bytes, Scrapes: len(c.times), Rounds: rounds,
			P50: median(c.p50), P99: float64(quantile(c.times, 0.99)) / 1e3, PerSecond: median(c.speed),
			CPU: float64(c.cpu) / 1e3 / float64(len(c.times)), Ratio: ratio(c.p50, all[0].p50), Speed: ratio(c.speed, all[0].speed),
		}
		s.results.Scrape = append(s.results.Scrape, row)
		t.Logf("%+v", row)
	}
}

// ratio is the median of the turns' ratios.
func ratio(values, ours []float64) float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / ours[i]
	}
	return median(all)
}

// take scrapes for one turn, with each client at least once.
func (c *contest) take(t *testing.T, turn time.Duration) error {
	t.Helper()
	c.goOn(t)
	defer c.stop(t)
	// What slept must wake up first; those that take long for a scrape have the time in it.
	if n := len(c.p50); n == 0 || c.p50[n-1] < 20_000 {
		if _, err := c.together(turn / 4); err != nil {
			return err
		}
	}
	cpu, begun := cpuTime(t, c.pid), time.Now()
	times, err := c.together(turn)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	c.cpu += cpuTime(t, c.pid) - cpu
	c.times = append(c.times, times...)
	c.p50 = append(c.p50, float64(quantile(times, 0.5))/1e3)
	c.speed = append(c.speed, float64(len(times))/took.Seconds())
	return nil
}

// together has all clients scrape until the time is over, and returns what the scrapes took.
func (c *contest) together(turn time.Duration) ([]time.Duration, error) {
	var (
		group sync.WaitGroup
		errs  = make([]error, len(c.clients))
		took  = make([][]time.Duration, len(c.clients))
		sizes = make([]int, len(c.clients))
	)
	begun := time.Now()
	for i, client := range c.clients {
		group.Go(func() {
			for len(took[i]) == 0 || time.Since(begun) < turn {
				start := time.Now()
				if sizes[i], errs[i] = client.scrape(); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.bytes = sizes[0]
	var all []time.Duration
	for _, times := range took {
		all = append(all, times...)
	}
	return all, nil
}
