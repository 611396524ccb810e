package status

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
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
func (m *memory) reportService(j *judged, t *poll.Status) Service {
	problems, worst := j.problemsOf(health.TargetSubject(t.Target))
	s := Service{
		ServiceState: ServiceState{
			Name:            t.Target,
			Kind:            t.Kind,
			Container:       t.Container,
			ContainerOrigin: t.Origin(),
		},
		Row: rowOf(t.Kind),
		Shown: Shown{
			Since:       t.Since,
			Excuse:      j.verdicts[health.TargetSubject(t.Target)].Excuse,
			Maintenance: j.underMaintenance(health.TargetSubject(t.Target), t.Container, worst),
			Values:      []Value{},
			Charts:      []string{},
		},
		LastReading: LastReading{t.LastAttempt, t.LastSuccess, t.Duration.Seconds()},
		Waiting:     t.Waiting,
		Notes:       orEmpty(t.Notes),
	}
	least := OK
	switch {
	case !t.Known:
		s.State, s.Since, s.Text, least = waiting, time.Time{}, "not checked when it was due, so its state is unknown", Unknown
		if t.LastAttempt.IsZero() {
			s.Text, s.Duration = "not checked yet", 0
		}
	case t.Up:
		s.State, s.Text = up, "its last probe succeeded"
	default:
		s.State, s.Reason, s.Error, s.Text, s.Hint = down, t.Reason, t.Error, explainFailure(t), j.targetHint(t)
	}
	level := func(l Level) Level {
		if l = max(l, least); l == OK && s.State == down {
			return Pending // its own conditions will say what is wrong, or that it was only one reading
		}
		return l
	}
	s.Level = level(OK)
	if len(problems) > 0 && problems[0].Alert == health.AlertTargetDown { // the transition to down shows this level
		s.Level = level(problems[0].Level())
	}
	if s.State != up {
		m.transitions.tell(s.subject(), s.Level, s.Text)
	}
	m.chartState(&s, t, j)
	s.Level = level(worst)
	s.describe(problems, t.Impairments)
	m.transitions.tell(s.subject(), s.Level, s.Text)
	if retry := s.Retry(); retry != "" && !strings.Contains(s.Text, retry) {
		s.Text += "; " + retry
	}
	m.addDetails(&s, j, t)
	return s
}

// Retry says when and why so late a target that waits on purpose is probed again; "" for any other target.
func (s *Service) Retry() string { return retryText(s.Waiting, s.LastAttempt) }

// retryText is the text of Retry for a target that was last probed at that time.
func retryText(w poll.Waiting, last time.Time) string {
	because := "since the server may allow few connections from this address"
	switch {
	case w.RetryAt.IsZero():
		return ""
	case w.RetryReason == failure.Unauthorized:
		because = "since the server refused the password or token"
	case w.RetryReason == failure.Throttled:
		because = "since the server limits this address"
	}
	return "next try at " + clockUntil(last, w.RetryAt) + ", " + because
}

// chartState adds to the charts of the service's state.
func (m *memory) chartState(s *Service, t *poll.Status, j *judged) {
	failures := uint64(0)
	for _, n := range t.Failures {
		failures += n
	}
	known := m.services[s.Name]
	if known == nil {
		known = &pastService{failures: failures}
		m.services[s.Name] = known
	}
	known.seen = j.now
	if s.State != waiting {
		ok := 0.0
		// A failure between two reports shows too.
		if s.State == up && failures == known.failures {
			ok = 1
		}
		m.chart(j, s.subject(), &s.Shown, History{Name: "up", Keeps: least}, ok)
		m.chart(j, s.subject(), &s.Shown, History{Name: "duration", Title: "probe duration", Unit: "seconds"}, s.Duration)
	}
	known.failures = failures
}

// addDetails adds a service's values and charts.
func (m *memory) addDetails(s *Service, j *judged, t *poll.Status) {
	for _, f := range t.Figures {
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) { // JSON cannot represent it
			continue
		}
		s.addValue(f.Name, f.Value, f.Unit)
		if f.Chart {
			m.chart(j, s.subject(), &s.Shown, History{Name: f.Name, Unit: f.Unit}, f.Value)
		}
	}
	if t.Engine != nil && s.State == up {
		runs := count(t.Engine.Containers, func(c *health.Container) bool { return c.State == health.Running })
		s.addValue("containers running", float64(runs), "")
	}
	for _, v := range j.values[s.subject()] {
		gauge, number := alerts.GaugeOf(v.Alert), v.Number
		if gauge.Past != "" {
			number = math.Trunc(number)
		}
		if gauge.Figure != "" {
			s.addValue(gauge.Figure, number, gauge.Unit)
		}
		if gauge.Past != "" && number < 0 {
			left := &s.Values[len(s.Values)-1]
			left.Name, left.Text = gauge.Past, wording.Amount(-number, gauge.Unit)+" ago"
		}
		if gauge.Chart != "" {
			h := History{Name: gauge.Chart, Title: gauge.Figure, Unit: gauge.Unit}
			h.Limits = j.limits(v.Alert)
			m.chart(j, s.subject(), &s.Shown, h, v.Number)
		}
	}
}

// describe joins all problems into the text, with the hint of the first. A partly working service gets the level warning although it
// has no alert.
func (s *Service) describe(problems []*Problem, impairments []string) {
	if s.State == up && len(impairments) > 0 {
		if s.Excuse.Reason != health.ReasonMaintenance {
			s.Level = max(s.Level, Warning)
		}
		partly := Problem{Text: "partly working: " + strings.Join(impairments, "; "), Hint: "Its notes say why."}
		problems = append(slices.Clip(problems), &partly)
	}
	for i, p := range problems {
		switch {
		case i == 0 && s.State != waiting:
			s.tell(p)
		case alerts.GaugeOf(p.Alert).Past != "" && strings.Contains(s.Text, "certificate has expired"):
		case alerts.InOutage(p.Alert) && s.State == down:
		default:
			s.Text += "; " + p.Text
		}
	}
}
