package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Judge decides which problems there are. It remembers what the next judgement needs, such as when problems began, which alerts fire
// and how often containers restarted. It is not safe for concurrent use.
type Judge struct {
	rules       Rules
	problems    map[problemKey]*record
	unavailable map[Subject]*span
	restarts    map[Subject]*restarts
	engines     map[string]*engine
	targets     map[string]*targetMemory
	// changed says that there is something new to save. now is the time of the last judgement, lastSave of the last saved memory.
	changed       bool
	now, lastSave time.Time
	// saved is when the former process last saved its memory, resumed when this process loaded it. unread are the engines in that
	// memory that have not been read since.
	saved, resumed time.Time
	unread         map[string]bool
}

// engine is the last successful reading of an engine.
type engine struct {
	// read is the time of the last reading, previousRead of the one before; zero if there was none.
	read, previousRead time.Time
	containers         []Container
}

// NewJudge makes a judge that knows nothing yet.
func NewJudge(rules Rules) *Judge {
	return &Judge{
		rules:       rules,
		problems:    map[problemKey]*record{},
		unavailable: map[Subject]*span{},
		restarts:    map[Subject]*restarts{},
		engines:     map[string]*engine{},
		unread:      map[string]bool{},
		targets:     map[string]*targetMemory{},
	}
}

// Reconfigure changes the thresholds. The judge keeps its memory.
func (j *Judge) Reconfigure(rules Rules) { j.rules = rules }

// unreadGrace is how long the judge keeps the last known state of containers while their engine cannot be read.
const unreadGrace = 15 * time.Minute

// Judge judges the facts of one moment. Moments must not go back.
func (j *Judge) Judge(f *Facts) *Judgement {
	j.noticeStep(f.Now)
	j.readEngines(f)
	r := &round{causes: newCauses(j, f), next: never}
	r.verdicts = make(map[Subject]Verdict, len(r.containers)+len(f.Targets))
	containers := slices.SortedFunc(maps.Values(r.containers), func(a, b *Container) int {
		return compareSubjects(a.subject(), b.subject())
	})
	for _, c := range containers {
		if !c.vanished {
			j.trackAvailability(c, f.Now)
		}
	}
	for _, c := range containers {
		if !c.vanished {
			r.judgeContainer(c)
		}
	}
	r.findServers(f, NewDirectory(containers))
	for _, engines := range []bool{true, false} { // engines first, since they may be causes
		for i := range r.targets {
			if t := &r.targets[i]; (t.Engine != "") == engines {
				r.judgeTarget(t)
			}
		}
	}
	for i := range r.targets {
		r.judgeConditions(&r.targets[i])
	}
	r.judgeGaps(!slices.ContainsFunc(f.Engines, func(e Engine) bool { return !e.Read }))
	r.keepUnread()
	r.decide()
	r.judgeMost()
	r.excuseMaintained()
	r.decideOnMemory()
	for i := range r.targets {
		r.judgeFailures(&r.targets[i])
	}
	j.forget(r)
	if r.next == never {
		r.next = 0
	}
	return &Judgement{
		Time:       f.Now,
		Next:       r.next,
		Problems:   r.sorted(),
		Verdicts:   r.verdicts,
		Servers:    r.found,
		Conditions: r.conditionVerdicts(),
		Values:     r.values,
		HeldBack:   r.heldBack(),
	}
}

// readEngines records the containers of the engines. It keeps the last containers of an unreadable engine for unreadGrace.
func (j *Judge) readEngines(f *Facts) {
	configured, present := map[string]bool{}, map[string]bool{}
	for i := range f.Engines {
		given := &f.Engines[i]
		e := j.engines[given.Host]
		if e == nil {
			e = &engine{}
			j.engines[given.Host] = e
		}
		if given.Read {
			e.previousRead, e.read, e.containers = e.read, f.Now, given.Containers
			if j.unread[given.Host] { // its state since the former process is unknown
				e.previousRead = j.saved
				delete(j.unread, given.Host)
			}
		}
		configured[given.Host] = true
		present[given.Host] = f.Now.Sub(e.read) <= unreadGrace
	}
	maps.DeleteFunc(j.engines, func(host string, _ *engine) bool { return !present[host] })
	maps.DeleteFunc(j.unread, func(host string, _ bool) bool { return !configured[host] })
}

