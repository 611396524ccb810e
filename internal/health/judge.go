package health

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Judge decides which problems there are. It remembers what the next judgement needs, such as when problems began, which alerts fire
// and how often containers restarted. It is not safe for concurrent use.
type Judge struct {
	rules       Rules
	problems    map[problemKey]*record
	unavailable map[Subject]*span
	restarts    map[Subject]*restarts
	past        map[Subject][]pastOutage
	engines     map[string]*engine
	targets     map[string]*targetMemory
	// states are those of the last round, without what was not watched. told are the problems that it told of.
	states map[Subject]State
	told   map[toldKey]*told
	// changed says that there is something new to save, lastSave when memory was last saved.
	changed  bool
	lastSave time.Time
	clock    Clock
	// started is when this process began to judge. saved is when the former process last saved its memory, resumed when this process
	// loaded it. unread are the engines in that memory that have not been read since.
	started, saved, resumed time.Time
	unread                  map[string]bool
}

// engine is the last successful reading of an engine.
type engine struct {
	// read is when its state was last known, previousRead the time before; zero if there was none. Asked is when the engine itself was last
	// read, previousAsked the time before: in between, its events are known, and what it said last.
	read, previousRead   time.Time
	asked, previousAsked time.Time
	containers           []Container
	// own says that containers is a copy of what was read, which may be changed.
	own bool
}

// NewJudge makes a judge that knows nothing yet.
func NewJudge(rules Rules) *Judge {
	return &Judge{
		rules:       rules,
		problems:    map[problemKey]*record{},
		unavailable: map[Subject]*span{},
		restarts:    map[Subject]*restarts{},
		past:        map[Subject][]pastOutage{},
		engines:     map[string]*engine{},
		unread:      map[string]bool{},
		targets:     map[string]*targetMemory{},
		states:      map[Subject]State{},
		told:        map[toldKey]*told{},
	}
}

// Reconfigure changes the thresholds. The judge keeps its memory.
func (j *Judge) Reconfigure(rules Rules) { j.rules = rules }

// unreadGrace is how long the judge keeps measured values that no reading has checked since. What is down stays down.
const unreadGrace = 15 * time.Minute

// Judge judges the facts of one moment. Moments must not go back. The package's comment says what each pass needs.
func (j *Judge) Judge(f *Facts) *Judgement {
	tick := j.clock.Tick(f.Now)
	if tick.Start {
		j.started = f.Now
	}
	j.changed = j.changed || tick.Step != 0 // all saved times are by the wall clock
	joined := j.renameTargets(f)
	j.readEngines(f)
	joined = append(joined, j.joinWorkloads(f)...)
	s := j.look(f)

	found := s.judgeContainers()
	found.add(s.judgeTargets())
	found.add(s.judgeConditions())
	found.add(s.judgeSlow())
	found.add(s.judgeGaps())
	found.add(s.keepUnread())
	s.shareCertificates(&found)

	s.decide(found.problems)
	found.add(s.judgeOftenUnhealthy(found.verdicts))
	found.add(s.judgeMost(found.problems, found.verdicts))
	s.excuseMaintained(found.problems, found.verdicts)
	s.decideOnMemory(found.problems, found.verdicts)
	found.add(s.judgeUnstable(found.verdicts))

	j.forget(s, found.problems)
	result := s.sumUp(&found)
	result.Round = s.tell(result, tick, joined)
	return result
}

// findings are what a pass finds wrong, and what it measures.
type findings struct {
	problems []*candidate
	verdicts map[Subject]*Verdict
	// well are the conditions that were checked and do not hold. events are the problems that consist of events, which have no duration.
	well   []problemKey
	events []Problem
	values []Value
	// recheck is after how long the same facts give another judgement; what is negative is over.
	recheck []time.Duration
}

