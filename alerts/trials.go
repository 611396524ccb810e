package alerts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// trial is input for which an alert must fire in some rounds and not in others. Each round has a scrape and an evaluation.
type trial struct {
	name   string
	series []input
	checks []check
	// alone trials test absent series, so they share no test case with others. held ones have an alert that goes on while nobody knows.
	alone, held bool
	// times is how often the alert fires: once, or for each of the two exporters.
	times float64
}

// try is a trial that shares a test case with others.
func try(name string, series []input, checks ...check) trial {
	return trial{
		name:   name,
		series: series,
		checks: checks,
		times:  1,
	}
}

func (t trial) apart() trial { t.alone = true; return t }

func (t trial) firing(times float64) trial { t.times = times; return t }

type check struct {
	round int
	fires bool
}

type input struct {
	name   string
	labels map[string]string
	steps  []step
}

// step defines a series from a round on: its value, which grows by by in each round. The value lost stands for failed scrapes.
type step struct {
	from      int
	value, by float64
}

var lost = math.NaN()

// scraped has a scrape each so many rounds, before a round.
func scraped(every, before int, value, by float64) (steps []step) {
	for at := 0; at < before; at += every {
		steps = append(steps, step{from: at, value: value + by*float64(at)}, step{from: at + 1, value: missing})
	}
	return steps
}

// missing is a round without a scrape: unlike lost, no stale marker ends the series.
var missing = math.Inf(-1)

func steady(v float64) []step { return []step{{value: v}} }

// exporters are the labels of a pair. All labels that distinguish exporters differ.
var exporters = [2]map[string]string{exporter("a"), exporter("b")}

func exporter(name string) map[string]string {
	labels := map[string]string{}
	for _, l := range slices.Concat(scrapeLabels, foreign) {
		labels[l] = name
	}
	return labels
}

// between are checks of an alert that begins to fire in one round and ends in another.
func between(begins, ends int) []check {
	return []check{{begins - 1, false}, {begins, true}, {ends - 1, true}, {ends, false}}
}

// when returns trials only if they fit the settings.
func when(fit bool, trials ...trial) []trial {
	if !fit {
		return nil
	}
	return trials
}

func from(exporter int, name string, labels map[string]string, steps ...step) input {
	all := maps.Clone(exporters[exporter])
	maps.Copy(all, labels)
	return input{name, all, steps}
}

// with adds labels to series.
func with(labels map[string]string, series []input) []input {
	for i := range series {
		maps.Copy(series[i].labels, labels)
	}
	return series
}

// pace converts durations to rounds.
type pace time.Duration

// within is the number of rounds for which a range surely includes its last sample. Prometheus 3 excludes a sample at its very beginning.
func (p pace) within(d config.Duration) int { return p.ceil(d) - 1 }

// beyond is the number of rounds after which a range surely excludes its last sample.
func (p pace) beyond(d config.Duration) int { return p.floor(d) + 1 }

var otherSeverity = map[string]string{Warning: Critical, Critical: Warning}

// rounds are how long the rule waits, and how long it keeps firing.
func (t *alert) rounds() (hold, keep int) { return t.ceil(t.hold), t.ceil(t.keep) }

// forgotten are checks at the end of the time for which a series counts that is lost in a round: some rounds later, the alert no longer
// fires, or fires only then.
func (p pace) forgotten(lost, later int, lookback config.Duration, fires bool) []check {
	return []check{{lost - 1 + p.within(lookback) + later, fires}, {lost - 1 + p.beyond(lookback) + later, !fires}}
}

func (p pace) floor(d config.Duration) int { return int(d.Std() / time.Duration(p)) }

func (p pace) ceil(d config.Duration) int {
	return int((d.Std() + time.Duration(p) - 1) / time.Duration(p))
}

// time is the time of a round in seconds.
func (p pace) time(round int) float64 { return float64(round) * time.Duration(p).Seconds() }

// above is slightly more than a limit: less than 1 % for all but small whole numbers.
func above(limit float64) float64 {
	if limit == math.Trunc(limit) && limit < 1<<52 {
		return limit + 1
	}
	return limit * 1.005
}

