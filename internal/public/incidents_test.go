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
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// feed is an Atom feed as a reader sees it.
type feed struct {
	Updated time.Time `xml:"updated"`
	Entries []struct {
		ID      string    `xml:"id"`
		Title   string    `xml:"title"`
		Updated time.Time `xml:"updated"`
		Content string    `xml:"content"`
	} `xml:"entry"`
}

// outage is an incident of targets that did not work.
func outage(id string, began, ended time.Time, targets ...string) *incident.Incident {
	i := &incident.Incident{
		ID:      id,
		State:   incident.Open,
		Began:   began,
		Ended:   ended,
		Updated: began,
	}
	if !ended.IsZero() {
		i.State, i.Updated = incident.Watching, ended
	}
	for _, t := range targets {
		o := incident.Outage{Subject: health.TargetSubject(t), Since: began}
		if !ended.IsZero() {
			o.Seconds, o.Since, o.Until = ended.Sub(began).Seconds(), time.Time{}, ended
		}
		i.Outages = append(i.Outages, o)
		i.Problems = append(i.Problems, incident.Problem{
			Subject:  o.Subject,
			Alert:    health.AlertTargetDown,
			Severity: health.Critical,
			Since:    began,
			Cleared:  ended,
		})
	}
	return i
}

// chat is a page with one service.
func chat() *config.Public {
	return &config.Public{Services: []config.PublicService{{Name: "Chat", Targets: []string{"chat"}}}}
}

// watched are the services of a page, all of whose targets are watched.
func watched(c *config.Public) (list []Service) {
	for _, s := range c.Services {
		list = append(list, Service{Name: s.Name, watched: len(s.Targets)})
	}
	return list
}

// wantIncidents compares the titles and times of all incidents.
func wantIncidents(t *testing.T, c *config.Public, all []*incident.Incident, now time.Time, want ...string) {
	t.Helper()
	var got []string
	for _, i := range incidentsOf(c, watched(c), all, now) {
		got = append(got, i.Title()+" "+i.Span()+" "+i.Class())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestIncidentsOfPublicServices(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	c := &config.Public{
		Services: []config.PublicService{{Name: "Chat", Targets: []string{"xmpp", "web"}}, {Name: "Plants", Targets: []string{"store"}}},
	}
	warned := outage("6", now.Add(-time.Hour), time.Time{})
	warned.Problems = []incident.Problem{
		{Subject: health.TargetSubject("store"), Severity: health.Warning, Since: now.Add(-time.Hour)},
		{Subject: health.TargetSubject("web"), Severity: health.Pending, Since: now.Add(-time.Hour)},
	}
	merged := outage("7", now.Add(-time.Hour), time.Time{}, "xmpp")
	merged.State = incident.Merged
	wantIncidents(t, c, []*incident.Incident{
		outage("1", now.Add(-time.Hour), time.Time{}, "web", "store"),
		outage("2", now.Add(-3*time.Hour), now.Add(-2*time.Hour), "xmpp", "other"),
		outage("3", now.Add(-time.Hour), time.Time{}, "other"),
		outage("4", now.Add(-400*time.Hour), now.Add(-337*time.Hour), "web"),
		outage("5", now.Add(-408*time.Hour), now.Add(-336*time.Hour), "web"),
		warned, merged,
	}, now,
		"Plants: not working; Chat: partly not working since 1 May 2026 11:00 UTC outage",
		"Chat: did not work 1 May 2026 09:00 to 10:00 UTC, 1 h operational",
		"Chat: did not work 14 Apr 2026 12:00 to 17 Apr 2026 12:00 UTC, 3 d operational",
		"Plants: with problems since 1 May 2026 11:00 UTC degraded",
	)
}

// TestIncidentAndServiceAreInOneState: the page must not say that a service does not work, and below that it partly does.
func TestIncidentAndServiceAreInOneState(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	c := &config.Public{Services: []config.PublicService{{Name: "Chat", Targets: []string{"a", "b"}}}}
	with := func(alert string) *incident.Incident {
		i := outage("2", now.Add(-time.Hour), time.Time{})
		i.Problems = []incident.Problem{
			{
				Subject:  health.TargetSubject("a"),
				Alert:    alert,
				Severity: health.Critical,
				Since:    now.Add(-time.Hour),
			},
		}
		return i
	}
	down := outage("1", now.Add(-time.Hour), time.Time{}, "a")
	failing, up := target{history.Down, status.Critical}, target{history.Up, status.OK}
	for _, test := range []struct {
		of   *incident.Incident
		a, b target
		want State
	}{
		{
			down,
			failing,
			up,
			Partly,
		},
		{
			down,
			failing,
			target{history.Maintenance, status.Maintenance},
			Partly,
		},
		{
			down,
			failing,
			target{history.NotWatched, status.Unknown},
			Outage,
		},
		{
			down,
			target{history.NotWatched, status.Unknown},
			target{history.NotWatched, status.Unknown},
			Unknown,
		},
		{
			with("XMPPSessionsGone"),
			target{history.Degraded, status.Critical},
			up,
			Partly,
		},
		{
			with("TLSCertificateExpiry"),
			target{history.Degraded, status.Critical},
			up,
			Degraded,
		},
	} {
		s := targetsAs(test.of.Problems[0].Alert, test.a, test.b).service("Chat", []string{"a", "b"})
		list := incidentsOf(c, []Service{s}, []*incident.Incident{test.of}, now)
		if len(list) != 1 || s.State != test.want || list[0].Services[0].State != test.want && test.want != Unknown {
			t.Errorf("a is %+v, b is %+v: the service is %s, want %s, in %+v", test.a, test.b, s.State, test.want, list)
		}
	}
}

func TestServiceHasItsOwnTimesInAnIncident(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began.Add(time.Hour), began.Add(61*time.Minute), "chat")
	i.State, i.Began, i.Ended = incident.Open, began, time.Time{}
	i.Problems = append(i.Problems, incident.Problem{
		Subject:  health.ContainerSubject("local", "db"),
		Alert:    "ContainerDown",
		Since:    began,
		Severity: health.Critical,
	})
	const want = "Chat: did not work 1 May 2026 13:00 to 13:01 UTC, 1 min operational"
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(3*time.Hour), want)
	closed := *i
	closed.State, closed.Ended = incident.Closed, began.Add(3*time.Hour)
	wantIncidents(t, chat(), []*incident.Incident{&closed}, began.Add(4*time.Hour), want)

	// Another service is still down.
	both := chat()
	both.Services = append(both.Services, config.PublicService{Name: "Plants", Targets: []string{"store"}})
	store := outage("", began, time.Time{}, "store")
	i.Outages, i.Problems = append(i.Outages, store.Outages...), append(i.Problems, store.Problems...)
	wantIncidents(t, both, []*incident.Incident{i}, began.Add(3*time.Hour),
		"Plants: not working; Chat: did not work Chat: 1 May 2026 13:00 to 13:01 UTC, 1 min; Plants: "+
			"since 1 May 2026 12:00 UTC outage")
}

