//go:build realservers

package drill

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// quietFor is far longer than every window, and than every alert waits. Other sites have their faults meanwhile.
const quietFor = 10 * time.Minute

// openQuiet opens a site at which nothing happens that is not daily work.
func (r *rig) openQuiet(t *testing.T) *site {
	t.Helper()
	return r.open(t, "quiet", r.engineTarget("quiet"), nil)
}

// drillQuiet has a healthy stack deployed, its XMPP server restarted and its logs rotated, again and again. Nobody is to
// be told of any of it.
func (s *site) drillQuiet(t *testing.T) {
	t.Helper()
	s.t = t
	xmpp := s.deploy("xmpp")
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Modules: []string{"measure_chatstack"}})
	bridge := s.connect(prosody)
	s.exporter.Reconfigure(settings + s.engineTarget("quiet") + fmt.Sprintf(`
  - {kind: xmpp_status, url: %[1]s/status, container: %[2]s}
  - {kind: xmpp_metrics, url: %[1]s/metrics, container: %[2]s}
`, prosody.URL(), xmpp))
	s.await("the new configuration", func() bool {
		return is(1, "chatstack_probe_success", "target", "xmpp_metrics")(s.page())
	})
	s.settle()
	place, begun := s.operators.place(), time.Now()
	rounds := 0
	var slow []notice // told with right where a restart takes longer than TargetDown waits
	for ; time.Since(begun) < quietFor; rounds++ {
		s.deploy("docs")
		stopped := time.Now()
		prosody.Stop()
		prosody.Start()
		if time.Since(stopped) > 3*time.Second {
			slow = slowRestarts
		}
		bridge.Drop() //nolint:errcheck,gosec // the server has ended it
		bridge = s.connect(prosody)
		s.rotate(prosody)
		// Each restart costs two readings or three on a busy machine, and TargetUnstable allows 36 an hour.
		round := time.Now()
		s.await("a quiet while", func() bool { return time.Since(round) > 40*time.Second })
	}
	s.settle()
	s.nothingElse(place, begun, fault{name: "quiet hour", may: slow})
	s.report.add(row{
		fault:    fmt.Sprintf("%d deploys, restarts of the XMPP server and log rotations", rounds),
		alert:    "nobody is told",
		severity: "-",
		metric:   -1,
		notified: -1,
		resolved: -1,
		note:     fmt.Sprintf("(%.0fs)", time.Since(begun).Seconds()),
	})
}

// slowRestarts are what a busy machine makes of restarts of the XMPP server.
var slowRestarts = []notice{
	{"TargetDown", "warning", of("target", "xmpp_status", "kind", "xmpp_status")},
	{"TargetDown", "warning", of("target", "xmpp_metrics", "kind", "xmpp_metrics")},
}

// rotate does what logrotate does with a server's log.
func (s *site) rotate(p *realstack.Prosody) {
	s.t.Helper()
	log := p.LogFile()
	if err := os.Rename(log, log+".1"); err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	if !s.eventually(func() bool { _, err := os.Stat(log); return err == nil }) {
		s.t.Errorf("the server has no new log after %s", s.patience)
	}
}

// connect connects the bridge's component.
func (s *site) connect(p *realstack.Prosody) *realstack.Component {
	s.t.Helper()
	c, err := realstack.DialComponent(s.t.Context(), p.ComponentAddr, realstack.ComponentHost, realstack.ComponentSecret)
	if err != nil && !strings.Contains(err.Error(), "context") {
		s.t.Fatal(err)
	}
	// What nothing refers to any more, the garbage collector closes.
	s.t.Cleanup(func() { c.Drop() }) //nolint:errcheck,gosec // most are closed before
	return c
}
