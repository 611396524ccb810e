package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// TestListKeepsWhatOnlyADescriptionHas applies a list to a described container and to another one.
func TestListKeepsWhatOnlyADescriptionHas(t *testing.T) {
	only := limits{memoryLimit: 7, dependsOn: "db", networkOf: "vpn"}
	old := &Status{id: "1", limits: only, Checks: Checks{streak: 3}}
	for id, want := range map[string]*Status{"1": {id: "1", limits: only, Checks: Checks{streak: 3}}, "2": {id: "2"}} {
		got := Status{id: id}
		if got.fillFrom(old); got != *want {
			t.Errorf("of 1, to %s: got %+v, want %+v", id, got, *want)
		}
	}
}

// TestOnlyAPartialListShowsOverdueEvents applies lists with two changes that had no event.
func TestOnlyAPartialListShowsOverdueEvents(t *testing.T) {
	for _, full := range []bool{true, false} {
		for _, following := range []bool{true, false} {
			f := play(t, "run 1 irc; run 2 xmpp; read all; lost; die 1 1; remove 2")
			f.read(full, following)
			if got := len(f.fleet.overdueEvents) == 2; got != (following && !full) || !got && len(f.fleet.overdueEvents) > 0 {
				t.Errorf("full: %t, with events: %t: overdue: %v", full, following, f.fleet.overdueEvents)
			}
		}
	}
}

// tell sends an event of the moment, of a container that the engine need not have.
func (f *fleetTest) tell(action events.Action, id, name string) (inspect bool) {
	return f.fleet.ApplyEvent(&events.Message{
		Action:   action,
		Actor:    events.Actor{ID: id, Attributes: map[string]string{"name": name}},
		TimeNano: f.now.UnixNano(),
	}, f.now)
}

func TestOnlyWatchedContainersThatExistAreInspected(t *testing.T) {
	f := play(t, "set exclude=other; run 1 irc")
	paused, other, removed := f.tell(events.ActionPause, "1", "irc"), f.tell(events.ActionPause, "2", "other"),
		f.tell(events.ActionDestroy, "1", "irc")
	if !paused || other || removed {
		t.Errorf("inspected: one that is paused: %t, one that is not watched: %t, one that was removed: %t", paused, other, removed)
	}
	if id := strings.Repeat("a", 1<<20); f.tell(events.ActionStart, id, "a") || f.fleet.lastEventMark[id] > 0 || len(f.fleet.pending) > 0 {
		t.Error("an id of a mebibyte is remembered")
	}
}

// TestListRemovesOnlyMissingContainers applies a list that is older than the last event of some containers.
func TestListRemovesOnlyMissingContainers(t *testing.T) {
	f := play(t, "run here irc; run late xmpp; lost; make new bridge")
	f.tell(events.ActionCreate, "new", "new")
	f.tell(events.ActionCreate, "gone", "gone")
	mark, all := f.fleet.mark, f.list()
	f.tell(events.ActionPause, "late", "late")
	f.tell(events.ActionCreate, "newer", "newer")
	all = slices.DeleteFunc(all, func(l container.Summary) bool { return l.ID == "late" })
	f.fleet.removeMissing(&Listing{All: all, Chosen: all, Mark: mark}, f.now)
	for id, there := range map[string]bool{"here": true, "late": true, "new": true, "newer": true, "gone": false} {
		remembered, pending := f.fleet.lastEventMark[id] > 0, f.fleet.pending[id] != nil
		if remembered != there || pending != strings.HasPrefix(id, "new") {
			t.Errorf("%s: its last event is remembered: %t, it is about to be described: %t", id, remembered, pending)
		}
	}
	if !f.fleet.members["irc"].present || !f.fleet.members["xmpp"].present {
		t.Error("one that is there is not there any more")
	}
}

func TestUnhealthyTimeBelongsToOneRun(t *testing.T) {
	now, before := portOpened.Add(time.Hour), portOpened.Add(time.Minute)
	for name, tt := range map[string]struct{ id, health string }{
		"the same run":         {"1", container.Unhealthy},
		"another container":    {"2", container.Unhealthy},
		"one that was healthy": {"1", container.Healthy},
	} {
		s := Status{id: "1", Checks: Checks{Health: container.Unhealthy}}
		s.refineUnhealthySince(&Status{id: tt.id, Checks: Checks{Health: tt.health, UnhealthySince: before}}, now)
		if sameRun := name == "the same run"; s.UnhealthySince.Equal(before) != sameRun || !sameRun && !s.UnhealthySince.Equal(now) {
			t.Errorf("%s: since %s", name, s.UnhealthySince)
		}
	}
}

