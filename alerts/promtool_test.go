//go:build promtool

// These tests need promtool, of one Prometheus or several: PROMTOOL names them, with spaces between. CI runs them.

package alerts_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
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
	{
		"chatstack:exporter_up",
		`^keep (job|branch|goarch|goos|goversion|revision|tags|version) in max without `,
		"0 and 1 are compared by environment, or are 0 together",
	},
	{"chatstack:exporter_up", `^max without .* to sum$`, "0 and 1 are 0 together if all are"},
	{"ExporterDown critical", `^range of chatstack:exporter_up: 24h`, "a day has too many rounds to be tried; other settings are"},
	{"ClockSkew warning", `^no target="" in `, "the other side of the difference has it"},
	{"HonorLabelsOff warning", `^range of chatstack_label_check\{`, "both sides are lost together, and the alert waits for longer"},
	{"Watchdog none", `^1 to |^keep_firing_for`, "it fires whatever the value is, and never ends"},
	{"XMPPAuthFailure(Rate|sSustained) .*", `^> to >= of `, "no rate is exactly the limit"},
	{"DataVolumeFilling warning", `^> to >= of `, "a volume that fills is not at the limit for long, and a full one has DataVolumeUsage"},
	{
		"(XMPPSessions|IRCUsers)Gone warning",
		`^range of .*: 24h0m0s to `,
		"a day has too many rounds to be tried; TestAlertsLookBackForADay tries it",
	},
	{".*", `^last_over_time\(chatstack_(rules_info|target_info|container_info|label_check|volume_excused|tls_certificate_excused|xmpp_auth_failures_excused|xmpp_sessions_excused|irc_excused)\b.* to (max|min)_over_time$`, "it is 1 whenever it is there"},
	{"TLSCertificateExpiry .*", `^\* to / of 0 \* `, "it is 0 either way"},
	{"chatstack:certificate_held", `^step: 30s to 15s`, "there is no sample in between"},
	{"chatstack:certificate_held", `^range of a subquery: 1h0m30s to 1h30m45s`, "the certificate itself is forgotten by then"},
	{"chatstack:certificate_held", `^120 to 118\.8`, "no difference of whole rounds is in between"},
	{"chatstack:held", `^keep alertgroup in max without `, "only vmalert sets it"},
	{"chatstack:relay_left_unchecked", `^last_over_time.* to (max|min)_over_time$`, "it compares no value"},
	{"chatstack:container_down", `0 to -1$|0 to 1$|> to >= of`, "TargetDown waits for longer than a minute"},
}

// excuse finds the change among those that are equivalent; -1 where it is not.
func excuse(r *loadedRule, changed string) int {
	return slices.IndexFunc(equivalent, func(e struct{ rule, changed, why string }) bool {
		return regexp.MustCompile("^("+e.rule+")$").MatchString(r.String()) && regexp.MustCompile(e.changed).MatchString(changed)
	})
}

// TestEveryMutantIsCaught changes everything that decides about an alert, one thing at a time, and wants the alert's
// unit tests to fail, with one of the versions of promtool at least.
func TestEveryMutantIsCaught(t *testing.T) {
	catchMutants(t, alerts.Defaults())
}

func catchMutants(t *testing.T, a config.Alerts) {
	t.Helper()
	tools, rules, cases := promtools(t), rulesFor(t, a), generatedTests(t, a)
	var mu sync.Mutex
	count, tried, spared := 0, 0, make([]int, len(equivalent))
	t.Run("rules", func(t *testing.T) {
		for at, r := range rules {
			t.Run(strings.ReplaceAll(r.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				all, err := mutantsOf(r, a.Interval.Std())
				if err != nil {
					t.Fatal(err)
				}
				b := &batch{
					interval: a.Interval.Std().String(),
					rules:    rules,
					at:       at,
					affected: affected(rules, at),
				}
				mu.Lock()
				for _, m := range all {
					if n := excuse(&r, m.changed); n >= 0 {
						spared[n]++
					} else if !b.limitIsZero() || !maxToSum.MatchString(m.changed) {
						b.mutants = append(b.mutants, m)
					}
				}
				count += len(b.mutants)
				tried++
				mu.Unlock()
				if r.Alert == "XMPPAuthFailuresSustained" && alerts.Checksum(a) != alerts.Checksum(alerts.Defaults()) {
					return // it has trials only beside an alert on the rate that is slower than bursts
				}
				b.alive = slices.Repeat([]bool{true}, len(b.mutants))
				for _, c := range cases {
					if !b.concerns(c) {
						continue
					}
					for _, tool := range tools {
						b.run(t, tool, c)
					}
				}
				for i, alive := range b.alive {
					if alive {
						t.Errorf("no test fails after this change of %s: %s\n\t%s", &r, b.mutants[i].changed, b.mutants[i].rule.Expr)
					}
				}
			})
		}
	})
	t.Logf("%d mutants were tried; these others change nothing:", count)
	for i, e := range equivalent {
		t.Logf("%d of %s: %s", spared[i], e.rule, e.why)
		if spared[i] == 0 && tried == len(rules) && alerts.Checksum(a) == alerts.Checksum(alerts.Defaults()) {
			t.Errorf("no change of %s is any more like %s; take it out of the list", e.rule, e.changed)
		}
	}
}

