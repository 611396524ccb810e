package simstack

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The accounts and the places of the simulated relay: a channel and a room that the bridge maps to each other.
const (
	RelayUser     = "check"
	RelayPassword = "simulated-relay-password"
	RelayChannel  = "#bridge-check"
	RelayRoom     = "check@rooms." + XMPPDomain
	// bridgeNick relays from the other side.
	bridgeNick = "bridge"
)

// relayed is a channel on IRC and a room on XMPP, with the bridge between them. Its faults are those of the service bridge.
type relayed struct {
	service  *service
	password string

	mu      sync.Mutex
	members map[string]map[*member]bool // by side
	carried int                         // by the bridge
	held    []heldMessage
	journal []string // the last messages that the servers accepted
	// accepted are how many messages the servers accepted, by side.
	accepted map[string]int
}

// member is a client in the channel or room.
type member struct {
	side, nick, address string
	conn                io.Writer
	mu                  sync.Mutex
	// out says that it was removed from the channel or room; leave removes it.
	out   atomic.Bool
	leave func()
	// hear writes a message of somebody in the channel or room; delayed says that it is from history.
	hear func(from, text string, delayed bool)
}

type heldMessage struct{ side, text string }

const (
	onIRC  = "irc"
	onXMPP = "xmpp"
)

func otherSide(side string) string {
	if side == onIRC {
		return onXMPP
	}
	return onIRC
}

func newRelayed(password string) *relayed {
	r := &relayed{password: password, members: map[string]map[*member]bool{onIRC: {}, onXMPP: {}}, accepted: map[string]int{}}
	r.service = &service{name: "bridge", speak: func(context.Context, net.Conn) {}, switched: map[string]func(bool){
		"frozen": r.thaw, "kicked": r.cut, "banned": r.cut, "destroyed": r.cut, "wrong_password": r.cut,
	}}
	return r
}

// say writes to a member's connection.
func (m *member) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = fmt.Fprintf(m.conn, format, args...)
}

func (r *relayed) join(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[m.side][m] = true
	if r.service.on("history") {
		for _, text := range r.journal {
			m.hear("somebody", text, true)
		}
	}
}

func (r *relayed) part(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members[m.side], m)
}

// refusal is why a side refuses members or messages; "" if it does not.
func (r *relayed) refusal() string {
	for _, fault := range []string{"banned", "destroyed"} {
		if r.service.on(fault) {
			return fault
		}
	}
	return ""
}

// cut ends all sessions in the channel and room when a fault begins.
func (r *relayed) cut(on bool) {
	r.mu.Lock()
	var all []*member
	for _, side := range r.members {
		for m := range side {
			all = append(all, m)
		}
	}
	r.mu.Unlock()
	for _, m := range all {
		if on {
			m.leave()
		}
	}
}

// accept passes a message to everybody on its side, and to the bridge.
func (r *relayed) accept(from *member, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted[from.side]++
	r.journal = lastOf(append(r.journal, text), maxHistory)
	r.spread(from.side, from.nick, text)
	r.carry(from.side, text)
}

// spread writes a message to all members of a side. The caller holds mu.
func (r *relayed) spread(side, nick, text string) {
	for m := range r.members[side] {
		m.hear(nick, text, false)
	}
}

// carry is what the bridge does with a message. The caller holds mu.
func (r *relayed) carry(side, text string) {
	s := r.service
	r.carried++
	to := otherSide(side)
	deliver := func() { r.spread(to, bridgeNick, "<"+RelayUser+"> "+text) }
	switch {
	case s.on("frozen"):
		r.held = lastOf(append(r.held, heldMessage{to, text}), maxHeld)
	case s.on("only_to_irc") && to == onXMPP, s.on("only_to_xmpp") && to == onIRC, s.on("drops_third") && r.carried%3 == 0:
	case s.on("changes_text"):
		r.spread(to, bridgeNick, "\x02[\x0304"+RelayUser+"\x03]\x02 *"+strings.ToUpper(text)+"* (edited)")
	case s.on("late"):
		s.wg.Go(func() {
			time.Sleep(s.slow)
			r.mu.Lock()
			defer r.mu.Unlock()
			deliver()
		})
	case s.on("loops"):
		s.wg.Go(func() { r.loop(to, text) })
	case s.on("twice"):
		deliver()
		deliver()
	default:
		deliver()
	}
}

// loop is what two bridges do with a message: each passes on what the other has said, until one of them is gone.
func (r *relayed) loop(side, text string) {
	for ; r.service.on("loops"); side = otherSide(side) {
		r.mu.Lock()
		r.spread(side, bridgeNick, "<"+RelayUser+"> "+text)
		r.mu.Unlock()
		time.Sleep(hop)
	}
}

// hop is how long a bridge takes to pass a message on in a loop.
const hop = time.Second

// thaw delivers what a frozen bridge held, as a bridge does when its process continues.
func (r *relayed) thaw(on bool) {
	if on {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.held {
		r.spread(m.side, bridgeNick, "<"+RelayUser+"> "+m.text)
	}
	r.held = nil
}

const (
	// maxHistory is how many messages somebody who joins gets to see; maxHeld is how many a frozen bridge delivers afterwards.
	maxHistory = 20
	maxHeld    = 1000
)

// lastOf shortens a list to its last elements.
func lastOf[T any](list []T, most int) []T { return slices.Clone(list[max(0, len(list)-most):]) }

// RelayMessages returns how many messages the simulated servers accepted in the channel and in the room.
func (k *Stack) RelayMessages() (irc, xmpp int) {
	k.relayed.mu.Lock()
	defer k.relayed.mu.Unlock()
	return k.relayed.accepted[onIRC], k.relayed.accepted[onXMPP]
}
