package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// statusInterval is the least time between two status texts for the service manager.
	statusInterval = 10 * time.Second
	// signsPerWatchdog is how many signs of life to send per watchdog timeout, so that a late one on a busy machine does no harm.
	signsPerWatchdog = 4
	// recheckInterval is how soon to check a stalled poll loop again. After a pause of the whole machine, the loop recovers at once, and
	// the next sign of life must not be late.
	recheckInterval = time.Second
)

// serviceManager reports to the service manager that started this process, as systemd does with Type=notify: when the exporter
// serves, reloads and stops, and signs of life while the poll loop runs. Without them, the service manager restarts the exporter.
// The methods may be called from several goroutines.
type serviceManager struct {
	notify   func(state string) error // nil without a service manager
	watchdog time.Duration            // how long the service manager waits for a sign of life; 0 means forever
	log      *slog.Logger
	failing  atomic.Bool // the last call of notify failed
}

// send sends assignments such as READY=1. If that fails, it logs the first of the failures in a row.
func (m *serviceManager) send(assignments ...string) {
	if m.notify == nil {
		return
	}
	err := m.notify(strings.Join(assignments, "\n"))
	if failed := err != nil; m.failing.Swap(failed) != failed && failed {
		m.log.Warn("cannot reach the service manager", "err", err)
	}
}

func (m *serviceManager) ready(status string) {
	m.send(daemon.SdNotifyReady, statusAssignment+status)
}

func (m *serviceManager) reloading() {
	// With Type=notify-reload, systemd needs the time to tell reloads apart; others ignore it.
	m.send(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()),
		statusAssignment+"reloading the configuration")
}

func (m *serviceManager) stopping() {
	m.send(daemon.SdNotifyStopping, statusAssignment+"stopping")
}

const statusAssignment = "STATUS="

// keepAlive sends signs of life while alive returns nil, and every new status, until ctx is done.
func (m *serviceManager) keepAlive(ctx context.Context, alive func() error, status func() string) {
	if m.notify == nil {
		return
	}
	every := statusInterval
	if m.watchdog > 0 {
		every = min(every, m.watchdog/signsPerWatchdog)
	}
	var sent string
	stalled := false
	for {
		wait := every
		var assignments []string
		now := "the poll loop has stalled"
		if err := alive(); err != nil {
			wait = min(wait, recheckInterval)
			if !stalled {
				m.log.Error("polling has stalled; no more signs of life for the service manager", "err", err)
			}
			stalled = true
		} else {
			if stalled {
				m.log.Info("polling works again")
			}
			stalled = false
			now = status()
			if m.watchdog > 0 {
				assignments = append(assignments, daemon.SdNotifyWatchdog)
			}
		}
		if now != sent {
			sent = now
			assignments = append(assignments, statusAssignment+now)
		}
		if len(assignments) > 0 {
			m.send(assignments...)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// summarize returns the state of the stack in a few words, without names.
func summarize(statuses []poll.Status) string {
	var up, down, waiting int
	for _, s := range statuses {
		switch {
		case !s.Known:
			waiting++
		case s.Up:
			up++
		default:
			down++
		}
	}
	text := fmt.Sprintf("%s up, %d down", wording.Count(up, "target"), down)
	if waiting > 0 {
		text += fmt.Sprintf(", %d not probed yet", waiting)
	}
	return text
}
