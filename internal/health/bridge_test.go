package health

import (
	"testing"
	"time"
)

// bridged is a world with a bridge, its XMPP server and its IRC server.
func bridged(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for name, kind := range map[string]string{"bridge": "relay", "status": "xmpp_status", "port": "irc_tls"} {
		w.target(name).be(kind)
	}
	w.relays(true)
	w.component(true)
	w.speaks(true)
	w.pass(time.Minute)
	return w
}

func (w *world) relays(well bool) {
	w.setCondition("bridge", Condition{Alert: AlertBridgeNotRelaying, Of: "irc to xmpp", Holds: !well})
}

func (w *world) speaks(well bool) {
	w.setCondition("bridge", Condition{Alert: AlertRelaySessionDown, Of: "irc", Holds: !well})
}

func (w *world) component(connected bool) {
	w.setCondition("status", Condition{Alert: AlertComponentDisconnected, Of: "bridge.test", Holds: !connected})
}

// setCondition sets a target's condition on that alert.
func (w *world) setCondition(target string, c Condition) {
	t := w.target(target)
	conditions := []Condition{c}
	for _, other := range t.Conditions {
		if other.Alert != c.Alert {
			conditions = append(conditions, other)
		}
	}
	t.Conditions = conditions
}

func TestDeadBridgePagesOnce(t *testing.T) {
	w := bridged(t)
	w.component(false)
	w.pass(2 * time.Minute)
	w.relays(false)
	w.pass(10 * time.Minute)
	w.want("bridge BridgeNotRelaying critical 10m0s", "status XMPPComponentDisconnected pending 12m0s dependency(bridge)")
	w.relays(true) // by another way than the component
	w.look()
	w.now = w.now.Add(10 * time.Second)
	w.pass(5 * time.Minute)
	w.want("status XMPPComponentDisconnected pending 5m0s")
	w.pass(time.Second)
	w.want("status XMPPComponentDisconnected critical 5m1s")
}

func TestBridgeThatDoesNotPageExcusesNoComponentThatDoes(t *testing.T) {
	for both, want := range map[bool]string{
		false: "status XMPPComponentDisconnected critical 6m0s",
		true:  "status XMPPComponentDisconnected pending 6m0s dependency(bridge)",
	} {
		w := bridged(t)
		w.target("bridge").WarnOnly, w.target("status").WarnOnly = true, both
		w.relays(false)
		w.component(false)
		w.pass(6 * time.Minute)
		w.want("bridge BridgeNotRelaying warning 6m0s", want)
	}
}

func TestBridgeWhoseAlertIsNotDueExcusesNoComponent(t *testing.T) {
	w := bridged(t)
	w.waits(AlertBridgeNotRelaying, time.Hour)
	w.relays(false)
	w.component(false)
	w.pass(6 * time.Minute)
	w.want("bridge BridgeNotRelaying pending 6m0s", "status XMPPComponentDisconnected critical 6m0s")
}

func TestComponentThatIsAlertedIsNotExcusedLater(t *testing.T) {
	w := bridged(t)
	w.component(false)
	w.pass(6 * time.Minute)
	w.relays(false)
	w.pass(time.Minute)
	w.want("bridge BridgeNotRelaying critical 1m0s", "status XMPPComponentDisconnected critical 7m0s also(bridge)")
}

// TestRelaySessionHasTimeToComeBack holds that the hold begins again when the server is back.
func TestRelaySessionHasTimeToComeBack(t *testing.T) {
	w := bridged(t)
	w.target("port").Up = false
	w.speaks(false)
	w.pass(10 * time.Minute)
	w.want("bridge RelaySessionDown pending 10m0s dependency(port)", "port TargetDown critical 10m0s")
	w.target("port").Up = true
	w.look()
	w.now = w.now.Add(10 * time.Second)
	w.pass(5 * time.Minute)
	w.want("bridge RelaySessionDown pending 5m0s")
	w.pass(time.Second)
	w.want("bridge RelaySessionDown warning 5m1s")
}

func TestComponentThatDisconnectsLaterIsNotTheBridges(t *testing.T) {
	for later, want := range map[time.Duration]string{
		5 * time.Minute:             "status XMPPComponentDisconnected pending 6m0s dependency(bridge)",
		5*time.Minute + time.Second: "status XMPPComponentDisconnected critical 6m0s",
	} {
		w := bridged(t)
		w.relays(false)
		w.look()
		w.now = w.now.Add(later)
		w.component(false)
		w.pass(6 * time.Minute)
		w.want("bridge BridgeNotRelaying critical "+(later+6*time.Minute).String(), want)
	}
}
