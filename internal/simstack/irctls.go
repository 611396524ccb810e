package simstack

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// ircPort is the IRC server's port for clients. It knows one account and one channel.
type ircPort struct {
	service *service
	relayed *relayed

	mu    sync.Mutex
	first time.Time // when the first connection of the period came
	count int
}

const (
	// floodCount connections within floodPeriod are accepted: connect-flood 3:60, UnrealIRCd's default.
	floodCount  = 3
	floodPeriod = 60 * time.Second
	// floodSweep is how often the real server checks for the end of a period.
	floodSweep = 5 * time.Second
)

// newIRCPort is the TLS port of the IRC server's clients.
func newIRCPort(r *relayed) *service {
	i := &ircPort{relayed: r}
	i.service = &service{
		name:     "irc_tls",
		secure:   true,
		speak:    i.speak,
		refuse:   i.refuse,
		switched: map[string]func(bool){"connect_flood": i.forget},
	}
	return i.service
}

// refuse throttles a connection as the real server does: at once, in plain text before TLS. The real one exempts loopback.
func (i *ircPort) refuse(conn net.Conn) bool {
	if !i.service.on("throttled") && (!i.service.on("connect_flood") || i.admit(time.Now())) {
		return false
	}
	_, _ = io.WriteString(conn,
		"ERROR :Closing Link: [127.0.0.1] (Throttled: Reconnecting too fast - Email admin@"+ircName+" for more information.)\r\n")
	return true
}

// admit counts a connection and reports whether to accept it. Here, all clients have one address.
func (i *ircPort) admit(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now.Sub(i.first) > floodPeriod+floodSweep {
		i.first, i.count = now, 0
	}
	i.count++
	return i.count <= floodCount
}

// forget resets the count whenever the throttling fault is switched.
func (i *ircPort) forget(bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.first = time.Time{}
}

// ircCapabilities are the capabilities of the real server.
const ircCapabilities = "unrealircd.org/link-security=2 extended-join chghost cap-notify userhost-in-names multi-prefix away-notify " +
	"account-notify sasl=PLAIN tls echo-message"

// speak serves one client. The server is silent until the client speaks.
func (i *ircPort) speak(ctx context.Context, conn net.Conn) {
	in := bufio.NewScanner(conn)
	user := newIRCClient(i, conn)
	defer i.relayed.part(&user.member)
	say := func(s string) { user.say("%s", s) }
	_ = conn.SetReadDeadline(time.Now().Add(maxIdle))
	for in.Scan() {
		idle := maxIdle
		if user.registered {
			idle = maxSession
		}
		_ = conn.SetReadDeadline(time.Now().Add(idle))
		line := strings.TrimSpace(in.Text())
		i.service.remember(&Request{RPC: line})
		if !i.service.delay(ctx) {
			return
		}
		command, params, _ := strings.Cut(line, " ")
		answer := ":" + ircName + " CAP * LS :" + ircCapabilities + "\r\n"
		switch {
		case i.service.on("hang_after_tls"):
		case i.service.on("malformed"):
			say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			return
		case i.service.on("huge"):
			_ = i.service.flood("huge", strings.Repeat("x", 64))(conn)
			return
		case command == "QUIT":
			say("ERROR :Closing Link: [127.0.0.1] (Quit)\r\n")
			return
		case command == "CAP" && i.service.on("no_cap"):
			say(":" + ircName + " 451 CAP :You have not registered\r\n")
		case command == "CAP" && strings.HasPrefix(params, "LS") && i.service.on("truncated"):
			say(answer[:len(answer)/2])
			return
		case command == "CAP" && strings.HasPrefix(params, "LS"):
			user.negotiating = !user.registered
			say(answer)
		case command != "":
			user.command(command, params)
		}
	}
}
