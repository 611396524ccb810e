package exchange

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// front is what stands in front of a TLS server. Its fields change between probes, never during one.
type front struct {
	shown  tls.Certificate
	config *tls.Config // how it serves TLS; with shown alone by default
	// long is what it does with a ClientHello that needs two packets, every with each one; nil lets them pass.
	long, every func(net.Conn)
	delay       time.Duration
	resumes     time.Time // it hangs until then, with all of its connections
	connections int
}

// onePacket is about how much TCP carries in one packet.
const onePacket = 1400

// serve speaks on one connection, in an XMPP stream if the client begins one.
func (f *front) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a pipe's never fails
	header := make([]byte, 5)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	if header[0] == '<' {
		rest := make([]byte, 4096)
		conn.Read(rest) //nolint:errcheck,gosec // the header of the client's stream
		exchangetest.Say("<stream:stream xmlns='jabber:client' xmlns:stream='" + nsStreams + "'><stream:features><starttls xmlns='" +
			nsStartTLS + "'/></stream:features>")(conn)
		conn.Read(rest) //nolint:errcheck,gosec // <starttls/>
		exchangetest.Say("<proceed xmlns='" + nsStartTLS + "'/>")(conn)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
	}
	hello := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(conn, hello); err != nil {
		return
	}
	time.Sleep(max(f.delay, time.Until(f.resumes)))
	switch {
	case f.every != nil:
		f.every(conn)
		return
	case len(hello) > onePacket && f.long != nil:
		f.long(conn)
		return
	}
	server := tls.Server(&readAhead{conn, slices.Concat(header, hello)},
		cmp.Or(f.config, &tls.Config{Certificates: []tls.Certificate{f.shown}}))
	buf := make([]byte, 512)
	if n, _ := server.Read(buf); n > 0 && strings.HasPrefix(string(buf), "GET") {
		io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // the client may be gone
	}
}

// readAhead is a connection of which something was read.
type readAhead struct {
	net.Conn
	ahead []byte
}

func (r *readAhead) Read(b []byte) (int, error) {
	if len(r.ahead) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.ahead)
	r.ahead = r.ahead[n:]
	return n, nil
}

// probes returns one probe of each way to begin TLS, which passes the front.
func (f *front) probes() map[string]func() error {
	ctx := WithDialer(context.Background(), func(context.Context, string, string) (net.Conn, error) {
		f.connections++
		client, server := net.Pipe()
		go f.serve(server)
		return client, nil
	})
	trust := config.TLS{InsecureSkipVerify: true}
	// The question for another certificate is a connection of its own.
	asked := func() *secondTries {
		server := &triedServer{findings: map[question]finding{}, other: otherCertificate{asked: time.Now()}}
		return &secondTries{servers: map[netip.Addr]*triedServer{{}: server}}
	}
	atOnce := &TLSServer{Address: "xmpp.test:5223", Trust: trust, tries: asked()}
	stream := &TLSServer{
		Address:  "xmpp.test:5222",
		StartTLS: XMPPClient,
		Domain:   "xmpp.test",
		Trust:    trust,
		tries:    asked(),
	}
	web := &HTTP{Settings: config.HTTP{URL: "https://web.test/", TLS: trust}, Limit: 100, tries: asked()}
	within := func(probe func(context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return probe(ctx)
		}
	}
	return map[string]func() error{
		"tls":      within(func(ctx context.Context) error { return atOnce.Converse(ctx, &Record{}, nil) }),
		"starttls": within(func(ctx context.Context) error { return stream.Converse(ctx, &Record{}, nil) }),
		"http": within(func(ctx context.Context) error {
			_, err := web.Get(ctx, &Record{}, nil)
			return err
		}),
	}
}

// The ways to refuse a ClientHello.
var (
	dropped = exchangetest.Hold
	ended   = func(net.Conn) {}
	inOrder = exchangetest.Say("\x15\x03\x03\x00\x02\x01\x00") // close_notify
	alerted = exchangetest.Say("\x15\x03\x01\x00\x02\x02\x32") // decode_error
)

