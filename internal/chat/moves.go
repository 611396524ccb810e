package chat

import (
	"path"
	"regexp"
	"strings"
)

// Move is what happens to somebody in the channel or room. All texts are from strangers.
type Move struct {
	// Own says that it happens to this conversation, which has not asked for it.
	Own bool
	// Nick is who it happens to. A mode of the channel is about nobody or, with Mask, about everybody whose address it matches.
	Nick, Mask string
	How        How
	// By is who did it, Why the reason that was given, and for Renamed the new nick, for Silenced the mode; any may be "".
	By, Why string
}

// How is how somebody came or went.
type How int

// What can happen to somebody. Split is a departure because the link between two IRC servers broke.
const (
	Came How = iota
	Left
	Split
	Killed
	Kicked
	Banned
	Silenced
	Heard // may speak again
	Renamed
)

// netsplit matches the reason of a departure with two servers, of which the link broke. Servers put a word before what users give.
var netsplit = regexp.MustCompile(`^[\w*-]+(\.[\w*-]+)+ [\w*-]+(\.[\w*-]+)+$`)

// expelled matches reasons of a server that has banned the user, killed those of an operator or the services.
var (
	expelled = regexp.MustCompile(`(?i)\b[gkqz]-?lined?\b|\ba(uto)?kill(ed)?\b|\bbanned\b`)
	killed   = regexp.MustCompile(`(?i)^killed\b|^\[?kill`)
)

// departure is how somebody left IRC with that reason.
func departure(why string) How {
	switch {
	case netsplit.MatchString(why):
		return Split
	case expelled.MatchString(why):
		return Banned
	case killed.MatchString(why):
		return Killed
	}
	return Left
}

// MatchesMask reports whether a ban of IRC such as nick!*@host is about an address such as nick!user@host.
func MatchesMask(mask, address string) bool {
	literal := strings.NewReplacer(`\`, `\\`, "[", `\[`, "/", "\x00") // path.Match lets * match anything but a slash
	matches, err := path.Match(strings.ToLower(literal.Replace(mask)), strings.ToLower(strings.ReplaceAll(address, "/", "\x00")))
	return err == nil && matches
}

// moves are those that a change of modes makes to others.
func moves(by string, line *ircLine) (list []Move) {
	if len(line.params) < 2 {
		return nil
	}
	arguments := line.params[2:]
	next := func() string {
		if len(arguments) == 0 {
			return ""
		}
		first := arguments[0]
		arguments = arguments[1:]
		return first
	}
	sign := "+"
	for _, mode := range line.params[1] {
		m := Move{By: by, Why: sign + string(mode)}
		switch on := sign == "+"; mode {
		case '+', '-':
			sign = string(mode)
			continue
		case 'm':
			m.How = Heard
			if on {
				m.How = Silenced
			}
		case 'b', 'q': // q is a nick on some servers
			m.How, m.Mask = Heard, next()
			switch {
			case on && mode == 'b':
				m.How = Banned
			case on && strings.ContainsAny(m.Mask, "!@*"):
				m.How = Silenced
			}
		case 'v', 'h', 'o':
			if m.How, m.Nick = Silenced, next(); on {
				m.How = Heard
			}
		case 'e', 'I', 'k':
			next()
			continue
		case 'l', 'L', 'f', 'j', 'F', 'H':
			if on {
				next()
			}
			continue
		default:
			continue
		}
		list = append(list, m)
	}
	return list
}
