package web

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// snapshots is where the metrics page comes from.
type snapshots interface {
	// Snapshot returns what is known now.
	Snapshot() *poll.Snapshot
}

// isScraper tells Prometheus, and what scrapes as it does, from people who look at the page.
func isScraper(r *http.Request) bool {
	return r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds") != ""
}

// maxAgent is how much of a scraper's own name counts.
const maxAgent = 80

// nameOf tells scrapers apart, also those of one machine that are of different kinds. Ports change.
func nameOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	agent := r.UserAgent()
	return host + " " + agent[:min(len(agent), maxAgent)]
}

// serveMetrics writes bytes that are there already, and the time: no lock, no encoding, nothing that can fail.
func serveMetrics(w http.ResponseWriter, r *http.Request, src snapshots) {
	snapshot := src.Snapshot()
	body := snapshot.Page.Negotiate(r.Header)
	kept, last := body.With(snapshot.ClockLine(time.Now()))
	h := w.Header()
	h.Set("Content-Type", body.ContentType)
	h.Set("Vary", "Accept, Accept-Encoding")
	if body.ContentEncoding != "" {
		h.Set("Content-Encoding", body.ContentEncoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(kept)+len(last)))
	w.Write(kept) //nolint:errcheck // the scraper has gone, and knows it
	w.Write(last) //nolint:errcheck // as above
}
