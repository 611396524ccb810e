//go:build bench && realservers

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// roundPlan is how much is measured of whole exporters.
type roundPlan struct {
	// interval is how often everything is read and scraped, rounds how many intervals are measured. Of the last steps of
	// growth it is one, which has readings enough.
	interval             time.Duration
	growthRounds, rounds int
	growth, growthLast   []int
	probes               []int
	starts               int
	// patience is how long an exporter may take to tell of all that it has.
	patience               time.Duration
	profile, profiledRound time.Duration
}

var (
	// The default interval, since a page is composed anew several times in it.
	wholeRounds = roundPlan{
		interval: usualInterval, growthRounds: 2, rounds: 2, growth: []int{1, 10, 100, 1000}, growthLast: []int{10_000}, probes: []int{16, 200, 1000},
		starts: 9, patience: 3 * time.Minute, profile: 3 * time.Second, profiledRound: 10 * time.Second,
	}
	shortRounds = roundPlan{
		interval: time.Second, growthRounds: 1, rounds: 1, growth: []int{1, 10}, probes: []int{16},
		starts: 1, patience: awaitWithin, profile: 100 * time.Millisecond, profiledRound: time.Second,
	}
)

// idleLoad is what an exporter carries where its memory at rest is told.
var idleLoad = load{containers: idleContainers, series: idleSeries}

// carrier is an exporter with its load.
type carrier struct {
	load
	*running
	before time.Duration
}

// loadAll starts an exporter for each load, and waits until they tell of all that they have and have gone on for half
// an interval. What cannot be carried here is noted, and left out.
func (s *suite) loadAll(t *testing.T, loads []load) (all []*carrier) {
	t.Helper()
	for _, l := range loads {
		all = append(all, &carrier{load: l, running: start(t, s.exporter, configure(t, l, s.rounds.interval))})
	}
	late := time.Now().Add(s.rounds.patience)
	all = slices.DeleteFunc(all, func(c *carrier) bool {
		for absent := "no page"; absent != ""; {
			page, _, _, err := c.scrape(t.Context())
			if err == nil {
				absent = c.missing(page)
			}
			if absent != "" && time.Now().After(late) {
				s.absent(t, fmt.Sprintf("%s: not all was told within %s: %s", c.String(), s.rounds.patience, absent))
				return true
			}
			pause(t, 100*time.Millisecond)
		}
		return false
	})
	pause(t, s.rounds.interval/2)
	return all
}

// takeGrowth measures exporters with more and more to watch. Those of a step run at once: they hardly use a processor.
func (s *suite) takeGrowth(t *testing.T) {
	t.Helper()
	of := func(n int) []load { return []load{{targets: n}, {containers: n}, {series: n}} }
	steps := [][]load{{{}, idleLoad}}
	for _, n := range s.rounds.growth {
		steps[0] = append(steps[0], of(n)...)
	}
	for _, n := range s.rounds.growthLast {
		// Those that take most by themselves.
		steps = append(steps, of(n)[:1], of(n)[1:])
	}
	for i, loads := range steps {
		t.Run(fmt.Sprintf("step=%d", i), func(t *testing.T) {
			all := s.loadAll(t, loads)
			for _, c := range all {
				c.before = cpuTime(t, c.pid)
			}
			begun := time.Now()
			rounds := s.rounds.growthRounds
			if i > 0 {
				rounds = 1
			}
			for range rounds {
				pause(t, s.rounds.interval)
				all = slices.DeleteFunc(all, func(c *carrier) bool {
					page, _, _, err := c.scrape(t.Context())
					if err != nil {
						s.absent(t, fmt.Sprintf("%s: %v", c.String(), err))
						return true
					}
					if text := c.missing(page); text != "" {
						s.absent(t, fmt.Sprintf("%s: a page lacked some of it: %s", c.String(), text))
					}
					return false
				})
			}
			for _, c := range all {
				s.noteGrowth(t, c, rounds, time.Since(begun))
			}
			s.save(t)
		})
	}
}

// noteGrowth notes what a load cost in a time.
func (s *suite) noteGrowth(t *testing.T, c *carrier, rounds int, window time.Duration) {
	t.Helper()
	used := cpuTime(t, c.pid) - c.before
	rss := float64(statusOf(t, c.pid, "VmRSS")) * 1024 / 1e6
	if c.load == idleLoad {
		if s.Idle == nil {
			s.Idle = &idleRow{}
		}
		s.Idle.Containers, s.Idle.Series, s.Idle.Window, s.Idle.Interval = c.containers, c.series, window.Seconds(), s.rounds.interval.Seconds()
		s.Idle.RSS, s.Idle.Peak = rss, float64(statusOf(t, c.pid, "VmHWM"))*1024/1e6
		s.Idle.CPUPerHour = used.Seconds() / window.Seconds() * time.Hour.Seconds()
		return
	}
	row := growthRow{N: c.targets + c.containers + c.series, Rounds: rounds, CPU: milliseconds(used) / float64(rounds), RSS: rss}
	switch {
	case c.targets > 0:
		row.Kind = kindTargets
	case c.containers > 0:
		row.Kind = kindContainers
	case c.series > 0:
		row.Kind = kindSeries
	}
	s.Growth = append(s.Growth, row)
}

