package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// alertDelay is how long after its time an alert may show: until the next report, and no longer than a probe takes.
const alertDelay = 10 * time.Second

// startDemo runs the demo's exporter on the test's network until the test ends, and waits until all is well.
func startDemo(t *testing.T, stack *simstack.Stack) *App {
	t.Helper()
	o := options(nil, &logBuffer{})
	o.Timeout = 0
	o = o.forDemo(stack, t.TempDir())
	o.Listen = networkOf(t).Listen
	a, err := New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(onNetworkOf(context.Background(), t))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	time.Sleep(time.Minute)
	if r := a.Report(); r.Level != status.OK {
		t.Fatalf("the demo begins with: %s", r.Summary)
	}
	return a
}

// TestStoriesShowWhatTheyAnnounce runs each story of the switchboard against the demo, with its real intervals and thresholds.
func TestStoriesShowWhatTheyAnnounce(t *testing.T) {
	for _, s := range simstack.Stories() {
		t.Run(s.ID, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				stack := startStack(t, simstack.Options{Coupled: true})
				a := startDemo(t, stack)
				begun := time.Now()
				must(t, stack.SwitchStory(s.ID, true))
				last := time.Duration(0)
				for _, announced := range s.Shows {
					last = max(last, announced.Within, announced.After+alertDelay)
				}
				shown := map[simstack.Announcement]time.Duration{}
				for now := time.Duration(0); now <= last; now = time.Since(begun) {
					r := a.Report()
					for _, announced := range s.Shows {
						if _, known := shown[announced]; !known && slices.ContainsFunc(r.Problems, announcedBy(announced)) {
							shown[announced] = now
						}
					}
					for i := range r.Problems {
						if p := &r.Problems[i]; p.Severity > health.Pending && slices.Contains(s.Silent, p.Alert) {
							t.Fatalf("after %s, the alert %s of %s is %s", now, p.Alert, p.Name, p.Severity)
						}
					}
					time.Sleep(500 * time.Millisecond)
				}
				for _, announced := range s.Shows {
					at, known := shown[announced]
					switch {
					case !known:
						t.Errorf("%+v never shows within %s: %s", announced, last, a.Report().Summary)
					case announced.Within > 0 && at > announced.Within, announced.After > 0 && at < announced.After:
						t.Errorf("%+v shows after %s", announced, at)
					}
					t.Logf("%s of %q is %s after %s", announced.Alert, announced.Name, announced.Severity, at)
				}
				must(t, stack.SwitchStory(s.ID, false))
				// The longest that something stays on the page are restarts, which count for 10 minutes.
				for off := time.Now(); a.Report().Level != status.OK && time.Since(off) < 11*time.Minute; {
					time.Sleep(time.Second)
				}
				if r := a.Report(); r.Level != status.OK {
					t.Errorf("after the story: %s", r.Summary)
				}
			})
		})
	}
}

func announcedBy(a simstack.Announcement) func(status.Problem) bool {
	return func(p status.Problem) bool {
		return p.Alert == a.Alert && p.Name == a.Name && p.Severity.String() == a.Severity
	}
}

// TestDemoAndSwitchboardLinkToEachOther: without a switchboard, as for a real stack, the status page does not mention one.
func TestDemoAndSwitchboardLinkToEachOther(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{Coupled: true})
		o := options(nil, &logBuffer{}).forDemo(stack, t.TempDir())
		e := startApp(t, o, &logBuffer{})
		e.waitForPage(t, `<a href="`+switchboardURL(stack)+`">Switchboard of this demo</a>`)
		other := startExporter(t, only(stack, "XMPP_REST_"), "")
		if page := string(other.waitForPage(t, "xmpp_rest").body); strings.Contains(page, "witchboard") {
			t.Error("the status page of a real stack mentions the switchboard")
		}
	})
}