// add adds what a later pass has found.
func (f *findings) add(later findings) {
	f.problems = append(f.problems, later.problems...)
	f.well = append(f.well, later.well...)
	f.events = append(f.events, later.events...)
	f.values = append(f.values, later.values...)
	f.recheck = append(f.recheck, later.recheck...)
	maps.Copy(f.verdicts, later.verdicts)
}

// readEngines records the containers of the engines. It keeps the last containers of an engine that cannot be read.
func (j *Judge) readEngines(f *Facts) {
	configured := map[string]bool{}
	for i := range f.Engines {
		given := &f.Engines[i]
		e := cmp.Or(j.engines[given.Host], &engine{})
		j.engines[given.Host] = e
		if !given.Read && !e.own {
			e.containers, e.own = slices.Clone(e.containers), true
		}
		if given.Read {
			e.previousRead, e.read, e.containers, e.own = e.read, f.Now, given.Containers, false
			if asked := cmp.Or(f.askedAt(given.Host), f.Now); !asked.Equal(e.asked) {
				e.previousAsked, e.asked = e.asked, asked
			}
			if j.unread[given.Host] { // its state since the former process is unknown
				e.previousRead, e.previousAsked = j.saved, j.saved
				delete(j.unread, given.Host)
			}
		}
		configured[given.Host] = true
	}
	j.reviveAnswering(f)
	maps.DeleteFunc(j.engines, func(host string, _ *engine) bool { return !configured[host] })
	maps.DeleteFunc(j.unread, func(host string, _ bool) bool { return !configured[host] })
}

// askedAt returns when an engine was read itself, zero if that is unknown.
func (f *Facts) askedAt(host string) time.Time {
	for i := range f.Targets {
		if f.Targets[i].Engine == host {
			return f.Targets[i].ReadAt
		}
	}
	return time.Time{}
}

// reviveAnswering has containers run that were down when their engine was last read, if their own targets have answered since.
func (j *Judge) reviveAnswering(f *Facts) {
	for _, e := range j.engines {
		for i := range e.containers {
			if e.own {
				e.containers[i].answers = false
			}
		}
	}
	for i := range f.Targets {
		t := &f.Targets[i]
		home := j.target(t.Name).home
		e := j.engines[home.Host]
		if e == nil || !t.Read || !t.Up || !t.ReadAt.After(e.read) {
			continue
		}
		for k := range e.containers {
			c := &e.containers[k]
			if slices.Contains(c.names(), home.Container) && (c.State != Running || c.revived) {
				c.State, c.Health, c.WaitsFor, c.Instances = Running, "none", "", c.Wanted
				c.answers, c.revived = true, true
			}
		}
	}
}

// seen returns when the engine was last read, which is now unless it cannot be read.
func (j *Judge) seen(host string) time.Time {
	if j.unread[host] {
		return j.saved
	}
	return j.engines[host].read
}

// The names of the alerts on what does not work at all, on unhealthy containers, and on those that did not do their work.
const (
	AlertTargetDown         = "TargetDown"
	AlertContainerDown      = "ContainerDown"
	AlertContainerMissing   = "ContainerMissing"
	AlertContainerUnhealthy = "ContainerUnhealthy"
	AlertOneShotFailed      = "OneShotFailed"
)

// IsOutage reports whether the alert is on something that does not work at all.
func IsOutage(alert string) bool {
	return slices.Contains([]string{AlertTargetDown, AlertContainerDown, AlertContainerMissing, AlertMostTargetsDown}, alert)
}

// IsAbsence reports whether the alert is on a container that does not exist.
func IsAbsence(alert string) bool { return alert == AlertContainerMissing }

// FailsReadings reports whether the readings of a target fail because of a problem with the alert.
func FailsReadings(alert string) bool {
	return alert == AlertTargetDown || slices.Contains(relayAlerts, alert)
}

// flaps reports whether problems with the alert may go on between several outages.
func flaps(alert string) bool { return alert == AlertTargetDown || alert == AlertContainerDown }

