package incident

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Words are how people call things.
type Words interface {
	// Name is the human name of a subject.
	Name(s health.Subject) string
	// Headline says in a few words what is wrong with which subject.
	Headline(p *health.Problem) string
	// Impact says what users lose most: by these problems, or what they lost before.
	Impact(before string, problems []*health.Problem) string
}

// Log has all incidents. It is not safe for concurrent use.
type Log struct {
	incidents []*Incident // oldest first
	// resumed is when this process first observed. The incidents before were restored.
	resumed time.Time
	// behindSince is since when the clock has been behind the incidents; zero if it is not.
	behindSince time.Time
	// noticed is what is known of present problems from before they belong to an incident.
	noticed map[key]noticed
}

// noticed is since when the alert on a problem has been a warning, and held back; zero if it is not.
type noticed struct{ warning, excused time.Time }

// Restore adds an incident of a former process, or replaces the one with the same id.
func (l *Log) Restore(data []byte) error {
	i := &Incident{}
	if err := json.Unmarshal(data, i); err != nil {
		return fmt.Errorf("parse incident: %w", err)
	}
	if i.ID == "" || i.Began.IsZero() {
		return fmt.Errorf("incident %q has no id or beginning", i.ID)
	}
	if old := l.index(i.ID); old >= 0 {
		l.incidents[old] = i
		return nil
	}
	l.incidents = append(l.incidents, i)
	slices.SortStableFunc(l.incidents, byAge) // a rewritten file has the newest first
	return nil
}

// Mend closes restored incidents that should be continued by one that is not there, or in the end by themselves, as in a file that was
// put together from several.
func (l *Log) Mend() {
	for n, i := range l.incidents {
		if l.heir(n) < 0 {
			mended := i.clone()
			mended.State, mended.MergedInto = Closed, ""
			l.incidents[n] = mended
		}
	}
}

// heir returns the incident that continues one in the end; -1 if there is none.
func (l *Log) heir(at int) int {
	for range l.incidents {
		if at < 0 || l.incidents[at].State != Merged {
			return at
		}
		at = l.index(l.incidents[at].MergedInto)
	}
	return -1
}

// All returns the incidents, newest first. The caller may keep but not change them.
func (l *Log) All() []*Incident {
	all := slices.Clone(l.incidents)
	slices.Reverse(all)
	return all
}

// Len is how many incidents there are.
func (l *Log) Len() int { return len(l.incidents) }

func (l *Log) index(id string) int {
	return slices.IndexFunc(l.incidents, func(i *Incident) bool { return i.ID == id })
}

// AddNote adds a note to an incident, or to the one that continues it. The error wraps ErrUnknown, ErrInvalid or ErrTooMany.
func (l *Log) AddNote(now time.Time, id, author, text string) (*Incident, error) {
	return l.write(now, id, author, text, func(i *Incident) *[]Note { return &i.Notes })
}

// AddUpdate adds an update for the users, as AddNote adds a note.
func (l *Log) AddUpdate(now time.Time, id, author, text string) (*Incident, error) {
	return l.write(now, id, author, text, func(i *Incident) *[]Note { return &i.Updates })
}

// write adds a text to one of an incident's lists.
func (l *Log) write(now time.Time, id, author, text string, list func(*Incident) *[]Note) (*Incident, error) {
	n, err := checkNote(author, text)
	if err != nil {
		return nil, err
	}
	return l.change(now, id, func(i *Incident) error {
		texts := list(i)
		if len(*texts) >= maxNotes {
			return fmt.Errorf("%w: the incident has %d", ErrTooMany, maxNotes)
		}
		n.Time = now
		*texts = append(*texts, n)
		return nil
	})
}

// Acknowledge says who takes care of an incident, or of the one that continues it; user is who sent it, "" for the same. The error wraps
// ErrUnknown, ErrInvalid or ErrClosed.
func (l *Log) Acknowledge(now time.Time, id, by, user string) (*Incident, error) {
	by = strings.TrimSpace(by)
	if by == "" {
		return nil, fmt.Errorf("%w: the name is empty, must say who takes care of the incident", ErrInvalid)
	}
	if err := checkName("the name", by); err != nil {
		return nil, err
	}
	return l.change(now, id, func(i *Incident) error {
		if !i.Lasts() {
			return fmt.Errorf("%w: it was closed at %s, so there is nothing to take care of", ErrClosed,
				i.Closed.UTC().Format("2006-01-02 15:04 UTC"))
		}
		text := "acknowledged by " + by
		if user != "" && user != by {
			text += " (sent by the user " + user + ")"
		}
		i.Acknowledged = Acknowledgement{now, by}
		i.note(Event{Time: now, Kind: EventAcknowledged, Text: text})
		return nil
	})
}

