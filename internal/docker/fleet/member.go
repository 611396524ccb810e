package fleet

import "time"

// Member is a watched container name. Replacing the container keeps the member.
type Member struct {
	Record
	Status Status
	// Stale is true if Status may be outdated: the next ApplyList returns the container for inspection.
	Stale bool
	// listedImage is the image in the last list, which shows an id once another image has the name.
	listedImage string
	// clockAhead is how far the engine's clock was ahead of ours at the last description; 0 within clockTolerance.
	clockAhead time.Duration
	// restored is true if the process before knew a container of that name.
	restored bool
	// startable is true once compose has had nothing to wait for, so that a container that was not started is down.
	startable bool
}

// Record is the part of a member that outlives the process.
type Record struct {
	ID string `json:"id"`
	counters
	lifecycle

	// OnlyListed is true until the first description. A list has neither starts nor restarts.
	OnlyListed bool `json:"blind,omitempty"`
	// DependsOn is compose's label, NetworkOf the name of the member whose network this one uses.
	DependsOn string `json:"depends_on,omitempty"`
	NetworkOf string `json:"network_of,omitempty"`
	// HostNames are the names by which the exporter reaches it, separated by spaces.
	HostNames string `json:"host_names,omitempty"`

	Labels

	// LastExit is how the last run ended; zero while it runs. AutoRemove is true if the container removes itself when it ends.
	LastExit   exit `json:"last_exit,omitzero"`
	AutoRemove bool `json:"auto_remove,omitempty"`
	// OneShot is true once a short run has ended by itself with 0, and the engine did not start it again.
	OneShot bool `json:"one_shot,omitempty"`
	// Recorded is the id of the container that its workload has recorded, Counted the counters that it has added to its own.
	Recorded string `json:"recorded,omitempty"`
	Counted  Counts `json:"counted,omitzero"`
}

// Memory is the state of a fleet that survives restarts of the exporter.
type Memory struct {
	// Host is the engine's address.
	Host string `json:"host"`
	// Labels is the setting labels as of the save, which chose the containers.
	Labels     []string          `json:"labels,omitempty"`
	Containers map[string]Record `json:"containers"`
	// Workloads is absent in the state of versions that judged each container alone.
	Workloads map[string]workload `json:"workloads,omitempty"`
}

// pendingContainer counts the events of a container without a member.
type pendingContainer struct {
	starts startCounter
	ooms   oomCounter
	// creationSeen is true if its creation had an event.
	creationSeen bool
	// replaces is the lasting name that it is about to take, while its own is temporary.
	replaces string
	// created is when its creation had an event, labels what that said. asked and exit are as in a member.
	created time.Time
	labels  Labels
	askedAt time.Time
	exit    exit
}

// lifecycle is whether a member's container exists, and whether it should. Only its methods change it.
type lifecycle struct {
	// present is true while a container of that name exists.
	present bool
	// Expected is true if the container should be running.
	Expected bool `json:"expected"`
	// StoppedByHand is true if somebody has stopped it. AskedAt is when somebody last asked for the end of its present run.
	StoppedByHand bool      `json:"by_hand,omitempty"`
	AskedAt       time.Time `json:"asked,omitzero"`
	// RenamedFrom is the name that its container had until RenamedAt. SetAside is true if a new container took that name soon
	// after, so that this one is left over from a deploy.
	RenamedFrom string    `json:"renamed_from,omitempty"`
	RenamedAt   time.Time `json:"renamed_at,omitzero"`
	SetAside    bool      `json:"set_aside,omitempty"`
	// GoneSince is when the container ceased to exist; zero while it exists. Removed is true if somebody removed it.
	GoneSince time.Time `json:"gone,omitzero"`
	Removed   bool      `json:"removed,omitempty"`
}

// markPresent records that the container exists.
func (l *lifecycle) markPresent() { l.present, l.GoneSince, l.Removed = true, time.Time{}, false }

// markGone records that no container of that name exists.
func (l *lifecycle) markGone(now time.Time) { l.present, l.GoneSince = false, now }

// markRemoved records that somebody has removed the container. A container that is being replaced does not count.
func (l *lifecycle) markRemoved(replaced bool) { l.Removed = !replaced }

// markStarted records that the container runs since then.
func (l *lifecycle) markStarted(at time.Time) {
	l.StoppedByHand = false
	if at.After(l.AskedAt) {
		l.AskedAt = time.Time{}
	}
}

// markStopped records that somebody has stopped the container. ExpectAgain keeps it expected whatever its exit code.
func (l *lifecycle) markStopped(expectAgain bool) {
	l.StoppedByHand, l.Expected = true, l.Expected || expectAgain
}

// resetHistory forgets what happened to the previous container of that name.
func (l *lifecycle) resetHistory() {
	*l = lifecycle{
		present:   l.present,
		Expected:  l.Expected,
		GoneSince: l.GoneSince,
		Removed:   l.Removed,
	}
}

// markRenamed records the former name of the container. SetAside is true if another container already has that name.
func (l *lifecycle) markRenamed(from string, now time.Time, setAside bool) {
	l.RenamedFrom, l.RenamedAt, l.SetAside = from, now, setAside
}

// setExpected records whether the container should be running.
func (l *lifecycle) setExpected(expected bool) { l.Expected = expected }

// markSetAside records that another container took its former name soon after, so that it is left over from a deploy.
func (l *lifecycle) markSetAside(expected bool) { l.SetAside, l.Expected = true, expected }
