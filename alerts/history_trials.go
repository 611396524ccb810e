package alerts

import (
	"math"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// fillingTrials have lines that cross each limit, and steps, which are not a trend.
func fillingTrials(a *config.Alerts, t *alert) []trial {
	p := pace(a.Interval)
	limit, left := float64(t.Over)/100, 1-float64(t.Over)/100
	half, within := float64(t.settings.Window)/2/float64(a.Interval), float64(t.settings.Within)/float64(a.Interval)
	hold, keep := p.ceil(t.hold), p.ceil(t.keep)
	used := func(steps ...step) []input {
		return []input{from(0, "chatstack_volume_used_ratio", map[string]string{"volume": "data"}, steps...)}
	}
	at := func(share float64) int { return int(math.Ceil(share * half)) }
	// line has a value between two rounds.
	line := func(round int, value, by float64) step { return step{value: value - by*(float64(round)-0.5), by: by} }
	begin := at(2) + 5
	end := begin + hold + 4
	fast, slow := 1.5*left/within, 0.4*left/within
	falls := append(used(line(begin, limit, fast), step{from: end, value: limit - 0.1}),
		from(1, "chatstack_volume_used_ratio", map[string]string{"volume": "data"}, steady(0)...))
	var edges []check
	for _, n := range []int{begin + hold - 1, begin + hold, end - 1} {
		edges = append(edges, check{n, n >= begin+hold})
	}
	// A line with a bend: one half crosses the limit at the beginning, and the other has done so before. It fills faster by so little
	// that the newer half alone is not full in time before.
	slowly, more := line(begin, 1-0.4*left, slow), 1+0.4/(within/half+1)
	later, sooner := begin+hold-at(1)+1, begin-at(1)-2
	trials := []trial{
		{
			name:   "it fills faster later",
			series: used(slowly, step{from: later, value: slowly.value + slow*float64(later), by: more * slow}),
			checks: edges,
		},
		{name: "it fills slower later", series: used(
			step{value: slowly.value + (1-more)*slow*float64(sooner), by: more * slow},
			step{from: sooner, value: slowly.value + slow*float64(sooner), by: slow},
		), checks: edges},
		{
			name:   "it fills, and exceeds the limit",
			series: falls,
			checks: append(slices.Clone(edges), check{end + keep - 1, true}, check{end + keep, false}),
		},
		{name: "it exceeds the limit, and fills faster", series: used(line(begin, 1-0.4*left, slow)), checks: edges},
		{name: "it is full, and stays so", series: used(steady(1)...), checks: []check{{begin + hold, false}}},
	}
	// files are large files. The newest one fills the volume.
	size := 0.4 * left
	const first = 3
	files := func(rounds ...int) []input {
		full := 1 - 0.01*left
		steps := steady(full - size*float64(len(rounds)))
		for i, n := range rounds {
			steps = append(steps, step{from: n, value: full - size*float64(len(rounds)-1-i)})
		}
		return used(steps...)
	}
	var never []check
	for n := range 7 {
		never = append(never, check{at(1+float64(n)/4) + first, false})
	}
	trials = append(trials, trial{name: "one large file", series: files(at(1) + first), checks: never},
		trial{
			name:   "one large file, and nothing is known of the time before",
			series: files(first),
			checks: []check{{first + at(1.45), false}},
		},
		trial{
			name:   "a large file after a long time",
			series: files(at(0.5), at(0.5)+at(2.05)),
			checks: []check{{at(0.5) + at(2.45), false}},
		})
	// A file must be some way inside a half to make a trend of it.
	share := 1.1 * (size + 0.01*left) / (6 * size * (within/half + 0.5))
	inside := (1-math.Sqrt(1-4*share))/2 + 3/half
	if apart := 0.24; int((apart-inside)*half) > hold+2 {
		trials = append(trials,
			trial{
				name:   "two large files, the newer one long ago",
				series: files(at(0.3), at(0.3+apart)),
				checks: []check{{at(1.3+apart) - 2, true}},
			},
			trial{
				name:   "two large files, the older one long ago",
				series: files(at(0.3), at(2.3-apart)),
				checks: []check{{at(2.3 - inside), true}},
			})
	}
	return trials
}

// sustainedTrials have bursts and slow rates that XMPPAuthFailureRate does not report.
func sustainedTrials(a *config.Alerts, t *alert) []trial {
	p := pace(a.Interval)
	n, _ := rounds(a, t.settings.Window)
	keep := p.ceil(t.keep)
	count := func(exporter int, host string, steps ...step) input {
		return from(exporter, "xmpp_c2s_auth_failure_total", map[string]string{"host": host}, steps...)
	}
	const before = 1e6 // a counter that is far above 0
	// total is how many logins fail in the window, if it is exactly the limit.
	total := max(float64(t.Over), 0.5) * p.time(n) / 60
	rate := a.Of(xmppAuthFailureRate.Key)
	// A burst is seen for so many rounds, and remembered by the alert on the rate for two more.
	seen := p.ceil(rate.Window) + 1
	patience := p.ceil(min(rate.Warning.For, rate.Critical.For))
	begin := seen + 2
	trials := []trial{{name: "nobody fails", series: []input{count(0, "x", steady(before)...)}, checks: []check{{n + begin, false}}}}
	bursts := func(exporter int, host string, share float64, at ...int) input {
		steps := steady(before)
		for i, round := range at {
			steps = append(steps, step{from: round, value: before + share*total*float64(i+1)/float64(len(at))})
		}
		return count(exporter, host, steps...)
	}
	const many = 5
	spreadOver := func(span float64) (at []int) {
		for i := range many {
			at = append(at, begin+int(span*float64(n)*float64(i)/(many-1)))
		}
		return at
	}
	short, long := spreadOver(0.8), spreadOver(1.3)
	last := short[many-1]
	if patience >= seen+4 && short[1]-short[0] > seen+4 {
		fires := last + seen
		trials = append(trials,
			trial{
				name:   "bursts below the limit",
				series: []input{bursts(0, "x", 0.995, short...)},
				checks: []check{{fires, false}, {begin + n, false}},
			},
			trial{name: "bursts above the limit", series: []input{bursts(0, "x", 1.005, short...)}, checks: []check{
				{last - 1, false}, {fires, true}, {begin + n - 1 + keep, true}, {begin + n + keep, false},
			}},
			trial{
				name:   "bursts over a longer time",
				series: []input{bursts(0, "x", 1.005, long...)},
				checks: []check{{long[many-1] + seen, false}, {long[many-1] + n, false}},
			},
			trial{
				name:   "bursts on two hosts",
				series: []input{bursts(0, "x", 0.505, short...), bursts(0, "y", 0.5, short...)},
				checks: []check{{fires, true}},
			},
			trial{
				name:   "one of two exporters sees bursts",
				series: []input{bursts(0, "x", 1.005, short...), count(1, "x", steady(before)...)},
				checks: []check{{fires, true}},
			},
			trial{
				name:   "both exporters see bursts",
				series: []input{bursts(0, "x", 1.005, short...), bursts(1, "x", 1.005, short...)},
				checks: []check{{fires, true}},
			},
			trial{
				name:   "each of two exporters sees few",
				series: []input{bursts(0, "x", 0.6, short...), bursts(1, "x", 0.6, short...)},
				checks: []check{{fires, false}},
			},
			trial{name: "the server restarts its counter", series: []input{count(0, "x", slices.Concat(
				bursts(0, "x", 0.995, short...).steps[:many], []step{{from: last - 2, value: 0}, {from: last, value: 1.5 * total / many}},
			)...)}, checks: []check{{last - 1, false}, {fires, true}}})
		excuse := func(steps ...step) []input {
			return []input{bursts(0, "x", 1.005, short...), from(0, "chatstack_xmpp_auth_failures_excused", nil, steps...)}
		}
		begins := fires + 2
		// An excuse may be remembered for so long that the first burst leaves the window,
		// so maintenance ends before the last burst is counted.
		ends := fires + 1 - p.within(a.Lookback)
		trials = append(trials,
			trial{
				name:   "maintenance begins",
				series: excuse(step{value: lost}, step{from: begins, value: 1}),
				checks: []check{{begins + keep - 1, true}, {begins + keep, false}},
			},
			trial{name: "maintenance ends", series: excuse(step{value: 1}, step{from: ends, value: lost}), checks: []check{
				{ends - 1 + p.within(a.Lookback), false}, {ends - 1 + p.beyond(a.Lookback), true},
			}})
	}
	if t.Over < rate.Warning.Over && t.Over > 0 {
		each := total / float64(n)
		trials = append(trials,
			trial{
				name:   "a little below the limit",
				series: []input{count(0, "x", step{value: before, by: each * 0.99})},
				checks: []check{{2 * n, false}},
			},
			trial{
				name:   "a little above the limit",
				series: []input{count(0, "x", step{value: before, by: each * 1.01})},
				checks: []check{{n - 10, false}, {2 * n, true}},
			})
	}
	return trials
}

// goneTrials have users for hours, and then none.
func goneTrials(a *config.Alerts, t *alert, name, excuse string) []trial {
	p, usual, nobody := pace(a.Interval), float64(t.settings.Typical), float64(t.settings.Bots)
	least, _ := rounds(a, leastHistory)
	hold, keep := p.ceil(t.hold), p.ceil(t.keep)
	people := func(exporter int, steps ...step) input { return from(exporter, name, nil, steps...) }
	leaves := least + 10
	fires := leaves + hold
	back := fires + 2
	edges := []check{{fires - 1, false}, {fires, true}, {back + keep - 1, true}, {back + keep, false}}
	silent := []check{{fires + 1, false}}
	gone := []step{{value: usual}, {from: leaves, value: nobody}}
	excused := func(steps ...step) []input { return []input{people(0, gone...), from(0, excuse, nil, steps...)} }
	within, beyond := back-1+p.within(a.Lookback), back-1+p.beyond(a.Lookback)
	early := least - 3 - hold
	trials := []trial{
		{
			name:   "all leave, and one comes back",
			series: []input{people(0, append(slices.Clone(gone), step{from: back, value: nobody + 1})...)},
			checks: edges,
		},
		{name: "there were fewer", series: []input{people(0, step{value: usual - 1}, step{from: leaves, value: nobody})}, checks: silent},
		{name: "one stays", series: []input{people(0, step{value: usual}, step{from: leaves, value: nobody + 1})}, checks: silent},
		{
			name:   "one of two exporters sees nobody",
			series: []input{people(0, gone...), people(1, steady(usual)...)},
			checks: []check{{fires, true}},
		},
		{name: "both exporters see nobody", series: []input{people(0, gone...), people(1, gone...)}, checks: []check{{fires, true}}},
		{name: "two exporters see half as many", series: []input{
			people(0, step{value: usual / 2.5}, step{from: leaves, value: nobody}),
			people(1, step{value: usual / 2.5}, step{from: leaves, value: nobody}),
		}, checks: silent},
		{
			name:   "all scrapes are lost",
			series: []input{people(0, append(slices.Clone(gone), step{from: back, value: lost})...)},
			checks: []check{{within + keep, true}, {beyond + keep, false}},
		},
		{
			name:   "maintenance begins",
			series: excused(step{value: lost}, step{from: back, value: 1}),
			checks: []check{{back - 1, true}, {back + keep - 1, true}, {back + keep, false}},
		},
		{
			name:   "maintenance ends",
			series: excused(step{value: lost}, step{from: leaves - 1, value: 1}, step{from: back, value: lost}),
			checks: []check{{within + hold, false}, {beyond + hold, true}},
		},
	}
	around := []check{{fires - 1, false}, {fires, true}}
	if hold > 5 {
		trials = append(trials, trial{name: "two scrapes are lost", checks: around, series: []input{people(0, append(slices.Clone(gone),
			step{from: leaves + 2, value: lost}, step{from: leaves + 4, value: nobody})...)}})
	}
	if early > least/2+hold {
		trials = append(trials, trial{
			name:   "after a few hours",
			series: []input{people(0, step{value: usual}, step{from: early, value: nobody})},
			checks: []check{{least - 2 + hold, false}, {least - 1 + hold, true}},
		})
	}
	if ends := 2*leaves - 1; hold < least/2 {
		trials = append(trials, trial{
			name:   "nobody comes back",
			series: []input{people(0, gone...)},
			checks: []check{{ends - 1 + keep, true}, {ends + keep, false}},
		})
	}
	return trials
}

// splitTrials have a server leave the network, on days with and without an earlier split.
func splitTrials(a *config.Alerts, t *alert) []trial {
	p := pace(a.Interval)
	whole, hold, keep := p.ceil(day), p.ceil(t.hold), p.ceil(t.keep)
	servers := func(exporter int, steps ...step) input { return from(exporter, "chatstack_irc_servers", nil, steps...) }
	split := whole + 5
	fires := split + hold
	back := fires + 2
	gone := []step{{value: 3}, {from: split, value: 2}}
	then := func(later ...step) []step { return append(slices.Clone(gone), later...) }
	excused := func(steps ...step) []input {
		return []input{servers(0, gone...), from(0, "chatstack_irc_excused", nil, steps...)}
	}
	within, beyond := back-1+p.within(a.Lookback), back-1+p.beyond(a.Lookback)
	trials := []trial{
		{name: "a server splits and comes back", series: []input{servers(0, then(step{from: back, value: 3})...)}, checks: []check{
			{split - 1, false}, {fires - 1, false}, {fires, true}, {back + keep - 1, true}, {back + keep, false},
		}},
		{
			name:   "one of two exporters sees it",
			series: []input{servers(0, gone...), servers(1, steady(3)...)},
			checks: []check{{fires, true}},
		},
		{name: "both exporters see it", series: []input{servers(0, gone...), servers(1, gone...)}, checks: []check{{fires, true}}},
		{name: "one is added", series: []input{servers(0, step{value: 3}, step{from: split, value: 4})}, checks: []check{{fires, false}}},
		{
			name:   "all scrapes are lost",
			series: []input{servers(0, then(step{from: back, value: lost})...)},
			checks: []check{{within + keep, true}, {beyond + keep, false}},
		},
		{
			name:   "maintenance begins",
			series: excused(step{value: lost}, step{from: back, value: 1}),
			checks: []check{{back - 1, true}, {back + keep - 1, true}, {back + keep, false}},
		},
		{
			name:   "maintenance ends",
			series: excused(step{value: lost}, step{from: split - 1, value: 1}, step{from: back, value: lost}),
			checks: []check{{within + hold, false}, {beyond + hold, true}},
		},
	}
	if hold > 5 {
		trials = append(trials,
			trial{name: "two scrapes are lost", checks: []check{{fires - 1, false}, {fires, true}}, series: []input{servers(0, then(
				step{from: split + 2, value: lost}, step{from: split + 4, value: 2})...)}})
	}
	return trials
}

// longest is the most rounds of a trial, because longer ones take promtool minutes. Alerts over days have separate tests.
const longest = 3000

// short leaves out trials that take too long.
func short(trialsOf func(*config.Alerts, *alert) []trial) func(*config.Alerts, *alert) []trial {
	return func(a *config.Alerts, t *alert) []trial {
		return slices.DeleteFunc(trialsOf(a, t), func(one trial) bool {
			return slices.ContainsFunc(one.checks, func(c check) bool { return c.round > longest })
		})
	}
}
