package collectors

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestCheckWithoutAVerdictIsBlind has checks end before they know anything. The last verdict on the bridge is then none on the present.
func TestCheckWithoutAVerdictIsBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		r.wantState(nil, nil)
		timeout := r.timeout
		r.timeout = time.Second
		if got := r.probe(); got != failure.Timeout {
			t.Errorf("reason %q, want that no time was left: %v", got, r.err)
		}
		r.wantState(nil, []string{"RelayUnwatched "})
		for _, c := range r.batch.Conditions(r.err) {
			if c.Alert == health.AlertBridgeNotRelaying {
				t.Errorf("it says that the bridge works, or not: %+v", c)
			}
		}
		r.timeout = timeout
		if got := r.probe(); got != "" {
			t.Errorf("afterwards: %v", r.err)
		}
		r.wantState(nil, nil)
	})
}

// TestFirstLostMessagesAreNoVerdict: until three are lost in a row within 90 s, a check that has never worked knows nothing.
func TestFirstLostMessagesAreNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prepareRelayed(t)
		r.fault("frozen", true)
		r.follow()
		for n := range relayFailuresLimit + 1 {
			r.probe()
			if blind := slices.Contains(r.holds(), "RelayUnwatched "); blind != (n < relayFailuresLimit) {
				t.Errorf("after %d lost messages, RelayUnwatched holds is %t", n+1, blind)
			}
		}
	})
}
