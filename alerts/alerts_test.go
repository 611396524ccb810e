package alerts_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:generate go test . -run ^TestRuleFilesAreUpToDate$ -update
var update = flag.Bool("update", false, "write the rule files anew")

// ruleFile is what Prometheus reads.
type ruleFile struct {
	Groups []struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval,omitempty"`
		Rules    []loadedRule `yaml:"rules"`
	} `yaml:"groups"`
}

type loadedRule struct {
	Record        string            `yaml:"record,omitempty"`
	Alert         string            `yaml:"alert,omitempty"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for,omitempty"`
	KeepFiringFor string            `yaml:"keep_firing_for,omitempty"`
	Labels        map[string]string `yaml:"labels,omitempty"`
	Annotations   map[string]string `yaml:"annotations,omitempty"`
}

func (r *loadedRule) String() string {
	return strings.TrimSpace(r.Record + r.Alert + " " + r.Labels["severity"])
}

// rulesFor are the alert rules for the settings, read as Prometheus reads them.
func rulesFor(t *testing.T, a config.Alerts) []loadedRule {
	t.Helper()
	var b bytes.Buffer
	if err := alerts.Write(&b, a); err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(&b)
	d.KnownFields(true)
	var file ruleFile
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 {
		t.Fatalf("got %d groups, want 1: rules use what those before them have recorded", len(file.Groups))
	}
	return file.Groups[0].Rules
}

func TestRuleFilesAreUpToDate(t *testing.T) {
	manifest := func(b *bytes.Buffer) error { return alerts.WriteManifest(b, alerts.Defaults()) }
	for name, write := range map[string]func(*bytes.Buffer) error{
		"chatstack.rules.yml":     func(b *bytes.Buffer) error { return alerts.Write(b, alerts.Defaults()) },
		"chatstack.recording.yml": func(b *bytes.Buffer) error { return alerts.WriteRecording(b, alerts.Defaults()) },
		"../deploy/kubernetes/components/prometheus-operator/prometheusrule.yaml": manifest,
		// A chart has no files from outside of it.
		"../deploy/helm/chatstack-exporter/files/prometheusrule.yaml": manifest,
		// The tests of the judge have the shipped rules.
		"../internal/health/testdata/rules.json": func(b *bytes.Buffer) error {
			a := alerts.Defaults()
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(alerts.Rules(&a))
		},
		"README.md": func(b *bytes.Buffer) error { b.WriteString(alerts.Index(alerts.Defaults())); return nil },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil { //nolint:gosec // everybody may read it
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), b.String()); diff != "" {
			t.Errorf("%s is out of date; run make generate (-file +generated):\n%s", name, diff)
		}
	}
}

// TestNoAlertDisappears holds the names and severities that runbooks, routes and people's own rules depend on.
func TestNoAlertDisappears(t *testing.T) {
	want := map[string][]string{
		"ContainerUnhealthy":        {"critical", "warning"},
		"XMPPAuthFailureRate":       {"critical", "warning"},
		"TLSCertificateExpiry":      {"critical", "warning"},
		"DataVolumeUsage":           {"critical", "warning"},
		"DataVolumeInodes":          {"critical", "warning"},
		"DataVolumeFilling":         {"warning"},
		"DataVolumeReadOnly":        {"critical", "warning"},
		"BackupOld":                 {"warning"},
		"ContainerOOMKill":          {"warning"},
		"XMPPAuthFailuresSustained": {"warning"},
		"XMPPSessionsGone":          {"warning"},
		"IRCUsersGone":              {"warning"},
		"ContainerRestarts":         {"critical", "warning"},
		"ContainerMemory":           {"critical", "warning"},
		"ContainerDown":             {"critical", "warning"},
		"TargetDown":                {"critical", "warning"},
		"TargetUnstable":            {"critical", "warning"},
		"TargetSlow":                {"warning"},
		"MostTargetsDown":           {"critical", "warning"},
		"ContainerMissing":          {"critical", "warning"},
		"ContainerOftenUnhealthy":   {"critical"},
		"OneShotFailed":             {"warning"},
		"ExporterRestarts":          {"critical", "warning"},
		"ExporterDown":              {"critical", "warning"},
		"PollStalled":               {"critical"},
		"UpstreamSeriesDropped":     {"warning"},
		"XMPPAuthSourceMissing":     {"warning"},
		"PlantStoreOrphans":         {"warning"},
		"TLSChainInvalid":           {"warning"},
		"TLSServedNotRenewed":       {"critical", "warning"},
		"ConfigReloadFailed":        {"warning"},
		"StateNotSaved":             {"warning"},
		"NotificationsFailing":      {"warning"},
		"IdentityCacheExhausted":    {"warning"},
		"XMPPModuleProblem":         {"warning"},
		"XMPPModuleMissing":         {"warning"},
		"XMPPComponentDisconnected": {"critical", "warning"},
		"IRCServicesUnlinked":       {"critical", "warning"},
		"BridgeNotRelaying":         {"critical", "warning"},
		"BridgeSlow":                {"warning"},
		"BridgeDuplicates":          {"warning"},
		"RelaySessionDown":          {"warning"},
		"RelayUnwatched":            {"warning"},
		"RulesOutOfDate":            {"warning"},
		"PlaceholderCredential":     {"warning"},
		"MonitoringGap":             {"warning"},
		"HonorLabelsOff":            {"warning"},
		"ScrapedTooSeldom":          {"warning"},
		"ClockSkew":                 {"warning"},
		"ChatstackDrill":            {""}, // of the series
		"Watchdog":                  {"none"},
	}
	got := map[string][]string{}
	for _, r := range rulesFor(t, alerts.Defaults()) {
		if r.Alert != "" {
			got[r.Alert] = append(got[r.Alert], r.Labels["severity"])
		}
	}
	for alert, severities := range want {
		if slices.Sort(got[alert]); !slices.Equal(got[alert], severities) {
			t.Errorf("%s: got severities %q, want %q", alert, got[alert], severities)
		}
	}
	for alert, severities := range got {
		if want[alert] == nil {
			t.Errorf("%s is not in the table of this test; add it, with the severities %q", alert, severities)
		}
	}
}

