package notify

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// stage is how far a thread has got, or a receiver has been told.
type stage int

// The stages. A warning that is no outage may become one before it is critical.
const (
	silent stage = iota
	warned
	outage
	critical
)

func (s stage) severity() health.Severity {
	switch s {
	case silent:
		return health.Pending
	case critical:
		return health.Critical
	case warned, outage:
	}
	return health.Warning
}

// problemKey identifies a problem.
type problemKey struct {
	health.Subject
	Alert string `json:"alert"`
	Of    string `json:"of,omitempty"`
}

func keyOf(p *status.Problem) problemKey { return problemKey{p.Subject, p.Alert, p.Of} }

// firing is an alert that fires, or did until Cleared.
type firing struct {
	problemKey

	Cleared time.Time `json:"cleared,omitzero"`
}

// thread is what one cause does.
type thread struct {
	ID string `json:"id"`
	// Root is the cause. Alert is the alert that it is about, "" for all that say that something does not work.
	Root  health.Subject `json:"root"`
	Alert string         `json:"alert,omitempty"`
	// Alerts are those that fire, or did until shortly ago: what has recovered and fails again is news, although others still last.
	Alerts []firing `json:"alerts"`
	// Began is when the first problem began, or earlier with AtLeast. Stages are when it got so far, Left when it fell below.
	Began   time.Time           `json:"began"`
	AtLeast bool                `json:"at_least,omitempty"`
	Stages  map[stage]time.Time `json:"stages"`
	Left    map[stage]time.Time `json:"left"`
	// Stage is where it is now.
	Stage stage `json:"stage"`
	// Cleared is when its last alert ended, zero while one fires. Unwatched says that it ended because nobody looks any more.
	Cleared   time.Time `json:"cleared,omitzero"`
	Unwatched bool      `json:"no_longer_watched,omitempty"`
	// Into is the thread that goes on with what this one was about, "" for none. Then only its end is left to tell, with the other's.
	Into string `json:"into,omitempty"`
	// Said is what messages say of it.
	Said said `json:"said"`
	// Told is what the receivers have been told, by their names.
	Told map[string]*told `json:"told"`

	// lasting are its problems that last now.
	lasting []*status.Problem
	// incident is that of the thread, nil for none.
	incident *incident.Incident
}

// told is what a receiver has been told of a thread.
type told struct {
	Stage stage     `json:"stage"`
	At    time.Time `json:"at"`
	// Title is that of the last message.
	Title string `json:"title,omitempty"`
	// Times counts the messages, Texts those of people that were told.
	Times int `json:"times"`
	Texts int `json:"texts,omitempty"`
	// Woken says that the receiver was told that it is critical, and not yet of the end.
	Woken bool `json:"woken,omitempty"`
	// Held says that a summary is to tell it: in the morning, or that it was there before the receiver was configured.
	Held bool `json:"held,omitempty"`
}

// heard reports whether the receiver was told, and not of the end.
func (k *told) heard() bool { return k.Stage > silent && !k.Held }