// subject is a gauge that an alert compares with its threshold, with the other conditions of the alert.
type subject struct {
	pace   pace
	name   string
	labels map[string]string
	// good is the last value that does not fire, bad the first one that does.
	good, bad float64
	// all means that all exporters must agree. times is how often the alert fires if they do.
	all   bool
	times float64
	// hold is how long the value must be bad before the alert fires, keep how long it keeps firing, lookback how long a scrape counts.
	hold, keep, lookback config.Duration
	// born means that the series must exist throughout hold.
	born bool
	// held are the series of exporters by which the alert goes on for a while, from one round until another; nil if it does not.
	held func(from, until int) [][]input
	// gates are other series that decide whether the alert may fire. beside are other series that never change.
	gates  []gate
	beside []input
}

// gate is a series that allows the alert at the value open and prevents it at the value shut. Either may be lost.
type gate struct {
	name       string
	labels     map[string]string
	open, shut float64
	// optional gates allow the alert if the series is absent.
	optional bool
	lookback config.Duration
	// wait is how long the gate must be open before the alert fires.
	wait config.Duration
}

// newSubject returns a gauge that fires above a limit, without gates.
func newSubject(a *config.Alerts, t *alert, name string, labels map[string]string, limit float64) *subject {
	s := &subject{
		pace:     t.pace,
		name:     "chatstack_" + name,
		labels:   labels,
		good:     limit,
		bad:      above(limit),
		times:    1,
		keep:     t.keep,
		lookback: a.Lookback,
	}
	if t.held {
		s.held = func(begin, end int) [][]input {
			during := func(name string, usual, then float64) input {
				return from(0, name, nil, step{value: usual}, step{from: begin, value: then}, step{from: end, value: usual})
			}
			starts := []input{during("chatstack_exporter_starting", 0, 1)}
			n, _ := rounds(a, a.Lookback-a.Interval)
			begin = max(0, begin-n+1) // it is held from the n-th round on
			up := during("up", 1, 0)
			up.labels["job"] = a.Job
			return [][]input{starts, {up, during("chatstack_exporter_build_info", 1, lost)}}
		}
	}
	return s
}

// heldBackBy adds a gate that is 1 while something holds the alert back. Otherwise it is open: 0, or lost if it exists only then.
func (s *subject) heldBackBy(a *config.Alerts, name string, open float64) *gate {
	s.gates = append(s.gates, gate{
		name:     "chatstack_" + name,
		labels:   s.labels,
		open:     open,
		shut:     1,
		optional: true,
		lookback: a.Lookback,
	})
	return &s.gates[len(s.gates)-1]
}

var container = map[string]string{"container": "web", "docker_host": "local"}

// What the exporters agree on, by the severity that it is for.
var (
	problems    = map[string]string{Warning: warningsAny, Critical: criticalAll}
	downTargets = map[string]string{Warning: targetDownAny, Critical: targetDownAll}
)

// problem is a problem that the exporter detects itself. The rules only compare how long it has lasted.
var problem = evidence{
	expr: func(_ *config.Alerts, t *alert) string {
		return fmt.Sprintf("%s{alert=%q}", problems[t.severity], t.name) + aboveSeconds(t.For)
	},
	trials: problemTrials,
	lasts:  true,
	held:   true,
}

func problemTrials(a *config.Alerts, t *alert) []trial {
	labels := func(alert, severity string) map[string]string {
		return map[string]string{"alert": alert, "severity": severity, "target": "x", "of": "y"}
	}
	s := newSubject(a, t, "problem_seconds", labels(t.name, t.severity), t.For.Std().Seconds())
	s.all = t.severity == Critical
	s.heldBackBy(a, "problem_excused", 0)
	alone, another := *s, *s
	alone.labels, another.labels = labels(t.name, otherSeverity[t.severity]), labels("Another", t.severity)
	return append(s.trials(),
		try("it has the other severity", alone.series(0, steady(s.bad)...), check{rise, false}),
		try("it is another problem", another.series(0, steady(s.bad)...), check{rise, false}),
		try("it has both severities", append(alone.series(0, steady(s.bad)...), s.series(0, steady(s.bad)...)...), check{rise, true}))
}

