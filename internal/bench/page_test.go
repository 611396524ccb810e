package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:generate go test . -run ^TestPageIsMadeOfTheResults$ -update
var update = flag.Bool("update", false, "write BENCHMARKS.md and its charts anew from results.json, without measuring")

const (
	// resultsFile is what `make bench` measured last, pageFile what is made of it.
	resultsFile = "results.json"
	pageFile    = "../../BENCHMARKS.md"
	chartsDir   = "charts"
)

// table is one of the page.
type table struct {
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.columns, " | "), "---|"+strings.Repeat("--:|", len(t.columns)-1))
	if len(t.rows) == 0 {
		fmt.Fprintf(b, "| not measured |%s\n", strings.Repeat(" |", len(t.columns)-1))
	}
	for _, row := range t.rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
}

// page is BENCHMARKS.md.
func (r *results) page() []byte {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n")
	fmt.Fprintf(&b, "Measured by `%s` in one run of %.0f minutes, and written by it: no number here is typed by hand. The run's raw numbers are in\n"+
		"[internal/bench/results.json](internal/bench/results.json). What is compared was measured in turns, so that whatever else the\n"+
		"machine did hit all alike; numbers are medians, and ratios are medians of the turns' ratios. Compare ratios between machines, not times.\n\n", r.Command, r.Took/60)
	if r.ShortPlans {
		b.WriteString("**This was a short run. It shows that everything is measured; its numbers mean nothing.**\n\n")
	}
	r.writeMachine(&b)
	r.writeGoals(&b)
	r.writeScrape(&b)
	r.writeContainers(&b)
	r.writeProbes(&b)
	r.writeIdle(&b)
	r.writeFreshness(&b)
	r.writeGrowth(&b)
	r.writeProfiles(&b)
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

func (r *results) writeMachine(b *strings.Builder) {
	b.WriteString("## Machine\n\n")
	t := table{columns: []string{"what", "value"}}
	t.add("date", r.Made.UTC().Format("2006-01-02 15:04 MST"))
	t.add("commit", r.Commit)
	t.add("machine", r.Machine)
	t.add("kernel", r.Kernel)
	t.add("load average before and after", fmt.Sprintf("%.2f, %.2f", r.Busy[0], r.Busy[1]))
	for _, v := range r.Versions {
		t.add(v.Name, v.Version)
	}
	t.write(b)
	if len(r.Absent) == 0 {
		return
	}
	b.WriteString("Not measured in this run:\n\n")
	for _, a := range r.Absent {
		fmt.Fprintf(b, "- %s\n", a)
	}
	b.WriteString("\n")
}

func (r *results) writeGoals(b *strings.Builder) {
	b.WriteString("## Goals\n\nEach is judged at its worst. Where one is missed, the last section has the profile that says why.\n\n")
	t := table{columns: []string{"goal", "wanted", "measured", "verdict"}}
	for _, g := range r.goals() {
		verdict := g.verdict()
		if r.ShortPlans {
			verdict = "not judged: a short run"
		}
		t.add(g.name, g.want, g.got, verdict)
	}
	t.write(b)
}

func (r *results) writeScrape(b *strings.Builder) {
	b.WriteString("## Scrapes\n\nThe same series over loopback, connections kept, by 1 and by 8 scrapers at once. All servers but the one whose turn it is are stopped. " +
		"Ours is\nthe handler of the exporter; promhttp gathers and encodes for each scrape; the bare handler and nginx have the bytes of our page.\n" +
		"Prometheus and Telegraf have scraped our page and serve it again; Telegraf stands for the OpenTelemetry collector, too. The p99 of few scrapes is the longest of them.\n\n")
	for _, encoding := range []string{"identity", "gzip"} {
		fmt.Fprintf(b, "![Time of a scrape by size, %[1]s](internal/bench/charts/scrape-%[1]s.svg)\n", encoding)
	}
	b.WriteString("\n")
	for _, n := range sizes {
		fmt.Fprintf(b, "### %s series\n\n", thousands(n))
		t := table{columns: []string{"encoding, scrapers", "server", "page", "p50", "p99", "p50, times ours", "scrapes/s", "scrapes/s, times ours", "CPU per scrape", "scrapes"}}
		for _, s := range r.Scrape {
			if s.Series != n {
				continue
			}
			t.add(fmt.Sprintf("%s, %d", s.Encoding, s.Scrapers), s.Server, kilobytes(s.Bytes), micro(s.P50), micro(s.P99), short(s.Ratio),
				short(s.PerSecond), short(s.Speed), micro(s.CPU), thousands(s.Scrapes))
		}
		t.write(b)
	}
}

func (r *results) writeContainers(b *strings.Builder) {
	b.WriteString("## Containers\n\nOn a Docker Engine of the run's own, whose containers do nothing. The first table is one reading: until health and state are known, until memory,\n" +
		"CPU and network are, and the processor time of ours and of the engine's (dockerd, containerd), less what it uses by itself. Serial is the naive way:\n" +
		"list, inspect and ask for statistics, one container after another; its statistics are reckoned from a sample of them.\n\n")
	t := table{columns: []string{"containers", "way", "health, state", "resources", "own CPU", "engine's CPU", "both, times ours"}}
	for _, w := range r.Readings {
		t.add(thousands(w.Containers), w.Way, ms(w.Ready), ms(w.Measured), ms(w.Own), ms(w.Engine), short(w.Ratio))
	}
	t.write(b)
	b.WriteString("A whole program in a window with one reading and one scrape, after it has run for a while; all CPU has the engine's and the shims' share. The last column is for one reading every 30 s,\n" +
		"and of cAdvisor's default for as many as it makes by itself: fewer where containers do nothing, as here. cAdvisor is built of its library with its part for\n" +
		"this engine alone; its released program has more in it, and was recorded with more: " +
		fmt.Sprintf("%s %% of a core and %.0f MB, tuned %s %% and %.0f MB, with %d containers that may have done more.\n\n",
			short(recordedCAdvisor[0].Share), recordedCAdvisor[0].RSS, short(recordedCAdvisor[1].Share), recordedCAdvisor[1].RSS, goalContainers))
	t = table{columns: []string{"containers", "program", "window", "own CPU", "all CPU", "RSS", "peak RSS", "of a core, all"}}
	for _, w := range r.Watching {
		t.add(thousands(w.Containers), w.Program, fmt.Sprintf("%.0f s", w.Window), ms(w.Own), ms(w.All), mb(w.RSS), mb(w.Peak), short(w.Share)+" %")
	}
	t.write(b)
	b.WriteString("![CPU of a reading by containers](internal/bench/charts/containers.svg)\n\n")
}

func (r *results) writeProbes(b *strings.Builder) {
	b.WriteString("## HTTP probes\n\nThe exporter with its own schedule, and Prometheus' blackbox exporter asked for the same targets at the same rate, both at once. Ours has the page,\n" +
		"one scrape for each round, and the history in its numbers; what asks the blackbox exporter, a Prometheus in life, is not counted.\n\n")
	t := table{columns: []string{"targets", "prober", "every", "probes", "CPU per probe", "times ours", "of a core", "RSS"}}
	for _, p := range r.Probes {
		t.add(thousands(p.Targets), p.Program, fmt.Sprintf("%.0f s", p.Interval), thousands(p.Probes), micro(p.CPU), short(p.Ratio), short(p.Share)+" %", mb(p.RSS))
	}
	t.write(b)
	b.WriteString("![CPU per probe by targets](internal/bench/charts/probes.svg)\n\n")
}

func (r *results) writeIdle(b *strings.Builder) {
	b.WriteString("## At rest\n\nThe binary as it is shipped, with a simulated engine's containers and an upstream's series, read and scraped at its default interval; and its start\n" +
		"with the simulated stack, healthy, until a page tells that every target is up.\n\n")
	t := table{columns: []string{"what", "value"}}
	if i := r.Idle; i != nil {
		if i.RSS > 0 {
			t.add("carries", fmt.Sprintf("%s, %s series", counted(i.Containers, "container"), thousands(i.Series)))
			t.add("RSS, and the most it was", mb(i.RSS)+", "+mb(i.Peak))
			t.add("CPU per hour", fmt.Sprintf("%s s, over %.0f s with one reading and one scrape every %.0f s", short(i.CPUPerHour), i.Window, i.Interval))
		}
		if len(i.Starts) > 0 {
			t.add("start to the first complete page", fmt.Sprintf("%.0f ms with %s; shortest %.0f ms, longest %.0f ms of %d", median(i.Starts), counted(i.Targets, "target"),
				slices.Min(i.Starts), slices.Max(i.Starts), len(i.Starts)))
		}
		if i.Binary > 0 {
			t.add("binary", mb(i.Binary))
		}
		image := "not built: there was no engine"
		if i.Image > 0 {
			image = mb(i.Image)
		}
		t.add("image", image)
	}
	t.write(b)
}

func (r *results) writeFreshness(b *strings.Builder) {
	b.WriteString("## Freshness\n\nHow old the data of a target are when Prometheus scrapes them. Readings of different targets are spread over the interval, so that without regard to\n" +
		"scrapes ages lie anywhere below it; with phase locking the exporter learns when Prometheus comes, and reads just before. Both are simulated: the real poller,\n" +
		"targets that answer in 10 ms and more, and a clock of its own, so that this does not depend on the machine. The time until the rhythm is known counts too.\n\n")
	t := table{columns: []string{"readings", "median age", "p99 age", "readings made", "targets", "interval", "simulated"}}
	if f := r.Fresh; f != nil {
		about := []string{thousands(f.Targets), fmt.Sprintf("%.0f s", f.Interval), fmt.Sprintf("%.0f h", f.Hours)}
		t.add(append([]string{"spread (before)", short(f.MedianBefore) + " s", short(f.P99Before) + " s", thousands(f.PollsBefore)}, about...)...)
		t.add(append([]string{"phase locked (after)", short(f.MedianAfter) + " s", short(f.P99After) + " s", thousands(f.PollsAfter)}, about...)...)
	}
	t.write(b)
}

func (r *results) writeGrowth(b *strings.Builder) {
	b.WriteString("## Growth\n\nExporters that have one kind of thing to watch, from one to 10,000, at the default interval; a round is one reading of everything and one scrape.\n" +
		"The exponent is fitted to what a load of 100 and more costs beyond none, where that is at least half of what none costs: 1 is linear. Where fewer than two\n" +
		"loads are so far from none, it is the slope between the last two, near the noise. The goal is judged by the fit and by the last step, and only where the last\n" +
		"is 10,000. The base is passed where the load costs as much as the exporter without any. The knee is where one more begins to cost half as much again as one\n" +
		"more did before; none means that no measured load showed one.\n\n")
	t := table{columns: []string{"kind", "cost", "without any", "1", "10", "100", "1,000", "10,000", "one more", "exponent", "base passed at", "knee"}}
	for _, kind := range []string{kindTargets, kindContainers, kindSeries} {
		for _, cost := range []string{"CPU", "RSS"} {
			c := r.curve(kind, cost)
			if len(c.points) == 0 {
				continue
			}
			unit, small := ms, func(v float64) string { return micro(v * 1000) }
			if cost == "RSS" {
				unit, small = mb, func(v float64) string { return fmt.Sprintf("%s kB", short(v*1000)) }
			}
			row := []string{kind, cost, unit(c.base)}
			for _, n := range []int{1, 10, 100, 1000, 10_000} {
				cell := ""
				if i := slices.IndexFunc(c.points, func(p point) bool { return p.n == n }); i >= 0 {
					cell = unit(c.points[i].cost)
				}
				row = append(row, cell)
			}
			t.add(append(row, small(c.each()), c.exponentText(), c.passesText(), c.kneeText())...)
		}
	}
	t.write(b)
	b.WriteString("![CPU of a round by load](internal/bench/charts/growth-cpu.svg)\n![Memory by load](internal/bench/charts/growth-rss.svg)\n\n")
}

func (c curve) exponentText() string {
	if e, ok := c.exponent(); ok {
		return fmt.Sprintf("%.2f", e)
	}
	return ""
}

func (c curve) passesText() string {
	if n := c.passes(); n > 0 {
		return thousands(n)
	}
	return "never"
}

func (c curve) kneeText() string {
	if n := c.knee(); n > 0 {
		return "at " + thousands(n)
	}
	return "none up to " + thousands(c.points[len(c.points)-1].n)
}

func (r *results) writeProfiles(b *strings.Builder) {
	b.WriteString("## Profiles of missed goals\n\n")
	if r.ShortPlans {
		b.WriteString("A short run makes one of any goal, to show that it can.\n\n")
	} else if len(r.Profiles) == 0 {
		b.WriteString("None: no goal that was measured is missed.\n")
	}
	for _, p := range r.Profiles {
		fmt.Fprintf(b, "### %s\n\nOf %s.\n\n```\n%s\n```\n\n", strings.Join(p.Goals, "; "), p.Of, strings.TrimSpace(p.Top))
	}
}

func ms(v float64) string { return short(v) + " ms" }
func mb(v float64) string { return fmt.Sprintf("%.1f MB", v) }

// micro is a time in the unit that suits it.
func micro(us float64) string {
	if us >= 1000 {
		return ms(us / 1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}

func kilobytes(n int) string { return short(float64(n)/1000) + " kB" }

// charts are the pictures by name.
func (r *results) charts() map[string][]byte {
	all := map[string][]byte{}
	for _, encoding := range []string{"identity", "gzip"} {
		c := chart{title: "Time of a scrape, 1 scraper, " + encoding, x: "series", y: "p50, microseconds"}
		for _, s := range r.Scrape {
			if s.Encoding == encoding && s.Scrapers == 1 {
				c.add(s.Server, float64(s.Series), s.P50)
			}
		}
		all["scrape-"+encoding+".svg"] = c.svg()
	}
	c := chart{title: "Processor time of one reading, the engine's too", x: "containers", y: "milliseconds"}
	for _, w := range r.Readings {
		c.add(w.Way, float64(w.Containers), w.Own+w.Engine)
	}
	all["containers.svg"] = c.svg()
	c = chart{title: "Processor time of one HTTP probe", x: "targets", y: "microseconds"}
	for _, p := range r.Probes {
		c.add(p.Program, float64(p.Targets), p.CPU)
	}
	all["probes.svg"] = c.svg()
	cpu := chart{title: "Processor time of one round", x: "targets, containers or series", y: "milliseconds"}
	rss := chart{title: "Memory", x: "targets, containers or series", y: "RSS, MB"}
	for _, g := range r.Growth {
		if g.N > 0 {
			cpu.add(g.Kind, float64(g.N), g.CPU)
			rss.add(g.Kind, float64(g.N), g.RSS)
		}
	}
	all["growth-cpu.svg"], all["growth-rss.svg"] = cpu.svg(), rss.svg()
	return all
}

func (c *chart) add(name string, x, y float64) {
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, line{name: name})
	}
	c.lines[i].points = append(c.lines[i].points, xy{x, y})
}

// files are all that a run writes, by path below the directory of this package.
func (r *results) files() (map[string][]byte, error) {
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{resultsFile: append(raw, '\n'), pageFile: r.page()}
	for name, content := range r.charts() {
		all[filepath.Join(chartsDir, name)] = content
	}
	return all, nil
}

func readResults(tb testing.TB) *results {
	tb.Helper()
	content, err := os.ReadFile(resultsFile)
	if err != nil {
		tb.Fatal(err)
	}
	r := &results{}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		tb.Fatalf("%s: %v", resultsFile, err)
	}
	return r
}

// TestPageIsMadeOfTheResults holds that no number of BENCHMARKS.md was typed by hand.
func TestPageIsMadeOfTheResults(t *testing.T) {
	want, err := readResults(t).files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		if *update {
			if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // everybody may read it
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name) //nolint:gosec // one of ours
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%s is not what %s makes: run `make bench`, or `make generate` where only the page's words have changed", name, resultsFile)
		}
	}
	entries, err := os.ReadDir(chartsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := want[filepath.Join(chartsDir, e.Name())]; !ok {
			t.Errorf("%s/%s is a chart of nothing", chartsDir, e.Name())
		}
	}
}
