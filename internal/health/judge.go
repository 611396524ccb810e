package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Judge remembers what is needed to judge the next facts: since when, what has been told, and what was restarted. It is not
// safe for concurrent use.
type Judge struct {
	alerts      config.Alerts
	problems    map[problemKey]*record
	unavailable map[Subject]*span
	restarts    map[Subject]*restarts
	engines     map[string]*engine
	conditions  map[string][]seenCondition // by target
	logins      map[string]*rate           // those that failed, by target
	failures    map[string]*failures       // of readings, by target
	// well is when targets were seen up last, zero if only the former process knows that.
	well map[string]time.Time
	// homes are where the containers of targets were seen last.
	homes map[string]home
	// changed says that there is something new to save, now is when it judged last, kept when its memory was saved.
	changed   bool
	now, kept time.Time
	// saved is when the former process saved its memory last, resumed when this one took it over; unread are the engines in it
	// that were not read since.
	saved, resumed time.Time
	unread         map[string]bool
}

// problemKey names a problem. of and severity are only of conditions.
type problemKey struct {
	Subject
	alert    string
	of       string
	severity Severity
}

// engine is what was read of an engine last.
type engine struct {
	// read is when that was, before when it was the time before, zero if never.
	read, before time.Time
	containers   []Container
}

// NewJudge makes a judge that knows nothing yet.
func NewJudge(alerts *config.Alerts) *Judge {
	return &Judge{
		alerts: *alerts, problems: map[problemKey]*record{}, unavailable: map[Subject]*span{}, restarts: map[Subject]*restarts{},
		engines: map[string]*engine{}, well: map[string]time.Time{}, unread: map[string]bool{}, conditions: map[string][]seenCondition{},
		logins: map[string]*rate{}, failures: map[string]*failures{}, homes: map[string]home{},
	}
}

// Reconfigure has the judge use other thresholds from now on. What it knows stays.
func (j *Judge) Reconfigure(alerts *config.Alerts) { j.alerts = *alerts }

// unreadFor is how long what is known of containers stays as it was while their engine cannot be read.
const unreadFor = 15 * time.Minute

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
	for _, engines := range []bool{true, false} { // which may be causes
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
		Time: f.Now, Next: r.next, Problems: r.sorted(), Verdicts: r.verdicts, Servers: r.found, Conditions: r.conditionVerdicts(),
		Values: r.values, HeldBack: r.heldBack(),
	}
}

// readEngines takes over what the engines have. What those had that cannot be read stays, while it is not too old.
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
			e.before, e.read, e.containers = e.read, f.Now, given.Containers
			if j.unread[given.Host] { // what it was like meanwhile is not known
				e.before = j.saved
				delete(j.unread, given.Host)
			}
		}
		configured[given.Host] = true
		present[given.Host] = f.Now.Sub(e.read) <= unreadFor
	}
	maps.DeleteFunc(j.engines, func(host string, _ *engine) bool { return !present[host] })
	maps.DeleteFunc(j.unread, func(host string, _ bool) bool { return !configured[host] })
}

// trackAvailability follows since when a container has not been able to serve.
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
	if c.down() {
		known.Down = now
	}
}

// stopped is when a container ended that is seen so for the first time: by the engine's account, whose clock may be another
// one, but not before the engine was read the last time, when it was still well. Since when one is missing is our own account.
func (j *Judge) stopped(c *Container, now time.Time) time.Time {
	at := now.Add(-max(c.DownFor, 0))
	if before := j.engines[c.Host].before; c.State != Missing && at.Before(before) {
		return before
	}
	return at
}

