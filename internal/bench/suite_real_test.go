//go:build bench && realservers

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	writeResults = flag.Bool("bench.write", false, "write what was measured to results.json, BENCHMARKS.md and charts")
	onlyPart     = flag.String("bench.only", "", "parts to measure, by commas: scrapes, containers, probes, growth, start, freshness, profiles; all by default")
)

// telegrafVariable names a Telegraf to measure beside ours, as `make bin/telegraf` builds it.
const telegrafVariable = "TELEGRAF"

// Each part is a process of its own, this program again, so that one that fails, panics or hangs costs no other's figures.
const (
	// partVariable names the part, partFileVariable the results that it adds to, programVariable the exporter.
	partVariable     = "CHATSTACK_BENCH_PART"
	partFileVariable = "CHATSTACK_BENCH_FILE"
	programVariable  = "CHATSTACK_BENCH_PROGRAM"
)

// suite is one run.
type suite struct {
	results
	exporter string // the program as it is shipped
	file     string // where a part's results are
	scrapes  scrapePlan
	docker   dockerPlan
	rounds   roundPlan
	fresh    time.Duration
}

// part is a section of the page.
type part struct {
	name string
	// within is when it is given up: far more than it takes on a quiet machine.
	within time.Duration
	take   func(*testing.T)
}

func (s *suite) parts() []part {
	return []part{
		{"freshness", 2 * time.Minute, s.takeFreshness},
		{"start", 3 * time.Minute, s.takeStart},
		{"scrapes", 12 * time.Minute, s.takeScrapes},
		{"containers", 35 * time.Minute, s.takeContainers},
		{"probes", 7 * time.Minute, s.takeProbes},
		{"growth", 13 * time.Minute, s.takeGrowth},
		{"profiles", 7 * time.Minute, s.takeProfiles},
	}
}

// TestRealBenchmarks measures everything that BENCHMARKS.md tells. Times are no reason to fail, and neither is a part that
// cannot be measured here: the page says so. With -short it takes hardly any time for anything, and only shows that all
// parts run and make the page that is there; a part that does not run fails then.
func TestRealBenchmarks(t *testing.T) {
	s := &suite{scrapes: wholeScrapes, docker: wholePlan, rounds: wholeRounds, fresh: 24 * time.Hour}
	s.Command = "make bench"
	if testing.Short() {
		s.scrapes, s.docker, s.rounds, s.fresh = shortScrapes, shortPlan, shortRounds, time.Hour
		s.ShortPlans, s.Command = true, "make bench BENCH=-short"
		if *writeResults {
			s.Command = "make bench BENCH='-short -bench.write'"
		}
	}
	if name := os.Getenv(partVariable); name != "" {
		s.takePart(t, name)
		return
	}
	begun := time.Now()
	s.Made = begun.UTC().Truncate(time.Second)
	s.describe(t)
	s.exporter = buildExporter(t)
	s.file = filepath.Join(t.TempDir(), "results.json")
	s.lookAround(t)
	for _, p := range s.parts() {
		if *onlyPart != "" && !slices.Contains(strings.Split(*onlyPart, ","), p.name) {
			continue
		}
		t.Logf("%s elapsed: %s begins", time.Since(begun).Round(time.Second), p.name)
		s.runPart(t, p)
		s.Took, s.Busy[1] = time.Since(begun).Seconds(), loadAverage(t)
		s.write(t)
	}
	t.Logf("%s elapsed: all parts are done", time.Since(begun).Round(time.Second))
	page := s.page()
	t.Logf("\n%s", page)
	if *onlyPart == "" && !*writeResults {
		sameShape(t, page)
	}
}

// write writes what has been measured so far, where that is wanted.
func (s *suite) write(t *testing.T) {
	t.Helper()
	if !*writeResults || *onlyPart != "" {
		return // a page of some parts would not be of one run
	}
	files, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Error(err)
		}
	}
}

