package app

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

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
		e, _ := startWithFile(t, nil, oneTarget, lifecycle)
		d := describe(t, e)
		begun := time.Now()
		time.Sleep(20 * time.Minute)
		list := e.incidentsOf(t)
		if len(list) != 1 || list[0].State != incident.Open || list[0].Title != "IRC services are down" || list[0].Began.Sub(begun) > time.Second || !list[0].BeganAtLeast {
			t.Fatalf("got %+v", list)
		}
		path := "/api/v1/incidents/" + list[0].ID
		code, body := e.exchange(t, http.MethodPost, path+"/notes", `{"author": "Ann", "text": "The disk was full."}`)
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
		for path, want := range map[string]string{"/": "IRC services are down", "/incidents": "IRC services are down", "/incidents/" + list[0].ID: "The disk was full.", "/incidents.atom": "The disk was full."} {
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
		if len(list) != 2 || list[0].ID != id || list[1].ID != closed.ID || !list[1].Closed.Equal(closed.Closed) {
			t.Fatalf("got %+v, want %s and %s", list, id, closed.ID)
		}
		if random.IntN(2) == 0 {
			down.Store(false)
			e.wait(t, "the outage is over", func(page) bool { return e.incidentsOf(t)[0].State == incident.Watching })
		}
		for range random.IntN(5) { // a kill at some moment of the polls
			e.scrape(t)
		}
		must(t, p.Process.Kill())
		<-p.Ended
		shown := slices.Collect(restored(t, dir))
		if len(shown) != 2 || shown[0].ID != id && shown[1].ID != id {
			t.Fatalf("after the kill, the file has %+v", shown)
		}
	}
}

// closedIncident writes an incident of yesterday into the history file, as a former process did.
func closedIncident(t *testing.T, dir string) incident.Incident {
	t.Helper()
	at := time.Now().Add(-24 * time.Hour).UTC()
	i := incident.Incident{ID: "old", Title: "old", State: incident.Closed, Began: at, Opened: at, Ended: at, Closed: at, Updated: at}
	r, err := state.NewRecord("incident", i)
	must(t, err)
	j, _ := state.OpenJournal(filepath.Join(dir, "state.json"+historySuffix), func(state.Record) error { return nil })
	must(t, j.Append(r))
	must(t, j.Close())
	return i
}

// restored are the incidents that a new process would read.
func restored(t *testing.T, dir string) func(func(*incident.Incident) bool) {
	t.Helper()
	var log incident.Log
	j, notice := state.OpenJournal(filepath.Join(dir, "state.json"+historySuffix), func(r state.Record) error {
		if r.Kind != "incident" {
			return nil
		}
		return log.Restore(r.Data)
	})
	must(t, j.Close())
	if notice != "" {
		t.Error(notice)
	}
	return slices.Values(log.All())
}
