// Package health judges which problems the stack has, since when, and from which cause. It is a pure computation on facts, so that
// the status page, the metrics and the alerts all show the same judgement.
//
// A judgement is made in passes, in the order of Judge. Each has the facts, what the judge remembers, and what its signature names; it
// returns what it finds, or completes what it was given.
//
//   - renameTargets moves what is remembered of targets to those that have another name now.
//   - readEngines remembers the containers of every engine that was read.
//   - joinWorkloads moves what is remembered of containers to the shared workloads that continue them.
//   - look makes the scene: containers, targets with the containers that serve them, maintenance. No later pass changes it. It remembers
//     since when containers have been unavailable, so that from here on the scene knows what explains a problem.
//   - judgeContainers counts restarts and kills, and begins problems of containers. Every problem is remembered when it begins, with what
//     explains it; how bad it is, and whether it is excused, comes later.
//   - judgeTargets begins outages of targets, those of engines first: it remembers since when they cannot be read, which explains outages
//     of others. An outage of a target or container that flaps goes on in between: see flap.
//   - judgeConditions begins the problems that readings have checked, which outages explain too, and returns the measured values.
//   - judgeSlow begins those of targets that work, but slowly.
//   - judgeGaps does so for what cannot be watched as configured.
//   - keepUnread returns the remembered problems of containers whose engine has not been read since the start of the process.
//   - decide sets severity and excuse of these problems and of their verdicts, first where nothing explains a problem: a cause excuses
//     others only while its own alert fires or is not due yet.
//   - judgeOftenUnhealthy needs the severity of spells that last.
//   - judgeMost needs those excuses: it counts what is down without one. What it finds is decided at once.
//   - excuseMaintained excuses the verdicts of everything else that is under maintenance, unless its alert fires.
//   - decideOnMemory needs the verdicts as they are then: a container's excuse holds back the alert on its use of memory, too.
//   - judgeUnstable needs the excuses of targets: a failed reading counts unless one covers it. What it finds is decided at once.
//   - forget drops the memory of problems that no pass has found, and of what is not there any more.
//   - sumUp sorts it all, and groups the problems by their causes.
//   - tell compares that with the round before: states of subjects and problems that have changed are the events of the round.
package health

import (
	"fmt"
	"slices"
	"time"
)

// Subject is what a problem is about: a target, a container, a workload, or the exporter's targets as a whole.
type Subject struct {
	// Kind is KindTarget, KindContainer, KindWorkload or KindExporter.
	Kind string `json:"kind"`
	// Host is the docker_host of a container or workload; "" for a target.
	Host string `json:"docker_host,omitempty"`
	Name string `json:"name"`
}

// The kinds of subjects.
const (
	KindTarget    = "target"
	KindContainer = "container"
	KindWorkload  = "workload"
	KindExporter  = "exporter"
)

// TargetSubject returns the subject for a target.
func TargetSubject(name string) Subject { return Subject{Kind: KindTarget, Name: name} }

// ContainerSubject returns the subject for a container on the engine with that docker_host.
func ContainerSubject(host, name string) Subject {
	return Subject{Kind: KindContainer, Host: host, Name: name}
}

// WorkloadSubject returns the subject for a workload on the engine with that docker_host. Its name may have a slash.
func WorkloadSubject(host, name string) Subject {
	return Subject{Kind: KindWorkload, Host: host, Name: name}
}

// ExporterSubject is the subject of problems that concern all targets of the exporter.
var ExporterSubject = Subject{Kind: KindExporter}

// OnEngine reports whether it is a container, or a workload of several.
func (s Subject) OnEngine() bool { return s.Kind == KindContainer || s.Kind == KindWorkload }

// Facts are what one exporter knows at one moment.
type Facts struct {
	// Now has a monotonic clock reading: a step of the wall clock changes no duration.
	Now     time.Time
	Targets []Target
	Engines []Engine
	// Maintenance lists the subjects under maintenance. Their Host is empty: a container's name applies on every engine.
	Maintenance []Subject
}

