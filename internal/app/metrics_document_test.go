package app

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

//go:generate go test -run ^TestMetricsDocumentIsUpToDate$ . -update
var updateDocument = flag.Bool("update", false, "write the tables of METRICS.md")

// metricsBegin and metricsEnd enclose what is generated.
const (
	metricsBegin = "<!-- metrics: written by make generate -->\n"
	metricsEnd   = "<!-- end of metrics -->\n"
)

// elsewhere are the rows of metrics that the simulated stack does not show at the moment of the test, and whose declaration does not say
// everything.
var elsewhere = map[string]string{
	"chatstack_notification_failing_seconds": "gauge | `receiver` | How long every attempt to send the receiver a notification has " +
		"failed; 0 after one that delivered it.",
	"chatstack_notification_queue_length": "gauge | `receiver` | Notifications that the receiver has not got yet.",
	"chatstack_notifications_total": "counter | `outcome`, `receiver` | Attempts to send a notification that delivered it or failed, and " +
		"notifications that were given up after 24 hours (expired) or held back as too many within an hour (held).",
	"chatstack_relay_broken_at": "gauge | `at`, `from`, `target`, `to` | 1 for the place where messages of the relay " +
		"check stop: irc, xmpp or bridge. Up to one poll interval old.",
	"chatstack_target_left_to_first": "gauge | `kind`, `target` | 1 for a target that this exporter leaves to the first of the " +
		"pair, because of pair: other.",
	"chatstack_target_retry_timestamp_seconds": "gauge | `target` | Unix time of the next probe of a target that waits on purpose, " +
		"so that its server does not ban this address; absent for any other target.",
	"chatstack_drill": "gauge | `id`, `severity` | 1 during a drill, " +
		"for which the alert ChatstackDrill fires with this severity; absent otherwise.",
	"chatstack_container_one_shot_failed_seconds": "gauge | `container`, `docker_host`, `workload` | Seconds since a container failed " +
		"that does its work and ends; absent for all other containers.",
	"chatstack_container_last_known_timestamp_seconds": "gauge | `container`, `docker_host`, `workload` | When the state of the " +
		"container was last read, in seconds since the epoch; absent unless its engine cannot be read now.",
	"chatstack_container_calm_seconds": "gauge | `container`, `docker_host`, `workload` | Seconds that a container has run whose outages " +
		"are one alert, which goes on for 15 minutes; absent for all other containers.",
	"chatstack_container_recent_outages": "gauge | `container`, `docker_host`, `workload` | Outages of the container within the last " +
		"90 minutes that are one alert, since there were three; absent for all other containers.",
	"chatstack_renamed_info": "gauge | `docker_host`, `kind`, `name`, `was` | 1 for a target or workload with a problem that began under " +
		"another name, was; absent otherwise.",
	"chatstack_target_calm_seconds": "gauge | `kind`, `target` | Seconds that a target has been up whose outages are one alert, which " +
		"goes on for 15 minutes; absent for all other targets.",
	"chatstack_target_recent_outages": "gauge | `kind`, `target` | Outages of the target within the last 90 minutes that are one alert, " +
		"since there were three; absent for all other targets.",
	"chatstack_container_removed_seconds": "gauge | `container`, `docker_host`, `workload` | Seconds since somebody removed the " +
		"container; absent for all other containers.",
}

