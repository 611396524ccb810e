//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// Where these variables are set, the test's own binary is an exporter: in a process of its own, so that descriptors,
// goroutines and memory are the exporter's alone, built as the tests are, with the race detector too, and with a name
// server of the test's.
const (
	configVariable   = "CHAOS_EXPORTER_CONFIG"
	resolverVariable = "CHAOS_EXPORTER_RESOLVER"
)

func TestMain(m *testing.M) {
	path := os.Getenv(configVariable)
	if path == "" {
		code := m.Run()
		os.RemoveAll(binaryDir()) //nolint:errcheck // whoever cleans the directory takes it
		os.Exit(code)
	}
	if err := runExporter(path, os.Getenv(resolverVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runExporter(path, nameServer string) error {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", nameServer)
	}}
	address, nothing := []string{"127.0.0.1:0"}, ""
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := app.New(app.Options{
		ConfigFile: path, Lookup: func(string) (string, bool) { return "", false },
		Web: &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &nothing},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// patience bounds the wait for what should be soon, on a busy machine too.
const patience = exportertest.Patience

// exporter is a running exporter. It ends with the test.
type exporter struct {
	*exportertest.Program
	url string

	mu     sync.Mutex
	body   []byte // of the last page, and what it says
	parsed page
}

// start runs a command that is an exporter, and waits until it listens.
func start(t *testing.T, cmd *exec.Cmd) *exporter {
	t.Helper()
	return startBy(t, cmd, (*exec.Cmd).Start)
}

// startBy runs a command in a way of its own.
func startBy(t *testing.T, cmd *exec.Cmd, begin func(*exec.Cmd) error) *exporter {
	t.Helper()
	e := &exporter{Program: exportertest.StartBy(t, cmd, begin)}
	e.url = e.URL(t)
	return e
}

// startOwn runs the test's own binary as an exporter.
func startOwn(t *testing.T, config string, r *resolver) *exporter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exporter.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{configVariable + "=" + path, resolverVariable + "=" + r.conn.LocalAddr().String()}
	return start(t, cmd)
}

// stop ends the exporter in order, and wants that it went well: a race that was found is an exit code too.
func (e *exporter) stop(t *testing.T) {
	t.Helper()
	e.Terminate(t)
	if code := e.ExitCode(t, patience); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if strings.Contains(e.Stderr.String(), "collector panicked") || strings.Contains(e.Stderr.String(), "DATA RACE") {
		t.Errorf("the log tells of a panic or a race")
	}
}

// page is a scraped text page.
type page = exportertest.Page

// scrape reads the page, which must be there and well formed, whatever happens.
func (e *exporter) scrape(t *testing.T) page {
	t.Helper()
	body, err := exportertest.Fetch(t.Context(), patience, e.url+"/metrics")
	if err != nil {
		t.Fatalf("%v; want 200 whatever happens", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parsed == nil || !bytes.Equal(body, e.body) {
		e.body, e.parsed = body, parse(t, body, nil)
	}
	return e.parsed
}

// parse reads a page that must be one.
func parse(t *testing.T, body []byte, err error) page {
	t.Helper()
	p, malformed := exportertest.ParsePage(body)
	if err := errors.Join(err, malformed); err != nil {
		t.Fatal(err)
	}
	return p
}

// wait scrapes until the page is as it should be.
func (e *exporter) wait(t *testing.T, what string, reached func(page) bool) (p page) {
	t.Helper()
	if !exportertest.Eventually(patience, 50*time.Millisecond, func() bool { p = e.scrape(t); return reached(p) }) {
		t.Fatalf("never reached: %s; verdicts: %v", what, p.Verdicts())
	}
	return p
}

// descriptors counts what the process has open.
func (e *exporter) descriptors(t *testing.T) int {
	t.Helper()
	n, err := exportertest.Descriptors(e.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// peakMemory is the most that the process has had resident, in bytes.
func (e *exporter) peakMemory(t *testing.T) int {
	t.Helper()
	kib, err := exportertest.ProcNumber(e.Process.Pid, "status", "VmHWM:")
	if err != nil {
		t.Fatal(err)
	}
	return int(kib) << 10 //nolint:gosec // no process is so large
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	if !exportertest.Pause(t.Context(), d) {
		t.Fatal(t.Context().Err())
	}
}
