//go:build realservers

package collectors

import (
	"flag"
	"maps"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

var relayTime = flag.Duration("relay.time", 20*time.Second, "how long TestRealRelayStaysFlat checks a bridge, every second")

// relayEvery is the interval of probes: Biboumi sends IRC not more than one message a second, after the first ten.
const relayEvery = time.Second

// countingSide counts how often a side hears each message.
type countingSide struct {
	*relaySide

	mu    sync.Mutex
	heard map[uint64]int
}

// Heard implements chat.Listener.
func (c *countingSide) Heard(m chat.Message) {
	for _, mark := range c.relay.marks.FindAllStringSubmatch(colours.ReplaceAllLiteralString(m.Text, ""), -1) {
		if number, err := strconv.ParseUint(mark[1], 10, 64); err == nil {
			c.mu.Lock()
			c.heard[number]++
			c.mu.Unlock()
		}
	}
	c.relaySide.Heard(m)
}

// TestRealRelayStaysFlat checks a bridge that works, every second: no message is lost or heard twice, and nothing grows.
func TestRealRelayStaysFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var counting [2]*countingSide
	s := startServers(t, realstack.StartNgIRCd)
	s.bridge = realstack.StartBiboumi(t, s.xmpp, s.irc)
	var settings *Relay
	s.prepare(s.bridge.Room(), func(_ *bridged, r *Relay) {
		settings = r
		r.Deadline = newRelaySettings().Deadline // a busy machine loses no message
	})
	for i, account := range []chat.Account{
		settings.IRC.account(settings.IRC.Channel), settings.XMPP.account(settings.XMPP.Room, settings.XMPP.Nick),
	} {
		counting[i] = &countingSide{relaySide: s.relay.sides[i], heard: map[uint64]int{}}
		s.relay.sides[i].keeper = chat.NewKeeper(account, counting[i])
	}
	s.keepSessions()
	s.well("at first")
	s.repeat(5, relayEvery)
	before := s.resources()
	longest := [2]time.Duration{}
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < *relayTime; <-tick.C {
		if reason := s.probe(); reason != "" {
			t.Errorf("after %s, a probe failed: %s", time.Since(begin).Round(time.Second), reason)
		}
		for i, took := range s.took() {
			longest[i] = max(longest[i], took)
		}
	}
	after := s.resources()
	for i, w := range s.relay.ways {
		t.Logf("%d probes, from %s: %v, %.4f s on average, %s at most",
			s.probes, w.from.name, s.outcomes(i), w.delivery.sum/float64(w.delivery.count), longest[i])
	}
	t.Logf("at first: %v", before)
	t.Logf("at last:  %v", after)
	for what, count := range after {
		if limit := before[what] + 2; count > limit {
			t.Errorf("%s: %d, at first %d", what, count, before[what])
		}
	}
	for what, want := range map[string]int{"sessions on IRC, with the bridge's": 2, "sessions on XMPP": 1} {
		if after[what] != want {
			t.Errorf("%s: got %d, want %d", what, after[what], want)
		}
	}
	s.countOutcomes()
	for _, w := range s.relay.ways {
		if want := map[string]uint64{relayDelivered: s.probes}; !maps.Equal(w.outcomes, want) {
			t.Errorf("from %s: outcomes %v, want %v", w.from.name, w.outcomes, want)
		}
	}
	for _, side := range counting {
		side.wantEachOnce(t, 2*s.probes)
	}
}

// wantEachOnce requires that the side has heard each message once: those of both sides.
func (c *countingSide) wantEachOnce(t *testing.T, messages uint64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := uint64(1); n <= messages; n++ {
		if got := c.heard[c.relay.numberOf(n)]; got != 1 {
			t.Errorf("%s: message %d was heard %d times", c.name, n, got)
		}
	}
	if got := uint64(len(c.heard)); got != messages {
		t.Errorf("%s: %d messages were heard, want %d", c.name, got, messages)
	}
}

