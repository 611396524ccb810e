package chat

import (
	"slices"
	"strings"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// saslChunk is the length of a line of SASL; a shorter one ends the message.
const saslChunk = 400

// ircLogin is a login by IRCv3's extension sasl. The server may refuse a mechanism, and then accept another one.
type ircLogin struct {
	*saslLogin          // the current one; nil before
	offered    []string // mechanisms; nil while the server does not list them
	tried      []string // mechanisms
	sent       int      // messages of the current login
	challenge  string   // the lines so far of a message of the server
	done       bool
}

// pending reports whether the server must still answer.
func (l *ircLogin) pending() bool { return l.saslLogin != nil && !l.done }

// list notes which mechanisms the server offers.
func (l *ircLogin) list(mechanisms string) {
	if mechanisms != "" {
		l.offered = strings.Split(mechanisms, ",")
	}
}

// beginLogin begins a login by the best mechanism that the server offers, or by PLAIN if it lists none.
func (s *ircSession) beginLogin() error {
	l := &s.sasl
	if l.offered == nil {
		return s.tryLogin(plainText)
	}
	if mechanism := bestMechanism(l.offered, false); mechanism != "" {
		return s.tryLogin(mechanism)
	}
	return failure.Errorf(failure.Unauthorized, "log in as %s: %s, none that the exporter can use",
		s.account.User, theOffer(l.offered)).BeforeLogin().
		WithHint("the exporter can use SCRAM and PLAIN: enable one of them where the accounts are kept, " +
			"or remove the IRC password to check without an account")
}

func (s *ircSession) tryLogin(mechanism string) error {
	account := saslAccount{
		actAs:      s.account.User,
		user:       s.account.User,
		password:   s.account.Password.Reveal(),
		iterations: s.account.Iterations,
	}
	login, err := account.begin(mechanism, xdg.ChannelBinding{})
	if err != nil {
		return err
	}
	l := &s.sasl
	l.saslLogin, l.tried, l.sent, l.challenge = login, append(l.tried, mechanism), 0, ""
	return s.send("AUTHENTICATE " + mechanism)
}

// challenged answers a line of a message of the server; + is an empty one.
func (s *ircSession) challenged(line string) error {
	l := &s.sasl
	if !l.pending() {
		return failure.Errorf(failure.Malformed, "the IRC server sends a challenge without a login")
	}
	if l.sent == 0 && line != "+" {
		return failure.Errorf(failure.Malformed, "log in as %s: the server sends a challenge before the first message of %s",
			s.account.User, l.mechanism)
	}
	l.challenge += strings.TrimPrefix(line, "+")
	if len(line) == saslChunk {
		return nil // more lines follow
	}
	message := l.challenge
	l.challenge = ""
	switch l.sent {
	case maxChallenges:
		return failure.Errorf(failure.Malformed, "log in as %s: more than %d challenges", s.account.User, maxChallenges)
	case 0:
		return s.authenticate(l.first)
	}
	response, err := l.answer(s.conn.session, message)
	switch {
	case failure.HasType[*refusal](err):
		return nil // the server's 904 follows
	case err != nil:
		return unproved(err)
	}
	return s.authenticate(response)
}

// authenticate sends a message in lines.
func (s *ircSession) authenticate(message string) error {
	s.sasl.sent++
	for len(message) >= saslChunk {
		if err := s.send("AUTHENTICATE " + message[:saslChunk]); err != nil {
			return err
		}
		message = message[saslChunk:]
	}
	if message == "" {
		message = "+"
	}
	return s.send("AUTHENTICATE " + message)
}

// acceptedLogin ends the login that the server accepts.
func (s *ircSession) acceptedLogin() error {
	l := &s.sasl
	if !l.pending() || l.sent == 0 {
		return failure.Errorf(failure.Malformed,
			"log in as %s: the IRC server accepts the login before it has the password", s.account.User)
	}
	if err := l.accepted(); err != nil {
		return unproved(err)
	}
	l.done = true
	s.conn.reached(stageJoin)
	return s.send("CAP END")
}

// refusedLogin tries another mechanism if the server has not judged the password, or returns why it refuses the login.
func (s *ircSession) refusedLogin(line *ircLine) error {
	l := &s.sasl
	if failure.LimitsAddress(line.last()) {
		return failure.Errorf(failure.Throttled, "log in as %s: %s", s.account.User, failure.OneLine(line.last())).
			WithHint(exchange.LimitHint(""))
	}
	if mechanism := l.next(); line.command == "904" && mechanism != "" {
		return s.tryLogin(mechanism)
	}
	offer, by := "", ""
	if l.offered != nil {
		offer = "; " + theOffer(l.offered)
	}
	if l.saslLogin != nil {
		by = " by " + l.mechanism
	}
	refused := failure.Errorf(failure.Unauthorized, "log in as %s%s: %s%s", s.account.User, by, failure.OneLine(line.last()), offer)
	if l.sent == 0 {
		return refused.BeforeLogin().WithHint("the IRC server refuses the login before it has the password: " +
			"if services keep its accounts, they may not be linked: read their log")
	}
	return refused.WithHint("the IRC server refuses the account or its password: correct user and password of the IRC account; " +
		"if services keep its accounts, they may not be linked")
}

// next returns a mechanism to try after a refusal without a look at the password: of the mechanism, or of an account whose password the
// services have in a form that does not fit SCRAM. It is "" if there is none.
func (l *ircLogin) next() string {
	left := slices.DeleteFunc(slices.Clone(l.offered), func(m string) bool { return slices.Contains(l.tried, m) })
	switch {
	case !l.pending():
		return ""
	case l.sent == 0:
		return bestMechanism(left, false)
	case l.sent == 1 && l.scram != nil && slices.Contains(left, plainText):
		return plainText
	}
	return ""
}

var errNoSASL = failure.Errorf(failure.Unauthorized, "the IRC server offers no SASL").BeforeLogin().
	WithHint("it may not support SASL, or services keep its accounts and are not linked: link them, " +
		"or remove the IRC password to check without an account")
