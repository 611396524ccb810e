//go:build soak

package soak

import (
	"bufio"
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

// serve runs the exporter until SIGTERM, or until nobody holds its standard input any more.
// A line "measure" is answered by a reading, a line "stacks" by all goroutines on standard error.
func serve(config string) error {
	addresses, none := []string{"127.0.0.1:0"}, ""
	o := app.Options{
		ConfigFile: config,
		Lookup:     os.LookupEnv,
		Web:        &toolkit.FlagConfig{WebListenAddresses: &addresses, WebConfigFile: &none},
		Log:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
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
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "stacks" {
				pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) //nolint:errcheck // whoever started this has gone, and then the input ends
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
	*exportertest.Program
	url string
	in  io.WriteCloser
	out *json.Decoder
}

func startExporter(t *testing.T, config string, env map[string]string) *exporter {
	t.Helper()
	e := &exporter{}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), role+"="+config)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	e.Program = exportertest.StartBy(t, cmd, func(cmd *exec.Cmd) error {
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		cmd.Stdout = nil // it is read as it comes
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		e.in, e.out = in, json.NewDecoder(out)
		return cmd.Start()
	})
	e.url = e.URL(t)
	return e
}

// send sends a line to the exporter.
func (e *exporter) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		t.Fatalf("the exporter is gone: %v", err)
	}
}

// measure asks the exporter for a reading, and the kernel for its descriptors and its resident memory.
func (e *exporter) measure(t *testing.T) (r reading, descriptors int, resident uint64) {
	t.Helper()
	e.send(t, "measure")
	if err := e.out.Decode(&r); err != nil {
		t.Fatalf("the exporter tells nothing of itself: %v", err)
	}
	descriptors, err := exportertest.Descriptors(e.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	kib, err := exportertest.ProcNumber(e.Process.Pid, "status", "VmRSS:")
	if err != nil {
		t.Fatal(err)
	}
	return r, descriptors, kib << 10
}

// reload has the exporter read its configuration anew, as an operator does.
func (e *exporter) reload(t *testing.T) {
	t.Helper()
	if err := e.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatalf("the exporter is gone: %v", err)
	}
}

// end ends the exporter in order. It must go so, and its log must tell of no fault.
func (e *exporter) end(t *testing.T) {
	t.Helper()
	e.Terminate(t)
	if code := e.ExitCode(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after SIGTERM; 66 is what the race detector found", code)
	}
	for line := range strings.Lines(e.Stderr.String()) {
		if unexpected(line) {
			t.Errorf("the log says: %s", line)
		}
	}
}

// unexpected reports whether a line of the log tells of a fault of the exporter itself. That a broken configuration is
// refused is none.
func unexpected(line string) bool {
	return strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") ||
		strings.Contains(line, "level=ERROR") && !strings.Contains(line, "configuration was not reloaded")
}
