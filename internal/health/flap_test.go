package health

import (
	"fmt"
	"testing"
	"time"
)

// outages has the target x down and up again, so often.
func (w *world) outages(times int, down, up time.Duration) {
	w.t.Helper()
	for range times {
		w.target("x").Up = false
		w.pass(down)
		w.target("x").Up = true
		w.pass(up)
	}
}

// flapping is a world whose target x has been down twice, for 3 minutes each.
func flapping(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.target("x")
	w.pass(time.Minute)
	w.outages(2, 3*time.Minute, 6*time.Minute)
	w.want()
	return w
}

func TestThirdOutageWithin90MinutesIsOneAlertUntilItIsCalm(t *testing.T) {
	w := flapping(t)
	w.target("x").Up = false
	w.pass(2 * time.Minute)
	w.want("x TargetDown pending 2m0s")
	w.pass(10 * time.Second)
	w.want("x TargetDown warning 20m10s")
	if p := w.last.Problems[0]; p.Outages != 3 || p.UpAgain {
		t.Errorf("%d outages, up again %t, want the third of them", p.Outages, p.UpAgain)
	}
	w.target("x").Up = true
	w.pass(15 * time.Minute)
	w.want("x TargetDown warning 35m10s")
	p, v := w.last.Problems[0], w.last.Verdicts[TargetSubject("x")]
	if p.Outages != 3 || !p.UpAgain || v.Outages != 3 || v.Calm != 15*time.Minute || !v.WarnOnly {
		t.Errorf("problem %+v, verdict %+v, want three outages, and calm for 15 minutes", p, v)
	}
	w.pass(10 * time.Second)
	w.want()
}

// TestJudgementOfWhatFlapsIsDueWhenItIsCalm: nothing else may happen until then.
func TestJudgementOfWhatFlapsIsDueWhenItIsCalm(t *testing.T) {
	w := flapping(t)
	w.outages(1, 3*time.Minute, 14*time.Minute)
	if w.last.Next != time.Minute+minDuration {
		t.Errorf("the next judgement is due in %s, want 1m", w.last.Next)
	}
}

func TestOutagesAreOneAlertOfTheirHighestSeverity(t *testing.T) {
	w := newWorld(t)
	w.target("x")
	w.pass(time.Minute)
	w.outages(1, 6*time.Minute, 6*time.Minute)
	w.outages(1, 3*time.Minute, 6*time.Minute)
	w.target("x").Up = false
	w.pass(130 * time.Second)
	w.want("x TargetDown critical 23m10s")
	w.target("x").Up = true
	w.pass(time.Minute)
	w.want("x TargetDown critical 24m10s")
}

// TestFlappingWarningBecomesCriticalByALongOutage: only how long the present outage has lasted counts for that.
func TestFlappingWarningBecomesCriticalByALongOutage(t *testing.T) {
	w := flapping(t)
	w.outages(2, 3*time.Minute, 6*time.Minute)
	w.want("x TargetDown warning 36m0s")
	w.target("x").Up = false
	w.pass(5 * time.Minute)
	w.want("x TargetDown warning 41m0s")
	w.pass(10 * time.Second)
	w.want("x TargetDown critical 41m10s")
	w.target("x").Up = true
	w.pass(time.Minute)
	w.want("x TargetDown critical 42m10s")
}

// TestMaintenanceOfAFlappingTargetPagesNobody stops it for that work, and it is still down afterwards.
func TestMaintenanceOfAFlappingTargetPagesNobody(t *testing.T) {
	w := flapping(t)
	w.outages(1, 3*time.Minute, 2*time.Minute)
	w.Maintenance = []Subject{TargetSubject("x")}
	w.look()
	w.target("x").Up = false
	w.pass(10 * time.Minute)
	w.want("x TargetDown warning 33m0s")
	if v := w.last.Verdicts[TargetSubject("x")]; !v.WarnOnly {
		t.Errorf("verdict %+v, want that it only warns", v)
	}
	w.Maintenance = nil
	w.look()
	w.want("x TargetDown critical 33m0s")
}

