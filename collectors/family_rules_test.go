package collectors

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

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
		{
			FamilyRules{},
			"x",
			model.MetricTypeGauge,
			true,
			"x",
		},
		{
			FamilyRules{Allow: []string{"x"}},
			"x",
			model.MetricTypeGauge,
			true,
			"x",
		},
		{
			FamilyRules{Allow: []string{"x"}},
			"xy",
			model.MetricTypeGauge,
			false,
			"xy",
		},
		{
			FamilyRules{Allow: []string{"prosody_*"}, Deny: []string{"*_internal"}},
			"prosody_x",
			model.MetricTypeGauge,
			true,
			"prosody_x",
		},
		{
			FamilyRules{Allow: []string{"prosody_*"}, Deny: []string{"*_internal"}},
			"prosody_internal",
			model.MetricTypeGauge,
			false,
			"prosody_internal",
		},
		{
			FamilyRules{Deny: []string{"x_total"}, Rename: map[string]string{"x_total": "y_total"}},
			"x",
			model.MetricTypeCounter,
			false,
			"y",
		},
		{
			FamilyRules{Deny: []string{"x"}, Rename: map[string]string{"x": "y"}},
			"x_total",
			model.MetricTypeCounter,
			false,
			"y",
		},
		{
			FamilyRules{Deny: []string{"x_total"}, Rename: map[string]string{"x_total": "y_total"}},
			"x",
			model.MetricTypeGauge,
			true,
			"x",
		},
		{
			FamilyRules{Deny: []string{"x_info"}, Rename: map[string]string{"x": "y_info"}},
			"x",
			model.MetricTypeInfo,
			false,
			"y",
		},
		{
			FamilyRules{Deny: []string{"x"}},
			"x_created",
			model.MetricTypeUnknown,
			false,
			"x_created",
		},
		{
			FamilyRules{Deny: []string{"x_[a-c]?"}},
			"x_b1",
			model.MetricTypeHistogram,
			false,
			"x_b1",
		},
		{
			FamilyRules{Rename: map[string]string{"x": "y"}},
			"x",
			model.MetricTypeHistogram,
			true,
			"y",
		},
	} {
		if got := c.rules.serves(c.family, c.kind); got != c.serves {
			t.Errorf("%+v: %s %s served: %v, want %v", c.rules, c.kind, c.family, got, c.serves)
		}
		c.rules.Allow, c.rules.Deny = nil, nil // what is not served keeps its name
		if got := c.rules.renamed(c.family, c.kind); got != c.name {
			t.Errorf("%+v: %s %s is called %s, want %s", c.rules, c.kind, c.family, got, c.name)
		}
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

func TestRenamedFamiliesKeepTheirSuffixes(t *testing.T) {
	b := readPage(t, rulesPage, func(s *XMPPMetrics) {
		s.FamilyRules = FamilyRules{
			Allow:  []string{"prosody_b", "prosody_c"},
			Rename: map[string]string{"prosody_b": "b_total", "prosody_c": "c"},
		}
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
		s := &OpenMetrics{}
		s.Name, s.URL = name, metricsPage(t, strings.Replace(shared, "%s", `from="irc"`, 1))
		c := newProbe(t, newOpenMetrics, s)
		b := readUp(t, c)
		sources = append(sources, b.Foreign(true))
	}
	page, clashes := exposition.Compose(sources...)
	if len(clashes) > 0 {
		t.Fatalf("clashes %v", clashes)
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
		page.WriteString("no sample of alice@chat.test\nprosody_twice{user=\"alice@chat.test\"} 1\nprosody_long{user=\"" +
			strings.Repeat("alice", 1000) + "\"} 1\n")
	}
	page.WriteString("# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\n" +
		"prosody_mod_measure_chatstack__c2s_auth_failure_total 1\n# EOF\n")
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