// change makes what somebody asked for of an incident, or of the one that continues it.
func (l *Log) change(now time.Time, id string, do func(*Incident) error) (*Incident, error) {
	at := l.heir(l.index(id))
	if at < 0 {
		return nil, fmt.Errorf("%w %q", ErrUnknown, failure.Printable(id, 100))
	}
	i := l.incidents[at].clone()
	if err := do(i); err != nil {
		return nil, err
	}
	i.Updated, l.incidents[at] = now, i
	return i, nil
}

// draft is an incident that an observation may change.
type draft struct {
	*Incident
	changed bool
}

func (d *draft) event(e Event) { d.note(e); d.changed = true }

// observation is what one judgement adds to the log.
type observation struct {
	*health.Judgement
	words Words
	now   time.Time
	open  []*draft // oldest first
	// problems are all that can belong to an incident; causes are those of their subjects.
	problems map[key]*health.Problem
	noticed  map[key]noticed
	causes   map[health.Subject]health.Subject
	// young says that this process may not have read everything yet.
	young bool
}

// Observe brings the log up to date with a judgement, and returns the incidents that have changed.
func (l *Log) Observe(j *health.Judgement, words Words) (changed []*Incident) {
	if l.behind(j.Time) {
		return nil
	}
	l.notice(j)
	o := &observation{
		Judgement: j,
		words:     words,
		now:       j.Time,
		problems:  map[key]*health.Problem{},
		noticed:   l.noticed,
		causes:    map[health.Subject]health.Subject{},
	}
	if l.resumed.IsZero() {
		l.resumed = j.Time
	}
	if l.resumed.After(o.now) { // the clock was set back
		l.resumed = o.now
	}
	l.prune(o.now)
	o.young = o.now.Sub(l.resumed) < QuietPeriod
	for _, i := range l.incidents {
		if !i.Lasts() {
			continue
		}
		d := &draft{Incident: i.clone(), changed: i.Updated.After(o.now)}
		if d.changed {
			d.clamp(o.now)
		}
		o.open = append(o.open, d)
	}
	if len(o.open) == 0 && !slices.ContainsFunc(j.Problems, func(p health.Problem) bool { return opens(&p) }) {
		return nil
	}
	o.gather()
	for _, d := range o.open {
		o.follow(d)
	}
	free := o.join()
	o.openNew(l, free)
	o.merge()
	for _, d := range o.open {
		o.finish(d, l.resumed)
		if d.changed {
			changed = append(changed, d.Incident)
		}
		if at := l.index(d.ID); at >= 0 {
			l.incidents[at] = d.Incident
		} else {
			l.incidents = append(l.incidents, d.Incident)
		}
	}
	if len(changed) > 0 {
		slices.SortStableFunc(l.incidents, byAge)
		l.prune(o.now)
	}
	return changed
}

// behind reports whether the clock is behind the incidents that last. At a start it may be wrong until it is corrected, so nothing is
// changed for maxBehind; after that, their times are wrong.
func (l *Log) behind(now time.Time) bool {
	ahead := slices.ContainsFunc(l.incidents, func(i *Incident) bool { return i.Lasts() && i.Updated.Sub(now) > time.Minute })
	if !ahead {
		l.behindSince = time.Time{}
		return false
	}
	if l.behindSince.IsZero() || now.Before(l.behindSince) {
		l.behindSince = now
	}
	return now.Sub(l.behindSince) < maxBehind
}

// notice remembers since when alerts on present problems have been warnings, and held back.
func (l *Log) notice(j *health.Judgement) {
	before := l.noticed
	l.noticed = make(map[key]noticed, len(j.Problems))
	for n := range j.Problems {
		p := &j.Problems[n]
		now := before[keyOf(p)]
		if p.Severity >= health.Warning && now.warning.IsZero() {
			now.warning = j.Time
		}
		if !p.Excuse.Holds() {
			now.excused = time.Time{}
		} else if now.excused.IsZero() {
			now.excused = j.Time
		}
		l.noticed[keyOf(p)] = now
	}
}

// opens reports whether a problem opens an incident.
func opens(p *health.Problem) bool {
	return p.Severity == health.Critical || p.Severity == health.Warning && p.Lasted >= LastingWarning
}

