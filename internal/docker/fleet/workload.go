package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// workload is what containers are instances of: a Compose service, a swarm service, a systemd unit, or a name. Its history goes on
// when one instance replaces another.
type workload struct {
	// Wanted is how many instances should run; 0 before the first list.
	Wanted int `json:"wanted,omitempty"`
	Counts     // they never go down, whichever instances there are
	// Shared is true once it has had several instances, or one under another name: then it is judged as a whole. Was are the names
	// that were judged until then.
	Shared bool     `json:"shared,omitempty"`
	Was    []string `json:"was,omitempty"`
	// Named are the names of present and earlier instances that the configuration mentions.
	Named []string `json:"named,omitempty"`
	// Followed is true once an instance that removes itself was followed by another one within maxRestartGap.
	Followed bool `json:"followed,omitempty"`
	// Instances are its containers that run, and those that have ended and that no other one has replaced.
	Instances []instance `json:"instances,omitempty"`
	// Gone is when its last instance ceased to exist; zero while there is one.
	Gone time.Time `json:"gone,omitzero"`
	// Runs is how many instances run. Due is true if any should: those of a one-shot service have done their work.
	Runs int  `json:"-"`
	Due  bool `json:"-"`
}

// instance is a container of a workload. The times are by our clock.
type instance struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Added is when it began to run beside the others; zero if it replaced one or is the first.
	Added time.Time `json:"added,omitzero"`
	// Ended is when it had ended, or when somebody asked for an end that it had come to by itself; zero while it runs.
	Ended time.Time `json:"ended,omitzero"`
	exit
	// Removed is true if somebody removed it, which may be all that Podman tells. Unwanted is true once its end has lowered Wanted.
	Removed    bool   `json:"removed,omitempty"`
	Unwanted   bool   `json:"unwanted,omitempty"`
	Image      string `json:"image,omitempty"`
	ConfigHash string `json:"config_hash,omitempty"`
	AutoRemove bool   `json:"auto_remove,omitempty"`
}

// exit is how a run ended.
type exit struct {
	// At is when, by the engine's clock, and Code its exit code; zero and unknownExitCode if unknown.
	At   time.Time `json:"at,omitzero"`
	Code int       `json:"code,omitempty"`
	// Asked is true if a kill or stop event asked for it.
	Asked bool `json:"asked,omitempty"`
}

// byItself reports whether the run failed, and nobody had asked for its end.
func (e *exit) byItself() bool { return !e.Asked && e.Code > 0 }

// followedBy reports whether something starts a new container where nobody has asked for the end.
func (e *exit) followedBy(created time.Time) bool { return !e.Asked && followsSoon(e.At, created) }

// maxRestartGap is how soon after a failed run a new container must follow to count as its restart.
const maxRestartGap = time.Minute

// restarts reports whether a container that was created at this time restarts the ended one: else it is a deploy.
func (e *instance) restarts(created time.Time, l *Labels) bool {
	return e.byItself() && followsSoon(e.At, created) && e.Image == l.Image && e.ConfigHash == l.ConfigHash
}

// followsSoon reports whether a container was created soon after another one ended. A supervisor may create the next one while the
// engine still removes the last, so the times may be in the other order.
func followsSoon(ended, created time.Time) bool {
	return !ended.IsZero() && !created.IsZero() && created.Sub(ended).Abs() <= maxRestartGap
}

// WorkloadOf returns the workload of a container: Compose's project/service, the swarm service, the systemd unit, else its name.
func WorkloadOf(labels map[string]string, name string) string {
	if project, service := labels[ComposeProject], labels[ComposeService]; project != "" && service != "" {
		return project + "/" + service
	}
	return cmp.Or(labels[swarmService], labels[systemdUnit], name)
}

// workloadOf returns the key of a member's workload. A record of an earlier version has none.
func (r *Record) workloadOf(name string) string {
	if r.Workload == "" && r.Project != "" && r.Service != "" {
		return r.Project + "/" + r.Service
	}
	return cmp.Or(r.Workload, name)
}

// namedMember is a member with its name.
type namedMember struct {
	name string
	*Member
}

// instances returns the members of each workload, in the order of their names. Containers that a deploy has left over are none.
func (f *Fleet) instances() map[string][]namedMember {
	all := make(map[string][]namedMember, len(f.members))
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if m := f.members[name]; !m.SetAside {
			key := m.workloadOf(name)
			all[key] = append(all[key], namedMember{name, m})
		}
	}
	return all
}

// workloadOf returns the workload of a member.
func (f *Fleet) workloadOf(name string, c *Member) *workload {
	key := c.workloadOf(name)
	if f.workloads[key] == nil {
		f.workloads[key] = &workload{}
	}
	return f.workloads[key]
}

