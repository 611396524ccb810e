// Package incident keeps a log of incidents: problems of one cause, from the reading that noticed them to the one that cleared them. It
// is a fold over the rounds of the judge.
package incident

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

const (
	// LastingWarning is how long a warning lasts before it opens an incident: most warnings become critical or end before.
	LastingWarning = 30 * time.Minute
	// QuietPeriod is how long all problems of an incident must stay away before it is closed: one that comes and goes is one incident.
	QuietPeriod = 10 * time.Minute
	// related is how much later than an incident without an outage a problem may begin and belong to it, if the incident is not its cause.
	// A certificate that ended days ago explains no outage of today.
	related = time.Hour
	// Retention is how long closed incidents are kept.
	Retention = 90 * 24 * time.Hour
	// ShownToUsers is how long after its end the page for users shows an incident, so that an update of it is read.
	ShownToUsers = 14 * 24 * time.Hour
	// trusted is how long the clock must go on, after a start or a long step forward, until incidents are dropped by their age.
	trusted = time.Hour
	// MaxIncidents is how many there are at most.
	MaxIncidents = 500
	// maxTimeline, maxProblems and maxNotes bound the size of an incident. Events beyond that are only counted.
	maxTimeline = 200
	maxProblems = 500
	maxNotes    = 100
	// maxText and maxAuthor bound a note and a name, in characters.
	maxText   = 2000
	maxAuthor = 100
)

// The states of an incident.
const (
	// Open means that a problem lasts.
	Open = "open"
	// Watching means that all problems are over, but not for QuietPeriod yet.
	Watching = "watching"
	// Closed means that it is over.
	Closed = "closed"
	// Merged means that it has the cause of an older incident, which continues it.
	Merged = "merged"
)

// Incident is one thing that went wrong, with its consequences. The log never changes an Incident that it has returned.
type Incident struct {
	ID string `json:"id"`
	// Title is a headline in human names.
	Title string `json:"title"`
	State string `json:"state"`
	// Impact says what users lost most; "" if that is unknown.
	Impact string `json:"impact,omitempty"`
	// Severity is the worst that was reached.
	Severity health.Severity `json:"severity"`
	// Cause is the subject that explains the problems best.
	Cause health.Subject `json:"cause"`
	// Began is when the first problem began, or earlier with BeganAtLeast. Opened is when it became an incident.
	Began        time.Time `json:"began"`
	BeganAtLeast bool      `json:"began_at_least,omitempty"`
	Opened       time.Time `json:"opened"`
	// Ended is when the last problem ended, zero while one lasts; EndedAtLatest says that it may have ended before.
	Ended         time.Time `json:"ended,omitzero"`
	EndedAtLatest bool      `json:"ended_at_latest,omitempty"`
	// Unwatched says that it is over only because its cause is no longer watched: nobody saw it fixed.
	Unwatched bool `json:"no_longer_watched,omitempty"`
	// Closed is when it had stayed away for QuietPeriod.
	Closed  time.Time `json:"closed,omitzero"`
	Updated time.Time `json:"updated"`
	// MergedInto is the id of the incident that continues this one.
	MergedInto string    `json:"merged_into,omitempty"`
	Problems   []Problem `json:"problems"`
	Outages    []Outage  `json:"outages"`
	Timeline   []Event   `json:"timeline"`
	// LeftOut is how many events in the middle of the timeline were dropped.
	LeftOut int    `json:"timeline_left_out,omitempty"`
	Notes   []Note `json:"notes"`
	// Updates are what people wrote about it for the users of the stack. The public page shows these, and never a note.
	Updates []Note `json:"updates,omitempty"`
	// Acknowledged is the newest acknowledgement. The timeline has all of them.
	Acknowledged Acknowledgement `json:"acknowledged,omitzero"`
	// Links are the subjects whose problems belong to the incident.
	Links []health.Subject `json:"links,omitempty"`
}

// Problem is a problem of an incident.
type Problem struct {
	health.Subject
	Alert string `json:"alert"`
	Of    string `json:"of,omitempty"`
	// Text says in human names what is wrong.
	Text string `json:"text"`
	// Severity is the worst that it reached since it began last.
	Severity health.Severity `json:"severity"`
	// Since is when it began last, Cleared when it ended last; zero while it lasts.
	Since   time.Time `json:"since"`
	AtLeast bool      `json:"at_least,omitempty"`
	Cleared time.Time `json:"cleared,omitzero"`
	// AtLatest says that it may have ended before Cleared, while nobody looked, Unwatched that it ended because nobody looks any more.
	AtLatest  bool `json:"at_latest,omitempty"`
	Unwatched bool `json:"no_longer_watched,omitempty"`
	// Excuse is why its alert is or was held back.
	Excuse health.Excuse `json:"excuse,omitzero"`
	// Cause is the subject whose problem explains it or began with it; zero if none does.
	Cause health.Subject `json:"cause,omitzero"`
	// First is when it began first, Alerted when its alert last began; zero if it had none, or in an incident of an earlier version.
	First   time.Time `json:"first,omitzero"`
	Alerted time.Time `json:"alerted,omitzero"`
}

