package alerts

import (
	"fmt"
	"io"
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
	// alone trials test absent series, so they share no test case with others.
	alone bool
	// each means that the alert fires once for each of the two exporters.
	each bool
}

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

func from(exporter int, name string, labels map[string]string, steps ...step) input {
	all := maps.Clone(exporters[exporter])
	maps.Copy(all, labels)
	return input{name, all, steps}
}

// pace converts durations to rounds.
type pace time.Duration

// within is the number of rounds for which a range surely includes its last sample. Prometheus 3 excludes a sample at its very beginning.
func (p pace) within(d config.Duration) int { return p.ceil(d) - 1 }

// beyond is the number of rounds after which a range surely excludes its last sample.
func (p pace) beyond(d config.Duration) int { return p.floor(d) + 1 }

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
	// all means that all exporters must agree, each that the alert fires for each exporter separately.
	all, each bool
	// hold is how long the value must be bad before the alert fires, keep how long it keeps firing, lookback how long a scrape counts.
	hold, keep, lookback config.Duration
	// born means that the series must exist throughout hold.
	born bool
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
	p, keep := s.pace, s.pace.ceil(s.keep)
	silent, firing := rise+max(p.ceil(s.hold)-2, -1), rise+p.floor(s.hold)
	end := firing + 2
	list := []trial{
		{
			name:   "it turns bad and good again",
			series: s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: end, value: s.good}),
			checks: []check{
				{rise - 1, false}, {silent, false}, {firing, true}, {end + keep - 1, true}, {end + keep, false},
			},
		},
		{
			name:   "all scrapes are lost from then on",
			series: s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: end, value: lost}),
			checks: []check{
				{end - 1 + p.within(s.lookback) + keep, true}, {end - 1 + p.beyond(s.lookback) + keep, false},
			},
		},
		{
			name:   "one of two exporters finds it",
			series: slices.Concat(s.series(0, steady(s.bad)...), s.series(1, steady(s.good)...)),
			checks: []check{
				{firing, !s.all},
			},
		},
		{
			name:   "both exporters find it",
			series: slices.Concat(s.series(0, steady(s.bad)...), s.series(1, steady(s.bad)...)),
			checks: []check{
				{firing, true},
			},
			each: s.each,
		},
		{
			name:   "neither exporter finds it",
			series: slices.Concat(s.series(0, steady(s.good)...), s.series(1, steady(s.good)...)),
			checks: []check{
				{firing, false},
			},
		},
	}
	lostAt := firing + 2
	around := []check{{lostAt - 1, true}, {lostAt, true}, {lostAt + 1, true}, {lostAt + 2, true}}
	for n := lostAt + p.floor(s.hold); s.hold > 0 && n < lostAt+p.ceil(s.hold)+3; n++ {
		around = append(around, check{n, true})
	}
	list = append(list, trial{
		name: "two scrapes are lost", checks: around,
		series: s.series(0, step{value: s.bad}, step{from: lostAt, value: lost}, step{from: lostAt + 2, value: s.bad}),
	})
	if s.born && p.ceil(s.hold) > p.beyond(s.lookback)+1 { // else the last scrape counts for as long
		var gone []check
		for n := range p.ceil(s.hold) + 3 {
			gone = append(gone, check{rise + n, false})
		}
		list = append(list, trial{
			name: "it turns bad and disappears at once", checks: gone,
			series: s.series(0, step{value: s.good}, step{from: rise, value: s.bad}, step{from: rise + 1, value: lost}),
		})
	}
	if s.born {
		list = append(list, trial{name: "it is bad from the beginning", series: s.series(0, steady(s.bad)...), checks: []check{
			{p.ceil(s.hold) - 1, false}, {p.ceil(s.hold), true},
		}})
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
		list = append(list, trial{name: fmt.Sprintf(name, what), series: series, checks: checks})
	}
	if !math.IsNaN(g.shut) {
		add("%s begins to hold it back",
			g.open, g.shut, check{change - 1, true}, check{change + keep - 1, true}, check{change + keep, false})
	}
	if !math.IsNaN(g.open) {
		add("%s no longer holds it back", g.shut, g.open, check{change - 1, false}, check{change + wait, true})
	}
	within, beyond := change-1+p.within(g.lookback), change-1+p.beyond(g.lookback)
	if g.optional {
		add("%s is lost that held it back", g.shut, lost, check{within + wait, false}, check{beyond + wait, true})
	} else {
		add("%s is lost that let it fire", g.open, lost, check{within + keep, true}, check{beyond + keep, false})
	}
	return list
}

