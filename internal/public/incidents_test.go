package public

import (
	"encoding/xml"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// outage is an incident of targets that did not work.
func outage(id string, began, ended time.Time, targets ...string) *incident.Incident {
	i := &incident.Incident{ID: id, State: incident.Open, Began: began, Ended: ended}
	for _, t := range targets {
		i.Outages = append(i.Outages, incident.Outage{Subject: health.TargetSubject(t)})
	}
	return i
}

func TestIncidentsOfPublicServices(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	c := &config.Public{Services: []config.PublicService{{Name: "Chat", Targets: []string{"xmpp", "web"}}, {Name: "Plants", Targets: []string{"store"}}}}
	warned := outage("6", now.Add(-time.Hour), time.Time{})
	warned.Problems = []incident.Problem{{Subject: health.TargetSubject("store"), Severity: health.Warning}, {Subject: health.TargetSubject("web"), Severity: health.Pending}}
	merged := outage("7", now.Add(-time.Hour), time.Time{}, "xmpp")
	merged.State = incident.Merged
	var got []string
	for _, i := range incidentsOf(c, []*incident.Incident{
		outage("1", now.Add(-time.Hour), time.Time{}, "web", "store"),
		outage("2", now.Add(-3*time.Hour), now.Add(-2*time.Hour), "xmpp", "other"),
		outage("3", now.Add(-time.Hour), time.Time{}, "other"),
		outage("4", now.Add(-400*time.Hour), now.Add(-337*time.Hour), "web"),
		outage("5", now.Add(-400*time.Hour), now.Add(-336*time.Hour), "web"),
		warned, merged,
	}, now) {
		got = append(got, i.Title()+" "+i.Span()+" "+i.Class())
	}
	if want := []string{
		"Chat, Plants: not working since 1 May 2026 11:00 UTC outage",
		"Chat: did not work 1 May 2026 09:00 to 1 May 2026 10:00 UTC, 60 min operational",
		"Chat: did not work 14 Apr 2026 20:00 to 17 Apr 2026 12:00 UTC, 3840 min operational",
		"Plants: with problems since 1 May 2026 11:00 UTC degraded",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOnlyTheNewestIncidentsAreShown(t *testing.T) {
	now := time.Now()
	var all []*incident.Incident
	for range maxIncidents + 1 {
		all = append(all, outage("", now, now, "web"))
	}
	c := &config.Public{Services: []config.PublicService{{Name: "Chat", Targets: []string{"web"}}}}
	if n := len(incidentsOf(c, all, now)); n != maxIncidents {
		t.Errorf("%d incidents, want %d", n, maxIncidents)
	}
}

func TestFeedHasValidNames(t *testing.T) {
	valid := regexp.MustCompile(`<id>urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}</id>`)
	p := &Page{Title: "Our chat"}
	for n := range 20 {
		p.Incidents = append(p.Incidents, Incident{ID: digest(strconv.Itoa(n))})
	}
	body, err := feedOf(p)
	if err != nil || len(valid.FindAll(body, -1)) != 21 {
		t.Errorf("%v: a name is no UUID of version 8:\n%s", err, body)
	}
}

// TestFeedHearsOfTheEnd: the entry keeps its id, and is updated.
func TestFeedHearsOfTheEnd(t *testing.T) {
	f := planted()
	read := func() (got feed) {
		t.Helper()
		if err := xml.Unmarshal(get(t, New(f, slog.New(slog.DiscardHandler)), http.MethodGet, "/incidents.atom").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := read()
	over := *f.incidents[0]
	over.Ended = over.Began.Add(10 * time.Minute)
	f.incidents = []*incident.Incident{&over}
	after := read()
	if len(before.Entries) != 1 || len(after.Entries) != 1 {
		t.Fatalf("%d and %d entries, want 1", len(before.Entries), len(after.Entries))
	}
	a, b := before.Entries[0], after.Entries[0]
	if a.ID != b.ID || !b.Updated.After(a.Updated) || a.Title != "Plants: not working" || b.Title != "Plants: did not work" || !after.Updated.Equal(b.Updated) {
		t.Errorf("got %+v, then %+v", before, after)
	}
}
