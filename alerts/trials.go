package alerts

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// trial is input on which an alert must fire, or must not.
type trial struct {
	name   string
	series []input
	// after is how long the series have been there when somebody looks.
	after time.Duration
	fires bool
}

// input is a series in promtool's notation. Prometheus adds instance and job to each.
type input struct{ series, values string }

// from adds the labels that Prometheus adds for one exporter, and those of an operator.
func from(instance, env, name string, labels map[string]string) string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all["instance"], all["job"], all["env"] = instance, "chatstack_exporter", env
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", key, all[key]))
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// steady is a value that stays.
func steady(v float64) string { return number(v) + forLong }

// subject is a gauge that an alert compares, and what can excuse it.
type subject struct {
	name    string
	labels  map[string]string
	excused string // name of the gauge of the excuse, with the same labels; "" if none
	// least says that all exporters have to agree.
	least bool
	// held is how long a value must have been there, keep how long the alert stays after it.
	held time.Duration
	keep config.Duration
	// beside are other series that are needed.
	beside []input
}

// trials are both sides of a threshold: at the limit it does not fire, just above it does, unless it is excused, lost, or only one of two
// exporters sees it while both have to.
func (s subject) trials(limit, above float64) []trial {
	one := func(instance, env string, v float64) input {
		return input{from(instance, env, s.name, s.labels), steady(v)}
	}
	after := s.held + 10*time.Minute
	add := func(list ...input) []input { return append(slices.Clone(s.beside), list...) }
	trials := []trial{
		{"at the limit", add(one("a", "prod", limit)), after, false},
		{"above the limit", add(one("a", "prod", above)), after, true},
		{"only one of two exporters sees it", add(one("a", "prod", above), one("b", "prod", limit)), after, !s.least},
		{"in another environment", add(one("a", "prod", limit), one("b", "staging", above)), after, true},
		{"the last scrapes are lost", add(input{from("a", "prod", s.name, s.labels), steadyThenLost(above, after, 90*time.Second)}), after, true},
	}
	ends := after.Truncate(evaluation) + evaluation
	ended := add(input{from("a", "prod", s.name, s.labels), fmt.Sprintf("%sx%d %s", number(above), int(ends/evaluation)-1, steady(limit))})
	kept := ends + s.keep.Std().Truncate(evaluation)
	trials = append(trials, trial{"ended, still firing", ended, kept - evaluation, true}, trial{"ended", ended, kept, false})
	if s.excused != "" {
		excuse := func(instance, env string) input { return input{from(instance, env, s.excused, s.labels), steady(1)} }
		trials = append(trials,
			trial{"excused", add(one("a", "prod", above), excuse("a", "prod")), after, false},
			trial{"excused in another environment", add(one("a", "prod", above), one("b", "staging", above), excuse("b", "staging")), after, true},
			trial{"not excused", add(one("a", "prod", above), input{from("a", "prod", s.excused, s.labels), steady(0)}), after, true})
	}
	return trials
}

// steadyThenLost stays and has no sample any more for some time before the end.
func steadyThenLost(v float64, after, lost time.Duration) string {
	return fmt.Sprintf("%sx%d _x%d", number(v), int((after-lost)/evaluation), int(lost/evaluation))
}

// over are the trials of a value that has to be above a limit for some time: until then the alert does not fire.
func (s subject) trialsOver(limit, above float64, hold config.Duration) []trial {
	s.held = hold.Std()
	trials := s.trials(limit, above)
	const before = 10 * time.Minute
	rising := func(d time.Duration) []input {
		return append(slices.Clone(s.beside), input{
			from("a", "prod", s.name, s.labels),
			fmt.Sprintf("%sx%d %s", number(limit), int(before/evaluation)-1, steady(above)),
		})
	}
	return append(trials,
		trial{"not yet long enough", rising(hold.Std()), before + hold.Std() - evaluation, false},
		trial{"just long enough", rising(hold.Std()), before + hold.Std() + 2*evaluation, true})
}

// forLong repeats a value.
const forLong = "x4000"

// evaluation is the time between two evaluations, and two scrapes, in the trials.
const evaluation = 30 * time.Second

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

// WriteTests writes unit tests of promtool for the rules of the settings, on both sides of every threshold. The rules have to be
// in rulesFile.
func WriteTests(w io.Writer, a config.Alerts, rulesFile string) error {
	f := trialFile{RuleFiles: []string{rulesFile}, EvaluationInterval: evaluation.String()}
	all := append(table(&a), outOfDate(&a, Checksum(a)), watchdog())
	for i := range all {
		for _, t := range all[i].trials {
			c := trialCase{Name: fmt.Sprintf("%s %s: %s", all[i].name, all[i].severity, t.name), Interval: evaluation.String()}
			for _, s := range t.series {
				c.InputSeries = append(c.InputSeries, trialSeries{s.series, s.values})
			}
			fires := 0.0
			if t.fires {
				fires = 1
			}
			c.Checks = []trialCheck{{
				Expr:     fmt.Sprintf(`count(ALERTS{alertname=%q,severity=%q,alertstate="firing"}) or vector(0)`, all[i].name, all[i].severity),
				EvalTime: t.after.String(), Samples: []trialSample{{"{}", fires}},
			}}
			f.Tests = append(f.Tests, c)
		}
	}
	return write(w, "Unit tests of the alert rules of chatstack_exporter, for promtool test rules. Generated:\n"+
		"#   chatstack_exporter rules --tests --config.file=exporter.yaml >chatstack_test.yml", f)
}
