package chat

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// maxLogin bounds what a session reads until it is logged in, in bytes.
	maxLogin = 64 << 10
	// maxTraffic bounds what it reads from then until it has joined, and within each minute afterwards, in bytes.
	maxTraffic = 4 << 20
	// lastWords is how long a session reads on after a write has failed, and how long a farewell may take.
	lastWords = time.Second
)

// stage is how far a session is.
type stage int

const (
	stageLogin stage = iota
	stageJoin
	stageJoined
)

// link is the connection of a session. It bounds how much a session reads, and how long a write takes.
type link struct {
	net.Conn
	session context.Context //nolint:containedctx // writes of the session itself end with it

	stage   stage
	left    int       // bytes that may still be read
	renewed time.Time // when left was set

	writing chan struct{} // holds a value while somebody writes
	failed  atomic.Pointer[error]
	polite  bool // the server has our farewell
}

func newLink(session context.Context, conn net.Conn) *link {
	return &link{
		Conn:    conn,
		session: session,
		left:    maxLogin,
		renewed: time.Now(),
		writing: make(chan struct{}, 1),
	}
}

// reached says how far the session is. Only its reader calls it.
func (l *link) reached(s stage) { l.stage, l.left, l.renewed = s, maxTraffic, time.Now() }

// Read implements net.Conn.
func (l *link) Read(b []byte) (int, error) {
	if l.stage == stageJoined && time.Since(l.renewed) >= time.Minute {
		l.reached(stageJoined)
	}
	if l.left == 0 {
		limit, when := maxTraffic, "within a minute"
		switch l.stage {
		case stageLogin:
			limit, when = maxLogin, "before the login was complete"
		case stageJoin:
			when = "before the session had joined"
		case stageJoined:
		}
		return 0, failure.Errorf(failure.TooLarge, "the server sent more than %d bytes %s", limit, when).
			WithHint("the server or somebody in the channel or room floods the session, or something else answers at this address: " +
				"read the server's log")
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	if failed := l.failed.Load(); err != nil && failed != nil {
		err = *failed
	}
	return n, err
}

// write sends text. It fails if the server does not read until ctx is done, or for writeTimeout; the session then ends.
func (l *link) write(ctx context.Context, text string) error {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if failed := l.failed.Load(); failed != nil {
		return *failed
	}
	deadline := time.Now().Add(writeTimeout)
	if until, ok := ctx.Deadline(); ok && until.Before(deadline) {
		deadline = until
	}
	if err := l.SetWriteDeadline(deadline); err != nil {
		return err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		l.SetWriteDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed one fails too
		close(woken)
	})
	_, err := l.Conn.Write([]byte(text))
	if !stop() {
		<-woken // it must not wake the next writer
	}
	if err != nil {
		l.failed.Store(&err)
		l.SetReadDeadline(time.Now().Add(lastWords)) //nolint:errcheck // a closed one ends the session too
	}
	return err
}

// farewell says why the session ends, in the protocol's own words.
func (l *link) farewell(ended context.Context, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), lastWords)
	defer cancel()
	l.polite = l.write(ctx, text) == nil
}

// hangUp closes the connection at once if the server may not read: TLS would wait 5 s to send that it closes.
func (l *link) hangUp() {
	if secure, ok := l.Conn.(*tls.Conn); ok && !l.polite {
		secure.NetConn().Close() //nolint:errcheck // the conversation is over
	}
}
