// Package web serves what the poller knows: the metrics page, a status page for people, and the health of the process.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// Source is where the answers come from. None of its methods but Reload may block.
type Source interface {
	// Snapshot returns what is known now.
	Snapshot() *poll.Snapshot
	// Ready reports whether every target has been read once.
	Ready() bool
	// Alive returns nil unless the poll loop stands still.
	Alive() error
	// History returns the last readings of a target, or false for a name that no target has.
	History(target string) (poll.History, bool)
	// Unconfigured are the names of the targets that are not polled.
	Unconfigured() []string
	// Peers are the exporters that are named to Prometheus' service discovery.
	Peers() []config.Peers
	// ReloadError says where the configuration on the disk is wrong, without its values, so that it is not the one that is
	// in force; nil where it is.
	ReloadError() error
	// Reload reads the configuration anew. It waits for readings to end.
	Reload(ctx context.Context) error
	// Maintenance is what is under maintenance or will be, in the order of kind and name.
	Maintenance() []maintenance.Entry
	// SetMaintenance puts a target or container under maintenance until then, in the place of a switch that it may have.
	// Warnings tell what the user should know of it. The error wraps one of the package maintenance.
	SetMaintenance(kind, name, reason string, until time.Time) (set maintenance.Entry, replaced bool, warnings []string, err error)
	// EndMaintenance ends what SetMaintenance began; warnings and error as there.
	EndMaintenance(kind, name string) (warnings []string, err error)
	// ForgetContainer forgets a container that is gone. The error wraps one of the package collectors.
	ForgetContainer(dockerHost, name string) error
	// Report returns what people are shown now.
	Report() *status.Report
	// Watch returns the report that watchers have been told of last, and a channel that is closed when there is another.
	Watch() (told *status.Report, superseded <-chan struct{})
	// Chart returns the history of that name, or false where there is none.
	Chart(name string) (status.History, bool)
}

// Options are what the pages say beside what the source knows.
type Options struct {
	// Version is shown on the status page.
	Version string
	// Lifecycle lets through what changes something: POST /-/reload, and POST and DELETE below /api/v1/.
	Lifecycle bool
	Log       *slog.Logger
	// Scraped is told whenever a scraper has come: who it is, and when. It must not wait. With nil, nobody is told.
	Scraped func(who string, at time.Time)
	// Stopping is closed when the server stops, which ends what would go on for ever. With nil, nothing ends so.
	Stopping <-chan struct{}
}

// New returns the handler of all paths.
func New(src Source, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		serveMetrics(w, r, src)
		if o.Scraped != nil && isScraper(r) {
			o.Scraped(nameOf(r), at)
		}
	})
	look := newAssets()
	mux.Handle("GET /{$}", newPages(src, look, o))
	mux.Handle("GET /assets/{file}", look)
	mux.HandleFunc("GET /debug/targets/{target}", func(w http.ResponseWriter, r *http.Request) { serveTarget(w, r, src, look, o) })
	mux.HandleFunc("POST /-/reload", o.changing("reloading", func(w http.ResponseWriter, r *http.Request) { serveReload(w, r, src) }))
	mux.HandleFunc("GET /api/v1/discovery", func(w http.ResponseWriter, _ *http.Request) { serveDiscovery(w, src, o) })
	mux.HandleFunc("GET /api/v1/maintenance", func(w http.ResponseWriter, _ *http.Request) { serveMaintenance(w, src, o) })
	mux.HandleFunc("POST /api/v1/maintenance", o.changing("maintenance", func(w http.ResponseWriter, r *http.Request) { serveSetMaintenance(w, r, src, o) }))
	mux.HandleFunc("DELETE /api/v1/maintenance/{kind}/{name}", o.changing("maintenance", func(w http.ResponseWriter, r *http.Request) { serveEndMaintenance(w, r, src, o) }))
	mux.HandleFunc("DELETE /api/v1/containers/{docker_host}/{name}", o.changing("forgetting a container", func(w http.ResponseWriter, r *http.Request) { serveForgetContainer(w, r, src, o) }))
	reports, streams := newReports(), newStreams()
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, r *http.Request) { serveReport(w, r, src, reports, o) })
	mux.HandleFunc("GET /api/v1/history/{name...}", func(w http.ResponseWriter, r *http.Request) { serveHistory(w, r, src, o) })
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) { streams.serve(w, r, src, o) })
	mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) { serveOpenAPI(w) })
	mux.HandleFunc(elsewhere, func(w http.ResponseWriter, r *http.Request) { serveElsewhere(w, r, mux, o) })
	mux.HandleFunc("GET /badge/{file}", func(w http.ResponseWriter, r *http.Request) { serveBadge(w, r, src, o) })
	mux.Handle(healthy, Healthy(src))
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !src.Ready() {
			http.Error(w, "not every target has been read yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "chatstack_exporter is ready.") //nolint:errcheck // nobody to tell
	})
	// A page of another site must not change anything by the browser of somebody who may.
	return http.NewCrossOriginProtection().Handler(mux)
}

const healthy = "GET /-/healthy"

// Healthy returns the handler of /-/healthy alone, for listeners that ask for no password.
func Healthy(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(healthy, func(w http.ResponseWriter, _ *http.Request) {
		if err := src.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "chatstack_exporter is healthy.") //nolint:errcheck // nobody to tell
	})
	return mux
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

// serveMetrics writes bytes that are there already: no lock, no encoding, nothing that can fail.
func serveMetrics(w http.ResponseWriter, r *http.Request, src Source) {
	body := src.Snapshot().Page.Negotiate(r.Header)
	h := w.Header()
	h.Set("Content-Type", body.ContentType)
	h.Set("Vary", "Accept, Accept-Encoding")
	if body.ContentEncoding != "" {
		h.Set("Content-Encoding", body.ContentEncoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(body.Bytes)))
	w.Write(body.Bytes) //nolint:errcheck // the scraper has gone, and knows it
}
