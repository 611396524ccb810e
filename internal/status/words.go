package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// clock formats a time with its date.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// clockUntil formats a future time, rounded up to minutes; without the date if it is within 12 hours.
func clockUntil(now, t time.Time) string {
	t = t.UTC().Add(time.Minute - 1).Truncate(time.Minute)
	if t.Sub(now) > 12*time.Hour {
		return clock(t)
	}
	return t.Format("15:04 MST")
}

// lastKnownAt says when a state was last read that cannot be read now; without the date if it is within 12 hours.
func lastKnownAt(now, read time.Time) string {
	switch {
	case read.IsZero():
		return "last known state"
	case now.Sub(read) > 12*time.Hour:
		return "last known at " + clock(read)
	}
	return "last known at " + read.UTC().Format("15:04 MST")
}

// HumanName returns what people call a subject, such as "IRC server" for the target irc_rpc. kind is the target's.
func HumanName(s health.Subject, kind string) string {
	name, title := printableName(s.Name), rowOf(kind).Title
	switch {
	case s == health.ExporterSubject:
		return "the exporter"
	case s.OnEngine():
		return s.Kind + " " + name
	case name == kind && title != "":
		return title
	}
	return name
}

// Headline says in human names what is wrong with which subject, such as "IRC server is down". kind is the target's.
func Headline(given *health.Problem, kind string) string {
	p := *given
	p.Of, p.Name = printableName(p.Of), printableName(p.Name)
	name, text := HumanName(given.Subject, kind), plainText(&p)
	verb, rest, _ := strings.Cut(text, " ")
	switch {
	case given.Subject == health.ExporterSubject:
	case verb == "is" && strings.HasSuffix(name, " services"):
		text = name + " are " + rest
	case slices.Contains([]string{"is", "has", "does", "was", "uses", "serves", "waits"}, verb):
		text = name + " " + text
	default:
		text = name + ": " + text
	}
	return UpperFirst(text)
}

// numberOf says how many instances of a workload run, such as "one of two is running".
func numberOf(running, wanted int) string {
	verb := "are"
	if running == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s of %s %s running", numberWord(running), numberWord(max(running, wanted)), verb)
}

func numberWord(n int) string {
	if words := strings.Fields("none one two three four five six seven eight nine ten"); n < len(words) {
		return words[n]
	}
	return strconv.Itoa(n)
}

// Impact says what users lose most: what they lost before, "" for nothing, or by these problems of targets.
func Impact(before string, problems []*health.Event) string {
	losses := []string{before}
	for _, p := range problems {
		down := health.IsOutage(p.Alert) || alerts.State(p.Alert) == doesNotRelay
		if p.Of.Kind == health.KindTarget && down && !p.RefusesUs {
			losses = append(losses, rowOf(p.TargetKind).Loss)
		}
	}
	return slices.MinFunc(losses, func(a, b string) int { return cmp.Compare(rankOf(a), rankOf(b)) })
}

// rankOf returns the rank of the kind whose targets have that loss.
func rankOf(loss string) int {
	at := slices.IndexFunc(collectors.Kinds, func(k collectors.Kind) bool { return k.Loss == loss })
	if loss == "" || at < 0 {
		return lastRank
	}
	return collectors.Kinds[at].Rank
}
