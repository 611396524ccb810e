package collectors

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup/cgrouptest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

func TestSourceChangesAfterThreeBadRoundsAndBackAfterTenGoodOnes(t *testing.T) {
	for name, tt := range map[string]struct {
		rounds string // + and - say whether the files were usable
		want   string // f and e: the source after each
	}{
		"files at once":        {"+", "f"},
		"the engine at once":   {"-", "e"},
		"two bad rounds":       {"+--+--+", "fffffff"},
		"three bad rounds":     {"+---", "fffe"},
		"nine good rounds":     {"-+++++++++-+", "eeeeeeeeeeee"},
		"ten good rounds":      {"-++++++++++", "eeeeeeeeeef"},
		"there and back again": {"+---++++++++++--+---", "fffeeeeeeeeeeffffffe"},
	} {
		var s sourceChoice
		for i, round := range tt.rounds {
			before := s
			changed := s.next(round == '+')
			if got, want := s.files, tt.want[i] == 'f'; got != want {
				t.Errorf("%s: after round %d: files: %t, want %t", name, i+1, got, want)
			}
			if want := !before.chosen || before.files != s.files; changed != want {
				t.Errorf("%s: round %d: changed: %t, want %t", name, i+1, changed, want)
			}
		}
	}
}

// autoWatch watches two containers with resources: auto.
type autoWatch struct {
	*watch
	root, proc string
	asked      *usage.Usage // what the engine says of each container
	refuses    bool         // the engine refuses to say it
	log        *bytes.Buffer
}

// autoIDs are the containers' ids, autoPIDs their processes.
var autoIDs, autoPIDs = []string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}, []int{42, 43}

func watchAuto(t *testing.T) *autoWatch {
	t.Helper()
	a := &autoWatch{root: t.TempDir(), proc: t.TempDir(), asked: &usage.Usage{
		WorkingSet:  1000,
		CPUSeconds:  2000,
		Received:    5000,
		Transmitted: 6000,
	}}
	var containers []container.InspectResponse
	for i, name := range []string{"a", "b"} {
		c := plainContainer(name, nil)
		c.ID, c.State.Pid = autoIDs[i], autoPIDs[i]
		containers = append(containers, c)
	}
	e := startEngine(t, containers...)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/stats") {
			return false
		}
		if a.refuses {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		engineAnswers(w, map[string]any{
			"read": time.Now(), "memory_stats": map[string]any{"usage": a.asked.WorkingSet},
			"cpu_stats": map[string]any{"cpu_usage": map[string]any{"total_usage": uint64(a.asked.CPUSeconds * 1e9)}},
			"networks":  map[string]any{"eth0": map[string]any{"rx_bytes": a.asked.Received, "tx_bytes": a.asked.Transmitted}},
		})
		return true
	}
	a.watch = watching(t, e, func(s *Docker) { s.Resources, s.CgroupRoot, s.ProcRoot = resourcesAuto, a.root, a.proc })
	a.log = a.watch.log()
	return a
}

// writeFiles writes the cgroup files of both containers, with a CPU time in seconds; it removes them for 0.
func (a *autoWatch) writeFiles(seconds int) {
	a.t.Helper()
	for _, id := range autoIDs {
		group := "docker/" + id
		if err := os.RemoveAll(filepath.Join(a.root, group)); err != nil {
			a.t.Fatal(err)
		}
		if seconds > 0 {
			files := cgrouptest.V2(group)
			files[group+"/cpu.stat"] = fmt.Sprintf("usage_usec %d000000\n", seconds)
			cgrouptest.WriteTree(a.t, a.root, files)
		}
	}
}

