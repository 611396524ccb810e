package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ParseSchedule reads "@every 30s" (from one second) or a standard cron line of five fields. A line that is never due is an
// error. A line that names hours means times of day: one that daylight saving skips is due right after it, and one that it repeats is
// due once. A line for every hour is due whenever the clock shows its minutes.
func ParseSchedule(line string) (cron.Schedule, error) {
	zone, fields, err := cutZone(line)
	if err != nil {
		return nil, fmt.Errorf("parse schedule %q: %w", line, err)
	}
	if every, ok := strings.CutPrefix(fields, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && (d < time.Second || d%time.Second != 0) {
			return nil, fmt.Errorf("parse schedule %q: must be a whole number of seconds, at least 1", line)
		}
	}
	schedule, err := cron.ParseStandard(fields)
	if err != nil {
		return nil, fmt.Errorf("parse schedule %q: %w", line, err)
	}
	if times, ok := schedule.(*cron.SpecSchedule); ok {
		c := &clockTimes{readings: *times, zone: zone, everyHour: times.Hour&allHours == allHours}
		c.readings.Location = time.UTC
		schedule = c
	}
	if schedule.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("parse schedule %q: never due", line)
	}
	return schedule, nil
}

// zonePrefix matches how a line begins that names its zone.
var zonePrefix = regexp.MustCompile(`^(?:CRON_)?TZ=(\S*)\s*`)

// errZone means that a line names something else where a time zone should be.
var errZone = errors.New("no such time zone")

// cutZone cuts the zone off a line. Without one it is that of this machine.
func cutZone(line string) (zone *time.Location, fields string, err error) {
	begin := zonePrefix.FindStringSubmatch(line)
	if begin == nil {
		return time.Local, line, nil
	}
	fields = line[len(begin[0]):]
	if fields == "" {
		return nil, "", errors.New("no fields after the time zone")
	}
	if zone, err = time.LoadLocation(begin[1]); err != nil || begin[1] == "" { // Go takes "" for UTC
		return nil, "", fmt.Errorf("%w: %q", errZone, begin[1])
	}
	return zone, fields, nil
}

// scheduleFault reports an error of ParseSchedule, with what to write instead of fields that cannot be read.
func (r *Report) scheduleFault(err error, fields string) {
	if errors.Is(err, errZone) {
		fields = "its name, such as Europe/Berlin, with these capitals and without quotes"
	}
	r.Faultf("schedule", "%v; write "+fields, err)
}

// clockTimes are the times of a cron line by the clocks of a zone. It is a cron.Schedule.
type clockTimes struct {
	// readings are what the clock shows when the line is due. They are in UTC, where the library meets no change of the clock.
	readings cron.SpecSchedule
	zone     *time.Location
	// everyHour says that the line names no hour, so that it means minutes instead of times of day.
	everyHour bool
}

// allHours are the bits of a line's hours if it names none.
const allHours = 1<<24 - 1

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

// FollowsTZ reports whether a maintenance, the schedule of a target or the hours of a receiver depend on the environment variable TZ.
func (c *Config) FollowsTZ() bool {
	return slices.ContainsFunc(c.Maintenance, func(m Maintenance) bool { return followsTZ(m.begins) }) ||
		slices.ContainsFunc(c.Targets, func(s Settings) bool {
			schedule, err := ParseSchedule(s.Common().Schedule)
			return err == nil && followsTZ(schedule)
		}) ||
		slices.ContainsFunc(c.Notify, func(n Notify) bool { return n.TimeZone == "" && n.Hours != (Hours{}) })
}

// followsTZ reports whether a schedule has times by the clock of this machine.
func followsTZ(s cron.Schedule) bool {
	c, ok := s.(*clockTimes)
	return ok && c.zone == time.Local
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
