//go:build chaos

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is one thing that goes wrong between the exporter and a service.
type fault = string

// The proxy is ours: two thirds of these are faults of HTTP, of TLS and of XML streams, which a proxy of TCP streams such
// as toxiproxy does not know.
const (
	none           fault = ""
	latency        fault = "latency"         // every piece is 100 ms late, in both directions
	jitter         fault = "jitter"          // every piece is late by anything up to 150 ms
	trickle        fault = "bandwidth 1 B/s" // the answer comes at one byte a second
	reset          fault = "reset"           // the connection is reset in the middle of the answer
	halfClosed     fault = "half-closed"     // the service stops speaking in the middle, and goes on listening
	silence        fault = "silence"         // the answer stops in the middle, and the connection stays
	endlessBody    fault = "endless body"    // the body never ends, and comes fast
	drippingBody   fault = "dripping body"   // the body never ends, and comes slowly
	endlessHeader  fault = "endless header"  // the header never ends
	hugeHeader     fault = "huge header"     // one field of the header is of 1 MiB
	interimAnswers fault = "interim answers" // 103 Early Hints, again and again
	redirects      fault = "redirects"       // 100,000 of them, each to the next
	lengthTooLong  fault = "length too long" // Content-Length promises more than comes
	lengthTooShort fault = "length too short"
	stalledTLS     fault = "stalled TLS" // the connection is accepted, and nothing that speaks TLS is answered
	hangingDNS     fault = "hanging DNS" // the name's server takes the question and never answers
	unknownName    fault = "unknown name"
)

// faults are all of them; each target goes through all.
var faults = []fault{
	latency, jitter, trickle, reset, halfClosed, silence, endlessBody, drippingBody, endlessHeader, hugeHeader,
	interimAnswers, redirects, lengthTooLong, lengthTooShort, stalledTLS, hangingDNS, unknownName,
}

// language is what a service speaks, which decides what can go wrong with it.
type language int

const (
	speaksHTTP language = iota
	speaksHTTPS
	speaksXMPP   // a stream in which TLS begins
	speaksIRC    // TLS at once, then lines
	speaksNoMore // TLS at once, of which only the certificate counts
	isAccepted   // TCP of which only that it is accepted counts
)

func (l language) tlsAtOnce() bool { return l == speaksHTTPS || l == speaksIRC || l == speaksNoMore }

const (
	// answered is how much of an answer is let through before it is cut.
	answered = 20
	// maxHops is how many redirects there are.
	maxHops = 100_000
)

// proxy stands between the exporter and one service.
type proxy struct {
	language          language
	network, upstream string
	tls               *tls.Config // the proxy's own certificate, for what it says in the service's place
	seed              uint64
	listener          net.Listener
	hops              atomic.Int64 // redirects that were sent

	mu    sync.Mutex
	mode  fault
	conns map[net.Conn]bool
	count uint64
	wg    sync.WaitGroup
}

func startProxy(t *testing.T, l language, network, upstream string, own *tls.Config, seed uint64) *proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		language: l,
		network:  network,
		upstream: upstream,
		tls:      own,
		seed:     seed,
		listener: listener,
		conns:    map[net.Conn]bool{},
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // a test's listener
		p.cut()
		p.wg.Wait()
	})
	return p
}

// port is where the exporter finds it.
func (p *proxy) port() string {
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	return port
}

// turn puts a fault in place, and cuts what is connected so that nothing goes on as it was. Where it is in place already,
// none too, nothing happens: what is cut then is a reading of a target that has no fault.
func (p *proxy) turn(f fault) {
	p.mu.Lock()
	same := p.mode == f
	p.mode = f
	p.mu.Unlock()
	if same {
		return
	}
	p.hops.Store(0)
	p.cut()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close() //nolint:errcheck // it is cut
	}
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		mode := p.mode
		p.count++
		random := rand.New(rand.NewPCG(p.seed, p.count))
		p.conns[conn] = true
		p.mu.Unlock()
		p.wg.Go(func() {
			defer func() {
				conn.Close() //nolint:errcheck // all is said
				p.mu.Lock()
				delete(p.conns, conn)
				p.mu.Unlock()
			}()
			p.serve(conn, mode, random)
		})
	}
}

