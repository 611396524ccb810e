package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// results is what one run of the suite measured. BENCHMARKS.md and its charts are made of nothing else.
type results struct {
	Made    time.Time `json:"made"`
	Took    float64   `json:"took_seconds"`
	Commit  string    `json:"commit"`
	Command string    `json:"command"`
	Machine string    `json:"machine"`
	Kernel  string    `json:"kernel"`
	// Busy is the machine's load before and after, so that a reader knows whether it was quiet.
	Busy     [2]float64 `json:"load_average"`
	Versions []version  `json:"versions"`
	// Absent says what could not be measured, and why.
	Absent     []string     `json:"absent"`
	Scrape     []scrapeRow  `json:"scrape"`
	Readings   []readingRow `json:"container_readings"`
	Watching   []watchRow   `json:"container_programs"`
	Probes     []probeRow   `json:"probes"`
	Idle       *idleRow     `json:"idle"`
	Fresh      *freshness   `json:"freshness"`
	Growth     []growthRow  `json:"growth"`
	Profiles   []profileRow `json:"profiles"`
	ShortPlans bool         `json:"short"`
}

type version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// scrapeRow is one server of a page, scraped over loopback.
type scrapeRow struct {
	Series   int    `json:"series"`
	Encoding string `json:"encoding"`
	Scrapers int    `json:"scrapers"`
	Server   string `json:"server"`
	Bytes    int    `json:"bytes"`
	// Scrapes is how many there were, Rounds in how many turns.
	Scrapes   int     `json:"scrapes"`
	Rounds    int     `json:"rounds"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_us"`
	// Ratio is its median time divided by ours of the same round, the median of all rounds; Speed the same of throughput.
	Ratio float64 `json:"p50_times_ours"`
	Speed float64 `json:"throughput_times_ours"`
}

// readingRow is one way to read containers of a real engine once.
type readingRow struct {
	Containers int     `json:"containers"`
	Way        string  `json:"way"`
	Ready      float64 `json:"ready_ms"`
	Measured   float64 `json:"measured_ms"`
	Own        float64 `json:"own_cpu_ms"`
	Engine     float64 `json:"engine_cpu_ms"`
	// Ratio is own and engine's time, times that of the first way.
	Ratio float64 `json:"cpu_times_ours"`
}

// watchRow is a program that watches containers, in a window with one reading and one scrape.
type watchRow struct {
	Containers int     `json:"containers"`
	Program    string  `json:"program"`
	Window     float64 `json:"window_seconds"`
	Own        float64 `json:"own_cpu_ms"`
	All        float64 `json:"all_cpu_ms"`
	RSS        float64 `json:"rss_mb"`
	Peak       float64 `json:"peak_mb"`
	// Share is of one core, if all is read and scraped every 30 s.
	Share float64 `json:"core_percent"`
}

// probeRow is a prober of HTTP targets.
type probeRow struct {
	Targets  int     `json:"targets"`
	Program  string  `json:"program"`
	Interval float64 `json:"interval_seconds"`
	Probes   int     `json:"probes"`
	Rounds   int     `json:"rounds"`
	CPU      float64 `json:"cpu_us_per_probe"`
	RSS      float64 `json:"rss_mb"`
	Share    float64 `json:"core_percent"`
	// Ratio is its processor time divided by ours of the same round, the median of all rounds.
	Ratio float64 `json:"cpu_times_ours"`
}

// idleRow is the exporter with 20 containers and 1,000 upstream series.
type idleRow struct {
	Containers int     `json:"containers"`
	Series     int     `json:"series"`
	Window     float64 `json:"window_seconds"`
	Interval   float64 `json:"interval_seconds"`
	RSS        float64 `json:"rss_mb"`
	Peak       float64 `json:"peak_mb"`
	CPUPerHour float64 `json:"cpu_seconds_per_hour"`
	// Starts are how long it took from the start to the first complete page, each time.
	Starts  []float64 `json:"start_ms"`
	Targets int       `json:"start_targets"`
	Binary  float64   `json:"binary_mb"`
	// Image is 0 where no engine could build it.
	Image float64 `json:"image_mb"`
}

