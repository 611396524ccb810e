package app

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// TestMain holds that the package's tests leave no goroutine behind. One processor is enough for tests in simulated time,
// and keeps from a fault of Go 1.26, see internal/poll.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	exchangetest.WithoutNameServer()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(binaryDir) //nolint:errcheck,gosec // a directory of our own
		os.Exit(code)
	}))
}