// outageKey is that of a target's outage.
func outageKey(target Subject) problemKey { return problemKey{Subject: target, Alert: AlertTargetDown} }

// outage returns what is remembered of a target's outage, and downtime of a container's; nil while there is none.
func (j *Judge) outage(target Subject) *record { return j.present(target, AlertTargetDown) }

func (j *Judge) downtime(container Subject) *record { return j.present(container, AlertContainerDown) }

func (j *Judge) present(of Subject, alert string) *record {
	if known := j.problems[problemKey{Subject: of, Alert: alert}]; known != nil && !known.up() {
		return known
	}
	return nil
}

// spellCritical reports whether the critical alert on a container's present spell of bad health fires, and how long it goes on after that.
func (j *Judge) spellCritical(container Subject) (fires bool, keep time.Duration) {
	known := j.problems[problemKey{Subject: container, Alert: AlertContainerUnhealthy}]
	return known != nil && known.Alerted == Critical, j.rule(AlertContainerUnhealthy).Critical.Keep
}

// targetWarned is how long an outage of a target lasts until its alert is a warning, targetDue until it is critical, containerDue how long
// that of a container.
func (j *Judge) targetWarned() time.Duration { return j.rule(AlertTargetDown).Warning.Hold }
func (j *Judge) targetDue() time.Duration    { return j.rule(AlertTargetDown).Critical.Hold }
func (j *Judge) containerDue() time.Duration { return j.rule(AlertContainerDown).Critical.Hold }

// judgeContainers finds what is wrong with containers.
func (s *scene) judgeContainers() findings {
	found := findings{verdicts: make(map[Subject]*Verdict, len(s.containers))}
	for _, c := range s.containers {
		if c.vanished {
			s.judgeVanished(&found, c.Subject())
		} else {
			s.judgeContainer(&found, c)
		}
	}
	return found
}

// judgeVanished keeps what is counted of a container that has just disappeared: one that removes itself may crash in a loop.
func (s *scene) judgeVanished(found *findings, subject Subject) {
	v := &Verdict{}
	s.judgeEvents(found, subject, v)
	v.Unknown = true
	if v.RecentRestarts > 0 || v.RecentKills > 0 {
		found.verdicts[subject] = v
	}
}

func (s *scene) judgeContainer(found *findings, c *Container) {
	subject, e := c.Subject(), s.judge.engines[c.Host]
	first := e.previousRead.IsZero()
	v := &Verdict{Known: true, Workload: c.Workload}
	v.lose(!e.read.Equal(s.now) && !c.answers, e.read)
	found.verdicts[subject] = v
	excused := s.countEvents(c)
	if !v.Unknown {
		s.countSpells(c)
	}
	s.judgeEvents(found, subject, v)
	begin := func(alert string, since time.Time, atLeast bool) {
		key := problemKey{Subject: subject, Alert: alert}
		switch alert {
		case AlertOneShotFailed:
			key.Severity = Warning
		case AlertContainerDown:
			s.judge.goDown(key, since, s.now)
		}
		p := found.begin(s, key, since, first && atLeast)
		p.record.Removed, p.record.Elsewhere = c.GoneOnPurpose(), c.Elsewhere
		if alert == AlertContainerDown {
			p.record.notePartly(c.partly(), s.judge.stopped(c, s.now))
			p.warnOnly = c.partly()
		}
		p.warnOnly = p.warnOnly || p.record.Elsewhere && IsOutage(alert)
		if p.Instances, p.Wanted = 0, 0; c.partly() {
			p.Instances, p.Wanted = c.Instances, c.Wanted
		}
		p.explain(s.now, func(since time.Time) cause { return s.ofContainer(c, since) })
		if v.Unknown && !IsOutage(alert) {
			p.freeze(s.judge)
		}
		v.set(p, s.judge)
	}
	loops := c.State == Restarting && v.RecentRestarts > 0 && !excused && c.DownFor <= maxRestartDelay
	switch {
	case c.State == Missing:
		begin(AlertContainerMissing, s.judge.stopped(c, s.now), c.DownFor == 0)
	case loops: // ContainerRestarts covers a crash loop.
	case s.oneShotFailed(c):
		begin(AlertOneShotFailed, s.judge.stopped(c, s.now), c.DownFor == 0)
	case c.Down():
		begin(AlertContainerDown, s.judge.stopped(c, s.now), c.DownFor == 0)
	case c.State == Running && c.Health == Unhealthy:
		begin(AlertContainerUnhealthy, s.now.Add(-c.UnhealthyFor), c.UnhealthyFor == 0)
	}
	covered := loops || c.State == Missing && !c.GoneOnPurpose() // another alert says that it does not run
	if covered || !c.Down() && (c.State == Running || c.State == Restarting) {
		if p := s.goUp(found, problemKey{Subject: subject, Alert: AlertContainerDown}, v.Unknown); p != nil {
			if covered {
				p.UpAgain, p.calm = false, 0
			}
			v.set(p, s.judge)
		}
	}
	if c.partly() && c.Down() && c.Health == Unhealthy { // those that are left may fail, too
		begin(AlertContainerUnhealthy, s.now.Add(-c.UnhealthyFor), c.UnhealthyFor == 0)
	}
	s.judgeMemory(found, c, v.Unknown, first)
}