func TestEveryAlertSaysWhatAndWhere(t *testing.T) {
	a, served, sentence := alerts.Defaults(), alerts.Defaults(), regexp.MustCompile(`\.({{ end }})*$`)
	a.RunbookURL, served.RunbookURL = "https://wiki.example.org/runbooks/", "https://wiki.example.org/runbooks/"
	served.ExternalURL = "https://chat.example.org/exporter"
	for _, r := range rulesFor(t, served) {
		want := "https://chat.example.org/exporter/runbooks/" + r.Alert
		if slices.Contains([]string{"ExporterDown", "ExporterRestarts", "PollStalled", "Watchdog"}, r.Alert) { // it may not answer
			want = "https://wiki.example.org/runbooks/" + r.Alert + ".md"
		}
		if got := r.Annotations["runbook_url"]; r.Alert != "" && got != want {
			t.Errorf("%s: runbook_url is %q where the exporter's pages are reached, want %q", &r, got, want)
		}
		page := "https://chat.example.org/exporter/"
		if strings.HasPrefix(want, "https://wiki") {
			page = ""
		}
		if got := r.Annotations["status_url"]; r.Alert != "" && got != page {
			t.Errorf("%s: status_url is %q, want %q", &r, got, page)
		}
	}
	for _, r := range rulesFor(t, a) {
		if r.Alert == "" {
			continue
		}
		for _, key := range []string{"summary", "description"} {
			if text := r.Annotations[key]; !sentence.MatchString(text) {
				t.Errorf("%s: %s is %q, want a sentence", &r, key, text)
			}
		}
		// The exporter may know where its page is when the rules do not.
		link := regexp.MustCompile(`^({{ with query .*}}/runbooks/` + r.Alert + `{{ else }})?` +
			`https://wiki\.example\.org/runbooks/` + r.Alert + `\.md({{ end }})?$`)
		if got := r.Annotations["runbook_url"]; !link.MatchString(got) {
			t.Errorf("%s: runbook_url is %q, want it to match %s", &r, got, link)
		}
		// What changes from one evaluation to the next would make another alert each time.
		want := map[string]string{"severity": r.Labels["severity"], "stack": "chat"}
		if s := r.Labels["chat_server"]; s != "" && r.Labels["severity"] != alerts.None {
			want["chat_server"] = s // TestEveryAlertNamesItsServer
		}
		if r.Alert == "TLSCertificateExpiry" {
			want["target"] = "{{ $labels.endpoint }}"
		}
		if r.Alert == alerts.DrillAlert {
			want = map[string]string{"drill": "true", "stack": "chat"}
		}
		if !maps.Equal(r.Labels, want) {
			t.Errorf("%s: labels %v, want %v", &r, r.Labels, want)
		}
	}
}

