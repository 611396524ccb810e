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
)

//go:embed runbook.html
var runbookHTML string

var runbookPage = template.Must(template.New("runbook").Parse(runbookHTML))

// library has what to do about each alert, in Markdown.
type library interface {
	// Runbook returns the runbook of an alert, or false for a name that no alert has.
	Runbook(alert string) (text string, ok bool)
	// AlertIndex lists all alerts with the thresholds of the configuration.
	AlertIndex() string
}

// runbooks serves the library. Links lead to pages of this exporter where there is one, and to the documents elsewhere where not.
type runbooks struct {
	library   library
	documents string // where the version's documents are
	assets    *assets
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
		http.Error(w, fmt.Sprintf("there is no alert %q; /runbooks lists them all", alert), http.StatusNotFound)
		return
	}
	b.serve(w, r, "alerts/runbooks", alert, text)
}

// serve writes a document from a directory of the repository: as it is where the path ends with .md, else as a page.
func (b *runbooks) serve(w http.ResponseWriter, r *http.Request, directory, title, text string) {
	if strings.HasSuffix(r.URL.Path, ".md") {
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, text) //nolint:errcheck // nobody to tell
		return
	}
	up := "./"
	if directory == "alerts/runbooks" {
		up = "../"
	}
	render(w, runbookPage, struct {
		Title, Up, Self, Style, Icon string
		Text                         template.HTML
	}{
		title, up, path.Base(r.URL.Path) + ".md", up + b.assets.link("style.css"), up + b.assets.link("icon-unknown.svg"),
		renderMarkdown(text, func(target string) string { return b.link(directory, target) }),
	}, b.log)
}

// link is where a link of a document in a directory leads, from its page; "" for an address that no browser should open.
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
