//go:build realservers

package realstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

const (
	// readyWithin bounds the wait for a server's first answer; an engine on a busy machine takes longest.
	readyWithin = 60 * time.Second
	// stopWithin bounds an orderly stop. Then the process is killed. An engine gives its containers 15 s.
	stopWithin = 30 * time.Second
	// pollEvery is the pause between two checks of a condition.
	pollEvery = 10 * time.Millisecond
)

// Process is the process of one real server, with its children, and the directory it lives in. Both end with the test.
// Its methods belong to the test's goroutine.
type Process struct {
	tb   testing.TB
	name string
	dir  string
	argv []string
	// environ has additional variables, NAME=VALUE.
	environ []string
	// credential is the user the server runs as; nil is the test's own.
	credential *syscall.Credential
	// ready returns nil if the server answers a request.
	ready func(ctx context.Context) error
	// ended cleans up after the server has ended; it may be nil.
	ended func()
	// given is a server that was running before the test and outlives it. The test must not stop it.
	given bool

	running *running
}

// running is a process that was started. It may have ended.
type running struct {
	pid  int
	done chan struct{}
	err  error // readable when done is closed
}

// newProcess creates the directory of a server, without starting it. With drop, root runs the server as nobody.
func newProcess(tb testing.TB, name string, drop bool) *Process {
	tb.Helper()
	// Only the owner may enter the parent directory of TB.TempDir.
	dir, err := os.MkdirTemp("", "realstack-"+name+"-") //nolint:usetesting // see above
	if err != nil {
		tb.Fatalf("make directory for %s: %v", name, err)
	}
	p := &Process{tb: tb, name: name, dir: dir}
	tb.Cleanup(p.close)
	if drop && os.Getuid() == 0 {
		p.credential = nobody(tb)
		p.own("")
	}
	return p
}

