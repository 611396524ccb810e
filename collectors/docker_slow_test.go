package collectors

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// slowEngine is an engine in a bubble. Like a real one, it holds a container's lock while it starts it: inspections wait, lists do not.
type slowEngine struct {
	*watch
	*engine
	ctx context.Context //nolint:containedctx // of the test, with the dialer

	locks     map[string]chan struct{} // by id, closed when the engine lets go
	told      chan events.Message
	hangUp    chan struct{} // ends a stream of events
	brokenOff atomic.Int64  // inspections
}

// inBubble runs a test of an engine with running containers, which is polled once and followed.
func inBubble(t *testing.T, names []string, test func(e *slowEngine), change ...func(*Docker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &slowEngine{
			engine: newEngine(),
			locks:  map[string]chan struct{}{},
			told:   make(chan events.Message, 100),
			hangUp: make(chan struct{}),
		}
		for _, name := range names {
			c := plainContainer(name, nil)
			c.State.StartedAt = "1999-12-31T00:00:00Z" // before the bubble's time
			e.containers = append(e.containers, c)
		}
		e.answer = e.wait
		var network simstack.Network
		l, err := network.Listen("unix", "/engine")
		if err != nil {
			t.Fatal(err)
		}
		server := http.Server{Handler: e.engine, ReadHeaderTimeout: time.Hour}
		go server.Serve(l) //nolint:errcheck // it ends with the test
		ctx, cancel := context.WithCancel(t.Context())
		e.ctx = exchange.WithDialer(ctx, network.Dial)
		change = append(change, func(s *Docker) { s.Timeout = config.Duration(10 * time.Second) })
		e.watch = watchEngine(t, "unix:///engine", nil, change...)
		e.docker.patience = maxEventDelay
		var following sync.WaitGroup
		following.Go(func() { e.docker.Follow(e.ctx, func() {}) })
		e.poll()
		time.Sleep(time.Second)
		test(e)
		cancel()
		following.Wait()
		server.Close() //nolint:errcheck,gosec // the bubble reports what it leaves
	})
}

// wait tells events, and has inspections wait for the lock of their container.
func (e *slowEngine) wait(w http.ResponseWriter, r *http.Request) (answered bool) {
	flush := http.NewResponseController(w).Flush
	if strings.HasSuffix(r.URL.Path, "/events") {
		flush() //nolint:errcheck // the client's loss
		for {
			select {
			case m := <-e.told:
				json.NewEncoder(w).Encode(m) //nolint:errcheck // the client's loss
				flush()                      //nolint:errcheck // the client's loss
			case <-e.hangUp:
				return true
			case <-r.Context().Done():
				return true
			}
		}
	}
	e.mu.Lock()
	lock := e.locks[containerOf(r)]
	e.mu.Unlock()
	if lock == nil {
		return false
	}
	select {
	case <-lock:
		return false
	case <-r.Context().Done():
		e.brokenOff.Add(1)
		return true
	}
}

// tell sends an event.
func (e *slowEngine) tell(action events.Action, id, name string) {
	e.told <- told(action, id, name)
	time.Sleep(time.Millisecond)
}

// lock has inspections of containers wait until release.
func (e *slowEngine) lock(names ...string) (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lock := make(chan struct{})
	for _, name := range names {
		e.locks["id-"+name] = lock
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, name := range names {
			delete(e.locks, "id-"+name)
		}
		close(lock)
	}
}

// set changes the state of a container.
func (e *slowEngine) set(id string, s container.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.find(id).State = &s
}

// restart restarts a container, whose start takes so long.
func (e *slowEngine) restart(name string, takes time.Duration) {
	id := "id-" + name
	release := e.lock(name)
	e.set(id, container.State{Status: container.StateExited, StartedAt: e.state(id).StartedAt, FinishedAt: stampNow()})
	e.tell(events.ActionDie, id, name)
	e.tell(events.ActionStop, id, name)
	time.Sleep(takes)
	e.set(id, container.State{Status: container.StateRunning, Running: true, StartedAt: stampNow()})
	e.tell(events.ActionStart, id, name)
	release()
	e.tell(events.ActionRestart, id, name)
}

func (e *slowEngine) state(id string) *container.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.find(id).State
}

func stampNow() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// poll polls the engine as every 30 s, and wants no error.
func (e *slowEngine) poll() *Batch {
	e.t.Helper()
	b, err := e.tryPoll()
	if err != nil {
		e.t.Errorf("poll: %v", err)
	}
	return b
}