func (p *proxy) serve(conn net.Conn, mode fault, random *rand.Rand) {
	switch mode {
	case none, hangingDNS, unknownName:
		p.relay(conn, conn, nil)
	case latency:
		p.relay(conn, &slowed{conn, func() time.Duration { return 50 * time.Millisecond }, 0}, nil)
	case jitter:
		p.relay(conn, &slowed{conn, func() time.Duration { return time.Duration(random.IntN(150)) * time.Millisecond }, 0}, nil)
	case trickle:
		p.relay(conn, &slowed{conn, func() time.Duration { return time.Second }, 1}, nil)
	case reset:
		p.relay(conn, &cutShort{conn, answered, func() {
			conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck,forcetypeassert // a TCP listener's
			conn.Close()                     //nolint:errcheck // that is the fault
		}}, nil)
	case halfClosed:
		p.relay(conn, &cutShort{conn, answered, func() {
			conn.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // a TCP listener's
			io.Copy(io.Discard, conn)        //nolint:errcheck // until the exporter has enough
		}}, nil)
	case silence:
		//nolint:errcheck // until the exporter has enough
		p.relay(conn, &cutShort{conn, answered, func() { io.Copy(io.Discard, conn) }}, nil)
	case stalledTLS:
		if p.language == speaksXMPP {
			p.relay(conn, conn, func(said []byte) bool { return said[0] == 0x16 })
			return
		}
		io.Copy(io.Discard, conn) //nolint:errcheck // until the exporter has enough
	case lengthTooLong, lengthTooShort:
		p.misjudge(conn, mode)
	default:
		p.instead(conn, mode)
	}
}