// growthRow is what an exporter costs that has n of one kind to watch, and nothing else.
type growthRow struct {
	Kind   string  `json:"kind"`
	N      int     `json:"n"`
	Rounds int     `json:"rounds"`
	CPU    float64 `json:"cpu_ms_per_round"`
	RSS    float64 `json:"rss_mb"`
}

// profileRow says where time or memory goes, where a goal is missed.
type profileRow struct {
	Goals []string `json:"goals"`
	Of    string   `json:"of"`
	Top   string   `json:"top"`
}

// goal is a promise, and what was measured.
type goal struct {
	name     string
	want     string
	got      string
	met      bool
	measured bool
	// worst is the scrape that a missed goal is missed by most.
	worst *scrapeRow
	// load is what an exporter carries where a missed goal is missed, heap whether memory is the matter.
	load *load
	heap bool
}

func (g goal) verdict() string {
	switch {
	case !g.measured:
		return "not measured"
	case g.met:
		return "met"
	}
	return "**missed**"
}

// Programs and servers, as the tables name them.
const (
	serverOurs, serverBare, serverNginx = "ours", "bare Go handler", "nginx, static file"
	oursEngine                          = "ours, resources: engine"
	oursFiles                           = "ours, resources: cgroup"
	cadvisorDefault, cadvisorTuned      = "cAdvisor, default", "cAdvisor, tuned"
	probeOurs, probeBlackbox            = "ours", "blackbox exporter"
	kindTargets, kindContainers         = "HTTP targets", "containers"
	kindSeries                          = "upstream series"
)

// peers have the same page; ours must be ahead of them at every size.
var peers = []string{"promhttp", "Prometheus, /federate", "Telegraf"}

// recordedCAdvisor are figures of cAdvisor 0.60 with 200 containers on a machine of this kind, taken once. Where CADVISOR names a
// program, that is measured in their place.
var recordedCAdvisor = []watchRow{
	{Containers: goalContainers, Program: cadvisorDefault, Share: 38, RSS: 145},
	{Containers: goalContainers, Program: cadvisorTuned, Share: 0.8, RSS: 42},
}

const (
	goalContainers = 200
	goalNginx      = 2.0
	goalBare       = 1.3
	goalIdleRSS    = 30.0
	goalStart      = 1000.0
	// goalFresh is in seconds, goalPolls the share that the number of readings may differ by.
	goalFresh = 2.0
	goalPolls = 0.01
	// goalGrowth is how far growth must be known.
	goalGrowth = 10_000
	// idleContainers and idleSeries are carried where memory at rest is told.
	idleContainers, idleSeries = 20, 1000
	// goalExponent is what counts as linear: a straight line, and the noise of few points.
	goalExponent = 1.1
)

// goals judges a run.
func (r *results) goals() []goal {
	all := []goal{
		r.scrapeGoal(serverNginx, goalNginx),
		r.scrapeGoal(serverBare, goalBare),
	}
	for _, p := range peers {
		all = append(all, r.aheadGoal(p))
	}
	all = append(all, r.cadvisorGoals()...)
	all = append(all, r.probeGoal())
	all = append(all, r.idleGoals()...)
	all = append(all, r.freshGoals()...)
	for _, kind := range []string{kindTargets, kindContainers, kindSeries} {
		all = append(all, r.growthGoal(kind, "CPU"), r.growthGoal(kind, "RSS"))
	}
	return all
}

