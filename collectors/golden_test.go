package collectors

import (
	"bytes"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

var update = flag.Bool("update", false, "write the golden pages anew instead of comparing with them")

// goldenPage compares the page that a successful reading makes of b with testdata/<name>.prom. Families of ours are
// linted too. It gathers as the exporter does, through a pedantic registry, so a metric that contradicts another fails
// here.
func goldenPage(t *testing.T, name string, b *Batch) {
	t.Helper()
	got := pageOf(t, b)
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
		t.Fatalf("%v; run the test with -update and review what it writes", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffLines(string(want), string(got)); diff != "" {
		t.Errorf("page %s (-want +got):\n%s", path, diff)
	}
}

// pageOf is the text page of a batch after a success.
func pageOf(t *testing.T, b *Batch) []byte {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(batchCollector(b.Metrics(true))); err != nil {
		t.Fatal(err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(gathered).Lint()
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
	page, clashes, err := exposition.Compose(families, b.Foreign(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clashes {
		t.Errorf("family %s of source %d clashes with another", c.Family, c.Source)
	}
	return page.Negotiate(http.Header{}).Bytes
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

// diffLines lists the lines that only one of two pages has, in their order; "" when the pages are the same.
func diffLines(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	// common[i][j] is the length of the longest common subsequence of w[i:] and g[j:].
	common := make([][]int, len(w)+1)
	for i := range common {
		common[i] = make([]int, len(g)+1)
	}
	for i := len(w) - 1; i >= 0; i-- {
		for j := len(g) - 1; j >= 0; j-- {
			if w[i] == g[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out bytes.Buffer
	for i, j := 0, 0; i < len(w) || j < len(g); {
		switch {
		case i < len(w) && j < len(g) && w[i] == g[j]:
			i, j = i+1, j+1
		case j == len(g) || (i < len(w) && common[i+1][j] >= common[i][j+1]):
			out.WriteString("-" + strings.TrimSuffix(w[i], "\n") + "\n")
			i++
		default:
			out.WriteString("+" + strings.TrimSuffix(g[j], "\n") + "\n")
			j++
		}
	}
	return out.String()
}

func TestDiffNamesBothSides(t *testing.T) {
	got := diffLines("a\nb\nc\n", "a\nx\nc\nd\n")
	if want := "-b\n+x\n+d\n"; got != want {
		t.Errorf("diff: got %q, want %q", got, want)
	}
	if got := diffLines("a\n", "a\n"); got != "" {
		t.Errorf("diff of the same page: got %q, want none", got)
	}
}