// drill are settings that let a fault be seen in seconds.
func drill() config.Alerts {
	a := alerts.Defaults()
	for _, value := range settingsOf(&a) {
		if d, ok := value.(*config.Duration); ok {
			*d = max(*d/60, config.Duration(4*time.Second))
		}
	}
	a.Interval = config.Duration(time.Second)
	a.Of("poll_stalled").For = config.Duration(20 * time.Second)
	return a
}

// TestRulesArePrintedAsPrometheusPrintsThem holds that Prometheus shows each expression as it is in the rule file.
func TestRulesArePrintedAsPrometheusPrintsThem(t *testing.T) {
	for name, a := range map[string]config.Alerts{"defaults": alerts.Defaults(), "drill": drill(), "all": allOn()} {
		var recording bytes.Buffer
		if err := alerts.WriteRecording(&recording, a); err != nil {
			t.Fatal(err)
		}
		var file ruleFile
		if err := yaml.Unmarshal(recording.Bytes(), &file); err != nil {
			t.Fatal(err)
		}
		for _, r := range append(rulesFor(t, a), file.Groups[0].Rules...) {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Errorf("%s: %s: %v", name, &r, err)
			} else if printed := expr.String(); printed != r.Expr {
				t.Errorf("%s: %s:\n%s\nwant\n%s", name, &r, r.Expr, printed)
			}
		}
	}
}

// TestTestsForVMAlert holds that they have its word for checks, expect what is recorded one evaluation later, and leave out what vmalert
// does otherwise. make test-rules-vmalert runs them.
func TestTestsForVMAlert(t *testing.T) {
	fires := map[bool]map[string]string{}
	for _, vmalert := range []bool{false, true} {
		var b bytes.Buffer
		if err := alerts.WriteTests(&b, alerts.Defaults(), "rules.yml", vmalert); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "promql_expr_test") == vmalert || strings.Contains(b.String(), "metricsql_expr_test") != vmalert {
			t.Errorf("for vmalert: %t: the checks have the name of the other tool", vmalert)
		}
		fires[vmalert] = map[string]string{}
		check := regexp.MustCompile(`alertname="(\w+)",severity="(\w+)",alertstate="firing",env="([^"]+)"\}\) or vector\(0\)\n` +
			`\s+eval_time: (\S+)\n\s+exp_samples:\n\s+- labels: '\{\}'\n\s+value: 1\n`)
		for _, found := range check.FindAllStringSubmatch(b.String(), -1) {
			if name := strings.Join(found[1:4], " "); fires[vmalert][name] == "" {
				fires[vmalert][name] = found[4]
			}
		}
	}
	for name, want := range map[string][2]string{
		"ContainerUnhealthy warning it turns bad and good again": {"1m30s", "2m0s"}, // over one recorded series
		"TargetDown critical both exporters find it":             {"1m30s", "3m0s"}, // over three
		"ContainerRestarts critical it turns bad and good again": {"1m30s", "1m30s"},
		"ContainerUnhealthy warning no exporter answers":         {"2m0s", ""},
		"ClockSkew warning ahead":                                {"16m30s", ""},
	} {
		if got := [2]string{fires[false][name], fires[true][name]}; got != want {
			t.Errorf("%s is first seen at %q by promtool and vmalert-tool, want %q", name, got, want)
		}
	}
}

// TestEverySettingIsInTheRules changes each key of the configuration in turn: the rules must follow, and their
// checksum, by which an exporter sees that it is watched by other rules than its own.
func TestEverySettingIsInTheRules(t *testing.T) {
	all := allOn()
	shipped, checksum := rulesFor(t, all), alerts.Checksum(all)
	tried := 0
	for name := range settingsOf(&all) {
		if name == "xmpp_module_problem.ignore" || name == "monitoring_gap.roles" {
			continue // the exporter itself judges by these
		}
		tried++
		a := allOn()
		switch value := settingsOf(&a)[name].(type) {
		case *string:
			*value += "x"
		case *config.Duration:
			*value += a.Interval // in which windows are counted
		case *bool:
			*value = !*value
		case *int64:
			*value++
		}
		if cmp.Equal(shipped, rulesFor(t, a)) {
			t.Errorf("%s: the rules stay the same after a change", name)
		}
		// What a person reads decides nothing.
		byExporter := []string{
			"container_restarts.window", "container_oom_kill.window", "container_often_unhealthy.window",
			"tls_served_not_renewed.critical.under",
			"target_unstable.warning.over", "target_unstable.critical.over", "most_targets_down.over",
		}
		for alert, rule := range alerts.Rules(&all).Alerts {
			if rule.Measured && !rule.OwnSeries { // the exporter compares its value
				byExporter = append(byExporter, alerts.Key(alert)+".warning.over", alerts.Key(alert)+".critical.over")
			}
		}
		judged := slices.Contains(byExporter, name)
		same := judged || name == "runbook_url" || name == "external_url"
		if got := alerts.Checksum(a); (got == checksum) != same {
			t.Errorf("%s: the checksum was %v and is %v; want the same: %t, since the exporter judges by it", name, checksum, got, same)
		}
	}
	if tried < 60 {
		t.Errorf("tried %d settings, want all of them", tried)
	}
}

