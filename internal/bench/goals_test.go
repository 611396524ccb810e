package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is a promise, and what was measured of it.
type goal struct {
	name, want, got string
	met, measured   bool
	// worst is the scrape that missed the goal by most; load is what an exporter carries where it is missed.
	worst *scrapeRow
	load  *load
	heap  bool // the goal is about memory
}

func (g goal) verdict() string {
	switch {
	case !g.measured:
		return "not measured yet"
	case g.met:
		return "met"
	}
	return "**missed**"
}

const (
	goalNginx, goalBare   = 2.0, 1.3
	goalIdleRSS           = 24.0        // MB, of 20 containers and 1,000 series
	goalStart, goalBinary = 200.0, 16.0 // ms, MB
	goalFresh, goalPolls  = 2.0, 0.01   // seconds; share that the number of readings may differ by
	goalGrowth            = 10_000      // growth must be known as far
	goalTargetsRSS        = 200.0       // MB, of as many HTTP targets
	goalTargetsShare      = 0.45        // of a core, for them
	goalExponent          = 1.1         // linear, with the noise of few points
)

// judged is the goal with what was measured of it.
func (g goal) judged(met bool, got string, args ...any) goal {
	g.measured, g.met, g.got = true, met, fmt.Sprintf(got, args...)
	return g
}

// goals judges a run.
func (r *results) goals() (all []goal) {
	for _, server := range []string{serverNginx, serverBare, serverPromhttp, serverFederate, serverTelegraf} {
		all = append(all, r.scrapeGoal(server))
	}
	all = append(all, r.containerGoals()...)
	all = append(all, r.probeGoal(kindTargets), r.probeGoal(kindTLS))
	all = append(all, r.targetGoals()...)
	all = append(all, r.idleGoals()...)
	all = append(all, r.freshGoals()...)
	for _, kind := range kinds {
		all = append(all, r.growthGoal(kind, "CPU"), r.growthGoal(kind, "RSS"))
	}
	return all
}

// scrapeGoal is that ours takes at most so many times as long as a server that has the page in its hands, or that it is
// faster than a peer at every size, and serves more.
func (r *results) scrapeGoal(server string) goal {
	most, limited := map[string]float64{serverNginx: goalNginx, serverBare: goalBare}[server]
	g := goal{name: "scrape beside " + server, want: "p50 and throughput ahead at every size"}
	slowness := func(s *scrapeRow) float64 { return max(1/s.Ratio, s.Speed) }
	if limited {
		g.want = fmt.Sprintf("p50 at most %.1f times its", most)
		slowness = func(s *scrapeRow) float64 { return 1 / s.Ratio }
	}
	known, beyond, all := map[int]bool{}, 0, 0
	for i := range r.Scrape {
		s := &r.Scrape[i]
		if s.Server != server || s.Ratio == 0 {
			continue
		}
		all++
		known[s.Series] = true
		if slowness(s) > most {
			beyond++
		}
		if g.worst == nil || slowness(s) > slowness(g.worst) {
			g.worst = s
		}
	}
	switch {
	case g.worst == nil:
		return g
	case !limited:
		g = g.judged(slowness(g.worst) < 1, "%s times ahead at the least (%s)", short(1/slowness(g.worst)), g.worst.where())
	default:
		g = g.judged(beyond == 0, "%.2f times at the worst (%s)", slowness(g.worst), g.worst.where())
		if beyond > 0 {
			g.got += fmt.Sprintf(", over the goal in %d of %d", beyond, all)
		}
	}
	if len(known) < len(sizes) {
		g.got += fmt.Sprintf("; known at %d of %d sizes alone", len(known), len(sizes))
	}
	return g
}

