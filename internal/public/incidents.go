package public

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

const (
	// shownIncidents is how long the page shows an incident that is over.
	shownIncidents = 14 * 24 * time.Hour
	// maxIncidents is how many it shows at most, the newest.
	maxIncidents = 50
)

// Incident is what users learn of an incident. Times are those of the incident, to the minute.
type Incident struct {
	// ID tells incidents apart, and nothing else.
	ID string `json:"id"`
	// Services are the names of those that were affected; Outage says that one of them did not work.
	Services []string  `json:"services"`
	Outage   bool      `json:"outage"`
	Began    time.Time `json:"began"`
	// Ended is absent while it lasts.
	Ended time.Time `json:"ended,omitzero"`
}

// incidentsOf are the incidents of the public services, the newest first.
func incidentsOf(c *config.Public, all []*incident.Incident, now time.Time) []Incident {
	list := []Incident{}
	for _, i := range all {
		if len(list) == maxIncidents {
			break
		}
		if i.State == incident.Merged || !i.Ended.IsZero() && now.Sub(i.Ended) > shownIncidents {
			continue
		}
		shown := Incident{ID: digest(i.ID), Began: i.Began.UTC().Truncate(time.Minute), Ended: i.Ended.UTC().Truncate(time.Minute)}
		for k := range c.Services {
			if s := &c.Services[k]; slices.ContainsFunc(s.Targets, func(t string) bool { return affects(i, t) }) {
				shown.Services = append(shown.Services, s.Name)
				shown.Outage = shown.Outage || slices.ContainsFunc(s.Targets, func(t string) bool { return stops(i, t) })
			}
		}
		if shown.Services != nil {
			list = append(list, shown)
		}
	}
	return list
}

// stops reports whether a target did not work.
func stops(i *incident.Incident, target string) bool {
	return slices.ContainsFunc(i.Outages, func(o incident.Outage) bool { return o.Subject == health.TargetSubject(target) })
}

// affects reports whether a target did not work, or had an alert.
func affects(i *incident.Incident, target string) bool {
	return stops(i, target) || slices.ContainsFunc(i.Problems, func(p incident.Problem) bool {
		return p.Subject == health.TargetSubject(target) && p.Severity >= health.Warning
	})
}

// Title says what was wrong.
func (i Incident) Title() string {
	what := "had problems"
	switch {
	case i.Ended.IsZero() && i.Outage:
		what = "not working"
	case i.Ended.IsZero():
		what = "with problems"
	case i.Outage:
		what = "did not work"
	}
	return strings.Join(i.Services, ", ") + ": " + what
}

// Span says from when to when.
func (i Incident) Span() string {
	const minute = "2 Jan 2006 15:04"
	if i.Ended.IsZero() {
		return "since " + i.Began.Format(minute) + " UTC"
	}
	return fmt.Sprintf("%s to %s UTC, %.0f min", i.Began.Format(minute), i.Ended.Format(minute), i.Ended.Sub(i.Began).Minutes())
}

// Class is the class of the style sheet.
func (i Incident) Class() string {
	switch {
	case !i.Ended.IsZero():
		return Operational.Class()
	case i.Outage:
		return Outage.Class()
	}
	return Degraded.Class()
}

// feed is an Atom feed (RFC 4287).
type feed struct {
	XMLName xml.Name  `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string    `xml:"id"`
	Title   string    `xml:"title"`
	Updated time.Time `xml:"updated"`
	Author  string    `xml:"author>name"`
	Links   []link    `xml:"link"`
	Entries []entry   `xml:"entry"`
}

type link struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

// entry is an incident. The same entry is updated when it is over, so that readers hear of that too.
type entry struct {
	ID      string    `xml:"id"`
	Title   string    `xml:"title"`
	Updated time.Time `xml:"updated"`
	Link    link      `xml:"link"`
	Content string    `xml:"content"`
}

// feedOf is the feed of a page's incidents.
func feedOf(p *Page) ([]byte, error) {
	f := feed{ID: atom.URN("public feed " + p.Title), Title: p.Title, Updated: time.Unix(0, 0).UTC(), Author: p.Title, Links: []link{{"self", "incidents.atom"}, {"alternate", "./"}}}
	for k := range p.Incidents {
		i := &p.Incidents[k]
		e := entry{atom.URN("public incident " + i.ID), i.Title(), i.Began, link{"alternate", "./"}, i.Span()}
		if !i.Ended.IsZero() {
			e.Updated = i.Ended
		}
		if e.Updated.After(f.Updated) {
			f.Updated = e.Updated
		}
		f.Entries = append(f.Entries, e)
	}
	text, err := xml.MarshalIndent(&f, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

// digest is a name that tells nothing.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:8])
}
