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
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

//go:embed target.html
var targetHTML string

//go:embed target.txt
var targetText string

var targetWords = template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"lasting": func(r poll.Reading) string {
		if r.Count < 2 {
			return ""
		}
		from := r.First.UTC()
		layout := time.TimeOnly
		if from.Format(time.DateOnly) != r.Time.UTC().Format(time.DateOnly) {
			layout = time.DateTime
		}
		return fmt.Sprintf("%d times, from %s to %s UTC", r.Count, from.Format(layout), r.Time.UTC().Format(layout))
	},
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

//go:embed targets.html
var targetsHTML string

//go:embed targets.txt
var targetsText string

var (
	targetsPage  = site.Parse("targets", targetsHTML, pageFuncs)
	targetsPlain = texttemplate.Must(texttemplate.New("targets").Funcs(pageFuncs).Parse(targetsText))

	targetPage  = site.Parse("target", targetHTML, targetWords)
	targetPlain = texttemplate.Must(texttemplate.New("target").Funcs(targetWords).Parse(targetText))
)

// probeHistory has the last probes of each target.
type probeHistory interface {
	// History returns a target's last probes, or false for an unknown name.
	History(target string) (poll.History, bool)
}

// reloader reloads the configuration.
type reloader interface {
	// Reload returns when the new configuration is in use, or an error. It waits for running probes.
	Reload(ctx context.Context) error
	// ReloadError says where the configuration file is wrong, without its values; nil if the file is in use.
	ReloadError() error
}

// serveTarget shows a target's last probes and, separately, its last failed probes: requests, responses and the duration of each
// phase, never a body. Clients that do not accept HTML, such as curl, get plain text. With a token,
// the page has a form that requests a probe.
func serveTarget(w http.ResponseWriter, r *http.Request, src probeHistory, f frames, token string, log *slog.Logger) {
	name := r.PathValue("target")
	history, ok := src.History(name)
	if !ok {
		http.Error(w, fmt.Sprintf("unknown target %q: /debug/targets/ lists all targets", name), http.StatusNotFound)
		return
	}
	history.Last = poll.Collapse(history.Last)
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		render(w, targetPlain, probes{Name: name, Retry: retryOf(f.reports.Report(), name), History: history}, log)
		return
	}
	if token != "" {
		allowForms(w.Header())
	}
	render(w, targetPage, probes{
		f.frame("../../", name, "icon-unknown.svg"),
		name,
		retryOf(f.reports.Report(), name),
		token,
		history,
	}, log)
}

// probes are the last probes of a target. Retry says that it waits, Token allows a form to probe it; both may be empty.
type probes struct {
	frame
	Name, Retry, Token string
	poll.History
}

// retryOf says when a target that waits on purpose is probed again, "" for any other target.
func retryOf(r *status.Report, target string) string {
	for i := range r.Services {
		if s := &r.Services[i]; s.Name == target {
			return s.Retry()
		}
	}
	return ""
}

// serveTargets lists all targets with their states and links to their probes, as text for clients that do not accept HTML.
func serveTargets(w http.ResponseWriter, r *http.Request, f frames, log *slog.Logger) {
	list := struct {
		frame
		Services []status.Service
	}{f.frame("../../", "Targets", "icon-unknown.svg"), slices.Clone(f.reports.Report().Services)}
	slices.SortFunc(list.Services, func(a, b status.Service) int { return strings.Compare(a.Name, b.Name) })
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		render(w, targetsPlain, list, log)
		return
	}
	render(w, targetsPage, list, log)
}

// serveReload reloads the configuration. A client learns where an error is, but not the value there, which only the log has.
func serveReload(w http.ResponseWriter, r *http.Request, src reloader) {
	if err := src.Reload(r.Context()); err != nil {
		if redacted := src.ReloadError(); redacted != nil && r.Context().Err() == nil {
			err = fmt.Errorf("reload configuration: %w", redacted)
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "configuration reloaded") //nolint:errcheck // the client is gone
}