// TestOutageIsHeardOfWithItsAlert has a probe fail without an alert, and one whose alert is held back.
func TestOutageIsHeardOfWithItsAlert(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began, time.Time{}, "chat")
	i.Problems[0].Severity = health.Pending
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(time.Minute))
	i.Problems[0].Excuse = health.Excuse{Reason: health.ReasonContainer}
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(time.Minute), "Chat: not working since 1 May 2026 12:00 UTC outage")
}

// TestOutageThatIsNoLongerWatchedIsNotCalledOver: its service is not operational again only because nobody looks.
func TestOutageThatIsNoLongerWatchedIsNotCalledOver(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began, began.Add(time.Hour), "chat")
	i.State, i.Unwatched, i.Problems[0].Unwatched = incident.Closed, true, true
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(2*time.Hour),
		"Chat: had problems, whose end nobody watched 1 May 2026 12:00 to 13:00 UTC, 1 h unknown")
}

// TestRelapseHasItsOwnTime: what does not work now has not since the first time.
func TestRelapseHasItsOwnTime(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began.Add(time.Hour), time.Time{}, "chat")
	i.Problems[0].First = began
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(2*time.Hour), "Chat: not working since 1 May 2026 13:00 UTC outage")
}

func TestFlappingServiceSaysHowLongItDidNotWork(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began.Add(170*time.Minute), began.Add(3*time.Hour), "chat")
	i.Outages[0].Seconds = 1201
	i.Problems[0].First = began
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(4*time.Hour),
		"Chat: did not work 1 May 2026 12:00 to 15:00 UTC, 3 h, not working for 21 min operational")
}

func TestReturningProblemStaysOnThePage(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	problem := incident.Problem{
		Subject:  health.TargetSubject("chat"),
		Alert:    "XMPPAuthFailureRate",
		Severity: health.Pending,
		Since:    began.Add(time.Hour),
	}
	i := outage("a", began, time.Time{})
	problem.First = began
	i.Problems = []incident.Problem{problem}
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(2*time.Hour))
	i.Problems[0].Alerted = began.Add(time.Minute)
	wantIncidents(t, chat(), []*incident.Incident{i}, began.Add(2*time.Hour), "Chat: with problems since 1 May 2026 12:00 UTC degraded")
}

