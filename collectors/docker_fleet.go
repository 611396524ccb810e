package collectors

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var (
	containerRestartsDesc = prometheus.NewDesc("chatstack_container_restarts_total",
		"Restarts of the container, by policy or by hand. Exact while the engine's events flow; after a gap the larger of the policy's own count and one if the container was started anew.",
		[]string{"container", "docker_host"}, nil)
	containerRecreationsDesc = prometheus.NewDesc("chatstack_container_recreations_total",
		"New containers under the same name, as a deploy makes them. They are no restarts.",
		[]string{"container", "docker_host"}, nil)
	containerOOMEventsDesc = prometheus.NewDesc("chatstack_container_oom_events_total",
		"How often the kernel has ended a process of the container for want of memory.",
		[]string{"container", "docker_host"}, nil)
	containerExpectedDesc = prometheus.NewDesc("chatstack_container_expected",
		"Whether the container should be running: 0 for one that has done its work, was never started, waits for one that is starting, is thrown away when it ends, or was removed by somebody and is not named by the configuration.",
		[]string{"container", "docker_host"}, nil)
	containerDependencyDesc = prometheus.NewDesc("chatstack_container_dependency",
		"1 where the container needs another one: by compose's depends_on, or because it uses its network.",
		[]string{"container", "depends_on", "docker_host"}, nil)
)

// fleet is what is known of an engine's containers, put together of lists, descriptions and events. It asks nobody. It is
// not safe for concurrent use.
//
// What is asked takes time, in which events come in. So whoever asks takes a mark first, and what was asked is thrown away
// where an event has come since: that event has the container described anew.
type fleet struct {
	settings *Docker
	// served are the names of the containers that serve targets, by the configuration.
	served []string
	// members are the watched containers by name, those that are gone among them.
	members map[string]*member
	// names are the lasting names of the containers that exist, by id.
	names map[string]string
	// newborn are containers without a member: their lasting name is still another's, or they were not yet described.
	newborn map[string]*newborn
	// touched is the mark of the last event of a container, by id. Those of a container that is gone stay until a list
	// without it shows that nobody can speak of it any more.
	touched map[string]uint64
	mark    uint64
	// followed is since when the engine's events are followed, by its own clock; zero where they are not.
	followed time.Time
	// doubtful are containers that a list knew otherwise than their last event left them, by id, and since when.
	doubtful map[string]time.Time
	// quick and slow are where the two rounds of inspections go on that nothing has given a reason for, listedAt is when a
	// list was taken in last.
	quick, slow turn
	listedAt    time.Time
	// order are the ids of the chosen containers in the last list's order, which the next one most likely has too.
	order []string
	// displaced are the ids of those that the list about to be taken in leaves out since there are too many.
	displaced []string
	// held was kept of an engine at another address, until a list shows whether it is the same one.
	held *fleetMemory
	// savedCounts are the counters by name as they were last saved, and the ones shown; nil where nothing is saved.
	savedCounts map[string]counts
}

// counts are the counters of a member.
type counts struct{ restarts, recreations, ooms uint64 }

// newborn are the ledgers of a container that was not yet described. seen is true if its creation was.
type newborn struct {
	starts startLedger
	ooms   oomLedger
	seen   bool
	// replaces is the name that is to be its own, while it has a temporary one.
	replaces string
}

// member is a watched container: one name, whatever container bears it.
type member struct {
	memberRecord
	status containerStatus
	// here is true while a container of that name exists.
	here bool
	// unsure is true where what is known may be old, and it is to be inspected when next the engine is asked.
	unsure bool
	// described is when its last description was made, by the engine's clock at the earliest; zero where that does not tell.
	described time.Time
	// differed says that it is inspected since a list told another age of its run than was known, and agesLie that this has
	// come to nothing: the list's ages are counted by another clock than the descriptions' times.
	differed, agesLie bool
	// waiting says that compose is yet to start the container, since one that must be healthy before is starting. waitOver
	// says that nothing kept it waiting any more, so that it is down.
	waiting, waitOver bool
}

