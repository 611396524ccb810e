package health

import (
	"slices"
	"strings"
)

// AlertMonitoringGap tells of something that cannot be watched as it is configured.
const AlertMonitoringGap = "MonitoringGap"

// judgeGaps finds what the exporter does not watch although it should. allRead says that all engines could be read: else nobody
// knows what containers there are, and what was missing stays so.
func (r *round) judgeGaps(allRead bool) {
	unknown := r.unknownXMPPServer()
	role := "no container has the role " + strings.Join(r.judge.alerts.MonitoringGap.Roles, " or ")
	for i := range r.targets {
		t := &r.targets[i]
		gap := func(of string, holds, known bool) {
			key := problemKey{TargetSubject(t.Name), AlertMonitoringGap, of, Warning}
			if known && holds || !known && r.judge.problems[key] != nil {
				r.judgeCondition(t, &seenCondition{Condition: Condition{Alert: AlertMonitoringGap, Of: of, Holds: true}, at: r.now, saved: !known}, Warning)
			}
		}
		gap("its checks are overdue", t.Overdue, true)
		gap("no engine has its container "+t.Container, r.found[t.Name].Unseen, allRead)
		gap(role, t.Name == unknown, allRead)
	}
}

// unknownXMPPServer is the first target that a container serves which must be the XMPP server, while nobody says so: the alert on
// that one's memory goes by roles. It is "" where a container has the role, or where the server may be no container of these engines.
func (r *round) unknownXMPPServer() string {
	roles := r.judge.alerts.MonitoringGap.Roles
	for _, c := range r.containers {
		if slices.Contains(roles, c.Role) {
			return ""
		}
	}
	i := slices.IndexFunc(r.targets, func(t Target) bool {
		switch t.Kind {
		case "xmpp_status", "xmpp_metrics", "xmpp_rest":
			if t.inferred { // what has its address may stand before it
				return false
			}
		case "xmpp_c2s":
		default:
			return false
		}
		return len(roles) > 0 && slices.ContainsFunc(r.servers.of(&t), func(c *Container) bool { return c.Role == "" && !c.Proxy && c.exists() })
	})
	if i < 0 {
		return ""
	}
	return r.targets[i].Name
}