// settingsOf are the settings by key, as pointers to their values.
func settingsOf(a *config.Alerts) map[string]any {
	values := map[string]any{
		"job":           &a.Job,
		"runbook_url":   &a.RunbookURL,
		"external_url":  &a.ExternalURL,
		"interval":      &a.Interval,
		"lookback":      &a.Lookback,
		"slow_lookback": &a.SlowLookback,
	}
	for alert, settings := range a.Settings {
		for key, value := range settings.Values() {
			values[alert+"."+key] = value
		}
	}
	return values
}

// TestExpressionsAreReadable holds how long the expressions may be, so that a person understands them at night.
func TestExpressionsAreReadable(t *testing.T) {
	all, recorded := 0, 0
	rules := rulesFor(t, alerts.Defaults())
	for _, r := range rules {
		own, _, _ := strings.Cut(r.Expr, heldEnd)
		all += len(own)
		if r.Record != "" {
			recorded++
		}
		// One alert has three lines of conditions; nobody is woken by it.
		if most := map[string]int{"RulesOutOfDate": 310}[r.Alert]; len(r.Expr) > max(most, 240) {
			t.Errorf("%s: the expression has %d characters, want at most %d", &r, len(r.Expr), max(most, 240))
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			if _, ok := node.(*parser.AggregateExpr); ok &&
				slices.ContainsFunc(path, func(n parser.Node) bool { _, ok := n.(*parser.AggregateExpr); return ok }) {
				t.Errorf("%s: an aggregation in an aggregation", &r)
			}
			return nil
		})
		if strings.Contains(r.Expr, "label_replace") {
			t.Errorf("%s: label_replace", &r)
		}
		if r.For != "" && !slices.Contains([]string{
			"XMPPAuthFailureRate", "ExporterDown", "RulesOutOfDate", "HonorLabelsOff", "RelayUnwatched", "ScrapedTooSeldom", "ClockSkew",
			"DataVolumeFilling", "XMPPSessionsGone", "IRCUsersGone",
		}, r.Alert) {
			t.Errorf("%s: for: %s, although the exporter knows how long it has lasted", &r, r.For)
		}
		if series := seriesIn(t, r.Expr); r.Alert == "RulesOutOfDate" && !slices.Equal(series,
			[]string{"chatstack_rules_info", "prometheus_rule_group_rules", "prometheus_rule_group_interval_seconds"}) {
			t.Errorf("%s compares %q", &r, series)
		}
	}
	if mean := all / len(rules); mean > 126 || recorded > 30 {
		t.Errorf("the expressions have %d characters on average and %d are recorded, want at most 126 and 30", mean, recorded)
	}
}

// heldEnd begins what all expressions have at their end that go on while nobody knows.
const heldEnd = " or ignoring (alertname, severity) chatstack:held{"

// TestOperatorsThresholdsAreInTheRules holds every number that the operators have asked for against the shipped rules.
func TestOperatorsThresholdsAreInTheRules(t *testing.T) {
	want := map[string][2]string{ // warning and critical
		"ContainerUnhealthy": {" > 0", " > 300"}, "XMPPAuthFailureRate": {" > 10", " > 50"},
		"TLSCertificateExpiry": {" + 1209600)", " + 259200)"}, "DataVolumeUsage": {" > 0.8 and ", " > 0.95 and "},
		"ContainerRestarts": {" > 0", " > 3"}, "ContainerMemory": {" > 500000000 and ", " > 1000000000 and "},
		"ContainerDown": {" > 60", " > 300"}, "TargetDown": {":any > 120", ":all > 300"},
	}
	found := 0
	for _, r := range rulesFor(t, alerts.Defaults()) {
		limits, ok := want[r.Alert]
		if !ok {
			continue
		}
		limit := limits[0]
		if r.Labels["severity"] == alerts.Critical {
			limit = limits[1]
		}
		found++
		own, _, _ := strings.Cut(r.Expr, heldEnd)
		if !strings.HasSuffix(own, limit) && (!strings.HasSuffix(limit, " ") || !strings.Contains(own, limit)) {
			t.Errorf("%s: %s, want %q in it", &r, r.Expr, limit)
		}
	}
	if found != 2*len(want) {
		t.Errorf("%d rules were found, want two for each of %d thresholds", found, len(want))
	}
}

