package app

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// TestPastOfAnEarlierVersionGoesOn has the files of a version that kept incidents whole, and times without events of problems: an incident
// of a problem that lasts, one of a problem that has ended meanwhile, one that is closed, and hours.
func TestPastOfAnEarlierVersionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "state.json")
		now := time.Now().UTC()
		hour, at := now.UnixMilli()/3600000, func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339Nano) }
		history1 := "chatstack_exporter history 1\n"
		put := func(kind, format string, args ...any) {
			line := kind + " " + fmt.Sprintf(format, args...)
			history1 += fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(line)), line)
		}
		end := now.Add(-time.Minute).UnixMilli()
		put("availability", `{"span":{"from":%d,"to":%d}}`, end-30000, end-30000)
		put("availability", `{"subject":{"of":"service/web","state":"up","hours":[[%d,600000,0,0,0]],"days":[[%d,600000,0,0,0]],`+
			`"hour_latency":[[%d,3,10,20,45]]}}`, hour-1, (hour-1)/24, hour-1)
		put("availability", `{"span":{"from":%d,"to":%d,"changes":[{"of":"service/web","state":"down","at":%d}],`+
			`"latency":{"service/web":[1,7,7,7]}}}`, end-30000, end, end-10000)
		incidentOf := func(id, state, target string, more string) {
			put("incident", `{"id":%q,"title":"%s is down","state":%q,"severity":"critical","cause":{"kind":"target","name":%q},`+
				`"began":%q,"opened":%q,"updated":%q,"problems":[{"kind":"target","name":%q,"alert":"TargetDown","text":"%s is `+
				`down","severity":"critical",`+
				`"since":%q%s}],"outages":[],"timeline":[],"timeline_dropped":[1],"notes":[]}`,
				id, target, state, target, at(time.Hour), at(time.Hour), at(time.Hour), target, target, at(time.Hour), more)
		}
		incidentOf("lasts", "open", "web", "")
		incidentOf("ended", "open", "chat", "")
		incidentOf("closed", "closed", "old", fmt.Sprintf(`,"cleared":%q,"last_event":%q`, at(50*time.Minute), at(50*time.Minute)))
		problem := fmt.Sprintf(`{"kind":"target","name":"web","alert":"TargetDown","since":%q,"told":"critical"}`, at(time.Hour))
		must(t, os.WriteFile(path+".history", []byte(history1), 0o600))
		object := fmt.Sprintf(`{"version":1,"values":{"problems":{"saved":%q,"problems":[%s]}}}`, at(time.Minute), problem)
		must(t, os.WriteFile(path, []byte(object), 0o600))

		w := &watching{t: t, path: path}
		log := slog.New(slog.DiscardHandler)
		w.past = newPast(log)
		f, notice, err := state.Open(path, log, w.past)
		must(t, err)
		defer f.Close() //nolint:errcheck // it is only read
		if w.past.begin(f); notice != "" {
			t.Error(notice)
		}
		register, err := maintenance.New(f.Value("maintenance"), log)
		must(t, err)
		settings := alerts.Defaults()
		w.judge = newJudge(alerts.Rules(&settings), register, f, w.past, log)
		w.facts.Targets = []health.Target{{Name: "web", Read: true}, {Name: "chat", Read: true, Up: true}}
		w.goOn(15*time.Minute, 30*time.Second, 30*time.Second, func(_ int, target *health.Target) { target.Up = target.Name == "chat" })
		states := map[string]string{}
		for _, i := range w.past.log.All() {
			states[i.ID] = i.State
		}
		want := map[string]string{"lasts": incident.Open, "ended": incident.Closed, "closed": incident.Closed}
		if !maps.Equal(states, want) {
			raw, _ := json.Marshal(w.past.log.All())
			t.Errorf("got %s", raw)
		}
		r := w.past.history.Report(time.Now())
		web := r.Subjects[1].Windows[0]
		if web.Spent[history.Up] != 10*time.Minute+20*time.Second || web.Latency == nil || web.Latency.Count != 4 {
			t.Errorf("got %+v", web)
		}
		raw, err := os.ReadFile(path)
		must(t, err)
		if !strings.HasPrefix(string(raw), "chatstack_exporter state 2\n") {
			t.Errorf("the file begins with %.60q", raw)
		}
		_, again := keptAt(t, path)
		if len(again.log.All()) != 3 || len(again.history.Report(time.Now()).Subjects) != 2 {
			t.Errorf("%d incidents are kept", len(again.log.All()))
		}
	})
}