// Target is what is known of a target.
type Target struct {
	// Kind is only the label of that name: what matters about a kind has fields of its own.
	Name, Kind string
	// Role is the role of the container behind the target, "" if any container may be.
	Role string
	// Side is the side of a bridge, SideIRC or SideXMPP, whose clients do not get in while the target is down; else "".
	Side string
	// Relay says that it sends messages over a bridge, which has alerts of its own.
	Relay bool
	// ShowsServer says that its container is the XMPP server's, unless it is a proxy's. Direct says that no proxy can be at its address.
	ShowsServer, Direct bool
	// ValueAlerts are the alerts on its measured values and on their history. Without any, it is that on its certificate.
	ValueAlerts []string
	// HostName is the host name in its URL or address in canonical spelling, "" if the exporter does not resolve one.
	HostName string
	// Place identifies what the target is about, its kind included: one of the same place may be the same target with another name, see
	// Renames. It is "" if unknown.
	Place string
	// Container is the name of the container that serves the target, or Service the workload that does. ContainerHost is the docker_host of
	// its engine. Each is "" unless configured.
	Container, Service, ContainerHost string
	// Engine is the docker_host of the container engine that the target is, "" for other targets.
	Engine string
	// WarnOnly says that the target's own problems are warnings at most.
	WarnOnly bool
	// Read says that there is a recent reading; Up is its verdict, ReadAt when it ended.
	Read, Up bool
	ReadAt   time.Time
	// Took is how long the last reading took, and Slow how long a successful one may take; 0 for any time. Reason is why it failed.
	Took, Slow time.Duration
	Reason     string
	// Failed counts all failed scheduled readings. Every is the mean time between scheduled readings in the last hour; 0 if there
	// were none.
	Failed uint64
	Every  time.Duration
	// Throttled says that the last reading failed only because the server limits this address, so its users may be well.
	Throttled bool
	// RefusesUs says that the last reading failed only because the server refuses the exporter, so its users may be well. The events of
	// problems say it too, for those who say what users lose.
	RefusesUs bool
	// OwnFault says that the last reading failed although the server answers: for its Reason, it is itself at fault.
	OwnFault bool
	// Overdue says that several scheduled readings were missed.
	Overdue bool
	// Conditions lists what the last reading could check, whether it holds or not.
	Conditions []Condition
}

// The sides of a bridge.
const (
	SideIRC  = "irc"
	SideXMPP = "xmpp"
)

// Engine is what is known of a configured container engine. Containers are valid only if Read says that the last reading succeeded.
type Engine struct {
	Host       string
	Read       bool
	Containers []Container
	// Disappeared are containers that may come back at once, or soon count as missing or removed. Only their counts are known.
	Disappeared []Container
}

// Container is what is known of a container, or of all instances of a shared workload.
type Container struct {
	// Host is the engine's docker_host. Name is that of the container, or of the newest instance of a shared workload.
	Host, Name string
	// Workload is the name of its workload. Shared says that this is a workload that has had more than one instance, or whose instance
	// has had another name: it is judged as one, under the workload's name. Members are the names of its instances, in any order.
	Workload string
	Shared   bool
	Members  []string
	// Instances is how many instances run, Wanted how many should. They matter only if it is shared.
	Instances, Wanted int
	// Elsewhere says that an instance that does not run here may run on another node of a swarm.
	Elsewhere bool
	// Was are the names of containers that were judged alone before the workload became shared, which continues them.
	Was []string
	// Named says that the configuration names it.
	Named bool
	// EndedByItself says that its last run ended with another code than 0, and that nobody asked for it.
	EndedByItself bool
	// Removed says that it is missing because somebody removed it.
	Removed bool
	// OneShot says that it does its work and ends.
	OneShot bool
	// HostNames are its names on the networks that it shares with the exporter, in canonical spelling.
	HostNames []string
	// Role is its purpose, such as bridge; "" if unknown.
	Role string
	// Proxy says that its image is a proxy's, so that the server itself is another container.
	Proxy bool
	// State and Health are as the engine reports them, or State is Missing. A shared workload is running while an instance runs, and
	// missing while it has none.
	State, Health string
	// Started is when its last run began, zero before the first. Stopped says that this run is over and ExitCode is known.
	Started  time.Time
	Stopped  bool
	ExitCode int
	// Expected says that it, or at least one instance, should be running.
	Expected bool
	// WaitsFor is the container that must start or become healthy before this one is started, "" if none.
	WaitsFor string
	// DependsOn are the names of containers on the same engine that this one needs.
	DependsOn []string
	// Restarts counts all restarts, and Kills all processes that the kernel killed because memory ran out.
	Restarts, Kills uint64
	Usage
	// DownFor is how long ago it stopped, according to the engine; UnhealthyFor how long its health checks have been failing. Both are
	// 0 if unknown.
	DownFor, UnhealthyFor time.Duration
	// vanished says that it existed until recently. It can still be the cause of other problems.
	vanished bool
	// revived says that it was down when its engine was last read, and that its own target has answered since; answers that it does now.
	revived, answers bool
	// stale says that its engine has not been read for longer than a restart of the engine takes.
	stale bool
}

