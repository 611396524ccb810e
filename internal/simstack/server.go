package simstack

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is one thing that a service was asked.
type Request struct {
	Time time.Time
	// Method, Path and Query are those of HTTP; empty on the IRC server's Unix socket.
	Method, Path, Query string
	// RPC is the JSON-RPC method, or what was asked in a protocol that is not HTTP; empty where there is none.
	RPC string
	// Headers are the names of the request's header fields, sorted; never their values.
	Headers []string
}

// service is one server of the stack. It speaks HTTP/1.1 by itself, since the real ones answer in ways that net/http's
// server cannot: without a length, with a length and no body, with a header before the request was read, or never.
type service struct {
	name      string
	endpoints []*endpoint
	// handle answers one request.
	handle func(*exchange) *answer
	// faults are those that no other service has.
	faults []Fault
	// switched, where set, is told of every change of a fault, one at a time.
	switched func(fault string, on bool)
	// speak, where set, serves a connection in another protocol than HTTP, over TLS if the service is secure.
	speak func(ctx context.Context, conn net.Conn)
	// refuse, where set, ends a connection before the client speaks, and before TLS; it reports whether it did.
	refuse func(conn net.Conn) bool
	// secure services speak TLS; plain is what they answer to plain HTTP, silence by default. startTLS ones begin with it
	// by themselves.
	secure   bool
	startTLS bool
	plain    func() *answer
	tls      *tls.Config
	slow     time.Duration
	network  *Network // nil is the machine's
	wg       *sync.WaitGroup

	switching sync.Mutex // held while a fault is switched

	mu       sync.Mutex
	active   map[string]bool
	change   chan struct{}
	run      context.Context //nolint:containedctx // ends when the service stops
	cancel   context.CancelFunc
	conns    map[net.Conn]struct{}
	requests []*Request
	closed   bool
}

// endpoint is one address of a service.
type endpoint struct {
	network, address string
	// lines, where set, speaks another protocol than HTTP.
	lines func(ctx context.Context, s *service, conn net.Conn)
	// staleSocket keeps a Unix socket's file when the service stops, so that connections are refused.
	staleSocket bool
	listener    net.Listener
	// release, where set, gives up the port, which is held also while nothing listens.
	release func()
}

// errClosed is what a stack says that is asked for something after Close.
var errClosed = errors.New("the stack is closed")

// maxRequests is how many requests are remembered.
const maxRequests = 10_000

// maxHang bounds how long a connection hangs, so that a fault that is left on does not collect connections for ever.
const maxHang = 5 * time.Minute

// maxIdle is how long a connection may stay open between requests.
const maxIdle = 2 * time.Minute

// open listens on every endpoint and starts to accept.
func (s *service) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	run, cancel := context.WithCancel(context.Background())
	for _, e := range s.endpoints {
		if err := e.listen(run, s.network); err != nil {
			cancel()
			s.closeListeners()
			return err
		}
	}
	s.run, s.cancel, s.conns = run, cancel, map[net.Conn]struct{}{}
	for _, e := range s.endpoints {
		l := e.listener
		s.wg.Go(func() { s.accept(run, e, l) })
	}
	return nil
}

func (e *endpoint) listen(ctx context.Context, memory *Network) error {
	if memory != nil {
		l, err := memory.Listen(e.network, e.address)
		if err != nil {
			return err
		}
		e.listener, e.address = l, l.Addr().String()
		return nil
	}
	if e.network == "unix" {
		if err := removeStale(ctx, e.address); err != nil {
			return err
		}
	} else if e.release == nil {
		address, release, err := reserve(e.address)
		if err != nil {
			return err
		}
		e.address, e.release = address, release
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, e.network, e.address)
	if err != nil {
		return err
	}
	if unix, ok := l.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(!e.staleSocket)
	}
	e.listener = l
	if e.network == "tcp" {
		e.address = l.Addr().String()
	}
	return nil
}

// removeStale removes a socket that nobody listens on any more.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is in use", path)
	}
	return os.Remove(path)
}

// shut closes the listeners and cuts all connections. It does not wait for their goroutines.
func (s *service) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.closeListeners()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *service) closeListeners() {
	for _, e := range s.endpoints {
		if e.listener == nil {
			continue
		}
		_ = e.listener.Close()
		e.listener = nil
	}
}

// close stops the service for good.
func (s *service) close() {
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.shut()
	for _, e := range s.endpoints {
		if e.release != nil {
			e.release()
			e.release = nil
		}
		if e.staleSocket {
			_ = os.Remove(e.address)
		}
	}
}

