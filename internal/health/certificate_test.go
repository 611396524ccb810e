package health

import (
	"slices"
	"testing"
	"time"
)

// certified is a world with targets that serve one certificate, or one each, which expires after that time. All is well in it.
func certified(t *testing.T, left time.Duration, own bool, names ...string) *world {
	t.Helper()
	w := newWorld(t)
	v := w.lives(90*day, left)
	for i, name := range names {
		v.Fingerprint[0] = 1
		if own {
			v.Fingerprint[0] += byte(i)
		}
		w.target(name).Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{v}}}
	}
	w.look()
	return w
}

// refuse has the readings of targets fail because of their certificates, which have expired.
func (w *world) refuse(names ...string) {
	for _, name := range names {
		t := w.target(name)
		t.Up, t.OwnFault, t.Reason = false, true, "tls"
		t.Conditions = slices.Clone(t.Conditions)
		t.Conditions[0].Refused = true
	}
}

func TestOneCertificateIsOneCause(t *testing.T) {
	w := certified(t, 4*day, false, "c", "a", "b")
	for i := range w.Targets {
		w.Targets[i].be("irc_tls")
	}
	w.want("a TLSCertificateExpiry warning 240h0m0s", "b TLSCertificateExpiry pending 240h0m0s certificate(a)",
		"c TLSCertificateExpiry pending 240h0m0s certificate(a)")
	w.wantCauses(map[string]string{"a": "a", "b": "a", "c": "a"})
	held := func(want ...string) {
		t.Helper()
		var got []string
		for _, h := range w.last.HeldBack {
			got = append(got, h.Name+" "+h.In+" "+h.Excuse.Cause)
		}
		if !slices.Equal(got, want) {
			t.Errorf("held back is %q, want %q", got, want)
		}
	}
	held("b chatstack_tls_certificate_excused a", "c chatstack_tls_certificate_excused a")
	w.now = w.now.Add(day + time.Hour)
	w.look()
	w.want("a TLSCertificateExpiry critical 1h0m0s", "b TLSCertificateExpiry pending 265h0m0s certificate(a)",
		"c TLSCertificateExpiry pending 265h0m0s certificate(a)")
	w.restart(true)
	w.look()
	w.want("a TLSCertificateExpiry critical 1h0m0s", "b TLSCertificateExpiry pending 265h0m0s certificate(a)",
		"c TLSCertificateExpiry pending 265h0m0s certificate(a)")

	renewed := []Validity{w.lives(90*day, 90*day)}
	w.target("a").Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: renewed}}
	w.look()
	w.want("b TLSCertificateExpiry critical 1h0m0s", "c TLSCertificateExpiry pending 265h0m0s certificate(b)")
	w.wantCauses(map[string]string{"b": "b", "c": "b"})
	held("c chatstack_tls_certificate_excused b")
}

// TestOtherCertificatesHaveTheirOwnAlerts holds it also for those of which no fingerprint is known.
func TestOtherCertificatesHaveTheirOwnAlerts(t *testing.T) {
	w := certified(t, day, true, "a", "b")
	w.want("a TLSCertificateExpiry critical 48h0m0s", "b TLSCertificateExpiry critical 48h0m0s")
	w.wantCauses(map[string]string{"a": "a", "b": "b"})
	for _, name := range []string{"a", "b"} {
		w.target(name).Conditions[0].Certificates[0].Fingerprint = Validity{}.Fingerprint
	}
	w.look()
	w.want("a TLSCertificateExpiry critical 48h0m0s", "b TLSCertificateExpiry critical 48h0m0s")
	if len(w.last.HeldBack) != 0 {
		t.Errorf("held back is %v", w.last.HeldBack)
	}
}

// TestCertificateUnderMaintenanceExcusesNoOther has the target that would come first be under maintenance.
func TestCertificateUnderMaintenanceExcusesNoOther(t *testing.T) {
	w := newWorld(t)
	w.Maintenance = []Subject{TargetSubject("a")}
	v := w.lives(90*day, day)
	v.Fingerprint[0] = 1
	for _, name := range []string{"a", "b", "c"} {
		w.target(name).Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{v}}}
	}
	w.look()
	w.want("a TLSCertificateExpiry pending 312h0m0s maintenance()", "b TLSCertificateExpiry critical 48h0m0s",
		"c TLSCertificateExpiry pending 312h0m0s certificate(b)")
	w.Maintenance = nil // what fires goes on
	w.look()
	w.want("a TLSCertificateExpiry pending 312h0m0s certificate(b)", "b TLSCertificateExpiry critical 48h0m0s",
		"c TLSCertificateExpiry pending 312h0m0s certificate(b)")
}

