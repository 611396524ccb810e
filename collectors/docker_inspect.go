package collectors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// slotTime is how long an inspection counts for the parallelism. An engine describes no container that it is starting, so the
	// inspection waits, and the next one must not wait for it.
	slotTime = 2 * time.Second
	// inspectShare is the part of a probe's remaining time in which containers are inspected.
	inspectShare = 0.8
)

// inspection is one of a container, about which the exporter asks at most once at a time. The fields are set once done is closed.
type inspection struct {
	done chan struct{}
	err  error
	// single is true if the error may be about this container alone, hung if the engine has not answered in time, and abandoned if the
	// asker did not wait.
	single, hung, abandoned bool
	status                  int // of HTTP
	// mark is the fleet's when the engine was asked.
	mark uint64
}

// connections returns how many inspections may wait at once: in each slotTime, parallelism more.
func (c *docker) connections() int {
	return c.settings.Parallelism * int(1+c.settings.Timeout.Std()/slotTime)
}

// inspect inspects a container in a goroutine of wg, unless another one does so already. It records the answer, and gives errors
// that are not about this container alone to fail.
func (c *docker) inspect(ctx context.Context, wg *sync.WaitGroup, s *api.Session, id string, fail func(error)) *inspection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running := c.inspections[id]; running != nil {
		return running
	}
	one := &inspection{done: make(chan struct{}), mark: c.fleet.Mark()}
	c.inspections[id] = one
	wg.Go(func() {
		defer signal(c.described)
		defer close(one.done)
		ctx, cancel := context.WithTimeout(ctx, max(c.settings.Timeout.Std(), longestLook))
		defer cancel()
		if c.runInspection(ctx, s, id, one); one.err != nil && !one.single {
			fail(one.err)
		}
	})
	return one
}

// signal wakes up Follow, unless it is about to.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// takeSlot waits for one of the slots. Release gives it back; after slotTime, it is free in any case.
func (c *docker) takeSlot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-c.slots })
	late := time.AfterFunc(slotTime, func() { free(); signal(c.described) })
	return func() { late.Stop(); free() }, nil
}

// runInspection asks until no event has overtaken the answer.
func (c *docker) runInspection(ctx context.Context, s *api.Session, id string, one *inspection) {
	defer c.locked(func() {
		if c.inspections[id] == one { // it has panicked
			delete(c.inspections, id)
		}
	})
	defer c.recoverInspecting(&one.err)
	release, err := c.takeSlot(ctx)
	if err != nil {
		one.err, one.single, one.abandoned = err, true, errors.Is(err, context.Canceled)
		c.locked(func() { c.endInspection(id, one) })
		return
	}
	defer release()
	for !c.ask(ctx, s, id, one) {
		one.single = true // a repetition fails no probe
	}
}

// recoverInspecting turns a panic into an error.
func (c *docker) recoverInspecting(err *error) {
	if r := recover(); r != nil {
		c.log.Error("inspecting containers panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = failure.Errorf(failure.Panic, "inspecting panicked: %v", r)
	}
}

// endInspection ends one without an answer. If an event has come meanwhile, Follow begins another. The caller holds the lock.
func (c *docker) endInspection(id string, one *inspection) {
	delete(c.inspections, id)
	c.fleet.MarkStale(id)
	if c.fleet.ChangedSince(one.mark, id) && c.stream.open {
		c.overtaken = append(c.overtaken, id)
	}
}

// ask makes one inspection and ends it, unless an event has overtaken the answer.
func (c *docker) ask(ctx context.Context, s *api.Session, id string, one *inspection) (ended bool) {
	c.locked(func() { one.mark = c.fleet.Mark() })
	asked := time.Now()
	d, reply, err := s.Inspect(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	var status fleet.Status
	if err == nil && d != nil {
		status, err = fleet.StatusOf(d, c.fleet.Rules())
	}
	now, changed := time.Now(), c.fleet.ChangedSince(one.mark, id)
	if err != nil {
		cut := ctx.Err() != nil
		one.err, one.status = err, reply.Status
		one.abandoned = errors.Is(ctx.Err(), context.Canceled)
		one.hung = errors.Is(ctx.Err(), context.DeadlineExceeded) && !changed && now.Sub(asked) >= slotTime
		one.single = one.single || cut || reply.Status >= http.StatusInternalServerError || failure.ReasonOf(err) == failure.TooLarge
		if !cut {
			c.hangs.End(id)
		}
		c.endInspection(id, one)
		return true
	}
	c.hangs.End(id)
	if d != nil && changed {
		return false
	}
	delete(c.inspections, id)
	switch {
	case d != nil:
		var made time.Time
		if !reply.Date.IsZero() {
			made = reply.Date.Add(-now.Sub(asked))
		}
		c.fleet.Describe(status, one.mark, made, now)
	case !changed:
		c.fleet.MarkGone(id, now)
	}
	return true
}

// inspectAll inspects containers of a list and reports which of them the engine has not described. An engine that fails or hangs for
// some containers does not hide the others. Any other error ends it.
func (c *docker) inspectAll(ctx context.Context, s *api.Session, b *Batch, wanted []container.Summary) (undescribed []failed, err error) {
	budget, cancel := share(ctx, inspectShare)
	defer cancel()
	budget, fail := context.WithCancelCause(budget)
	defer fail(nil)
	var wg sync.WaitGroup
	all := make([]*inspection, len(wanted))
	for i := range wanted {
		all[i] = c.inspect(budget, &wg, s, wanted[i].ID, fail)
	}
	for i := range all {
		for waitFor(budget, all[i]) && all[i].abandoned && budget.Err() == nil { // Follow's stream has ended, and its inspections with it
			all[i] = c.inspect(budget, &wg, s, wanted[i].ID, fail)
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspect containers of %s: %w", c.settings.Host, ctx.Err())
	}
	for i, one := range all {
		select {
		case <-one.done:
		default:
			one = &inspection{err: context.DeadlineExceeded, single: true}
		}
		switch {
		case one.err == nil:
		case one.single:
			undescribed = append(undescribed, failed{wanted[i], one})
		default:
			if one.status != 0 {
				b.HTTPStatus = one.status
			}
			return nil, one.err
		}
	}
	return undescribed, nil
}

// waitFor waits for the end of an inspection, and reports whether it has ended. Follow's own inspection goes on after ctx is done.
func waitFor(ctx context.Context, one *inspection) bool {
	select {
	case <-one.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed is a container in a list that the engine has not described.
type failed struct {
	listed container.Summary
	*inspection
}