func (e *slowEngine) tryPoll() (*Batch, error) {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	b := &Batch{}
	return b, e.docker.Collect(ctx, b)
}

// wantWell wants a poll after which the target works.
func (e *slowEngine) wantWell() {
	e.t.Helper()
	if b := e.poll(); len(b.Impairments) > 0 {
		e.t.Errorf("the target works partly: %q", b.Impairments)
	}
}

// agrees wants the page to show a container as the engine describes it.
func (e *slowEngine) agrees(what, name string, restarted int) {
	e.t.Helper()
	state := e.state("id-" + name)
	at, err := time.Parse(time.RFC3339Nano, state.StartedAt)
	if err != nil {
		e.t.Fatal(err)
	}
	e.wantNow(what, fmt.Sprintf(`container_state{container="%s",state="%s"} 1`, name, state.Status), "container_"+restarts(name, restarted),
		fmt.Sprintf(`container_start_time_seconds{container="%s"} %v`, name, epochSeconds(at)))
}

// TestSlowStartIsNoHang restarts a container slowly, with a poll that begins meanwhile: the page shows it as soon as the engine does,
// and what happens to others at once.
func TestSlowStartIsNoHang(t *testing.T) {
	for _, takes := range []time.Duration{
		1300 * time.Millisecond, 3400 * time.Millisecond, 5300 * time.Millisecond, 11 * time.Second,
	} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, []string{"a", "b", "c"}, func(e *slowEngine) {
				t := e.t
				var polling sync.WaitGroup
				polling.Go(func() {
					time.Sleep(500 * time.Millisecond)
					e.poll()
				})
				polling.Go(func() {
					time.Sleep(time.Second)
					e.restart("b", 0)
					e.agrees("the other one", "b", 1)
				})
				e.restart("a", takes)
				e.agrees("after the start", "a", 1)
				polling.Wait()
				e.wantWell()
				e.agrees("the next poll", "a", 1)
				if e.docker.hangsAt("id-a") {
					t.Error("a slow start counts as a hang")
				}
				if n, most := e.brokenOff.Load(), 2*int64(takes/(8*time.Second)); n > most {
					t.Errorf("%d inspections were broken off, want at most %d", n, most)
				}
			})
		})
	}
}

// TestSeveralSlowStartsAtOnce has more of them than inspections may run at once, during a poll of everything.
func TestSeveralSlowStartsAtOnce(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	inBubble(t, names, func(e *slowEngine) {
		t := e.t
		var starting sync.WaitGroup
		for i, name := range names[:6] {
			starting.Go(func() {
				e.restart(name, 5*time.Second+time.Duration(i)*time.Millisecond)
				e.agrees("after the start", name, 1)
			})
		}
		time.Sleep(100 * time.Millisecond)
		e.docker.locked(func() { e.docker.unsure = true })
		began := time.Now()
		e.poll()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the poll took %s, longer than the starts", took)
		}
		starting.Wait()
		for i, name := range names {
			e.agrees("afterwards", name, map[bool]int{true: 1}[i < 6])
		}
		if n := e.brokenOff.Load(); n > 0 {
			t.Errorf("%d inspections were broken off", n)
		}
	}, func(s *Docker) { s.Parallelism = 2 })
}

// TestStartsThatOutlastAPollFailNoTarget has all containers start for longer than a poll may take.
func TestStartsThatOutlastAPollFailNoTarget(t *testing.T) {
	inBubble(t, []string{"a", "b"}, func(e *slowEngine) {
		var starting sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			starting.Go(func() { e.restart(name, 25*time.Second) })
		}
		time.Sleep(time.Second)
		wantPartly(e.t, e.poll(), "the engine cannot describe 2 of 2 containers")
		e.wantNow("the list's state", `container_state{container="a",state="exited"} 1`, "container_"+restarts("a", 0))
		starting.Wait()
		e.agrees("after the start", "a", 1)
		e.agrees("after the start", "b", 1)
	})
}

