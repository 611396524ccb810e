// Package atom writes Atom feeds, RFC 4287.
package atom

import (
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"time"
)

// ContentType is that of a feed.
const ContentType = "application/atom+xml; charset=utf-8"

// Feed is a feed; it was updated with its newest entry. ID and the entries' are names, from which URN makes ids.
type Feed struct {
	ID, Title, Author string
	// Self and Page are links to the feed and to the page with the same content.
	Self, Page string
	Entries    []Entry
}

// Entry is an entry. Readers show it again if Updated is later; they ignore an entry whose time goes back.
type Entry struct {
	ID, Title string
	// Published is when it first appeared; zero if that is not told.
	Published, Updated time.Time
	Link               string
	// HTML is its content.
	HTML string
}

// URN returns the same URN for the same name: a UUID of version 8, RFC 9562.
func URN(name string) string {
	u := sha256.Sum256([]byte(name))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// The elements of a feed.
type (
	feedXML struct {
		XMLName xml.Name   `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string     `xml:"id"`
		Title   string     `xml:"title"`
		Updated string     `xml:"updated"`
		Author  string     `xml:"author>name"`
		Links   []linkXML  `xml:"link"`
		Entries []entryXML `xml:"entry"`
	}
	linkXML struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr"`
		Href string `xml:"href,attr"`
	}
	entryXML struct {
		ID        string  `xml:"id"`
		Title     string  `xml:"title"`
		Published string  `xml:"published,omitempty"`
		Updated   string  `xml:"updated"`
		Link      linkXML `xml:"link"`
		Content   textXML `xml:"content"`
	}
	textXML struct {
		Type string `xml:"type,attr"`
		Text string `xml:",chardata"`
	}
)

// Encode returns the feed as XML.
func (f *Feed) Encode() ([]byte, error) {
	updated := time.Unix(0, 0)
	list := make([]entryXML, 0, len(f.Entries))
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.Updated.After(updated) {
			updated = e.Updated
		}
		x := entryXML{
			ID:      URN(e.ID),
			Title:   e.Title,
			Updated: format(e.Updated),
			Link:    linkXML{"alternate", "text/html", e.Link},
			Content: textXML{"html", e.HTML},
		}
		if !e.Published.IsZero() {
			x.Published = format(e.Published)
		}
		list = append(list, x)
	}
	body, err := xml.MarshalIndent(&feedXML{
		ID:      URN(f.ID),
		Title:   f.Title,
		Updated: format(updated),
		Author:  f.Author,
		Links:   []linkXML{{"self", "application/atom+xml", f.Self}, {"alternate", "text/html", f.Page}},
		Entries: list,
	}, "", " ")
	return append([]byte(xml.Header), append(body, '\n')...), err
}

func format(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