// runPart measures a part in a process of its own, and takes over what that has measured, were it not all.
func (s *suite) runPart(t *testing.T, p part) {
	t.Helper()
	s.save(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^TestRealBenchmarks$", "-test.v", "-test.count=1", fmt.Sprintf("-test.timeout=%s", p.within)}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), p.within+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), partVariable+"="+p.name, partFileVariable+"="+s.file, programVariable+"="+s.exporter)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	begun := time.Now()
	failed := cmd.Run()
	s.load(t)
	if failed != nil {
		s.absent(t, fmt.Sprintf("%s: ended after %s with %v, what it had not measured by then is missing", p.name, time.Since(begun).Round(time.Second), failed))
	}
}

// takePart measures one part for the process that started this one. What it has measured is saved even where it fails.
func (s *suite) takePart(t *testing.T, name string) {
	t.Helper()
	s.exporter, s.file = os.Getenv(programVariable), os.Getenv(partFileVariable)
	s.load(t)
	at := slices.IndexFunc(s.parts(), func(p part) bool { return p.name == name })
	if at < 0 {
		t.Fatalf("%s: there is no part %q", partVariable, name)
	}
	t.Run(name, s.parts()[at].take)
	s.save(t)
}

// save keeps what has been measured. A part does it as it goes on, since it may be ended at any time.
func (s *suite) save(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(&s.results)
	if err != nil {
		t.Fatal(err)
	}
	// In one step, or whoever is ended meanwhile leaves half a file.
	if err := os.WriteFile(s.file+".new", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) load(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.results = results{}
	if err := json.Unmarshal(raw, &s.results); err != nil {
		t.Fatalf("%s: %v", s.file, err)
	}
}

// takeFreshness simulates scrapes and readings of a day.
func (s *suite) takeFreshness(t *testing.T) {
	t.Helper()
	f := simulateFreshness(t, s.fresh)
	s.Fresh = &f
}

// sameShape holds that the page of this run has the headings and columns of the one that is committed.
func sameShape(t *testing.T, page []byte) {
	t.Helper()
	committed, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	got, want := shape(page), shape(committed)
	if !slices.Equal(got, want) {
		t.Errorf("headings and columns: got\n%s\nwant those of BENCHMARKS.md\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// shape is the headings and columns of a page, but for those of profiles, which are there where goals are missed.
func shape(page []byte) (lines []string) {
	page, _, _ = bytes.Cut(page, []byte("\n## Profiles"))
	var before string
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
		if strings.HasPrefix(line, "|---") {
			lines = append(lines, before)
		}
		before = line
	}
	return lines
}

// buildExporter builds the program as it is shipped.
func buildExporter(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "chatstack_exporter")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "github.com/chatstack-exporter/chatstack_exporter/cmd/chatstack_exporter") //nolint:gosec // our own
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build exporter: %v\n%s", err, output)
	}
	return program
}

// describe takes down where and of what it is measured.
func (s *suite) describe(t *testing.T) {
	t.Helper()
	s.Machine, s.Busy[0] = machine(t), loadAverage(t)
	if memory := total(t); memory > 0 {
		s.Machine += fmt.Sprintf(", %.0f GB", memory)
	}
	s.Kernel = said(t, "uname", "-sr")
	s.Commit = said(t, "git", "rev-parse", "--short=12", "HEAD")
	if said(t, "git", "status", "--porcelain", "--untracked-files=no", "--", "*.go", "go.mod") != "" {
		s.Commit += ", with changes that are not committed"
	}
	s.Versions = []version{{"Go", runtime.Version()}}
	for _, v := range []struct{ name, program, flag string }{
		{"nginx", "nginx", "-v"}, {"Prometheus", "prometheus", "--version"}, {"blackbox exporter", "prometheus-blackbox-exporter", "--version"}, {"Docker Engine", "dockerd", "--version"},
	} {
		if path := find(v.program); path != "" {
			number := regexp.MustCompile(`\d+\.[^ ,\n]+`).FindString(said(t, path, v.flag))
			s.Versions = append(s.Versions, version{v.name, number})
		}
	}
	for _, v := range []struct{ name, variable string }{{"Telegraf", telegrafVariable}, {"cAdvisor", cadvisorVariable}} {
		if path := os.Getenv(v.variable); path != "" {
			s.Versions = append(s.Versions, version{v.name, moduleVersion(t, v.name, path)})
		}
	}
}

// moduleVersion is the version of the module that a program was made of.
func moduleVersion(t *testing.T, name, program string) string {
	t.Helper()
	for line := range strings.Lines(said(t, "go", "version", "-m", program)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[0] == "mod" || fields[0] == "dep") && strings.HasSuffix(strings.ToLower(fields[1]), "/"+strings.ToLower(name)) && strings.HasPrefix(fields[2], "v") {
			return fields[2]
		}
	}
	return "of unknown version"
}

// said is what a program says, or how it fails.
func said(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// loadAverage is how many processes wanted to run during the last minute.
func loadAverage(t *testing.T) (load float64) {
	t.Helper()
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(content), &load); err != nil {
		t.Fatalf("/proc/loadavg: %v", err)
	}
	return load
}

// total is the machine's memory in GB.
func total(t *testing.T) float64 {
	t.Helper()
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kB float64
	if _, err := fmt.Sscanf(string(content), "MemTotal: %f kB", &kB); err != nil {
		t.Fatalf("/proc/meminfo: %v", err)
	}
	return kB * 1024 / 1e9
}

// lookAround notes what cannot be measured here. CI has all of it but cAdvisor and Telegraf.
func (s *suite) lookAround(t *testing.T) {
	t.Helper()
	for _, p := range []struct{ program, debian string }{
		{"nginx", "nginx"}, {"prometheus", "prometheus"}, {"prometheus-blackbox-exporter", "prometheus-blackbox-exporter"}, {"dockerd", "docker.io"},
	} {
		if find(p.program) == "" {
			s.absent(t, fmt.Sprintf("%s is not installed (Debian's package %s)", p.program, p.debian))
		}
	}
	if os.Getuid() != 0 {
		s.absent(t, "a container engine, which takes root")
	}
	if os.Getenv(telegrafVariable) == "" {
		// Left out where nothing is measured, since it takes minutes to build.
		s.Absent = append(s.Absent, "Telegraf: "+telegrafVariable+" names no program, `make bin/telegraf` builds it")
	}
	if os.Getenv(cadvisorVariable) == "" {
		s.Absent = append(s.Absent, fmt.Sprintf("cAdvisor: %s names no program, `make bin/cadvisor` builds it. Its goals are judged by what was recorded earlier on a machine of this kind, %d containers: %s, %s %% of a core and %.0f MB; %s, %s %% and %.0f MB.",
			cadvisorVariable, goalContainers, recordedCAdvisor[0].Program, short(recordedCAdvisor[0].Share), recordedCAdvisor[0].RSS, recordedCAdvisor[1].Program, short(recordedCAdvisor[1].Share), recordedCAdvisor[1].RSS))
	}
}

// absent notes what is missing. A short run is CI's, where nothing else may be missing.
func (s *suite) absent(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Errorf("not measured: %s", what)
	}
	s.Absent = append(s.Absent, what)
}
