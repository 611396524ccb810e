package collectors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

func TestRulesKnowFamiliesByEverySpelling(t *testing.T) {
	for _, c := range []struct {
		rules  FamilyRules
		family string
		kind   model.MetricType
		serves bool
		name   string
	}{
		{FamilyRules{}, "x", model.MetricTypeGauge, true, "x"},
		{FamilyRules{Allow: []string{"x"}}, "x", model.MetricTypeGauge, true, "x"},
		{FamilyRules{Allow: []string{"x"}}, "xy", model.MetricTypeGauge, false, "xy"},
		{FamilyRules{Allow: []string{"prosody_*"}, Deny: []string{"*_internal"}}, "prosody_x", model.MetricTypeGauge, true, "prosody_x"},
		{FamilyRules{Allow: []string{"prosody_*"}, Deny: []string{"*_internal"}}, "prosody_internal", model.MetricTypeGauge, false, "prosody_internal"},
		{FamilyRules{Deny: []string{"x_total"}, Rename: map[string]string{"x_total": "y_total"}}, "x", model.MetricTypeCounter, false, "y"},
		{FamilyRules{Deny: []string{"x"}, Rename: map[string]string{"x": "y"}}, "x_total", model.MetricTypeCounter, false, "y"},
		{FamilyRules{Deny: []string{"x_total"}, Rename: map[string]string{"x_total": "y_total"}}, "x", model.MetricTypeGauge, true, "x"},
		{FamilyRules{Deny: []string{"x_info"}, Rename: map[string]string{"x": "y_info"}}, "x", model.MetricTypeInfo, false, "y"},
		{FamilyRules{Deny: []string{"x"}}, "x_created", model.MetricTypeUnknown, false, "x_created"},
		{FamilyRules{Deny: []string{"x_[a-c]?"}}, "x_b1", model.MetricTypeHistogram, false, "x_b1"},
		{FamilyRules{Rename: map[string]string{"x": "y"}}, "x", model.MetricTypeHistogram, true, "y"},
	} {
		if got := c.rules.serves(c.family, c.kind); got != c.serves {
			t.Errorf("%+v: %s %s served: %v, want %v", c.rules, c.kind, c.family, got, c.serves)
		}
		if got := c.rules.renamed(c.family, c.kind); got != c.name {
			t.Errorf("%+v: %s %s is called %s, want %s", c.rules, c.kind, c.family, got, c.name)
		}
	}
}

// rulesFaults are the faults of a target's block with these rules.
func rulesFaults(t *testing.T, kind, block string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	if err := os.WriteFile(file, []byte("targets:\n  - kind: "+kind+"\n    url: http://x:1/metrics\n"+block), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(config.Source{File: file, Kinds: ConfigKinds(), Lookup: func(string) (string, bool) { return "", false }})
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestFaultsOfRulesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		kind, block string
		want        []string
	}{
		"none":                 {"openmetrics", "    allow: [\"prosody_*\", \"x_[a-c]?\"]\n    deny: [x]\n    rename: {a: b, c_total: d_total}\n", nil},
		"bad pattern":          {"openmetrics", "    allow: [ok, \"x[\"]\n", []string{`exporter.yaml:4: targets[0].allow[1]: is "x[", must be the name of a family, or a pattern`}},
		"empty pattern":        {"xmpp_metrics", "    deny: [\"\"]\n", []string{`exporter.yaml:4: targets[0].deny[0]: is "", must be`}},
		"a regular expression": {"xmpp_metrics", "    deny: [\"prosody_(a|b)\"]\n", []string{"targets[0].deny[0]"}},
		"bad names":            {"openmetrics", "    rename:\n      1x: y\n      x: \"y{}\"\n", []string{"exporter.yaml:5: targets[0].rename.1x: is no name of a family", `exporter.yaml:6: targets[0].rename.x: is "y{}", must be made of`}},
		"ours":                 {"openmetrics", "    rename: {x: chatstack_x}\n", []string{`is "chatstack_x", which begins with chatstack_`}},
		"ours by the prefix":   {"openmetrics", "    prefix: chat\n    rename: {x: stack_x}\n", []string{"begins with chatstack_"}},
		"not ours":             {"openmetrics", "    prefix: bridge_\n    rename: {x: chatstack_x}\n", nil},
		"two to one":           {"xmpp_metrics", "    rename: {a: x, b: x}\n", []string{`rename.b: is "x", which a is renamed to as well`}},
		"two to one, spelled":  {"xmpp_metrics", "    rename: {a: x, b_total: x_total}\n", []string{`rename.b_total: is "x_total", which a is renamed to as well`}},
		"one to two":           {"xmpp_metrics", "    rename: {a: x, a_total: y}\n", []string{"rename.a_total: names the same family as a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rulesFaults(t, c.kind, c.block)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q in it", got[i], want)
				}
			}
		})
	}
}

