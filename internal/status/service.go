package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The states of a service.
const (
	up      = "up"
	down    = "down"
	waiting = "waiting"
)

// reportService reports one target.
func (m *memory) reportService(in *Input, t *observed, all *fleet, now time.Time) Service {
	s := Service{
		Name: t.Target, Kind: t.Kind, Container: t.Container, ContainerOrigin: t.Origin(), Since: t.Since,
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
	m.noteState(&s, t, now)
	m.addDetails(in, &s, t, all, now)
	if s.Maintenance != "" && s.Level > Maintenance {
		s.Level = Maintenance
	}
	m.noteImpairment(&s, now)
	return s
}

// noteState notes how the service is now beside how it was.
func (m *memory) noteState(s *Service, t *observed, now time.Time) {
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
		// Services that come up after the start are not a change.
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

// noteImpairment notes when something begins or ends to be wrong with a service that answers: a lost bridge is a change,
// although the server that reports it is up.
func (m *memory) noteImpairment(s *Service, now time.Time) {
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

// addDetails adds the numbers of a service, and what is wrong although it answers.
func (m *memory) addDetails(in *Input, s *Service, t *observed, all *fleet, now time.Time) {
	for i := range figures {
		f := &figures[i]
		if f.kind != t.Kind {
			continue
		}
		if v, ok := f.sum(t); ok {
			s.Values = append(s.Values, newValue(f.name, v, f.unit))
			if f.chart {
				s.Charts = m.chart(s.Charts, "service/"+s.Name+"/"+f.name, s.Name+": "+f.name, f.unit, last, now, v)
			}
		}
	}
	if t.Kind == "xmpp_metrics" {
		if v, ok := m.authFailures(t, now, in.Alerts.XMPPAuthFailureRate.Window.Std()); ok {
			s.Values = append(s.Values, newValue("failed logins", v, "per_minute"))
			s.Charts = m.chart(s.Charts, "service/"+s.Name+"/auth_failures", s.Name+": failed logins", "per_minute", most, now, v)
		}
	}
	if t.Kind == "docker" && s.State == up {
		runs := 0
		for p, f := range all.facts {
			if past := m.containers[p]; past != nil && past.target == t.Target && f.state == running {
				runs++
			}
		}
		s.Values = append(s.Values, newValue("containers running", float64(runs), ""))
	}
	if used, ok := volumeUsage(t); ok {
		s.Values = append(s.Values, newValue("used", used, "ratio"))
		s.Charts = m.chart(s.Charts, "service/"+s.Name+"/used", s.Name+": used", "ratio", most, now, used)
	}
	if end := certificateEndOf(t); !end.IsZero() {
		s.Values = append(s.Values, newValue("certificate ends in", end.Sub(now).Truncate(time.Second).Seconds(), "seconds"))
	}
	problems := m.findProblems(in, t, all, now)
	began := m.began(s, problems, now)
	for _, p := range problems {
		s.Level = max(s.Level, p.level)
	}
	s.describe(problems)
	begun := began(s.Level)
	s.ProblemSince, s.ProblemSinceAtLeast = begun.at, begun.atLeast
}

// describe puts everything that is wrong into the text, the worst first, and the hint of the first.
func (s *Service) describe(problems []problem) {
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b problem) int { return cmp.Compare(b.level, a.level) })
	for i, p := range problems {
		if i == 0 && s.State != down { // why it is down says more
			s.Text, s.Hint = p.text, p.hint
		} else if p.what != "certificate" || !strings.Contains(s.Text, "certificate has expired") {
			s.Text += "; " + p.text
		}
	}
}

// began returns when what is wrong with a service began: the oldest problem of its level, or that it is down, of which its
// text speaks then, however long its certificate has been too old.
func (m *memory) began(s *Service, problems []problem, now time.Time) func(Level) beginning {
	known := m.services[s.Name]
	began := known.begun.of(problems, now)
	return func(level Level) beginning {
		if s.State == down {
			return beginning{s.Since, known.atTheStart}
		}
		return first(problems, began, level)
	}
}
