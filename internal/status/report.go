// Package status makes what people look at of what the poller knows: services, containers, thresholds, and how they were
// during the last day.
package status

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// Report is everything that people see at one moment. It is immutable: share it, do not change it.
type Report struct {
	Edition
	Verdict
	// ConfigError says why the configuration on the disk is not in force; empty where it is. Stale says that polling itself
	// stands still, so that nothing here is of now.
	ConfigError string `json:"config_error,omitempty"`
	Stale       string `json:"stale,omitempty"`

	// Problems are what is wrong, as the judgement has it: the worst first, then the oldest. Services and Containers tell of the same.
	Problems []Problem `json:"problems"`

	Services   []Service   `json:"services"`   // worst first, then by what users lose, then by name
	Containers []Container `json:"containers"` // worst first, then by what users lose, then by engine and name
	// ContainersLeftOut is how many more containers there are than a report tells of, which is 2,000.
	ContainersLeftOut int         `json:"containers_left_out,omitempty"`
	Thresholds        []Threshold `json:"thresholds"` // in the order of the operators' table
	// Transitions are the last changes of a service's or container's state, newest first.
	Transitions []Transition `json:"transitions"`
	// TransitionsLeftOut is how many older ones are not remembered any more.
	TransitionsLeftOut int `json:"transitions_left_out,omitempty"`

	Maintenance   []maintenance.Entry `json:"maintenance"`
	NotConfigured []string            `json:"not_configured"`
	// LeftToFirst are the names of the targets that only the first of several exporters polls.
	LeftToFirst []string `json:"left_to_first,omitempty"`
}

// Edition tells one report from another.
type Edition struct {
	// Revision counts the reports of this process; Made is when this one was made.
	Revision uint64    `json:"revision"`
	Made     time.Time `json:"made"`
	// Time is when the snapshot was made that the report tells of.
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
}

// Verdict says whether the stack is all right.
type Verdict struct {
	// Level is the worst of all services, containers and thresholds. Since is when what the summary says first began, and
	// where nothing tells that, when the level did.
	Level Level     `json:"level"`
	Since time.Time `json:"since"`
	// Summary is one sentence that answers whether the stack is all right.
	Summary string `json:"summary"`
	// SinceAtLeast says that it was so already when the exporter looked first.
	SinceAtLeast bool `json:"since_at_least,omitempty"`
}

// Service is one target.
type Service struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Container string `json:"container,omitempty"`
	// ContainerOrigin is the container's name, and how it was found unless it is configured.
	ContainerOrigin string `json:"container_origin,omitempty"`
	Level           Level  `json:"level"`
	// State is up, down, or waiting before the first reading and when no reading has come for long.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// ProblemSince is when what Text begins with began, and zero where nothing is wrong; ProblemSinceAtLeast says that it was so
	// already when the exporter looked first.
	ProblemSince        time.Time `json:"problem_since,omitzero"`
	ProblemSinceAtLeast bool      `json:"problem_since_at_least,omitempty"`
	LastReading
	Finding
	// Excuse is why alerts are held back.
	Excuse health.Excuse `json:"excuse,omitzero"`
	// Maintenance says until when and why nobody is told; empty where there is none.
	Maintenance string   `json:"maintenance,omitempty"`
	Notes       []string `json:"notes"`
	// Values are the few numbers that matter of the service.
	Values []Value `json:"values"`
	// Charts are the names of the histories to draw, see History.
	Charts []string `json:"charts"`
}

// LastReading is when a target was read last.
type LastReading struct {
	// LastAttempt and LastSuccess are the ends of those readings.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Duration of the last reading in seconds.
	Duration float64 `json:"duration_seconds"`
}

// Finding is what a target's last reading means for people.
type Finding struct {
	// Reason is one of the closed set, Text the failure in plain words, Error what was found, Hint what to do.
	Reason string `json:"reason,omitempty"`
	Text   string `json:"text"`
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Container is one container of an engine.
type Container struct {
	Name       string `json:"name"`
	DockerHost string `json:"docker_host"`
	Role       string `json:"role,omitempty"`
	Level      Level  `json:"level"`
	State      string `json:"state"`
	Health     string `json:"health"`
	// Since is when the container began to be in this state. ProblemSince is when what Text begins with began, and zero where
	// nothing is wrong; ProblemSinceAtLeast says that it was so already when the exporter looked first.
	Since               time.Time `json:"since,omitzero"`
	ProblemSince        time.Time `json:"problem_since,omitzero"`
	ProblemSinceAtLeast bool      `json:"problem_since_at_least,omitempty"`
	// Text says in plain words what is wrong, or what it does; Hint what to do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
	// Excuse is why alerts are held back.
	Excuse      health.Excuse `json:"excuse,omitzero"`
	Maintenance string        `json:"maintenance,omitempty"`
	Values      []Value       `json:"values"`
	Charts      []string      `json:"charts"`
}

// Value is a number with its name, as a person reads it.
type Value struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is seconds, bytes, ratio, per_minute, or empty for a plain number.
	Unit string `json:"unit,omitempty"`
	// Text is the number with its unit, rounded for people.
	Text string `json:"text"`
}

// Threshold is a row of the operators' table with what it is compared to now.
type Threshold struct {
	// Alert is the name of the alert that the threshold belongs to.
	Alert string `json:"alert"`
	// Subject is what the present value is of: the worst container, certificate or volume; empty where there is one only.
	Subject string `json:"subject,omitempty"`
	// Present is nil where nothing is measured, which Text explains.
	Present  *float64 `json:"present"`
	Warning  *float64 `json:"warning"`
	Critical *float64 `json:"critical"`
	// Distance is how far the present value is from the next threshold that is worse, in Unit; it is negative by how far
	// the last one is passed, and nil where Present is.
	Distance *float64 `json:"distance"`
	Unit     string   `json:"unit,omitempty"`
	// Below says that the threshold is passed from above, as with days that are left.
	Below bool  `json:"below"`
	Level Level `json:"level"`
	// Since is when what the alert tells of began; zero where no threshold is passed.
	Since time.Time `json:"since,omitzero"`
	// Pending says that what the alert is about goes on, but not for as long as the alert waits.
	Pending bool `json:"pending,omitempty"`

	Text string `json:"text"`
}

// Transition is a change of state, or one that came again and again.
type Transition struct {
	// Time is when it came first, Until when it came last, Count how often it came between them.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until"`
	Count int       `json:"count"`
	// Kind is service or container, Name its name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// DockerHost is the engine's name; empty for a service.
	DockerHost string `json:"docker_host,omitempty"`
	From       string `json:"from"`
	To         string `json:"to"`
	// Level is how bad the new state is, the last time; Text says why, in plain words.
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// History is how a number was during the last day, in steps of equal length.
type History struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit,omitempty"`
	// Start is the time of the first step, Step their length in seconds.
	Start time.Time `json:"start"`
	Step  float64   `json:"step_seconds"`
	// Keeps says which of the numbers of a step is kept: the last, the least or the most.
	Keeps string `json:"keeps"`
	// Last is the number that came last; nil where nothing is known of the last step.
	Last *float64 `json:"last"`
	// Values has one number a step; nil where nothing was known.
	Values []*float64 `json:"values"`
}

// stateText is the state with the health where that tells more.
func (c *Container) stateText() string {
	if c.State == health.Running && c.Health != "none" {
		return c.State + ", " + c.Health
	}
	return c.State
}
