package health

import (
	"testing"
	"time"
)

// TestNextJudgementIsDueWhenAThresholdIsPassed judges only when it is due.
func TestNextJudgementIsDueWhenAThresholdIsPassed(t *testing.T) {
	w := stack(t)
	due := func(after time.Duration, want ...string) {
		t.Helper()
		if w.last.Next != after {
			t.Fatalf("next after %s, want %s", w.last.Next, after)
		}
		w.now = w.now.Add(w.last.Next)
		w.look()
		w.want(want...)
	}
	if w.last.Next != 0 {
		t.Errorf("next after %s although all is well", w.last.Next)
	}
	w.container("web").Health, w.target("web").Up = Starting, false
	w.look()
	if want := 5*time.Minute + minDuration; w.last.Next != want {
		t.Errorf("next after %s, want %s, when what starts excuses no longer", w.last.Next, want)
	}
	w.container("web").Health, w.target("web").Up = "healthy", true
	w.container("db").State = "exited"
	w.container("api").Health = Starting
	w.container("api").DependsOn = nil
	w.target("api").Up = false
	w.look()
	due(time.Minute+time.Millisecond, "db ContainerDown warning 1m0s", "api TargetDown pending 1m0s starting(api)")
	due(4*time.Minute, "db ContainerDown critical 5m0s", "api TargetDown critical 5m0s also(api)")
	if w.last.Next != 0 {
		t.Errorf("next after %s although all is told", w.last.Next)
	}
}
