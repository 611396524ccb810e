//go:build realservers

package app

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// supervisor does what systemd does for a unit with WatchdogSec= and Restart=always: whoever is silent for that long gets
// SIGABRT, and SIGCONT lest it sleeps through it; when it has ended, it is started anew.
type supervisor struct {
	conn     *net.UnixConn
	path     string
	watchdog time.Duration
	start    func() *exportertest.Program
}

// watch returns when the program has been silent for too long, and has ended of the signal for that. After each sign of
// life it calls heard with the number of signs so far.
func (s *supervisor) watch(t *testing.T, p *exportertest.Program, heard func(signs int)) {
	t.Helper()
	signs := 0
	for last := time.Now(); ; {
		left := s.watchdog - time.Since(last)
		if left <= 0 {
			break
		}
		if assigns(hear(t, s.conn, left), "WATCHDOG=1") {
			last = time.Now()
			signs++
			heard(signs)
		}
	}
	for _, number := range []syscall.Signal{syscall.SIGABRT, syscall.SIGCONT} {
		must(t, p.Process.Signal(number))
	}
	p.ExitCode(t, patience)
}

// restart starts the program anew and returns when that one calls itself ready.
func (s *supervisor) restart(t *testing.T) *exportertest.Program {
	t.Helper()
	// A word of our own divides what the ended one has said from what the next one says.
	own, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.path, Net: "unixgram"})
	must(t, err)
	defer own.Close() //nolint:errcheck // it only wrote
	if _, err := own.Write([]byte("ENDED=1")); err != nil {
		t.Fatal(err)
	}
	hearUntil(t, s.conn, "ENDED=1")
	p := s.start()
	if got := hear(t, s.conn, patience); !assigns(got, "READY=1") {
		t.Fatalf("the first word after the restart is %q, want READY=1", got)
	}
	return p
}

// SIGSTOP wedges the process as a whole. From outside there is no way to hold up the poll loop alone; that its signs of life
// end then, too, is what TestSignsOfLifeEndWithThePollLoop shows.
func TestRealWedgedProcessIsRestartedByTheWatchdog(t *testing.T) {
	binary, dir := buildBinary(t), directoryWith(t, "poll: {}\n")
	conn, path := notifySocket(t)
	s := &supervisor{conn: conn, path: path, watchdog: time.Second}
	s.start = func() *exportertest.Program {
		return startProgram(t, binary, dir, map[string]string{
			"NOTIFY_SOCKET": path, "WATCHDOG_USEC": strconv.FormatInt(s.watchdog.Microseconds(), 10),
		}, "--web.listen-address=127.0.0.1:0")
	}
	wedged := s.restart(t)
	stopped := false
	s.watch(t, wedged, func(signs int) {
		if signs != 2 {
			return
		}
		must(t, wedged.Process.Signal(syscall.SIGSTOP))
		waitForState(t, wedged.Process.Pid, "T")
		stopped = true
	})
	if !stopped {
		t.Fatalf("silent for %s before it was wedged", s.watchdog)
	}
	if log := wedged.Stderr.String(); !strings.Contains(log, "SIGABRT: abort") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the wedged process left no word of where it stood:\n%s", log)
	}

	next := s.restart(t)
	hearUntil(t, conn, "WATCHDOG=1")
	next.Terminate(t)
	if code := next.ExitCode(t, patience); code != 0 {
		t.Errorf("exit code %d of the new process, want 0", code)
	}
}
