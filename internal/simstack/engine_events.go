package simstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxEvents is how many events the engine keeps.
const maxEvents = 256

// event is one line of the engine's event stream.
type event struct {
	Status string `json:"status,omitempty"`
	ID     string `json:"id,omitempty"`
	From   string `json:"from,omitempty"`
	Type   string
	Action string
	Actor  struct {
		ID         string
		Attributes map[string]string
	}
	Scope    string `json:"scope"`
	Time     int64  `json:"time"`
	TimeNano int64  `json:"timeNano"`
}

// subscription is one open stream: what it has yet to tell.
type subscription struct {
	filters map[string]map[string]bool
	queue   []*event
	// wake holds one word when there is something new.
	wake chan struct{}
	// cut subscriptions end when their queue is told.
	cut  bool
	done chan struct{}
	hang func() // ends a stream whose client does not read
}

// before is some time ago, but after the last event: what an event tells of lies a little before it. The caller holds
// the lock.
func (e *Engine) before(ago time.Duration) time.Time {
	t := time.Now().UTC().Add(-ago)
	if !t.After(e.last) {
		return e.last.Add(time.Nanosecond)
	}
	return t
}

// emit tells of something that happened to a container. The caller holds the lock.
func (e *Engine) emit(c *Container, action string, attributes ...string) {
	all := maps.Clone(c.labels)
	all["image"], all["name"] = c.spec.Image, c.name
	for pair := range slices.Chunk(attributes, 2) {
		all[pair[0]] = pair[1]
	}
	ev := &event{Status: action, ID: c.id, From: c.spec.Image, Type: "container", Action: action}
	ev.Actor.ID, ev.Actor.Attributes = c.id, all
	e.publish(ev)
}

// emitNetwork tells that a container joins or leaves its network, if it has one of its own.
func (e *Engine) emitNetwork(c *Container, action string) {
	if strings.HasPrefix(c.network, "container:") {
		return
	}
	id := sha256.Sum256([]byte(c.network))
	ev := &event{Type: "network", Action: action}
	ev.Actor.ID, ev.Actor.Attributes = hex.EncodeToString(id[:]), map[string]string{"container": c.id, "name": c.network, "type": "bridge"}
	e.publish(ev)
}

// emitExec tells of a command that runs in a container, as each health check does.
func (e *Engine) emitExec(c *Container, exitCode int) {
	for i := range execEvents {
		e.emitExecPart(c, i, exitCode)
	}
}

// execEvents are what a command in a container makes the engine tell.
var execEvents = []string{"exec_create: /bin/sh -c /check", "exec_start: /bin/sh -c /check", "exec_die"}

func (e *Engine) emitExecPart(c *Container, part, exitCode int) {
	sum := sha256.Sum256(fmt.Append(nil, c.id, c.streak, len(c.checks)))
	attributes := []string{"execID", hex.EncodeToString(sum[:])}
	if execEvents[part] == "exec_die" {
		attributes = append(attributes, "exitCode", strconv.Itoa(exitCode))
	}
	e.emit(c, execEvents[part], attributes...)
}

// Noise makes n events of commands that run in containers, as health checks do all the time. The engine keeps 256
// events of any kind, so so many push all others out.
func (e *Engine) Noise(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Container{id: strings.Repeat("e", 64), name: "noise", spec: ContainerSpec{Image: "noise:1"}, labels: map[string]string{}}
	if len(e.all) > 0 {
		c = e.all[0]
	}
	for i := range n {
		e.emitExecPart(c, i%len(execEvents), 0)
	}
}

// publish keeps an event and hands it to the streams that want it. The caller holds the lock.
func (e *Engine) publish(ev *event) {
	e.last = e.before(0)
	ev.Scope, ev.Time, ev.TimeNano = "local", e.last.Unix(), e.last.UnixNano()
	if len(e.events) == maxEvents {
		e.events = append(e.events[:0], e.events[1:]...)
	}
	e.events = append(e.events, ev)
	if len(e.streams) == 0 || e.service.on("events_deaf") {
		return
	}
	for s := range e.streams {
		if !s.cut && ev.passes(s.filters) {
			s.queue = append(s.queue, ev)
			s.rouse()
		}
	}
}

func (s *subscription) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // it has yet to see the last one
	}
}

// subscribe opens a stream. With since or until it begins with what the engine kept of that time, both ends included.
func (e *Engine) subscribe(since, until time.Time, filters map[string]map[string]bool, hang func()) *subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &subscription{filters: filters, wake: make(chan struct{}, 1), done: make(chan struct{}), hang: hang}
	s.cut = e.down || e.service.on("events_cut")
	if !since.IsZero() || !until.IsZero() {
		for _, ev := range e.events {
			early := !since.IsZero() && ev.TimeNano < since.UnixNano()
			late := !until.IsZero() && ev.TimeNano > until.UnixNano()
			if !early && !late && ev.passes(filters) {
				s.queue = append(s.queue, ev)
			}
		}
	}
	s.rouse()
	e.streams[s] = struct{}{}
	e.streamsChanged()
	return s
}

