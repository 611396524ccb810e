package health

import (
	"testing"
	"time"
)

// renamed has the target of that name get another one.
func (w *world) renamed(was, is string) { w.target(was).Name = is }

// TestRenamedTargetKeepsItsClock: the next judgement has its outage under the new name, and an event of the former one says so.
func TestRenamedTargetKeepsItsClock(t *testing.T) {
	for name, restart := range map[string]func(w *world){
		"a reload":  func(*world) {},
		"a restart": func(w *world) { w.restart(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("site").Place = "http://web"
			w.target("other").Place = "http://other"
			w.pass(time.Minute)
			w.target("site").Up = false
			w.pass(6 * time.Minute)
			w.want("site TargetDown critical 6m0s")
			restart(w)
			w.renamed("site", "web")
			w.target("web").Read = false // it has not been probed yet
			w.look()
			w.want("web TargetDown critical 6m0s unknown")
			var joined []Event
			for _, e := range w.last.Round.Events {
				if e.Joins() {
					joined = append(joined, e)
				}
				if e.Ended {
					t.Errorf("%s of %s ended", e.Alert, e.Of)
				}
			}
			if len(joined) != 1 || joined[0].Was != Key(TargetSubject("site")) || joined[0].Of != Key(TargetSubject("web")) {
				t.Errorf("events %+v, want that web was site", joined)
			}
			w.target("web").Read = true
			w.pass(time.Minute)
			w.want("web TargetDown critical 7m0s")
			if p, v := w.last.Problems[0], w.last.Verdicts[TargetSubject("web")]; p.Was != "site" || v.Was != "site" {
				t.Errorf("it was %q and %q, want site", p.Was, v.Was)
			}
			w.target("web").Up = true
			w.pass(10 * time.Second)
			w.want()
			w.target("web").Up = false
			w.pass(10 * time.Second)
			if p := w.last.Problems[0]; p.Was != "" {
				t.Errorf("a later outage was of %s", p.Was)
			}
		})
	}
}

// TestTargetsThatAreNotRenamed: another place, a name that is still there, and two that may be meant.
func TestTargetsThatAreNotRenamed(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another place":          func(w *world) { w.renamed("site", "web"); w.target("web").Place = "http://elsewhere" },
		"no place":               func(w *world) { w.renamed("site", "web"); w.target("web").Place = "" },
		"it is still there":      func(w *world) { w.target("web").Place = "http://web" },
		"two new ones":           func(w *world) { w.renamed("site", "web"); w.target("web2").Place = "http://web" },
		"one that was there":     func(w *world) { w.Targets = w.Targets[1:]; w.target("other").Place = "http://web" },
		"two were of that place": func(w *world) { w.Targets = nil; w.target("web").Place = "http://twice" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("site").Place = "http://web"
			w.target("other").Place = "http://other"
			w.target("twice").Place, w.target("again").Place = "http://twice", "http://twice"
			w.pass(time.Minute)
			w.target("site").Up = false
			w.target("twice").Up = false
			w.pass(3 * time.Minute)
			change(w)
			w.look()
			for _, p := range w.last.Problems {
				if p.Was != "" {
					t.Errorf("%s was %s", p.Name, p.Was)
				}
			}
		})
	}
}

// TestRenamedTargetKeepsWhatIsRemembered: its outages, and its failed readings.
func TestRenamedTargetKeepsWhatIsRemembered(t *testing.T) {
	w := flapping(t)
	w.target("x").Place = "http://x"
	w.look()
	w.renamed("x", "y")
	w.target("y").Up = false
	w.pass(3 * time.Minute)
	w.want("y TargetDown warning 21m0s")
}

// TestRenamedEngineStaysTheCauseOfItsTargets renames an engine while its loss excuses a target, and after that.
func TestRenamedEngineStaysTheCauseOfItsTargets(t *testing.T) {
	for _, lost := range []time.Duration{3 * time.Minute, 6 * time.Minute} {
		w := engineWorld(t, func(w *world) { w.target("docker").Place = "socket" })
		w.loseEngine(true)
		w.lose("irc")
		w.pass(lost)
		w.wantCauses(map[string]string{"docker": "docker", "irc": "docker"})
		w.renamed("docker", "engine")
		w.target("engine").Read, w.target("irc").Read = false, false // neither has been probed yet
		w.look()
		w.wantCauses(map[string]string{"engine": "engine", "irc": "engine"})
	}
}

// TestRenamedTargetStillHasItsCertificate: until it is read under its new name, the other endpoint of the certificate stays held back.
func TestRenamedTargetStillHasItsCertificate(t *testing.T) {
	w := certified(t, day, false, "a", "b")
	w.target("a").Place = "here"
	w.look()
	w.restart(true)
	w.renamed("a", "z")
	z := w.target("z")
	z.Read, z.Up, z.Conditions = false, false, nil
	w.pass(10 * time.Second)
	w.want("z TLSCertificateExpiry critical 48h0m10s unknown", "b TLSCertificateExpiry pending 312h0m10s certificate(z)")
}

// TestWorkloadThatContinuesAContainerSaysItsName.
func TestWorkloadThatContinuesAContainerSaysItsName(t *testing.T) {
	w := newWorld(t)
	c := w.container("chat-web-1")
	w.pass(time.Minute)
	c.State = "exited"
	w.pass(2 * time.Minute)
	c = w.container("chat-web-1")
	c.Workload, c.Shared, c.Was, c.Wanted = "chat/web", true, []string{"chat-web-1"}, 1
	w.look()
	w.want("chat/web ContainerDown warning 2m0s")
	if p := w.last.Problems[0]; p.Was != "chat-web-1" {
		t.Errorf("it was %q, want chat-web-1", p.Was)
	}
}