// trackAvailability records since when a container has been unavailable.
func (j *Judge) trackAvailability(c *Container, now time.Time) {
	s := c.subject()
	known := j.unavailable[s]
	lasting := known != nil && known.Ended.IsZero()
	switch {
	case !c.available() && !lasting:
		known = &span{Began: j.stopped(c, now)}
		j.unavailable[s], j.changed = known, true
	case c.available() && lasting:
		known.Ended, j.changed = now, true
	}
	if c.Down() {
		known.Down = now
	}
}

// stopped returns when a container stopped that was running at the engine's previous reading. It trusts the engine, but returns no time
// before that reading, since the engine's clock may differ. For a missing container, DownFor comes from the exporter itself.
func (j *Judge) stopped(c *Container, now time.Time) time.Time {
	at := now.Add(-max(c.DownFor, 0))
	if before := j.engines[c.Host].previousRead; c.State != Missing && at.Before(before) {
		return before
	}
	return at
}

// forget drops what has ended. It keeps the memory of a removed container for a while, since a deploy recreates the container under
// the same name.
func (j *Judge) forget(r *round) {
	there := func(s Subject) bool { return r.containers[s] != nil && !r.containers[s].vanished }
	for s, known := range j.restarts {
		switch {
		case there(s) || j.unread[s.Host]:
			known.gone = time.Time{}
		case known.gone.IsZero():
			known.gone = r.now
		case r.now.Sub(known.gone) > j.rules.Lookback:
			delete(j.restarts, s)
			delete(j.unavailable, s)
		}
	}
	open := make(map[problemKey]bool, len(r.problems))
	for _, p := range r.problems {
		open[p.key] = true
	}
	before := len(j.problems)
	maps.DeleteFunc(j.problems, func(key problemKey, _ *record) bool {
		vanished := !there(key.Subject) && j.restarts[key.Subject] != nil
		return !open[key] && !vanished
	})
	j.changed = j.changed || len(j.problems) < before
	gone := func(name string) bool { _, ok := r.verdicts[TargetSubject(name)]; return !ok }
	maps.DeleteFunc(j.targets, func(name string, _ *targetMemory) bool { return gone(name) })
	maps.DeleteFunc(j.unavailable, func(s Subject, known *span) bool {
		return s.Kind == KindTarget && (gone(s.Name) || !known.lately(r.now, j.rules.Lookback))
	})
}

// thresholds are how long a problem lasts before it becomes a warning, and before it becomes critical.
type thresholds struct{ warning, critical time.Duration }

// never is longer than anything lasts.
const never = time.Duration(1<<63 - 1)

// limits are the thresholds of the alert on a problem.
func (j *Judge) limits(p *candidate) thresholds {
	rule := j.rule(p.Alert)
	t := thresholds{rule.Warning.Hold, rule.Critical.Hold}
	switch {
	case p.Alert == AlertTargetDown:
		if p.AtLeast { // its duration is unknown until then
			t.warning = t.critical
		}
		t.critical += p.record.realSince().Sub(p.record.Since)
		if p.warnOnly {
			t.critical = never
		}
	case p.Alert == AlertMostTargetsDown && p.AtLeast:
		t.warning = t.critical
	case p.record.Removed:
		t.critical = never
	case p.Alert == AlertContainerMissing:
		t.warning = never
	}
	switch p.key.Severity {
	case Pending: // of a problem that may have either
	case Warning:
		t.critical = never
	case Critical:
		t.warning = never
	}
	return t
}

func (t thresholds) severity(lasted time.Duration) Severity {
	switch {
	case lasted > t.critical:
		return Critical
	case lasted > t.warning:
		return Warning
	}
	return Pending
}

// maxDuration is the longest duration of a problem that is at most this severe.
func (t thresholds) maxDuration(s Severity) time.Duration {
	if s == Pending {
		return min(t.warning, t.critical)
	}
	if s == Warning {
		return t.critical
	}
	return never
}

// round is one judgement in the making.
type round struct {
	causes
	targets    []Target
	found      map[string]Server // by target
	problems   []*candidate
	verdicts   map[Subject]Verdict
	conditions []*ConditionVerdict
	values     []Value
	restarted  []Problem // counted events (restarts and kills), which have no duration
	next       time.Duration
}

