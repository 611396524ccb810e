// Package chat holds conversations with chat servers as a user: it logs in, joins a channel or a room, and sends and hears messages.
package chat

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Server is where a conversation takes place.
type Server struct {
	exchange.TLSServer
	// Plain leaves TLS out; only IRC supports that.
	Plain bool
}

// Listener is told what happens in the channel or room. It must not block.
type Listener interface {
	// Joined is called once, when the conversation can begin.
	Joined(Conversation)
	// Heard is called with each message, in the server's order. That includes the messages of this conversation, once the server has
	// accepted them.
	Heard(m Message)
	// Refused is called with the text of a message of this conversation that the server refuses.
	Refused(text string, err error)
	// Members is called with the nicks of all others who are there, after Joined, and again when the server lists them.
	Members(nicks []string)
	// Moved is called with what happens to others, and with a new nick that somebody has given this conversation.
	Moved(m Move)
	// Archived is called if the room keeps an archive of its messages.
	Archived()
}

// Message is a message in the channel or room.
type Message struct {
	Text string
	// Nick is who said it; "" for this conversation, if its server does not send its messages back. Address is nick!user@host on IRC.
	Nick, Address string
}

// Conversation is a session that is logged in and has joined. Its methods are safe for concurrent use.
type Conversation interface {
	// Say sends a message. It waits only for the network, until ctx is done.
	Say(ctx context.Context, text string) error
	// Ping asks the server whether the session is still in the channel or room, and waits for the answer. After ErrRoomSilent, the
	// session may still be in the room.
	Ping(ctx context.Context) error
}

// Account is a user of a chat server.
type Account interface {
	// Run connects, logs in, joins, and listens until ctx is done or the session ends. The error says why; it is nil only
	// if ctx was cancelled.
	Run(ctx context.Context, r *exchange.Record, l Listener) error
}

// ErrRoomSilent says that the XMPP server works, but not the service of the room: a component that is stopped or hangs.
var ErrRoomSilent = errors.New("the service of the room does not answer, although the XMPP server does")

// ErrNoRoomService is an ErrRoomSilent of a server that knows no service of that name: the component is not connected, or misspelt.
var ErrNoRoomService = fmt.Errorf("%w: nothing serves its address", ErrRoomSilent)

const (
	// connectTimeout bounds the time until the connection is ready, with its encryption.
	connectTimeout = 10 * time.Second
	// loginTimeout bounds the time from the connection to the joined channel or room.
	loginTimeout = 30 * time.Second
	// MaxJoin is the time until an Account has joined or failed.
	MaxJoin = connectTimeout + loginTimeout
	// writeTimeout is how long a server may read nothing.
	writeTimeout = 10 * time.Second
)

// converse connects within connectTimeout and calls talk with the connection. When ctx is done, reads and writes fail.
func (s *Server) converse(ctx context.Context, r *exchange.Record, talk func(*link) error) error {
	session, cancel := context.WithCancel(ctx)
	defer cancel()
	connecting := time.AfterFunc(connectTimeout, cancel)
	defer connecting.Stop()
	err := s.connect(session, r, func(conn net.Conn) error {
		connecting.Stop()
		l := newLink(session, conn)
		defer l.hangUp()
		return talk(l)
	})
	if session.Err() != nil && ctx.Err() == nil && failure.ReasonOf(err) != failure.DNS {
		return failure.Errorf(failure.Timeout, "connect to %s: not done within %s: %w", s.Address, connectTimeout, err).
			WithHint("the server accepts connections but does not go on, or a firewall drops them: restart the server, or read its log" +
				s.withoutTLS())
	}
	return err
}

// withoutTLS says what may keep a handshake with an IRC server from its end.
func (s *Server) withoutTLS() string {
	if s.Plain || !s.IRC {
		return ""
	}
	return ". If the port speaks IRC without TLS, as 6667 does, use the TLS port, or set plain: true"
}

// connect connects and calls talk.
func (s *Server) connect(ctx context.Context, r *exchange.Record, talk func(net.Conn) error) error {
	if !s.Plain {
		return s.Converse(ctx, r, func(conn *tls.Conn) error { return talk(conn) })
	}
	ctx, timing := r.Begin(ctx, "connect to "+s.Address)
	err := s.connectPlain(ctx, talk)
	timing.End("reply", err)
	return err
}

// connectPlain connects without TLS and calls talk.
func (s *Server) connectPlain(ctx context.Context, talk func(net.Conn) error) error {
	conn, err := exchange.Dial(ctx, s.Connection, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Address, err)
	}
	defer conn.Close()                                                           //nolint:errcheck // the conversation is over
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })() //nolint:errcheck // a closed one wakes them too
	heard := exchange.Hear(conn)
	err = talk(heard)
	switch {
	case err == nil:
		return nil
	case failure.ReasonOf(err) == failure.Closed && !heard.Answered() && !failure.HasHint(err):
		err = failure.Errorf(failure.Closed, "%s: %w", s.Address, err).
			WithHint("read the server's log; if TLS begins at once on this port, as on 6697, remove plain")
		return exchange.WithHeader(err, heard, s.Connection)
	}
	return fmt.Errorf("%s: %w", s.Address, err)
}

// withDeadline calls login with a deadline on the connection, and removes it afterwards.
func (l *link) withDeadline(login func() error) error {
	if err := l.SetReadDeadline(time.Now().Add(loginTimeout)); err != nil {
		return err
	}
	if err := login(); err != nil {
		return err
	}
	l.reached(stageJoined)
	if err := l.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return l.session.Err() // the line before may have undone what wakes the reader
}

// ended returns what a session ended with: nil if ctx was cancelled.
func ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil
	case ctx.Err() != nil && err == nil:
		return ctx.Err()
	}
	if err == nil {
		err = failure.Errorf(failure.Closed, "the server ended the session")
	}
	return err
}
