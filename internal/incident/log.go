package incident

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Words are how people call things.
type Words interface {
	// Name is the human name of a subject; kind is that of a target.
	Name(s health.Subject, kind string) string
	// Headline says in a few words what is wrong with which subject.
	Headline(e *health.Event) string
	// Impact says what users lose most: by these problems, or what they lost before.
	Impact(before string, problems []*health.Event) string
}

// Log has all incidents. It is not safe for concurrent use.
type Log struct {
	words     Words
	incidents []*Incident // oldest first
	// present are the problems that are there, in an incident or not; resumed is when the last process began, or the clock was set forward
	// for longer than it takes to trust it.
	present map[key]*Present
	resumed time.Time
}

// Present is a problem that is there, with since when its alert has been a warning, and held back; 0 if it is not.
type Present struct {
	health.Event

	Warned  health.Milli `json:"warned,omitempty"`
	Excused health.Milli `json:"excused,omitempty"`
}

// Kept is what the log knows besides the incidents.
type Kept struct {
	Resumed time.Time `json:"resumed,omitzero"`
	Present []Present `json:"present,omitempty"`
}

// New returns an empty log.
func New(words Words) *Log { return &Log{words: words, present: map[key]*Present{}} }

// Kept returns what the log knows besides the incidents.
func (l *Log) Kept() *Kept {
	k := &Kept{Resumed: l.resumed}
	for _, p := range l.sorted() {
		k.Present = append(k.Present, *p)
	}
	return k
}

// Resume takes over what a former process knew.
func (l *Log) Resume(k *Kept) {
	l.resumed = k.Resumed
	clear(l.present)
	for i := range k.Present {
		p := &k.Present[i]
		l.present[keyOf(&p.Event)] = p
	}
}

// Lasting are the last events of the problems that are there.
func (l *Log) Lasting() (list []health.Event) {
	for _, p := range l.sorted() {
		list = append(list, p.Event)
	}
	return list
}

// sorted are the problems that are there, the worst first, then the oldest.
func (l *Log) sorted() []*Present {
	return slices.SortedFunc(maps.Values(l.present), (*Present).compare)
}

func (p *Present) compare(o *Present) int {
	return cmp.Or(cmp.Compare(o.Severity, p.Severity), cmp.Compare(p.Since, o.Since), strings.Compare(p.Of.Kind, o.Of.Kind),
		strings.Compare(p.Of.Host, o.Of.Host), strings.Compare(p.Of.Name, o.Of.Name), strings.Compare(p.Alert, o.Alert),
		strings.Compare(p.Part, o.Part))
}

