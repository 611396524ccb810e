package simstack

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// service is one server of the stack. It speaks HTTP/1.1 by itself, since the real ones answer in ways that net/http's
// server cannot: without a length, with a length and no body, with a header before the request was read, or never.
type service struct {
	name   string
	faults map[string]string // descriptions by name
	// switched has functions to call when a fault is switched, one change at a time.
	switched map[string]func(on bool)
	// handle answers one request.
	handle func(*exchange) *answer
	// speak serves a connection in a protocol other than HTTP, over TLS if the service is secure; nil means HTTP.
	speak func(ctx context.Context, conn net.Conn)
	// refuse may end a connection before TLS and before the client speaks, and reports whether it did; nil accepts all.
	refuse func(conn net.Conn) bool
	// secure services speak TLS from the first byte. plain is their answer to plain HTTP, silence by default. startTLS services begin
	// TLS themselves.
	secure, startTLS bool
	plain            func() *answer
	tls              *tls.Config
	slow             time.Duration

	listening
	switches
	journal
}

// listening is where a service listens.
type listening struct {
	endpoints []*endpoint
	network   *Network // nil means the machine's network
	wg        *sync.WaitGroup

	mu     sync.Mutex
	cut    context.CancelFunc // cuts all connections
	closed bool
}

// endpoint is one address of a service.
type endpoint struct {
	network, address string
	// lines serves a connection in a protocol other than HTTP; nil means HTTP.
	lines    func(ctx context.Context, conn net.Conn)
	listener net.Listener
	// release frees the port, which stays reserved while nothing listens. It may be nil.
	release func()
}

// errClosed is the error of calls after Close.
var errClosed = errors.New("the stack is closed")

const (
	// maxRequests is how many requests a service remembers.
	maxRequests = 10_000
	// maxHang bounds how long a connection hangs, so that a lasting fault does not collect connections.
	maxHang = 5 * time.Minute
	// maxIdle is how long a connection may stay open between requests.
	maxIdle = 2 * time.Minute
	// maxSession is how long a user may say nothing.
	maxSession = time.Hour
)

// open listens on every endpoint and starts to accept.
func (s *service) open() error {
	s.listening.mu.Lock()
	defer s.listening.mu.Unlock()
	if s.closed {
		return errClosed
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cut = cancel
	for _, e := range s.endpoints {
		if err := e.listen(ctx, s.network); err != nil {
			s.closeListeners()
			return err
		}
	}
	for _, e := range s.endpoints {
		l := e.listener
		s.wg.Go(func() { s.accept(ctx, e, l) })
	}
	return nil
}

func (e *endpoint) listen(ctx context.Context, memory *Network) (err error) {
	switch {
	case memory != nil:
		e.listener, err = memory.Listen(e.network, e.address)
	case e.network == "unix":
		_ = os.Remove(e.address) // left by an earlier run
		e.listener, err = (&net.ListenConfig{}).Listen(ctx, e.network, e.address)
	default:
		if e.release == nil {
			if e.address, e.release, err = reserve(e.address); err != nil {
				return err
			}
		}
		e.listener, err = (&net.ListenConfig{}).Listen(ctx, e.network, e.address)
	}
	if err != nil {
		e.listener = nil
		return err
	}
	if unix, ok := e.listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(e.lines == nil) // the real IRC server leaves its socket's file behind
	}
	e.address = e.listener.Addr().String()
	return nil
}

// shut closes the listeners and cuts all connections. It does not wait for their goroutines.
func (l *listening) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeListeners()
}

func (l *listening) closeListeners() {
	if l.cut != nil {
		l.cut()
	}
	for _, e := range l.endpoints {
		if e.listener != nil {
			_ = e.listener.Close()
			e.listener = nil
		}
	}
}

// close stops the service for good.
func (s *service) close() {
	s.turning.Lock()
	defer s.turning.Unlock()
	s.listening.mu.Lock()
	defer s.listening.mu.Unlock()
	s.closed = true
	s.closeListeners()
	for _, e := range s.endpoints {
		if e.release != nil {
			e.release()
			e.release = nil
		}
	}
}

func (l *listening) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// address returns the address of the service's first endpoint.
func (l *listening) address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endpoints[0].address
}

func (s *service) accept(ctx context.Context, e *endpoint, l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.wg.Go(func() {
				closeConn := func() { _ = conn.Close() }
				defer closeConn()
				defer context.AfterFunc(ctx, closeConn)()
				s.serve(ctx, e, conn)
			})
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(10 * time.Millisecond) // probably out of file descriptors, which is temporary
		}
	}
}

// peeked is a connection with bytes that were read ahead.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// tlsHandshake is the first byte that a TLS client sends.
const tlsHandshake = 0x16

