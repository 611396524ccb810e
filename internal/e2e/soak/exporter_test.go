//go:build soak

package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

const (
	// usual is how often a target is read by default, and hurry how often it is here: a hundred times as often.
	usual = 30 * time.Second
	hurry = usual / 100
	// deadline of one reading. It is longer than the interval, so that a hanging service makes overruns as well, and a busy
	// machine does not make failures.
	deadline = 2 * time.Second
	// role, where set in the environment, makes this program the exporter under test; it is the path of its configuration.
	role = "CHATSTACK_SOAK_EXPORTER"
)

// TestMain is the exporter as well, so that the race detector that the test is built with sees it, in a process of its own
// whose descriptors and memory are nobody else's.
func TestMain(m *testing.M) {
	if config := os.Getenv(role); config != "" {
		if err := serve(config); err != nil {
			fmt.Fprintf(os.Stderr, "level=ERROR msg=%q\n", err)
			os.Exit(1)
		}
		os.Exit(0) // 66 where the race detector found something
	}
	os.Exit(m.Run())
}

// reading is what the exporter tells of itself.
type reading struct {
	Goroutines int
	// Heap is what lives after a collection.
	Heap uint64
}

// serve runs the exporter until SIGTERM, or until nobody holds its standard input any more. It tells its address first.
// A line "measure" is answered by a reading, a line "stacks" by all goroutines on standard error.
func serve(config string) error {
	addresses, none := []string{"127.0.0.1:0"}, ""
	o := app.Options{
		ConfigFile: config, Lookup: os.LookupEnv, Web: &toolkit.FlagConfig{WebListenAddresses: &addresses, WebConfigFile: &none},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	a, err := app.New(o.WithPace(hurry, deadline))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			a.Reload(ctx) //nolint:errcheck // the log and the metrics say how it went
		}
	}()
	go func() {
		out := json.NewEncoder(os.Stdout)
		out.Encode(a.Addresses()[0].String()) //nolint:errcheck,errchkjson // whoever started this has gone, and then the input ends
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "stacks" {
				pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) //nolint:errcheck // as above
				continue
			}
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			out.Encode(reading{runtime.NumGoroutine(), memory.HeapAlloc}) //nolint:errcheck,errchkjson // as above
		}
		stop()
	}()
	return a.Run(ctx)
}

// exporter is the process under test.
type exporter struct {
	url string
	log *log

	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	ended chan error
}

func startExporter(t *testing.T, config string, env map[string]string) *exporter {
	t.Helper()
	e := &exporter{log: &log{}, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]), ended: make(chan error, 1)} //nolint:gosec // ourselves
	e.cmd.Env = append(os.Environ(), role+"="+config)
	for name, value := range env {
		e.cmd.Env = append(e.cmd.Env, name+"="+value)
	}
	e.cmd.Stderr = e.log
	in, err := e.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.in, e.out = in, json.NewDecoder(out)
	var address string
	decodeErr := e.out.Decode(&address)
	e.url = "http://" + address
	go func() { e.ended <- e.cmd.Wait() }()
	t.Cleanup(func() {
		e.in.Close() //nolint:errcheck,gosec // which ends it, if nothing else has
		if t.Failed() {
			t.Logf("the end of the exporter's log:\n%s", e.log.tail())
		}
	})
	if decodeErr != nil {
		t.Fatalf("no address: %v", decodeErr)
	}
	return e
}

// tell sends a line to the exporter.
func (e *exporter) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		t.Fatalf("the exporter is gone: %v", err)
	}
}

// measure asks the exporter for a reading, and the kernel for its descriptors and its resident memory.
func (e *exporter) measure(t *testing.T) (r reading, descriptors int, resident uint64) {
	t.Helper()
	e.tell(t, "measure")
	if err := e.out.Decode(&r); err != nil {
		t.Fatalf("the exporter tells nothing of itself: %v", err)
	}
	descriptors, err := exportertest.Descriptors(e.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	kib, err := exportertest.ProcNumber(e.cmd.Process.Pid, "status", "VmRSS:")
	if err != nil {
		t.Fatal(err)
	}
	return r, descriptors, kib << 10
}

// reload has the exporter read its configuration anew, as an operator does.
func (e *exporter) reload(t *testing.T) {
	t.Helper()
	if err := e.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatalf("the exporter is gone: %v", err)
	}
}

// end ends the exporter in order and wants it to go so.
func (e *exporter) end(t *testing.T) {
	t.Helper()
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	grace := time.NewTimer(time.Minute)
	defer grace.Stop()
	select {
	case err := <-e.ended:
		if err != nil {
			t.Errorf("end of the exporter: %v; 66 is what the race detector found", err)
		}
	case <-grace.C:
		e.cmd.Process.Signal(syscall.SIGQUIT) //nolint:errcheck,gosec // it tells where it hangs
		t.Errorf("the exporter does not end: %v", <-e.ended)
	}
}

// log keeps the end of what the exporter logs, and everything that should not be there.
type log struct {
	mu      sync.Mutex
	last    []byte
	partial []byte
	bad     []string
	lines   int
}

// logKept is how much of a log is kept.
const logKept = 64 << 10

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, p...)
	l.last = l.last[max(0, len(l.last)-logKept):]
	l.partial = append(l.partial, p...)
	for {
		line, rest, whole := bytes.Cut(l.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.lines++
		if text := string(line); unexpected(text) && len(l.bad) < 20 {
			l.bad = append(l.bad, text)
		}
		l.partial = rest
	}
}

// unexpected reports whether a line of the log tells of a fault of the exporter itself. That a broken configuration is
// refused is none.
func unexpected(line string) bool {
	return strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") ||
		strings.Contains(line, "level=ERROR") && !strings.Contains(line, "configuration was not reloaded")
}

func (l *log) faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}

// count is how many lines there were.
func (l *log) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

func (l *log) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}
