// Package bench measures what matters to those who run the exporter: what a scrape costs, and what a reading costs.
// Compare numbers within one run only.
package bench

import (
	"fmt"
	"strings"
	"time"
)

// results holds what one run of the suite measured. BENCHMARKS.md, BENCHMARKS-RAW.md and charts are made of nothing else.
type results struct {
	Made    time.Time `json:"made"`
	Took    float64   `json:"took_seconds"`
	Commit  string    `json:"commit"`
	Command string    `json:"command"`
	Machine string    `json:"machine"`
	Kernel  string    `json:"kernel"`
	// Busy is the machine's load average before and after the run.
	Busy     [2]float64 `json:"load_average"`
	Versions []version  `json:"versions"`
	// Absent says what could not be measured, and why.
	Absent     []string     `json:"absent"`
	Scrape     []scrapeRow  `json:"scrape"`
	Watching   []watchRow   `json:"container_programs"`
	Probes     []probeRow   `json:"probes"`
	Idle       *idleRow     `json:"idle"`
	Fresh      *freshness   `json:"freshness"`
	Growth     []growthRow  `json:"growth"`
	Profiles   []profileRow `json:"profiles"`
	ShortPlans bool         `json:"short"`
}

type version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// scrapeRow is one server of a page, scraped over loopback.
type scrapeRow struct {
	Series    int     `json:"series"`
	Encoding  string  `json:"encoding"`
	Scrapers  int     `json:"scrapers"`
	Server    string  `json:"server"`
	Bytes     int     `json:"bytes"`
	Scrapes   int     `json:"scrapes"`
	Rounds    int     `json:"rounds"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_us"`
	// Ratio is its p50 divided by ours of the same round, the median of all rounds; Speed is the same of throughput.
	Ratio float64 `json:"p50_times_ours"`
	Speed float64 `json:"throughput_times_ours"`
}

func (s *scrapeRow) where() string {
	return fmt.Sprintf("%s series, %s, %s", thousands(s.Series), s.Encoding, counted(s.Scrapers, "scraper"))
}

// watchRow is a program that watches containers, in a window with one reading and one scrape.
type watchRow struct {
	Containers int     `json:"containers"`
	Busy       bool    `json:"busy,omitempty"` // each container uses a little CPU and writes a file once a second
	Program    string  `json:"program"`
	Window     float64 `json:"window_seconds"`
	Own        float64 `json:"own_cpu_ms"`
	All        float64 `json:"all_cpu_ms"`
	RSS        float64 `json:"rss_mb"`
	Peak       float64 `json:"peak_mb"`
	// Share is of one core, if all is read and scraped every 30 s.
	Share float64 `json:"core_percent"`
}

// probeRow is a prober of targets of one kind.
type probeRow struct {
	Kind     string  `json:"kind"`
	Targets  int     `json:"targets"`
	Program  string  `json:"program"`
	Interval float64 `json:"interval_seconds"`
	Probes   int     `json:"probes"`
	Rounds   int     `json:"rounds"`
	CPU      float64 `json:"cpu_us_per_probe"`
	RSS      float64 `json:"rss_mb"`
	Share    float64 `json:"core_percent"`
	// Ratio is its processor time divided by ours of the same round, the median of all rounds.
	Ratio float64 `json:"cpu_times_ours"`
}

// idleRow is the exporter with 20 containers and 1,000 upstream series.
type idleRow struct {
	Containers int     `json:"containers"`
	Series     int     `json:"series"`
	Window     float64 `json:"window_seconds"`
	Interval   float64 `json:"interval_seconds"`
	// RSS is 0 where only starts were measured.
	RSS        float64   `json:"rss_mb"`
	Peak       float64   `json:"peak_mb"`
	CPUPerHour float64   `json:"cpu_seconds_per_hour"`
	Starts     []float64 `json:"start_ms"` // each from the start of the demo to its first complete page
	Targets    int       `json:"start_targets"`
	Binary     float64   `json:"binary_mb"`
	// Before is the row of the earlier version, if that was measured.
	Before *idleRow `json:"before,omitempty"`
}

// growthRow is what an exporter costs that has n of one kind to watch, and nothing else.
type growthRow struct {
	Kind   string  `json:"kind"`
	N      int     `json:"n"`
	Rounds int     `json:"rounds"`
	CPU    float64 `json:"cpu_ms_per_round"`
	RSS    float64 `json:"rss_mb"`
	Page   float64 `json:"page_ms"` // median time of a scrape, which makes the page
}

// profileRow says where time or memory goes, where a goal is missed.
type profileRow struct {
	Goals []string `json:"goals"`
	Of    string   `json:"of"`
	Top   string   `json:"top"`
}

// Programs and servers, as the tables name them.
const (
	serverOurs, serverBare, serverNginx            = "ours", "bare Go handler", "nginx, static file"
	serverPromhttp, serverFederate, serverTelegraf = "promhttp", "Prometheus, /federate", "Telegraf"
	oursBefore                                     = "before"        // an earlier version of ours
	resources                                      = ", resources: " // and the setting of that name
	oursEngine, oursFiles                          = serverOurs + resources + "engine", serverOurs + resources + "cgroup"
	cadvisorDefault, cadvisorTuned                 = "cAdvisor, default", "cAdvisor, tuned"
	probeBlackbox, kindTLS                         = "blackbox exporter", "TLS targets"
	kindTargets, kindContainers, kindSeries        = "HTTP targets", "containers", "upstream series"
	telegrafVariable, cadvisorVariable             = "TELEGRAF", "CADVISOR"
	blackboxVariable                               = "BLACKBOX"
	beforeVariable                                 = "BEFORE" // names the program of an earlier version
	goalContainers, idleContainers, idleSeries     = 200, 20, 1000
	usualInterval                                  = 30 * time.Second
)

// kinds are what growth is measured of.
var kinds = []string{kindTargets, kindContainers, kindSeries}

// sizes are the pages that are scraped, in series.
var sizes = []int{300, 10_000, 100_000}

// load is what one exporter has to carry.
type load struct{ targets, containers, series, tls int }

// loadOf is n of one kind.
func loadOf(kind string, n int) load {
	return map[string]load{kindTargets: {targets: n}, kindContainers: {containers: n}, kindSeries: {series: n}, kindTLS: {tls: n}}[kind]
}

func (l load) String() string {
	var parts []string
	for i, n := range []int{l.targets, l.containers, l.series, l.tls} {
		if n > 0 {
			parts = append(parts, thousands(n)+" "+append(kinds, kindTLS)[i])
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// before returns what was measured of the earlier version, as if that were ours, beside the same rivals.
func (r *results) before() *results {
	b := &results{}
	if r.Idle != nil {
		b.Idle = r.Idle.Before
	}
	rename := func(name *string) bool {
		given := *name
		*name = strings.Replace(given, oursBefore, serverOurs, 1)
		return !strings.HasPrefix(given, serverOurs)
	}
	for _, w := range r.Watching {
		if rename(&w.Program) {
			b.Watching = append(b.Watching, w)
		}
	}
	for _, p := range r.Probes {
		if rename(&p.Program) {
			b.Probes = append(b.Probes, p)
		}
	}
	for _, g := range r.Growth {
		if kind, is := strings.CutSuffix(g.Kind, ", "+oursBefore); is {
			g.Kind = kind
			b.Growth = append(b.Growth, g)
		}
	}
	return b
}
