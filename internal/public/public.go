// Package public is the page for the users of the stack. It shows only what the configuration names: everything on it is copied into
// Page, and nothing else of the exporter reaches a response.
package public

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
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
	// Incidents are those of the last days, the newest first.
	Incidents []Incident `json:"incidents"`
}

// Service is a service under its public name.
type Service struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Available is the percentage of the watched time in which it was available, by window; the least of its targets. A
	// window is missing if one of them was not watched for most of it.
	Available map[string]float64 `json:"available_percent"`
	// Days are the worst states of the last 90 days, the oldest first, as the history names them.
	Days []history.State `json:"days"`
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

// pageAge is how long a page is kept: requests of strangers must cost little.
const pageAge = 5 * time.Second

//go:embed public.html
var pageHTML string

//go:embed public.css
var style []byte

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
	p.Incidents = incidentsOf(c, h.source.Incidents(), now)
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, framed{site.Frame{Title: p.Headline(), Stack: p.Title, Style: "public.css"}, p}); err != nil {
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
	return documents{
		"/":               site.NewDocument("text/html; charset=utf-8", page.Bytes()),
		"/status.json":    site.NewDocument("application/json", append(data, '\n')),
		"/incidents.atom": site.NewDocument(atom.ContentType, feed),
		"/public.css":     site.NewDocument("text/css; charset=utf-8", slices.Concat(site.Base, style)),
	}, nil
}

// makePage copies what the configuration names.
func makePage(c *config.Public, r *status.Report, past *history.Report, now time.Time) *Page {
	p := &Page{
		Made:          wording.Minute(now),
		Title:         c.Title,
		State:         Operational,
		Services:      make([]Service, 0, len(c.Services)),
		Announcements: []string{},
	}
	targets := make(map[string]*status.Service, len(r.Services))
	for i := range r.Services {
		targets[r.Services[i].Name] = &r.Services[i]
	}
	histories := make(map[string]*history.Subject, len(past.Subjects))
	for i := range past.Subjects {
		if s := &past.Subjects[i]; s.Kind == "service" {
			histories[s.Name] = s
		}
	}
	for i := range c.Services {
		s := Service{Name: c.Services[i].Name, State: stateOf(c.Services[i].Targets, targets)}
		s.addHistory(c.Services[i].Targets, histories)
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

// stateOf returns the state of a service that needs these targets. A problem counts once its alert fires: until then it may pass.
func stateOf(names []string, targets map[string]*status.Service) State {
	state, failing, known := Operational, 0, 0
	for _, name := range names {
		t := targets[name]
		if t == nil || t.State == "waiting" {
			state = worse(state, Unknown)
			continue
		}
		known++
		switch {
		case t.Level == status.Maintenance:
			state = worse(state, Maintenance)
		case t.State == "down" && (t.Level >= status.Warning || t.Excuse.Holds()):
			failing++
			state = worse(state, Partly)
		case t.Level == status.Critical:
			state = worse(state, Partly)
		case t.Level == status.Warning:
			state = worse(state, Degraded)
		}
	}
	if failing > 0 && failing == known {
		return Outage
	}
	return state
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