// candidate is a problem whose severity or excuse is not decided yet.
type candidate struct {
	Problem
	key       problemKey
	record    *record
	before    record            // at the last judgement
	cause     *cause            // nil if nothing explains it
	condition *ConditionVerdict // nil if it is about availability
	frozen    bool              // its severity and excuse stay unchanged
	warnOnly  bool              // it is a warning at most
}

// judgeContainer finds what is wrong with a container.
func (r *round) judgeContainer(c *Container) {
	s := c.subject()
	restarted, excused := r.countRestarts(c)
	v := Verdict{
		Known:          true,
		RecentRestarts: restarted,
		RecentKills:    r.countKills(c),
		Unknown:        !r.judge.engines[c.Host].read.Equal(r.now),
	}
	first := r.judge.engines[c.Host].previousRead.IsZero()
	var p *candidate
	switch {
	case c.State == Missing:
		p = r.beginProblem(problemKey{Subject: s, Alert: AlertContainerMissing}, r.judge.stopped(c, r.now), first && c.DownFor == 0)
		p.record.Removed = !c.Expected
	case c.State == Restarting && restarted > 0 && !excused && c.DownFor <= maxRestartDelay:
		// ContainerRestarts covers a crash loop.
	case c.Down():
		p = r.beginProblem(problemKey{Subject: s, Alert: AlertContainerDown}, r.judge.stopped(c, r.now), first && c.DownFor == 0)
	case c.State == Running && c.Health == Unhealthy:
		p = r.beginProblem(problemKey{Subject: s, Alert: AlertContainerUnhealthy}, r.now.Add(-c.UnhealthyFor), first && c.UnhealthyFor == 0)
	}
	if p != nil {
		p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofContainer(c, since) })
		if v.Unknown {
			p.freeze(r.judge)
		}
		v.setDuration(p)
	}
	r.verdicts[s] = v
	r.judgeRestarts(s, &v)
	r.judgeKills(s, &v)
	r.judgeMemory(c, v.Unknown, first)
}

// maxRestartDelay is longer than an engine's longest delay before a restart.
const maxRestartDelay = 2 * time.Minute

// setDuration copies the duration of a container's problem.
func (v *Verdict) setDuration(p *candidate) {
	switch {
	case p.Alert == AlertContainerUnhealthy:
		v.Unhealthy = p.Lasted
	case p.Alert == AlertContainerDown:
		v.Down = p.Lasted
	case p.record.Removed:
		v.Removed = p.Lasted
	default:
		v.Missing = p.Lasted
	}
}

// explain finds the cause of the problem by the time that it began. A cause that began too late for that is only named, in Also.
func (p *candidate) explain(now time.Time, causeOf func(since time.Time) (cause, bool)) {
	c, ok := causeOf(p.Since)
	if ok {
		p.cause = &c
	} else {
		c, _ = causeOf(now)
	}
	if !c.ended {
		p.Also = c.Cause
	}
}

// keepUnread keeps the former process's problems of containers whose engine has not been read since the start.
func (r *round) keepUnread() {
	j := r.judge
	if r.now.Sub(j.resumed) > unreadGrace {
		clear(j.unread)
	}
	if len(j.unread) == 0 {
		return
	}
	for s := range j.restarts {
		if !j.unread[s.Host] {
			continue
		}
		v := Verdict{
			Known:          true,
			Unknown:        true,
			RecentRestarts: j.recentRestarts(s, r.now),
			RecentKills:    j.recentKills(s, r.now),
		}
		if v.RecentRestarts > 0 || v.RecentKills > 0 {
			r.verdicts[s] = v
			r.judgeRestarts(s, &v)
			r.judgeKills(s, &v)
		}
	}
	for key, known := range j.problems {
		if !j.unread[key.Host] {
			continue
		}
		p, v := r.beginProblem(key, known.Since, known.AtLeast), r.verdicts[key.Subject]
		p.freeze(j)
		v.Known, v.Unknown = true, true
		if key.Alert == AlertContainerMemory {
			p.Unknown, p.condition = true, &ConditionVerdict{}
			continue
		}
		v.setDuration(p)
		r.verdicts[key.Subject] = v
	}
}

// freeze keeps the severity and the excuse of a problem, since without a new reading a problem must not get worse.
func (p *candidate) freeze(j *Judge) {
	p.frozen, p.Severity, p.Excuse = true, p.record.Alerted, p.record.Excuse
	if p.warnOnly {
		p.Severity = min(p.Severity, Warning)
	}
	if !p.Excuse.Holds() {
		p.Lasted = min(p.Lasted, j.limits(p).maxDuration(p.Severity))
	}
}

