package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// WorkloadReport are the numbers of a workload.
type WorkloadReport struct {
	Key string
	Counts
	Instances, Wanted int
}

// Workloads returns a report of every workload, sorted by key.
func (f *Fleet) Workloads() []WorkloadReport {
	reports := make([]WorkloadReport, 0, len(f.workloads))
	for _, key := range slices.Sorted(maps.Keys(f.workloads)) {
		w := f.workloads[key]
		reports = append(reports, WorkloadReport{
			Key:       key,
			Counts:    f.shownCounts(workloadCounts+key, w.Counts),
			Instances: w.Runs,
			Wanted:    w.wants(),
		})
	}
	return reports
}

// describeWorkload adds what matters of a member's workload to its report.
func (f *Fleet) describeWorkload(r *Report, c *Member) {
	r.Workload, r.Instances, r.Wanted = c.workloadOf(r.Name), 0, 1
	if c.running() {
		r.Instances = 1
	}
	if c.SetAside { // no instance any more
		r.Workload = r.Name
	}
	r.Named, r.Removed = f.named(r.Name, c), c.Removed
	r.EndedByItself = c.LastExit.byItself()
	r.OneShot = c.OneShot && !r.Named
	r.Elsewhere = c.Swarm
	r.alone = c.SetAside || f.workloads[r.Workload] == nil || !f.workloads[r.Workload].Shared
	r.dead = c.Expected && !c.running()
}

// Judged returns what is to be judged: every container that is alone in its workload, and every other workload as a whole. Of those in
// disappeared, which existed until a moment ago, only the counts are known.
func (f *Fleet) Judged(reports []Report, now time.Time) (there, disappeared []health.Container) {
	add := func(c *health.Container, known bool) {
		if known {
			there = append(there, *c)
		} else {
			disappeared = append(disappeared, *c)
		}
	}
	of := map[string][]*Report{}
	for i := range reports {
		r := &reports[i]
		if r.alone {
			add(&r.Container, r.Status != nil)
		} else {
			of[r.Workload] = append(of[r.Workload], r)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.workloads)) {
		if w := f.workloads[key]; w.Shared {
			c := f.judgedWorkload(key, w, of[key], now)
			add(&c, w.Gone.IsZero() || c.Expected && now.Sub(w.Gone) >= f.rules.MissingAfter)
		}
	}
	return there, disappeared
}

// judgedWorkload returns a workload as a whole. What only one instance can have is that of the instance that stands for it.
func (f *Fleet) judgedWorkload(key string, w *workload, list []*Report, now time.Time) health.Container {
	c := health.Container{
		Host:   f.rules.Label,
		Name:   key,
		State:  stateMissing,
		Health: container.NoHealthcheck,
	}
	if lead := standIn(list); lead != nil {
		c = lead.Container
	}
	c.Workload, c.Shared, c.Was = key, true, w.Was
	c.Instances, c.Wanted = w.Runs, w.wants()
	counts := f.shownCounts(workloadCounts+key, w.Counts)
	c.Restarts, c.Kills = counts.Restarts, counts.OOMs
	c.Named = c.Named || slices.Contains(f.rules.ExpectedServices, key)
	c.HostNames, c.DependsOn = nil, nil
	for _, r := range list {
		c.Members = append(c.Members, r.Name)
		c.HostNames, c.DependsOn = append(c.HostNames, r.HostNames...), append(c.DependsOn, r.DependsOn...)
		c.Role, c.Named = cmp.Or(c.Role, r.Role), c.Named || r.Named
		if r.Health == container.Unhealthy {
			c.Health, c.UnhealthyFor = r.Health, max(c.UnhealthyFor, r.UnhealthyFor)
		}
		if r.Memory > c.Memory {
			c.Usage = r.Usage
		}
	}
	slices.Sort(c.DependsOn)
	c.DependsOn = slices.Compact(c.DependsOn)
	switch {
	case c.Instances > 0:
		c.State = health.Running
		c.DownFor = w.downFor(list)
	case !w.Gone.IsZero():
		c.State, c.DownFor = stateMissing, now.Sub(w.Gone)
	}
	c.Expected = c.Wanted > 0
	return c
}

// standIn returns the instance that stands for a workload: one that runs, else one that should, the last one that ended first.
func standIn(list []*Report) *Report {
	rank := func(r *Report) int {
		switch {
		case r.State == health.Running:
			return 2
		case r.dead:
			return 1
		}
		return 0
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *Report) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.DownFor, a.DownFor))
	})
}

// downFor returns how long ago the last instance ended that is missed.
func (w *workload) downFor(list []*Report) (least time.Duration) {
	if w.Runs >= w.wants() {
		return 0
	}
	for _, r := range list {
		if r.dead && r.DownFor > 0 && (least == 0 || r.DownFor < least) {
			least = r.DownFor
		}
	}
	return least
}