// maxRestartDelay is longer than an engine's longest delay before a restart.
const maxRestartDelay = 2 * time.Minute

// oneShotFailed reports whether the last run of a container that does its work and ends has failed. That counts until a later run succeeds.
func (s *scene) oneShotFailed(c *Container) bool {
	known := s.judge.problems[problemKey{Subject: c.Subject(), Alert: AlertOneShotFailed, Severity: Warning}]
	return c.OneShot && (c.Stopped && c.ExitCode != 0 && c.State != Restarting || known != nil && !c.Stopped)
}

// set makes v the verdict on an outage, or on another problem of a container, with its duration. That of a container's outage does not
// exceed the limit of the critical alert while the outage is a warning at most; that of a target's says so itself, and the rules compare
// it with its container's.
func (v *Verdict) set(p *candidate, j *Judge) {
	p.verdict = v
	lasted, critical := p.Lasted, j.limits(p).critical
	if p.Lasted <= critical && p.OnEngine() {
		lasted = min(lasted, j.rule(p.Alert).Critical.Hold)
	}
	if p.record.Flaps {
		v.Outages, v.Calm = p.Outages, p.calm
	}
	switch {
	case p.Alert == AlertTargetDown:
		v.Down = lasted + p.record.early()
		v.Known = !p.AtLeast || v.Down > j.targetDue()
		v.WarnOnly = p.warnOnly || (p.record.Flaps || !p.record.Broken.IsZero()) && p.Lasted <= critical
	case p.Alert == AlertContainerUnhealthy:
		v.Unhealthy = p.Lasted
	case p.Alert == AlertOneShotFailed:
		v.WorkFailed = p.Lasted
	case p.Alert == AlertContainerDown:
		v.Down = lasted
	case p.record.Removed:
		v.Removed = p.Lasted
	default:
		v.Missing = p.Lasted
	}
}

// judgeTargets finds which targets are down, engines first, since they may be causes. Without a recent reading, a target keeps its last
// state.
func (s *scene) judgeTargets() findings {
	found := findings{verdicts: make(map[Subject]*Verdict, len(s.targets))}
	for _, engines := range []bool{true, false} {
		for _, t := range s.targets {
			if (t.Engine != "") == engines {
				s.judgeTarget(&found, t)
			}
		}
	}
	return found
}