// memberRecord is the part of a member that outlives the process.
type memberRecord struct {
	ID     string      `json:"id"`
	Starts startLedger `json:"starts"`
	OOMs   oomLedger   `json:"ooms"`
	// Born is true if the container's first start was counted, which is no restart.
	Born bool `json:"born,omitempty"`
	// Before are the restarts, and OOMsBefore the others, of the containers that bore the name before.
	Before      uint64 `json:"restarts_before,omitempty"`
	OOMsBefore  uint64 `json:"ooms_before,omitempty"`
	Recreations uint64 `json:"recreations,omitempty"`
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

	// Blind says that only a list has told of the container yet, which knows neither starts nor restarts.
	Blind bool `json:"blind,omitempty"`
	// DependsOn is compose's label, NetworkOf the name of the member whose network this one uses.
	DependsOn string `json:"depends_on,omitempty"`
	NetworkOf string `json:"network_of,omitempty"`

	Role    string `json:"role,omitempty"`
	Project string `json:"project,omitempty"`
	Service string `json:"service,omitempty"`
	Image   string `json:"image,omitempty"`
}

func newFleet(s *Docker) *fleet {
	return &fleet{
		settings: s, members: map[string]*member{}, names: map[string]string{}, newborn: map[string]*newborn{},
		touched: map[string]uint64{}, doubtful: map[string]time.Time{},
	}
}

// fleetMemory is what is kept over restarts of the exporter.
type fleetMemory struct {
	// Host is the engine that it is about.
	Host string `json:"host"`
	// Labels are those that the watched containers had.
	Labels     []string                `json:"labels,omitempty"`
	Containers map[string]memberRecord `json:"containers"`
}

// watchesStill reports whether a container that was watched is still chosen, as far as that can be told without it.
func (s *Docker) watchesStill(name, project string, labels []string) bool {
	kept := *s
	kept.Labels = nil
	return slices.Equal(labels, s.Labels) && kept.watches(name, map[string]string{composeProject: project})
}

// remember returns what is to be kept. Before the first list, that is what was kept of an engine at another address.
func (f *fleet) remember() fleetMemory {
	if f.held != nil {
		return *f.held
	}
	m := fleetMemory{Host: f.settings.Host, Labels: f.settings.Labels, Containers: make(map[string]memberRecord, len(f.members))}
	for name, c := range f.members {
		if c.ID != "" {
			m.Containers[name] = c.memberRecord
		}
	}
	return m
}

// recall takes in what was kept. Whether the containers still exist is not known yet.
func (f *fleet) recall(m fleetMemory, now time.Time) {
	m.Containers = f.settings.admissible(m.Containers)
	if len(m.Containers) == 0 {
		return
	}
	if m.Host != f.settings.Host {
		f.held = &m
		return
	}
	for name, kept := range m.Containers {
		c := &member{memberRecord: kept}
		c.Starts = c.Starts.resumed()
		if c.Gone.IsZero() {
			c.Gone = now
		}
		if !f.settings.watchesStill(name, kept.Project, m.Labels) {
			c.Wanted = false // it may be none of ours any more
		}
		f.members[name] = c
		// One that was renamed has its former name beside its present one.
		if _, taken := f.names[kept.ID]; !taken || kept.Gone.IsZero() {
			f.names[kept.ID] = name
		}
	}
}

// recallHeld takes in what was kept of an engine at another address if a container of it is in the list: such as one that
// is asked through a proxy now. Another engine's containers are others, whatever their names.
func (f *fleet) recallHeld(l *listing, now time.Time) {
	if f.held == nil {
		return
	}
	held := *f.held
	f.held = nil
	for _, kept := range held.Containers {
		if slices.ContainsFunc(l.all, func(c container.Summary) bool { return c.ID == kept.ID }) {
			held.Host = f.settings.Host
			f.recall(held, now)
			return
		}
	}
}

// expect adds the containers that the configuration names as expected.
func (f *fleet) expect(now time.Time) {
	for _, name := range f.settings.Expected {
		c := f.members[name]
		if c == nil {
			role := f.settings.Roles[name]
			if role == "" {
				role = inferRole("", "", name)
			}
			c = &member{memberRecord: memberRecord{Gone: now, Role: role}}
			f.members[name] = c
		}
		c.Wanted = true
	}
}

