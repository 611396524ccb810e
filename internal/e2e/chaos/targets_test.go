//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

const (
	// interval is how often every target is asked, and the deadline of a reading.
	interval = 2 * time.Second
	// grace is how long after its deadline a reading may end: the poller's own, and as much for a busy machine.
	grace = 10 * time.Second
	// shards is how many exporters go through the faults side by side, each through its part.
	shards = 4
	// maxMemory is the most that an exporter may have resident in all that.
	maxMemory = 256 << 20
)

// untouched is how many rounds each target has nothing done to it while everybody else has.
const untouched = 3

// want is what a fault must make of a target: "up" where it is to be tolerated, "" where it means nothing to what the
// target speaks.
func want(s *subject, f fault) string {
	if verdict, ok := particular[s.name][f]; ok {
		return verdict
	}
	switch f {
	case latency, jitter:
		return "up"
	case hangingDNS, unknownName:
		return "dns"
	}
	if s.language == isAccepted {
		return "up" // that it accepts is all that is asked of it
	}
	if s.language == speaksXMPP || s.language == speaksIRC || s.language == speaksNoMore {
		switch f {
		case interimAnswers, redirects, lengthTooLong, lengthTooShort:
			return ""
		case endlessBody, drippingBody, endlessHeader, hugeHeader:
			if s.language == speaksNoMore {
				return "" // it is shown a certificate and asks no more
			}
		}
	}
	switch f {
	case trickle, silence, drippingBody, stalledTLS:
		return "timeout"
	case reset, halfClosed, lengthTooLong:
		return "closed"
	case endlessBody, endlessHeader, hugeHeader, interimAnswers:
		return "too_large"
	case redirects:
		return "http_status"
	case lengthTooShort:
		return "malformed"
	}
	return ""
}

// particular are the faults that mean something else to one target than to others.
var particular = map[string]map[fault]string{
	// Their status is all that is asked for.
	"xmpp_status": {lengthTooShort: "up"}, "xmpp_proxy": {lengthTooShort: "up"}, "identity": {lengthTooShort: "up"},
	"web_irc": {lengthTooShort: "up"}, "web_panel": {lengthTooShort: "up"}, "log_viewer": {lengthTooShort: "up"},
	"http": {lengthTooShort: "up"},
	// A page may be empty, and end anywhere between two lines.
	"xmpp_metrics": {lengthTooShort: "up"}, "openmetrics": {lengthTooShort: "up"},
	// An answer in JSON that ends too soon breaks off, and one that is whole is good.
	"irc_rpc": {lengthTooShort: "closed"}, "docker": {lengthTooShort: "closed"},
}

// TestEveryFaultBetweenIsToldAndPasses puts every fault before a target of every kind. In each round all targets have a
// fault, each another one, but for a few that have none: so what one fault does to other targets is seen as well.
func TestEveryFaultBetweenIsToldAndPasses(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rounds := len(faults) + untouched
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			g := newGround(t, seed)
			for round := shard; round < rounds; round += shards {
				assigned := map[string]fault{}
				for i := range g.subjects {
					if slot := (i + round) % rounds; slot < len(faults) {
						assigned[g.subjects[i].name] = faults[slot]
					}
				}
				g.round(t, round, assigned)
			}
			g.end(t)
		})
	}
}

// TestEveryKindHasASubject holds that a new kind of target is not forgotten here.
func TestEveryKindHasASubject(t *testing.T) {
	known := subjects(simstacktest.Start(t, simstack.Options{}), "")
	for _, k := range collectors.Kinds {
		if k.Name == "volume" || k.Name == "backup" || k.Name == "relay" {
			continue // it asks no network; its sessions last, and its own tests cut them
		}
		if !slices.ContainsFunc(known, func(s subject) bool { return s.kind == k.Name }) {
			t.Errorf("no subject is of kind %s", k.Name)
		}
	}
}

// ground is an exporter, what it watches, and what stands between.
type ground struct {
	stack    *simstack.Stack
	resolver *resolver
	subjects []subject
	proxies  map[string]*proxy
	exporter *exporter
	// before is what the exporter had open before anything went wrong.
	descriptors int
	goroutines  float64

	scraping sync.WaitGroup
	done     context.CancelFunc
	slowest  atomic.Int64 // nanoseconds
	scrapes  atomic.Int64
}