func (s *service) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// address is where clients of the service's first endpoint connect to.
func (s *service) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reachable(s.endpoints[0].address)
}

func (s *service) accept(ctx context.Context, e *endpoint, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: they come back.
			if !pause(ctx, 10*time.Millisecond, nil) {
				return
			}
			continue
		}
		if !s.track(ctx, conn) {
			continue
		}
		s.wg.Go(func() {
			defer s.untrack(conn)
			s.serve(ctx, e, conn)
		})
	}
}

// track remembers a connection so that shut can cut it; one that came too late is cut at once.
func (s *service) track(ctx context.Context, conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *service) untrack(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// peeked is a connection of which something was read ahead.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// tlsHandshake is the first byte that a TLS client sends.
const tlsHandshake = 0x16

// serve speaks with one client until either has enough.
func (s *service) serve(ctx context.Context, e *endpoint, raw net.Conn) {
	ahead := bufio.NewReader(raw)
	if !s.hold(ctx) || s.rude(raw, ahead) {
		return
	}
	if s.refuse != nil && s.refuse(raw) {
		finish(raw)
		return
	}
	conn := net.Conn(peeked{raw, ahead})
	if e.lines != nil {
		e.lines(ctx, s, conn)
		return
	}
	if s.secure {
		first, err := ahead.Peek(1)
		if err != nil {
			return
		}
		switch speaksTLS := first[0] == tlsHandshake; {
		case s.on("no_tls") && speaksTLS:
			_, _ = plainStatus(http.StatusBadRequest).set("Connection", "close").write(conn, &http.Request{})
			finish(raw)
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
		}
	}
	if s.speak != nil {
		s.speak(ctx, conn)
		return
	}
	s.converse(ctx, raw, conn)
}

// converse answers HTTP requests.
func (s *service) converse(ctx context.Context, raw, conn net.Conn) {
	_, isTLS := conn.(*tls.Conn)
	requests := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(maxIdle))
		req, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(maxHang))
		x := &exchange{ctx: ctx, service: s, req: req, record: s.record(req), conn: conn}
		if !s.hold(ctx) || !s.delay(ctx) {
			return
		}
		var a *answer
		if s.tls != nil && !isTLS && !s.on("no_tls") {
			a = s.plain()
		} else {
			a = s.answer(x)
		}
		again, err := a.write(conn, req)
		if a.end == endCut {
			_ = raw.Close() // without TLS's goodbye
			return
		}
		if err != nil {
			return
		}
		// What the client still sends is read, since closing over it would reset the connection.
		_, _ = io.Copy(io.Discard, req.Body)
		if !again {
			return
		}
	}
}

// hold waits as long as the service hangs; false when the service stopped meanwhile.
func (s *service) hold(ctx context.Context) bool {
	deadline := time.Now().Add(maxHang)
	for {
		hangs, change := s.watch("hang")
		if !hangs {
			return ctx.Err() == nil
		}
		if left := time.Until(deadline); left <= 0 || !pause(ctx, left, change) {
			return false
		}
	}
}

// delay waits as long as a slow service takes.
func (s *service) delay(ctx context.Context) bool {
	deadline := time.Now().Add(s.slow)
	for {
		slow, change := s.watch("slow")
		left := time.Until(deadline)
		if !slow || left <= 0 {
			return ctx.Err() == nil
		}
		if !pause(ctx, left, change) {
			return false
		}
	}
}

// rude ends a connection in the ways that need no request, after the client has spoken.
func (s *service) rude(raw net.Conn, ahead *bufio.Reader) bool {
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
	finish(raw)
	return true
}

// finish ends what is said and waits for the client to leave: closing over what it still sends would reset the
// connection, and lose what it has not read yet.
func finish(raw net.Conn) {
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	waitForClient(raw)
}

