package simstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	timetypes "github.com/docker/docker/api/types/time"
)

// maxEvents is how many events the engine keeps.
const maxEvents = 256

// eventLog holds the engine's last events and its open streams. The engine's lock guards it.
type eventLog struct {
	last    time.Time // time of the last event; each event has its own time
	events  []*events.Message
	streams map[*subscription]struct{}
	changed chan struct{} // closed and replaced when the number of streams changes
}

// subscription is one open stream and what it has yet to send.
type subscription struct {
	conn    net.Conn
	filters filters.Args
	queue   []*events.Message
	wake    chan struct{} // has a value when the queue has grown
	cut     bool          // it ends when its queue is empty
	done    chan struct{}
}

// before returns a time that long ago, but after the last event, because an engine acts a little before its event.
func (l *eventLog) before(ago time.Duration) time.Time {
	t := time.Now().UTC().Add(-ago)
	if !t.After(l.last) {
		return l.last.Add(time.Nanosecond)
	}
	return t
}

// emit stores an event of a container, with pairs of additional attributes, and queues it for the streams whose filters match. The
// caller holds the lock.
func (e *Engine) emit(c *Container, action string, attributes ...string) {
	all := maps.Clone(c.labels)
	all["image"], all["name"] = c.spec.Image, c.name
	for pair := range slices.Chunk(attributes, 2) {
		all[pair[0]] = pair[1]
	}
	l := &e.log
	l.last = l.before(0)
	m := &events.Message{
		Type:     events.ContainerEventType,
		Action:   events.Action(action),
		Actor:    events.Actor{ID: c.id, Attributes: all},
		Scope:    "local",
		Time:     l.last.Unix(),
		TimeNano: l.last.UnixNano(),
	}
	l.events = append(l.events[max(0, len(l.events)-maxEvents+1):], m)
	if e.service.on("events_deaf") {
		return
	}
	for s := range l.streams {
		if !s.cut && wanted(m, s.filters) {
			s.queue = append(s.queue, m)
			s.wakeUp()
		}
	}
}

// wanted reports whether an event passes the filters of the engine. If one filters actions that continue after a colon, all actions
// match by prefix.
func wanted(m *events.Message, f filters.Args) bool {
	match := f.ExactMatch
	for _, action := range []events.Action{events.ActionHealthStatus, events.ActionExecCreate, events.ActionExecStart} {
		if f.ExactMatch("event", string(action)) {
			match = f.FuzzyMatch
		}
	}
	return f.ExactMatch("type", string(m.Type)) && match("event", string(m.Action))
}

// Noise emits n events of commands in containers, as health checks do. The engine stores 256 events of any kind, so 256 of these push
// out all others.
func (e *Engine) Noise(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range n {
		e.emit(e.containers[0], []string{"exec_create: /bin/sh -c /check", "exec_start: /bin/sh -c /check", "exec_die"}[i%3])
	}
}

func (s *subscription) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it has not seen the last one yet
	}
}

// subscribe opens a stream. Unless since is zero, it begins with the stored events since then.
func (e *Engine) subscribe(since time.Time, f filters.Args, conn net.Conn) *subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &subscription{
		conn:    conn,
		filters: f,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	s.cut = e.down || e.service.on("events_cut") || e.service.on("partial")
	for _, m := range e.log.events {
		if !since.IsZero() && m.TimeNano >= since.UnixNano() && wanted(m, f) {
			s.queue = append(s.queue, m)
		}
	}
	s.wakeUp()
	e.log.streams[s] = struct{}{}
	e.log.announce()
	return s
}

func (e *Engine) unsubscribe(s *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.log.streams, s)
	e.log.announce()
	close(s.done)
}

// announce wakes the callers that wait for a number of streams.
func (l *eventLog) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// pending empties the queue of a stream and returns its events, and whether they are the last.
func (e *Engine) pending(s *subscription) (queue []*events.Message, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	queue, s.queue = s.queue, nil
	return queue, s.cut
}

// AwaitStreams waits until n event streams are open, or until ctx ends, which is its error.
func (e *Engine) AwaitStreams(ctx context.Context, n int) error {
	for {
		e.mu.Lock()
		open, changed := len(e.log.streams), e.log.changed
		e.mu.Unlock()
		if open == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d event streams (%d are open): %w", n, open, ctx.Err())
		}
	}
}

// cutTimeout is how long a cut stream may take to send its queue.
const cutTimeout = time.Second

// CutEvents closes all open event streams in the middle, after they have sent all events so far. When it
// returns, none of them is open.
func (e *Engine) CutEvents() {
	e.mu.Lock()
	streams := slices.Collect(maps.Keys(e.log.streams))
	for _, s := range streams {
		s.cut = true
		_ = s.conn.SetWriteDeadline(time.Now().Add(cutTimeout)) // its client may not read
		s.wakeUp()
	}
	e.mu.Unlock()
	for _, s := range streams {
		<-s.done
	}
}

// errCut ends a stream without an error message.
var errCut = errors.New("the stream is cut")

// eventStream sends events until the client leaves, beginning with stored ones if the query has since.
func (e *Engine) eventStream(x *exchange) *answer {
	if e.service.on("forbidden_events") {
		return refusedByProxy()
	}
	query := x.req.URL.Query()
	f, err := readFilters(query.Get("filters"), "type", "event")
	if err != nil {
		return dockerError(http.StatusBadRequest, err.Error())
	}
	var since time.Time
	if query.Has("since") {
		seconds, nanos, err := timetypes.ParseTimestamps(query.Get("since"), 0)
		if err != nil {
			return dockerError(http.StatusInternalServerError, err.Error())
		}
		since = time.Unix(seconds, nanos)
	}
	a := &answer{
		status: http.StatusOK,
		end:    endClose,
		header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}),
	}
	a.tail = func(w io.Writer) error {
		s := e.subscribe(since, f, x.conn)
		defer e.unsubscribe(s)
		ctx, stop := x.watchClient()
		defer stop()
		return e.sendEvents(ctx, s, w)
	}
	return a
}

func (e *Engine) sendEvents(ctx context.Context, s *subscription, w io.Writer) error {
	lines := json.NewEncoder(httputil.NewChunkedWriter(w))
	for {
		queue, last := e.pending(s)
		for _, m := range queue {
			if err := lines.Encode(m); err != nil {
				return err
			}
		}
		if last {
			return errCut
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