func (s *scene) judgeTarget(found *findings, t *target) {
	j, seen := s.judge, !t.memory.lastUp.IsZero()
	v := &Verdict{
		Known:      true,
		TargetKind: t.Kind,
		WarnOnly:   t.WarnOnly,
		RefusesUs:  t.RefusesUs,
		Engine:     t.Engine,
	}
	v.lose(!t.Read, t.ReadAt)
	found.verdicts[t.subject] = v
	lost, began := false, s.now
	switch {
	case t.Read && t.Up:
		j.changed = j.changed || !seen
		t.memory.lastUp = t.ReadAt
		s.keepFlapping(found, t, v)
	case t.Read && t.Relay && len(t.Conditions) > 0:
		// Its own alerts say more: BridgeNotRelaying and RelaySessionDown.
	case !t.Read && j.outage(t.subject) == nil:
		v.Known = seen
		s.keepFlapping(found, t, v)
	default:
		key := outageKey(t.subject)
		if t.Read {
			j.goDown(key, s.now, s.now)
		}
		p := found.begin(s, key, s.now, !seen)
		if t.Read {
			p.record.noteThrottled(t.Throttled, s.now)
		}
		p.Throttled = p.record.Throttled
		p.warnOnly = t.WarnOnly || p.Throttled
		p.explain(s.now, func(since time.Time) cause { return s.ofTarget(t, since) })
		s.refute(found, t, p)
		p.release()
		if !t.Read || p.cause.Reason != ReasonMaintenance && s.excusedBefore(p.record.Excuse.Root) {
			p.freeze(j)
		}
		v.set(p, j)
		lost, began = !p.Throttled, p.record.realSince()
	}
	if t.Engine != "" { // one that only limits this address explains nothing
		j.track(t.subject, lost, lost, began, s.now)
		if known := j.unavailable[t.subject]; known != nil {
			found.recheck = append(found.recheck, j.targetDue()-s.now.Sub(known.Began))
		}
	}
}

// excusedBefore reports whether the root of an excuse from before the start cannot be read yet, and is still down as far as known.
func (s *scene) excusedBefore(root Subject) bool {
	j := s.judge
	return j.unread[root.Host] && (j.downtime(root) != nil || j.problems[problemKey{Subject: root, Alert: AlertContainerMissing}] != nil ||
		j.restartsTooOften(root) || s.now.Sub(j.resumed) <= j.containerDue())
}

// refute drops the cause of an outage that has long enough been the target's own fault. Its container explains every failure.
func (s *scene) refute(found *findings, t *target, p *candidate) {
	if t.Read {
		p.record.noteFault(s.isAtFault(t), t.Reason, s.now)
	}
	if p.record.Fault.IsZero() || p.cause.Reason != ReasonDependency {
		return
	}
	left := s.judge.targetWarned() - s.now.Sub(p.record.Fault)
	found.recheck = append(found.recheck, left)
	if left < 0 {
		p.cause = cause{}
	}
}

// release remembers the engine whose loss has excused an outage for long enough, so that all such alerts fire at once with the engine's.
func (p *candidate) release() {
	if p.cause.past && p.record.Excuse.Root == p.cause.Root {
		p.record.Loss = loss{p.cause.Root.Name, p.cause.since}
	}
}

// keepFlapping keeps the outage of a target that is up, or was when it was last read, if it flaps.
func (s *scene) keepFlapping(found *findings, t *target, v *Verdict) {
	if p := s.goUp(found, outageKey(t.subject), !t.Read); p != nil {
		p.Throttled = p.record.Throttled
		p.warnOnly = t.WarnOnly || p.Throttled
		v.set(p, s.judge)
	}
}

// keepUnread keeps the former process's problems of containers whose engine has not been read since the start.
func (s *scene) keepUnread() findings {
	j, found := s.judge, findings{verdicts: map[Subject]*Verdict{}}
	for subject := range j.restarts {
		if !j.unread[subject.Host] {
			continue
		}
		v := &Verdict{Known: true}
		v.lose(true, j.saved)
		s.judgeEvents(&found, subject, v)
		if v.RecentRestarts > 0 || v.RecentKills > 0 {
			found.verdicts[subject] = v
		}
	}
	for key, known := range j.problems {
		switch {
		case !j.unread[key.Host]:
		case IsOutage(key.Alert) && s.answers(key.Subject):
			s.endUnread(&found, key)
		default:
			s.keepProblem(&found, key, known)
		}
	}
	return found
}

