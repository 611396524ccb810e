package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Healths are all healths of a container, in the order of the page.
var Healths = []string{container.Healthy, container.NoHealthcheck, container.Starting, container.Unhealthy}

// stateMissing is the state of a container that was expected and does not exist. No engine says so itself.
const stateMissing = "missing"

// States are all states of a container, in the order of the page.
var States = []string{
	container.StateCreated, container.StateDead, container.StateExited, stateMissing,
	container.StatePaused, container.StateRemoving, container.StateRestarting, container.StateRunning,
}

// Status is what is known of one container at one moment. It is a value: compare and copy it freely.
type Status struct {
	id, Name string
	Created  time.Time
	Labels
	// chosen says that the rules choose it, cut that a label was too long and is left out.
	chosen, cut bool
	Run
	Checks
	limits
	// said is the state and health in the engine's own words, as a list says them too.
	said summaryWords
	// listed says that only a list was asked, which knows less.
	listed bool
}

// Labels are what a container is for and what it was made of.
type Labels struct {
	Role    string `json:"role,omitempty"`
	Project string `json:"project,omitempty"`
	Service string `json:"service,omitempty"`
	Image   string `json:"image,omitempty"`
}

// Run is a container's present run, or its last one.
type Run struct {
	State string
	// Started is zero before the first start, Ended before the first end.
	Started, Ended time.Time
	// Stopped says that the run is over and ExitCode is known.
	Stopped  bool
	ExitCode int
	// killedForMemory says that the kernel ended it for lack of memory.
	killedForMemory bool
	// policyRestarts is how often the engine has restarted the container by policy since a person started it, without a restart
	// that is still to come.
	policyRestarts int
	PID            int
}

// Checks are a container's health checks.
type Checks struct {
	Health string
	// UnhealthySince is when the checks began to fail, while Health is unhealthy; zero if unknown. It is estimated if the engine
	// does not keep the whole streak.
	UnhealthySince time.Time
	estimated      bool
	// failed is when the last failing check ended, period about how long it takes from one to the next.
	failed time.Time
	period time.Duration
	// streak is how many checks have failed in a row.
	streak int
	// passed is when the last check of this run ended that is known not to have failed.
	passed time.Time
}

// limits are how a container was made.
type limits struct {
	memoryLimit int64 // in bytes, 0 for none
	// restartPolicy is no, always, unless-stopped or on-failure; "" if unknown.
	restartPolicy string
	autoRemove    bool
	// dependsOn is compose's label, networkOf the id or name of the container whose network this one shares, hostNames what
	// the exporter reaches it by, with spaces between them.
	dependsOn, networkOf, hostNames string
}

// durations are how long ago the container stopped, and how long its checks have been failing; 0 if it has not, they have
// not, or nobody knows. gone is when it vanished, by our clock; the engine's is ahead of it.
func (s *Status) durations(gone, now time.Time, ahead time.Duration) (down, unhealthy time.Duration) {
	switch {
	case s.State == stateMissing && !gone.IsZero():
		down = now.Sub(gone)
	case s.State != container.StateRunning && !s.Ended.IsZero() && !s.Ended.Before(s.Started): // a paused one has not ended this run
		down = now.Add(ahead).Sub(s.Ended)
	}
	if !s.UnhealthySince.IsZero() && !s.failed.IsZero() {
		unhealthy = s.failed.Sub(s.UnhealthySince)
		// A check that ended in the future or long ago did so by another clock.
		if since := now.Sub(s.failed); since > 0 && since <= 2*s.period {
			unhealthy += since
		}
	}
	return max(down, 0), max(unhealthy, 0)
}

// going reports whether the container is being removed, or could not be: its state tells nothing of what it was before.
func (s *Status) going() bool {
	return s.State == container.StateRemoving || s.State == container.StateDead
}

// StatusOf reads an engine's description of a container, and what the rules say of it: their roles take precedence over what
// the container says and looks like. An answer that describes no container is Malformed.
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
	var whole [3]bool
	s.Project, whole[0] = bounded(c.Config.Labels[ComposeProject], MaxLabel)
	s.Service, whole[1] = bounded(c.Config.Labels[ComposeService], MaxLabel)
	s.Image, whole[2] = bounded(withoutDigest(c.Config.Image), MaxLabel)
	s.cut = whole != [3]bool{true, true, true}
	s.Health = healthOf(s.State, c.State.Health)
	if (s.State == container.StateExited || s.State == container.StateDead) && c.State.ExitCode != unknownExitCode {
		s.Stopped, s.ExitCode = true, c.State.ExitCode
	}
	s.describe(c)
	s.hostNames = r.hostNames(c, &s)
	s.chosen = ValidName(s.Name) && r.Watches(s.Name, c.Config.Labels)
	s.Role = r.Roles[s.Name]
	if s.Role == "" && ValidRole.MatchString(c.Config.Labels[roleLabel]) {
		s.Role = c.Config.Labels[roleLabel]
	}
	if s.Role == "" {
		s.Role = inferRole(s.Service, s.Image, s.Name)
	}
	return s
}