// takeProbes has exporters probe HTTP targets, and blackbox exporters the same ones at the same rate, all at once.
func (s *suite) takeProbes(t *testing.T) {
	t.Helper()
	var loads []load
	for _, n := range s.rounds.probes {
		loads = append(loads, load{targets: n})
	}
	var driven []*drivenProber
	if find("prometheus-blackbox-exporter") != "" {
		for _, l := range loads {
			driven = append(driven, startBlackbox(t, l.targets, s.rounds.interval))
		}
	}
	all := s.loadAll(t, loads)
	// Of those that are carried, the other at the same place.
	var beside []*drivenProber
	for i, l := range loads {
		if driven != nil && slices.ContainsFunc(all, func(c *carrier) bool { return c.load == l }) {
			beside = append(beside, driven[i])
		}
	}
	driven = beside
	cpu := make([][2][]float64, len(all)) // of each size, ours and theirs: of each round, in microseconds
	probes := make([][2]int, len(all))
	for range s.rounds.rounds {
		before := make([][2]int, len(all))
		used := make([][2]time.Duration, len(all))
		for i, c := range all {
			used[i][0], before[i][0] = cpuTime(t, c.pid), c.attempts(t)
			if driven != nil {
				used[i][1], before[i][1] = cpuTime(t, driven[i].pid), int(driven[i].probes.Load())
			}
		}
		pause(t, s.rounds.interval)
		for i, c := range all {
			n := c.attempts(t) - before[i][0] // the scrape
			cpu[i][0] = append(cpu[i][0], perProbe(t, cpuTime(t, c.pid)-used[i][0], n))
			probes[i][0] += n
			if driven != nil {
				n := int(driven[i].probes.Load()) - before[i][1]
				cpu[i][1] = append(cpu[i][1], perProbe(t, cpuTime(t, driven[i].pid)-used[i][1], n))
				probes[i][1] += n
			}
		}
	}
	for i, c := range all {
		for j, name := range []string{probeOurs, probeBlackbox} {
			pid := c.pid
			if j == 1 {
				if driven == nil {
					continue
				}
				pid = driven[i].pid
				if failed := driven[i].failed.Load(); failed != nil {
					t.Errorf("%s: %s", name, *failed)
				}
			}
			each := median(cpu[i][j])
			s.Probes = append(s.Probes, probeRow{
				Targets: c.targets, Program: name, Interval: s.rounds.interval.Seconds(), Probes: probes[i][j], Rounds: s.rounds.rounds,
				CPU: each, RSS: float64(statusOf(t, pid, "VmRSS")) * 1024 / 1e6, Ratio: ratio(cpu[i][j], cpu[i][0]),
				Share: 100 * each / 1e6 * float64(c.targets) / usualInterval.Seconds(),
			})
		}
	}
}

func perProbe(t *testing.T, used time.Duration, probes int) float64 {
	t.Helper()
	if probes == 0 {
		t.Fatal("no probe in a whole interval")
	}
	return float64(used) / 1e3 / float64(probes)
}

// attempts is how many readings the exporter has begun.
func (c *carrier) attempts(t *testing.T) int {
	t.Helper()
	page, _, _, err := c.scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, sum := count(page, "chatstack_probe_attempts_total{")
	return int(sum)
}

// drivenProber is a blackbox exporter and those who ask it.
type drivenProber struct {
	pid    int
	probes atomic.Int64
	failed atomic.Pointer[string]
}

const blackboxConfig = "modules: {http_2xx: {prober: http, timeout: 10s, http: {preferred_ip_protocol: ip4}}}\n"

// startBlackbox starts a blackbox exporter that is asked for each of n targets once in an interval, at even distances.
func startBlackbox(t *testing.T, n int, interval time.Duration) *drivenProber {
	t.Helper()
	config := filepath.Join(t.TempDir(), "blackbox.yml")
	if err := os.WriteFile(config, []byte(blackboxConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freePort(t)
	p := &drivenProber{pid: spawn(t, nil, find("prometheus-blackbox-exporter"), "--config.file="+config, "--web.listen-address="+addr, "--log.level=warn")}
	await(t, "blackbox exporter answers", awaitWithin, func() bool {
		_, err := get(t.Context(), "http://"+addr+"/metrics", "identity")
		return err == nil
	})
	urls := services(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
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
				err := probeBy(ctx, transport, "http://"+addr+"/probe?module=http_2xx&target="+urls[i%n])
				if err != nil && ctx.Err() == nil {
					text := err.Error()
					p.failed.Store(&text)
				}
				p.probes.Add(1)
			})
		}
	})
	return p
}

// probeBy asks for one probe, which must succeed.
func probeBy(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !strings.Contains(string(page), "\nprobe_success 1\n") {
		return fmt.Errorf("get %s: no success: %s", url, page)
	}
	return nil
}

