package collectors

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup/cgrouptest"
)

// sourceWatch watches two containers, whose numbers the engine and the files below root and proc have.
type sourceWatch struct {
	*watch
	*engine
	host, root, proc string
}

// sourceIDs are the containers' ids, sourcePIDs their processes.
var sourceIDs, sourcePIDs = []string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}, []int{42, 43}

// watchSource has the engine say that each container used so many seconds, and received and sent as many bytes.
func watchSource(t *testing.T, resources string, says *int) *sourceWatch {
	t.Helper()
	var containers []container.InspectResponse
	for i, name := range []string{"a", "b"} {
		c := plainContainer(name, nil)
		c.ID, c.State.Pid = sourceIDs[i], sourcePIDs[i]
		containers = append(containers, c)
	}
	e := startEngine(t, containers...)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/stats") {
			return false
		}
		engineAnswers(w, map[string]any{
			"read": time.Now(), "memory_stats": map[string]any{"usage": 1000},
			"cpu_stats": map[string]any{"cpu_usage": map[string]any{"total_usage": *says * 1e9}},
			"networks":  map[string]any{"eth0": map[string]any{"rx_bytes": *says, "tx_bytes": *says}},
		})
		return true
	}
	s := &sourceWatch{
		engine: e,
		host:   e.host,
		root:   t.TempDir(),
		proc:   t.TempDir(),
	}
	s.start(t, resources, &memory{})
	return s
}

// start replaces the collector, as a start of the exporter does, or a reload with other settings.
func (s *sourceWatch) start(t *testing.T, resources string, kept State, change ...func(*Docker)) {
	t.Helper()
	s.watch = watchEngine(t, s.host, kept, append(change, func(d *Docker) {
		d.Resources, d.CgroupRoot, d.ProcRoot = resources, s.root, s.proc
	})...)
}

// writeFiles writes the CPU time of containers in seconds.
func (s *sourceWatch) writeFiles(seconds int, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		group := "docker/" + id
		files := cgrouptest.V2(group)
		files[group+"/cpu.stat"] = fmt.Sprintf("usage_usec %d000000\n", seconds)
		cgrouptest.WriteTree(s.t, s.root, files)
	}
}

// writeNetworks writes the bytes that each container has received and sent.
func (s *sourceWatch) writeNetworks(bytes int) {
	s.t.Helper()
	files := map[string]string{"1/net/dev": "lo: 0 0 0 0 0 0 0 0 0 0\n"}
	for i, id := range sourceIDs {
		dir := strconv.Itoa(sourcePIDs[i])
		files[dir+"/cgroup"] = "0::/docker/" + id + "\n"
		files[dir+"/net/dev"] = fmt.Sprintf("eth0: %d 0 0 0 0 0 0 0 %[1]d 0\n", bytes)
	}
	cgrouptest.WriteTree(s.t, s.proc, files)
}

// remove removes what is in the directories.
func (s *sourceWatch) remove(dirs ...string) {
	s.t.Helper()
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			s.t.Fatal(err)
		}
	}
}

// round makes a probe and what it requests from the background. It reports whether the engine was asked.
func (s *sourceWatch) round() (b *Batch, asked bool) {
	s.t.Helper()
	b = s.read()
	select {
	case m := <-s.docker.measuring:
		s.docker.measure(s.t.Context(), m)
		return b, true
	default:
		return b, false
	}
}

// wantSource wants rounds from one source, with this CPU time of a container, and the engine asked so often.
func (s *sourceWatch) wantSource(when, source, name string, seconds int) {
	s.t.Helper()
	const rounds = 4
	asked := 0
	for range rounds {
		if _, ok := s.round(); ok {
			asked++
		}
		s.wantNow(when, `container_resources_source{docker_host="local",source="`+source+`"} 1`,
			fmt.Sprintf(`container_cpu_seconds_total{container="%s"} %d`, name, seconds))
	}
	if want := map[string]int{resourcesEngine: rounds / engineRounds}[source]; asked != want {
		s.t.Errorf("%s: the engine was asked in %d of %d rounds, want %d", when, asked, rounds, want)
	}
}

func TestAutoChoosesOnceAndAgainAfterAReload(t *testing.T) {
	says := 2000
	const fromFiles = "come from cgroup files in "
	for name, tt := range map[string]struct {
		files    []string // the containers that have some
		networks bool
		why      string
	}{
		"all files":                      {sourceIDs, true, fromFiles},
		"one container has just stopped": {sourceIDs[:1], true, fromFiles},
		"no files":                       {nil, false, "mount the host's /sys/fs/cgroup at /host/sys/fs/cgroup"},
		"another host's files":           {[]string{strings.Repeat("c3", 32)}, true, "none of 2 running containers is found there"},
		"no /proc":                       {sourceIDs, false, "mount the host's /proc at /host/proc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := watchSource(t, resourcesAuto, &says)
			log := s.log()
			if s.writeFiles(3000, tt.files...); tt.networks {
				s.writeNetworks(1)
			}
			source, first, second, choices := resourcesCgroup, 3000, 4000, 1
			if tt.why != fromFiles {
				source, first, second, choices = resourcesEngine, says, says, 2
			}
			s.wantSource("at first", source, "a", first)
			b, _ := s.round()
			wantNote(t, b, "memory, CPU and network numbers come from", tt.why)
			if len(b.Impairments) > 0 {
				t.Errorf("works partly: %q", b.Impairments)
			}
			s.writeFiles(4000, sourceIDs...)
			s.writeNetworks(2)
			s.wantSource("with all files", source, "a", second)
			s.docker.Reloaded()
			s.wantSource("after a reload", resourcesCgroup, "a", 4000)
			if got := strings.Count(log.String(), "container resources come from"); got != choices {
				t.Errorf("the log names a source %d times, want %d:\n%s", got, choices, log)
			}
		})
	}
}