// forget drops what has ended. What is known of a container is kept for a while after it has vanished, since a deploy makes it
// anew under the same name.
func (j *Judge) forget(r *round) {
	there := func(s Subject) bool { return r.containers[s] != nil && !r.containers[s].vanished }
	for s, known := range j.restarts {
		switch {
		case there(s) || j.unread[s.Host]:
			known.gone = time.Time{}
		case known.gone.IsZero():
			known.gone = r.now
		case r.now.Sub(known.gone) > j.alerts.Lookback.Std():
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
	maps.DeleteFunc(j.conditions, func(name string, _ []seenCondition) bool { return gone(name) })
	maps.DeleteFunc(j.logins, func(name string, _ *rate) bool { return gone(name) })
	maps.DeleteFunc(j.failures, func(name string, _ *failures) bool { return gone(name) })
	maps.DeleteFunc(j.well, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(j.homes, func(name string, _ home) bool { return gone(name) })
	maps.DeleteFunc(j.unavailable, func(s Subject, known *span) bool {
		return s.Kind == config.MaintenanceTarget && (gone(s.Name) || !known.lately(r.now, j.alerts.Lookback.Std()))
	})
}

// thresholds are how long a problem lasts before it is worth a warning, and before it is critical.
type thresholds struct{ warning, critical time.Duration }

// never is longer than anything lasts.
const never = time.Duration(1<<63 - 1)

// limits are the thresholds of the alert on a problem.
func (j *Judge) limits(p *candidate) thresholds {
	a := &j.alerts
	switch p.Alert {
	case AlertTargetDown:
		t := thresholds{a.TargetDown.Warning.For.Std(), a.TargetDown.Critical.For.Std()}
		if p.AtLeast { // until then it is unknown how long
			t.warning = t.critical
		}
		if p.warnOnly {
			t.critical = never
		}
		return t
	case AlertMostTargetsDown:
		most := a.MostTargetsDown
		switch {
		case p.key.severity == Critical:
			return thresholds{never, most.Critical.For.Std()}
		case p.AtLeast:
			return thresholds{most.Critical.For.Std(), never}
		}
		return thresholds{most.Warning.For.Std(), never}
	case AlertContainerDown:
		return thresholds{a.ContainerDown.Warning.For.Std(), a.ContainerDown.Critical.For.Std()}
	case AlertContainerMissing:
		if p.record.Removed {
			return thresholds{a.ContainerMissing.For.Std(), never}
		}
		return thresholds{never, a.ContainerMissing.For.Std()}
	case AlertContainerUnhealthy:
		return thresholds{a.ContainerUnhealthy.Warning.For.Std(), a.ContainerUnhealthy.Critical.After.Std()}
	}
	return conditionLimits(a, &p.key)
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

// within is how long a problem may have lasted that is not worse than this.
func (t thresholds) within(s Severity) time.Duration {
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
	restarted  []Problem // those that are a number of events, not a duration
	next       time.Duration
}

// candidate is a problem that is not yet decided on.
type candidate struct {
	Problem
	key       problemKey
	record    *record
	before    record            // at the last judgement
	cause     *cause            // nil where nothing explains it
	condition *ConditionVerdict // nil if it is about availability
	frozen    bool              // it is as it was
	warnOnly  bool              // it is a warning at most
}

// judgeContainer finds what is wrong with a container.
func (r *round) judgeContainer(c *Container) {
	s := c.subject()
	restarted, excused := r.countRestarts(c)
	v := Verdict{Known: true, RecentRestarts: restarted, RecentKills: r.countKills(c), Unknown: !r.judge.engines[c.Host].read.Equal(r.now)}
	first := r.judge.engines[c.Host].before.IsZero()
	var p *candidate
	switch {
	case c.State == Missing:
		p = r.begin(problemKey{Subject: s, alert: AlertContainerMissing}, r.judge.stopped(c, r.now), first && c.DownFor == 0)
		p.record.Removed = !c.Expected
	case c.State == Restarting && restarted > 0 && !excused && c.DownFor <= restartsWithin:
		// The alert on restarts tells of one that is restarted again and again.
	case c.down():
		p = r.begin(problemKey{Subject: s, alert: AlertContainerDown}, r.judge.stopped(c, r.now), first && c.DownFor == 0)
	case c.State == Running && c.Health == Unhealthy:
		p = r.begin(problemKey{Subject: s, alert: AlertContainerUnhealthy}, r.now.Add(-c.UnhealthyFor), first && c.UnhealthyFor == 0)
	}
	if p != nil {
		p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofContainer(c, since) })
		if v.Unknown {
			p.freeze(r.judge)
		}
		v.measure(p)
	}
	r.verdicts[s] = v
	r.judgeRestarts(s, &v)
	r.judgeKills(s, &v)
	r.judgeMemory(c, v.Unknown, first)
}

// restartsWithin is longer than an engine waits before it starts a container again.
const restartsWithin = 2 * time.Minute

// measure takes over how long the problem of a container has lasted.
func (v *Verdict) measure(p *candidate) {
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

// explain finds what explains the problem, by when it began. What would explain one that began now is named all the same.
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

// keepUnread keeps what the former process has left of containers that were not read since.
func (r *round) keepUnread() {
	j := r.judge
	if r.now.Sub(j.resumed) > unreadFor {
		clear(j.unread)
	}
	if len(j.unread) == 0 {
		return
	}
	for s := range j.restarts {
		if !j.unread[s.Host] {
			continue
		}
		v := Verdict{Known: true, Unknown: true, RecentRestarts: j.recentRestarts(s, r.now), RecentKills: j.recentKills(s, r.now)}
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
		p, v := r.begin(key, known.Since, known.AtLeast), r.verdicts[key.Subject]
		p.freeze(j)
		v.Known, v.Unknown = true, true
		if key.alert == AlertContainerMemory {
			p.Unknown, p.condition = true, &ConditionVerdict{}
			continue
		}
		v.measure(p)
		r.verdicts[key.Subject] = v
	}
}

// freeze has a problem stay as bad and as excused as it was: that nobody has looked makes it no worse.
func (p *candidate) freeze(j *Judge) {
	p.frozen, p.Severity, p.Excuse = true, p.record.Told, p.record.Excuse
	if p.warnOnly {
		p.Severity = min(p.Severity, Warning)
	}
	if !p.Excuse.Holds() {
		p.Lasted = min(p.Lasted, j.limits(p).within(p.Severity))
	}
}

// judgeTarget finds whether a target is down. One that has not been read lately stays as it was.
func (r *round) judgeTarget(t *Target) {
	j, s := r.judge, TargetSubject(t.Name)
	v := Verdict{Known: true, Unknown: !t.Read, TargetKind: t.Kind, WarnOnly: t.WarnOnly}
	known := j.problems[problemKey{Subject: s, alert: AlertTargetDown}]
	_, seen := j.well[t.Name]
	switch {
	case t.Read && t.Up:
		j.changed = j.changed || !seen
		j.well[t.Name] = t.ReadAt
	case !t.Read && known == nil:
		v.Known = seen
	default:
		p := r.begin(problemKey{Subject: s, alert: AlertTargetDown}, r.now, !seen)
		p.warnOnly = t.WarnOnly
		p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofTarget(t, since) })
		if saved := p.record.Excuse; !t.Read || p.cause == nil && j.unread[saved.Root.Host] {
			p.freeze(j)
		}
		v.Down, v.Known = p.Lasted, !p.AtLeast || p.Lasted > j.alerts.TargetDown.Critical.For.Std()
	}
	r.verdicts[s] = v
	if t.Engine != "" {
		j.trackEngine(s, &v, r.now)
	}
}

// shortest is the least that a problem has lasted, since 0 means well.
const shortest = time.Millisecond

// begin notes that something is wrong: since then, or at least since then, if it was not so before.
func (r *round) begin(key problemKey, since time.Time, atLeast bool) *candidate {
	known := r.judge.problems[key]
	if known == nil {
		known = &record{Since: since, AtLeast: atLeast}
		r.judge.problems[key], r.judge.changed = known, true
	}
	p := &candidate{key: key, record: known, before: *known, Problem: Problem{
		Subject: key.Subject, Alert: key.alert, Of: key.of, Since: known.Since, AtLeast: known.AtLeast, Lasted: max(r.now.Sub(known.Since), shortest),
	}}
	r.problems = append(r.problems, p)
	return p
}

// decide settles what is told and what is held back. What nothing explains comes first, since it may be a cause.
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
	case p.cause != nil && p.record.Told == Pending && r.mayHoldBack(p.cause, p.Lasted):
		p.Excuse = p.cause.Excuse
		r.expect(p, j.alerts.ContainerDown.Critical.For.Std())
	default:
		limits := j.limits(p)
		p.Severity = limits.severity(p.Lasted)
		p.record.Told = max(p.record.Told, p.Severity)
		r.expect(p, limits.warning)
		r.expect(p, limits.critical)
	}
	p.record.Excuse = p.Excuse
	j.changed = j.changed || *p.record != p.before
	if span := j.unavailable[p.Subject]; span != nil && p.Severity > Pending {
		span.Told = true
	}
	if p.condition != nil {
		p.condition.Excused = p.Excuse.Holds()
		return
	}
	v := r.verdicts[p.Subject]
	v.Excuse = p.Excuse
	r.verdicts[p.Subject] = v
}

