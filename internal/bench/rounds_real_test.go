//go:build bench && realservers

package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// patience is how long an exporter may take to show all that it has, and a server to be as it should.
const patience = 3 * time.Minute

// job is what one exporter carries.
type job struct {
	by exporter
	load
}

func (e exporter) carrying(loads ...load) (jobs []job) {
	for _, l := range loads {
		jobs = append(jobs, job{e, l})
	}
	return jobs
}

// carryAll starts an exporter for each job. It waits until they show all that they have and have gone on for half an interval.
// What cannot be carried here is noted, and left out.
func (s *suite) carryAll(t *testing.T, jobs []job) (all []*carrier) {
	t.Helper()
	for _, j := range jobs {
		all = append(all, carry(t, j.by, j.load, s.plan.interval))
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
	ours, idle := s.exporters[0], load{containers: idleContainers, series: idleSeries}
	steps := [][]job{ours.carrying(load{}, idle)}
	for _, n := range s.plan.growth {
		for _, kind := range kinds {
			steps[0] = append(steps[0], ours.carrying(loadOf(kind, n))...)
		}
	}
	for _, n := range s.plan.growthLast {
		// Those that take most by themselves.
		steps = append(steps, ours.carrying(loadOf(kindTargets, n)), ours.carrying(loadOf(kindContainers, n), loadOf(kindSeries, n)))
	}
	for _, e := range s.exporters[1:] {
		steps[0] = append(steps[0], e.carrying(idle)...)
		for _, n := range s.plan.growthLast {
			steps = append(steps, e.carrying(loadOf(kindTargets, n)))
		}
	}
	for i, jobs := range steps {
		t.Run(fmt.Sprintf("step=%d", i), func(t *testing.T) {
			all := s.carryAll(t, jobs)
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
					_, _, took, err := c.scrape(t.Context())
					if err != nil {
						s.absent(t, fmt.Sprintf("%s: a page lacked some of it: %v", c.load, err))
					}
					c.scrapes = append(c.scrapes, milliseconds(took))
				}
			}
			for _, c := range all {
				used, window := cpuTime(c.PID())-c.before, time.Since(begun)
				rss, peak := memoryOf(c.PID())
				if c.load == idle {
					row := s.idle(c.program)
					row.Containers, row.Series, row.Window, row.Interval = c.containers, c.series, window.Seconds(),
						s.plan.interval.Seconds()
					row.RSS, row.Peak, row.CPUPerHour = rss, peak, used.Seconds()/window.Seconds()*time.Hour.Seconds()
					continue
				}
				row := growthRow{
					N:      c.targets + c.containers + c.series,
					Rounds: rounds,
					CPU:    milliseconds(used) / float64(rounds),
					RSS:    rss,
					Page:   median(c.scrapes),
				}
				for _, kind := range kinds {
					if row.N > 0 && c.load == loadOf(kind, row.N) {
						row.Kind = kind
					}
				}
				if c.program == oursBefore {
					row.Kind += ", " + oursBefore
				}
				s.Growth = append(s.Growth, row)
			}
		})
	}
}

// prober is a program that probes targets.
type prober struct {
	name    string
	targets int
	pid     int
	probes  func() int // so far

	cpu  []float64 // of each round, in microseconds per probe
	made int       // in all rounds
}

// measureProbes has exporters probe targets, and blackbox exporters as many at the same rate, all of one kind at once.
func (s *suite) measureProbes(t *testing.T) {
	t.Helper()
	for _, kind := range []string{kindTargets, kindTLS} {
		t.Run(kind, func(t *testing.T) { s.measureProbesOf(t, kind) })
	}
}

