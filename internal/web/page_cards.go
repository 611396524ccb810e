package web

import (
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// card is a cause on the page, with what it explains.
type card struct {
	entry
	// State completes the title to a sentence; Loss says what users lose.
	State, Loss string
	// Affected are the names of what the cause explains, Others the rows.
	Affected []string
	Others   []row
	// Brief folds away what to do, since there are many problems.
	Brief bool
	// Alert is the name of the alert with the runbook; it may be empty.
	Alert string
}

// Title implements what entry has, with a capital letter as in the headline: it begins a sentence.
func (c card) Title() string { return status.UpperFirst(c.Name) }

// Clock formats when the problem began.
func (c card) Clock() string { return c.view.Clock(c.Since) }

// cards makes a card of each cause, then of each threshold of a subject without a card.
func (v *view) cards() {
	byID, listed := map[string]row{}, map[string]bool{}
	for _, l := range []*rows{&v.ServiceList, &v.ContainerList} {
		for _, r := range append(l.Shown, l.Folded...) {
			byID[r.ID] = r
			if r.Level > status.Unknown {
				listed[r.Name] = true
			}
		}
	}
	for i := range v.Report.Causes {
		v.Cards = append(v.Cards, v.card(&v.Report.Causes[i], byID))
	}
	for i, t := range v.Thresholds {
		if t.Level >= status.Pending && !listed[t.Subject] && !listed[lastPart(t.Subject)] {
			r := newThresholdRow(t)
			v.Cards = append(v.Cards, card{
				entry: entry{
					Shown: status.Shown{Level: t.Level, Since: t.Since, Text: r.sentence()},
					ID:    "problem:threshold:" + strconv.Itoa(i),
					Kind:  "threshold",
					Name:  r.Title,
					Words: t.Subject,
					view:  v,
				},
				Alert: t.Alert,
			})
		}
	}
	for i := range v.Cards {
		v.Cards[i].Brief = i >= maxFullProblems
	}
	for _, t := range v.Thresholds {
		v.ThresholdRows = append(v.ThresholdRows, newThresholdRow(t))
	}
}

func (v *view) card(c *status.Cause, byID map[string]row) card {
	first := byID[rowID(c.Members[0])]
	k := card{
		entry:    first.entry,
		State:    c.State,
		Loss:     c.Loss,
		Affected: c.Affected,
		Alert:    c.Alert,
	}
	k.ID, k.Name, k.Words = "problem:"+rowID(c.Members[0]), c.Title, ""
	if first.Name != c.Title && !strings.Contains(c.Title, first.Name) {
		k.Words = first.Name
	}
	if (first.Kind == health.KindContainer || first.Kind == health.KindWorkload) && k.Words != "" {
		k.Words = first.Kind + " " + k.Words
	}
	k.Level, k.Since, k.ProblemSinceAtLeast, k.Text, k.Hint, k.view = c.Level, c.Since, c.SinceAtLeast, c.Text, c.Hint, v
	if strings.Contains(k.Text, k.Error) { // the text may contain the error already
		k.Error = ""
	}
	for _, s := range c.Members[1:] {
		k.Others = append(k.Others, byID[rowID(s)])
	}
	return k
}

// rowID returns the ID of a subject's row.
func rowID(s health.Subject) string {
	switch s.Kind {
	case health.KindTarget:
		return "service:" + s.Name
	case health.KindContainer:
		return "container:" + s.Host + "/" + s.Name
	case health.KindWorkload:
		return strings.Replace(health.Key(s).String(), "/", ":", 1)
	}
	return s.Kind
}

// segment is a part of a text: words, a command, or a path of this exporter.
type segment struct{ Text, Command, Path string }

// segments splits a text at its commands, which are in back quotes, and from the path at its end.
func segments(text string) (list []segment) {
	for i, part := range strings.Split(text, "`") {
		at := strings.LastIndex(part, "/debug/targets/")
		switch {
		case i%2 > 0:
			list = append(list, segment{Command: part})
		case at < 0:
			list = append(list, segment{Text: part})
		default:
			list = append(list, segment{Text: part[:at], Path: part[at+1:]}) // relative, like all links
		}
	}
	return list
}
