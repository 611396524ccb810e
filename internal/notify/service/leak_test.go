package service

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that the tests leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
