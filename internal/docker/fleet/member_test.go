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

func TestOnlyAnExpectedContainerGoneForLongIsMissing(t *testing.T) {
	now := portOpened
	f := New(defaultRules())
	after := f.rules.MissingAfter
	for _, tt := range []struct {
		name         string
		here, wanted bool
		gone         time.Duration
		want         bool
	}{
		{
			"here",
			true,
			true,
			time.Hour,
			false,
		},
		{
			"gone for too short a time",
			false,
			true,
			after - 1,
			false,
		},
		{
			"gone",
			false,
			true,
			after,
			true,
		},
		{
			"gone, and not expected",
			false,
			false,
			time.Hour,
			false,
		},
	} {
		c := &Member{}
		c.present, c.Expected, c.GoneSince = tt.here, tt.wanted, now.Add(-tt.gone)
		if got := f.missing(c, now); got != tt.want {
			t.Errorf("%s: missing: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestListKeepsWhatOnlyADescriptionHas applies a list to a described container and to another one.
func TestListKeepsWhatOnlyADescriptionHas(t *testing.T) {
	old := &Status{
		id:      "1",
		Created: portOpened,
		limits:  limits{memoryLimit: 7, dependsOn: "db", networkOf: "vpn"},
		Checks:  Checks{streak: 3},
	}
	same := &Status{id: "1"}
	same.fillFrom(old)
	if !same.Created.Equal(old.Created) || same.memoryLimit != 7 || same.streak != 3 || same.dependsOn != "db" || same.networkOf != "vpn" {
		t.Errorf("got %+v, want what was known", same)
	}
	other := &Status{id: "2"}
	other.fillFrom(old)
	if other.memoryLimit != 0 || other.streak != 0 || other.dependsOn != "" || other.networkOf != "" {
		t.Errorf("got %+v, want nothing of another container's", other)
	}
}

// TestOnlyAPartialListShowsOverdueEvents applies lists with changes that had no event.
func TestOnlyAPartialListShowsOverdueEvents(t *testing.T) {
	for _, tt := range []struct {
		name            string
		full, following bool
		want            int
	}{
		{
			"a full one",
			true,
			true,
			0,
		},
		{
			"without events",
			false,
			false,
			0,
		},
		{
			"a full one without events",
			true,
			false,
			0,
		},
		{
			"one that events should have been before",
			false,
			true,
			2,
		},
	} {
		f := play(t, "run 1 irc; run 2 xmpp; read all; lost; die 1 1; remove 2")
		f.read(tt.full, tt.following)
		if got := len(f.fleet.overdueEvents); got != tt.want {
			t.Errorf("%s: %d overdue events, want %d", tt.name, got, tt.want)
		}
	}
}

func TestEventsWithoutInspection(t *testing.T) {
	f := play(t, "set exclude=other; run 1 irc")
	tell := func(action events.Action, id, name string) bool {
		return f.fleet.ApplyEvent(&events.Message{
			Action:   action,
			Actor:    events.Actor{ID: id, Attributes: map[string]string{"name": name}},
			TimeNano: f.now.UnixNano(),
		}, f.now)
	}
	if !tell(events.ActionPause, "1", "irc") {
		t.Error("one that is watched and paused is not inspected")
	}
	if tell(events.ActionPause, "2", "other") {
		t.Error("one that is not watched is inspected")
	}
	if tell(events.ActionDestroy, "1", "irc") {
		t.Error("one that was removed is inspected")
	}
}

// TestOneForgottenCheckMakesAnEstimate has the engine keep all failing checks but the first.
func TestOneForgottenCheckMakesAnEstimate(t *testing.T) {
	const interval = 10 * time.Second
	f := play(t, "run 1 irc; pass 1h")
	for _, tt := range []struct {
		streak    int
		estimated bool
	}{{5, false}, {6, true}} {
		f.failChecks(interval, tt.streak)
		s, err := StatusOf(clone(t, f.containers["1"]), f.fleet.rules)
		if err != nil {
			t.Fatal(err)
		}
		want := f.now.Add(-4 * interval)
		if tt.estimated {
			want = want.Add(-interval)
		}
		if !s.UnhealthySince.Equal(want) || s.estimated != tt.estimated {
			t.Errorf("%d checks have failed: since %s, estimated %t; want %s, %t",
				tt.streak, s.UnhealthySince, s.estimated, want, tt.estimated)
		}
	}
}

func TestProblemOfAnEndedContainer(t *testing.T) {
	for code, want := range map[int]string{0: "", 1: "irc is exited, exit code 1"} {
		s := Status{Name: "irc", Run: Run{State: container.StateExited, Stopped: true, ExitCode: code}}
		if got := s.problem(); got != want {
			t.Errorf("exit code %d: got %q, want %q", code, got, want)
		}
	}
}

// TestListRemovesOnlyMissingContainers applies a list that is older than the last event of some containers.
func TestListRemovesOnlyMissingContainers(t *testing.T) {
	f := play(t, "run here irc; run late xmpp; lost")
	tell := func(id string, action events.Action) {
		f.fleet.ApplyEvent(&events.Message{
			Action:   action,
			Actor:    events.Actor{ID: id, Attributes: map[string]string{"name": id}},
			TimeNano: f.now.UnixNano(),
		}, f.now)
	}
	f.play("make new bridge")
	tell("new", events.ActionCreate)
	tell("gone", events.ActionCreate)
	mark, all := f.fleet.mark, f.list()
	all = slices.DeleteFunc(all, func(l container.Summary) bool { return l.ID == "late" || l.ID == "newer" })
	tell("late", events.ActionPause)
	tell("newer", events.ActionCreate)
	f.fleet.removeMissing(&Listing{
		All:       all,
		Chosen:    all,
		Mark:      mark,
		Following: true,
	}, f.now)
	for _, id := range []string{"here", "late", "new", "newer"} {
		if f.fleet.lastEventMark[id] == 0 {
			t.Errorf("the last event of %s is forgotten", id)
		}
	}
	if f.fleet.pending["new"] == nil || f.fleet.pending["newer"] == nil {
		t.Error("one that is about to be described is forgotten")
	}
	if !f.fleet.members["irc"].present || !f.fleet.members["xmpp"].present {
		t.Error("one that is there is not there any more")
	}
	if f.fleet.pending["gone"] != nil || f.fleet.lastEventMark["gone"] != 0 {
		t.Error("one that is not there is remembered")
	}
}

func TestUnhealthyTimeBelongsToOneRun(t *testing.T) {
	now := portOpened.Add(time.Hour)
	unhealthy := func(id string, since time.Time) Status {
		return Status{id: id, Checks: Checks{Health: container.Unhealthy, UnhealthySince: since}, Run: Run{Started: portOpened}}
	}
	before := portOpened.Add(time.Minute)
	healthy := unhealthy("1", time.Time{})
	healthy.Health = container.Healthy
	wrong := healthy
	wrong.UnhealthySince = before
	for _, tt := range []struct {
		name string
		old  Status
		want time.Time
	}{
		{"the same run", unhealthy("1", before), before},
		{"another container", unhealthy("2", before), now},
		{"one that was healthy", healthy, now},
		{"one that was healthy, whatever is said of before", wrong, now},
	} {
		s := unhealthy("1", time.Time{})
		s.refineUnhealthySince(&tt.old, now)
		if !s.UnhealthySince.Equal(tt.want) {
			t.Errorf("%s: since %s, want %s", tt.name, s.UnhealthySince, tt.want)
		}
	}
}

func TestTimeThatNeverWasIsZero(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "0001-01-01T00:00:00Z": 0, "1970-01-01T00:00:00Z": 0, "yesterday": 0, "2026-01-02T03:04:05Z": 1767323045,
	} {
		got := ParseTime(text)
		if none := want == 0; got.IsZero() != none || !none && got.Unix() != want {
			t.Errorf("%q: got %s, want %d s since the epoch, and none for 0", text, got, want)
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