// endUnread ends an outage of a container that answers, unless it flaps.
func (s *scene) endUnread(found *findings, key problemKey) {
	if flaps(key.Alert) {
		if p := s.goUp(found, key, false); p != nil {
			v := &Verdict{Known: true}
			v.set(p, s.judge)
			found.verdicts[key.Subject] = v
			return
		}
	}
	delete(s.judge.problems, key)
}

// keepProblem keeps one of them. An outage goes on, unless something that is not known any more excuses it. Maintenance is known.
func (s *scene) keepProblem(found *findings, key problemKey, known *record) {
	v := cmp.Or(found.verdicts[key.Subject], &Verdict{Known: true})
	v.lose(true, s.judge.saved)
	found.verdicts[key.Subject] = v
	left := s.judge.containerDue() - s.now.Sub(s.judge.resumed) // until then, the first reading may still be on its way
	found.recheck = append(found.recheck, left)
	excused := known.Excuse.Holds() && (known.Excuse.Reason != ReasonMaintenance || s.underMaintenance(known.Excuse.Root))
	goesOn := IsOutage(key.Alert) && !excused && !known.up() && left < 0
	if goesOn {
		s.judge.goDown(key, known.Since, s.now)
	}
	p := found.begin(s, key, known.Since, known.AtLeast)
	p.Unknown = true
	p.warnOnly = known.Partly || known.Elsewhere && IsOutage(key.Alert)
	if s.underMaintenance(key.Subject) {
		p.cause = cause{Excuse: Excuse{Reason: ReasonMaintenance, Root: key.Subject}}
	}
	if !goesOn {
		p.freeze(s.judge)
	}
	if !p.onMemory() {
		v.set(p, s.judge)
	}
}

// answers reports whether the own target of a container that was known before the start is up.
func (s *scene) answers(container Subject) bool {
	return slices.ContainsFunc(s.targets, func(t *target) bool {
		home := t.memory.home
		return t.Read && t.Up && home.Host == container.Host && (home.Container == container.Name || t.Service == container.Name)
	})
}

// forget drops what has ended. It keeps the memory of a removed container for a while, since a deploy recreates the container under
// the same name.
func (j *Judge) forget(s *scene, problems []*candidate) {
	there := func(subject Subject) bool { return s.bySubject[subject] != nil && !s.bySubject[subject].vanished }
	for subject, known := range j.restarts {
		switch {
		case there(subject) || j.unread[subject.Host]:
			known.gone = time.Time{}
		case known.gone.IsZero():
			known.gone = s.now
		case s.now.Sub(known.gone) > j.rules.Lookback:
			delete(j.restarts, subject)
			delete(j.unavailable, subject)
		}
	}
	open := make(map[problemKey]bool, len(problems))
	for _, p := range problems {
		open[p.key] = true
	}
	before := len(j.problems)
	maps.DeleteFunc(j.problems, func(key problemKey, _ *record) bool {
		vanished := !there(key.Subject) && j.restarts[key.Subject] != nil
		return !open[key] && !vanished
	})
	j.changed = j.changed || len(j.problems) < before
	j.forgetOutages(s.now)
	j.targets = make(map[string]*targetMemory, len(s.targets))
	for _, t := range s.targets {
		j.targets[t.Name] = t.memory
	}
	maps.DeleteFunc(j.unavailable, func(subject Subject, _ *span) bool {
		return subject.Kind == KindTarget && (j.targets[subject.Name] == nil || !s.ofLoss(subject).Holds())
	})
}
