package bench

import (
	"encoding/xml"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestExponentIsThatOfTheGrowth(t *testing.T) {
	for _, test := range []struct {
		name     string
		cost     func(n float64) float64
		exponent float64
	}{
		{"linear", func(n float64) float64 { return n }, 1},
		{"less than linear", func(n float64) float64 { return 10 * math.Sqrt(n) }, 0.5},
		{"quadratic", func(n float64) float64 { return n * n }, 2},
		{"steeper from a thousand on", func(n float64) float64 { return n + 2*max(0, n-1000) }, 1.22},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := curve{base: 0.5}
			for _, n := range []int{1, 10, 100, 1000, 10_000} {
				c.points = append(c.points, point{n, c.base + test.cost(float64(n))})
			}
			got, ok := c.exponent()
			if !ok || math.Abs(got-test.exponent) > 0.01 {
				t.Errorf("exponent: got %.3f, %t, want %.2f", got, ok, test.exponent)
			}
		})
	}
}

// TestNoiseOfTheBaseIsNoGrowth has loads that cost hardly more than none, by chance the first of them most.
func TestNoiseOfTheBaseIsNoGrowth(t *testing.T) {
	c := curve{base: 20, points: []point{{1, 21}, {10, 20.5}, {100, 20.8}, {1000, 22}, {10_000, 40}}}
	if got, ok := c.exponent(); !ok || math.Abs(got-1) > 0.01 {
		t.Errorf("exponent: got %.2f, %t, want 1", got, ok)
	}
}

// TestGoalsAreJudged holds which results meet a goal: at their worst, to their end, and with their price.
func TestGoalsAreJudged(t *testing.T) {
	scrapes := func(server string, ratioAndSpeed ...float64) (rows []scrapeRow) {
		for i := 0; i < len(ratioAndSpeed); i += 2 {
			rows = append(rows, scrapeRow{
				Series:   sizes[i/2],
				Scrapers: 1,
				Server:   server,
				Ratio:    ratioAndSpeed[i],
				Speed:    ratioAndSpeed[i+1],
			})
		}
		return rows
	}
	grows := func(costs map[int]float64) (rows []growthRow) {
		for n, cost := range costs {
			rows = append(rows, growthRow{Kind: kindSeries, N: n, CPU: cost})
		}
		return rows
	}
	fresh := func(age float64, polls int) *freshness {
		return &freshness{
			MedianBefore: 15,
			MedianAfter:  age,
			PollsBefore:  1000,
			PollsAfter:   polls,
		}
	}
	watch := func(program string, share, rss float64) watchRow {
		return watchRow{
			Containers: goalContainers,
			Busy:       true,
			Program:    program,
			Share:      share,
			RSS:        rss,
		}
	}
	probe := func(program string, n int, ratio float64) probeRow {
		return probeRow{
			Kind:    kindTLS,
			Targets: n,
			Program: program,
			Ratio:   ratio,
		}
	}
	targets := func(few, many, rss float64) results {
		return results{Growth: []growthRow{
			{Kind: kindTargets, N: 100, Page: few},
			{
				Kind: kindTargets,
				N:    10_000,
				Page: many,
				RSS:  rss,
			},
		}}
	}
	const (
		missed, unknown = "**missed**", "not measured yet"
		growth          = "CPU by " + kindSeries
		files, engine   = "200 busy containers, cgroup, beside " + cadvisorDefault, "200 busy containers, engine, beside " + cadvisorTuned
		memory          = "memory, 200 busy containers, beside " + cadvisorTuned
		probes          = "probes of " + kindTLS + " beside the " + probeBlackbox
		page, crowd     = "page of many " + kindTargets, "memory at 10,000 " + kindTargets
		age, polls      = "age of data when scraped", "readings for that"
		nginx, bare     = "scrape beside " + serverNginx, "scrape beside " + serverBare
		promhttp        = "scrape beside " + serverPromhttp
	)
	for _, test := range []struct {
		name, goal string
		r          results
		want, got  string
	}{
		{
			"2.5 times nginx's at its worst",
			nginx,
			results{Scrape: scrapes(serverNginx, 0.6, 1.5, 0.4, 2, 0.6, 1)},
			missed,
			"over the goal in 1 of 3",
		},
		{
			"within the bare handler's limit",
			bare,
			results{Scrape: scrapes(serverBare, 0.9, 1, 0.8, 1.2, 1, 1)},
			"met",
			"1.25 times at the worst",
		},
		{
			"ahead of a peer",
			promhttp,
			results{Scrape: scrapes(serverPromhttp, 20, 0.1, 90, 0.01, 20, 0.1)},
			"met",
			"10.0 times ahead",
		},
		{
			"faster than a peer that serves more",
			promhttp,
			results{Scrape: scrapes(serverPromhttp, 20, 0.1, 90, 1.01)},
			missed,
			"2 of 3 sizes alone",
		},
		{
			"a size is missing",
			nginx,
			results{Scrape: scrapes(serverNginx, 1, 1)},
			"met",
			"1 of 3 sizes alone",
		},
		{
			"peer absent",
			"scrape beside " + serverTelegraf,
			results{},
			unknown,
			"",
		},
		{
			"linear growth",
			growth,
			results{Growth: grows(map[int]float64{0: 1, 100: 101, 1000: 1001, 10_000: 10_001})},
			"met",
			"exponent 1.00",
		},
		{
			"growth that is steep at its end",
			growth,
			results{Growth: grows(map[int]float64{0: 1, 100: 301, 1000: 501, 10_000: 10_001})},
			missed,
			"from 1,000 on",
		},
		{
			"growth that ends early",
			growth,
			results{Growth: grows(map[int]float64{0: 1, 100: 101, 1000: 1001})},
			unknown,
			"up to 1,000 alone",
		},
		{
			"young data",
			age,
			results{Fresh: fresh(0.6, 1005)},
			"met",
			"",
		},
		{
			"for as many readings",
			polls,
			results{Fresh: fresh(0.6, 1005)},
			"met",
			"",
		},
		{
			"old data",
			age,
			results{Fresh: fresh(2, 1000)},
			missed,
			"",
		},
		{
			"young data for more readings",
			polls,
			results{Fresh: fresh(0.6, 1011)},
			missed,
			"",
		},
		{
			"skipped readings",
			polls,
			results{Fresh: fresh(0.6, 989)},
			missed,
			"",
		},
		{
			"an eighth of cAdvisor's CPU",
			files,
			results{Watching: []watchRow{watch(oursFiles, 0.5, 20), watch(cadvisorDefault, 4, 50)}},
			"met",
			"1/8",
		},
		{
			"more than an eighth",
			files,
			results{Watching: []watchRow{watch(oursFiles, 0.51, 20), watch(cadvisorDefault, 4, 50)}},
			missed,
			"1/7.8",
		},
		{
			"more CPU with the engine alone",
			engine,
			results{Watching: []watchRow{watch(oursEngine, 1.2, 20), watch(cadvisorTuned, 1, 30)}},
			missed,
			"1/0.83",
		},
		{
			"no cAdvisor",
			engine,
			results{Watching: []watchRow{watch(oursEngine, 1.2, 20)}},
			unknown,
			"",
		},
		{
			"more memory one way",
			memory,
			results{Watching: []watchRow{watch(oursEngine, 1, 31), watch(oursFiles, 1, 20), watch(cadvisorTuned, 1, 30)}},
			missed,
			"31.0 MB",
		},
		{
			"dearer probes at one size",
			probes,
			results{Probes: []probeRow{
				probe(serverOurs, 16, 1), probe(probeBlackbox, 16, 2), probe(serverOurs, 200, 1), probe(probeBlackbox, 200, 0.9),
			}},
			missed,
			"200 targets",
		},
		{
			"a page that grows less than its targets",
			page,
			targets(1, 90, 199),
			"met",
			"exponent 0.98",
		},
		{
			"a page that grows more than its targets",
			page,
			targets(1, 110, 199),
			missed,
			"",
		},
		{
			"10,000 targets in too much memory",
			crowd,
			targets(1, 90, 201),
			missed,
			"201.0 MB",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := test.r.goals()
			g := all[slices.IndexFunc(all, func(g goal) bool { return g.name == test.goal })]
			if g.verdict() != test.want || !strings.Contains(g.got, test.got) {
				t.Errorf("%s: got %s (%s), want %s (%s)", g.name, g.verdict(), g.got, test.want, test.got)
			}
		})
	}
}