// eventActions are the events that are asked for: those that change a number or a state.
var eventActions = []events.Action{
	events.ActionCreate, events.ActionStart, events.ActionRestart, events.ActionStop, events.ActionDie, events.ActionOOM,
	events.ActionPause, events.ActionUnPause, events.ActionRename, events.ActionUpdate, events.ActionDestroy, events.ActionHealthStatus,
}

// event takes in an event and reports whether the container is to be inspected now.
func (f *fleet) event(e *events.Message, now time.Time) (inspect bool) {
	id, name := e.Actor.ID, e.Actor.Attributes["name"]
	if !validContainerName(id) {
		return false // an id becomes part of a request's path
	}
	if _, known := f.names[id]; !known && (!f.settings.watches(lastingName(name), e.Actor.Attributes) || f.newborn[id] == nil && f.full()) {
		return false
	}
	f.mark++
	f.touched[id] = f.mark
	delete(f.doubtful, id)
	at := time.Unix(0, e.TimeNano)
	switch e.Action {
	case events.ActionDestroy:
		if c := f.lastMember(id, name); c != nil {
			c.Removed = !f.beingReplaced(c)
		}
		f.gone(id, now)
		return false
	case events.ActionCreate:
		if f.member(id) == nil {
			f.child(id).seen = true
		}
	case events.ActionStart:
		starts, _ := f.ledgers(id)
		starts.event(at)
		if c := f.member(id); c != nil {
			c.ByHand = false
		}
	case events.ActionOOM:
		_, ooms := f.ledgers(id)
		ooms.event(at)
	case events.ActionDie:
		// It may be removed before anybody can ask how it ended.
		if code, err := strconv.Atoi(e.Actor.Attributes["exitCode"]); err == nil {
			f.died(id, name, code)
		}
	case events.ActionStop:
		f.stopped(id, name)
	default: // what it means is in the description
	}
	return true
}