// TestMetricsDocumentIsUpToDate compares METRICS.md with what an exporter serves that watches the simulated stack.
func TestMetricsDocumentIsUpToDate(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		must(t, stack.Switch("docker", "unhealthy", true))
		backup := filepath.Join(t.TempDir(), "backup.tar")
		rewrite(t, backup, "data")
		must(t, os.Chtimes(backup, time.Now(), time.Now())) // else it is from the future
		e := startExporter(t, stack.Environ(), canaryMode+tlsPortBlocks(stack)+
			"  - {kind: tcp, name: gone, address: '127.0.0.1:1', addresses: all}\n"+
			"  - {kind: volume, name: data, path: "+t.TempDir()+"}\n"+
			"  - {kind: backup, path: "+backup+"}\n"+
			"  - {kind: http, name: placeholder, url: '"+stack.ControlURL()+"', token: change_me}\n"+
			"  - {kind: tls, name: served, address: '"+stack.IRCAddress()+"', ca_file: "+stack.CAFile()+", certificate_file: "+
			stack.CAFile()+"}\n"+
			relayBlock(stack)+
			"  - {kind: tls, name: file, certificate_file: "+stack.CAFile()+"}\n"+
			"state_file: "+filepath.Join(t.TempDir(), "state.json")+"\n"+
			"maintenance:\n"+underMaintenance(time.Now(), "gone", "data", "xmpp_metrics", "irc_rpc"))
		p := e.wait(t, "every target up", func(p page) bool { return allUp(p) && p.Verdict("gone") == "refused" })
		rows := rowsOfDeclarations(t)
		maps.Copy(rows, elsewhere)
		for name, f := range p {
			if strings.HasPrefix(name, "chatstack_") {
				rows[name] = metricRow(f.GetType().String(), labelNames(f), f.GetHelp())
			}
		}
		for name, read := range declaredMetrics(t) {
			switch {
			case rows[name] == "":
				t.Errorf("%s is neither on the page nor declared by readDesc: add a service to internal/simstack, or a row to elsewhere",
					name)
			case read && !strings.Contains(rows[name], "Up to one poll interval old"):
				t.Errorf("%s: its row says %q, and must say that the value is up to one poll interval old", name, rows[name])
			}
		}
		var b strings.Builder
		b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, rows[name])
		}
		path := filepath.Join("../..", "METRICS.md")
		document, err := os.ReadFile(path)
		must(t, err)
		before, rest, begun := bytes.Cut(document, []byte(metricsBegin))
		table, after, ended := bytes.Cut(rest, []byte(metricsEnd))
		if !begun || !ended {
			t.Fatalf("%s lacks the lines\n%s%s", path, metricsBegin, metricsEnd)
		}
		if *updateDocument {
			//nolint:gosec // a file of the repository
			must(t, os.WriteFile(path, slices.Concat(before, []byte(metricsBegin), []byte(b.String()), []byte(metricsEnd), after), 0o600))
			return
		}
		if diff := cmp.Diff(strings.Split(b.String(), "\n"), strings.Split(string(table), "\n")); diff != "" {
			t.Errorf("%s is out of date; run make generate (-want +got):\n%s", path, diff)
		}
	})
}

var declaredMetric = regexp.MustCompile(`(NewDesc\(|readDesc\(|Name:\s*)\s*"(chatstack_\w+)"`)

// declaredMetrics are the metrics that the code declares, and whether a collector reads them.
func declaredMetrics(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"../../collectors/*.go", "*.go", "../poll/*.go", "../maintenance/*.go"} {
		paths, err := filepath.Glob(pattern)
		must(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range declaredMetric.FindAllSubmatch(contentOf(t, path), -1) {
				found[string(m[2])] = string(m[1]) == "readDesc("
			}
		}
	}
	if len(found) < 60 {
		t.Fatalf("%d metrics were found in the code", len(found))
	}
	return found
}

// rowsOfDeclarations are the rows of metrics that collectors declare by readDesc with literals alone, and write by Gauge or Counter.
func rowsOfDeclarations(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../collectors/*.go")
	must(t, err)
	types, declared := map[string]string{}, map[string][]string{} // by variable
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) != 1 {
					break
				}
				if call, ok := n.Values[0].(*ast.CallExpr); ok && nameOf(call.Fun) == "readDesc" {
					declared[n.Names[0].Name] = literals(call.Args)
				}
			case *ast.CallExpr:
				method, ok := n.Fun.(*ast.SelectorExpr)
				if ok && len(n.Args) > 0 && slices.Contains([]string{"Gauge", "Counter"}, method.Sel.Name) {
					types[nameOf(n.Args[0])] = method.Sel.Name
				}
			}
			return true
		})
	}
	rows := map[string]string{}
	for variable, texts := range declared {
		if kind := types[variable]; kind != "" && len(texts) >= 2 {
			rows[texts[0]] = metricRow(kind, quoted(texts[2:]), texts[1]+" Up to one poll interval old.")
		}
	}
	return rows
}

// nameOf is the name of an identifier, "" for any other expression.
func nameOf(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// literals are the texts of expressions; nil if one is no literal, or sum of literals.
func literals(list []ast.Expr) (texts []string) {
	for _, e := range list {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(e.Value)
			if err != nil {
				return nil
			}
			texts = append(texts, text)
		case *ast.BinaryExpr:
			parts := literals([]ast.Expr{e.X, e.Y})
			if parts == nil {
				return nil
			}
			texts = append(texts, strings.Join(parts, ""))
		default:
			return nil
		}
	}
	return texts
}

// metricRow is a row of the table, without the name.
func metricRow(kind, labels, help string) string {
	return fmt.Sprintf("%s | %s | %s", strings.ToLower(kind), labels, strings.ReplaceAll(help, "|", "\\|"))
}

// labelNames are the labels of a family's series, "none" without any.
func labelNames(f *dto.MetricFamily) string {
	var names []string
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(names, l.GetName()) {
				names = append(names, l.GetName())
			}
		}
	}
	return quoted(names)
}

// quoted are names of labels in their order, "none" without any.
func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "`" + strings.Join(slices.Sorted(slices.Values(names)), "`, `") + "`"
}
