package health

import (
	"slices"
	"strings"
)

// AlertMonitoringGap is the name of the alert on something that the exporter cannot watch as configured.
const AlertMonitoringGap = "MonitoringGap"

// judgeGaps adds a problem for everything that the exporter should watch but cannot. Unless allRead says that all engines could be read,
// gaps about containers stay as they were.
func (r *round) judgeGaps(allRead bool) {
	unknown := r.unknownXMPPServer()
	role := "no container has the role " + strings.Join(r.judge.rule(AlertMonitoringGap).Roles, " or ")
	for i := range r.targets {
		t := &r.targets[i]
		gap := func(of string, holds, known bool) {
			key := problemKey{
				TargetSubject(t.Name),
				AlertMonitoringGap,
				of,
				Warning,
			}
			if known && holds || !known && r.judge.problems[key] != nil {
				r.judgeCondition(t,
					&seenCondition{Condition: Condition{Alert: AlertMonitoringGap, Of: of, Holds: true}, at: r.now, saved: !known}, Warning)
			}
		}
		gap("its probes are overdue", t.Overdue, true)
		gap("no engine has its container "+t.Container, r.found[t.Name].Unseen, allRead)
		gap(role, t.Name == unknown, allRead)
	}
}

// unknownXMPPServer returns the first target whose container must be the XMPP server but has no role. The alert on the server's memory
// needs that role. It returns "" if some container has the role, or if no known container serves such a target.
func (r *round) unknownXMPPServer() string {
	roles := r.judge.rule(AlertMonitoringGap).Roles
	for _, c := range r.containers {
		if slices.Contains(roles, c.Role) {
			return ""
		}
	}
	i := slices.IndexFunc(r.targets, func(t Target) bool {
		if !t.ShowsServer || t.inferred && !t.Direct { // the container with its address may be a proxy
			return false
		}
		return len(roles) > 0 &&
			slices.ContainsFunc(r.servers.candidates(&t), func(c *Container) bool { return c.Role == "" && !c.Proxy && c.exists() })
	})
	if i < 0 {
		return ""
	}
	return r.targets[i].Name
}
