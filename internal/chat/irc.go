package chat

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// IRC is an account on an IRC server, or a nick without one.
type IRC struct {
	Server
	Nick string
	// ServerPassword is what the server demands of every connection (PASS); empty if it demands nothing.
	ServerPassword config.Secret
	// User and Password log in by SASL; without a password, the session has no account.
	User     string
	Password config.Secret
	// Iterations is how much work a login by SCRAM may take at most.
	Iterations int
	// Channel is the channel to join; "" for none.
	Channel string
}

const (
	// maxNicks is how many nicks are tried if the first is taken.
	maxNicks = 5
	// maxNickLength is what every server accepts, in bytes.
	maxNickLength = 9
	// maxLine bounds one line, in bytes: 8191 of tags and 512 of the message, and some more.
	maxLine = 16 << 10
	// maxNames bounds the list of members.
	maxNames = 10_000
	// maxSaid bounds the messages that wait for an answer.
	maxSaid = 100
)

// Run implements Account.
func (a *IRC) Run(ctx context.Context, r *exchange.Record, l Listener) error {
	return ended(ctx, a.converse(ctx, r, func(conn *link) error {
		s := &ircSession{
			account:  a,
			record:   r,
			conn:     conn,
			lines:    bufio.NewReaderSize(conn, maxLine),
			nick:     a.Nick,
			listener: l,
			offered:  map[string]bool{},
			pongs:    map[string]chan struct{}{},
		}
		if err := conn.withDeadline(s.login); err != nil {
			return err
		}
		l.Joined(s)
		l.Members(s.takeNames())
		err := s.listen()
		if ctx.Err() != nil {
			conn.farewell(ctx, "QUIT\r\n")
		}
		return err
	}))
}

// ircSession is a conversation over IRC.
type ircSession struct {
	account  *IRC
	record   *exchange.Record
	conn     *link
	lines    *bufio.Reader
	listener Listener
	nick     string
	nicks    int
	first    []byte          // the server's first line
	offered  map[string]bool // which of the capabilities that we use
	echoes   bool            // the server sends our own messages back
	sasl     ircLogin
	// refused is what the server said of a ban. It says more in the ERROR line that follows.
	refused error

	mu sync.Mutex
	// member says that the session was in the last list of the channel's members.
	member bool
	pings  int
	pongs  map[string]chan struct{}
	// names are the members in the list that the server sends.
	names []string
	// said are the messages that no answer has come for, the oldest first.
	said []saidMessage
}

// saidMessage is a message, and the token of the ping that was sent after it.
type saidMessage struct{ token, text string }

// ircLine is a line from the server.
type ircLine struct {
	source, command string
	params          []string
}

// last returns the last parameter, which is the text of most lines.
func (l *ircLine) last() string {
	if len(l.params) == 0 {
		return ""
	}
	return l.params[len(l.params)-1]
}

// param returns a parameter; "" if there is none.
func (l *ircLine) param(i int) string {
	if i >= len(l.params) {
		return ""
	}
	return l.params[i]
}

// parseIRC reads a line without its tags.
func parseIRC(line string) (parsed ircLine) {
	if strings.HasPrefix(line, "@") {
		_, line, _ = strings.Cut(line, " ")
	}
	line = strings.TrimLeft(line, " ")
	if strings.HasPrefix(line, ":") {
		parsed.source, line, _ = strings.Cut(line[1:], " ")
	}
	line, trailing, has := strings.Cut(" "+strings.TrimLeft(line, " "), " :")
	fields := strings.Fields(line)
	if has {
		fields = append(fields, trailing)
	}
	if len(fields) > 0 {
		parsed.command, parsed.params = strings.ToUpper(fields[0]), fields[1:]
	}
	return parsed
}