// relay carries what both say, until either ends. What the service says goes to out. swallow, where not nil, says when
// nothing of what the exporter says is passed on any more, from that piece on.
func (p *proxy) relay(conn net.Conn, out io.Writer, swallow func([]byte) bool) {
	up, err := p.dial(false)
	if err != nil {
		return
	}
	defer up.Close() //nolint:errcheck // all is said
	p.wg.Go(func() {
		defer up.Close() //nolint:errcheck // the exporter has gone
		piece := make([]byte, 32<<10)
		silent := false
		for {
			n, err := conn.Read(piece)
			if n > 0 && swallow != nil && swallow(piece[:n]) {
				silent = true
			}
			if n > 0 && !silent {
				if _, err := up.Write(piece[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	io.Copy(onlyWriter{out}, up) //nolint:errcheck // either has ended
}

// onlyWriter hides that the kernel could copy by itself, past the fault.
type onlyWriter struct{ io.Writer }

// dial connects to the service, within TLS where it speaks that at once and secure is wanted.
func (p *proxy) dial(secure bool) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(context.Background(), p.network, p.upstream)
	if err != nil || !secure || !p.language.tlsAtOnce() {
		return conn, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil //nolint:gosec // the test's own service
}

// slowed writes late, and in pieces of so many bytes where that is not 0.
type slowed struct {
	w     io.Writer
	delay func() time.Duration
	piece int
}

func (s *slowed) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		wait(s.delay())
		piece := b
		if s.piece > 0 {
			piece = b[:s.piece]
		}
		n, err := s.w.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		b = b[len(piece):]
	}
	return written, nil
}

// wait waits as part of a fault.
func wait(d time.Duration) { <-time.After(d) }

// cutShort lets the first bytes through; then comes the end.
type cutShort struct {
	w    io.Writer
	left int
	end  func()
}

var errCut = errors.New("cut short")

func (c *cutShort) Write(b []byte) (int, error) {
	n, err := c.w.Write(b[:min(len(b), c.left)])
	if c.left -= n; c.left == 0 {
		c.end()
		return n, errCut
	}
	return n, err
}

// misjudge passes a request on, and the answer with a wrong length.
func (p *proxy) misjudge(conn net.Conn, mode fault) {
	conn = p.secured(conn)
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	up, err := p.dial(true)
	if err != nil {
		return
	}
	defer up.Close()                                //nolint:errcheck // all is said
	up.SetDeadline(time.Now().Add(2 * time.Second)) //nolint:errcheck // a stream of events has no end
	if err := req.Write(up); err != nil {
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(up), req)
	if err != nil {
		return
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	length := len(body) + 1000
	if mode == lengthTooShort {
		length = min(3, len(body))
	}
	if req.Method == http.MethodHead {
		body = nil
	}
	var answer bytes.Buffer
	fmt.Fprintf(&answer, "HTTP/1.1 %s\r\n", resp.Status)
	resp.Header.Del("Transfer-Encoding")
	resp.Header.Set("Content-Length", strconv.Itoa(length))
	resp.Header.Write(&answer) //nolint:errcheck // a buffer takes everything
	answer.WriteString("\r\n")
	answer.Write(body)
	conn.Write(answer.Bytes()) //nolint:errcheck // the exporter may have heard enough
	p.goodbye(conn)
}

// goodbye ends the proxy's side and hears the other out, so that no reset overtakes what was said.
func (p *proxy) goodbye(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite() //nolint:errcheck // the exporter may have gone
	}
	conn.SetReadDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // a closed one ends as well
	io.Copy(io.Discard, conn)                             //nolint:errcheck // until the exporter has enough
}

// secured is the connection within TLS, where the service speaks that at once.
func (p *proxy) secured(conn net.Conn) net.Conn {
	if p.language.tlsAtOnce() {
		return tls.Server(conn, p.tls)
	}
	return conn
}

// instead answers in the service's place.
func (p *proxy) instead(conn net.Conn, mode fault) {
	conn = p.secured(conn)
	in := bufio.NewReader(conn)
	switch p.language {
	case speaksHTTP, speaksHTTPS:
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body) //nolint:errcheck // it has its length
		p.answerHTTP(conn, req, mode)
	case speaksXMPP:
		if _, err := in.ReadString('>'); err != nil {
			return
		}
		p.answerXMPP(conn, mode)
	case speaksIRC:
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		p.answerIRC(conn, mode)
	default:
		io.Copy(io.Discard, conn) //nolint:errcheck // there is nothing to say
	}
}

func (p *proxy) answerHTTP(w io.Writer, req *http.Request, mode fault) {
	// An engine names its version, or it is none.
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nApi-Version: 1.41\r\n"
	switch mode {
	case endlessBody:
		// A reader of JSON goes on as long as the value does.
		repeat(w, head+"\r\n[", strings.Repeat(" ", 8<<10), 0)
	case drippingBody:
		repeat(w, head+"\r\n[", " ", 50*time.Millisecond)
	case endlessHeader:
		repeat(w, head, strings.Repeat("X-Flood: 1\r\n", 512), 0)
	case hugeHeader:
		repeat(w, head+"X-Huge: "+strings.Repeat("x", 1<<20)+"\r\nContent-Length: 0\r\n\r\n", "", 0)
	case interimAnswers:
		repeat(w, "", "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", 0)
	case redirects:
		hop, _ := strconv.Atoi(req.URL.Query().Get("hop")) // the first has none
		p.hops.Add(1)
		if hop < maxHops {
			//nolint:errcheck // the exporter may have gone
			fmt.Fprintf(w, "HTTP/1.1 302 Found\r\nLocation: ?hop=%d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", hop+1)
		}
	}
}

const xmppHead = "<?xml version='1.0'?><stream:stream from='chat.test' id='1' version='1.0' xmlns='jabber:client' " +
	"xmlns:stream='http://etherx.jabber.org/streams'"

func (p *proxy) answerXMPP(w io.Writer, mode fault) {
	switch mode {
	case endlessBody:
		repeat(w, strings.Replace(xmppHead, " xmlns='jabber:client'", "", 1)+"><stream:features>", strings.Repeat("<mechanism/>", 512), 0)
	case drippingBody:
		repeat(w, strings.Replace(xmppHead, " xmlns='jabber:client'", "", 1)+"><stream:features>", " ", 50*time.Millisecond)
	case endlessHeader:
		repeat(w, xmppHead, strings.Repeat(" a='1'", 512), 0)
	case hugeHeader:
		repeat(w, xmppHead+" a='"+strings.Repeat("x", 1<<20)+"'>", "", 0)
	}
}

func (p *proxy) answerIRC(w io.Writer, mode fault) {
	switch mode {
	case endlessBody:
		repeat(w, "", strings.Repeat(":irc.test NOTICE * :*** Looking up your hostname...\r\n", 128), 0)
	case drippingBody:
		repeat(w, ":irc.test NOTICE * :", ".", 50*time.Millisecond)
	case endlessHeader, hugeHeader: // IRC's is the tags before a line
		repeat(w, "@", strings.Repeat("a=1;", 512), 0)
	}
}

// repeat writes a beginning, then the same again and again until the exporter has enough; nothing is the end.
func repeat(w io.Writer, beginning, again string, pause time.Duration) {
	if _, err := io.WriteString(w, beginning); err != nil || again == "" {
		return
	}
	for {
		if pause > 0 {
			wait(pause)
		}
		if _, err := io.WriteString(w, again); err != nil {
			return
		}
	}
}