// nobody is the user that root runs servers as, since some of them refuse to be root.
func nobody(tb testing.TB) *syscall.Credential {
	tb.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		tb.Fatalf("look up the user that servers run as: %v", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		tb.Fatalf("read uid of nobody: %v", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		tb.Fatalf("read gid of nobody: %v", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// path returns a path in the server's directory.
func (p *Process) path(name string) string { return filepath.Join(p.dir, name) }

// own gives a path in the directory to the user that the server runs as.
func (p *Process) own(name string) {
	p.tb.Helper()
	if p.credential == nil {
		return
	}
	if err := os.Chown(p.path(name), int(p.credential.Uid), int(p.credential.Gid)); err != nil {
		p.tb.Fatalf("give %s its directory: %v", p.name, err)
	}
}

// mkdir makes a directory that belongs to the server.
func (p *Process) mkdir(name string) {
	p.tb.Helper()
	if err := os.Mkdir(p.path(name), 0o700); err != nil {
		p.tb.Fatalf("make directory for %s: %v", p.name, err)
	}
	p.own(name)
}

// write writes a file that belongs to the server.
func (p *Process) write(name string, content []byte) {
	p.tb.Helper()
	if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
		p.tb.Fatalf("write file for %s: %v", p.name, err)
	}
	p.own(name)
}

// configure writes a file from a template in conf/.
func (p *Process) configure(name string, values any) {
	p.tb.Helper()
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name+".tmpl", values); err != nil {
		p.tb.Fatalf("configure %s: %v", p.name, err)
	}
	p.write(name, out.Bytes())
}

// command returns a command that runs as the server's user in its directory. It outlives the test's context, so that the cleanup can
// stop it in order.
func (p *Process) command(argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(p.tb.Context()), argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=" + searchPath, "HOME=" + p.dir, "TMPDIR=" + p.dir, "LC_ALL=C.UTF-8"}, p.environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential, Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

// File writes a file into the process' directory and returns its path.
func (p *Process) File(name, content string) string {
	p.tb.Helper()
	p.write(name, []byte(content))
	return p.path(name)
}

// Start starts the server unless it runs, always on the same port, and returns when it answers.
func (p *Process) Start() {
	p.tb.Helper()
	p.refuseGiven("start")
	if p.alive() {
		return
	}
	output, err := os.OpenFile(p.path("output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.tb.Fatalf("start %s: %v", p.name, err)
	}
	defer output.Close() //nolint:errcheck // the process has its own descriptor
	cmd := p.command(p.argv...)
	cmd.Stdout, cmd.Stderr = output, output
	r := &running{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the process ends, so the thread stays alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			r.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			r.err = cmd.Wait()
			close(r.done)
		}
	}()
	if err := <-started; err != nil {
		p.tb.Fatalf("start %s: %v", p.name, err)
	}
	p.running = r
	p.awaitReady()
}

func (p *Process) awaitReady() {
	p.tb.Helper()
	var last error
	ready := eventually(readyWithin, func() bool {
		if !p.alive() {
			p.tb.Fatalf("start %s: ended at once (%v)\n%s", p.name, p.running.err, p.Log())
		}
		ctx, cancel := context.WithTimeout(p.tb.Context(), time.Second)
		defer cancel()
		last = p.ready(ctx)
		return last == nil
	})
	if !ready {
		p.tb.Fatalf("start %s: no answer within %v: %v\n%s", p.name, readyWithin, last, p.Log())
	}
}

// Stop ends the server in order, even a hung one, and returns when nothing listens.
func (p *Process) Stop() {
	p.tb.Helper()
	p.end(syscall.SIGTERM)
}

// Kill ends the server without a cleanup.
func (p *Process) Kill() {
	p.tb.Helper()
	p.end(syscall.SIGKILL)
}

// Hang pauses the server's processes. The kernel accepts connections, but nothing answers.
func (p *Process) Hang() {
	p.tb.Helper()
	p.refuseGiven("hang")
	if !p.alive() {
		p.tb.Fatalf("hang %s: it does not run", p.name)
	}
	p.signal(syscall.SIGSTOP)
	hung := eventually(stopWithin, func() bool {
		for _, state := range p.states() {
			if state != 'T' {
				return false
			}
		}
		return true
	})
	if !hung {
		p.tb.Fatalf("hang %s: still running after %v", p.name, stopWithin)
	}
}

// Resume continues a hung server.
func (p *Process) Resume() {
	p.tb.Helper()
	p.refuseGiven("resume")
	if !p.alive() {
		p.tb.Fatalf("resume %s: it does not run", p.name)
	}
	p.signal(syscall.SIGCONT)
}

// Flicker hangs and resumes the server in turn, for these times, until stop is closed. It may run concurrently with the test.
func (p *Process) Flicker(hung, well time.Duration, stop <-chan struct{}) {
	p.tb.Helper()
	defer p.signal(syscall.SIGCONT)
	for {
		p.signal(syscall.SIGSTOP)
		if stopped(stop, hung) {
			return
		}
		p.signal(syscall.SIGCONT)
		if stopped(stop, well) {
			return
		}
	}
}

func stopped(stop <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-stop:
		return true
	case <-timer.C:
		return false
	}
}

// PID returns the process id of the server, 0 if it is stopped.
func (p *Process) PID() int {
	if !p.alive() {
		return 0
	}
	return p.running.pid
}

// LogFile returns the path of the log that the server's configuration may name.
func (p *Process) LogFile() string { return p.path("server.log") }

// Log returns what the server has printed and logged since its first start.
func (p *Process) Log() string {
	var log strings.Builder
	for _, name := range []string{"output.log", "server.log"} {
		content, err := os.ReadFile(p.path(name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(&log, "read log of %s: %v\n", p.name, err)
		}
		log.Write(content)
	}
	return log.String()
}

func (p *Process) refuseGiven(verb string) {
	p.tb.Helper()
	if p.given {
		p.tb.Fatalf("%s %s: it belongs to somebody else", verb, p.name)
	}
}

func (p *Process) alive() bool {
	if p.running == nil {
		return false
	}
	select {
	case <-p.running.done:
		return false
	default:
		return true
	}
}

// signal signals the server and its children, which are a process group.
func (p *Process) signal(s syscall.Signal) {
	p.tb.Helper()
	if err := syscall.Kill(-p.running.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.tb.Errorf("send %v to %s: %v", s, p.name, err)
	}
}

func (p *Process) end(s syscall.Signal) {
	p.tb.Helper()
	p.refuseGiven("end")
	if p.running == nil {
		return
	}
	// After its leader was reaped, the group's number may belong to others, so its processes are checked first.
	gone := func() bool { return !p.alive() && len(p.states()) == 0 }
	if !gone() {
		p.signal(s)
		p.signal(syscall.SIGCONT)
	}
	if !eventually(stopWithin, gone) {
		p.tb.Logf("stop %s: not ended %v after %v, killed", p.name, stopWithin, s)
		p.signal(syscall.SIGKILL)
		if !eventually(stopWithin, gone) {
			p.tb.Errorf("stop %s: process %d survives SIGKILL", p.name, p.running.pid)
		}
	}
	if p.ended != nil {
		p.ended()
	}
	p.running = nil
}

// removeIfThere removes what a killed server left behind.
func (p *Process) removeIfThere(name string) {
	p.tb.Helper()
	if err := os.Remove(p.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.tb.Errorf("clear up after %s: %v", p.name, err)
	}
}

func (p *Process) close() {
	p.end(syscall.SIGTERM)
	if p.tb.Failed() {
		p.tb.Logf("log of %s:\n%s", p.name, p.Log())
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.tb.Errorf("remove directory of %s: %v", p.name, err)
	}
}

// states returns the states of the live processes in the server's group, as proc(5) spells them.
func (p *Process) states() map[int]byte {
	states := map[int]byte{}
	for _, s := range processes() {
		if s.group == p.running.pid && s.state != 'Z' && s.state != 'X' {
			states[s.pid] = s.state
		}
	}
	return states
}

// procStat has the fields of /proc/PID/stat that are used here.
type procStat struct {
	pid, parent, group int
	state              byte
}

// processes returns all processes of the machine.
func processes() []procStat {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // only a bad pattern fails
	}
	var all []procStat
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		// The name is in parentheses and may contain parentheses too.
		pid, _, _ := bytes.Cut(content, []byte(" "))
		fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
		if len(fields) < 3 {
			continue
		}
		all = append(all, procStat{
			pid:    number(pid),
			state:  fields[0][0],
			parent: number(fields[1]),
			group:  number(fields[2]),
		})
	}
	return all
}

func number(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0
	}
	return n
}

