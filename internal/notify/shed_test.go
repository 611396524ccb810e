package notify

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestThreadThatNobodyWasToldOfSurvivesARestart and is told to a receiver that is about it from then on.
func TestThreadThatNobodyWasToldOfSurvivesARestart(t *testing.T) {
	p := newPlay(t, Receiver{Name: "web", Least: health.Warning, Targets: []string{"web"}})
	p.forgets = true
	p.fire(db, health.AlertContainerDown, health.Warning).pass(5 * time.Minute)
	p.receivers = append(p.receivers, Receiver{Name: "all", Least: health.Warning})
	p.pass(5 * time.Minute)
	p.want("10:05:00 all [WARNING] Container db is not running")
}
