//go:build bench && realservers

package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

var (
	writeResults = flag.Bool("bench.write", false, "write what was measured to results.json, BENCHMARKS.md, BENCHMARKS-RAW.md and charts")
	onlyPart     = flag.String("bench.only", "",
		"parts to measure, by commas: freshness, start, scrapes, containers, probes, growth, profiles; all by default")
)

// plan is how much is measured.
type plan struct {
	interval time.Duration // of readings and scrapes of whole exporters
	fresh    time.Duration // that is simulated
	starts   int

	// Of scrapes: about how long one server is scraped in its turn, how many rounds are made, and after what time there is
	// none more than least. Those that serve the page again scrape it every so often.
	sizes              []int
	turn, most, every  time.Duration
	rounds, leastTurns int

	// Of containers: a program is watched for so many windows after as many of warm; an even number, since resources may be
	// asked for at every other reading. In its first minute a container is inspected again and again, so all are older than settled.
	containers      []int
	warm, windows   int
	window, settled time.Duration

	// Of whole exporters: how many intervals are measured of growth and of probes.
	growthRounds, probeRounds int
	growth, growthLast        []int
	probes                    []int
	profile, profiledRound    time.Duration
}

var (
	// A round of 100,000 series and 8 scrapers takes half a minute, with the servers that encode for each scrape.
	wholePlan = plan{
		interval:      usualInterval,
		fresh:         24 * time.Hour,
		starts:        9,
		sizes:         sizes,
		turn:          100 * time.Millisecond,
		every:         15 * time.Second,
		rounds:        15,
		most:          20 * time.Second,
		leastTurns:    3,
		containers:    []int{10, 200},
		window:        usualInterval / 3,
		warm:          1,
		windows:       6,
		settled:       65 * time.Second,
		growthRounds:  2,
		growth:        []int{1, 10, 100, 1000},
		growthLast:    []int{10_000},
		probeRounds:   2,
		probes:        []int{16, 200, 1000},
		profile:       3 * time.Second,
		profiledRound: 10 * time.Second,
	}
	// shortPlan only shows that all of it runs.
	shortPlan = plan{
		interval:      time.Second,
		fresh:         time.Hour,
		starts:        1,
		sizes:         sizes[:1],
		turn:          5 * time.Millisecond,
		every:         time.Second,
		rounds:        2,
		most:          time.Minute,
		leastTurns:    2,
		containers:    []int{10},
		window:        time.Second,
		windows:       2,
		growthRounds:  1,
		growth:        []int{1, 10},
		probeRounds:   1,
		probes:        []int{16},
		profile:       100 * time.Millisecond,
		profiledRound: time.Second,
	}
)

// suite is one run.
type suite struct {
	results
	plan      plan
	exporters []exporter      // ours first
	profiled  map[load]string // how the names of a load's profiles begin
}

// exporter is the program as it is shipped, or an earlier version, which is measured in turns with ours.
type exporter struct{ name, path string }