// containerGoals compare the whole cost of watching containers with that of cAdvisor, idle and busy.
func (r *results) containerGoals() (all []goal) {
	for _, busy := range []bool{false, true} {
		containers := fmt.Sprintf("%d %s containers", goalContainers, does(busy))
		find := func(program string) *watchRow {
			is := func(w watchRow) bool {
				return w.Program == program && w.Containers == goalContainers && w.Busy == busy
			}
			if i := slices.IndexFunc(r.Watching, is); i >= 0 {
				return &r.Watching[i]
			}
			return nil
		}
		for _, c := range []struct {
			ours, rival, want string
			most              float64
		}{
			{
				oursFiles,
				cadvisorDefault,
				"all CPU at most an eighth",
				1.0 / 8,
			},
			{
				oursFiles,
				cadvisorTuned,
				"all CPU at most a quarter",
				1.0 / 4,
			},
			{
				oursEngine,
				cadvisorTuned,
				"less CPU, the engine's included",
				1,
			},
		} {
			_, setting, _ := strings.Cut(c.ours, resources)
			g := goal{
				name: fmt.Sprintf("%s, %s, beside %s", containers, setting, c.rival),
				want: c.want,
				load: &load{containers: goalContainers},
			}
			if ours, rival := find(c.ours), find(c.rival); ours != nil && rival != nil {
				g = g.judged(ours.Share <= rival.Share*c.most, "%s of a core, its %s: 1/%s",
					percent(ours.Share), percent(rival.Share), short(rival.Share/ours.Share))
			}
			all = append(all, g)
		}
		g := goal{
			name: "memory, " + containers + ", beside " + cadvisorTuned,
			want: "less RSS",
			heap: true,
			load: &load{containers: goalContainers},
		}
		if engine, files, rival := find(oursEngine), find(oursFiles), find(cadvisorTuned); engine != nil && files != nil && rival != nil {
			most := max(engine.RSS, files.RSS)
			g = g.judged(most < rival.RSS, "%s, its %s", mb(most), mb(rival.RSS))
		}
		all = append(all, g)
	}
	return all
}

// does says what containers do.
func does(busy bool) string {
	if busy {
		return "busy"
	}
	return "idle"
}

// probeGoal is that a probe costs less than the blackbox exporter's.
func (r *results) probeGoal(kind string) goal {
	g := goal{name: "probes of " + kind + " beside the " + probeBlackbox, want: "less CPU per probe at every size"}
	ours := map[int]float64{}
	for _, p := range r.Probes {
		if p.Kind == kind && p.Program == serverOurs {
			ours[p.Targets] = p.Ratio
		}
	}
	least := math.Inf(1)
	for _, p := range r.Probes {
		if p.Kind != kind || p.Program != probeBlackbox || ours[p.Targets] == 0 || p.Ratio/ours[p.Targets] >= least {
			continue
		}
		least = p.Ratio / ours[p.Targets]
		l := loadOf(kind, p.Targets)
		g.load = &l
		g = g.judged(least > 1, "its is %s times ours at the least (%s)", short(least), counted(p.Targets, "target"))
	}
	return g
}

// targetGoals are what many HTTP targets may cost.
func (r *results) targetGoals() []goal {
	l := loadOf(kindTargets, goalGrowth)
	name := thousands(goalGrowth) + " " + kindTargets
	page := goal{name: "page of many " + kindTargets, want: "time to make it sublinear from 100 to 10,000", load: &l}
	cpu := goal{name: "CPU at " + name, want: fmt.Sprintf("under %.2f of a core", goalTargetsShare), load: &l}
	rss := goal{
		name: "memory at " + name,
		want: fmt.Sprintf("RSS under %.0f MB", goalTargetsRSS),
		heap: true,
		load: &l,
	}
	made := map[int]float64{}
	for _, row := range r.Growth {
		if row.Kind != kindTargets {
			continue
		}
		made[row.N] = row.Page
		if share := row.CPU / milliseconds(usualInterval); row.N == goalGrowth {
			cpu = cpu.judged(share < goalTargetsShare, "%.2f of a core", share)
			rss = rss.judged(row.RSS < goalTargetsRSS, "%s", mb(row.RSS))
		}
	}
	if few, many := made[exponentFrom], made[goalGrowth]; few > 0 && many > 0 {
		e := slope(point{exponentFrom, few}, point{goalGrowth, many})
		page = page.judged(e < 1, "exponent %.2f: %s, then %s", e, ms(few), ms(many))
	}
	return []goal{page, cpu, rss}
}

