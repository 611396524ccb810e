package collectors

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var (
	containerHealthDesc = prometheus.NewDesc("chatstack_container_health",
		"Whether the container's health is this one. It is none unless the container runs and has a health check.",
		[]string{"container", "health", "docker_host"}, nil)
	containerStateDesc = prometheus.NewDesc("chatstack_container_state",
		"Whether the container's state is this one.",
		[]string{"container", "state", "docker_host"}, nil)
	containerStartTimeDesc = prometheus.NewDesc("chatstack_container_start_time_seconds",
		"When the container was last started, in seconds since the epoch. Absent before its first start.",
		[]string{"container", "docker_host"}, nil)
	containerExitCodeDesc = prometheus.NewDesc("chatstack_container_exit_code",
		"Exit code of the container's last run, while it is stopped.",
		[]string{"container", "docker_host"}, nil)
	containerUnhealthySinceDesc = prometheus.NewDesc("chatstack_container_unhealthy_since_timestamp_seconds",
		"When the container's health checks began to fail, while it is unhealthy: estimated from the failing streak and the interval, never later than the oldest failing check that the engine keeps.",
		[]string{"container", "docker_host"}, nil)
	containerRecreatedDesc = prometheus.NewDesc("chatstack_container_last_recreated_timestamp_seconds",
		"When the container was made; a deploy makes a new one under the same name.",
		[]string{"container", "docker_host"}, nil)
	containerInfoDesc = prometheus.NewDesc("chatstack_container_info",
		"What the container is for and what it was made of.",
		[]string{"container", "role", "compose_project", "compose_service", "image", "docker_host"}, nil)
)

// Both are in the order of the page.
var containerHealths = []string{container.Healthy, container.NoHealthcheck, container.Starting, container.Unhealthy}

// stateMissing is the state of a container that was expected and does not exist. No engine says so itself.
const stateMissing = "missing"

var containerStates = []string{
	container.StateCreated, container.StateDead, container.StateExited, stateMissing,
	container.StatePaused, container.StateRemoving, container.StateRestarting, container.StateRunning,
}

// The labels that compose puts on its containers.
const (
	composeProject = "com.docker.compose.project"
	composeService = "com.docker.compose.service"
	composeOneOff  = "com.docker.compose.oneoff"
	composeDepends = "com.docker.compose.depends_on"
)

// containerStatus is what is told of one container at one moment. It is a value: compare and copy it freely.
type containerStatus struct {
	id, name string
	state    string
	health   string
	// started is zero before the first start.
	started time.Time
	// exitCode counts while stopped is true.
	exitCode int
	stopped  bool

	role, project, service, image string
	// cut says that a label was too long and is left out.
	cut bool

	created time.Time
	// policyRestarts is how often the engine has restarted the container by policy since a person started it. One that is
	// decided on and still to come is left out.
	policyRestarts int
	// ended is when its last run ended, killedForMemory that the kernel ended it for want of memory.
	ended           time.Time
	killedForMemory bool
	// unhealthySince is when the checks began to fail, while health is unhealthy; zero where the engine does not tell. It
	// is estimated where the engine does not keep all of the streak. streak is how many checks have failed in a row.
	unhealthySince time.Time
	estimated      bool
	streak         int
	// passed is when the last check of this run that is known not to have failed was over.
	passed time.Time
	// said is the state and health in the engine's own words, as a list says them too.
	said summaryWords
	// listed says that only a list was asked, which knows less.
	listed bool

	pid         int
	memoryLimit int64 // in bytes, 0 for none
	// restartPolicy is no, always, unless-stopped or on-failure; "" where the engine does not tell.
	restartPolicy string
	autoRemove    bool
	// dependsOn is compose's label, networkOf the id or name of the container whose network this one shares.
	dependsOn, networkOf string
}

// going reports whether the container is being removed, or could not be: its state tells nothing of what it was before.
func (s *containerStatus) going() bool {
	return s.state == container.StateRemoving || s.state == container.StateDead
}

// summaryWords are what both a list and a description say of a container.
type summaryWords struct{ state, health string }

