package web_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// polled is a web.Source with metrics only.
type polled struct {
	web.Source
	*poll.Poller
}

func (p polled) Page(h http.Header) poll.Page { return p.Poller.Page(h) }

func (p polled) Alive() error { return p.Poller.Alive() }

func (p polled) Ready() bool { return p.Poller.Ready() }

func (p polled) History(target string) (poll.History, bool) { return p.Poller.History(target) }

func (p polled) Probe(target string) error { return p.Poller.Probe(target) }

func TestOnlyScrapersAreFollowed(t *testing.T) {
	p, err := poll.New(nil, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler), nil)
	must(t, err)
	var told []string
	handler := web.New(polled{Poller: p}, web.Options{
		Log:     slog.New(slog.DiscardHandler),
		Scraped: func(who string, _ time.Time) { told = append(told, who) },
	})
	ask := func(path, address, agent, timeout string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.RemoteAddr = address
		r.Header.Set("User-Agent", agent)
		if timeout != "" {
			r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", timeout)
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("/metrics", "10.0.0.1:40000", "Prometheus/3.5.0", "10")
	ask("/metrics", "10.0.0.1:50000", "Prometheus/3.5.0", "10")
	ask("/metrics", "[fd00::2]:1", strings.Repeat("x", 5000), "10")
	ask("/metrics", "10.0.0.1:40001", "curl/8", "")
	ask("/-/healthy", "10.0.0.1:40000", "Prometheus/3.5.0", "10")
	want := []string{"10.0.0.1 Prometheus/3.5.0", "10.0.0.1 Prometheus/3.5.0", "fd00::2 " + strings.Repeat("x", 80)}
	if !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}

// The bytes of a page are cached, but its time must be that of each scrape.
func TestMetricsHaveTimeOfScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := poll.New(nil, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler), nil)
		must(t, err)
		handler := web.New(polled{Poller: p}, web.Options{Log: slog.New(slog.DiscardHandler)})
		value := func(page, name string) float64 {
			_, rest, found := strings.Cut(page, "\n"+name+" ")
			line, _, _ := strings.Cut(rest, "\n")
			v, err := strconv.ParseFloat(line, 64)
			if !found || err != nil {
				t.Fatalf("no %s on the page: %v\n%s", name, err, page)
			}
			return v
		}
		for range 3 {
			time.Sleep(1234 * time.Millisecond)
			for _, accept := range []string{"text/plain", "application/openmetrics-text"} {
				for _, encoding := range []string{"identity", "gzip"} {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
					r.Header.Set("Accept", accept)
					r.Header.Set("Accept-Encoding", encoding)
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, r)
					if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
						t.Errorf("%d bytes came, and %s were announced", w.Body.Len(), got)
					}
					body := io.Reader(w.Body)
					if encoding == "gzip" {
						body, err = gzip.NewReader(w.Body)
						must(t, err)
					}
					page, err := io.ReadAll(body)
					must(t, err)
					now := value(string(page), "chatstack_exporter_time_seconds")
					if want := float64(time.Now().UnixMilli()) / 1000; now != want {
						t.Errorf("%s, %s: the page says %v, want %v", accept, encoding, now, want)
					}
					if want := "# TYPE chatstack_exporter_time_seconds gauge\nchatstack_exporter_time_seconds "; accept == "text/plain" &&
						!strings.Contains(string(page), want) {
						t.Errorf("the sample is not under its family's heading:\n%s", page)
					}
					age := now - value(string(page), "chatstack_poll_last_completed_timestamp_seconds")
					if want := time.Since(p.Snapshot().Time).Seconds(); math.Abs(age-want) > 0.002 {
						t.Errorf("%s, %s: the heartbeat is %v old, want %v", accept, encoding, age, want)
					}
				}
			}
		}
	})
}
