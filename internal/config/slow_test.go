package config_test

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// TestSlowOfARelayIsAboutItsMessages: its probes may take half of their deadline.
func TestSlowOfARelayIsAboutItsMessages(t *testing.T) {
	relay := config.Target{Timeout: config.Duration(16 * time.Second), Slow: config.Duration(5 * time.Second)}
	if got := relay.SlowProbe(&config.Row{Relay: true, Steps: true}).Std(); got != 8*time.Second {
		t.Errorf("a probe of a relay is slow after %s, want 8s", got)
	}
	if got := relay.SlowProbe(&config.Row{Steps: true}).Std(); got != 5*time.Second {
		t.Errorf("another probe is slow after %s, want 5s", got)
	}
}
