package collectors

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// slowEngine is an engine in a bubble. Like a real one, it holds a container's lock while it starts it: inspections wait, lists do not.
type slowEngine struct {
	*watch
	accepted chan net.Conn
	ctx      context.Context //nolint:containedctx // of the test, with the dialer

	mu         sync.Mutex
	containers []*container.InspectResponse
	locks      map[string]chan struct{} // by id, closed when the engine lets go
	told       chan events.Message
	brokenOff  atomic.Int64 // inspections
}

// Accept, Close and Addr make it a listener.
func (e *slowEngine) Accept() (net.Conn, error) {
	conn, ok := <-e.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (e *slowEngine) Close() error { return nil }

func (e *slowEngine) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble runs a test of an engine with running containers, which is polled once and followed.
func inBubble(t *testing.T, names []string, test func(t *testing.T, e *slowEngine), change ...func(*Docker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &slowEngine{
			accepted: make(chan net.Conn),
			locks:    map[string]chan struct{}{},
			told:     make(chan events.Message, 100),
		}
		for _, name := range names {
			c := plainContainer(name, nil)
			c.State.StartedAt = "1999-12-31T00:00:00Z" // before the bubble's time
			e.containers = append(e.containers, &c)
		}
		server := http.Server{Handler: e, ReadHeaderTimeout: time.Hour}
		go server.Serve(e) //nolint:errcheck // it ends with the test
		ctx, cancel := context.WithCancel(t.Context())
		e.ctx = exchange.WithDialer(ctx, func(context.Context, string, string) (net.Conn, error) {
			ours, engines := net.Pipe()
			e.accepted <- engines
			return ours, nil
		})
		change = append(change, func(s *Docker) { s.Timeout = config.Duration(10 * time.Second) })
		e.watch = watchEngine(t, "unix:///none", nil, change...)
		e.docker.patience = maxEventDelay
		var following sync.WaitGroup
		following.Go(func() { e.docker.Follow(e.ctx, func() {}) })
		e.poll(nil)
		time.Sleep(time.Second)
		test(t, e)
		cancel()
		following.Wait()
		close(e.accepted)
		server.Close() //nolint:errcheck,gosec // the bubble reports what it leaves
	})
}