// judgeTarget decides whether a target is down. Without a recent reading, the target keeps its last state.
func (r *round) judgeTarget(t *Target) {
	j, s := r.judge, TargetSubject(t.Name)
	v := Verdict{
		Known:      true,
		Unknown:    !t.Read,
		TargetKind: t.Kind,
		WarnOnly:   t.WarnOnly,
	}
	known := j.problems[problemKey{Subject: s, Alert: AlertTargetDown}]
	target := j.target(t.Name)
	seen := !target.lastUp.IsZero()
	switch {
	case t.Read && t.Up:
		j.changed = j.changed || !seen
		target.lastUp = t.ReadAt
	case t.Read && t.Relay && len(t.Conditions) > 0:
		// Its own alerts say more: BridgeNotRelaying and RelaySessionDown.
	case !t.Read && known == nil:
		v.Known = seen
	default:
		p := r.beginProblem(problemKey{Subject: s, Alert: AlertTargetDown}, r.now, !seen)
		if t.Read {
			p.record.noteThrottled(t.Throttled, r.now)
		}
		p.Throttled = p.record.Throttled
		p.warnOnly = t.WarnOnly || p.Throttled
		p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofTarget(t, since) })
		if saved := p.record.Excuse; !t.Read || p.cause == nil && j.unread[saved.Root.Host] {
			p.freeze(j)
		}
		v.Down, v.Known = p.Lasted, !p.AtLeast || p.Lasted > j.rule(AlertTargetDown).Critical.Hold
		v.WarnOnly = p.warnOnly || !p.record.Broken.IsZero() && p.Lasted <= j.limits(p).critical
	}
	r.verdicts[s] = v
	if t.Engine != "" {
		j.trackEngine(s, &v, r.now)
	}
}

// minDuration is the least duration of a problem, since 0 means that there is none.
const minDuration = time.Millisecond

// beginProblem adds a problem to the round. A new problem began at since, or earlier with atLeast; a known one keeps its own beginning.
func (r *round) beginProblem(key problemKey, since time.Time, atLeast bool) *candidate {
	known := r.judge.problems[key]
	if known == nil {
		known = &record{Since: since, AtLeast: atLeast}
		r.judge.problems[key], r.judge.changed = known, true
	}
	p := &candidate{
		key:    key,
		record: known,
		before: *known,
		Problem: Problem{
			Subject: key.Subject,
			Alert:   key.Alert,
			Of:      key.Of,
			Since:   known.Since,
			AtLeast: known.AtLeast,
			Lasted:  max(r.now.Sub(known.Since), minDuration),
		},
	}
	r.problems = append(r.problems, p)
	return p
}

// decide sets the severities and excuses of all problems. Unexplained problems come first, since they may be causes.
func (r *round) decide() {
	for _, explained := range []bool{false, true} {
		for _, p := range r.problems {
			if (p.cause != nil) == explained && p.Alert != AlertContainerMemory {
				r.decideOn(p)
			}
		}
	}
}

func (r *round) decideOn(p *candidate) {
	j := r.judge
	switch {
	case p.frozen:
	case p.cause != nil && p.record.Alerted == Pending && r.mayHoldBack(p.cause, p.Lasted):
		p.Excuse = p.cause.Excuse
		r.noteThreshold(p, j.rule(AlertContainerDown).Critical.Hold)
	default:
		limits := j.limits(p)
		p.Severity = limits.severity(p.Lasted)
		p.record.Alerted = max(p.record.Alerted, p.Severity)
		r.noteThreshold(p, limits.warning)
		r.noteThreshold(p, limits.critical)
	}
	p.record.Excuse = p.Excuse
	j.changed = j.changed || *p.record != p.before
	if span := j.unavailable[p.Subject]; span != nil && p.Severity > Pending {
		span.Alerted = true
	}
	if p.condition != nil {
		p.condition.Excused = p.Excuse.Holds()
		return
	}
	v := r.verdicts[p.Subject]
	v.Excuse = p.Excuse
	r.verdicts[p.Subject] = v
}

