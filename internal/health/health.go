// Package health judges what is wrong with the stack, since when, and because of what. It computes from typed facts, reads no
// page, no engine and no clock, so that the status page, the metrics and the alerts all follow one judgement.
package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Subject is what a problem is about: a target, a container, or the exporter's targets as a whole.
type Subject struct {
	// Kind is config.MaintenanceTarget, config.MaintenanceContainer, or that of ExporterSubject.
	Kind string `json:"kind"`
	// Host is the container's docker_host; "" for a target.
	Host string `json:"host,omitempty"`
	Name string `json:"name"`
}

// TargetSubject is the target of that name.
func TargetSubject(name string) Subject { return Subject{Kind: config.MaintenanceTarget, Name: name} }

// ContainerSubject is the container of that name on the engine.
func ContainerSubject(host, name string) Subject {
	return Subject{Kind: config.MaintenanceContainer, Host: host, Name: name}
}

// ExporterSubject is what one exporter watches as a whole.
var ExporterSubject = Subject{Kind: "exporter"}

// Facts are what one exporter knows at one moment.
type Facts struct {
	// Now has a monotonic clock reading: a step of the wall clock changes no duration.
	Now     time.Time
	Targets []Target
	Engines []Engine
	// Maintenance is what the operator has put under maintenance. Host is empty there: the name holds on every engine.
	Maintenance []Subject
}

// Target is what is known of a target.
type Target struct {
	Name, Kind string
	// HostName is that of its URL or address, "" if the exporter does not resolve one.
	HostName string
	// Container is the name of the container that serves the target and ContainerHost the docker_host of its engine, both "" if
	// unknown. inferred says that nobody configured them.
	Container, ContainerHost string
	inferred                 bool
	// Engine is the docker_host of the container engine that the target is, "" for other targets.
	Engine string
	// WarnOnly says that the target's own problems are warnings at most.
	WarnOnly bool
	// Read says that there is a recent reading; Up is its verdict, ReadAt when it ended.
	Read, Up bool
	ReadAt   time.Time
	// Failed is how many readings of its schedule have failed ever, Every the mean time between those that it had in the last hour;
	// 0 if there was none.
	Failed uint64
	Every  time.Duration
	// Overdue says that it was not read for long although it was due.
	Overdue bool
	// Conditions are what the last reading has an opinion on, whether they hold or not.
	Conditions []Condition
}

// Engine is what is known of a configured container engine. Read says that it could be read at last; Containers hold only then.
type Engine struct {
	Host       string
	Read       bool
	Containers []Container
}

// Container is what is known of a container.
type Container struct {
	// Host is the engine's docker_host.
	Host, Name string
	// HostNames are the names by which the exporter reaches it on the networks that both are on.
	HostNames []string
	// Role is what it is for, such as bridge; "" if unknown.
	Role string
	// Proxy says that its image is that of a proxy, so that another server is behind it.
	Proxy bool
	// State and Health are words of the engine, or State is Missing.
	State, Health string
	// Expected says that it should be running.
	Expected bool
	// WaitsFor is the container that must start or become healthy before this one is started, "" if none.
	WaitsFor string
	// DependsOn are the names of containers on the same engine that this one needs.
	DependsOn []string
	// Restarts is the number of restarts ever counted, and Kills how often the kernel killed a process for want of memory.
	Restarts, Kills uint64
	// Memory is what it uses in bytes, 0 if unknown.
	Memory float64
	// DownFor is how long ago it stopped, by the engine's account; UnhealthyFor how long its checks have been failing. Both are
	// 0 if unknown.
	DownFor, UnhealthyFor time.Duration
	// vanished says that it was there until lately: what it explains, it explains until it is made anew.
	vanished bool
}

// The states and healths that the judgement looks at.
const (
	Running    = "running"
	Paused     = "paused"
	Restarting = "restarting"
	Missing    = "missing"
	Unhealthy  = "unhealthy"
	Starting   = "starting"
)

func (c *Container) subject() Subject { return ContainerSubject(c.Host, c.Name) }

// down reports whether the container should be running and is not. One that waits for another one is about to.
func (c *Container) down() bool { return (c.Expected || c.WaitsFor != "") && c.State != Running }

// available reports whether the container can serve those that need it.
func (c *Container) available() bool {
	return !c.down() && (c.State != Running || c.Health != Starting)
}

// Severity is how bad a problem is.
type Severity int

// The severities. Pending is a problem that has not lasted long enough for an alert.
const (
	Pending Severity = iota
	Warning
	Critical
)

var severities = [...]string{"pending", "warning", "critical"}

// String is the severity as alerts have it.
func (s Severity) String() string { return severities[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities[:], string(text))
	if i < 0 {
		return fmt.Errorf("there is no severity %q", text)
	}
	*s = Severity(i)
	return nil
}

