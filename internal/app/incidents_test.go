package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// kills is how often the program is killed while its targets flap.
var kills = flag.Int("app.kills", 5, "how often TestFlappingIncidentsOutliveKills kills the program; .ci/nightly does so 200 times")

// quickAlerts make a target's outage critical at once.
const quickAlerts = "alerts:\n  target_down:\n    warning: {for: 1s}\n    critical: {for: 1s}\n"

// incidentsOf are the incidents of the API.
func (e *exporter) incidentsOf(t *testing.T) (list []incident.Incident) {
	t.Helper()
	code, body := e.exchange(t, http.MethodGet, "/api/v1/incidents", "")
	var answer struct{ Incidents []incident.Incident }
	if err := json.Unmarshal(body, &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v in %s", code, err, body)
	}
	return answer.Incidents
}

// TestIncidentIsServedAsDescribed has a target that is down for six minutes, with nobody looking, and a note.
func TestIncidentIsServedAsDescribed(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		web := filepath.Join(t.TempDir(), "web.yml")
		rewrite(t, web, "basic_auth_users:\n  alice: "+ownPortBcrypt+"\n")
		e, _ := startWithFile(t, nil, oneTarget, func(o *Options) {
			lifecycle(o)
			o.Web.WebConfigFile = &web
		})
		e.url = strings.Replace(e.url, "://", "://alice:"+ownPortPassword+"@", 1)
		d := describe(t, e)
		begun := time.Now()
		time.Sleep(20 * time.Minute)
		list := e.incidentsOf(t)
		if len(list) != 1 || list[0].State != incident.Open || list[0].Title != "IRC services are down" ||
			list[0].Began.Sub(begun) > time.Second || !list[0].BeganAtLeast {
			t.Fatalf("got %+v", list)
		}
		path := "/api/v1/incidents/" + list[0].ID
		code, body := e.exchange(t, http.MethodPost, path+"/notes", `{"text": "The disk was full."}`)
		if code != http.StatusCreated || !strings.Contains(string(body), "The disk was full.") {
			t.Errorf("note: %d\n%s", code, body)
		}
		d.hold(t, schemaOf("/api/v1/incidents/{id}/notes", "post", "201"), body)
		for path, described := range map[string]string{"/api/v1/incidents": "/api/v1/incidents", path: "/api/v1/incidents/{id}"} {
			_, body := e.exchange(t, http.MethodGet, path, "")
			d.hold(t, schemaOf(described, "get", "200"), body)
		}
		for text, want := range map[string]int{`{"text": ""}`: 400, `{"text": "` + strings.Repeat("é", 2001) + `"}`: 400} {
			if code, body := e.exchange(t, http.MethodPost, path+"/notes", text); code != want {
				t.Errorf("%.40s: %d %s, want %d", text, code, body, want)
			}
		}
		if code, _ := e.exchange(t, http.MethodPost, "/api/v1/incidents/x/notes", `{"text": "x"}`); code != http.StatusNotFound {
			t.Errorf("unknown incident: %d", code)
		}
		for path, want := range map[string]string{
			"/":                        "IRC services are down",
			"/incidents":               "IRC services are down",
			"/incidents/" + list[0].ID: "The disk was full.",
			"/incidents.atom":          "The disk was full.",
		} {
			says(t, path, string(e.get(t, path, nil).body), want)
		}
		says(t, "the log", e.log.String(), `msg="incident has begun"`)
	})
}

// TestIncidentsOutliveKills kills the program at random moments of outages that come and go. Afterwards, each incident that was
// closed, and each open one as of the poll before, is still there.
func TestIncidentsOutliveKills(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	dir := directoryWith(t, "state_file: state.json\n"+quickAlerts+"targets: [{kind: http, name: web, url: '"+server.URL+"'}]\n")
	closed := closedIncident(t, dir)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it is to be repeated
	id := ""
	for range 6 {
		p := startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=1s", "--poll.timeout=1s")
		e := exporterOf(t, p)
		down.Store(true)
		e.wait(t, "an incident lasts", func(page) bool {
			list := e.incidentsOf(t)
			return list[0].State == incident.Open
		})
		list := e.incidentsOf(t)
		if id == "" {
			id = list[0].ID
		}
		if len(list) != 2 || list[0].ID != id || list[1].ID != closed.ID || !sameIncident(t, brief(list[1]), brief(closed)) {
			t.Fatalf("got %+v, want %s and %s", list, id, closed.ID)
		}
		if random.IntN(2) == 0 {
			down.Store(false)
			e.wait(t, "the outage is over, or up between outages", func(p page) bool {
				flaps := p.Samples("chatstack_target_recent_outages", "target", "web")
				return p.AllUp() && (len(flaps) > 0 || e.incidentsOf(t)[0].State == incident.Watching)
			})
		}
		for range random.IntN(5) { // a kill at some moment of the polls
			e.scrape(t)
		}
		seen := e.incidentsOf(t)[0]
		must(t, p.Process.Kill())
		<-p.Ended
		shown := slices.Collect(restored(t, dir))
		if len(shown) != 2 || shown[0].ID != id && shown[1].ID != id {
			t.Fatalf("after the kill, the file has %+v", shown)
		}
		for _, i := range shown {
			switch was := i.Outages[0]; {
			case i.ID == closed.ID:
				if !sameIncident(t, i, &closed) {
					t.Errorf("the closed incident is now %+v", i)
				}
			case !i.Began.Equal(seen.Began) || i.State != seen.State || i.Updated.Before(seen.Updated) ||
				!was.Since.Equal(seen.Outages[0].Since) || !was.Until.Equal(seen.Outages[0].Until):
				t.Errorf("a poll before the kill, it was %+v; the file has %+v", seen, i)
			}
		}
	}
}

