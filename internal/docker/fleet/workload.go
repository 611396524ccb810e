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
	// Followed is true once an instance that removes itself was followed by another one within maxRestartGap.
	Followed bool `json:"followed,omitempty"`
	// Ends are the ends of runs that no start has followed, Starts the starts that no end explains. Both are dropped after
	// maxReplaceDelay.
	Ends   []runEnd   `json:"ends,omitempty"`
	Starts []runStart `json:"starts,omitempty"`
	// Gone is when its last instance ceased to exist; zero while there is one.
	Gone time.Time `json:"gone,omitzero"`
	// Runs is how many instances run. Due is true if any should: those of a one-shot service have done their work.
	Runs int  `json:"-"`
	Due  bool `json:"-"`
}

// runEnd is the end of an instance's run, runStart the start of one.
type (
	runEnd struct {
		ID   string    `json:"id"`
		Name string    `json:"name"`
		Seen time.Time `json:"seen"`
		exit
		Image      string `json:"image,omitempty"`
		ConfigHash string `json:"config_hash,omitempty"`
		AutoRemove bool   `json:"auto_remove,omitempty"`
	}
	runStart struct {
		ID   string    `json:"id"`
		Name string    `json:"name"`
		Seen time.Time `json:"seen"`
	}
)

// exit is how a run ended.
type exit struct {
	// At is when, by the engine's clock, and Code its exit code; zero and unknownExitCode if unknown.
	At   time.Time `json:"at,omitzero"`
	Code int       `json:"code"`
	// Asked is true if a kill, stop or remove event asked for it.
	Asked bool `json:"asked,omitempty"`
}

// byItself reports whether the run failed, and nobody had asked for its end.
func (e *exit) byItself() bool { return !e.Asked && e.Code > 0 }

// maxRestartGap is how soon after a failed run a new container must follow to count as its restart.
const maxRestartGap = time.Minute

// restarts reports whether a container that was created at this time restarts the ended one: else it is a deploy.
func (e *runEnd) restarts(created time.Time, l *Labels) bool {
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

// instance is a member with its name.
type instance struct {
	name string
	*Member
}

// instances returns the members of each workload, in the order of their names. Containers that a deploy has left over are none.
func (f *Fleet) instances() map[string][]instance {
	all := make(map[string][]instance, len(f.members))
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if m := f.members[name]; !m.SetAside {
			key := m.workloadOf(name)
			all[key] = append(all[key], instance{name, m})
		}
	}
	return all
}

