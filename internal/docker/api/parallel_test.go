package api

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

func TestPanicInAWorkerReachesTheCaller(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		if !strings.HasPrefix(text, "broken") || !strings.Contains(text, "parallel_test.go") {
			t.Errorf("recovered %.200q, want what was said and where", text)
		}
	}()
	err := ForEach(t.Context(), 5, 2, func(ctx context.Context, i int) error {
		if i == 1 {
			panic("broken")
		}
		<-ctx.Done() // the panic ends the others
		return ctx.Err()
	})
	t.Errorf("returned %v, want a panic", err)
}

func TestFirstFailureEndsTheOthers(t *testing.T) {
	broken, waiting := errors.New("broken"), make(chan struct{})
	var done atomic.Int64
	err := ForEach(t.Context(), 5, 2, func(ctx context.Context, i int) error {
		done.Add(1)
		if i == 1 {
			<-waiting
			return broken
		}
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, broken) || done.Load() != 2 {
		t.Errorf("returned %v after %d calls, want %v after two", err, done.Load(), broken)
	}
}
