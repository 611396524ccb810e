//go:build realservers

package workloads

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// patience bounds every wait for a real engine, on a busy machine too.
const patience = time.Minute

// pollEvery is the pause between two looks at what should change.
const pollEvery = 50 * time.Millisecond

// Alerts fire within seconds here. pageAfter is when one about a container that is down or missing becomes critical.
const (
	pageAfter = 9 * time.Second
	settings  = `poll: {interval: 2s, timeout: 2s}
alerts:
  interval: 1s
  lookback: 4s
  container_down:
    warning: {for: 6s, keep_firing_for: 0s}
    critical: {for: 9s, keep_firing_for: 0s}
  container_missing: {for: 9s, keep_firing_for: 0s}
targets:
  - kind: docker
    host: %s
    labels: [%s]
    missing_after: 5s
    resources: none
`
)

// program is the exporter's. It is built once.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "workloads-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	// Most of the tests wait most of the time, so that more fit beside each other than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "30"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "chatstack_exporter")
	if err := exportertest.Build(program, "-s -w"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// watch is an exporter that watches the containers of one test.
type watch struct {
	*realstack.Containers
	t        *testing.T
	exporter *realstack.Exporter
	*record
}

// record is all problems that an exporter has shown.
type record struct {
	mu    sync.Mutex
	shown map[problem]bool
}

// problem is a problem of the status page.
type problem struct{ Kind, Name, Alert, Severity string }

// startWatch starts an exporter before an engine, which may be a relay's. More are lines of the engine's target.
func startWatch(t *testing.T, host string, c *realstack.Containers, more ...string) *watch {
	t.Helper()
	config := fmt.Sprintf(settings, host, c.Name)
	for _, line := range more {
		config += "    " + line + "\n"
	}
	w := &watch{
		Containers: c,
		t:          t,
		exporter:   realstack.StartExporter(t, program, config, nil),
		record:     &record{shown: map[problem]bool{}},
	}
	w.await("the engine's first reading", exportertest.Page.AllUp)
	end := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			w.problems() //nolint:errcheck // the test ends, or asks for itself
			select {
			case <-end:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(end); reading.Wait() })
	return w
}

// problems returns what the status page lists, and records it.
func (w *watch) problems() ([]problem, error) {
	body, err := exportertest.Fetch(w.t.Context(), patience, w.exporter.URL()+"/api/v1/status")
	if err != nil {
		return nil, err
	}
	var status struct{ Problems []problem }
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range status.Problems {
		w.shown[p] = true
	}
	return status.Problems, nil
}

// page returns the metrics.
func (w *watch) page() exportertest.Page {
	w.t.Helper()
	body, err := exportertest.Fetch(w.t.Context(), patience, w.exporter.URL()+"/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	page, err := exportertest.ParsePage(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

// await waits until the page is as wanted.
func (w *watch) await(what string, holds func(exportertest.Page) bool) {
	w.t.Helper()
	if !exportertest.Eventually(patience, pollEvery, func() bool { return holds(w.page()) }) {
		w.t.Fatalf("waited %s for %s", patience, what)
	}
}

// service is a service of the test's Compose project.
type service struct {
	*watch
	// name occurs in no other service's name. workload is the value of the label.
	name, workload string
}

// service returns a service for a subtest, which then is the one that fails.
func (w *watch) service(t *testing.T, name string) *service {
	t.Helper()
	return &service{
		watch: &watch{
			Containers: w.In(t),
			t:          t,
			exporter:   w.exporter,
			record:     w.record,
		},
		name:     name,
		workload: w.Name + "/" + name,
	}
}

// run starts an instance and returns its name. What follows "--" is the command.
func (s *service) run(number int, options ...string) string {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", s.name, number)
	return s.Run(name, append([]string{"--no-healthcheck", "--label", "com.docker.compose.service=" + s.name}, options...)...)
}

// remove stops an instance and removes it, as a deploy does.
func (s *service) remove(name string) {
	s.t.Helper()
	s.Docker("stop", "-t", "1", name)
	s.Docker("rm", name)
}

// crash kills the process of a container, behind the engine's back.
func (s *service) crash(name string) {
	s.t.Helper()
	pid, err := strconv.Atoi(s.Says(name, "{{.State.Pid}}"))
	if err != nil || pid <= 0 {
		s.t.Fatalf("process of %s: %d, %v", name, pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// is waits until the workload's numbers are these, given as name and value, such as restarts_total, 2.
func (s *service) is(what string, numbers ...any) {
	s.t.Helper()
	got := map[string]float64{}
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		page, agree := s.page(), true
		for i := 0; i < len(numbers); i += 2 {
			family := numbers[i].(string) //nolint:forcetypeassert // the caller's own
			value, ok := page.Value("chatstack_workload_"+family, "workload", s.workload)
			got[family] = value
			agree = agree && ok && fmt.Sprint(value) == fmt.Sprint(numbers[i+1])
		}
		return agree
	}) {
		s.t.Fatalf("%s: %s: got %v, want %v\n%s", s.workload, what, got, numbers, s.dump())
	}
}

// present are the problems of the service now, as "alert severity".
func (s *service) present() []string {
	s.t.Helper()
	all, err := s.problems()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.own(all)
}

// everShown are the problems of the service since the test began.
func (s *service) everShown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own(slices.Collect(maps.Keys(s.shown)))
}

func (s *service) own(all []problem) (own []string) {
	for _, p := range all {
		if strings.Contains(p.Name, s.name) && p.Severity != "pending" {
			own = append(own, p.Alert+" "+p.Severity)
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// ofInterest are the families that tell what the exporter makes of a container.
var ofInterest = regexp.MustCompile(`^chatstack_(workload_\w+|container_(state|expected|workload|restarts_total|recreations_total|exit_code|\w+_seconds))\{`)

// dump is what the page has of the service.
func (s *service) dump() string {
	body, err := exportertest.Fetch(s.t.Context(), patience, s.exporter.URL()+"/metrics")
	if err != nil {
		return err.Error()
	}
	var lines strings.Builder
	for line := range strings.Lines(string(body)) {
		zero := strings.Contains(line, "state=") && strings.HasSuffix(line, " 0\n")
		if strings.Contains(line, s.name) && ofInterest.MatchString(line) && !zero && !strings.Contains(line, "timestamp") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// awaitProblem waits for a problem, as "alert severity".
func (s *service) awaitProblem(want string) {
	s.t.Helper()
	if !exportertest.Eventually(patience, pollEvery, func() bool { return slices.Contains(s.present(), want) }) {
		s.t.Fatalf("%s: the page lists %q, want %q\n%s", s.workload, s.present(), want, s.dump())
	}
}

// awaitNone waits until no problem is left.
func (s *service) awaitNone() {
	s.t.Helper()
	if !exportertest.Eventually(patience, pollEvery, func() bool { return len(s.present()) == 0 }) {
		s.t.Fatalf("%s: the page lists %q, want none\n%s", s.workload, s.present(), s.dump())
	}
}

// longEnough waits until whatever is wrong would be critical.
func (s *service) longEnough() { exportertest.Pause(s.t.Context(), pageAfter+3*time.Second) }

// onlyShown fails unless the page has shown these problems of the service so far, and no other.
func (s *service) onlyShown(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.everShown(); !slices.Equal(got, want) {
		s.t.Errorf("%s: the page has shown %q, want %q\n%s", s.workload, got, want, s.dump())
	}
}
