//go:build realservers

package drill

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// bridged is a site with a real bridge between a real IRC server and a real XMPP server.
type bridged struct {
	*site
	irc    *realstack.IRC
	xmpp   *realstack.Prosody
	bridge *realstack.Biboumi
}

// openBridged opens a site that checks a bridge with these times. That its component is no second page depends on the shipped times: the
// stories hold that.
func (r *rig) openBridged(t *testing.T, env, times string) *bridged {
	t.Helper()
	b := &bridged{xmpp: realstack.StartProsody(t, realstack.ProsodyOptions{}), irc: realstack.StartNgIRCd(t)}
	b.xmpp.Register("check", realstack.XMPPDomain, "pw-check")
	b.bridge = realstack.StartBiboumi(t, b.xmpp, b.irc)
	b.site = r.open(t, env, fmt.Sprintf(`
  - kind: relay
    name: bridge
    irc: {address: %[1]q, plain: true, channel: %[2]q}
    xmpp: {address: %[3]q, user: check@%[4]s, password: pw-check, ca_file: %[5]s, room: %[6]q}
`+times, b.irc.Addr, realstack.IRCChannel, b.xmpp.ClientAddr, realstack.XMPPDomain, b.xmpp.Authority.File, b.bridge.Room()), nil)
	// The exporter joins again up to a minute after its session ended, and the messages of an hour decide whether a bridge is slow.
	b.patience = 5 * time.Minute
	return b
}

// bothWays are the notices of an alert on both directions of the bridge.
func bothWays(alert, severity string) []notice {
	return []notice{
		{alert, severity, of("target", "bridge", "of", "irc to xmpp")},
		{alert, severity, of("target", "bridge", "of", "xmpp to irc")},
	}
}

// operate makes an operator of the IRC server say a line.
func (b *bridged) operate(line, answer string) {
	b.t.Helper()
	o := b.irc.Operator()
	if err := o.Do(line, answer); err != nil {
		b.t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		b.t.Error(err)
	}
}

// quickTimes find a lost message within 5 s, so that few checks fail until they are repaired.
const quickTimes = `    schedule: "@every 4s"
    deadline: 500ms
    slow: 500ms
    timeout: 4s
`

// unstableBridge may come first: BridgeNotRelaying needs 90 s of failed checks, over the 1 % of an hour that this test allows.
var unstableBridge = notice{"TargetUnstable", "warning", of("target", "bridge")}

// notRelaying makes a condition: that many messages in a row were lost.
func notRelaying(p page) bool {
	return above(2, "chatstack_relay_consecutive_failures", "from", "irc", "to", "xmpp")(p)
}

// drillBridge is about a real bridge that hangs, and a check that may not speak.
func (r *rig) drillBridge(t *testing.T) {
	t.Helper()
	b := r.openBridged(t, "bridge", quickTimes)
	b.try(fault{
		name:   "bridge hangs",
		cause:  b.bridge.Hang,
		repair: b.bridge.Resume,
		shown:  notRelaying,
		want:   bothWays("BridgeNotRelaying", "critical"),
		may:    []notice{unstableBridge},
	})
	const mask = "irccheck!*@*"
	b.try(fault{
		name:   "check of the bridge banned",
		shown:  is(0, "chatstack_relay_session_up", "side", "irc"),
		cause:  func() { b.operate("MODE "+realstack.IRCChannel+" +b "+mask, "MODE") },
		repair: func() { b.operate("MODE "+realstack.IRCChannel+" -b "+mask, "MODE") },
		want:   []notice{{"RelaySessionDown", "warning", of("target", "bridge", "of", "irc")}},
	})
}

// drillDeadBridge is about a real bridge whose process ends.
func (r *rig) drillDeadBridge(t *testing.T) {
	t.Helper()
	b := r.openBridged(t, "dead-bridge", quickTimes)
	b.try(fault{
		name:   "bridge killed",
		cause:  b.bridge.Kill,
		repair: b.bridge.Start,
		shown:  notRelaying,
		want:   bothWays("BridgeNotRelaying", "critical"),
		// It tries to join again only each half minute, which is longer than the hold here.
		may: []notice{{"RelaySessionDown", "warning", of("target", "bridge", "of", "xmpp")}, unstableBridge},
	})
}

// drillSlowBridge is about a real bridge that runs for a tenth of a second in two and a half.
func (r *rig) drillSlowBridge(t *testing.T) {
	t.Helper()
	b := r.openBridged(t, "slow-bridge", `    schedule: "@every 7s"
    deadline: 4s
    slow: 500ms
    timeout: 7s
`)
	stop := make(chan struct{})
	var hanging sync.WaitGroup
	repair := sync.OnceFunc(func() { close(stop); hanging.Wait() })
	t.Cleanup(repair)
	b.try(fault{
		name:   "bridge hangs for 2.4 s in 2.5",
		repair: repair,
		cause: func() {
			hanging.Go(func() { b.bridge.Flicker(2400*time.Millisecond, 100*time.Millisecond, stop) })
		},
		shown: func(p page) bool {
			return slices.ContainsFunc(p.Samples("chatstack_relay_delivery_seconds"),
				func(m *dto.Metric) bool { return m.GetHistogram().GetSampleSum() > 0.5 })
		},
		want: bothWays("BridgeSlow", "warning"),
	})
}

// simulatedBridge is the check of a simulated bridge.
func simulatedBridge(sim *simstack.Stack) string {
	return fmt.Sprintf(`
  - kind: relay
    name: bridge
    irc: {address: %[1]q, user: check, password: %[2]s, channel: "#bridge-check", ca_file: %[4]s}
    xmpp: {address: %[3]q, user: check@chat.test, password: %[2]s, room: check@rooms.chat.test, ca_file: %[4]s}
`+quickTimes, sim.IRCAddress(), simstack.RelayPassword, sim.XMPPClientAddress(), sim.CAFile())
}

// drillCopies is about a bridge that says everything twice.
func (r *rig) drillCopies(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	s := r.open(t, "copies", simulatedBridge(sim), nil)
	twice := func(on bool) func() {
		return func() {
			if err := sim.Switch("bridge", "twice", on); err != nil {
				t.Error(err)
			}
		}
	}
	s.try(fault{
		name:   "bridge says everything twice",
		want:   bothWays("BridgeDuplicates", "warning"),
		shown:  above(0, "chatstack_relay_copies_total", "from", "irc", "to", "xmpp"),
		cause:  twice(true),
		repair: twice(false),
	})
}

// drillPair is about two exporters, of which the one that checks the bridge is gone.
func (r *rig) drillPair(t *testing.T) {
	t.Helper()
	targets := simulatedBridge(simstacktest.Start(t, simstack.Options{}))
	s := r.open(t, "pair", targets, nil)
	other := *s
	other.exporter = realstack.StartExporter(t, r.program, "pair: other\n"+settings+targets, nil)
	other.scrape(other.exporter.Addr)
	s.try(fault{
		name:   "first of a pair is gone from discovery",
		want:   []notice{{"RelayUnwatched", "warning", of("target", "bridge", "kind", "relay")}},
		shown:  func(page) bool { return s.none(fmt.Sprintf("up{instance=%q}", s.exporter.Addr)) },
		cause:  func() { s.operators.forget(s.exporter.Addr) },
		repair: func() { s.operators.watch(s.exporter.Addr, s.env) },
	})
}