// TestEndOfTheStreamFailsNoPoll has a poll wait for inspections of all containers, which end with the stream that asked for them.
func TestEndOfTheStreamFailsNoPoll(t *testing.T) {
	inBubble(t, []string{"a", "b", "c"}, func(e *slowEngine) {
		release := e.lock("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			e.tell(events.ActionUpdate, "id-"+name, name)
		}
		var polling sync.WaitGroup
		polling.Go(e.wantWell)
		time.Sleep(time.Second)
		e.hangUp <- struct{}{}
		time.Sleep(2 * time.Second)
		release()
		polling.Wait()
		for _, name := range []string{"a", "b", "c"} {
			e.agrees("after the poll", name, 0)
		}
	})
}

// TestHangOfOneCostsNoOther has an engine hang at one container of three for an hour.
func TestHangOfOneCostsNoOther(t *testing.T) {
	inBubble(t, []string{"a", "b", "c"}, func(e *slowEngine) {
		t := e.t
		release := e.lock("a")
		e.tell(events.ActionUpdate, "id-a", "a")
		for i := range 120 {
			began := time.Now()
			if b := e.poll(); i > 0 {
				wantPartly(t, b, "the engine cannot describe 1 of 3 containers")
			}
			time.Sleep(30*time.Second - time.Since(began))
		}
		time.Sleep(30 * time.Second) // the stream has just been opened anew
		e.restart("b", 0)
		e.agrees("another container", "b", 1)
		e.agrees("the one that it hangs at", "a", 0)
		if n := e.brokenOff.Load(); n < 3 || n > 8 {
			t.Errorf("%d inspections were broken off in an hour, want about 6", n)
		}
		release()
		e.set("id-a", container.State{Status: container.StatePaused, StartedAt: e.state("id-a").StartedAt})
		e.tell(events.ActionPause, "id-a", "a")
		e.agrees("its next event ends the pause", "a", 0)
		e.wantWell()
	})
}

// TestEngineThatHangsAtAllIsDown has an engine hang at all containers for ten minutes, of which the first poll comes to some. The next
// poll describes all.
func TestEngineThatHangsAtAllIsDown(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	inBubble(t, names, func(e *slowEngine) {
		t := e.t
		release := e.lock(names...)
		e.docker.locked(func() { e.docker.unsure = true })
		for range 20 {
			if _, err := e.tryPoll(); reasonOrNone(err) != failure.Timeout {
				t.Errorf("poll: %v, want a timeout", err)
			}
			time.Sleep(20 * time.Second)
		}
		if n := e.brokenOff.Load(); n > int64(len(names)+21) { // a stream that is opened anew asks too
			t.Errorf("%d inspections were broken off in 20 polls, want one in each after the first", n)
		}
		release()
		e.wantWell()
		for _, name := range names {
			e.agrees("after the hang", name, 0)
		}
	}, func(s *Docker) { s.Parallelism = 1 })
}

// TestContainerRemovedBeforeItsDescriptionCounts deploys twice in a row, faster than the engine describes the first successor.
func TestContainerRemovedBeforeItsDescriptionCounts(t *testing.T) {
	inBubble(t, []string{"a", "b"}, func(e *slowEngine) {
		replace := func(old, id string, starts int) {
			e.mu.Lock()
			fresh := e.find(old)
			*fresh = plainContainer("a", nil)
			fresh.ID, fresh.State.StartedAt = id, stampNow()
			e.mu.Unlock()
			e.tell(events.ActionDestroy, old, "a")
			e.tell(events.ActionCreate, id, "a")
			for range starts {
				e.tell(events.ActionStart, id, "a")
			}
		}
		e.lock("second")
		replace("id-a", "id-second", 3)
		time.Sleep(time.Second)
		replace("id-second", "id-third", 1)
		time.Sleep(time.Second)
		e.wantNow("after two deploys", `container_state{container="a",state="running"} 1`, "container_"+restarts("a", 2),
			`container_recreations_total{container="a"} 2`)
	})
}

// TestEngineThatDoesNotAnswerAboutEventsIsGivenUp has it answer everything else.
func TestEngineThatDoesNotAnswerAboutEventsIsGivenUp(t *testing.T) {
	inBubble(t, nil, func(e *slowEngine) {
		e.on("/events", engineHangs)
		s, err := e.docker.engine.Open(1)
		if err != nil {
			e.t.Fatal(err)
		}
		defer s.Close()
		began := time.Now()
		_, _, err = e.docker.openEvents(e.ctx, s)
		wantReason(e.t, err, failure.Timeout)
		if took := time.Since(began); took != api.EventsTimeout {
			e.t.Errorf("given up after %s, want %s", took, api.EventsTimeout)
		}
	})
}