// gather collects the problems, and the causes of their subjects. Maintenance neither opens an incident nor joins one.
func (o *observation) gather() {
	for n := range o.Problems {
		p := &o.Problems[n]
		o.problems[keyOf(p)] = p
		if p.Excuse.Reason != health.ReasonMaintenance {
			o.causes[p.Subject] = p.Cause
		}
	}
}

// links are the subjects that have one cause with a problem: its own, its cause, and the container that serves it.
func (o *observation) links(p *health.Problem) []health.Subject {
	list := []health.Subject{p.Subject, p.Cause}
	if server := o.Servers[p.Name]; p.Subject == health.TargetSubject(p.Name) && server.Container != "" {
		list = append(list, health.ContainerSubject(server.Host, server.Container))
	}
	return list
}

// follow brings the problems of an incident up to date.
func (o *observation) follow(d *draft) {
	for n := range d.Problems {
		p := &d.Problems[n]
		switch now := o.problems[p.key()]; {
		case now != nil && (p.lasts() || now.Excuse.Reason != health.ReasonMaintenance):
			o.update(d, p, now)
		case now != nil || !p.lasts():
		case o.Verdicts[p.Subject].Unknown:
			p.confirmed = false
		case !p.confirmed && o.young && !o.knows(p.Subject):
			// Its engine has not been read yet.
		default:
			o.clear(d, p)
		}
	}
}

// update takes over the present state of a problem.
func (o *observation) update(d *draft, p *Problem, now *health.Problem) {
	p.confirmed = !now.Unknown && !o.Verdicts[p.Subject].Unknown
	if !p.lasts() {
		p.Since, p.AtLeast, p.Cleared, p.AtLatest, p.Unwatched = now.Since, now.AtLeast, time.Time{}, false, false
		p.Severity, p.Excuse, p.LastEvent = health.Pending, health.Excuse{}, time.Time{}
		d.event(o.began(p))
	}
	if p.countsEvents() && (p.LastEvent.IsZero() || now.Ends.Sub(p.Expires) > time.Second) {
		p.LastEvent, p.Expires, d.changed = o.now, now.Ends, true
	}
	before := o.noticed[p.key()]
	if now.Severity == health.Critical && p.Severity == health.Pending && before.warning.Before(o.now) {
		o.raise(d, p, health.Warning, before.warning)
	}
	if now.Severity > p.Severity {
		at := o.now
		if now.Severity == health.Warning {
			at = before.warning
		}
		o.raise(d, p, now.Severity, at)
	}
	if now.Excuse != p.Excuse && now.Excuse.Holds() {
		at := o.now
		if !p.Excuse.Holds() {
			at = before.excused
		}
		p.Excuse = now.Excuse
		d.event(o.about(p, EventExcused, at, "no alert for "+o.words.Name(p.Subject)+": "+o.excuse(now)))
	}
}

// raise notes that a problem raises an alert.
func (o *observation) raise(d *draft, p *Problem, severity health.Severity, at time.Time) {
	p.Severity, p.Alerted = severity, latest(p.Alerted, at)
	d.event(o.about(p, EventAlert, at, fmt.Sprintf("alert %s (%s): %s", p.Alert, p.Severity, p.Text)))
}

// clear ends a problem. One that counts events ended with the last of them.
func (o *observation) clear(d *draft, p *Problem) {
	p.Cleared, p.AtLatest = o.now, !p.confirmed
	if p.countsEvents() && !p.LastEvent.IsZero() {
		p.Cleared, p.AtLatest = p.LastEvent, false
	}
	kind, text := EventEnded, "over: "+p.Text
	if p.Unwatched = !o.knows(p.Subject) && p.Subject != health.ExporterSubject; p.Unwatched {
		kind, text = EventUnwatched, "no longer watched: "+o.words.Name(p.Subject)
	} else if p.AtLatest {
		text += " (at the latest)"
	}
	d.event(o.about(p, kind, p.Cleared, text))
}

// knows reports whether the exporter watches the subject.
func (o *observation) knows(s health.Subject) bool { _, known := o.Verdicts[s]; return known }

func (o *observation) began(p *Problem) Event {
	text := p.Text
	if p.AtLeast {
		text += " (or earlier)"
	}
	e := o.about(p, EventBegan, p.Since, text)
	e.Severity = health.Pending
	return e
}

