package fleet

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// TestConditionsAreBounded has containers that say of themselves, hundreds of times, that they wait for all of the others.
func TestConditionsAreBounded(t *testing.T) {
	f := New(defaultRules())
	label := strings.TrimSuffix(strings.Repeat("s:service_healthy,", MaxDependsOn/18), ",")
	for i := range 200 {
		b := plainContainer(fmt.Sprintf("c%04d", i), map[string]string{ComposeProject: "p", ComposeService: "s", ComposeDepends: label})
		b.State = &container.State{Status: container.StateCreated}
		s, err := StatusOf(&b, f.rules)
		if err != nil {
			t.Fatal(err)
		}
		f.Describe(s, 0, time.Time{}, portOpened)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.Report(portOpened)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 {
		t.Errorf("what %d containers wait for took %d MiB", len(f.members), took)
	}
}

func TestIDsOfEventsAreBounded(t *testing.T) {
	f := New(defaultRules())
	id := strings.Repeat("a", 1<<20)
	e := &events.Message{Action: events.ActionStart, TimeNano: 1, Actor: events.Actor{ID: id, Attributes: map[string]string{"name": "a"}}}
	if f.ApplyEvent(e, portOpened) || len(f.lastEventMark) > 0 || len(f.pending) > 0 {
		t.Error("an id of a mebibyte is remembered")
	}
}
