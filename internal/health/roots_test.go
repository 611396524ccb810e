package health

import (
	"testing"
	"time"
)

// TestExcuseLastsAsLongAsItsRoot has what lies between a target and the root of its outage do whatever it likes.
func TestExcuseLastsAsLongAsItsRoot(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"nothing":         func(*world) {},
		"it restarts":     func(w *world) { w.container("api").Restarts++; w.container("api").Health = Starting },
		"it stops":        func(w *world) { w.container("api").State = "exited" },
		"it is restarted": func(w *world) { w.container("api").State = Restarting },
		"it waits":        func(w *world) { w.container("api").State, w.container("api").WaitsFor = "created", "db" },
	} {
		t.Run(name, func(t *testing.T) {
			w := stack(t)
			w.container("db").State = "exited"
			w.lose("api", "web")
			w.pass(10 * time.Minute)
			change(w)
			w.pass(10 * time.Minute)
			for _, target := range []string{"api", "web"} {
				if p, _ := w.problem(target, AlertTargetDown); !p.Excuse.Holds() || p.Severity != Pending {
					t.Errorf("%s is %s, want it excused", target, p.Severity)
				}
			}
			if p, _ := w.problem("db", AlertContainerDown); p.Severity != Critical {
				t.Errorf("db is %s", p.Severity)
			}
		})
	}
}

// TestExcuseEndsWithItsRoot has a container between the target and the root restart while the root is down, and stay down after it.
func TestExcuseEndsWithItsRoot(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.lose("api")
	w.pass(9 * time.Minute)
	w.container("api").Restarts, w.container("api").Health = 1, Starting // for ever
	w.pass(time.Minute)
	w.container("db").State = Running
	w.pass(2 * time.Minute)
	w.want("api TargetDown pending 12m0s dependency(api)")
	w.pass(time.Second)
	w.want("api TargetDown critical 12m1s also(api)")
}

// TestRootCountsNotItsLink has the target fail before the root, though not before the container between them.
func TestRootCountsNotItsLink(t *testing.T) {
	w := stack(t)
	w.lose("web")
	w.pass(30 * time.Second)
	w.container("api").State = "exited"
	w.pass(31 * time.Second)
	w.container("db").State = "exited"
	w.pass(5 * time.Minute)
	w.want("db ContainerDown warning 5m0s", "api ContainerDown pending 5m31s dependency(db)", "web TargetDown critical 6m1s also(api)")
}

// TestOwnFaultIsTold has a target be at fault itself while the database is down.
func TestOwnFaultIsTold(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.lose("api")
	w.pass(10 * time.Minute)
	w.target("api").OwnFault = true
	w.pass(2 * time.Minute)
	w.want("db ContainerDown critical 12m0s", "api TargetDown pending 12m0s dependency(db)")
	w.pass(time.Second)
	w.want("db ContainerDown critical 12m1s", "api TargetDown critical 12m1s also(db)")
}

// TestOwnFaultMustLast has one reading see another reason, and a proxy answer for a container that is down.
func TestOwnFaultMustLast(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.lose("api")
	for _, own := range []bool{false, true, false, true, false} {
		w.target("api").OwnFault = own
		w.pass(110 * time.Second)
	}
	w.want("db ContainerDown critical 9m10s", "api TargetDown pending 9m10s dependency(db)")
	w.container("api").State, w.target("api").OwnFault = "exited", true
	w.pass(time.Hour)
	w.want("db ContainerDown critical 1h9m10s", "api ContainerDown pending 1h0m0s dependency(db)",
		"api TargetDown pending 1h9m10s dependency(api)")
}

// TestOwnFaultOutlivesARestart holds that its time goes on.
func TestOwnFaultOutlivesARestart(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.lose("api")
	w.pass(10 * time.Minute)
	w.target("api").OwnFault = true
	w.pass(time.Minute)
	w.restart(true)
	w.pass(time.Minute)
	if w.last.Next != minDuration {
		t.Errorf("next after %s, want %s", w.last.Next, minDuration)
	}
	w.pass(time.Second)
	w.want("db ContainerDown critical 12m1s", "api TargetDown critical 12m1s also(db)")
}