// TestContainerThatStopsIsThePageOfAFlappingTarget: what explains the present outage counts.
func TestContainerThatStopsIsThePageOfAFlappingTarget(t *testing.T) {
	w := stack(t)
	for range 3 {
		w.target("web").Up = false
		w.pass(3 * time.Minute)
		w.target("web").Up = true
		w.pass(3 * time.Minute)
	}
	w.container("web").State, w.target("web").Up = "exited", false
	w.pass(7 * time.Minute)
	w.want("web TargetDown warning 25m0s also(web)", "web ContainerDown critical 7m0s")
	if v := w.last.Verdicts[TargetSubject("web")]; v.Down != 25*time.Minute || !v.WarnOnly {
		t.Errorf("verdict %+v, want that it only warns, and has since before its container stopped: else the rules drop it", v)
	}
}

// TestOutageThatLastsIsNoneOfMany: 90 minutes after the others, it is said to be down since it began, not to have been down once, and it is
// over when it ends.
func TestOutageThatLastsIsNoneOfMany(t *testing.T) {
	w := newWorld(t)
	w.target("x")
	w.pass(time.Minute)
	w.outages(3, 6*time.Minute, 6*time.Minute)
	w.target("x").Up = false
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{6 * time.Minute, 4}, {66 * time.Minute, 3}, {10 * time.Second, 0}, {3 * time.Hour, 0}} {
		w.pass(step.pass)
		v := w.last.Verdicts[TargetSubject("x")]
		if p := w.last.Problems[0]; p.Outages != step.want || v.Outages != step.want || v.Down != p.Lasted || p.Severity != Critical {
			t.Errorf("at %s: %+v, want %d outages", w.now, p, step.want)
		}
	}
	w.want("x TargetDown critical 4h12m10s")
	w.target("x").Up = true
	w.look()
	w.want()
}

// TestWhatIsCalmIsSaidToHaveBeenDownAsOftenAsBefore, until it is over, or a page of what is up would say that it is down.
func TestWhatIsCalmIsSaidToHaveBeenDownAsOftenAsBefore(t *testing.T) {
	w := newWorld(t)
	w.target("x")
	w.pass(time.Minute)
	w.outages(3, 6*time.Minute, 6*time.Minute)
	w.outages(1, 63*time.Minute, 14*time.Minute)
	w.want("x TargetDown critical 1h53m0s")
	w.target("x").Read = false
	w.pass(3 * time.Hour)
	if p, v := w.last.Problems[0], w.last.Verdicts[TargetSubject("x")]; p.Outages != 3 || v.Outages != 3 || !p.UpAgain {
		t.Errorf("problem %+v, verdict %+v, want three outages, and that it is up", p, v)
	}
}

func TestTargetThatOnlyWarnsFlapsAsAWarning(t *testing.T) {
	w := newWorld(t)
	w.target("x").WarnOnly = true
	w.pass(time.Minute)
	w.outages(3, 6*time.Minute, time.Minute)
	w.want("x TargetDown warning 21m0s")
}

// TestOutagesThatDoNotCount: those without an alert, those of long ago, and those that something explains.
func TestOutagesThatDoNotCount(t *testing.T) {
	for name, play := range map[string]func(w *world){
		"too short for a warning":  func(w *world) { w.outages(6, 2*time.Minute, time.Minute) },
		"the first ended long ago": func(w *world) { w.outages(3, 3*time.Minute, 45*time.Minute) },
		"under maintenance": func(w *world) {
			w.Maintenance = []Subject{TargetSubject("x")}
			w.outages(3, 6*time.Minute, time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("x")
			w.pass(time.Minute)
			play(w)
			w.want()
		})
	}
}

// TestShortFailuresDoNotKeepAnAlert: what is too short for a warning does not disturb the calm, and TargetUnstable says it.
func TestShortFailuresDoNotKeepAnAlert(t *testing.T) {
	w := flapping(t)
	w.outages(1, 3*time.Minute, 5*time.Minute)
	w.outages(1, time.Minute, 5*time.Minute)
	w.want("x TargetDown warning 32m0s")
	w.outages(1, time.Minute, 3*time.Minute)
	w.want("x TargetDown warning 36m0s")
	w.pass(10 * time.Second)
	w.want()
	// While one lasts at the end of the calm, it is open whether it is short.
	w = flapping(t)
	w.outages(1, 3*time.Minute, 14*time.Minute)
	w.outages(1, 2*time.Minute, 0)
	w.want()
	w = flapping(t)
	w.outages(1, 3*time.Minute, 14*time.Minute)
	w.outages(1, 3*time.Minute, time.Minute)
	w.want("x TargetDown warning 39m0s")
}

