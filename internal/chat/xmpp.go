package chat

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// XMPP is an account on an XMPP server. It sends no presence but to its room, so its contacts see nothing and no stored message arrives.
type XMPP struct {
	Server
	// User is the part of the account's address before the @, Server.Domain the part behind it.
	User     string
	Password config.Secret
	// Iterations is how much work a login by SCRAM may take at most.
	Iterations int
	// Room is the address of the room to join (XEP-0045), Nick the nick there; Room is "" for none.
	Room, Nick string
}

// The namespaces of a session.
const (
	nsStream  = "http://etherx.jabber.org/streams"
	nsSASL    = "urn:ietf:params:xml:ns:xmpp-sasl"
	nsBind    = "urn:ietf:params:xml:ns:xmpp-bind"
	nsPing    = "urn:xmpp:ping"
	nsRoom    = "http://jabber.org/protocol/muc"
	nsRoomFor = "http://jabber.org/protocol/muc#user"
	nsStanzas = "urn:ietf:params:xml:ns:xmpp-stanzas"
	nsDelay   = "urn:xmpp:delay"

	nsBindings = "urn:xmpp:sasl-cb:0"
	nsDisco    = "http://jabber.org/protocol/disco#info"
	// nsArchive begins the names of all versions of XEP-0313.
	nsArchive = "urn:xmpp:mam:"
)

// Run implements Account.
func (a *XMPP) Run(ctx context.Context, r *exchange.Record, l Listener) error {
	return ended(ctx, a.converse(ctx, r, func(conn *link) error {
		s := newXMPPSession(a, conn, l)
		if err := conn.withDeadline(s.login); err != nil {
			return err
		}
		l.Joined(s)
		l.Members(s.names)
		s.names = nil
		if err := s.askArchive(); err != nil {
			return err
		}
		err := s.listen()
		if ctx.Err() != nil {
			conn.farewell(ctx, "</stream:stream>")
		}
		return err
	}))
}

func newXMPPSession(a *XMPP, conn *link, l Listener) *xmppSession {
	return &xmppSession{
		account:  a,
		conn:     conn,
		in:       newPruner(conn),
		nick:     a.Nick,
		listener: l,
		asked:    map[string]chan *element{},
	}
}

// xmppSession is a conversation over XMPP.
type xmppSession struct {
	account  *XMPP
	conn     *link
	in       *pruner
	xml      *xml.Decoder
	listener Listener
	nick     string // in the room
	nicks    int
	names    []string // of the others who were there before

	loggedIn bool

	mu    sync.Mutex
	asked map[string]chan *element // requests without an answer, by id
	said  []string                 // the last messages that have not come back
}

