package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Healths are all health states of a container, in the order of the metrics.
var Healths = []string{container.Healthy, container.NoHealthcheck, container.Starting, container.Unhealthy}

// stateMissing is the state of an expected container that does not exist. No engine reports it.
const stateMissing = "missing"

// States are all states of a container, in the order of the metrics.
var States = []string{
	container.StateCreated, container.StateDead, container.StateExited, stateMissing,
	container.StatePaused, container.StateRemoving, container.StateRestarting, container.StateRunning,
}

// Status is the state of one container at one moment. It is a value: compare and copy it freely.
type Status struct {
	id, Name string
	Created  time.Time
	Labels
	// chosen is true if the rules choose the container, labelsCut if a label was too long and is left out.
	chosen, labelsCut bool
	// unit is the systemd unit that owns it, "" for none.
	unit string
	Run
	Checks
	limits
	// reported is the state and health in the engine's own words, to compare with a list's.
	reported stateAndHealth
	// fromList is true if the status comes from a list, which has less than a description.
	fromList bool
}

// Labels are a container's role, compose project and service, image, and workload.
type Labels struct {
	Role    string `json:"role,omitempty"`
	Project string `json:"project,omitempty"`
	Service string `json:"service,omitempty"`
	Image   string `json:"image,omitempty"`
	// Workload is what it is an instance of: see WorkloadOf. ConfigHash is compose's hash of its configuration.
	Workload   string `json:"workload,omitempty"`
	ConfigHash string `json:"config_hash,omitempty"`
	// InPod is the systemd unit of the pod that it is a container of, "" for none.
	InPod string `json:"in_pod,omitempty"`
	// Swarm is true if it is the task of a swarm service, which may run on another node.
	Swarm bool `json:"swarm,omitempty"`
}

// Run is a container's current run, or its last one.
type Run struct {
	State string
	// Started is zero before the first start, Ended before the first end.
	Started, Ended time.Time
	// Stopped is true if the run is over and ExitCode is known.
	Stopped  bool
	ExitCode int
	// killedForMemory is true if the kernel killed it for lack of memory.
	killedForMemory bool
	// policyRestarts is how often the engine has restarted the container by policy since a person started it. A restart that the
	// engine still waits for does not count.
	policyRestarts int
	PID            int
}

// Checks are a container's health checks.
type Checks struct {
	Health string
	// UnhealthySince is when the checks began to fail, while Health is unhealthy; zero if unknown. It is an estimate if the
	// engine does not keep the results of the whole streak.
	UnhealthySince time.Time
	estimated      bool
	// failed is when the last failed check ended, period the approximate time between two checks.
	failed time.Time
	period time.Duration
	// streak is how many checks have failed in a row.
	streak int
	// passed is when the last known successful check of this run ended.
	passed time.Time
}

// limits are settings that a container was created with.
type limits struct {
	memoryLimit int64 // in bytes, 0 for none
	// restartPolicy is no, always, unless-stopped or on-failure; "" if unknown.
	restartPolicy string
	autoRemove    bool
	// dependsOn is compose's label, networkOf the id or name of the container whose network this one shares. hostNames are the
	// names by which the exporter reaches it, separated by spaces.
	dependsOn, networkOf, hostNames string
}

// durations returns how long ago the container stopped, and how long its checks have been failing; 0 if not, or if unknown.
// Gone is when it ceased to exist, by our clock; the engine's clock is ahead of ours by ahead.
func (s *Status) durations(gone, now time.Time, ahead time.Duration) (down, unhealthy time.Duration) {
	switch {
	case s.State == stateMissing && !gone.IsZero():
		down = now.Sub(gone)
	// a paused container has only the end of an earlier run
	case s.State != container.StateRunning && !s.Ended.IsZero() && !s.Ended.Before(s.Started):
		down = now.Add(ahead).Sub(s.Ended)
	}
	if !s.UnhealthySince.IsZero() && !s.failed.IsZero() {
		unhealthy = s.failed.Sub(s.UnhealthySince)
		// A check that ended in the future or long ago shows that the clocks differ.
		if since := now.Sub(s.failed); since > 0 && since <= 2*s.period {
			unhealthy += since
		}
	}
	return max(down, 0), max(unhealthy, 0)
}

// alive reports whether the container's run goes on: it may be paused.
func (s *Status) alive() bool {
	return s.State == container.StateRunning || s.State == container.StatePaused
}

// beingRemoved reports whether the container is being removed, or its removal has failed: its state hides the earlier one.
func (s *Status) beingRemoved() bool {
	return s.State == container.StateRemoving || s.State == container.StateDead
}

