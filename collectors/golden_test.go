package collectors

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

//go:generate go test . -update
var update = flag.Bool("update", false, "write the golden pages anew instead of comparing with them")

// goldenPage compares the page that a successful reading makes of b with testdata/<name>.prom. Families of ours are
// linted too. It gathers as the exporter does, through a pedantic registry, so a metric that contradicts another fails
// here.
func goldenPage(t *testing.T, name string, b *Batch) {
	t.Helper()
	compareGolden(t, name, pageOf(t, b, true))
}

// goldenFailure does the same for a reading that failed with err, whose reason and message stand on top of the page.
func goldenFailure(t *testing.T, name string, b *Batch, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: the reading succeeded", name)
		return
	}
	compareGolden(t, name, fmt.Appendf(nil, "# reason: %s\n%s", failure.ReasonOf(err), pageOf(t, b, false)))
}

// durations are what no two runs have in common.
var durations = regexp.MustCompile(`(?m)^([a-z_]+_duration_seconds\S*) \S+$`)

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	got = durations.ReplaceAll(got, []byte("$1 <duration>"))
	path := filepath.Join("testdata", filepath.FromSlash(name)+".prom")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v; run make generate and review what it writes", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("page %s (-want +got):\n%s", path, diff)
	}
}

// pageOf is the text page of a batch after a success or a failure.
func pageOf(t *testing.T, b *Batch, success bool) []byte {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(batchCollector(metricsOf(b, success))); err != nil {
		t.Fatal(err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(beginnings(gathered)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("lint %s: %s", p.Metric, p.Text)
	}
	families, err := exposition.FromGathered(gathered)
	if err != nil {
		t.Fatal(err)
	}
	page, clashes := exposition.Compose(families, b.Foreign(success))
	for _, c := range clashes {
		t.Errorf("family %s of source %d clashes with another", c.Family, c.Source)
	}
	wantFacts(t, b, success, page.Negotiate(http.Header{}).Bytes)
	wantFigures(t, b, success, page.Negotiate(http.Header{}).Bytes)
	return page.Negotiate(http.Header{}).Bytes
}

// beginnings are the families with their first series only: the linter compares each series with every other one.
func beginnings(families []*dto.MetricFamily) []*dto.MetricFamily {
	var short []*dto.MetricFamily
	for _, f := range families {
		short = append(short, &dto.MetricFamily{
			Name:   f.Name,
			Help:   f.Help,
			Type:   f.Type,
			Unit:   f.Unit,
			Metric: f.Metric[:min(len(f.Metric), 50)],
		})
	}
	return short
}

// metricsOf are the metrics that the page has because of a batch.
func metricsOf(b *Batch, success bool) []prometheus.Metric {
	return append(b.Metrics(success), b.Dropped(success).Metrics(b.Target, 0)...)
}

// batchCollector hands a batch's metrics to a registry.
type batchCollector []prometheus.Metric

func (c batchCollector) Describe(ch chan<- *prometheus.Desc) {
	seen := map[*prometheus.Desc]bool{}
	for _, m := range c {
		if d := m.Desc(); !seen[d] {
			seen[d] = true
			ch <- d
		}
	}
}

func (c batchCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}