// describe fills in what only a description knows.
func (s *Status) describe(c *container.InspectResponse) {
	s.listed = c.State.StartedAt == ""
	s.Created, s.Ended = ParseTime(c.Created), ParseTime(c.State.FinishedAt)
	s.killedForMemory, s.PID = c.State.OOMKilled, c.State.Pid
	s.said = summaryWords{state: c.State.Status}
	if s.State == container.StateRunning && c.State.Health != nil && c.State.Health.Status != container.NoHealthcheck {
		s.said.health = c.State.Health.Status
	}
	if s.State == container.StateRunning && c.State.Health != nil {
		s.readChecks(c.State.Health, c.Config.Healthcheck)
	}
	s.policyRestarts = c.RestartCount
	if s.State == container.StateRestarting {
		s.policyRestarts = max(0, s.policyRestarts-1)
	}
	var whole bool
	s.dependsOn, whole = bounded(c.Config.Labels[ComposeDepends], MaxDependsOn)
	s.cut = s.cut || !whole
	if h := c.HostConfig; h != nil {
		s.restartPolicy, s.autoRemove, s.memoryLimit = string(h.RestartPolicy.Name), h.AutoRemove, h.Memory
		if h.NetworkMode.IsContainer() {
			s.networkOf = h.NetworkMode.ConnectedContainer()
		}
	}
}

// defaultCheckInterval is the engine's own, where a health check names none.
const defaultCheckInterval = 30 * time.Second

// readChecks tells when the checks began to fail. The engine keeps the last few of them, and counts how many have failed
// in a row: those that it does not keep any more were one interval and one check's duration apart.
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
	forgotten := h.FailingStreak - len(failing)
	if forgotten <= 0 {
		return
	}
	s.estimated = true
	s.UnhealthySince = oldest.Start.Add(-time.Duration(forgotten) * s.period)
	if s.UnhealthySince.Before(s.Started) {
		s.UnhealthySince = s.Started
	}
}

// settleUnhealthySince settles when the checks began to fail with what was known of the same run before. What is no estimate is right. Of
// two estimates the earlier one is nearer, since an estimate moves with every check. None is before a check that passed.
func (s *Status) settleUnhealthySince(old *Status, now time.Time) {
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

// expected reports whether the container should be running, so that it is an outage if it does not: unless it was made
// to be thrown away, or was never started, or has done its work. byHand says that somebody has stopped it.
func (s *Status) expected(byHand bool) bool {
	service := s.restartPolicy == string(container.RestartPolicyAlways) || s.restartPolicy == string(container.RestartPolicyUnlessStopped)
	switch {
	case s.autoRemove:
		return false
	case service:
		return true
	case s.State == container.StateCreated:
		return s.Service != ""
	default:
		return !s.Stopped || s.ExitCode != 0 || byHand
	}
}

// stateOf is the engine's own word where it is a known one, else what the flags beside it amount to.
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

// healthOf corrects the engine, which says unhealthy whenever it stops checking: of containers that are stopped, paused
// or restarting, and after an unpause until the next check. So only a running container has a health, and an unhealthy
// one has failed a check at least. Without a failure the verdict is still to come, which is what starting means.
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

// ParseTime reads an engine's time. What never happened is the zero time, and so is what cannot be read.
func ParseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// withoutDigest takes the digest off an image reference that says more than that: it would make a series of its own
// for each build, and nobody reads it.
func withoutDigest(image string) string {
	if name, _, ok := strings.Cut(image, "@"); ok && name != "" {
		return name
	}
	return image
}

// sameRun reports whether both accounts are of the same run of the same container, with the same end.
func (s *Status) sameRun(old *Status) bool {
	return s.id == old.id && s.Started.Equal(old.Started) && s.Stopped == old.Stopped && s.ExitCode == old.ExitCode
}

// trouble is what a person should know of the container; "" if all is well.
func (s *Status) trouble() string {
	switch {
	case s.Health == container.Unhealthy:
		return s.Name + " is unhealthy"
	case s.State == container.StateRunning, s.State == container.StateCreated:
		return ""
	case s.Stopped && s.ExitCode == 0 && s.State == container.StateExited:
		return "" // a one-shot that has done its work looks like this
	case s.Stopped:
		return fmt.Sprintf("%s is %s, exit code %d", s.Name, s.State, s.ExitCode)
	}
	return s.Name + " is " + s.State
}

// summaryWords are what both a list and a description say of a container.
type summaryWords struct{ state, health string }

// unknownExitCode stands for an exit code that nobody told; real ones are from 0 on.
const unknownExitCode = -1