func TestTimeThatNeverWasIsZero(t *testing.T) {
	for _, text := range []string{"", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "yesterday"} {
		if got := ParseTime(text); !got.IsZero() {
			t.Errorf("%q: got %s", text, got)
		}
	}
}

// TestStateOfEarlierVersionsIsRead holds the keys of the state file: a key by another name would lose counters at an upgrade.
func TestStateOfEarlierVersionsIsRead(t *testing.T) {
	const kept = `{"host":"unix:///var/run/docker.sock","labels":["a=b"],"containers":{"chat-irc-1":{"id":"1",` +
		`"starts":{"starts":4,"started":"2026-01-02T03:04:05Z","policy":3,"heard":2,"heard_last":"2026-01-02T03:04:06Z"},` +
		`"ooms":{"count":5,"settled":"2026-01-02T03:04:07Z"},"born":true,"restarts_before":6,"ooms_before":7,"recreations":8,` +
		`"expected":true,"by_hand":true,"renamed_from":"old","renamed_at":"2026-01-02T03:04:08Z","set_aside":true,` +
		`"gone":"2026-01-02T03:04:09Z","removed":true,"blind":true,"depends_on":"xmpp:service_healthy:false","network_of":"net",` +
		`"role":"irc","project":"chat","service":"irc","image":"chat/irc:1"}}}`
	var m Memory
	d := json.NewDecoder(strings.NewReader(kept))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	c := Member{Record: m.Containers["chat-irc-1"]}
	if got, want := c.counts(), (Counts{Restarts: 9, Recreations: 8, OOMs: 12}); got != want {
		t.Errorf("counters: got %+v, want %+v", got, want)
	}
	if got, err := json.Marshal(m); err != nil || string(got) != kept {
		t.Errorf("kept again: got %s, %v\nwant %s", got, err, kept)
	}
}

// TestMemoryIsASnapshot changes a fleet whose memory is saved meanwhile.
func TestMemoryIsASnapshot(t *testing.T) {
	encode := func(m Memory) string {
		content, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	f := play(t, `set role=chat-web-3:web_irc; run 1 chat-web-1 service=web; run 2 chat-web-2 service=web
		read all; pass 1h; die 1 137; read`)
	m := f.fleet.Memory()
	before := encode(m)
	f.play("pass 1m; start 1; read; remove 2; run 3 chat-web-3 service=web; read")
	if after := encode(m); before != after {
		t.Errorf("before %s\nafter %s", before, after)
	}
	f.fleet.Restore(m, f.now)
	f.play("remove 1; read")
	if after := encode(m); before != after {
		t.Errorf("before %s\nafter it was restored %s", before, after)
	}
}

func TestNotesSayWhatIsMissing(t *testing.T) {
	const (
		first   = "run 1 chat-web-1 service=web; read all; pass 1h; "
		second  = "run 2 chat-web-2 service=web; read; "
		replace = first + second + "remove 1; read; pass 24h; read; read"
	)
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"a rollout":          {first + second + "stop 1; remove 1; read; pass 5m; read", nil},
		"a stopped instance": {first + second + "kill 1 9; die 1 137; read; pass 5m; read", nil},
		"expected by name":   {"set expected=chat-web-1; " + replace, nil},
		"role by name":       {"set role=chat-web-1:irc; " + replace, nil},
		"a swarm's old task": {"run 1 app.1.x swarm=app policy=no; read all; die 1 1; run 2 app.1.y swarm=app policy=no; read", nil},
		"one of two":         {first + second + "pass 1h; read; die 1 137; read", []string{"chat-web-1 is exited, exit code 137"}},
		"one of two, removed": {
			"set expected=chat-web-1 expected=chat-web-2; " + first + second + "remove 1; pass 5m; read", []string{"chat-web-1 is missing"},
		},
		"a container alone": {first + "remove 1; pass 5m; read", []string{"chat-web-1 is missing"}},
		"never seen":        {"set expected=irc role=irc:irc; read", []string{"expected lists irc, but no such container exists"}},
		"a role for nobody": {"set role=irc:irc; read", []string{"roles lists irc, but no such container exists"}},
	} {
		f := play(t, tt.script)
		if got := f.fleet.Notes(f.now).Lines; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