// TestClientHelloOfTwoPacketsIsTheReason has a front refuse what current clients send, in each way, before each kind of server.
func TestClientHelloOfTwoPacketsIsTheReason(t *testing.T) {
	shown := exchangetest.Chain(exchangetest.Certificate{Name: "xmpp.test"}.Make(t))
	for way, refuse := range map[string]func(net.Conn){"dropped": dropped, "ended": ended, "alerted": alerted} {
		synctest.Test(t, func(t *testing.T) {
			f := &front{shown: shown, long: refuse}
			for kind, probe := range f.probes() {
				for i, want := range []int{2, 1, 1} { // one second try for the outage
					f.connections = 0
					err := probe()
					wantReason(t, err, failure.TLS)
					if err != nil &&
						(!strings.Contains(err.Error(), "not one with it") || !strings.Contains(failure.HintOf(err), "two packets")) {
						t.Errorf("%s, %s: %v, hint %q", way, kind, err, failure.HintOf(err))
					}
					if f.connections != want {
						t.Errorf("%s, %s, probe %d: %d connections, want %d", way, kind, i+1, f.connections, want)
					}
				}
			}
		})
	}
}

// TestSecondTryOfAnOutageEndsWithIt has outages one after the other, whose number of connections is that of the probe and a try.
func TestSecondTryOfAnOutageEndsWithIt(t *testing.T) {
	shown := exchangetest.Chain(exchangetest.Certificate{Name: "xmpp.test"}.Make(t))
	throttled := exchangetest.Say("ERROR :Closing Link: [192.0.2.1] (Throttled: Reconnecting too fast)\r\n")
	type step struct {
		long, every func(net.Conn)
		delay       time.Duration
		connections int
		reason      failure.Reason
	}
	for name, steps := range map[string][]step{
		"a front, repaired, and back": {
			{long: ended, connections: 2, reason: failure.TLS}, {connections: 1}, {long: ended, connections: 2, reason: failure.TLS},
		},
		"a server that ends every connection": {
			{every: ended, connections: 2, reason: failure.Closed},
			{every: ended, connections: 1, reason: failure.Closed},
			{connections: 1},
		},
		"a server that ends every handshake in order": {
			{every: inOrder, connections: 2, reason: failure.Closed},
			{every: inOrder, connections: 1, reason: failure.Closed},
			{connections: 1},
		},
		"a server that hangs": {
			{every: dropped, connections: 2, reason: failure.Timeout},
			{every: dropped, connections: 1, reason: failure.Timeout},
			{connections: 1},
		},
		"a slow server": {{delay: 3 * time.Second, connections: 2}, {delay: 3 * time.Second, connections: 1}, {connections: 1}},
		"a slow server and a front": {
			{delay: 3 * time.Second, connections: 2}, {connections: 1}, {long: ended, connections: 2, reason: failure.TLS},
		},
		"a server that limits connections": {
			{every: throttled, connections: 1, reason: failure.Throttled},
			{every: ended, connections: 1, reason: failure.Closed},
			{connections: 1},
			{every: ended, connections: 2, reason: failure.Closed},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &front{shown: shown}
			for kind, probe := range f.probes() {
				if kind == "http" && strings.Contains(name, "limits") || kind != "tls" && strings.Contains(name, "in order") {
					continue // only IRC servers do so
				}
				for i, s := range steps {
					synctest.Wait() // the connections before have read what they need
					f.long, f.every, f.delay, f.connections = s.long, s.every, s.delay, 0
					var reason failure.Reason
					err := probe()
					if err != nil {
						reason = failure.ReasonOf(err)
					}
					if reason != s.reason || f.connections != s.connections {
						t.Errorf("%s, %s, probe %d: %v, %d connections; want %q, %d",
							name, kind, i+1, err, f.connections, s.reason, s.connections)
					}
					time.Sleep(20 * time.Second) // what the front still does has ended
				}
			}
		})
	}
}