// TestSharedCertificateFiresWhereItsLimitIsReached has a target with limits of its own, so that its warning comes first.
func TestSharedCertificateFiresWhereItsLimitIsReached(t *testing.T) {
	w := certified(t, 20*day, false, "a", "b")
	w.target("b").Conditions[0].OwnLimits = ExpiryLimits{Warning: 30 * day, Critical: day}
	w.look()
	w.want("b TLSCertificateExpiry warning 240h0m0s")
	w.now = w.now.Add(18 * day)
	w.look()
	w.want("a TLSCertificateExpiry critical 24h0m0s", "b TLSCertificateExpiry warning 672h0m0s")
	if len(w.last.HeldBack) != 0 {
		t.Errorf("held back is %v, although one severity of each fires", w.last.HeldBack)
	}
}

// TestExpiredCertificateExplainsItsOutages has all that serve it fail, for hours: one alert tells of it.
func TestExpiredCertificateExplainsItsOutages(t *testing.T) {
	w := certified(t, time.Hour, false, "a", "b", "other", "more")
	w.target("other").Conditions, w.target("more").Conditions = nil, nil
	w.now = w.now.Add(time.Hour)
	w.refuse("a", "b")
	w.pass(3 * time.Hour)
	w.want("a TLSCertificateExpiry critical 75h0m0s", "b TLSCertificateExpiry pending 339h0m0s certificate(a)",
		"a TargetDown pending 3h0m0s certificate(a)", "b TargetDown pending 3h0m0s certificate(a)")
	w.wantCauses(map[string]string{"a": "a", "b": "a"})
	w.restart(true)
	w.look()
	w.want("a TLSCertificateExpiry critical 75h0m0s", "b TLSCertificateExpiry pending 339h0m0s certificate(a)",
		"a TargetDown pending 3h0m0s certificate(a)", "b TargetDown pending 3h0m0s certificate(a)")

	b := w.target("b") // it hangs, too
	b.OwnFault, b.Reason, b.Conditions = false, "timeout", nil
	w.pass(2 * time.Minute)
	w.want("a TLSCertificateExpiry critical 75h2m0s", "b TLSCertificateExpiry pending 339h2m0s certificate(a) unknown",
		"a TargetDown pending 3h2m0s certificate(a)", "b TargetDown pending 3h2m0s certificate(a)")
	w.pass(time.Second)
	w.want("a TLSCertificateExpiry critical 75h2m1s", "b TLSCertificateExpiry pending 339h2m1s certificate(a) unknown",
		"a TargetDown pending 3h2m1s certificate(a)", "b TargetDown warning 2m1s")
	w.pass(3 * time.Minute)
	w.want("a TLSCertificateExpiry critical 75h5m1s", "b TLSCertificateExpiry pending 339h5m1s certificate(a) unknown",
		"a TargetDown pending 3h5m1s certificate(a)", "b TargetDown critical 5m1s")
}

// TestOutageAfterARepairedCertificateIsAnother: a server that starts with the new certificate has as long for that as any other.
func TestOutageAfterARepairedCertificateIsAnother(t *testing.T) {
	w := certified(t, time.Hour, false, "a")
	w.now = w.now.Add(time.Hour)
	w.refuse("a")
	w.pass(3 * time.Hour)
	a := w.target("a")
	a.Reason, a.OwnFault = "http_status", false
	a.Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{w.lives(90*day, 90*day)}}}
	w.look()
	if v := w.last.Verdicts[TargetSubject("a")]; v.Down != minDuration {
		t.Errorf("the page says that it has been down for %s, want no time", v.Down)
	}
	w.pass(5 * time.Minute)
	w.want("a TargetDown warning 5m0s")
	w.pass(time.Second)
	w.want("a TargetDown critical 5m1s")
}