// statusOf reads an engine's account of a container. It depends on nothing else, so that it serves polls and events
// alike. roles, by container name, outweigh what the container says and looks like. An answer that describes no
// container is Malformed.
func statusOf(c *container.InspectResponse, roles map[string]string) (containerStatus, error) {
	if c.ContainerJSONBase == nil || c.ID == "" || c.Name == "" || c.State == nil || c.Config == nil {
		return containerStatus{}, failure.Errorf(failure.Malformed, "the description of a container lacks its id, name, state or configuration")
	}
	s := containerStatus{
		id:      c.ID,
		name:    strings.TrimPrefix(c.Name, "/"),
		state:   stateOf(c.State),
		started: parseDockerTime(c.State.StartedAt),
	}
	var whole [3]bool
	s.project, whole[0] = bounded(c.Config.Labels[composeProject], maxContainerLabel)
	s.service, whole[1] = bounded(c.Config.Labels[composeService], maxContainerLabel)
	s.image, whole[2] = bounded(withoutDigest(c.Config.Image), maxContainerLabel)
	s.cut = whole != [3]bool{true, true, true}
	s.health = healthOf(s.state, c.State.Health)
	if (s.state == container.StateExited || s.state == container.StateDead) && c.State.ExitCode != unknownExitCode {
		s.stopped, s.exitCode = true, c.State.ExitCode
	}
	s.describe(c)
	s.role = roles[s.name]
	if s.role == "" && validRole.MatchString(c.Config.Labels[roleLabel]) {
		s.role = c.Config.Labels[roleLabel]
	}
	if s.role == "" {
		s.role = inferRole(s.service, s.image, s.name)
	}
	return s, nil
}

