package collectors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// witness is what the session of a side has seen of the bridge there.
type witness struct {
	// carrier is the nick that brought the last message of the check, address its nick!user@host on IRC; "" if none has come.
	carrier, address string
	// move is what has happened to the carrier since, and when; moved is false if nothing has. absent says that it is in no list of
	// members, although it was before: somebody may also speak without being there.
	move                  chat.Move
	at                    time.Time
	moved, absent, listed bool
	// members are the nicks in the last list, and of those who came since.
	members []string
}

// carried records that somebody has brought a message of the check. What was sent before the carrier was removed may come after it,
// by way of another server, and does not say that the carrier is back.
func (w *witness) carried(m chat.Message, sent time.Time) {
	late := w.moved && leaves(w.move.How) && strings.EqualFold(m.Nick, w.carrier) && !sent.After(w.at)
	if m.Nick != "" && !late {
		*w = witness{carrier: m.Nick, address: m.Address, members: w.members}
		w.listed = w.isThere()
	}
}

// see records what happens to somebody, and when.
func (w *witness) see(m chat.Move, at time.Time) {
	if m.Own {
		return
	}
	ours := w.carrier != "" && (strings.EqualFold(m.Nick, w.carrier) || m.Mask != "" && chat.MatchesMask(m.Mask, w.address))
	all := m.Nick == "" && m.Mask == ""
	if m.How == chat.Came && !slices.Contains(w.members, m.Nick) && len(w.members) < maxMembers {
		w.members = append(w.members, m.Nick)
	}
	switch {
	case !ours && !all:
	case m.How == chat.Renamed:
		w.carrier = m.Why
	case m.How == chat.Came:
		w.moved, w.absent = false, false
	case m.How == chat.Heard:
		if w.move.Nick == m.Nick && w.move.Mask == m.Mask {
			w.moved = false
		}
	case w.moved && w.move.How == chat.Banned && m.How == chat.Kicked: // the ban is the reason
	default:
		w.move, w.at, w.moved = m, at, true
	}
}

// list records who is there.
func (w *witness) list(nicks []string) {
	w.members = nicks
	there := w.isThere()
	w.absent, w.listed = w.listed && !there, w.listed || there
	if there && w.moved && leaves(w.move.How) {
		w.moved = false
	}
}

// isThere reports whether the carrier is among the members.
func (w *witness) isThere() bool {
	return slices.ContainsFunc(w.members, func(nick string) bool { return strings.EqualFold(nick, w.carrier) })
}

// maxMembers bounds the members that are remembered.
const maxMembers = 10_000

// leaves reports whether somebody to whom this happens is not there any more. A ban alone does not remove anybody.
func leaves(how chat.How) bool {
	return slices.Contains([]chat.How{chat.Left, chat.Split, chat.Killed, chat.Kicked}, how)
}

// relayEvidence is why a bridge relays nothing, as far as its sides show it.
type relayEvidence struct {
	// cause is one of health.BridgeCauses. text says who did what, with names of strangers: it is neither a label nor in the log.
	cause, text string
	// where is the side that shows it, in words without names.
	where string
}

// evidenceOf is what has happened to the bridge: on the side where it should hear, or on the side where it should speak.
func (c *relayProbe) evidenceOf(w *crossing) relayEvidence {
	for _, s := range []*relaySide{w.from, w.to} {
		if e := s.seen.evidence(c.place(s)); e.cause != "" {
			e.where = c.kindOfPlace(s)
			return e
		}
	}
	from, to := &w.from.seen, &w.to.seen
	if from.carrier == "" || to.carrier == "" {
		return relayEvidence{cause: health.BridgeUnknown}
	}
	return relayEvidence{cause: health.BridgeHangs, text: fmt.Sprintf("%s is in %s and %s in %s, and messages do not cross",
		shownNick(from.carrier), c.place(w.from), shownNick(to.carrier), c.place(w.to))}
}

// place is the channel or the room of a side.
func (c *relayProbe) place(s *relaySide) string {
	if s.name == sideIRC {
		return c.settings.IRC.Channel
	}
	return c.settings.XMPP.Room
}

func (c *relayProbe) kindOfPlace(s *relaySide) string {
	if s.name == sideIRC {
		return "the IRC channel"
	}
	return "the XMPP room"
}

// evidence is what has happened to the carrier; its cause is "" if nothing has.
func (w *witness) evidence(place string) relayEvidence {
	nick, m := shownNick(w.carrier), &w.move
	by, why := "", ""
	if m.By != "" {
		by = " by " + shownNick(m.By)
	}
	if m.Why != "" {
		why = ": " + shownReason(m.Why)
	}
	switch {
	case w.carrier == "":
		return relayEvidence{}
	case !w.moved && w.absent:
		return relayEvidence{cause: health.BridgeAbsent, text: nick + " is not in " + place}
	case !w.moved:
		return relayEvidence{}
	}
	switch m.How {
	case chat.Split:
		return relayEvidence{cause: health.BridgeSplit, text: nick + " left with " + shownReason(m.Why) +
			": the link between these servers broke"}
	case chat.Kicked:
		return relayEvidence{cause: health.BridgeKicked, text: nick + " was kicked from " + place + by + why}
	case chat.Banned:
		if m.Mask != "" {
			return relayEvidence{cause: health.BridgeBanned, text: nick + " is banned from " + place + by + ": " + shownReason(m.Mask)}
		}
		if m.By != "" {
			return relayEvidence{cause: health.BridgeBanned, text: nick + " was banned from " + place + by + why}
		}
		return relayEvidence{cause: health.BridgeBanned, text: nick + " left " + place + why}
	case chat.Killed:
		return relayEvidence{cause: health.BridgeKilled, text: nick + " left " + place + why}
	case chat.Silenced:
		return relayEvidence{cause: health.BridgeSilenced, text: nick + " may not be allowed to speak in " + place + by + why}
	case chat.Left, chat.Came, chat.Heard, chat.Renamed:
	}
	return relayEvidence{cause: health.BridgeLeft, text: nick + " left " + place + why}
}

// maxShownNick and maxShownReason limit the texts of strangers.
const (
	maxShownNick   = 64
	maxShownReason = 200
)

func shownNick(nick string) string { return failure.Printable(failure.OneLine(nick), maxShownNick) }
func shownReason(reason string) string {
	return failure.Printable(failure.OneLine(reason), maxShownReason)
}

// hint is what to do about it, without names.
func (e *relayEvidence) hint() string {
	switch e.cause {
	case health.BridgeLeft:
		return "the bridge has left " + e.where + ": read its log, then restart it"
	case health.BridgeSplit:
		return "the link between two IRC servers broke, and the bridge is on the other side: mend the link; " +
			"a restart of the bridge does not help"
	case health.BridgeKilled:
		return "an operator or the services of the IRC server ended the bridge's session: ask them, then restart the bridge"
	case health.BridgeKicked:
		return "somebody kicked the bridge from " + e.where + ": let it join again, mostly by a restart, and say there what it is for"
	case health.BridgeBanned:
		return "the bridge is banned from " + e.where + " or its server: remove the ban, then restart the bridge"
	case health.BridgeSilenced:
		return "the bridge may have lost the right to speak in " + e.where + ": give it voice, or undo the mode"
	case health.BridgeAbsent:
		return "the bridge is not in " + e.where + ": read its log, then restart it"
	}
	return ""
}