// writeNetworks writes the network numbers, in both directions the same, of both containers.
func (a *autoWatch) writeNetworks(received int) {
	a.t.Helper()
	files := map[string]string{"1/net/dev": "lo: 0 0 0 0 0 0 0 0 0 0\n"}
	for i, id := range autoIDs {
		dir := strconv.Itoa(autoPIDs[i])
		files[dir+"/cgroup"] = "0::/docker/" + id + "\n"
		files[dir+"/net/dev"] = fmt.Sprintf("eth0: %d 0 0 0 0 0 0 0 %[1]d 0\n", received)
	}
	cgrouptest.WriteTree(a.t, a.proc, files)
}

// round makes a reading and what it requests from the background. It reports whether the engine was asked.
func (a *autoWatch) round() (asked bool) {
	a.t.Helper()
	a.read()
	select {
	case m := <-a.docker.measuring:
		a.docker.measure(a.t.Context(), m)
		return true
	default:
		return false
	}
}

const autoFiles, autoEngine = `container_resources_source{docker_host="local",source="cgroup"} 1`,
	`container_resources_source{docker_host="local",source="engine"} 1`

func TestAutoFollowsTheFiles(t *testing.T) {
	a := watchAuto(t)
	a.writeFiles(3000)
	a.writeNetworks(9000)
	for range 4 {
		if a.round() {
			t.Error("the engine was asked although the files have everything")
		}
		a.wantNow("files", autoFiles, `container_cpu_seconds_total{container="a"} 3000`,
			`container_network_receive_bytes_total{container="b"} 9000`)
	}
	a.writeFiles(0)
	a.round()
	a.round()
	a.wantNow("two rounds without files", autoFiles)
	*a.asked = usage.Usage{
		WorkingSet:  1000,
		CPUSeconds:  3100,
		Received:    9100,
		Transmitted: 9100,
	}
	asked := 0
	for range 6 {
		if a.round() {
			asked++
		}
		a.wantNow("no files", autoEngine, `container_cpu_seconds_total{container="a"} 3100`,
			`container_memory_working_set_bytes{container="b"} 1000`)
	}
	if asked != 3 {
		t.Errorf("the engine was asked %d times in 6 rounds, want every other", asked)
	}
	a.writeFiles(3200)
	a.writeNetworks(9200)
	for range minGoodRounds - 1 {
		a.round()
		a.wantNow("files again, for a while", autoEngine)
	}
	a.round()
	a.wantNow("files again", autoFiles, `container_cpu_seconds_total{container="a"} 3200`)
	if got := strings.Count(a.log.String(), "container resources come from"); got != 3 {
		t.Errorf("the log names the source %d times, want 3:\n%s", got, a.log)
	}
}

// TestSourceWithALowerCounterIsNotTaken has files, then an engine, whose counters lag behind what was shown.
func TestSourceWithALowerCounterIsNotTaken(t *testing.T) {
	a := watchAuto(t)
	a.round()
	a.wantNow("the engine", autoEngine, `container_cpu_seconds_total{container="a"} 2000`)
	a.writeFiles(1999)
	a.writeNetworks(9000)
	for range 2 * minGoodRounds {
		a.round()
	}
	a.wantNow("files behind the engine", autoEngine, `container_cpu_seconds_total{container="a"} 2000`)
	a.writeFiles(2001)
	for range minGoodRounds {
		a.round()
	}
	a.wantNow("files that have caught up", autoFiles, `container_cpu_seconds_total{container="a"} 2001`)

	a.writeFiles(0)
	for range maxBadRounds + 1 {
		a.round()
	}
	if page := a.page(); !strings.Contains(page, autoEngine) || strings.Contains(page, "container_cpu_seconds_total{") {
		t.Errorf("an engine behind the files: want no counter rather than a lower one:\n%s", page)
	}
	a.wantNow("an engine behind the files", `container_memory_working_set_bytes{container="a"} 1000`)
	a.asked.CPUSeconds, a.asked.Received, a.asked.Transmitted = 2002, 9000, 9000
	a.round()
	a.round()
	a.wantNow("an engine that has caught up", `container_cpu_seconds_total{container="a"} 2002`)
}