// TestNoRuleNamesAScrape holds that no alert has labels that tell one exporter of a pair from the other.
func TestNoRuleNamesAScrape(t *testing.T) {
	for _, r := range rulesFor(t, alerts.Defaults()) {
		switch r.String() {
		case "ExporterDown warning", "ExporterRestarts critical", "ExporterRestarts warning", "PollStalled critical",
			"ConfigReloadFailed warning", "StateNotSaved warning", "NotificationsFailing warning",
			"HonorLabelsOff warning", "ScrapedTooSeldom warning",
			"ClockSkew warning", "ChatstackDrill", "Watchdog none": // they are about one of a pair, and about nobody
			continue
		case "chatstack:xmpp_auth_failures_per_minute", "chatstack:held",
			"chatstack:certificate_held": // the alerts aggregate it; alerts have no such labels
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok || strings.Contains(selector.Name, ":") || rightSide(path, selector) {
				return nil
			}
			aggregated := slices.ContainsFunc(path, func(n parser.Node) bool {
				a, ok := n.(*parser.AggregateExpr)
				return ok && a.Without && slices.Contains(a.Grouping, "instance")
			})
			absent := slices.ContainsFunc(path, func(n parser.Node) bool {
				c, ok := n.(*parser.Call)
				return ok && c.Func.Name == "absent_over_time"
			})
			if !aggregated && !absent {
				t.Errorf("%s: %s is not aggregated over the exporters", &r, selector)
			}
			return nil
		})
	}
}

// rightSide reports whether a selector only decides which series of a left side stay, whose labels the result has.
func rightSide(path []parser.Node, selector *parser.VectorSelector) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && strings.Contains(b.RHS.String(), selector.String())
	})
}

// TestSeveritiesReadDifferently holds that nobody takes a critical alert for the warning that came before it.
func TestSeveritiesReadDifferently(t *testing.T) {
	warnings, both := map[string]string{}, 0
	all := rulesFor(t, alerts.Defaults())
	for _, r := range all {
		if r.Labels["severity"] == alerts.Warning {
			warnings[r.Alert] = r.Annotations["summary"]
		}
	}
	for _, r := range all {
		if warning, ok := warnings[r.Alert]; ok && r.Labels["severity"] == alerts.Critical {
			both++
			if r.Annotations["summary"] == warning {
				t.Errorf("%s: critical and warning both say %q", r.Alert, warning)
			}
		}
	}
	if both < 10 {
		t.Errorf("%d alerts have both severities, want at least 10", both)
	}
}

// TestTextsNameOnlySettingsThatThereAre holds that each word in angle brackets has become a setting.
func TestTextsNameOnlySettingsThatThereAre(t *testing.T) {
	word := regexp.MustCompile(`<[a-z+ ]+>`)
	for _, r := range rulesFor(t, allOn()) {
		for key, text := range r.Annotations {
			if left := word.FindString(text); left != "" {
				t.Errorf("%s: the %s says %s", &r, key, left)
			}
		}
	}
	if left := word.FindString(alerts.Index(alerts.Defaults())); left != "" {
		t.Errorf("the index says %s", left)
	}
}

// TestQueriesOfTextsStayInTheEnvironment holds that no text tells of another environment's series.
func TestQueriesOfTextsStayInTheEnvironment(t *testing.T) {
	query, selector, queries := regexp.MustCompile("printf `[^`]*`"), regexp.MustCompile(`chatstack_[a-z_]+(\{[^}]*\})?`), 0
	for _, r := range rulesFor(t, alerts.Defaults()) {
		for key, text := range r.Annotations {
			asked := selector.FindAllString(strings.Join(query.FindAllString(text, -1), " "), -1)
			if len(asked) == 0 {
				continue
			}
			queries++
			for _, found := range asked {
				if !strings.HasSuffix(found, "cluster=%q,env=%q,part=%q}") {
					t.Errorf("%s: the %s queries %s of all environments", r.Alert, key, found)
				}
			}
			if !strings.Contains(text, "$labels.cluster $labels.env $labels.part") {
				t.Errorf("%s: the %s does not query its own environment", r.Alert, key)
			}
		}
	}
	if queries < 6 {
		t.Errorf("%d texts have queries, want those of TargetDown, MostTargetsDown and TLSCertificateExpiry", queries)
	}
}
