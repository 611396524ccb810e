// Package status turns the poller's snapshots into reports for people: services, containers, thresholds, and their histories of
// the last day.
package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Report is everything that the status page shows. It is immutable: share it, do not change it.
type Report struct {
	Edition
	Verdict
	Notices
	// Problems are the judgement's, the worst first, then the oldest. Services and Containers repeat them.
	Problems []Problem `json:"problems"`
	// HeldBack are the alerts of problems that nobody is told of: see health.Judgement.
	HeldBack []health.HeldBack `json:"-"`
	// Causes group what has a problem: the worst first, then by what users lose.
	Causes []Cause `json:"causes"`

	Services   []Service   `json:"services"`   // worst first, then by what users lose, then by name
	Containers []Container `json:"containers"` // worst first, then by what users lose, then by engine and name
	// ContainersLeftOut is how many containers exceed the report's limit of 2,000.
	ContainersLeftOut int         `json:"containers_left_out,omitempty"`
	Thresholds        []Threshold `json:"thresholds"` // in the order of the table
	// Transitions are the last state changes of services and containers, newest first.
	Transitions []Transition `json:"transitions"`
	// TransitionsLeftOut is how many older ones were dropped.
	TransitionsLeftOut int `json:"transitions_left_out,omitempty"`
}

// Edition identifies a report.
type Edition struct {
	Schema Schema `json:"schema"`
	// Revision counts the reports of this process; Made is when this one was made.
	Revision uint64    `json:"revision"`
	Made     time.Time `json:"made"`
	// Time is when the report's snapshot was made.
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
}

// Verdict is the state of the whole stack.
type Verdict struct {
	// Level is the worst of all services and containers. Since is when the first problem of that level began or, if that is
	// unknown, when the level did.
	Level Level     `json:"level"`
	Since time.Time `json:"since"`
	// Headline says in a few words how the stack is; Summary adds in the same sentence how much is affected.
	Headline string `json:"headline"`
	Summary  string `json:"summary"`
	// SinceAtLeast says that the problem existed at the first probe, so it may have begun earlier.
	SinceAtLeast bool `json:"since_at_least,omitempty"`
}

// Shown is what people see of a target and of a container alike.
type Shown struct {
	Level Level `json:"level"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	Onset
	// Text says what is wrong, or else the state in plain words; Hint says what to do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
	// Excuse is why alerts are held back. Maintenance says until when and why; empty without maintenance.
	Excuse      health.Excuse `json:"excuse,omitzero"`
	Maintenance string        `json:"maintenance,omitempty"`
	// Values are the main numbers.
	Values []Value `json:"values"`
	// Charts are the names of the histories to draw, see History.
	Charts []string `json:"charts"`
}

// Onset is when the first problem in a text began.
type Onset struct {
	// ProblemSince is zero without a problem. ProblemSinceAtLeast says that it existed at the first probe, so it may have begun earlier.
	ProblemSince        time.Time `json:"problem_since,omitzero"`
	ProblemSinceAtLeast bool      `json:"problem_since_at_least,omitempty"`
}

// lastRank is the rank of what has none: only operators notice.
const lastRank = 1000

// compare puts the worst first, then what users miss most by the ranks. Of what is well, that would only disturb the order of names.
func (s *Shown) compare(rank int, o *Shown, otherRank int) int {
	if s.Level != o.Level || s.Level <= Unknown {
		return cmp.Compare(o.Level, s.Level)
	}
	return cmp.Compare(cmp.Or(rank, lastRank), cmp.Or(otherRank, lastRank))
}

// sameNews reports whether only ages and numbers have changed, which the text may have too.
func (s *Shown) sameNews(o *Shown) bool {
	return s.Level == o.Level && s.Excuse == o.Excuse && s.Maintenance == o.Maintenance
}

// stall drops what needs a poll loop to be true.
func (s *Shown) stall(state string) {
	s.Level, s.Text, s.Hint, s.Onset, s.Excuse, s.Values = Unknown, lastKnown+state, "", Onset{}, health.Excuse{}, []Value{}
}

// tell replaces the text by a problem.
func (s *Shown) tell(p *Problem) { s.Text, s.Hint, s.Onset = p.Text, p.Hint, Onset{p.Since, p.AtLeast} }

// addValue adds a number with its text.
func (s *Shown) addValue(name string, v float64, unit string) {
	s.Values = append(s.Values, Value{
		Name:  name,
		Value: v,
		Unit:  unit,
		Text:  wording.Amount(v, unit),
	})
}

// Service is one target.
type Service struct {
	ServiceState
	Shown
	// Row is that of its kind.
	Row config.Row `json:"-"`
	LastReading
	poll.Waiting
	Notes []string `json:"notes"`
}

// ServiceState is which target a service is, and how it is.
type ServiceState struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Container string `json:"container,omitempty"`
	// ContainerOrigin is the container's name and, unless it is configured, how the exporter found it.
	ContainerOrigin string `json:"container_origin,omitempty"`
	// State is up, down, or waiting: before the first probe, and while a probe is overdue.
	State string `json:"state"`
	// Reason and Error say why the last probe failed. The error has no secrets.
	Reason failure.Reason `json:"reason,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// LastReading is when a target was last probed.
type LastReading struct {
	// LastAttempt and LastSuccess are when the last probe and the last successful probe ended.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Duration of the last probe in seconds.
	Duration float64 `json:"duration_seconds"`
}

func (s *Service) subject() health.Subject { return health.TargetSubject(s.Name) }

// sameNews reports whether only ages and numbers have changed.
func (s Service) sameNews(o Service) bool {
	return s.ServiceState == o.ServiceState && s.Shown.sameNews(&o.Shown) && s.Text == o.Text && s.Hint == o.Hint &&
		slices.Equal(s.Notes, o.Notes)
}

// Container is one container of an engine.
type Container struct {
	ContainerState
	Shown
	// Instances are the names of the instances of a shared workload.
	Instances []string `json:"instances,omitempty"`
	// RoleRow is that of its role.
	RoleRow config.Role `json:"-"`
}

// ContainerState is which container or workload one is, and how it is.
type ContainerState struct {
	// Name is that of the workload if it is shared: if it has had several instances, or whose name has changed.
	Name       string `json:"name"`
	DockerHost string `json:"docker_host"`
	Role       string `json:"role,omitempty"`
	State      string `json:"state"`
	Health     string `json:"health"`
	Shared     bool   `json:"shared,omitempty"`
}

// Subject returns what the container is judged as.
func (c *Container) Subject() health.Subject {
	if c.Shared {
		return health.WorkloadSubject(c.DockerHost, c.Name)
	}
	return health.ContainerSubject(c.DockerHost, c.Name)
}

// sameNews reports whether only ages and numbers have changed.
func (c Container) sameNews(o Container) bool {
	return c.ContainerState == o.ContainerState && slices.Equal(c.Instances, o.Instances) && c.Shown.sameNews(&o.Shown)
}

// stateText returns the state, and a running container's health if it has a health check.
func (c *ContainerState) stateText() string {
	if c.State == health.Running && c.Health != noCheck {
		return c.State + ", " + c.Health
	}
	return c.State
}

// Value is a number with its name, for people.
type Value struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is seconds, bytes, ratio, per_minute, or empty for a plain number.
	Unit string `json:"unit,omitempty"`
	// Text is the number with its unit, rounded for people.
	Text string `json:"text"`
}

