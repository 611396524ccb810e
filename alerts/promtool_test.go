//go:build promtool

// These tests need promtool, of one Prometheus or several: PROMTOOL names them, with spaces between. CI runs them.

package alerts_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// testFile is what promtool reads. Of alert_rule_test nothing is used here.
type testFile struct {
	RuleFiles          []string   `yaml:"rule_files"`
	EvaluationInterval string     `yaml:"evaluation_interval"`
	Tests              []testCase `yaml:"tests"`
}

type testCase struct {
	Name        string `yaml:"name"`
	Interval    string `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Checks []check   `yaml:"promql_expr_test"`
	Texts  yaml.Node `yaml:"alert_rule_test,omitempty"`
}

type check struct {
	EvalTime string   `yaml:"eval_time"`
	Expr     string   `yaml:"expr"`
	Samples  []sample `yaml:"exp_samples"`
}

type sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

func promtools(t *testing.T) []string {
	t.Helper()
	tools := strings.Fields(os.Getenv("PROMTOOL"))
	if len(tools) == 0 {
		t.Fatal("PROMTOOL names no promtool; run make mutate-rules")
	}
	return tools
}

// promtest runs promtool's unit tests in a directory, and returns what it says.
func promtest(t *testing.T, promtool, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), promtool, "test", "rules", "test.yml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func writeYAML(t *testing.T, path string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// equivalent are changes that change nothing of when an alert fires, with the reason: by the rule, and by what was
// changed in it.
var equivalent = []struct{ rule, changed, why string }{
	{"ExporterDown warning", `^max without .* to sum$`, "0 and 1 are 0 together if all are"},
	{"ExporterDown critical", `^max without .* to sum$`, "0 and 1 are 0 together if all are"},
	{"ExporterDown warning", `^keep job in max without `, "it is the same job by the selector"},
	{"Watchdog none", `^1 to |^keep_firing_for`, "it fires whatever the value is, and never ends"},
}

// excuse finds the change among those that are equivalent; -1 where it is not.
func excuse(r *loadedRule, changed string) int {
	return slices.IndexFunc(equivalent, func(e struct{ rule, changed, why string }) bool {
		return e.rule == r.String() && regexp.MustCompile(e.changed).MatchString(changed)
	})
}

// TestEveryMutantIsCaught changes everything that decides about an alert, one thing at a time, and wants the alert's
// unit tests to fail, with one of the versions of promtool at least.
func TestEveryMutantIsCaught(t *testing.T) {
	tools := promtools(t)
	rules := rulesFor(t, alerts.Defaults())
	tests := map[string][]testCase{} // by the name of what they are about
	for _, c := range generatedTests(t, alerts.Defaults()) {
		for _, about := range subjects(c) {
			tests[about] = append(tests[about], c)
		}
	}
	// What is recorded is tried by the alerts that use it.
	for _, recorded := range rules {
		for _, r := range rules {
			if recorded.Record != "" && r.Alert != "" && strings.Contains(r.Expr, recorded.Record) {
				tests[recorded.Record] = append(tests[recorded.Record], tests[r.Alert]...)
			}
		}
	}
	var mu sync.Mutex
	count, tried, spared := 0, map[string]bool{}, make([]int, len(equivalent))
	t.Run("rules", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(names(rules))) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := &batch{name: name, rules: rules, cases: tests[name]}
				for i, r := range rules {
					if r.Record+r.Alert != name {
						continue
					}
					all, err := mutantsOf(r, 30*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range all {
						if n := excuse(&r, m.changed); n >= 0 {
							mu.Lock()
							spared[n]++
							mu.Unlock()
							continue
						}
						b.mutants = append(b.mutants, placed{m, i})
					}
				}
				b.alive = make([]bool, len(b.mutants))
				for i := range b.alive {
					b.alive[i] = true
				}
				for _, tool := range tools {
					b.run(t, tool)
				}
				mu.Lock()
				count += len(b.mutants)
				tried[name] = true
				mu.Unlock()
				for i, alive := range b.alive {
					if alive {
						t.Errorf("no test fails after this change of %s: %s\n\t%s", &b.mutants[i].rule, b.mutants[i].changed,
							strings.ReplaceAll(b.mutants[i].rule.Expr, "\n", "\n\t"))
					}
				}
			})
		}
	})
	t.Logf("%d mutants were tried; these others change nothing:", count)
	for i, e := range equivalent {
		t.Logf("%d of %s: %s", spared[i], e.rule, e.why)
		if spared[i] == 0 && len(tried) == len(names(rules)) {
			t.Errorf("no change of %s is any more like %s; take it out of the list", e.rule, e.changed)
		}
	}
}

// generatedTests are those that the command rules prints.
func generatedTests(t *testing.T, a config.Alerts) []testCase {
	t.Helper()
	var b bytes.Buffer
	if err := alerts.WriteTests(&b, a, "rules.yml"); err != nil {
		t.Fatal(err)
	}
	var f testFile
	if err := yaml.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f.Tests
}

func names(rules []loadedRule) map[string]bool {
	all := map[string]bool{}
	for _, r := range rules {
		all[r.Record+r.Alert] = true
	}
	return all
}

// subject finds what a check is about.
var subject = regexp.MustCompile(`alertname="(\w+)"`)

func subjects(c testCase) []string {
	all := map[string]bool{}
	for _, check := range c.Checks {
		for _, m := range subject.FindAllStringSubmatch(check.Expr, -1) {
			all[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// batch tries all mutants of the rules of one name, side by side: each under a name of its own, in one run of promtool
// for each test case. Those that fail it are dead, and the next case is for the others.
type batch struct {
	name    string
	rules   []loadedRule
	cases   []testCase
	mutants []placed
	alive   []bool
}

type placed struct {
	mutant
	at int // its place among the rules
}

func (b *batch) suffix(i int) string { return fmt.Sprintf("%s_m%d", b.name, i) }

// run kills mutants by one version of promtool. A mutant that cannot even be evaluated is dead too; then nothing else
// was checked, and the case is tried again.
func (b *batch) run(t *testing.T, promtool string) {
	t.Helper()
	for _, c := range b.cases {
		for slices.Contains(b.alive, true) {
			dir := t.TempDir()
			b.write(t, dir, c)
			out, err := promtest(t, promtool, dir)
			killed := 0
			for _, m := range regexp.MustCompile(`_m(\d+)\b`).FindAllStringSubmatch(out, -1) {
				i, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				if b.alive[i] {
					killed++
				}
				b.alive[i] = false
			}
			if err != nil && killed == 0 {
				t.Fatalf("%s: %s: %v\n%s", promtool, c.Name, err, out)
			}
			if !strings.Contains(out, "    rule: ") {
				break
			}
		}
	}
}

func (b *batch) write(t *testing.T, dir string, c testCase) {
	t.Helper()
	var rules []loadedRule
	for _, r := range b.rules {
		if r.Record != "" {
			rules = append(rules, r)
		}
	}
	for i, m := range b.mutants {
		if !b.alive[i] {
			continue
		}
		// Behind a mutant of a recorded rule come the alerts that use it.
		recorded := b.rules[m.at].Record
		if recorded != "" {
			r := m.rule
			r.Record = b.suffix(i)
			rules = append(rules, r)
		}
		for at, r := range b.rules {
			switch {
			case recorded != "" && r.Alert != "" && strings.Contains(r.Expr, recorded):
				r.Expr = strings.ReplaceAll(r.Expr, recorded, b.suffix(i))
				r.Alert += strings.TrimPrefix(b.suffix(i), b.name)
			case recorded != "" || r.Alert != b.name:
				continue
			case at == m.at:
				r = m.rule
				fallthrough
			default:
				r.Alert = b.suffix(i)
			}
			r.Annotations = nil
			rules = append(rules, r)
		}
	}
	var file ruleFile
	file.Groups = append(file.Groups, struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval,omitempty"`
		Rules    []loadedRule `yaml:"rules"`
	}{"mutants", "30s", rules})
	writeYAML(t, filepath.Join(dir, "rules.yml"), file)

	mutated := c
	mutated.Checks, mutated.Texts = nil, yaml.Node{}
	for i, alive := range b.alive {
		if !alive {
			continue
		}
		for _, k := range c.Checks {
			k.Expr = subject.ReplaceAllString(k.Expr, `alertname="${1}`+strings.TrimPrefix(b.suffix(i), b.name)+`"`)
			mutated.Checks = append(mutated.Checks, k)
		}
	}
	writeYAML(t, filepath.Join(dir, "test.yml"), testFile{[]string{"rules.yml"}, "30s", []testCase{mutated}})
}

// TestRulesLoadForAnySettings lets promtool read the rules for settings that are not shipped.
func TestRulesLoadForAnySettings(t *testing.T) {
	for _, promtool := range promtools(t) {
		var b bytes.Buffer
		if err := alerts.Write(&b, drill()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "rules.yml")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", promtool, err, out)
		}
	}
}
