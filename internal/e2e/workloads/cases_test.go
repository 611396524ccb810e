//go:build realservers

package workloads

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// publicCases are what operators do to their containers. Before happens before the exporter's first sight of the engine.
var publicCases = []struct {
	name          string
	before, after func(s *service)
}{
	{"rollout", func(s *service) { s.run(1, always...) }, rollout},
	{"looping", nil, crashLoop},
	{"vanished", func(s *service) { s.run(1, always...) }, vanished},
	{"required", func(s *service) { s.run(1, always...) }, required},
	{"migrate", nil, oneShot},
	{"backup", nil, nightlyRun},
	{"oneoff", func(s *service) { s.run(1, always...) }, oneOff},
	{"twin", func(s *service) { s.run(1, always...) }, twoProjects},
	{"pair", func(s *service) { s.run(1); s.run(2) }, oneOfTwo},
	{"swapped", func(s *service) { s.runPlain(1); s.runPlain(2) }, swapped},
	{"unit", nil, systemdUnit},
}

var always = []string{"--restart", "unless-stopped"}

func TestRealPublicCases(t *testing.T) {
	t.Parallel()
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		d := realstack.StartDocker(t, realstack.DockerOptions{})
		tryPublicCases(t, d.Host, d.Containers())
	})
	t.Run("podman", func(t *testing.T) {
		t.Parallel()
		d := realstack.StartPodman(t)
		tryPublicCases(t, d.Host, d.Containers())
	})
}

func tryPublicCases(t *testing.T, host string, c *realstack.Containers) {
	t.Helper()
	early := &watch{Containers: c, t: t}
	for _, one := range publicCases {
		if one.before != nil {
			one.before(early.service(t, one.name))
		}
	}
	w := startWatch(t, host, c, fmt.Sprintf("expected: [%s-required-1]", c.Name))
	t.Run("case", func(t *testing.T) {
		for _, one := range publicCases {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				one.after(w.service(t, one.name))
			})
		}
	})
}

// rollout starts the new instance before it removes the old one, as docker-rollout does: that is a deploy, and no outage.
func rollout(s *service) {
	for number := 2; number <= 3; number++ {
		s.run(number, always...)
		s.remove(fmt.Sprintf("%s-%s-%d", s.Name, s.name, number-1))
		s.is("rollout", "instances", 1, "wanted", 1, "restarts_total", 0, "recreations_total", number-1)
	}
	s.longEnough()
	s.onlyShown()
	s.crash(s.Name + "-rollout-3")
	s.is("a crash of the last instance", "instances", 1, "restarts_total", 1, "recreations_total", 2)
	s.awaitProblem("ContainerRestarts warning")
}

// crashLoop is a loop around `docker run --rm`, as systemd's Restart=always is: each new container is a restart.
func crashLoop(s *service) {
	const crashes = 8 // an engine that takes seconds makes an outage of some
	s.crashFirst(s.run(1, "--rm"))
	for range crashes - 1 {
		s.gone(s.run(1, "--rm", "--", "last", "1"))
	}
	name := s.run(1, "--rm")
	s.is("a loop of crashes", "restarts_total", crashes, "recreations_total", 0, "instances", 1)
	s.awaitProblem("ContainerRestarts critical")
	s.crash(name)
	s.awaitProblem("ContainerMissing critical") // it ended by itself, and nothing followed
}

// crashFirst crashes a container once the exporter knows it: restarts that it counts before that are no news to it.
func (s *service) crashFirst(name string) {
	s.t.Helper()
	s.is("the first run", "instances", 1)
	s.crash(name)
	s.gone(name)
}

// gone waits until a container has removed itself.
func (s *service) gone(name string) {
	s.t.Helper()
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		return s.Docker("ps", "-aq", "--filter", "name=^"+name+"$") == ""
	}) {
		s.t.Fatalf("%s has not removed itself", name)
	}
}

// vanished is a container that an updater, or somebody, has removed and not created again: a warning until it is back.
func vanished(s *service) {
	name := s.Name + "-vanished-1"
	s.remove(name)
	s.awaitProblem("ContainerMissing warning")
	s.longEnough()
	s.onlyShown("ContainerMissing warning")
	if _, ok := s.page().Value("chatstack_container_state", "container", name, "state", "missing"); !ok {
		s.t.Errorf("%s is not shown as missing\n%s", name, s.dump())
	}
	s.run(1, always...)
	s.awaitNone()
	s.is("back again", "restarts_total", 0, "recreations_total", 1, "instances", 1)
}

// required is one that the configuration names.
func required(s *service) {
	s.Docker("rm", "-f", s.Name+"-required-1")
	s.awaitProblem("ContainerMissing critical")
}

// oneShot is a container that does its work and ends.
func oneShot(s *service) {
	name := s.run(1, "--", "exit", "0", "0", "1")
	s.Await(name, realstack.ContainerIs, "exited")
	s.is("the first run", "restarts_total", 0)
	again := func() {
		before := s.Says(name, realstack.StartedAt)
		s.Docker("start", name)
		if !exportertest.Eventually(patience, pollEvery, func() bool {
			started, state, _ := strings.Cut(s.Says(name, "{{.State.StartedAt}}|{{.State.Status}}"), "|")
			return started != before && state == "exited"
		}) {
			s.t.Fatalf("%s does not end", name)
		}
	}
	again()
	s.longEnough()
	s.onlyShown()
	s.is("the second run", "restarts_total", 0)
	again()
	s.awaitProblem("OneShotFailed warning")
	s.longEnough()
	s.onlyShown("OneShotFailed warning")
}