// serve serves one client until either side closes.
func (s *service) serve(ctx context.Context, e *endpoint, raw net.Conn) {
	ahead := bufio.NewReader(raw)
	if !s.hold(ctx) || s.breakConnection(raw, ahead) {
		return
	}
	if s.refuse != nil && s.refuse(raw) {
		closeAfterClient(raw)
		return
	}
	conn := net.Conn(peeked{raw, ahead})
	if e.lines != nil {
		e.lines(ctx, conn)
		return
	}
	respond := s.answer
	if s.secure {
		first, err := ahead.Peek(1)
		if err != nil {
			return
		}
		switch speaksTLS := first[0] == tlsHandshake; {
		case s.on("no_tls") && speaksTLS:
			_, _ = plainStatus(http.StatusBadRequest).set("Connection", "close").write(conn, &http.Request{})
			closeAfterClient(raw)
			return
		case s.on("no_tls"):
		case speaksTLS:
			secure := tls.Server(conn, s.tls)
			if secure.HandshakeContext(ctx) != nil {
				return
			}
			defer secure.Close() //nolint:errcheck // the client may be gone
			conn = secure
		case s.plain == nil:
			waitForClient(conn)
			return
		default:
			respond = func(*exchange) *answer { return s.plain() }
		}
	}
	if s.speak != nil {
		s.speak(ctx, conn)
		return
	}
	s.converse(ctx, raw, conn, respond)
}

// converse answers HTTP requests.
func (s *service) converse(ctx context.Context, raw, conn net.Conn, respond func(*exchange) *answer) {
	requests := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(maxIdle))
		req, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(maxHang))
		record := &Request{Method: req.Method, Path: req.URL.Path}
		s.remember(record)
		if !s.hold(ctx) || !s.delay(ctx) {
			return
		}
		a := respond(&exchange{
			ctx:     ctx,
			service: s,
			req:     req,
			record:  record,
			conn:    conn,
		})
		again, err := a.write(conn, req)
		if a.end == endCut {
			_ = raw.Close() // without TLS's goodbye
			return
		}
		if err != nil {
			return
		}
		// Reading what the client still sends avoids a reset of the connection.
		_, _ = io.Copy(io.Discard, req.Body)
		if !again {
			return
		}
	}
}

// hold waits while the service hangs. It returns false if the service stops.
func (s *service) hold(ctx context.Context) bool {
	return s.waitWhile(ctx, "hang", maxHang) && ctx.Err() == nil
}

// delay waits if the service is slow. It returns false if the service stops.
func (s *service) delay(ctx context.Context) bool {
	s.waitWhile(ctx, "slow", s.slow)
	return ctx.Err() == nil
}

// breakConnection applies the faults that end a connection without a request, once the client has sent a byte.
func (s *service) breakConnection(raw net.Conn, ahead *bufio.Reader) bool {
	reset, other := s.on("reset"), s.on("not_http")
	if !reset && !other {
		return false
	}
	_ = raw.SetReadDeadline(time.Now().Add(maxIdle))
	if _, err := ahead.Peek(1); err != nil {
		return true
	}
	if reset {
		if tcp, ok := raw.(interface{ SetLinger(seconds int) error }); ok {
			_ = tcp.SetLinger(0)
		}
		return true
	}
	_, _ = io.WriteString(raw, "SSH-2.0-OpenSSH_9.2p1\r\n")
	closeAfterClient(raw)
	return true
}

// closeAfterClient ends the answer and waits until the client leaves. Closing before would reset the connection, and the client would
// lose unread data.
func closeAfterClient(raw net.Conn) {
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	waitForClient(raw)
}

// waitForClient reads until the client leaves, at most for maxHang.
func waitForClient(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(maxHang))
	_, _ = io.Copy(io.Discard, conn)
}

// answer returns the service's answer, or that of a fault.
func (s *service) answer(x *exchange) *answer {
	for _, f := range answerFaults {
		if f.instead != nil && s.on(f.name) {
			if a := f.instead(s); a != nil {
				return a
			}
		}
	}
	a := s.handle(x)
	if a.end == endSilent || a.end == endCut {
		return a
	}
	for _, f := range answerFaults {
		if f.spoil == nil || !s.on(f.name) {
			continue
		}
		if a.late != nil {
			body, ok := a.late()
			if !ok {
				return &answer{end: endSilent}
			}
			a.body, a.late = body, nil
		}
		a.header = slices.Clone(a.header)
		f.spoil(s, a)
	}
	return a
}

// Request is a request to a service.
type Request struct {
	// Method and Path are HTTP's; empty in other protocols.
	Method, Path string
	// RPC is the JSON-RPC method, or the request in a protocol other than HTTP; otherwise empty.
	RPC string
}

// journal has the last requests to a service.
type journal struct {
	mu       sync.Mutex
	requests []*Request
}

func (j *journal) remember(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.requests) >= 2*maxRequests {
		j.requests = slices.Clone(j.requests[maxRequests:])
	}
	j.requests = append(j.requests, r)
}

func (j *journal) setRPC(r *Request, method string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.RPC = method
}

func (j *journal) recorded() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.requests[max(0, len(j.requests)-maxRequests):]
	out := make([]Request, len(last))
	for i, r := range last {
		out[i] = *r
	}
	return out
}
