package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// ForEach calls do for each number below n, at most parallelism at once, until one returns an error or ctx is done. That error
// ends the others' context, and is returned when all calls are over. A panic of do becomes a panic of ForEach.
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
					cancel(err) // which ends this loop as well
				}
			}
		})
	}
	wg.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text) // nobody contains what happens in a goroutine of its own
	}
	return context.Cause(ctx)
}
