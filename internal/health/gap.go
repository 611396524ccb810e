package health

import (
	"slices"
	"strings"
)

// AlertMonitoringGap is the name of the alert on something that the exporter cannot watch as configured.
const AlertMonitoringGap = "MonitoringGap"

// judgeGaps finds what the exporter should watch but cannot. Unless all engines could be read, gaps about containers stay as they were.
func (s *scene) judgeGaps() (found findings) {
	unknown := s.unknownXMPPServer()
	role := "no container has the role " + strings.Join(s.judge.rule(AlertMonitoringGap).Roles, " or ")
	for _, t := range s.targets {
		gap := func(of string, holds, known bool) {
			key := t.key(AlertMonitoringGap, of, Warning)
			if known && holds || !known && s.judge.problems[key] != nil {
				found.conclude(s, t, &check{
					key:     key,
					holds:   true,
					unknown: !known,
					since:   s.now,
				})
			}
		}
		gap("its probes are overdue", t.Overdue, true)
		gap("no engine has its "+t.server.configured(), t.server.Unseen, s.allRead)
		gap(role, t == unknown, s.allRead)
	}
	return found
}

// unknownXMPPServer returns the first target whose container must be the XMPP server but has no role. The alert on the server's memory
// needs that role. It returns nil if some container has the role, or if no known container serves such a target.
func (s *scene) unknownXMPPServer() *target {
	roles := s.judge.rule(AlertMonitoringGap).Roles
	hasRole := func(c *Container) bool { return slices.Contains(roles, c.Role) }
	if len(roles) == 0 || slices.ContainsFunc(s.containers, hasRole) {
		return nil
	}
	for _, t := range s.targets {
		if t.ShowsServer && (!t.server.Inferred || t.Direct) && // else the container with its address may be a proxy
			slices.ContainsFunc(s.names.candidates(&t.Target), func(c *Container) bool { return c.Role == "" && !c.Proxy && c.exists() }) {
			return t
		}
	}
	return nil
}