func newGround(t *testing.T, seed uint64) *ground {
	t.Helper()
	g := &ground{stack: simstacktest.Start(t, simstack.Options{}), resolver: startResolver(t), proxies: map[string]*proxy{}}
	own, caFile := certificate(t, g.stack)
	g.subjects = subjects(g.stack, caFile)
	config := fmt.Sprintf("poll: {interval: %s, timeout: %s}\nstate_file: %s\nlimits: {body: 256KiB, metrics_body: 2MiB}\ntargets:\n",
		interval, interval, filepath.Join(t.TempDir(), "state.json"))
	for i := range g.subjects {
		s := &g.subjects[i]
		if s.name == "" {
			s.name = s.kind
		}
		if s.network == "" {
			s.network = "tcp"
		}
		p := startProxy(t, s.language, s.network, s.upstream, own, seed+uint64(i))
		g.proxies[s.name] = p
		config += fmt.Sprintf("  - {kind: %s, name: %s, %s}\n", s.kind, s.name, fmt.Sprintf(s.block, s.host()+zone+":"+p.port()))
	}
	cmd := command(t, "", config, nil)
	g.resolver.serveTo(t, cmd)
	g.exporter = start(t, cmd)
	p := g.exporter.wait(t, "every target up", page.AllUp)
	g.descriptors, g.goroutines = g.exporter.descriptors(t), p.Sum("go_goroutines")
	ctx, cancel := context.WithCancel(t.Context())
	g.done = cancel
	g.scraping.Go(func() { g.scrape(ctx, t) })
	t.Cleanup(func() {
		cancel()
		g.scraping.Wait()
	})
	return g
}

// scrape is a scraper that nothing of all this may be in the way of.
func (g *ground) scrape(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		begun := time.Now()
		_, err := exportertest.Fetch(ctx, patience, g.exporter.url+"/metrics")
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("a scrape: %v", err)
		}
		g.slowest.Store(max(g.slowest.Load(), int64(time.Since(begun))))
		g.scrapes.Add(1)
		exportertest.Pause(ctx, 100*time.Millisecond)
	}
}

// starved tells that the machine was so busy that a kept page took longer than half of a reading's deadline: then
// readings may be late although nothing is wrong.
func (g *ground) starved() bool { return time.Duration(g.slowest.Load()) > interval/2 }

// turn puts a target's fault in place, or none.
func (g *ground) turn(s *subject, f fault) {
	g.resolver.turn(s.host(), f)
	g.proxies[s.name].turn(f)
}

func (g *ground) round(t *testing.T, number int, assigned map[string]fault) {
	t.Helper()
	before := g.exporter.scrape(t)
	for i := range g.subjects {
		s := &g.subjects[i]
		if f := assigned[s.name]; want(s, f) != "" {
			g.turn(s, f)
		}
	}
	for i := range g.subjects {
		s := &g.subjects[i]
		f := assigned[s.name]
		verdict := want(s, f)
		if verdict == "" {
			continue
		}
		// Two readings on, since one may have been under way.
		attempts := before.Sum("chatstack_probe_attempts_total", "target", s.name) + 2
		settled := func(p page) bool {
			// On a machine that is too busy, any reading may be late.
			return p.Sum("chatstack_probe_attempts_total", "target", s.name) > attempts && (p.Verdict(s.name) == verdict || !g.starved())
		}
		p := g.exporter.wait(t, fmt.Sprintf("round %d: %s: %s is %s", number, f, s.name, verdict), settled)
		if got := p.Verdict(s.name); got != verdict {
			t.Errorf("round %d: %s: %s is %q, want %q: %s", number, f, s.name, got, verdict, g.why(t, s))
		}
		if d := p.Sum("chatstack_probe_duration_seconds", "target", s.name); d > (interval + grace).Seconds() {
			t.Errorf("round %d: %s: %s took %v s, past its deadline of %s", number, f, s.name, d, interval)
		}
		if p.Verdict(s.name) != "up" {
			g.nothingStale(t, p, s, f)
		}
		if n, readings := g.proxies[s.name].hops.Load(),
			p.Sum("chatstack_probe_attempts_total", "target", s.name)-attempts+3; f == redirects && float64(n) > 20*readings {
			t.Errorf("round %d: %s followed %d redirects in %v readings", number, s.name, n, readings)
		}
	}
	for _, path := range []string{"/", "/api/v1/status", "/-/healthy"} {
		if _, err := exportertest.Fetch(t.Context(), patience, g.exporter.url+path); err != nil {
			t.Errorf("round %d: %v", number, err)
		}
	}
	faulty := g.exporter.scrape(t)
	for i := range g.subjects {
		g.turn(&g.subjects[i], none)
	}
	p := g.exporter.wait(t, fmt.Sprintf("round %d: recovery", number), func(p page) bool {
		return p.AllUp() && p.Sum("chatstack_plant_store_orphans") == 0
	})
	for i := range g.subjects {
		s := &g.subjects[i]
		if want(s, assigned[s.name]) != "" {
			// One reading may have been under way, and another have ended since that page was made.
			if n := p.Sum("chatstack_probe_failures_total", "target", s.name) - faulty.Sum("chatstack_probe_failures_total",
				"target", s.name); n > 3 {
				t.Errorf("round %d: %s failed %v times more after %s was over", number, s.name, n, assigned[s.name])
			}
			continue
		}
		if n := p.Sum("chatstack_probe_failures_total", "target", s.name) - before.Sum("chatstack_probe_failures_total",
			"target", s.name); n > 0 {
			if g.starved() {
				t.Logf("round %d: %s failed %v times on a machine that is too busy to tell: %s", number, s.name, n, g.why(t, s))
				continue
			}
			t.Errorf("round %d: %s failed although nothing was done to it: %s", number, s.name, g.why(t, s))
		}
		const last = "chatstack_probe_last_success_timestamp_seconds"
		if p.Sum(last, "target", s.name) <= before.Sum(last, "target", s.name) {
			t.Errorf("round %d: %s was not read while others had faults", number, s.name)
		}
	}
}