// settle records what has happened to the instances of each workload since the last time: their restarts, replacements and ends,
// and so how many of them should run.
func (f *Fleet) settle(now time.Time) {
	if !f.listed {
		return // not all instances are known yet
	}
	all := f.instances()
	for _, list := range all {
		f.workloadOf(list[0].name, list[0].Member)
	}
	for key, w := range f.workloads {
		list := all[key]
		w.count(list)
		w.recordEnds(list, now)
		w.recordStarts(list, now)
		w.settleEnds(list, now)
		w.adjustWanted(f.leastOf(key, list), list, now)
		w.share(list, now)
		w.rememberNames(list, f.rules)
		switch {
		case slices.ContainsFunc(list, func(m namedMember) bool { return m.present }):
			w.Gone = time.Time{}
		case w.Gone.IsZero():
			w.Gone = now
		}
	}
}

// tidyWorkloads drops workloads without members.
func (f *Fleet) tidyWorkloads() {
	used := map[string]bool{}
	for name, m := range f.members {
		used[m.workloadOf(name)] = true
	}
	maps.DeleteFunc(f.workloads, func(key string, _ *workload) bool {
		return !used[key] && !slices.Contains(f.rules.ExpectedServices, key)
	})
}

// leastOf returns how many instances the configuration expects.
func (f *Fleet) leastOf(key string, list []namedMember) (least int) {
	for _, m := range list {
		if f.rules.expects(m.name) {
			least++
		}
	}
	if slices.Contains(f.rules.ExpectedServices, key) {
		return max(least, 1)
	}
	return least
}

// count adds what the counters of the instances have counted since the last time. The workload counts its new containers itself.
func (w *workload) count(list []namedMember) {
	for _, m := range list {
		is, was := Counts{Restarts: m.Restarts() - min(m.Successions, m.Restarts()), OOMs: m.ooms()}, m.Counted
		w.Restarts += is.Restarts - min(is.Restarts, was.Restarts)
		w.OOMs += is.OOMs - min(is.OOMs, was.OOMs)
		m.Counted = is
	}
}

// running reports whether the instance serves.
func (c *Member) running() bool { return c.present && c.Status.State == container.StateRunning }

// alive reports whether the instance's run goes on: it may be paused.
func (c *Member) alive() bool { return c.present && c.Status.alive() }

// instance returns the instance with this id, or nil.
func (w *workload) instance(id string) *instance {
	for i := range w.Instances {
		if w.Instances[i].ID == id {
			return &w.Instances[i]
		}
	}
	return nil
}

// recordEnds records which instances do not run any more. An instance under another name goes on.
func (w *workload) recordEnds(list []namedMember, now time.Time) {
	for _, m := range list {
		if e := w.instance(m.ID); e != nil && m.alive() {
			e.Name = m.name
		} else if !slices.ContainsFunc(list, func(o namedMember) bool { return o.ID == m.ID && o.alive() }) {
			w.end(m, now)
		}
	}
	w.Instances = slices.DeleteFunc(w.Instances, func(e instance) bool {
		return e.Ended.IsZero() && !slices.ContainsFunc(list, func(m namedMember) bool { return m.ID == e.ID })
	})
}

// end records that a member's container has ended, or what became known of that later. A request for the end of one that
// had ended by itself counts only while that is missed.
func (w *workload) end(m namedMember, now time.Time) {
	e := w.instance(m.ID)
	if e == nil {
		return
	}
	running := e.Ended.IsZero()
	if running {
		e.Image, e.ConfigHash, e.AutoRemove = m.Image, m.ConfigHash, m.AutoRemove
	}
	// Podman may tell of a stop before the container has ended, and so before its exit code is known.
	asked := m.LastExit.Asked || m.LastExit.At.IsZero() && !m.AskedAt.IsZero()
	removed := m.Removed && !m.AutoRemove
	missed := now.Sub(e.Ended) <= maxReplaceDelay || w.Runs < w.wants()
	if running || (asked || removed) && !e.requested() && missed {
		e.Ended, e.Asked, e.Removed = now, asked, removed
	}
	if e.At.IsZero() {
		e.At, e.Code = m.LastExit.At, m.LastExit.Code
	}
}

// requested reports whether somebody wanted the end of the run.
func (e *instance) requested() bool { return e.Asked || e.Removed }

