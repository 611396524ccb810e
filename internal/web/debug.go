package web

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	texttemplate "text/template"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

//go:embed target.html
var targetHTML string

//go:embed target.txt
var targetText string

var targetWords = template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"short": func(d time.Duration) string { return d.Round(10 * time.Microsecond).String() },
	"phases": func(phases []exchange.Phase) string {
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
}

var (
	targetPage  = template.Must(template.New("target").Funcs(targetWords).Parse(targetHTML))
	targetPlain = texttemplate.Must(texttemplate.New("target").Funcs(targetWords).Parse(targetText))
)

// histories are the last readings of targets.
type histories interface {
	// History returns the last readings of a target, or false for a name that no target has.
	History(target string) (poll.History, bool)
}

// reloader reads the configuration anew.
type reloader interface {
	// Reload returns when the new configuration is in force, or why it is not. It waits for readings to end.
	Reload(ctx context.Context) error
	// ReloadError says where the configuration on the disk is wrong, without its values, so that it is not in force; nil
	// where it is.
	ReloadError() error
}

// serveTarget shows the last readings of one target, its failures apart: what was asked, what came back, how long each
// phase took. Never a body. Who does not ask for HTML, such as curl, gets text.
func serveTarget(w http.ResponseWriter, r *http.Request, src histories, look *assets, log *slog.Logger) {
	name := r.PathValue("target")
	history, ok := src.History(name)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no target %q; the status page lists them all", name), http.StatusNotFound)
		return
	}
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		render(w, targetPlain, struct {
			Name string
			poll.History
		}{name, history}, log)
		return
	}
	render(w, targetPage, struct {
		Name, Style, Icon string
		poll.History
	}{name, look.link("style.css"), look.link("icon-unknown.svg"), history}, log)
}

// serveReload reads the configuration anew. Who asks is told where a fault is; what stands there is for the log.
func serveReload(w http.ResponseWriter, r *http.Request, src reloader) {
	if err := src.Reload(r.Context()); err != nil {
		if shown := src.ReloadError(); shown != nil && r.Context().Err() == nil {
			err = fmt.Errorf("reload configuration: %w", shown)
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "configuration reloaded") //nolint:errcheck // nobody to tell
}
