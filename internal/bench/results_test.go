// Package bench measures what matters to those who run the exporter: what a scrape costs, and what a reading costs.
// Compare numbers within one run only.
package bench

import (
	"fmt"
	"strings"
	"time"
)

// results holds what one run of the suite measured. BENCHMARKS.md and its charts are made of nothing else.
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
	Readings   []readingRow `json:"container_readings"`
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

// readingRow is one way to read the containers of a real engine once.
type readingRow struct {
	Containers int     `json:"containers"`
	Way        string  `json:"way"`
	Ready      float64 `json:"ready_ms"`
	Measured   float64 `json:"measured_ms"`
	Own        float64 `json:"own_cpu_ms"`
	Engine     float64 `json:"engine_cpu_ms"`
	// Ratio is own and engine's time, divided by that of the first way.
	Ratio float64 `json:"cpu_times_ours"`
}

// watchRow is a program that watches containers, in a window with one reading and one scrape.
type watchRow struct {
	Containers int     `json:"containers"`
	Busy       bool    `json:"busy,omitempty"` // the containers work a little each second
	Program    string  `json:"program"`
	Window     float64 `json:"window_seconds"`
	Own        float64 `json:"own_cpu_ms"`
	All        float64 `json:"all_cpu_ms"`
	RSS        float64 `json:"rss_mb"`
	Peak       float64 `json:"peak_mb"`
	// Share is of one core, if all is read and scraped every 30 s.
	Share float64 `json:"core_percent"`
}

// probeRow is a prober of HTTP or TLS targets.
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
	// RSS is 0 where only starts or the image were measured, Image where no engine could build it.
	RSS        float64   `json:"rss_mb"`
	Peak       float64   `json:"peak_mb"`
	CPUPerHour float64   `json:"cpu_seconds_per_hour"`
	Starts     []float64 `json:"start_ms"` // each from the start to the first complete page
	Targets    int       `json:"start_targets"`
	Binary     float64   `json:"binary_mb"`
	// Before is the other program's row in a run that has one.
	Before *idleRow `json:"before,omitempty"`
	Image  float64  `json:"image_mb"`
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
	oursPrefix                                     = "ours, resources: " // and the setting of that name
	oursEngine, oursFiles                          = oursPrefix + "engine", oursPrefix + "cgroup"
	cadvisorDefault, cadvisorTuned                 = "cAdvisor, default", "cAdvisor, tuned"
	probeOurs, probeBlackbox                       = "ours", "blackbox exporter"
	// before begins the names of the other program of ours, which BEFORE names.
	before, beforeVariable                     = "before", "BEFORE"
	kindTargets, kindContainers, kindSeries    = "HTTP targets", "containers", "upstream series"
	kindTLS                                    = "TLS targets"
	telegrafVariable, cadvisorVariable         = "TELEGRAF", "CADVISOR"
	goalContainers, idleContainers, idleSeries = 200, 20, 1000
	usualInterval                              = 30 * time.Second
)

// kinds are what growth is measured of.
var kinds = []string{kindTargets, kindContainers, kindSeries}

// sizes are the pages that are scraped, in series.
var sizes = []int{300, 10_000, 100_000}

// load is what one exporter has to carry.
type load struct{ targets, tls, containers, series int }

// loadOf is n of one kind.
func loadOf(kind string, n int) load {
	return map[string]load{kindTargets: {targets: n}, kindContainers: {containers: n}, kindSeries: {series: n}, kindTLS: {tls: n}}[kind]
}

func (l load) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		kind string
	}{{l.targets, kindTargets}, {l.tls, kindTLS}, {l.containers, kindContainers}, {l.series, kindSeries}} {
		if part.n > 0 {
			parts = append(parts, thousands(part.n)+" "+part.kind)
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