// recordEnd records that a member's container has left its workload: another one, which was created at that time, takes its name.
func (f *Fleet) recordEnd(name string, c *Member, created, now time.Time) {
	key, present := c.workloadOf(name), f.names[c.ID]
	if o := f.members[present]; o != nil && present != name && o.ID == c.ID && o.workloadOf(present) == key {
		return // it goes on under another name
	}
	w, m := f.workloads[key], namedMember{name, c}
	if w == nil {
		return
	}
	w.Followed = w.Followed || c.AutoRemove && c.LastExit.followedBy(created)
	if w.end(m, now); f.listed && c.ranUnseen() {
		w.run(m, c.Status.Created, now)
	}
}

// ranUnseen reports whether a new container has run and ended before its workload was settled.
func (c *Member) ranUnseen() bool {
	return c.Recorded != c.ID && c.CountsFirstStart && c.Starts.Total > 0 && !c.LastExit.At.IsZero()
}

// run records a whole run.
func (w *workload) run(m namedMember, created, now time.Time) {
	m.Recorded = m.ID
	w.start(instance{ID: m.ID, Name: m.name}, created, &m.Labels)
	w.end(m, now)
}

// recordStarts records that instances run: again, for the first time, or in place of another one.
func (w *workload) recordStarts(list []namedMember, now time.Time) {
	if len(w.Instances) == 0 {
		w.recordFirst(list, now)
	}
	for _, m := range list {
		e := w.instance(m.ID)
		switch {
		case m.alive() && e == nil:
			s := instance{ID: m.ID, Name: m.name}
			if !m.lasts(now) {
				s.Added = now
			}
			w.start(s, m.Status.Created, &m.Labels)
		case m.alive():
			e.Ended, e.exit, e.Removed, e.Unwanted = time.Time{}, exit{}, false, false
		case e == nil && m.ranUnseen():
			w.run(m, m.Status.Created, now)
		}
		if e != nil || m.alive() {
			m.Recorded = m.ID
		}
	}
}

// recordFirst records the instances that are there when the workload is seen for the first time: none has replaced another one.
func (w *workload) recordFirst(list []namedMember, now time.Time) {
	for _, m := range list {
		ended := m.present && m.Status.Stopped && !m.Swarm // a swarm keeps the tasks that it has replaced
		if m.alive() || ended {
			w.Instances = append(w.Instances, instance{ID: m.ID, Name: m.name})
		}
		if ended {
			w.end(m, now)
		}
		if !m.present { // it ran before an earlier version stopped
			m.Recorded = m.ID
		}
	}
}

// start records that a new container runs. It replaces the ended one of the same name, else the one that ended last.
func (w *workload) start(s instance, created time.Time, l *Labels) {
	var last *instance
	for i := range w.Instances {
		e := &w.Instances[i]
		own := e.Name == s.Name
		if e.Ended.IsZero() || e.Unwanted && !own {
			continue
		}
		if last == nil || own || last.Name != s.Name && e.Ended.After(last.Ended) {
			last = e
		}
	}
	if last != nil {
		e := *last
		w.Instances = slices.DeleteFunc(w.Instances, func(i instance) bool { return i.ID == e.ID })
		w.Followed = w.Followed || e.AutoRemove && e.followedBy(created)
		if s.Added = (time.Time{}); e.restarts(created, l) && (e.Name == s.Name || !e.Removed) {
			w.Restarts++
		} else {
			w.Recreations++
		}
	}
	w.Instances = append(w.Instances, s)
}

// added returns the running instances that were added shortly before another one ended, which they may so have replaced.
func (w *workload) added(e *instance) (list []*instance) {
	for i := range w.Instances {
		s := &w.Instances[i]
		before := e.Ended.Sub(s.Added)
		if s.Ended.IsZero() && before >= 0 && before <= maxReplaceDelay && !e.Unwanted && (e.Removed || !e.byItself()) {
			list = append(list, s)
		}
	}
	return list
}

// settleEnds counts deploys that have started the successor first. One instance less should run where somebody has ended one, and
// none has followed within maxReplaceDelay.
func (w *workload) settleEnds(list []namedMember, now time.Time) {
	settled := map[string]bool{}
	for i := range w.Instances {
		e := &w.Instances[i]
		if e.Ended.IsZero() {
			continue
		}
		old := now.Sub(e.Ended) > maxReplaceDelay
		startsAgain := func(m namedMember) bool { return m.ID == e.ID && m.present && !old }
		switch added := w.added(e); {
		case len(added) > 0 && !slices.ContainsFunc(list, startsAgain):
			w.Recreations++
			added[0].Added, settled[e.ID] = time.Time{}, true
			continue
		case old && e.requested() && !e.Unwanted:
			w.Wanted, e.Unwanted = max(w.Wanted-1, 1), true
		}
		settled[e.ID] = old && !slices.ContainsFunc(list, func(m namedMember) bool { return m.name == e.Name })
	}
	w.Instances = slices.DeleteFunc(w.Instances, func(e instance) bool { return settled[e.ID] })
}

