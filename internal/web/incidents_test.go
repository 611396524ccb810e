package web_test

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// chronicle is a web.Source with incidents and maintenance.
type chronicle struct {
	web.Source

	incidents   []*incident.Incident
	maintenance []maintenance.Entry
	report      *status.Report // nil for an empty one
	noted       string
	said        string // of the last acknowledgement
	public      config.Public
}

func (c *chronicle) Incidents() []*incident.Incident             { return c.incidents }
func (c *chronicle) Maintenance() []maintenance.Entry            { return c.maintenance }
func (c *chronicle) Report() *status.Report                      { return cmp.Or(c.report, emptyReport()) }
func (c *chronicle) History(string) (h poll.History, known bool) { return h, false }
func (c *chronicle) Availability() *history.Report               { return history.New().Report(time.Now()) }
func (c *chronicle) Chart(string) (h status.History, known bool) { return h, false }
func (c *chronicle) Watch() (*status.Report, <-chan struct{})    { return emptyReport(), nil }

func (c *chronicle) AddNote(id, author, text string) (*incident.Incident, []string, error) {
	i, err := c.byID(id)
	if err != nil {
		return nil, nil, err
	}
	c.noted = author + ": " + text
	return i, []string{"the disk is full"}, nil
}

func (c *chronicle) Acknowledge(id, by, user string) (*incident.Incident, []string, error) {
	i, err := c.byID(id)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case strings.TrimSpace(by) == "":
		return nil, nil, fmt.Errorf("%w: the name is empty", incident.ErrInvalid)
	case !i.Lasts():
		return nil, nil, incident.ErrClosed
	}
	c.said = by + " (" + user + ")"
	i.Acknowledged = incident.Acknowledgement{Time: fixedNoon, By: by}
	return i, []string{"the disk is full"}, nil
}

