//go:build chaos

package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// wallClock is a process's own wall clock, which can be stepped while its monotonic clock goes on, as when somebody sets
// the machine's: the kernel has no such thing for one process. A Go program reads the clock through a function that the
// kernel maps into it (vdso(7)), and that function is replaced before the program's first instruction.
type wallClock struct {
	pid    int
	offset uint64 // where the process keeps what is added to the seconds
}

// clockGettime asks the kernel, and adds the word that follows to the seconds of CLOCK_REALTIME, which is clock 0.
var clockGettime = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jnz the end
	0x48, 0x8b, 0x0d, 0x06, 0, 0, 0, // mov rcx, [the word]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // so that the word is aligned
	0, 0, 0, 0, 0, 0, 0, 0,
}

// startWithClock starts a command that is stopped before its first instruction, and gives it a clock of its own.
func startWithClock(cmd *exec.Cmd) (*wallClock, error) {
	// Whoever traces is a thread, not a process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil {
		return nil, fmt.Errorf("wait for the first stop: %w", err)
	}
	clock, err := replaceClock(pid)
	if detachErr := syscall.PtraceDetach(pid); err == nil {
		err = detachErr
	}
	return clock, err
}

func replaceClock(pid int) (*wallClock, error) {
	base, err := vdsoBase(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer memory.Close() //nolint:errcheck // what was written is written
	image := make([]byte, 8192)
	n, err := memory.ReadAt(image, int64(base)) //nolint:gosec // an address below the kernel's
	if n < 4096 {
		return nil, fmt.Errorf("read the vdso: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image[:n]))
	if err != nil {
		return nil, fmt.Errorf("read the vdso: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the vdso: %w", err)
	}
	at := map[string]elf.Symbol{}
	for _, s := range symbols {
		at[s.Name] = s
	}
	target, room := at["__vdso_clock_gettime"], at["__vdso_gettimeofday"]
	if target.Value == 0 {
		return nil, fmt.Errorf("the vdso has no clock_gettime")
	}
	if target.Size >= uint64(len(clockGettime)) {
		room = target
	} else {
		// There is more room in what Go programs do not call, and a jump to there is short.
		jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(room.Value-target.Value-5)) //nolint:gosec // relative
		if room.Size < uint64(len(clockGettime)) || target.Size < uint64(len(jump)) {
			return nil, fmt.Errorf("the vdso has no room: %d and %d bytes", target.Size, room.Size)
		}
		if _, err := memory.WriteAt(jump, int64(base+target.Value)); err != nil { //nolint:gosec // see above
			return nil, err
		}
	}
	if room.Value%8 != 0 {
		return nil, fmt.Errorf("the vdso's function is at %#x, which is not aligned", room.Value)
	}
	start := base + room.Value
	if _, err := memory.WriteAt(clockGettime, int64(start)); err != nil { //nolint:gosec // see above
		return nil, err
	}
	return &wallClock{pid, start + uint64(len(clockGettime)) - 8}, nil
}

// vdsoBase is where the kernel has put its functions.
func vdsoBase(pid int) (uint64, error) {
	const sysinfoEHDR = 33 // AT_SYSINFO_EHDR
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == sysinfoEHDR {
			return binary.LittleEndian.Uint64(vector[8:]), nil
		}
	}
	return 0, fmt.Errorf("the process has no vdso")
}

// step sets the process's wall clock to the machine's and so much more.
func (c *wallClock) step(d time.Duration) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close() //nolint:errcheck // what was written is written
	word := binary.LittleEndian.AppendUint64(nil, uint64(int64(d/time.Second)))
	_, err = memory.WriteAt(word, int64(c.offset)) //nolint:gosec // an address below the kernel's
	return err
}