func TestAutoWaitsForARunningContainer(t *testing.T) {
	says := 1
	s := watchSource(t, resourcesAuto, &says)
	s.docker.fleet.Rules().Exclude = []string{"*"}
	b, asked := s.round()
	if asked || strings.Contains(s.page(), "resources_source") {
		t.Errorf("a source without containers; notes %q:\n%s", b.Notes, s.page())
	}
	s.docker.fleet.Rules().Exclude = nil
	s.writeFiles(3000, sourceIDs...)
	s.writeNetworks(1)
	s.wantSource("with containers", resourcesCgroup, "b", 3000)
}

// TestCgroupWithoutItsFilesWorksPartly takes away the mounts that resources: cgroup needs. The engine replaces nothing.
func TestCgroupWithoutItsFilesWorksPartly(t *testing.T) {
	says := 2000
	s := watchSource(t, resourcesCgroup, &says)
	s.writeFiles(3000, sourceIDs...)
	s.writeNetworks(9000)
	s.wantSource("with all files", resourcesCgroup, "a", 3000)
	if b, _ := s.round(); len(b.Impairments) > 0 || !s.docker.settings.HasCgroup(t.Context(), sourceIDs) {
		t.Errorf("with all files: works partly: %q", b.Impairments)
	}
	const network = "chatstack_container_network_receive_bytes_total{"
	if !strings.Contains(s.page(), network) {
		t.Errorf("with all files: no network numbers:\n%s", s.page())
	}
	s.remove(filepath.Join(s.proc, "1"), filepath.Join(s.proc, "42"), filepath.Join(s.proc, "43"))
	s.wantSource("without /proc", resourcesCgroup, "a", 3000)
	b, _ := s.round()
	wantPartly(t, b, "network numbers of containers are missing", "mount the host's /proc at /host/proc, read-only")
	if strings.Contains(s.page(), network) {
		t.Errorf("without /proc: network numbers:\n%s", s.page())
	}
	s.remove(s.root)
	if s.docker.settings.HasCgroup(t.Context(), sourceIDs) {
		t.Error("without the tree: init would write resources: cgroup")
	}
	b, asked := s.round()
	wantPartly(t, b, "memory, CPU or network numbers of containers are missing", "mount the host's /sys/fs/cgroup at /host/sys/fs/cgroup")
	if page := s.page(); asked || strings.Contains(page, "container_cpu_seconds_total{") ||
		!strings.Contains(page, `container_state{container="a",state="running"} 1`) {
		t.Errorf("without the tree: the engine was asked: %t, and the page has\n%s", asked, page)
	}
}

// TestCountersGoOnOverRestartsAndChangesOfTheSource has containers that work, and sources that all say how much.
func TestCountersGoOnOverRestartsAndChangesOfTheSource(t *testing.T) {
	worked := 1000
	s := watchSource(t, resourcesEngine, &worked)
	s.goOn(t, 3*len(sourceIDs), func() {
		worked++
		s.writeFiles(worked, sourceIDs...)
		s.writeNetworks(worked)
	})
	if got := s.counters()[`chatstack_container_cpu_seconds_total{container="a"}`]; got != float64(worked) {
		t.Errorf("got %v s of CPU time, want %d", got, worked)
	}
}

// goOn restarts the exporter with one source after another, and wants so many counters that never fall.
func (s *sourceWatch) goOn(t *testing.T, counters int, work func(), change ...func(*Docker)) {
	t.Helper()
	kept, last := &memory{}, map[string]float64{}
	for i, source := range []string{resourcesEngine, resourcesEngine, resourcesCgroup, resourcesCgroup, resourcesAuto, resourcesEngine} {
		s.start(t, source, kept, change...)
		for round := range 3 {
			work()
			s.round()
			now := s.counters()
			neverFall(t, fmt.Sprintf("source %d, %s, round %d", i, source, round), last, now)
			if last = now; len(now) != counters {
				t.Errorf("source %d, %s, round %d: got %v, want %d counters", i, source, round, now, counters)
			}
		}
		want := strings.Replace(source, resourcesAuto, resourcesCgroup, 1)
		s.wantNow("the source", `container_resources_source{docker_host="local",source="`+want+`"} 1`)
	}
}

