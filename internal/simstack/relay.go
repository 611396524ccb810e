package simstack

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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
	count   int
	held    []heldMessage
	journal []string // what the servers accepted, by side and text
}

// member is a client in the channel or room.
type member struct {
	side, nick, address string
	conn                io.Writer
	mu                  sync.Mutex
	// leave ends the session.
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
	r := &relayed{password: password, members: map[string]map[*member]bool{onIRC: {}, onXMPP: {}}}
	r.service = &service{name: "bridge", speak: func(context.Context, net.Conn) {}, switched: map[string]func(bool){
		"frozen": r.thaw, "kicked": r.cut("kicked"), "banned": r.cut("banned"), "destroyed": r.cut("destroyed"),
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
		for _, text := range r.journal[max(0, len(r.journal)-5):] {
			_, text, _ = strings.Cut(text, " ")
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
func (r *relayed) cut(string) func(bool) {
	return func(on bool) {
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
}

// accept passes a message to everybody on its side, and to the bridge.
func (r *relayed) accept(from *member, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal = append(r.journal, from.side+" "+text)
	if len(r.journal) > 2*maxRequests {
		r.journal = r.journal[maxRequests:]
	}
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
	r.count++
	to := otherSide(side)
	deliver := func() { r.spread(to, bridgeNick, "<"+RelayUser+"> "+text) }
	switch {
	case s.on("frozen"):
		r.held = append(r.held, heldMessage{to, text})
	case s.on("only_to_irc") && to == onXMPP, s.on("only_to_xmpp") && to == onIRC, s.on("drops_third") && r.count%3 == 0:
	case s.on("changes_text"):
		r.spread(to, bridgeNick, "\x02[\x0304"+RelayUser+"\x03]\x02 *"+strings.ToUpper(text)+"* (edited)")
	case s.on("late"):
		s.wg.Go(func() {
			time.Sleep(s.slow)
			r.mu.Lock()
			defer r.mu.Unlock()
			deliver()
		})
	case s.on("twice"):
		deliver()
		deliver()
	default:
		deliver()
	}
}

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

// RelayMessages returns the texts that the simulated IRC and XMPP servers accepted, each behind its side and a space.
func (k *Stack) RelayMessages() []string {
	k.relayed.mu.Lock()
	defer k.relayed.mu.Unlock()
	return append([]string(nil), k.relayed.journal...)
}