// takeStart starts the exporter beside a healthy stack, again and again.
func (s *suite) takeStart(t *testing.T) {
	t.Helper()
	stack, err := simstack.Start(simstack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	var environ []string
	for name, value := range stack.Environ() {
		environ = append(environ, name+"="+value)
	}
	config := filepath.Join(t.TempDir(), "exporter.yaml")
	// The simulated server has not the port that a real one has.
	if err := os.WriteFile(config, fmt.Appendf(nil, "targets:\n  - kind: xmpp_c2s\n    address: %s\n", stack.XMPPClientAddress()), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Idle == nil {
		s.Idle = &idleRow{}
	}
	info, err := os.Stat(s.exporter)
	if err != nil {
		t.Fatal(err)
	}
	s.Idle.Binary = float64(info.Size()) / 1e6
	for i := range s.rounds.starts {
		t.Run(fmt.Sprintf("start=%d", i), func(t *testing.T) { s.takeOneStart(t, config, environ) })
	}
}

// takeOneStart starts the exporter once, and asks for its page until that is complete.
func (s *suite) takeOneStart(t *testing.T, config string, environ []string) {
	t.Helper()
	addr := freePort(t)
	r := &running{url: "http://" + addr}
	begun := time.Now()
	spawn(t, environ, s.exporter, "--config.file="+config, "--web.listen-address="+addr, "--log.level=warn")
	var page []byte
	for {
		var err error
		if page, _, _, err = r.scrape(t.Context()); err == nil {
			known, _ := count(page, "chatstack_probe_attempts_total{")
			told, up := count(page, "chatstack_probe_success{")
			if known > 0 && told == known && up == float64(known) {
				s.Idle.Targets = known
				s.Idle.Starts = append(s.Idle.Starts, milliseconds(time.Since(begun)))
				return
			}
		}
		if time.Since(begun) > awaitWithin {
			s.absent(t, fmt.Sprintf("a start: no complete page within %s", awaitWithin))
			t.Logf("the page that is not complete:\n%s", page)
			return
		}
		pause(t, 2*time.Millisecond)
	}
}

// takeProfiles tells of each missed goal where time or memory goes.
func (s *suite) takeProfiles(t *testing.T) {
	t.Helper()
	for i, g := range s.goals() {
		// A short run shows that it can be done.
		if !g.measured || g.met && (!testing.Short() || i > 0) || g.worst == nil && g.load == nil {
			continue
		}
		of := ""
		switch {
		case g.worst != nil:
			of = "the processor time of ours, " + g.worst.where()
		case g.heap:
			of = "the memory in use with " + g.load.String()
		default:
			of = "the processor time with " + g.load.String()
		}
		if at := slices.IndexFunc(s.Profiles, func(p profileRow) bool { return p.Of == of }); at >= 0 {
			s.Profiles[at].Goals = append(s.Profiles[at].Goals, g.name)
			continue
		}
		row := profileRow{Goals: []string{g.name}, Of: of}
		if g.worst != nil {
			row.Top = s.profileScrapes(t, g.worst)
		} else {
			row.Top = s.profileLoad(t, *g.load, g.heap)
		}
		s.Profiles = append(s.Profiles, row)
		s.save(t)
	}
}

// profileScrapes scrapes ours as where a goal was missed by most.
func (s *suite) profileScrapes(t *testing.T, at *scrapeRow) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "ours")
	addr, pid, end := startSelf(t, "ours", fmt.Sprintf("%s=%d", seriesVariable, at.Series), profileVariable+"="+prefix)
	c := &contest{rival: &rival{name: serverOurs, addr: addr, path: "/metrics", pid: pid}}
	for range at.Scrapers {
		c.clients = append(c.clients, c.dial(t, at.Encoding))
	}
	if _, err := c.together(s.rounds.profile); err != nil {
		t.Fatal(err)
	}
	end()
	return top(t, prefix+".cpu", "cpu")
}

// profileLoad has an exporter carry a load for three rounds, more often than is usual.
func (s *suite) profileLoad(t *testing.T, l load, heap bool) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "exporter")
	config := filepath.Join(t.TempDir(), "exporter.yaml")
	round := s.rounds.profiledRound
	if l.targets > 1000 || l.containers > 1000 { // more often they would be late
		round = s.rounds.interval
	}
	if err := os.WriteFile(config, []byte(configure(t, l, round)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, end := startSelf(t, "exporter", configVariable+"="+config, profileVariable+"="+prefix)
	pause(t, 3*round)
	end()
	if heap {
		return top(t, prefix+".heap", "inuse_space")
	}
	return top(t, prefix+".cpu", "cpu")
}

// top is the beginning of what pprof tells.
func top(t *testing.T, file, index string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := said(t, "go", "tool", "pprof", "-top", "-nodecount=15", "-sample_index="+index, self, file)
	// Its first lines name files and times.
	if at := strings.Index(text, "Showing nodes"); at >= 0 {
		text = text[at:]
	}
	return text
}