// adjustWanted sets how many instances should run at first sight, and raises it to what has run together for maxReplaceDelay. Least is
// how many the configuration expects.
func (w *workload) adjustWanted(least int, list []namedMember, now time.Time) {
	should, lasting := 0, 0
	w.Runs, w.Due = 0, least > 0
	for _, m := range list {
		if m.running() {
			w.Runs++
			if m.lasts(now) {
				lasting++
			}
		}
		if m.running() || m.present && m.Expected && !m.Swarm { // a swarm keeps the tasks that it has replaced
			should++
		}
		w.Due = w.Due || m.Expected
	}
	if w.Due {
		least = max(least, 1)
	}
	if w.Wanted == 0 {
		w.Wanted = should
	}
	w.Wanted = max(w.Wanted, least, lasting)
}

// lasts reports whether the instance has run for maxReplaceDelay.
func (c *Member) lasts(now time.Time) bool {
	return !c.Status.Started.IsZero() && now.Add(c.clockAhead).Sub(c.Status.Started) >= maxReplaceDelay
}

// share makes the workload judged as a whole once there are several instances, or one has followed another under another name.
func (w *workload) share(list []namedMember, now time.Time) {
	var names []string
	for _, m := range list {
		renamed := m.RenamedFrom != "" && now.Sub(m.RenamedAt) < maxReplaceDelay // a deploy is about to set it aside
		if (m.present || m.Expected) && !renamed {
			names = append(names, m.name)
		}
	}
	if !w.Shared && len(names) > 1 {
		w.Shared, w.Was = true, names
	}
}

// rememberNames records the names of instances that the configuration mentions: it means the workload, whatever its instances are called.
func (w *workload) rememberNames(list []namedMember, r *Rules) {
	for _, m := range list {
		if r.mentions(m.name) && !slices.Contains(w.Named, m.name) {
			w.Named = append(w.Named, m.name)
		}
	}
}

// had reports whether the workload has had an instance of a name that the configuration mentions.
func (w *workload) had(name string) bool {
	return w != nil && slices.Contains(w.Named, name)
}

// had reports whether any workload has had an instance of a name that the configuration mentions.
func (f *Fleet) had(name string) bool {
	for _, w := range f.workloads {
		if w.had(name) {
			return true
		}
	}
	return false
}

// wants returns how many instances should run now. One that somebody has just ended may be about to be replaced, so it is not missed;
// but one instance always is.
func (w *workload) wants() int {
	if w.Runs == 0 && !w.Due {
		return 0
	}
	n, replaced := w.Wanted, 0
	for i := range w.Instances {
		switch e := &w.Instances[i]; {
		case e.Ended.IsZero() || !e.requested() || e.Unwanted:
		case len(w.added(e)) > replaced:
			replaced++
		default:
			n--
		}
	}
	return max(n, min(w.Wanted, 1))
}

// composeNameOf reports whether compose would give an instance of this service the name.
func composeNameOf(l *Labels, name string) bool {
	base := strings.TrimRight(name, "0123456789")
	if l.Project == "" || l.Service == "" || base == name || base == "" {
		return false
	}
	separator := base[len(base)-1:]
	return (separator == "-" || separator == "_") && base == l.Project+separator+l.Service+separator
}

// forgetWorkload forgets a workload without any instance, or the instances that one lacks.
func (f *Fleet) forgetWorkload(key string) error {
	switch w := f.workloads[key]; {
	case w.Runs > 0 && w.Runs < f.leastOf(key, f.instances()[key]):
		return fmt.Errorf("%w: expected names more instances of %q; remove them there and reload", ErrNeeded, key)
	case w.Runs > 0 && w.Runs < w.wants():
		w.Wanted = w.Runs
		w.Instances = slices.DeleteFunc(w.Instances, func(e instance) bool { return !e.Ended.IsZero() })
		return nil
	case slices.Contains(f.rules.ExpectedServices, key):
		return fmt.Errorf("%w: expected_services names %q; remove it there and reload", ErrNeeded, key)
	case w.Gone.IsZero():
		return fmt.Errorf("%w: an instance of %q exists; to stop watching it, add it to exclude", ErrNeeded, failure.OneLine(key))
	}
	for name, m := range f.members {
		if m.workloadOf(name) != key {
			continue
		}
		if f.rules.expects(name) {
			return fmt.Errorf("%w: expected names %q; remove it there and reload", ErrNeeded, name)
		}
		delete(f.members, name)
	}
	delete(f.workloads, key)
	return nil
}