// nightlyRun is a `docker run --rm` that ends well, or that somebody stops: nobody expects it afterwards.
func nightlyRun(s *service) {
	s.gone(s.run(1, "--rm", "--", "exit", "0"))
	name := s.run(1, "--rm")
	s.is("a run", "instances", 1)
	s.Docker("stop", "-t", "1", name)
	s.gone(name)
	s.longEnough()
	s.onlyShown()
}

// oneOff is a container of `compose run`, which is no instance of its service.
func oneOff(s *service) {
	name := s.run(7, "--label", "com.docker.compose.oneoff=True", "--", "exit", "3")
	s.Await(name, realstack.ContainerIs, "exited")
	s.longEnough()
	s.Docker("rm", name)
	s.longEnough()
	s.onlyShown()
	s.is("after a one-off", "instances", 1, "wanted", 1, "restarts_total", 0, "recreations_total", 0)
}

// twoProjects have a service of the same name.
func twoProjects(s *service) {
	other := *s
	other.workload = s.Name + "-b/twin"
	name := other.run(2, append([]string{"--label", "com.docker.compose.project=" + s.Name + "-b"}, always...)...)
	for _, one := range []*service{s, &other} {
		one.is("two projects", "instances", 1, "wanted", 1)
	}
	s.crash(name)
	other.is("a crash of one", "restarts_total", 1, "instances", 1)
	s.is("a crash of the other", "restarts_total", 0, "instances", 1)
	s.awaitProblem("ContainerRestarts warning")
	s.onlyShown("ContainerRestarts warning")
}

// oneOfTwo is about a service of two instances: it is a warning while one of them is down, and critical only without any.
func oneOfTwo(s *service) {
	first, second := s.Name+"-pair-1", s.Name+"-pair-2"
	s.is("both run", "instances", 2, "wanted", 2)
	s.crash(first)
	s.awaitProblem("ContainerDown warning")
	s.longEnough()
	s.onlyShown("ContainerDown warning")
	s.is("one runs", "instances", 1, "wanted", 2)
	s.Docker("start", first)
	s.awaitNone()
	s.crash(first)
	s.crash(second)
	s.awaitProblem("ContainerDown critical")
}

// swapped are two containers that have taken each other's name: both are still expected.
func swapped(s *service) {
	first, second := s.Name+"-swapped-1", s.Name+"-swapped-2"
	s.swap(first, second)
	s.bothExpected(first, second)
}

// runPlain starts a container that belongs to nothing, so that its name is all that it has.
func (s *service) runPlain(number int, options ...string) string {
	s.t.Helper()
	none := []string{"--label", "com.docker.compose.project=", "--label", "com.docker.compose.service="}
	return s.run(number, append(none, options...)...)
}

func (s *service) swap(a, b string) {
	s.t.Helper()
	s.Docker("rename", a, s.Name+"-third")
	s.Docker("rename", b, a)
	s.Docker("rename", s.Name+"-third", b)
}

// bothExpected fails unless the page has both containers as running and expected, and no third one.
func (s *service) bothExpected(names ...string) {
	s.t.Helper()
	var got []string
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		got = nil
		for _, m := range s.page().Samples("chatstack_container_expected") {
			name := exportertest.Label(m, "container")
			if strings.Contains(name, s.name) || strings.HasSuffix(name, "-third") {
				got = append(got, fmt.Sprintf("%s=%v", name, exportertest.ValueOf(m)))
			}
		}
		slices.Sort(got)
		return slices.Equal(got, []string{names[0] + "=1", names[1] + "=1"})
	}) {
		s.t.Fatalf("expected: got %v, want both of %v\n%s", got, names, s.dump())
	}
	s.longEnough()
	s.onlyShown()
	for _, name := range names {
		s.crash(name)
	}
	s.awaitProblem("ContainerDown critical")
}

// systemdUnit runs a new container for each run, with another name each time, as a generated unit may.
func systemdUnit(s *service) {
	s.workload = s.Name + "-unit.service"
	s.crashFirst(s.unit(0))
	for number := range 2 {
		s.gone(s.unit(number+1, "--", "last", "1"))
	}
	s.unit(3)
	s.is("a unit's restarts", "restarts_total", 3, "recreations_total", 0, "instances", 1, "wanted", 1)
	s.awaitProblem("ContainerRestarts warning")
}

// unit runs a container as a systemd unit does, with Podman's label.
func (s *service) unit(number int, options ...string) string {
	s.t.Helper()
	return s.runPlain(number, append([]string{"--rm", "--label", "PODMAN_SYSTEMD_UNIT=" + s.workload}, options...)...)
}

// TestRealNamesSwappedInAGap has the names of two containers swapped while the exporter cannot reach the engine.
func TestRealNamesSwappedInAGap(t *testing.T) {
	t.Parallel()
	d := realstack.StartDocker(t, realstack.DockerOptions{})
	c := d.Containers()
	early := (&watch{Containers: c, t: t}).service(t, "gap")
	first, second := early.runPlain(1), early.runPlain(2)
	r := realstack.StartRelay(t, d.Host)
	s := startWatch(t, r.Host, c).service(t, "gap")
	r.Refuse()
	s.swap(first, second)
	r.Serve()
	s.await("the engine to answer again", exportertest.Page.AllUp)
	s.bothExpected(first, second)
}
