package web

import (
	"embed"
	"net/http"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

//go:embed assets
var assetFiles embed.FS

// assetTable lists the served files by their names in URLs.
var assetTable = []struct{ name, file, contentType string }{
	{"style.css", "assets/style.css", "text/css; charset=utf-8"},
	{"charts.js", "assets/charts.js", "text/javascript; charset=utf-8"},
	{"status.js", "assets/status.js", "text/javascript; charset=utf-8"},
	{"zones.js", "assets/zones.js", "text/javascript; charset=utf-8"},
	{"icon-ok.svg", "assets/icon-ok.svg", "image/svg+xml"},
	{"icon-maintenance.svg", "assets/icon-maintenance.svg", "image/svg+xml"},
	{"icon-unknown.svg", "assets/icon-unknown.svg", "image/svg+xml"},
	{"icon-pending.svg", "assets/icon-pending.svg", "image/svg+xml"},
	{"icon-warning.svg", "assets/icon-warning.svg", "image/svg+xml"},
	{"icon-critical.svg", "assets/icon-critical.svg", "image/svg+xml"},
	{"uPlot.iife.min.js", "assets/uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"},
	{"uPlot.min.css", "assets/uplot/uPlot.min.css", "text/css; charset=utf-8"},
	{"uPlot.LICENSE.txt", "assets/uplot/LICENSE", "text/plain; charset=utf-8"},
}

// shared is what a file begins with.
var shared = map[string][]byte{"style.css": site.Base, "status.js": site.Morph}

// assets serves style sheets, scripts and icons. Links carry a hash of the content, so browsers may cache them forever.
type assets struct{ byName map[string]*site.Document }

func newAssets() *assets {
	a := &assets{byName: make(map[string]*site.Document, len(assetTable))}
	for _, entry := range assetTable {
		content, err := assetFiles.ReadFile(entry.file)
		if err != nil {
			panic(err) // files are embedded, so the table is wrong
		}
		content = slices.Concat(shared[entry.name], content)
		a.byName[entry.name] = site.NewDocument(entry.contentType, content)
	}
	return a
}

// link returns an asset's URL relative to the status page.
func (a *assets) link(name string) string { return "assets/" + name + "?v=" + a.byName[name].Tag }

// ServeHTTP implements http.Handler. Without the right hash, the response is the same but not cached.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.byName[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	caching := "no-cache"
	if r.URL.Query().Get("v") == file.Tag {
		caching = "private, max-age=31536000, immutable"
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	file.Serve(w, r, caching)
}
