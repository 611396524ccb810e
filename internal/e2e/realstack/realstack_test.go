//go:build realservers

package realstack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// patience bounds the wait for what must come.
const patience = time.Minute

// eventually reports whether a condition holds in time.
func eventually(condition func() bool) bool {
	return exportertest.Eventually(patience, 10*time.Millisecond, condition)
}

func TestForwardedAddressReplacesTheClients(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for forwarded, want := range map[string]string{"127.0.0.9": "", "192.0.2.1": "status 403"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", forwarded)
		_, err = exportertest.Answer(http.DefaultTransport.RoundTrip, req)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("metrics forwarded for %s: %v, want %q", forwarded, err, want)
		}
	}
}

func TestStatusFollowsTheComponent(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for wantMessage, end := range map[string]func(*realstack.Component) error{
		"Disconnected":               (*realstack.Component).Drop,
		"Disconnected: stream error": (*realstack.Component).Close,
	} {
		c, err := realstack.DialComponent(t.Context(), p.ComponentAddr, realstack.ComponentHost, realstack.ComponentSecret)
		if err != nil {
			t.Fatal(err)
		}
		becomes(t, p, "info", "Connected")
		if err := end(c); err != nil {
			t.Errorf("end component: %v", err)
		}
		becomes(t, p, "warn", wantMessage)
	}
}

// A server that is starting accepts connections, and ends them before it says anything.
func TestComponentAsksAgainWhileItsServerStarts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // nothing is lost
	go func() {
		for silent := 2; ; silent-- {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			if silent <= 0 {
				//nolint:errcheck // the other end says so
				io.WriteString(c, "<stream:stream xmlns:stream='http://etherx.jabber.org/streams' id='1'><handshake/>")
				//nolint:errcheck // until the other end closes
				io.Copy(io.Discard, c)
			}
			c.Close() //nolint:errcheck // nothing is lost
		}
	}()
	c, err := realstack.DialComponent(t.Context(), l.Addr().String(), realstack.ComponentHost, realstack.ComponentSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Drop(); err != nil {
		t.Error(err)
	}
}

// becomes waits until the status page says so of the component.
func becomes(t *testing.T, p *realstack.Prosody, wantType, wantMessage string) {
	t.Helper()
	var body []byte
	if !eventually(func() bool {
		var err error
		if body, err = exportertest.Fetch(t.Context(), patience, p.URL()+"/status"); err != nil {
			t.Fatal(err)
		}
		var hosts map[string]map[string]struct{ Type, Message string }
		if err := json.Unmarshal(body, &hosts); err != nil {
			t.Fatalf("read status page: %v\n%s", err, body)
		}
		got := hosts[realstack.ComponentHost]["component"]
		return got.Type == wantType && got.Message == wantMessage
	}) {
		t.Errorf("want the component as %s, %s:\n%s", wantType, wantMessage, body)
	}
}

// orphanEnv makes TestServersEndWithTheirTest the test that is killed, and names its directory.
const orphanEnv = "REALSTACK_ORPHAN"

func TestServersEndWithTheirTest(t *testing.T) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		t.Setenv("TMPDIR", dir)
		p := realstack.StartProsody(t, realstack.ProsodyOptions{})
		n := realstack.StartNginx(t, p.URL())
		p.Hang()
		fmt.Fprintf(os.Stderr, "%s %s %d %d\n", p.HTTPAddr, n.Addr, p.PID(), n.PID())
		select {} // until it is killed
	}
	// The servers' user must be able to enter it, which TB.TempDir does not allow.
	dir, err := os.MkdirTemp("", "realstack-orphan-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersEndWithTheirTest$")
	cmd.Env = append(os.Environ(), orphanEnv+"="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var (
		prosody, nginx string
		pids           [2]int
	)
	if _, err := fmt.Fscan(stderr, &prosody, &nginx, &pids[0], &pids[1]); err != nil {
		t.Errorf("read addresses: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the test was not killed")
	}
	for _, addr := range []string{prosody, nginx} {
		if !eventually(func() bool {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			if err == nil {
				conn.Close() //nolint:errcheck // it was only to see who listens
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		}) {
			t.Errorf("%s still listens", addr)
		}
	}
	// A server that listens no more still writes to its directory, which is removed next.
	for _, pid := range pids {
		if !eventually(func() bool { return ended(pid) }) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// ended reports whether a process that may be nobody's child has ended.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || bytes.Contains(status, []byte("\nState:\tZ"))
}

func TestDockerLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(*realstack.Docker){
		"stopped": func(d *realstack.Docker) { d.Stop() },
		"killed":  func(d *realstack.Docker) { d.Kill() },
		"hung":    func(d *realstack.Docker) { d.Hang(); d.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
			containers := d.Containers()
			container := containers.Says(containers.Run("idle"), "{{.State.Pid}}")
			dir := filepath.Dir(strings.TrimPrefix(d.Host, "unix://"))
			if got := commandsNaming(t, dir); len(got) < 3 {
				t.Errorf("with a container run %q, want the engine, containerd and a shim", got)
			}
			end(d)
			if got := commandsNaming(t, dir); len(got) > 0 {
				t.Errorf("left behind: %q", got)
			}
			if pid, err := strconv.Atoi(container); err != nil || !ended(pid) {
				t.Errorf("process %s of the container is left behind: %v", container, err)
			}
			mounts, err := os.ReadFile("/proc/self/mounts")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(mounts), dir) {
				t.Errorf("still mounted below %s:\n%s", dir, mounts)
			}
		})
	}
}

// commandsNaming are the command lines of processes that hold a text, this test's own aside.
func commandsNaming(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), text) && filepath.Dir(file) != "/proc/"+strconv.Itoa(os.Getpid()) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}
