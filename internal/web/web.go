// Package web serves the metrics, the status page, the API, the runbooks and the health of the process over HTTP.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// Source has the data of all pages; each handler uses a small part of it. No method but Reload blocks; Page may wait a few seconds.
type Source interface {
	metricsPage
	Liveness
	readiness
	probeHistory
	prober
	peerLister
	teller
	reloader
	maintainer
	forgetter
	driller
	reporter
	watcher
	historian
	availability
	library
	chronicle
	publisher
}

// Options are the settings of the handlers.
type Options struct {
	// Version is shown on the status page.
	Version string
	// Documents is the URL of this version's documents, without a trailing slash.
	Documents string
	// Lifecycle enables requests that change something: POST /-/reload, and POST and DELETE below /api/v1/.
	Lifecycle bool
	// Users returns who has a password of the listener, which checks it before each request. Nobody, or nil, is a listener without
	// passwords.
	Users func() []string
	// ExternalURL returns the address of the status page as people reach it, "" if they cannot. It identifies the feed; nil is "".
	ExternalURL func() string
	// Switchboard is the URL of the demo's switchboard, which the status page links to; empty for a real stack.
	Switchboard string
	Log         *slog.Logger
	// Scraped is called for each scrape with the scraper's name and the time. It must not block. It may be nil.
	Scraped func(scraper string, at time.Time)
	// Stopping is closed when the server stops, to end event streams. It may be nil.
	Stopping <-chan struct{}
}

