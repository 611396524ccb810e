package status

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Summarize sets causes, headline and summary from the rest of the report, and since when, if that is known.
func (r *Report) Summarize() {
	var began Onset
	r.Causes = findCauses(r)
	r.Headline, began = headline(r)
	r.Summary = summary(r)
	if !began.ProblemSince.IsZero() { // it is shown beside the headline, so it must be the headline's
		r.Since, r.SinceAtLeast = began.ProblemSince, began.ProblemSinceAtLeast
	}
}

// summary adds to the headline how much is affected.
func summary(r *Report) string {
	switch {
	case r.Stale != "":
		return "Polling has stalled: " + r.Stale + "."
	case len(r.Services) == 0 && len(r.Causes) == 0:
		return "Nothing is watched: no target is configured."
	}
	var details []string
	if len(r.Causes) > 0 {
		details = append(details, affectedCount(r))
	}
	if n := count(r.Services, func(s *Service) bool { return s.State == waiting }); n > 0 {
		details = append(details, wording.Count(n, "target")+" not checked yet")
	}
	if n := count(r.Containers, func(c *Container) bool { return c.Level == Unknown }); n > 0 {
		details = append(details, wording.Count(n, "container")+" in an unknown state")
	}
	if r.ConfigError != "" && len(r.Causes) > 0 {
		details = append(details, configUnused)
	}
	switch {
	case len(details) > 0:
		return r.Headline + ": " + strings.Join(details, "; ") + "."
	case r.Level != OK:
		return r.Headline + "."
	case len(r.Containers) == 0:
		return "All systems operational: " + wording.Count(len(r.Services), "target") + "."
	}
	return "All systems operational: " + wording.Count(len(r.Services), "target") + " and " +
		wording.Count(len(r.Containers), "container") + "."
}

const configUnused = "the configuration file has errors and is not used"

// count counts the elements that are so.
func count[T any](list []T, is func(*T) bool) (n int) {
	for i := range list {
		if is(&list[i]) {
			n++
		}
	}
	return n
}

// headline says in a few words how the stack is, and when the oldest open critical problem that it names began. One that it does not
// name may be older, but its time beside the headline would contradict the words.
func headline(r *Report) (text string, began Onset) {
	var failing, impaired, waiting mentioned
	for i := range r.Causes {
		switch c := &r.Causes[i]; {
		case c.Level < Warning:
			waiting.add(c)
		case c.down:
			failing.add(c)
		default:
			impaired.add(c)
		}
	}
	switch {
	case r.Stale != "":
		text = stalled
	case len(r.Services) == 0 && r.Level == Unknown:
		text = "nothing is watched"
	case len(failing.causes) > 0 && failing.level >= impaired.level:
		text, began = failing.text(), failing.Onset
	case len(impaired.causes) > 0:
		text, began = impaired.text(), impaired.Onset
		if len(failing.causes) > 0 {
			text += ", " + failing.text()
		}
	case r.ConfigError != "":
		text = configUnused
	case len(waiting.causes) > 0:
		text, began = waiting.text()+", no alert yet", waiting.Onset
	case r.Level == OK:
		text = "operational"
	default:
		text = r.Level.String()
	}
	return UpperFirst(text), began
}

// mentioned are causes of one sort.
type mentioned struct {
	causes []*Cause
	worst
}

func (n *mentioned) add(c *Cause) {
	n.causes = append(n.causes, c)
	n.worst.add(c.Level, Onset{c.Since, c.SinceAtLeast})
}

// downStates are the states of causes that do not work at all.
var downStates = []string{"is down", "are down", "is not running", "are not running"}

// text says how the causes are; of many, only the first is named.
func (n *mentioned) text() string {
	last, several := len(n.causes)-1, " are down"
	titles := make([]string, len(n.causes))
	for i, c := range n.causes {
		titles[i] = c.Title
		if !slices.Contains(downStates, c.State) {
			several = " have problems"
		}
	}
	switch {
	case last == 0:
		return titles[0] + " " + n.causes[0].State
	case last < 3:
		return strings.Join(titles[:last], ", ") + " and " + titles[last] + several
	default:
		return fmt.Sprintf("%s and %d more%s", titles[0], last, several)
	}
}

// isPlural reports whether a title takes the verb for several.
func isPlural(title string) bool {
	return strings.HasPrefix(title, "most ") || strings.HasSuffix(title, " services") || strings.HasSuffix(title, " metrics")
}

// UpperFirst writes the first letter as a capital, but not that of an identifier such as xmpp_s2s.
func UpperFirst(text string) string {
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "_-.0123456789") {
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// affectedCount says how much of what is watched has a problem.
func affectedCount(r *Report) string {
	var parts []string
	if n := count(r.Services, func(s *Service) bool { return s.Level > Unknown }); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", n, wording.Count(len(r.Services), "target")))
	}
	if n := count(r.Containers, func(c *Container) bool { return c.Level > Unknown }); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", n, wording.Count(len(r.Containers)+r.ContainersLeftOut, "container")))
	}
	return strings.Join(parts, " and ")
}