// TestNetworksComeFromTheEngineWhereProcIsNotTheHosts has cgroup files, and a /proc of another PID namespace.
func TestNetworksComeFromTheEngineWhereProcIsNotTheHosts(t *testing.T) {
	a := watchAuto(t)
	a.writeFiles(3000)
	cgrouptest.WriteTree(t, a.proc, map[string]string{"1/net/dev": "eth0: 1 0 0 0 0 0 0 0 1 0\n", "42/cgroup": "0::/\n", "42/net/x": ""})
	if err := os.Link(filepath.Join(a.proc, "1/net/dev"), filepath.Join(a.proc, "42/net/dev")); err != nil { // one network for all
		t.Fatal(err)
	}
	asked := 0
	for range 6 {
		if a.round() {
			asked++
		}
		a.wantNow("", autoFiles, `container_cpu_seconds_total{container="a"} 3000`,
			`container_network_receive_bytes_total{container="a"} 5000`, `docker_feature_available{docker_host="local",feature="stats"} 1`)
	}
	if asked != 3 {
		t.Errorf("the engine was asked %d times in 6 rounds, want every other", asked)
	}
	if err := os.RemoveAll(a.proc + "/42"); err != nil {
		t.Fatal(err)
	}
	a.writeNetworks(5001) // below what the engine said was transmitted
	for range 2 {
		a.round()
	}
	if page := a.page(); strings.Contains(page, "container_network_") ||
		!strings.Contains(page, `container_memory_working_set_bytes{container="a"}`) {
		t.Errorf("/proc behind the engine: want no network rather than a lower number, and memory:\n%s", page)
	}
	a.writeNetworks(6001)
	for range 2 {
		a.round()
	}
	a.wantNow("the host's /proc", `container_network_receive_bytes_total{container="a"} 6001`)
	for range engineRounds {
		if a.round() {
			t.Error("the engine is still asked")
		}
	}
}

// TestOneContainerWithoutFilesIsEnough to ask the engine, but not one that has just stopped.
func TestOneContainerWithoutFilesIsEnough(t *testing.T) {
	a := watchAuto(t)
	a.writeFiles(3000)
	a.writeNetworks(9000)
	a.round()
	gone := filepath.Join(a.root, "docker", autoIDs[1])
	if err := os.Rename(gone, a.root+"/gone"); err != nil {
		t.Fatal(err)
	}
	for range maxBadRounds {
		a.round()
		a.wantNow("missing once more", autoFiles, `container_cpu_seconds_total{container="a"} 3000`)
	}
	*a.asked = usage.Usage{
		WorkingSet:  1,
		CPUSeconds:  4000,
		Received:    10000,
		Transmitted: 10000,
	}
	a.round()
	a.wantNow("missing for long", autoEngine, `container_cpu_seconds_total{container="b"} 4000`)
}

// TestLateAnswerOfTheEngineIsDropped has an engine that answers after a later round has read the files.
func TestLateAnswerOfTheEngineIsDropped(t *testing.T) {
	a := watchAuto(t)
	a.read()
	late := <-a.docker.measuring
	a.writeFiles(3000)
	a.writeNetworks(9000)
	for range minGoodRounds {
		a.read()
	}
	a.docker.measure(t.Context(), late)
	a.wantNow("after the late answer", autoFiles, `container_cpu_seconds_total{container="a"} 3000`)
}

// TestRefusedStatsDoNotDisturbTheFiles has files, but neither /proc nor an engine for network numbers.
func TestRefusedStatsDoNotDisturbTheFiles(t *testing.T) {
	a := watchAuto(t)
	a.writeFiles(3000)
	a.refuses = true
	for range 6 {
		a.round()
		a.wantNow("", autoFiles, `docker_feature_available{docker_host="local",feature="stats"} 1`)
	}
	if got := strings.Count(a.log.String(), "unavailable"); got != 0 {
		t.Errorf("the log complains %d times:\n%s", got, a.log)
	}
}