// TestOneCertificateStaysOneCauseAfterARestart reads first the one or the other of two targets that serve an expired certificate.
func TestOneCertificateStaysOneCauseAfterARestart(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		w := certified(t, time.Hour, false, "a", "b")
		w.now = w.now.Add(time.Hour)
		w.refuse("a", "b")
		w.pass(time.Hour)
		facts := slices.Clone(w.Targets)
		for i := range w.Targets {
			if target := &w.Targets[i]; target.Name != first {
				target.Read, target.Up, target.Conditions, target.OwnFault = false, false, nil, false
			}
		}
		w.restart(true)
		w.pass(time.Minute)
		for _, p := range w.last.Problems {
			wakes := p.Name == "a" && p.Alert == AlertCertificateExpiry
			if got := p.Severity == Critical; got != wakes || wakes == p.Excuse.Holds() {
				t.Errorf("only %s has been read: %s of %s is %s, %v", first, p.Alert, p.Name, p.Severity, p.Excuse)
			}
		}
		copy(w.Targets, facts)
		w.target("a").Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{w.lives(90*day, 90*day)}}}
		w.target("a").Up, w.target("a").OwnFault = true, false
		w.pass(time.Minute)
		w.want("b TLSCertificateExpiry critical 73h2m0s", "b TargetDown pending 1h2m0s certificate(b)")
	}
}

// TestServicesThatAreBackHaveTimeToLink has the IRC server miss its services for an hour, and still when they are up again.
func TestServicesThatAreBackHaveTimeToLink(t *testing.T) {
	w := newWorld(t)
	w.target("services").be("irc_services")
	w.target("irc").be("irc_rpc")
	w.look()
	w.target("services").Up = false
	w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
	w.pass(time.Hour)
	w.target("services").Up = true
	w.look()
	w.pass(5 * time.Minute)
	w.want("irc IRCServicesUnlinked pending 5m0s")
	w.pass(time.Second)
	w.want("irc IRCServicesUnlinked critical 5m1s")
}

// TestTLSFailureForAnotherReasonIsTold has the certificate expire soon, but not yet, and the handshake fail.
func TestTLSFailureForAnotherReasonIsTold(t *testing.T) {
	w := certified(t, day, false, "a")
	a := w.target("a")
	a.Up, a.OwnFault, a.Reason = false, true, "tls"
	w.pass(5*time.Minute + time.Second)
	w.want("a TLSCertificateExpiry critical 48h5m1s", "a TargetDown critical 5m1s")
}

// TestWhatNeedsARefusedTargetIsExplainedToo has a server miss services whose certificate has expired.
func TestWhatNeedsARefusedTargetIsExplainedToo(t *testing.T) {
	w := certified(t, time.Hour, false, "services")
	w.target("services").be("irc_services")
	w.target("irc").be("irc_rpc")
	w.look()
	w.now = w.now.Add(time.Hour)
	w.refuse("services")
	w.look()
	w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
	w.pass(time.Hour)
	w.want("services TLSCertificateExpiry critical 73h0m0s", "services TargetDown pending 1h0m0s certificate(services)",
		"irc IRCServicesUnlinked pending 1h0m0s dependency(services)")
}

// TestTargetsOfAServerGroupOnlyByTheirReasons has targets of one server fail at once, for reasons of their own or not.
func TestTargetsOfAServerGroupOnlyByTheirReasons(t *testing.T) {
	w := server(t)
	w.container("prosody")
	for name, reason := range map[string]string{"metrics": "unauthorized", "status": "unauthorized", "port": "timeout"} {
		w.target(name).Reason, w.target(name).OwnFault = reason, reason == "unauthorized"
		w.target(name).Container = "prosody"
	}
	w.target("rest").be("xmpp_rest")
	w.target("rest").Container = "prosody"
	w.target("s2s").be("xmpp_c2s")
	w.target("s2s").Container = "prosody"
	w.look()
	w.target("s2s").Reason = "refused"
	w.target("rest").Reason, w.target("rest").OwnFault = "tls", true
	w.down("metrics", "status", "port", "rest", "s2s")
	want := map[string]string{"metrics": "metrics", "status": "metrics", "port": "port", "s2s": "port", "rest": "rest"}
	w.wantCauses(want)
	for i := range w.Targets { // before they are read again, after a restart
		w.Targets[i].Read, w.Targets[i].Reason, w.Targets[i].OwnFault = false, "", false
	}
	w.restart(true)
	w.look()
	w.wantCauses(want)
}

