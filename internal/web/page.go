package web

import (
	"bytes"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// pageAge is how long a page is reused while nothing changes: its ages are only updated by the script.
	pageAge = 5 * time.Second
	// sparksAge is how long small charts are reused; they show a whole day.
	sparksAge = time.Minute
	// maxHealthyRows is how many healthy targets or containers are listed; the others are folded away.
	maxHealthyRows = 24
	// maxFullProblems is how many problems are shown in full; the others are folded.
	maxFullProblems = 6
	// maxRecent is how many changes are listed; the others are folded away.
	maxRecent = 8
)

//go:embed status.html
var statusHTML string

//go:embed thresholds.html
var thresholdsHTML string

var statusPage = site.Parse("status", thresholdsHTML+barsHTML+incidentsHTML+statusHTML, pageFuncs)

// pages renders the status page once per report and caches it, so that a page load is one write of cached bytes.
type pages struct {
	reports   reporter
	charts    historian
	history   availability
	incidents chronicle
	assets    *assets
	log       *slog.Logger
	now       func() time.Time
	// switchboard is the URL of the demo's switchboard; empty for a real stack.
	switchboard string
	// offersForms reports whether there are forms for maintenance.
	offersForms func() bool

	cache site.Cache[*status.Report, *site.Document]

	// What follows belongs to whoever renders the page; the cache lets one do it.
	sparks   map[string]*spark
	sparksAt time.Time
	bars     map[string][]bars // by history.Subject.Key
	barsAt   time.Time
}

func newPages(src Source, a *assets, o Options) *pages {
	return &pages{
		reports:     src,
		charts:      src,
		history:     src,
		incidents:   src,
		assets:      a,
		log:         o.Log,
		now:         time.Now,
		offersForms: o.offersForms,
		cache:       site.Cache[*status.Report, *site.Document]{Age: pageAge},
	}
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := p.page()
	if err != nil {
		p.log.Error("page does not render", "page", statusPage.Name(), "err", err)
		http.Error(w, "the page does not render: see the exporter's log", http.StatusInternalServerError)
		return
	}
	site.Protect(w.Header())
	d.Serve(w, r, "no-store")
}

// page returns the page of the current report, which is made again after pageAge.
func (p *pages) page() (*site.Document, error) {
	now, report := p.now(), p.reports.Report()
	return p.cache.Get(now, report, func() (*site.Document, error) {
		var b bytes.Buffer
		err := statusPage.Execute(&b, p.view(report, now))
		return site.NewDocument(htmlType, b.Bytes()), err
	})
}

// view is the data of the status page's template.
type view struct {
	*status.Report
	// Now is when the page was rendered; ages refer to it.
	Now                time.Time
	Cards              []card
	ServiceList        rows
	ContainerList      rows
	ThresholdRows      []thresholdRow
	Recent, Earlier    []moment
	Current, Announced []maintenance.Entry
	// Switchboard is the URL of the demo's switchboard; empty for a real stack.
	Switchboard string
	// RecentIncidents are those of the last days, newest first.
	RecentIncidents []shownIncident
	// Forms says that maintenance can be set and ended on a page.
	Forms bool
	links
}

// links are the URLs of the page's assets.
type links struct{ Script, ChartScript, Style, Chart, ChartStyle, Icon, ChartLicense string }

// Detail is the summary without the headline.
func (v *view) Detail() string {
	detail := strings.TrimPrefix(strings.TrimPrefix(v.Summary, v.Headline), ": ")
	if detail == "." {
		return ""
	}
	return detail
}

// Crossings says for each relay check that works how long messages take, which users of a bridge ask first.
func (v *view) Crossings() (list []string) {
	for i := range v.Services {
		s := &v.Services[i]
		if !s.Row.Relay || s.State != "up" || len(s.Values) == 0 {
			continue
		}
		name := s.Name
		if s.HasDefaultName() || name == "bridge" {
			name = "the bridge"
		}
		var names, times []string
		for _, value := range s.Values {
			names, times = append(names, value.Name), append(times, value.Text)
		}
		list = append(list, "Messages cross "+name+" in "+strings.Join(times, " / ")+" ("+strings.Join(names, " / ")+").")
	}
	return list
}

// Age formats how long ago a time is.
func (v *view) Age(t time.Time) string { return wording.Duration(v.Now.Sub(t)) }

// Clock formats a time of day, with the date unless it is today.
func (v *view) Clock(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == v.Now.UTC().Format(time.DateOnly) {
		return t.Format("15:04 UTC")
	}
	return t.Format("2 Jan 15:04 UTC")
}

// moment is a transition on the page.
type moment struct {
	status.Transition
	view *view
}

// Clock formats when the transition happened first.
func (m moment) Clock() string { return m.view.Clock(m.Time) }

// LastClock formats when the transition happened last.
func (m moment) LastClock() string { return m.view.Clock(m.Until) }

// HasRange reports whether the page shows the first and the last time.
func (m moment) HasRange() bool { return m.Repeated() && m.LastClock() != m.Clock() }

// Repeated reports whether the transition happened more than once.
func (m moment) Repeated() bool { return m.Count > 1 }

// entry is a target, container or threshold on the page, as a problem or as a row.
type entry struct {
	// Shown is what the report says; Since is when the state began, or the problem.
	status.Shown
	ID, Kind, Name, Words, Error string
	// HasDefaultName says that the target's name is its kind, so that Words is its human name.
	HasDefaultName bool
	// Probes is the URL of the target's last probes; empty for containers and thresholds.
	Probes string
	view   *view
}