// Threshold is a row of the table of thresholds with its present value.
type Threshold struct {
	// Alert is the name of the threshold's alert.
	Alert string `json:"alert"`
	// Subject is what Present was measured of: the worst container, certificate or volume; empty if there is only one.
	Subject string `json:"subject,omitempty"`
	// Present is nil if nothing is measured; Text says why.
	Present  *float64 `json:"present"`
	Warning  *float64 `json:"warning"`
	Critical *float64 `json:"critical"`
	// Distance is from Present to the next worse threshold, in Unit. It is negative beyond the last threshold, and nil if Present
	// is.
	Distance *float64 `json:"distance"`
	Unit     string   `json:"unit,omitempty"`
	// Below says that values under the threshold are bad, as for the time until a certificate expires.
	Below bool  `json:"below"`
	Level Level `json:"level"`
	// Since is when the problem began; zero without a problem.
	Since time.Time `json:"since,omitzero"`
	// Pending says that there is a problem that has not lasted long enough for the alert.
	Pending bool `json:"pending,omitempty"`

	Text string `json:"text"`
}

// sameNews reports whether only ages and numbers have changed.
func (t Threshold) sameNews(o Threshold) bool {
	return t.Alert == o.Alert && t.Level == o.Level && t.Pending == o.Pending
}

// unmeasured drops what was measured.
func (t *Threshold) unmeasured(why string) {
	t.Present, t.Distance, t.Level, t.Since, t.Pending, t.Text = nil, nil, Unknown, time.Time{}, false, why
}

// Transition is a change of state, which may have repeated.
type Transition struct {
	// Time is when it happened first, Until when it happened last, Count how often.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until"`
	Count int       `json:"count"`
	// Kind is target, container or workload, Name its name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// DockerHost is the engine's name; empty for a service.
	DockerHost string `json:"docker_host,omitempty"`
	From       string `json:"from"`
	To         string `json:"to"`
	// Level is that of the new state, the last time; Text says why, in plain words.
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// The text of everything while polling has stalled.
const (
	stalled   = "polling has stalled"
	lastKnown = stalled + "; last known state: "
)

// sameNews reports whether only ages and numbers have changed, so that watchers need not receive it at once.
func (r *Report) sameNews(o *Report) bool {
	return r.Level == o.Level && r.Summary == o.Summary && r.Notices.sameNews(&o.Notices) &&
		slices.EqualFunc(r.Causes, o.Causes, Cause.sameNews) && slices.Equal(r.Transitions, o.Transitions) &&
		slices.EqualFunc(r.Services, o.Services, Service.sameNews) &&
		slices.EqualFunc(r.Containers, o.Containers, Container.sameNews) &&
		slices.EqualFunc(r.Thresholds, o.Thresholds, Threshold.sameNews)
}

// stall drops everything that needs a poll loop to be true.
func (r *Report) stall() {
	r.Problems = []Problem{}
	for i := range r.Services {
		s := &r.Services[i]
		s.stall(s.State)
		s.State = waiting
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.stall(c.stateText())
		c.State, c.Health = unknownState, noCheck
	}
	for i := range r.Thresholds {
		r.Thresholds[i].unmeasured(stalled)
	}
}