// affected are the rules that change with the one at a place: itself, and those that use what it records.
func affected(rules []loadedRule, at int) map[int]bool {
	all := map[int]bool{at: true}
	for i := range rules {
		for j := range rules[:i] {
			all[i] = all[i] || all[j] && rules[j].Record != "" && uses(rules[i].Expr, rules[j].Record)
		}
	}
	maps.DeleteFunc(all, func(_ int, is bool) bool { return !is })
	return all
}

func uses(expr, record string) bool {
	return regexp.MustCompile(regexp.QuoteMeta(record) + `($|[^\w:])`).MatchString(expr)
}

// generatedTests are those that the command rules prints.
func generatedTests(t *testing.T, a config.Alerts) []testCase {
	t.Helper()
	var b bytes.Buffer
	if err := alerts.WriteTests(&b, a, "rules.yml", false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "# The rules must lie beside it as rules.yml.\n") {
		t.Errorf("the tests do not say where the rules must lie:\n%.300s", b.String())
	}
	var f testFile
	if err := yaml.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f.Tests
}

// subject finds what a check is about.
var subject = regexp.MustCompile(`alertname="(\w+)",severity="(\w+)"`)

// batch tries all mutants of one rule, side by side: each under a name of its own, with everything that uses it, in one run of
// promtool for each test case. Those that fail it are dead, and the next case is for the others.
type batch struct {
	interval string
	rules    []loadedRule
	at       int
	affected map[int]bool
	mutants  []mutant
	alive    []bool
}

// maxToSum changes nothing where the limit is 0, since nothing is below it.
var maxToSum = regexp.MustCompile(`^max without .* to sum$`)

func (b *batch) limitIsZero() bool {
	for i := range b.affected {
		if r := &b.rules[i]; r.Alert != "" && !regexp.MustCompile(` > 0( unless|$)`).MatchString(r.Expr) &&
			r.Labels["severity"] == "warning" {
			return false
		}
	}
	return true
}

// concerns reports whether a case is about an alert that changes.
func (b *batch) concerns(c testCase) bool {
	about := subject.FindStringSubmatch(c.Checks[0].Expr)
	for i := range b.affected {
		// A drill's series has the severity, not its rule.
		if r := &b.rules[i]; r.Alert == about[1] && (r.Labels["severity"] == about[2] || r.Labels["drill"] != "") {
			return true
		}
	}
	return false
}

// run kills mutants by one version of promtool. A mutant that cannot even be evaluated is dead too; then nothing else
// was checked, and the case is tried again.
func (b *batch) run(t *testing.T, promtool string, c testCase) {
	t.Helper()
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
			return
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
	mutated := c
	mutated.Checks, mutated.Texts = nil, yaml.Node{}
	for i, alive := range b.alive {
		if !alive {
			continue
		}
		suffix := fmt.Sprintf("_m%d", i)
		for at := range b.rules {
			if !b.affected[at] {
				continue
			}
			r := b.rules[at]
			if at == b.at {
				r = b.mutants[i].rule
			}
			for before := range b.affected {
				if record := b.rules[before].Record; record != "" && before != at {
					r.Expr = regexp.MustCompile(regexp.QuoteMeta(record)+`($|[^\w:])`).ReplaceAllString(r.Expr, record+suffix+"$1")
				}
			}
			if r.Record != "" {
				r.Record += suffix
			} else {
				r.Alert += suffix
			}
			r.Annotations = nil
			rules = append(rules, r)
		}
		for _, k := range c.Checks {
			k.Expr = subject.ReplaceAllString(k.Expr, `alertname="${1}`+suffix+`",severity="${2}"`)
			mutated.Checks = append(mutated.Checks, k)
		}
	}
	var file ruleFile
	file.Groups = append(file.Groups, struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval,omitempty"`
		Rules    []loadedRule `yaml:"rules"`
	}{"mutants", b.interval, rules})
	writeYAML(t, filepath.Join(dir, "rules.yml"), file)
	writeYAML(t, filepath.Join(dir, "test.yml"), testFile{[]string{"rules.yml"}, b.interval, []testCase{mutated}})
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