// TestCalmIsLongerThanThePausesBetweenOutages, or what is regular would have an alert each time.
func TestCalmIsLongerThanThePausesBetweenOutages(t *testing.T) {
	w := newWorld(t)
	w.target("x")
	w.pass(time.Minute)
	w.outages(3, 6*time.Minute, 20*time.Minute)
	w.want("x TargetDown critical 1h18m0s")
	w.pass(time.Minute)
	w.want("x TargetDown critical 1h19m0s")
	w.pass(10 * time.Second)
	w.want()
}

// TestFlappingHasThreePagesInTwoHours counts how often the critical alert begins, from the first time on.
func TestFlappingHasThreePagesInTwoHours(t *testing.T) {
	for down := 3 * time.Minute; down <= 30*time.Minute; down += 3 * time.Minute {
		for up := time.Minute; up <= 45*time.Minute; up += 4 * time.Minute {
			t.Run(fmt.Sprintf("%s down, %s up", down, up), func(t *testing.T) {
				w := newWorld(t)
				w.target("x")
				w.pass(time.Minute)
				began := w.now
				pages, fires := 0, false
				for w.now.Sub(began) < 2*time.Hour+5*time.Minute {
					w.target("x").Up = w.now.Sub(began)%(down+up) >= down
					w.pass(30 * time.Second)
					var worst Severity
					for _, p := range w.last.Problems {
						worst = max(worst, p.Severity)
					}
					if worst == Critical && !fires {
						pages++
					}
					fires = worst == Critical
				}
				if pages > 3 || pages == 0 && down > 5*time.Minute {
					t.Errorf("%d pages, want 1 to 3", pages)
				}
			})
		}
	}
}

func TestContainerFlapsAsATargetDoes(t *testing.T) {
	w := newWorld(t)
	w.container("db")
	w.pass(time.Minute)
	for range 3 {
		w.container("db").State = "exited"
		w.pass(6 * time.Minute)
		w.container("db").State = Running
		w.pass(6 * time.Minute)
	}
	w.want("db ContainerDown critical 36m0s")
	if v := w.verdict("db"); v.Outages != 3 || v.Calm != 6*time.Minute || v.Down != 36*time.Minute {
		t.Errorf("verdict %+v, want three outages and 6 minutes of calm", v)
	}
	w.Engines[0].Read = false
	w.pass(10 * time.Minute)
	w.want("db ContainerDown critical 46m0s unknown")
	w.Engines[0].Read = true
	w.pass(time.Minute)
	w.want()
}

// TestContainerFlapsOnWhileItIsRestartedOrRecreated: these are other alerts' outages, and no end of the memory of this one's.
func TestContainerFlapsOnWhileItIsRestartedOrRecreated(t *testing.T) {
	for _, state := range []string{Restarting, Missing} {
		for _, calm := range []time.Duration{0, 2 * time.Minute} {
			w := newWorld(t)
			w.container("db")
			w.pass(time.Minute)
			for range 3 {
				w.container("db").State = "exited"
				w.pass(6 * time.Minute)
				if calm > 0 {
					w.container("db").State = Running
					w.pass(calm)
				}
				w.container("db").State = state
				w.container("db").Restarts++
				w.pass(30 * time.Second)
				w.container("db").State = Running
				w.pass(time.Minute)
			}
			p, _ := w.problem("db", AlertContainerDown)
			if p.Severity != Critical || p.Outages != 3 || !p.UpAgain {
				t.Errorf("%s after %s of calm: %s, %d outages, up again %t", state, calm, p.Severity, p.Outages, p.UpAgain)
			}
			w.pass(15 * time.Minute)
			if p, ok := w.problem("db", AlertContainerDown); ok {
				t.Errorf("%s after %s of calm: %+v after 16 minutes", state, calm, p)
			}
		}
	}
}

// TestContainerThatIsStoppedOnPurposeFlapsNoMore.
func TestContainerThatIsStoppedOnPurposeFlapsNoMore(t *testing.T) {
	w := newWorld(t)
	w.container("db")
	w.pass(time.Minute)
	for range 3 {
		w.container("db").State = "exited"
		w.pass(3 * time.Minute)
		w.container("db").State = Running
		w.pass(time.Minute)
	}
	w.want("db ContainerDown warning 12m0s")
	w.container("db").State, w.container("db").Expected = "exited", false
	w.pass(10 * time.Second)
	w.want()
}

func TestFlappingEndsOnlyWhenSomebodyLooks(t *testing.T) {
	w := flapping(t)
	w.outages(1, 3*time.Minute, 6*time.Minute)
	w.target("x").Read = false
	w.pass(time.Hour)
	w.want("x TargetDown warning 1h27m0s unknown")
	w.target("x").Read = true
	w.look()
	w.want()
}