// noteThreshold makes the next judgement due when the problem will have lasted longer than the limit.
func (r *round) noteThreshold(p *candidate, limit time.Duration) {
	if left := limit - r.now.Sub(p.Since); limit != never && left >= 0 {
		r.next = min(r.next, left+minDuration)
	}
}

// excuseMaintained excuses all subjects under maintenance, even those without a problem. An alert that already fires is not excused.
func (r *round) excuseMaintained() {
	alerted := map[Subject]bool{}
	for _, p := range r.problems {
		alerted[p.Subject] = alerted[p.Subject] || p.record.Alerted > Pending && (p.condition == nil || p.Alert == AlertContainerMemory)
	}
	for s, v := range r.verdicts {
		if !alerted[s] && !v.Excuse.Holds() && r.underMaintenance(s) {
			v.Excuse = Excuse{Reason: ReasonMaintenance}
			r.verdicts[s] = v
		}
	}
}

// mayHoldBack reports whether a cause still holds back a problem of that duration. Maintenance always does. Any other cause must have
// an alert of its own by the time that the alert on it is due.
func (r *round) mayHoldBack(c *cause, lasted time.Duration) bool {
	j := r.judge
	if c.Reason == ReasonMaintenance || lasted <= j.rule(AlertContainerDown).Critical.Hold {
		return true
	}
	if s := j.unavailable[c.Root]; s != nil {
		engine := c.Root.Kind == KindTarget
		if s.Alerted && r.now.Sub(s.Down) <= j.rules.Lookback ||
			engine && r.now.Sub(s.Began) <= j.rule(AlertTargetDown).Critical.Hold {
			return true
		}
	}
	if known := j.problems[problemKey{Subject: c.Root, Alert: AlertTargetDown}]; known != nil && known.Alerted > Pending {
		return true
	}
	if r.bridgeAlerted(c.Root, r.now.Add(-lasted)) || r.sessionAlerted(c.Root) {
		return true
	}
	return j.recentRestarts(c.Root, r.now) > uint64(max(j.rule(AlertContainerRestarts).Critical.Over, 0))
}

// heldBack returns the alerts on values and history of targets under maintenance, unless they already fire.
func (r *round) heldBack() []HeldBack {
	alerted := map[HeldBack]bool{}
	for _, p := range r.problems {
		alerted[HeldBack{p.Alert, p.Subject}] = alerted[HeldBack{p.Alert, p.Subject}] || p.record.Alerted > Pending
	}
	var list []HeldBack
	if len(r.maintained) == 0 {
		return nil
	}
	for i := range r.targets {
		t := &r.targets[i]
		if c, _ := r.ofTarget(t, r.now); c.Reason != ReasonMaintenance {
			continue
		}
		alerts := t.ValueAlerts
		if alerts == nil {
			alerts = []string{AlertCertificateExpiry}
		}
		for _, alert := range alerts {
			if h := (HeldBack{alert, TargetSubject(t.Name)}); !alerted[h] {
				list = append(list, h)
			}
		}
	}
	slices.SortFunc(list, func(a, b HeldBack) int {
		return cmp.Or(strings.Compare(a.Alert, b.Alert), compareSubjects(a.Subject, b.Subject))
	})
	return list
}

// sorted returns the problems with their consequences, the worst first, then the oldest. If one value exceeds both the warning and the
// critical limit, only the critical problem remains.
func (r *round) sorted() []Problem {
	consequences := map[Subject][]Subject{}
	for _, p := range r.problems {
		if p.Excuse.Root != p.Subject {
			consequences[p.Excuse.Root] = append(consequences[p.Excuse.Root], p.Subject)
		}
	}
	list := append(make([]Problem, 0, len(r.problems)+len(r.restarted)), r.restarted...)
	for _, p := range r.problems {
		if p.condition == nil {
			p.Consequences, p.Unknown = consequences[p.Subject], r.verdicts[p.Subject].Unknown
		}
		list = append(list, p.Problem)
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.Since.Compare(b.Since), compareSubjects(a.Subject, b.Subject),
			strings.Compare(a.Alert, b.Alert))
	})
	seen := map[problemKey]bool{}
	list = slices.DeleteFunc(list, func(p Problem) bool {
		key := problemKey{Subject: p.Subject, Alert: p.Alert, Of: p.Of}
		again := seen[key]
		seen[key] = true
		return again
	})
	r.setCauses(list)
	return list
}
