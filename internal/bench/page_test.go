package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
)

//go:generate go test . -run ^TestPageIsMadeOfTheResults$ -update
var update = flag.Bool("update", false, "write BENCHMARKS.md and its charts anew from results.json, without measuring")

const (
	// resultsFile is what `make bench` measured last; the others are made of it.
	resultsFile = "results.json"
	pageFile    = "../../BENCHMARKS.md"
	rawFile     = "../../BENCHMARKS-RAW.md"
	chartsDir   = "charts"
)

//go:embed page.md.tmpl
var pageTemplate string

//go:embed raw.md.tmpl
var rawTemplate string

// page writes BENCHMARKS.md, raw BENCHMARKS-RAW.md.
func (r *results) page() []byte { return r.fill(pageTemplate) }
func (r *results) raw() []byte  { return r.fill(rawTemplate) }

func (r *results) fill(text string) []byte {
	var b bytes.Buffer
	made := template.Must(template.New("").Funcs(template.FuncMap{
		"thousands": thousands, "counted": counted, "short": short, "ms": ms, "mb": mb, "percent": percent, "microseconds": microseconds,
		"median": median[float64], "least": slices.Min[[]float64], "most": slices.Max[[]float64], "join": strings.Join, "trim": strings.TrimSpace,
		"minutes": func(seconds float64) string { return whole(seconds / 60) }, "whole": whole,
		"kilobytes": func(n int) string { return short(float64(n)/1000) + " kB" },
		"sizes":     func() []int { return sizes },
		"scrapes": func(n int) []scrapeRow {
			return slices.DeleteFunc(slices.Clone(r.Scrape), func(s scrapeRow) bool { return s.Series != n })
		},
		"goals": r.goalCells, "growth": r.growthCells,
	}).Parse(text))
	if err := made.Execute(&b, r); err != nil {
		panic(err) // all of it is ours
	}
	return b.Bytes()
}

func (r *results) goalCells() (rows [][]string) {
	for _, g := range r.goals() {
		verdict := g.verdict()
		if r.ShortPlans {
			verdict = "not judged: a short run"
		}
		rows = append(rows, []string{g.name, g.want, g.got, verdict})
	}
	return rows
}

func (r *results) growthCells() (rows [][]string) {
	for _, kind := range kinds {
		cpu, rss := r.curve(kind, "CPU"), r.curve(kind, "RSS")
		if len(cpu.points) > 0 {
			rows = append(rows, cpu.cells(kind, "CPU", ms, func(v float64) string { return microseconds(v * 1000) }),
				rss.cells(kind, "RSS", mb, func(v float64) string { return short(v*1000) + " kB" }))
		}
	}
	return rows
}

// cells are a curve with a unit, and one for what one more costs.
func (c curve) cells(kind, cost string, unit, small func(float64) string) []string {
	row := []string{kind, cost, unit(c.base)}
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		cell := ""
		if i := slices.IndexFunc(c.points, func(p point) bool { return p.n == n }); i >= 0 {
			cell = unit(c.points[i].cost)
		}
		row = append(row, cell)
	}
	exponent, passes, knee := "", "never", "none up to "+thousands(c.last().n)
	if e, ok := c.exponent(); ok {
		exponent = fmt.Sprintf("%.2f", e)
	}
	if n := c.passes(); n > 0 {
		passes = thousands(n)
	}
	if n := c.knee(); n > 0 {
		knee = "at " + thousands(n)
	}
	return append(row, small(c.each()), exponent, passes, knee)
}

// charts draws the pictures, by name.
func (r *results) charts() map[string][]byte {
	scrape := &chart{title: "Time of a scrape, 1 scraper, gzip", x: "series", y: "p50, microseconds"}
	for _, s := range r.Scrape {
		if s.Scrapers == 1 && s.Encoding == "gzip" {
			scrape.add(s.Server, s.Series, s.P50)
		}
	}
	containers := &chart{title: "Processor time, the engine's too, with idle containers", x: "containers", y: "percent of a core"}
	for _, w := range r.Watching {
		if !w.Busy {
			containers.add(w.Program, w.Containers, w.Share)
		}
	}
	probes := &chart{title: "Processor time of one HTTP probe", x: "targets", y: "microseconds"}
	for _, p := range r.Probes {
		if p.Kind == kindTargets {
			probes.add(p.Program, p.Targets, p.CPU)
		}
	}
	return map[string][]byte{"scrape-gzip.svg": scrape.svg(), "containers.svg": containers.svg(), "probes.svg": probes.svg()}
}

// files makes all that a run writes, by path below the directory of this package.
func (r *results) files() (map[string][]byte, error) {
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{resultsFile: append(raw, '\n'), pageFile: r.page(), rawFile: r.raw()}
	for name, content := range r.charts() {
		all[filepath.Join(chartsDir, name)] = content
	}
	return all, nil
}

// write writes them.
func (r *results) write() error {
	files, err := r.files()
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(name, content, 0o644) //nolint:gosec // everybody may read it
		}
	}
	return err
}

// TestPageIsMadeOfTheResults holds that no number of BENCHMARKS.md was typed by hand.
func TestPageIsMadeOfTheResults(t *testing.T) {
	raw, err := os.ReadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	r := &results{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		t.Fatalf("%s: %v", resultsFile, err)
	}
	if *update {
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
	}
	want, err := r.files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content) { //nolint:gosec // one of ours
			t.Errorf("%s is not what %s makes (%v): run `make bench`, or `make generate` where only the page's words have changed", name, resultsFile, err)
		}
	}
	charts, err := filepath.Glob(chartsDir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range charts {
		if want[name] == nil {
			t.Errorf("%s is a chart of nothing", name)
		}
	}
}