const rulesPage = `# TYPE prosody_a gauge
prosody_a 1
# TYPE prosody_b counter
prosody_b_total{n="1"} 2
prosody_b_total{n="1"} 3
prosody_b_created{n="1"} 4
# TYPE prosody_c histogram
prosody_c_bucket{le="+Inf"} 1
prosody_c_count 1
prosody_c_sum 5
prosody_c_created 6
# TYPE chatstack_x gauge
chatstack_x 7
# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter
prosody_mod_measure_chatstack__c2s_auth_failure_total{host="a.test"} 8
# TYPE prosody_mod_measure_storage__a_keyval_get_seconds histogram
prosody_mod_measure_storage__a_keyval_get_seconds_bucket{host="a.test",le="+Inf"} 9
prosody_mod_measure_storage__a_keyval_get_seconds_count{host="a.test"} 9
prosody_mod_measure_storage__a_keyval_get_seconds_sum{host="a.test"} 1
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 10
# EOF
`

func TestRulesOfTheXMPPServersPage(t *testing.T) {
	for name, c := range map[string]struct {
		rules     FamilyRules
		want      []string // families, by the names of their samples
		available []string
		clashes   string
	}{
		"the canonical families alone": {
			FamilyRules{Allow: []string{"xmpp_*"}},
			[]string{"xmpp_c2s_auth_failure_total", "xmpp_storage_operations_total", "xmpp_memory_usage_bytes"},
			[]string{authFailures, "xmpp_memory_usage_bytes", "xmpp_storage_operations_total"},
			"0",
		},
		"denied families were not dropped": {
			FamilyRules{Deny: []string{"prosody_b", "chatstack_*", "prosody_mod_*", "process_*", "xmpp_c2s_auth_failure_total"}},
			[]string{"prosody_a", "prosody_c", "xmpp_storage_operations_total", "xmpp_memory_usage_bytes"},
			[]string{"xmpp_memory_usage_bytes", "xmpp_storage_operations_total"},
			"0",
		},
		"renamed families": {
			FamilyRules{Deny: []string{"prosody_mod_measure_storage__*"}, Rename: map[string]string{
				"prosody_b_total": "logins_total", "prosody_c": "xmpp_http_request_duration_seconds", "chatstack_x": "x",
				"prosody_mod_measure_chatstack__c2s_auth_failure": "failures", "process_resident_memory_bytes": "memory_bytes",
			}},
			[]string{
				"prosody_a", "logins_total", "xmpp_http_request_duration_seconds", "x", "failures_total", "memory_bytes",
				"xmpp_c2s_auth_failure_total", "xmpp_storage_operations_total", "xmpp_memory_usage_bytes",
			},
			[]string{authFailures, "xmpp_http_request_duration_seconds", "xmpp_memory_usage_bytes", "xmpp_storage_operations_total"},
			"1",
		},
		"a part of a sum under another name, and another family under a part's": {
			FamilyRules{Allow: []string{"prosody_c", "prosody_mod_measure_storage__*"}, Rename: map[string]string{
				"prosody_mod_measure_storage__a_keyval_get_seconds": "a_seconds", "prosody_c": "prosody_mod_measure_storage__c",
			}},
			[]string{"prosody_mod_measure_storage__c", "a_seconds"},
			nil,
			"0",
		},
		"sums of what is renamed": {
			FamilyRules{Allow: []string{"prosody_c", "prosody_mod_measure_storage__*", "xmpp_storage_*"}, Rename: map[string]string{
				"prosody_mod_measure_storage__a_keyval_get_seconds": "a_seconds", "prosody_c": "prosody_mod_measure_storage__c",
			}},
			[]string{"prosody_mod_measure_storage__c", "a_seconds", "xmpp_storage_operations_total"},
			[]string{"xmpp_storage_operations_total"},
			"0",
		},
		"a name that another family has": {
			FamilyRules{Allow: []string{"prosody_?"}, Rename: map[string]string{"prosody_a": "prosody_c"}},
			[]string{"prosody_b_total", "prosody_c"},
			nil, "2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := readPage(t, rulesPage, func(s *XMPPMetrics) { s.FamilyRules = c.rules })
			var got []string
			series := 0
			for _, f := range b.Foreign(true) {
				got = append(got, f.TextName())
				if !strings.Contains(string(f.Text), f.TextName()) {
					t.Errorf("%s: samples are called otherwise:\n%s", f.Name, f.Text)
				}
				if !slices.ContainsFunc(canonicalFamilies, func(c canonicalFamily) bool { return c.name == f.TextName() }) {
					series += f.Series
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
			if sum := canonicalSeries(b); slices.Contains(c.want, "xmpp_storage_operations_total") && !slices.Contains(sum, `xmpp_storage_operations_total{host="a.test"} 9`) {
				t.Errorf("got the canonical series %q, want 9 operations whatever is served, and as what", sum)
			}
			if diff := cmp.Diff(c.available, availableFamilies(t, b)); diff != "" {
				t.Errorf("available (-want +got):\n%s", diff)
			}
			if own, want := string(ownText(t, b)), `chatstack_upstream_dropped_series{reason="clash",target="xmpp_metrics"} `+c.clashes+"\n"; !strings.Contains(own, want) {
				t.Errorf("got\n%s\nwant %s in it", own, want)
			}
			wantReadable(t, b)
		})
	}
}

func TestRenamedFamiliesKeepTheirSuffixes(t *testing.T) {
	b := readPage(t, rulesPage, func(s *XMPPMetrics) {
		s.FamilyRules = FamilyRules{Allow: []string{"prosody_b", "prosody_c"}, Rename: map[string]string{"prosody_b": "b_total", "prosody_c": "c"}}
	})
	var got strings.Builder
	for _, f := range b.Foreign(true) {
		got.Write(f.OpenMetrics)
	}
	want := "b_total{n=\"1\"} 2\nb_created{n=\"1\"} 4\nc_bucket{le=\"+Inf\"} 1\nc_sum 5\nc_count 1\nc_created 6\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeveralUpstreamsLiveSideBySide(t *testing.T) {
	const shared = "# HELP relayed Messages.\n# TYPE relayed counter\nrelayed_total{%s} 1\n# TYPE up_since gauge\nup_since 5\n# EOF\n"
	xmpp := readPage(t, strings.Replace(shared, "%s", `host="a.test"`, 1), nil)
	sources := [][]exposition.Family{xmpp.Foreign(true)}
	for _, name := range []string{"bridge", "relay"} {
		s := newOpenMetricsSettings()
		s.Name, s.URL = name, metricsPage(t, strings.Replace(shared, "%s", `from="irc"`, 1))
		c := newProbe(t, newOpenMetrics, s)
		b := readUp(t, c)
		sources = append(sources, b.Foreign(true))
	}
	page, clashes, err := exposition.Compose(sources...)
	if err != nil || len(clashes) > 0 {
		t.Fatalf("clashes %v, error %v", clashes, err)
	}
	want := `# HELP relayed_total Messages.
# TYPE relayed_total counter
relayed_total{host="a.test"} 1
relayed_total{from="irc",target="bridge"} 1
relayed_total{from="irc",target="relay"} 1
# TYPE up_since gauge
up_since 5
up_since{target="bridge"} 5
up_since{target="relay"} 5
`
	if diff := cmp.Diff(want, string(page.Negotiate(nil).Bytes)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestDropsOfEveryReasonAreExplainedOnce(t *testing.T) {
	var page strings.Builder
	for range 50 {
		page.WriteString("no sample of alice@chat.test\nprosody_twice{user=\"alice@chat.test\"} 1\nprosody_long{user=\"" + strings.Repeat("alice", 1000) + "\"} 1\n")
	}
	page.WriteString("# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total 1\n# EOF\n")
	b := readPage(t, page.String(), nil)
	lines := map[string]int{}
	for _, note := range b.Notes {
		for _, reason := range []string{"clash", "limit", "malformed"} {
			if strings.HasPrefix(note, "line ") && strings.Contains(note, " of the metrics page: "+reason+": ") {
				lines[reason]++
			}
		}
		if strings.Contains(note, "alice") {
			t.Errorf("a note tells a label's value: %s", note)
		}
	}
	if want := map[string]int{"clash": 3, "limit": 3, "malformed": 3}; !cmp.Equal(lines, want) || len(b.Notes) != 9 {
		t.Errorf("notes: got %v of %q, want %v", lines, b.Notes, want)
	}
}
