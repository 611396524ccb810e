package alerts

import (
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// text writes the steps as promtool reads them, up to the last round.
func text(steps []step, last int) string {
	var words []string
	for i, s := range steps {
		n := last + 1 - s.from
		if i+1 < len(steps) {
			n = min(n, steps[i+1].from-s.from)
		}
		switch isLost := math.IsNaN(s.value); {
		case n <= 0:
		case s.value == missing || isLost && i == 0:
			words = append(words, fmt.Sprintf("_x%d", n))
		case isLost && n == 1: // as Prometheus marks what a scrape has lost
			words = append(words, "stale")
		case isLost:
			words = append(words, fmt.Sprintf("stale _x%d", n-1))
		case s.by == 0:
			words = append(words, fmt.Sprintf("%sx%d", number(s.value), n-1))
		default:
			words = append(words, strings.Replace(fmt.Sprintf("%s+%sx%d", number(s.value), number(s.by), n-1), "+-", "-", 1))
		}
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
			if check.fires {
				fires = one.times
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
			c.InputSeries = append(c.InputSeries, trialSeries{s.name + matching(labels), text(s.steps, last)})
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
