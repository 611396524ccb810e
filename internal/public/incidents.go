package public

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// maxIncidents is how many incidents the page shows at most, the newest.
const maxIncidents = 50

// Incident is what users learn of an incident. Its times are those of its public services, to the minute.
type Incident struct {
	// ID tells incidents apart, and nothing else.
	ID string `json:"id"`
	// Services are those that were affected.
	Services []Effect  `json:"services"`
	Began    time.Time `json:"began"`
	// Ended is absent while it lasts.
	Ended time.Time `json:"ended,omitzero"`
	// Updated is when something of it changed last.
	Updated time.Time `json:"updated"`
	// Updates are what people wrote about it for users, the newest first.
	Updates []Update `json:"updates"`
}

// Update is what somebody wrote for users.
type Update struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// When formats the time of the update.
func (u *Update) When() string { return wording.Minute(u.Time) }

// Effect is how an incident affected a service.
type Effect struct {
	Name string `json:"name"`
	// State is the present state, as of a service: outage if all its targets that are watched are down, partial outage, degraded, or
	// operational once it is over; unknown if nobody watched its end. Outage says that it did not work at some time.
	State  State     `json:"state"`
	Outage bool      `json:"outage"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	// downtime is that of the target that failed longest. downSince is when the present outage began.
	downtime  time.Duration
	downSince time.Time
	updated   time.Time
}

// incidentsOf are the incidents of the public services, which are as given now, the newest first.
func incidentsOf(c *config.Public, services []Service, all []*incident.Incident, now time.Time) []Incident {
	list := []Incident{}
	for _, i := range all {
		if i.State == incident.Merged || len(list) >= maxIncidents && !i.Lasts() {
			continue
		}
		shown := Incident{ID: digest(i.ID), Updates: []Update{}}
		var times span
		at := i.At(now)
		for k := range c.Services {
			if e, affected := effectOn(&c.Services[k], services[k].watched, at); affected {
				shown.Services = append(shown.Services, e)
				times.add(e.Began, e.Ended)
				shown.Updated = latest(shown.Updated, e.updated)
			}
		}
		if shown.Services == nil || !times.ended.IsZero() && now.Sub(times.ended) > incident.ShownToUsers {
			continue
		}
		shown.Began, shown.Ended = times.began, times.ended
		for _, u := range slices.Backward(i.Updates) {
			shown.Updates = append(shown.Updates, Update{u.Time, u.Text})
		}
		shown.truncate()
		if n := len(i.Updates); n > 0 { // exactly: a feed reader must not miss the second of a minute
			shown.Updated = latest(shown.Updated, i.Updates[n-1].Time.UTC().Truncate(time.Millisecond))
		}
		list = append(list, shown)
	}
	return list
}

// truncate leaves only the minutes of all times, which are those of readings.
func (i *Incident) truncate() {
	cut := func(times ...*time.Time) {
		for _, t := range times {
			*t = t.UTC().Truncate(time.Minute)
		}
	}
	cut(&i.Began, &i.Ended, &i.Updated)
	for k := range i.Services {
		cut(&i.Services[k].Began, &i.Services[k].Ended, &i.Services[k].downSince)
	}
	for k := range i.Updates {
		cut(&i.Updates[k].Time)
	}
}

// span is a time that covers others. It lasts, without an end, while one of them does.
type span struct {
	began, ended time.Time
	lasts        bool
}

func (s *span) add(began, ended time.Time) {
	if s.began.IsZero() || began.Before(s.began) {
		s.began = began
	}
	if s.lasts = s.lasts || ended.IsZero(); s.lasts {
		s.ended = time.Time{}
	} else if ended.After(s.ended) {
		s.ended = ended
	}
}

// effectOn returns how an incident affected a service; false if it did not. Only what the service's own targets did counts. watched is
// how many of them are watched.
func effectOn(s *config.PublicService, watched int, i *incident.Incident) (e Effect, affected bool) {
	e = Effect{Name: s.Name, State: Operational}
	var times, down span
	failing, critical, unwatched := 0, false, false
	for _, name := range s.Targets {
		target := health.TargetSubject(name)
		if !slices.ContainsFunc(i.Problems, func(p incident.Problem) bool { return p.Subject == target && counts(&p) }) {
			continue
		}
		for k := range i.Outages {
			if o := &i.Outages[k]; o.Subject == target {
				e.Outage = true
				e.downtime = max(e.downtime, time.Duration(o.Seconds*float64(time.Second)))
				addOutage(&times, o)
				if !o.Since.IsZero() {
					failing++
					down.add(o.Since, time.Time{})
				}
				e.updated = latest(e.updated, o.Since, o.Until)
			}
		}
		for k := range i.Problems {
			if p := &i.Problems[k]; p.Subject == target && counts(p) {
				times.add(cmp.Or(p.First, p.Since), p.Cleared)
				critical = critical || p.Cleared.IsZero() && p.Severity == health.Critical && !alerts.Ahead(p.Alert)
				unwatched = unwatched || p.Unwatched
				e.updated = latest(e.updated, p.Since, p.Cleared, p.Alerted)
			}
		}
	}
	if times.began.IsZero() {
		return e, false
	}
	e.Began, e.Ended, e.downSince = times.began, times.ended, down.began
	switch {
	case failing > 0 && failing >= cmp.Or(watched, len(s.Targets)):
		e.State = Outage
	case failing > 0, critical:
		e.State = Partly
	case e.Ended.IsZero():
		e.State = Degraded
	case unwatched:
		e.State = Unknown
	}
	return e, true
}

// addOutage adds the current or last outage of a target. Those before are known from the problems that stopped it.
func addOutage(s *span, o *incident.Outage) {
	if !o.Since.IsZero() {
		s.add(o.Since, time.Time{})
	} else if !o.Until.IsZero() {
		s.add(o.Until.Add(-time.Duration(o.Seconds*float64(time.Second))), o.Until)
	}
}

// latest returns the latest of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// counts reports whether users hear of a problem: it has or had an alert, or its alert was held back.
func counts(p *incident.Problem) bool {
	return p.Severity >= health.Warning || p.Excuse.Holds() || !p.Alerted.IsZero()
}

// Title says what was wrong.
func (i *Incident) Title() string {
	var parts []string
	for _, what := range []string{notWorking, partlyWorking, withProblems, endNotWatched, didNotWork, hadProblems} {
		var names []string
		for k := range i.Services {
			if e := &i.Services[k]; e.what() == what {
				names = append(names, e.Name)
			}
		}
		if names != nil {
			parts = append(parts, strings.Join(names, ", ")+": "+what)
		}
	}
	return strings.Join(parts, "; ")
}

// What a title says of a service.
const (
	notWorking    = "not working"
	partlyWorking = "partly not working"
	withProblems  = "with problems"
	endNotWatched = "had problems, whose end nobody watched"
	didNotWork    = "did not work"
	hadProblems   = "had problems"
)

func (e *Effect) what() string {
	switch {
	case e.State == Outage:
		return notWorking
	case e.State == Partly:
		return partlyWorking
	case e.State == Degraded:
		return withProblems
	case e.State == Unknown:
		return endNotWatched
	case e.Outage:
		return didNotWork
	}
	return hadProblems
}

// Span says from when to when; of each service, unless all have the same times.
func (i *Incident) Span() string {
	var all, texts []string
	for k := range i.Services {
		text := i.Services[k].span()
		all = append(all, i.Services[k].Name+": "+text)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return strings.Join(all, "; ")
}

func (e *Effect) span() string {
	switch {
	case !e.downSince.IsZero():
		return "since " + wording.Minute(e.downSince)
	case e.Ended.IsZero():
		return "since " + wording.Minute(e.Began)
	}
	// Both times are full minutes, so an end within the same minute is one minute at most.
	down := (e.downtime + time.Minute - 1).Truncate(time.Minute) // as the bars round it
	lasted := max(e.Ended.Sub(e.Began), time.Minute, down)
	text := wording.Span(e.Began, e.Ended) + ", " + wording.Duration(lasted)
	if e.Outage && down < lasted {
		text += ", not working for " + wording.Duration(down)
	}
	return text
}

// Class is the class of the style sheet.
func (i *Incident) Class() string {
	state := Operational
	for k := range i.Services {
		state = worse(state, i.Services[k].State)
	}
	return state.Class()
}

// feedOf is the feed of a page's incidents. An entry is updated with its incident, so that readers also hear of its end, and of a relapse.
func feedOf(p *Page) ([]byte, error) {
	f := atom.Feed{
		ID:     "public feed " + p.Title,
		Title:  p.Title,
		Author: p.Title,
		Self:   "incidents.atom",
		Page:   "./",
	}
	for k := range p.Incidents {
		i := &p.Incidents[k]
		f.Entries = append(f.Entries, atom.Entry{
			ID:      "public incident " + i.ID,
			Title:   i.Title(),
			Updated: i.Updated,
			Link:    "./",
			HTML:    i.html(),
		})
	}
	return f.Encode()
}

// html is the incident in the feed.
func (i *Incident) html() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<p>%s</p>\n", template.HTMLEscapeString(i.Span()))
	for k := range i.Updates {
		u := &i.Updates[k]
		fmt.Fprintf(&b, "<p>%s: %s</p>\n", u.When(), strings.ReplaceAll(template.HTMLEscapeString(u.Text), "\n", "<br>"))
	}
	return b.String()
}

// digest is a name that tells nothing.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:8])
}
