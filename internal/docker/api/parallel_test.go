package api

import (
	"context"
	"strings"
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
