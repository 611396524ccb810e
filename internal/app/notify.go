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
)

const (
	// statusInterval is how often a service manager may be told of another state in words.
	statusInterval = 10 * time.Second
	// signsPerWatchdog is how many signs of life fit into the time after which their want is held for the end, so that one
	// that is late on a busy machine costs nothing.
	signsPerWatchdog = 4
	// recheckInterval is how soon a poll loop is looked at again that was found standing still: after a pause of the whole
	// machine it is going round again in a moment, and then the sign of life must not wait for its turn.
	recheckInterval = time.Second
)

// serviceManager is the one that started this process, as systemd does with Type=notify. It is told when the exporter
// serves, reloads and stops, and gets a sign of life while the poll loop goes round: while that stands still it gets
// none, and starts the process anew. The methods may be called from several goroutines.
type serviceManager struct {
	notify   func(state string) error // nil where nobody listens
	watchdog time.Duration            // how long the service manager waits for a sign of life; 0 is for ever
	log      *slog.Logger
	failing  atomic.Bool // the last call of notify failed
}

// tell sends assignments such as READY=1. That nobody hears them is no reason to stop, and told once.
func (m *serviceManager) tell(assignments ...string) {
	if m.notify == nil {
		return
	}
	err := m.notify(strings.Join(assignments, "\n"))
	if failed := err != nil; m.failing.Swap(failed) != failed && failed {
		m.log.Warn("the service manager cannot be told", "err", err)
	}
}

func (m *serviceManager) ready(status string) {
	m.tell(daemon.SdNotifyReady, statusAssignment+status)
}

func (m *serviceManager) reloading() {
	// The time lets Type=notify-reload tell this reload from one before it; others pass over it.
	m.tell(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()), statusAssignment+"reading the configuration anew")
}

func (m *serviceManager) stopping() {
	m.tell(daemon.SdNotifyStopping, statusAssignment+"stopping")
}

const statusAssignment = "STATUS="

// keepAlive gives signs of life for as long as alive returns nil, and tells a status that has changed, until ctx is done.
func (m *serviceManager) keepAlive(ctx context.Context, alive func() error, status func() string) {
	if m.notify == nil {
		return
	}
	every := statusInterval
	if m.watchdog > 0 {
		every = min(every, m.watchdog/signsPerWatchdog)
	}
	var told string
	standing := false
	for {
		wait := every
		var assignments []string
		now := "the poll loop stands still"
		if err := alive(); err != nil {
			wait = min(wait, recheckInterval)
			if !standing {
				m.log.Error("no more signs of life for the service manager", "err", err)
			}
			standing = true
		} else {
			if standing {
				m.log.Info("signs of life for the service manager again")
			}
			standing = false
			now = status()
			if m.watchdog > 0 {
				assignments = append(assignments, daemon.SdNotifyWatchdog)
			}
		}
		if now != told {
			told = now
			assignments = append(assignments, statusAssignment+now)
		}
		if len(assignments) > 0 {
			m.tell(assignments...)
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

// inWords is how a stack is that has these statuses, in few words and without a name.
func inWords(statuses []poll.Status) string {
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
	text := fmt.Sprintf("%s up, %d down", count(up, "target"), down)
	if waiting > 0 {
		text += fmt.Sprintf(", %d not read yet", waiting)
	}
	return text
}