// describe fills in what only a description knows.
func (s *containerStatus) describe(c *container.InspectResponse) {
	s.listed = c.State.StartedAt == ""
	s.created, s.ended = parseDockerTime(c.Created), parseDockerTime(c.State.FinishedAt)
	s.killedForMemory, s.pid = c.State.OOMKilled, c.State.Pid
	s.said = summaryWords{state: c.State.Status}
	if s.state == container.StateRunning && c.State.Health != nil && c.State.Health.Status != container.NoHealthcheck {
		s.said.health = c.State.Health.Status
	}
	if s.state == container.StateRunning && c.State.Health != nil {
		s.readChecks(c.State.Health, c.Config.Healthcheck)
	}
	s.policyRestarts = c.RestartCount
	if s.state == container.StateRestarting {
		s.policyRestarts = max(0, s.policyRestarts-1)
	}
	var whole bool
	s.dependsOn, whole = bounded(c.Config.Labels[composeDepends], maxDependsOn)
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
func (s *containerStatus) readChecks(h *container.Health, check *container.HealthConfig) {
	var failing []*container.HealthcheckResult
	for _, result := range slices.Backward(h.Log) {
		// The log outlives a restart of the container.
		if result == nil || result.Start.Before(s.started) {
			break
		}
		if result.ExitCode == 0 {
			s.passed = result.End
			break
		}
		failing = append(failing, result)
	}
	if s.health != container.Unhealthy {
		return
	}
	s.streak = h.FailingStreak
	if len(failing) == 0 {
		return
	}
	oldest := failing[len(failing)-1]
	s.unhealthySince = oldest.Start
	forgotten := h.FailingStreak - len(failing)
	if forgotten <= 0 {
		return
	}
	s.estimated = true
	period := defaultCheckInterval
	if check != nil && check.Interval > 0 {
		period = check.Interval
	}
	if took := oldest.End.Sub(oldest.Start); took > 0 {
		period += took
	}
	s.unhealthySince = oldest.Start.Add(-time.Duration(forgotten) * period)
	if s.unhealthySince.Before(s.started) {
		s.unhealthySince = s.started
	}
}

// since settles when the checks began to fail with what was known of the same run before. What is no estimate is right. Of
// two estimates the earlier one is nearer, since an estimate moves with every check. None is before a check that passed.
func (s *containerStatus) since(old *containerStatus, now time.Time) {
	sameRun := old.id == s.id && old.started.Equal(s.started)
	if sameRun && old.passed.After(s.passed) {
		s.passed = old.passed
	}
	if s.health != container.Unhealthy {
		s.unhealthySince = time.Time{}
		return
	}
	if s.estimated && s.unhealthySince.Before(s.passed) {
		s.unhealthySince = s.passed
	}
	sameStreak := sameRun && old.health == container.Unhealthy && !old.unhealthySince.IsZero() &&
		old.streak <= s.streak && !s.passed.After(old.unhealthySince)
	switch {
	case sameStreak && (s.unhealthySince.IsZero() || s.estimated && (!old.estimated || old.unhealthySince.Before(s.unhealthySince))):
		s.unhealthySince, s.estimated = old.unhealthySince, old.estimated
	case s.unhealthySince.IsZero():
		s.unhealthySince, s.estimated = now, true
	}
}

// expected reports whether the container should be running, so that it is an outage if it does not: unless it was made
// to be thrown away, or was never started, or has done its work. byHand says that somebody has stopped it.
func (s *containerStatus) expected(byHand bool) bool {
	service := s.restartPolicy == string(container.RestartPolicyAlways) || s.restartPolicy == string(container.RestartPolicyUnlessStopped)
	switch {
	case s.autoRemove:
		return false
	case service:
		return true
	case s.state == container.StateCreated:
		return s.service != ""
	default:
		return !s.stopped || s.exitCode != 0 || byHand
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
	case parseDockerTime(s.StartedAt).IsZero():
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

// parseDockerTime reads an engine's time. What never happened is the zero time, and so is what cannot be read.
func parseDockerTime(s string) time.Time {
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

// temporaryName is what compose calls the old or the new container while it replaces one: 12 digits of an id, and the
// name.
var temporaryName = regexp.MustCompile(`^[0-9a-f]{12}_(.+)$`)

// lastingName is a container's name, or the one that a temporary name stands in for.
func lastingName(name string) string {
	if m := temporaryName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// write adds the container's metrics. host is the value of docker_host.
func (s *containerStatus) write(b *Batch, host string) {
	for _, h := range containerHealths {
		b.Gauge(containerHealthDesc, boolValue(s.health == h), s.name, h, host)
	}
	for _, state := range containerStates {
		b.Gauge(containerStateDesc, boolValue(s.state == state), s.name, state, host)
	}
	if !s.started.IsZero() {
		b.Gauge(containerStartTimeDesc, epochSeconds(s.started), s.name, host)
	}
	if s.stopped {
		b.Gauge(containerExitCodeDesc, float64(s.exitCode), s.name, host)
	}
	if !s.unhealthySince.IsZero() {
		b.Gauge(containerUnhealthySinceDesc, epochSeconds(s.unhealthySince), s.name, host)
	}
	if !s.created.IsZero() {
		b.Gauge(containerRecreatedDesc, epochSeconds(s.created), s.name, host)
	}
	b.Gauge(containerInfoDesc, 1, s.name, s.role, s.project, s.service, s.image, host)
}

// wordsOf are what a list says of a container, to be compared with what is known.
func wordsOf(l *container.Summary) summaryWords {
	w := summaryWords{state: l.State}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil && l.State == container.StateRunning {
		w.health = strings.TrimPrefix(found[1], "health: ")
	}
	return w
}

// clockSpan is two moments by the engine's clock that something happened between; zero where the engine does not tell.
type clockSpan struct{ from, to time.Time }

// age is how a list's age of a container's present run, or of the end of its last one, compares with what is known.
type age int

const (
	// ageUntold: the list tells none, or in words of its own.
	ageUntold age = iota
	// ageAgrees: no other run has begun, or ended, since the container was described.
	ageAgrees
	// ageTooCoarse: another run may have begun so soon after the known one that both are of one age in the list's words.
	ageTooCoarse
	ageDiffers
)

// ageSlack is by how much the age in a list may be beside the one that is known, for clocks that are set while they run.
const ageSlack = time.Second

// compareAge compares the age that a list tells of a container's run with the one that is known from a description that was
// made then, at the earliest. A list tells it in words, "About an hour", which get coarser as a run gets older: two runs may
// be of the same age in them if the second one began before the first one was as old as the words are coarse. A run that
// the description does not tell of began after it. So an age which agrees proves that there was no other run, if the known
// one was older than that when it was described. All of these are times by the engine's clock.
func (s *containerStatus) compareAge(l *container.Summary, made clockSpan, described time.Time) age {
	words, exit, told := ageOf(l)
	begun := s.started
	if l.State == container.StateExited {
		begun = s.ended
	}
	coarse := coarseness(words)
	if !told || coarse == 0 || begun.IsZero() || made.from.IsZero() || described.IsZero() {
		return ageUntold
	}
	if l.State == container.StateExited && s.stopped && exit != s.exitCode {
		return ageDiffers
	}
	least, most := made.from.Sub(begun)-ageSlack, made.to.Sub(begun)+ageSlack
	switch {
	case most < 0:
		return ageUntold // the engine's clock was set back, and counts such an age as none
	case !hasWords(words, least, most):
		return ageDiffers
	case described.Sub(begun) < coarse+most-least:
		return ageTooCoarse
	}
	return ageAgrees
}

// hasWords reports whether the engine puts a time between the two into these words.
func hasWords(words string, least, most time.Duration) bool {
	for d := least; d < most; d += time.Second {
		if units.HumanDuration(d) == words {
			return true
		}
	}
	return units.HumanDuration(most) == words
}

// ageOf are the words in which a list tells how long ago a container's run began, or ended with that exit code.
func ageOf(l *container.Summary) (words string, exit int, told bool) {
	switch l.State {
	case container.StateRunning, container.StatePaused:
		words, told = strings.CutPrefix(l.Status, "Up ")
		words, _, _ = strings.Cut(words, " (") // what follows is the health, or that it is paused
		return words, unknownExitCode, told
	case container.StateExited:
		rest, found := strings.CutPrefix(l.Status, "Exited (")
		code, rest, closed := strings.Cut(rest, ") ")
		words, told = strings.CutSuffix(rest, " ago")
		exit, err := strconv.Atoi(code)
		return words, exit, found && closed && told && err == nil
	}
	return "", unknownExitCode, false
}

// coarseness is how much two times may differ that have the same words; 0 for what is no time in words.
func coarseness(words string) time.Duration {
	const day = 24 * time.Hour
	unit := strings.TrimSuffix(words[strings.LastIndexByte(words, ' ')+1:], "s")
	switch unit {
	case "second":
		return time.Second
	case "minute":
		return time.Minute
	case "hour":
		return time.Hour
	case "day":
		return day
	case "week":
		return 7 * day
	case "month":
		return 30 * day
	case "year":
		return 365 * day
	}
	return 0
}

// sameRun reports whether both accounts are of the same run of the same container, with the same end.
func (s *containerStatus) sameRun(old *containerStatus) bool {
	return s.id == old.id && s.started.Equal(old.started) && s.stopped == old.stopped && s.exitCode == old.exitCode
}

// epochSeconds is a time as Prometheus wants it, to the millisecond as its own timestamps are.
func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// trouble is what a person should know of the container; "" if all is well.
func (s *containerStatus) trouble() string {
	switch {
	case s.health == container.Unhealthy:
		return s.name + " is unhealthy"
	case s.state == container.StateRunning, s.state == container.StateCreated:
		return ""
	case s.stopped && s.exitCode == 0 && s.state == container.StateExited:
		return "" // a one-shot that has done its work looks like this
	case s.stopped:
		return fmt.Sprintf("%s is %s, exit code %d", s.name, s.state, s.exitCode)
	}
	return s.name + " is " + s.state
}

// summaryHealth is how a list tells the health of a container: in words for people, such as "Up 2 hours (unhealthy)".
var summaryHealth = regexp.MustCompile(`\((healthy|unhealthy|health: starting)\)`)

// summaryExit is how a list tells the exit code, such as "Exited (137) 2 hours ago".
var summaryExit = regexp.MustCompile(`^Exited \((\d+)\)`)

// unknownExitCode stands for an exit code that nobody told; real ones are from 0 on.
const unknownExitCode = -1

// ownName is a container's name among those that the engine lists: links of the old kind add names such as
// /other/alias. It is "" where there is none.
func ownName(names []string) string {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") {
			return n
		}
	}
	return ""
}

// fromSummary makes an account of what a list says of a container. It does not know when the container was started; and
// of a container in any state but running, the list says no health.
func fromSummary(l *container.Summary) *container.InspectResponse {
	state := &container.State{Status: l.State, Running: l.State == container.StateRunning, Paused: l.State == container.StatePaused}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil {
		status := strings.TrimPrefix(found[1], "health: ")
		// The list has no failing streak. It says unhealthy only of a container that was found so.
		state.Health = &container.Health{Status: status, FailingStreak: 1}
	}
	c := &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: l.ID, State: state},
		Config:            &container.Config{Labels: l.Labels, Image: l.Image},
	}
	c.Name = "/" + ownName(l.Names)
	if l.Created > 0 {
		c.Created = time.Unix(l.Created, 0).UTC().Format(time.RFC3339Nano)
	}
	state.ExitCode = unknownExitCode
	if found := summaryExit.FindStringSubmatch(l.Status); found != nil {
		if code, err := strconv.Atoi(found[1]); err == nil {
			state.ExitCode = code
		}
	}
	return c
}
