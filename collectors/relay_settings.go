package collectors

import (
	"cmp"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// IRCAccount is a user of an IRC server.
type IRCAccount struct {
	Endpoint `yaml:",inline"` // with port 6697 where it has none, or 6667 with Plain
	// Plain connects without TLS.
	Plain bool `yaml:"plain"`
	// Nick is the nick; "irccheck" if unset.
	Nick string `yaml:"nick"`
	// ServerPassword is the password of the server, which it demands of every connection (PASS).
	ServerPassword config.Secret `yaml:"server_password"`
	// User and Password log in by SASL. User is Nick if unset. Without a password, the session does not log in.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
	// SCRAMIterations limits the work of a login that the server may demand.
	SCRAMIterations   int `yaml:"scram_iterations"`
	config.Connection `yaml:",inline"`
	config.TLS        `yaml:",inline"`
}

const (
	ircPlainPort   = "6667"
	xmppDirectPort = "5223"
	// The nicks of the exporter's sessions. A bridge may use a nick on the other side too, so they differ; old servers allow 9 letters.
	ircNick  = "irccheck"
	xmppNick = "xmppcheck"
)

func (a *IRCAccount) account(channel string) *chat.IRC {
	port := ircTLSPort
	if a.Plain {
		port = ircPlainPort
	}
	return &chat.IRC{
		Server: chat.Server{
			TLSServer: exchange.TLSServer{
				Address:    exchange.WithPort(a.Address, port),
				Lasting:    true,
				Connection: a.Connection,
				IRC:        true,
				Trust:      a.TLS,
			},
			Plain: a.Plain,
		},
		Nick:           a.Nick,
		ServerPassword: a.ServerPassword,
		User:           cmp.Or(a.User, a.Nick),
		Password:       a.Password,
		Iterations:     a.SCRAMIterations,
		Channel:        channel,
	}
}

// Check implements config.Settings for the kinds that embed IRCAccount.
func (a *IRCAccount) Check(r *config.Report) {
	exchange.CheckAddress(r, a.Address, ircTLSPort)
	if a.Nick == "" || strings.ContainsAny(a.Nick, " :@!#,*?\r\n\x00") {
		r.Faultf("nick", "is %q, must be a nick such as %s", a.Nick, ircNick)
	}
	if strings.ContainsAny(a.User, " \r\n\x00") {
		r.Faultf("user", "is %q, must be the name of an account, without spaces", a.User)
	}
	if a.Plain && (a.CAFile != "" || a.Fingerprint != "" || a.InsecureSkipVerify) {
		r.Faultf("plain", "is true, so there is no certificate to check; remove it, or the TLS keys")
	}
	a.CheckConnection(r)
	checkIterations(r, a.SCRAMIterations)
	a.TLS.Check(r)
}

// Warnings implements config.Settings for the kinds that embed IRCAccount.
func (a *IRCAccount) Warnings() (list []string) {
	if !a.Plain {
		return a.TLS.Warnings()
	}
	if !a.Password.IsZero() || !a.ServerPassword.IsZero() {
		list = append(list,
			"plain sends passwords to the IRC server unencrypted; use the server's TLS port where the network is not your own")
	}
	if a.IsSet() {
		list = append(list, "plain connects without TLS, so the TLS keys (such as ca_file or alpn) have no effect; remove them, or plain")
	}
	return list
}

// XMPPAccount is a user of an XMPP server.
type XMPPAccount struct {
	// Address is host:port; port 5222 where it has none, or 5223 with DirectTLS. If unset, it is the host of User.
	Address string `yaml:"address"`
	// DirectTLS begins with TLS at once, not with STARTTLS.
	DirectTLS bool `yaml:"direct_tls"`
	// User is the account's address, such as check@chat.example.org.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
	// SCRAMIterations limits the work of a login that the server may demand.
	SCRAMIterations   int `yaml:"scram_iterations"`
	config.Connection `yaml:",inline"`
	config.TLS        `yaml:",inline"`
}

// The limits of scram_iterations: the least that RFC 7677 allows a server, and what takes a slow machine about a second.
const (
	minSCRAMIterations     = 4096
	defaultSCRAMIterations = 100_000
	maxSCRAMIterations     = 1_000_000
)

func newIRCAccount() IRCAccount {
	return IRCAccount{Nick: ircNick, SCRAMIterations: defaultSCRAMIterations}
}

func newXMPPAccount() XMPPAccount { return XMPPAccount{SCRAMIterations: defaultSCRAMIterations} }

func (a *XMPPAccount) domain() string {
	_, domain, _ := strings.Cut(a.User, "@")
	return domain
}

// server is the address to connect to.
func (a *XMPPAccount) server() string {
	port, address := c2sPort, a.Address
	if a.DirectTLS {
		port = xmppDirectPort
	}
	if address == "" {
		return net.JoinHostPort(a.domain(), port)
	}
	return exchange.WithPort(address, port)
}

func (a *XMPPAccount) account(room, nick string) *chat.XMPP {
	server := exchange.TLSServer{
		Address:    a.server(),
		Lasting:    true,
		Connection: a.Connection,
		StartTLS:   exchange.XMPPClient,
		Domain:     a.domain(),
		Trust:      a.TLS,
	}
	if a.DirectTLS {
		server.StartTLS, server.ALPN = "", []string{exchange.XMPPClient}
	}
	user, _, _ := strings.Cut(a.User, "@")
	return &chat.XMPP{
		Server:     chat.Server{TLSServer: server},
		User:       user,
		Password:   a.Password,
		Iterations: a.SCRAMIterations,
		Room:       room,
		Nick:       nick,
	}
}

// Place implements config.Settings for the kinds that embed XMPPAccount.
func (a *XMPPAccount) Place() string { return a.User + " at " + a.server() }

// HostName implements config.Settings for the kinds that embed XMPPAccount.
func (a *XMPPAccount) HostName() string { return config.HostOf(a.server()) }

// Configured implements config.Settings for the kinds that embed XMPPAccount.
func (a *XMPPAccount) Configured() bool { return a.User != "" }

// Check implements config.Settings for the kinds that embed XMPPAccount.
func (a *XMPPAccount) Check(r *config.Report) {
	if !isBareJID(a.User) {
		r.Faultf("user", "is %q, must be the address of an account, such as check@chat.example.org, without a resource", a.User)
	} else {
		exchange.CheckAddress(r, a.server(), c2sPort)
	}
	if a.Password.IsZero() {
		r.Faultf("password", "must be set: the password of the XMPP account, in password or password_file")
	}
	checkIterations(r, a.SCRAMIterations)
	a.CheckConnection(r)
	a.TLS.Check(r)
}

// isBareJID reports whether an address is local@domain, without a resource.
func isBareJID(address string) bool {
	local, domain, _ := strings.Cut(address, "@")
	return local != "" && domain != "" && !strings.ContainsAny(address, "/ <>&'\"\t\r\n")
}

func checkIterations(r *config.Report, n int) {
	if n < minSCRAMIterations || n > maxSCRAMIterations {
		r.Faultf("scram_iterations", "is %d, must be %d to %d", n, minSCRAMIterations, maxSCRAMIterations)
	}
}

// Relay is the block of a bridge between IRC and XMPP, whose relaying is checked with messages.
type Relay struct {
	config.Target `yaml:",inline"`
	IRC           RelayIRC  `yaml:"irc"`
	XMPP          RelayXMPP `yaml:"xmpp"`
	// Prefix begins each message.
	Prefix string `yaml:"prefix"`
	// Deadline is how long a message may take to count as delivered. Slow, of the target, is how long it may take not to count as slow.
	Deadline config.Duration `yaml:"deadline"`
}

// RelayIRC is a relay's account and channel on IRC.
type RelayIRC struct {
	IRCAccount `yaml:",inline"`
	Channel    string `yaml:"channel"`
}

// RelayXMPP is a relay's account and room on XMPP.
type RelayXMPP struct {
	XMPPAccount `yaml:",inline"`
	// Room is the address of the room, such as check@rooms.example.org; Nick the nick there.
	Room string `yaml:"room"`
	Nick string `yaml:"nick"`
}

func newRelaySettings() *Relay {
	return &Relay{
		Target:   config.Target{Timeout: config.Duration(15 * time.Second), Slow: config.Duration(5 * time.Second)},
		IRC:      RelayIRC{IRCAccount: newIRCAccount()},
		XMPP:     RelayXMPP{Nick: xmppNick, XMPPAccount: newXMPPAccount()},
		Prefix:   "chatstack check",
		Deadline: config.Duration(10 * time.Second),
	}
}

// Environ implements config.Settings.
func (s *Relay) Environ(e *config.Env) {
	e.In("irc").Secret("password", "RELAY_IRC_PASSWORD", &s.IRC.Password)
	e.In("xmpp").Secret("password", "RELAY_XMPP_PASSWORD", &s.XMPP.Password)
}

// Place implements config.Settings: a check belongs to its channel and room.
func (s *Relay) Place() string { return s.IRC.Channel + " and " + s.XMPP.Room }

// HostName implements config.Settings: the container of the bridge cannot be inferred from an address.
func (s *Relay) HostName() string { return "" }

// Configured implements config.Settings.
func (s *Relay) Configured() bool { return s.IRC.Address != "" || s.XMPP.User != "" }

// relayDuty is to write into the rooms of a bridge.
var relayDuty = &config.Duty{
	Infinitive:     "send messages over the bridge",
	ThirdPerson:    "sends messages over the bridge",
	AdviceForOther: "set pair: other here",
	AdviceForAll:   "set pair: other in all but one",
}

// relayReserve is what a probe may take after the deadline, to find where a message was lost.
const relayReserve = 3 * time.Second

// Check implements config.Settings.
func (s *Relay) Check(r *config.Report) {
	s.IRC.Check(r.In("irc"))
	s.XMPP.Check(r.In("xmpp"))
	if c := s.IRC.Channel; len(c) < 2 || !strings.ContainsAny(c[:1], "#&+!") || strings.ContainsAny(c, " ,:\a\r\n\x00") {
		r.In("irc").Faultf("channel", "is %q, must be the channel that the bridge maps to xmpp.room, "+
			"such as \"#bridge-check\" (in quotes, because # begins a comment)", c)
	}
	if !isBareJID(s.XMPP.Room) {
		r.In("xmpp").Faultf("room",
			"is %q, must be the address of the room that the bridge maps to irc.channel, such as check@rooms.example.org", s.XMPP.Room)
	}
	if s.XMPP.Nick == "" {
		r.In("xmpp").Faultf("nick", "is empty, must be a nick such as %s", xmppNick)
	}
	if strings.TrimSpace(s.Prefix) == "" || len(s.Prefix) > 100 || strings.ContainsAny(s.Prefix, "\r\n\x00") {
		r.Faultf("prefix", "must be one line of 1 to 100 bytes, which tells people what the messages are")
	}
	if s.Deadline.Std() < 100*time.Millisecond || s.Deadline.Std()+relayReserve > s.Timeout.Std() {
		r.Faultf("deadline", "is %s, must be at least 100ms and %s less than timeout, which is %s",
			s.Deadline.Std(), relayReserve, s.Timeout.Std())
	}
	if s.Slow.Std() <= 0 || s.Slow > s.Deadline {
		r.Faultf("slow", "is %s, must be more than 0 and at most deadline, which is %s", s.Slow.Std(), s.Deadline.Std())
	}
	// A second check in the same place would double the messages there. With an @, the room would be hidden as a credential.
	r.Unique("irc.channel", strings.ToLower(s.IRC.Channel)+" on "+exchange.CanonicalAddress(s.IRC.account("").Address))
	r.Unique("xmpp.room", strings.ToLower(strings.Replace(s.XMPP.Room, "@", " on ", 1)))
}

// Warnings implements config.Settings.
func (s *Relay) Warnings() []string {
	return slices.Concat(s.IRC.Warnings(), s.XMPP.TLS.Warnings(), seldomWarnings(s.Schedule))
}

// IRCLogin is the block of a login at an IRC server.
type IRCLogin struct {
	config.Target `yaml:",inline"`
	IRCAccount    `yaml:",inline"`
}

func newIRCLoginSettings() *IRCLogin { return &IRCLogin{IRCAccount: newIRCAccount()} }

// XMPPLogin is the block of a login at an XMPP server.
type XMPPLogin struct {
	config.Target `yaml:",inline"`
	XMPPAccount   `yaml:",inline"`
}

func newXMPPLoginSettings() *XMPPLogin { return &XMPPLogin{XMPPAccount: newXMPPAccount()} }
