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

// page is BENCHMARKS.md while it is written.
type page struct{ strings.Builder }

func (p *page) text(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

// table writes rows below columns, which bars separate.
func (p *page) table(columns string, rows [][]string) {
	more := strings.Count(columns, " | ")
	p.text("| %s |\n|---|%s\n", columns, strings.Repeat("--:|", more))
	if len(rows) == 0 {
		p.text("| not measured |%s\n", strings.Repeat(" |", more))
	}
	for _, row := range rows {
		p.text("| %s |\n", strings.Join(row, " | "))
	}
	p.text("\n")
}

// tableOf writes a row of each value.
func tableOf[T any](p *page, columns string, values []T, row func(T) []string) {
	var rows [][]string
	for _, v := range values {
		rows = append(rows, row(v))
	}
	p.table(columns, rows)
}

// page writes BENCHMARKS.md.
func (r *results) page() []byte {
	p := &page{}
	p.text("# Benchmarks\n\nMeasured by `%s` in one run of %.0f minutes, and written by it: no number here is typed by hand. The run's raw numbers are in\n"+
		"[internal/bench/results.json](internal/bench/results.json). What is compared was measured in turns, so that whatever else the\n"+
		"machine did hit all alike; numbers are medians, and ratios are medians of the turns' ratios. Compare ratios between machines, not times.\n\n", r.Command, r.Took/60)
	if r.ShortPlans {
		p.text("**This was a short run. It shows that everything is measured; its numbers mean nothing.**\n\n")
	}
	for _, write := range []func(*page){
		r.writeMachine, r.writeGoals, r.writeScrapes, r.writeContainers, r.writeProbes, r.writeIdle, r.writeFreshness, r.writeGrowth, r.writeProfiles,
	} {
		write(p)
	}
	return []byte(strings.TrimRight(p.String(), "\n") + "\n")
}

func (r *results) writeMachine(p *page) {
	p.text("## Machine\n\n")
	rows := [][]string{
		{"date", r.Made.UTC().Format("2006-01-02 15:04 MST")},
		{"commit", r.Commit},
		{"machine", r.Machine},
		{"kernel", r.Kernel},
		{"load average before and after", fmt.Sprintf("%.2f, %.2f", r.Busy[0], r.Busy[1])},
	}
	for _, v := range r.Versions {
		rows = append(rows, []string{v.Name, v.Version})
	}
	p.table("what | value", rows)
	if len(r.Absent) > 0 {
		p.text("Not measured in this run:\n\n- %s\n\n", strings.Join(r.Absent, "\n- "))
	}
}

func (r *results) writeGoals(p *page) {
	p.text("## Goals\n\nEach is judged at its worst. Where one is missed, the last section has the profile that says why.\n\n")
	tableOf(p, "goal | wanted | measured | verdict", r.goals(), func(g goal) []string {
		if r.ShortPlans {
			return []string{g.name, g.want, g.got, "not judged: a short run"}
		}
		return []string{g.name, g.want, g.got, g.verdict()}
	})
}

func (r *results) writeScrapes(p *page) {
	p.text("## Scrapes\n\nThe same series over loopback, connections kept, by 1 and by 8 scrapers at once. All servers but the one whose turn it is are stopped. " +
		"Ours is\nthe handler of the exporter; promhttp gathers and encodes for each scrape; the bare handler and nginx have the bytes of our page.\n" +
		"Prometheus and Telegraf have scraped our page and serve it again; Telegraf stands for the OpenTelemetry collector, too. The p99 of few scrapes is the longest of them.\n\n" +
		"![Time of a scrape by size, identity](internal/bench/charts/scrape-identity.svg)\n![Time of a scrape by size, gzip](internal/bench/charts/scrape-gzip.svg)\n\n")
	for _, n := range sizes {
		p.text("### %s series\n\n", thousands(n))
		rows := slices.DeleteFunc(slices.Clone(r.Scrape), func(s scrapeRow) bool { return s.Series != n })
		tableOf(p, "encoding, scrapers | server | page | p50 | p99 | p50, times ours | scrapes/s | scrapes/s, times ours | CPU per scrape | scrapes", rows, func(s scrapeRow) []string {
			return []string{
				fmt.Sprintf("%s, %d", s.Encoding, s.Scrapers), s.Server, short(float64(s.Bytes)/1000) + " kB", microseconds(s.P50), microseconds(s.P99), short(s.Ratio),
				short(s.PerSecond), short(s.Speed), microseconds(s.CPU), thousands(s.Scrapes),
			}
		})
	}
}

func (r *results) writeContainers(p *page) {
	p.text("## Containers\n\nOn a Docker Engine of the run's own, whose containers do nothing. The first table is one reading: until health and state are known, until memory,\n" +
		"CPU and network are, and the processor time of ours and of the engine's (dockerd, containerd), less what it uses by itself. Serial is the naive way:\n" +
		"list, inspect and ask for statistics, one container after another; its statistics are reckoned from a sample of them.\n\n")
	tableOf(p, "containers | way | health, state | resources | own CPU | engine's CPU | both, times ours", r.Readings, func(w readingRow) []string {
		return []string{thousands(w.Containers), w.Way, ms(w.Ready), ms(w.Measured), ms(w.Own), ms(w.Engine), short(w.Ratio)}
	})
	full, tuned := recordedCAdvisor[0], recordedCAdvisor[1]
	p.text("A whole program in a window with one reading and one scrape, after it has run for a while; all CPU has the engine's and the shims' share. The last column is for one reading every 30 s,\n"+
		"and of cAdvisor's default for as many as it makes by itself: fewer where containers do nothing, as here. cAdvisor is built of its library with its part for\n"+
		"this engine alone; its released program has more in it, and was recorded with more: %s %% of a core and %.0f MB, tuned %s %% and %.0f MB, with %d containers that may have done more.\n\n",
		short(full.Share), full.RSS, short(tuned.Share), tuned.RSS, goalContainers)
	tableOf(p, "containers | program | window | own CPU | all CPU | RSS | peak RSS | of a core, all", r.Watching, func(w watchRow) []string {
		return []string{thousands(w.Containers), w.Program, fmt.Sprintf("%.0f s", w.Window), ms(w.Own), ms(w.All), mb(w.RSS), mb(w.Peak), percent(w.Share)}
	})
	p.text("![CPU of a reading by containers](internal/bench/charts/containers.svg)\n\n")
}

func (r *results) writeProbes(p *page) {
	p.text("## HTTP probes\n\nThe exporter with its own schedule, and Prometheus' blackbox exporter asked for the same targets at the same rate, both at once. Ours has the page,\n" +
		"one scrape for each round, and the history in its numbers; what asks the blackbox exporter, a Prometheus in life, is not counted.\n\n")
	tableOf(p, "targets | prober | every | probes | CPU per probe | times ours | of a core | RSS", r.Probes, func(w probeRow) []string {
		return []string{thousands(w.Targets), w.Program, fmt.Sprintf("%.0f s", w.Interval), thousands(w.Probes), microseconds(w.CPU), short(w.Ratio), percent(w.Share), mb(w.RSS)}
	})
	p.text("![CPU per probe by targets](internal/bench/charts/probes.svg)\n\n")
}

func (r *results) writeIdle(p *page) {
	p.text("## At rest\n\nThe binary as it is shipped, with a simulated engine's containers and an upstream's series, read and scraped at its default interval; and its start\n" +
		"with the simulated stack, healthy, until a page tells that every target is up.\n\n")
	var rows [][]string
	if i := r.Idle; i != nil {
		if i.RSS > 0 {
			rows = append(rows, []string{"carries", fmt.Sprintf("%s, %s series", counted(i.Containers, "container"), thousands(i.Series))},
				[]string{"RSS, and the most it was", mb(i.RSS) + ", " + mb(i.Peak)},
				[]string{"CPU per hour", fmt.Sprintf("%s s, over %.0f s with one reading and one scrape every %.0f s", short(i.CPUPerHour), i.Window, i.Interval)})
		}
		if len(i.Starts) > 0 {
			rows = append(rows, []string{"start to the first complete page", fmt.Sprintf("%.0f ms with %s; shortest %.0f ms, longest %.0f ms of %d",
				median(i.Starts), counted(i.Targets, "target"), slices.Min(i.Starts), slices.Max(i.Starts), len(i.Starts))})
		}
		if i.Binary > 0 {
			rows = append(rows, []string{"binary", mb(i.Binary)})
		}
		image := "not built: there was no engine"
		if i.Image > 0 {
			image = mb(i.Image)
		}
		rows = append(rows, []string{"image", image})
	}
	p.table("what | value", rows)
}

func (r *results) writeFreshness(p *page) {
	p.text("## Freshness\n\nHow old the data of a target are when Prometheus scrapes them. Readings of different targets are spread over the interval, so that without regard to\n" +
		"scrapes ages lie anywhere below it; with phase locking the exporter learns when Prometheus comes, and reads just before. Both are simulated: the real poller,\n" +
		"targets that answer in 10 ms and more, and a clock of its own, so that this does not depend on the machine. The time until the rhythm is known counts too.\n\n")
	var rows [][]string
	if f := r.Fresh; f != nil {
		row := func(name string, age, p99 float64, polls int) []string {
			return []string{
				name, short(age) + " s", short(p99) + " s", thousands(polls),
				thousands(f.Targets), fmt.Sprintf("%.0f s", f.Interval), fmt.Sprintf("%.0f h", f.Hours),
			}
		}
		rows = [][]string{
			row("spread (before)", f.MedianBefore, f.P99Before, f.PollsBefore),
			row("phase locked (after)", f.MedianAfter, f.P99After, f.PollsAfter),
		}
	}
	p.table("readings | median age | p99 age | readings made | targets | interval | simulated", rows)
}

func (r *results) writeGrowth(p *page) {
	p.text("## Growth\n\nExporters that have one kind of thing to watch, from one to 10,000, at the default interval; a round is one reading of everything and one scrape.\n" +
		"The exponent is fitted to what a load of 100 and more costs beyond none, where that is at least half of what none costs: 1 is linear. Where fewer than two\n" +
		"loads are so far from none, it is the slope between the last two, near the noise. The goal is judged by the fit and by the last step, and only where the last\n" +
		"is 10,000. The base is passed where the load costs as much as the exporter without any. The knee is where one more begins to cost half as much again as one\n" +
		"more did before; none means that no measured load showed one.\n\n")
	var rows [][]string
	for _, kind := range kinds {
		cpu, rss := r.curve(kind, "CPU"), r.curve(kind, "RSS")
		if len(cpu.points) > 0 {
			rows = append(rows, cpu.row(kind, "CPU", ms, func(v float64) string { return microseconds(v * 1000) }),
				rss.row(kind, "RSS", mb, func(v float64) string { return short(v*1000) + " kB" }))
		}
	}
	p.table("kind | cost | without any | 1 | 10 | 100 | 1,000 | 10,000 | one more | exponent | base passed at | knee", rows)
	p.text("![CPU of a round by load](internal/bench/charts/growth-cpu.svg)\n![Memory by load](internal/bench/charts/growth-rss.svg)\n\n")
}

// row writes a curve with a unit, and one for what one more costs.
func (c curve) row(kind, cost string, unit, small func(float64) string) []string {
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

func (r *results) writeProfiles(p *page) {
	p.text("## Profiles of missed goals\n\n")
	if r.ShortPlans {
		p.text("A short run makes one of any goal, to show that it can.\n\n")
	} else if len(r.Profiles) == 0 {
		p.text("None: no goal that was measured is missed.\n")
	}
	for _, f := range r.Profiles {
		p.text("### %s\n\nOf %s.\n\n```\n%s\n```\n\n", strings.Join(f.Goals, "; "), f.Of, strings.TrimSpace(f.Top))
	}
}

// charts draws the pictures, by name.
func (r *results) charts() map[string][]byte {
	drawn := map[string]*chart{
		"scrape-identity.svg": {title: "Time of a scrape, 1 scraper, identity", x: "series", y: "p50, microseconds"},
		"scrape-gzip.svg":     {title: "Time of a scrape, 1 scraper, gzip", x: "series", y: "p50, microseconds"},
		"containers.svg":      {title: "Processor time of one reading, the engine's too", x: "containers", y: "milliseconds"},
		"probes.svg":          {title: "Processor time of one HTTP probe", x: "targets", y: "microseconds"},
		"growth-cpu.svg":      {title: "Processor time of one round", x: "targets, containers or series", y: "milliseconds"},
		"growth-rss.svg":      {title: "Memory", x: "targets, containers or series", y: "RSS, MB"},
	}
	for _, s := range r.Scrape {
		if s.Scrapers == 1 {
			drawn["scrape-"+s.Encoding+".svg"].add(s.Server, s.Series, s.P50)
		}
	}
	for _, w := range r.Readings {
		drawn["containers.svg"].add(w.Way, w.Containers, w.Own+w.Engine)
	}
	for _, p := range r.Probes {
		drawn["probes.svg"].add(p.Program, p.Targets, p.CPU)
	}
	for _, g := range r.Growth {
		drawn["growth-cpu.svg"].add(g.Kind, g.N, g.CPU)
		drawn["growth-rss.svg"].add(g.Kind, g.N, g.RSS)
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
	all := map[string][]byte{resultsFile: append(raw, '\n'), pageFile: r.page()}
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
