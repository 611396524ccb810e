package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// polled is a web.Source with a page of metrics, and nothing else.
type polled struct {
	web.Source
	*poll.Poller
}

func (p polled) Snapshot() *poll.Snapshot { return p.Poller.Snapshot() }

func (p polled) Alive() error { return p.Poller.Alive() }

func (p polled) Ready() bool { return p.Poller.Ready() }

func (p polled) History(target string) (poll.History, bool) { return p.Poller.History(target) }

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