// byID returns an incident, or the one that continues it.
func (c *chronicle) byID(id string) (*incident.Incident, error) {
	at := slices.IndexFunc(c.incidents, func(i *incident.Incident) bool { return i.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("%w %q", incident.ErrUnknown, id)
	}
	if i := c.incidents[at]; i.State == incident.Merged {
		return c.byID(i.MergedInto)
	}
	return c.incidents[at], nil
}

func (c *chronicle) AddUpdate(id, author, text string) (*incident.Incident, []string, error) {
	return c.AddNote(id, "for users, "+author, text)
}

func (c *chronicle) Public() *config.Public { return &c.public }

// handler returns the pages as a listener serves them that has checked the passwords of users.
func (c *chronicle) handler(lifecycle bool, users ...string) http.Handler {
	return web.New(c, web.Options{Log: slog.New(slog.DiscardHandler), Lifecycle: lifecycle, Users: func() []string { return users }})
}

// hostile is markup for HTML, XML and iCalendar.
const hostile = `<script>alert(1)</script>&"'` + "\x01;,\\]]>"

// fixedNoon is the time of the fixtures that are not relative to now.
var fixedNoon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// newIncident has everything that an incident can have, with the given name everywhere.
func newIncident(id, state, name string, began time.Time) *incident.Incident {
	s := health.TargetSubject(name)
	i := &incident.Incident{
		ID:       id,
		Title:    name + " is down",
		State:    state,
		Severity: health.Critical,
		Cause:    s,
		Began:    began,
		Opened:   began.Add(5 * time.Minute),
		Updated:  began.Add(5 * time.Minute),
		Problems: []incident.Problem{{
			Subject:  s,
			Alert:    "TargetDown",
			Of:       name,
			Text:     name + " is down",
			Severity: health.Critical,
			Since:    began,
		}},
		Outages: []incident.Outage{{Subject: s, Title: name, Since: began}},
		Timeline: []incident.Event{
			{
				Time:    began,
				Kind:    incident.EventBegan,
				Subject: s,
				Alert:   "TargetDown",
				Text:    name + " is down",
				Count:   2,
				Until:   began.Add(time.Minute),
			},
			{
				Time:     began.Add(5 * time.Minute),
				Kind:     incident.EventAlert,
				Subject:  s,
				Alert:    "TargetDown",
				Severity: health.Critical,
				Text:     "alert TargetDown (critical): " + name,
			},
		},
		Notes: []incident.Note{{Time: began, Author: name, Text: name + "\nsecond line"}},
		Links: []health.Subject{s},
	}
	if state == incident.Closed || state == incident.Watching {
		i.Ended, i.Updated = began.Add(20*time.Minute), began.Add(30*time.Minute)
		i.Problems[0].Cleared = i.Ended
		i.Outages[0] = incident.Outage{
			Subject: s,
			Title:   name,
			Seconds: 1200,
			Until:   i.Ended,
		}
	}
	if state == incident.Closed {
		i.Closed = i.Updated
	}
	return i
}

func newChronicle() *chronicle {
	merged := newIncident("20260501-00000003", incident.Merged, "third", fixedNoon)
	merged.MergedInto = "20260501-00000002"
	return &chronicle{incidents: []*incident.Incident{
		newIncident("20260501-00000001", incident.Open, hostile, fixedNoon.Add(time.Hour)),
		newIncident("20260501-00000002", incident.Closed, "second", fixedNoon), merged,
	}}
}

// TestIncidentPagesEscapeNames holds that names of containers and notes become no markup.
func TestIncidentPagesEscapeNames(t *testing.T) {
	c := newChronicle()
	for _, path := range []string{"/incidents", "/incidents/20260501-00000001", "/incidents.atom"} {
		got := fetch(t, c.handler(false), path)
		if got.StatusCode != http.StatusOK || strings.Contains(string(got.body), "<script>") ||
			!strings.Contains(string(got.body), "&lt;script&gt;") {
			t.Errorf("%s: %d\n%s", path, got.StatusCode, got.body)
		}
		if strings.Contains(path, "atom") {
			continue
		}
		if !strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(string(got.body), `="/`) {
			t.Errorf("%s: no policy, or an absolute link:\n%s", path, got.body)
		}
	}
}

func TestIncidentPagesSayWhatHappened(t *testing.T) {
	h := newChronicle().handler(false)
	for path, wants := range map[string][]string{
		"/incidents": {
			`href="incidents/20260501-00000002">second is down</a>`, "over after 20 min", `href="incidents.atom"`, `href="maintenance.ics"`,
		},
		"/incidents/20260501-00000002": {
			"<h1>second is down</h1>", "Began: <time", "1 May 2026 12:00:00 UTC", "1 May 2026 12:20:00 UTC", "Outage of second: 20 min",
			"2 times", "second line",
			`href="../runbooks/TargetDown"`, `href="../incidents"`, `href="../assets/style.css`,
		},
	} {
		got := fetch(t, h, path)
		for _, want := range wants {
			if !strings.Contains(string(got.body), want) {
				t.Errorf("%s lacks %q:\n%s", path, want, got.body)
			}
		}
	}
	if got := fetch(t, h, "/incidents"); strings.Contains(string(got.body), "third") {
		t.Error("the list has a merged incident")
	}
	if got := fetch(t, h, "/incidents/20260501-00000003"); got.StatusCode != http.StatusSeeOther ||
		got.Header.Get("Location") != "20260501-00000002" {
		t.Errorf("merged: %d, %s", got.StatusCode, got.Header.Get("Location"))
	}
	if got := fetch(t, h, "/incidents/"); got.StatusCode != http.StatusMovedPermanently || got.Header.Get("Location") != "../incidents" {
		t.Errorf("got %d, %s", got.StatusCode, got.Header.Get("Location"))
	}
	if got := fetch(t, h, "/incidents/x"); got.StatusCode != http.StatusNotFound {
		t.Errorf("unknown: %d", got.StatusCode)
	}
}

func TestStatusPageShowsIncidentsOfTheWeek(t *testing.T) {
	c := &chronicle{}
	const heading = "Incidents of the last 7 days"
	for _, test := range []struct {
		began time.Duration
		state string
		shown bool
	}{
		{time.Hour, incident.Open, true},
		{100 * time.Hour, incident.Closed, true},
		{200 * time.Hour, incident.Closed, false},
		{200 * time.Hour, incident.Open, true},
	} {
		c.incidents = []*incident.Incident{newIncident("1", test.state, "web", time.Now().Add(-test.began))}
		if page := string(fetch(t, c.handler(false), "/").body); strings.Contains(page, heading) != test.shown ||
			strings.Contains(page, `href="incidents/1"`) != test.shown {
			t.Errorf("began %s ago, %s: want it on the page: %t\n%s", test.began, test.state, test.shown, page)
		}
	}
}

// TestStatusPageShowsFewIncidents holds that a bad week does not fill the page, and hides no incident that lasts.
func TestStatusPageShowsFewIncidents(t *testing.T) {
	c := &chronicle{}
	for n := range 20 {
		c.incidents = append(c.incidents,
			newIncident(fmt.Sprint("over-", n), incident.Closed, "web", time.Now().Add(-time.Duration(n+1)*time.Hour)))
	}
	c.incidents = append(c.incidents, newIncident("lasts", incident.Open, "web", time.Now().Add(-100*time.Hour)))
	page := string(fetch(t, c.handler(false), "/").body)
	if n := strings.Count(page, `href="incidents/over-`); n != 8 || !strings.Contains(page, `href="incidents/over-7"`) ||
		!strings.Contains(page, `href="incidents/lasts"`) {
		t.Errorf("the page has %d incidents that are over:\n%s", n, page)
	}
}

// TestNavigationLeadsToIncidents, with the number of those that last, whenever they began.
func TestNavigationLeadsToIncidents(t *testing.T) {
	old := time.Now().Add(-200 * time.Hour)
	incidentOf := func(state string) *incident.Incident { return newIncident("1", state, "web", old) }
	for want, list := range map[string][]*incident.Incident{
		`<li><a href="incidents">Incidents</a></li>`: {
			incidentOf(incident.Closed), incidentOf(incident.Watching), incidentOf(incident.Merged),
		},
		`<li><a href="incidents">Incidents <span class="count">2</span></a></li>`: {
			incidentOf(incident.Open), incidentOf(incident.Closed), incidentOf(incident.Open),
		},
	} {
		_, nav, _ := strings.Cut(string(fetch(t, (&chronicle{incidents: list}).handler(false), "/").body), `id="nav"`)
		nav, _, _ = strings.Cut(nav, "</nav>")
		holds(t, nav, want)
	}
}

func TestFeedEntryChangesOnlyWithItsIncident(t *testing.T) {
	type feed struct {
		ID      string `xml:"id"`
		Updated string `xml:"updated"`
		Entries []struct {
			ID      string `xml:"id"`
			Title   string `xml:"title"`
			Updated string `xml:"updated"`
			Content string `xml:"content"`
		} `xml:"entry"`
	}
	c := newChronicle()
	read := func() (f feed, etag string) {
		t.Helper()
		got := fetch(t, c.handler(false), "/incidents.atom")
		must(t, xml.Unmarshal(got.body, &f))
		return f, got.Header.Get("ETag")
	}
	before, etag := read()
	if again, same := read(); same != etag || again.ID != before.ID {
		t.Errorf("the feed of unchanged incidents is %s, then %s", etag, same)
	}
	if got := fetch(t, c.handler(false), "/incidents.atom", "If-None-Match", etag); got.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %d", got.StatusCode)
	}
	c.incidents[0] = newIncident(c.incidents[0].ID, incident.Closed, "first", fixedNoon.Add(time.Hour))
	after, _ := read()
	e, old := after.Entries[0], before.Entries[0]
	if len(after.Entries) != 3 || e.ID != old.ID || e.Updated <= old.Updated || e.Title != "Fixed: first is down" ||
		!strings.Contains(e.Content, "over after 20 min") || after.Updated != e.Updated {
		t.Errorf("before: %+v\nafter: %+v", old, e)
	}
	c.incidents = nil
	if empty, _ := read(); empty.Updated == "" || len(empty.Entries) != 0 {
		t.Errorf("got %+v", empty)
	}
}

