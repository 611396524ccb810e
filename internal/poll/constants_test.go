package poll

import (
	"testing"
	"time"
)

// TestTimesThatUsersRelyOn lists every time that decides how fresh data is, when it counts as stale, and when the exporter reports
// itself as unhealthy. Alerts, the watchdog of systemd and documents depend on these.
func TestTimesThatUsersRelyOn(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want time.Duration
	}{
		{"between two heartbeats", heartbeatInterval, 10 * time.Second},
		{"age of a heartbeat that renews the snapshot", renewAfter, 15 * time.Second},
		{"age of the heartbeat that is unhealthy", stalledAfter, 30 * time.Second},
		{"age of the judgement that is unhealthy", judgementStalledAfter, 45 * time.Second},
		{"making of a page that is unhealthy", pageStalledAfter, 30 * time.Second},
		{"wait of a request for its page", pageWait, 2 * time.Second},
		{"wait of a request without a fresh page", longPageWait, 8 * time.Second},
		{"age of values that are not served", maxServedAge, 45 * time.Second},
		{"between two snapshots at least", publishInterval, 250 * time.Millisecond},
		{"between two snapshots right after the start", startInterval, 20 * time.Millisecond},
		{"between a change and its snapshot at most", maxPublishInterval, time.Second},
		{"snapshot before a scrape", spare, 200 * time.Millisecond},
		{"spread of the probes before a scrape", burst, 500 * time.Millisecond},
		{"between two first probes", firstStep, 2 * time.Millisecond},
		{"probe after its deadline", obeyGrace, 500 * time.Millisecond},
		{"probe after the end of the poller", StopGrace, 4 * time.Second},
		{"intervals until a target's data is stale", missedReadings, 3},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	if silentPeriods != 3.5 {
		t.Errorf("periods until a scraper counts as gone: got %v, want 3.5", silentPeriods)
	}
}
