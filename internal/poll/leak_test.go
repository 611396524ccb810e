package poll

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that the package's tests leave no goroutine behind. One processor is enough for tests in simulated time,
// and keeps from a fault of Go 1.26: all timers of a synctest bubble share one context of the race detector, which dies
// now and then when two processors run some of them at once.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}
