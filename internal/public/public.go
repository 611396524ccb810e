// Package public is the page for the users of the stack. It shows only what the configuration names: everything on it is copied into
// Page, and nothing else of the exporter reaches a response.
package public

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// State is how a service is, for its users.
type State string

// The states, from the best to the worst.
const (
	Operational State = "operational"
	Maintenance State = "maintenance"
	Unknown     State = "unknown"
	Degraded    State = "degraded"
	Partly      State = "partial outage"
	Outage      State = "outage"
)

var order = []State{Operational, Maintenance, Unknown, Degraded, Partly, Outage}

// Page is everything that the page shows.
type Page struct {
	// Made is when it was made, to the minute.
	Made     string    `json:"-"`
	Title    string    `json:"title"`
	State    State     `json:"state"`
	Services []Service `json:"services"`
	// Announcements are those of this time.
	Announcements []string `json:"announcements"`
	// Maintenance is present, and planned for the next days.
	Maintenance []Maintained `json:"maintenance"`
	// Incidents are those of the last days, the newest first.
	Incidents []Incident `json:"incidents"`
	// Home is where the page links back to, and Logo the path of its picture; "" for none.
	Home string `json:"-"`
	Logo string `json:"-"`
}

// Maintained is maintenance of some services, in full minutes.
type Maintained struct {
	Services []string  `json:"services"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	Active   bool      `json:"active"`
}

// Source is what the page is made of.
type Source interface {
	// Report returns the current report.
	Report() *status.Report
	// Availability returns the history of all targets.
	Availability() *history.Report
	// Incidents lists the incidents, newest first.
	Incidents() []*incident.Incident
	// Public returns the current configuration of the page.
	Public() *config.Public
}

// plannedAhead is how long before its beginning maintenance is shown.
const plannedAhead = 14 * 24 * time.Hour

// pageAge is how long a page is kept: requests of strangers must cost little.
const pageAge = 5 * time.Second

//go:embed public.html
var pageHTML string

//go:embed public.css
var style []byte

//go:embed public.js
var program []byte

var pageTemplate = site.Parse("public", pageHTML, nil)

// handler serves the page. Its answers to what does not exist are constant.
type handler struct {
	source Source
	log    *slog.Logger
	now    func() time.Time
	cache  site.Cache[*config.Public, documents]
}

// documents are all responses, by path.
type documents map[string]*site.Document

// New returns the handler of all paths of the public page.
func New(source Source, log *slog.Logger) http.Handler {
	return &handler{
		source: source,
		log:    log,
		now:    time.Now,
		cache:  site.Cache[*config.Public, documents]{Age: pageAge},
	}
}

// ServeHTTP implements http.Handler. It has no http.ServeMux, whose redirects and errors would repeat the request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	site.Protect(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	now, settings := h.now(), h.source.Public()
	all, err := h.cache.Get(now, settings, func() (documents, error) { return h.documents(settings, now) })
	if err != nil {
		h.log.Error("public page does not render", "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	d := all[r.URL.Path]
	if d == nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	d.Serve(w, r, "no-cache")
}

// framed is the data of the template.
type framed struct {
	site.Frame
	Page *Page
}

// documents makes the responses of all paths.
func (h *handler) documents(c *config.Public, now time.Time) (documents, error) {
	p := makePage(c, h.source.Report(), h.source.Availability(), now)
	p.Incidents = incidentsOf(c, p.Services, h.source.Incidents(), now)
	var page bytes.Buffer
	frame := site.Frame{
		Title: p.Headline(),
		Stack: p.Title,
		Style: "public.css",
		Icon:  p.Logo,
	}
	if err := pageTemplate.Execute(&page, framed{frame, p}); err != nil {
		return nil, err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	feed, err := feedOf(p)
	if err != nil {
		return nil, err
	}
	look := slices.Concat(site.Base, style, brandStyle(config.Colour(c.Colour)))
	all := documents{
		"/":               site.NewDocument("text/html; charset=utf-8", page.Bytes()),
		"/status.json":    site.NewDocument("application/json", append(data, '\n')),
		"/incidents.atom": site.NewDocument(atom.ContentType, feed),
		"/public.css":     site.NewDocument("text/css; charset=utf-8", look),
		"/public.js":      site.NewDocument("text/javascript; charset=utf-8", slices.Concat(site.Morph, program)),
	}
	if p.Logo != "" {
		all["/"+p.Logo] = site.NewDocument(c.Logo.Type, c.Logo.Data)
	}
	return all, nil
}

// brandStyle is the part of the style sheet that the configured colour needs.
func brandStyle(c config.Colour) []byte {
	if c == "" {
		return nil
	}
	return fmt.Appendf(nil, ".brand { --brand: %s; --on-brand: %s; }\n", c, c.Text())
}

// makePage copies what the configuration names.
func makePage(c *config.Public, r *status.Report, past *history.Report, now time.Time) *Page {
	p := &Page{
		Made:          wording.Minute(now),
		Title:         c.Title,
		State:         Operational,
		Services:      make([]Service, 0, len(c.Services)),
		Announcements: []string{},
		Maintenance:   maintenanceOf(c, r, now),
		Home:          c.HomeURL,
	}
	if c.Logo.Type != "" {
		p.Logo = "logo"
	}
	known := newTargets(r, past, now)
	for i := range c.Services {
		s := known.service(c.Services[i].Name, c.Services[i].Targets)
		p.Services = append(p.Services, s)
		p.State = worse(p.State, s.State)
	}
	for i := range c.Announcements {
		if a := &c.Announcements[i]; !now.Before(a.From) && now.Before(a.Until) {
			p.Announcements = append(p.Announcements, a.Text)
		}
	}
	return p
}

// maintenanceOf is the maintenance of the public services, of their targets or of the containers of these, the next first.
func maintenanceOf(c *config.Public, r *status.Report, now time.Time) []Maintained {
	list := []Maintained{}
	for i := range r.Maintenance {
		e := &r.Maintenance[i]
		active := e.Active || !e.From.After(now) // one that was active before the clock was set back still is
		if !e.Until.After(now) || !active && e.From.Sub(now) > plannedAhead {
			continue
		}
		m := Maintained{From: e.From.UTC().Truncate(time.Minute), Until: e.Until.UTC().Truncate(time.Minute), Active: active}
		for k := range c.Services {
			if affects(e, c.Services[k].Targets, r.Services) {
				m.Services = append(m.Services, c.Services[k].Name)
			}
		}
		at := slices.IndexFunc(list, func(o Maintained) bool { return o.From.Equal(m.From) && o.Until.Equal(m.Until) })
		switch {
		case m.Services == nil:
		case at < 0:
			list = append(list, m)
		default:
			for _, name := range m.Services {
				if !slices.Contains(list[at].Services, name) {
					list[at].Services = append(list[at].Services, name)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Maintained) int { return a.From.Compare(b.From) })
	return list
}

// affects reports whether maintenance is of one of the targets, or of its container.
func affects(e *maintenance.Entry, targets []string, all []status.Service) bool {
	return slices.ContainsFunc(all, func(s status.Service) bool {
		if !slices.Contains(targets, s.Name) {
			return false
		}
		if e.Kind == config.MaintenanceContainer {
			return s.Container == e.Name
		}
		return s.Name == e.Name
	})
}

// Text says which services are maintained when.
func (m *Maintained) Text() string {
	text := strings.Join(m.Services, ", ") + ": "
	if m.Active {
		return text + "until " + wording.Minute(m.Until)
	}
	return text + wording.Span(m.From, m.Until)
}

func worse(a, b State) State {
	for _, s := range order {
		if s == a {
			return b
		}
		if s == b {
			return a
		}
	}
	return b
}

// Legend explains the bars.
func (p *Page) Legend() []site.Meaning { return site.Legend() }

// HomeName is what the link back leads to.
func (p *Page) HomeName() string {
	u, err := url.Parse(p.Home)
	if err != nil {
		return p.Home // the configuration has been checked
	}
	return u.Host
}

// Headline says how the stack is.
func (p *Page) Headline() string {
	switch p.State {
	case Operational:
		return "All services work"
	case Maintenance:
		return "Maintenance"
	case Unknown:
		return "Some services are not watched"
	case Degraded:
		return "Some services have problems"
	case Partly, Outage:
	}
	for _, s := range p.Services {
		if s.State != Outage {
			return "Some services do not work"
		}
	}
	return "No service works"
}

// Class is the state as a class of the style sheet.
func (s State) Class() string { return strings.ReplaceAll(string(s), " ", "-") }