func (r *results) idleGoals() []goal {
	carries := &load{containers: idleContainers, series: idleSeries}
	memory := goal{
		name: "memory at 20 containers and 1,000 series",
		want: fmt.Sprintf("RSS under %.0f MB", goalIdleRSS),
		heap: true,
		load: carries,
	}
	start := goal{name: "demo: start to the first complete page", want: fmt.Sprintf("under %.0f ms", goalStart)}
	binary := goal{name: "binary, static", want: fmt.Sprintf("under %.0f MB", goalBinary)}
	if i := r.Idle; i != nil && i.RSS > 0 {
		memory = memory.judged(i.RSS < goalIdleRSS, "%s", mb(i.RSS))
	}
	if i := r.Idle; i != nil && len(i.Starts) > 0 {
		start = start.judged(median(i.Starts) < goalStart, "%.0f ms, median of %s", median(i.Starts), counted(len(i.Starts), "start"))
	}
	if i := r.Idle; i != nil && i.Binary > 0 {
		binary = binary.judged(i.Binary < goalBinary, "%s", mb(i.Binary))
	}
	return []goal{memory, start, binary}
}

// freshGoals are that data are young when they are scraped, for no more readings.
func (r *results) freshGoals() []goal {
	age := goal{name: "age of data when scraped", want: fmt.Sprintf("median under %.0f s", goalFresh)}
	polls := goal{name: "readings for that", want: fmt.Sprintf("as many, ±%.0f %%", 100*goalPolls)}
	if f := r.Fresh; f != nil && f.PollsBefore > 0 {
		more := float64(f.PollsAfter)/float64(f.PollsBefore) - 1
		age = age.judged(f.MedianAfter < goalFresh, "median %s s, without phase locking %s s", short(f.MedianAfter), short(f.MedianBefore))
		polls = polls.judged(math.Abs(more) <= goalPolls, "%+.2f %% (%s, without %s)",
			100*more, thousands(f.PollsAfter), thousands(f.PollsBefore))
	}
	return []goal{age, polls}
}

// growthGoal is that a cost grows linearly or less, by the fit and at its end. It needs the largest load.
func (r *results) growthGoal(kind, cost string) goal {
	g := goal{name: cost + " by " + kind, want: fmt.Sprintf("linear: exponent at most %.1f", goalExponent), heap: cost == "RSS"}
	c := r.curve(kind, cost)
	e, ok := c.exponent()
	if !ok {
		return g
	}
	most := c.last().n
	if most < goalGrowth {
		g.got = fmt.Sprintf("known up to %s alone", thousands(most))
		return g
	}
	l, end := loadOf(kind, most), ""
	g.load = &l
	worst := e
	if last, from, ok := c.lastStep(); ok {
		end, worst = fmt.Sprintf("; %.2f from %s on", last, thousands(from)), max(e, last)
	}
	return g.judged(worst <= goalExponent, "exponent %.2f, up to %s%s", e, thousands(most), end)
}

// point is what n cost.
type point struct {
	n    int
	cost float64
}

// curve is a cost that grows from the base, which nothing costs.
type curve struct {
	base   float64
	points []point // in order, without 0
}

func (r *results) curve(kind, cost string) (c curve) {
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

// last is the largest load.
func (c curve) last() point { return c.points[len(c.points)-1] }

// above are the points that cost at least half of the base beside it: less drowns in the base's noise.
func (c curve) above() (above []point) {
	for _, p := range c.points {
		if p.cost-c.base > c.base/2 {
			above = append(above, point{p.n, p.cost - c.base})
		}
	}
	return above
}

// exponentFrom is the least load that shows growth: what fewer cost is mostly the first of them.
const exponentFrom = 100

func slope(a, b point) float64 {
	return math.Log(b.cost/a.cost) / math.Log(float64(b.n)/float64(a.n))
}

// exponent is the slope of the line through the points that are clear of the base, both axes logarithmic, by least squares.
func (c curve) exponent() (float64, bool) {
	points := slices.DeleteFunc(c.above(), func(p point) bool { return p.n < exponentFrom })
	if n := len(c.points); len(points) < 2 {
		if n < 2 {
			return 0, false
		}
		// Where nearly all is base, the last two are what there is.
		above := func(p point) point { return point{p.n, max(p.cost-c.base, c.base/100)} }
		return slope(above(c.points[n-2]), above(c.points[n-1])), true
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
func (c curve) lastStep() (steep float64, from int, ok bool) {
	above := c.above()
	n := len(above)
	if n < 2 || above[n-2].n < exponentFrom {
		return 0, 0, false
	}
	return slope(above[n-2], above[n-1]), above[n-2].n, true
}

// each is what one more costs, where there are most of them.
func (c curve) each() float64 { return (c.last().cost - c.base) / float64(c.last().n) }