func (s *suite) measureProbesOf(t *testing.T, kind string) {
	t.Helper()
	var loads []load
	var all []*prober
	for _, n := range s.plan.probes {
		loads = append(loads, loadOf(kind, n))
		if realstack.Installed("prometheus-blackbox-exporter") != "" {
			all = append(all, startBlackbox(t, kind, n, s.plan.interval))
		}
	}
	var jobs []job
	for _, e := range s.exporters {
		jobs = append(jobs, e.carrying(loads...)...)
	}
	for _, c := range s.carryAll(t, jobs) {
		all = append(all, &prober{
			name:    c.program,
			targets: c.targets + c.tls,
			pid:     c.PID(),
			probes: func() int {
				_, sum := count(must(getPage(t.Context(), c.Addr)), "chatstack_probe_attempts_total{") // the round's scrape
				return int(sum)
			},
		})
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
	for _, ours := range all {
		if ours.name != serverOurs {
			continue
		}
		for _, p := range all {
			if p.targets != ours.targets {
				continue
			}
			each := median(p.cpu)
			rss, _ := memoryOf(p.pid)
			s.Probes = append(s.Probes, probeRow{
				Kind:     kind,
				Targets:  p.targets,
				Program:  p.name,
				Interval: s.plan.interval.Seconds(),
				Probes:   p.made,
				Rounds:   s.plan.probeRounds,
				CPU:      each,
				RSS:      rss,
				Ratio:    ratio(p.cpu, ours.cpu),
				Share:    100 * each / 1e6 * float64(p.targets) / usualInterval.Seconds(),
			})
		}
	}
}

// blackboxConfig verifies certificates as ours does.
const blackboxConfig = `modules:
  HTTP: {prober: http, timeout: 10s, http: {preferred_ip_protocol: ip4}}
  TLS: {prober: tcp, timeout: 10s, tcp: {preferred_ip_protocol: ip4, tls: true, tls_config: {ca_file: %q}}}
`

// startBlackbox starts a blackbox exporter that is asked for each of n targets once in an interval, at even distances.
func startBlackbox(t *testing.T, kind string, n int, interval time.Duration) *prober {
	t.Helper()
	addresses, authority := services(t, n, nil), ""
	if kind == kindTLS {
		addresses, authority = secureServices(t, n)
	}
	module, _, _ := strings.Cut(kind, " ")
	server := realstack.StartProgram(t, "blackbox", "/metrics", nil, func(p *realstack.Program) []string {
		config := p.File("blackbox.yml", fmt.Sprintf(blackboxConfig, authority))
		return []string{
			realstack.Installed("prometheus-blackbox-exporter"), "--config.file=" + config,
			"--web.listen-address=" + p.Addr, "--log.level=warn",
		}
	})
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
				page, err := get(ctx, transport, "http://"+server.Addr+"/probe?module="+module+"&target="+addresses[i%n], "identity")
				if ctx.Err() == nil && (err != nil || !strings.Contains(string(page), "\nprobe_success 1\n")) {
					t.Errorf("%s: no success: %v\n%s", probeBlackbox, err, page)
				}
				probes.Add(1)
			})
		}
	})
	return &prober{
		name:    probeBlackbox,
		targets: n,
		pid:     server.PID(),
		probes:  func() int { return int(probes.Load()) },
	}
}

// measureStart starts the demo again and again, and asks for its page until that is complete. Its simulated stack has fixed
// ports, so no other demo may run.
func (s *suite) measureStart(t *testing.T) {
	t.Helper()
	for i := range s.plan.starts {
		for _, e := range s.exporters {
			t.Run(fmt.Sprintf("start=%d/%s", i, e.name), func(t *testing.T) {
				row := s.idle(e.name)
				row.Binary = float64(must(os.Stat(e.path)).Size()) / 1e6
				listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
				addr := listener.Addr().String()
				must(0, listener.Close())
				//nolint:gosec,noctx // one of ours, ended below
				demo := exec.Command(e.path, "demo", "--log.level=error", "--web.listen-address="+addr)
				begun := time.Now()
				must(0, demo.Start())
				defer func() {
					demo.Process.Signal(syscall.SIGTERM) //nolint:errcheck,gosec // it may have ended by itself
					demo.Wait()                          //nolint:errcheck,gosec // it is told to
				}()
				for {
					page, err := getPage(t.Context(), addr)
					known, _ := count(page, "chatstack_probe_attempts_total{")
					if shown, up := count(page, "chatstack_probe_success{"); known > 0 && shown == known && up == float64(known) {
						row.Targets, row.Starts = known, append(row.Starts, milliseconds(time.Since(begun)))
						return
					}
					if time.Since(begun) > awaitWithin {
						s.absent(t, fmt.Sprintf("a start of the demo: no complete page within %s", awaitWithin))
						t.Fatalf("the page that is not complete: %v\n%s", err, page)
					}
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
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

// profile has ours scraped as where a goal was missed by most, or an exporter carry a load, and returns the beginning of what
// pprof prints. Goals of one load share a run.
func (s *suite) profile(t *testing.T, g goal) string {
	t.Helper()
	var prefix string
	if g.worst != nil {
		prefix = filepath.Join(t.TempDir(), "profile")
		p := startSelf(t, serverOurs, fmt.Sprintf("%s=%d", seriesVariable, g.worst.Series), profileVariable+"="+prefix)
		r := &rival{addr: p.Addr, path: "/metrics"}
		r.dial(t, g.worst.Encoding, g.worst.Scrapers)
		must(r.together(s.plan.profile))
		p.Stop()
	} else if prefix = s.profiled[*g.load]; prefix == "" {
		prefix = s.profileLoad(t, *g.load)
		s.profiled[*g.load] = prefix
	}
	file, index := prefix+".cpu", "cpu"
	if g.heap {
		file, index = prefix+".heap", "inuse_space"
	}
	text := printed("go", "tool", "pprof", "-top", "-nodecount=15", "-sample_index="+index, must(os.Executable()), file)
	return text[max(0, strings.Index(text, "Showing nodes")):] // its first lines name files and times
}

// profileLoad has an exporter carry a load for three rounds, more often than is usual, and returns how the names of its
// profiles begin.
func (s *suite) profileLoad(t *testing.T, l load) (prefix string) {
	t.Helper()
	round := s.plan.profiledRound
	if l.targets > 1000 || l.containers > 1000 { // more often they would be late
		round = s.plan.interval
	}
	prefix = filepath.Join(t.TempDir(), "profile")
	config := filepath.Join(t.TempDir(), "exporter.yaml")
	must(0, os.WriteFile(config, []byte(l.configure(t, round)), 0o600))
	p := startSelf(t, "exporter", configVariable+"="+config, profileVariable+"="+prefix)
	time.Sleep(3 * round)
	p.Stop()
	return prefix
}
