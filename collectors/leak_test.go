package collectors

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// TestMain holds that the package's tests leave no goroutine behind.
func TestMain(m *testing.M) {
	exchangetest.WithoutNameServer()
	goleak.VerifyTestMain(m)
}