// Restore adds an incident of a former process, or replaces the one with the same id.
func (l *Log) Restore(i *Incident) error {
	if i.ID == "" || i.Began.IsZero() {
		return fmt.Errorf("incident %q has no id or beginning", i.ID)
	}
	for n := range i.Problems {
		if p := &i.Problems[n]; i.Lasts() && p.lasts() && l.present[p.key()] == nil { // of an earlier version
			e := health.Event{
				Of:       health.Key(p.Subject),
				Alert:    p.Alert,
				Part:     p.Of,
				Since:    health.Milli(p.Since.UnixMilli()),
				AtLeast:  p.AtLeast,
				Severity: p.Severity,
				Excuse:   p.Excuse,
			}
			l.present[p.key()] = &Present{Event: e}
		}
	}
	i = i.clone() // what was decoded takes half as much memory again
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

// draft is an incident that lasts, which a round may change.
type draft struct {
	*Incident

	changed bool
}

// edit must be called before a change, since others may have the incident.
func (d *draft) edit() {
	if !d.changed {
		d.Incident, d.changed = d.clone(), true
	}
}

// update is what one round adds to the log.
type update struct {
	*Log

	now  time.Time
	open []*draft // oldest first
	// causes are those of the subjects whose problems can belong to an incident.
	causes map[health.Subject]health.Subject
}

// Apply adds a round of the judge, and returns the incidents that have changed.
func (l *Log) Apply(r *health.Round) (changed []*Incident) {
	u := &update{Log: l, now: r.To.Time()}
	for _, i := range l.incidents {
		if i.Lasts() {
			u.open = append(u.open, &draft{Incident: i})
		}
	}
	if r.Step != 0 {
		u.move(r.Step)
	}
	if r.Start || r.Step > health.Milli(trusted.Milliseconds()) {
		l.resumed = u.now
	}
	l.prune(u.now)
	news := false
	for i := range r.Events {
		switch e := &r.Events[i]; {
		case e.Joins():
			u.rename(health.Subject(e.Was), e.Of)
		case e.Alert != "":
			u.take(e)
			news = true
		}
	}
	if free := u.free(); news || slices.ContainsFunc(free, u.opens) {
		u.join(free)
		u.merge()
	}
	for _, d := range u.open {
		u.finish(d)
		if !d.changed {
			continue
		}
		changed = append(changed, d.Incident)
		if at := l.index(d.ID); at >= 0 {
			l.incidents[at] = d.Incident
		} else {
			l.incidents = append(l.incidents, d.Incident)
		}
	}
	if len(changed) > 0 {
		slices.SortStableFunc(l.incidents, byAge)
	}
	l.prune(u.now)
	return changed
}

// move moves what lasts with the clock.
func (u *update) move(by health.Milli) {
	if !u.resumed.IsZero() {
		u.resumed = u.resumed.Add(time.Duration(by) * time.Millisecond)
	}
	for _, p := range u.present {
		for _, at := range []*health.Milli{&p.At, &p.Since, &p.Last, &p.Warned, &p.Excused} {
			if *at != 0 {
				*at += by
			}
		}
	}
	for _, d := range u.open {
		d.edit()
		d.move(time.Duration(by) * time.Millisecond)
	}
}

// rename makes the problems of a container those of the workload that continues it. Those that the workload has already stay as they are.
func (u *update) rename(was health.Subject, of health.Key) {
	to := health.Subject(of)
	for k, p := range maps.Clone(u.present) {
		if k.Subject != was {
			continue
		}
		delete(u.present, k)
		p.Of, k.Subject = of, to
		if u.present[k] == nil {
			u.present[k] = p
		}
	}
	for _, d := range u.open {
		if d.about(was) {
			d.edit()
			d.rename(was, to)
		}
	}
}

// take takes in an event of a problem.
func (u *update) take(e *health.Event) {
	k := keyOf(e)
	known := u.present[k]
	if !e.Ended {
		if known == nil {
			known = &Present{}
			u.present[k] = known
		}
		known.see(e, health.Milli(u.now.UnixMilli()))
	}
	for _, d := range u.open {
		p := d.problem(k)
		if p == nil || !p.lasts() && (e.Ended || e.Excuse.Reason == health.ReasonMaintenance) {
			continue
		}
		d.edit()
		if p = d.problem(k); e.Ended {
			u.clear(d, p, e)
		} else {
			u.follow(d, p, known)
		}
		u.measure(d, p)
	}
	if e.Ended {
		delete(u.present, k)
	}
}

// see takes over what an event says.
func (p *Present) see(e *health.Event, now health.Milli) {
	kind := cmp.Or(e.TargetKind, p.TargetKind)
	p.Event, p.TargetKind = *e, kind
	if e.Severity >= health.Warning && p.Warned == 0 {
		p.Warned = now
	}
	if !e.Excuse.Holds() {
		p.Excused = 0
	} else if p.Excused == 0 {
		p.Excused = now
	}
}

// cause is the subject whose problem explains this one.
func (p *Present) cause() health.Subject { return cmp.Or(health.Subject(p.Cause), p.Subject()) }

// opens reports whether a problem opens an incident.
func (u *update) opens(p *Present) bool {
	return p.Severity == health.Critical || p.Severity == health.Warning && u.now.Sub(p.Since.Time()) >= LastingWarning
}

// free are the problems that belong to no incident that lasts. Those under maintenance open none and join none.
func (u *update) free() (list []*Present) {
	known := map[key]bool{}
	for _, d := range u.open {
		for n := range d.Problems {
			known[d.Problems[n].key()] = true
		}
	}
	for k, p := range u.present {
		if !known[k] && p.Excuse.Reason != health.ReasonMaintenance {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, (*Present).compare)
	return list
}

// links are the subjects that have one cause with a problem: its own, its cause, and the container that serves it.
func (p *Present) links() []health.Subject {
	list := []health.Subject{p.Subject(), p.cause()}
	if p.Server != (health.Key{}) {
		list = append(list, health.Subject(p.Server))
	}
	return list
}

// follow brings a problem of an incident up to date.
func (u *update) follow(d *draft, p *Problem, now *Present) {
	if !p.lasts() {
		p.Since, p.AtLeast, p.Cleared, p.AtLatest, p.Unwatched = now.Since.Time(), now.AtLeast, time.Time{}, false, false
		p.Severity, p.Excuse = health.Pending, health.Excuse{}
		d.note(began(p))
	}
	warned := now.Warned.Time()
	if now.Severity == health.Critical && p.Severity == health.Pending && warned.Before(u.now) {
		raise(d, p, health.Warning, warned)
	}
	if now.Severity > p.Severity { // a workload of which some instances run may have lost the last one
		p.Text = u.words.Headline(&now.Event)
	}
	switch {
	case now.Severity <= p.Severity:
	case now.Severity == health.Warning:
		raise(d, p, health.Warning, warned)
	default:
		raise(d, p, now.Severity, u.now)
	}
	if c := now.cause(); c != p.Subject {
		p.Cause = c
	}
	if now.Excuse != p.Excuse && now.Excuse.Holds() {
		at := u.now
		if !p.Excuse.Holds() {
			at = now.Excused.Time()
		}
		p.Excuse = now.Excuse
		d.note(about(p, EventExcused, at, "no alert for "+u.name(p.Subject)+": "+u.excuse(&now.Excuse)))
	}
}

// raise notes that a problem raises an alert.
func raise(d *draft, p *Problem, severity health.Severity, at time.Time) {
	p.Severity, p.Alerted = severity, latest(p.Alerted, at)
	d.note(about(p, EventAlert, at, fmt.Sprintf("alert %s (%s): %s", p.Alert, p.Severity, p.Text)))
}

// clear ends a problem.
func (u *update) clear(d *draft, p *Problem, e *health.Event) {
	p.Cleared, p.AtLatest, p.Unwatched = latest(e.At.Time(), p.Since), e.AtLatest, e.Unwatched
	kind, text := EventEnded, "over: "+p.Text
	if p.Unwatched {
		kind, text = EventUnwatched, "no longer watched: "+u.name(p.Subject)
	} else if p.AtLatest {
		text += " (at the latest)"
	}
	d.note(about(p, kind, p.Cleared, text))
}

// name is the human name of a subject.
func (u *update) name(s health.Subject) string {
	kind := ""
	for _, p := range u.present {
		if p.Subject() == s {
			kind = cmp.Or(kind, p.TargetKind)
		}
	}
	return u.words.Name(s, kind)
}

func began(p *Problem) Event {
	text := p.Text
	if p.AtLeast {
		text += " (or earlier)"
	}
	e := about(p, EventBegan, p.Since, text)
	e.Severity = health.Pending
	return e
}

func about(p *Problem, kind string, at time.Time, text string) Event {
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
func (u *update) excuse(e *health.Excuse) string {
	var text, root string
	if e.Root.Name != "" && e.Root.Name != e.Cause {
		root = ", because of " + u.name(e.Root)
	}
	switch cause := failure.Printable(e.Cause, maxName); e.Reason {
	case health.ReasonMaintenance:
		return "maintenance"
	case health.ReasonContainer:
		text = "its container " + cause + " is or was down"
	case health.ReasonStarting:
		text = "it waits for " + cause
	case health.ReasonCertificate:
		return "the alert on the certificate of " + u.name(e.Root) + " says so"
	default:
		text = "it needs " + cause
	}
	return text + root
}

// maxName bounds the names in a text, in characters.
const maxName = 255

// join adds new problems to the incidents of their cause, and opens incidents for others.
func (u *update) join(free []*Present) {
	u.causes = map[health.Subject]health.Subject{}
	for _, p := range u.sorted() {
		if _, known := u.causes[p.Subject()]; p.Excuse.Reason != health.ReasonMaintenance && (!known || health.IsOutage(p.Alert)) {
			u.causes[p.Subject()] = p.cause()
		}
	}
	homeless := map[health.Subject][]*Present{}
	for _, p := range free {
		if d := u.homeOf(p); d != nil {
			u.add(d, p)
		} else {
			homeless[p.cause()] = append(homeless[p.cause()], p)
		}
	}
	for _, problems := range homeless {
		if at := slices.IndexFunc(problems, u.opens); at >= 0 {
			u.openNew(problems[at], problems)
		}
	}
	slices.SortStableFunc(u.open, func(a, b *draft) int { return byAge(a.Incident, b.Incident) })
}

// homeOf returns the incident to which a problem belongs; a critical one before an older one.
func (u *update) homeOf(p *Present) (best *draft) {
	for _, d := range u.open {
		if u.linked(d, p) && (d.explains(p) || d.takes(p.Since.Time())) && (best == nil || d.Severity > best.Severity) {
			best = d
		}
	}
	return best
}

// explains reports whether the incident excuses a problem.
func (d *draft) explains(p *Present) bool {
	return p.Excuse.Holds() && slices.Contains(d.Links, p.Excuse.Root)
}

// takes reports whether a problem that began then may belong to the incident without being caused by it.
func (d *draft) takes(began time.Time) bool {
	return began.Sub(d.Began) <= related || slices.ContainsFunc(d.Outages, func(t Outage) bool { return !t.Since.IsZero() })
}

// linked reports whether an incident and a problem have one cause.
func (u *update) linked(d *draft, p *Present) bool {
	return slices.ContainsFunc(d.Links, func(s health.Subject) bool { return u.causes[s] == p.cause() || slices.Contains(p.links(), s) })
}

// add adds a problem to an incident.
func (u *update) add(d *draft, given *Present) {
	p := Problem{
		Subject: given.Subject(),
		Alert:   given.Alert,
		Of:      given.Part,
		Text:    u.words.Headline(&given.Event),
		Since:   given.Since.Time(),
		AtLeast: given.AtLeast,
		First:   given.Since.Time(),
	}
	d.edit()
	d.link(given.links()...)
	d.note(began(&p))
	u.follow(d, &p, given)
	u.measure(d, &p)
	d.Problems = append(d.Problems, p)
	if len(d.Problems) > maxProblems {
		if ended := slices.IndexFunc(d.Problems, func(p Problem) bool { return !p.lasts() }); ended >= 0 {
			d.Problems = slices.Delete(d.Problems, ended, ended+1)
		}
	}
}

// openNew opens an incident for problems that belong to none.
func (u *update) openNew(first *Present, problems []*Present) {
	d := &draft{changed: true, Incident: &Incident{
		ID:       u.newID(first),
		State:    Open,
		Severity: first.Severity,
		Began:    first.Since.Time(),
		Opened:   u.now,
		Notes:    []Note{},
		Outages:  []Outage{},
	}}
	for _, p := range problems {
		u.add(d, p)
	}
	d.note(Event{
		Time:     u.now,
		Kind:     EventOpened,
		Severity: first.Severity,
		Text:     "the incident was opened",
	})
	u.open = append(u.open, d)
}

// newID returns a short id that no incident has.
func (u *update) newID(p *Present) string {
	for n := 0; ; n++ {
		h := fnv.New32a()
		//nolint:errcheck // a hash takes everything
		fmt.Fprintf(h, "%d %q %q %q %q %q %d", p.Since.Time().UnixNano(), p.Of.Kind, p.Of.Host, p.Of.Name, p.Alert, p.Part, n)
		id := fmt.Sprintf("%s-%08x", p.Since.Time().Format("20060102"), h.Sum32())
		if u.index(id) < 0 && !slices.ContainsFunc(u.open, func(d *draft) bool { return d.ID == id }) {
			return id
		}
	}
}

// merge joins incidents that turn out to have one cause.
func (u *update) merge() {
	for n, older := range u.open {
		for _, younger := range u.open[n+1:] {
			if younger.State == Merged || older.State == Merged || !u.oneCause(older, younger) {
				continue
			}
			older.edit()
			younger.edit()
			younger.setCause()
			for _, p := range younger.Problems {
				if known := older.problem(p.key()); known == nil {
					older.Problems = append(older.Problems, p)
				} else {
					known.Alerted = latest(known.Alerted, p.Alerted)
				}
			}
			for _, e := range younger.Timeline {
				older.note(e)
			}
			older.LeftOut += younger.LeftOut
			older.link(younger.Links...)
			older.addOutages(younger.Outages)
			older.Impact = cmp.Or(older.Impact, younger.Impact)
			if younger.Acknowledged.Time.After(older.Acknowledged.Time) {
				older.Acknowledged = younger.Acknowledged
			}
			older.Notes, older.Updates = byTime(older.Notes, younger.Notes), byTime(older.Updates, younger.Updates)
			older.note(Event{Time: u.now, Kind: EventMerged, Text: "has the cause of another incident, which ends here: " + younger.Title})
			younger.State, younger.MergedInto, younger.Closed = Merged, older.ID, u.now
			younger.note(Event{Time: u.now, Kind: EventMerged, Text: "continues in the incident " + older.ID})
		}
	}
}

// byTime joins two lists of texts.
func byTime(a, b []Note) []Note {
	all := append(a, b...)
	slices.SortStableFunc(all, func(a, b Note) int { return a.Time.Compare(b.Time) })
	return all
}

// addOutages adds the outages of a merged incident. While the outage of a target lasts, its problems join the incident that has it, so two
// incidents have no time of it in common.
func (d *draft) addOutages(list []Outage) {
	for _, t := range list {
		at := slices.IndexFunc(d.Outages, func(own Outage) bool { return own.Subject == t.Subject })
		if at < 0 {
			d.Outages = append(d.Outages, t)
			continue
		}
		own := &d.Outages[at]
		own.Seconds, own.AtMost = own.Seconds+t.Seconds, own.AtMost || t.AtMost
		if own.Since.IsZero() || !t.Since.IsZero() && t.Since.Before(own.Since) {
			own.Since = t.Since
		}
		if t.Until.After(own.Until) {
			own.Until = t.Until
		}
	}
}

// oneCause reports whether what lasts links two incidents.
func (u *update) oneCause(older, younger *draft) bool {
	for _, pair := range [][2]*draft{{older, younger}, {younger, older}} {
		for n := range pair[0].Problems {
			p := u.present[pair[0].Problems[n].key()]
			if p != nil && u.linked(pair[1], p) && (pair[1].explains(p) || older.takes(younger.Began)) {
				return true
			}
		}
	}
	return false
}

// finish sets what follows from the problems of an incident.
func (u *update) finish(d *draft) {
	// After a restart, the problems get the whole period again to show that they are still there.
	quiet := d.State == Watching && u.now.Sub(latest(d.Ended, u.resumed)) >= QuietPeriod
	if !d.changed && !quiet {
		return
	}
	d.edit()
	d.Updated = u.now
	if d.State == Merged {
		return
	}
	u.weigh(d)
	d.setCause()
	ended, lasts, atLatest := time.Time{}, false, false
	for n := range d.Problems {
		p := &d.Problems[n]
		if d.Severity = max(d.Severity, p.Severity); p.First.Before(d.Began) && !p.First.IsZero() {
			d.Began = p.First
		}
		if lasts = lasts || p.lasts(); !p.Cleared.Before(ended) {
			ended, atLatest = p.Cleared, p.AtLatest
		}
	}
	d.BeganAtLeast = slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.AtLeast && p.Since.Equal(d.Began) })
	switch {
	case lasts:
		d.State, d.Ended, d.EndedAtLatest = Open, time.Time{}, false
	case d.State == Open:
		d.State, d.Ended, d.EndedAtLatest = Watching, ended, atLatest
	}
	d.Unwatched = !lasts && d.lostCause()
	if quiet && !lasts {
		d.State, d.Closed = Closed, u.now
		text := "the incident was closed: its problems stayed away for 10 minutes"
		if d.Unwatched {
			text = "the incident was closed: its cause has not been watched for 10 minutes"
		}
		d.note(Event{Time: u.now, Kind: EventClosed, Text: text})
	}
}

// lostCause reports whether what explains the incident ended only because nobody watches its subject any more: the problem itself, or an
// outage that followed it. A container that is down and then removed is not fixed when it is forgotten.
func (d *draft) lostCause() bool {
	var last *Problem
	for n := range d.Problems {
		p := &d.Problems[n]
		if p.Subject == d.Cause && (p.Text == d.Title || health.IsOutage(p.Alert)) && (last == nil || p.Cleared.After(last.Cleared)) {
			last = p
		}
	}
	return last != nil && last.Unwatched
}

// weigh finds what users lose.
func (u *update) weigh(d *draft) {
	var present []*health.Event
	for n := range d.Problems {
		if p := u.present[d.Problems[n].key()]; p != nil && d.Problems[n].lasts() {
			present = append(present, &p.Event)
		}
	}
	d.Impact = u.words.Impact(d.Impact, present)
}

// measure brings the outage of a problem's target up to date. It lasts as long as a problem because of which readings fail.
func (u *update) measure(d *draft, p *Problem) {
	if !p.outage() {
		return
	}
	at := slices.IndexFunc(d.Outages, func(t Outage) bool { return t.Subject == p.Subject })
	if at < 0 {
		at = len(d.Outages)
		d.Outages = append(d.Outages, Outage{Subject: p.Subject, Title: u.name(p.Subject)})
	}
	lasts := u.isDown(p) || slices.ContainsFunc(d.Problems, func(o Problem) bool {
		return o.Subject == p.Subject && o.outage() && u.isDown(&o)
	})
	began, ended := p.Since, p.Cleared
	if now := u.present[p.key()]; now != nil && now.Outages > 0 { // the problem is older than the outage
		began, ended = now.At.Time(), cmp.Or(ended, now.At.Time())
	}
	switch t := &d.Outages[at]; {
	case lasts && t.Since.IsZero():
		t.Since = latest(began, t.Until)
	case !lasts && !t.Since.IsZero():
		t.Seconds += max(ended.Sub(t.Since).Seconds(), 0)
		t.Since, t.Until, t.AtMost = time.Time{}, ended, t.AtMost || p.AtLatest
	}
}

// isDown reports whether a problem lasts that makes readings fail now.
func (u *update) isDown(p *Problem) bool {
	now := u.present[p.key()]
	return p.lasts() && (now == nil || !now.UpAgain)
}

// setCause chooses the problem that explains the others best: most are excused by its subject or began with it, then it is the worst,
// then the oldest.
func (d *draft) setCause() {
	explained := map[health.Subject]int{}
	for n := range d.Problems {
		if p := &d.Problems[n]; p.Excuse.Root != p.Subject {
			explained[cmp.Or(p.Excuse.Root, p.Cause)]++
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
		d.Cause, d.Title = best.Subject, best.Text
	}
}

// wide is 1 for a problem of all targets.
func wide(p *Problem) int {
	if p.Subject == health.ExporterSubject {
		return 1
	}
	return 0
}

// prune drops the oldest incidents that have ended, by their age only if the clock can be trusted: one in the far future costs none.
func (l *Log) prune(now time.Time) {
	tooMany, trusts := len(l.incidents)-MaxIncidents, now.Sub(l.resumed) >= trusted
	l.incidents = slices.DeleteFunc(l.incidents, func(i *Incident) bool {
		if i.Lasts() || tooMany <= 0 && (!trusts || now.Sub(i.Updated) <= Retention) {
			return false
		}
		tooMany--
		return true
	})
}
