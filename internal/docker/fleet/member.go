package fleet

import "time"

// Member is a watched container: one name, whichever container has it.
type Member struct {
	Record
	Status Status
	// Unsure is true where what is known may be old, and it is to be inspected when next the engine is asked.
	Unsure bool
	ages   ages
	// ahead is by how much the engine's clock was ahead of ours at the last description; 0 if that may be the time that it took.
	ahead time.Duration
	// startable says that nothing kept compose from starting it since it was made, so that it is down.
	startable bool
}

// Record is the part of a member that outlives the process.
type Record struct {
	ID string `json:"id"`
	tally
	lifecycle

	// Blind says that only a list has told of the container yet, which knows neither starts nor restarts.
	Blind bool `json:"blind,omitempty"`
	// DependsOn is compose's label, NetworkOf the name of the member whose network this one uses.
	DependsOn string `json:"depends_on,omitempty"`
	NetworkOf string `json:"network_of,omitempty"`
	// HostNames are what the exporter reaches it by, with spaces between them.
	HostNames string `json:"host_names,omitempty"`

	Labels
}

// Memory is what is kept over restarts of the exporter.
type Memory struct {
	// Host is the engine that it is about.
	Host string `json:"host"`
	// Labels are those that the watched containers had.
	Labels     []string          `json:"labels,omitempty"`
	Containers map[string]Record `json:"containers"`
}

// newborn are the ledgers of a container that was not yet described. seen is true if its creation was.
type newborn struct {
	starts startLedger
	ooms   oomLedger
	seen   bool
	// replaces is the name that is to be its own, while it has a temporary one.
	replaces string
}

// lifecycle is whether a member's container exists, and whether it should. Only its methods change it.
type lifecycle struct {
	// present is true while a container of that name exists.
	present bool
	// Wanted says that the container should be running.
	Wanted bool `json:"expected"`
	// ByHand is true where somebody has stopped it.
	ByHand bool `json:"by_hand,omitempty"`
	// RenamedFrom is the name that its container had before, until RenamedAt. SetAside says that another container took that
	// soon, so that this one is what a deploy has left.
	RenamedFrom string    `json:"renamed_from,omitempty"`
	RenamedAt   time.Time `json:"renamed_at,omitzero"`
	SetAside    bool      `json:"set_aside,omitempty"`
	// Gone is when it was seen last, zero while it exists. Removed says that an event has told of its removal.
	Gone    time.Time `json:"gone,omitzero"`
	Removed bool      `json:"removed,omitempty"`
}

// appear records that the container exists.
func (l *lifecycle) appear() { l.present, l.Gone, l.Removed = true, time.Time{}, false }

// vanish records that no container of that name exists any more.
func (l *lifecycle) vanish(now time.Time) { l.present, l.Gone = false, now }

// remove records that somebody has removed the container. Replaced says that another one is about to take its name.
func (l *lifecycle) remove(replaced bool) { l.Removed = !replaced }

// start records that the container has been started.
func (l *lifecycle) start() { l.ByHand = false }

// stop records that somebody has stopped the container. If it is missed, whatever it has ended with does not mean that it is done.
func (l *lifecycle) stop(missed bool) { l.ByHand, l.Wanted = true, l.Wanted || missed }

// become forgets what happened to the container that had the name before.
func (l *lifecycle) become() {
	l.ByHand, l.RenamedFrom, l.RenamedAt, l.SetAside = false, "", time.Time{}, false
}

// rename records the former name of the container. SetAside says that the former name is another container's already.
func (l *lifecycle) rename(from string, now time.Time, setAside bool) {
	l.RenamedFrom, l.RenamedAt, l.SetAside = from, now, setAside
}

// expect records whether the container should be running.
func (l *lifecycle) expect(wanted bool) { l.Wanted = wanted }

// setAside records that another container took its former name soon, so that it is what a deploy has left.
func (l *lifecycle) setAside(wanted bool) { l.SetAside, l.Wanted = true, wanted }

// ages is how far the ages that lists tell of a member's runs can be believed. Only its methods change it.
type ages struct {
	// described is when its last description was made, by the engine's clock at the earliest; zero where that does not tell.
	described time.Time
	// differed says that a list told another age of its run than was known, and lie that an inspection then found the same
	// run: the list's ages are counted by another clock than the descriptions' times.
	differed, lie bool
}

// compare records whether a list told another age than was known.
func (a *ages) compare(differed bool) { a.differed = differed }

// describe records a description that was made then, and whether it is of the run that was known.
func (a *ages) describe(made time.Time, sameRun bool) {
	a.described, a.differed, a.lie = made, false, sameRun && (a.lie || a.differed)
}