// settle records what has happened to the instances of each workload since the last time: their restarts, replacements and ends,
// and so how many of them should run.
func (f *Fleet) settle(now time.Time) {
	if !f.listed {
		return // not all instances are known yet
	}
	all := f.instances()
	for key := range all {
		if f.workloads[key] == nil {
			f.workloads[key] = &workload{}
		}
	}
	for key, w := range f.workloads {
		list := all[key]
		w.count(list)
		w.learnRequests(list)
		for _, end := range w.endsOf(list, now) {
			w.recordEnd(end)
		}
		w.dropFollowed(list)
		for _, m := range w.startsOf(list) {
			w.recordStart(m, now)
		}
		w.replaceEnded(list, now)
		w.expire(now)
		w.adjustWanted(f.leastOf(key, list), list, now)
		w.share(list, now)
		exists := false
		for _, m := range list {
			if m.RanAs = ""; m.running() {
				m.RanAs = m.ID
			}
			exists = exists || m.present
		}
		switch {
		case exists:
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
func (f *Fleet) leastOf(key string, list []instance) (least int) {
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

// count adds what the counters of the instances have counted since the last time.
func (w *workload) count(list []instance) {
	for _, m := range list {
		is, was := m.counts(), m.Counted
		w.Restarts += is.Restarts - min(is.Restarts, was.Restarts)
		w.Recreations += is.Recreations - min(is.Recreations, was.Recreations)
		w.OOMs += is.OOMs - min(is.OOMs, was.OOMs)
		m.Counted = is
	}
}

// running reports whether the instance serves.
func (c *Member) running() bool { return c.present && c.Status.State == container.StateRunning }

// endsOf returns the ends of runs that were running at the last time. One that another container of the same name goes on with, or the
// same container under another name, is none.
func (w *workload) endsOf(list []instance, now time.Time) (ends []runEnd) {
	for _, m := range list {
		goesOn := func(o instance) bool { return o.running() && o.ID == m.RanAs }
		if m.RanAs == "" || m.running() || slices.ContainsFunc(list, goesOn) {
			continue
		}
		end := runEnd{
			ID:         m.RanAs,
			Name:       m.name,
			Seen:       now,
			exit:       m.LastExit,
			Image:      m.Image,
			ConfigHash: m.ConfigHash,
			AutoRemove: m.AutoRemove,
		}
		// Podman may tell of a stop before the container has ended, and so before its exit code is known.
		stopping := m.LastExit.At.IsZero() && !m.AskedAt.IsZero()
		end.Asked = end.Asked || stopping || m.removedByHand()
		ends = append(ends, end)
	}
	return ends
}

// removedByHand reports whether somebody has removed the container, which so asks for its end. Podman may not tell of a stop.
func (c *Member) removedByHand() bool { return c.Removed && !c.AutoRemove }

// learnRequests learns that somebody had asked for the end of runs whose end was recorded without.
func (w *workload) learnRequests(list []instance) {
	for _, m := range list {
		for i := range w.Ends {
			e := &w.Ends[i]
			e.Asked = e.Asked || e.ID == m.ID && (m.LastExit.Asked || m.removedByHand())
		}
	}
}

// dropFollowed drops the ends of earlier runs of instances that go on running.
func (w *workload) dropFollowed(list []instance) {
	for _, m := range list {
		if m.running() && m.RanAs != "" {
			w.Ends = slices.DeleteFunc(w.Ends, func(e runEnd) bool { return e.Name == m.name })
		}
	}
}

// startsOf returns the instances that have begun to run since the last time.
func (w *workload) startsOf(list []instance) []instance {
	return slices.DeleteFunc(slices.Clone(list), func(m instance) bool {
		ran := func(o instance) bool { return o.RanAs == m.ID }
		return !m.running() || m.RanAs != "" || slices.ContainsFunc(list, ran)
	})
}

// recordEnd records the end of a run.
func (w *workload) recordEnd(e runEnd) {
	w.Starts = slices.DeleteFunc(w.Starts, func(s runStart) bool { return s.Name == e.Name })
	w.Ends = append(w.Ends, e)
}

// replaceEnded counts deploys that have started the successor first. A container that still exists may be about to start again instead.
func (w *workload) replaceEnded(list []instance, now time.Time) {
	w.Ends = slices.DeleteFunc(w.Ends, func(e runEnd) bool {
		startsAgain := func(m instance) bool { return m.ID == e.ID && m.present && now.Sub(e.Seen) < maxRestartGap }
		if e.byItself() || len(w.Starts) == 0 || slices.ContainsFunc(list, startsAgain) {
			return false
		}
		w.Starts = w.Starts[1:]
		w.Recreations++
		return true
	})
}

// recordStart records that an instance runs: again, or in place of another one.
func (w *workload) recordStart(m instance, now time.Time) {
	own := func(e runEnd) bool { return e.Name == m.name }
	i := slices.IndexFunc(w.Ends, own)
	if i < 0 {
		i = len(w.Ends) - 1
	}
	if i < 0 {
		if w.Wanted > 0 { // else it has not just started, but was just seen for the first time
			w.Starts = append(w.Starts, runStart{m.ID, m.name, now})
		}
		return
	}
	e := w.Ends[i]
	w.Ends = slices.Delete(w.Ends, i, i+1)
	w.Followed = w.Followed || e.AutoRemove && followsSoon(e.At, m.Status.Created)
	switch {
	case own(e): // the counters of its name have counted it
	case e.restarts(m.Status.Created, &m.Labels):
		w.Restarts++
	default:
		w.Recreations++
	}
}

// expire drops ends and starts that nothing has followed. Then one instance less should run where somebody has ended one.
func (w *workload) expire(now time.Time) {
	w.Starts = slices.DeleteFunc(w.Starts, func(s runStart) bool { return now.Sub(s.Seen) > maxReplaceDelay })
	w.Ends = slices.DeleteFunc(w.Ends, func(e runEnd) bool {
		old := now.Sub(e.Seen) > maxReplaceDelay
		if old && e.Asked {
			w.Wanted = max(w.Wanted-1, 1)
		}
		return old
	})
}

// adjustWanted sets how many instances should run at first sight, and raises it to what has run together for maxReplaceDelay. Least is
// how many the configuration expects.
func (w *workload) adjustWanted(least int, list []instance, now time.Time) {
	should, lasting := 0, 0
	w.Runs, w.Due = 0, least > 0
	for _, m := range list {
		if m.running() {
			w.Runs++
			if !m.Status.Started.IsZero() && now.Add(m.clockAhead).Sub(m.Status.Started) >= maxReplaceDelay {
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

// share makes the workload judged as a whole once there are several instances, or one has followed another under another name.
func (w *workload) share(list []instance, now time.Time) {
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

// wants returns how many instances should run now. One that somebody has just ended may be about to be replaced, so it is not missed;
// but one instance always is.
func (w *workload) wants() int {
	if w.Runs == 0 && !w.Due {
		return 0
	}
	n := w.Wanted
	for _, e := range w.Ends {
		if e.Asked {
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
		w.Wanted, w.Ends = w.Runs, nil
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
