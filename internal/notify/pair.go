package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// This file is about a pair: exporters that watch the same targets and have the same receivers. All of them make every message. The first
// sends it at once. The others wait, and drop it when one of those before them says that it has told as much. So nothing depends on an
// exporter that is gone, cut off, or cannot reach a receiver.

const (
	// standIn is how long an exporter waits for each of those before it: with an answer, or with what it has to tell.
	standIn = 3 * time.Minute
	// apart is how much earlier another exporter of the pair may notice the same.
	apart = 2 * time.Minute
	// firstLook is how long after the start something is noticed that may have been there before.
	firstLook = 10 * time.Minute
	// askedAgain is how long a message waits until those before this exporter were asked once more: one may just have come back. After the
	// start or a reload, firstAnswer is how long to wait for the first answers.
	askedAgain, firstAnswer = time.Minute, 15 * time.Second
	// sameTime is how far apart the same time may seem to be that was heard twice.
	sameTime = 2 * time.Second
	// keepFacts is how long others may have been away and still learn what was told; maxFacts is how much that is for one receiver.
	keepFacts, maxFacts = 24 * time.Hour, 500
)

// Pair is an exporter's place in its pair. The zero Pair is for an exporter without one.
type Pair struct {
	// ID is another one for each process, so that an exporter knows itself. Name is for people.
	ID, Name string
	// Role is config.PairFirst or config.PairOther.
	Role string
	// Peers are addresses of the exporters, in the order in which they send. This one may be among them.
	Peers []string
	// Targets are what it watches, the same in all of them.
	Targets []string
}

// Account is what an exporter says to the others of its pair.
type Account struct {
	Schema status.Schema `json:"schema"`
	ID     string        `json:"id"`
	Name   string        `json:"name"`
	Role   string        `json:"pair"`
	// Now is the time by its clock.
	Now     time.Time `json:"now"`
	Targets []string  `json:"targets"`
	// Told is what it has told, or has heard that another one has, by the names of the receivers, the oldest first.
	Told map[string][]fact `json:"told"`
}

// fact is how far a cause has got, as somebody was told.
type fact struct {
	Problems []problemKey `json:"problems"`
	Stage    stage        `json:"stage"`
	// At is when it was told, By the ID of the exporter that did. In a message that waits, At is since when another one may have told it.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// isAbout reports whether two facts are about the same cause.
func (f *fact) isAbout(o *fact) bool {
	return slices.ContainsFunc(f.Problems, func(k problemKey) bool { return slices.Contains(o.Problems, k) })
}

// facts are what news tells, without what is wrong with this exporter itself; nil for what people wrote, and without a pair. Others may
// have told it since a little before it was noticed here; what was so when this exporter started, since its last message about it.
func (n *Notifier) facts(item *news) (list []fact) {
	if item.kind == text || n.pair.Role == "" {
		return nil
	}
	for _, t := range item.threads {
		if t.isOwn() {
			continue
		}
		f := t.fact()
		f.Stage, f.By = item.receiver.visible(t.Stage), n.pair.ID
		noticed, earliest := t.Stages[t.Stage], time.Time{}
		switch {
		case item.kind == over:
			f.Stage, noticed, earliest = silent, item.ended, item.told
		case !t.Cleared.IsZero():
			f.Stage, noticed = silent, t.Cleared
		}
		if f.At = noticed.Add(-apart); noticed.Sub(n.begun) < firstLook {
			f.At = earliest
		}
		list = append(list, f)
	}
	return list
}

// peer is another exporter of the pair, or this one, at an address of the list.
type peer struct {
	address string
	// account is its last answer, with the times of this machine's clock; nil before the first one.
	account *Account
	// answered is when that was; before it, when the peer was configured. asked is when the last attempt ended since then.
	answered, asked time.Time
}

// answers reports whether it did so lately.
func (p *peer) answers(now time.Time) bool { return now.Sub(p.answered) < standIn }

// newestAbout returns the newest of the facts about the same cause, nil for none.
func newestAbout(list []fact, f *fact) *fact {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].isAbout(f) {
			return &list[i]
		}
	}
	return nil
}

// covers reports whether what a peer has told leaves nothing of o to tell. The word of one that sends before this exporter does, and
// answers, is enough: it decides what is news.
func (f *fact) covers(o *fact, leads bool) bool {
	if o.Stage == silent {
		return f.Stage == silent && !f.At.Before(o.At)
	}
	return f.Stage >= o.Stage && (leads || !f.At.Before(o.At))
}

