package alerts

import (
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
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
		Checks      []trialCheck  `yaml:"promql_expr_test,omitempty"`
		// Queries are the checks under the name that vmalert-tool has for them.
		Queries []trialCheck `yaml:"metricsql_expr_test,omitempty"`
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

var (
	recordedName = regexp.MustCompile(`chatstack:[\w:]+`)
	scrapedName  = regexp.MustCompile(`\b(up\{|chatstack_)`)
	// otherInVMAlert are functions that mean something else in MetricsQL, or whose result depends on the date: vmalert-tool begins in 2000.
	otherInVMAlert = regexp.MustCompile(`\b(changes|delta|deriv|predict_linear|rate|time|timestamp)\(`)
)

// forVMAlert are the trials that have the same outcome with vmalert. There, a rule sees what another one has recorded only at the next
// evaluation. So alerts may be late, and those that are held may end before.
func (t *alert) forVMAlert(a *config.Alerts, trials []trial) (same []trial) {
	expressions := map[string]string{}
	for _, r := range recorded(a) {
		expressions[r.Record] = r.Expr
	}
	expr, late := t.expr(a, t), 0
	for ; recordedName.MatchString(expr); late++ {
		expr = recordedName.ReplaceAllStringFunc(expr, func(name string) string { return expressions[name] })
	}
	if otherInVMAlert.MatchString(expr) || late > 0 && scrapedName.MatchString(t.expr(a, t)) { // of two series, one is late
		return nil
	}
	_, keep := t.rounds()
	for _, one := range trials {
		if one.checks = settled(one.checks, late, keep); !one.held {
			same = append(same, one)
		}
	}
	return same
}

// settled moves checks to where they hold although the alert begins and ends up to some rounds late. It drops those that never do.
func settled(checks []check, late, keep int) (moved []check) {
	checks = slices.SortedStableFunc(slices.Values(checks), func(x, y check) int { return x.round - y.round })
	for from, to := 0, 0; from < len(checks); from = to {
		for to < len(checks) && checks[to].fires == checks[from].fires {
			to++
		}
		first, last := checks[from], checks[to-1]
		if from > 0 || first.fires {
			first.round += late
		} else if late > 0 {
			first.round = max(first.round, late+keep+1) // what holds the alert back may have been recorded after what raised it
		}
		if to == len(checks) {
			last.round = max(first.round, last.round)
		}
		switch {
		case first.round < last.round:
			moved = append(moved, first, last)
		case first.round == last.round:
			moved = append(moved, first)
		}
	}
	return moved
}

// WriteTests writes unit tests for the rules of the settings, on both sides of every threshold: for promtool, or for VictoriaMetrics'
// vmalert-tool. They expect the rules in rulesFile.
func WriteTests(w io.Writer, a config.Alerts, rulesFile string, vmalert bool) error {
	f := trialFile{RuleFiles: []string{rulesFile}, EvaluationInterval: a.Interval.Std().String()}
	for _, t := range table(&a, Checksum(a)) {
		trials := t.trials(&a, &t)
		if vmalert {
			trials = t.forVMAlert(&a, trials)
		}
		f.Tests = append(f.Tests, t.testCases(a.Interval, trials)...)
	}
	tool, flag := "promtool test rules", ""
	if vmalert {
		tool, flag = "vmalert-tool unittest", "--vmalert "
		for i := range f.Tests {
			f.Tests[i].Queries, f.Tests[i].Checks = f.Tests[i].Checks, nil
		}
	}
	return write(w, "Unit tests of the alert rules of chatstack_exporter, for "+tool+". Generated:\n"+
		"#   chatstack_exporter rules --tests "+flag+"--config.file=exporter.yaml >chatstack_test.yml\n"+
		"# The rules must lie beside it as "+rulesFile+".", f)
}
