//go:build realservers

package collectors

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealSourceChangesWithoutLoweringACounter takes the cgroup tree away from the exporter and gives it back,
// while a container of a real engine works. No CPU time is ever lower than the one shown before.
func TestRealSourceChangesWithoutLoweringACounter(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("busy", "--", "fill", "8", "8")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	e.Docker("kill", "--signal", "USR2", name)
	tree := t.TempDir() + "/cgroup"
	restore := func() {
		if err := os.Symlink(realCgroups.Root, tree); err != nil {
			t.Fatal(err)
		}
	}
	restore()
	w := watchEngine(t, e.host, nil, func(s *Docker) {
		s.Resources, s.CgroupRoot, s.ProcRoot, s.Projects = resourcesAuto, tree, "/proc", []string{e.Name}
	})
	log := w.log()
	cpu := regexp.MustCompile(`chatstack_container_cpu_seconds_total\{container="` + regexp.QuoteMeta(name) + `"\} (\S+)`)
	last := 0.0
	var sources []string
	round := func() {
		w.read()
		select {
		case m := <-w.docker.measuring:
			w.docker.measure(t.Context(), m)
		default:
		}
		page := w.page()
		for _, source := range []origin{fromFiles, fromEngine} {
			if strings.Contains(page, `source="`+string(source)+`"} 1`) &&
				(len(sources) == 0 || sources[len(sources)-1] != string(source)) {
				sources = append(sources, string(source))
			}
		}
		if m := cpu.FindStringSubmatch(page); m != nil {
			seconds, err := strconv.ParseFloat(m[1], 64)
			if err != nil || seconds < last {
				t.Errorf("CPU time: got %s after %v: %v", m[1], last, err)
			}
			last = seconds
		}
	}
	for range 3 {
		round()
	}
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	for range maxBadRounds + 2 {
		round()
	}
	restore()
	for range minGoodRounds + 2 {
		round()
	}
	if got := strings.Join(sources, " "); got != "cgroup engine cgroup" || last == 0 {
		t.Errorf("sources: got %q with %v s of CPU time at last, want cgroup, engine and cgroup again:\n%s", got, last, log)
	}
}
