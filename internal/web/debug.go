package web

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

//go:embed target.html
var targetHTML string

var targetPage = template.Must(template.New("target").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"short": func(d time.Duration) string { return d.Round(10 * time.Microsecond).String() },
	"phases": func(phases []collectors.Phase) string {
		parts := make([]string, len(phases))
		for i, p := range phases {
			parts[i] = fmt.Sprintf("%s %s", p.Name, p.Duration.Round(10*time.Microsecond))
		}
		return strings.Join(parts, ", ")
	},
	"header": func(h http.Header) []string {
		var lines []string
		for name, values := range h {
			lines = append(lines, name+": "+strings.Join(values, ", "))
		}
		slices.Sort(lines)
		return lines
	},
}).Parse(targetHTML))

// serveTarget shows the last readings of one target, its failures apart: what was asked, what came back, how long each
// phase took. Never a body.
func serveTarget(w http.ResponseWriter, r *http.Request, src Source, look *assets, o Options) {
	name := r.PathValue("target")
	history, ok := src.History(name)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no target %q; the status page lists them all", name), http.StatusNotFound)
		return
	}
	render(w, targetPage, struct {
		Name, Style, Icon string
		poll.History
	}{name, look.link("style.css"), look.link("icon-unknown.svg"), history}, o.Log)
}

// serveReload reads the configuration anew. Who asks is told where a fault is; what stands there is for the log.
func serveReload(w http.ResponseWriter, r *http.Request, src Source) {
	if err := src.Reload(r.Context()); err != nil {
		if shown := src.ReloadError(); shown != nil && r.Context().Err() == nil {
			err = fmt.Errorf("reload configuration: %w", shown)
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "configuration reloaded") //nolint:errcheck // nobody to tell
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
