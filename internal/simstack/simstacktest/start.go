// Package simstacktest starts the simulated stack for tests.
package simstacktest

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// Start starts a stack. It ends with the test.
func Start(tb testing.TB, o simstack.Options) *simstack.Stack {
	tb.Helper()
	stack, err := simstack.Start(o)
	return closeWithTest(tb, stack, err)
}

// StartEngine starts only a container engine, on a network in memory unless network is nil. It ends with the test.
func StartEngine(tb testing.TB, network *simstack.Network) *simstack.Engine {
	tb.Helper()
	engine, err := simstack.NewEngine(network)
	return closeWithTest(tb, engine, err)
}

func closeWithTest[S interface{ Close() error }](tb testing.TB, s S, err error) S {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close the simulation: %v", err)
		}
	})
	return s
}
