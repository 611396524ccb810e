//go:build realservers

package realstack

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy passes TCP connections on to a server, over a network that can be slow or partitioned.
type Proxy struct {
	// Addr is where it listens, host:port.
	Addr string

	server string
	tb     testing.TB
	ctx    context.Context //nolint:containedctx // of all connections
	work   sync.WaitGroup

	mu          sync.Mutex
	delay       [2]time.Duration // to the server, from it
	bytes       [2]int
	heard       [2]strings.Builder
	mended      chan struct{} // closed unless the network is partitioned
	open, total int
}

// StartProxy starts a proxy, which ends with the test.
func StartProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	p := &Proxy{
		Addr:   l.Addr().String(),
		server: server,
		tb:     tb,
		ctx:    ctx,
		mended: make(chan struct{}),
	}
	close(p.mended)
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(func() {
		l.Close() //nolint:errcheck,gosec // it only listened
		stop()
		p.work.Wait()
	})
	return p
}

// Delay sets how long data takes to the server and from it.
func (p *Proxy) Delay(to, from time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = [2]time.Duration{to, from}
}

// Partition stops all data, which arrives after Mend, as TCP sends it again. Connections are still accepted.
func (p *Proxy) Partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended = make(chan struct{})
}

// Mend ends a partition.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.mended)
}

// Bytes returns how many bytes have come to the server and from it, in all connections.
func (p *Proxy) Bytes() (to, from int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes[0], p.bytes[1]
}

// Connections returns how many connections are open, and how many there have been.
func (p *Proxy) Connections() (open, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.total
}

// Transcript returns the first megabyte that came to the server, and from it.
func (p *Proxy) Transcript() (to, from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[0].String(), p.heard[1].String()
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // both directions have ended
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(p.ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // see above
	p.count(1)
	defer p.count(-1)
	defer context.AfterFunc(p.ctx, func() { client.Close(); server.Close() })() //nolint:errcheck,gosec // wakes the readers
	var directions sync.WaitGroup
	directions.Go(func() { p.pass(0, client, server) })
	directions.Go(func() { p.pass(1, server, client) })
	directions.Wait()
}

func (p *Proxy) count(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += change
	p.total += max(change, 0)
}

// packet is data on its way. Without data, it is the end of the connection.
type packet struct {
	data []byte
	due  time.Time
}

// pass passes data in one direction on, and closes the other end at the end.
func (p *Proxy) pass(direction int, from, to net.Conn) {
	packets := make(chan packet, 1000)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(packets)
		for {
			data := make([]byte, 4096)
			n, err := from.Read(data)
			p.mu.Lock()
			due := time.Now().Add(p.delay[direction])
			p.bytes[direction] += n
			if p.heard[direction].Len() < 1<<20 {
				p.heard[direction].Write(data[:n])
			}
			p.mu.Unlock()
			packets <- packet{data[:n], due}
			if err != nil {
				return
			}
		}
	})
	for next := range packets {
		if p.arrives(next.due) {
			to.Write(next.data) //nolint:errcheck,gosec // a closed connection is the other direction's to notice
		}
	}
	to.Close() //nolint:errcheck,gosec // the sender has closed its end
	reader.Wait()
}

// arrives waits until the network has passed a packet on; false if the test has ended.
func (p *Proxy) arrives(due time.Time) bool {
	if stopped(p.ctx.Done(), time.Until(due)) {
		return false
	}
	p.mu.Lock()
	mended := p.mended
	p.mu.Unlock()
	select {
	case <-mended:
		return true
	case <-p.ctx.Done():
		return false
	}
}