// member is the member whose present container this is, or nil.
func (f *fleet) member(id string) *member {
	if c := f.members[f.names[id]]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// lastMember is the member whose container this is, or was when it was there last; nil if there is none.
func (f *fleet) lastMember(id, name string) *member {
	if present, ok := f.names[id]; ok {
		name = present
	}
	if c := f.members[name]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// died applies the exit code of a container's last run.
func (f *fleet) died(id, name string, code int) {
	c := f.lastMember(id, name)
	if c == nil || c.status.id != id || c.SetAside {
		return
	}
	ended := c.status
	ended.state, ended.stopped, ended.exitCode = container.StateExited, true, code
	c.Wanted = ended.expected(c.ByHand) || slices.Contains(f.settings.Expected, c.status.name)
}

// stopped applies that somebody has stopped a container, so that whatever it has ended with does not mean that it is done.
func (f *fleet) stopped(id, name string) {
	c := f.lastMember(id, name)
	if c == nil {
		return
	}
	c.ByHand = true
	c.Wanted = c.Wanted || c.status.id == id && !c.status.autoRemove && !c.SetAside
}

// beingReplaced reports whether another container is there to take the member's name, so that the name is wanted.
func (f *fleet) beingReplaced(c *member) bool {
	for _, n := range f.newborn {
		if n.replaces != "" && f.members[n.replaces] == c {
			return true
		}
	}
	return false
}

func (f *fleet) child(id string) *newborn {
	n := f.newborn[id]
	if n == nil {
		n = &newborn{}
		f.newborn[id] = n
	}
	return n
}

func (f *fleet) ledgers(id string) (*startLedger, *oomLedger) {
	if c := f.member(id); c != nil {
		return &c.Starts, &c.OOMs
	}
	n := f.child(id)
	return &n.starts, &n.ooms
}

// newerThan reports whether an event of the container has come since the mark.
func (f *fleet) newerThan(mark uint64, id string) bool { return f.touched[id] > mark }

// listing is an engine's list and what is known of it.
type listing struct {
	// all are the containers in it, chosen those of them that may be watched.
	all, chosen []container.Summary
	// made is when the engine has made it, which was after the mark.
	made clockSpan
	mark uint64
	// full has all of the chosen inspected. following says that events flow, which should have told of any change unless the
	// stream is settling.
	full, following, settling bool
	// early are the containers, by id, that were described while the list was made, since it is about to be their turn.
	early map[string]bool
}

// strict reports whether a change that no event has told of speaks against the stream.
func (l *listing) strict() bool { return l.following && !l.full && !l.settling }

// listed takes in a list and returns the containers of it that are to be inspected: all of them if it is full, else those of
// which the list knows something else than we, those that may change without a word, and a few in turn.
func (f *fleet) listed(l *listing, now time.Time) []container.Summary {
	f.recallHeld(l, now)
	f.leaveOut()
	f.compareNames(l, now)
	var wanted []container.Summary
	f.quick.next(len(l.chosen), quickTurn)
	f.slow.next(len(l.chosen), slowLists(now.Sub(f.listedAt)))
	f.listedAt, f.order = now, f.order[:0]
	for i := range l.chosen {
		one := &l.chosen[i]
		f.order = append(f.order, one.ID)
		c := f.member(one.ID)
		if !l.full && c != nil && c.here && !c.unsure && !f.mayDiffer(c, l, i) {
			continue
		}
		// One that was described early is known as it was after the list was made, perhaps.
		if l.strict() && !l.early[one.ID] && !f.newerThan(l.mark, one.ID) && f.surprising(c, one) {
			f.doubt(one.ID, true, now)
		}
		wanted = append(wanted, *one)
	}
	return wanted
}

// turnAhead are the containers whose turn it will be with the next list, as far as that can be told before it is made.
func (f *fleet) turnAhead(now time.Time) []container.Summary {
	next := f.slow
	next.next(len(f.order), slowLists(now.Sub(f.listedAt)))
	var ahead []container.Summary
	for _, id := range f.order[next.first:next.last] {
		if c := f.member(id); c != nil && c.here && !c.unsure {
			ahead = append(ahead, container.Summary{ID: id})
		}
	}
	return ahead
}

// describedEarly takes in what inspections of containers found that began after the mark, and returns which of them need no
// other.
func (f *fleet) describedEarly(ahead []container.Summary, looked []inspection, mark uint64, now time.Time) (map[string]bool, error) {
	early := make(map[string]bool, len(looked))
	for i, d := range looked {
		switch {
		case d.InspectResponse != nil:
			if err := f.described(d.InspectResponse, mark, d.made, now); err != nil {
				return nil, err
			}
			early[ahead[i].ID] = true
		case d.stumbled: // nobody waits for it twice in one reading
			early[ahead[i].ID] = true
		default: // it is gone, as the list will show
		}
	}
	return early, nil
}

// compareNames takes in which containers exist.
func (f *fleet) compareNames(l *listing, now time.Time) {
	exist := make(map[string]bool, len(l.all))
	for i := range l.all {
		exist[l.all[i].ID] = true
	}
	for id := range f.names {
		if !exist[id] && !f.newerThan(l.mark, id) {
			f.doubt(id, l.strict(), now)
			f.gone(id, now)
		}
	}
	for id := range f.newborn {
		if !exist[id] && !f.newerThan(l.mark, id) {
			f.forget(id)
		}
	}
	for id := range f.touched {
		if !exist[id] && !f.newerThan(l.mark, id) {
			delete(f.touched, id)
		}
	}
}

// mayDiffer reports whether there may be more to know of a member, the i-th of those that are chosen, than what is known.
func (f *fleet) mayDiffer(c *member, all *listing, i int) bool {
	l := &all.chosen[i]
	age := ageUntold
	if !c.agesLie {
		age = c.status.compareAge(l, all.made, c.described)
	}
	hasTurn := f.slow.has(i)
	if age == ageUntold {
		hasTurn = f.quick.has(i)
	}
	// A list that is older than what is known knows less.
	c.differed = age == ageDiffers && !f.newerThan(all.mark, l.ID) &&
		c.status.started.Before(all.made.from) && c.status.ended.Before(all.made.from)
	switch {
	case age == ageDiffers, wordsOf(l) != c.status.said, c.status.name != lastingName(ownName(l.Names)):
		return true
	case all.early[l.ID]:
		return false
	case age == ageTooCoarse, hasTurn:
		return true
	case l.State != container.StateRunning && l.State != container.StateExited && l.State != container.StateCreated:
		return true
	default:
		return c.status.said.health == container.Unhealthy // the streak grows without events
	}
}

// Without a reason a container is inspected once in so many lists, for what neither events nor lists have told, such as a
// limit that was changed. Where a list does not tell the age of a run either, a restart whose event was lost looks as
// before, so that such a container has its turn more often. Where lists are rare, so has every container.
const (
	slowTurn  = 60
	quickTurn = 10
	slowRound = 30 * time.Minute
)

// slowLists is in how many lists each container has its turn, if they come at that distance.
func slowLists(distance time.Duration) int {
	return int(min(max(slowRound/max(distance, 1), quickTurn), slowTurn))
}

// turn is the part of the containers whose turn it is.
type turn struct{ first, last int }

// next passes the turn on, so that each of n has it once in that many lists.
func (t *turn) next(n, lists int) {
	if t.last >= n {
		t.last = 0
	}
	t.first = t.last
	t.last = min(n, t.first+(n+lists-1)/lists)
}

func (t *turn) has(i int) bool { return i >= t.first && i < t.last }

// surprising reports whether a list tells of a change that an event should have told of before.
func (f *fleet) surprising(c *member, l *container.Summary) bool {
	switch {
	case c == nil:
		_, coming := f.newborn[l.ID]
		return !coming && temporaryName.FindString(ownName(l.Names)) == ""
	case l.State == container.StateRemoving, l.State == container.StateDead:
		return false // no event tells of these
	default:
		return wordsOf(l) != c.status.said
	}
}

func (f *fleet) doubt(id string, following bool, now time.Time) {
	if _, already := f.doubtful[id]; following && !already {
		f.doubtful[id] = now
	}
}

// deaf reports whether an event that should have come has not done so for that long.
func (f *fleet) deaf(now time.Time, patience time.Duration) bool {
	for _, since := range f.doubtful {
		if now.Sub(since) >= patience {
			return true
		}
	}
	return false
}

// described takes in a description that was asked for after the mark, and made by the engine's clock at made at the earliest.
// One that is no container's is Malformed.
func (f *fleet) described(d *container.InspectResponse, mark uint64, made, now time.Time) error {
	s, err := statusOf(d, f.settings.Roles)
	if err != nil {
		return err
	}
	if f.newerThan(mark, s.id) {
		return nil
	}
	if temporaryName.MatchString(s.name) {
		if _, known := f.names[s.id]; !known {
			f.child(s.id).replaces = lastingName(s.name)
		}
		f.stepAside(s.id, now)
		return nil
	}
	if !validContainerName(s.name) || !f.settings.watches(s.name, d.Config.Labels) {
		f.gone(s.id, now)
		return nil
	}
	c := f.bind(&s, now)
	old := c.status
	if !s.listed {
		c.agesLie = s.sameRun(&old) && (c.agesLie || c.differed)
		c.described, c.differed = made, false
	}
	switch {
	case s.listed:
		s.takeOver(&old)
	case c.Blind:
		c.Starts.sight(s.started, s.policyRestarts)
		c.Blind = false
	default:
		c.Starts.described(s.started, s.policyRestarts)
	}
	if s.killedForMemory {
		began := s.started
		if !s.stopped {
			began = time.Time{}
		}
		c.OOMs.described(began, s.ended)
	}
	s.since(&old, now)
	if s.state == container.StateRunning || s.state == container.StatePaused {
		c.ByHand = false
	}
	c.status, c.here, c.Gone, c.Removed, c.unsure = s, true, time.Time{}, false, s.listed
	c.Role, c.Project, c.Service, c.Image, c.DependsOn = s.role, s.project, s.service, s.image, s.dependsOn
	switch {
	case c.SetAside:
		c.Wanted = false
	case s.state == container.StateCreated && !s.autoRemove && c.Recreations > 0:
		c.Wanted = c.Wanted || s.expected(c.ByHand) // a deploy that does not come up is an outage of what was there before
	case !s.going():
		c.Wanted = s.expected(c.ByHand)
	case old.id != s.id:
		c.Wanted = false
	}
	c.Wanted = c.Wanted || slices.Contains(f.settings.Expected, s.name)
	return nil
}

// takeOver fills in what a list does not tell from what was known of the same container before.
func (s *containerStatus) takeOver(old *containerStatus) {
	if old.id != s.id {
		return
	}
	s.created, s.restartPolicy, s.autoRemove, s.memoryLimit = old.created, old.restartPolicy, old.autoRemove, old.memoryLimit
	s.dependsOn, s.networkOf, s.streak = old.dependsOn, old.networkOf, old.streak
	if s.state == old.state {
		s.started, s.pid = old.started, old.pid
	}
}

// bind returns the member of the container's name, which the container is from now on.
func (f *fleet) bind(s *containerStatus, now time.Time) *member {
	before, known := f.names[s.id]
	var former *member // of the name that it had before
	if known && before != s.name {
		former = f.members[before]
		f.renamed(s.id, before, now)
	}
	f.names[s.id] = s.name
	c := f.members[s.name]
	if c != nil && c.ID == s.id {
		if known && before != s.name {
			c.takeBack(former, s)
		}
		return c
	}
	f.setAside(s, now)
	n := f.newborn[s.id]
	delete(f.newborn, s.id)
	fresh := c == nil
	if fresh {
		c = &member{}
		f.members[s.name] = c
	}
	switch {
	case c.ID != "": // another container bore the name
		c.Before, c.OOMsBefore = c.restarts(), c.ooms()
		c.Recreations++
		c.Starts, c.OOMs, c.Born = startLedger{}, oomLedger{}, true
		switch {
		case n != nil:
			c.Starts, c.OOMs = n.starts, n.ooms
		case known: // it is an old one under a new name
			c.Starts, c.Born = sightedLedger(s.started, s.policyRestarts), s.started.IsZero()
			c.Blind = s.listed
		}
	case n != nil && n.seen:
		c.Starts, c.OOMs, c.Born = n.starts, n.ooms, true
	case !f.followed.IsZero() && s.created.After(f.followed) && !s.listed:
		// It was made while the stream was cut: its events may still come, and all of its restarts are news.
		c.Starts, c.Born = startLedger{}, true
	case s.listed:
		c.Blind = true
	default:
		c.Starts, c.Born = sightedLedger(s.started, s.policyRestarts), s.started.IsZero()
	}
	c.ID, c.status, c.ByHand = s.id, containerStatus{}, false
	c.RenamedFrom, c.RenamedAt, c.SetAside, c.waitOver = "", time.Time{}, false, false
	if former != nil {
		// Under a name that is known already, it serves as what had that before.
		c.RenamedFrom, c.RenamedAt, c.SetAside = before, now, fresh && (former.ID != s.id || former.SetAside)
	}
	return c
}

// takeBack applies that a container has the name again that it had before former. What happened meanwhile is counted there.
func (c *member) takeBack(former *member, s *containerStatus) {
	starts, ooms := c.Starts.Starts, c.OOMs.Count
	if former == nil || former.ID != s.id {
		c.Starts.sight(s.started, s.policyRestarts)
		return
	}
	c.Starts, c.OOMs, c.Blind = former.Starts, former.OOMs, former.Blind
	c.Starts.Starts, c.OOMs.Count = starts, ooms
	if starts == 0 { // its first start may have been meanwhile
		c.Born = former.Born && former.Starts.Starts == 0
	}
}

// replacedWithin is how soon after a rename another container takes the former name if that is one deploy.
const replacedWithin = 10 * time.Minute

// setAside takes in that a container bears the former name of another one, which is not missed from then on: somebody has
// put it out of the way, to be removed or gone back to.
func (f *fleet) setAside(s *containerStatus, now time.Time) {
	for name, c := range f.members {
		if c.RenamedFrom == s.name && c.ID != s.id && now.Sub(c.RenamedAt) < replacedWithin {
			c.SetAside, c.Wanted = true, slices.Contains(f.settings.Expected, name)
		}
	}
}

// renamed takes in that a container has another lasting name. Numbers belong to names, so they stay with the old one, which
// is not missed: somebody meant that.
func (f *fleet) renamed(id, from string, now time.Time) {
	if c := f.members[from]; c != nil && c.ID == id {
		c.here, c.Gone, c.Wanted = false, now, slices.Contains(f.settings.Expected, from)
	}
}

// stepAside takes in that a container bears a temporary name: whoever replaces it is about to have its lasting one.
func (f *fleet) stepAside(id string, now time.Time) {
	if c := f.member(id); c != nil && c.here {
		c.here, c.Gone = false, now
	}
}

// gone takes in that a container does not exist any more.
func (f *fleet) gone(id string, now time.Time) {
	if c := f.member(id); c != nil && c.here {
		c.here, c.Gone = false, now
	}
	f.forget(id)
}

func (f *fleet) forget(id string) {
	delete(f.names, id)
	delete(f.newborn, id)
}

// removedShownFor is how long a container is missing that somebody has removed.
const removedShownFor = time.Hour

// removed reports whether somebody has removed the container, and nothing in the configuration wants it to exist.
func (f *fleet) removed(name string, c *member) bool {
	return c.Removed && f.settings.Roles[name] == "" && !slices.Contains(f.settings.Expected, name) && !slices.Contains(f.served, name)
}

// tidy forgets members that are gone and that nobody expects any more.
func (f *fleet) tidy(now time.Time) {
	for name, c := range f.members {
		if c.here || slices.Contains(f.settings.Expected, name) {
			continue
		}
		age := now.Sub(c.Gone)
		forgotten := f.settings.ForgetAfter.Std()
		if f.removed(name, c) && (forgotten == 0 || forgotten > removedShownFor) {
			forgotten = removedShownFor
		}
		if c.status.autoRemove || age >= f.settings.MissingAfter.Std() && !c.Wanted || forgotten > 0 && age >= forgotten {
			delete(f.members, name)
		}
	}
	f.limitGone()
	for id, since := range f.doubtful {
		if now.Sub(since) > time.Hour {
			delete(f.doubtful, id)
		}
	}
}

// forgetGone forgets a member that is gone.
func (f *fleet) forgetGone(name string) error {
	switch c := f.members[name]; {
	case slices.Contains(f.settings.Expected, name):
		return fmt.Errorf("%w: expected names %q; take it out there and reload", ErrContainerNeeded, name)
	case c == nil:
		return fmt.Errorf("%w: %q on docker_host %q", ErrContainerUnknown, failure.OneLine(name), f.settings.Label)
	case c.here:
		return fmt.Errorf("%w: %q exists; to leave it out, add it to exclude", ErrContainerNeeded, name)
	}
	delete(f.members, name)
	return nil
}

// maxGone bounds how many containers are remembered that are gone: names that are never used twice must not pile up.
const maxGone = 500

// limitGone forgets those that have been gone the longest.
func (f *fleet) limitGone() {
	var gone []string
	for name, c := range f.members {
		if !c.here && !slices.Contains(f.settings.Expected, name) {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int { return f.members[b].Gone.Compare(f.members[a].Gone) })
	for _, name := range gone[maxGone:] {
		delete(f.members, name)
	}
}

// doubtMember has a container inspected when next the engine is asked.
func (f *fleet) doubtMember(id string) {
	if c := f.member(id); c != nil {
		c.unsure = true
	}
}

// restarts is the member's count of restarts. It never goes down.
func (c *member) restarts() uint64 {
	n := c.Starts.Starts
	if c.Born && n > 0 {
		n--
	}
	return c.Before + n
}

func (c *member) ooms() uint64 { return c.OOMsBefore + c.OOMs.Count }

func (c *member) counts() counts { return counts{c.restarts(), c.Recreations, c.ooms()} }

// counts are the counters of all members.
func (f *fleet) counts() map[string]counts {
	all := make(map[string]counts, len(f.members))
	for name, c := range f.members {
		all[name] = c.counts()
	}
	return all
}

// missing reports whether the container is expected and has been gone for so long that it is no deploy.
func (f *fleet) missing(c *member, now time.Time) bool {
	return !c.here && c.Wanted && now.Sub(c.Gone) >= f.settings.MissingAfter.Std()
}

// present adds what is known of every member.
func (f *fleet) present(b *Batch, now time.Time) {
	host := f.settings.Label
	services := map[composeUnit][]string{}
	for name, c := range f.members {
		if c.Service != "" {
			unit := composeUnit{c.Project, c.Service}
			services[unit] = append(services[unit], name)
		}
	}
	f.findWaiting(services)
	// What comes in the order of the page need not be sorted there, family by family.
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		c := f.members[name]
		switch {
		case c.here:
			c.status.write(b, host)
		case f.missing(c, now):
			absent := containerStatus{
				name: name, state: stateMissing, health: container.NoHealthcheck,
				role: c.Role, project: c.Project, service: c.Service, image: c.Image,
			}
			absent.write(b, host)
		}
		if c.here || f.missing(c, now) {
			b.Gauge(containerExpectedDesc, boolValue(c.Wanted && !c.waiting && !f.removed(name, c)), name, host)
			for _, other := range f.dependencies(name, c, services) {
				b.Gauge(containerDependencyDesc, 1, name, other, host)
			}
		}
		n := c.counts()
		if f.savedCounts != nil {
			n = f.savedCounts[name]
		}
		b.Counter(containerRestartsDesc, float64(n.restarts), name, host)
		b.Counter(containerRecreationsDesc, float64(n.recreations), name, host)
		b.Counter(containerOOMEventsDesc, float64(n.ooms), name, host)
	}
}

// findWaiting finds the containers that compose has made, and starts later: once others are healthy, which are starting, or
// once others have started, which wait themselves.
func (f *fleet) findWaiting(services map[composeUnit][]string) {
	awaited := map[*member][]condition{}
	for _, c := range f.members {
		c.waiting = false
		if c.here && c.status.state == container.StateCreated {
			awaited[c] = f.awaited(c, services)
		}
	}
	for more := true; more; {
		more = false
		for c, others := range awaited {
			if !c.waiting && !c.waitOver && slices.ContainsFunc(others, condition.delays) {
				c.waiting, more = true, true
			}
		}
	}
	for c, others := range awaited {
		// One that has not been made or started yet will be starting later.
		pending := slices.ContainsFunc(others, func(o condition) bool { return !o.here || o.status.state == container.StateCreated })
		c.waitOver = c.waitOver || !c.waiting && !pending
	}
}

// condition is a member that must have started, or be healthy too, before compose starts another one.
type condition struct {
	*member
	healthy bool
}

// delays reports whether the condition is yet to be met.
func (o condition) delays() bool {
	return o.waiting || o.healthy && o.here && o.status.health == container.Starting
}

// awaited are the first members of which compose wants something before it starts this one.
func (f *fleet) awaited(c *member, services map[composeUnit][]string) []condition {
	var others []condition
	for part := range strings.SplitSeq(c.DependsOn, ",") {
		service, rest, _ := strings.Cut(part, ":")
		wanted, _, _ := strings.Cut(rest, ":")
		for _, name := range services[composeUnit{c.Project, service}] {
			if len(others) == maxDependencies {
				return others
			}
			others = append(others, condition{f.members[name], wanted == "service_healthy"})
		}
	}
	return others
}

// composeUnit is a compose service.
type composeUnit struct{ project, service string }

// dependencies are the names of the members that this one needs: those of the compose services that it depends on, and
// the one whose network it shares.
func (f *fleet) dependencies(name string, c *member, services map[composeUnit][]string) []string {
	var needed []string
	add := func(other string) {
		if other != name && !slices.Contains(needed, other) {
			needed = append(needed, other)
		}
	}
	switch of := c.status.networkOf; {
	case c.here && of == "":
		c.NetworkOf = ""
	case f.names[of] != "":
		c.NetworkOf = f.names[of]
	case f.members[of] != nil: // the network was chosen by name
		c.NetworkOf = of
	default: // whose network it was is gone, or this container is
	}
	if c.NetworkOf != "" {
		add(c.NetworkOf)
	}
	// The label holds service:condition:restart, with commas between them.
	for part := range strings.SplitSeq(c.DependsOn, ",") {
		service, _, _ := strings.Cut(part, ":")
		for _, other := range services[composeUnit{c.Project, service}] {
			if len(needed) == maxDependencies {
				return needed
			}
			add(other)
		}
	}
	return needed
}

// subjects are the running containers whose resources are to be measured, in the order of their ids.
func (f *fleet) subjects() []usage.Subject {
	var subjects []usage.Subject
	for _, c := range f.members {
		if c.here && (c.status.state == container.StateRunning || c.status.state == container.StatePaused) {
			subjects = append(subjects, usage.Subject{
				ID: c.ID, PID: c.status.pid, Limit: c.status.memoryLimit, Started: c.status.started,
			})
		}
	}
	slices.SortFunc(subjects, func(a, b usage.Subject) int { return strings.Compare(a.ID, b.ID) })
	return subjects
}
