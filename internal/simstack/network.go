package simstack

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory, for tests in the simulated time of testing/synctest, in which waiting for a socket
// is impossible. The zero value is ready. Its listeners and connections belong to the bubble that made them.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
	lastPort  int
}

// firstPort is the port before the first that Listen chooses.
const firstPort = 20_000

// backlog is how many connections wait for Accept at most.
const backlog = 256

// Listen listens on an address of "tcp" or "unix". Port 0 chooses an unused port.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memoryListener{
		network: n,
		address: &net.UnixAddr{Name: address, Net: network},
		conns:   make(chan *memoryConn, backlog),
		closed:  make(chan struct{}),
	}
	if network != "unix" {
		tcp, err := net.ResolveTCPAddr(network, address)
		if err != nil {
			return nil, err
		}
		if tcp.Port == 0 {
			n.lastPort++
			tcp.Port = firstPort + n.lastPort
		}
		l.address = tcp
	}
	if n.listeners[l.address.String()] != nil {
		return nil, failed("listen", l.address, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	if n.listeners == nil {
		n.listeners = map[string]*memoryListener{}
	}
	n.listeners[l.address.String()] = l
	return l, nil
}

// Dial connects to a listener. Without a listener, the connection is refused at once.
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
	up, down := newStream(), newStream()
	client := &memoryConn{
		in:     down,
		out:    up,
		local:  from,
		remote: l.address,
	}
	server := &memoryConn{
		in:     up,
		out:    down,
		local:  l.address,
		remote: from,
	}
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
	return &net.OpError{
		Op:   op,
		Net:  address.Network(),
		Addr: address,
		Err:  err,
	}
}

type memoryListener struct {
	network *Network
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
		delete(l.network.listeners, l.address.String())
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.conns:
				c.out.reset()
				_ = c.Close()
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

// SetLinger resets the connection if the argument is 0: closing such a TCP connection resets it.
func (c *memoryConn) SetLinger(seconds int) error {
	if seconds == 0 {
		c.out.reset()
	}
	return nil
}

// CloseWrite ends the data in this direction.
func (c *memoryConn) CloseWrite() error {
	c.out.end()
	return nil
}

func (c *memoryConn) Close() error {
	c.out.end()
	c.in.leave()
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.readDeadline = t })
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.writeDeadline = t })
	return nil
}

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond
	bytes   []byte
	ended   error // the reader's error after the last byte
	left    bool  // the reader is gone

	readDeadline, writeDeadline time.Time
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

// window is the maximum of unread bytes.
const window = 256 << 10

// wait releases the lock until something changes or the deadline passes.
func (s *stream) wait(deadline time.Time) {
	if !deadline.IsZero() {
		defer time.AfterFunc(time.Until(deadline), func() { s.change(func() {}) }).Stop()
	}
	s.changed.Wait()
}

// change calls update with the lock held and wakes all waiters.
func (s *stream) change(update func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	update()
	s.changed.Broadcast()
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case expired(s.readDeadline):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(s.bytes) > 0:
			n := copy(b, s.bytes)
			s.bytes = s.bytes[n:]
			s.changed.Broadcast()
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
		case expired(s.writeDeadline):
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		case len(s.bytes) < window:
			part := b[:min(len(b), window-len(s.bytes))]
			s.bytes = append(s.bytes, part...)
			n, b = n+len(part), b[len(part):]
			s.changed.Broadcast()
			continue
		}
		s.wait(s.writeDeadline)
	}
}

func expired(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// end closes the stream on the writer's side.
func (s *stream) end() {
	s.change(func() { s.ended = cmp.Or(s.ended, io.EOF) })
}

// reset discards unread bytes.
func (s *stream) reset() {
	s.change(func() { s.bytes, s.ended = nil, os.NewSyscallError("read", syscall.ECONNRESET) })
}

// leave closes the stream on the reader's side.
func (s *stream) leave() {
	s.change(func() { s.left, s.bytes = true, nil })
}