var seed = flag.Uint64("rules.seed", uint64(time.Now().UnixNano()), "seed of the random settings") //nolint:gosec // any number is one

var settings = flag.Int("rules.settings", 3, "how many random settings to try")

// mutants can be turned off, to try many settings quickly.
var mutants = flag.Bool("rules.mutants", true, "change the rules of random settings")

// written are the settings as they stand in exporter.yaml.
func written(a *config.Alerts) map[string]any {
	content := map[string]any{}
	for name, value := range settingsOf(a) {
		into := content
		keys := strings.Split(name, ".")
		for _, key := range keys[:len(keys)-1] {
			if into[key] == nil {
				into[key] = map[string]any{}
			}
			into = into[key].(map[string]any) //nolint:forcetypeassert // made above
		}
		if d, ok := value.(*config.Duration); ok {
			value = d.Std().String()
		}
		into[keys[len(keys)-1]] = value
	}
	delete(content, "external_url")
	return content
}

// randomSettings are thresholds that the configuration accepts.
func randomSettings(t *testing.T, r *rand.Rand) config.Alerts {
	t.Helper()
	a := alerts.Defaults()
	interval := time.Duration(5+r.IntN(56)) * time.Second
	// some is a number of intervals, sometimes with a part of one.
	some := func(least, most int) config.Duration {
		d := time.Duration(least+r.IntN(most-least+1)) * interval
		if r.IntN(3) == 0 {
			d += time.Duration(r.Int64N(int64(interval))).Truncate(time.Second)
		}
		return config.Duration(d)
	}
	maybe := func(least, most int) config.Duration {
		if r.IntN(4) == 0 {
			return 0
		}
		return some(least, most)
	}
	keep := func() config.Duration { return maybe(1, 10) }
	hold := func() config.Level { return config.Level{For: maybe(1, 60), KeepFiringFor: keep()} }
	setHolds := func(key string) {
		s := a.Of(key)
		s.Warning, s.Critical = hold(), hold()
		s.Critical.For = max(s.Warning.For, s.Critical.For)
	}
	setAmounts := func(key string, most int64) {
		s := a.Of(key)
		warning := 1 + r.Int64N(most)
		s.Warning = config.Level{Over: warning, For: maybe(4, 20), KeepFiringFor: keep()}
		s.Critical = config.Level{Over: warning + r.Int64N(most-warning+1), For: maybe(4, 20), KeepFiringFor: keep()}
	}
	a.Interval, a.Lookback, a.SlowLookback = config.Duration(interval), some(4, 9), some(4, 30)
	unhealthy := a.Of("container_unhealthy")
	unhealthy.Warning, unhealthy.Critical = hold(), config.Level{For: some(1, 30), KeepFiringFor: keep()}
	setAmounts("xmpp_auth_failure_rate", 1000)
	logins := a.Of("xmpp_auth_failure_rate")
	logins.Window = some(4, 10)
	for _, hold := range []*config.Duration{&logins.Warning.For, &logins.Critical.For} {
		// Prometheus 2 and 3 disagree on whether a burst lasts for one round longer than the window.
		if *hold > logins.Window && *hold <= logins.Window+config.Duration(interval) {
			*hold += config.Duration(interval)
		}
	}
	expiry := a.Of("tls_certificate_expiry")
	expiry.Critical = config.Level{Under: some(1, 5000), KeepFiringFor: keep()}
	expiry.Warning = config.Level{Under: expiry.Critical.Under + some(1, 5000), KeepFiringFor: keep()}
	setAmounts("data_volume_usage", 99)
	setAmounts("container_memory", 1<<40)
	restarts := a.Of("container_restarts")
	restarts.Window, restarts.Warning.Over, restarts.Critical.Over = some(4, 30), r.Int64N(5), 5+r.Int64N(200)
	setHolds("container_down")
	setHolds("target_down")
	setHolds("most_targets_down")
	a.Of("most_targets_down").Over = 1 + r.Int64N(99)
	setAmounts("target_unstable", 99)
	unstable := a.Of("target_unstable")
	unstable.Warning.For, unstable.Critical.For = 0, 0
	down := a.Of("exporter_down")
	down.Warning, down.Critical = hold(), hold()
	down.Remember = down.Critical.For + a.Lookback + some(0, 60)
	a.Of("poll_stalled").Level = config.Level{For: a.Lookback + config.Duration(20*time.Second) + some(0, 20), KeepFiringFor: keep()}
	renewed := a.Of("tls_served_not_renewed")
	renewed.Warning, renewed.Critical = hold(), config.Level{Under: renewed.Critical.Under, For: maybe(1, 60), KeepFiringFor: keep()}
	for _, key := range []string{
		"container_missing", "upstream_series_dropped", "xmpp_auth_source_missing", "plant_store_orphans", "tls_chain_invalid",
		"identity_cache_exhausted", "xmpp_module_problem", "xmpp_component_disconnected", "irc_services_unlinked", "rules_out_of_date",
		"placeholder_credential", "config_reload_failed", "data_volume_read_only", "backup_old", "monitoring_gap", "honor_labels_off",
		"scraped_too_seldom", "clock_skew",
	} {
		a.Of(key).Level = hold()
	}
	if reload := a.Of("config_reload_failed"); reload.For > 0 {
		reload.For += a.Lookback
	}
	a.Of("scraped_too_seldom").For += 5 * a.Lookback
	a.Of("notifications_failing").Level = config.Level{For: some(4, 60), KeepFiringFor: keep()}
	// With a short interval, the shipped window has more rounds than a trial may: then nothing tries it.
	filling := a.Of("data_volume_filling")
	filling.Window = min(filling.Window, config.Duration(1800*interval))
	a.Of("clock_skew").Apart = config.Duration(1+r.IntN(5000)) * config.Duration(time.Second)
	text, err := yaml.Marshal(map[string]any{"alerts": written(&a)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "exporter.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(source(path)); err != nil {
		t.Fatalf("the settings are not valid: %v\n%s", err, text)
	}
	t.Logf("settings:\n%s", text)
	return a
}

// source is a file without an environment.
func source(path string) config.Source {
	return config.Source{File: path, Lookup: func(string) (string, bool) { return "", false }, Alerts: alerts.Kinds()}
}

// TestPrintedTestsOfAnySettingsThatFailedOnce has the settings of seeds whose printed tests were wrong.
func TestPrintedTestsOfAnySettingsThatFailedOnce(t *testing.T) {
	for _, file := range []string{"long-memory.yaml"} {
		c, err := config.Load(source(filepath.Join("testdata", file)))
		if err != nil {
			t.Fatal(err)
		}
		passPrintedTests(t, c.Alerts)
	}
}

// TestMutantsOfAnySettings holds for random settings that the printed tests pass, and that they fail for every change of a rule.
func TestMutantsOfAnySettings(t *testing.T) {
	t.Logf("-rules.seed=%d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // not for secrets
	for n := range *settings {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			a := randomSettings(t, r)
			passPrintedTests(t, a)
			if *mutants {
				catchMutants(t, a)
			}
		})
	}
}

// passPrintedTests runs the tests that are printed for these settings.
func passPrintedTests(t *testing.T, a config.Alerts) {
	t.Helper()
	dir := t.TempDir()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"rules.yml": func(b *bytes.Buffer) error { return alerts.Write(b, a) },
		"test.yml":  func(b *bytes.Buffer) error { return alerts.WriteTests(b, a, "rules.yml", false) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, promtool := range promtools(t) {
		if out, err := promtest(t, promtool, dir); err != nil {
			t.Fatalf("%s: %v\n%s", promtool, err, out)
		}
	}
}
