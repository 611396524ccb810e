//go:build realservers

package collectors

import (
	"io/fs"
	"math"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// realCgroups is this machine's own tree.
var realCgroups = cgroup.Tree{Root: "/sys/fs/cgroup", ProcRoot: "/proc"}

// subject is a running container, as a reading knows it.
func (e *realEngine) subject(t *testing.T, name string) usage.Subject {
	t.Helper()
	fields := strings.Fields(e.Says(name, "{{.Id}} {{.State.Pid}} {{.HostConfig.Memory}}"))
	if len(fields) != 3 {
		t.Fatalf("container %s: got %q, want its id, process and limit", name, fields)
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return usage.Subject{ID: fields[0], PID: pid, Limit: limit}
}

// measure asks the engine and reads the cgroups.
func (e *realEngine) measure(t *testing.T, s usage.Subject) (asked, read usage.Usage) {
	t.Helper()
	got, err := measureStats(t.Context(), t, e.host, 1, []usage.Subject{s})
	if err != nil {
		t.Fatal(err)
	}
	files, err := realCgroups.Measure(t.Context(), []usage.Subject{s})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || len(files) != 1 {
		t.Fatalf("got %v from the engine and %v from cgroups, want one of each", got, files)
	}
	return got[s.ID], files[s.ID]
}

// shownBytes is what docker stats prints of a size, such as 300.4MiB, and how far that is from the truth at most.
func shownBytes(t *testing.T, shown string) (bytes, within float64) {
	t.Helper()
	number := strings.TrimRight(shown, "KMGTiB")
	unit, ok := map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[strings.TrimPrefix(shown, number)]
	value, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		t.Fatalf("docker stats shows %q, want a size", shown)
	}
	_, digits, _ := strings.Cut(number, ".")
	return value * unit, 0.5 * math.Pow10(-len(digits)) * unit
}

func TestRealMemoryAgreesWithDockerStats(t *testing.T) {
	e := startRealEngine(t)
	const fileCache = 200 << 20
	name := e.Run("full", "--memory", "1g", "--", "fill", "300", "200")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	s := e.subject(t, name)

	// A health check of the container uses memory for a moment, which docker stats may see alone.
	const tries = 5
	for try := 1; ; try++ {
		askedBefore, readBefore := e.measure(t, s)
		shown := strings.Fields(e.Docker("stats", "--no-stream", "--format", "{{.MemUsage}}", name))
		asked, read := e.measure(t, s)
		if len(shown) != 3 {
			t.Fatalf("docker stats shows %q, want usage / limit", shown)
		}
		want, rounding := shownBytes(t, shown[0])
		limit, limitRounding := shownBytes(t, shown[2])
		agree := true
		for how, got := range map[string][2]usage.Usage{
			"asked of the engine": {askedBefore, asked},
			"read from cgroups":   {readBefore, read},
		} {
			least, most := min(got[0].WorkingSet, got[1].WorkingSet), max(got[0].WorkingSet, got[1].WorkingSet)
			agree = agree && float64(least) <= want*1.01+rounding && float64(most) >= want*0.99-rounding
			t.Logf("%s: %d before and %d after docker stats, which shows %s", how, got[0].WorkingSet, got[1].WorkingSet, shown[0])
			for _, u := range got {
				if !u.HasMemory || math.Abs(float64(u.Limit)-limit) > limitRounding {
					t.Errorf("%s: limit: got %d, want %s", how, u.Limit, shown[2])
				}
				if u.WorkingSet < 300<<20 || u.WorkingSet > 300<<20+fileCache/2 {
					t.Errorf("%s: working set: got %d, want the 300 MiB held, without most of the file", how, u.WorkingSet)
				}
			}
		}
		if agree {
			break
		}
		if try == tries {
			t.Fatalf("the working set is not within 1 %% of what docker stats shows, %d times in a row", tries)
		}
	}
	if used := realUsage(t, s.ID); used < 300<<20+fileCache/2 {
		t.Errorf("usage: got %d, want it to show that the file is cached, or this test tests nothing", used)
	}
}

// realUsage is the memory that a group uses with all of its cache.
func realUsage(t *testing.T, id string) (used uint64) {
	t.Helper()
	//nolint:errcheck // a group may go meanwhile
	filepath.WalkDir(realCgroups.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, id) && (d.Name() == "memory.current" || d.Name() == "memory.usage_in_bytes") {
			content, _ := os.ReadFile(path)                                       //nolint:errcheck // as said above
			n, _ := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64) //nolint:errcheck // as said above
			used = max(used, n)
		}
		return nil
	})
	return used
}

