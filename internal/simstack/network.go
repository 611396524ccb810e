package simstack

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory, for tests in the simulated time of testing/synctest, in which nothing may wait for a
// socket. The zero value is ready. Its listeners and connections belong to the bubble that made them.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
	lastPort  int
}

// firstPort is the port before the first that Listen chooses.
const firstPort = 20_000

// backlog is how many connections wait for Accept at most.
const backlog = 256

// Listen listens on an address of "tcp" or "unix". Port 0 is one that no listener had before.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memoryListener{network: n, key: address, conns: make(chan *memoryConn, backlog), closed: make(chan struct{})}
	if network == "unix" {
		l.address = &net.UnixAddr{Name: address, Net: network}
	} else {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if port == "0" {
			n.lastPort++
			port = strconv.Itoa(firstPort + n.lastPort)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		l.key, l.address = net.JoinHostPort(host, port), &net.TCPAddr{IP: net.ParseIP(host), Port: number}
	}
	if n.listeners[l.key] != nil {
		return nil, failed("listen", l.address, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	if n.listeners == nil {
		n.listeners = map[string]*memoryListener{}
	}
	n.listeners[l.key] = l
	return l, nil
}

// Dial connects to a listener. Where there is none, the connection is refused at once.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, failed("dial", &net.UnixAddr{Name: address, Net: network}, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	var from net.Addr = &net.UnixAddr{Net: "unix"}
	if network != "unix" {
		from = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort}
	}
	var up, down stream
	client := &memoryConn{in: &down, out: &up, local: from, remote: l.address}
	server := &memoryConn{in: &up, out: &down, local: l.address, remote: from}
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, failed("dial", l.address, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return nil, failed("dial", l.address, ctx.Err())
	}
}

func failed(op string, address net.Addr, err error) error {
	return &net.OpError{Op: op, Net: address.Network(), Addr: address, Err: err}
}

type memoryListener struct {
	network *Network
	key     string
	address net.Addr
	conns   chan *memoryConn
	once    sync.Once
	closed  chan struct{}
}

func (l *memoryListener) Addr() net.Addr { return l.address }

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, failed("accept", l.address, net.ErrClosed)
	}
}

// Close resets the connections that nobody has accepted.
func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.key)
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.conns:
				c.SetLinger(0) //nolint:errcheck,gosec // it cannot fail
				c.Close()      //nolint:errcheck,gosec // it cannot fail
			default:
				return
			}
		}
	})
	return nil
}

// memoryConn is one end of a connection.
type memoryConn struct {
	in, out       *stream
	local, remote net.Addr

	mu    sync.Mutex
	abort bool
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = failed("read", c.remote, err)
	}
	return n, err
}

func (c *memoryConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	if err != nil {
		err = failed("write", c.remote, err)
	}
	return n, err
}

// SetLinger has Close reset the connection if the argument is 0, as that of a TCP connection does.
func (c *memoryConn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = seconds == 0
	return nil
}

// CloseWrite tells the other end that no more comes.
func (c *memoryConn) CloseWrite() error {
	c.out.end(io.EOF)
	return nil
}

func (c *memoryConn) Close() error {
	c.mu.Lock()
	abort := c.abort
	c.mu.Unlock()
	if abort {
		c.out.reset()
	}
	c.out.end(io.EOF)
	c.in.leave()
	c.out.setDeadline(&c.out.writeDeadline, time.Time{})
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readDeadline, t)
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeDeadline, t)
	return nil
}

// stream is what one end of a connection says to the other.
type stream struct {
	mu      sync.Mutex
	bytes   []byte
	ended   error // what the reader gets after the last byte
	left    bool  // nobody reads any more
	changed chan struct{}

	readDeadline, writeDeadline time.Time
}

// window is how many bytes may be sent that nobody has read.
const window = 256 << 10

// wake has all who wait look again. The lock is held.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait gives up the lock until something changes, at most until the deadline.
func (s *stream) wait(deadline time.Time) {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	if deadline.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case over(s.readDeadline):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(s.bytes) > 0:
			n := copy(b, s.bytes)
			s.bytes = s.bytes[n:]
			s.wake()
			return n, nil
		case s.ended != nil:
			return 0, s.ended
		}
		s.wait(s.readDeadline)
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended != nil:
			return n, net.ErrClosed
		case s.left:
			return n, os.NewSyscallError("write", syscall.EPIPE)
		case over(s.writeDeadline):
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		case len(s.bytes) < window:
			part := b[:min(len(b), window-len(s.bytes))]
			s.bytes = append(s.bytes, part...)
			n, b = n+len(part), b[len(part):]
			s.wake()
			continue
		}
		s.wait(s.writeDeadline)
	}
}

func over(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (s *stream) end(with error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = with
	}
	s.wake()
}

// reset throws away what was not read.
func (s *stream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.ended = nil, os.NewSyscallError("read", syscall.ECONNRESET)
	s.wake()
}

// leave is the reader's end.
func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.bytes = true, nil
	s.wake()
}

func (s *stream) setDeadline(which *time.Time, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which = t
	s.wake()
}