// answer asks the service, unless a fault answers in its place.
func (s *service) answer(x *exchange) *answer {
	for _, f := range answerFaults {
		if f.instead != nil && s.on(f.name) {
			return f.instead(s)
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

func (s *service) record(req *http.Request) *Request {
	r := &Request{Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery, Headers: slices.Sorted(maps.Keys(req.Header))}
	s.remember(r)
	return r
}

func (s *service) remember(r *Request) {
	r.Time = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= 2*maxRequests {
		s.requests = slices.Clone(s.requests[maxRequests:])
	}
	s.requests = append(s.requests, r)
}

func (s *service) recorded() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.requests[max(0, len(s.requests)-maxRequests):]
	out := make([]Request, len(last))
	for i, r := range last {
		out[i] = *r
		out[i].Headers = slices.Clone(r.Headers)
	}
	return out
}

// exchange is one request and what its handler needs to know.
type exchange struct {
	ctx     context.Context //nolint:containedctx // lives as long as the request
	service *service
	req     *http.Request
	record  *Request
	conn    net.Conn
}

// calls notes which JSON-RPC method the request calls.
func (x *exchange) calls(method string) {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	x.record.RPC = method
}

// maxBody bounds what is read of a request.
const maxBody = 1 << 20

// body reads the request's body; false when the client sends less than it promised.
func (x *exchange) body() ([]byte, bool) {
	body, err := io.ReadAll(io.LimitReader(x.req.Body, maxBody))
	return body, err == nil
}

// bearer reports whether the request bears the token, and the service still knows it.
func (x *exchange) bearer(token string) bool {
	return x.req.Header.Get("Authorization") == "Bearer "+token && !x.service.on("wrong_credentials")
}

// untilGone returns a context that also ends when the client leaves, and what ends the watch.
func (x *exchange) untilGone() (context.Context, func()) {
	ctx, cancel := context.WithCancel(x.ctx)
	done := make(chan struct{})
	_ = x.conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, x.conn)
		cancel()
	}()
	return ctx, func() {
		cancel()
		_ = x.conn.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}

// waitForClient reads until the client leaves, or for as long as a hang may last.
func waitForClient(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(maxHang))
	_, _ = io.Copy(io.Discard, conn)
}

// ending is what follows an answer.
type ending int

const (
	endKeep   ending = iota // the next request, unless the header says otherwise
	endClose                // the end of the connection
	endSilent               // nothing more, though the connection stays open
	endCut                  // the connection is cut off
)

// answer is what a service says to one request. Without a status it says nothing at all.
type answer struct {
	status int
	// header are the lines of the header in their order. Content-Length and Date get their values when written.
	header []string
	body   []byte
	// missing is how much longer the body is said to be than it is.
	missing int
	// late makes the body after the header has been sent; false means silence.
	late func() ([]byte, bool)
	// rest writes what follows the body.
	rest func(io.Writer) error
	// headerOpen leaves out the empty line after the header.
	headerOpen bool
	end        ending
}

// reply is an answer with a content type, a length and the time.
func reply(status int, contentType, body string) *answer {
	return &answer{status: status, body: []byte(body), header: []string{"Content-Type: " + contentType, "Content-Length", "Date"}}
}

// set replaces or adds a header line.
func (a *answer) set(name, value string) *answer {
	line := name
	if value != "" {
		line += ": " + value
	}
	if i := slices.IndexFunc(a.header, named(name)); i >= 0 {
		a.header[i] = line
		return a
	}
	a.header = append(a.header, line)
	return a
}

func (a *answer) drop(name string) *answer {
	a.header = slices.DeleteFunc(a.header, named(name))
	return a
}

func named(name string) func(string) bool {
	return func(line string) bool {
		field, _, _ := strings.Cut(line, ":")
		return strings.EqualFold(field, name)
	}
}

// write sends the answer and reports whether the connection can take another request.
func (a *answer) write(conn net.Conn, req *http.Request) (again bool, err error) {
	if a.status == 0 {
		if a.end == endSilent {
			waitForClient(conn)
		}
		return false, nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", a.status, reason(a.status))
	again = !req.Close
	delimited := a.status == http.StatusNoContent
	for _, line := range a.header {
		switch line {
		case "Content-Length":
			delimited = true
			line += ": " + strconv.Itoa(len(a.body)+a.missing)
		case "Date":
			line += ": " + time.Now().UTC().Format(http.TimeFormat)
		case "Transfer-Encoding: chunked":
			delimited = true
		case "Connection: close":
			again = false
		}
		out.WriteString(line + "\r\n")
	}
	if !a.headerOpen {
		out.WriteString("\r\n")
	}
	if req.Method != http.MethodHead {
		out.Write(a.body)
	}
	if _, err := io.WriteString(conn, out.String()); err != nil {
		return false, err
	}
	if a.late != nil {
		body, ok := a.late()
		if !ok {
			waitForClient(conn)
			return false, nil
		}
		if _, err := conn.Write(body); err != nil {
			return false, err
		}
	}
	if a.rest != nil && (a.headerOpen || req.Method != http.MethodHead) {
		if err := a.rest(conn); err != nil {
			return false, err
		}
	}
	if a.end == endSilent {
		waitForClient(conn)
	}
	return again && delimited && a.end == endKeep, nil
}

// reason is a status in words, as the real servers have it.
func reason(status int) string {
	if status == http.StatusNotImplemented {
		return "Method Not Implemented"
	}
	return http.StatusText(status)
}
