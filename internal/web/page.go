package web

import (
	"bytes"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// pageAge is how long a page is served again while nothing has changed: without a script its ages stand still.
	pageAge = 5 * time.Second
	// sparksAge is how long small charts are served again; they show a whole day.
	sparksAge = time.Minute
	// calmRows is how many services or containers that are all right are listed before the rest is folded away.
	calmRows = 24
	// wholeProblems is how many problems are told with everything that is to be done.
	wholeProblems = 6
	// freshTransitions is how many changes are listed before the rest is folded away.
	freshTransitions = 8
)

//go:embed status.html
var statusHTML string

var statusPage = template.Must(template.New("status").Funcs(pageFuncs).Parse(statusHTML))

// pages makes the status page once for each report and keeps it, so that a page load is one write of kept bytes.
type pages struct {
	reports reporter
	charts  charter
	assets  *assets
	log     *slog.Logger
	now     func() time.Time

	kept atomic.Pointer[keptPage]

	mu       sync.Mutex // held while a page is made, so that it is made once
	sparks   map[string]*spark
	sparksAt time.Time
}

// keptPage is a page as it was made of a report. It is never changed.
type keptPage struct {
	report         *status.Report
	made           time.Time
	plain, gzipped []byte
}

func newPages(reports reporter, charts charter, a *assets, log *slog.Logger) *pages {
	return &pages{reports: reports, charts: charts, assets: a, log: log, now: time.Now}
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, err := p.page()
	if err != nil {
		p.log.Error("page does not render", "page", statusPage.Name(), "err", err)
		http.Error(w, "the page does not render; the log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	pageHeader(h)
	h.Set("Vary", "Accept-Encoding")
	body := k.plain
	if exposition.AcceptsGzip(r.Header) {
		h.Set("Content-Encoding", "gzip")
		body = k.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the browser has gone, and knows it
}

// page returns the kept page, or makes it if there is a newer report or its ages are too old.
func (p *pages) page() (*keptPage, error) {
	if k := p.kept.Load(); p.fresh(k) {
		return k, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kept.Load(); p.fresh(k) {
		return k, nil
	}
	k := &keptPage{report: p.reports.Report(), made: p.now()}
	var plain bytes.Buffer
	if err := statusPage.Execute(&plain, p.view(k.report, k.made)); err != nil {
		return nil, err
	}
	k.plain, k.gzipped = plain.Bytes(), compress(plain.Bytes())
	p.kept.Store(k)
	return k, nil
}

func (p *pages) fresh(k *keptPage) bool {
	return k != nil && k.report == p.reports.Report() && p.now().Sub(k.made) < pageAge
}

// view is what the template of the status page sees.
type view struct {
	*status.Report
	// Now is when the page was made; ages are counted from it.
	Now                time.Time
	Problems           []problem
	ServiceList        rows
	ContainerList      rows
	ThresholdRows      []thresholdRow
	Recent, Earlier    []moment
	Current, Announced []maintenance.Entry
	links
}

// links are where the page finds its assets.
type links struct{ Script, Style, Chart, ChartStyle, Icon, Law string }

// Headline is the verdict in a word or three.
func (v *view) Headline() string {
	if len(v.Services) == 0 && v.Level == status.Unknown {
		return "Nothing is watched"
	}
	return levelWords[v.Level]
}

// Age is how long ago a time is, for people.
func (v *view) Age(t time.Time) string { return age(v.Now.Sub(t)) }

// Clock is a time of day, with the day where that is another one.
func (v *view) Clock(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == v.Now.UTC().Format(time.DateOnly) {
		return t.Format("15:04 UTC")
	}
	return t.Format("2 Jan 15:04 UTC")
}

// moment is a transition as the page shows it.
type moment struct {
	status.Transition
	view *view
}

// Clock is the transition's time for people.
func (m moment) Clock() string { return m.view.Clock(m.Time) }

// LastClock is when the transition came last.
func (m moment) LastClock() string { return m.view.Clock(m.Until) }

// Lasts reports whether the first and the last time are told apart.
func (m moment) Lasts() bool { return m.Repeated() && m.LastClock() != m.Clock() }

// Repeated reports whether the transition came more than once.
func (m moment) Repeated() bool { return m.Count > 1 }

// entry is what the page says of something, whether as a problem or in the list of all.
type entry struct {
	ID, Kind, Name, Words, Text, Error, Hint, Maintenance string
	Level                                                 status.Level
	// AtLeast says that what is wrong was wrong already when the exporter looked first.
	AtLeast bool
	// Readings is the page of the target's last readings; empty for what is no target.
	Readings string
	// Since is when the state began; of a problem, when that did.
	Since time.Time
	view  *view
}

// Age is for how long it has been so.
func (e entry) Age() string { return e.view.Age(e.Since) }

// problem is something that is not as it should be.
type problem struct {
	entry
	// Brief is set where there are many: what to do is folded away.
	Brief bool
	// Alert is the one whose runbook says more; empty for what has none.
	Alert string
}

// Clock is since when it has been so.
func (p problem) Clock() string { return p.view.Clock(p.Since) }

// rows are services or containers: what is to be seen, and what is folded away.
type rows struct {
	Shown, Folded []row
	Total         int
}

// row is a service or container in the list of all.
type row struct {
	entry
	State                           string
	Wrong, LastAttempt, LastSuccess time.Time // Wrong is when what is wrong began
	Duration                        float64
	Values                          []status.Value
	Notes                           []string
	Facts                           []fact
	// Spark is the first of the charts, and stands in the row itself.
	Spark  *spark
	Charts []*spark
}

// fact is a word or two about a service or container that most people do not look for.
type fact struct{ Name, Text string }

// Clock is a time of day.
func (r row) Clock(t time.Time) string { return r.view.Clock(t) }

// view makes the report ready for the template.
func (p *pages) view(r *status.Report, now time.Time) *view {
	v := &view{
		Report: r, Now: now,
		links: links{
			Script: p.assets.link("status.js"), Style: p.assets.link("style.css"), Chart: p.assets.link("uPlot.iife.min.js"),
			ChartStyle: p.assets.link("uPlot.min.css"), Law: p.assets.link("uPlot.LICENSE.txt"), Icon: p.assets.link("icon-" + r.Level.String() + ".svg"),
		},
	}
	if now.Sub(p.sparksAt) >= sparksAge {
		p.sparks, p.sparksAt = map[string]*spark{}, now
	}
	for i := range r.Services {
		v.ServiceList.add(p.service(v, &r.Services[i]))
	}
	several := false
	for i := range r.Containers {
		several = several || r.Containers[i].DockerHost != r.Containers[0].DockerHost
	}
	for i := range r.Containers {
		v.ContainerList.add(p.container(v, &r.Containers[i], several))
	}
	v.problems()
	for i, t := range r.Transitions {
		if i < freshTransitions {
			v.Recent = append(v.Recent, moment{t, v})
		} else {
			v.Earlier = append(v.Earlier, moment{t, v})
		}
	}
	for _, e := range r.Maintenance {
		if e.Active {
			v.Current = append(v.Current, e)
		} else {
			v.Announced = append(v.Announced, e)
		}
	}
	return v
}

func (l *rows) add(r row) {
	l.Total++
	if r.Level == status.OK && len(l.Shown) >= calmRows {
		l.Folded = append(l.Folded, r)
	} else {
		l.Shown = append(l.Shown, r)
	}
}

func (p *pages) service(v *view, s *status.Service) row {
	r := row{
		entry: entry{
			ID: "service:" + s.Name, Kind: "service", Name: s.Name, Words: kindWords[s.Kind], Text: s.Text, Error: s.Error, Hint: s.Hint,
			Maintenance: s.Maintenance, Level: s.Level, AtLeast: s.ProblemSinceAtLeast, Readings: "debug/targets/" + s.Name, Since: s.Since, view: v,
		},
		State: s.State, Wrong: s.ProblemSince, LastAttempt: s.LastAttempt, LastSuccess: s.LastSuccess, Duration: s.Duration, Values: s.Values, Notes: s.Notes,
	}
	r.fact("Kind", s.Kind)
	r.fact("Container", s.ContainerOrigin)
	r.fact("Reason", s.Reason)
	p.addCharts(&r, s.Charts)
	return r
}

func (p *pages) container(v *view, c *status.Container, several bool) row {
	state := c.State
	if c.Health != "" && c.Health != "none" && c.State == "running" {
		state = c.Health
	}
	r := row{
		entry: entry{
			ID: "container:" + c.DockerHost + "/" + c.Name, Kind: "container", Name: c.Name, Words: roleWords[c.Role], Text: c.Text, Hint: c.Hint,
			Maintenance: c.Maintenance, Level: c.Level, AtLeast: c.ProblemSinceAtLeast, Since: c.Since, view: v,
		},
		State: state, Wrong: c.ProblemSince, Values: c.Values,
	}
	if several {
		r.Words = strings.TrimPrefix(r.Words+" on "+c.DockerHost, " ")
	}
	r.fact("State", c.State)
	r.fact("Health check", c.Health)
	r.fact("Role", c.Role)
	r.fact("Engine", c.DockerHost)
	p.addCharts(&r, c.Charts)
	return r
}

func (r *row) fact(name, text string) {
	if text != "" {
		r.Facts = append(r.Facts, fact{name, text})
	}
}

// addCharts puts a row's charts into it.
func (p *pages) addCharts(r *row, names []string) {
	for _, name := range names {
		s, ok := p.sparks[name]
		if !ok {
			if h, known := p.charts.Chart(name); known {
				s = newSpark(h)
			}
			p.sparks[name] = s
		}
		if s != nil {
			r.Charts = append(r.Charts, s)
		}
	}
	if len(r.Charts) > 0 {
		r.Spark = r.Charts[0]
	}
}

// problems collects what is wrong, worst first: services, then containers, then thresholds that tell something else.
func (v *view) problems() {
	told, alerts := map[string]bool{}, v.alerts()
	for i := range v.Report.Problems {
		if p := &v.Report.Problems[i]; p.ExporterWide() { // above the single ones
			v.Problems = append(v.Problems, problem{entry: entry{
				ID: "problem:exporter:" + p.Alert, Kind: p.Kind, Name: "Most targets", Text: p.Text, Hint: p.Hint, Level: p.Level(), AtLeast: p.AtLeast, Since: p.Since, view: v,
			}, Alert: p.Alert})
		}
	}
	for _, level := range []status.Level{status.Critical, status.Warning, status.Pending} {
		for _, list := range [][]row{v.ServiceList.Shown, v.ContainerList.Shown} {
			for _, r := range list {
				if r.Level != level {
					continue
				}
				told[r.Name] = true
				p := problem{entry: r.entry, Alert: alerts[r.ID]}
				p.ID, p.Since = "problem:"+r.ID, r.Wrong
				// What is said already is not said twice.
				if strings.Contains(p.Text, p.Error) {
					p.Error = ""
				}
				v.Problems = append(v.Problems, p)
			}
		}
		for i, t := range v.Thresholds {
			if t.Level == level && !told[t.Subject] && !told[lastPart(t.Subject)] {
				row := newThresholdRow(t)
				v.Problems = append(v.Problems, problem{entry: entry{
					ID: "problem:threshold:" + strconv.Itoa(i), Kind: "threshold", Name: row.Title, Words: t.Subject, Text: row.sentence(), Level: level, Since: t.Since, view: v,
				}, Alert: t.Alert})
			}
		}
	}
	for i := range v.Problems {
		v.Problems[i].Brief = i >= wholeProblems
	}
	for _, t := range v.Thresholds {
		v.ThresholdRows = append(v.ThresholdRows, newThresholdRow(t))
	}
}

// alerts are those of what is wrong, by the ID of its row. Of several, the first is the worst.
func (v *view) alerts() map[string]string {
	found := map[string]string{}
	for i := range v.Report.Problems {
		p := &v.Report.Problems[i]
		row := "service:" + p.Name
		if p.Kind == config.MaintenanceContainer {
			row = "container:" + p.Host + "/" + p.Name
		}
		if found[row] == "" {
			found[row] = p.Alert
		}
	}
	return found
}

// lastPart is a container's name without its engine's.
func lastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// pageFuncs is what templates can say.
var pageFuncs = template.FuncMap{
	"level":      status.Level.String, // as a class of the style sheet
	"levelWord":  func(l status.Level) string { return levelWords[l] },
	"unknown":    func() status.Level { return status.Unknown },
	"pending":    func() status.Level { return status.Pending },
	"maintained": func() status.Level { return status.Maintenance },
	"calm":       func(l status.Level) bool { return l == status.OK },
	"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"millis":     time.Time.UnixMilli,
	"zero":       time.Time.IsZero,
	"took":       took,
	"linked":     newLinked,
	"date":       func(t time.Time) string { return t.UTC().Format("2 Jan 15:04 UTC") },
	"plural": func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return many
	},
}
