package health

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// TestFailedReadingEndsNoCondition holds that every condition stays of which nothing is heard, for hours, and says when it was known. An
// alert that compares the series ends with that.
func TestFailedReadingEndsNoCondition(t *testing.T) {
	conditions := []Condition{
		{Alert: AlertComponentDisconnected, Of: "a", Holds: true},
		{Alert: AlertComponentDisconnected, Of: "b", Holds: true},
		{Alert: AlertChainInvalid, Of: "a", Holds: true},
		{Alert: AlertOrphans},
		{Alert: AlertVolumeUsage, Used: 0.97},
	}
	begin := func() *world {
		w := newWorld(t)
		w.target("x").Conditions = conditions
		w.pass(15 * time.Minute)
		return w
	}
	want := []string{
		"x XMPPComponentDisconnected critical 30m0s unknown", "x XMPPComponentDisconnected critical 30m0s unknown",
		"x TLSChainInvalid warning 30m0s unknown",
	}
	full := "x DataVolumeUsage critical 30m0s unknown"
	w := begin()
	if got := len(w.last.Conditions); got != 4 {
		t.Errorf("%d verdicts on conditions, want 4", got)
	}
	w.target("x").Read = false
	read := w.now
	w.pass(unreadGrace)
	w.want(append(want, full)...)
	if got := len(w.last.Conditions); got != 3 {
		t.Errorf("%d verdicts on conditions that nobody has read, want those 3 that hold", got)
	}
	w.pass(8 * time.Hour)
	w.want(strings.Split(strings.ReplaceAll(strings.Join(want, "\n"), " 30m0s", " 8h30m0s"), "\n")...)
	if p, _ := w.problem("x", AlertChainInvalid); !p.LastKnown.Equal(read) {
		t.Errorf("last known at %s, want %s", p.LastKnown, read)
	}
	w.target("x").Read, w.target("x").Conditions = true, nil
	w.look()
	w.want()

	w = begin()
	w.target("x").Up = false
	w.target("x").Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "b", Holds: true}}
	w.now = w.now.Add(10 * time.Second)
	w.look()
	w.want("x TargetDown pending 0s", "x XMPPComponentDisconnected critical 15m10s", "x TLSChainInvalid warning 15m10s unknown",
		"x DataVolumeUsage critical 15m10s unknown")
	if got := len(w.last.Conditions); got != 2 {
		t.Errorf("%d verdicts on conditions, want 2", got)
	}
}

// TestConditionThatIsNewMayBeOlder holds that the first reading that has an opinion on something tells not since when.
func TestConditionThatIsNewMayBeOlder(t *testing.T) {
	w := newWorld(t)
	w.target("x").Conditions = []Condition{{Alert: AlertChainInvalid, Of: "a"}, {Alert: AlertSeriesDropped, Of: "c"}}
	w.look()
	w.target("x").Conditions = []Condition{
		{Alert: AlertChainInvalid, Of: "a", Holds: true},
		{Alert: AlertChainInvalid, Of: "b", Holds: true},
		{Alert: AlertOrphans, Of: "c", Holds: true},
	}
	w.look()
	got := map[string]bool{}
	for _, p := range w.last.Problems {
		got[p.Of] = p.AtLeast
	}
	if want := map[string]bool{"a": false, "b": true, "c": true}; !maps.Equal(got, want) {
		t.Errorf("may have begun earlier: %v, want %v", got, want)
	}
}
