// Package status turns the poller's snapshots into reports for people: services, containers, thresholds, and their histories of
// the last day.
package status

import (
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// Report is everything that the status page shows. It is immutable: share it, do not change it.
type Report struct {
	Edition
	Verdict
	// PageTitle is the name of what is watched.
	PageTitle string `json:"title"`
	// ConfigError says why the configuration file is not in use; empty if it is. Stale says why polling has stalled, so that
	// everything else is out of date.
	ConfigError string `json:"config_error,omitempty"`
	Stale       string `json:"stale,omitempty"`
	// Unsaved says since when the state file keeps nothing; nil while it does.
	Unsaved *Unsaved `json:"state_not_saved,omitempty"`

	// Problems are the judgement's, the worst first, then the oldest. Services and Containers repeat them.
	Problems []Problem `json:"problems"`
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

	Maintenance   []maintenance.Entry `json:"maintenance"`
	NotConfigured []string            `json:"not_configured"`
	// LeftToFirst are the names of the targets that only the first exporter of a pair polls.
	LeftToFirst []string `json:"left_to_first,omitempty"`
}

// Unsaved says that the state file keeps nothing since a time, and why.
type Unsaved struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
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
	// Level is the worst of all services, containers and thresholds. Since is when the first problem of that level began or, if that is
	// unknown, when the level did.
	Level Level     `json:"level"`
	Since time.Time `json:"since"`
	// Headline says in a few words how the stack is; Summary adds in the same sentence how much is affected.
	Headline string `json:"headline"`
	Summary  string `json:"summary"`
	// SinceAtLeast says that the problem existed at the first probe, so it may have begun earlier.
	SinceAtLeast bool `json:"since_at_least,omitempty"`
}

// Service is one target.
type Service struct {
	ServiceState
	// Row is that of its kind.
	Row   config.Row `json:"-"`
	Since time.Time  `json:"since,omitzero"`
	Onset
	LastReading
	Waiting
	Finding
	Hold
	Notes []string `json:"notes"`
	// Values are the service's main numbers.
	Values []Value `json:"values"`
	// Charts are the names of the histories to draw, see History.
	Charts []string `json:"charts"`
}

// ServiceState is which target a service is, and how it is.
type ServiceState struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Container string `json:"container,omitempty"`
	// ContainerOrigin is the container's name and, unless it is configured, how the exporter found it.
	ContainerOrigin string `json:"container_origin,omitempty"`
	Level           Level  `json:"level"`
	// State is up, down, or waiting: before the first probe, and while a probe is overdue.
	State string `json:"state"`
}

// sameNews reports whether only ages and numbers have changed.
func (s Service) sameNews(o Service) bool {
	return s.ServiceState == o.ServiceState && s.Finding == o.Finding && s.Hold == o.Hold && slices.Equal(s.Notes, o.Notes)
}

// stall drops what needs a new probe to be true.
func (s *Service) stall() {
	s.Text, s.Hint, s.Onset, s.Excuse, s.Values = lastKnown+s.State, "", Onset{}, health.Excuse{}, []Value{}
	s.Level, s.State = Unknown, waiting
}

// Onset is when the first problem in a text began.
type Onset struct {
	// ProblemSince is zero without a problem. ProblemSinceAtLeast says that it existed at the first probe, so it may have begun earlier.
	ProblemSince        time.Time `json:"problem_since,omitzero"`
	ProblemSinceAtLeast bool      `json:"problem_since_at_least,omitempty"`
}

// Hold is why alerts are held back.
type Hold struct {
	Excuse health.Excuse `json:"excuse,omitzero"`
	// Maintenance says until when and why; empty without maintenance.
	Maintenance string `json:"maintenance,omitempty"`
}

// LastReading is when a target was last probed.
type LastReading struct {
	// LastAttempt and LastSuccess are when the last probe and the last successful probe ended.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Duration of the last probe in seconds.
	Duration float64 `json:"duration_seconds"`
}

// Waiting is until when and why a target waits on purpose; zero for a target that is probed on its schedule.
type Waiting struct {
	// RetryAt is when it is probed again. RetryReason is unauthorized, throttled, or "" for a limit on connections to its address.
	RetryAt     time.Time `json:"retry_at,omitzero"`
	RetryReason string    `json:"retry_reason,omitempty"`
}