func (o *observation) about(p *Problem, kind string, at time.Time, text string) Event {
	return Event{
		Time:     at,
		Kind:     kind,
		Subject:  p.Subject,
		Alert:    p.Alert,
		Of:       p.Of,
		Severity: p.Severity,
		Text:     text,
	}
}

// excuse says why an alert is held back.
func (o *observation) excuse(p *health.Problem) string {
	var text, root string
	if e := p.Excuse; e.Root.Name != "" && e.Root.Name != e.Cause {
		root = ", because of " + o.words.Name(e.Root)
	}
	switch cause := failure.Printable(p.Excuse.Cause, maxName); p.Excuse.Reason {
	case health.ReasonMaintenance:
		return "maintenance"
	case health.ReasonContainer:
		text = "its container " + cause + " is or was down"
	case health.ReasonStarting:
		text = "it waits for " + cause
	default:
		text = "it needs " + cause
	}
	return text + root
}

// maxName bounds the names in a text, in characters.
const maxName = 255

// join adds new problems to the incidents of their cause, and returns the others by their cause.
func (o *observation) join() (free map[health.Subject][]*health.Problem) {
	known := map[key]bool{}
	for _, d := range o.open {
		for n := range d.Problems {
			known[d.Problems[n].key()] = true
		}
	}
	free = map[health.Subject][]*health.Problem{}
	for n := range o.Problems {
		p := &o.Problems[n]
		if known[keyOf(p)] || p.Excuse.Reason == health.ReasonMaintenance {
			continue
		}
		if d := o.homeOf(p); d != nil {
			o.add(d, p)
			continue
		}
		free[p.Cause] = append(free[p.Cause], p)
	}
	return free
}

// homeOf returns the incident to which a problem belongs; a critical one before an older one.
func (o *observation) homeOf(p *health.Problem) (best *draft) {
	for _, d := range o.open {
		caused := p.Excuse.Holds() && slices.Contains(d.Links, p.Excuse.Root)
		if o.linked(d, p) && (caused || d.takes(p.Since)) && (best == nil || d.Severity > best.Severity) {
			best = d
		}
	}
	return best
}

// takes reports whether a problem that began then may belong to the incident without being caused by it.
func (d *draft) takes(began time.Time) bool {
	return began.Sub(d.Began) <= related || slices.ContainsFunc(d.Outages, func(t Outage) bool { return !t.Since.IsZero() })
}

// linked reports whether an incident and a problem have one cause.
func (o *observation) linked(d *draft, p *health.Problem) bool {
	return slices.ContainsFunc(d.Links, func(s health.Subject) bool { return o.causes[s] == p.Cause || slices.Contains(o.links(p), s) })
}

// add adds a problem to an incident.
func (o *observation) add(d *draft, given *health.Problem) {
	p := Problem{
		Subject: given.Subject,
		Alert:   given.Alert,
		Of:      given.Of,
		Text:    o.words.Headline(given),
		Began:   given.Since,
		Since:   given.Since,
		AtLeast: given.AtLeast,
	}
	d.link(o.links(given)...)
	d.event(o.began(&p))
	o.update(d, &p, given)
	d.Problems = append(d.Problems, p)
	if len(d.Problems) > maxProblems {
		if ended := slices.IndexFunc(d.Problems, func(p Problem) bool { return !p.lasts() }); ended >= 0 {
			d.Problems = slices.Delete(d.Problems, ended, ended+1)
		}
	}
}

