package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

const loopUnknown = "alive, loop unknown\n"

// healthcheck runs the command and returns how it ended and what it printed.
func healthcheck(t *testing.T, binary, runtimeDirectory, address string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProgram(t, binary, t.TempDir(), map[string]string{"RUNTIME_DIRECTORY": runtimeDirectory},
		"healthcheck", "--web.listen-address="+address)
	code = p.ExitCode(t, patience)
	return code, p.Stdout.String(), p.Stderr.String()
}

// startProtected starts an exporter that wants a password.
func startProtected(t *testing.T, binary, runtimeDirectory, address string) (p *exportertest.Program, listens string) {
	t.Helper()
	dir := directoryWith(t, "poll: {}\n")
	rewrite(t, filepath.Join(dir, "web.yml"), webConfigs["password"])
	p = startProgram(t, binary, dir, map[string]string{"RUNTIME_DIRECTORY": runtimeDirectory}, "--web.listen-address="+address,
		"--web.config.file=web.yml")
	return p, strings.TrimPrefix(exporterOf(t, p).url, "http://")
}

func TestHealthcheckBehindAPassword(t *testing.T) {
	binary, run := buildBinary(t), t.TempDir()
	first, one := startProtected(t, binary, run, "127.0.0.1:0")
	_, other := startProtected(t, binary, run, "127.0.0.1:0")
	for name, c := range map[string]struct {
		run, address string
		code         int
		stdout       string
	}{
		"one": {
			run,
			one,
			0,
			"",
		},
		"another one beside it": {
			run,
			other,
			0,
			"",
		},
		"without a socket": {
			filepath.Join(run, "absent"),
			one,
			0,
			loopUnknown,
		},
		"on all addresses": {
			run,
			":" + portOfString(t, one),
			0,
			"",
		},
		"of a port that nobody uses": {
			run,
			"127.0.0.1:1",
			1,
			"",
		},
	} {
		if code, stdout, stderr := healthcheck(t, binary, c.run, c.address); code != c.code || stdout != c.stdout {
			t.Errorf("%s: exit code %d, %q, %s; want %d and %q", name, code, stdout, stderr, c.code, c.stdout)
		}
	}
	sockets, err := filepath.Glob(filepath.Join(run, "*.sock"))
	if err != nil || len(sockets) != 2 {
		t.Fatalf("sockets %q, %v; want two", sockets, err)
	}
	for _, path := range sockets {
		if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", path, info.Mode(), err)
		}
	}

	// A killed process leaves its socket, and its successor takes the place.
	must(t, first.Process.Kill())
	<-first.Ended
	if code, stdout, _ := healthcheck(t, binary, run, one); code != 1 {
		t.Errorf("after a kill: exit code %d, %q; want 1", code, stdout)
	}
	next, _ := startProtected(t, binary, run, one)
	if code, stdout, stderr := healthcheck(t, binary, run, one); code != 0 || stdout != "" {
		t.Errorf("after a new start: exit code %d, %q, %s; want 0 and nothing", code, stdout, stderr)
	}
	next.Terminate(t)
	if code := next.ExitCode(t, patience); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if left, err := filepath.Glob(filepath.Join(run, "*.sock")); err != nil || len(left) != 1 {
		t.Errorf("sockets %q, %v; want that of the exporter which is left", left, err)
	}
}

// TestHealthcheckAsksNoExporterOfAnotherAddress has an exporter whose port another one has on the next loopback address.
func TestHealthcheckAsksNoExporterOfAnotherAddress(t *testing.T) {
	binary, run := buildBinary(t), t.TempDir()
	_, one := startProtected(t, binary, run, "127.0.0.1:0")
	if code, stdout, _ := healthcheck(t, binary, run, "127.0.0.2:"+portOfString(t, one)); code != 1 {
		t.Errorf("exit code %d, %q, though nothing listens there; want 1", code, stdout)
	}
}

// TestHealthcheckSeesAStalledLoop has servers stand in for a process that listens, whose loop does nothing any more.
func TestHealthcheckSeesAStalledLoop(t *testing.T) {
	binary := buildBinary(t)
	port := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer port.Close()
	address := port.Listener.Addr().String()
	run := t.TempDir()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(run, portOfString(t, address)+".sock"))
	must(t, err)
	loop := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/-/healthy" {
			http.Error(w, "the poll loop has been stalled for 40s", http.StatusServiceUnavailable)
		}
	})}} //nolint:gosec // a test's
	loop.Start()
	defer loop.Close()
	if code, stdout, stderr := healthcheck(t, binary, run, address); code != 1 || stdout != "" ||
		!strings.Contains(stderr, "stalled for 40s") {
		t.Errorf("exit code %d, %q, %q; want 1, and what is wrong", code, stdout, stderr)
	}

	// Where anybody may write, somebody else's directory says nothing.
	shared := t.TempDir()
	if err := os.Chmod(shared, os.ModeSticky|0o777); err != nil { //nolint:gosec // that is what is tried
		t.Fatal(err)
	}
	planted := filepath.Join(shared, "run")
	must(t, os.Symlink(run, planted))
	if code, stdout, stderr := healthcheck(t, binary, planted, address); code != 0 || stdout != loopUnknown {
		t.Errorf("by a planted directory: exit code %d, %q, %q; want 0 and %q", code, stdout, stderr, loopUnknown)
	}
}

func portOfString(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	return port
}