// element is an element with its children.
type element struct {
	XMLName  xml.Name
	Attr     []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (e *element) attr(name string) string {
	for _, a := range e.Attr {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// child returns the first child of that name; nil if there is none.
func (e *element) child(space, local string) *element {
	for i := range e.Children {
		if e.Children[i].XMLName == (xml.Name{Space: space, Local: local}) {
			return &e.Children[i]
		}
	}
	return nil
}

// status reports whether a presence in a room has a status code (XEP-0045).
func (e *element) status(codes ...string) bool {
	x := e.child(nsRoomFor, "x")
	if x == nil {
		return false
	}
	for i := range x.Children {
		for _, code := range codes {
			if c := &x.Children[i]; c.XMLName.Local == "status" && c.attr("code") == code {
				return true
			}
		}
	}
	return false
}

// condition returns the name of an error's condition and its text, if it has one.
func (e *element) condition() (name, text string) {
	for i := range e.Children {
		switch c := &e.Children[i]; {
		case c.XMLName.Local == "text":
			text = ": " + c.Text
		case name == "":
			name = c.XMLName.Local
		}
	}
	return name, text
}

// open begins a stream on the connection and reads its features.
func (s *xmppSession) open() (*element, error) {
	header := fmt.Sprintf(
		"<?xml version='1.0'?><stream:stream to='%s' version='1.0' xml:lang='en' xmlns='jabber:client' xmlns:stream='%s'>",
		escape(s.account.Domain), nsStream)
	if err := s.write(header); err != nil {
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	s.in.restart()
	s.xml = xml.NewDecoder(s.in)
	for {
		token, err := s.xml.Token()
		if err != nil {
			return nil, s.readError(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name != (xml.Name{Space: nsStream, Local: "stream"}) {
				return nil, failure.Errorf(failure.Malformed, "the server opens a %q instead of a stream",
					failure.OneLine(start.Name.Local))
			}
			break
		}
	}
	features, err := s.next()
	if err == nil && features.XMLName.Local != "features" {
		err = failure.Errorf(failure.Malformed, "%q instead of the stream's features", failure.OneLine(features.XMLName.Local))
	}
	return features, err
}

// next reads a stanza. The end of the stream and a stream error are errors.
func (s *xmppSession) next() (*element, error) {
	for {
		token, err := s.xml.Token()
		if err != nil {
			return nil, s.readError(err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			return nil, failure.Errorf(failure.Closed, "the server closed the stream")
		case xml.StartElement:
			var e element
			if err := s.xml.DecodeElement(&e, &t); err != nil {
				return nil, s.readError(err)
			}
			if e.XMLName == (xml.Name{Space: nsStream, Local: "error"}) {
				return nil, s.streamError(&e)
			}
			return &e, nil
		}
	}
}

// readError classifies an error of the decoder: those of the connection keep their reason.
func (s *xmppSession) readError(err error) error {
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		if syntax.Msg == "unexpected EOF" {
			return failure.Errorf(failure.Closed, "read from the XMPP server: %w", io.ErrUnexpectedEOF)
		}
		return failure.Errorf(failure.Malformed, "read from the XMPP server: %w", err)
	}
	return fmt.Errorf("read from the XMPP server: %w", err)
}

// streamError is how a server ends a session.
func (s *xmppSession) streamError(e *element) error {
	name, text := e.condition()
	reason, hint := failure.Closed, ""
	switch {
	case failure.LimitsStream(name, text, s.loggedIn):
		reason, hint = failure.Throttled, exchange.LimitHint("")
	case name == "conflict", name == "not-authorized":
		reason = failure.Mismatch
	case name == "host-unknown", name == "host-gone":
		reason = failure.NotFound
	}
	return failure.Errorf(reason, "the XMPP server ends the session: %s", failure.OneLine(name+text)).WithHint(hint)
}

// login authenticates, binds a resource and joins the room.
func (s *xmppSession) login() error {
	features, err := s.open()
	if err != nil {
		return err
	}
	if err := s.authenticate(features); err != nil {
		return err
	}
	s.loggedIn = true
	s.conn.reached(stageJoin)
	if _, err := s.open(); err != nil {
		return err
	}
	if err := s.bind(); err != nil {
		return err
	}
	if s.account.Room == "" {
		return nil
	}
	return s.join()
}

func (s *xmppSession) bind() error {
	if err := s.write("<iq type='set' id='bind'><bind xmlns='" + nsBind + "'/></iq>"); err != nil {
		return err
	}
	for {
		e, err := s.next()
		if err != nil {
			return err
		}
		if e.XMLName.Local != "iq" || e.attr("id") != "bind" {
			continue
		}
		if e.attr("type") != "result" {
			return stanzaError("bind a session", e)
		}
		return nil
	}
}

// maxOthers is how many stanzas may come before the room's answer from a server that works: the rest is a flood, which hides the answer.
const maxOthers = 100

// join enters the room without its history.
func (s *xmppSession) join() error {
	if err := s.enter(); err != nil {
		return err
	}
	others := 0 // stanzas that are no answer of the room
	for ; ; others++ {
		e, err := s.next()
		if errors.Is(err, os.ErrDeadlineExceeded) && others <= maxOthers { // the server has just bound the session, so it works
			return failure.Errorf(failure.NotDelivered, "join %s: %w", s.account.Room, ErrRoomSilent).WithHint(silentHint)
		}
		if err != nil {
			return err
		}
		if e.XMLName.Local != "presence" {
			if err := s.handle(e); err != nil {
				return err
			}
			continue
		}
		room, nick, _ := strings.Cut(e.attr("from"), "/")
		if !s.isRoom(room) {
			continue
		}
		others = maxOthers // the room speaks
		switch {
		case e.attr("type") == "error":
			if fault := e.child("jabber:client", "error"); fault != nil && fault.child(nsStanzas, "conflict") != nil && s.nicks < maxNicks {
				s.nicks++
				s.nick = fmt.Sprintf("%s%d", s.account.Nick, s.nicks)
				if err := s.enter(); err != nil {
					return err
				}
				continue
			}
			return stanzaError("join "+s.account.Room, e)
		case e.status("201"):
			// Joining has created the room, which only its owner may do. Leaving ends it.
			//nolint:errcheck // the session ends anyway
			s.write("<presence type='unavailable' to='" + escape(s.account.Room+"/"+s.nick) + "'/>")
			return failure.Errorf(failure.NotFound, "join %s: the room does not exist", s.account.Room).
				WithHint("create the room, make it persistent, and map it in the bridge; or correct xmpp.room")
		case e.status("110"):
			s.nick = nick
			return nil
		case e.attr("type") == "" && len(s.names) < maxNames:
			s.names = append(s.names, nick)
		}
	}
}

// discoID is the id of the question what the room supports.
const discoID = "disco"

// askArchive asks whether the room keeps an archive.
func (s *xmppSession) askArchive() error {
	if s.account.Room == "" {
		return nil
	}
	return s.write("<iq type='get' id='" + discoID + "' to='" + escape(s.account.Room) + "'><query xmlns='" + nsDisco + "'/></iq>")
}

// archives reports whether an answer says that a room keeps an archive.
func archives(e *element) bool {
	query := e.child(nsDisco, "query")
	return query != nil && slices.ContainsFunc(query.Children, func(c element) bool {
		return c.XMLName.Local == "feature" && strings.HasPrefix(c.attr("var"), nsArchive)
	})
}

// isRoom reports whether an address, without a nick, is that of the session's room. Servers write its host in their own spelling.
func (s *xmppSession) isRoom(address string) bool {
	name, host, _ := strings.Cut(address, "@")
	ours, at, _ := strings.Cut(s.account.Room, "@")
	return s.account.Room != "" && strings.EqualFold(name, ours) && exchange.SameHost(host, at)
}

func (s *xmppSession) enter() error {
	return s.write("<presence to='" + escape(s.account.Room+"/"+s.nick) + "'><x xmlns='" + nsRoom +
		"'><history maxstanzas='0'/></x></presence>")
}

// stanzaError returns the failure of a request that the server or the room refuses.
func stanzaError(what string, e *element) *failure.Error {
	fault := e.child("jabber:client", "error")
	if fault == nil {
		return failure.Errorf(failure.Malformed, "%s: an error without a condition", what)
	}
	if silent := silence(fault); silent != nil {
		return failure.Errorf(failure.NotDelivered, "%s: %w", what, silent).WithHint(silentHint)
	}
	name, text := fault.condition()
	reason, hint := failure.Mismatch, ""
	switch name {
	case "registration-required", "forbidden", "not-allowed":
		reason, hint = failure.Forbidden, "the room does not admit the exporter's account: make the account a member, and lift a ban"
	case "not-acceptable":
		reason, hint = failure.Forbidden, "the exporter is not in the room any more, or may not speak there: give it voice"
	case "not-authorized":
		reason, hint = failure.Forbidden, "the room has a password, which the exporter cannot send: remove the password, "+
			"and make the room members-only if it must be closed"
	case "item-not-found", "service-unavailable", "gone", "jid-malformed":
		reason, hint = failure.NotFound, "set xmpp.room to the address of the room that the bridge maps, such as check@rooms.example.org"
	case "policy-violation":
		reason = failure.Throttled
	}
	return failure.Errorf(reason, "%s: %s", what, failure.OneLine(name+text)).WithHint(hint)
}

// listen handles stanzas until the session ends.
func (s *xmppSession) listen() error {
	for {
		e, err := s.next()
		if err != nil {
			return err
		}
		if err := s.handle(e); err != nil {
			return err
		}
	}
}

func (s *xmppSession) handle(e *element) error {
	room, nick, member := strings.Cut(e.attr("from"), "/")
	inRoom := s.isRoom(room)
	switch kind := e.attr("type"); {
	case e.XMLName.Local == "iq":
		return s.handleIQ(e)
	case e.XMLName.Local == "message" && inRoom && kind == "error":
		return s.refused(e, !member)
	case e.XMLName.Local == "message" && inRoom && kind == "groupchat" && e.child(nsDelay, "delay") == nil:
		if body := e.child("jabber:client", "body"); body != nil {
			s.answered(body.Text)
			s.listener.Heard(Message{Text: body.Text, Nick: nick})
		}
	case e.XMLName.Local == "presence" && inRoom && kind == "unavailable" && (nick == s.nick || e.status("110")):
		return s.left(e)
	case e.XMLName.Local == "presence" && inRoom && member:
		s.listener.Moved(moveOf(e, nick))
	}
	return nil
}

// moveOf is what a presence in the room says of somebody else.
func moveOf(e *element, nick string) Move {
	m := Move{Nick: nick}
	var item *element
	if x := e.child(nsRoomFor, "x"); x != nil {
		item = x.child(nsRoomFor, "item")
	}
	if item != nil {
		if actor := item.child(nsRoomFor, "actor"); actor != nil {
			m.By = actor.attr("nick")
		}
		if reason := item.child(nsRoomFor, "reason"); reason != nil {
			m.Why = reason.Text
		}
	}
	switch {
	case e.attr("type") == "" && item != nil && item.attr("role") == "visitor":
		m.How = Silenced
	case e.attr("type") == "":
		m.How = Came
	case e.status("303") && item != nil:
		m.How, m.Why = Renamed, item.attr("nick")
	case e.status("301"):
		m.How = Banned
	case e.status("307", "321", "322") && !e.status("333"):
		m.How = Kicked
	default:
		m.How = Left
		if status := e.child("jabber:client", "status"); status != nil && m.Why == "" {
			m.Why = status.Text
		}
	}
	return m
}

// answered forgets a message of ours whose answer has come. It reports whether it was waited for.
func (s *xmppSession) answered(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.said, text)
	if i >= 0 {
		s.said = slices.Delete(s.said, i, i+1)
	}
	return i >= 0
}

// refused handles an error about a message. Members can send errors too, from the room's address with their nick; they are believed only
// about a message of ours that the room has not shown to anybody, and never end the session.
func (s *xmppSession) refused(e *element, byRoom bool) error {
	if ours := s.answered(e.attr("id")); !ours && !byRoom {
		return nil
	}
	err := stanzaError("the room refuses the message", e)
	s.listener.Refused(e.attr("id"), err)
	if fault := e.child("jabber:client", "error"); byRoom && fault != nil && fault.child(nsStanzas, "not-acceptable") != nil {
		return err // the session is not in the room any more, so the next one joins it
	}
	return nil
}

// write sends a stanza of the session itself.
func (s *xmppSession) write(text string) error { return s.conn.write(s.conn.session, text) }

// left returns why the session is not in the room any more; nil after a change of its nick.
func (s *xmppSession) left(e *element) error {
	reason, what, hint := failure.Forbidden, "removed from the room", "make the exporter's account a member of the room"
	x := e.child(nsRoomFor, "x")
	switch {
	case e.status("303"):
		if item := x.child(nsRoomFor, "item"); item != nil {
			s.mu.Lock()
			s.nick = item.attr("nick")
			s.mu.Unlock()
		}
		return nil
	case e.status("301"):
		what, hint = "banned from the room", "somebody banned the exporter's account: lift the ban"
	case e.status("307"):
		what, hint = "kicked from the room", "somebody kicked the exporter from the room: tell its owners what it is for"
	case e.status("332"):
		return failure.Errorf(failure.NotDelivered, "%s: %w", s.account.Room, ErrRoomSilent).WithHint(silentHint)
	case x != nil && x.child(nsRoomFor, "destroy") != nil:
		reason, what, hint = failure.NotFound, "the room was destroyed",
			"create the room again, make it persistent, and map it in the bridge"
	}
	return failure.Errorf(reason, "%s: %s", s.account.Room, what).WithHint(hint)
}

// handleIQ handles an answer, or answers a request.
func (s *xmppSession) handleIQ(e *element) error {
	id, from := e.attr("id"), e.attr("from")
	switch e.attr("type") {
	case "get", "set":
		answer := fmt.Sprintf("<iq type='error' id='%s' to='%s'><error type='cancel'><service-unavailable xmlns='%s'/></error></iq>",
			escape(id), escape(from), nsStanzas)
		if e.child(nsPing, "ping") != nil {
			answer = fmt.Sprintf("<iq type='result' id='%s' to='%s'/>", escape(id), escape(from))
		}
		if from == "" {
			answer = strings.Replace(answer, " to=''", "", 1)
		}
		return s.write(answer)
	case "result", "error":
		if id == discoID && s.isRoom(from) && archives(e) {
			s.listener.Archived()
		}
		s.mu.Lock()
		answered := s.asked[id]
		delete(s.asked, id)
		s.mu.Unlock()
		if answered != nil {
			answered <- e
		}
	}
	return nil
}

const silentHint = "the component that serves the room hangs or is not connected: read its log and that of the XMPP server; " +
	"if it is the bridge, restart it"

// silence returns the error of a server that cannot reach the room's service; nil for other errors.
func silence(fault *element) error {
	switch {
	case fault.child(nsStanzas, "remote-server-not-found") != nil:
		return ErrNoRoomService
	case fault.child(nsStanzas, "remote-server-timeout") != nil,
		fault.attr("type") == "wait" && fault.child(nsStanzas, "service-unavailable") != nil:
		return ErrRoomSilent
	}
	return nil
}

// Say implements Conversation. The text is also the id, which a refusal repeats. Hints keep the message out of archives (XEP-0334).
func (s *xmppSession) Say(ctx context.Context, text string) error {
	s.mu.Lock()
	s.said = append(s.said[max(0, len(s.said)-maxSaid+1):], text)
	s.mu.Unlock()
	return s.conn.write(ctx, fmt.Sprintf("<message type='groupchat' id='%s' to='%s'><body>%s</body><no-store "+
		"xmlns='urn:xmpp:hints'/><no-permanent-store xmlns='urn:xmpp:hints'/></message>",
		escape(text), escape(s.account.Room), escape(text)))
}

// Ping implements Conversation. It asks the server and the room at once, to tell which of both does not answer. Any answer of the server
// will do: one without ping refuses. In the room, the ping comes back to this session, which answers it (XEP-0410); so every error means
// that the session is not there any more.
func (s *xmppSession) Ping(ctx context.Context) error {
	server, err := s.ask(ctx, s.account.Domain)
	if err != nil {
		return err
	}
	defer s.forget(server)
	if s.account.Room == "" {
		_, err := server.wait(ctx)
		return err
	}
	s.mu.Lock()
	address := s.account.Room + "/" + s.nick
	s.mu.Unlock()
	room, err := s.ask(ctx, address)
	if err != nil {
		return err
	}
	defer s.forget(room)
	if _, err := server.wait(ctx); err != nil {
		return err
	}
	answer, err := room.wait(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure.Errorf(failure.NotDelivered, "ping %s: %w", s.account.Room, ErrRoomSilent).WithHint(silentHint)
	case err == nil && answer.attr("type") == "error":
		return stanzaError("ping", answer)
	}
	return err
}

// question is a ping without an answer.
type question struct {
	id, to   string
	answered chan *element
}

// ask sends a ping.
func (s *xmppSession) ask(ctx context.Context, to string) (*question, error) {
	s.mu.Lock()
	q := &question{id: "ping" + rand.Text(), to: to, answered: make(chan *element, 1)}
	s.asked[q.id] = q.answered
	s.mu.Unlock()
	return q, s.conn.write(ctx, fmt.Sprintf("<iq type='get' id='%s' to='%s'><ping xmlns='%s'/></iq>", q.id, escape(to), nsPing))
}

func (s *xmppSession) forget(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, q.id)
}

// wait waits for the answer.
func (q *question) wait(ctx context.Context) (*element, error) {
	select {
	case answer := <-q.answered:
		return answer, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ping %s: %w", q.to, ctx.Err())
	}
}

// escape makes text safe in an attribute or an element.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder accepts everything
	return b.String()
}