// TestUpdatesReachUsersAndNotesDoNot: an entry of the feed is updated with an update, not with a note.
func TestUpdatesReachUsersAndNotesDoNot(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	i := outage("a", began, time.Time{}, "chat")
	read := func() (got feed) {
		t.Helper()
		body, err := feedOf(&Page{Incidents: incidentsOf(chat(), watched(chat()), []*incident.Incident{i}, began.Add(time.Hour))})
		if err == nil {
			err = xml.Unmarshal(body, &got)
		}
		if err != nil || len(got.Entries) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		return got
	}
	before := read()
	i.Notes = []incident.Note{{Time: began.Add(10 * time.Minute), Author: "alice", Text: "The disk."}}
	if after := read(); !after.Updated.Equal(before.Updated) || after.Entries[0].Content != before.Entries[0].Content {
		t.Errorf("a note changes the feed: %+v", after)
	}
	i.Updates = []incident.Note{
		{Time: began.Add(20*time.Minute + 40*time.Second), Author: "alice", Text: "We are on it & <more>."},
		{Time: began.Add(30 * time.Minute), Author: "alice", Text: "Soon."},
	}
	after := read()
	const want = "<p>since 1 May 2026 12:00 UTC</p>\n<p>1 May 2026 12:30 UTC: Soon.</p>\n" +
		"<p>1 May 2026 12:20 UTC: We are on it &amp; &lt;more&gt;.</p>\n"
	if !after.Updated.Equal(began.Add(30*time.Minute)) || after.Entries[0].Content != want {
		t.Errorf("got %+v", after)
	}
	list := incidentsOf(chat(), watched(chat()), []*incident.Incident{i}, began.Add(time.Hour))
	if got := list[0].Updates; len(got) != 2 || got[1] != (Update{began.Add(20 * time.Minute), "We are on it & <more>."}) {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyTheNewestIncidentsAreShown(t *testing.T) {
	now := time.Now()
	var all []*incident.Incident
	for range maxIncidents + 1 {
		all = append(all, outage("", now, now, "web"))
		all[len(all)-1].State = incident.Closed
	}
	all = append(all, outage("lasts", now.Add(-time.Hour), time.Time{}, "web"))
	c := &config.Public{Services: []config.PublicService{{Name: "Chat", Targets: []string{"web"}}}}
	if list := incidentsOf(c, watched(c), all, now); len(list) != maxIncidents+1 || !list[maxIncidents].Ended.IsZero() {
		t.Errorf("%d incidents, want the %d newest, and the one that lasts", len(list), maxIncidents)
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
		if err := xml.Unmarshal(get(t, New(f, slog.New(slog.DiscardHandler)), http.MethodGet, "/incidents.atom").Body.Bytes(),
			&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := read()
	began := f.incidents[0].Began
	f.incidents = []*incident.Incident{outage(token, began, began.Add(40*time.Minute), token+"-down")}
	after := read()
	if len(before.Entries) != 1 || len(after.Entries) != 1 {
		t.Fatalf("%d and %d entries, want 1", len(before.Entries), len(after.Entries))
	}
	a, b := before.Entries[0], after.Entries[0]
	if a.ID != b.ID || !b.Updated.After(a.Updated) || a.Title != "Plants: not working" || b.Title != "Plants: did not work" ||
		!after.Updated.Equal(b.Updated) {
		t.Errorf("got %+v, then %+v", before, after)
	}
}

// TestFeedHearsOfARelapse: readers ignore an entry whose time goes back.
func TestFeedHearsOfARelapse(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	over := outage("a", began, began.Add(10*time.Minute), "chat")
	again := outage("a", began, time.Time{}, "chat")
	again.Outages[0].Since = began.Add(12*time.Minute + 20*time.Second)
	var last time.Time
	for _, i := range []*incident.Incident{outage("a", began, time.Time{}, "chat"), over, again} {
		body, err := feedOf(&Page{Incidents: incidentsOf(chat(), watched(chat()), []*incident.Incident{i}, began.Add(time.Hour))})
		if err != nil {
			t.Fatal(err)
		}
		var got feed
		if err := xml.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		i.Updated = time.Now() // as by a note, of which nobody hears
		if len(got.Entries) != 1 || !got.Updated.After(last) || !got.Entries[0].Updated.Equal(got.Updated) || got.Updated.Second() != 0 {
			t.Fatalf("after %s, the feed is\n%s", last, body)
		}
		last = got.Updated
	}
}