// Title is the human name of a target with its kind's default name, such as irc_rpc, and else its own name.
func (e entry) Title() string {
	if e.HasDefaultName {
		return e.Words
	}
	return e.Name
}

// Subtitle is the name that is not the title.
func (e entry) Subtitle() string {
	if e.HasDefaultName {
		return e.Name
	}
	return e.Words
}

// Age formats how long ago Since is.
func (e entry) Age() string { return e.view.Age(e.Since) }

// MaintenanceForm is the URL of the form for its maintenance; empty if there is none.
func (e entry) MaintenanceForm() string {
	kind := config.MaintenanceTarget
	if e.Kind == config.MaintenanceContainer || e.Kind == config.MaintenanceWorkload {
		kind = e.Kind
	}
	if !e.view.Forms {
		return ""
	}
	return "maintenance?" + url.Values{"subject": {kind + "/" + e.Name}}.Encode()
}

// rows are the targets or the containers: those shown and those folded away.
type rows struct {
	Shown, Folded []row
	Total         int
}

// row is a target or container in its list.
type row struct {
	entry
	status.LastReading
	State string
	Notes []string
	Facts []fact
	// Spark is the first chart, which the row itself shows.
	Spark  *spark
	Charts []*spark
	// Bars are the last 24 h, 7 d, 30 d and 90 d; empty if nothing is known of them.
	Bars []bars
}

// fact is a detail of a target or container.
type fact struct{ Name, Text string }

// Clock formats a time of day.
func (r row) Clock(t time.Time) string { return r.view.Clock(t) }

// view prepares the report for the template.
func (p *pages) view(r *status.Report, now time.Time) *view {
	v := &view{
		Report:          r,
		Now:             now,
		Switchboard:     p.switchboard,
		Forms:           p.offersForms(),
		RecentIncidents: recent(p.incidents.Incidents(), now),
		links: links{
			Script:       p.assets.link("status.js"),
			ChartScript:  p.assets.link("charts.js"),
			Style:        p.assets.link("style.css"),
			Chart:        p.assets.link("uPlot.iife.min.js"),
			ChartStyle:   p.assets.link("uPlot.min.css"),
			ChartLicense: p.assets.link("uPlot.LICENSE.txt"),
			Icon:         p.assets.link("icon-" + r.Level.String() + ".svg"),
		},
	}
	if now.Sub(p.sparksAt) >= sparksAge {
		p.sparks, p.sparksAt = map[string]*spark{}, now
	}
	p.renewBars(now)
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
	v.cards()
	for i, t := range r.Transitions {
		if i < maxRecent {
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
	if r.Level == status.OK && len(l.Shown) >= maxHealthyRows {
		l.Folded = append(l.Folded, r)
	} else {
		l.Shown = append(l.Shown, r)
	}
}

func (p *pages) service(v *view, s *status.Service) row {
	r := row{
		entry: entry{
			Shown:          s.Shown,
			ID:             "service:" + s.Name,
			Kind:           "service",
			Name:           s.Name,
			Words:          s.Row.Title,
			HasDefaultName: s.HasDefaultName(),
			Error:          s.Error,
			Probes:         "debug/targets/" + s.Name,
			view:           v,
		},
		LastReading: s.LastReading,
		State:       s.State,
		Notes:       s.Notes,
	}
	r.fact("Kind", s.Kind)
	r.fact("Container", s.ContainerOrigin)
	r.fact("Reason", string(s.Reason))
	p.addCharts(&r)
	r.Bars = p.barsOf("service/" + s.Name)
	return r
}

func (p *pages) container(v *view, c *status.Container, several bool) row {
	state, of := c.State, c.Subject()
	if c.Health != "" && c.Health != "none" && c.State == "running" {
		state = c.Health
	}
	r := row{
		entry: entry{
			Shown: c.Shown,
			ID:    rowID(of),
			Kind:  of.Kind,
			Name:  c.Name,
			Words: c.RoleRow.Title,
			view:  v,
		},
		State: state,
	}
	if several {
		r.Words = strings.TrimPrefix(r.Words+" on "+c.DockerHost, " ")
	}
	r.fact("State", c.State)
	r.fact("Instances", strings.Join(c.Instances, ", "))
	r.fact("Health check", c.Health)
	r.fact("Role", c.Role)
	r.fact("Engine", c.DockerHost)
	p.addCharts(&r)
	r.Bars = p.barsOf(health.Key(of).String())
	return r
}

func (r *row) fact(name, text string) {
	if text != "" {
		r.Facts = append(r.Facts, fact{name, text})
	}
}

// addCharts adds a row's charts.
func (p *pages) addCharts(r *row) {
	for _, name := range r.Shown.Charts {
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

// lastPart returns a container's name without its engine's.
func lastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// pageFuncs are the templates' functions.
var pageFuncs = template.FuncMap{
	"level":      status.Level.String, // as a class of the style sheet
	"levelWord":  func(l status.Level) string { return levelWords[l] },
	"unknown":    func() status.Level { return status.Unknown },
	"pending":    func() status.Level { return status.Pending },
	"maintained": func() status.Level { return status.Maintenance },
	"ok":         func(l status.Level) bool { return l == status.OK },
	"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"millis":     time.Time.UnixMilli,
	"zero":       time.Time.IsZero,
	"took":       wording.Took,
	"segments":   segments,
	"legend":     site.Legend,
	"date":       func(t time.Time) string { return t.UTC().Format("2 Jan 15:04 UTC") },
	"second":     func(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05 UTC") },
	"moment":     func(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04:05 UTC") },
	"lasted":     func(seconds float64) string { return wording.Glance(seconds, "seconds") },
	"plural": func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return many
	},
}
