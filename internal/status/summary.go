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
	r.Causes = findCauses(r)
	if began := r.setSummary(); !began.ProblemSince.IsZero() {
		r.Since, r.SinceAtLeast = began.ProblemSince, began.ProblemSinceAtLeast // shown beside the headline, so it must be the headline's
	}
}

// setSummary sets the headline and the summary, and returns when what the headline says began.
func (r *Report) setSummary() (began Onset) {
	r.Headline, began = headline(r)
	switch {
	case r.Stale != "":
		r.Summary = "Polling has stalled: " + r.Stale + "."
		return Onset{}
	case len(r.Services) == 0 && len(r.Causes) == 0:
		r.Summary = "Nothing is watched: no target is configured."
		return Onset{}
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
		r.Summary = r.Headline + ": " + strings.Join(details, "; ") + "."
	case r.Level == OK:
		r.Summary = operationalText(r)
	default:
		r.Summary = r.Headline + "."
	}
	return began
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
	default:
		text, began = r.quietHeadline(&waiting)
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

// quietHeadline is the headline without an alert on a target or container.
func (r *Report) quietHeadline(waiting *mentioned) (string, Onset) {
	for i := range r.Thresholds {
		if t := &r.Thresholds[i]; t.Level == r.Level && t.Level > Pending {
			return "the threshold of " + t.Alert + " is exceeded", Onset{ProblemSince: t.Since}
		}
	}
	switch {
	case r.ConfigError != "":
		return configUnused, Onset{}
	case len(waiting.causes) > 0:
		return waiting.text() + ", no alert yet", waiting.Onset
	case r.Level == OK:
		return "operational", Onset{}
	}
	return r.Level.String(), Onset{}
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

func operationalText(r *Report) string {
	text := "All systems operational: " + wording.Count(len(r.Services), "target")
	if n := len(r.Containers); n > 0 {
		text += " and " + wording.Count(n, "container")
	}
	return text + "."
}
