package web

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// maxFeed is how many incidents the feed has, those that were updated last.
const maxFeed = 50

// serveFeed serves the Atom feed. An entry is updated with its incident, so that readers also hear of its end.
func (s *incidents) serveFeed(w http.ResponseWriter, r *http.Request) {
	body, err := s.feed()
	if err != nil {
		s.options.Log.Error("feed does not render", "err", err)
		http.Error(w, "the feed does not render: see the exporter's log", http.StatusInternalServerError)
		return
	}
	site.NewDocument(atom.ContentType, body).Serve(w, r, "no-cache")
}

func (s *incidents) feed() ([]byte, error) {
	all := slices.Clone(s.source.Incidents())
	slices.SortStableFunc(all, func(a, b *incident.Incident) int { return b.Updated.Compare(a.Updated) })
	title := s.frames.reports.Report().PageTitle
	feed := atom.Feed{
		// Not the request's host: a feed that readers reach by several names is one feed.
		ID:     "feed " + cmp.Or(s.externalURL(), title),
		Title:  "Incidents · " + title,
		Author: "chatstack_exporter",
		Self:   "incidents.atom",
		Page:   "incidents",
	}
	for _, i := range all[:min(len(all), maxFeed)] {
		// What the entry says is as of its update: it must not change without one.
		at := showIncident(i, "", i.Updated)
		var content bytes.Buffer
		if err := incidentPages.ExecuteTemplate(&content, "feed entry", at); err != nil {
			return nil, err
		}
		target := i.ID
		if i.State == incident.Merged {
			target = i.MergedInto
		}
		feed.Entries = append(feed.Entries, atom.Entry{
			ID:        "incident " + i.ID + i.Opened.UTC().Format(time.RFC3339Nano),
			Title:     at.Headline(),
			Published: i.Opened,
			Updated:   i.Updated,
			Link:      "incidents/" + target,
			HTML:      content.String(),
		})
	}
	return feed.Encode()
}