// Outage is how long the readings of a target failed.
type Outage struct {
	health.Subject
	// Title is the target's human name.
	Title string `json:"title"`
	// Seconds is the sum of the outages that have ended, or of all in an incident that At returns.
	Seconds float64 `json:"seconds"`
	// AtMost says that an outage may have ended earlier than was noticed.
	AtMost bool `json:"at_most,omitempty"`
	// Since is when the current outage began; zero if there is none. Until is when the last one ended.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// The kinds of events.
const (
	EventBegan   = "began"
	EventAlert   = "alert"
	EventExcused = "excused"
	EventEnded   = "ended"
	// EventUnwatched ends a problem whose subject is no longer watched.
	EventUnwatched    = "no_longer_watched"
	EventAcknowledged = "acknowledged"
	EventOpened       = "opened"
	EventClosed       = "closed"
	EventMerged       = "merged"
)

// Event is an entry of a timeline.
type Event struct {
	// Time is when it happened, for the first of Count times; Until is the last one.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until,omitzero"`
	Count int       `json:"count,omitempty"`
	Kind  string    `json:"kind"`
	// Subject and Alert are those of the problem, if the event is about one. Severity is that of the alert.
	Subject  health.Subject  `json:"subject,omitzero"`
	Alert    string          `json:"alert,omitempty"`
	Of       string          `json:"of,omitempty"`
	Severity health.Severity `json:"severity"`
	Text     string          `json:"text"`
}

// Note is what somebody wrote about an incident.
type Note struct {
	Time   time.Time `json:"time"`
	Author string    `json:"author,omitempty"`
	Text   string    `json:"text"`
}

// Acknowledgement says that somebody takes care of an incident.
type Acknowledgement struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
}

// Errors of AddNote, AddUpdate and Acknowledge.
var (
	ErrUnknown = errors.New("unknown incident")
	ErrInvalid = errors.New("invalid text")
	ErrTooMany = errors.New("too many texts")
	ErrClosed  = errors.New("the incident is over")
)

// At returns the incident with the outages until now.
func (i *Incident) At(now time.Time) *Incident {
	shown := *i
	shown.Outages = slices.Clone(i.Outages)
	for k := range shown.Outages {
		if d := &shown.Outages[k]; !d.Since.IsZero() {
			d.Seconds += max(now.Sub(d.Since), 0).Seconds()
		}
	}
	return &shown
}

// Lasts reports whether the incident may still change by itself.
func (i *Incident) Lasts() bool { return i.State == Open || i.State == Watching }

func (i *Incident) clone() *Incident {
	c := *i
	c.Problems, c.Outages, c.Timeline = slices.Clone(i.Problems), slices.Clone(i.Outages), slices.Clone(i.Timeline)
	c.Notes, c.Updates, c.Links = slices.Clone(i.Notes), slices.Clone(i.Updates), slices.Clone(i.Links)
	return &c
}

// note adds an event to the timeline, in the order of time. A repetition only counts.
func (i *Incident) note(e Event) {
	for k := range i.Timeline {
		if old := &i.Timeline[k]; old.Kind == e.Kind && old.Subject == e.Subject && old.Alert == e.Alert && old.Of == e.Of &&
			old.Severity == e.Severity && old.Text == e.Text {
			old.Count = max(old.Count, 1) + max(e.Count, 1)
			old.Until = latest(latest(old.Until, old.Time), latest(e.Until, e.Time))
			if e.Time.Before(old.Time) {
				old.Time = e.Time
				slices.SortStableFunc(i.Timeline, func(a, b Event) int { return a.Time.Compare(b.Time) })
			}
			return
		}
	}
	at := len(i.Timeline)
	for at > 0 && e.Time.Before(i.Timeline[at-1].Time) {
		at--
	}
	i.Timeline = slices.Insert(i.Timeline, at, e)
	if middle := maxTimeline / 2; len(i.Timeline) > maxTimeline {
		i.LeftOut += max(i.Timeline[middle].Count, 1)
		i.Timeline = slices.Delete(i.Timeline, middle, middle+1)
	}
}

