package web

import (
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

//go:embed runbook.html
var runbookHTML string

var runbookPage = site.Parse("runbook", runbookHTML, nil)

// library has the runbooks, in Markdown.
type library interface {
	// Runbook returns an alert's runbook, or false for an unknown name.
	Runbook(alert string) (text string, ok bool)
	// AlertIndex lists all alerts with the configured thresholds.
	AlertIndex() string
}

// runbooks serves the library. Links lead to the exporter's own pages if they exist, else to the online documents.
type runbooks struct {
	library   library
	documents string // URL of this version's documents
	frames    frames
	log       *slog.Logger
}

// index serves the list of all alerts.
func (b *runbooks) index(w http.ResponseWriter, r *http.Request) {
	b.serve(w, r, "alerts", "Alerts", b.library.AlertIndex())
}

// runbook serves the runbook of one alert.
func (b *runbooks) runbook(w http.ResponseWriter, r *http.Request) {
	alert := strings.TrimSuffix(r.PathValue("alert"), ".md")
	text, ok := b.library.Runbook(alert)
	if !ok {
		http.Error(w, fmt.Sprintf("unknown alert %q: /runbooks lists all alerts", alert), http.StatusNotFound)
		return
	}
	b.serve(w, r, "alerts/runbooks", alert, text)
}

// serve writes a document from a directory of the repository: as Markdown if the path ends with .md, else as a page.
func (b *runbooks) serve(w http.ResponseWriter, r *http.Request, directory, title, text string) {
	if strings.HasSuffix(r.URL.Path, ".md") {
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, text) //nolint:errcheck // the client is gone
		return
	}
	up := "./"
	if directory == "alerts/runbooks" {
		up = "../"
	}
	render(w, runbookPage, struct {
		frame
		Self string
		Text template.HTML
	}{
		b.frames.frame(up, title, "icon-unknown.svg"), path.Base(r.URL.Path) + ".md",
		renderMarkdown(text, func(target string) string { return b.link(directory, target) }),
	}, b.log)
}

// link resolves a link in a document of a directory, relative to its page; "" for an address that no browser should open.
func (b *runbooks) link(directory, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return ""
	case u.Scheme == "http" || u.Scheme == "https" || target[0] == '#':
		return target
	case u.Scheme != "" || u.Host != "" || path.IsAbs(u.Path):
		return ""
	}
	file := path.Join(directory, u.Path)
	if alert := strings.TrimSuffix(path.Base(file), ".md"); path.Dir(file) == "alerts/runbooks" {
		if _, ok := b.library.Runbook(alert); ok {
			u.Path = strings.TrimSuffix(u.Path, ".md")
			return u.String()
		}
	}
	if file == "alerts/README.md" {
		return "../runbooks"
	}
	u.Path = "/" + file
	return b.documents + u.String()
}