// Usage is what a container uses. The Has fields say what is known.
type Usage struct {
	// Memory and MemoryLimit are in bytes; a limit of 0 means none.
	Memory, MemoryLimit float64
	HasMemory           bool
	// CPUSeconds is the CPU time since the container started.
	CPUSeconds float64
	HasCPU     bool
}

// The values of State and Health that matter here.
const (
	Running    = "running"
	Paused     = "paused"
	Restarting = "restarting"
	Missing    = "missing"
	Unhealthy  = "unhealthy"
	Starting   = "starting"
)

// Subject returns what the container is judged as.
func (c *Container) Subject() Subject {
	if c.Shared {
		return WorkloadSubject(c.Host, c.Workload)
	}
	return ContainerSubject(c.Host, c.Name)
}

// GoneOnPurpose reports whether it is missing because somebody removed it who may not want it back.
func (c *Container) GoneOnPurpose() bool {
	return c.State == Missing && c.Removed && !c.Named && !c.EndedByItself
}

// Down reports whether the container should run and does not, or fewer instances run than should. A container that waits for another one
// should run.
func (c *Container) Down() bool {
	switch {
	case c.partly():
		return c.Instances < c.Wanted
	case c.OneShot && c.Stopped: // it has done its work, or failed
		return false
	case c.GoneOnPurpose():
		return false
	}
	return (c.Expected || c.WaitsFor != "") && c.State != Running
}

// partly reports whether some instances of a shared workload run, if not all.
func (c *Container) partly() bool { return c.Shared && c.Instances > 0 }

// available reports whether the container can serve its clients.
func (c *Container) available() bool {
	return (!c.Down() || c.partly()) && (c.State != Running || c.Health != Starting)
}

// Severity is the severity of a problem.
type Severity int

// The severities. A pending problem has no alert: it has not lasted long enough, or its alert is held back.
const (
	Pending Severity = iota
	Warning
	Critical
)

var severities = [...]string{"pending", "warning", "critical"}