// New returns the handler of all paths.
func New(src Source, o Options) http.Handler {
	if o.ExternalURL == nil {
		o.ExternalURL = func() string { return "" }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		serveMetrics(w, r, src)
		if o.Scraped != nil && isScraper(r) {
			o.Scraped(scraperName(r), at)
		}
	})
	static := newAssets()
	around := frames{src, static}
	pages := newPages(src, static, o)
	pages.switchboard = o.Switchboard
	mux.Handle("GET /{$}", pages)
	mux.Handle("GET /assets/{file}", static)
	own := newForms(o)
	forms := &maintenanceForms{own, src, around}
	probes := &probeForm{own, src}
	mux.HandleFunc("GET /debug/targets/{target}",
		func(w http.ResponseWriter, r *http.Request) {
			serveTarget(w, r, src, around, probes.tokenFor(r), o.Log)
		})
	mux.HandleFunc("POST /debug/targets/{target}", probes.post)
	mux.HandleFunc("GET /debug/targets/{$}", func(w http.ResponseWriter, r *http.Request) { serveTargets(w, r, around, o.Log) })
	mux.HandleFunc("GET /debug/targets",
		func(w http.ResponseWriter, _ *http.Request) { redirect(w, http.StatusMovedPermanently, "targets/") })
	books := &runbooks{
		src,
		o.Documents,
		around,
		o.Log,
	}
	mux.HandleFunc("GET /runbooks", books.index)
	mux.HandleFunc("GET /runbooks.md", books.index)
	mux.HandleFunc("GET /runbooks/{$}",
		func(w http.ResponseWriter, _ *http.Request) { redirect(w, http.StatusMovedPermanently, "../runbooks") })
	mux.HandleFunc("GET /runbooks/{alert}", books.runbook)
	events := &incidents{
		own,
		src,
		around,
		o.ExternalURL,
	}
	mux.HandleFunc("GET /incidents", events.list)
	mux.HandleFunc("GET /incidents/{$}",
		func(w http.ResponseWriter, _ *http.Request) { redirect(w, http.StatusMovedPermanently, "../incidents") })
	mux.HandleFunc("GET /incidents/{id}", events.page)
	mux.HandleFunc("POST /incidents/{id}", events.post)
	mux.HandleFunc("GET /incidents.atom", events.serveFeed)
	mux.HandleFunc("GET /maintenance.ics", func(w http.ResponseWriter, r *http.Request) { serveCalendar(w, r, src, src) })
	mux.HandleFunc("GET /api/v1/incidents", func(w http.ResponseWriter, _ *http.Request) { events.serveList(w) })
	mux.HandleFunc("GET /api/v1/incidents/{id}", events.serveOne)
	mux.HandleFunc("POST /api/v1/incidents/{id}/notes", o.changing("adding notes", o.withPassword("add a note", events.serveAddNote)))
	mux.HandleFunc("POST /api/v1/incidents/{id}/updates",
		o.changing("adding updates", o.withPassword("add an update", events.serveAddUpdate)))
	mux.HandleFunc("POST /api/v1/incidents/{id}/acknowledgement",
		o.changing("acknowledging", o.withPassword("acknowledge an incident", events.serveAcknowledge)))
	mux.HandleFunc("POST /-/reload", o.changing(reloading, func(w http.ResponseWriter, r *http.Request) { serveReload(w, r, src) }))
	mux.HandleFunc("GET /maintenance", forms.get)
	mux.HandleFunc("POST /maintenance", forms.post)
	mux.HandleFunc("GET /api/v1/discovery", func(w http.ResponseWriter, _ *http.Request) { serveDiscovery(w, src, o.Log) })
	mux.HandleFunc("GET /api/v1/notifications", func(w http.ResponseWriter, _ *http.Request) { serveTold(w, src, o.Log) })
	mux.HandleFunc("GET /api/v1/maintenance", func(w http.ResponseWriter, _ *http.Request) { serveMaintenance(w, src, o.Log) })
	mux.HandleFunc("POST /api/v1/maintenance",
		o.changing("planning maintenance", func(w http.ResponseWriter, r *http.Request) { serveSetMaintenance(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/maintenance/{kind}/{name...}",
		o.changing("planning maintenance", func(w http.ResponseWriter, r *http.Request) { serveEndMaintenance(w, r, src, o.Log) }))
	mux.HandleFunc("POST /api/v1/targets/{target}/probe",
		o.changing("probing", func(w http.ResponseWriter, r *http.Request) { serveProbe(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/containers/{docker_host}/{name...}",
		o.changing("forgetting a container", func(w http.ResponseWriter, r *http.Request) { serveForgetContainer(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/modules/{host}/{module}",
		o.changing("forgetting a module", func(w http.ResponseWriter, r *http.Request) { serveForgetModule(w, r, src, o.Log) }))
	mux.HandleFunc("POST /api/v1/drill",
		o.changing("drilling", func(w http.ResponseWriter, r *http.Request) { serveStartDrill(w, r, src, o.Log) }))
	mux.HandleFunc("DELETE /api/v1/drill/{id}",
		o.changing("drilling", func(w http.ResponseWriter, r *http.Request) { serveEndDrill(w, r, src, o.Log) }))
	mux.HandleFunc("POST /api/v1/notifications",
		o.changing("drilling", func(w http.ResponseWriter, r *http.Request) { serveDrillReceivers(w, r, src, o.Log) }))
	reports, streams := reportCache[*site.Document](), newStreams(o.Stopping)
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, r *http.Request) { serveReport(w, r, src, reports, o.Log) })
	mux.HandleFunc("GET /api/v1/history/{name...}", func(w http.ResponseWriter, r *http.Request) { serveHistory(w, r, src, o.Log) })
	mux.Handle("GET /api/v1/availability", newAvailabilityAPI(src, o.Log))
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) { streams.serve(w, r, src, o.Log) })
	mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) { serveOpenAPI(w) })
	mux.HandleFunc(unknownPaths, func(w http.ResponseWriter, r *http.Request) { serveUnknown(w, r, mux, o.Log) })
	mux.HandleFunc("GET /badge/{file}", func(w http.ResponseWriter, r *http.Request) { serveBadge(w, r, src, o.Log) })
	mux.Handle(healthy, Healthy(src))
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { serveReady(w, src) })
	// Another site's page must not change anything through an operator's browser.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.refuse(w, r, "the request is from another site, so nothing was changed; if a reverse proxy is in front of the exporter, "+
			"let it pass the header Host on")
	}))
	return protection.Handler(mux)
}

// reloading is what a signal can do as well.
const reloading = "reloading"

// changing wraps a handler of requests that change something. It refuses them unless Lifecycle is set or the user is local, and always
// refuses browsers: none of our pages uses them, and DNS rebinding can make the exporter look like a foreign page's own server.
func (o Options) changing(what string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !o.Lifecycle && !isLocal(r):
			why := what + " over HTTP is not enabled: start the exporter with --web.enable-lifecycle"
			if what == reloading {
				why += ", or send SIGHUP"
			}
			o.refuse(w, r, why)
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			o.refuse(w, r, what+" over HTTP is refused for web pages: use a program such as curl")
		default:
			h(w, r)
		}
	}
}

// localKey is the key of the mark in the contexts of local requests.
type localKey struct{}

// AsLocal marks the requests of a connection that only the user of the exporter and root can make. Those may end it, and read all that it
// knows, so changes need neither Lifecycle nor a password.
func AsLocal(ctx context.Context) context.Context { return context.WithValue(ctx, localKey{}, true) }

func isLocal(r *http.Request) bool { return r.Context().Value(localKey{}) != nil }

// refuse answers 403: with the JSON of an error below /api/, else as plain text.
func (o Options) refuse(w http.ResponseWriter, r *http.Request, why string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		writeError(w, http.StatusForbidden, errors.New(why), o.Log)
		return
	}
	http.Error(w, why, http.StatusForbidden)
}