func (e *slowEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1.41/containers/"), "/json")
	switch {
	case r.URL.Path == "/_ping":
	case r.URL.Path == "/v1.41/events":
		http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
		for {
			select {
			case m := <-e.told:
				json.NewEncoder(w).Encode(m)          //nolint:errcheck // the client's loss
				http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
			case <-r.Context().Done():
				return
			}
		}
	case r.URL.Path == listPath:
		e.mu.Lock()
		defer e.mu.Unlock()
		listed := []container.Summary{}
		for _, c := range e.containers {
			listed = append(listed, container.Summary{ID: c.ID, Names: []string{c.Name}, State: c.State.Status})
		}
		engineAnswers(w, listed)
	default:
		e.mu.Lock()
		lock := e.locks[id]
		e.mu.Unlock()
		if lock != nil {
			select {
			case <-lock:
			case <-r.Context().Done():
				e.brokenOff.Add(1)
				return
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if c := e.find(id); c != nil {
			engineAnswers(w, c)
			return
		}
		engineRefuses(w, http.StatusNotFound, "No such container: "+id)
	}
}

// find returns a container by its id. The caller holds the lock.
func (e *slowEngine) find(id string) *container.InspectResponse {
	for _, c := range e.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
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

// restart restarts a container, whose start takes so long.
func (e *slowEngine) restart(name string, takes time.Duration) {
	id := "id-" + name
	release := e.lock(name)
	e.mu.Lock()
	c := e.find(id)
	c.State = &container.State{Status: container.StateExited, ExitCode: 143, StartedAt: c.State.StartedAt, FinishedAt: stampNow()}
	e.mu.Unlock()
	e.tell(events.ActionDie, id, name)
	e.tell(events.ActionStop, id, name)
	time.Sleep(takes)
	e.mu.Lock()
	c.State = &container.State{Status: container.StateRunning, Running: true, StartedAt: stampNow(), Pid: 1}
	e.mu.Unlock()
	e.tell(events.ActionStart, id, name)
	release()
	e.tell(events.ActionRestart, id, name)
}

func stampNow() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// poll polls the engine as every 30 s, and wants no error unless of a reason.
func (e *slowEngine) poll(b *Batch, reason ...failure.Reason) {
	e.t.Helper()
	if b == nil {
		b = &Batch{}
	}
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	if err := e.docker.Collect(ctx, b); reasonOrNone(err) != failure.Reason(strings.Join(asStrings(reason), "")) {
		e.t.Errorf("poll: got %v, want %q", err, reason)
	}
}

func asStrings(reasons []failure.Reason) (all []string) {
	for _, r := range reasons {
		all = append(all, string(r))
	}
	return all
}

// agrees wants the page to show a container as the engine describes it.
func (e *slowEngine) agrees(what, name string, restarted int) {
	e.t.Helper()
	e.mu.Lock()
	c := e.find("id-" + name)
	state, started := c.State.Status, c.State.StartedAt
	e.mu.Unlock()
	at, err := time.Parse(time.RFC3339Nano, started)
	if err != nil {
		e.t.Fatal(err)
	}
	e.wantNow(what, fmt.Sprintf(`container_state{container="%s",state="%s"} 1`, name, state), "container_"+restarts(name, restarted),
		fmt.Sprintf(`container_start_time_seconds{container="%s"} %s`, name, formatSeconds(at)))
}

func formatSeconds(at time.Time) string { return strconv.FormatFloat(epochSeconds(at), 'g', -1, 64) }

// TestSlowStartIsNoHang restarts a container slowly, with a poll that begins meanwhile: the page shows it as soon as the engine does,
// and what happens to others at once.
func TestSlowStartIsNoHang(t *testing.T) {
	for _, takes := range []time.Duration{
		1300 * time.Millisecond, 3400 * time.Millisecond, 5300 * time.Millisecond, 11 * time.Second,
	} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, []string{"a", "b", "c"}, func(t *testing.T, e *slowEngine) {
				var polling sync.WaitGroup
				polling.Go(func() {
					time.Sleep(500 * time.Millisecond)
					e.poll(nil)
				})
				polling.Go(func() {
					time.Sleep(time.Second)
					e.restart("b", 0)
					e.agrees("the other one", "b", 1)
				})
				e.restart("a", takes)
				e.agrees("after the start", "a", 1)
				polling.Wait()
				b := &Batch{}
				e.poll(b)
				e.agrees("the next poll", "a", 1)
				if len(b.Impairments) > 0 || e.docker.hangsAt("id-a") {
					t.Errorf("after a slow start, the target works partly: %q", b.Impairments)
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
	inBubble(t, names, func(t *testing.T, e *slowEngine) {
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
		e.poll(nil)
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
	inBubble(t, []string{"a", "b"}, func(t *testing.T, e *slowEngine) {
		var starting sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			starting.Go(func() { e.restart(name, 25*time.Second) })
		}
		time.Sleep(time.Second)
		b := &Batch{}
		e.poll(b)
		wantPartly(t, b, "the engine cannot describe 2 of 2 containers")
		e.wantNow("the list's state", `container_state{container="a",state="exited"} 1`, "container_"+restarts("a", 0))
		starting.Wait()
		e.agrees("after the start", "a", 1)
		e.agrees("after the start", "b", 1)
	})
}

// TestHangOfOneCostsNoOther has an engine hang at one container of three for an hour.
func TestHangOfOneCostsNoOther(t *testing.T) {
	inBubble(t, []string{"a", "b", "c"}, func(t *testing.T, e *slowEngine) {
		release := e.lock("a")
		e.tell(events.ActionUpdate, "id-a", "a")
		for i := range 120 {
			b := &Batch{}
			began := time.Now()
			e.poll(b)
			if i > 0 {
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
		e.mu.Lock()
		e.find("id-a").State.Status, e.find("id-a").State.Running = container.StatePaused, false
		e.mu.Unlock()
		e.tell(events.ActionPause, "id-a", "a")
		e.agrees("its next event ends the pause", "a", 0)
		b := &Batch{}
		if e.poll(b); len(b.Impairments) > 0 {
			t.Errorf("the target still works partly: %q", b.Impairments)
		}
	})
}

// TestEngineThatHangsAtAllIsDown has an engine hang at all containers for ten minutes. The next poll describes all.
func TestEngineThatHangsAtAllIsDown(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	inBubble(t, names, func(t *testing.T, e *slowEngine) {
		release := e.lock(names...)
		e.docker.locked(func() { e.docker.unsure = true })
		for range 20 {
			e.poll(nil, failure.Timeout)
			time.Sleep(20 * time.Second)
		}
		if n := e.brokenOff.Load(); n > int64(len(names)+21) { // a stream that is opened anew asks too
			t.Errorf("%d inspections were broken off in 20 polls, want one in each after the first", n)
		}
		release()
		b := &Batch{}
		e.poll(b)
		if len(b.Impairments) > 0 {
			t.Errorf("the target works partly after the hang: %q", b.Impairments)
		}
		for _, name := range names {
			e.agrees("after the hang", name, 0)
		}
	})
}

// TestContainerRemovedBeforeItsDescriptionCounts deploys twice in a row, faster than the engine describes the first successor.
func TestContainerRemovedBeforeItsDescriptionCounts(t *testing.T) {
	inBubble(t, []string{"a", "b"}, func(t *testing.T, e *slowEngine) {
		replace := func(old, id string, starts int) {
			e.mu.Lock()
			i := slices.IndexFunc(e.containers, func(c *container.InspectResponse) bool { return c.ID == old })
			fresh := plainContainer("a", nil)
			fresh.ID, fresh.State.StartedAt = id, stampNow()
			e.containers[i] = &fresh
			e.mu.Unlock()
			e.tell(events.ActionDestroy, old, "a")
			e.tell(events.ActionCreate, id, "a")
			for range starts {
				e.tell(events.ActionStart, id, "a")
			}
		}
		e.mu.Lock()
		e.locks["id-second"] = make(chan struct{})
		e.mu.Unlock()
		replace("id-a", "id-second", 3)
		time.Sleep(time.Second)
		replace("id-second", "id-third", 1)
		time.Sleep(time.Second)
		e.wantNow("after two deploys", `container_state{container="a",state="running"} 1`, "container_"+restarts("a", 2),
			`container_recreations_total{container="a"} 2`)
	})
}
