package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// beginning is when a problem began, or when it was first seen, if it began earlier.
type beginning struct {
	at      time.Time
	atLeast bool
}

// summary says in one sentence how the stack is, and when its first part began.
func summary(r *Report) (text string, began beginning) {
	if r.Stale != "" {
		return "Polling has stalled: " + r.Stale + ".", beginning{}
	}
	if len(r.Services) == 0 {
		return "Nothing is watched: no target is configured.", beginning{}
	}
	var parts []part
	failing, unchecked, impaired := []string{}, 0, 0
	var down, other part
	for i := range r.Services {
		switch s := &r.Services[i]; {
		case s.State == waiting:
			unchecked++
		case s.State == "down" && s.Level > Maintenance:
			failing = append(failing, s.fullName())
			down.add(s.Level, beginning{s.ProblemSince, s.ProblemSinceAtLeast})
		case s.Level > Unknown:
			impaired++
			other.add(s.Level, beginning{s.ProblemSince, s.ProblemSinceAtLeast})
		}
	}
	if len(failing) > 0 {
		down.text = failingText(failing, len(r.Services))
		parts = append(parts, down)
	}
	if impaired > 0 {
		other.text = haveProblems(impaired, "target")
		parts = append(parts, other)
	}
	parts = append(parts, containersSummary(r.Containers)...)
	if len(parts) == 0 {
		for i := range r.Thresholds {
			if t := &r.Thresholds[i]; t.Level > Unknown {
				parts = append(parts, part{t.Level, "the threshold of " + t.Alert + " is exceeded", beginning{at: t.Since}})
			}
		}
	}
	if unchecked > 0 {
		parts = append(parts, part{level: Unknown, text: count(unchecked, "target") + " not checked yet"})
	}
	if r.ConfigError != "" {
		parts = append(parts, part{level: Warning, text: "the configuration file has errors and is not used"})
	}
	if len(parts) == 0 {
		return operationalText(r), beginning{}
	}
	// The part that determines the verdict comes first.
	slices.SortStableFunc(parts, func(a, b part) int { return int(b.level - a.level) })
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text
	}
	return strings.Join(texts, "; ") + ".", parts[0].began
}

// failingText names the targets that are down; of many, only the worst.
func failingText(names []string, all int) string {
	switch n := len(names); {
	case n == 1:
		return names[0] + " is down"
	case n <= 3:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1] + " are down"
	default:
		return fmt.Sprintf("%s and %d more of %s are down", names[0], n-1, count(all, "target"))
	}
}

func operationalText(r *Report) string {
	text := "All systems operational: " + count(len(r.Services), "target")
	if n := len(r.Containers); n > 0 {
		text += " and " + count(n, "container")
	}
	return text + "."
}

// haveProblems says how many things have a problem.
func haveProblems(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " has a problem"
	}
	return count(n, thing) + " have problems"
}

// part is a part of a summary, with the worst level of its problems and the earliest beginning of those at that level.
type part struct {
	level Level
	text  string
	began beginning
}

// add adds a problem to a part.
func (p *part) add(level Level, began beginning) {
	if level > p.level || level == p.level && !began.at.IsZero() && (p.began.at.IsZero() || began.at.Before(p.began.at)) {
		p.level, p.began = level, began
	}
}

// containersSummary returns the parts about containers.
func containersSummary(list []Container) (parts []part) {
	wrong, unknown := 0, 0
	var worst part
	for i := range list {
		switch c := &list[i]; {
		case c.Level > Unknown:
			if wrong++; wrong == 1 {
				worst.text = "container " + c.Name + " is " + c.stateText()
				if c.State == health.Running && c.Health != health.Unhealthy {
					worst.text = "container " + c.Name + " has a problem"
				}
			}
			worst.add(c.Level, beginning{c.ProblemSince, c.ProblemSinceAtLeast})
		case c.Level == Unknown:
			unknown++
		}
	}
	if wrong > 1 {
		worst.text = haveProblems(wrong, "container")
	}
	if wrong > 0 {
		parts = append(parts, worst)
	}
	if unknown > 0 {
		parts = append(parts, part{level: Unknown, text: count(unknown, "container") + " in an unknown state"})
	}
	return parts
}

// differsFrom reports whether watchers must receive this report at once: more than ages and numbers has changed.
func (r *Report) differsFrom(before *Report) bool {
	return r.Level != before.Level || r.Summary != before.Summary || r.ConfigError != before.ConfigError || r.Stale != before.Stale ||
		!slices.Equal(r.Maintenance, before.Maintenance) || !slices.Equal(r.NotConfigured, before.NotConfigured) ||
		!slices.Equal(r.LeftToFirst, before.LeftToFirst) ||
		!slices.Equal(r.Transitions, before.Transitions) ||
		!slices.EqualFunc(r.Services, before.Services, func(a, b Service) bool {
			return a.Name == b.Name && a.Level == b.Level && a.State == b.State && a.Text == b.Text && a.Error == b.Error &&
				a.Maintenance == b.Maintenance && a.Excuse == b.Excuse && slices.Equal(a.Notes, b.Notes)
		}) ||
		!slices.EqualFunc(r.Containers, before.Containers, func(a, b Container) bool {
			return a.Name == b.Name && a.DockerHost == b.DockerHost && a.Level == b.Level && a.State == b.State && a.Health == b.Health &&
				a.Maintenance == b.Maintenance && a.Excuse == b.Excuse
		}) ||
		!slices.EqualFunc(r.Thresholds, before.Thresholds, func(a, b Threshold) bool { return a.Alert == b.Alert && a.Level == b.Level && a.Pending == b.Pending })
}
