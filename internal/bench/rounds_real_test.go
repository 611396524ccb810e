//go:build bench && realservers

package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// patience is how long an exporter may take to show all that it has, and a server to be as it should.
const patience = 3 * time.Minute

// carryAll starts an exporter for each load, and waits until they show all that they have and have gone on for half an
// interval. What cannot be carried here is noted, and left out.
func (s *suite) carryAll(t *testing.T, loads []load) (all []*carrier) {
	t.Helper()
	for _, l := range loads {
		all = append(all, carry(t, s.exporter, l, s.plan.interval))
	}
	all = slices.DeleteFunc(all, func(c *carrier) bool {
		err := await(patience, func() error { _, _, _, err := c.scrape(t.Context()); return err })
		if err != nil {
			s.absent(t, fmt.Sprintf("%s: %v", c.load, err))
		}
		return err != nil
	})
	time.Sleep(s.plan.interval / 2)
	return all
}

// measureGrowth measures exporters with more and more to watch. Those of a step run at once: they hardly use a processor.
func (s *suite) measureGrowth(t *testing.T) {
	t.Helper()
	idle := load{containers: idleContainers, series: idleSeries}
	steps := [][]load{{{}, idle}}
	for _, n := range s.plan.growth {
		for _, kind := range kinds {
			steps[0] = append(steps[0], loadOf(kind, n))
		}
	}
	for _, n := range s.plan.growthLast {
		// Those that take most by themselves.
		steps = append(steps, []load{loadOf(kindTargets, n)}, []load{loadOf(kindContainers, n), loadOf(kindSeries, n)})
	}
	for i, loads := range steps {
		t.Run(fmt.Sprintf("step=%d", i), func(t *testing.T) {
			all := s.carryAll(t, loads)
			for _, c := range all {
				c.before = cpuTime(c.PID())
			}
			begun, rounds := time.Now(), s.plan.growthRounds
			if i > 0 {
				rounds = 1 // of the last steps, which have readings enough
			}
			for range rounds {
				time.Sleep(s.plan.interval)
				for _, c := range all {
					if _, _, _, err := c.scrape(t.Context()); err != nil {
						s.absent(t, fmt.Sprintf("%s: a page lacked some of it: %v", c.load, err))
					}
				}
			}
			for _, c := range all {
				used, window := cpuTime(c.PID())-c.before, time.Since(begun)
				rss, peak := memoryOf(c.PID())
				if c.load == idle {
					row := s.idle()
					row.Containers, row.Series, row.Window, row.Interval = c.containers, c.series, window.Seconds(), s.plan.interval.Seconds()
					row.RSS, row.Peak, row.CPUPerHour = rss, peak, used.Seconds()/window.Seconds()*time.Hour.Seconds()
					continue
				}
				row := growthRow{N: c.targets + c.containers + c.series, Rounds: rounds, CPU: milliseconds(used) / float64(rounds), RSS: rss}
				for _, kind := range kinds {
					if row.N > 0 && c.load == loadOf(kind, row.N) {
						row.Kind = kind
					}
				}
				s.Growth = append(s.Growth, row)
			}
		})
	}
}

// prober is a program that probes HTTP targets.
type prober struct {
	name    string
	targets int
	pid     int
	probes  func() int // so far

	cpu  []float64 // of each round, in microseconds per probe
	made int       // in all rounds
}

// measureProbes has exporters probe HTTP targets, and blackbox exporters as many at the same rate, all at once.
func (s *suite) measureProbes(t *testing.T) {
	t.Helper()
	var loads []load
	theirs := map[int]*prober{}
	for _, n := range s.plan.probes {
		loads = append(loads, load{targets: n})
		if realstack.Installed("prometheus-blackbox-exporter") != "" {
			theirs[n] = startBlackbox(t, n, s.plan.interval)
		}
	}
	var all []*prober
	for _, c := range s.carryAll(t, loads) {
		all = append(all, &prober{name: probeOurs, targets: c.targets, pid: c.PID(), probes: func() int {
			_, sum := count(must(getPage(t.Context(), c.Addr)), "chatstack_probe_attempts_total{") // the round's scrape
			return int(sum)
		}})
		if p := theirs[c.targets]; p != nil {
			all = append(all, p)
		}
	}
	for range s.plan.probeRounds {
		used, made := make([]time.Duration, len(all)), make([]int, len(all))
		for i, p := range all {
			used[i], made[i] = cpuTime(p.pid), p.probes()
		}
		time.Sleep(s.plan.interval)
		for i, p := range all {
			n := p.probes() - made[i]
			if n == 0 {
				t.Fatalf("%s made no probe of %d targets in a whole interval", p.name, p.targets)
			}
			p.cpu = append(p.cpu, float64(cpuTime(p.pid)-used[i])/1e3/float64(n))
			p.made += n
		}
	}
	var ours *prober
	for _, p := range all {
		if p.name == probeOurs {
			ours = p
		}
		each := median(p.cpu)
		rss, _ := memoryOf(p.pid)
		s.Probes = append(s.Probes, probeRow{
			Targets: p.targets, Program: p.name, Interval: s.plan.interval.Seconds(), Probes: p.made, Rounds: s.plan.probeRounds,
			CPU: each, RSS: rss, Ratio: ratio(p.cpu, ours.cpu), Share: 100 * each / 1e6 * float64(p.targets) / usualInterval.Seconds(),
		})
	}
}

