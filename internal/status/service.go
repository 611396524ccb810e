package status

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// The states of a service.
const (
	up      = "up"
	down    = "down"
	waiting = "waiting"
)

// reportService reports one target.
func (m *memory) reportService(in *Input, t *poll.Status, all *fleet, j *judged, now time.Time) Service {
	subject := health.TargetSubject(t.Target)
	problems, worst := j.worstOf(subject)
	s := Service{
		ServiceState: ServiceState{
			Name:            t.Target,
			Kind:            t.Kind,
			Container:       t.Container,
			ContainerOrigin: t.Origin(),
		},
		Row:         rowOf(t.Kind),
		Since:       t.Since,
		LastReading: LastReading{t.LastAttempt, t.LastSuccess, t.Duration.Seconds()},
		Waiting:     Waiting{t.RetryAt, string(t.RetryReason)},
		Hold: Hold{
			Excuse:      j.Verdicts[subject].Excuse,
			Maintenance: underMaintenance(in.Maintenance, config.MaintenanceTarget, t.Target, t.Container, worst),
		},
		Notes:  orEmpty(t.Notes),
		Values: []Value{},
		Charts: []string{},
	}
	switch {
	case !t.Known && t.LastAttempt.IsZero():
		s.State, s.Level, s.Text = waiting, Unknown, "not checked yet"
		s.Since, s.Duration = time.Time{}, 0
	case !t.Known:
		s.State, s.Level, s.Text = waiting, Unknown, "not checked when it was due, so its state is unknown"
		s.Since = time.Time{}
	case t.Up:
		s.State, s.Text = up, "its last probe succeeded"
	default:
		s.State, s.Reason, s.Error = down, string(t.Reason), t.Error
		s.Text, s.Hint = explainFailure(t), targetHint(t, all)
	}
	least, ofState := s.Level, OK
	for _, p := range problems {
		if p.Alert == health.AlertTargetDown { // the transition to down shows this level
			ofState = levelOf(&p.Problem)
		}
	}
	with := func(l Level) Level {
		if l = max(l, least); l == OK && s.State == down {
			return Pending // its own conditions will say what is wrong, or that it was only one reading
		}
		return l
	}
	s.Level = with(ofState)
	m.recordState(&s, t, now)
	s.Level = with(worst)
	s.describe(problems, t.Impairments)
	if retry := s.Retry(); retry != "" && !strings.Contains(s.Text, retry) {
		s.Text += "; " + retry
	}
	m.addDetails(&s, in, t, all, j, now)
	m.recordImpairment(&s, now)
	return s
}

// Retry says when and why so late a target that waits on purpose is probed again; "" for any other target.
func (s *Service) Retry() string { return retryText(s.RetryAt, s.LastAttempt, s.RetryReason) }

// retryText is the text of Retry for a target that was last probed at that time.
func retryText(at, last time.Time, reason string) string {
	because := "since the server may allow few connections from this address"
	switch failure.Reason(reason) {
	case failure.Unauthorized:
		because = "since the server refused the password or token"
	case failure.Throttled:
		because = "since the server limits this address"
	default:
	}
	if at.IsZero() {
		return ""
	}
	return "next try at " + clockUntil(last, at) + ", " + because
}

// recordState records a transition if the service's state has changed.
func (m *memory) recordState(s *Service, t *poll.Status, now time.Time) {
	failures := uint64(0)
	for _, n := range t.Failures {
		failures += n
	}
	known := m.services[s.Name]
	if known == nil {
		known = &pastService{state: waiting, failures: failures}
		m.services[s.Name] = known
	}
	if s.State != known.state {
		// A service that comes up after the exporter's start has not changed.
		if s.State == down || !known.since.IsZero() {
			at := now
			if !s.Since.IsZero() {
				at = s.Since
			}
			m.transitions.add(Transition{
				Time:  at,
				Kind:  health.KindTarget,
				Name:  s.Name,
				From:  known.state,
				To:    s.State,
				Level: s.Level,
				Text:  s.Text,
			})
		}
		known.state, known.since = s.State, now
	}
	prefix := "service/" + s.Name + "/"
	if s.State != waiting {
		ok := 0.0
		// A failure between two reports shows too.
		if s.State == up && failures == known.failures {
			ok = 1
		}
		s.Charts = m.chart(s.Charts, charted{name: prefix + "up", title: s.Name + ": up", aggregation: least}, now, ok)
		s.Charts = m.chart(s.Charts,
			charted{name: prefix + "duration", title: s.Name + ": probe duration", unit: "seconds"}, now, s.Duration)
	}
	known.failures = failures
}

