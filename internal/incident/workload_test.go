package incident

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// share makes a container an instance of a shared workload that continues it.
func (w *world) share(name, instance, workload string) *health.Container {
	c := w.container(name)
	c.Name, c.Workload, c.Shared, c.Was = instance, workload, true, []string{name}
	c.Members, c.Instances, c.Wanted = []string{instance}, 1, 1
	return c
}

// TestIncidentFollowsAContainerToItsWorkload: it goes on, is over when the workload is well, and is the same after a restart.
func TestIncidentFollowsAContainerToItsWorkload(t *testing.T) {
	w := newWorld(t)
	w.container("other").State = "exited"
	w.target("other").Up = false
	w.pass(6 * time.Minute)
	id := w.newest().ID
	c := w.share("other", "other-2", "chat/other")
	c.State, c.Instances = "exited", 0
	w.pass(time.Minute)
	w.restart(time.Minute)
	w.pass(time.Minute)
	of := health.WorkloadSubject("local", "chat/other")
	if i := w.newest(); i.ID != id || i.State != Open || i.Cause != of || i.Problems[0].Subject != of || len(w.log.All()) != 1 {
		t.Errorf("got %+v", i)
	}
	c.State, c.Instances = health.Running, 1
	w.target("other").Up = true
	w.pass(time.Minute)
	if i := w.newest(); i.ID != id || i.State != Watching || i.Unwatched {
		t.Errorf("got %+v", i)
	}
}

// TestTwoContainersOfOneWorkloadAreOneProblem of the workload.
func TestTwoContainersOfOneWorkloadAreOneProblem(t *testing.T) {
	w := newWorld(t)
	w.container("other").State = "exited"
	w.pass(time.Minute)
	w.container("web").State, w.container("web").DependsOn = "exited", nil
	w.pass(6 * time.Minute)
	list := w.Engines[0].Containers
	c := w.share("other", "other-2", "chat/other")
	c.Was, c.State, c.Instances = []string{"other", "web"}, "exited", 0
	w.Engines[0].Containers = append(list[:2:2], list[3:]...)
	w.pass(time.Minute)
	for _, i := range w.log.All() {
		if len(i.Problems) != 1 && i.State == Open {
			t.Errorf("got %+v", i)
		}
	}
	w.restart(time.Minute)
	w.share("other-2", "other-2", "chat/other").Was = c.Was
	w.pass(time.Minute)
	for _, i := range w.log.All() {
		if i.Lasts() && i.State != Watching {
			t.Errorf("it is over: %+v", i)
		}
	}
}

// TestRemovedContainerIsNeverFixed, even if another problem of it, after which the incident is called, has ended as it should.
func TestRemovedContainerIsNeverFixed(t *testing.T) {
	w := newWorld(t)
	w.Engines[0].Containers = append(w.Engines[0].Containers, health.Container{
		Host:     "local",
		Name:     "extra",
		State:    "exited",
		Expected: true,
	})
	w.pass(6 * time.Minute)
	w.container("extra").State, w.container("extra").Removed = health.Missing, true
	w.pass(time.Hour)
	list := w.Engines[0].Containers
	w.Engines[0].Containers = list[:len(list)-1]
	w.pass(time.Hour)
	if i := w.newest(); i.State != Closed || !i.Unwatched {
		t.Errorf("got %+v", i)
	}
}
