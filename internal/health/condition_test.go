package health

import (
	"testing"
	"time"
)

// TestFailedReadingEndsNoCondition holds that every condition stays for a quarter of an hour of which nothing is heard.
func TestFailedReadingEndsNoCondition(t *testing.T) {
	conditions := []Condition{
		{Alert: AlertComponentDisconnected, Of: "a", Holds: true},
		{Alert: AlertComponentDisconnected, Of: "b", Holds: true},
		{Alert: AlertChainInvalid, Of: "a", Holds: true},
		{Alert: AlertOrphans},
	}
	begin := func() *world {
		w := newWorld(t)
		w.target("x").Conditions = conditions
		w.pass(15 * time.Minute)
		return w
	}
	want := []string{
		"x XMPPComponentDisconnected critical 30m0s unknown", "x XMPPComponentDisconnected critical 30m0s unknown", "x TLSChainInvalid warning 30m0s unknown",
	}
	w := begin()
	if got := len(w.last.Conditions); got != 4 {
		t.Errorf("%d verdicts on conditions, want 4", got)
	}
	w.target("x").Read = false
	w.pass(unreadFor)
	w.want(want...)
	if got := len(w.last.Conditions); got != 3 {
		t.Errorf("%d verdicts on conditions that nobody has read, want those 3 that hold", got)
	}
	w.pass(time.Second)
	w.want()

	w = begin()
	w.target("x").Up = false
	w.target("x").Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "b", Holds: true}}
	w.now = w.now.Add(10 * time.Second)
	w.look()
	w.want("x TargetDown pending 0s", "x XMPPComponentDisconnected critical 15m10s", "x TLSChainInvalid warning 15m10s unknown")
	if got := len(w.last.Conditions); got != 2 {
		t.Errorf("%d verdicts on conditions, want 2", got)
	}
}
