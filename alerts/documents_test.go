package alerts_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

// generatedRules are the rules of a generated file: expressions by alert, and by recorded series.
func generatedRules(t *testing.T, path string) (alerts, records map[string][]string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
		t.Fatal(err)
	}
	alerts, records = map[string][]string{}, map[string][]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts[r.Alert] = append(alerts[r.Alert], r.Expr)
			} else {
				records[r.Record] = append(records[r.Record], r.Expr)
			}
		}
	}
	return alerts, records
}

// seriesIn are the names of the series in an expression.
func seriesIn(t *testing.T, expr string) []string {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

// TestEveryRunbookNamesTheSeriesOfItsAlert holds that a runbook explains each series of its alert's expressions.
func TestEveryRunbookNamesTheSeriesOfItsAlert(t *testing.T) {
	alerts, _ := generatedRules(t, allRules(t))
	books := runbooks(t)
	for alert, exprs := range alerts {
		for _, expr := range exprs {
			for _, name := range seriesIn(t, expr) {
				if !strings.Contains(books[alert], name) && name != "chatstack:held" { // ALERTS.md says that of all of them
					t.Errorf("%s: its runbook says nothing of %s", alert, name)
				}
			}
		}
	}
}

var (
	declaredMetric = regexp.MustCompile(`(?:\w*Desc\(|Name:\s*)\s*"(chatstack_\w+)"`)
	namedSeries    = regexp.MustCompile(`\bchatstack(?:_[a-z0-9_]+|:[a-z0-9]+_[a-z0-9_]+(?::[a-z0-9_]+)*)`)
)

// otherNames are what is called like a metric and is none: programs, services, networks and users of the documents, and the metric
// that CONTRIBUTING.md adds as an example.
var otherNames = []string{
	"chatstack_docker_proxy", "chatstack_exporter", "chatstack_node", "chatstack_probes", "chatstack_socket_proxy", "chatstack_test",
	"chatstack_voice_rooms", "chatstack_web", "chatstack_web_pem",
}

// TestDocumentsNameOnlySeriesThatThereAre holds every chatstack_ and chatstack: name in documents, configurations, runbooks and
// dashboards against the metrics that the code declares and the series that the rules record.
func TestDocumentsNameOnlySeriesThatThereAre(t *testing.T) {
	// the client library's, and one that a page gets late
	known := map[string]bool{"chatstack_exporter_build_info": true, "chatstack_exporter_time_seconds": true}
	for _, name := range otherNames {
		known[name] = true
	}
	for _, path := range matching(t, "collectors/*.go", "internal/app/*.go", "internal/poll/*.go", "internal/maintenance/*.go") {
		for _, found := range declaredMetric.FindAllStringSubmatch(read(t, path), -1) {
			known[found[1]] = true
		}
	}
	for _, file := range []string{allRules(t), "chatstack.recording.yml"} {
		_, records := generatedRules(t, file)
		for name := range maps.Keys(records) {
			known[name] = true
		}
	}
	series := 0
	for _, path := range matching(t, "*.md", "exporter.yaml", "alerts/runbooks/*.md", "dashboards/*.json",
		"deploy/*.*", "deploy/*/*.*", "deploy/*/*/*.*", "internal/e2e/*.md") {
		for _, name := range namedSeries.FindAllString(read(t, path), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if !known[name] && !strings.HasSuffix(name, "_") { // such as chatstack_upstream_*
				t.Errorf("%s names %s, which nobody exports or records", path, name)
			}
			series++
		}
	}
	if series < 500 {
		t.Errorf("%d names were found, want those of all documents and dashboards", series)
	}
}

// matching are the repository's files that fit one of the patterns, but no tests.
func matching(t *testing.T, patterns ...string) []string {
	t.Helper()
	var paths []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing fits %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
}

// otherWords are words for things that ALERTS.md's glossary names, with the glossary's word.
var otherWords = map[string]string{
	"reading": "probe", "readings": "probes", "daemon": "engine", "daemons": "engines", "suppressed": "held back", "muted": "held back",
	"downtime": "maintenance or outage", "root cause": "cause", "fault": "problem", "faults": "problems", "metrics page": "metrics",
	"(?:of its|failed|scheduled) checks": "probes",
}

// TestOneThingHasOneWord looks for other words than the glossary's in headings, titles of dashboards, alerts, metrics with their labels
// and HELP, and the keys and descriptions of the API.
func TestOneThingHasOneWord(t *testing.T) {
	texts := map[string]string{
		"METRICS.md": read(t, "../METRICS.md"), "openapi.yaml": read(t, "../internal/web/openapi.yaml"),
		"chatstack.rules.yml": read(t, "chatstack.rules.yml"), "dashboards/README.md": read(t, "../dashboards/README.md"),
	}
	for _, path := range documents(t) {
		for line := range strings.Lines(codeInText.ReplaceAllString(read(t, path), "")) {
			if strings.HasPrefix(line, "#") {
				texts["headings of "+path] += line
			}
		}
	}
	if len(texts) < 20 {
		t.Fatalf("only %d texts are checked", len(texts))
	}
	for name, text := range texts {
		for word, use := range otherWords {
			found := regexp.MustCompile(`(?i)(^|[^a-z])`+word+`($|[^a-z])`).FindAllStringIndex(text, -1)
			for _, at := range found {
				t.Errorf("%s: %q; write %s", name, text[max(0, at[0]-40):min(len(text), at[1]+40)], use)
			}
		}
	}
	for word := range otherWords {
		if strings.Contains(read(t, "../ALERTS.md"), "| "+word+" |") {
			t.Errorf("the glossary explains %q, which is another word for %s", word, otherWords[word])
		}
	}
}
