package bench

import (
	"encoding/xml"
	"errors"
	"io"
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
		knee     int
	}{
		{"linear", func(n float64) float64 { return n }, 1, 0},
		{"less than linear", func(n float64) float64 { return 10 * math.Sqrt(n) }, 0.5, 0},
		{"quadratic", func(n float64) float64 { return n * n }, 2, 1},
		{"steeper from a thousand on", func(n float64) float64 { return n + 2*max(0, n-1000) }, 1.22, 1000},
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
			if got := c.knee(); got != test.knee {
				t.Errorf("knee: got %d, want %d", got, test.knee)
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
	if got := c.knee(); got != 0 {
		t.Errorf("knee: got %d, want none", got)
	}
	if got, want := c.passes(), 10_000; got != want {
		t.Errorf("base passed at %d, want %d", got, want)
	}
}

func verdictOf(t *testing.T, r *results, name string) string {
	t.Helper()
	for _, g := range r.goals() {
		if g.name == name {
			return g.verdict()
		}
	}
	t.Fatalf("there is no goal %q", name)
	return ""
}

func TestGoalIsJudgedAtItsWorst(t *testing.T) {
	row := func(series int, server string, ratio, speed float64) scrapeRow {
		return scrapeRow{Series: series, Encoding: "gzip", Scrapers: 1, Server: server, Ratio: ratio, Speed: speed}
	}
	r := &results{Scrape: []scrapeRow{
		row(300, serverNginx, 0.6, 1.5), row(10_000, serverNginx, 0.4, 2),
		row(300, serverBare, 0.9, 1), row(10_000, serverBare, 0.8, 1.2),
		row(300, peers[0], 20, 0.1), row(10_000, peers[0], 90, 0.01),
		row(300, peers[1], 20, 0.1), row(10_000, peers[1], 90, 1.01),
	}}
	for name, want := range map[string]string{
		"scrape beside " + serverNginx: "**missed**", // 2.5 times its at 10,000
		"scrape beside " + serverBare:  "met",
		"scrape beside " + peers[0]:    "met",
		"scrape beside " + peers[1]:    "**missed**", // faster, but it serves more
		"scrape beside " + peers[2]:    "not measured",
	} {
		if got := verdictOf(t, r, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestGrowthIsJudgedToItsEnd has costs that a fit over all loads calls linear, and loads that end too early.
func TestGrowthIsJudgedToItsEnd(t *testing.T) {
	for _, test := range []struct {
		name  string
		costs map[int]float64
		want  string
	}{
		{"linear", map[int]float64{0: 1, 100: 101, 1000: 1001, 10_000: 10_001}, "met"},
		{"steep at the end", map[int]float64{0: 1, 100: 301, 1000: 501, 10_000: 10_001}, "**missed**"},
		{"ends early", map[int]float64{0: 1, 100: 101, 1000: 1001}, "not measured"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &results{}
			for n, cost := range test.costs {
				r.Growth = append(r.Growth, growthRow{Kind: kindSeries, N: n, CPU: cost})
			}
			if got := verdictOf(t, r, "CPU by "+kindSeries); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestFreshnessIsJudgedWithItsPrice(t *testing.T) {
	for _, test := range []struct {
		name       string
		f          freshness
		age, polls string
	}{
		{"young", freshness{MedianBefore: 15, MedianAfter: 0.6, PollsBefore: 1000, PollsAfter: 1005}, "met", "met"},
		{"old", freshness{MedianBefore: 15, MedianAfter: 2, PollsBefore: 1000, PollsAfter: 1000}, "**missed**", "met"},
		{"bought", freshness{MedianBefore: 15, MedianAfter: 0.6, PollsBefore: 1000, PollsAfter: 1011}, "met", "**missed**"},
		{"skipped", freshness{MedianBefore: 15, MedianAfter: 0.6, PollsBefore: 1000, PollsAfter: 989}, "met", "**missed**"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &results{Fresh: &test.f}
			if got := verdictOf(t, r, "age of data when scraped"); got != test.age {
				t.Errorf("age: got %s, want %s", got, test.age)
			}
			if got := verdictOf(t, r, "readings for that"); got != test.polls {
				t.Errorf("readings: got %s, want %s", got, test.polls)
			}
		})
	}
}

func TestGoalTellsOfSizesThatAreMissing(t *testing.T) {
	r := &results{}
	for i, want := range []bool{true, true, false} {
		r.Scrape = append(r.Scrape, scrapeRow{Series: sizes[i], Scrapers: 1, Server: serverNginx, Ratio: 1, Speed: 1}, scrapeRow{Series: sizes[i], Scrapers: 1, Server: peers[0], Ratio: 2, Speed: 0.5})
		for _, name := range []string{serverNginx, peers[0]} {
			at := slices.IndexFunc(r.goals(), func(g goal) bool { return g.name == "scrape beside "+name })
			if got := r.goals()[at].got; strings.Contains(got, "of 3 sizes alone") != want {
				t.Errorf("%s at %d sizes: got %q", name, i+1, got)
			}
		}
	}
}

func TestMeasuredCAdvisorOutweighsRecorded(t *testing.T) {
	const name = "200 containers beside " + cadvisorTuned
	ours := watchRow{Containers: 200, Program: oursEngine, Share: 0.19, RSS: 20}
	r := &results{Watching: []watchRow{ours}}
	if got, want := verdictOf(t, r, name), "met"; got != want {
		t.Errorf("beside what is recorded: got %s, want %s", got, want)
	}
	r.Watching = append(r.Watching, watchRow{Containers: 200, Program: cadvisorTuned, Share: 0.5, RSS: 40})
	if got, want := verdictOf(t, r, name), "**missed**"; got != want {
		t.Errorf("beside what was measured: got %s, want %s", got, want)
	}
}

// TestPageStandsWithNothingMeasured holds that a run that could measure nothing says so, and says it in the same tables.
func TestPageStandsWithNothingMeasured(t *testing.T) {
	page := string((&results{Absent: []string{"nginx is not installed"}}).page())
	for _, want := range []string{"- nginx is not installed", "| not measured |", "## Growth"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "| met |") || strings.Contains(page, "missed** |") {
		t.Error("a goal is judged by nothing")
	}
}

func TestChartIsWellFormed(t *testing.T) {
	for name, c := range map[string]chart{
		"nothing": {title: "a < b & c"},
		"zero":    {title: "zero", lines: []line{{"none", []xy{{1, 0}, {10, 5}}}}},
		"close":   {title: "close", lines: []line{{"a", []xy{{300, 1}}}, {"b", []xy{{300, 1.01}}}, {"c", []xy{{300, 1.02}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			svg := string(c.svg())
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v\n%s", err, svg)
				}
			}
			for _, word := range []string{"NaN", "Inf"} {
				if strings.Contains(svg, word) {
					t.Errorf("the chart has %s:\n%s", word, svg)
				}
			}
		})
	}
}