// recordImpairment records a transition when a service that is up gets or loses a problem: a lost bridge is a change although the
// server that reports it is up.
func (m *memory) recordImpairment(s *Service, now time.Time) {
	const wrong, right = "up, with a problem", "up, without a problem"
	known := m.services[s.Name]
	is := s.State == up && s.Level > Maintenance
	if is == known.impaired || s.State != up {
		known.impaired = is
		return
	}
	known.impaired = is
	t := Transition{
		Time:  now,
		Kind:  health.KindTarget,
		Name:  s.Name,
		From:  up,
		To:    wrong,
		Level: s.Level,
		Text:  s.Text,
	}
	if !is {
		t.From, t.To = wrong, right
	} else if !s.ProblemSince.IsZero() && !s.ProblemSinceAtLeast {
		t.Time = s.ProblemSince
	}
	m.transitions.add(t)
}

// addDetails adds a service's values and charts.
func (m *memory) addDetails(s *Service, in *Input, t *poll.Status, all *fleet, j *judged, now time.Time) {
	chart := func(name string, v float64, unit string, l limits) {
		s.Charts = m.chart(s.Charts, charted{
			name:   "service/" + s.Name + "/" + strings.ReplaceAll(name, "failed logins", "auth_failures"),
			title:  s.Name + ": " + name,
			unit:   unit,
			limits: l,
		}, now, v)
	}
	for _, f := range t.Figures {
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) { // JSON cannot represent it
			continue
		}
		s.Values = append(s.Values, newValue(f.Name, f.Value, f.Unit))
		if f.Chart {
			chart(f.Name, f.Value, f.Unit, limits{})
		}
	}
	if t.Engine != nil && s.State == up {
		runs := 0
		for p, c := range all.containers {
			if past := m.containers[p]; past != nil && past.target == t.Target && c.State == health.Running {
				runs++
			}
		}
		s.Values = append(s.Values, newValue("containers running", float64(runs), ""))
	}
	for _, v := range j.Values {
		switch {
		case v.Subject != health.TargetSubject(t.Target):
		case v.Alert == health.AlertAuthFailureRate:
			s.Values = append(s.Values, newValue("failed logins", v.Number, "per_minute"))
			chart("failed logins", v.Number, "per_minute", limitsOf(&in.Alerts, v.Alert))
		case v.Alert == health.AlertVolumeUsage:
			s.Values = append(s.Values, newValue("used", v.Number, "ratio"))
			chart("used", v.Number, "ratio", limitsOf(&in.Alerts, v.Alert))
		case v.Alert == health.AlertVolumeInodes:
			s.Values = append(s.Values, newValue("inodes used", v.Number, "ratio"))
		case v.Alert == health.AlertCertificateExpiry:
			left := newValue("certificate expires in", math.Trunc(v.Number), "seconds")
			if left.Value < 0 {
				left.Name, left.Text = "certificate expired", wording.Amount(-left.Value, "seconds")+" ago"
			}
			s.Values = append(s.Values, left)
		}
	}
}

// describe joins all problems into the text, the outage first, then the worst, with the hint of the first. A partly working
// service gets the level warning although it has no alert.
func (s *Service) describe(problems []*Problem, impairments []string) {
	if i := slices.IndexFunc(problems, func(p *Problem) bool { return p.Alert == health.AlertTargetDown }); i > 0 {
		problems = slices.Concat(problems[i:i+1], problems[:i], problems[i+1:])
	}
	list := make([]Problem, 0, len(problems)+1)
	for _, p := range problems {
		list = append(list, *p)
	}
	if s.State == up && len(impairments) > 0 {
		if s.Excuse.Reason != health.ReasonMaintenance {
			s.Level = max(s.Level, Warning)
		}
		list = append(list, Problem{Text: "partly working: " + strings.Join(impairments, "; "), Hint: "Its notes say why."})
	}
	for i, p := range list {
		switch {
		case i == 0 && s.State != waiting:
			s.Text, s.Hint, s.Onset = p.Text, p.Hint, Onset{p.Since, p.AtLeast}
		case p.Alert == health.AlertCertificateExpiry && strings.Contains(s.Text, "certificate has expired"):
		case p.Alert == health.AlertChainInvalid && s.State == down: // the outage's text says so
		default:
			s.Text += "; " + p.Text
		}
	}
}