// StatusOf converts an engine's description of a container and applies the rules. A role in the rules takes precedence over the
// container's label, which takes precedence over a guess. If the answer does not describe a container, the error is Malformed.
func StatusOf(c *container.InspectResponse, r *Rules) (Status, error) {
	if c.ContainerJSONBase == nil || c.ID == "" || c.Name == "" || c.State == nil || c.Config == nil {
		return Status{}, failure.Errorf(failure.Malformed, "the description of a container lacks its id, name, state or configuration")
	}
	return statusOf(c, r), nil
}

func statusOf(c *container.InspectResponse, r *Rules) Status {
	s := Status{
		id: c.ID, Name: strings.TrimPrefix(c.Name, "/"),
		Run: Run{State: stateOf(c.State), Started: ParseTime(c.State.StartedAt)},
	}
	whole := func(value string, limit int) string {
		s.labelsCut = s.labelsCut || len(value) > limit
		return bounded(value, limit)
	}
	s.Project, s.Service = whole(c.Config.Labels[ComposeProject], MaxLabel), whole(c.Config.Labels[ComposeService], MaxLabel)
	s.Image, s.ConfigHash = whole(withoutDigest(c.Config.Image), MaxLabel), whole(c.Config.Labels[composeHash], MaxLabel)
	s.Workload = whole(WorkloadOf(c.Config.Labels, s.Name), 2*MaxLabel)
	s.dependsOn = whole(c.Config.Labels[ComposeDepends], MaxDependsOn)
	s.Swarm, s.unit = c.Config.Labels[swarmService] != "", c.Config.Labels[systemdUnit]
	s.Health = healthOf(s.State, c.State.Health)
	if (s.State == container.StateExited || s.State == container.StateDead) && c.State.ExitCode != unknownExitCode {
		s.Stopped, s.ExitCode = true, c.State.ExitCode
	}
	s.describe(c)
	s.hostNames = r.hostNames(c, &s)
	s.chosen = ValidName(s.Name) && r.Watches(s.Name, c.Config.Labels)
	if s.Role = r.Roles[s.Name]; s.Role == "" {
		s.Role = roleOfContainer(c.Config.Labels[roleLabel], s.Service, s.Image, s.Name)
	}
	return s
}

// describe sets the fields that only a description has.
func (s *Status) describe(c *container.InspectResponse) {
	s.fromList = c.State.StartedAt == ""
	s.Created, s.Ended = ParseTime(c.Created), ParseTime(c.State.FinishedAt)
	s.killedForMemory, s.PID = c.State.OOMKilled, c.State.Pid
	s.reported = stateAndHealth{state: c.State.Status}
	if s.State == container.StateRunning && c.State.Health != nil && c.State.Health.Status != container.NoHealthcheck {
		s.reported.health = c.State.Health.Status
	}
	if s.State == container.StateRunning && c.State.Health != nil {
		s.readChecks(c.State.Health, c.Config.Healthcheck)
	}
	s.policyRestarts = c.RestartCount
	if s.State == container.StateRestarting {
		s.policyRestarts = max(0, s.policyRestarts-1)
	}
	if h := c.HostConfig; h != nil {
		s.restartPolicy, s.autoRemove, s.memoryLimit = string(h.RestartPolicy.Name), h.AutoRemove, h.Memory
		if h.NetworkMode.IsContainer() {
			s.networkOf = h.NetworkMode.ConnectedContainer()
		}
	}
}

// defaultCheckInterval is the engine's default interval of health checks.
const defaultCheckInterval = 30 * time.Second

// readChecks finds out when the checks began to fail. The engine keeps only the last few results, and counts how many checks have
// failed in a row. Each dropped result is assumed to be one interval plus one check's duration apart from the next.
func (s *Status) readChecks(h *container.Health, check *container.HealthConfig) {
	var failing []*container.HealthcheckResult
	for _, result := range slices.Backward(h.Log) {
		// The log outlives a restart of the container.
		if result == nil || result.Start.Before(s.Started) {
			break
		}
		if result.ExitCode == 0 {
			s.passed = result.End
			break
		}
		failing = append(failing, result)
	}
	if s.Health != container.Unhealthy {
		return
	}
	s.streak = h.FailingStreak
	if len(failing) == 0 {
		return
	}
	oldest := failing[len(failing)-1]
	s.UnhealthySince, s.failed = oldest.Start, failing[0].End
	s.period = defaultCheckInterval
	if check != nil && check.Interval > 0 {
		s.period = check.Interval
	}
	s.period += max(oldest.End.Sub(oldest.Start), 0)
	dropped := h.FailingStreak - len(failing)
	if dropped <= 0 {
		return
	}
	s.estimated = true
	s.UnhealthySince = oldest.Start.Add(-time.Duration(dropped) * s.period)
	if s.UnhealthySince.Before(s.Started) {
		s.UnhealthySince = s.Started
	}
}

