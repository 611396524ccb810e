package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
)

//go:generate go test . -run ^TestPageIsMadeOfTheResults$ -update
var update = flag.Bool("update", false, "write BENCHMARKS.md, BENCHMARKS-RAW.md and charts anew from results.json, without measuring")

const (
	// resultsFile is what `make bench` measured last, pageFile and rawFile what is made of it.
	resultsFile = "results.json"
	pageFile    = "../../BENCHMARKS.md"
	rawFile     = "../../BENCHMARKS-RAW.md"
	chartsDir   = "charts"
)

var (
	//go:embed page.md.tmpl
	pageTemplate string
	//go:embed raw.md.tmpl
	rawTemplate string
)

// page makes BENCHMARKS.md of its template, and BENCHMARKS-RAW.md of its own.
func (r *results) page(text string) []byte {
	var b bytes.Buffer
	made := template.Must(template.New("").Funcs(template.FuncMap{
		"thousands": thousands, "short": short, "ms": ms, "mb": mb, "percent": percent, "microseconds": microseconds,
		"join": strings.Join, "trim": strings.TrimSpace, "does": does,
		"minutes": func(seconds float64) string { return whole(seconds / 60) }, "whole": whole,
		"kilobytes": func(n int) string { return short(float64(n)/1000) + " kB" },
		"sizes":     func() []int { return sizes },
		"scrapes": func(n int) []scrapeRow {
			return slices.DeleteFunc(slices.Clone(r.Scrape), func(s scrapeRow) bool { return s.Series != n })
		},
		"pages": func() []growthRow {
			return slices.DeleteFunc(slices.Clone(r.Growth), func(g growthRow) bool { return g.Page == 0 })
		},
		"columns": func() []string { return r.goalCells()[0] }, "goals": func() [][]string { return r.goalCells()[1:] },
		"idles": r.idleCells, "growth": r.growthCells,
	}).Parse(text))
	if err := made.Execute(&b, r); err != nil {
		panic(err) // all of it is ours
	}
	return b.Bytes()
}

// goalCells are the goals below their columns. One of these is for the earlier version, if that was measured.
func (r *results) goalCells() [][]string {
	rows := [][]string{{"goal", "wanted", "measured", "verdict"}}
	for _, g := range r.goals() {
		verdict := g.verdict()
		if r.ShortPlans {
			verdict = "not judged: a short run"
		}
		rows = append(rows, []string{g.name, g.want, g.got, verdict})
	}
	if r.Idle == nil || r.Idle.Before == nil {
		return rows
	}
	rows[0] = slices.Insert(rows[0], 3, "before")
	for i, g := range r.before().goals() {
		rows[i+1] = slices.Insert(rows[i+1], 3, g.got)
	}
	return rows
}

func (r *results) idleCells() (rows [][]string) {
	for i, row := range []*idleRow{r.Idle, r.before().Idle} {
		if row == nil {
			continue
		}
		cells := []string{[]string{serverOurs, oursBefore}[i], "not measured yet", "not measured yet", "not measured yet", mb(row.Binary)}
		if row.RSS > 0 {
			cells[1] = fmt.Sprintf("%s, %s with %s, %s series",
				mb(row.RSS), mb(row.Peak), counted(row.Containers, "container"), thousands(row.Series))
			cells[2] = fmt.Sprintf("%s s, over %s s", short(row.CPUPerHour), whole(row.Window))
		}
		if s := row.Starts; len(s) > 0 {
			cells[3] = fmt.Sprintf("%s, %s, %s ms of %d with %s",
				whole(median(s)), whole(slices.Min(s)), whole(slices.Max(s)), len(s), counted(row.Targets, "target"))
		}
		rows = append(rows, cells)
	}
	return rows
}

// Largest are the first functions of the profile, with their shares.
func (p profileRow) Largest() (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^ +\S+ +(\S+%) +\S+ +\S+ +\S+ +(\S+)`).FindAllStringSubmatch(p.Top, 3) {
		names = append(names, fmt.Sprintf("`%s` %s", m[2][strings.LastIndexByte(m[2], '/')+1:], m[1]))
	}
	return names
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
	exponent := ""
	if e, ok := c.exponent(); ok {
		exponent = fmt.Sprintf("%.2f", e)
	}
	return append(row, small(c.each()), exponent)
}

// charts draws the pictures, by name.
func (r *results) charts() map[string][]byte {
	drawn := map[string]*chart{
		"scrape.svg":     {title: "Time of a scrape, 1 scraper, gzip", x: "series", y: "p50, microseconds"},
		"containers.svg": {title: "Processor time of watching idle containers, the engine's too", x: "containers", y: "% of a core"},
		"probes.svg":     {title: "Processor time of one probe", x: "targets", y: "microseconds"},
	}
	for _, s := range r.Scrape {
		if s.Scrapers == 1 && s.Encoding == "gzip" {
			drawn["scrape.svg"].add(s.Server, s.Series, s.P50)
		}
	}
	for _, w := range r.Watching {
		if !w.Busy {
			drawn["containers.svg"].add(w.Program, w.Containers, w.Share)
		}
	}
	for _, p := range r.Probes {
		drawn["probes.svg"].add(p.Kind+", "+p.Program, p.Targets, p.CPU)
	}
	all := map[string][]byte{}
	for name, c := range drawn {
		all[name] = c.svg()
	}
	return all
}

// files makes all that a run writes, by path below the directory of this package.
func (r *results) files() (map[string][]byte, error) {
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{resultsFile: append(raw, '\n'), pageFile: r.page(pageTemplate), rawFile: r.page(rawTemplate)}
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
			t.Errorf("%s is not what %s makes (%v): run `make bench`, or `make generate` where only the page's words have changed",
				name, resultsFile, err)
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
