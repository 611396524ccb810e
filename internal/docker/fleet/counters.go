package fleet

// counters count what happens to the containers of one name. No count ever goes down.
type counters struct {
	Starts startCounter `json:"starts"`
	OOMs   oomCounter   `json:"ooms"`
	// CountsFirstStart is true if Starts includes the container's first start, which is not a restart.
	CountsFirstStart bool `json:"born,omitempty"`
	// RestartsBefore and OOMsBefore are the counts of earlier containers with the same name.
	RestartsBefore uint64 `json:"restarts_before,omitempty"`
	OOMsBefore     uint64 `json:"ooms_before,omitempty"`
	Recreations    uint64 `json:"recreations,omitempty"`
	// Successions counts the restarts that were new containers.
	Successions uint64 `json:"successions,omitempty"`
	// Runs counts the starts that began another run of a container that had done its work: these are no restarts.
	Runs uint64 `json:"runs,omitempty"`
}

// Counts are the counters of a member.
type Counts struct {
	Restarts    uint64 `json:"restarts,omitempty"`
	Recreations uint64 `json:"recreations,omitempty"`
	OOMs        uint64 `json:"ooms,omitempty"`
}

// add adds the counters of a member.
func (c *Counts) add(n Counts) {
	c.Restarts += n.Restarts
	c.Recreations += n.Recreations
	c.OOMs += n.OOMs
}

// Restarts returns how often the containers of this name were restarted.
func (t *counters) Restarts() uint64 {
	n := t.Starts.Total
	if t.CountsFirstStart && n > 0 {
		n--
	}
	return t.RestartsBefore + n - min(t.Runs, n)
}

func (t *counters) ooms() uint64 { return t.OOMsBefore + t.OOMs.Count }

func (t *counters) counts() Counts { return Counts{t.Restarts(), t.Recreations, t.ooms()} }

// replaceContainer starts counting for a new container, which restarts or replaces the old one, and adds up the old one's counts.
func (t *counters) replaceContainer(restart bool) {
	*t = counters{
		RestartsBefore:   t.Restarts(),
		OOMsBefore:       t.ooms(),
		Recreations:      t.Recreations,
		Successions:      t.Successions,
		CountsFirstStart: true,
	}
	if restart {
		t.RestartsBefore++
		t.Successions++
	} else {
		t.Recreations++
	}
}

// addEvents counts from the container's creation on, with the events that arrived before its first description, if any.
func (t *counters) addEvents(n *pendingContainer) {
	if t.CountsFirstStart = true; n != nil {
		t.Starts, t.OOMs = n.starts, n.ooms
	}
}

// startFrom starts counting for a container whose earlier starts are unknown.
func (t *counters) startFrom(s *Status) {
	t.Starts, t.CountsFirstStart = startCounterFrom(s.Started, s.policyRestarts), s.Started.IsZero()
}

// resume continues counting for a container that had another name for a while. former are the counters of that name.
func (t *counters) resume(former *counters) {
	starts, ooms := t.Starts.Total, t.OOMs.Count
	t.Starts, t.OOMs = former.Starts, former.OOMs
	t.Starts.Total, t.OOMs.Count = starts, ooms
	if starts == 0 { // it may have been started for the first time under the other name
		t.CountsFirstStart = former.CountsFirstStart && former.Starts.Total == 0
	}
}
