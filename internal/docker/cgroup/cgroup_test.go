package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup/cgrouptest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Ids of containers, whose groups are found by them.
var (
	cgroupID      = strings.Repeat("a1", 32)
	otherCgroupID = strings.Repeat("b2", 32)
)

var cgroupResources = usage.Usage{
	WorkingSet: 524288000 - 209715200,
	HasMemory:  true,
	CPUSeconds: 93.25,
	HasCPU:     true,
}

// without is the files but for those whose path contains a text.
func without(files map[string]string, text string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.Contains(name, text) })
	return files
}

// moved are the files with a directory renamed.
func moved(files map[string]string, from, to string) map[string]string {
	renamed := map[string]string{}
	for name, content := range files {
		renamed[strings.Replace(name, from, to, 1)] = content
	}
	return renamed
}

// treeOf is a tree with these files.
func treeOf(t *testing.T, all ...map[string]string) *Tree {
	t.Helper()
	tree := &Tree{Root: t.TempDir()}
	for _, files := range all {
		cgrouptest.WriteTree(t, tree.Root, files)
	}
	return tree
}

// wantMeasured wants cgroupResources of these containers, and nothing else.
func wantMeasured(t *testing.T, what string, got map[string]usage.Usage, ids ...string) {
	t.Helper()
	want := map[string]usage.Usage{}
	for _, id := range ids {
		want[id] = cgroupResources
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestCgroupsGiveWhatTheEngineGives(t *testing.T) {
	cgroupfs, systemd := "docker/"+cgroupID, "system.slice/docker-"+cgroupID+".scope"
	rootless := "user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + cgroupID + ".scope"
	noMemory, noCPU := cgroupResources, cgroupResources
	noMemory.HasMemory, noMemory.WorkingSet = false, 0
	noCPU.HasCPU, noCPU.CPUSeconds = false, 0
	podman := cgrouptest.V2("machine.slice/libpod-" + cgroupID + ".scope")
	for file := range cgrouptest.V2("machine.slice/libpod-conmon-" + cgroupID + ".scope") {
		podman[file] = "usage_usec 1\n"
	}
	try := func(name string, files map[string]string, want usage.Usage) {
		t.Helper()
		got, err := treeOf(t, files).Measure(t.Context(), subjectsOf(cgroupID))
		if diff := cmp.Diff(map[string]usage.Usage{cgroupID: want}, got); diff != "" || err != nil {
			t.Errorf("%s: %v, resources (-want +got):\n%s", name, err, diff)
		}
	}
	for _, group := range []string{
		cgroupfs, systemd, rootless, "docker/" + otherCgroupID + "/" + cgroupfs, // an engine inside a container
		"user.slice/user-1000.slice/user@1000.service/docker.service/docker/" + cgroupID,
		"machine.slice/libpod-" + cgroupID + ".scope", "chat.slice/docker-" + cgroupID + ".scope",
	} {
		try("v1, "+group, cgrouptest.V1(group), cgroupResources)
		try("v2, "+group, cgrouptest.V2(group), cgroupResources)
	}
	try("v1, controllers share a mount", moved(cgrouptest.V1(systemd), "cpuacct/", "cpu,cpuacct/"), cgroupResources)
	try("v1, controllers in other order", moved(cgrouptest.V1(systemd), "cpuacct/", "cpuacct,cpu/"), cgroupResources)
	try("v1, memory is not mounted", without(cgrouptest.V1(cgroupfs), "memory"), noMemory)
	try("v1, cpuacct is not mounted", without(cgrouptest.V1(cgroupfs), "cpuacct"), noCPU)
	try("v2, Podman beside its monitor", podman, cgroupResources)
	try("v2, memory is not delegated", without(cgrouptest.V2(rootless), "memory"), noMemory)
}

func TestLimitIsTheOneThatTheContainerWasGiven(t *testing.T) {
	files := cgrouptest.V2("docker/" + cgroupID)
	try := func(files map[string]string, limit int64, want uint64) {
		t.Helper()
		got, err := treeOf(t, files).Measure(t.Context(), []usage.Subject{{ID: cgroupID, Limit: limit}})
		if got := got[cgroupID].Limit; got != want || err != nil {
			t.Errorf("got the limit %d, %v, want %d", got, err, want)
		}
	}
	try(files, 0, 0)
	try(files, 1<<29, 1<<29)
	try(files, -1, 0)
	try(without(files, "memory"), 1<<29, 0) // nobody keeps it
}

// TestTreeIsSearchedNowAndThen has a container appear in an unusual place, alone and then beside one that is known there.
func TestTreeIsSearchedNowAndThen(t *testing.T) {
	tree := treeOf(t, cgrouptest.V2("docker/"+otherCgroupID))
	place := func(id string) string {
		return "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope"
	}
	measure := func(ids ...string) int {
		t.Helper()
		got, err := tree.Measure(t.Context(), subjectsOf(ids...))
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	measure(otherCgroupID, cgroupID) // searches in vain
	cgrouptest.WriteTree(t, tree.Root, cgrouptest.V2(place(cgroupID)))
	for i := 1; i < searchEvery; i++ {
		if got := measure(otherCgroupID, cgroupID); got != 1 {
			t.Fatalf("found after %d measurements, want after %d", i, searchEvery)
		}
	}
	if got := measure(otherCgroupID, cgroupID); got != 2 {
		t.Errorf("not found after %d measurements", searchEvery)
	}
	fourth := strings.Repeat("d4", 32)
	cgrouptest.WriteTree(t, tree.Root, cgrouptest.V2("chat.slice/docker-"+fourth+".scope"))
	if got := measure(otherCgroupID, cgroupID, fourth); got != 3 {
		t.Errorf("a new container in a new place was not found at once")
	}
	third := strings.Repeat("c3", 32)
	cgrouptest.WriteTree(t, tree.Root, cgrouptest.V2(place(third)))
	if got := measure(otherCgroupID, cgroupID, third); got != 3 {
		t.Errorf("a container beside a known one was not found at once")
	}
}

func TestGroupThatIsGoneIsNoFailure(t *testing.T) {
	for controller, files := range map[string]map[string]string{
		"memory": cgrouptest.V1("docker/" + otherCgroupID), "": cgrouptest.V2("docker/" + otherCgroupID),
	} {
		tree := treeOf(t, files)
		measure := func(what string, want []string, ids ...string) {
			t.Helper()
			got, err := tree.Measure(t.Context(), subjectsOf(ids...))
			if wantMeasured(t, what, got, want...); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		measure("one", []string{otherCgroupID}, cgroupID, otherCgroupID, "../"+otherCgroupID, "../docker/"+otherCgroupID, "")
		measure("the only one", nil, cgroupID)
		// Its directory is there a moment longer than its files.
		if err := os.MkdirAll(filepath.Join(tree.Root, controller, "docker", cgroupID), 0o750); err != nil {
			t.Fatal(err)
		}
		measure("an empty directory", nil, cgroupID)
	}
}

func TestMountThatIsNotTheHostsIsAFailure(t *testing.T) {
	one, two := subjectsOf(cgroupID), subjectsOf(cgroupID, otherCgroupID)
	for name, tt := range map[string]struct {
		files    map[string]string
		subjects []usage.Subject
	}{
		"no cgroups at all":     {map[string]string{"readme": "hello"}, one},
		"v1, a container's own": {without(cgrouptest.V1("other"), "release_agent"), one},
		"v2, a container's own": {map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.type": "domain\n"}, one},
		"another host's":        {cgrouptest.V2("docker/" + strings.Repeat("0f", 32)), two},
	} {
		got, err := treeOf(t, tt.files).Measure(t.Context(), tt.subjects)
		wantFailure(t, err, failure.NotFound, "mount the host's /sys/fs/cgroup")
		wantMeasured(t, name, got)
	}
	if got, err := treeOf(t).Measure(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("without containers: got %v, error %v; want nothing and none", got, err)
	}
}

func TestDamagedCgroupFileIsMalformed(t *testing.T) {
	for _, file := range []string{"memory.current", "memory.stat", "cpu.stat"} {
		tree := treeOf(t, cgrouptest.V2("docker/"+cgroupID), cgrouptest.V2("docker/"+otherCgroupID),
			map[string]string{"docker/" + otherCgroupID + "/" + file: "inactive_file many\nusage_usec many\n"})
		got, err := tree.Measure(t.Context(), subjectsOf(otherCgroupID, cgroupID))
		wantFailure(t, err, failure.Malformed, "another service may listen there")
		wantMeasured(t, file, got, cgroupID)
	}
}

func TestReadingCgroupsEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := treeOf(t, cgrouptest.V2("docker/"+cgroupID)).Measure(ctx, subjectsOf(cgroupID))
	if !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("got %v, error %v; want nothing, and the context's", got, err)
	}
}

// TestRememberedGroupIsFoundWhereItMoves keeps where groups are from one reading to the next, and has an engine start a
// container anew with another parent.
func TestRememberedGroupIsFoundWhereItMoves(t *testing.T) {
	tree := Tree{Root: t.TempDir()}
	read := func(files map[string]string, want map[string]string) {
		t.Helper()
		if err := os.RemoveAll(tree.Root); err != nil {
			t.Fatal(err)
		}
		cgrouptest.WriteTree(t, tree.Root, cgrouptest.V2("docker/"+otherCgroupID))
		cgrouptest.WriteTree(t, tree.Root, files)
		got, err := tree.Measure(t.Context(), subjectsOf(cgroupID, otherCgroupID))
		if err != nil {
			t.Fatal(err)
		}
		if _, known := got[cgroupID]; known != (files != nil) || known && got[cgroupID].WorkingSet != cgroupResources.WorkingSet {
			t.Errorf("got %v", got)
		}
		if diff := cmp.Diff(want, tree.paths); diff != "" {
			t.Errorf("remembered groups (-want +got):\n%s", diff)
		}
	}
	other := filepath.Join("docker", otherCgroupID)
	first, second := filepath.Join("docker", cgroupID), filepath.Join("chat.slice", "docker-"+cgroupID+".scope")
	for range 2 {
		read(cgrouptest.V2(filepath.ToSlash(first)), map[string]string{cgroupID: first, otherCgroupID: other})
	}
	read(cgrouptest.V2(filepath.ToSlash(second)), map[string]string{cgroupID: second, otherCgroupID: other})
	read(nil, map[string]string{otherCgroupID: other})
}

// TestHalfOfARememberedGroupIsNotEnough has one controller's group stay behind when a container's groups move.
func TestHalfOfARememberedGroupIsNotEnough(t *testing.T) {
	for leaves, absent := range map[string]string{"memory": "no controller", "cpuacct": "memory"} {
		tree := treeOf(t, without(cgrouptest.V1("docker/"+cgroupID), absent))
		for _, moved := range []bool{false, true} {
			if moved {
				if err := os.RemoveAll(filepath.Join(tree.Root, leaves, "docker")); err != nil {
					t.Fatal(err)
				}
				cgrouptest.WriteTree(t, tree.Root, without(cgrouptest.V1("chat.slice/docker-"+cgroupID+".scope"), absent))
			}
			got, err := tree.Measure(t.Context(), subjectsOf(cgroupID))
			if r := got[cgroupID]; err != nil || !r.HasCPU || r.HasMemory != (leaves == "memory") {
				t.Errorf("%s leaves, moved: %t: got %+v, error %v; want all of it", leaves, moved, r, err)
			}
		}
	}
}

// TestFileIsReadToItsEnd reads files that are shorter and longer than what is asked for at once, one after another.
func TestFileIsReadToItsEnd(t *testing.T) {
	files := kernelFiles{make([]byte, kernelFileSize)}
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, kernelFileSize - 1, kernelFileSize, 5*kernelFileSize + 1, 2} {
		want := strings.Repeat("x", size)
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, there, err := files.read(path); string(got) != want || !there || err != nil {
			t.Errorf("a file of %d bytes: got %d, there: %t, error %v", size, len(got), there, err)
		}
	}
	if _, there, err := files.read(path + "/none"); there || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file below a file: there: %t, error %v", there, err)
	}
	if got, there, err := files.read(path + "s"); got != nil || there || err != nil {
		t.Errorf("no file: got %q, there: %t, error %v", got, there, err)
	}
}

func TestFileOfWhatVanishesWhileItIsReadIsGone(t *testing.T) {
	for err, want := range map[syscall.Errno]bool{
		syscall.ENOENT: true, syscall.ENODEV: true, syscall.ESRCH: true, syscall.EACCES: false, syscall.EIO: false, syscall.ENOTDIR: false,
	} {
		if got := isGone(&fs.PathError{Op: "read", Path: "cpu.stat", Err: err}); got != want {
			t.Errorf("%v: gone: got %t, want %t", err, got, want)
		}
	}
}

// TestMeasuringLeavesNoDescriptor measures many groups, some of which vanish, and one that has a file that cannot be read.
func TestMeasuringLeavesNoDescriptor(t *testing.T) {
	tree := Tree{Root: t.TempDir(), ProcRoot: t.TempDir()}
	cgrouptest.WriteTree(t, tree.ProcRoot,
		map[string]string{"1/net/dev": netDevHeader, "77/cgroup": "4:memory:/docker/" + cgroupID + "\n", "77/net/dev": netDevHeader})
	var subjects []usage.Subject
	for i := range 40 {
		id := fmt.Sprintf("%064x", i)
		subjects = append(subjects, usage.Subject{ID: id, PID: 77})
		cgrouptest.WriteTree(t, tree.Root, cgrouptest.V2("docker/"+id))
	}
	measure := func(want int) {
		t.Helper()
		if got, err := tree.Measure(t.Context(), subjects); len(got) != want {
			t.Errorf("got %d groups, error %v; want %d", len(got), err, want)
		}
	}
	measure(40) // what the runtime opens once
	before := openDescriptors(t)
	measure(40)
	for _, s := range subjects[:20] {
		if err := os.RemoveAll(filepath.Join(tree.Root, "docker", s.ID)); err != nil {
			t.Fatal(err)
		}
	}
	measure(20)
	unreadable := filepath.Join(tree.Root, "docker", subjects[20].ID, "cpu.stat")
	if err := errors.Join(os.Remove(unreadable), os.Mkdir(unreadable, 0o750)); err != nil {
		t.Fatal(err)
	}
	measure(19)
	if after := openDescriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

// openDescriptors counts the open ones of this process; 0 where there is no /proc.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}

const netDevHeader = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
`

func TestNetworkIsTheSumOfInterfaces(t *testing.T) {
	const lo = "    lo: 9000       9    0    0    0     0          0         0     9000       9    0    0    0     0       0          0\n"
	const eth0 = "  eth0: 1200       9    0    0    0     0          0         0      340       4    0    0    0     0       0          0\n"
	const eth1 = "  eth1:34 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n" // wide numbers leave no space behind the name
	network := func(received, transmitted uint64) usage.Usage {
		r := cgroupResources
		r.Received, r.Transmitted, r.HasNetwork = received, transmitted, true
		return r
	}
	try := func(name string, pid int, dev string, want usage.Usage) {
		t.Helper()
		tree := treeOf(t, cgrouptest.V2("docker/"+cgroupID))
		tree.ProcRoot = t.TempDir()
		cgrouptest.WriteTree(t, tree.ProcRoot, map[string]string{
			"1/net/dev": netDevHeader + lo + eth0,
			"77/cgroup": "4:memory:/docker/" + cgroupID + "\n", "77/net/dev": dev,
			"76/cgroup": "4:memory:/\n0::/\n", "76/net/dev": dev,
			"78/cgroup":  "4:memory:/docker/" + cgroupID + "\n",
			"80/cgroup":  "4:memory:/docker/" + otherCgroupID + "\n",
			"80/net/dev": netDevHeader + lo + eth0,
		})
		shared := func(pid string) string { return filepath.Join(tree.ProcRoot, pid, "net", "dev") }
		if err := errors.Join(os.Mkdir(filepath.Dir(shared("78")), 0o750), os.Link(shared("1"), shared("78"))); err != nil {
			t.Fatal(err)
		}
		got, err := tree.Measure(t.Context(), []usage.Subject{{ID: cgroupID, PID: pid}})
		var network *NetworkError
		if absent := pid >= 79; errors.As(err, &network) != absent || !absent && err != nil {
			t.Errorf("%s: error %v, want one about the network: %t", name, err, absent)
		}
		if diff := cmp.Diff(map[string]usage.Usage{cgroupID: want}, got); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", name, diff)
		}
	}
	try("one", 77, netDevHeader+lo+eth0, network(1200, 340))
	try("two", 77, netDevHeader+lo+eth0+eth1, network(1234, 340))
	try("and a VPN's", 77, netDevHeader+lo+eth0+"  tun0: 7000 9 0 0 0 0 0 0 5000 9 0 0 0 0 0 0\n", network(1200, 340))
	try("our own container", 76, netDevHeader+lo+eth0, network(1200, 340))
	try("none", 77, netDevHeader+lo, cgroupResources)
	try("the host's", 78, "", cgroupResources)
	try("the process ended", 79, "", cgroupResources)
	try("another's process", 80, "", cgroupResources)
	try("no process is told", 0, "", cgroupResources)
}

func TestNetworksThatCannotBeReadAreSaid(t *testing.T) {
	dev := func(line string) map[string]string {
		return map[string]string{"1/net/dev": netDevHeader, "77/cgroup": "4:memory:/docker/" + cgroupID + "\n", "77/net/dev": line}
	}
	for name, tt := range map[string]struct {
		proc   map[string]string
		reason failure.Reason
		hint   string
	}{
		"no /proc":            {nil, failure.Refused, "mount the host's /proc"},
		"another host's":      {map[string]string{"1/net/dev": netDevHeader}, failure.NotFound, "mount the host's /proc"},
		"a line is cut":       {dev("eth0: 1 2\n"), failure.Malformed, "another service may listen there"},
		"a number is no such": {dev("eth0: x 2 3 4 5 6 7 8 9\n"), failure.Malformed, "another service may listen there"},
	} {
		tree := treeOf(t, cgrouptest.V2("docker/"+cgroupID), cgrouptest.V2("docker/"+otherCgroupID))
		tree.ProcRoot = t.TempDir()
		cgrouptest.WriteTree(t, tree.ProcRoot, tt.proc)
		got, err := tree.Measure(t.Context(), []usage.Subject{{ID: cgroupID, PID: 77}, {ID: otherCgroupID, PID: 78}})
		wantFailure(t, err, tt.reason, tt.hint)
		wantMeasured(t, name, got, cgroupID, otherCgroupID)
	}
}

func subjectsOf(ids ...string) []usage.Subject {
	var subjects []usage.Subject
	for _, id := range ids {
		subjects = append(subjects, usage.Subject{ID: id})
	}
	return subjects
}

func wantFailure(t *testing.T, err error, reason failure.Reason, hint string) {
	t.Helper()
	if err == nil || failure.ReasonOf(err) != reason || !strings.Contains(failure.HintOf(err), hint) {
		t.Errorf("got %v, want reason %s and a hint with %q", err, reason, hint)
	}
}
