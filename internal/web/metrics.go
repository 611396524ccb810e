package web

import (
	"net"
	"net/http"
	"strconv"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// metricsPage has the current metrics page.
type metricsPage interface {
	// Page returns the page as a request with these headers wants it. It waits a few seconds at most.
	Page(h http.Header) poll.Page
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

// serveMetrics writes the metrics page.
func serveMetrics(w http.ResponseWriter, r *http.Request, src metricsPage) {
	page := src.Page(r.Header)
	h := w.Header()
	h.Set("Content-Type", page.ContentType)
	h.Set("Vary", "Accept, Accept-Encoding")
	if page.ContentEncoding != "" {
		h.Set("Content-Encoding", page.ContentEncoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(page.Start)+len(page.End)))
	w.Write(page.Start) //nolint:errcheck // the scraper is gone
	w.Write(page.End)   //nolint:errcheck // as above
}