// said is what messages say of a thread, as last seen.
type said struct {
	Title string `json:"title"`
	Loss  string `json:"loss,omitempty"`
	Text  string `json:"text,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// Affected are the human names of its consequences, and how many there are.
	Affected []string `json:"affected,omitempty"`
}

// group is the problems of one cause whose alerts fire now. Of is the part of the cause, "" for what does not work.
type group struct {
	root      health.Subject
	alert, of string
	problems  []*status.Problem
}

// groupsOf returns the groups of a report, the worst first.
func groupsOf(r *status.Report) (list []*group) {
	most := mostOf(r)
	for i := range r.Problems {
		p := &r.Problems[i]
		if !fires(r, p) {
			continue
		}
		g := &group{root: cmp.Or(p.Cause, p.Subject), alert: p.Alert, of: p.Of}
		if alerts.TellsOutage(p.Alert) {
			g.alert, g.of = "", ""
			g.root = most.rootOf(p, g.root)
		}
		at := slices.IndexFunc(list, func(o *group) bool { return o.root == g.root && o.alert == g.alert && o.of == g.of })
		if at < 0 {
			at, list = len(list), append(list, g)
		}
		list[at].problems = append(list[at].problems, p)
	}
	return list
}

// outageOfMost is the problem that most targets are down; nil if there is none.
type outageOfMost status.Problem

// rootOf returns the cause of an outage. What goes down much later than most targets did is no part of that.
func (m *outageOfMost) rootOf(p *status.Problem, root health.Subject) health.Subject {
	switch {
	case m == nil || p.Subject == m.Subject:
		return root
	case p.Since.Sub(m.Since) < together && (slices.Contains(m.Consequences, p.Subject) || slices.Contains(m.Consequences, root)):
		return m.Subject
	case root == m.Subject:
		return p.Subject
	}
	return root
}

func mostOf(r *status.Report) *outageOfMost {
	for i := range r.Problems {
		if p := &r.Problems[i]; p.Subject == health.ExporterSubject && health.IsOutage(p.Alert) && fires(r, p) {
			return (*outageOfMost)(p)
		}
	}
	return nil
}

// fires reports whether the alert on a problem does.
func fires(r *status.Report, p *status.Problem) bool {
	return p.Severity >= health.Warning && !p.Excuse.Holds() &&
		!slices.ContainsFunc(r.HeldBack, func(h health.HeldBack) bool { return h.Alert == p.Alert && h.Subject == p.Subject })
}

// stageOf returns how far the problems have got.
func stageOf(problems []*status.Problem) (s stage) {
	for _, p := range problems {
		switch {
		case p.Severity == health.Critical:
			s = max(s, critical)
		case health.IsOutage(p.Alert):
			s = max(s, outage)
		default:
			s = max(s, warned)
		}
	}
	return s
}

// book has the threads, the oldest first.
type book struct {
	threads []*thread
	// keep is how long an alert goes on firing after its problem: keep_firing_for of its rules. nil is not at all.
	keep func(alert string) time.Duration
}

// ends is how long alerts must be over before that counts: as long as they go on firing.
func (b *book) ends(list ...firing) time.Duration {
	ends := settleEnd
	for i := range list {
		if b.keep != nil {
			ends = max(ends, b.keep(list[i].Alert))
		}
	}
	return ends
}

// isOver reports whether a thread has been over for as long as its alerts go on.
func (b *book) isOver(t *thread, now time.Time) bool {
	return !t.Cleared.IsZero() && now.Sub(t.Cleared) >= b.ends(t.Alerts...)
}

// look brings the threads up to date.
func (b *book) look(v *View) {
	for _, t := range b.threads {
		t.lasting, t.incident = nil, nil
	}
	for _, g := range groupsOf(v.Report) {
		t := b.threadOf(v.Now, g)
		if len(t.lasting) == 0 {
			t.Root = g.root // the cause may turn out to be another
		}
		t.lasting = append(t.lasting, g.problems...)
	}
	for _, t := range b.threads {
		if t.Into == "" {
			t.follow(v, b.ends(t.Alerts...))
			b.shed(t, v)
		}
	}
	for _, t := range b.threads {
		if t.Into != "" {
			t.end(b.named(t.Into), v.Now)
		}
	}
}

// named returns the thread with an ID, nil for none.
func (b *book) named(id string) *thread {
	at := slices.IndexFunc(b.threads, func(t *thread) bool { return t.ID == id })
	if at < 0 {
		return nil
	}
	return b.threads[at]
}

// end has a thread end when the one does that goes on with it.
func (t *thread) end(other *thread, now time.Time) {
	switch {
	case other != nil:
		t.Stage, t.Left, t.Cleared = other.Stage, maps.Clone(other.Left), other.Cleared
		t.Unwatched, t.incident = other.Unwatched, other.incident
	case t.Cleared.IsZero():
		t.Stage, t.Cleared = silent, now
	}
}

// shed notes which alerts of a thread fire no more, and drops those that are over while others last.
func (b *book) shed(t *thread, v *View) {
	for i := range t.Alerts {
		switch a := &t.Alerts[i]; {
		case slices.ContainsFunc(t.lasting, func(p *status.Problem) bool { return keyOf(p) == a.problemKey }):
			a.Cleared = time.Time{}
		case a.Cleared.IsZero() && !v.Starting:
			a.Cleared = v.Now
		}
	}
	if len(t.lasting) > 0 {
		t.Alerts = slices.DeleteFunc(t.Alerts, func(a firing) bool { return !a.Cleared.IsZero() && v.Now.Sub(a.Cleared) >= b.ends(a) })
	}
}

// threadOf returns the thread of a group, which joins all that know one of its problems.
func (b *book) threadOf(now time.Time, g *group) *thread {
	var found *thread
	isNew := !slices.ContainsFunc(b.threads, func(t *thread) bool { return !b.isOver(t, now) && t.hasOneOf(g) })
	b.threads = slices.DeleteFunc(b.threads, func(t *thread) bool {
		switch {
		case t.Into != "", !t.hasOneOf(g) && !t.takes(g, now, isNew), b.isOver(t, now): // what comes back then is new
			return false
		case found == nil:
			found = t
			return false
		}
		for _, o := range b.threads {
			if o != nil && o.Into == t.ID {
				o.Into = found.ID
			}
		}
		return !found.join(t)
	})
	if found == nil {
		first := g.problems[0]
		for _, p := range g.problems {
			if p.Since.Before(first.Since) {
				first = p
			}
		}
		found = &thread{
			ID:      idOf(g, now),
			Root:    g.root,
			Alert:   g.alert,
			Began:   first.Since,
			AtLeast: first.AtLeast,
			Stages:  map[stage]time.Time{},
			Left:    map[stage]time.Time{},
			Told:    map[string]*told{},
		}
		b.threads = append(b.threads, found)
	}
	for _, p := range g.problems {
		found.add(firing{problemKey: keyOf(p)})
	}
	return found
}

// idOf returns the name of a new thread.
func idOf(g *group, now time.Time) string {
	h := fnv.New64a()
	h.Write([]byte(strings.Join([]string{health.Key(g.root).String(), g.alert, g.of, now.UTC().String()}, "\n")))
	return hex.EncodeToString(h.Sum(nil))
}

// takes reports whether a group belongs to the thread for its cause: what does not work always does, if it has the name of the cause, too,
// such as a target and its container. Another part of a cause does only while both are new, and none of the exporter itself: each receiver
// that fails has a thread.
func (t *thread) takes(g *group, now time.Time, isNew bool) bool {
	switch {
	case t.Alert != g.alert, t.isOwn():
		return false
	case g.alert != "":
		noticed := t.Stages[warned] // zero in the look that begins it
		return t.Root == g.root && isNew && (noticed.IsZero() || now.Sub(noticed) < together)
	}
	return t.Root == g.root || t.Root.Name == g.root.Name && t.Root.Kind != g.root.Kind
}

// hasOneOf reports whether the thread is about a problem of the group.
func (t *thread) hasOneOf(g *group) bool {
	return slices.ContainsFunc(g.problems, func(p *status.Problem) bool { return t.has(keyOf(p)) })
}

// has reports whether the thread is about a problem.
func (t *thread) has(k problemKey) bool {
	return slices.ContainsFunc(t.Alerts, func(a firing) bool { return a.problemKey == k })
}

// add adds an alert that the thread does not know.
func (t *thread) add(a firing) {
	if !t.has(a.problemKey) {
		t.Alerts = append(t.Alerts, a)
	}
}

// join goes on with what a younger thread was about. Whoever was told of that knows as much of this one. It reports whether somebody is to
// be told the end of the other.
func (t *thread) join(o *thread) (ends bool) {
	for _, a := range o.Alerts {
		t.add(a)
	}
	if o.Began.Before(t.Began) {
		t.Began, t.AtLeast = o.Began, o.AtLeast
	}
	for s, at := range o.Stages {
		if known := t.Stages[s]; known.IsZero() || at.Before(known) {
			t.Stages[s] = at
		}
	}
	t.lasting = append(t.lasting, o.lasting...)
	for name, other := range o.Told {
		ends = ends || other.Stage > silent || other.Held
		known := t.Told[name]
		if known == nil {
			known = &told{}
			t.Told[name] = known
		}
		known.Held = known.Held && !other.heard()
		if known.Stage = max(known.Stage, other.Stage); other.At.After(known.At) {
			known.At = other.At
		}
	}
	o.Into, o.lasting = t.ID, nil
	return ends
}

// follow takes over what lasts now. A stage that it comes back to after more than ends is a new one.
func (t *thread) follow(v *View, ends time.Duration) {
	t.incident = t.incidentIn(v.Incidents)
	now := stageOf(t.lasting)
	switch {
	case now > silent:
		t.Cleared, t.Unwatched = time.Time{}, false
		t.say(v.Report)
	case v.Starting && t.Cleared.IsZero():
		return // nobody has looked yet
	case t.Cleared.IsZero():
		t.Cleared = v.Now
		t.Unwatched = t.incident != nil && t.incident.Unwatched
	}
	for s := warned; s <= critical; s++ {
		switch left := t.Left[s]; {
		case s <= now:
			if t.Stages[s].IsZero() || !left.IsZero() && v.Now.Sub(left) >= ends {
				t.Stages[s] = v.Now
			}
			delete(t.Left, s)
		case s <= t.Stage:
			t.Left[s] = v.Now
		}
	}
	t.Stage = now
}

// incidentIn returns the newest incident of one of its problems that was there while the thread was; nil for none.
func (t *thread) incidentIn(list []*incident.Incident) *incident.Incident {
	for _, i := range list {
		if i.State == incident.Merged || !t.Cleared.IsZero() && i.Began.After(t.Cleared) || !i.Ended.IsZero() && i.Ended.Before(t.Began) {
			continue
		}
		for n := range i.Problems {
			p := &i.Problems[n]
			if t.has(problemKey{p.Subject, p.Alert, p.Of}) {
				return i
			}
		}
	}
	return nil
}

// about reports whether the thread is about one of the named targets or containers; none is all.
func (t *thread) about(names []string) bool {
	return len(names) == 0 || slices.Contains(names, t.Root.Name) ||
		slices.ContainsFunc(t.Alerts, func(a firing) bool { return slices.Contains(names, a.Name) })
}

// acknowledged reports whether somebody takes care of it.
func (t *thread) acknowledged() bool {
	return t.incident != nil && !t.incident.Acknowledged.Time.IsZero()
}

// texts are those that people wrote about it, oldest first.
func (t *thread) texts() []incident.Note {
	if t.incident == nil {
		return nil
	}
	list := slices.Clone(t.incident.Notes)
	if a := t.incident.Acknowledged; !a.Time.IsZero() {
		list = append(list, incident.Note{Time: a.Time, Author: a.By, Text: "acknowledged: takes care of it"})
	}
	slices.SortStableFunc(list, func(a, b incident.Note) int { return a.Time.Compare(b.Time) })
	return list
}

// forget drops what removed receivers were told, and the threads that are over and told.
func (b *book) forget(now time.Time, known func(receiver string) bool) {
	b.threads = slices.DeleteFunc(b.threads, func(t *thread) bool {
		waits := false
		maps.DeleteFunc(t.Told, func(name string, k *told) bool {
			waits = waits || known(name) && (k.Stage > silent || k.Held)
			return !known(name)
		})
		return b.isOver(t, now) && (!waits || now.Sub(t.Cleared) > maxTold)
	})
}

// notAfter corrects times that a clock noted which was ahead. They would hold up what depends on them until then.
func (t *thread) notAfter(now time.Time) {
	for _, stages := range []map[stage]time.Time{t.Stages, t.Left} {
		for s, at := range stages {
			stages[s] = earlier(at, now)
		}
	}
	for i := range t.Alerts {
		t.Alerts[i].Cleared = earlier(t.Alerts[i].Cleared, now)
	}
	for _, k := range t.Told {
		k.At = earlier(k.At, now)
	}
	t.Began, t.Cleared = earlier(t.Began, now), earlier(t.Cleared, now)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