func TestRealCPUAgreesWithCgroups(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("busy", "--", "fill", "8", "8")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	s := e.subject(t, name)
	_, before := e.measure(t, s)
	asked, after := e.measure(t, s)
	if !before.HasCPU || !asked.HasCPU || before.CPUSeconds <= 0 {
		t.Fatalf("CPU time is not known: %+v from cgroups, %+v from the engine", before, asked)
	}
	if asked.CPUSeconds < before.CPUSeconds || asked.CPUSeconds > after.CPUSeconds {
		t.Errorf("CPU time from the engine: got %v, want between %v before and %v after",
			asked.CPUSeconds, before.CPUSeconds, after.CPUSeconds)
	}
}

func TestRealNetworkOfTheHostIsNotTheContainers(t *testing.T) {
	e := startRealEngine(t)
	shared := e.Name + "-shared"
	e.Docker("run", "--detach", "--network", "host", "--name", shared, "--label", e.Name, e.Name)
	for _, name := range []string{e.Run("alone"), shared} {
		asked, read := e.measure(t, e.subject(t, name))
		if asked.HasNetwork || read.HasNetwork {
			t.Errorf("%s: network: got %+v from the engine, %+v from cgroups, want none", name, asked, read)
		}
	}
}

func TestRealPausedContainerIsMeasured(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("paused")
	e.Docker("pause", name)
	s := e.subject(t, name)
	asked, read := e.measure(t, s)
	e.Docker("unpause", name)
	if !read.HasMemory || !read.HasCPU || asked.CPUSeconds != read.CPUSeconds {
		t.Errorf("paused: got %+v from the engine, %+v from cgroups, want memory, and the same CPU time", asked, read)
	}
}

func TestRealContainerRemovedInTheMiddleIsNoError(t *testing.T) {
	e := startRealEngine(t)
	stays, goes, ends, stopped := e.Run("stays"), e.Run("goes"), e.Run("ends"), e.Run("stopped")
	subjects := []usage.Subject{e.subject(t, stays), e.subject(t, goes), e.subject(t, ends), e.subject(t, stopped)}
	lasting := subjects[0].ID
	e.Docker("stop", stopped)

	// The engine takes up to a second for an answer, so what happens once it is asked happens in the middle.
	var asked atomic.Int64
	underway := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if asked.Add(1) == int64(len(subjects)) {
			close(underway)
		}
	}})
	type outcome struct {
		got map[string]usage.Usage
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		got, err := measureStats(ctx, t, e.host, len(subjects), subjects)
		done <- outcome{got, err}
	}()
	select {
	case <-underway:
	case o := <-done:
		t.Fatalf("the engine was not asked about all: %v, error %v", o.got, o.err)
	}
	e.Docker("rm", "-f", goes)
	e.Docker("kill", ends)
	middle := <-done
	after, errAfter := measureStats(t.Context(), t, e.host, len(subjects), subjects)
	files, errFiles := realCgroups.Measure(t.Context(), subjects)
	for how, o := range map[string]outcome{"in the middle": middle, "afterwards": {after, errAfter}, "from cgroups": {files, errFiles}} {
		if _, ok := o.got[lasting]; !ok || o.err != nil {
			t.Errorf("%s: got %v, error %v; want the container that stays, and none", how, o.got, o.err)
		}
		if how != "in the middle" && len(o.got) != 1 {
			t.Errorf("%s: got %d containers, want the one that stays", how, len(o.got))
		}
	}
}
