package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// clock is a moment for people who plan.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// soon is a moment to come, not earlier than it is: without the date where it cannot be mistaken.
func soon(now, t time.Time) string {
	t = t.UTC().Add(time.Minute - 1).Truncate(time.Minute)
	if t.Sub(now) > 12*time.Hour {
		return clock(t)
	}
	return t.Format("15:04 MST")
}

// ago is a duration in the two largest units that are not zero: 3 d 4 h, 5 min, 12 s.
func ago(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	units := []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.length && u.length > time.Second {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.length, u.name)
		if i+1 < len(units) {
			if rest := d % u.length / units[i+1].length; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return ""
}

// count is a number of things in words: 1 service, 2 services.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// summary answers in a sentence whether the stack is all right.
func summary(r *Report) string {
	if r.Stale != "" {
		return "Nothing here is of now: " + r.Stale + "."
	}
	if len(r.Services) == 0 {
		return "Nothing is watched: no target is configured."
	}
	var parts []part
	add := func(level Level, text string) { parts = append(parts, part{level, text}) }
	failing, wait, wrong := []string{}, 0, 0
	down, other := OK, OK // how bad the worst of them is
	for i := range r.Services {
		switch s := &r.Services[i]; {
		case s.State == waiting:
			wait++
		case s.State == "down" && s.Level > Maintenance:
			failing, down = append(failing, s.Name), max(down, s.Level)
		case s.Level > Unknown:
			wrong++
			other = max(other, s.Level)
		}
	}
	switch n := len(failing); {
	case n == 1:
		add(down, failing[0]+" is down")
	case n > 1 && n <= 3:
		add(down, strings.Join(failing[:n-1], ", ")+" and "+failing[n-1]+" are down")
	case n > 3:
		add(down, fmt.Sprintf("%s and %d more of %s are down", failing[0], n-1, count(len(r.Services), "service")))
	}
	if wrong > 0 {
		add(other, count(wrong, "service")+" with something wrong")
	}
	parts = append(parts, containersSummary(r.Containers)...)
	if len(parts) == 0 {
		for i := range r.Thresholds {
			if r.Thresholds[i].Level > Unknown {
				add(r.Thresholds[i].Level, "the threshold of "+r.Thresholds[i].Alert+" is passed")
			}
		}
	}
	if wait > 0 {
		add(Unknown, count(wait, "service")+" not read yet")
	}
	if r.ConfigError != "" {
		add(Warning, "the configuration on the disk is not in force")
	}
	if len(parts) == 0 {
		text := "All is well: " + count(len(r.Services), "service") + " answer as they should"
		if len(r.Services) == 1 {
			text = "All is well: " + r.Services[0].Name + " answers as it should"
		}
		if n := len(r.Containers); n > 0 {
			text += ", and nothing is wrong with " + count(n, "container")
		}
		return text + "."
	}
	// What makes the verdict comes first.
	slices.SortStableFunc(parts, func(a, b part) int { return int(b.level - a.level) })
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text
	}
	return strings.Join(texts, "; ") + "."
}

// part is a part of a summary, and how bad what it tells of is.
type part struct {
	level Level
	text  string
}

// containersSummary tells of the containers with which something is wrong.
func containersSummary(list []Container) (parts []part) {
	wrong, unknown, first, worst := 0, 0, "", OK
	for i := range list {
		switch c := &list[i]; {
		case c.Level > Unknown:
			if wrong++; wrong == 1 {
				first = "container " + c.Name + " " + c.words()
				if c.State == running && c.Health != unhealthy {
					first = "container " + c.Name + " with something wrong"
				}
			}
			worst = max(worst, c.Level)
		case c.Level == Unknown:
			unknown++
		}
	}
	switch {
	case wrong == 1:
		parts = append(parts, part{worst, first})
	case wrong > 1:
		parts = append(parts, part{worst, count(wrong, "container") + " with something wrong"})
	}
	if unknown > 0 {
		parts = append(parts, part{Unknown, count(unknown, "container") + " of which nothing is known"})
	}
	return parts
}

// tells reports whether somebody who has seen the report before must be told of this one at once: ages and numbers
// aside, something is different.
func (r *Report) tells(before *Report) bool {
	return r.Level != before.Level || r.Summary != before.Summary || r.ConfigError != before.ConfigError || r.Stale != before.Stale ||
		!slices.Equal(r.Maintenance, before.Maintenance) || !slices.Equal(r.NotConfigured, before.NotConfigured) ||
		!slices.Equal(r.LeftToFirst, before.LeftToFirst) ||
		!slices.Equal(r.Transitions, before.Transitions) ||
		!slices.EqualFunc(r.Services, before.Services, func(a, b Service) bool {
			return a.Name == b.Name && a.Level == b.Level && a.State == b.State && a.Text == b.Text && a.Error == b.Error &&
				a.Maintenance == b.Maintenance && slices.Equal(a.Notes, b.Notes)
		}) ||
		!slices.EqualFunc(r.Containers, before.Containers, func(a, b Container) bool {
			return a.Name == b.Name && a.DockerHost == b.DockerHost && a.Level == b.Level && a.State == b.State && a.Health == b.Health &&
				a.Maintenance == b.Maintenance
		}) ||
		!slices.EqualFunc(r.Thresholds, before.Thresholds, func(a, b Threshold) bool { return a.Alert == b.Alert && a.Level == b.Level && a.Pending == b.Pending })
}