func TestFlappingOutlivesARestart(t *testing.T) {
	w := flapping(t)
	w.restart(true)
	w.outages(1, 3*time.Minute, time.Minute)
	w.want("x TargetDown warning 22m0s")
	w.restart(true)
	w.pass(14 * time.Minute)
	w.want("x TargetDown warning 36m0s")
	w.pass(10 * time.Second)
	w.want()
}

// TestFlappingIsOneProblem: its events say when it is up again, and only the last one that it is over.
func TestFlappingIsOneProblem(t *testing.T) {
	w := flapping(t)
	w.target("x").Up = false
	w.pass(3 * time.Minute)
	var got []string
	see := func() {
		for _, e := range w.last.Round.Events {
			if e.Alert != "" {
				got = append(got, fmt.Sprintf("%d outages, up again %t, over %t", e.Outages, e.UpAgain, e.Ended))
			}
		}
	}
	for _, up := range []bool{true, false, true} {
		w.target("x").Up = up
		w.look()
		see()
		for range 18 {
			w.now = w.now.Add(10 * time.Second)
			w.look()
			see()
		}
	}
	for range 80 {
		w.now = w.now.Add(10 * time.Second)
		w.look()
		see()
	}
	want := []string{
		"3 outages, up again true, over false",
		"3 outages, up again false, over false",
		"4 outages, up again false, over false",
		"4 outages, up again true, over false",
		"0 outages, up again false, over true",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestTargetThatIsUpAgainExplainsNothing: neither that most targets are down, nor another problem.
func TestTargetThatIsUpAgainExplainsNothing(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.target(name)
	}
	w.pass(time.Minute)
	for _, up := range []bool{false, true, false, true, false, true} {
		for i := range w.Targets {
			w.Targets[i].Up = up
		}
		w.pass(3 * time.Minute)
	}
	w.want("a TargetDown warning 18m0s", "b TargetDown warning 18m0s", "c TargetDown warning 18m0s", "d TargetDown warning 18m0s")
	w.setCondition("a", Condition{Alert: AlertOrphans, Holds: true})
	w.pass(10 * time.Minute)
	for _, p := range w.last.Problems {
		if p.Alert == AlertOrphans && p.Excuse.Holds() {
			t.Errorf("%s is excused by %v", p.Alert, p.Excuse)
		}
	}
}

// TestOutagesOfAContainerAreThoseOfTheWorkloadThatContinuesIt.
func TestOutagesOfAContainerAreThoseOfTheWorkloadThatContinuesIt(t *testing.T) {
	w := newWorld(t)
	w.container("chat-web-1")
	w.pass(time.Minute)
	for range 2 {
		w.container("chat-web-1").State = "exited"
		w.pass(3 * time.Minute)
		w.container("chat-web-1").State = Running
		w.pass(time.Minute)
	}
	c := w.container("chat-web-1")
	c.Workload, c.Shared, c.Was, c.Members = "chat/web", true, []string{"chat-web-1"}, []string{"chat-web-1", "chat-web-2"}
	c.Instances, c.Wanted = 2, 2
	w.pass(time.Minute)
	c = w.container("chat-web-1")
	c.State, c.Instances = "exited", 0
	w.pass(3 * time.Minute)
	c = w.container("chat-web-1")
	c.State, c.Instances = Running, 2
	w.pass(time.Minute)
	w.want("chat/web ContainerDown warning 13m0s")
}

// TestTargetThatIsUpAgainAnswers has an engine count the services on it that do not answer between two outages of one that flaps.
func TestTargetThatIsUpAgainAnswers(t *testing.T) {
	w := stack(t)
	w.target("docker").Engine = "local"
	w.look()
	unanswered := func() int { return w.last.Verdicts[TargetSubject("docker")].Unanswered }
	for range 3 {
		w.target("api").Up = false
		w.pass(3 * time.Minute)
		if n := unanswered(); n != 1 {
			t.Errorf("%d targets do not answer, want 1", n)
		}
		w.target("api").Up = true
		w.pass(3 * time.Minute)
	}
	if p, _ := w.problem("api", AlertTargetDown); !p.UpAgain || unanswered() != 0 {
		t.Errorf("%d targets do not answer beside %+v, want none, since it is up again", unanswered(), p)
	}
}