func TestFeedIsTheSameByAnyName(t *testing.T) {
	id := func(host, external string) string {
		h := web.New(newChronicle(), web.Options{Log: slog.New(slog.DiscardHandler), ExternalURL: func() string { return external }})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/incidents.atom", http.NoBody))
		var feed struct {
			ID string `xml:"id"`
		}
		must(t, xml.Unmarshal(w.Body.Bytes(), &feed))
		return feed.ID
	}
	if a, b := id("chat.test:9655", ""), id("192.0.2.1", ""); a != b {
		t.Errorf("the feed has the id %s by name, %s by address", a, b)
	}
	if a, b := id("chat.test", "https://a.test"), id("chat.test", "https://b.test"); a == b {
		t.Errorf("the feeds of two pages have one id, %s", a)
	}
}

func TestNoteRequiresLifecycleAPasswordAndAProgram(t *testing.T) {
	for name, test := range map[string]struct {
		lifecycle    bool
		user         string
		header, body string
		status       int
		want         string
	}{
		"good": {
			true,
			"ann",
			"",
			`{"text":"on it"}`,
			201,
			`"text": "first`,
		},
		"no lifecycle": {
			false,
			"ann",
			"",
			`{"text":"x"}`,
			403,
			"--web.enable-lifecycle",
		},
		"browser": {
			true,
			"ann",
			"Sec-Fetch-Site",
			`{"text":"x"}`,
			403,
			"refused for web pages",
		},
		"key": {
			true,
			"ann",
			"",
			`{"txt":"x"}`,
			400,
			`the body is not a note: unknown key \"txt\"; known keys: text`,
		},
		"author": {
			true,
			"ann",
			"",
			`{"author":"Bob","text":"x"}`,
			400,
			`unknown key \"author\"`,
		},
		"list": {
			true,
			"ann",
			"",
			`[]`,
			400,
			"must be an object such as",
		},
		"long": {
			true,
			"ann",
			"",
			`{"text":"` + strings.Repeat("x", 40_000) + `"}`,
			413,
			"longer than 32768 bytes",
		},
		"nobody": {
			true,
			"",
			"",
			`{"text":"x"}`,
			403,
			"only a user with a password of this exporter may add a note",
		},
		"unknown user": {
			true,
			"bob",
			"",
			`{"text":"x"}`,
			403,
			"only a user with a password of this exporter may add a note",
		},
	} {
		c := newChronicle()
		c.incidents[0].Notes[0].Text = "first"
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/incidents/20260501-00000001/notes",
			strings.NewReader(test.body))
		r.Header.Set("Content-Type", "application/json")
		if test.header != "" {
			r.Header.Set(test.header, "same-origin")
		}
		if test.user != "" {
			r.SetBasicAuth(test.user, "checked by the listener")
		}
		w := httptest.NewRecorder()
		c.handler(test.lifecycle, "ann").ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) || (c.noted == "ann: on it") != (test.status == 201) {
			t.Errorf("%s: %d, %q\n%s", name, w.Code, c.noted, w.Body)
		}
	}
}

