package incident

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// acknowledgements are those of an incident's timeline.
func acknowledgements(i *Incident) (texts []string) {
	for n := range i.Timeline {
		if i.Timeline[n].Kind == EventAcknowledged {
			texts = append(texts, i.Timeline[n].Text)
		}
	}
	return texts
}

func TestNewestAcknowledgementWinsAndTheTimelineHasBoth(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	id := w.newest().ID
	for _, by := range []string{" ann ", "bob"} {
		w.pass(time.Minute)
		i, err := w.wrote(w.log.Acknowledge(w.Now, id, by, "ann"))
		if err != nil || i.Acknowledged != (Acknowledgement{w.Now, strings.TrimSpace(by)}) || !i.Updated.Equal(w.Now) {
			t.Fatalf("%s: %+v, %v", by, i, err)
		}
	}
	w.restart(time.Minute)
	w.target("lone").Up = true
	w.pass(time.Hour)
	got := w.newest()
	if texts := strings.Join(acknowledgements(got), "; "); got.Acknowledged.By != "bob" ||
		texts != "acknowledged by ann; acknowledged by bob (sent by the user ann)" {
		t.Errorf("after a restart: %+v, %s", got.Acknowledged, texts)
	}
	if _, err := w.wrote(w.log.Acknowledge(w.Now, id, "ann", "")); !errors.Is(err, ErrClosed) || w.newest().Acknowledged.By != "bob" {
		t.Errorf("a closed incident: %v, %+v", err, w.newest().Acknowledged)
	}
}

func TestAcknowledgementsAreChecked(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	for name, c := range map[string]struct {
		by      string
		unknown bool
		want    error
	}{
		"longest":       {by: strings.Repeat("é", 100)},
		"empty":         {by: " \t", want: ErrInvalid},
		"too long":      {by: strings.Repeat("é", 101), want: ErrInvalid},
		"control":       {by: "a\x1b[31m", want: ErrInvalid},
		"two lines":     {by: "a\nb", want: ErrInvalid},
		"direction":     {by: "a\u202eb", want: ErrInvalid},
		"invalid UTF-8": {by: "a\xff", want: ErrInvalid},
		"unknown":       {by: "ann", unknown: true, want: ErrUnknown},
	} {
		id := w.newest().ID
		if c.unknown {
			id += "0"
		}
		if _, err := w.wrote(w.log.Acknowledge(w.Now, id, c.by, "")); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if got := acknowledgements(w.newest()); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// TestMergedIncidentKeepsItsAcknowledgement has two incidents that turn out to be one, each acknowledged before.
func TestMergedIncidentKeepsItsAcknowledgement(t *testing.T) {
	w := newWorld(t)
	w.target("web2").Container = ""
	w.target("web").Up = false
	w.pass(time.Minute)
	w.target("web2").Up = false
	w.pass(6 * time.Minute)
	younger, older := w.log.All()[0].ID, w.log.All()[1].ID
	for n, id := range []string{older, younger} {
		if _, err := w.wrote(w.log.Acknowledge(w.Now.Add(time.Duration(n)*time.Second), id, "of "+id, "")); err != nil {
			t.Fatal(err)
		}
	}
	w.target("web2").Container = "web"
	w.pass(time.Minute)
	if got := w.log.All()[1]; got.Acknowledged.By != "of "+younger || len(acknowledgements(got)) != 2 {
		t.Errorf("after the merge: %+v, %q", got.Acknowledged, acknowledgements(got))
	}
	if i, err := w.wrote(w.log.Acknowledge(w.Now, younger, "ann", "")); err != nil || i.ID != older || i.Acknowledged.By != "ann" {
		t.Errorf("the merged one's id leads to %+v, %v", i, err)
	}
}

// TestUnwatchedIsNotFixed has a target that leaves the configuration, and a container that the exporter is told to forget.
func TestUnwatchedIsNotFixed(t *testing.T) {
	for name, remove := range map[string]func(w *world){
		"target": func(w *world) { w.Targets = w.Targets[:len(w.Targets)-1] },
		"container": func(w *world) {
			list := w.Engines[0].Containers
			w.Engines[0].Containers = append(list[:0:0], list[:len(list)-1]...)
		},
	} {
		for _, fixed := range []bool{false, true} {
			w := newWorld(t)
			w.Engines[0].Containers = append(w.Engines[0].Containers, health.Container{
				Host:     "local",
				Name:     "extra",
				State:    health.Running,
				Expected: true,
			})
			w.pass(time.Minute)
			if name == "target" {
				w.target("lone").Up = false
			} else {
				w.container("extra").State = "exited"
			}
			w.pass(10 * time.Minute)
			if fixed {
				w.target("lone").Up, w.container("extra").State = true, health.Running
				w.pass(time.Minute)
			}
			remove(w)
			w.pass(time.Minute)
			i := w.newest()
			kind := map[bool]string{true: EventEnded, false: EventUnwatched}[fixed]
			last := i.Timeline[len(i.Timeline)-1]
			if i.State != Watching || i.Unwatched == fixed || i.Problems[0].Unwatched == fixed || last.Kind != kind {
				t.Errorf("%s, fixed: %t: got %+v", name, fixed, i)
			}
			if w.pass(time.Hour); w.newest().State != Closed || w.newest().Unwatched == fixed {
				t.Errorf("%s, fixed: %t: an hour later %+v", name, fixed, w.newest())
			}
		}
	}
}

// TestReturnedTargetIsWatchedAgain has a target that leaves the configuration by mistake.
func TestReturnedTargetIsWatchedAgain(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	lone := *w.target("lone")
	w.Targets = w.Targets[:len(w.Targets)-1]
	w.pass(time.Minute)
	w.Targets = append(w.Targets, lone)
	w.pass(time.Minute)
	if i := w.newest(); i.State != Open || i.Unwatched || i.Problems[0].Unwatched {
		t.Errorf("it is back: %+v", i)
	}
	w.target("lone").Up = true
	w.pass(time.Hour)
	if i := w.newest(); i.State != Closed || i.Unwatched {
		t.Errorf("it is fixed: %+v", i)
	}
}

// TestImpactIsTheWorstThatWasSeen and stays when all is over.
func TestImpactIsTheWorstThatWasSeen(t *testing.T) {
	w := newWorld(t)
	w.target("web").Up = false
	w.pass(6 * time.Minute)
	w.target("web2").Up = false
	w.pass(time.Minute)
	w.target("web2").Up = true
	w.pass(time.Minute)
	w.target("web").Up = true
	if w.pass(time.Hour); w.newest().Impact != "web2" {
		t.Errorf("got %q", w.newest().Impact)
	}
}
