package web_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if the package's tests leak a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
