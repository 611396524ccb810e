package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// notices are what a service manager was told, and when.
type notices struct {
	mu   sync.Mutex
	told []notice
}

type notice struct {
	at    time.Time
	state string
}

func (n *notices) notify(state string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, notice{time.Now(), state})
	return nil
}

func (n *notices) all() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

// signs are the times of the signs of life after a moment.
func (n *notices) signs(after time.Time) []time.Time {
	var times []time.Time
	for _, told := range n.all() {
		if told.at.After(after) && assigns(told.state, "WATCHDOG=1") {
			times = append(times, told.at)
		}
	}
	return times
}

func assigns(state, assignment string) bool {
	return slices.Contains(strings.Split(state, "\n"), assignment)
}

// wedge is a schedule that can be made to hold up the whole poll loop, which asks it for the next time.
type wedge struct {
	stuck atomic.Bool
	free  chan struct{}
}

func (w *wedge) Next(t time.Time) time.Time {
	if w.stuck.Load() && calledByLoop() {
		<-w.free
	}
	return t.Add(5 * time.Second)
}

// calledByLoop tells the poll loop from those that ask when the next reading is due and hold a lock meanwhile.
func calledByLoop() bool {
	callers := make([]uintptr, 8)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "poll.(*job).isDue") {
			return true
		}
		if !more {
			return false
		}
	}
}

func wedgedPoller(t *testing.T, w *wedge, own prometheus.Gatherer) *poll.Poller {
	t.Helper()
	p, err := poll.New([]poll.Target{{
		Name:      "plants",
		Kind:      config.Row{Name: "http"},
		Schedule:  w,
		Timeout:   time.Second,
		Collector: nothing{},
	}}, own, nil, slog.New(slog.DiscardHandler), nil)
	must(t, err)
	return p
}

// nothing is a collector that is always content.
type nothing struct{}

func (nothing) Collect(context.Context, *collectors.Batch) error { return nil }

func TestSignsOfLifeEndWithThePollLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watchdog = 30 * time.Second
		w := &wedge{free: make(chan struct{})}
		p := wedgedPoller(t, w, prometheus.NewRegistry())
		var told notices
		log := &logBuffer{}
		m := &serviceManager{notify: told.notify, watchdog: watchdog, log: slog.New(slog.NewTextHandler(log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		running.Go(func() { m.keepAlive(ctx, p.Alive, func() string { return summarize(p.Snapshot().Statuses) }) })

		begin := time.Now()
		time.Sleep(10 * time.Minute)
		last := begin
		for _, at := range append(told.signs(begin), time.Now()) {
			if gap := at.Sub(last); gap > watchdog/2 {
				t.Errorf("%s without a sign of life of a sound poll loop, watchdog %s", gap, watchdog)
			}
			last = at
		}

		w.stuck.Store(true)
		time.Sleep(3 * time.Minute)
		if signs := told.signs(time.Now().Add(-2 * time.Minute)); len(signs) > 0 {
			t.Errorf("%d signs of life of a poll loop that had stalled for a minute", len(signs))
		}
		if sent := told.all(); sent[len(sent)-1].state != "STATUS=the poll loop has stalled" {
			t.Errorf("the last word is %q", sent[len(sent)-1].state)
		}
		if n := strings.Count(log.String(), "no more signs of life"); n != 1 {
			t.Errorf("the log tells %d times, want once:\n%s", n, log)
		}

		w.stuck.Store(false)
		close(w.free)
		freed := time.Now()
		time.Sleep(12 * time.Second) // the next beat comes within ten
		if len(told.signs(freed)) == 0 {
			t.Error("no sign of life, although the poll loop goes round again")
		}
		cancel()
		running.Wait()
	})
}

// A machine that was paused finds its poll loop late, and a watchdog that has almost run out.
func TestSignOfLifeFollowsAPauseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var standing atomic.Bool
		var told notices
		m := &serviceManager{notify: told.notify, watchdog: time.Minute, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			m.keepAlive(ctx, func() error {
				if standing.Load() {
					return errors.New("late")
				}
				return nil
			}, func() string { return "fine" })
		})
		synctest.Wait()
		standing.Store(true)
		time.Sleep(25 * time.Second)
		standing.Store(false)
		recovered := time.Now()
		time.Sleep(recheckInterval)
		synctest.Wait()
		if n := len(told.signs(recovered.Add(-time.Nanosecond))); n == 0 {
			t.Errorf("no sign of life within %s", recheckInterval)
		}
		cancel()
		running.Wait()
	})
}

func TestWithoutAWatchdogOnlyNewsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told notices
		m := &serviceManager{notify: told.notify, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		m.keepAlive(ctx, func() error { return nil }, func() string {
			if time.Since(begin) > 30*time.Minute {
				return "another"
			}
			return "one"
		})
		var got []string
		for _, n := range told.all() {
			got = append(got, n.state)
		}
		if want := []string{"STATUS=one", "STATUS=another"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestWordsForTheServiceManagerCount(t *testing.T) {
	is := func(up bool) poll.Status { return poll.Status{Known: true, Up: up} }
	for want, statuses := range map[string][]poll.Status{
		"0 targets up, 1 down":                   {is(false)},
		"1 target up, 0 down":                    {is(true)},
		"2 targets up, 1 down, 1 not probed yet": {is(true), is(false), {}, is(true)},
	} {
		if got := summarize(statuses); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDeafServiceManagerIsToldOfOnce(t *testing.T) {
	log := &logBuffer{}
	m := &serviceManager{notify: func(string) error { return syscall.ECONNREFUSED }, log: slog.New(slog.NewTextHandler(log, nil))}
	m.ready("")
	m.reloading()
	m.stopping()
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, log)
	}
}

// notifySocket listens as a service manager does.
func notifySocket(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	// An abstract name, since that of the test's own directory is too long for a socket.
	path := "@" + t.Name() + strconv.Itoa(os.Getpid())
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn, path
}

// hear returns what is told next, or "" after that time.
func hear(t *testing.T, conn *net.UnixConn, within time.Duration) string {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(within)))
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	must(t, err)
	return string(b[:n])
}

// hearUntil drops what is told until one of the assignments is the wanted one, and returns those that came with it.
func hearUntil(t *testing.T, conn *net.UnixConn, assignment string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if heard := hear(t, conn, patience); assigns(heard, assignment) {
			return heard
		}
	}
	t.Fatalf("%s was not told within %s", assignment, patience)
	return ""
}

func TestBinarySpeaksWithItsServiceManager(t *testing.T) {
	binary := buildBinary(t)
	conn, path := notifySocket(t)
	const watchdog = 200 * time.Millisecond
	dir := directoryWith(t, "poll: {}\n")
	p := startProgram(t, binary, dir, map[string]string{
		"NOTIFY_SOCKET": path, "WATCHDOG_USEC": strconv.FormatInt(watchdog.Microseconds(), 10),
	}, "--web.listen-address=127.0.0.1:0")
	if got := hear(t, conn, patience); !assigns(got, "READY=1") {
		t.Errorf("the first word is %q, want READY=1", got)
	}
	// Whoever is started after this one may ask at once.
	if r := exporterOf(t, p).get(t, "/metrics", http.Header{}); r.status != http.StatusOK {
		t.Errorf("/metrics when the exporter called itself ready: status %d", r.status)
	}
	for range 3 {
		hearUntil(t, conn, "WATCHDOG=1")
	}
	signal := func(s syscall.Signal) {
		must(t, p.Process.Signal(s))
	}
	reloadTime := regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+\nSTATUS=`)
	for content, status := range map[string]string{
		"poll: {}\n": "STATUS=the configuration was reloaded",
		"pol: {}\n":  "STATUS=the configuration was not reloaded; the log says why",
	} {
		rewrite(t, filepath.Join(dir, "exporter.yaml"), content)
		signal(syscall.SIGHUP)
		if heard := hearUntil(t, conn, "RELOADING=1"); !reloadTime.MatchString(heard) {
			t.Errorf("a reload without its time: %q", heard)
		}
		if heard := hearUntil(t, conn, "READY=1"); !assigns(heard, status) {
			t.Errorf("after a reload of %q: %q, want %q", content, heard, status)
		}
	}

	signal(syscall.SIGSTOP)
	waitForState(t, p.Process.Pid, "T")
	for before := "any"; before != ""; {
		before = hear(t, conn, time.Millisecond)
	}
	if got := hear(t, conn, 2*watchdog); got != "" {
		t.Errorf("a process that is stopped said %q", got)
	}
	signal(syscall.SIGCONT)
	hearUntil(t, conn, "WATCHDOG=1")

	signal(syscall.SIGTERM)
	hearUntil(t, conn, "STOPPING=1")
	if code := p.ExitCode(t, patience); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// waitForState waits until the kernel says that of a process.
func waitForState(t *testing.T, pid int, state string) {
	t.Helper()
	if !exportertest.Eventually(patience, time.Millisecond, func() bool {
		stat := contentOf(t, filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		// The name before it stands in brackets and may hold anything.
		return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0] == state
	}) {
		t.Fatalf("process %d is not in state %s after %s", pid, state, patience)
	}
}
