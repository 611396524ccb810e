package status

import (
	"fmt"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// The states of a service.
const (
	up      = "up"
	down    = "down"
	waiting = "waiting"
)

// service tells of one target.
func (m *memory) service(in *Input, t *observed, all *fleet, now time.Time) Service {
	s := Service{
		Name: t.Target, Kind: t.Kind, Container: t.Container, Since: t.Since,
		LastReading: LastReading{t.LastAttempt, t.LastSuccess, t.Duration.Seconds()}, Notes: orEmpty(t.Notes), Values: []Value{}, Charts: []string{},
	}
	switch {
	case !t.Known && t.LastAttempt.IsZero():
		s.State, s.Level, s.Text = waiting, Unknown, "has not been read yet"
		s.Since, s.Duration = time.Time{}, 0
	case !t.Known:
		s.State, s.Level, s.Text = waiting, Unknown, "has not been read when it was due: nothing is known of it now"
		s.Since = time.Time{}
	case t.Up:
		s.State, s.Level, s.Text = up, OK, "answers as it should"
	default:
		s.State, s.Reason, s.Error = down, string(t.Reason), t.Error
		s.Text, s.Hint = explainFailure(t), hint(t, all)
		s.Level = after(now, t.Since, in.Alerts.TargetDown.Critical.For)
		if cause := all.cause(t.Container); cause != "" {
			s.Level, s.Text = Warning, cause+": "+s.Text // the container weighs what it weighs
		}
	}
	if s.Maintenance = excuse(in.Maintenance, config.MaintenanceTarget, t.Target, t.Container); s.Maintenance != "" && s.Level > Maintenance {
		s.Level = Maintenance // which is what a transition tells
	}
	m.follow(&s, t, now)
	m.details(in, &s, t, all, now)
	if s.Maintenance != "" && s.Level > Maintenance {
		s.Level = Maintenance
	}
	m.impaired(&s, now)
	return s
}

// follow notes how the service is now beside how it was.
func (m *memory) follow(s *Service, t *observed, now time.Time) {
	failures := uint64(0)
	for _, n := range t.Failures {
		failures += n
	}
	known := m.services[s.Name]
	if known == nil {
		known = &remembered{state: waiting, failures: failures}
		m.services[s.Name] = known
	}
	if s.State != known.state {
		// That everything comes up after the start is no news.
		if s.State == down || !known.since.IsZero() {
			at := now
			if !s.Since.IsZero() {
				at = s.Since
			}
			m.transitions.note(Transition{Time: at, Kind: "service", Name: s.Name, From: known.state, To: s.State, Level: s.Level, Text: s.Text})
		}
		known.atTheStart = known.since.IsZero()
		known.state, known.since = s.State, now
	}
	prefix := "service/" + s.Name + "/"
	if s.State != waiting {
		ok := 0.0
		// A failure between two looks shows too.
		if s.State == up && failures == known.failures {
			ok = 1
		}
		s.Charts = m.chart(s.Charts, prefix+"up", s.Name+": up", "", least, now, ok)
		s.Charts = m.chart(s.Charts, prefix+"duration", s.Name+": duration of a reading", "seconds", most, now, s.Duration)
	}
	known.failures = failures
}

// impaired notes when something begins or ends to be wrong with a service that answers: a bridge that is lost is a change,
// although the server that tells of it is up.
func (m *memory) impaired(s *Service, now time.Time) {
	const wrong, right = "up, something wrong", "all right"
	known := m.services[s.Name]
	is := s.State == up && s.Level > Maintenance
	if is == known.impaired || s.State != up {
		known.impaired = is
		return
	}
	known.impaired = is
	t := Transition{Time: now, Kind: "service", Name: s.Name, From: up, To: wrong, Level: s.Level, Text: s.Text}
	if !is {
		t.From, t.To = wrong, right
	} else if !s.ProblemSince.IsZero() && !s.ProblemSinceAtLeast {
		t.Time = s.ProblemSince
	}
	m.transitions.note(t)
}

// excuse says until when and why a target or container is under maintenance, "" where it is not. A target is as well
// while the container that serves it is.
func excuse(entries []maintenance.Entry, kind, name, container string) string {
	text := ""
	for _, e := range entries {
		switch {
		case !e.Active:
		case e.Kind == kind && e.Name == name:
			return "Under maintenance until " + clock(e.Until) + because(e)
		case e.Kind == config.MaintenanceContainer && e.Name == container && container != "":
			text = fmt.Sprintf("Its container %s is under maintenance until %s%s", e.Name, clock(e.Until), because(e))
		}
	}
	return text
}

func because(e maintenance.Entry) string {
	if e.Reason == "" {
		return ""
	}
	return ": " + e.Reason
}