// TestFlappingIncidentsOutliveKills kills the program at random moments while five targets fail at every other probe, after an outage. What
// the API had shown right before is in the file: each closed incident as it was, each other one as it was or later.
func TestFlappingIncidentsOutliveKills(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	var asked atomic.Uint64
	var flaps atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)/5%2 == 0 || !flaps.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	text := "state_file: state.json\n" + quickAlerts + "targets:\n"
	for n := range 5 {
		text += fmt.Sprintf("  - {kind: http, name: web%d, url: '%s'}\n", n, server.URL)
	}
	dir := directoryWith(t, text)
	closed := closedIncidents(t, dir, 50)
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // it is to be repeated
	open := 0
	for n := range *kills {
		p := startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=1s", "--poll.timeout=1s")
		e := exporterOf(t, p)
		if n == 0 {
			e.wait(t, "an incident is open", func(page) bool { return len(e.incidentsOf(t)) > len(closed) })
			flaps.Store(true)
		}
		for range random.IntN(40) { // the time of a kill is that of some requests
			e.scrape(t)
		}
		seen := e.incidentsOf(t)
		must(t, p.Process.Kill())
		<-p.Ended
		kept := map[string]*incident.Incident{}
		for i := range restored(t, dir) {
			kept[i.ID] = i
		}
		for _, i := range seen {
			got := kept[i.ID]
			if was := closed[i.ID]; got == nil || got.Updated.Before(i.Updated) || was != nil && !sameIncident(t, got, was) {
				t.Fatalf("kill %d: %+v was shown, the file has %+v", n, i, got)
			}
			if i.Lasts() {
				open++
			}
		}
		if len(seen) < len(closed) {
			t.Fatalf("kill %d: %d incidents are shown, want at least %d", n, len(seen), len(closed))
		}
	}
	t.Logf("%d kills: %d closed incidents, and %d times an open one", *kills, len(closed), open)
}

// closedIncidents writes incidents into the state file, by their ids.
func closedIncidents(t *testing.T, dir string, n int) map[string]*incident.Incident {
	t.Helper()
	f, p := openPast(t, filepath.Join(dir, "state.json"))
	all := map[string]*incident.Incident{}
	for k := range n {
		at := time.Now().Add(-time.Duration(k+1) * time.Hour).UTC().Truncate(time.Millisecond)
		i := &incident.Incident{
			ID:      fmt.Sprintf("closed-%d", k),
			Title:   "it was down",
			State:   incident.Closed,
			Began:   at,
			Opened:  at,
			Ended:   at,
			Closed:  at,
			Updated: at,
		}
		all[i.ID] = i
		p.file.Add(record{Incident: i})
	}
	must(t, f.Close())
	return all
}

// TestIncidentsAreKept90Days holds that an old incident vanishes from the pages although nothing else happens.
func TestIncidentsAreKept90Days(t *testing.T) {
	k, at := newPast(nil), time.Now()
	memory, _, err := state.Open("", slog.New(slog.DiscardHandler), k)
	must(t, err)
	must(t, k.log.Restore(&incident.Incident{
		ID:      "old",
		State:   incident.Closed,
		Began:   at,
		Ended:   at,
		Closed:  at,
		Updated: at,
	}))
	k.begin(memory)
	for _, after := range []time.Duration{0, time.Hour} {
		now := health.Milli(at.Add(incident.Retention + after).UnixMilli())
		k.observe(&health.Judgement{Round: health.Round{Tick: health.Tick{From: now, To: now}}})
		must(t, k.flush())
		if n := len(*k.listed.Load()); (n == 1) != (after == 0) {
			t.Errorf("%d incidents %s after the 90 days", n, after)
		}
	}
}

// brief is an incident without what the list of the API leaves out.
func brief(i incident.Incident) *incident.Incident {
	i.Problems, i.Timeline, i.Notes, i.Links = nil, nil, nil, nil
	return &i
}

// sameIncident compares everything that is known of two incidents.
func sameIncident(t *testing.T, a, b *incident.Incident) bool {
	t.Helper()
	one, err := json.Marshal(a)
	must(t, err)
	other, err := json.Marshal(b)
	must(t, err)
	return string(one) == string(other)
}

// closedIncident writes an incident of yesterday into the state file, as the log of a former process had it.
func closedIncident(t *testing.T, dir string) incident.Incident {
	t.Helper()
	at := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Millisecond)
	f, p := openPast(t, filepath.Join(dir, "state.json"))
	round := func(later time.Duration, events ...health.Event) {
		now := health.Milli(at.Add(later).UnixMilli())
		p.observe(&health.Judgement{Round: health.Round{Tick: health.Tick{From: now, To: now}, Events: events}})
	}
	down := health.Event{
		At:       health.Milli(at.UnixMilli()),
		Of:       health.Key(health.TargetSubject("old")),
		Alert:    health.AlertTargetDown,
		Severity: health.Critical,
		Since:    health.Milli(at.UnixMilli()),
	}
	round(0, down)
	down.At, down.Ended = down.At.Add(time.Minute), true
	round(time.Minute, down)
	round(2 * incident.QuietPeriod)
	i := *p.log.All()[0]
	if i.State != incident.Closed || i.Outages[0].Seconds != 60 {
		t.Fatalf("got %+v", i)
	}
	must(t, f.Close())
	return i
}

// restored are the incidents that a new process would read.
func restored(t *testing.T, dir string) func(func(*incident.Incident) bool) {
	t.Helper()
	_, p := keptAt(t, filepath.Join(dir, "state.json"))
	return slices.Values(p.log.All())
}
