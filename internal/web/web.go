// Package web serves what the poller knows: the metrics page, a status page for people, and the health of the process.
package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Source is where the answers come from: each handler asks a small part of it. None of its methods but Reload may block.
type Source interface {
	snapshots
	Liveness
	readiness
	histories
	peerLister
	reloader
	maintainer
	forgetter
	reporter
	watcher
	charter
	library
}

// Options are what the pages say beside what the source knows.
type Options struct {
	// Version is shown on the status page.
	Version string
	// Documents is where the documents of this version are, without a slash at the end.
	Documents string
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
	mux.Handle("GET /{$}", newPages(src, src, look, o.Log))
	mux.Handle("GET /assets/{file}", look)
	mux.HandleFunc("GET /debug/targets/{target}", func(w http.ResponseWriter, r *http.Request) { serveTarget(w, r, src, look, o.Log) })
	books := &runbooks{src, o.Documents, look, o.Log}
	mux.HandleFunc("GET /runbooks", books.index)
	mux.HandleFunc("GET /runbooks.md", books.index)
	mux.HandleFunc("GET /runbooks/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "../runbooks") // relative, as all links are
		w.WriteHeader(http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /runbooks/{alert}", books.runbook)
	mux.HandleFunc("POST /-/reload", o.changing("reloading", func(w http.ResponseWriter, r *http.Request) { serveReload(w, r, src) }))
	mux.HandleFunc("GET /api/v1/discovery", func(w http.ResponseWriter, _ *http.Request) { serveDiscovery(w, src, o.Log) })
	mux.HandleFunc("GET /api/v1/maintenance", func(w http.ResponseWriter, _ *http.Request) { serveMaintenance(w, src, o.Log) })
	mux.HandleFunc("POST /api/v1/maintenance", o.changing("maintenance", func(w http.ResponseWriter, r *http.Request) { serveSetMaintenance(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/maintenance/{kind}/{name}", o.changing("maintenance", func(w http.ResponseWriter, r *http.Request) { serveEndMaintenance(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/containers/{docker_host}/{name}", o.changing("forgetting a container", func(w http.ResponseWriter, r *http.Request) { serveForgetContainer(w, r, src, o.Log) }))
	reports, streams := newReports(), newStreams(o.Stopping)
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, r *http.Request) { serveReport(w, r, src, reports, o.Log) })
	mux.HandleFunc("GET /api/v1/history/{name...}", func(w http.ResponseWriter, r *http.Request) { serveHistory(w, r, src, o.Log) })
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) { streams.serve(w, r, src, o.Log) })
	mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) { serveOpenAPI(w) })
	mux.HandleFunc(elsewhere, func(w http.ResponseWriter, r *http.Request) { serveElsewhere(w, r, mux, o.Log) })
	mux.HandleFunc("GET /badge/{file}", func(w http.ResponseWriter, r *http.Request) { serveBadge(w, r, src, o.Log) })
	mux.Handle(healthy, Healthy(src))
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { serveReady(w, src) })
	// A page of another site must not change anything by the browser of somebody who may.
	return http.NewCrossOriginProtection().Handler(mux)
}

// changing is a handler of requests that change something, where that is allowed. No page in a browser may: none of ours
// does, and to one whose name somebody has pointed at this address (DNS rebinding) the exporter looks like its own server.
func (o Options) changing(what string, h http.HandlerFunc) http.HandlerFunc {
	if o.Lifecycle {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
				writeError(w, http.StatusForbidden, errors.New(what+" over HTTP is asked for by a program such as curl, not by a page in a browser"), o.Log)
				return
			}
			h(w, r)
		}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, what+" over HTTP is not enabled; start with --web.enable-lifecycle, or change the configuration and send SIGHUP", http.StatusForbidden)
	}
}