// isSpent reports whether what a peer has told has been heard before, with as much as o says: so o is new.
func (f *fact) isSpent(told, o *fact) bool {
	return f.At.Sub(told.At).Abs() <= sameTime && f.Stage >= o.Stage && o.Stage > silent
}

// leaders returns the peers that send to a receiver before this exporter does, as far as they are known. One that has not answered yet may
// be one. An exporter that does not reach itself at its address does not know its place in the list: then the smaller ID is first.
func (n *Notifier) leaders(receiver string) (list []*peer) {
	if n.pair.Role != config.PairOther {
		return nil
	}
	self := slices.IndexFunc(n.peers, func(p *peer) bool { return p.account != nil && p.account.ID == n.pair.ID })
	for i, p := range n.peers {
		switch {
		case i == self:
		case p.account == nil:
			list = append(list, p)
		case n.sendsTo(p.account, receiver) && (p.account.Role != config.PairOther || i < self || self < 0 && p.account.ID < n.pair.ID):
			list = append(list, p)
		}
	}
	return list
}

// sendsTo reports whether another exporter watches mostly the same and has the receiver. The list may also have exporters elsewhere.
func (n *Notifier) sendsTo(a *Account, receiver string) bool {
	same := 0
	for _, target := range n.pair.Targets {
		if slices.Contains(a.Targets, target) {
			same++
		}
	}
	_, has := a.Told[receiver]
	return has && a.ID != n.pair.ID && 2*same >= len(n.pair.Targets)
}

// Join sets the other exporters of the pair, and the place of this one.
func (n *Notifier) Join(pair Pair, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.peers
	n.pair, n.peers = pair, nil
	for _, address := range pair.Peers {
		p := &peer{address: address, answered: now}
		if i := slices.IndexFunc(known, func(k *peer) bool { return k.address == address }); i >= 0 {
			p.account, p.answered = known[i].account, known[i].answered
		}
		n.peers = append(n.peers, p)
	}
	n.joined = now
}

// Hear records the answer of the peer at an address, nil for none.
func (n *Notifier) Hear(address string, a *Account, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		if p.address != address {
			continue
		}
		if p.asked = now; a != nil {
			a.translate(now)
			p.account, p.answered = a, now
		}
	}
	n.Wake()
}

// translate corrects its times by the difference of the clocks. This machine's shows now.
func (a *Account) translate(now time.Time) {
	ahead := now.Sub(a.Now)
	for _, told := range a.Told {
		for i := range told {
			told[i].At = told[i].At.Add(ahead)
		}
	}
}

// Account is what this exporter says to the others of its pair.
func (n *Notifier) Account(now time.Time) Account {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := Account{
		ID:      n.pair.ID,
		Name:    n.pair.Name,
		Role:    n.pair.Role,
		Now:     now,
		Targets: append([]string{}, n.pair.Targets...),
		Told:    map[string][]fact{},
	}
	for name, q := range n.queues {
		a.Told[name] = append([]fact{}, q.Told...)
	}
	return a
}

// listens reports whether it is too early to send: a peer may know what was told while this exporter was away.
func (n *Notifier) listens(now time.Time) bool {
	return now.Sub(n.joined) < firstAnswer && slices.ContainsFunc(n.peers, func(p *peer) bool { return p.asked.IsZero() })
}

// turn is the wait of a message to a receiver, for the leaders that answer.
func (n *Notifier) turn(receiver string, now time.Time) (wait time.Duration) {
	for _, p := range n.leaders(receiver) {
		if p.answers(now) {
			wait += standIn
		}
	}
	return wait
}

// leave drops the messages to a receiver that others have sent. The rest wait for their turn.
func (n *Notifier) leave(receiver string, q *queue, now time.Time) {
	turn, leaders := n.turn(receiver, now), n.leaders(receiver)
	q.Waiting = slices.DeleteFunc(q.Waiting, func(w *waiting) bool {
		if w.underWay || w.partly() {
			return false
		}
		switch w.turn = w.Made.Add(turn); {
		case w.isOurs():
			w.turn = w.Made
		case turn == 0 && slices.ContainsFunc(leaders, func(p *peer) bool { return p.asked.Before(w.Made) }):
			w.turn = w.Made.Add(askedAgain)
		}
		if w.Spare {
			return turn > 0
		}
		return len(w.Facts) > 0 && n.haveTold(receiver, q, w.Facts, now)
	})
}