// text writes the steps as promtool reads them, up to the last round.
func text(steps []step, last int) string {
	var words []string
	for i, s := range steps {
		end := last + 1
		if i+1 < len(steps) {
			end = min(end, steps[i+1].from)
		}
		n := end - s.from
		if n <= 0 {
			continue
		}
		if math.IsNaN(s.value) || s.value == missing {
			if i > 0 && s.value != missing { // as Prometheus marks what a scrape has lost
				words = append(words, "stale")
				n--
			}
			if n > 0 {
				words = append(words, fmt.Sprintf("_x%d", n))
			}
			continue
		}
		by := ""
		if s.by != 0 {
			by = strings.Replace("+"+number(s.by), "+-", "-", 1)
		}
		words = append(words, fmt.Sprintf("%s%sx%d", number(s.value), by, n-1))
	}
	return strings.Join(words, " ")
}

// The file that promtool reads.
type (
	trialFile struct {
		RuleFiles          []string    `yaml:"rule_files"`
		EvaluationInterval string      `yaml:"evaluation_interval"`
		Tests              []trialCase `yaml:"tests"`
	}
	trialCase struct {
		Name        string        `yaml:"name"`
		Interval    string        `yaml:"interval"`
		InputSeries []trialSeries `yaml:"input_series"`
		Checks      []trialCheck  `yaml:"promql_expr_test"`
	}
	trialSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	trialCheck struct {
		Expr     string        `yaml:"expr"`
		EvalTime string        `yaml:"eval_time"`
		Samples  []trialSample `yaml:"exp_samples"`
	}
	trialSample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
)

// testCases returns one case of promtool for each alert and severity. Each trial in it has its own environment: a value of the label
// env, which all alerts keep.
func (t *alert) testCases(interval config.Duration, trials []trial) []trialCase {
	shared := trialCase{Name: strings.TrimSpace(t.name + " " + t.severity), Interval: interval.Std().String()}
	var cases []trialCase
	for _, one := range trials {
		c, env := &shared, fmt.Sprintf(",env=%q", one.name)
		if one.alone {
			cases = append(cases, trialCase{Name: shared.Name + ": " + one.name, Interval: shared.Interval})
			c, env = &cases[len(cases)-1], ""
		}
		last := 0
		for _, check := range one.checks {
			if check.round < 0 {
				continue // before the first evaluation
			}
			last = max(last, check.round)
			fires := 0.0
			switch {
			case check.fires && one.each:
				fires = 2
			case check.fires:
				fires = 1
			}
			c.Checks = append(c.Checks, trialCheck{
				Expr: fmt.Sprintf(`count(ALERTS{alertname=%q,severity=%q,alertstate="firing"%s}) or vector(0)`,
					t.name, t.severity, env),
				EvalTime: (time.Duration(check.round) * interval.Std()).String(), Samples: []trialSample{{"{}", fires}},
			})
		}
		for _, s := range one.series {
			labels := maps.Clone(s.labels)
			if !one.alone {
				labels["env"] = one.name
			}
			var pairs []string
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				pairs = append(pairs, fmt.Sprintf("%s=%q", key, labels[key]))
			}
			c.InputSeries = append(c.InputSeries, trialSeries{fmt.Sprintf("%s{%s}", s.name, strings.Join(pairs, ",")), text(s.steps, last)})
		}
	}
	if shared.Checks != nil {
		cases = append([]trialCase{shared}, cases...)
	}
	return cases
}

// WriteTests writes promtool unit tests for the rules of the settings, on both sides of every threshold. They expect the rules in
// rulesFile.
func WriteTests(w io.Writer, a config.Alerts, rulesFile string) error {
	f := trialFile{RuleFiles: []string{rulesFile}, EvaluationInterval: a.Interval.Std().String()}
	for _, t := range table(&a, Checksum(a)) {
		f.Tests = append(f.Tests, t.testCases(a.Interval, t.trials(&a, &t))...)
	}
	return write(w, "Unit tests of the alert rules of chatstack_exporter, for promtool test rules. Generated:\n"+
		"#   chatstack_exporter rules --tests --config.file=exporter.yaml >chatstack_test.yml\n"+
		"# The rules must lie beside it as "+rulesFile+".", f)
}