// TestOwnFaultIsNoneOfTheContainer holds which events name the container that serves a target, so that incidents join by it.
func TestOwnFaultIsNoneOfTheContainer(t *testing.T) {
	for _, own := range []bool{false, true} {
		w := certified(t, day, false, "api")
		w.container("api")
		w.target("api").Container = "api"
		w.look()
		w.target("api").OwnFault, w.target("api").Reason = own, "tls"
		w.down("api")
		for key, known := range w.chain.problems {
			want := key.alert == AlertTargetDown && !own
			if got := known.Server.Name == "api"; got != want {
				t.Errorf("own fault %t: %s names the container: %t, want %t", own, key.alert, got, want)
			}
		}
	}
}

// TestCertificateIsApartFromItsServer has the container of a target that serves an old certificate stop.
func TestCertificateIsApartFromItsServer(t *testing.T) {
	w := certified(t, day, false, "api", "other")
	w.container("db")
	w.container("api").DependsOn = []string{"db"}
	w.target("api").Container = "api"
	w.pass(time.Minute)
	w.container("db").State, w.target("api").Up = "exited", false
	w.pass(time.Minute)
	for _, p := range w.last.Problems {
		want := map[string]string{AlertTargetDown: "db", AlertContainerDown: "db", AlertCertificateExpiry: "api"}[p.Alert]
		if p.Cause.Name != want {
			t.Errorf("the cause of %s of %s is %s, want %s", p.Alert, p.Name, p.Cause.Name, want)
		}
	}
}

// TestMaintenanceMovesNoAlertOnACertificate puts the target under maintenance whose alert fires: its warning first, which becomes critical.
func TestMaintenanceMovesNoAlertOnACertificate(t *testing.T) {
	w := certified(t, 4*day, false, "a", "b")
	w.Maintenance = []Subject{TargetSubject("a")}
	w.pass(time.Minute)
	w.want("a TLSCertificateExpiry warning 240h1m0s", "b TLSCertificateExpiry pending 240h1m0s certificate(a)")
	w.now = w.now.Add(day + time.Hour)
	w.look()
	w.want("a TLSCertificateExpiry critical 1h1m0s", "b TLSCertificateExpiry pending 265h1m0s certificate(a)")
}

// TestCertificateIsHeldBackForAsLongAsTheRulesKnowIt has its target fail for other reasons, so that no reading sees it.
func TestCertificateIsHeldBackForAsLongAsTheRulesKnowIt(t *testing.T) {
	for _, failing := range []string{"a", "b"} {
		w := certified(t, day, false, "a", "b")
		one := w.target(failing)
		one.Up, one.Reason, one.Conditions = false, "refused", nil
		w.pass(time.Hour)
		p, _ := w.problem("b", AlertCertificateExpiry)
		if len(w.last.HeldBack) != 1 || w.last.HeldBack[0].Name != "b" || p.Severity != Pending {
			t.Errorf("%s fails for an hour: held back is %v, that of b %s", failing, w.last.HeldBack, p.Severity)
		}
	}
}

// TestExporterThatHasJustStartedWaitsForTheFirstOfACertificate, as the other of its pair has chosen it, but not for ever.
func TestExporterThatHasJustStartedWaitsForTheFirstOfACertificate(t *testing.T) {
	for _, unread := range []time.Duration{20 * time.Second, 5 * time.Minute} {
		w := certified(t, day, false, "a", "b")
		w.restart(false)
		w.look()
		w.restart(false)
		a := *w.target("a")
		w.target("a").Read, w.target("a").Up, w.target("a").Conditions = false, false, nil
		w.pass(unread)
		w.want("b TLSCertificateExpiry pending " + (312*time.Hour + unread).String())
		if len(w.last.HeldBack) != 1 || w.last.HeldBack[0].Name != "b" {
			t.Errorf("held back is %v, want that of b", w.last.HeldBack)
		}
		if unread == 5*time.Minute {
			w.pass(time.Second)
			w.want("b TLSCertificateExpiry critical 48h5m1s")
			continue
		}
		*w.target("a") = a
		w.look()
		w.want("a TLSCertificateExpiry critical 48h0m20s", "b TLSCertificateExpiry pending 312h0m20s certificate(a)")
	}
}
