//go:build soak

package soak

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

var (
	soakTime = flag.Duration("soak.time", 3*time.Minute, "how long to run")
	soakSeed = flag.Uint64("soak.seed", 0, "what the random numbers begin with; 0 takes another one each time")
)

const (
	// stormTime is how long faults and clients come and go before everything is measured in the calm.
	stormTime = 6 * time.Second
	// patience bounds how long after the end of all faults every target has to be up, on a busy machine too. One with new settings that
	// is read each minute waits for a whole one.
	patience = 90 * time.Second
	// least is how many rounds a verdict takes.
	least = 6
)

func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number does
	}
	t.Logf("seed %d: -soak.seed=%d repeats the order of what happens, though not its moments", seed, seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it is to be repeatable
	stack := simstacktest.Start(t, simstack.Options{Slow: 3 * time.Second, CrashEvery: 500 * time.Millisecond})
	config := writeConfiguration(t, stack)
	e := startExporter(t, config.path, stack.Environ())
	first, _ := e.calm(t, 0)
	clients, faults := &crowd{url: e.url}, &weather{stack: stack}
	begun := time.Now()
	var rounds []round
	for time.Since(begun) < *soakTime {
		r := storm(t, e, random, clients, faults, config)
		config.write(t, config.good)
		e.reload(t)
		var last page
		last, r.recovery = e.calm(t, math.Inf(1)) // what is owed takes its time
		if t.Failed() {
			break
		}
		r.switched, r.readings = float64(faults.switched), last.Sum("chatstack_probe_attempts_total")
		e.settle(t, &r)
		r.at = time.Since(begun)
		rounds = append(rounds, r)
	}
	last, _ := e.calm(t, 0)
	for end := time.Now().Add(patience); len(missing(first, last)) > 0 && time.Now().Before(end); {
		exportertest.Pause(t.Context(), time.Second) // what a container uses is measured beside the readings
		last, _ = e.calm(t, 0)
	}
	for _, series := range missing(first, last) {
		t.Errorf("in the end the page lacks %s", series)
	}
	e.verdict(t, rounds, clients)
	e.end(t)
}

// storm lets faults, clients and changes of the configuration come and go for a while, and returns what was seen.
func storm(t *testing.T, e *exporter, random *rand.Rand, clients *crowd, faults *weather, config *configuration) round {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormTime)
	defer cancel()
	source := func() *rand.Rand {
		return rand.New(rand.NewPCG(random.Uint64(), random.Uint64())) //nolint:gosec // it is to be repeatable
	}
	var all sync.WaitGroup
	for _, act := range []func(*rand.Rand){
		func(r *rand.Rand) { faults.storm(ctx, t, r) },
		func(r *rand.Rand) { clients.come(ctx, r) },
		func(r *rand.Rand) { config.edit(ctx, t, r, e) },
	} {
		r := source()
		all.Go(func() { act(r) })
	}
	var r round
	for exportertest.Pause(ctx, 500*time.Millisecond) {
		m, descriptors, _ := e.measure(t)
		r.busyGoroutines, r.busyDescriptors = max(r.busyGoroutines, float64(m.Goroutines)), max(r.busyDescriptors, float64(descriptors))
	}
	all.Wait()
	return r
}

// settle measures a while in the calm: the least goroutines and descriptors, since a reading under way has some, and the
// least of the heap.
func (e *exporter) settle(t *testing.T, r *round) {
	t.Helper()
	for i := range 20 {
		m, descriptors, resident := e.measure(t)
		if i == 0 || float64(m.Goroutines) < r.goroutines {
			r.goroutines = float64(m.Goroutines)
		}
		if i == 0 || float64(descriptors) < r.descriptors {
			r.descriptors = float64(descriptors)
		}
		if i == 0 || float64(m.Heap) < r.heap {
			r.heap = float64(m.Heap)
		}
		r.resident = float64(resident)
		exportertest.Pause(t.Context(), 50*time.Millisecond)
	}
}

// page is a scraped text page.
type page = exportertest.Page

var (
	// passing are families whose series come and go in a healthy stack as well.
	passing = regexp.MustCompile(
		`^(go_|process_|xmpp_process_|chatstack_probe_failing|chatstack_container_exit_code|chatstack_container_unhealthy_since)`)
	// used are those of what a container uses, which is not known of one that does not run: after the faults one may be left
	// stopped that its restart policy does not start again.
	used = regexp.MustCompile(`^chatstack_container_(memory|cpu|network)_`)
)

// missing names the series that a later page lacks.
func missing(first, later page) (series []string) {
	for name, family := range first {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName(), l.GetValue())
			}
			stopped := later.Sum("chatstack_container_state", "container", exportertest.Label(m, "container"),
				"docker_host", exportertest.Label(m, "docker_host"), "state", "running") == 0
			if len(later.Samples(name, labels...)) == 0 && !passing.MatchString(name) && (!used.MatchString(name) || !stopped) {
				series = append(series, fmt.Sprint(name, labels))
			}
		}
	}
	return series
}

// scrape reads the text page.
func (e *exporter) scrape(ctx context.Context) (page, error) {
	body, err := exportertest.Fetch(ctx, patience, e.url+"/metrics")
	if err != nil {
		return nil, err
	}
	return exportertest.ParsePage(body)
}

// calm waits until every target is up under the good configuration and at most so many deletions of canaries are owed. It
// returns the page and how long that took.
func (e *exporter) calm(t *testing.T, owed float64) (page, time.Duration) {
	t.Helper()
	begun := time.Now()
	var p page
	var err error
	if exportertest.Eventually(patience, 50*time.Millisecond, func() bool {
		p, err = e.scrape(t.Context())
		return err == nil && p.AllUp() && len(p.Verdicts()) == targets &&
			p.Sum("chatstack_config_last_reload_successful") == 1 && p.Sum("chatstack_plant_store_orphans") <= owed
	}) {
		return p, time.Since(begun)
	}
	e.send(t, "stacks")
	exportertest.Pause(t.Context(), time.Second)
	t.Errorf("%s after the end of all faults: error %v, %v, orphans %v, configuration read %v", patience, err, p.Verdicts(),
		p.Sum("chatstack_plant_store_orphans"), p.Sum("chatstack_config_last_reload_successful"))
	return p, patience
}

// targets is how many the good configuration and the stack's environment make together.
const targets = 15

// verdict holds that everything stayed flat, and that clients got what they came for.
func (e *exporter) verdict(t *testing.T, rounds []round, clients *crowd) {
	t.Helper()
	t.Logf("%d rounds, %d lines of log, answers %v\n%s",
		len(rounds), strings.Count(e.Stderr.String(), "\n"), clients.asked, table(rounds, 20))
	if len(rounds) < least {
		t.Errorf("%d rounds in %s, want %d at least", len(rounds), *soakTime, least)
		return
	}
	for _, tr := range trends(rounds) {
		t.Log(tr)
		// The race detector's own memory is in what is resident, and grows with the run.
		if !tr.flat() && (!tr.ofProcess || !raceDetector) {
			e.send(t, "stacks") // which stand in the log
			t.Errorf("it grows: %s", tr)
		}
	}
	for _, fault := range clients.faults {
		t.Errorf("a client: %s", fault)
	}
	for _, kind := range []string{"metrics", "api", "", "badge", "debug", "connection"} {
		if clients.asked[kind] == 0 {
			t.Errorf("no client got anything below /%s", kind)
		}
	}
}
