package fleet

// tally is what is counted of the containers of one name. No count ever goes down.
type tally struct {
	Starts startLedger `json:"starts"`
	OOMs   oomLedger   `json:"ooms"`
	// Born is true if the container's first start was counted, which is no restart.
	Born bool `json:"born,omitempty"`
	// Before are the restarts, and OOMsBefore the others, of the containers that bore the name before.
	Before      uint64 `json:"restarts_before,omitempty"`
	OOMsBefore  uint64 `json:"ooms_before,omitempty"`
	Recreations uint64 `json:"recreations,omitempty"`
}

// Counts are the counters of a member.
type Counts struct{ Restarts, Recreations, OOMs uint64 }

// Restarts is the count of restarts.
func (t *tally) Restarts() uint64 {
	n := t.Starts.Starts
	if t.Born && n > 0 {
		n--
	}
	return t.Before + n
}

func (t *tally) ooms() uint64 { return t.OOMsBefore + t.OOMs.Count }

func (t *tally) counts() Counts { return Counts{t.Restarts(), t.Recreations, t.ooms()} }

// recreate begins with a new container, of which nothing has been heard.
func (t *tally) recreate() {
	*t = tally{Before: t.Restarts(), OOMsBefore: t.ooms(), Recreations: t.Recreations + 1, Born: true}
}

// adopt counts what events have told of a container before it was described.
func (t *tally) adopt(n *newborn) { t.Starts, t.OOMs, t.Born = n.starts, n.ooms, true }

// sight begins with a container of whose starts nothing was heard.
func (t *tally) sight(s *Status) {
	t.Starts, t.Born = sightedLedger(s.Started, s.policyRestarts), s.Started.IsZero()
}

// takeBack continues with a container that had another name meanwhile, under which former was counted.
func (t *tally) takeBack(former *tally) {
	starts, ooms := t.Starts.Starts, t.OOMs.Count
	t.Starts, t.OOMs = former.Starts, former.OOMs
	t.Starts.Starts, t.OOMs.Count = starts, ooms
	if starts == 0 { // its first start may have been meanwhile
		t.Born = former.Born && former.Starts.Starts == 0
	}
}