// openNew opens incidents for problems that belong to none.
func (o *observation) openNew(l *Log, free map[health.Subject][]*health.Problem) {
	for _, problems := range free {
		at := slices.IndexFunc(problems, opens)
		if at < 0 {
			continue
		}
		first := problems[at]
		d := &draft{Incident: &Incident{
			ID:       l.newID(first, o.open),
			State:    Open,
			Severity: first.Severity,
			Began:    first.Since,
			Opened:   o.now,
			Notes:    []Note{},
			Outages:  []Outage{},
		}}
		for _, p := range problems {
			o.add(d, p)
		}
		d.event(Event{
			Time:     o.now,
			Kind:     EventOpened,
			Severity: first.Severity,
			Text:     "the incident was opened",
		})
		o.open = append(o.open, d)
	}
	slices.SortStableFunc(o.open, func(a, b *draft) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
}

// newID returns a short id that no incident has.
func (l *Log) newID(p *health.Problem, open []*draft) string {
	for n := 0; ; n++ {
		h := fnv.New32a()
		//nolint:errcheck // a hash takes everything
		fmt.Fprintf(h, "%d %q %q %q %q %q %d", p.Since.UnixNano(), p.Kind, p.Host, p.Name, p.Alert, p.Of, n)
		id := fmt.Sprintf("%s-%08x", p.Since.UTC().Format("20060102"), h.Sum32())
		if l.index(id) < 0 && !slices.ContainsFunc(open, func(d *draft) bool { return d.ID == id }) {
			return id
		}
	}
}

// merge joins incidents that turn out to have one cause.
func (o *observation) merge() {
	for n := 0; n < len(o.open); n++ {
		older := o.open[n]
		for _, younger := range o.open[n+1:] {
			if younger.State == Merged || older.State == Merged || !o.oneCause(older, younger) {
				continue
			}
			younger.setCause()
			for _, p := range younger.Problems {
				if known := older.problem(p.key()); known == nil {
					older.Problems = append(older.Problems, p)
				} else {
					known.Alerted = latest(known.Alerted, p.Alerted)
				}
			}
			for _, e := range younger.Timeline {
				older.event(e)
			}
			older.LeftOut += younger.LeftOut
			older.link(younger.Links...)
			older.addOutages(younger.Outages)
			older.Impact = cmp.Or(older.Impact, younger.Impact)
			if younger.Acknowledged.Time.After(older.Acknowledged.Time) {
				older.Acknowledged = younger.Acknowledged
			}
			older.Notes, older.Updates = byTime(older.Notes, younger.Notes), byTime(older.Updates, younger.Updates)
			older.event(Event{Time: o.now, Kind: EventMerged, Text: "has the cause of another incident, which ends here: " + younger.Title})
			younger.State, younger.MergedInto, younger.Closed = Merged, older.ID, o.now
			younger.event(Event{Time: o.now, Kind: EventMerged, Text: "continues in the incident " + older.ID})
		}
	}
}

// byTime joins two lists of texts.
func byTime(a, b []Note) []Note {
	all := append(a, b...)
	slices.SortStableFunc(all, func(a, b Note) int { return a.Time.Compare(b.Time) })
	return all
}

// addOutages adds the outages of a merged incident.
func (d *draft) addOutages(list []Outage) {
	for _, t := range list {
		at := slices.IndexFunc(d.Outages, func(own Outage) bool { return own.Subject == t.Subject })
		if at < 0 {
			d.Outages = append(d.Outages, t)
			continue
		}
		own := &d.Outages[at]
		own.Seconds, own.AtMost = own.Seconds+t.Seconds-own.overlap(&t), own.AtMost || t.AtMost
		if own.Since.IsZero() || !t.Since.IsZero() && t.Since.Before(own.Since) {
			own.Since = t.Since
		}
		if t.Until.After(own.Until) {
			own.Until = t.Until
		}
	}
}

// overlap is for how many seconds both ended outages lasted, each taken as one.
func (t *Outage) overlap(other *Outage) float64 {
	gap := t.Until.Sub(other.Until).Seconds() // how much later t ended
	return max(min(t.Seconds-max(gap, 0), other.Seconds-max(-gap, 0)), 0)
}

// oneCause reports whether what lasts links two incidents.
func (o *observation) oneCause(older, younger *draft) bool {
	for _, pair := range [][2]*draft{{older, younger}, {younger, older}} {
		for n := range pair[0].Problems {
			p := o.problems[pair[0].Problems[n].key()]
			if p == nil || !o.linked(pair[1], p) {
				continue
			}
			caused := p.Excuse.Holds() && slices.Contains(pair[1].Links, p.Excuse.Root)
			if caused || older.takes(younger.Began) {
				return true
			}
		}
	}
	return false
}

// finish sets what follows from the problems of an incident.
func (o *observation) finish(d *draft, resumed time.Time) {
	if d.State == Merged {
		d.Updated = o.now
		return
	}
	o.measure(d)
	o.weigh(d)
	d.setCause()
	ended, lasts, atLatest := time.Time{}, false, false
	for n := range d.Problems {
		p := &d.Problems[n]
		if d.Severity = max(d.Severity, p.Severity); p.Since.Before(d.Began) {
			d.Began = p.Since
		}
		if lasts = lasts || p.lasts(); !p.Cleared.Before(ended) {
			ended, atLatest = p.Cleared, p.AtLatest
		}
	}
	for _, e := range d.Timeline { // a problem that has ended may have been dropped
		if e.Kind == EventBegan && e.Time.Before(d.Began) {
			d.Began = e.Time
		}
	}
	d.BeganAtLeast = slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.AtLeast && p.Since.Equal(d.Began) })
	switch {
	case lasts:
		d.State, d.Ended, d.EndedAtLatest = Open, time.Time{}, false
	case d.State == Open:
		d.State, d.Ended, d.EndedAtLatest, d.changed = Watching, ended, atLatest, true
	}
	unwatched := func(p Problem) bool { return p.Unwatched && p.Subject == d.Cause && p.Text == d.Title }
	d.Unwatched = !lasts && slices.ContainsFunc(d.Problems, unwatched)
	// After a restart, the problems get the whole period again to show that they are still there.
	if d.State == Watching && o.now.Sub(latest(d.Ended, resumed)) >= QuietPeriod {
		d.State, d.Closed = Closed, o.now
		text := "the incident was closed: its problems stayed away for 10 minutes"
		if d.Unwatched {
			text = "the incident was closed: its cause has not been watched for 10 minutes"
		}
		d.event(Event{Time: o.now, Kind: EventClosed, Text: text})
	}
	if d.changed {
		d.Updated = o.now
	}
}