// String returns the value of the alerts' label severity.
func (s Severity) String() string { return severities[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown severity %q", text)
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
	ReasonCertificate = "certificate"
)

// Excuse is why the alert on a problem is held back. The zero Excuse means that it is not.
type Excuse struct {
	Reason string `json:"reason"`
	// Cause is the name of the container or target that explains the problem, "" for maintenance of the subject itself.
	Cause string `json:"cause,omitempty"`
	// Root is the container or target at the end of the chain of causes, which has an alert of its own.
	Root Subject `json:"root,omitzero"`
}

// Holds reports whether the alert is held back.
func (e Excuse) Holds() bool { return e.Reason != "" }

// Problem is one thing that is wrong with a subject.
type Problem struct {
	Subject
	// Alert is the name of the alert on it.
	Alert string `json:"alert"`
	// Of is the part of the target that the problem is about; "" for all of it.
	Of string `json:"of,omitempty"`
	// Since is when it began; AtLeast says that it may have begun earlier.
	Since    time.Time     `json:"since"`
	AtLeast  bool          `json:"since_at_least,omitempty"`
	Lasted   time.Duration `json:"-"`
	Severity Severity      `json:"severity"`
	// Cause is the subject whose problem explains this one, or fails with it as part of one server: its own subject if none does.
	Cause Subject `json:"cause"`
	// Excuse holds the problem back while Severity is Pending.
	Excuse Excuse `json:"excuse,omitzero"`
	// Also is a container that the subject needs and that is down too, without excusing the problem; "" if none.
	Also string `json:"also,omitempty"`
	// Instances is how many instances of a workload run of the Wanted; 0 of 0 unless some run and some do not.
	Instances int `json:"instances,omitempty"`
	Wanted    int `json:"wanted,omitempty"`
	// Outages is how many outages within the last 90 minutes are one problem, 0 if it is a single one. UpAgain says that none lasts now.
	Outages int  `json:"outages,omitempty"`
	UpAgain bool `json:"up_again,omitempty"`
	// Was is the name that the subject had when the problem began; "" if it is its own.
	Was string `json:"was,omitempty"`
	// Throttled says that the problem consists of failures by which the server only limits this address, so users may be well.
	Throttled bool `json:"throttled,omitempty"`
	// Because is what explains it, in words for people: see Condition.
	Because string `json:"-"`
	// Consequences are the subjects whose problems this one explains; for AlertMostTargetsDown, the subjects that are down.
	Consequences []Subject `json:"consequences,omitempty"`
	// Unknown says that the target or engine cannot be read, so that this is the state as it was LastKnown, zero if nobody knows when.
	Unknown   bool      `json:"unknown,omitempty"`
	LastKnown time.Time `json:"last_known,omitzero"`
	// Eases is when a critical problem becomes a warning, and Ends when it ends, without new events; zero if unknown. Last is the last
	// event of a problem that counts them.
	Eases time.Time `json:"-"`
	Ends  time.Time `json:"-"`
	Last  time.Time `json:"-"`
}

// Verdict is the data behind the metrics of one subject.
type Verdict struct {
	// Workload is what the container is an instance of, if the subject is one.
	Workload string
	// TargetKind is the target's kind, if the subject is one. WarnOnly says that its outage is a warning at most, as configured or because
	// the server limits this address, or did until shortly ago.
	TargetKind string
	WarnOnly   bool
	// RefusesUs is the target's.
	RefusesUs bool
	// Engine is that of the target, "" unless it is one; Unanswered is how many targets are down whose containers run on it.
	Engine     string
	Unanswered int
	// Down, Missing, Removed and Unhealthy are durations, 0 while the state does not apply. A removed container is not missing. Known
	// says that Down is known.
	Down, Missing, Removed, Unhealthy time.Duration
	Known                             bool
	// Outages are those of the Problem that Down is about. Calm is for how long the subject has been up again meanwhile, 0 while it is not.
	Outages int
	Calm    time.Duration
	// Was is the former name of a subject with a problem from then; "" for none.
	Was string
	// RecentRestarts counts the unexcused restarts within the window of their alert, RecentKills the kills that the container survived
	// within the window of theirs.
	RecentRestarts, RecentKills uint64
	// WorkFailed is how long ago the container failed to do its work, OftenUnhealthy for how long it was lately unhealthy unless the alert
	// on a single spell reports that. Both are 0 if not.
	WorkFailed, OftenUnhealthy time.Duration
	Excuse                     Excuse
	// ExcusedFailures counts the failed readings that another problem explains or that TargetDown covers.
	ExcusedFailures uint64
	// MemoryAlerted says that the excuse does not hold back the alert on the container's memory, since that already fires.
	MemoryAlerted bool
	// Unknown says that the target or engine cannot be read, so that this is the state as it was LastKnown.
	Unknown   bool
	LastKnown time.Time
}

// IsDown reports whether the subject is down now. One that flaps may be up.
func (v *Verdict) IsDown() bool { return v.Down > 0 && v.Calm == 0 }

// lose records whether the subject cannot be read, and when it was last.
func (v *Verdict) lose(lost bool, read time.Time) {
	if v.Unknown = lost; lost {
		v.LastKnown = read
	}
}

// Judgement is the state of the stack at one moment. It is immutable.
type Judgement struct {
	Time time.Time
	// Next is how long until a problem passes a threshold, so that the same facts give another judgement; 0 if none will.
	Next time.Duration
	// Problems are sorted: the worst first, then the oldest.
	Problems []Problem
	Verdicts map[Subject]Verdict
	// Servers are the containers that serve targets, by target.
	Servers map[string]Server
	// Members are the names of the instances of shared workloads.
	Members map[Subject][]string
	// Conditions has one entry for each condition that was checked, and for each severity that it can have.
	Conditions []ConditionVerdict
	// Values are unsorted.
	Values []Value
	// HeldBack are the alerts on measured values and on history that maintenance holds back, and on certificates of other targets.
	HeldBack []HeldBack
	// Round is what has changed since the judgement before.
	Round Round
}

// Instances returns the names of the containers that are judged as a subject.
func (j *Judgement) Instances(of Subject) []string {
	if of.Kind == KindWorkload {
		return j.Members[of]
	}
	return []string{of.Name}
}

// HeldBack is an alert on a measured value, or on history, that is held back.
type HeldBack struct {
	Alert string
	Subject
	// In is the series that is 1 meanwhile.
	In string
	// Excuse is why, zero for maintenance.
	Excuse Excuse
}