// TestNoteIsRefusedByAnExporterWithoutPasswords: nobody could know who wrote it, whatever name the request has.
func TestNoteIsRefusedByAnExporterWithoutPasswords(t *testing.T) {
	c := newChronicle()
	for name, h := range map[string]http.Handler{
		"no users": c.handler(true), "no web configuration": web.New(c, web.Options{Log: slog.New(slog.DiscardHandler), Lifecycle: true}),
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/incidents/20260501-00000001/notes",
			strings.NewReader(`{"text":"on it"}`))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("ann", "checked by nobody")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(), "this exporter has no password: set basic_auth_users in the file of --web.config.file") ||
			c.noted != "" {
			t.Errorf("%s: %d, %q\n%s", name, w.Code, c.noted, w.Body)
		}
	}
}

func TestIncidentListLeavesOutDetails(t *testing.T) {
	var list struct{ Incidents []map[string]any }
	must(t, json.Unmarshal(fetch(t, newChronicle().handler(false), "/api/v1/incidents").body, &list))
	if len(list.Incidents) != 2 {
		t.Fatalf("got %v", list)
	}
	var one map[string]any
	must(t, json.Unmarshal(fetch(t, newChronicle().handler(false), "/api/v1/incidents/20260501-00000002").body, &one))
	for _, key := range []string{"timeline", "problems", "notes"} {
		if list.Incidents[1][key] != nil || one[key] == nil {
			t.Errorf("%s: in the list %v, in the incident %v", key, list.Incidents[1][key], one[key])
		}
	}
	if one["links"] != nil || list.Incidents[1]["links"] != nil {
		t.Error("the API shows the links of the log")
	}
}

// TestCalendarIsFoldedAndEscaped reads the calendar as RFC 5545 describes it; internal/e2e/feeds does so with a library.
func TestCalendarIsFoldedAndEscaped(t *testing.T) {
	c := &chronicle{maintenance: []maintenance.Entry{
		{
			Kind:   "target",
			Name:   hostile,
			From:   fixedNoon,
			Until:  fixedNoon.Add(time.Hour),
			Reason: strings.Repeat("añ,b;c\\ ", 30) + hostile,
			Source: maintenance.FromConfig,
		},
	}}
	got := fetch(t, c.handler(false), "/maintenance.ics")
	if got.Header.Get("Content-Type") != "text/calendar; charset=utf-8" {
		t.Errorf("content type %q", got.Header.Get("Content-Type"))
	}
	body := string(got.body)
	for line := range strings.SplitSeq(body, "\r\n") {
		if len(line) > 75 || strings.ContainsAny(line, "\n\r\x01") {
			t.Errorf("bad line %q", line)
		}
	}
	lines := strings.Split(strings.ReplaceAll(body, "\r\n ", ""), "\r\n")
	plain := strings.ReplaceAll(hostile, "\x01", "")
	escaped := strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`).Replace(strings.Repeat("añ,b;c\\ ", 30) + plain)
	for _, want := range []string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "DTSTART:20260501T120000Z", "DTEND:20260501T130000Z", "DESCRIPTION:" + escaped, "END:VCALENDAR",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the calendar lacks %q:\n%s", want, body)
		}
	}
	if again := fetch(t, c.handler(false), "/maintenance.ics"); string(again.body) != body {
		t.Error("an unchanged calendar differs")
	}
}
