package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// beginning is when a problem began, or at least when it was seen first.
type beginning struct {
	at      time.Time
	atLeast bool
}

// summary answers in a sentence whether the stack is all right, and tells when what it says first began.
func summary(r *Report) (text string, began beginning) {
	if r.Stale != "" {
		return "Polling has stalled: " + r.Stale + ".", beginning{}
	}
	if len(r.Services) == 0 {
		return "Nothing is watched: no target is configured.", beginning{}
	}
	var parts []part
	failing, wait, wrong := []string{}, 0, 0
	var down, other part // the worst of them, and the oldest of those
	for i := range r.Services {
		switch s := &r.Services[i]; {
		case s.State == waiting:
			wait++
		case s.State == "down" && s.Level > Maintenance:
			failing = append(failing, s.Name)
			down.take(s.Level, beginning{s.ProblemSince, s.ProblemSinceAtLeast})
		case s.Level > Unknown:
			wrong++
			other.take(s.Level, beginning{s.ProblemSince, s.ProblemSinceAtLeast})
		}
	}
	if len(failing) > 0 {
		down.text = failingText(failing, len(r.Services))
		parts = append(parts, down)
	}
	if wrong > 0 {
		other.text = having(wrong, "service")
		parts = append(parts, other)
	}
	parts = append(parts, containersSummary(r.Containers)...)
	if len(parts) == 0 {
		for i := range r.Thresholds {
			if t := &r.Thresholds[i]; t.Level > Unknown {
				parts = append(parts, part{t.Level, "the threshold of " + t.Alert + " is passed", beginning{at: t.Since}})
			}
		}
	}
	if wait > 0 {
		parts = append(parts, part{level: Unknown, text: count(wait, "service") + " not checked yet"})
	}
	if r.ConfigError != "" {
		parts = append(parts, part{level: Warning, text: "the configuration file has errors and is not used"})
	}
	if len(parts) == 0 {
		return calmText(r), beginning{}
	}
	// What makes the verdict comes first.
	slices.SortStableFunc(parts, func(a, b part) int { return int(b.level - a.level) })
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text
	}
	return strings.Join(texts, "; ") + ".", parts[0].began
}

// failingText names the services that are down, the worst of them where there are many.
func failingText(names []string, all int) string {
	switch n := len(names); {
	case n == 1:
		return names[0] + " is down"
	case n <= 3:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1] + " are down"
	default:
		return fmt.Sprintf("%s and %d more of %s are down", names[0], n-1, count(all, "service"))
	}
}

func calmText(r *Report) string {
	text := "All systems operational: " + count(len(r.Services), "service")
	if n := len(r.Containers); n > 0 {
		text += " and " + count(n, "container")
	}
	return text + "."
}

// having says how many things have a problem.
func having(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " has a problem"
	}
	return count(n, thing) + " have problems"
}

// part is a part of a summary, how bad what it tells of is, and when the oldest of what is so bad began.
type part struct {
	level Level
	text  string
	began beginning
}

// take adds something to what a part tells of.
func (p *part) take(level Level, began beginning) {
	if level > p.level || level == p.level && !began.at.IsZero() && (p.began.at.IsZero() || began.at.Before(p.began.at)) {
		p.level, p.began = level, began
	}
}

// containersSummary tells of the containers with which something is wrong.
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
			worst.take(c.Level, beginning{c.ProblemSince, c.ProblemSinceAtLeast})
		case c.Level == Unknown:
			unknown++
		}
	}
	if wrong > 1 {
		worst.text = having(wrong, "container")
	}
	if wrong > 0 {
		parts = append(parts, worst)
	}
	if unknown > 0 {
		parts = append(parts, part{level: Unknown, text: count(unknown, "container") + " in an unknown state"})
	}
	return parts
}

// differsFrom reports whether watchers must hear of this report at once: more than ages and numbers is different.
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