func (e *Engine) unsubscribe(s *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.streams, s)
	e.streamsChanged()
	close(s.done)
}

// streamsChanged wakes those who wait for a number of streams. The caller holds the lock.
func (e *Engine) streamsChanged() {
	close(e.opened)
	e.opened = make(chan struct{})
}

// next takes what a stream has to tell, and whether it is the last.
func (e *Engine) next(s *subscription) (events []*event, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	events, s.queue = s.queue, nil
	return events, s.cut
}

// AwaitStreams waits until n event streams are open, or until ctx ends, which is its error.
func (e *Engine) AwaitStreams(ctx context.Context, n int) error {
	for {
		e.mu.Lock()
		open, changed := len(e.streams), e.opened
		e.mu.Unlock()
		if open == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d event streams, of which %d are open: %w", n, open, ctx.Err())
		}
	}
}

// CutEvents closes all open event streams in the middle, once they have told what has happened until now. When it
// returns, none of them is open.
func (e *Engine) CutEvents() {
	e.mu.Lock()
	ended := e.cutStreams()
	e.mu.Unlock()
	waitForAll(ended)
}

// cutStreams lets all streams end. The caller holds the lock, without which it may wait for what is returned.
func (e *Engine) cutStreams() []*subscription {
	streams := slices.Collect(maps.Keys(e.streams))
	for _, s := range streams {
		s.cut = true
		s.rouse()
	}
	return streams
}

// cutTimeout is how long a cut stream may take to tell what it has to.
const cutTimeout = time.Second

func waitForAll(streams []*subscription) {
	timeout := time.NewTimer(cutTimeout)
	defer timeout.Stop()
	for _, s := range streams {
		select {
		case <-s.done:
		case <-timeout.C:
			timeout.Reset(0)
			s.hang()
			<-s.done
		}
	}
}

// errCut ends a stream without a word.
var errCut = errors.New("the stream is cut")

// eventStream tells what happens, and with since what happened, until the client leaves or the time is until.
func (e *Engine) eventStream(x *exchange) *answer {
	if e.service.on("forbidden_events") {
		return refusedByProxy()
	}
	query := x.req.URL.Query()
	filters, err := readFilters(query.Get("filters"), "type", "event")
	if err != nil {
		return dockerError(http.StatusBadRequest, err.Error())
	}
	since, sinceErr := readTime(query.Get("since"))
	until, untilErr := readTime(query.Get("until"))
	if err := errors.Join(sinceErr, untilErr); err != nil {
		return dockerError(http.StatusInternalServerError, err.Error())
	}
	if !until.IsZero() && until.Before(since) {
		return dockerError(http.StatusBadRequest, fmt.Sprintf("`since` time (%s) cannot be after `until` time (%s)", query.Get("since"), query.Get("until")))
	}
	a := &answer{status: http.StatusOK, end: endClose, header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Transfer-Encoding: chunked"})}
	a.rest = func(w io.Writer) error {
		s := e.subscribe(since, until, filters, func() { _ = x.conn.Close() })
		defer e.unsubscribe(s)
		ctx, stop := x.untilGone()
		defer stop()
		return e.tell(ctx, s, until, w)
	}
	return a
}

// tell writes what a subscription has to tell. Only at its time until, a stream ends as it should.
func (e *Engine) tell(ctx context.Context, s *subscription, until time.Time, w io.Writer) error {
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		over = timer.C
	}
	past := !until.IsZero() && until.Before(time.Now())
	chunks := httputil.NewChunkedWriter(w)
	for {
		events, last := e.next(s)
		for _, ev := range events {
			if _, err := chunks.Write(append(mustJSON(ev), '\n')); err != nil {
				return err
			}
		}
		switch {
		case past:
			return endChunks(chunks, w)
		case last:
			return errCut
		}
		select {
		case <-s.wake:
		case <-over:
			past = true // what came in the meantime is told
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func endChunks(chunks io.Closer, w io.Writer) error {
	if err := chunks.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\r\n")
	return err
}

// fuzzyActions are the actions that say more after a colon. Where one is asked for, all that are asked for match by
// their beginning.
var fuzzyActions = []string{"health_status", "exec_create", "exec_start"}

// passes reports whether an event passes the filters type and event.
func (ev *event) passes(filters map[string]map[string]bool) bool {
	types, actions := filters["type"], filters["event"]
	if len(types) > 0 && !types[ev.Type] {
		return false
	}
	if slices.ContainsFunc(fuzzyActions, func(action string) bool { return actions[action] }) {
		for action := range actions {
			if strings.HasPrefix(ev.Action, action) {
				return true
			}
		}
		return false
	}
	return len(actions) == 0 || actions[ev.Action]
}

// readTime reads seconds since 1970 with a fraction; nothing is the zero time.
func readTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	whole, fraction, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanos), err
}