// series returns the series of one exporter: the subject, and everything that it needs.
func (s *subject) series(exporter int, steps ...step) []input {
	list := []input{from(exporter, s.name, s.labels, steps...)}
	for _, g := range s.gates {
		list = append(list, from(exporter, g.name, g.labels, steady(g.open)...))
	}
	for _, b := range s.beside {
		list = append(list, from(exporter, b.name, b.labels, b.steps...))
	}
	return list
}

// rise is the round in which a value turns bad.
const rise = 3

// trials test both sides of the threshold and of its times, with one and two exporters, and with every gate.
func (s *subject) trials() []trial {
	p, keep, hold := s.pace, s.pace.ceil(s.keep), s.pace.ceil(s.hold)
	silent, firing := rise+max(hold-2, -1), rise+p.floor(s.hold)
	end := firing + 2
	list := []trial{
		try("it turns bad and good again", s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: end, value: s.good}),
			check{rise - 1, false}, check{silent, false}, check{firing, true}, check{end + keep - 1, true}, check{end + keep, false}),
		try("all scrapes are lost from then on",
			s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: end, value: lost}),
			p.forgotten(end, keep, s.lookback, true)...),
		try("one of two exporters finds it", slices.Concat(s.series(0, steady(s.bad)...), s.series(1, steady(s.good)...)),
			check{firing, !s.all}),
		try("both exporters find it", slices.Concat(s.series(0, steady(s.bad)...), s.series(1, steady(s.bad)...)),
			check{firing, true}).firing(s.times),
		try("neither exporter finds it", slices.Concat(s.series(0, steady(s.good)...), s.series(1, steady(s.good)...)),
			check{firing, false}),
	}
	lostAt := firing + 2
	around := []check{{lostAt - 1, true}, {lostAt, true}, {lostAt + 1, true}, {lostAt + 2, true}}
	for n := lostAt + p.floor(s.hold); s.hold > 0 && n < lostAt+hold+3; n++ {
		around = append(around, check{n, true})
	}
	var gone []check
	for n := range hold + 3 {
		gone = append(gone, check{rise + n, false})
	}
	list = slices.Concat(list,
		[]trial{try("two scrapes are lost",
			s.series(0, step{value: s.bad}, step{from: lostAt, value: lost}, step{from: lostAt + 2, value: s.bad}), around...)},
		when(s.born && hold > p.beyond(s.lookback)+1, // else the last scrape counts for as long
			try("it turns bad and disappears at once",
				s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: rise + 1, value: lost}), gone...)),
		when(s.born, try("it is bad from the beginning", s.series(0, steady(s.bad)...), check{hold - 1, false}, check{hold, true})))
	if s.held != nil {
		begin := end + max(0, keep-1)
		again := begin + 2
		for i, held := range s.held(begin, again) {
			one := try([]string{"an exporter has just started", "no exporter answers"}[i],
				append(s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: end, value: s.good}), held...),
				check{end - 1, true}, check{again - 1, true}, check{again + keep - 1, true}, check{again + keep, false})
			one.held = true
			list = append(list, one)
		}
	}
	for i, g := range s.gates {
		list = append(list, s.gateTrials(i, g, firing+2, keep)...)
	}
	return list
}

// gateTrials open and shut a gate while the value is bad throughout.
func (s *subject) gateTrials(i int, g gate, change, keep int) []trial {
	p, wait, what := s.pace, s.pace.ceil(g.wait), strings.TrimPrefix(g.name, "chatstack_")
	var list []trial
	add := func(name string, before, after float64, checks ...check) {
		series := s.series(0, steady(s.bad)...)
		series[1+i].steps = []step{{value: before}, {from: change, value: after}}
		list = append(list, try(fmt.Sprintf(name, what), series, checks...))
	}
	if !math.IsNaN(g.shut) {
		add("%s begins to hold it back",
			g.open, g.shut, check{change - 1, true}, check{change + keep - 1, true}, check{change + keep, false})
	}
	if !math.IsNaN(g.open) {
		add("%s no longer holds it back", g.shut, g.open, check{change - 1, false}, check{change + wait, true})
	}
	if g.optional {
		add("%s is lost that held it back", g.shut, lost, p.forgotten(change, wait, g.lookback, false)...)
	} else {
		add("%s is lost that let it fire", g.open, lost, p.forgotten(change, keep, g.lookback, true)...)
	}
	return list
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
