package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// ForEach calls do for each number below n, at most parallelism at once. The first error cancels the other calls, and ForEach
// returns it once all calls have ended. ForEach also stops when ctx is done, and panics if a call panics.
func ForEach(ctx context.Context, n, parallelism int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg       sync.WaitGroup
		next     atomic.Int64
		panicked atomic.Pointer[string]
	)
	for range min(parallelism, n) {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					text := fmt.Sprintf("%v\n%s", v, debug.Stack())
					panicked.Store(&text)
					cancel(errors.New("panic"))
				}
			}()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err) // also ends this loop
				}
			}
		})
	}
	wg.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text) // the caller can recover this one, but not a panic in another goroutine
	}
	return context.Cause(ctx)
}
