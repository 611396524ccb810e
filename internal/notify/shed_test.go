package notify

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// TestThreadThatNobodyWasToldOfSurvivesARestart and is told to a receiver that is about it from then on.
func TestThreadThatNobodyWasToldOfSurvivesARestart(t *testing.T) {
	p := newPlay(t, Receiver{Name: "web", Least: health.Warning, Targets: []string{"web"}})
	p.forgets = true
	p.fire(db, health.AlertContainerDown, health.Warning).pass(5 * time.Minute)
	p.receivers = append(p.receivers, Receiver{Name: "all", Least: health.Warning})
	p.pass(5 * time.Minute)
	p.want("10:05:00 all [WARNING] Container db is not running")
}

// TestLastingConsequenceHidesNoNewOutage of the cause that once explained it.
func TestLastingConsequenceHidesNoNewOutage(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		p := newPlay(t)
		p.forgets = forgets
		p.fire(db, health.AlertContainerDown, health.Critical)
		p.fire(web, health.AlertTargetDown, health.Critical).because(web, db).pass(5 * time.Minute)
		p.end(db, health.AlertContainerDown).because(web, web).pass(24 * time.Hour)
		p.fire(db, health.AlertContainerDown, health.Critical).pass(5 * time.Minute)
		p.want("10:00:30 all [CRITICAL] Container db is not running", "10:05:30 all [CRITICAL] Container db is not running")
	}
}

// TestEndIsToldOfWhatAReceiverWasTold although something else of the thread lasts, which it is not about.
func TestEndIsToldOfWhatAReceiverWasTold(t *testing.T) {
	p := newPlay(t, Receiver{
		Name:    "dba",
		Least:   health.Warning,
		Targets: []string{"db"},
		Repeat:  time.Hour,
	})
	p.fire(db, health.AlertContainerDown, health.Critical)
	p.fire(web, health.AlertTargetDown, health.Critical).because(web, db).pass(5 * time.Minute)
	p.end(db, health.AlertContainerDown).because(web, web).pass(24 * time.Hour)
	p.want("10:00:30 dba [CRITICAL] Container db is not running", "10:06:00 dba [RESOLVED] It was: Container db is not running")
}

// TestCriticalThatComesBackIsTold although the warning lasted meanwhile, and somebody acknowledged the first time.
func TestCriticalThatComesBackIsTold(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		p := newPlay(t, Receiver{Name: "all", Least: health.Warning}, Receiver{Name: "pager", Least: health.Critical})
		p.forgets = forgets
		p.fire(db, "DataVolumeUsage", health.Critical).pass(5 * time.Minute)
		p.fire(db, "DataVolumeUsage", health.Warning).pass(50 * time.Second)
		p.fire(db, "DataVolumeUsage", health.Critical).pass(10 * time.Minute) // the same
		p.fire(db, "DataVolumeUsage", health.Warning).pass(24 * time.Hour)
		p.told = nil
		p.fire(db, "DataVolumeUsage", health.Critical).pass(5 * time.Minute)
		if len(p.told) != 2 {
			p.want("both are told")
		}
		p.end(db, "DataVolumeUsage").pass(5 * time.Minute)
		if len(p.told) != 4 {
			p.want("both are told, and of the end")
		}
	}
}

// TestPagerIsToldThatItIsNotCriticalAnyMore since it hears of nothing else.
func TestPagerIsToldThatItIsNotCriticalAnyMore(t *testing.T) {
	p := newPlay(t, Receiver{Name: "pager", Least: health.Critical})
	p.fire(web, health.AlertTargetDown, health.Critical).pass(5 * time.Minute)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(5 * time.Hour)
	p.end(web, health.AlertTargetDown).pass(time.Hour)
	p.want("10:00:30 pager [CRITICAL] Web is down", "10:06:00 pager [RESOLVED] It was: Web is down")
	if got, want := p.texts[1], "From 10:00 UTC to 10:05 UTC, for 5 min.\nA warning lasts, which you are not told of."; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// TestContainersOfOneNameAreToldApart if they run on several machines.
func TestContainersOfOneNameAreToldApart(t *testing.T) {
	p := newPlay(t)
	p.fire(db, health.AlertContainerDown, health.Critical).pass(time.Hour)
	p.fire(health.ContainerSubject("other", "db"), health.AlertContainerDown, health.Critical).pass(5 * time.Minute)
	p.want("10:00:30 all [CRITICAL] Container db is not running", "11:00:30 all [CRITICAL] Container db is not running")
}

// TestAnotherPartIsToldApart such as the second volume of an engine, unless it begins with the first.
func TestAnotherPartIsToldApart(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		p := newPlay(t)
		p.forgets = forgets
		add := func(of string) {
			p.problems = append(p.problems, status.Problem{Problem: health.Problem{
				Subject:  db,
				Alert:    "DataVolumeUsage",
				Of:       of,
				Since:    p.now,
				Severity: health.Warning,
				Cause:    db,
			}})
		}
		add("a")
		add("a2")
		p.pass(2 * time.Minute)
		add("b")
		p.pass(time.Hour)
		if len(p.told) != 1 {
			p.want("one message for both")
		}
		add("c")
		if p.pass(time.Hour); len(p.told) != 2 {
			p.want("another message")
		}
		p.problems = nil
		if p.pass(time.Hour); len(p.told) != 4 {
			p.want("two ends")
		}
	}
}
