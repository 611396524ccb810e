package dashboards_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/dashboards"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:generate go test . -run ^TestFilesAreUpToDate$ -update
var update = flag.Bool("update", false, "write the dashboards and their README")

// board is a dashboard as its file has it.
type board struct {
	file string
	dashboards.Dashboard
	text []byte
}

// panels are all panels, those of collapsed rows too, and the rows.
func (b *board) panels() []dashboards.Panel {
	var all []dashboards.Panel
	for _, p := range b.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// shipped reads the generated files.
func shipped(t *testing.T) []board {
	t.Helper()
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	boards := make([]board, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		boards[i] = board{file: file, text: text}
		if err := json.Unmarshal(text, &boards[i].Dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return boards
}

// TestFilesAreUpToDate holds the files against the code. With -update it writes them.
func TestFilesAreUpToDate(t *testing.T) {
	boards := dashboards.All(alerts.Defaults())
	generated := map[string]string{"README.md": dashboards.Readme(boards)}
	var want []string
	for _, d := range boards {
		var b bytes.Buffer
		if err := d.Write(&b); err != nil {
			t.Fatal(err)
		}
		file := d.UID + ".json"
		want = append(want, file)
		generated[file] = b.String()
	}
	for file, content := range generated {
		if *update {
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(content, string(got)); diff != "" {
			t.Errorf("%s is out of date, run make generate (-want +got):\n%s", file, diff)
		}
	}
	got, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestReadmeListsEveryPanel reads the shipped files, so that no panel or query of theirs is missing in the README's tables.
func TestReadmeListsEveryPanel(t *testing.T) {
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	escape := strings.NewReplacer("|", `\|`).Replace
	for _, b := range shipped(t) {
		_, table, ok := strings.Cut(string(content), "["+b.file+"]("+b.file+")")
		table, _, _ = strings.Cut(table, "\n## ")
		if !ok {
			t.Errorf("the README has no table of %s", b.file)
		}
		for _, p := range b.panels() {
			if p.Type == "row" {
				continue
			}
			row := "\n| " + p.Title + " | " + escape(p.Description) + " | "
			for i, q := range p.Targets {
				if i > 0 {
					row += "<br>"
				}
				row += "`" + escape(q.Expr) + "`"
			}
			if !strings.Contains(table, row+" |\n") {
				t.Errorf("%s: the README's table lacks %s", b.file, row)
			}
		}
	}
}

// TestUIDsAreThoseThatLinksHoldOnTo is a list of its own on purpose: bookmarks have these names.
func TestUIDsAreThoseThatLinksHoldOnTo(t *testing.T) {
	var got []string
	for _, b := range shipped(t) {
		got = append(got, b.UID)
		if b.file != b.UID+".json" {
			t.Errorf("%s has the uid %s", b.file, b.UID)
		}
	}
	want := []string{
		"chatstack-containers", "chatstack-exporter", "chatstack-irc", "chatstack-overview", "chatstack-tls-disks", "chatstack-xmpp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("uids (-want +got):\n%s", diff)
	}
}

// TestPanelsHaveWhatTheirReadersNeed holds places, ids, descriptions, units, limits and names of series.
func TestPanelsHaveWhatTheirReadersNeed(t *testing.T) {
	for _, b := range shipped(t) {
		holdPlaces(t, b.file, b.Panels)
		ids, titles := map[int]bool{}, map[string]bool{}
		for _, p := range b.panels() {
			what := fmt.Sprintf("%s, panel %d %q", b.file, p.ID, p.Title)
			if p.ID <= 0 || ids[p.ID] {
				t.Errorf("%s: its id is missing or not unique", what)
			}
			ids[p.ID] = true
			if p.Title == "" || titles[p.Type+p.Title] {
				t.Errorf("%s: its title is missing or not unique", what)
			}
			titles[p.Type+p.Title] = true
			if p.Type == "row" {
				if *p.Collapsed {
					holdPlaces(t, b.file, p.Panels)
				} else if len(p.Panels) > 0 {
					t.Errorf("%s: is not collapsed, but contains panels", what)
				}
				continue
			}
			if f := p.FieldConfig; len(p.Description) < 10 || f == nil || f.Defaults.Unit == "" || f.Defaults.NoValue == "" ||
				len(f.Defaults.Thresholds.Steps) == 0 {
				t.Errorf("%s: lacks a description, a unit, thresholds or the text for no data", what)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: has no query", what)
			}
			for _, q := range p.Targets {
				if q.Interval != "30s" {
					t.Errorf("%s, %s: its interval is not the scrape interval, so rates use wrong windows", what, q.RefID)
				}
				if p.Type != "table" &&
					(len(q.LegendFormat) <= len(" {{env}} {{cluster}}") || !strings.HasSuffix(q.LegendFormat, " {{env}} {{cluster}}")) {
					t.Errorf("%s, %s: the legend is %q, without the environment", what, q.RefID, q.LegendFormat)
				}
				if p.Type == "table" && !strings.Contains(fmt.Sprint(p.Transformations), "^env$|^cluster$|") {
					t.Errorf("%s: its rows do not show the environment", what)
				}
			}
		}
		if b.Refresh != "30s" || b.Time.To != "now" || b.SchemaVersion < 36 || !slices.Contains(b.Tags, "chatstack") {
			t.Errorf("%s: refresh %s, time %v, schema %d, tags %v", b.file, b.Refresh, b.Time, b.SchemaVersion, b.Tags)
		}
		if bytes.Contains(b.text, []byte(`"id": null`)) || regexp.MustCompile(`(?m)^  "id":`).Match(b.text) {
			t.Errorf("%s: has an id, which Grafana assigns itself", b.file)
		}
	}
}

// holdPlaces holds that no panel lies on another one, or outside.
func holdPlaces(t *testing.T, file string, panels []dashboards.Panel) {
	t.Helper()
	var taken [1000][24]bool
	for _, p := range panels {
		g := p.GridPos
		if g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 {
			t.Fatalf("%s, %s: place %+v is outside the grid", file, p.Title, g)
		}
		for y := g.Y; y < g.Y+g.H; y++ {
			for x := g.X; x < g.X+g.W; x++ {
				if taken[y][x] {
					t.Fatalf("%s, %s overlaps another one at %d, %d", file, p.Title, x, y)
				}
				taken[y][x] = true
			}
		}
	}
}

// TestEveryQueryAsksForTheChosenEnvironments holds that no series is taken from an environment that the reader has not chosen, and
// that none is left out where there are no environments.
func TestEveryQueryAsksForTheChosenEnvironments(t *testing.T) {
	for _, b := range shipped(t) {
		for i, want := range []string{"cluster", "env"} {
			v := b.Templating.List[1+i]
			if v.Name != want || v.AllValue != ".*" || !v.IncludeAll || !v.Multi || v.Current.Value.([]any)[0] != "$__all" {
				t.Errorf("%s: the variable %s is %+v", b.file, want, v)
			}
		}
		if l := b.Links[0]; l.Type != "dashboards" || !l.IncludeVars {
			t.Errorf("%s: what is chosen is lost on the way to another dashboard", b.file)
		}
		queries := expressions(b)
		for _, v := range b.Templating.List[2:] { // the first one chooses among all clusters
			if q, ok := v.Query.(map[string]any); ok && v.Name != "env" {
				selector, _, _ := strings.Cut(strings.TrimPrefix(q["query"].(string), "label_values("), ", ")
				queries = append(queries, expression{name: b.UID + "/" + v.Name, expr: selector})
			}
		}
		for _, e := range queries {
			// A variable in a matcher is text to the parser.
			expr, err := parser.NewParser(parser.Options{}).
				ParseExpr(strings.NewReplacer("$__rate_interval", "5m", "$slo", "99").Replace(e.expr))
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if v, ok := node.(*parser.VectorSelector); ok {
					matchers := map[string]bool{}
					for _, m := range v.LabelMatchers {
						matchers[m.String()] = true
					}
					// An alert that no environment has is in every one.
					or := ""
					if v.Name == "ALERTS" {
						or = "|"
					}
					if !matchers[`cluster=~"$cluster`+or+`"`] || !matchers[`env=~"$env`+or+`"`] || or != "" && !matchers[`stack="chat"`] {
						t.Errorf("%s: %s is of any environment", e.name, v)
					}
				}
				return nil
			})
			if strings.Contains(e.expr, "target=~") || strings.Contains(e.expr, "target=\"") {
				t.Errorf("%s: names targets, whose names are the user's", e.name)
			}
		}
	}
}

// TestDatasourceIsChosenByTheReader holds that no file names one.
func TestDatasourceIsChosenByTheReader(t *testing.T) {
	for _, b := range shipped(t) {
		var tree any
		if err := json.Unmarshal(b.text, &tree); err != nil {
			t.Fatal(err)
		}
		found := 0
		var walk func(any)
		walk = func(node any) {
			switch n := node.(type) {
			case []any:
				for _, e := range n {
					walk(e)
				}
			case map[string]any:
				for key, e := range n {
					if key == "datasource" {
						found++
						if diff := cmp.Diff(map[string]any{"type": "prometheus", "uid": "${datasource}"}, e); diff != "" {
							t.Errorf("%s: a datasource of its own (-want +got):\n%s", b.file, diff)
						}
					}
					walk(e)
				}
			}
		}
		walk(tree)
		if found == 0 || b.Templating.List[0].Name != "datasource" || b.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the variable datasource is not the first, or nothing asks it", b.file)
		}
	}
}

// TestColoursBeginWhereAlertsDo reads the thresholds from the panels that draw them and from the shipped rules.
func TestColoursBeginWhereAlertsDo(t *testing.T) {
	a := alerts.Defaults()
	of := func(warning, critical, scale, shift float64) []float64 {
		w, c := warning*scale+shift, critical*scale+shift
		return []float64{min(w, c), max(w, c)}
	}
	amounts := func(l *config.AlertSettings, unit float64) []float64 {
		return []float64{float64(l.Warning.Over) / unit, float64(l.Critical.Over) / unit}
	}
	rate, expiry, restarts := a.Of("xmpp_auth_failure_rate"), a.Of("tls_certificate_expiry"), a.Of("container_restarts")
	logins := of(float64(rate.Warning.Over), float64(rate.Critical.Over), 1, 0)
	days := func(unit float64) []float64 {
		return of(expiry.Warning.Under.Std().Seconds(), expiry.Critical.Under.Std().Seconds(), 1/unit, 0)
	}
	for _, want := range []struct {
		uid, panel string
		limits     []float64
	}{
		{dashboards.XMPP, "Failed logins", logins},
		{dashboards.Overview, "Failed logins per minute", logins},
		{dashboards.Overview, "Next certificate to expire", days(1)},
		{dashboards.TLSDisks, "Days left", days(86400)},
		{dashboards.TLSDisks, "Used", amounts(a.Of("data_volume_usage"), 100)},
		{dashboards.TLSDisks, "Used over time", amounts(a.Of("data_volume_usage"), 100)},
		{dashboards.Containers, "Memory", amounts(a.Of("container_memory"), 1)},
		// Whole numbers are above a limit from the next one on.
		{dashboards.Containers, "Restarts in 10 minutes", of(float64(restarts.Warning.Over), float64(restarts.Critical.Over), 1, 1)},
		{dashboards.Exporter, "Poll loop heartbeat", []float64{a.Of("poll_stalled").For.Std().Seconds()}},
		{dashboards.Exporter, "Clock skew", []float64{a.Of("clock_skew").Apart.Std().Seconds()}},
	} {
		var got []float64
		for _, b := range shipped(t) {
			for _, p := range b.panels() {
				if b.UID == want.uid && p.Title == want.panel && p.Type != "row" {
					for _, s := range p.FieldConfig.Defaults.Thresholds.Steps[1:] {
						got = append(got, *s.Value)
					}
				}
			}
		}
		if diff := cmp.Diff(want.limits, got); diff != "" {
			t.Errorf("%s, %s: limits (-want +got):\n%s", want.uid, want.panel, diff)
		}
	}
}

// TestPanelsLinkToTheRunbooksOfTheirAlerts holds that every panel which an alert's row names exists, and links to its runbook.
func TestPanelsLinkToTheRunbooksOfTheirAlerts(t *testing.T) {
	linked := map[string]string{}
	for _, b := range shipped(t) {
		for _, p := range b.panels() {
			for _, l := range p.Links {
				if alert, ok := strings.CutPrefix(l.Title, "Runbook: "); ok {
					linked[strings.TrimPrefix(b.UID, "chatstack-")+"/"+p.Title] = alert
				}
			}
		}
	}
	if diff := cmp.Diff(alerts.Panels(), linked); diff != "" {
		t.Errorf("runbooks by panel (-want +got):\n%s", diff)
	}
}

// TestNewestParserTakesEveryExpression is for Prometheus 3; the oldest one runs them all, see TestRealEveryPanelFollowsItsFault.
func TestNewestParserTakesEveryExpression(t *testing.T) {
	for _, b := range shipped(t) {
		for _, e := range expressions(b) {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(resolve(e.expr))
			if err != nil {
				t.Errorf("%s: %v\n%s", e.name, err, e.expr)
				continue
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				switch n := node.(type) {
				case *parser.VectorSelector:
					if n.Timestamp != nil || n.StartOrEnd != 0 || n.OriginalOffset < 0 {
						t.Errorf("%s: %s has what Thanos or Mimir may not", e.name, n)
					}
				case *parser.SubqueryExpr:
					if n.Timestamp != nil || n.StartOrEnd != 0 || n.Step == 0 {
						t.Errorf("%s: %s needs a step of its own", e.name, n)
					}
				}
				return nil
			})
		}
	}
}

// TestLinksLeadSomewhere holds that a runbook which a dashboard names is there.
func TestLinksLeadSomewhere(t *testing.T) {
	runbook := regexp.MustCompile(regexp.QuoteMeta(alerts.Defaults().RunbookURL) + `/([^"]*)`)
	for _, b := range shipped(t) {
		for _, found := range runbook.FindAllSubmatch(b.text, -1) {
			if name := string(found[1]); name != "${__value.text}.md" {
				if _, err := os.Stat(filepath.Join("../alerts/runbooks", name)); err != nil {
					t.Errorf("%s: %v", b.file, err)
				}
			}
		}
		if !bytes.Contains(b.text, []byte(`"${status_page:raw}/`)) || len(b.Links) != 3 {
			t.Errorf("%s: lacks a link to the status page, the runbooks or the other dashboards", b.file)
		}
	}
}

// TestGrafanaFindsTheDashboards holds the files that Grafana is provisioned with.
func TestGrafanaFindsTheDashboards(t *testing.T) {
	const dir = "../deploy/grafana/provisioning/"
	var provider struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	var source struct {
		Datasources []struct {
			Type      string
			IsDefault bool `yaml:"isDefault"`
			JSONData  struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	for file, into := range map[string]any{"dashboards/chatstack.yaml": &provider, "datasources/prometheus.yaml": &source} {
		content, err := os.ReadFile(dir + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if len(provider.Providers) != 1 || provider.Providers[0].Type != "file" ||
		provider.Providers[0].Options.Path != "/etc/grafana/dashboards" {
		t.Errorf("providers are %+v", provider)
	}
	// What a rate is taken over follows from the time between two scrapes.
	if want := alerts.Defaults().Interval.Std().String(); len(source.Datasources) != 1 || source.Datasources[0].Type != "prometheus" ||
		!source.Datasources[0].IsDefault || source.Datasources[0].JSONData.TimeInterval != want {
		t.Errorf("data sources are %+v, want the time interval %s", source, want)
	}
}

// expression is one that a dashboard asks Prometheus.
type expression struct {
	// name is the dashboard's uid, the panel's title and the query's letter.
	name, expr string
	ranged     bool
}

// expressions are those of all panels and annotations.
func expressions(b board) []expression {
	var all []expression
	for _, p := range b.panels() {
		for _, q := range p.Targets {
			all = append(all, expression{fmt.Sprintf("%s/%s/%s", b.UID, p.Title, q.RefID), q.Expr, q.Range})
		}
	}
	for _, a := range b.Annotations.List {
		all = append(all, expression{fmt.Sprintf("%s/%s/annotation", b.UID, a.Name), a.Expr, true})
	}
	return all
}

// resolve puts what Grafana would in the place of variables: all of everything, and windows for scrapes a second apart.
func resolve(expr string) string { return resolveIn(environment{".*", ".*"}, expr) }

// environment is a choice of the variables of the same names.
type environment struct{ cluster, env string }

// resolveIn does the same for one environment.
func resolveIn(e environment, expr string) string {
	return strings.NewReplacer(
		"$__rate_interval", strconv.Itoa(testRateInterval)+"s", "$slo", "99.5", "$cluster", e.cluster, "$env", e.env,
		"$job", "chatstack_exporter", "$instance", ".*", "$docker_host", ".*", "$container", ".*",
	).Replace(expr)
}

// testRateInterval is four scrapes, as Grafana has it.
const testRateInterval = 4