// expect notes that something changes once the problem has lasted for longer than the limit.
func (r *round) expect(p *candidate, limit time.Duration) {
	if left := limit - r.now.Sub(p.Since); limit != never && left >= 0 {
		r.next = min(r.next, left+shortest)
	}
}

// excuseMaintained says of everything under maintenance that it is excused, also while nothing is wrong with it. A problem
// that was told before stays.
func (r *round) excuseMaintained() {
	told := map[Subject]bool{}
	for _, p := range r.problems {
		told[p.Subject] = told[p.Subject] || p.record.Told > Pending && (p.condition == nil || p.Alert == AlertContainerMemory)
	}
	for s, v := range r.verdicts {
		if !told[s] && !v.Excuse.Holds() && r.underMaintenance(s) {
			v.Excuse = Excuse{Reason: ReasonMaintenance}
			r.verdicts[s] = v
		}
	}
}

// mayHoldBack reports whether a cause still holds back a problem that has lasted so long. But for maintenance, that ends
// when the cause should have been told, unless it was.
func (r *round) mayHoldBack(c *cause, lasted time.Duration) bool {
	j := r.judge
	if c.Reason == ReasonMaintenance || lasted <= j.alerts.ContainerDown.Critical.For.Std() {
		return true
	}
	if s := j.unavailable[c.Root]; s != nil {
		engine := c.Root.Kind == config.MaintenanceTarget
		if s.Told && r.now.Sub(s.Down) <= j.alerts.Lookback.Std() || engine && r.now.Sub(s.Began) <= j.alerts.TargetDown.Critical.For.Std() {
			return true
		}
	}
	if known := j.problems[problemKey{Subject: c.Root, alert: AlertTargetDown}]; known != nil && known.Told > Pending {
		return true
	}
	return j.recentRestarts(c.Root, r.now) > uint64(max(j.alerts.ContainerRestarts.Critical.Over, 0))
}

