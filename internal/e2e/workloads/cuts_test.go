//go:build realservers

package workloads

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

var cuts = flag.Int("workloads.cuts", 40, "number of cuts of the stream of events; a third with -short")

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// young is how long a container is, for a cut to matter.
const young = 10 * time.Second

// TestRealCutsCountNothingTwice cuts the stream of events again and again while containers are started, some of which crash. No count
// is ever higher than the engine's, and in the end each is the same.
func TestRealCutsCountNothingTwice(t *testing.T) {
	t.Parallel()
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	c := d.Containers()
	relay := realstack.StartRelay(t, d.Host)
	w := startWatch(t, relay.Host, c)
	end := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		defer close(end)
		r := rand.New(rand.NewPCG(*seed, 44)) //nolint:gosec // a failure should repeat
		for range unlessShort(*cuts) {
			time.Sleep(time.Duration(r.Int64N(int64(800 * time.Millisecond))))
			relay.Cut()
		}
	})
	t.Cleanup(cutting.Wait)
	services := map[string]*service{}
	for number := 0; ; number++ {
		s := w.service(t, fmt.Sprintf("cut%03d", number))
		services[s.name] = s
		switch number % 3 {
		case 0: // lives on
			s.run(1, always...)
		case 1: // crashes once, at any age
			s.run(1, "--restart", "on-failure:1", "--", "last", strconv.Itoa(1+number%9))
		case 2: // crashes at once
			s.run(1, "--restart", "on-failure:2", "--", "exit", "3", "3", "0")
		}
		if number >= int(young/time.Second) {
			// So that not hundreds run at once.
			old := w.service(t, fmt.Sprintf("cut%03d", number-int(young/time.Second)))
			old.sameAsEngine()
			old.Docker("rm", "-f", old.Name+"-"+old.name+"-1")
			delete(services, old.name)
		}
		select {
		case <-end:
			for _, name := range sortedKeys(services) {
				services[name].sameAsEngine()
			}
			return
		default:
			w.noneTooMany(services)
		}
	}
}

// restarts returns what the exporter has counted, and what the engine has then.
func (s *service) restarts() (counted, engine int) {
	s.t.Helper()
	value, _ := s.page().Value("chatstack_workload_restarts_total", "workload", s.workload)
	count, err := strconv.Atoi(s.Says(s.Name+"-"+s.name+"-1", "{{.RestartCount}}"))
	if err != nil {
		s.t.Fatal(err)
	}
	return int(value), count
}

func (w *watch) noneTooMany(services map[string]*service) {
	w.t.Helper()
	for _, name := range sortedKeys(services) {
		if counted, engine := services[name].restarts(); counted > engine {
			w.t.Fatalf("%s: counted %d restarts, the engine has %d\n%s", name, counted, engine, services[name].dump())
		}
	}
}

// sameAsEngine waits until the exporter has counted what the engine has.
func (s *service) sameAsEngine() {
	s.t.Helper()
	var counted, engine int
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		counted, engine = s.restarts()
		return counted == engine
	}) {
		s.t.Errorf("%s: counted %d restarts, the engine has %d\n%s", s.workload, counted, engine, s.dump())
	}
}
