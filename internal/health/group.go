package health

import (
	"slices"
	"time"
)

// sameOutage is how far apart the targets of a server may fail and still count as one outage: longer than a schedule and a timeout.
const sameOutage = 5 * time.Minute

// setCauses sets the cause of each problem. The list is sorted.
func (r *round) setCauses(list []Problem) {
	of := map[Subject]Subject{}
	for i := range list {
		p := &list[i]
		if p.Excuse.Root.Name != "" {
			of[p.Subject] = p.Excuse.Root
		}
		if p.Alert == AlertMostTargetsDown {
			for _, s := range p.Consequences {
				of[s] = p.Subject
			}
		}
	}
	r.joinServers(list, of)
	for i := range list {
		p := &list[i]
		p.Cause = p.Subject
		for range len(of) { // a cause may have a cause
			if next, ok := of[p.Cause]; ok {
				p.Cause = next
			}
		}
	}
}

// joinServers makes the first target of a server that is down the cause of its others that are down since about the same time, or the
// server's container, if that is unhealthy or was restarted.
func (r *round) joinServers(list []Problem, of map[Subject]Subject) {
	type outage struct {
		leader Subject
		since  time.Time
	}
	found := map[Subject][]outage{}
	for i := range list {
		if p := &list[i]; p.Alert == AlertContainerUnhealthy || p.Alert == AlertContainerRestarts {
			found[p.Subject] = append(found[p.Subject], outage{p.Subject, p.Since})
		}
	}
	down := map[Subject]*Problem{}
	for i := range list {
		if p := &list[i]; p.Alert == AlertTargetDown && !p.Excuse.Holds() {
			down[p.Subject] = p
		}
	}
	if len(down) == 0 {
		return
	}
	var failed []*Target
	for i := range r.targets {
		if t := &r.targets[i]; down[TargetSubject(t.Name)] != nil {
			failed = append(failed, t)
		}
	}
	slices.SortStableFunc(failed, func(a, b *Target) int {
		return down[TargetSubject(a.Name)].Since.Compare(down[TargetSubject(b.Name)].Since)
	})
	byRole := r.containersByRole()
	for _, t := range failed {
		p, server := down[TargetSubject(t.Name)], serverOf(t, byRole)
		k := slices.IndexFunc(found[server], func(o outage) bool { return o.since.Sub(p.Since).Abs() <= sameOutage })
		if k < 0 {
			found[server] = append(found[server], outage{p.Subject, p.Since})
		} else if server != (Subject{}) {
			of[p.Subject] = found[server][k].leader
		}
	}
}

// serverOf returns what serves a target: its container, else the only one that targets of its role have, else the role itself. It is
// the zero Subject for a target without a role. byRole are the containers of the roles.
func serverOf(t *Target, byRole map[string][]Subject) Subject {
	role := t.Role
	switch known := byRole[role]; {
	case t.Container != "":
		return ContainerSubject(t.ContainerHost, t.Container)
	case len(known) == 1:
		return known[0]
	case role != "":
		return Subject{Kind: "role", Name: role}
	}
	return Subject{}
}

// containersByRole returns the containers that serve targets, by role.
func (r *round) containersByRole() map[string][]Subject {
	found := map[string][]Subject{}
	for i := range r.targets {
		t := &r.targets[i]
		role, s := t.Role, ContainerSubject(t.ContainerHost, t.Container)
		if role != "" && t.Container != "" && !slices.Contains(found[role], s) {
			found[role] = append(found[role], s)
		}
	}
	return found
}