// weigh finds what users lose.
func (o *observation) weigh(d *draft) {
	var present []*health.Problem
	for n := range d.Problems {
		if p := o.problems[d.Problems[n].key()]; p != nil && d.Problems[n].lasts() {
			present = append(present, p)
		}
	}
	if impact := o.words.Impact(d.Impact, present); impact != d.Impact {
		d.Impact, d.changed = impact, true
	}
}

// measure adds up the outages of targets.
func (o *observation) measure(d *draft) {
	type reading struct {
		since, cleared time.Time
		lasts, latest  bool
	}
	outages := map[health.Subject]*reading{}
	for n := range d.Problems {
		p := &d.Problems[n]
		if !p.outage() {
			continue
		}
		now := outages[p.Subject]
		if now == nil {
			now = &reading{}
			outages[p.Subject] = now
		}
		if p.lasts() && (!now.lasts || p.Since.Before(now.since)) {
			now.lasts, now.since = true, p.Since
		}
		if p.Cleared.After(now.cleared) {
			now.cleared, now.latest = p.Cleared, p.AtLatest
		}
		if !slices.ContainsFunc(d.Outages, func(t Outage) bool { return t.Subject == p.Subject }) {
			d.Outages = append(d.Outages, Outage{Subject: p.Subject, Title: o.words.Name(p.Subject)})
		}
	}
	for n := range d.Outages {
		t := &d.Outages[n]
		switch now := outages[t.Subject]; {
		case now == nil:
		case now.lasts && t.Since.IsZero():
			t.Since, d.changed = now.since, true
			if t.Since.Before(t.Until) {
				t.Since = t.Until
			}
		case !now.lasts && !t.Since.IsZero():
			t.Seconds += max(now.cleared.Sub(t.Since).Seconds(), 0)
			t.Since, t.Until, t.AtMost, d.changed = time.Time{}, now.cleared, t.AtMost || now.latest, true
		}
	}
}

// setCause chooses the problem that explains the others best: most are excused by its subject, then it is the worst, then the oldest.
func (d *draft) setCause() {
	explained := map[health.Subject]int{}
	for n := range d.Problems {
		if root := d.Problems[n].Excuse.Root; root != d.Problems[n].Subject {
			explained[root]++
		}
	}
	var best *Problem
	for n := range d.Problems {
		p := &d.Problems[n]
		if best == nil || cmp.Or(
			cmp.Compare(wide(best), wide(p)), cmp.Compare(explained[best.Subject], explained[p.Subject]),
			cmp.Compare(best.Severity, p.Severity), p.Since.Compare(best.Since),
		) < 0 {
			best = p
		}
	}
	if best != nil && d.Title != best.Text {
		d.Cause, d.Title, d.changed = best.Subject, best.Text, true
	}
}

// wide is 1 for a problem of all targets.
func wide(p *Problem) int {
	if p.Subject == health.ExporterSubject {
		return 1
	}
	return 0
}

// prune drops the oldest incidents that have ended.
func (l *Log) prune(now time.Time) {
	tooMany := len(l.incidents) - MaxIncidents
	l.incidents = slices.DeleteFunc(l.incidents, func(i *Incident) bool {
		if i.Lasts() || tooMany <= 0 && now.Sub(i.Updated) <= Retention {
			return false
		}
		tooMany--
		return true
	})
}