// counters returns the CPU and network counters of the page.
func (s *sourceWatch) counters() map[string]float64 {
	s.t.Helper()
	return countersOn(s.t, s.page(), "cpu_seconds_total", "network_receive_bytes_total", "network_transmit_bytes_total")
}

// countersOn returns the containers' counters of these names, by series.
func countersOn(t *testing.T, page string, names ...string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(page) {
		rest, ours := strings.CutPrefix(line, "chatstack_container_")
		name, _, _ := strings.Cut(rest, "{")
		if !ours || !slices.Contains(names, name) {
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		found[series+"}"] = number
	}
	return found
}

func neverFall(t *testing.T, when string, before, now map[string]float64) {
	t.Helper()
	for counter, was := range before {
		if is, known := now[counter]; known && is < was {
			t.Errorf("%s: %s is %v, and was %v", when, counter, is, was)
		}
	}
}

// TestLateAnswerOfTheEngineIsDropped has an engine that answers after a reload has chosen the files, which a later round has read.
func TestLateAnswerOfTheEngineIsDropped(t *testing.T) {
	says := 2000
	s := watchSource(t, resourcesAuto, &says)
	s.read()
	late := <-s.docker.measuring
	s.writeFiles(3000, sourceIDs...)
	s.writeNetworks(9000)
	s.docker.Reloaded()
	s.read()
	s.docker.measure(t.Context(), late)
	s.wantSource("after the late answer", resourcesCgroup, "a", 3000)
}

// TestMeasurementOfBeforeAnOutageIsNotShownAfterIt has a measurement end only after a reading has failed.
func TestMeasurementOfBeforeAnOutageIsNotShownAfterIt(t *testing.T) {
	says := 2000
	s := watchSource(t, resourcesEngine, &says)
	for _, outage := range []bool{false, true} {
		s.start(t, resourcesEngine, &memory{})
		s.read()
		late, stats := <-s.docker.measuring, s.answer
		if s.on(listPath, engineForbids); outage && s.try() == nil {
			t.Fatal("the engine refuses, and the reading has not failed")
		}
		s.answer = stats
		s.docker.measure(t.Context(), late)
		s.read()
		if shown := strings.Contains(s.page(), "memory_working_set_bytes{"); shown == outage {
			t.Errorf("after an outage: %t, what was measured before is shown: %t", outage, shown)
		}
	}
}

// TestRunThatTheListShowsIsTheOneMeasured starts a container again and measures it before the list shows the new run.
func TestRunThatTheListShowsIsTheOneMeasured(t *testing.T) {
	says := 1
	s := watchSource(t, resourcesCgroup, &says)
	s.writeFiles(3000, sourceIDs...)
	for _, change := range []string{"", "2026-02-01T00:00:00Z", "ended", "ended", "2026-03-01T00:00:00Z"} { // when a starts anew
		switch a := s.find(sourceIDs[0]); change {
		case "":
		case "ended":
			a.State = &container.State{Status: container.StateExited, StartedAt: a.State.StartedAt}
		default:
			a.State = &container.State{
				Status:    container.StateRunning,
				Running:   true,
				StartedAt: change,
				Pid:       sourcePIDs[0],
			}
		}
		s.read()
		if a, b := s.showsMemory("a"), s.showsMemory("b"); a != (change != "ended") || !b {
			t.Errorf("%q: a is measured: %t, b: %t", change, a, b)
		}
	}
}

// showsMemory reports whether the page has a container's memory.
func (s *sourceWatch) showsMemory(name string) bool {
	s.t.Helper()
	return strings.Contains(s.page(), "\nchatstack_container_memory_working_set_bytes{container=\""+name+"\"}")
}

// TestFileThatHangsCostsNoReading has reading a file wait for ever while the engine answers.
func TestFileThatHangsCostsNoReading(t *testing.T) {
	t.Parallel()
	says := 1
	s := watchSource(t, resourcesCgroup, &says)
	s.writeFiles(3000, sourceIDs...)
	s.read()
	pipe := filepath.Join(s.root, "docker", sourceIDs[0], "memory.current")
	if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"now", "since the last reading"} {
		s.readFor(time.Second) // it would not return before the file does
		if s.showsMemory("a") || !strings.Contains(s.page(), `chatstack_docker_feature_available{docker_host="local",feature="stats"} 0`) {
			t.Errorf("a file hangs %s, and what containers use is on the page:\n%s", when, s.page())
		}
	}
	if err := os.WriteFile(pipe, []byte("1000\n"), 0o600); err != nil { // to whoever waits for it
		t.Fatal(err)
	}
	s.docker.readingFiles <- struct{}{} // once nobody reads them
	<-s.docker.readingFiles
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	s.writeFiles(3000, sourceIDs...)
	if s.read(); !s.showsMemory("a") {
		t.Errorf("the file hangs no more, and what the container uses is not on the page:\n%s", s.page())
	}
}
