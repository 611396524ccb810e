package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/robfig/cron/v3"
)

// The kinds of things that can be under maintenance.
const (
	MaintenanceTarget    = "target"
	MaintenanceContainer = "container"
	MaintenanceWorkload  = "workload"
)

const (
	// MaxMaintenance bounds one maintenance, so that a forgotten one does not hold alerts back for ever.
	MaxMaintenance = 30 * 24 * time.Hour
	// maxMaintenanceReason bounds the reason, in bytes. The status page and the log show it.
	maxMaintenanceReason = 200
)

// Maintenance is planned work on a target, container or workload: once from From until Until, or for Duration whenever Schedule is
// due.
type Maintenance struct {
	// Kind is target or container, and Name is its name.
	Kind string `yaml:"kind"`
	Name string `yaml:"name"`
	// From and Until bound a single maintenance, which may be in the past.
	From  time.Time `yaml:"from"`
	Until time.Time `yaml:"until"`
	// Schedule is a cron line of five fields: when each maintenance begins, see ParseSchedule. Duration is how long it lasts.
	Schedule string   `yaml:"schedule"`
	Duration Duration `yaml:"duration"`
	// Reason is shown to people.
	Reason string `yaml:"reason"`

	begins cron.Schedule
}

// At returns the maintenance at t, else the next one. It returns false if there is neither.
func (m *Maintenance) At(t time.Time) (from, until time.Time, ok bool) {
	if m.begins == nil {
		return m.From, m.Until, m.Until.After(t)
	}
	from = m.begins.Next(t.Add(-m.Duration.Std()))
	if from.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	return from, from.Add(m.Duration.Std()), true
}

// Window is one maintenance: when it begins and ends.
type Window struct{ From, Until time.Time }

// Windows returns the maintenance at t and those after it, at most n, in the zone of the schedule.
func (m *Maintenance) Windows(t time.Time, n int) (windows []Window) {
	if c, ok := m.begins.(*clockTimes); ok {
		t = t.In(c.zone)
	}
	for range n {
		from, until, ok := m.At(t)
		if !ok {
			break
		}
		windows, t = append(windows, Window{from, until}), until
	}
	return windows
}

// maintainedNames matches the names of each kind: of containers, those that engines allow, and of workloads, project/service, the name of a
// swarm service, a systemd unit, or a container's name.
var maintainedNames = map[string]*regexp.Regexp{
	MaintenanceTarget:    targetName,
	MaintenanceContainer: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`),
	MaintenanceWorkload:  regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@\-]{0,127}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,127})?$`),
}

// CheckMaintenance returns the first invalid key of kind, name and reason with its error; "" if all are valid.
func CheckMaintenance(kind, name, reason string) (key, fault string) {
	names := maintainedNames[kind]
	switch {
	case names == nil:
		return "kind", fmt.Sprintf("is %q, must be target, container or workload", kind)
	case name == "":
		return "name", fmt.Sprintf("is empty, must be the name of a %s", kind)
	case !names.MatchString(name):
		return "name", fmt.Sprintf("is %q, which is not a valid name of a %s", name, kind)
	case len(reason) > maxMaintenanceReason:
		return "reason", fmt.Sprintf("has %d bytes, must have at most %d", len(reason), maxMaintenanceReason)
	case strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "reason", "must be one line of text"
	}
	return "", ""
}

// checkMaintenance checks the maintenance list and parses its schedules.
func (l *loader) checkMaintenance(root *Report) {
	for i := range l.cfg.Maintenance {
		m := &l.cfg.Maintenance[i]
		r := root.In(fmt.Sprintf("maintenance[%d]", i))
		if key, fault := CheckMaintenance(m.Kind, m.Name, m.Reason); fault != "" {
			r.Faultf(key, "%s", fault)
		} else if m.Kind == MaintenanceTarget && !l.hasTarget(m.Name) {
			r.Faultf("name", "is %q, but there is no such target; write the target's name, or its kind if it has no name", m.Name)
		}
		switch {
		case r.HasFault("from", "until", "schedule", "duration"): // an unreadable value looks as if it were not set
		case m.Schedule == "":
			m.checkOnce(r)
		default:
			m.checkRepeated(r)
		}
	}
}

// hasTarget reports whether a target has the name, configured or not: one file may serve several stacks.
func (l *loader) hasTarget(name string) bool {
	return slices.ContainsFunc(l.blocks, func(b block) bool { return b.settings.Common().Name == name })
}

func (m *Maintenance) checkOnce(r *Report) {
	from, until := m.From, m.Until
	switch {
	case m.Duration != 0:
		r.Faultf("duration", "is set without a schedule; write from and until, or add a schedule")
	case until.IsZero():
		r.Faultf("until", "is not set; write from and until, or schedule and duration")
	case from.IsZero():
		r.Faultf("from", "is not set; write when the maintenance begins, such as 2026-05-01T22:00:00Z")
	case !until.After(from):
		r.Faultf("until", "is not after from")
	case until.Sub(from) > MaxMaintenance:
		r.Faultf("until",
			"is %s after from, must be at most %s (30 days); to stop watching for longer, remove the target or exclude the container",
			until.Sub(from), MaxMaintenance)
	}
}

func (m *Maintenance) checkRepeated(r *Report) {
	begins, err := ParseSchedule(m.Schedule)
	_, byClock := begins.(*clockTimes)
	switch {
	case !m.From.IsZero() || !m.Until.IsZero():
		r.Faultf("schedule", "is set beside from or until; keep either schedule and duration, or from and until")
	case err != nil:
		r.scheduleFault(err, `five cron fields such as "0 3 * * 0", where 0 is Sunday and 6 Saturday`)
	case !byClock:
		r.Faultf("schedule", "has @every, which sets no time of day; write five cron fields such as \"0 3 * * 0\"")
	case m.Duration < second:
		r.Faultf("duration", "is %s, must be at least 1s", m.Duration.Std())
	case m.Duration.Std() > MaxMaintenance:
		r.Faultf("duration", "is %s, must be at most %s (30 days)", m.Duration.Std(), MaxMaintenance)
	case m.Duration.Std() >= shortestGap(begins):
		r.Faultf("duration", "is %s, must be shorter than the %s between two maintenances, or they never end",
			m.Duration.Std(), shortestGap(begins))
	default:
		m.begins = begins
	}
}