// TestSteppedClockStopsNothing steps the wall clock of the binary as it is shipped, forward and back, while it polls.
func TestSteppedClockStopsNothing(t *testing.T) {
	t.Parallel()
	stack := simstacktest.Start(t, simstack.Options{})
	var clock *wallClock
	e := startBy(t, command(t, "", canaryEvery(3*time.Second, stack, filepath.Join(t.TempDir(), "state.json")), stack.Environ()),
		func(cmd *exec.Cmd) (err error) {
			clock, err = startWithClock(cmd)
			return err
		})
	e.wait(t, "every target up", page.AllUp)
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 0} {
		before, begun := e.scrape(t), time.Now()
		if err := clock.step(offset); err != nil {
			t.Fatal(err)
		}
		// Three readings, and a beat of the loop, which comes every ten seconds.
		p := e.wait(t, fmt.Sprintf("%s: readings go on", offset), func(p page) bool {
			beat := p.Sum("chatstack_poll_last_completed_timestamp_seconds")
			return p.AllUp() && read(p, before, 3) && nearNow(beat, offset, time.Since(begun))
		})
		for target := range p.Verdicts() {
			// A machine that is busy makes readings late; a step must not.
			const failures = "chatstack_probe_failures_total"
			late := p.Sum(failures, "target", target, "reason", "timeout") - before.Sum(failures, "target", target, "reason", "timeout")
			if n := p.Sum("chatstack_probe_failures_total", "target", target) - before.Sum("chatstack_probe_failures_total",
				"target", target); n > late || late > 1 {
				t.Errorf("%s: %s failed %v times, %v of them late", offset, target, n, late)
			}
			last := p.Sum("chatstack_probe_last_success_timestamp_seconds", "target", target)
			if !nearNow(last, offset, time.Since(begun)) {
				t.Errorf("%s: %s was last read at %v: the clock was not stepped, or the time is wrong", offset, target, last)
			}
			const attempts = "chatstack_probe_attempts_total"
			n := p.Sum(attempts, "target", target) - before.Sum(attempts, "target", target)
			if most := time.Since(begun).Seconds()/3 + 3; n > most {
				t.Errorf("%s: %s was asked %v times, want %v at most: a burst", offset, target, n, most)
			}
		}
		for _, m := range p["chatstack_container_restarts_total"].GetMetric() {
			if m.GetCounter().GetValue() > 0 {
				t.Errorf("%s: a restart is counted that was none: %v", offset, m)
			}
		}
		for _, path := range []string{"/", "/api/v1/status", "/-/healthy", "/-/ready"} {
			if _, err := exportertest.Fetch(t.Context(), patience, e.url+path); err != nil {
				t.Errorf("%s: %v", offset, err)
			}
		}
	}
	e.stop(t)
	if left := stack.Plants(); len(left) > 0 {
		t.Errorf("plants are left in the store: %v", left)
	}
}

// read reports whether every target was read n times since an earlier page.
func read(p, before page, n float64) bool {
	const attempts = "chatstack_probe_attempts_total"
	for target := range p.Verdicts() {
		if p.Sum(attempts, "target", target) < before.Sum(attempts, "target", target)+n {
			return false
		}
	}
	return true
}

// nearNow reports whether a stamp was made since a step, a while ago, of a clock that is off by offset.
func nearNow(stamp float64, offset, ago time.Duration) bool {
	now := float64(time.Now().Add(offset).UnixMilli()) / 1000
	return math.Abs(now-stamp) <= ago.Seconds()+15
}

// TestSteppedClockMovesNoDuration steps the wall clock while a target and a container are down, and kills the exporter: neither
// before nor after the kill is a duration an hour longer, or begun anew.
func TestSteppedClockMovesNoDuration(t *testing.T) {
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			t.Parallel()
			engine := simstacktest.StartEngine(t, nil)
			irc := engine.Add(simstack.ContainerSpec{Name: "irc", Image: "chat/irc:1", Restart: "always"})
			var down atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if down.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			t.Cleanup(server.Close)
			config := "poll: {interval: 1s, timeout: 1s}\nstate_file: " + filepath.Join(t.TempDir(), "state.json") + "\ntargets:\n" +
				"  - {kind: docker, host: '" + engine.Host() + "', resources: none}\n" +
				"  - {kind: http, name: web, url: '" + server.URL + "'}\n"
			lasted := func(p page) (target, container float64) {
				return p.Sum("chatstack_target_down_seconds"), p.Sum("chatstack_container_down_seconds")
			}
			var clock *wallClock
			e := startBy(t, command(t, "", config, nil), func(cmd *exec.Cmd) (err error) {
				if clock, err = startWithClock(cmd); err != nil {
					return err
				}
				return clock.step(wrong)
			})
			e.wait(t, "every target up", page.AllUp)
			down.Store(true)
			irc.Stop()
			begun := time.Now()
			check := func(p page, least float64) {
				t.Helper()
				target, container := lasted(p)
				if most := time.Since(begun).Seconds() + 2; target < least || container < least || target > most || container > most {
					t.Errorf("down for %v s and %v s, want %v to %v", target, container, least, most)
				}
			}
			e.wait(t, "both are down", func(p page) bool { target, container := lasted(p); return min(target, container) > 1 })
			if err := clock.step(0); err != nil {
				t.Fatal(err)
			}
			last := e.wait(t, "both are down for longer",
				func(p page) bool { target, container := lasted(p); return min(target, container) > 3 })
			check(last, 3)
			if err := e.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-e.Ended
			e = start(t, command(t, "", config, nil))
			check(e.scrape(t), 3)
			check(e.wait(t, "both were read", func(p page) bool { return p.Verdict("web") == "http_status" && p.Up("docker") }), 3)
			e.stop(t)
		})
	}
}
