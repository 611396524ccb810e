package notify

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// chronicle is what a subject did and what was told of it.
type chronicle struct {
	severity health.Severity
	// since is when its severity began. Ended and eased are when it was last well, and not critical; worst when it was last critical.
	since, ended, eased, worst time.Time
	// calm is for how long it was not critical before it is now.
	calm time.Duration
	told []string
	at   []time.Time
}

// change notes a severity.
func (c *chronicle) change(now time.Time, s health.Severity) {
	if s != c.severity {
		if s == health.Critical {
			c.calm = now.Sub(c.worst)
		}
		c.severity, c.since = s, now
	}
	if s == health.Pending {
		c.ended = now
	}
	if s < health.Critical {
		c.eased = now
	}
}

// check compares what was told last with what is.
func (c *chronicle) check(t *testing.T, now time.Time) {
	t.Helper()
	last, times := "", len(c.told)
	if times > 0 {
		last = c.told[times-1]
	}
	const patience = 90 * time.Second
	switch lasts := now.Sub(c.since); {
	case c.severity == health.Pending && lasts >= patience && times > 0 && !strings.HasPrefix(last, "[RESOLVED]"):
		t.Fatalf("over since %s, told %q", c.since, c.told)
	case c.severity > health.Pending && now.Sub(c.ended) >= patience && (times == 0 || strings.HasPrefix(last, "[RESOLVED]")):
		t.Fatalf("lasts since %s, told %q", c.ended, c.told)
	case c.severity == health.Critical && now.Sub(c.eased) >= patience && (!strings.HasPrefix(last, "[CRITICAL]") ||
		c.calm >= patience && c.at[times-1].Before(c.eased)):
		t.Fatalf("critical since %s, told %q", c.eased, c.told)
	}
	for i := 1; i < times; i++ {
		if c.told[i] == c.told[i-1] && c.at[i].Sub(c.at[i-1]) < settleEnd {
			t.Fatalf("told %q twice, at %s", c.told[i], c.at[i])
		}
	}
}

// TestWhatLastsIsToldAndWhatIsOverToo whatever targets do, each for itself, by day and night, with restarts.
func TestWhatLastsIsToldAndWhatIsOverToo(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		p := newPlay(t, Receiver{Name: "all", Least: health.Warning}, Receiver{
			Name:  "night",
			Least: health.Warning,
			Hours: config.Hours{From: 7 * 60, To: 22 * 60},
		})
		all := map[health.Subject]*chronicle{web: {ended: ten, eased: ten}, api: {ended: ten, eased: ten}}
		for range 600 {
			p.forgets = random.IntN(2) == 0
			s := []health.Subject{web, api}[random.IntN(2)]
			severity := health.Severity(random.IntN(3))
			if p.end(s, health.AlertTargetDown); severity > health.Pending {
				p.fire(s, health.AlertTargetDown, severity)
			}
			all[s].change(p.now, severity)
			for range 1 + random.IntN(30) {
				told := len(p.told)
				p.pass(10 * time.Second)
				for _, line := range p.told[told:] {
					_, rest, _ := strings.Cut(line, " ")
					receiver, title, _ := strings.Cut(rest, " ")
					for subject, c := range all {
						if receiver == "all" && strings.Contains(strings.ToLower(title), subject.Name) {
							c.told, c.at = append(c.told, title), append(c.at, p.now)
						}
					}
				}
				for _, c := range all {
					if c.severity < health.Critical {
						c.eased = p.now
					} else {
						c.worst = p.now
					}
					if c.severity == health.Pending {
						c.ended = p.now
					}
					c.check(t, p.now)
				}
			}
		}
	}
}
