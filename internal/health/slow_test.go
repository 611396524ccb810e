package health

import (
	"testing"
	"time"
)

// slowWorld has a target x that may take 3 s, with a reading every 30 s.
func slowWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.target("x").Slow = 3 * time.Second
	w.take(time.Second, 2)
	w.want()
	return w
}

// take makes readings of x that take so long.
func (w *world) take(took time.Duration, readings int) {
	w.t.Helper()
	for range readings {
		w.now = w.now.Add(30 * time.Second)
		w.target("x").Took = took
		w.look()
	}
}

func TestSuccessfulReadingsThatTakeLongAreAProblem(t *testing.T) {
	w := slowWorld(t)
	w.take(9*time.Second, 1)
	w.want()
	w.take(9*time.Second, 20)
	w.want("x TargetSlow pending 10m0s")
	w.take(9*time.Second, 1)
	w.want("x TargetSlow warning 10m30s")
	if len(w.last.Values) != 1 || w.last.Values[0].Number != 9 {
		t.Errorf("values %+v, want 9 s", w.last.Values)
	}
	w.take(3*time.Second, 1)
	w.want()
	w.take(3*time.Second+time.Microsecond, 30)
	w.want("x TargetSlow warning 14m30s")
}

func TestTimeLimitOfATargetMayBeOff(t *testing.T) {
	w := slowWorld(t)
	w.take(9*time.Second, 30)
	w.want("x TargetSlow warning 14m30s")
	w.target("x").Slow = 0
	w.take(9*time.Second, 1)
	w.want()
}

// TestOneSlowReadingIsNone: it counts only once however often it is judged.
func TestOneSlowReadingIsNone(t *testing.T) {
	w := slowWorld(t)
	w.target("x").Took, w.target("x").ReadAt = 9*time.Second, w.now
	w.pass(time.Hour)
	w.want()
}

func TestFailedReadingSaysNothingAboutSlowness(t *testing.T) {
	w := slowWorld(t)
	w.take(9*time.Second, 30)
	w.target("x").Up = false
	w.take(10*time.Second, 2)
	w.want("x TargetDown pending 30s", "x TargetSlow warning 15m30s unknown")
	w.target("x").Up = true
	w.take(9*time.Second, 1)
	w.want("x TargetSlow warning 16m0s")
	w.target("x").Up = false
	w.take(10*time.Second, 8)
	w.want("x TargetDown warning 3m30s")
	w.target("x").Up, w.target("x").Read = true, false
	w.take(0, 1)
	w.want("x TargetDown warning 4m0s unknown")
}

func TestSlownessOutlivesARestart(t *testing.T) {
	w := slowWorld(t)
	w.take(9*time.Second, 30)
	w.restart(true)
	w.target("x").Read = false
	w.look()
	w.want("x TargetSlow warning 14m30s unknown")
	w.target("x").Read = true
	w.take(9*time.Second, 1)
	w.want("x TargetSlow warning 15m0s")
}

// TestSlowBridgeIsNoSlowTarget: its own alert says it.
func TestSlowBridgeIsNoSlowTarget(t *testing.T) {
	w := slowWorld(t)
	w.target("x").be("relay")
	w.setCondition("x", Condition{Alert: AlertBridgeSlow, Of: "irc to xmpp", Holds: true})
	w.take(9*time.Second, 30)
	for _, p := range w.last.Problems {
		if p.Alert == AlertTargetSlow {
			t.Errorf("it is slow too: %+v", p)
		}
	}
	w.setCondition("x", Condition{Alert: AlertBridgeSlow, Of: "irc to xmpp"})
	w.take(9*time.Second, 30)
	w.want("x TargetSlow warning 29m30s")
}

func TestSlownessIsExcusedByWhatServesTheTarget(t *testing.T) {
	w := slowWorld(t)
	w.container("c").Health = Starting
	w.target("x").Container = "c"
	w.take(9*time.Second, 4)
	w.want("x TargetSlow pending 1m30s starting(c)")
}
