// Package feeds reads the feed and the calendar with parsers that other programs use. It is a module of its own, so that the exporter's
// module does not need them.
package feeds

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-ical"
	"github.com/mmcdole/gofeed/atom"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// source is a web.Source with incidents and maintenance.
type source struct {
	web.Source

	incidents   []*incident.Incident
	maintenance []maintenance.Entry
}

func (s *source) Report() *status.Report {
	return &status.Report{Notices: status.Notices{PageTitle: "Plants"}}
}
func (s *source) Incidents() []*incident.Incident  { return s.incidents }
func (s *source) Maintenance() []maintenance.Entry { return s.maintenance }

func (s *source) get(t *testing.T, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	web.New(s, web.Options{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	return w.Body.String()
}

const hostile = "<b>&amp;\x02\u0000 ]]> \"quoted\" ünïcode;,\\ \U0001F980"

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestFeedIsRead(t *testing.T) {
	s := &source{}
	for n := range 60 {
		began := noon.Add(time.Duration(n) * time.Hour)
		s.incidents = append([]*incident.Incident{{
			ID:       fmt.Sprintf("20260501-%08x", n),
			Title:    fmt.Sprint(n, " ", hostile),
			State:    incident.Closed,
			Severity: health.Critical,
			Began:    began,
			Opened:   began.Add(5 * time.Minute),
			Ended:    began.Add(time.Hour),
			Closed:   began.Add(70 * time.Minute),
			Updated:  began.Add(70 * time.Minute),
			Timeline: []incident.Event{{Time: began, Kind: incident.EventBegan, Text: hostile}},
			Notes:    []incident.Note{{Time: began, Author: hostile, Text: hostile}},
		}}, s.incidents...)
	}
	for range 2 {
		feed, err := (&atom.Parser{}).Parse(strings.NewReader(s.get(t, "/incidents.atom")))
		if err != nil {
			t.Fatal(err)
		}
		if len(feed.Entries) != min(50, len(s.incidents)) || !strings.HasPrefix(feed.ID, "urn:uuid:") || feed.UpdatedParsed == nil ||
			len(feed.Authors) != 1 || len(feed.Links) != 2 {
			t.Fatalf("got %+v", feed)
		}
		seen := map[string]bool{}
		for n, e := range feed.Entries {
			if seen[e.ID] || !strings.HasPrefix(e.ID, "urn:uuid:") {
				t.Errorf("the id %q occurs twice, or is no URN", e.ID)
			}
			seen[e.ID] = true
			want := s.incidents[n]
			if !e.UpdatedParsed.Equal(want.Updated) || !e.PublishedParsed.Equal(want.Opened) || e.Links[0].Href != "incidents/"+want.ID {
				t.Errorf("got %+v of %+v", e, want)
			}
			if title := strings.NewReplacer("\x02", "\uFFFD", "\x00", "\uFFFD").Replace(want.Title); e.Title != "Fixed: "+title {
				t.Errorf("title %q, want %q", e.Title, title)
			}
			if strings.Contains(e.Content.Value, "<b>&amp;") || !strings.Contains(e.Content.Value, "&lt;b&gt;&amp;amp;") {
				t.Errorf("the names in the content are markup: %s", e.Content.Value)
			}
		}
		s.incidents = nil
	}
}

func TestCalendarIsRead(t *testing.T) {
	s := &source{}
	for n := range 3 {
		from := noon.Add(time.Duration(n) * 24 * time.Hour)
		s.maintenance = append(s.maintenance, maintenance.Entry{
			Kind:   "container",
			Name:   fmt.Sprintf("chat-%d", n),
			From:   from,
			Until:  from.Add(2 * time.Hour),
			Source: maintenance.FromConfig,
			Reason: strings.Repeat("ünïcode \U0001F980, and; more\\ ", 12*n),
		})
	}
	raw := s.get(t, "/maintenance.ics")
	calendar, err := ical.NewDecoder(strings.NewReader(raw)).Decode()
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	// The encoder refuses what RFC 5545 does not allow.
	if err := ical.NewEncoder(&bytes.Buffer{}).Encode(calendar); err != nil {
		t.Error(err)
	}
	events := calendar.Events()
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for n, e := range events {
		want := s.maintenance[n]
		start, err := e.DateTimeStart(time.UTC)
		if err != nil || !start.Equal(want.From) {
			t.Errorf("start %s, %v", start, err)
		}
		end, err := e.DateTimeEnd(time.UTC)
		if err != nil || !end.Equal(want.Until) {
			t.Errorf("end %s, %v", end, err)
		}
		if text, err := e.Props.Text(ical.PropSummary); err != nil || text != "Maintenance: container "+want.Name {
			t.Errorf("summary %q, %v", text, err)
		}
		if text, err := e.Props.Text(ical.PropDescription); err != nil || text != want.Reason {
			t.Errorf("description %q, %v, want %q", text, err, want.Reason)
		}
		if uid, err := e.Props.Text(ical.PropUID); err != nil || strings.Count(raw, uid) != 1 {
			t.Errorf("uid %q, %v", uid, err)
		}
	}
}

func TestEmptyCalendarIsValid(t *testing.T) {
	calendar, err := ical.NewDecoder(strings.NewReader((&source{}).get(t, "/maintenance.ics"))).Decode()
	if err != nil {
		t.Fatal(err)
	}
	if err := ical.NewEncoder(&bytes.Buffer{}).Encode(calendar); err != nil {
		t.Error(err)
	}
}