// startBlackbox starts a blackbox exporter that is asked for each of n targets once in an interval, at even distances.
func startBlackbox(t *testing.T, n int, interval time.Duration) *prober {
	t.Helper()
	server := realstack.StartProgram(t, "blackbox", "/metrics", nil, func(p *realstack.Program) []string {
		config := p.File("blackbox.yml", "modules: {http_2xx: {prober: http, timeout: 10s, http: {preferred_ip_protocol: ip4}}}\n")
		return []string{realstack.Installed("prometheus-blackbox-exporter"), "--config.file=" + config, "--web.listen-address=" + p.Addr, "--log.level=warn"}
	})
	urls := services(t, n)
	var (
		probes atomic.Int64
		group  sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); group.Wait() })
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	group.Go(func() {
		defer transport.CloseIdleConnections()
		tick := time.NewTicker(interval / time.Duration(n))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			group.Go(func() {
				page, err := get(ctx, transport, "http://"+server.Addr+"/probe?module=http_2xx&target="+urls[i%n], "identity")
				if ctx.Err() == nil && (err != nil || !strings.Contains(string(page), "\nprobe_success 1\n")) {
					t.Errorf("%s: no success: %v\n%s", probeBlackbox, err, page)
				}
				probes.Add(1)
			})
		}
	})
	return &prober{name: probeBlackbox, targets: n, pid: server.PID(), probes: func() int { return int(probes.Load()) }}
}

// measureStart starts the exporter beside a healthy stack, again and again, and asks for its page until that is complete.
func (s *suite) measureStart(t *testing.T) {
	t.Helper()
	stack := simstacktest.Start(t, simstack.Options{})
	// A simulated server has not the port of a real one, so that the environment does not tell it.
	config := fmt.Sprintf("targets:\n  - {kind: xmpp_c2s, address: %q}\n", stack.XMPPClientAddress())
	s.idle().Binary = float64(must(os.Stat(s.exporter)).Size()) / 1e6
	for i := range s.plan.starts {
		t.Run(fmt.Sprintf("start=%d", i), func(t *testing.T) {
			begun := time.Now()
			e := realstack.StartExporter(t, s.exporter, config, stack.Environ(), "--log.level=warn")
			for {
				page := must(getPage(t.Context(), e.Addr))
				known, _ := count(page, "chatstack_probe_attempts_total{")
				if shown, up := count(page, "chatstack_probe_success{"); known > 0 && shown == known && up == float64(known) {
					s.idle().Targets, s.idle().Starts = known, append(s.idle().Starts, milliseconds(time.Since(begun)))
					return
				}
				if time.Since(begun) > awaitWithin {
					s.absent(t, fmt.Sprintf("a start: no complete page within %s", awaitWithin))
					t.Fatalf("the page that is not complete:\n%s", page)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
}

// measureProfiles shows of each missed goal where time or memory goes. A short run makes one of the first, to show that it can.
func (s *suite) measureProfiles(t *testing.T) {
	t.Helper()
	for i, g := range s.goals() {
		if !g.measured || g.met && (!s.ShortPlans || i > 0) || g.worst == nil && g.load == nil {
			continue
		}
		row := profileRow{Goals: []string{g.name}}
		switch {
		case g.worst != nil:
			row.Of = "the processor time of ours, " + g.worst.where()
		case g.heap:
			row.Of = "the memory in use with " + g.load.String()
		default:
			row.Of = "the processor time with " + g.load.String()
		}
		if at := slices.IndexFunc(s.Profiles, func(p profileRow) bool { return p.Of == row.Of }); at >= 0 {
			s.Profiles[at].Goals = append(s.Profiles[at].Goals, g.name)
			continue
		}
		row.Top = s.profile(t, g)
		s.Profiles = append(s.Profiles, row)
	}
}

// profile has ours scraped as where a goal was missed by most, or an exporter carry a load for three rounds, more often than
// is usual, and returns the beginning of what pprof prints.
func (s *suite) profile(t *testing.T, g goal) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "profile")
	if g.worst != nil {
		p := startSelf(t, serverOurs, fmt.Sprintf("%s=%d", seriesVariable, g.worst.Series), profileVariable+"="+prefix)
		r := &rival{addr: p.Addr, path: "/metrics"}
		r.dial(t, g.worst.Encoding, g.worst.Scrapers)
		must(r.together(s.plan.profile))
		p.Stop()
	} else {
		round := s.plan.profiledRound
		if g.load.targets > 1000 || g.load.containers > 1000 { // more often they would be late
			round = s.plan.interval
		}
		config := filepath.Join(t.TempDir(), "exporter.yaml")
		must(0, os.WriteFile(config, []byte(g.load.configure(t, round)), 0o600))
		p := startSelf(t, "exporter", configVariable+"="+config, profileVariable+"="+prefix)
		time.Sleep(3 * round)
		p.Stop()
	}
	file, index := prefix+".cpu", "cpu"
	if g.heap {
		file, index = prefix+".heap", "inuse_space"
	}
	text := printed("go", "tool", "pprof", "-top", "-nodecount=15", "-sample_index="+index, must(os.Executable()), file)
	return text[max(0, strings.Index(text, "Showing nodes")):] // its first lines name files and times
}
