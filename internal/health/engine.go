package health

import "time"

// home is where the container of a target was last seen. HostName and Configured are the settings that it was found with.
type home struct {
	HostName   string `json:"host_name,omitempty"`
	Configured string `json:"configured,omitempty"`
	Container  string `json:"container"`
	Host       string `json:"docker_host"`
}

// findHome finds the engine of a target's container. While that engine cannot be read, it returns the container's last known engine.
func (j *Judge) findHome(t *Target, s Server, engines []Engine) Server {
	known := &j.target(t.Name).home
	same := known.HostName == t.HostName && known.Configured == t.Container
	unread := 0
	for _, e := range engines {
		if e.Read {
			continue
		}
		if unread++; s.Host == "" && same && known.Host == e.Host {
			return Server{Container: known.Container, Host: known.Host, Inferred: t.Container == ""}
		}
	}
	switch {
	case s.Host != "":
		seen := home{
			t.HostName,
			t.Container,
			s.Container,
			s.Host,
		}
		j.changed = j.changed || seen != *known
		*known = seen
	case t.Container != "" && len(engines) == 1 && unread == 1: // it has to be on this engine
		s.Host = engines[0].Host
	}
	return s
}

// trackEngine records since when an engine has been unreadable. One that only limits this address explains nothing.
func (j *Judge) trackEngine(target Subject, v *Verdict, now time.Time) {
	known, outage := j.unavailable[target], j.problems[problemKey{Subject: target, Alert: AlertTargetDown}]
	lasting, down := known != nil && known.Ended.IsZero(), v.Down > 0 && !outage.Throttled
	switch {
	case down && !lasting:
		known = &span{Began: outage.realSince()}
		j.unavailable[target], j.changed = known, true
	case !down && lasting:
		known.Ended = now // no need to set changed: the end of its problem, or its turn, does
	}
	if down {
		known.Down = now
	}
}

// ofEngine returns the engine of the target's container as a cause, if it cannot be read and explains the target's outage that began at
// since. It does not if the target was up long after the engine's outage began, or if only the target pages.
func (x *causes) ofEngine(t *Target, host string, since time.Time) (found cause, ok bool) {
	e := x.engines[host]
	if e == nil || e.Name == t.Name || e.WarnOnly && !t.WarnOnly {
		return
	}
	s, lookback := TargetSubject(e.Name), x.judge.rules.Lookback
	known := x.judge.unavailable[s]
	if known == nil || !known.lately(x.now, lookback) || x.judge.target(t.Name).lastUp.Sub(known.Began) > lookback {
		return
	}
	found = cause{Excuse{ReasonDependency, e.Name, s}, known.Began, !known.Ended.IsZero()}
	if x.underMaintenance(s) {
		found.Reason = ReasonMaintenance
	}
	return found, found.explains(since)
}
