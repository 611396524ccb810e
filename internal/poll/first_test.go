package poll

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

// TestFirstReadingHasTimeToOpenSessions, and no later one.
func TestFirstReadingHasTimeToOpenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		slow := halfMinutely(t, "bridge", func(ctx context.Context, _ *collectors.Batch) error {
			began := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(began))
			return ctx.Err()
		})
		slow.Kind.JoinTime = 15 * time.Second
		_, stop := start(t, io.Discard, slow)
		time.Sleep(2 * time.Minute)
		stop()
		if len(took) < 3 || took[0] != 25*time.Second || took[1] != 10*time.Second {
			t.Errorf("the readings had %s, want 25 s at first, then 10 s", took)
		}
	})
}