// move moves everything with the clock.
func (i *Incident) move(by time.Duration) {
	at := func(times ...*time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				*t = t.Add(by)
			}
		}
	}
	at(&i.Began, &i.Opened, &i.Ended, &i.Updated)
	for n := range i.Problems {
		p := &i.Problems[n]
		at(&p.Since, &p.Cleared, &p.First, &p.Alerted)
	}
	for n := range i.Outages {
		at(&i.Outages[n].Since, &i.Outages[n].Until)
	}
	for n := range i.Timeline {
		at(&i.Timeline[n].Time, &i.Timeline[n].Until)
	}
	for n := range i.Notes {
		at(&i.Notes[n].Time)
	}
	for n := range i.Updates {
		at(&i.Updates[n].Time)
	}
	at(&i.Acknowledged.Time)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// link adds a subject whose problems belong to the incident.
func (i *Incident) link(subjects ...health.Subject) {
	for _, s := range subjects {
		if !slices.Contains(i.Links, s) {
			i.Links = append(i.Links, s)
		}
	}
}

// about reports whether a subject is in the incident.
func (i *Incident) about(s health.Subject) bool {
	return i.Cause == s || slices.Contains(i.Links, s) || slices.ContainsFunc(i.Problems, func(p Problem) bool { return p.Subject == s })
}

// rename makes the problems of a subject those of another one. The texts and the timeline stay: so it was called then.
func (i *Incident) rename(was, of health.Subject) {
	if i.Cause == was {
		i.Cause = of
	}
	i.Links = slices.DeleteFunc(i.Links, func(s health.Subject) bool { return s == was })
	i.link(of)
	for n := range i.Outages {
		if t := &i.Outages[n]; t.Subject == was {
			t.Subject = of
		}
	}
	for n := 0; n < len(i.Problems); n++ {
		p := &i.Problems[n]
		if p.Excuse.Root == was {
			p.Excuse.Root = of
		}
		if p.Subject != was {
			continue
		}
		k := p.key()
		k.Subject = of
		if known := i.problem(k); known != nil { // both were in it
			if p.lasts() {
				known.Cleared, known.AtLatest, known.Unwatched = time.Time{}, false, false
			}
			i.Problems = slices.Delete(i.Problems, n, n+1)
			n--
			continue
		}
		p.Subject = of
	}
}

// problem returns the problem with the key, nil if there is none.
func (i *Incident) problem(k key) *Problem {
	for n := range i.Problems {
		if p := &i.Problems[n]; p.key() == k {
			return p
		}
	}
	return nil
}

// key identifies a problem.
type key struct {
	health.Subject
	alert, of string
}

func (p *Problem) key() key     { return key{p.Subject, p.Alert, p.Of} }
func keyOf(e *health.Event) key { return key{e.Subject(), e.Alert, e.Part} }
func (p *Problem) lasts() bool  { return p.Cleared.IsZero() }

// outage reports whether the readings of the problem's target fail because of it.
func (p *Problem) outage() bool { return health.FailsReadings(p.Alert) }

// checkNote returns a note without spaces around it.
func checkNote(author, text string) (Note, error) {
	n := Note{Author: strings.TrimSpace(author), Text: strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))}
	switch length := utf8.RuneCountInString(n.Text); {
	case n.Text == "":
		return n, fmt.Errorf("%w: text is empty, must say something", ErrInvalid)
	case length > maxText:
		return n, fmt.Errorf("%w: text has %d characters, must have at most %d", ErrInvalid, length, maxText)
	case !printable(n.Text, "\n\t"):
		return n, fmt.Errorf("%w: text has a character that cannot be printed; remove it", ErrInvalid)
	}
	return n, checkName("author", n.Author)
}

// checkName returns an error for a name that is not a short line of text.
func checkName(what, name string) error {
	switch {
	case utf8.RuneCountInString(name) > maxAuthor:
		return fmt.Errorf("%w: %s has more than %d characters", ErrInvalid, what, maxAuthor)
	case !printable(name, ""):
		return fmt.Errorf("%w: %s must be one line of text", ErrInvalid, what)
	}
	return nil
}

// printable reports whether a text has only printable characters, the given others, and the two that join letters or emoji.
func printable(text, others string) bool {
	others += "\u200c\u200d"
	odd := func(r rune) bool { return !unicode.IsGraphic(r) && !strings.ContainsRune(others, r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, odd)
}

// byAge sorts incidents, the oldest first.
func byAge(a, b *Incident) int { return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.ID, b.ID)) }
