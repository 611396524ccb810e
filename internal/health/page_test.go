package health

import (
	"testing"
	"time"
)

// TestTargetThatDoesNotPageWarnsAtMost holds both sides: what is its own gets no worse than a warning, the rest does.
func TestTargetThatDoesNotPageWarnsAtMost(t *testing.T) {
	conditions := func(w *world) []Condition {
		return []Condition{
			{Alert: AlertComponentDisconnected, Of: "bridge", Holds: true},
			{Alert: AlertServicesUnlinked, Holds: true},
			{Alert: AlertCacheExhausted, Holds: true},
			{Alert: AlertServedNotRenewed, Holds: true, Certificates: []Validity{{Ends: w.now}}},
			{Alert: AlertCertificateExpiry, Certificates: []Validity{{Ends: w.now}}},
			{Alert: AlertVolumeUsage, Used: 1},
		}
	}
	for _, warnOnly := range []bool{false, true} {
		own := "critical"
		if warnOnly {
			own = "warning"
		}
		w := newWorld(t)
		docs := w.target("docs")
		docs.WarnOnly = warnOnly
		w.look()
		docs.Conditions = conditions(w)
		w.look()
		docs.Up = false
		w.pass(2 * time.Hour)
		w.want("docs TargetDown "+own+" 2h0m0s", "docs XMPPComponentDisconnected "+own+" 2h0m0s", "docs IRCServicesUnlinked "+own+" 2h0m0s",
			"docs IdentityCacheExhausted warning 2h0m0s", "docs TLSServedNotRenewed "+own+" 2h0m0s",
			"docs TLSCertificateExpiry critical 74h0m0s", "docs DataVolumeUsage critical 2h0m0s")
		critical := map[string]bool{}
		for _, c := range w.last.Conditions {
			critical[c.Alert] = critical[c.Alert] || c.Severity == Critical
		}
		for _, alert := range []string{AlertComponentDisconnected, AlertServicesUnlinked, AlertServedNotRenewed} {
			if critical[alert] == warnOnly {
				t.Errorf("a critical %s is exported: %t, and it pages: %t", alert, critical[alert], !warnOnly)
			}
		}
	}
}

// TestTargetThatDoesNotPageAndWasNeverUp holds that it is unknown for as long as any other how long it has been down.
func TestTargetThatDoesNotPageAndWasNeverUp(t *testing.T) {
	w := newWorld(t)
	w.target("docs").Up, w.target("docs").WarnOnly = false, true
	w.pass(5 * time.Minute)
	w.want("docs TargetDown pending 5m0s")
	if w.last.Verdicts[TargetSubject("docs")].Known {
		t.Error("it is known how long it has been down")
	}
	w.pass(time.Second)
	w.want("docs TargetDown warning 5m1s")
	if !w.last.Verdicts[TargetSubject("docs")].Known {
		t.Error("it is not known how long it has been down")
	}
}

// TestTargetThatPagesNoMore has its configuration change while it is down, and while nobody reads it.
func TestTargetThatPagesNoMore(t *testing.T) {
	w := newWorld(t)
	w.target("docs")
	w.look()
	w.target("docs").Up = false
	w.pass(10 * time.Minute)
	w.want("docs TargetDown critical 10m0s")
	w.target("docs").WarnOnly, w.target("docs").Read = true, false
	w.pass(time.Minute)
	w.want("docs TargetDown warning 11m0s unknown")
	w.target("docs").Read = true
	w.look()
	w.want("docs TargetDown warning 11m0s")
	w.target("docs").WarnOnly = false
	w.look()
	w.want("docs TargetDown critical 11m0s")
}
