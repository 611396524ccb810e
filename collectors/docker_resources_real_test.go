//go:build realservers

package collectors

import (
	"math"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// realCgroups is this machine's own tree.
var realCgroups = cgroupTree{root: "/sys/fs/cgroup", procRoot: "/proc"}

// subject is a running container, as a reading knows it.
func (e *realEngine) subject(t *testing.T, name string) resourceSubject {
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
	return resourceSubject{id: fields[0], pid: pid, limit: limit}
}

// measure asks the engine and reads the cgroups.
func (e *realEngine) measure(t *testing.T, s resourceSubject) (asked, read containerResources) {
	t.Helper()
	got, err := statsSession(t, e.host, 1).resources(t.Context(), []resourceSubject{s}, 1)
	if err != nil {
		t.Fatal(err)
	}
	files, err := realCgroups.resources(t.Context(), []resourceSubject{s})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || len(files) != 1 {
		t.Fatalf("got %v from the engine and %v from cgroups, want one of each", got, files)
	}
	return got[s.id], files[s.id]
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

	// What lies around the moment of docker stats holds at that moment.
	for _, when := range []string{"before", "after"} {
		asked, read := e.measure(t, s)
		shown := strings.Fields(e.Docker("stats", "--no-stream", "--format", "{{.MemUsage}}", name))
		if when == "after" {
			asked, read = e.measure(t, s)
		}
		if len(shown) != 3 {
			t.Fatalf("docker stats shows %q, want usage / limit", shown)
		}
		want, rounding := shownBytes(t, shown[0])
		for how, got := range map[string]containerResources{"asked of the engine": asked, "read from cgroups": read} {
			if off := math.Abs(float64(got.workingSet) - want); !got.hasMemory || off > 0.01*want+rounding {
				t.Errorf("%s, %s docker stats: working set: got %d, want within 1%% of %s", how, when, got.workingSet, shown[0])
			}
			t.Logf("%s, %s docker stats: %d, it shows %s: %+.3f %%", how, when, got.workingSet, shown[0], 100*(float64(got.workingSet)/want-1))
			if limit, rounding := shownBytes(t, shown[2]); math.Abs(float64(got.limit)-limit) > rounding {
				t.Errorf("%s: limit: got %d, want %s", how, got.limit, shown[2])
			}
			if got.workingSet < 300<<20 || got.workingSet > 300<<20+fileCache/2 {
				t.Errorf("%s: working set: got %d, want the 300 MiB held, without most of the file", how, got.workingSet)
			}
		}
	}
	if used := realUsage(t, s.id); used < 300<<20+fileCache/2 {
		t.Errorf("usage: got %d, want it to show that the file is cached, or this test tests nothing", used)
	}
}

// realUsage is the memory that a group uses with all of its cache.
func realUsage(t *testing.T, id string) uint64 {
	t.Helper()
	l, err := realCgroups.layout()
	if err != nil {
		t.Fatal(err)
	}
	path := (&cgroupFinder{layout: &l}).group(t.Context(), id)
	used, known, err := new(kernelFiles).number(&l.group(path).usage, "")
	if err != nil || !known {
		t.Fatalf("usage of container %s: known %t, error %v", id, known, err)
	}
	return used
}

// TestRealGroupFilesFollowTheContainer keeps the files of a group open while its container ends, is started again under the
// same path, and is removed.
func TestRealGroupFilesFollowTheContainer(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("again", "--restart", "no", "--", "fill", "8", "8")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	id := e.subject(t, name).id
	kept := realCgroups
	kept.groups = map[string]*cgroupGroup{}
	read := func(tree cgroupTree) (containerResources, bool) {
		t.Helper()
		got, err := tree.resources(t.Context(), []resourceSubject{{id: id}})
		if err != nil {
			t.Fatal(err)
		}
		r, there := got[id]
		return r, there
	}
	for _, step := range [][]string{nil, nil, {"restart", "-t", "1", name}, {"kill", name}, {"start", name}, {"rm", "-f", name}} {
		if step != nil {
			e.Docker(step...)
		}
		runs := len(step) == 0 || step[0] != "kill" && step[0] != "rm"
		if runs {
			e.Await(name, realstack.HealthStatus, container.Healthy)
		} else {
			e.awaitNoGroup(t, id)
		}
		before, _ := read(realCgroups)
		got, there := read(kept)
		after, _ := read(realCgroups)
		g := kept.groups[id]
		if there != runs || (g != nil) != runs || got.cpuSeconds < before.cpuSeconds || got.cpuSeconds > after.cpuSeconds {
			t.Errorf("docker %v: there: %t, remembered: %t, %.9f s of CPU; want %t, between %.9f and %.9f s", step, there, g != nil, got.cpuSeconds, runs,
				before.cpuSeconds, after.cpuSeconds)
		}
		if g != nil && (g.usage.open == nil || g.stat.open == nil || g.cpu.open == nil) {
			t.Errorf("docker %v: the group's files are not open", step)
		}
	}
}

// awaitNoGroup waits until a container has no group any more.
func (e *realEngine) awaitNoGroup(t *testing.T, id string) {
	t.Helper()
	l, err := realCgroups.layout()
	if err != nil {
		t.Fatal(err)
	}
	for range 6000 {
		if (&cgroupFinder{layout: &l}).group(t.Context(), id) == "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("container %s has a group still", id)
}

func TestRealCPUAgreesWithCgroups(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("busy", "--", "fill", "8", "8")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	s := e.subject(t, name)
	_, before := e.measure(t, s)
	asked, after := e.measure(t, s)
	if !before.hasCPU || !asked.hasCPU || before.cpuSeconds <= 0 {
		t.Fatalf("CPU time is not known: %+v from cgroups, %+v from the engine", before, asked)
	}
	if asked.cpuSeconds < before.cpuSeconds || asked.cpuSeconds > after.cpuSeconds {
		t.Errorf("CPU time from the engine: got %v, want between %v before and %v after", asked.cpuSeconds, before.cpuSeconds, after.cpuSeconds)
	}
}

func TestRealNetworkOfTheHostIsNotTheContainers(t *testing.T) {
	e := startRealEngine(t)
	shared := e.Name + "-shared"
	e.Docker("run", "--detach", "--network", "host", "--name", shared, "--label", e.Name, e.Name)
	for _, name := range []string{e.Run("alone"), shared} {
		asked, read := e.measure(t, e.subject(t, name))
		if asked.hasNetwork || read.hasNetwork {
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
	if !read.hasMemory || !read.hasCPU || asked.cpuSeconds != read.cpuSeconds {
		t.Errorf("paused: got %+v from the engine, %+v from cgroups, want memory, and the same CPU time", asked, read)
	}
}

func TestRealContainerRemovedInTheMiddleIsNoError(t *testing.T) {
	e := startRealEngine(t)
	stays, goes, ends, stopped := e.Run("stays"), e.Run("goes"), e.Run("ends"), e.Run("stopped")
	subjects := []resourceSubject{e.subject(t, stays), e.subject(t, goes), e.subject(t, ends), e.subject(t, stopped)}
	lasting := subjects[0].id
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
		got map[string]containerResources
		err error
	}
	done := make(chan outcome, 1)
	session := statsSession(t, e.host, len(subjects))
	go func() {
		got, err := session.resources(ctx, subjects, len(subjects))
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
	after, errAfter := session.resources(t.Context(), subjects, len(subjects))
	files, errFiles := realCgroups.resources(t.Context(), subjects)
	for how, o := range map[string]outcome{"in the middle": middle, "afterwards": {after, errAfter}, "from cgroups": {files, errFiles}} {
		if _, ok := o.got[lasting]; !ok || o.err != nil {
			t.Errorf("%s: got %v, error %v; want the container that stays, and none", how, o.got, o.err)
		}
		if how != "in the middle" && len(o.got) != 1 {
			t.Errorf("%s: got %d containers, want the one that stays", how, len(o.got))
		}
	}
}