// resources are counts that must not grow with the number of probes.
func (s *bridged) resources() map[string]int {
	s.t.Helper()
	own, err := exportertest.Descriptors(os.Getpid())
	if err != nil {
		s.t.Fatal(err)
	}
	return map[string]int{
		"goroutines": runtime.NumGoroutine(), "descriptors": own,
		"descriptors of the XMPP server": s.xmpp.Usage().Descriptors, "descriptors of the IRC server": s.irc.Usage().Descriptors,
		"descriptors of the bridge":          s.bridge.Usage().Descriptors,
		"sessions on IRC, with the bridge's": s.irc.Connections(s.irc.Addr), "sessions on XMPP": s.xmpp.Connections(s.xmpp.ClientAddr),
	}
}

// TestRealRelayCost measures what a check costs: bytes on the network, processor time, and lines in the servers' logs.
func TestRealRelayCost(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for more than a minute")
	}
	t.Run("bytes", relayBytes)
	t.Run("processor time and log lines", relayUsage)
}

func relayBytes(t *testing.T) {
	var proxies [2]*realstack.Proxy
	s := startBridged(t, realstack.StartNgIRCd, func(s *bridged, r *Relay) {
		proxies = [2]*realstack.Proxy{realstack.StartProxy(t, s.irc.Addr), realstack.StartProxy(t, s.xmpp.ClientAddr)}
		r.IRC.Address, r.XMPP.Address = proxies[0].Addr, proxies[1].Addr
		r.Deadline = newRelaySettings().Deadline
	})
	s.well("at first")
	var sent, received [2]int
	for i, proxy := range proxies {
		sent[i], received[i] = proxy.Bytes()
	}
	const checks, most = 20, 2000
	s.repeat(checks, relayEvery)
	for i, proxy := range proxies {
		allSent, allReceived := proxy.Bytes()
		sentEach, receivedEach := (allSent-sent[i])/checks, (allReceived-received[i])/checks
		t.Logf("%s: %d bytes sent and %d received for the login and the first check, %d and %d per check",
			s.relay.sides[i].name, sent[i], received[i], sentEach, receivedEach)
		if sentEach == 0 || receivedEach == 0 || sentEach > most || receivedEach > most {
			t.Errorf("%s: %d bytes sent and %d received per check, want at most %d", s.relay.sides[i].name, sentEach, receivedEach, most)
		}
	}
}

// relayUsage has no proxy, whose work would count as the exporter's.
func relayUsage(t *testing.T) {
	s := startBridged(t, realstack.StartNgIRCd, func(_ *bridged, r *Relay) { r.Deadline = newRelaySettings().Deadline })
	s.well("at first")
	const checks = 40
	names := []string{"exporter", "Prosody", "ngIRCd", "Biboumi"}
	usage := func() []realstack.Usage {
		return []realstack.Usage{{CPU: ownCPU(t)}, s.xmpp.Usage(), s.irc.Usage(), s.bridge.Usage()}
	}
	idle := usage()
	time.Sleep(checks * relayEvery)
	before := usage()
	s.repeat(checks, relayEvery)
	after := usage()
	for i, name := range names {
		idling := before[i].CPU - idle[i].CPU
		each := (after[i].CPU - before[i].CPU - idling) / checks
		lines := after[i].LogLines - before[i].LogLines
		t.Logf("%s: %s of processor time per check, and %s in %s without checks; %d log lines of %d checks",
			name, each.Round(time.Microsecond), idling.Round(time.Microsecond), checks*relayEvery, lines, checks)
		if each <= 0 || each > 10*time.Millisecond {
			t.Errorf("%s: %s of processor time per check", name, each)
		}
		if lines > checks/10 {
			t.Errorf("%s: %d log lines of %d checks", name, lines, checks)
		}
	}
}

// repeat runs probes, which must succeed, at this interval.
func (s *bridged) repeat(checks int, interval time.Duration) {
	s.t.Helper()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range checks {
		if reason := s.probe(); reason != "" {
			s.t.Errorf("a probe failed: %s", reason)
		}
		<-tick.C
	}
}

// ownCPU is the processor time of this process.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