// heldBack are the alerts on measured values and on what was before, of what is under maintenance, but for those that were told before.
func (r *round) heldBack() []HeldBack {
	told := map[HeldBack]bool{}
	for _, p := range r.problems {
		told[HeldBack{p.Alert, p.Subject}] = told[HeldBack{p.Alert, p.Subject}] || p.record.Told > Pending
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
		alerts := []string{AlertCertificateExpiry}
		switch t.Kind {
		case "volume":
			alerts = []string{AlertVolumeUsage}
		case "xmpp_metrics":
			alerts = append(alerts, AlertAuthFailureRate, AlertSessionsGone)
		case "irc_rpc":
			alerts = append(alerts, AlertUsersGone)
		}
		for _, alert := range alerts {
			if h := (HeldBack{alert, TargetSubject(t.Name)}); !told[h] {
				list = append(list, h)
			}
		}
	}
	slices.SortFunc(list, func(a, b HeldBack) int {
		return cmp.Or(strings.Compare(a.Alert, b.Alert), compareSubjects(a.Subject, b.Subject))
	})
	return list
}

// sorted are the problems, the worst first, then the oldest, each with what it is the cause of. Of what passes the limit for a
// warning and the one for a critical alert, only the worse is left.
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
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.Since.Compare(b.Since), compareSubjects(a.Subject, b.Subject), strings.Compare(a.Alert, b.Alert))
	})
	seen := map[problemKey]bool{}
	return slices.DeleteFunc(list, func(p Problem) bool {
		key := problemKey{Subject: p.Subject, alert: p.Alert, of: p.Of}
		again := seen[key]
		seen[key] = true
		return again
	})
}