// isOurs reports whether only this exporter knows what a message says: what people wrote on its pages, and what is wrong with itself.
func (w *waiting) isOurs() bool { return len(w.Facts) == 0 && !w.Spare }

// haveTold reports whether the peers have told all facts. If so, this exporter says the same when others ask.
func (n *Notifier) haveTold(receiver string, q *queue, facts []fact, now time.Time) bool {
	var heard []fact
	leaders := n.leaders(receiver)
	for i := range facts {
		f := &facts[i]
		told, by := n.heard(receiver, f)
		if told == nil || told.By == n.pair.ID || !told.covers(f, by.answers(now) && slices.Contains(leaders, by)) {
			return false
		}
		if own := newestAbout(q.Told, f); own != nil && (own.At.After(told.At.Add(sameTime)) || own.isSpent(told, f)) {
			return false // a peer that was away does not know yet, or what it has told was told before this began
		}
		heard = append(heard, fact{
			f.Problems,
			f.Stage,
			told.At,
			told.By,
		})
	}
	q.note(heard)
	return true
}

// heard returns the newest that peers have told about the cause of a fact, and by whom it was heard; nil for nothing.
func (n *Notifier) heard(receiver string, f *fact) (newest *fact, by *peer) {
	for _, p := range n.peers {
		if p.account == nil || !n.sendsTo(p.account, receiver) {
			continue
		}
		if told := newestAbout(p.account.Told[receiver], f); told != nil && (newest == nil || told.At.After(newest.At)) {
			newest, by = told, p
		}
	}
	return newest, by
}

// catchUp takes over which ends of what the former process told were told while none ran. What still lasts now is new: it may only be what
// was known before the first probe.
func (n *Notifier) catchUp(now time.Time) {
	for _, t := range n.book.threads {
		for receiver, k := range t.Told {
			if k.Stage == silent || !k.At.Before(n.begun) || !n.knows(receiver) {
				continue
			}
			f := t.fact()
			if told, _ := n.heard(receiver, &f); told != nil && told.Stage == silent && told.At.After(k.At) {
				k.Stage, k.Held = silent, false
				for s := range t.Stages {
					t.Stages[s] = now
				}
				n.queues[receiver].note([]fact{*told})
			}
		}
	}
}

// fact names the problems of the thread. Its stage and time are left to the caller.
func (t *thread) fact() (f fact) {
	for i := range t.Alerts {
		f.Problems = append(f.Problems, t.Alerts[i].problemKey)
	}
	return f
}

// note keeps what was told.
func (q *queue) note(told []fact) {
	q.Told = append(q.Told, told...)
	slices.SortStableFunc(q.Told, func(a, b fact) int { return a.At.Compare(b.At) })
	if len(q.Told) > 0 {
		newest := q.Told[len(q.Told)-1].At
		q.Told = slices.DeleteFunc(q.Told, func(f fact) bool { return newest.Sub(f.At) > keepFacts })
	}
	q.Told = q.Told[max(0, len(q.Told)-maxFacts):]
}

// noteNow keeps facts that this exporter tells now.
func (q *queue) noteNow(facts []fact, now time.Time) {
	told := slices.Clone(facts)
	for i := range told {
		told[i].At = now
	}
	q.note(told)
}

// standsIn says for whom this exporter sends a message, "" if it is nobody else's turn.
func (n *Notifier) standsIn(receiver string, now time.Time) string {
	var answers, silent *peer
	for _, p := range n.leaders(receiver) {
		switch {
		case p.answers(now):
			answers = p
		case silent == nil || silent.account == nil:
			silent = p
		}
	}
	switch {
	case answers != nil:
		return fmt.Sprintf("Sent by %s: %s answers, and has not told you this within %s.",
			n.pair.Name, answers.name(), wording.Duration(standIn))
	case silent != nil:
		return fmt.Sprintf("Sent by %s: %s has not answered it for %s. If that one still runs, it may tell you this, too.",
			n.pair.Name, silent.name(), wording.Duration(now.Sub(silent.answered)))
	}
	return ""
}

// name is for people.
func (p *peer) name() string {
	_, address, _ := strings.Cut(p.address, "//")
	if p.account != nil {
		return p.account.Name + " (" + address + ")"
	}
	return address
}