// next returns the next line, and answers pings.
func (s *ircSession) next() (ircLine, error) {
	for {
		raw, err := s.lines.ReadSlice('\n')
		if s.first == nil {
			s.first = bytes.Clone(raw)
			if other := exchange.NotIRC(raw, nil); other != nil {
				return ircLine{}, other
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return ircLine{}, failure.Errorf(failure.TooLarge, "a line of more than %d bytes", maxLine)
		}
		if err != nil {
			return ircLine{}, fmt.Errorf("read from the IRC server: %w", err)
		}
		line := parseIRC(strings.TrimRight(string(raw), "\r\n"))
		if line.command != "PING" {
			return line, nil
		}
		if err := s.send("PONG :" + line.last()); err != nil {
			return ircLine{}, err
		}
	}
}

// send sends a line, in which a line break must not begin another one.
func (s *ircSession) send(line string) error {
	return s.conn.write(s.conn.session, strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ").Replace(line)+"\r\n")
}

// login registers, logs in to the account and joins the channel.
func (s *ircSession) login() error {
	lines := []string{"CAP LS 302", "NICK " + s.nick, "USER " + s.account.Nick + " 0 * :chatstack_exporter"}
	if password := s.account.ServerPassword; !password.IsZero() {
		lines = slices.Insert(lines, 1, "PASS :"+password.Reveal())
	}
	for _, line := range lines {
		if err := s.send(line); err != nil {
			return fmt.Errorf("register: %w", err)
		}
	}
	for {
		line, err := s.next()
		if err != nil {
			return s.noAnswer(err)
		}
		s.record.RecogniseIRCServer(line.command, strings.Join(line.params, " "))
		done, err := s.register(&line)
		if done || err != nil {
			return err
		}
	}
}

// noAnswer adds to a failed read whose answer was missing: the server says nothing in TLS, or passes a login on to its services.
func (s *ircSession) noAnswer(err error) error {
	if s.refused != nil {
		return s.refused
	}
	if len(s.first) == 0 && !s.account.Plain {
		return exchange.NotIRC(nil, err)
	}
	if !s.sasl.pending() || failure.ReasonOf(err) != failure.Timeout {
		return err
	}
	return failure.Errorf(failure.Timeout, "log in as %s: no answer: %w", s.account.User, err).
		WithHint(
			"the IRC server answers no login: if it passes logins on to services, which do not answer, restart them, or read their log")
}

// register handles a line before the session has joined. It reports whether that is complete.
func (s *ircSession) register(line *ircLine) (joined bool, err error) {
	channel := s.account.Channel
	if isError(line.command) && channel != "" && strings.EqualFold(line.param(1), channel) {
		return false, s.notJoined(line) // 437 may be about a nick too
	}
	switch line.command {
	case "NICK":
		s.rename(line)
	case "CAP":
		return false, s.negotiate(line)
	case "AUTHENTICATE":
		return false, s.challenged(line.param(0))
	case "900": // logged in
	case "903":
		return false, s.acceptedLogin()
	case "908":
		s.sasl.list(line.param(1))
	case "902", "904", "905", "906", "907":
		return false, s.refusedLogin(line)
	case "433", "436", "437":
		return false, s.nextNick(line)
	case "432":
		return false, failure.Errorf(failure.Mismatch, "nick %s: %s", s.nick, failure.OneLine(line.last())).
			WithHint("set nick to one that the IRC server accepts")
	case "464":
		return false, s.refusedPassword(line.last())
	case "465":
		s.refused = exchange.BannedByIRC(line.last())
	case "001":
		if !s.account.Password.IsZero() && !s.sasl.done {
			return false, errNoSASL // the server does not know CAP
		}
		s.nick = line.param(0)
		s.conn.reached(stageJoin)
		if channel == "" {
			return true, nil
		}
		return false, s.send("JOIN " + channel)
	case "ERROR":
		return false, s.endedEarly(line.last())
	case "353":
		s.listed(line)
	case "366":
		return strings.EqualFold(line.param(1), channel), nil
	}
	return false, nil
}

// aboutPassword matches the words of ngIRCd, UnrealIRCd and others, notAdmitted those of InspIRCd and others, which name no password.
var (
	aboutPassword = regexp.MustCompile(`(?i)\bpassword\b`)
	notAdmitted   = regexp.MustCompile(`(?i)access denied by configuration|not authori[sz]ed|unauthori[sz]ed connection`)
)

// endedEarly is the failure of a connection that the server ends before it is registered.
func (s *ircSession) endedEarly(words string) error {
	remedy := "correct"
	if s.account.ServerPassword.IsZero() {
		remedy = "set"
	}
	switch {
	case s.refused != nil || failure.LimitsAddress(words) || s.sasl.pending():
		return exchange.EndedByIRC(s.refused, words)
	case aboutPassword.MatchString(words):
		return s.refusedPassword(words)
	case notAdmitted.MatchString(words):
		return failure.Errorf(failure.Forbidden, "the IRC server refuses the session: %s", failure.OneLine(words)).
			WithHint("no rule of the IRC server admits this connection: if it requires a password, " + remedy +
				" server_password; else admit the exporter's address there")
	}
	return exchange.EndedByIRC(nil, words)
}

// refusedPassword is the failure of a connection without the password that the server demands of everybody.
func (s *ircSession) refusedPassword(words string) error {
	if s.account.ServerPassword.IsZero() {
		return failure.Errorf(failure.Forbidden, "the IRC server refuses the session: %s", failure.OneLine(words)).
			WithHint("the IRC server requires a password for connections: set server_password, or exempt the exporter's address there")
	}
	return failure.Errorf(failure.Unauthorized, "the IRC server refuses server_password: %s", failure.OneLine(words)).
		WithHint("correct server_password: it is the password of the IRC server, not of an account")
}

// capabilities are those that a session asks for.
var capabilities = []string{"sasl", "echo-message"}

// negotiate handles an answer about capabilities.
func (s *ircSession) negotiate(line *ircLine) error {
	sasl := !s.account.Password.IsZero()
	switch line.param(1) {
	case "LS":
		for capability := range strings.FieldsSeq(line.last()) {
			name, value, _ := strings.Cut(capability, "=")
			if slices.Contains(capabilities, name) {
				s.offered[name] = true
			}
			if name == "sasl" {
				s.sasl.list(value)
			}
		}
		if line.param(2) == "*" {
			return nil // more lines follow
		}
		var wanted []string
		for _, name := range capabilities {
			switch {
			case s.offered[name] && (name != "sasl" || sasl):
				wanted = append(wanted, name)
			case name == "sasl" && sasl:
				return errNoSASL
			}
		}
		if len(wanted) == 0 {
			return s.send("CAP END")
		}
		return s.send("CAP REQ :" + strings.Join(wanted, " "))
	case "ACK":
		acknowledged := strings.Fields(line.last())
		s.echoes = slices.Contains(acknowledged, "echo-message")
		if sasl && slices.Contains(acknowledged, "sasl") {
			return s.beginLogin()
		}
		return s.send("CAP END")
	case "NAK":
		if sasl {
			return failure.Errorf(failure.Unauthorized, "the IRC server offers SASL and then refuses it").BeforeLogin()
		}
		return s.send("CAP END")
	}
	return nil
}

// nextNick tries another nick: the server may still hold the last session.
func (s *ircSession) nextNick(line *ircLine) error {
	s.nicks++
	if s.nicks >= maxNicks {
		return failure.Errorf(failure.Mismatch, "nick %s: %s", s.nick, failure.OneLine(line.last())).
			WithHint("nicks that begin like this one are taken: set nick to a free one, and let only one exporter use it")
	}
	s.nick = fmt.Sprintf("%s%d", s.account.Nick[:min(len(s.account.Nick), maxNickLength-1)], s.nicks)
	return s.send("NICK " + s.nick)
}

// isError reports whether a command is the numeric of an error.
func isError(command string) bool {
	return len(command) == 3 && (command[0] == '4' || command[0] == '5')
}

// forwardedRetry is how long a session does not try again to join a channel that forwards.
const forwardedRetry = 15 * time.Minute

// notJoined returns why a channel cannot be joined.
func (s *ircSession) notJoined(line *ircLine) error {
	channel := s.account.Channel
	reason, hint := failure.Forbidden, "let the exporter's nick or account join the channel"
	switch line.command {
	case "403", "476":
		reason, hint = failure.NotFound, "set irc.channel to the channel that the bridge maps, such as #bridge-check"
	case "474":
		hint = "the exporter is banned from the channel: remove the ban (MODE " + channel + " -b)"
	case "473":
		hint = "the channel is invite-only: invite the exporter's account permanently (MODE " + channel + " +I), or set -i"
	case "470": // each attempt would join the other channel
		forwards := failure.Errorf(reason, "join %s: %s", channel, failure.OneLine(line.last())).
			WithHint("the channel forwards to another one (+L): remove that mode or its limit, or set irc.channel " +
				"to the channel that the bridge maps")
		forwards.RetryAfter = forwardedRetry
		return forwards
	case "477":
		hint = "only accounts that the server knows may join the channel: set irc.user and irc.password"
		if s.sasl.done {
			hint = "the exporter is logged in, but the channel does not admit its account: verify the account, or admit it there"
		}
	}
	return failure.Errorf(reason, "join %s: %s", channel, failure.OneLine(line.last())).WithHint(hint)
}

// listen handles lines until the session ends.
func (s *ircSession) listen() error {
	for {
		line, err := s.next()
		if err != nil {
			return err
		}
		if err := s.handle(&line); err != nil {
			return err
		}
	}
}

// killedLink matches what servers write to a session that an operator or services have ended.
var killedLink = regexp.MustCompile(`(?i)[(\[](local )?kill(ed)?\b`)

// tooFast matches what servers say about messages that come too often.
var tooFast = regexp.MustCompile(`(?i)flood|too (fast|many|quick)|throttl|\brate|\bslow`)

func (s *ircSession) handle(line *ircLine) error {
	channel := s.account.Channel
	from, _, _ := strings.Cut(line.source, "!")
	switch line.command {
	case "PRIVMSG", "NOTICE":
		if channel != "" && strings.EqualFold(line.param(0), channel) {
			s.listener.Heard(Message{Text: line.last(), Nick: from, Address: line.source})
		}
	case "PONG":
		s.pong(line.last())
	case "NICK":
		if from != s.nick {
			s.listener.Moved(Move{Nick: from, How: Renamed, Why: line.param(0)})
		}
		s.rename(line)
	case "353":
		s.listed(line)
	case "366":
		if strings.EqualFold(line.param(1), channel) {
			s.listener.Members(s.takeNames())
		}
	case "JOIN", "QUIT", "MODE":
		s.observe(from, line)
	case "KICK":
		switch {
		case !strings.EqualFold(line.param(0), channel):
		case line.param(1) != s.nick:
			s.listener.Moved(Move{
				Nick: line.param(1),
				How:  Kicked,
				By:   from,
				Why:  line.param(2),
			})
		default:
			return failure.Errorf(failure.Forbidden, "kicked from %s: %s", channel, failure.OneLine(line.last())).
				WithHint("somebody kicked the exporter from the channel: tell its operators what it is for")
		}
	case "PART":
		switch {
		case !strings.EqualFold(line.param(0), channel):
		case from != s.nick:
			s.listener.Moved(Move{Nick: from, How: Left, Why: line.param(1)})
		default:
			return failure.Errorf(failure.Forbidden, "removed from %s: %s", channel, failure.OneLine(line.last()))
		}
	case "ERROR":
		reason := failure.Closed
		if tooFast.MatchString(line.last()) || failure.LimitsAddress(line.last()) {
			reason = failure.Throttled
		}
		hint := ""
		if departure(line.last()) == Killed || killedLink.MatchString(line.last()) {
			hint = "an operator or the services of the IRC server ended the session (KILL): ask the operators, and tell them what it " +
				"is for; services do it to free a registered nick: log in to its account (user, password), or set another nick"
		}
		return failure.Errorf(reason, "the IRC server ends the session: %s", failure.OneLine(line.last())).WithHint(hint)
	case "FAIL":
		if line.param(0) == "PRIVMSG" {
			s.refuse(line.last())
		}
	default:
		if isError(line.command) && channel != "" &&
			slices.ContainsFunc(line.params, func(p string) bool { return strings.EqualFold(p, channel) }) {
			s.refuse(line.last())
		}
	}
	return nil
}

// rename follows a change of the own nick.
func (s *ircSession) rename(line *ircLine) {
	if from, _, _ := strings.Cut(line.source, "!"); from == s.nick {
		s.nick = line.param(0)
		s.listener.Moved(Move{
			Own:  true,
			Nick: from,
			How:  Renamed,
			Why:  s.nick,
		})
	}
}

// listed looks for the session in a list of the channel's members, whose names have prefixes such as @.
func (s *ircSession) listed(line *ircLine) {
	if !strings.EqualFold(line.param(2), s.account.Channel) {
		return
	}
	for name := range strings.FieldsSeq(line.last()) {
		name, _, _ = strings.Cut(strings.TrimLeft(name, "~&@%+!"), "!")
		s.mu.Lock()
		if name == s.nick {
			s.member = true
		} else if len(s.names) < maxNames {
			s.names = append(s.names, name)
		}
		s.mu.Unlock()
	}
}

// takeNames returns the members that the server has listed, and makes room for the next list.
func (s *ircSession) takeNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.names
	s.names = nil
	return names
}

// observe tells the listener what happens to others.
func (s *ircSession) observe(from string, line *ircLine) {
	here := s.account.Channel != "" && strings.EqualFold(line.param(0), s.account.Channel)
	switch {
	case line.command == "QUIT" && from != s.nick:
		s.listener.Moved(Move{Nick: from, How: departure(line.last()), Why: line.last()})
	case line.command == "JOIN" && here && from != s.nick:
		s.listener.Moved(Move{Nick: from, How: Came})
	case line.command == "MODE" && here:
		for _, m := range moves(from, line) {
			s.listener.Moved(m)
		}
	}
}

// refuse reports that the server refuses a message: the oldest without an answer, since servers answer in order.
func (s *ircSession) refuse(cause string) {
	s.mu.Lock()
	text := ""
	if len(s.said) > 0 {
		text, s.said = s.said[0].text, s.said[1:]
	}
	s.mu.Unlock()
	if text == "" {
		return
	}
	reason := failure.Forbidden
	if tooFast.MatchString(cause) {
		reason = failure.Throttled
	}
	s.listener.Refused(text, failure.Errorf(reason, "the IRC server refuses the message: %s", failure.OneLine(cause)).
		WithHint("let the exporter speak in the channel: give it voice (MODE "+s.account.Channel+
			" +v), or remove the mode or ban that silences it"))
}

// pong handles the answer to a ping. A server without echo-message has then accepted the message before that ping.
func (s *ircSession) pong(token string) {
	s.mu.Lock()
	text, said := "", false
	if i := slices.IndexFunc(s.said, func(m saidMessage) bool { return m.token == token }); i >= 0 {
		text, said, s.said = s.said[i].text, true, s.said[i+1:]
	}
	if answered := s.pongs[token]; answered != nil {
		close(answered)
		delete(s.pongs, token)
	}
	s.mu.Unlock()
	if said && !s.echoes {
		s.listener.Heard(Message{Text: text})
	}
}

// Say implements Conversation.
func (s *ircSession) Say(ctx context.Context, text string) error {
	s.mu.Lock()
	s.pings++
	token := fmt.Sprintf("say%d", s.pings)
	s.said = append(s.said[max(0, len(s.said)-maxSaid+1):], saidMessage{token, text})
	s.mu.Unlock()
	// One write, so that both are in one packet.
	return s.conn.write(ctx, "PRIVMSG "+s.account.Channel+" :"+text+"\r\nPING :"+token+"\r\n")
}

// Ping implements Conversation. Servers answer in order, so the list of members comes before the answer to the ping.
func (s *ircSession) Ping(ctx context.Context) error {
	channel := s.account.Channel
	answered := make(chan struct{})
	s.mu.Lock()
	s.pings++
	token := fmt.Sprintf("ping%d", s.pings)
	s.pongs[token] = answered
	s.member = channel == ""
	request := "PING :" + token + "\r\n"
	if channel != "" {
		request = "NAMES " + channel + "\r\n" + request
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pongs, token)
	}()
	if err := s.conn.write(ctx, request); err != nil {
		return fmt.Errorf("ping the IRC server: %w", err)
	}
	select {
	case <-answered:
	case <-ctx.Done():
		return fmt.Errorf("ping the IRC server: %w", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.member {
		return failure.Errorf(failure.Forbidden, "the exporter is not in %s any more", channel).
			WithHint("somebody removed the exporter from the channel: tell its operators what it is for")
	}
	return nil
}
