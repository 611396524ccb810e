package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ParseSchedule reads "@every 30s" (from one second) or a standard cron line of five fields. A line that is never due is an
// error. A line that names hours means times of day: one that daylight saving skips is due right after it, and one that it repeats is
// due once. A line for every hour is due whenever the clock shows its minutes.
func ParseSchedule(line string) (cron.Schedule, error) {
	if strings.HasPrefix(line, "TZ=") || strings.HasPrefix(line, "CRON_TZ=") {
		if !strings.Contains(strings.TrimSpace(line), " ") {
			return nil, fmt.Errorf("parse schedule %q: no fields after the time zone", line)
		}
	}
	if every, ok := strings.CutPrefix(line, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && (d < time.Second || d%time.Second != 0) {
			return nil, fmt.Errorf("parse schedule %q: must be a whole number of seconds, at least 1", line)
		}
	}
	schedule, err := cron.ParseStandard(line)
	if err != nil {
		return nil, fmt.Errorf("parse schedule %q: %w", line, err)
	}
	if fields, ok := schedule.(*cron.SpecSchedule); ok {
		schedule = newClockTimes(fields)
	}
	if schedule.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("parse schedule %q: never due", line)
	}
	return schedule, nil
}

// clockTimes are the times of a cron line by the clocks of a zone. It is a cron.Schedule.
type clockTimes struct {
	// readings are what the clock shows when the line is due. They are in UTC, where the library meets no change of the clock.
	readings cron.SpecSchedule
	zone     *time.Location
	// everyHour says that the line names no hour, so that it means minutes instead of times of day.
	everyHour bool
}

func newClockTimes(fields *cron.SpecSchedule) *clockTimes {
	const allHours = 1<<24 - 1
	c := &clockTimes{readings: *fields, zone: fields.Location, everyHour: fields.Hour&allHours == allHours}
	c.readings.Location = time.UTC
	return c
}

// Next implements cron.Schedule. It goes from one change of the clock to the next, and within each period the offset is constant.
func (c *clockTimes) Next(t time.Time) time.Time {
	now := t.Round(0).In(c.zone)
	begun, changes := now.ZoneBounds()
	shown := reading(now)
	if !begun.IsZero() && !c.everyHour {
		shown = latest(shown, reading(begun.Add(-1))) // a repeated time of day was due the first time
	}
	for {
		next := c.readings.Next(shown)
		if next.IsZero() {
			return next
		}
		_, offset := now.Zone()
		// not before now: a skipped time of day is due right after the change
		due := latest(next.Add(-time.Duration(offset)*time.Second), now)
		if changes.IsZero() || due.Before(changes) {
			return due.In(t.Location())
		}
		shown = reading(changes.Add(-1))
		if c.everyHour {
			shown = reading(changes).Add(-1)
		}
		now = changes
		_, changes = now.ZoneBounds()
	}
}

// reading is what a clock in t's zone shows, as a time in UTC.
func reading(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// shortestGap is the shortest time between two of the next runs. A change of the clock, which may shorten it by an hour, does not count: a
// configuration must not become invalid a few days before one.
func shortestGap(s cron.Schedule) time.Duration {
	if c, ok := s.(*clockTimes); ok {
		s = &c.readings
	}
	at := s.Next(time.Now().UTC())
	shortest := time.Duration(1<<63 - 1)
	for range 10 {
		next := s.Next(at)
		shortest = min(shortest, next.Sub(at))
		at = next
	}
	return shortest
}