// beforeCertificate are the faults in which no certificate is seen.
var beforeCertificate = []fault{trickle, reset, halfClosed, silence, stalledTLS, hangingDNS, unknownName}

// configured are series about what is configured of a target.
var configured = []string{"chatstack_target_info", "chatstack_target_words", "chatstack_target_chat_server"}

// nothingStale wants nothing on the page that a target said before it went down.
func (g *ground) nothingStale(t *testing.T, p page, s *subject, f fault) {
	t.Helper()
	for name, family := range p {
		if exportertest.Judged(name) {
			continue
		}
		if slices.ContainsFunc(s.own, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			t.Errorf("%s: %s is stale", f, name)
		}
		if strings.HasPrefix(name, "chatstack_probe_") || slices.Contains(configured, name) || name == "chatstack_poll_overruns_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if exportertest.Label(m, "target") == s.name ||
				exportertest.Label(m, "endpoint") == s.name && slices.Contains(beforeCertificate, f) {
				t.Errorf("%s: %s of %s is stale", f, name, s.name)
			}
		}
	}
}

// why is what the exporter says of the last failure.
func (g *ground) why(t *testing.T, s *subject) string {
	t.Helper()
	lines := strings.Split(g.exporter.Stderr.String(), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "target is down") && strings.Contains(line, "target="+s.name+" ") {
			return line
		}
	}
	return "the log does not say why"
}

// end wants that everything is as it was before.
func (g *ground) end(t *testing.T) {
	t.Helper()
	e := g.exporter
	var descriptors int
	var goroutines float64
	// Readings come and go, so it is enough that the numbers are down there once.
	for end := time.Now().Add(patience); ; pause(t, 50*time.Millisecond) {
		descriptors, goroutines = e.descriptors(t), e.scrape(t).Sum("go_goroutines")
		if descriptors <= g.descriptors+2 && goroutines <= g.goroutines+2 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d descriptors and %v goroutines after the faults, %d and %v before",
				descriptors, goroutines, g.descriptors, g.goroutines)
			break
		}
	}
	peak := e.peakMemory(t)
	if peak > maxMemory {
		t.Errorf("%d MiB were resident, want %d at most", peak>>20, maxMemory>>20)
	}
	g.done()
	g.scraping.Wait()
	e.stop(t)
	if left := g.stack.Plants(); len(left) > 0 {
		t.Errorf("plants left in the store: %v", left)
	}
	t.Logf("%d scrapes, the slowest %s; at most %d MiB resident; descriptors %d, then %d; goroutines %v, then %v",
		g.scrapes.Load(), time.Duration(g.slowest.Load()).Round(time.Millisecond), peak>>20, g.descriptors, descriptors,
		g.goroutines, goroutines)
}