// The reasons of excuses.
const (
	ReasonMaintenance = "maintenance"
	ReasonDependency  = "dependency"
	ReasonContainer   = "container"
	ReasonStarting    = "starting"
)

// Excuse is why a problem is held back. The zero Excuse is none.
type Excuse struct {
	Reason string `json:"reason"`
	// Cause is the name of the container or target that is to blame, "" for maintenance of the subject itself.
	Cause string `json:"cause,omitempty"`
	// Root is the container or target at the end of the chain of causes, whose own alert tells of the problem.
	Root Subject `json:"root,omitzero"`
}

// Holds reports whether there is an excuse.
func (e Excuse) Holds() bool { return e.Reason != "" }

// The names of the alerts on availability.
const (
	AlertTargetDown         = "TargetDown"
	AlertMostTargetsDown    = "MostTargetsDown"
	AlertContainerDown      = "ContainerDown"
	AlertContainerMissing   = "ContainerMissing"
	AlertContainerUnhealthy = "ContainerUnhealthy"
	AlertContainerRestarts  = "ContainerRestarts"
	AlertContainerOOMKill   = "ContainerOOMKill"
)

// Problem is one thing that is wrong.
type Problem struct {
	Subject
	// Alert is the name of the alert that tells of it.
	Alert string `json:"alert"`
	// Of is the part of the target that the problem is about; "" for all of it.
	Of string `json:"of,omitempty"`
	// Since is when it began to be so bad; AtLeast says that it may have been so earlier.
	Since    time.Time     `json:"since"`
	AtLeast  bool          `json:"at_least,omitempty"`
	Lasted   time.Duration `json:"-"`
	Severity Severity      `json:"severity"`
	// Excuse holds the problem back while Severity is Pending.
	Excuse Excuse `json:"excuse,omitzero"`
	// Also is a container that the subject needs and that is down too, although it does not excuse the problem; "" if none.
	Also string `json:"also,omitempty"`
	// Consequences are the subjects whose problems this one excuses, of AlertMostTargetsDown the single problems.
	Consequences []Subject `json:"consequences,omitempty"`
	// Unknown says that the source could not be read, so that this is what was known last.
	Unknown bool `json:"unknown,omitempty"`
	// Eases is when a critical problem becomes a warning, and Ends when it ends, if nothing is added; zero if nobody knows.
	Eases time.Time `json:"-"`
	Ends  time.Time `json:"-"`
}

// Verdict is what the metrics say of one subject.
type Verdict struct {
	// TargetKind and WarnOnly are those of the target, if it is about one.
	TargetKind string
	WarnOnly   bool
	// Down, Missing, Removed and Unhealthy are how long, 0 while it is not so: one that somebody has removed is not missing. Known
	// says that Down is known.
	Down, Missing, Removed, Unhealthy time.Duration
	Known                             bool
	// RecentRestarts and RecentKills are those within the windows of their alerts, without the excused ones. A kill that ended the
	// container is no recent kill.
	RecentRestarts, RecentKills uint64
	Excuse                      Excuse
	// ExcusedFailures are failed readings that something else explains, or that TargetDown has told of.
	ExcusedFailures uint64
	// MemoryTold says that the alert on the container's memory fires, so that the excuse does not hold it back.
	MemoryTold bool
	// Unknown says that the source could not be read, so that this is what was known last.
	Unknown bool
}

// Judgement is what was wrong at one moment. It is immutable.
type Judgement struct {
	Time time.Time
	// Next is after how long the same facts give another judgement, since a problem passes a threshold; 0 if none will.
	Next time.Duration
	// Problems are sorted: the worst first, then the oldest.
	Problems []Problem
	Verdicts map[Subject]Verdict
	// Servers are the containers that serve targets, by target.
	Servers map[string]Server
	// Conditions has one entry for each condition that anybody has an opinion on, and for each severity that it can have.
	Conditions []ConditionVerdict
	// Values are what was measured, in no order.
	Values []Value
	// HeldBack are the alerts on measured values that maintenance holds back.
	HeldBack []HeldBack
}

// HeldBack is an alert on a measured value, or on what was before, that is held back.
type HeldBack struct {
	Alert string
	Subject
}

// The names of alerts that Prometheus alone judges, by what was before.
const (
	AlertSessionsGone = "XMPPSessionsGone"
	AlertUsersGone    = "IRCUsersGone"
)

// The names of the alerts on measured values.
const (
	AlertCertificateExpiry = "TLSCertificateExpiry"
	AlertVolumeUsage       = "DataVolumeUsage"
	AlertAuthFailureRate   = "XMPPAuthFailureRate"
	AlertContainerMemory   = "ContainerMemory"
	AlertVolumeInodes      = "DataVolumeInodes"
)