// Finding is the result of a target's last probe, for people.
type Finding struct {
	// Reason is one of failure.Reasons, Text the state in plain words, Error the error without secrets, Hint what to do.
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text"`
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Container is one container of an engine.
type Container struct {
	ContainerState
	// RoleRow is that of its role.
	RoleRow config.Role `json:"-"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	Onset
	// Text says what is wrong, or else the state in plain words; Hint says what to do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
	Hold
	Values []Value  `json:"values"`
	Charts []string `json:"charts"`
}

// ContainerState is which container one is, and how it is.
type ContainerState struct {
	Name       string `json:"name"`
	DockerHost string `json:"docker_host"`
	Role       string `json:"role,omitempty"`
	Level      Level  `json:"level"`
	State      string `json:"state"`
	Health     string `json:"health"`
}

// sameNews reports whether only ages and numbers have changed, which the text has too.
func (c Container) sameNews(o Container) bool {
	return c.ContainerState == o.ContainerState && c.Hold == o.Hold
}

// stall drops what needs a new answer of the engine to be true.
func (c *Container) stall() {
	c.Text, c.Hint, c.Onset, c.Excuse, c.Values = lastKnown+c.stateText(), "", Onset{}, health.Excuse{}, []Value{}
	c.Level, c.State, c.Health = Unknown, "unknown", "none"
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

// stall drops what was measured.
func (t *Threshold) stall() {
	*t = Threshold{
		Alert:    t.Alert,
		Subject:  t.Subject,
		Warning:  t.Warning,
		Critical: t.Critical,
		Unit:     t.Unit,
		Below:    t.Below,
		Level:    Unknown,
		Text:     stalled,
	}
}

// Transition is a change of state, which may have repeated.
type Transition struct {
	// Time is when it happened first, Until when it happened last, Count how often.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until"`
	Count int       `json:"count"`
	// Kind is target or container, Name its name.
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

// History is a number over the last day, in steps of equal length.
type History struct {
	Schema Schema `json:"schema"`

	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit,omitempty"`
	// Start is the time of the first step, Step their length in seconds.
	Start time.Time `json:"start"`
	Step  float64   `json:"step_seconds"`
	// Keeps is what Values has of each step: mean, or least for states.
	Keeps string `json:"keeps"`
	// Last is the newest number; nil if the last step is unknown.
	Last *float64 `json:"last"`
	// Values has one number per step; nil if unknown.
	Values []*float64 `json:"values"`
	// Min and Max have the lowest and the highest number of each step, if Keeps is mean.
	Min []*float64 `json:"min,omitempty"`
	Max []*float64 `json:"max,omitempty"`
	// Alert is the alert on this number, if any. It fires above Warning and Critical; nil if it has no such severity.
	Alert    string   `json:"alert,omitempty"`
	Warning  *float64 `json:"warning,omitempty"`
	Critical *float64 `json:"critical,omitempty"`
}

// The text of everything while polling has stalled.
const (
	stalled   = "polling has stalled"
	lastKnown = stalled + "; last known state: "
)

// differsFrom reports whether watchers must receive this report at once: more than ages and numbers has changed.
func (r *Report) differsFrom(before *Report) bool {
	sameCause := func(a, b Cause) bool { return a.Level == b.Level && slices.Equal(a.Members, b.Members) }
	return r.Level != before.Level || r.Summary != before.Summary || r.ConfigError != before.ConfigError || r.Stale != before.Stale ||
		(r.Unsaved == nil) != (before.Unsaved == nil) ||
		!slices.EqualFunc(r.Causes, before.Causes, sameCause) ||
		!slices.Equal(r.Maintenance, before.Maintenance) || !slices.Equal(r.NotConfigured, before.NotConfigured) ||
		!slices.Equal(r.LeftToFirst, before.LeftToFirst) || !slices.Equal(r.Transitions, before.Transitions) ||
		!slices.EqualFunc(r.Services, before.Services, Service.sameNews) ||
		!slices.EqualFunc(r.Containers, before.Containers, Container.sameNews) ||
		!slices.EqualFunc(r.Thresholds, before.Thresholds, Threshold.sameNews)
}

// stall drops everything that needs a poll loop to be true.
func (r *Report) stall() {
	r.Problems = []Problem{}
	for i := range r.Services {
		r.Services[i].stall()
	}
	for i := range r.Containers {
		r.Containers[i].stall()
	}
	for i := range r.Thresholds {
		r.Thresholds[i].stall()
	}
}

// stateText returns the state, and a running container's health if it has a health check.
func (c *Container) stateText() string {
	if c.State == health.Running && c.Health != "none" {
		return c.State + ", " + c.Health
	}
	return c.State
}
