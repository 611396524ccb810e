package web

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

// reporter is what the status page is made of.
type reporter interface {
	// Report returns what people see now. The same pointer is the same report.
	Report() *status.Report
	// Chart returns how a number was during the last day, or false for a name that none has.
	Chart(name string) (status.History, bool)
}

//go:embed status.html
var statusHTML string

var statusPage = template.Must(template.New("status").Funcs(pageFuncs).Parse(statusHTML))

// pages makes the status page once for each report and keeps it, so that a page load is one write of kept bytes.
type pages struct {
	src    reporter
	assets *assets
	log    *slog.Logger
	now    func() time.Time

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

func newPages(src reporter, a *assets, o Options) *pages {
	return &pages{src: src, assets: a, log: o.Log, now: time.Now}
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

// pageHeader is what every page for people is sent with.
func pageHeader(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
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
	k := &keptPage{report: p.src.Report(), made: p.now()}
	var plain bytes.Buffer
	if err := statusPage.Execute(&plain, p.view(k.report, k.made)); err != nil {
		return nil, err
	}
	k.plain, k.gzipped = plain.Bytes(), compress(plain.Bytes())
	p.kept.Store(k)
	return k, nil
}

func (p *pages) fresh(k *keptPage) bool {
	return k != nil && k.report == p.src.Report() && p.now().Sub(k.made) < pageAge
}

// view is what the template of the status page sees.
type view struct {
	*status.Report
	// Now is when the page was made; ages are counted from it.
	Now                   time.Time
	Problems              []problem
	ServiceList           rows
	ContainerList         rows
	ThresholdRows         []thresholdRow
	Recent, Earlier       []moment
	Current, Announced    []maintenance.Entry
	Script, Style, Chart  string
	ChartStyle, Icon, Law string
}

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

// problem is something that is not as it should be.
type problem struct {
	ID, Kind, Name, Words, Text, Error, Hint string
	Maintenance                              string
	Level                                    status.Level
	// Since is when the problem began; AtLeast says that it was there already when the exporter looked first.
	Since   time.Time
	AtLeast bool
	// Brief is set where there are many: what to do is folded away.
	Brief bool
	// Readings is the page of the target's last readings; empty for what is no target.
	Readings string
	view     *view
}

// Age is for how long it has been so.
func (p problem) Age() string { return p.view.Age(p.Since) }

// Clock is since when it has been so.
func (p problem) Clock() string { return p.view.Clock(p.Since) }

// rows are services or containers: what is to be seen, and what is folded away.
type rows struct {
	Shown, Folded []row
	Total         int
}

// row is a service or container in the list of all.
type row struct {
	ID, Kind, Name, Words, State, Text, Hint, Error, Maintenance string
	Level                                                        status.Level
	// Since is when the state began, Wrong when what is wrong did.
	Since, Wrong, LastAttempt, LastSuccess time.Time
	AtLeast                                bool // Wrong is when the exporter looked first
	Duration                               float64
	Values                                 []status.Value
	Notes                                  []string
	Facts                                  []fact
	// Spark is the first of the charts, and stands in the row itself.
	Spark    *spark
	Charts   []*spark
	Readings string
	view     *view
}

// fact is a word or two about a service or container that most people do not look for.
type fact struct{ Name, Text string }

// Age is for how long it has been so.
func (r row) Age() string { return r.view.Age(r.Since) }

// Clock is a time of day.
func (r row) Clock(t time.Time) string { return r.view.Clock(t) }

// view makes the report ready for the template.
func (p *pages) view(r *status.Report, now time.Time) *view {
	v := &view{
		Report: r, Now: now,
		Script: p.assets.link("status.js"), Style: p.assets.link("style.css"), Chart: p.assets.link("uPlot.iife.min.js"),
		ChartStyle: p.assets.link("uPlot.min.css"), Law: p.assets.link("uPlot.LICENSE.txt"), Icon: p.assets.link("icon-" + levelName(r.Level) + ".svg"),
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
		ID: "service:" + s.Name, Kind: "service", Name: s.Name, Words: kindWords[s.Kind], State: s.State, Text: s.Text, Hint: s.Hint,
		Error: s.Error, Maintenance: s.Maintenance, Level: s.Level, Since: s.Since, Wrong: s.ProblemSince, AtLeast: s.ProblemSinceAtLeast, LastAttempt: s.LastAttempt, LastSuccess: s.LastSuccess,
		Duration: s.Duration, Values: s.Values, Notes: s.Notes, Readings: "debug/targets/" + s.Name, view: v,
	}
	r.fact("Kind", s.Kind)
	r.fact("Container", s.Container)
	r.fact("Reason", s.Reason)
	p.charts(&r, s.Charts)
	return r
}

func (p *pages) container(v *view, c *status.Container, several bool) row {
	state := c.State
	if c.Health != "" && c.Health != "none" && c.State == "running" {
		state = c.Health
	}
	r := row{
		ID: "container:" + c.DockerHost + "/" + c.Name, Kind: "container", Name: c.Name, Words: roleWords[c.Role], State: state, Text: c.Text, Hint: c.Hint,
		Maintenance: c.Maintenance, Level: c.Level, Since: c.Since, Wrong: c.ProblemSince, AtLeast: c.ProblemSinceAtLeast, Values: c.Values, view: v,
	}
	if several {
		r.Words = strings.TrimPrefix(r.Words+" on "+c.DockerHost, " ")
	}
	r.fact("State", c.State)
	r.fact("Health check", c.Health)
	r.fact("Role", c.Role)
	r.fact("Engine", c.DockerHost)
	p.charts(&r, c.Charts)
	return r
}

func (r *row) fact(name, text string) {
	if text != "" {
		r.Facts = append(r.Facts, fact{name, text})
	}
}

// charts puts a row's charts into it.
func (p *pages) charts(r *row, names []string) {
	for _, name := range names {
		s, ok := p.sparks[name]
		if !ok {
			if h, known := p.src.Chart(name); known {
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
	told := map[string]bool{}
	for _, level := range []status.Level{status.Critical, status.Warning} {
		for _, list := range [][]row{v.ServiceList.Shown, v.ContainerList.Shown} {
			for _, r := range list {
				if r.Level != level {
					continue
				}
				told[r.Name] = true
				p := problem{
					ID: "problem:" + r.ID, Kind: r.Kind, Name: r.Name, Words: r.Words, Text: r.Text, Error: r.Error, Hint: r.Hint,
					Maintenance: r.Maintenance, Level: level, Since: r.Wrong, AtLeast: r.AtLeast, Readings: r.Readings, view: v,
				}
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
				v.Problems = append(v.Problems, problem{
					ID: "problem:threshold:" + strconv.Itoa(i), Kind: "threshold", Name: row.Title, Words: t.Subject, Text: row.sentence(), Level: level, Since: t.Since, view: v,
				})
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

// lastPart is a container's name without its engine's.
func lastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// thresholdRow is a row of the operators' table as text.
type thresholdRow struct {
	status.Threshold
	Title, Now, WarningText, CriticalText, Distance string
	// Waits is set where a threshold is passed, but not for as long as its alert waits: it looks like no good news.
	Waits bool
	Bar   *bar
}

// Class is the row's in the style sheet.
func (r thresholdRow) Class() string {
	switch {
	case r.Present == nil:
		return "unmeasured"
	case r.Waits && r.Level < status.Warning:
		return "waiting"
	}
	return levelName(r.Level)
}

// bar is where the present value lies between nothing and the threshold, in hundredths.
type bar struct{ Present, Warning, Critical float64 }

func newThresholdRow(t status.Threshold) thresholdRow {
	r := thresholdRow{Threshold: t, Title: cmp.Or(alertWords[t.Alert], t.Alert), Now: "not measured"}
	r.WarningText, r.CriticalText = limit(t.Warning, t), limit(t.Critical, t)
	if t.Present == nil {
		return r
	}
	r.Now = amount(*t.Present, t.Unit)
	r.Distance = distance(t)
	r.Bar = newBar(t)
	r.Waits = t.Pending || waits(t)
	return r
}

// waits reports whether a threshold is passed that the level does not tell of yet.
func waits(t status.Threshold) bool {
	if t.Level == status.Maintenance || t.Level == status.Unknown {
		return false // somebody knows, or nobody does
	}
	return passed(t, t.Critical) && t.Level < status.Critical || passed(t, t.Warning) && t.Level < status.Warning
}

// passed reports whether the present value is beyond a threshold, which may be nil.
func passed(t status.Threshold, limit *float64) bool {
	if t.Present == nil || limit == nil {
		return false
	}
	if t.Below {
		return *t.Present < *limit
	}
	return *t.Present > *limit
}

func (r thresholdRow) sentence() string {
	if r.Text != "" {
		return r.Text
	}
	return r.Now + ", " + r.Distance
}

func limit(v *float64, t status.Threshold) string {
	switch {
	case v == nil:
		return "none"
	case *v == 0 && !t.Below:
		return "any"
	case t.Below:
		return "under " + amount(*v, t.Unit)
	default:
		return "over " + amount(*v, t.Unit)
	}
}

// distance says how far the present value is from the next threshold, or how far beyond the last one.
func distance(t status.Threshold) string {
	between := func(v *float64) string { return amount(math.Abs(*t.Present-*v), t.Unit) }
	switch {
	case passed(t, t.Critical):
		return between(t.Critical) + " beyond critical"
	case passed(t, t.Warning) && t.Critical != nil:
		return between(t.Critical) + " to critical"
	case passed(t, t.Warning):
		return between(t.Warning) + " beyond warning"
	case t.Warning != nil && *t.Warning == 0 && *t.Present == 0:
		return "none"
	case t.Warning != nil:
		return between(t.Warning) + " to warning"
	case t.Critical != nil:
		return between(t.Critical) + " to critical"
	}
	return ""
}

func newBar(t status.Threshold) *bar {
	high := 0.0
	for _, v := range []*float64{t.Warning, t.Critical} {
		if v != nil {
			high = max(high, *v)
		}
	}
	if t.Below {
		high *= 3 // far from the threshold is to the right
	} else {
		high *= 1.25
	}
	if high <= 0 {
		return nil
	}
	at := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		return math.Round(1000*min(max(*v/high, 0), 1)) / 10
	}
	return &bar{at(t.Present), at(t.Warning), at(t.Critical)}
}

// pageFuncs is what templates can say.
var pageFuncs = template.FuncMap{
	"level":      levelName,
	"levelWord":  func(l status.Level) string { return levelWords[l] },
	"unknown":    func() status.Level { return status.Unknown },
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

// linked is a text that may end with a page of this exporter.
type linked struct{ Text, Path string }

// newLinked finds the page that a text ends with. The link is relative, as all are.
func newLinked(text string) linked {
	if i := strings.LastIndex(text, "/debug/targets/"); i >= 0 {
		return linked{text[:i], text[i+1:]}
	}
	return linked{Text: text}
}

// levelName is the level as a class of the style sheet.
func levelName(l status.Level) string {
	return [...]string{"ok", "maintenance", "unknown", "warning", "critical"}[min(max(l, status.OK), status.Critical)]
}

// levelWords are the levels as people say them.
var levelWords = map[status.Level]string{
	status.OK: "All right", status.Maintenance: "Maintenance", status.Unknown: "Unknown", status.Warning: "Warning", status.Critical: "Critical",
}

// kindWords say what a target of a kind is.
var kindWords = map[string]string{
	"xmpp_status": "XMPP server, status page", "xmpp_metrics": "XMPP server, numbers", "xmpp_proxy": "XMPP over HTTPS, proxy",
	"xmpp_rest": "XMPP server, REST API", "xmpp_c2s": "XMPP server, logins", "irc_rpc": "IRC server", "irc_tls": "IRC server, TLS port",
	"irc_services": "IRC services", "plant_store": "plant store", "identity": "identity API", "docs_search": "documentation search",
	"web_irc": "web IRC client", "web_panel": "web panel", "log_viewer": "log viewer", "http": "HTTP service", "tcp": "TCP service",
	"openmetrics": "metrics page", "volume": "data volume", "tls": "TLS certificate", "docker": "container engine",
}

// roleWords say what a container does in the stack.
var roleWords = map[string]string{
	"xmpp": "XMPP server", "xmpp_proxy": "XMPP over HTTPS", "irc": "IRC server", "irc_services": "IRC services", "bridge": "Discord-IRC-XMPP bridge",
	"identity": "identity API", "plant_store": "plant store", "web_irc": "web IRC client", "web_panel": "web panel", "docs": "documentation",
}

// alertWords are the rows of the operators' table.
var alertWords = map[string]string{
	"ContainerUnhealthy": "Unhealthy containers", "XMPPAuthFailureRate": "Failed XMPP logins", "TLSCertificateExpiry": "Certificate ends",
	"DataVolumeUsage": "Data volume used", "ContainerRestarts": "Container restarts", "ContainerMemory": "Container memory",
	"ContainerDown": "Container down", "TargetDown": "Service down",
}

// age is a length of time with at most two units.
func age(d time.Duration) string {
	seconds := int(max(d, 0).Seconds())
	minutes, hours := seconds/60, seconds/3600
	switch {
	case minutes == 0:
		return fmt.Sprintf("%d s", seconds)
	case hours == 0:
		return fmt.Sprintf("%d min", minutes)
	case hours < 24:
		return twoUnits(hours, "h", minutes%60, "min")
	case hours < 24*14:
		return twoUnits(hours/24, "d", hours%24, "h")
	default:
		return fmt.Sprintf("%d days", hours/24)
	}
}

func twoUnits(large int, largeUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", large, largeUnit)
	}
	return fmt.Sprintf("%d %s %d %s", large, largeUnit, small, smallUnit)
}

// took is how long a reading took.
func took(seconds float64) string {
	switch {
	case seconds < 0.001:
		return "under 1 ms"
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	default:
		return fmt.Sprintf("%.1f s", seconds)
	}
}

// amount is a number with its unit, rounded for people.
func amount(v float64, unit string) string {
	switch unit {
	case "seconds":
		if v < 0 {
			return "minus " + age(time.Duration(-v*float64(time.Second)))
		}
		if v < 10 && v != math.Trunc(v) {
			return took(v)
		}
		return age(time.Duration(v * float64(time.Second)))
	case "bytes":
		size, prefix := v, ""
		for _, next := range []string{"k", "M", "G", "T"} {
			if math.Abs(size) < 999.5 {
				break
			}
			size, prefix = size/1000, next
		}
		return number(size) + " " + prefix + "B"
	case "ratio":
		return number(100*v) + " %"
	case "per_minute":
		return number(v) + " /min"
	default:
		return number(v)
	}
}

// number has three digits that count, as many as people read.
func number(v float64) string {
	if math.Abs(v) >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	digits := 1
	if math.Abs(v) < 1 {
		digits = 2
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', digits, 64), "0"), ".")
}

// render writes a page for people that is not kept, or none at all.
func render(w http.ResponseWriter, page *template.Template, data any, log *slog.Logger) {
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		log.Error("page does not render", "page", page.Name(), "err", err)
		http.Error(w, "the page does not render; the log says why", http.StatusInternalServerError)
		return
	}
	pageHeader(w.Header())
	w.Write(b.Bytes()) //nolint:errcheck // the browser has gone, and knows it
}
