package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"sync"
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

// assets serves style sheets, scripts and icons. Links carry a hash of the content, so browsers may cache them forever.
type assets struct{ byName map[string]*asset }

type asset struct {
	contentType, hash string
	plain             []byte
	gzipped           func() []byte
}

func newAssets() *assets {
	a := &assets{byName: make(map[string]*asset, len(assetTable))}
	for _, entry := range assetTable {
		content, err := assetFiles.ReadFile(entry.file)
		if err != nil {
			panic(err) // files are embedded, so the table is wrong
		}
		sum := sha256.Sum256(content)
		a.byName[entry.name] = &asset{
			contentType: entry.contentType,
			hash:        hex.EncodeToString(sum[:6]),
			plain:       content,
			gzipped:     sync.OnceValue(func() []byte { return compress(content) }),
		}
	}
	return a
}

// link returns an asset's URL relative to the status page.
func (a *assets) link(name string) string { return "assets/" + name + "?v=" + a.byName[name].hash }

// ServeHTTP implements http.Handler. Without the right hash, the response is the same but not cached.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.byName[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.contentType)
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.hash {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	writeCached(w, r, file.hash, file.plain, file.gzipped)
}
