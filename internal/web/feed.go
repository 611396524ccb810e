package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/atom"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// maxFeed is how many incidents the feed has, those that were updated last.
const maxFeed = 50

// The elements of an Atom feed, RFC 4287.
type (
	atomFeed struct {
		XMLName   xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
		ID        string      `xml:"id"`
		Title     string      `xml:"title"`
		Updated   string      `xml:"updated"`
		Author    string      `xml:"author>name"`
		Generator string      `xml:"generator"`
		Links     []atomLink  `xml:"link"`
		Entries   []atomEntry `xml:"entry"`
	}
	atomLink struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr"`
		Href string `xml:"href,attr"`
	}
	atomEntry struct {
		ID        string   `xml:"id"`
		Title     string   `xml:"title"`
		Published string   `xml:"published"`
		Updated   string   `xml:"updated"`
		Link      atomLink `xml:"link"`
		Content   atomText `xml:"content"`
	}
	atomText struct {
		Type string `xml:"type,attr"`
		Text string `xml:",chardata"`
	}
)

// serveFeed serves the Atom feed. An entry is updated with its incident, so that readers also hear of its end.
func (s *incidents) serveFeed(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(s.source.Incidents())
	slices.SortStableFunc(all, func(a, b *incident.Incident) int { return b.Updated.Compare(a.Updated) })
	title := s.frames.reports.Report().PageTitle
	feed := atomFeed{
		// Not the request's host: a feed that readers reach by several names is one feed.
		ID:        atom.URN("feed " + cmp.Or(s.externalURL(), title)),
		Title:     "Incidents · " + title,
		Author:    "chatstack_exporter",
		Generator: "chatstack_exporter",
		Updated:   atomTime(time.Unix(0, 0)),
		Links:     []atomLink{{"self", "application/atom+xml", "incidents.atom"}, {"alternate", "text/html", "incidents"}},
	}
	for n, i := range all[:min(len(all), maxFeed)] {
		if n == 0 {
			feed.Updated = atomTime(i.Updated)
		}
		// What the entry says is as of its update: it must not change without one.
		at := showIncident(i, "", i.Updated)
		var content bytes.Buffer
		if err := incidentPages.ExecuteTemplate(&content, "feed entry", at); err != nil {
			s.options.Log.Error("feed does not render", "incident", i.ID, "err", err)
			http.Error(w, "the feed does not render: see the exporter's log", http.StatusInternalServerError)
			return
		}
		target := i.ID
		if i.State == incident.Merged {
			target = i.MergedInto
		}
		feed.Entries = append(feed.Entries, atomEntry{
			ID:        atom.URN("incident " + i.ID + i.Opened.UTC().Format(time.RFC3339Nano)),
			Title:     at.Headline(),
			Published: atomTime(i.Opened),
			Updated:   atomTime(i.Updated),
			Link:      atomLink{"alternate", "text/html", "incidents/" + target},
			Content:   atomText{"html", content.String()},
		})
	}
	body, err := xml.MarshalIndent(feed, "", " ")
	if err != nil {
		s.options.Log.Error("feed cannot be encoded as XML", "err", err)
		http.Error(w, "the feed cannot be encoded: see the exporter's log", http.StatusInternalServerError)
		return
	}
	serveCurrent(w, r, "application/atom+xml; charset=utf-8", append([]byte(xml.Header), append(body, '\n')...))
}

// serveCurrent serves a document that clients fetch again and again.
func serveCurrent(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	sum := sha256.Sum256(body)
	writeCached(w, r, hex.EncodeToString(sum[:8]), body, func() []byte { return compress(body) })
}

func atomTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
