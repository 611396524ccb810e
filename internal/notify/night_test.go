package notify

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var day = config.Hours{From: 7*60 + 30, To: 22*60 + 30}

// TestOldCriticalProblemIsToldAtNight although it began before the receiver was configured: a restart without a state file is that, too.
func TestOldCriticalProblemIsToldAtNight(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: day})
	p.now = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	p.since = p.now.Add(time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical).fire(db, health.AlertContainerUnhealthy, health.Warning)
	p.now = p.since
	p.pass(time.Hour)
	p.want("03:02:00 all [CRITICAL] Web is down, and 1 problem more")
}

// TestOldWarningWaitsForTheMorning when it is not critical any more.
func TestEndOfWhatWokeSomebodyIsToldAtNight(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: config.Hours{From: 7 * 60, To: 22 * 60}})
	p.now = p.now.Add(14 * time.Hour)
	p.fire(db, "ContainerMemory", health.Critical).pass(20 * time.Minute)
	p.fire(db, "ContainerMemory", health.Warning).pass(20 * time.Minute)
	p.end(db, "ContainerMemory").pass(20 * time.Minute)
	if len(p.told) != 2 || !strings.Contains(p.told[1], "[RESOLVED]") {
		t.Errorf("told %q", p.told)
	}
}

// TestOwnTroubleHasItsOwnSummary since the other exporters of a pair know nothing of it.
func TestOwnTroubleHasItsOwnSummary(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: config.Hours{From: 7 * 60, To: 22 * 60}})
	p.now = p.now.Add(14 * time.Hour)
	p.fire(db, "ContainerMemory", health.Warning).fire(most, alerts.StateNotSaved, health.Warning).pass(10 * time.Hour)
	if len(p.told) != 2 {
		t.Errorf("told %q", p.told)
	}
}

func TestOldWarningWaitsForTheMorning(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: day})
	p.now = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	p.since = p.now.Add(time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical)
	p.now = p.since
	p.pass(30*time.Second).end(web, health.AlertTargetDown).pass(5 * time.Hour)
	p.want("07:30:00 all [RESOLVED] 1 problem came and went meanwhile")
}

// TestProblemThatComesBackAfterItsEndIsNew although another receiver hears of the first in the morning only.
func TestProblemThatComesBackAfterItsEndIsNew(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning}, Receiver{Name: "day", Least: health.Warning, Hours: day})
	p.now = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	p.since = p.now.Add(-time.Hour)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(10 * time.Minute)
	p.end(web, health.AlertTargetDown).pass(5*time.Hour - 10*time.Minute)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(50 * time.Second)
	p.end(web, health.AlertTargetDown).pass(10*time.Minute - 50*time.Second) // too short
	p.fire(web, health.AlertTargetDown, health.Warning).pass(3 * time.Hour)
	p.want("00:01:00 all [WARNING] Web is down", "00:11:00 all [RESOLVED] It was: Web is down", "05:11:00 all [WARNING] Web is down",
		"07:30:00 day [WARNING] Web is down, and 1 problem more")
	if got, want := p.texts[2], "Since 05:10 UTC."; !strings.Contains(got, want) {
		t.Errorf("the third is %q, want %q", got, want)
	}
	if got, want := p.texts[3], "- Web is down, since 05:10 UTC.\n- Over: Web is down, from 00:00 UTC to 00:10 UTC."; got != want {
		t.Errorf("in the morning:\n%s\nwant\n%s", got, want)
	}
}

// TestCausesThatTurnOutToBeOneAreToldOnce at night, and with their end.
func TestCausesThatTurnOutToBeOneAreToldOnce(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: day})
	p.now = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	p.since = p.now.Add(-time.Hour)
	p.fire(api, health.AlertTargetDown, health.Warning).pass(10 * time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(10 * time.Minute)
	p.because(web, db).because(api, db).pass(10 * time.Minute)
	p.problems = nil
	p.pass(5 * time.Hour)
	p.want("03:10:30 all [CRITICAL] Web is down", "03:31:00 all [RESOLVED] It was: Web is down")
}

// TestWhatWasThereBeforeAReceiverIsOneSummary even if nobody knows when it began.
func TestWhatWasThereBeforeAReceiverIsOneSummary(t *testing.T) {
	p := newPlay(t)
	p.fire(web, "TLSCertificateExpiry", health.Warning).fire(api, "TLSCertificateExpiry", health.Warning)
	for i := range p.problems {
		p.problems[i].AtLeast = true
	}
	p.receivers = nil
	p.pass(time.Hour)
	p.receivers, p.since = []Receiver{{Name: "new", Least: health.Warning}}, p.now
	p.pass(10 * time.Minute)
	if len(p.told) != 1 || !strings.HasSuffix(p.told[0], "and 1 problem more") {
		p.want("one summary")
	}
}

// TestMorningEndsWhatAReceiverIsNotAboutAnyMore although the rest of the thread lasts.
func TestMorningEndsWhatAReceiverIsNotAboutAnyMore(t *testing.T) {
	p := newPlay(t, Receiver{
		Name:    "dba",
		Least:   health.Warning,
		Hours:   day,
		Targets: []string{"db"},
	})
	p.now = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	p.since = p.now.Add(-time.Hour)
	p.fire(db, health.AlertContainerDown, health.Warning)
	p.fire(web, health.AlertTargetDown, health.Warning).because(web, db).pass(5 * time.Minute)
	p.end(db, health.AlertContainerDown).because(web, web).pass(24 * time.Hour)
	if len(p.told) != 1 {
		p.want("one summary")
	}
}