// TestRealBenchmarks measures everything that BENCHMARKS.md tells. Times are no reason to fail, and neither is a part that
// cannot be measured here: the page says so. With -short it only shows that all parts run and make the page that is there; a
// part that does not run fails then.
func TestRealBenchmarks(t *testing.T) {
	s := &suite{plan: wholePlan, exporters: []exporter{{serverOurs, realstack.BuildExporter(t)}}, profiled: map[load]string{}}
	if path := os.Getenv(beforeVariable); path != "" {
		s.exporters = append(s.exporters, exporter{oursBefore, path})
	}
	s.Command, s.ShortPlans = "make bench", testing.Short()
	if s.ShortPlans {
		s.plan, s.Command = shortPlan, "make bench BENCH=-short"
	}
	begun := time.Now()
	s.Made = begun.UTC().Truncate(time.Second)
	s.describe(t)
	for _, part := range []struct {
		name    string
		measure func(*testing.T)
	}{
		{"freshness", s.measureFreshness},
		{"start", s.measureStart},
		{"scrapes", s.measureScrapes},
		{"containers", s.measureContainers},
		{"probes", s.measureProbes},
		{"growth", s.measureGrowth},
		{"profiles", s.measureProfiles},
	} {
		if *onlyPart != "" && !slices.Contains(strings.Split(*onlyPart, ","), part.name) {
			continue
		}
		t.Logf("%s elapsed: %s begins", time.Since(begun).Round(time.Second), part.name)
		t.Run(part.name, func(t *testing.T) {
			// One that fails or panics costs no other's figures.
			defer func() {
				if p := recover(); p != nil || t.Failed() {
					s.absent(t, fmt.Sprintf("%s: what had not been measured when it failed: %v", part.name, p))
				}
			}()
			part.measure(t)
		})
		s.Took, s.Busy[1] = time.Since(begun).Seconds(), procNumber("loadavg", "")
		if *writeResults && *onlyPart == "" { // a page of some parts would not be of one run
			if err := s.write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{pageFile: pageTemplate, rawFile: rawTemplate} {
		page := s.page(text)
		t.Logf("\n%s", page)
		if got, want := shape(page), shape(must(os.ReadFile(name))); *onlyPart == "" && !*writeResults && len(s.exporters) == 1 &&
			!slices.Equal(got, want) {
			t.Errorf("headings and columns: got\n%q\nwant those of %s\n%q", got, name, want)
		}
	}
}

func (s *suite) measureFreshness(t *testing.T) {
	t.Helper()
	f := simulateFreshness(t, s.plan.fresh)
	s.Fresh = &f
}

// shape is the headings and columns of a page, but for those of profiles, which are there where goals are missed, and of an older program.
func shape(page []byte) []string {
	page, _, _ = bytes.Cut(page, []byte("\n## Profiles"))
	page = bytes.ReplaceAll(page, []byte(" | measured | before | verdict |\n|---|--:"), []byte(" | measured | verdict |\n|---"))
	return regexp.MustCompile(`(?m)^(#.*|\|.*\n\|---.*)$`).FindAllString(string(page), -1)
}

// describe notes where and of what it is measured, and what cannot be measured here. CI has all but cAdvisor and Telegraf,
// which take minutes to build.
func (s *suite) describe(t *testing.T) {
	t.Helper()
	s.Machine = fmt.Sprintf("%s, %.0f GB", machine(), procNumber("meminfo", "MemTotal:")*1024/1e9)
	s.Busy[0], s.Kernel, s.Commit = procNumber("loadavg", ""), printed("uname", "-sr"), printed("git", "rev-parse", "--short=12", "HEAD")
	if printed("git", "status", "--porcelain", "--untracked-files=no", "--", "*.go", "go.mod") != "" {
		s.Commit += ", with changes that are not committed"
	}
	s.Versions = []version{{"Go", strings.TrimPrefix(runtime.Version(), "go")}}
	for _, p := range []struct{ name, program, flag, debian string }{
		{
			"nginx",
			"nginx",
			"-v",
			"nginx",
		},
		{
			"Prometheus",
			"prometheus",
			"--version",
			"prometheus",
		},
		{
			"blackbox exporter",
			"prometheus-blackbox-exporter",
			"--version",
			"prometheus-blackbox-exporter",
		},
		{
			"Docker Engine",
			"dockerd",
			"--version",
			"docker.io",
		},
	} {
		if path := realstack.Installed(p.program); path == "" {
			s.absent(t, fmt.Sprintf("%s is not installed (Debian's package %s)", p.program, p.debian))
		} else {
			s.Versions = append(s.Versions, version{p.name, regexp.MustCompile(`\d+\.[^ ,\n]+`).FindString(printed(path, p.flag))})
		}
	}
	if os.Getuid() != 0 {
		s.absent(t, "a container engine, which takes root")
	}
	for _, p := range []struct{ name, variable string }{
		{"Telegraf", telegrafVariable}, {"cAdvisor", cadvisorVariable},
	} {
		if path := os.Getenv(p.variable); path == "" {
			s.Absent = append(s.Absent,
				fmt.Sprintf("%s: %s names no program, `make bin/%s` builds it", p.name, p.variable, strings.ToLower(p.name)))
		} else {
			module := regexp.MustCompile(`(?i)\s(mod|dep)\s+\S+/` + p.name + `\s+(v\S+)`).
				FindStringSubmatch(printed("go", "version", "-m", path))
			s.Versions = append(s.Versions, version{p.name, append(module, "", "", "of unknown version")[2]})
		}
	}
}

// printed is what a program prints.
func printed(program string, args ...string) string {
	output, err := exec.Command(program, args...).CombinedOutput() //nolint:gosec,noctx // what the suite names, and short
	if err != nil {
		panic(fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, output))
	}
	return strings.TrimSpace(string(output))
}

// machine is the processor and how many there are.
func machine() string {
	m := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(must(os.ReadFile("/proc/cpuinfo")))
	return fmt.Sprintf("%d cores of %s", runtime.NumCPU(), append(m, nil, []byte("an unnamed processor"))[1])
}

// absent notes what is missing. A short run is CI's, where nothing else may be missing.
func (s *suite) absent(t *testing.T, what string) {
	t.Helper()
	if s.ShortPlans {
		t.Errorf("not measured: %s", what)
	}
	s.Absent = append(s.Absent, what)
}

// idle is the row of an exporter that several parts fill.
func (s *suite) idle(name string) *idleRow {
	if s.Idle == nil {
		s.Idle = &idleRow{}
	}
	if name != oursBefore {
		return s.Idle
	}
	if s.Idle.Before == nil {
		s.Idle.Before = &idleRow{}
	}
	return s.Idle.Before
}