// eventually reports whether a condition held within the given time.
func eventually(within time.Duration, condition func() bool) bool {
	return exportertest.Eventually(within, pollEvery, condition)
}

// searchPath has the directories of servers and their helpers. A user's path often lacks the directories of daemons.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Installed returns the path of a server's program, or "". The directory that CHATSTACK_TEST_SERVERS names is the first to have it.
func Installed(program string) string {
	directories := strings.Split(searchPath, ":")
	if other := os.Getenv("CHATSTACK_TEST_SERVERS"); other != "" {
		directories = slices.Insert(directories, 0, other)
	}
	for _, dir := range directories {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// binary returns the path of a server's program. The test fails if its Debian package is missing.
func binary(tb testing.TB, program, debianPackage string) string {
	tb.Helper()
	path := Installed(program)
	if path == "" {
		tb.Fatalf("%s is not installed: apt-get install --no-install-recommends %s", program, debianPackage)
	}
	return path
}

// freePort returns a free port of 127.0.0.1. It is none that the kernel gives to connections and other listeners, since the server binds it
// only a moment later.
func freePort(tb testing.TB) int {
	tb.Helper()
	for {
		port := 20000 + rand.IntN(12768) //nolint:gosec // any port will do
		l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address(port))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			tb.Fatalf("find a free port: %v", err)
		}
		l.Close() //nolint:errcheck,gosec // it only held the port
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return port
		}
	}
}

// givenPorts has the ports that freePort has returned. A server may need several before it listens on the first.
var givenPorts sync.Map

// address returns a port of loopback as host:port.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// accepts connects to an address once.
func accepts(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
