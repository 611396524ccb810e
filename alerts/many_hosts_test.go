package alerts_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

// external are labels that Prometheus servers, rulers and stores of many of them put to series from outside.
var external = []string{
	"__replica__", "__tenant_id__", "cluster", "datacenter", "env", "environment", "monitor", "namespace", "part", "prometheus",
	"prometheus_replica", "receive", "receive_replica", "region", "replica", "rule_replica", "ruler_replica", "tenant", "tenant_id",
	"thanos_ruler_replica", "zone",
}

// TestLabelsAreNobodyElses holds that no label of ours, on the page or in a rule, has the name of an external label: that
// would be overwritten by it, or two series would become one.
func TestLabelsAreNobodyElses(t *testing.T) {
	ours := map[string]bool{}
	for _, r := range rulesFor(t, alerts.Defaults()) {
		for name := range r.Labels {
			ours[name] = true
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.VectorSelector:
				for _, m := range n.LabelMatchers {
					ours[m.Name] = true
				}
			case *parser.AggregateExpr:
				if !n.Without {
					t.Errorf("%s: %s by labels loses the external ones", &r, n.Op)
				}
				for _, name := range n.Grouping {
					ours[name] = true
				}
			case *parser.BinaryExpr:
				if n.VectorMatching == nil || n.VectorMatching.On { // which compares what others have put there
					break
				}
				for _, name := range n.VectorMatching.MatchingLabels {
					ours[name] = true
				}
			case *parser.StringLiteral: // what label_replace names
				ours[n.Val] = true
			}
			return nil
		})
	}
	series := regexp.MustCompile(`(?m)^chatstack_\w+\{([^}\n]*)\}`)
	label := regexp.MustCompile(`(\w+)="`)
	pages := 0
	err := filepath.WalkDir("../collectors/testdata", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := series.FindAllSubmatch(content, -1)
		if len(found) > 0 {
			pages++
		}
		for _, s := range found {
			for _, l := range label.FindAllSubmatch(s[1], -1) {
				ours[string(l[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 20 || !ours["docker_host"] || !ours["target"] || !ours["severity"] || !ours["role"] {
		t.Fatalf("read %d pages, and these labels: %v", pages, slices.Sorted(maps.Keys(ours)))
	}
	for _, name := range external {
		if ours[name] {
			t.Errorf("%s is a label of ours, and of those that are put to series from outside", name)
		}
	}
}

// TestEndOfOnePartSilencesNoOther holds that the shipped Alertmanager configuration tells apart what is watched by different
// exporters: where there is no label part, both sides lack it, which counts as equal.
func TestEndOfOnePartSilencesNoOther(t *testing.T) {
	var config struct {
		InhibitRules []struct {
			Source []string `yaml:"source_matchers"`
			Equal  []string `yaml:"equal"`
		} `yaml:"inhibit_rules"`
	}
	if err := yaml.Unmarshal([]byte(shipped(t, "../deploy/alertmanager/alertmanager.yml")), &config); err != nil {
		t.Fatal(err)
	}
	for _, rule := range config.InhibitRules {
		for _, external := range []string{"cluster", "env", "part"} {
			if !slices.Contains(rule.Equal, external) {
				t.Errorf("what %v silences need not be of the same %s: %v", rule.Source, external, rule.Equal)
			}
		}
	}
	if len(config.InhibitRules) < 5 {
		t.Errorf("%d inhibitions were read, want all of them", len(config.InhibitRules))
	}
}
