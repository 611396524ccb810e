package bench

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// streamsTime is how long each half of BenchmarkStreams lasts. The figures that are published take a minute.
var streamsTime = flag.Duration("streams.time", 3*time.Second, "how long streams and page loads last")

const (
	openStreams  = 1000
	loadInterval = 10 * time.Millisecond // 100 page loads a second
	scrapePause  = 50 * time.Millisecond
)

// BenchmarkStreams measures scrapes and polls of an exporter that watches the simulated stack each second: at rest, and
// with 1,000 open event streams and 100 page loads a second. Clients, stack and exporter share the processors.
func BenchmarkStreams(b *testing.B) {
	stack, err := simstack.Start(simstack.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer stack.Close() //nolint:errcheck // the benchmark is over
	env := stack.Environ()
	address, none := []string{"127.0.0.1:0"}, ""
	a, err := app.New(app.Options{
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }, Interval: time.Second,
		Web: &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	url := "http://" + a.Addresses()[0].String()
	for !a.Ready() {
		time.Sleep(10 * time.Millisecond)
	}
	for b.Loop() {
		measureUnderLoad(b, a, url, "rest")
		load, unload := context.WithCancel(ctx)
		var clients sync.WaitGroup
		events, streams := openThem(load, b, url, &clients)
		pages := loadPages(load, url, &clients)
		measureUnderLoad(b, a, url, "load")
		b.ReportMetric(float64(streams()), "streams")
		b.ReportMetric(float64(events.Load())/streamsTime.Seconds(), "events/s")
		b.ReportMetric(float64(pages.Load())/streamsTime.Seconds(), "pages/s")
		unload()
		clients.Wait()
	}
}

// openThem opens the streams, and counts the events of all and the streams that are still open.
func openThem(ctx context.Context, b *testing.B, url string, clients *sync.WaitGroup) (*atomic.Int64, func() int64) {
	b.Helper()
	var events, open atomic.Int64
	opened := make(chan error, openStreams)
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext}}
	for range openStreams {
		clients.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/events", http.NoBody)
			if err != nil {
				opened <- err
				return
			}
			resp, err := client.Do(req)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			opened <- err
			if err != nil {
				return
			}
			defer resp.Body.Close() //nolint:errcheck // the load is over
			open.Add(1)
			defer open.Add(-1)
			for s := bufio.NewScanner(resp.Body); s.Scan(); {
				if strings.HasPrefix(s.Text(), "event: ") {
					events.Add(1)
				}
			}
		})
	}
	for range openStreams {
		if err := <-opened; err != nil {
			b.Fatal(err)
		}
	}
	return &events, open.Load
}

// loadPages loads the status page at a steady pace, whether or not the load before has ended, and counts those that have.
func loadPages(ctx context.Context, url string, clients *sync.WaitGroup) *atomic.Int64 {
	var pages atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	clients.Go(func() {
		pace := time.NewTicker(loadInterval)
		defer pace.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
			clients.Go(func() {
				if _, err := fetchTimed(ctx, client, url+"/"); err == nil {
					pages.Add(1)
				}
			})
		}
	})
	return &pages
}

// fetchTimed reads a whole answer and returns how long that took.
func fetchTimed(ctx context.Context, client *http.Client, url string) (time.Duration, error) {
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", metricsAccept)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	return time.Since(start), nil
}

// measureUnderLoad scrapes for a while, and reports how long scrapes and readings took, and how late readings were.
func measureUnderLoad(b *testing.B, a *app.App, url, name string) {
	b.Helper()
	var scrapes, late, took []time.Duration
	client := &http.Client{Transport: &http.Transport{}}
	lastly := map[string]time.Time{}
	for end := time.Now().Add(*streamsTime); time.Now().Before(end); time.Sleep(scrapePause) {
		d, err := fetchTimed(b.Context(), client, url+"/metrics")
		if err != nil {
			b.Fatal(err)
		}
		scrapes = append(scrapes, d)
		for _, s := range a.Snapshot().Statuses {
			before, known := lastly[s.Target]
			// A target that is down may be read again sooner.
			if known && s.LastAttempt.After(before) && s.Up {
				late = append(late, max(0, s.LastAttempt.Sub(before)-time.Second))
				took = append(took, s.Duration)
			}
			lastly[s.Target] = s.LastAttempt
		}
	}
	for _, m := range []struct {
		what  string
		times []time.Duration
	}{{"scrape", scrapes}, {"late", late}, {"poll", took}} {
		b.ReportMetric(float64(quantile(m.times, 0.5))/1e6, name+"-"+m.what+"-p50-ms")
		b.ReportMetric(float64(quantile(m.times, 0.99))/1e6, name+"-"+m.what+"-p99-ms")
	}
}