// TestPageStandsWithNothingMeasured holds that a run that could measure nothing says so, and says it in the same tables.
func TestPageStandsWithNothingMeasured(t *testing.T) {
	r := &results{Absent: []string{"nginx is not installed"}}
	page := string(r.page(pageTemplate)) + string(r.page(rawTemplate))
	for _, want := range []string{"- nginx is not installed", "| not measured yet |", "## Growth"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "| met |") || strings.Contains(page, "missed** |") {
		t.Error("a goal is judged by nothing")
	}
}

// TestEarlierVersionIsJudgedBesideOurs checks that its rows replace ours, beside the same rivals.
func TestEarlierVersionIsJudgedBesideOurs(t *testing.T) {
	r := &results{
		Idle: &idleRow{RSS: 20, Before: &idleRow{RSS: 30}},
		Probes: []probeRow{
			{
				Kind:    kindTargets,
				Targets: 16,
				Program: serverOurs,
				Ratio:   1,
			},
			{
				Kind:    kindTargets,
				Targets: 16,
				Program: oursBefore,
				Ratio:   4,
			},
			{
				Kind:    kindTargets,
				Targets: 16,
				Program: probeBlackbox,
				Ratio:   2,
			},
		},
		Watching: []watchRow{
			{Containers: goalContainers, Program: oursEngine, Share: 1},
			{Containers: goalContainers, Program: oursBefore + resources + "engine", Share: 3},
			{Containers: goalContainers, Program: cadvisorTuned, Share: 2},
		},
	}
	for name, want := range map[string]string{
		"memory at 20 containers and 1,000 series": "20.0 MB | 30.0 MB",
		"probes of " + kindTargets + " beside the " + probeBlackbox: "2.00 times ours at the least (16 targets) | its is 0.50 times ours " +
			"at the least (16 targets)",
		"200 idle containers, engine, beside " + cadvisorTuned: "1/2.00 | 3.00 % of a core, its 2.00 %: 1/0.67",
	} {
		cells := r.goalCells()
		row := strings.Join(cells[slices.IndexFunc(cells, func(row []string) bool { return row[0] == name })], " | ")
		if !strings.Contains(row, want) {
			t.Errorf("got %s, want %s", row, want)
		}
	}
}

func TestChartIsWellFormed(t *testing.T) {
	type named struct {
		line string
		x    int
		y    float64
	}
	for title, points := range map[string][]named{
		"a < b & c": nil,
		"zero":      {{"none", 0, 5}, {"none", 1, 0}, {"none", 10, 5}},
		"close":     {{"a", 300, 1}, {"b", 300, 1.01}, {"c", 300, 1.02}},
	} {
		t.Run(title, func(t *testing.T) {
			c := &chart{title: title}
			for _, p := range points {
				c.add(p.line, p.x, p.y)
			}
			svg := string(c.svg())
			if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil || strings.Contains(svg, "NaN") ||
				strings.Contains(svg, "Inf") {
				t.Errorf("the chart is broken (%v):\n%s", err, svg)
			}
		})
	}
}
