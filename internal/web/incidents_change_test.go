package web_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

const openID, closedID, mergedID = "20260501-00000001", "20260501-00000002", "20260501-00000003"

// acknowledging is a chronicle with an open incident, a closed one, and one that the open one continues.
func acknowledging() *chronicle {
	c := newChronicle()
	c.incidents[0] = newIncident(openID, incident.Open, "first", time.Now().Add(-time.Hour))
	c.incidents[2].MergedInto = openID
	return c
}

// program is a request of a program.
type program struct {
	user, path, body string
	header           map[string]string
	local, noType    bool
}

func (p program) send(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, p.path, strings.NewReader(p.body))
	if p.local {
		r = r.WithContext(web.AsLocal(r.Context()))
	}
	if !p.noType {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range p.header {
		r.Header.Set(name, value)
	}
	if p.user != "" {
		r.SetBasicAuth(p.user, "checked by the listener")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func acknowledgement(id string) string { return "/api/v1/incidents/" + id + "/acknowledgement" }

// TestAcknowledgementIsAllowedAsANote also from a local user, who needs neither the flag nor a password.
func TestAcknowledgementIsAllowedAsANote(t *testing.T) {
	for name, c := range map[string]struct {
		program
		locked, open bool // without lifecycle; without passwords
		status       int
		want, said   string
	}{
		"the user": {
			program: program{user: "ann", noType: true},
			status:  200,
			want:    `"by": "ann"`,
			said:    "ann (ann)",
		},
		"somebody else": {
			program: program{user: "ann", body: `{"as": "Bob"}`},
			status:  200,
			want:    "disk is full",
			said:    "Bob (ann)",
		},
		"a merged one": {
			program: program{user: "ann", path: acknowledgement(mergedID)},
			status:  200,
			want:    openID,
			said:    "ann (ann)",
		},
		"locally": {
			program: program{local: true, body: `{"as": "Bob"}`},
			locked:  true,
			open:    true,
			status:  200,
			said:    "Bob ()",
		},
		"locally, nobody": {
			program: program{local: true},
			locked:  true,
			status:  400,
			want:    "the name is empty",
		},
		"locally, by page": {program: program{local: true, header: map[string]string{"Origin": "http://x"}}, status: 403, want: "site"},
		"no lifecycle": {
			program: program{user: "ann"},
			locked:  true,
			status:  403,
			want:    "--web.enable-lifecycle",
		},
		"no passwords": {
			program: program{user: "ann"},
			open:    true,
			status:  403,
			want:    "nobody may acknowledge an incident",
		},
		"nobody":       {program: program{}, status: 403, want: "only a user with a password"},
		"unknown user": {program: program{user: "eve"}, status: 403, want: "only a user with a password"},
		"a browser": {
			program: program{user: "ann", header: map[string]string{"Sec-Fetch-Site": "same-origin"}},
			status:  403,
			want:    "refused for web pages",
		},
		"another site": {
			program: program{user: "ann", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
			status:  403,
			want:    "from another site",
		},
		"unknown":      {program: program{user: "ann", path: acknowledgement("x")}, status: 404, want: "unknown incident"},
		"closed":       {program: program{user: "ann", path: acknowledgement(closedID)}, status: 409, want: "is over"},
		"empty name":   {program: program{user: "ann", body: `{"as": ""}`}, status: 400, want: "the name is empty"},
		"another key":  {program: program{user: "ann", body: `{"by": "x"}`}, status: 400, want: `unknown key \"by\"; known keys: as`},
		"a list":       {program: program{user: "ann", body: `[]`}, status: 400, want: "not an acknowledgement"},
		"a form":       {program: program{user: "ann", body: `as=x`, noType: true}, status: 415, want: "application/json"},
		"a long body":  {program: program{user: "ann", body: `{"as": "` + strings.Repeat("x", 5000) + `"}`}, status: 413, want: "4096"},
		"too far away": {program: program{user: "ann", path: acknowledgement("..%2f..")}, status: 404},
	} {
		if c.path == "" {
			c.path = acknowledgement(openID)
		}
		var users []string
		if !c.open {
			users = []string{"ann"}
		}
		source := acknowledging()
		w := c.send(t, source.handler(!c.locked, users...))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || source.said != c.said {
			t.Errorf("%s: %d, %q\n%.500s", name, w.Code, source.said, w.Body)
		}
	}
}

// submit sends a form of alice to the page of an incident, nil for a GET.
func submitTo(t *testing.T, h http.Handler, id string, form url.Values) reply {
	t.Helper()
	return visit{user: "alice", path: "/incidents/" + id, form: form}.send(t, h)
}

func TestIncidentIsAcknowledgedOnItsPage(t *testing.T) {
	c := acknowledging()
	h := c.handler(true, "alice")
	page := submitTo(t, h, openID, nil)
	holds(t, string(page.body), `name="as" value="alice"`, `name="text"`)
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") {
		t.Errorf("policy %s", policy)
	}
	token := tokenIn(t, page.body)
	for _, id := range []string{openID, mergedID} {
		c.said = ""
		answer := submitTo(t, h, id, url.Values{"token": {token}, "as": {"Ann"}, "acknowledge": {"yes"}})
		to, outcome, _ := strings.Cut(answer.Header.Get("Location"), "?")
		if answer.StatusCode != http.StatusSeeOther || to != openID || c.said != "Ann (alice)" {
			t.Fatalf("%s: %d, %s, %q\n%s", id, answer.StatusCode, answer.Header.Get("Location"), c.said, answer.body)
		}
		holds(t, string(visit{user: "alice", path: "/incidents/" + to, query: "?" + outcome}.send(t, h).body),
			"You have acknowledged the incident.", "the disk is full", "<b>Ann</b> is on it: acknowledged")
	}
	if answer := submitTo(t, h, openID, url.Values{"token": {token}, "text": {"The disk was full."}, "note": {"yes"}}); answer.StatusCode !=
		http.StatusSeeOther || c.noted != "alice: The disk was full." {
		t.Errorf("note: %d, %q", answer.StatusCode, c.noted)
	}
	if page := submitTo(t, h, closedID, nil); strings.Contains(string(page.body), `name="as"`) ||
		!strings.Contains(string(page.body), `name="text"`) {
		t.Errorf("a closed incident has the form of an open one:\n%s", page.body)
	}
	holds(t, string(fetch(t, acknowledging().handler(true), "/incidents/"+openID).body), "basic_auth_users",
		"<code>chatstack_exporter ack "+openID+"</code>")
}

// tokenIn is the token of a page's forms.
func tokenIn(t *testing.T, page []byte) string {
	t.Helper()
	m := regexp.MustCompile(`name="token" value="([0-9a-f]{64})"`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("no form:\n%s", page)
	}
	return string(m[1])
}

// TestIncidentPageRefuses everything but a form of its own, as the page of maintenance does, and keeps what was typed.
func TestIncidentPageRefuses(t *testing.T) {
	good := url.Values{"as": {"Ann"}, "acknowledge": {"yes"}}
	for name, c := range map[string]struct {
		visit
		noToken bool
		status  int
		want    string
	}{
		"nobody":       {visit: visit{form: good}, status: 403, want: "Only a user with a password"},
		"another user": {visit: visit{user: "bob", form: good}, status: 403, want: "Send it again from here"},
		"unknown user": {visit: visit{user: "eve", form: good}, status: 403, want: "Only a user with a password"},
		"no token": {
			visit:   visit{user: "alice", form: good},
			noToken: true,
			status:  403,
			want:    "Send it again from here",
		},
		"another site": {
			visit:  visit{user: "alice", form: good, header: map[string]string{"Origin": "https://evil.example"}},
			status: 403,
			want:   "from another site",
		},
		"an opaque origin": {
			visit:  visit{user: "alice", form: good, header: map[string]string{"Origin": "null"}},
			status: 403,
			want:   "from another site",
		},
		"no name": {
			visit:  visit{user: "alice", form: url.Values{"as": {" "}, "acknowledge": {"yes"}}},
			status: 400,
			want:   "Correct the form",
		},
		"closed": {
			visit:  visit{user: "alice", path: "/incidents/" + closedID, form: url.Values{"as": {"<Ann>"}, "acknowledge": {"yes"}}},
			status: 409,
			want:   "The incident is over.",
		},
		"unknown":   {visit: visit{user: "alice", path: "/incidents/x", form: good}, status: 404, want: "unknown incident"},
		"long note": {visit: visit{user: "alice", form: url.Values{"text": {strings.Repeat("x", 40_000)}}}, status: 413, want: "too long"},
	} {
		source := acknowledging()
		h := source.handler(true, "alice", "bob")
		if c.path == "" {
			c.path = "/incidents/" + openID
		}
		form := maps.Clone(c.form)
		if !c.noToken {
			form.Set("token", tokenIn(t, submitTo(t, h, openID, nil).body))
		}
		c.form = form
		got := c.send(t, h)
		if got.StatusCode != c.status || !strings.Contains(string(got.body), c.want) || source.said != "" || source.noted != "" {
			t.Errorf("%s: %d, %q, %q\n%s", name, got.StatusCode, source.said, source.noted, got.body)
		}
		if strings.Contains(string(got.body), "<Ann>") {
			t.Errorf("%s: markup in the page", name)
		}
	}
}

// TestAcknowledgementIsShownEverywhere but on the line of an incident that is over.
func TestAcknowledgementIsShownEverywhere(t *testing.T) {
	for _, state := range []string{incident.Open, incident.Closed} {
		i := newIncident(openID, state, "web", time.Now().Add(-time.Hour))
		i.Acknowledged = incident.Acknowledgement{Time: fixedNoon, By: "Ann <b>"}
		h := (&chronicle{incidents: []*incident.Incident{i}}).handler(false)
		const name = "Ann &lt;b&gt;"
		verb := map[string]string{incident.Open: " is on it", incident.Closed: " was on it"}[state]
		for path, want := range map[string]string{
			"/": "; " + name + verb, "/incidents": "; " + name + verb, "/incidents/" + openID: "<b>" + name + "</b>" + verb,
			"/incidents.atom": html.EscapeString("<b>" + name + "</b>" + verb),
		} {
			listed := !strings.Contains(path, openID) && !strings.Contains(path, "atom")
			if got := string(fetch(t, h, path).body); strings.Contains(got, want) == (listed && state == incident.Closed) {
				t.Errorf("%s, %s: %q in\n%s", state, path, want, got)
			}
		}
		for _, path := range []string{"/api/v1/incidents", "/api/v1/incidents/" + openID} {
			got := fetch(t, h, path).body
			var one struct {
				incident.Incident
				Incidents []incident.Incident
			}
			must(t, json.Unmarshal(got, &one))
			if a := append(one.Incidents, one.Incident)[0].Acknowledged; a != i.Acknowledged {
				t.Errorf("%s: %+v", path, a)
			}
		}
	}
}

// TestIncidentSaysItsImpactFirst, then the severity, and the times with their zone.
func TestIncidentSaysItsImpactFirst(t *testing.T) {
	i := newIncident(closedID, incident.Closed, "web", fixedNoon)
	i.Impact = "The web IRC client does not open."
	h := (&chronicle{incidents: []*incident.Incident{i}}).handler(false)
	_, page, _ := strings.Cut(string(fetch(t, h, "/incidents/"+closedID).body), "</h1>")
	at := 0
	for _, want := range []string{
		"<b>Impact while it lasted:</b> The web IRC client does not open.", "over after 20 min", "Severity: <b>critical</b>",
		`Began: <time class="zoned" datetime="2026-05-01T12:00:00Z">1 May 2026 12:00:00 UTC`, "Ended: <time", "Outage of web: 20 min",
		`href="../runbooks/TargetDown"`,
	} {
		next := strings.Index(page[at:], want)
		if next < 0 {
			t.Fatalf("%q is missing or too early:\n%s", want, page)
		}
		at += next
	}
	feed := string(fetch(t, h, "/incidents.atom").body)
	holds(t, feed, `<content type="html">&lt;p&gt;&lt;b&gt;Impact while it lasted:`, `href=&#34;runbooks/TargetDown`)
}

// TestNoLongerWatchedIsNotCalledFixed on the page, in lists, the feed and the API.
func TestNoLongerWatchedIsNotCalledFixed(t *testing.T) {
	i := newIncident(closedID, incident.Closed, "web", fixedNoon)
	i.Unwatched, i.Problems[0].Unwatched = true, true
	h := (&chronicle{incidents: []*incident.Incident{i}}).handler(false)
	for path, wants := range map[string][]string{
		"/incidents": {"no longer watched after 20 min", `<li class="moment unknown">`},
		"/incidents/" + closedID: {
			"This incident is no longer watched after 20 min.", "Not watched since: <time", "nobody has seen it fixed",
			"Outage of web: 20 min, then no longer watched",
		},
		"/incidents.atom":               {"<title>No longer watched: web is down</title>"},
		"/api/v1/incidents":             {`"no_longer_watched": true`},
		"/api/v1/incidents/" + closedID: {`"no_longer_watched": true`},
	} {
		got := string(fetch(t, h, path).body)
		holds(t, got, wants...)
		if strings.Contains(got, "Fixed") || strings.Contains(got, "over after") || strings.Contains(got, "Ended:") {
			t.Errorf("%s says that it is fixed:\n%s", path, got)
		}
	}
}

// TestIncidentsShowWhatIsOpenNow has a problem that is no incident yet, and one that is part of an incident.
func TestIncidentsShowWhatIsOpenNow(t *testing.T) {
	r := emptyReport()
	r.Services = []status.Service{{ServiceState: status.ServiceState{Name: "irc_services", Kind: "irc_services"}}}
	problem := func(name string, severity health.Severity) status.Problem {
		return status.Problem{
			Problem: health.Problem{
				Subject:  health.TargetSubject(name),
				Alert:    health.AlertTargetDown,
				Severity: severity,
				Since:    time.Now().Add(-3 * time.Minute),
			},
			Text: "nothing listens there",
		}
	}
	r.Problems = []status.Problem{problem("first", health.Critical), problem("irc_services", health.Pending)}
	c := acknowledging()
	c.report, c.incidents[0].Problems[0].Of = r, ""
	c.incidents = append(c.incidents, newIncident("lasts", incident.Watching, "old", time.Now().Add(-9000*time.Hour)))
	page := string(fetch(t, c.handler(false), "/incidents").body)
	_, open, _ := strings.Cut(page, "Open now")
	open, over, _ := strings.Cut(open, ">Over<")
	holds(t, open, `href="./#service%3airc_services">IRC services</a>`, "nothing listens there; for 3 min, no incident yet",
		"incidents/"+openID, "incidents/lasts")
	holds(t, over, "incidents/"+closedID)
	if strings.Contains(open, "#service%3afirst") || strings.Contains(open, closedID) {
		t.Errorf("what is an incident is listed twice, or what is over:\n%s", open)
	}
	var list struct{ Problems []struct{ Name string } }
	must(t, json.Unmarshal(fetch(t, c.handler(false), "/api/v1/incidents").body, &list))
	if len(list.Problems) != 1 || list.Problems[0].Name != "irc_services" {
		t.Errorf("the API lists %+v", list.Problems)
	}
	for range 100 {
		r.Problems = append(r.Problems, problem(fmt.Sprint("more-", len(r.Problems)), health.Warning))
	}
	page = string(fetch(t, c.handler(false), "/incidents").body)
	if n := strings.Count(page, ", no incident yet"); n != 10 || !strings.Contains(page, "91 more problems belong to no incident yet.") {
		t.Errorf("%d problems are listed:\n%s", n, page)
	}
}

// TestIncidentsHavePagesUnder60Kilobytes with 500 incidents of long names, whichever last.
func TestIncidentsHavePagesUnder60Kilobytes(t *testing.T) {
	for name, lasts := range map[string]int{"none": 0, "some": 70, "all": 500} {
		c, seen := &chronicle{report: faultyReport(30)}, map[string]bool{}
		for n := range 100 {
			subject := health.ContainerSubject("local", fmt.Sprint(n, strings.Repeat("ü", 250)))
			c.report.Problems = append(c.report.Problems, status.Problem{
				Problem: health.Problem{Subject: subject, Alert: "ContainerDown"},
				Text:    strings.Repeat("is not running: ", 100),
			})
		}
		for n := range 500 {
			state := incident.Closed
			if n >= 500-lasts {
				state = incident.Open
			}
			began := time.Now().Add(-time.Duration(n+1) * time.Hour)
			i := newIncident(fmt.Sprintf("20260501-%08x", n), state, strings.Repeat(`é"`, 127), began)
			i.Acknowledged.By = strings.Repeat("ü", 100)
			c.incidents = append(c.incidents, i)
		}
		h, largest := c.handler(false), 0
		for page := 1; page <= 10; page++ {
			got := fetch(t, h, fmt.Sprintf("/incidents?page=%d", page))
			ids := regexp.MustCompile(`href="incidents/([0-9a-f-]+)"`).FindAllStringSubmatch(string(got.body), -1)
			for _, id := range ids {
				seen[id[1]] = true
			}
			largest = max(largest, len(got.body))
			if got.StatusCode != http.StatusOK || len(ids) != 50 {
				t.Errorf("%s, page %d: %d with %d incidents", name, page, got.StatusCode, len(ids))
			}
			if newer, older := strings.Contains(string(got.body), `rel="prev"`), strings.Contains(string(got.body),
				`rel="next"`); newer != (page > 1) || older != (page < 10) {
				t.Errorf("%s, page %d: links to newer %t and older %t", name, page, newer, older)
			}
		}
		t.Logf("%s last: the largest page has %d bytes", name, largest)
		if len(seen) != 500 || largest >= 60_000 {
			t.Errorf("%s: %d incidents, the largest page has %d bytes", name, len(seen), largest)
		}
		for _, page := range []string{"0", "11", "-1", "x", "1e3", "99999999999999999999"} {
			if got := fetch(t, h, "/incidents?page="+page); got.StatusCode != http.StatusNotFound {
				t.Errorf("page %s: %d", page, got.StatusCode)
			}
		}
	}
}

// remembering is a chronicle that still knows the charts and probes of a target.
type remembering struct {
	*chronicle

	began time.Time
}

func (r remembering) Chart(name string) (status.History, bool) {
	return shown{report: r.Report()}.Chart(name)
}

func (r remembering) History(target string) (poll.History, bool) {
	failed := func(after time.Duration, text string) poll.Reading {
		at := r.began.Add(after)
		return poll.Reading{
			Time:   at.Add(time.Minute),
			First:  at,
			Count:  3,
			Reason: failure.Refused,
			Error:  text,
		}
	}
	failures := []poll.Reading{failed(time.Minute, "dial tcp: refused"), failed(-2*time.Hour, "long before")}
	return poll.History{Failures: failures}, target == "web"
}

// TestIncidentHasChartsAndProbesOfItsTime and nothing of other times, or of what is no longer watched.
func TestIncidentHasChartsAndProbesOfItsTime(t *testing.T) {
	r := emptyReport()
	r.Services = []status.Service{{
		ServiceState: status.ServiceState{Name: "web", Kind: "http"},
		Shown:        status.Shown{Charts: []string{"seconds:its answer", "bytes:its page", "bytes:one too many"}},
	}}
	pageOf := func(ago time.Duration, name string) string {
		began := time.Now().Add(-ago)
		c := &chronicle{report: r, incidents: []*incident.Incident{newIncident(openID, incident.Closed, name, began)}}
		h := web.New(remembering{c, began}, web.Options{Log: slog.New(slog.DiscardHandler)})
		return string(fetch(t, h, "/incidents/"+openID).body)
	}
	page := pageOf(2*time.Hour, "web")
	holds(t, page, "Charts and probes of that time", `<rect class="during"`, "its answer around the incident, lowest",
		"refused: dial tcp: refused", ", 3 times until <time", `href="../debug/targets/web"`)
	if strings.Contains(page, "long before") || strings.Contains(page, "one too many") || strings.Count(page, "<path d=") != 2 {
		t.Errorf("the page has more than that time:\n%s", page)
	}
	if page := pageOf(3*24*time.Hour, "web"); strings.Contains(page, `class="chart"`) || !strings.Contains(page, "../debug/targets/web") {
		t.Errorf("three days later:\n%s", page)
	}
	if page := pageOf(2*time.Hour, "gone"); strings.Contains(page, "Charts and probes") {
		t.Errorf("of a target that is no longer watched:\n%s", page)
	}
}

// TestAcknowledgementUpdatesItsFeedEntry, so that readers hear of it.
func TestAcknowledgementUpdatesItsFeedEntry(t *testing.T) {
	c := acknowledging()
	read := func() string {
		var feed struct {
			Entries []struct {
				Content string `xml:"content"`
			} `xml:"entry"`
		}
		must(t, xml.Unmarshal(fetch(t, c.handler(false), "/incidents.atom").body, &feed))
		return feed.Entries[0].Content
	}
	if before := read(); strings.Contains(before, "is on it") {
		t.Errorf("before: %s", before)
	}
	i := c.incidents[0]
	i.Acknowledged, i.Updated = incident.Acknowledgement{Time: fixedNoon, By: "Ann"}, time.Now()
	i.Timeline = append(i.Timeline, incident.Event{Time: fixedNoon, Kind: incident.EventAcknowledged, Text: "acknowledged by Ann"})
	holds(t, read(), "<b>Ann</b> is on it", "acknowledged by Ann")
}