// TestTryWithoutTimeIsStillToBeMade: addresses of a name may use up the time of the probe that they share.
func TestTryWithoutTimeIsStillToBeMade(t *testing.T) {
	tries, looks := &secondTries{}, 0
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{over, t.Context(), t.Context()} {
		found := tries.find(ctx, whichHello, func(ctx context.Context) error {
			if ctx.Err() == nil {
				looks++
			}
			return nil
		})
		if found != nil {
			t.Error(found)
		}
	}
	if looks != 1 {
		t.Errorf("%d tries with time left, want one", looks)
	}
}

// TestRefusalIsAskedForAgainLater, since a banned client does not always get its words.
func TestRefusalIsAskedForAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for q, want := range map[question]int{whichRefusal: 2, whichHello: 1} {
			tries, looks := &secondTries{}, 0
			for _, wait := range []time.Duration{0, 9 * time.Minute, time.Minute} {
				time.Sleep(wait)
				if found := tries.find(t.Context(), q, func(context.Context) error { looks++; return nil }); found != nil {
					t.Error(found)
				}
			}
			if looks != want {
				t.Errorf("question %d: %d tries within 10 minutes, want %d", q, looks, want)
			}
		}
	})
}

// TestServerThatHangsForAMomentIsUp has it answer the first connection and the second try at once.
func TestServerThatHangsForAMomentIsUp(t *testing.T) {
	shown := exchangetest.Chain(exchangetest.Certificate{Name: "xmpp.test"}.Make(t))
	synctest.Test(t, func(t *testing.T) {
		f := &front{shown: shown}
		for kind, probe := range f.probes() {
			for i := range 20 {
				synctest.Wait()
				f.resumes = time.Now().Add(2500 * time.Millisecond)
				if err := probe(); err != nil {
					t.Errorf("%s, probe %d: %v", kind, i+1, err)
				}
				synctest.Wait() // for a connection that was given up
				f.resumes = time.Time{}
				if err := probe(); err != nil { // which ends the outage
					t.Error(err)
				}
			}
		}
	})
}

// TestAddressesOfANameHaveOutagesOfTheirOwn probes one target at each of its addresses, as addresses: all does.
func TestAddressesOfANameHaveOutagesOfTheirOwn(t *testing.T) {
	shown := exchangetest.Chain(exchangetest.Certificate{Name: "xmpp.test"}.Make(t))
	synctest.Test(t, func(t *testing.T) {
		fronts := map[string]*front{
			"192.0.2.1:5223": {shown: shown, long: ended},
			"192.0.2.2:5223": {shown: shown},
			"192.0.2.3:5223": {shown: shown, every: ended},
		}
		want := map[string]failure.Reason{"192.0.2.1:5223": failure.TLS, "192.0.2.2:5223": "", "192.0.2.3:5223": failure.Closed}
		server := &TLSServer{Address: "xmpp.test:5223", Trust: config.TLS{InsecureSkipVerify: true}}
		for i, connections := range []int{2, 1, 1} { // the first probe of a working address asks for the other certificate
			for _, address := range slices.Sorted(maps.Keys(fronts)) {
				f := fronts[address]
				f.connections = 0
				ctx := WithRoute(t.Context(), Route{Host: "xmpp.test", Address: netip.MustParseAddrPort(address).Addr()})
				var reason failure.Reason
				err := server.Converse(WithDialer(ctx, func(_ context.Context, _, to string) (net.Conn, error) {
					client, server := net.Pipe()
					fronts[to].connections++
					go fronts[to].serve(server)
					return client, nil
				}), &Record{}, nil)
				if err != nil {
					reason = failure.ReasonOf(err)
				}
				if reason != want[address] || f.connections != connections {
					t.Errorf("probe %d at %s: %v, %d connections; want %q, %d",
						i+1, address, err, f.connections, want[address], connections)
				}
			}
		}
	})
}
