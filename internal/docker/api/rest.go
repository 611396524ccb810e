package api

import (
	"context"
	"sync"
	"time"
)

// An engine up to 27 answers a call for stats after at least a second, and many calls one by one over most of the next second.
// Waking up for each answer costs more than reading it, so nobody looks for answers until the last one of the previous round had
// come, and never for longer than maxRest. Reading an answer that is there takes less than lateAnswer.
const (
	maxRest    = 1900 * time.Millisecond
	lateAnswer = 5 * time.Millisecond
)

// Rest is how long nobody looks for the answers of one round of measurements.
type Rest struct {
	patience time.Duration
	begun    time.Time
	over     chan struct{} // closed when the rest is over

	mu       sync.Mutex
	last     time.Duration // when the last answer came that was not there after the rest; 0 for none
	measured bool
}

// NewRest begins a rest.
func NewRest(patience time.Duration) *Rest {
	r := &Rest{patience: patience, begun: time.Now(), over: make(chan struct{})}
	time.AfterFunc(patience, func() { close(r.over) })
	return r
}

// wait returns when the rest is over, or with ctx's error.
func (r *Rest) wait(ctx context.Context) error {
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// came records that an answer was looked for, and is there now.
func (r *Rest) came(looked, now time.Time) {
	if now.Sub(looked) < lateAnswer {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, now.Sub(r.begun))
}

func (r *Rest) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured = true
}

// Next returns how long the next rest should be; ok is false unless the round was measured without an error. If no answer was
// late, the rest gets shorter step by step, in case the engine has become quicker.
func (r *Rest) Next() (rest time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last > 0 {
		return min(r.last, maxRest), r.measured
	}
	return r.patience - r.patience/16, r.measured
}
