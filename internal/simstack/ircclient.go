package simstack

import (
	"encoding/base64"
	"net"
	"slices"
	"strings"
)

// ircClient is a client of the IRC server that registers.
type ircClient struct {
	member
	port *ircPort
	// negotiating is true from CAP LS to CAP END; known once USER came; registered once the client was welcomed.
	negotiating, known, registered, joined, echoes bool
}

func newIRCClient(i *ircPort, conn net.Conn) *ircClient {
	u := &ircClient{port: i, member: member{side: onIRC, conn: conn}}
	u.hear = func(from, text string, _ bool) {
		if from != u.nick || u.echoes {
			u.say(":%s!%s@irc.test PRIVMSG %s :%s\r\n", from, from, RelayChannel, text)
		}
	}
	u.leave = func() {
		u.out.Store(true)
		u.say(":operator!operator@irc.test KICK %s %s :simulated\r\n", RelayChannel, u.nick)
	}
	return u
}

// answer writes a numeric.
func (u *ircClient) answer(numeric, text string) {
	nick := u.nick
	if nick == "" {
		nick = "*"
	}
	u.say(":%s %s %s %s\r\n", ircName, numeric, nick, text)
}

// command handles one line.
func (u *ircClient) command(command, params string) {
	last := params[strings.LastIndex(" "+params, " :")+1:]
	last = strings.TrimPrefix(last, ":")
	switch command {
	case "CAP":
		u.negotiate(params, last)
	case "NICK":
		u.nick = last
	case "USER":
		u.known = true
	case "AUTHENTICATE":
		u.authenticate(params)
	case "PING":
		u.say(":%s PONG %s :%s\r\n", ircName, ircName, last)
	case "NAMES":
		if u.joined && !u.out.Load() {
			u.answer("353", "= "+params+" :"+u.nick)
		}
		u.answer("366", params+" :End of /NAMES list.")
	case "JOIN", "PRIVMSG":
		if !u.registered {
			u.answer("451", ":You have not registered")
		} else if command == "JOIN" {
			u.join(params)
		} else {
			u.speak(params, last)
		}
	default:
		u.answer("451", ":You have not registered")
	}
	if u.known && u.nick != "" && !u.negotiating && !u.registered {
		u.registered = true
		u.answer("001", ":Welcome to the simulated network")
	}
}

func (u *ircClient) negotiate(params, last string) {
	switch verb, _, _ := strings.Cut(params, " "); verb {
	case "REQ":
		u.negotiating = !u.registered
		u.echoes = slices.Contains(strings.Fields(last), "echo-message")
		u.say(":%s CAP * ACK :%s\r\n", ircName, last)
	case "END":
		u.negotiating = false
	}
}

func (u *ircClient) authenticate(params string) {
	r := u.port.relayed
	if params == "PLAIN" {
		u.say("AUTHENTICATE +\r\n")
		return
	}
	message, _ := base64.StdEncoding.DecodeString(params)
	fields := strings.Split(string(message), "\x00")
	if len(fields) != 3 || fields[1] != RelayUser || fields[2] != r.password || r.service.on("wrong_password") {
		u.answer("904", ":SASL authentication failed")
		return
	}
	u.answer("900", "check!check@irc.test check :You are now logged in as check")
	u.answer("903", ":SASL authentication successful")
}

func (u *ircClient) join(channel string) {
	r := u.port.relayed
	switch {
	case channel != RelayChannel:
		u.answer("403", channel+" :No such channel")
	case r.refusal() != "":
		u.answer("474", channel+" :Cannot join channel (+b)")
	default:
		u.say(":%s!%s@irc.test JOIN %s\r\n", u.nick, u.nick, channel)
		u.answer("353", "= "+channel+" :"+u.nick)
		u.answer("366", channel+" :End of /NAMES list.")
		u.joined = true
		r.join(&u.member)
	}
}

func (u *ircClient) speak(params, text string) {
	channel, _, _ := strings.Cut(params, " ")
	r := u.port.relayed
	switch {
	case channel != RelayChannel || !u.joined || u.out.Load():
		u.answer("404", channel+" :No external channel messages ("+channel+")")
	case r.service.on("throttled"):
		u.answer("404", channel+" :You are sending messages too fast ("+channel+")")
	default:
		r.accept(&u.member, text)
	}
}