func (s *scrapeRow) where() string {
	return fmt.Sprintf("%s series, %s, %s", thousands(s.Series), s.Encoding, counted(s.Scrapers, "scraper"))
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// scrapeGoal is how many times the other's p50 is ours, at the worst.
func (r *results) scrapeGoal(server string, most float64) goal {
	g := goal{name: "scrape beside " + server, want: fmt.Sprintf("p50 at most %.1f times its", most), met: true}
	var worst float64
	n := 0
	for i := range r.Scrape {
		s := &r.Scrape[i]
		if s.Server != server || s.Ratio == 0 {
			continue
		}
		g.measured = true
		if times := 1 / s.Ratio; times > worst {
			worst, g.worst = times, s
		}
		if 1/s.Ratio > most {
			g.met = false
			n++
		}
	}
	if g.measured {
		g.got = fmt.Sprintf("%.2f times at the worst (%s)", worst, g.worst.where())
		if n > 0 {
			g.got += fmt.Sprintf(", over the goal in %d of %d", n, r.count(server))
		}
		g.got += r.unmeasured(server)
	}
	return g
}

func (r *results) count(server string) (n int) {
	for i := range r.Scrape {
		if r.Scrape[i].Server == server {
			n++
		}
	}
	return n
}

// unmeasured says at how many sizes a server was scraped, where those are not all.
func (r *results) unmeasured(server string) string {
	n := 0
	for _, size := range sizes {
		if slices.ContainsFunc(r.Scrape, func(s scrapeRow) bool { return s.Server == server && s.Series == size }) {
			n++
		}
	}
	if n == len(sizes) {
		return ""
	}
	return fmt.Sprintf("; known at %d of %d sizes alone", n, len(sizes))
}

// aheadGoal is that ours is faster than a peer's, always, and serves more.
func (r *results) aheadGoal(server string) goal {
	g := goal{name: "scrape beside " + server, want: "p50 and throughput ahead at every size", met: true}
	least := math.Inf(1)
	for i := range r.Scrape {
		s := &r.Scrape[i]
		if s.Server != server {
			continue
		}
		g.measured = true
		// Throughput is ours as many times as 1/Speed.
		if ahead := min(s.Ratio, 1/s.Speed); ahead < least {
			least, g.worst = ahead, s
		}
	}
	if g.measured {
		g.met = least > 1
		g.got = fmt.Sprintf("%s times ahead at the least (%s)", short(least), g.worst.where()) + r.unmeasured(server)
	}
	return g
}

func (r *results) watching(program string) (watchRow, bool) {
	i := slices.IndexFunc(r.Watching, func(w watchRow) bool { return w.Program == program && w.Containers == goalContainers })
	if i < 0 {
		return watchRow{}, false
	}
	return r.Watching[i], true
}

// cadvisorGoals compare with cAdvisor of the same run, or with what is recorded of it.
func (r *results) cadvisorGoals() []goal {
	ours, measured := r.watching(oursEngine)
	of := func(i int) (watchRow, string) {
		if w, ok := r.watching(recordedCAdvisor[i].Program); ok {
			return w, ""
		}
		return recordedCAdvisor[i], ", recorded earlier"
	}
	full, fullNote := of(0)
	tuned, tunedNote := of(1)
	compare := func(name string, got, most float64, want, text string) goal {
		return goal{name: name, want: want, got: text, met: got <= most, measured: measured, load: &load{containers: goalContainers}}
	}
	all := []goal{
		compare("200 containers beside "+cadvisorDefault, ours.Share, full.Share/100, "all CPU at most a hundredth",
			fmt.Sprintf("%s %% of a core, its %s %%%s: 1/%.0f", short(ours.Share), short(full.Share), fullNote, full.Share/ours.Share)),
		compare("200 containers beside "+cadvisorTuned, ours.Share, tuned.Share/4, "all CPU at most a quarter",
			fmt.Sprintf("%s %% of a core, its %s %%%s: 1/%.1f", short(ours.Share), short(tuned.Share), tunedNote, tuned.Share/ours.Share)),
		compare("memory beside "+cadvisorTuned, ours.RSS, math.Nextafter(tuned.RSS, 0), "less at 200 containers",
			fmt.Sprintf("%.1f MB, its %.1f MB%s", ours.RSS, tuned.RSS, tunedNote)),
	}
	all[2].heap = true
	if files, ok := r.watching(oursFiles); ok && measured {
		// The way to have it cheapest needs the engine's cgroup files mounted.
		all = append(all,
			compare("200 containers with cgroup files beside "+cadvisorDefault, files.Share, full.Share/100, "all CPU at most a hundredth",
				fmt.Sprintf("%s %% of a core, its %s %%%s: 1/%.0f", short(files.Share), short(full.Share), fullNote, full.Share/files.Share)),
			compare("200 containers with cgroup files beside "+cadvisorTuned, files.Share, tuned.Share/4, "all CPU at most a quarter",
				fmt.Sprintf("%s %% of a core, its %s %%%s: 1/%.1f", short(files.Share), short(tuned.Share), tunedNote, tuned.Share/files.Share)))
	}
	if !measured {
		for i := range all {
			all[i].got = ""
		}
	}
	return all
}

// probeGoal is that a probe costs less than the blackbox exporter's.
func (r *results) probeGoal() goal {
	g := goal{name: "HTTP probes beside the " + probeBlackbox, want: "less CPU per probe at every size"}
	least := math.Inf(1)
	var at probeRow
	for _, p := range r.Probes {
		if p.Program == probeBlackbox && p.Ratio < least {
			least, at = p.Ratio, p
			g.measured = true
		}
	}
	if g.measured {
		g.met = least > 1
		g.got = fmt.Sprintf("its is %s times ours at the least (%s)", short(least), counted(at.Targets, "target"))
		g.load = &load{targets: at.Targets}
	}
	return g
}

func (r *results) idleGoals() []goal {
	memory := goal{name: "memory at 20 containers and 1,000 series", want: fmt.Sprintf("RSS under %.0f MB", goalIdleRSS), heap: true}
	start := goal{name: "start to the first complete page", want: fmt.Sprintf("under %.0f ms", goalStart)}
	if i := r.Idle; i != nil {
		if i.RSS > 0 { // 0 where only starts or the image were measured
			memory.measured, memory.met, memory.got = true, i.RSS < goalIdleRSS, fmt.Sprintf("%.1f MB", i.RSS)
		}
		memory.load = &load{containers: idleContainers, series: idleSeries}
		start.load = memory.load
		if len(i.Starts) > 0 {
			start.measured, start.met = true, median(i.Starts) < goalStart
			start.got = fmt.Sprintf("%.0f ms, median of %d starts", median(i.Starts), len(i.Starts))
		}
	}
	return []goal{memory, start}
}

// freshGoals are that data are young when they are scraped, for no more readings.
func (r *results) freshGoals() []goal {
	age := goal{name: "age of data when scraped", want: fmt.Sprintf("median under %.0f s", goalFresh)}
	polls := goal{name: "readings for that", want: fmt.Sprintf("as many, ±%.0f %%", 100*goalPolls)}
	if f := r.Fresh; f != nil && f.PollsBefore > 0 {
		more := float64(f.PollsAfter)/float64(f.PollsBefore) - 1
		age.measured, age.met = true, f.MedianAfter < goalFresh
		age.got = fmt.Sprintf("median %s s, without phase locking %s s", short(f.MedianAfter), short(f.MedianBefore))
		polls.measured, polls.met = true, math.Abs(more) <= goalPolls
		polls.got = fmt.Sprintf("%+.2f %% (%s, without %s)", 100*more, thousands(f.PollsAfter), thousands(f.PollsBefore))
	}
	return []goal{age, polls}
}

// growthGoal is that a cost grows linearly or less, by the fit and at its end. What is known of fewer judges nothing.
func (r *results) growthGoal(kind, cost string) goal {
	g := goal{name: cost + " by " + kind, want: fmt.Sprintf("linear: exponent at most %.1f", goalExponent), heap: cost == "RSS"}
	c := r.curve(kind, cost)
	e, ok := c.exponent()
	if !ok {
		return g
	}
	most := c.points[len(c.points)-1]
	if most.n < goalGrowth {
		g.got = fmt.Sprintf("known up to %s alone", thousands(most.n))
		return g
	}
	g.got = fmt.Sprintf("exponent %.2f, up to %s", e, thousands(most.n))
	if last, from, ok := c.lastStep(); ok {
		g.got += fmt.Sprintf("; %.2f from %s on", last, thousands(from))
		e = max(e, last)
	}
	g.measured, g.met = true, e <= goalExponent
	g.load = map[string]*load{kindTargets: {targets: most.n}, kindContainers: {containers: most.n}, kindSeries: {series: most.n}}[kind]
	return g
}

// point is what n cost.
type point struct {
	n    int
	cost float64
}

// curve is a cost that grows from what nothing costs.
type curve struct {
	base   float64
	points []point // in order, without 0
}

func (r *results) curve(kind, cost string) curve {
	var c curve
	for _, g := range r.Growth {
		value := g.CPU
		if cost == "RSS" {
			value = g.RSS
		}
		switch {
		case g.N == 0:
			c.base = value
		case g.Kind == kind:
			c.points = append(c.points, point{g.N, value})
		}
	}
	slices.SortFunc(c.points, func(a, b point) int { return cmp.Compare(a.n, b.n) })
	return c
}

// above are the points that cost at least half of the base beside it: what is less drowns in its noise.
func (c curve) above() (above []point) {
	for _, p := range c.points {
		if p.cost-c.base > c.base/2 {
			above = append(above, point{p.n, p.cost - c.base})
		}
	}
	return above
}

// exponentFrom is the least load that tells of growth: what fewer cost is mostly the first of them.
const exponentFrom = 100

// exponent is the slope of the line through the points that are clear of the base, both axes logarithmic, by least
// squares: 1 is linear.
func (c curve) exponent() (slope float64, ok bool) {
	points := slices.DeleteFunc(c.above(), func(p point) bool { return p.n < exponentFrom })
	// Where nearly all is base, the last two are what there is.
	if n := len(c.points); len(points) < 2 && n >= 2 {
		points = nil
		for _, p := range c.points[n-2:] {
			points = append(points, point{p.n, max(p.cost-c.base, c.base/100)})
		}
	}
	if len(points) < 2 {
		return 0, false
	}
	var sx, sy, sxx, sxy float64
	for _, p := range points {
		x, y := math.Log(float64(p.n)), math.Log(p.cost)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	n := float64(len(points))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx), true
}

// lastStep is the slope between the last two loads, where both are clear of the base: a fit over all may hide it.
func (c curve) lastStep() (slope float64, from int, ok bool) {
	above := c.above()
	n := len(above)
	if n < 2 || above[n-2].n < exponentFrom {
		return 0, 0, false
	}
	a, b := above[n-2], above[n-1]
	return math.Log(b.cost/a.cost) / math.Log(float64(b.n)/float64(a.n)), a.n, true
}

// each is what one more costs, where there are most of them.
func (c curve) each() float64 {
	if len(c.points) == 0 {
		return 0
	}
	last := c.points[len(c.points)-1]
	return (last.cost - c.base) / float64(last.n)
}

// passes is from which number on all of them cost more than the base.
func (c curve) passes() int {
	e := c.each()
	if e <= 0 {
		return 0
	}
	return int(math.Ceil(c.base / e))
}

// knee is the number from which on one more costs over half as much again as it did between the two points before; 0
// where there is none.
func (c curve) knee() int {
	points := append([]point{{0, 0}}, c.above()...)
	for i := 2; i < len(points); i++ {
		before := (points[i-1].cost - points[i-2].cost) / float64(points[i-1].n-points[i-2].n)
		after := (points[i].cost - points[i-1].cost) / float64(points[i].n-points[i-1].n)
		if before > 0 && after > 1.5*before {
			return points[i-1].n
		}
	}
	return 0
}

// short has about three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return thousands(int(math.Round(v)))
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
