package config

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
)

// clockChanges are changes of the clock: an hour forward and back, by half an hour, at midnight east and west of Greenwich, and over a day
// that an island skipped.
var clockChanges = []struct {
	zone string
	// at is a time on the day of the change, in UTC.
	forward, back string
}{
	{"Europe/Berlin", "2026-03-29", "2026-10-25"},
	{"America/New_York", "2026-03-08", "2026-11-01"},
	{"Australia/Lord_Howe", "2026-10-03", "2026-04-04"},
	{"America/Santiago", "2026-09-06", "2026-04-05"},
	{"Asia/Beirut", "2026-03-28", "2026-10-24"},
	{"Pacific/Apia", "2011-12-30", "2011-04-02"},
}

// line is a cron line, and its meaning in other words.
type line struct {
	fields    string
	everyHour bool
	matches   func(shown time.Time) bool
}

var lines = []line{
	{"30 2 * * *", false, func(c time.Time) bool { return c.Hour() == 2 && c.Minute() == 30 }},
	{"0 0 * * *", false, func(c time.Time) bool { return c.Hour() == 0 && c.Minute() == 0 }},
	{"@daily", false, func(c time.Time) bool { return c.Hour() == 0 && c.Minute() == 0 }},
	{"45 1 * * 0", false, func(c time.Time) bool { return c.Weekday() == time.Sunday && c.Hour() == 1 && c.Minute() == 45 }},
	{"15 */2 * * *", false, func(c time.Time) bool { return c.Hour()%2 == 0 && c.Minute() == 15 }},
	{"*/20 0-3 * * *", false, func(c time.Time) bool { return c.Hour() <= 3 && c.Minute()%20 == 0 }},
	{"7 * * * *", true, func(c time.Time) bool { return c.Minute() == 7 }},
	{"*/5 * * * 0,6", true, func(c time.Time) bool {
		return c.Minute()%5 == 0 && (c.Weekday() == time.Sunday || c.Weekday() == time.Saturday)
	}},
}

// dueMinutes walks from one minute to the next, as a person with a calendar would, and returns those in which the line is due.
func dueMinutes(l *line, from, until time.Time) (due []time.Time) {
	before := func(shown time.Time) time.Time { return shown.Add(-time.Minute) }
	last := before(reading(from)) // the latest reading so far
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		shown, is := reading(at), false
		if l.everyHour {
			is = l.matches(shown)
		} else {
			for ; last.Before(shown); last = last.Add(time.Minute) {
				is = is || l.matches(last.Add(time.Minute))
			}
		}
		if is {
			due = append(due, at)
		}
	}
	return due
}

// eachChange calls check for two days around every change of the clock, and every line.
func eachChange(t *testing.T, check func(t *testing.T, schedule string, l *line, from, until time.Time)) {
	t.Helper()
	for _, c := range clockChanges {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, day := range []string{c.forward, c.back} {
			noon, err := time.Parse("2006-01-02 15", day+" 12")
			if err != nil {
				t.Fatal(err)
			}
			from, until := noon.AddDate(0, 0, -1).In(zone), noon.AddDate(0, 0, 1).In(zone)
			if _, before := from.Zone(); func() bool { _, after := until.Zone(); return before == after }() {
				t.Errorf("%s: the clock is not changed on %s", c.zone, day)
			}
			for i := range lines {
				l := &lines[i]
				t.Run(fmt.Sprintf("%s/%s/%s", c.zone, day, l.fields), func(t *testing.T) {
					check(t, "CRON_TZ="+c.zone+" "+l.fields, l, from, until)
				})
			}
		}
	}
}

func parsed(t *testing.T, schedule string) cron.Schedule {
	t.Helper()
	s, err := ParseSchedule(schedule)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTimesOfDayHappenOnceOverEveryChangeOfTheClock(t *testing.T) {
	eachChange(t, func(t *testing.T, schedule string, l *line, from, until time.Time) {
		t.Helper()
		s := parsed(t, schedule)
		due := dueMinutes(l, from, until)
		for at := from; len(due) > 0; at = at.Add(time.Minute) {
			for len(due) > 0 && !due[0].After(at) {
				due = due[1:]
			}
			if len(due) == 0 {
				return
			}
			for _, moment := range []time.Time{at, at.Add(time.Nanosecond), at.Add(time.Minute - time.Nanosecond)} {
				if got := s.Next(moment); !got.Equal(due[0]) {
					t.Fatalf("after %s = %s, want %s", moment, got.In(at.Location()), due[0])
				}
			}
		}
	})
}

func TestMaintenanceLastsAsLongOverEveryChangeOfTheClock(t *testing.T) {
	const lasts = 4 * time.Minute
	eachChange(t, func(t *testing.T, schedule string, l *line, from, until time.Time) {
		t.Helper()
		m := Maintenance{Schedule: schedule, Duration: Duration(lasts), begins: parsed(t, schedule)}
		due := dueMinutes(l, from, until)
		for at := from.Add(lasts); at.Before(until); at = at.Add(time.Minute) {
			for len(due) > 0 && !due[0].Add(lasts).After(at) {
				due = due[1:]
			}
			if len(due) == 0 {
				return
			}
			if begins, ends, ok := m.At(at); !ok || !begins.Equal(due[0]) || ends.Sub(begins) != lasts {
				t.Fatalf("at %s = %s to %s, %v, want %s", at, begins, ends, ok, due[0])
			}
		}
	})
}

// TestScheduleWithoutZoneFollowsThisMachine also when it is asked in another zone.
func TestScheduleWithoutZoneFollowsThisMachine(t *testing.T) {
	s := parsed(t, "30 4 * * *")
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.Local)
	want := time.Date(2026, 6, 2, 4, 30, 0, 0, time.Local)
	for _, zone := range []*time.Location{time.Local, time.UTC, time.FixedZone("far", -9*60*60)} {
		if got := s.Next(now.In(zone)); !got.Equal(want) || got.Location() != zone {
			t.Errorf("asked in %s = %s, want %s", zone, got, want)
		}
	}
}

// TestDurationIsAsValidBeforeAChangeOfTheClock since the day of the change has 23 hours.
func TestDurationIsAsValidBeforeAChangeOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			if got := shortestGap(parsed(t, "CRON_TZ=Europe/Berlin 30 2 * * *")); got != 24*time.Hour {
				t.Fatalf("on %s the shortest gap is %s, want a day", time.Now(), got)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}
