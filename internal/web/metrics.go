package web

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// snapshots has the current metrics.
type snapshots interface {
	// Snapshot returns the current snapshot.
	Snapshot() *poll.Snapshot
}

// isScraper tells scrapers, such as Prometheus, from people with a browser.
func isScraper(r *http.Request) bool {
	return r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds") != ""
}

// maxAgent limits how much of a User-Agent header identifies a scraper.
const maxAgent = 80

// scraperName identifies a scraper by host and User-Agent; ports change.
func scraperName(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	agent := r.UserAgent()
	return host + " " + agent[:min(len(agent), maxAgent)]
}

// serveMetrics writes prepared bytes and the time: it takes no lock, encodes nothing and cannot fail.
func serveMetrics(w http.ResponseWriter, r *http.Request, src snapshots) {
	snapshot := src.Snapshot()
	body := snapshot.Page.Negotiate(r.Header)
	prepared, clock := body.With(snapshot.ClockLine(time.Now()))
	h := w.Header()
	h.Set("Content-Type", body.ContentType)
	h.Set("Vary", "Accept, Accept-Encoding")
	if body.ContentEncoding != "" {
		h.Set("Content-Encoding", body.ContentEncoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(prepared)+len(clock)))
	w.Write(prepared) //nolint:errcheck // the scraper is gone
	w.Write(clock)    //nolint:errcheck // as above
}
