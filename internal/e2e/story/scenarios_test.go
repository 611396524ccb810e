package story

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a script of what happens, by the time since it began, and what is told of it.
type scenario struct {
	name      string
	exporters []exporterSpec
	// script has lines such as "1m db stops", and "2m a shows: db ContainerDown warning", which compares the problems on
	// a page. Several are separated by "; ".
	script string
	// lasts is how long the scenario lasts; an hour if it is not given.
	lasts time.Duration
	// told has the notifications in the order of their times, in lines such as "5m40s page: ContainerDown critical db".
	told string
}

var (
	alone    = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true}}
	keeping  = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true, saves: true}}
	pair     = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true}, {name: "b", env: "prod", targets: true, containers: true}}
	twoSites = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true}, {name: "s", env: "staging", targets: true, containers: true}}
	apart    = []exporterSpec{{name: "probes", env: "prod", targets: true}, {name: "host", env: "prod", containers: true}}
)

var scriptLine = regexp.MustCompile(`^(\S+) +(?:(\w+) shows:)? *(.*)$`)

// lines are the lines of a text, without indentation and empty ones.
func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// perform plays a scenario.
func (s *scenario) perform(w *world) {
	w.Helper()
	for _, line := range lines(s.script) {
		parts := scriptLine.FindStringSubmatch(line)
		if parts == nil {
			w.Fatalf("%q is no line of a script", line)
		}
		after, err := time.ParseDuration(parts[1])
		must(w, err)
		w.until(w.began.Add(after))
		if parts[2] == "" {
			w.happen(parts[3])
			continue
		}
		i := slices.IndexFunc(w.exporters, func(e *exporter) bool { return e.name == parts[2] })
		if got := strings.Join(w.problems(w.exporters[i]), "; "); got != parts[3] {
			w.Errorf("after %s, %s shows %q, want %q", after, parts[2], got, parts[3])
		}
	}
	w.until(w.began.Add(s.lasts))
	if got, want := w.told(), lines(s.told); !slices.Equal(got, want) {
		w.Errorf("told (-want +got):\n-%s\n+%s", strings.Join(want, "\n-"), strings.Join(got, "\n+"))
	}
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s.exporters == nil {
				s.exporters = alone
			}
			play(t, s.exporters, s.perform)
		})
	}
}

var scenarios = []scenario{
	{
		name: "quiet", lasts: 30 * time.Minute,
	},
	{
		name: "a container stops", lasts: 20 * time.Minute,
		script: `
			1m  other stops
			1m30s a shows: 
			10m other starts`,
		told: `x`,
	},
	{
		name: "a dependency stops", lasts: 20 * time.Minute,
		script: `
			1m  db stops
			1m  api fails
			3m a shows: x
			10m db starts
			11m api answers
		`,
		told: `x`,
	},
	{
		name: "a container is up for 3 minutes and restarting for 30 s, and its target is dead all along", lasts: 20 * time.Minute,
		script: `
			1m  web fails
			4m  web dies
			4m30s web comes back
			7m30s web dies
			8m  web comes back
			11m web dies
			11m30s web comes back
		`,
		told: `x`,
	},
	{
		name: "a dependency is down for 30 s in every 2 minutes, and what needs it is dead", lasts: 15 * time.Minute,
		script: `
			1m  api fails
			1m  db stops
			1m30s db starts
			3m  db stops
			3m30s db starts
			5m  db stops
			5m30s db starts
			7m  db stops
			7m30s db starts
		`,
		told: `x`,
	},
	{
		name: "exactly 3 restarts", lasts: 15 * time.Minute,
		script: `
			1m  web crashes
			2m  web crashes
			3m  web crashes
		`,
		told: `x`,
	},
	{
		name: "4 restarts", lasts: 15 * time.Minute,
		script: `
			1m  web crashes
			2m  web crashes
			3m  web crashes
			4m  web crashes
		`,
		told: `x`,
	},
	{
		name: "the cause of a paged problem appears", lasts: 20 * time.Minute,
		script: `
			1m  web fails
			7m web stops
			12m a shows: x
		`,
		told: `x`,
	},
}