// refineUnhealthySince improves UnhealthySince with the previous status of the same run. An exact time takes precedence over an
// estimate. Of two estimates the earlier one is better, since estimates drift later with every check. An estimate before the last
// successful check moves to that check.
func (s *Status) refineUnhealthySince(old *Status, now time.Time) {
	sameRun := old.id == s.id && old.Started.Equal(s.Started)
	if sameRun && old.passed.After(s.passed) {
		s.passed = old.passed
	}
	if s.Health != container.Unhealthy {
		s.UnhealthySince = time.Time{}
		return
	}
	if s.estimated && s.UnhealthySince.Before(s.passed) {
		s.UnhealthySince = s.passed
	}
	sameStreak := sameRun && old.Health == container.Unhealthy && !old.UnhealthySince.IsZero() &&
		old.streak <= s.streak && !s.passed.After(old.UnhealthySince)
	switch {
	case sameStreak && (s.UnhealthySince.IsZero() || s.estimated && (!old.estimated || old.UnhealthySince.Before(s.UnhealthySince))):
		s.UnhealthySince, s.estimated = old.UnhealthySince, old.estimated
	case s.UnhealthySince.IsZero():
		s.UnhealthySince, s.estimated = now, true
	}
}

// staysUp reports whether the engine starts the container again however it ends.
func (s *Status) staysUp() bool {
	return s.restartPolicy == string(container.RestartPolicyAlways) || s.restartPolicy == string(container.RestartPolicyUnlessStopped)
}

// expected reports whether it is an outage if the container is not running. It is not for one that was never started outside of
// compose, or has completed its work. byHand means that somebody has stopped it.
func (s *Status) expected(byHand bool) bool {
	switch {
	case s.staysUp():
		return true
	case s.State == container.StateCreated:
		return s.Service != ""
	default:
		return !s.Stopped || s.ExitCode != 0 || byHand
	}
}

// stateOf returns the engine's state if it is a known one, else the state that the flags imply.
func stateOf(s *container.State) string {
	if container.ValidateContainerState(s.Status) == nil {
		return s.Status
	}
	switch {
	case s.Dead:
		return container.StateDead
	case s.Restarting:
		return container.StateRestarting
	case s.Paused:
		return container.StatePaused
	case s.Running:
		return container.StateRunning
	case ParseTime(s.StartedAt).IsZero():
		return container.StateCreated
	default:
		return container.StateExited
	}
}

// healthOf corrects the engine, which reports unhealthy whenever it does not check: for containers that are stopped, paused or
// restarting, and after an unpause until the next check. So only a running container has a health state. An unhealthy one has
// failed at least one check; without a failed check it counts as starting.
func healthOf(state string, h *container.Health) string {
	if state != container.StateRunning || h == nil {
		return container.NoHealthcheck
	}
	switch h.Status {
	case container.Healthy:
		return container.Healthy
	case container.Starting:
		return container.Starting
	case container.Unhealthy:
		if h.FailingStreak > 0 {
			return container.Unhealthy
		}
		return container.Starting
	default:
		return container.NoHealthcheck
	}
}

// ParseTime parses an engine's time. It returns the zero time for an event that never happened, and for an invalid time.
func ParseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// withoutDigest removes the digest from an image reference that also has a name: each build would create a new series.
func withoutDigest(image string) string {
	if name, _, ok := strings.Cut(image, "@"); ok && name != "" {
		return name
	}
	return image
}

// problem returns what is wrong with the container in words, or "".
func (s *Status) problem() string {
	switch {
	case s.Health == container.Unhealthy:
		return s.Name + " is unhealthy"
	case s.State == container.StateRunning, s.State == container.StateCreated:
		return ""
	case s.Stopped && s.ExitCode == 0 && s.State == container.StateExited:
		return "" // a one-shot container that has completed its work
	case s.Stopped:
		return fmt.Sprintf("%s is %s, exit code %d", s.Name, s.State, s.ExitCode)
	}
	return s.Name + " is " + s.State
}

// stateAndHealth is what lists and descriptions have in common.
type stateAndHealth struct{ state, health string }

// unknownExitCode stands for an unknown exit code; real ones are not negative.
const unknownExitCode = -1
