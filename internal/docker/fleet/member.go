package fleet

import "time"

// Member is a watched container: one name, whichever container has it.
type Member struct {
	Record
	Status Status
	// Unsure is true where what is known may be old, and it is to be inspected when next the engine is asked.
	Unsure bool
	// Described is when its last description was made, by the engine's clock at the earliest; zero where that does not tell.
	Described time.Time
	// differed says that it is inspected since a list told another age of its run than was known, and agesLie that this has
	// come to nothing: the list's ages are counted by another clock than the descriptions' times.
	differed, AgesLie bool
	// waiting says that compose is yet to start the container, since one that must be healthy before is starting. waitOver
	// says that nothing kept it waiting any more, so that it is down.
	waiting, waitOver bool
}

// Record is the part of a member that outlives the process.
type Record struct {
	ID     string      `json:"id"`
	Starts startLedger `json:"starts"`
	OOMs   oomLedger   `json:"ooms"`
	// Born is true if the container's first start was counted, which is no restart.
	Born bool `json:"born,omitempty"`
	// Before are the restarts, and OOMsBefore the others, of the containers that bore the name before.
	Before      uint64 `json:"restarts_before,omitempty"`
	OOMsBefore  uint64 `json:"ooms_before,omitempty"`
	Recreations uint64 `json:"recreations,omitempty"`
	lifecycle

	// Blind says that only a list has told of the container yet, which knows neither starts nor restarts.
	Blind bool `json:"blind,omitempty"`
	// DependsOn is compose's label, NetworkOf the name of the member whose network this one uses.
	DependsOn string `json:"depends_on,omitempty"`
	NetworkOf string `json:"network_of,omitempty"`

	Labels
}

// Counts are the counters of a member.
type Counts struct{ Restarts, Recreations, OOMs uint64 }

// Restarts is the member's count of restarts. It never goes down.
func (c *Member) Restarts() uint64 {
	n := c.Starts.Starts
	if c.Born && n > 0 {
		n--
	}
	return c.Before + n
}

func (c *Member) ooms() uint64 { return c.OOMsBefore + c.OOMs.Count }

func (c *Member) counts() Counts { return Counts{c.Restarts(), c.Recreations, c.ooms()} }

// takeBack applies that a container has the name again that it had before former. What happened meanwhile is counted there.
func (c *Member) takeBack(former *Member, s *Status) {
	starts, ooms := c.Starts.Starts, c.OOMs.Count
	if former == nil || former.ID != s.id {
		c.Starts.sight(s.Started, s.policyRestarts)
		return
	}
	c.Starts, c.OOMs, c.Blind = former.Starts, former.OOMs, former.Blind
	c.Starts.Starts, c.OOMs.Count = starts, ooms
	if starts == 0 { // its first start may have been meanwhile
		c.Born = former.Born && former.Starts.Starts == 0
	}
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

// lifecycle is whether a member's container exists, and whether it should. It changes by its methods.
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

// becomeOther forgets what happened to the container that had the name before.
func (l *lifecycle) becomeOther() {
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
