package story

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a script of what happens, by the time since it began, and the notifications about it.
type scenario struct {
	name      string
	exporters []exporterSpec
	// needs are what containers need, where that is not as usual.
	needs map[string]string
	// script has lines such as "1m db stops", and "2m a shows: db ContainerDown warning", which compares the problems on
	// a page. Several are separated by "; ".
	script string
	// lasts is how long the scenario lasts. It begins at an hour; 0 is the morning.
	lasts time.Duration
	hour  int
	// self says why the exporter itself does not call when the chain pages; "" if it does.
	self string
	// notifications has lines such as "5m40s page: ContainerDown critical db".
	notifications string
}

var (
	alone = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
	}}
	keeping = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		saves:      true,
	}}
	pair = []exporterSpec{
		{
			name:       "a",
			env:        "prod",
			targets:    true,
			containers: true,
		},
		{
			name:       "b",
			env:        "prod",
			targets:    true,
			containers: true,
		},
	}
	twoSites = []exporterSpec{
		{
			name:       "a",
			env:        "prod",
			targets:    true,
			containers: true,
		},
		{
			name:       "s",
			env:        "staging",
			targets:    true,
			containers: true,
		},
	}
	apart = []exporterSpec{{name: "probes", env: "prod", targets: true}, {name: "host", env: "prod", containers: true}}
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

// event is a line of a script.
type event struct {
	at   time.Duration
	what string
}

// scriptOf is a script of events in any order.
func scriptOf(events []event) string {
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s\n", e.at, e.what)
	}
	return b.String()
}

// perform plays the script of a scenario.
func (s *scenario) perform(w *world) {
	w.Helper()
	for _, line := range lines(s.script) {
		parts := scriptLine.FindStringSubmatch(line)
		if parts == nil {
			w.Fatalf("%q is no line of a script", line)
		}
		after, err := time.ParseDuration(parts[1])
		must(w.T, err)
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
}

// sameNotifications compares notifications. A time may differ by one interval, since a duration that is exactly the threshold in one
// round may be just above it in another world.
func sameNotifications(got, want []string) bool {
	cut := func(line string) (text string, at time.Duration) {
		clock, text, _ := strings.Cut(line, " ")
		at, _ = time.ParseDuration(clock)
		return text, at
	}
	byText := func(a, b string) int {
		one, at := cut(a)
		other, then := cut(b)
		return cmp.Or(strings.Compare(one, other), cmp.Compare(at, then))
	}
	return slices.EqualFunc(slices.SortedFunc(slices.Values(got), byText), slices.SortedFunc(slices.Values(want), byText),
		func(a, b string) bool {
			one, at := cut(a)
			other, then := cut(b)
			return one == other && (at-then).Abs() <= interval
		})
}

func TestScenarios(t *testing.T) {
	for _, s := range slices.Concat(scenarios, gapScenarios, rootScenarios, unstableScenarios, valueScenarios, relayScenarios) {
		if s.lasts > *longest {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s.exporters == nil {
				s.exporters = alone
			}
			playFrom(t, cmp.Or(s.hour, morning), s.exporters, s.needs, func(w *world) {
				s.perform(w)
				w.until(w.began.Add(s.lasts))
				w.router.checkGroups(w.T)
				w.router.checkNews(w.T)
				w.checkNotified(s.self)
				if got, want := w.notifications(), lines(s.notifications); !sameNotifications(got, want) {
					w.Errorf("notifications (-want +got):\n-%s\n+%s", strings.Join(want, "\n-"), strings.Join(got, "\n+"))
				}
			})
		})
	}
}

var scenarios = []scenario{
	{
		name: "half an hour in which nothing happens", lasts: 30 * time.Minute,
	},
	{
		name:  "a container stops for 10 minutes",
		lasts: 16 * time.Minute,
		script: `
			1m other stops
			10m a shows: other ContainerDown critical; other TargetDown critical
			11m other starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
			14m0s chat: ContainerDown warning other is over; TargetDown warning other
		`,
	},
	{
		name:  "at night, the channel gets what pages, and its end",
		lasts: 20 * time.Minute,
		hour:  23,
		script: `
			1m other stops
			11m other starts
		`,
		notifications: `
			7m15s page: ContainerDown critical other; TargetDown critical other
			8m0s chat: ContainerDown critical other; TargetDown critical other
			18m0s chat: ContainerDown critical other is over; TargetDown critical other is over
		`,
	},
	{
		name:  "a container that a target names stops for 10 minutes",
		lasts: 20 * time.Minute,
		script: `
			1m web stops
			9m a shows: web ContainerDown critical; web TargetDown pending, container of web
			11m web starts
			11m12s a shows: web TargetDown pending, starting of web
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			7m15s page: ContainerDown critical web
			14m0s chat: ContainerDown warning web is over
		`,
	},
	{
		name:  "a container stops for 50 s, which is reported as a restart",
		lasts: 14 * time.Minute,
		script: `
			1m web stops
			1m50s web starts
		`,
		notifications: `
			4m0s chat: ContainerRestarts warning web
			14m0s chat: ContainerRestarts warning web is over
		`,
	},
	{
		name:  "a target fails for 4 minutes, which is a warning",
		lasts: 12 * time.Minute,
		script: `
			1m other fails
			5m other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			10m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:  "a container is unhealthy for 4 minutes, well for 2, and unhealthy for 4",
		lasts: 24 * time.Minute,
		script: `
			1m db turns unhealthy
			5m db turns healthy
			7m db turns unhealthy
			11m db turns healthy
		`,
		notifications: `
			3m0s chat: ContainerUnhealthy warning db
			18m0s chat: ContainerUnhealthy warning db is over
		`,
	},
	{
		name:  "a container is unhealthy for 3 of 6 minutes, again and again",
		lasts: 100 * time.Minute,
		script: `
			1m db turns unhealthy
			4m db turns healthy
			7m db turns unhealthy
			10m db turns healthy
			13m db turns unhealthy
			16m db turns healthy
			19m db turns unhealthy
			22m db turns healthy
			25m db turns unhealthy
			28m db turns healthy
			31m db turns unhealthy
			34m db turns healthy
			37m db turns unhealthy
			40m db turns healthy
			43m db turns unhealthy
			46m db turns healthy
			49m db turns unhealthy
			52m db turns healthy
			55m db turns unhealthy
			58m db turns healthy
		`,
		notifications: `
			3m0s chat: ContainerUnhealthy warning db
			45m15s page: ContainerOftenUnhealthy critical db
			46m0s chat: ContainerOftenUnhealthy critical db
			1h8m0s chat: ContainerUnhealthy warning db is over
			1h16m0s chat: ContainerOftenUnhealthy critical db is over
		`,
	},
	{
		name:  "a container is unhealthy for 8 minutes",
		lasts: 20 * time.Minute,
		script: `
			1m db turns unhealthy
			9m db turns healthy
		`,
		notifications: `
			3m0s chat: ContainerUnhealthy warning db
			6m15s page: ContainerUnhealthy critical db
			18m0s chat: ContainerUnhealthy warning db is over
		`,
	},
	{
		name:  "exactly 3 restarts",
		lasts: 15 * time.Minute,
		script: `
			1m web crashes
			2m web crashes
			3m web crashes
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
		`,
	},
	{
		name:  "4 restarts",
		lasts: 16 * time.Minute,
		script: `
			1m web crashes
			2m web crashes
			3m web crashes
			4m web crashes
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
			5m15s page: ContainerRestarts critical web
		`,
	},
	{
		name:  "4 restarts, never 4 of them within 10 minutes",
		lasts: 30 * time.Minute,
		script: `
			1m web crashes
			4m30s web crashes
			8m web crashes
			11m30s web crashes
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
			23m0s chat: ContainerRestarts warning web is over
		`,
	},
	{
		name: "a deploy tells nobody anything", lasts: 15 * time.Minute,
		script: `
			1m web is deployed
			3m api is deployed
			3m10s db is deployed
		`,
	},
	{
		name: "a deploy that takes 90 s tells nobody anything", lasts: 12 * time.Minute,
		script: `
			1m web is removed
			2m30s web is created
		`,
	},
	{
		name:  "a container that a target needs is removed",
		lasts: 20 * time.Minute,
		script: `
			1m web is removed
			10m a shows: web ContainerMissing critical; web TargetDown pending, container of web
			14m web is created
		`,
		notifications: `
			7m15s page: ContainerMissing critical web
			8m0s chat: ContainerMissing critical web
			18m0s chat: ContainerMissing critical web is over
		`,
	},
	{
		name:  "a container that nothing needs is removed",
		lasts: 12 * time.Minute,
		script: `
			1m other is removed
			10m a shows: other ContainerMissing warning; other TargetDown critical
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			10m30s chat: ContainerMissing warning other; TargetDown warning other
		`,
	},
	{
		name:  "a dependency stops: only it is reported, and what needs it has 2 minutes to come back",
		lasts: 22 * time.Minute,
		script: `
			1m db stops
			1m5s api fails
			1m5s web fails
			3m a shows: api TargetDown pending, dependency of db; db ContainerDown warning; web TargetDown pending, dependency of api
			10m a shows: api TargetDown pending, dependency of db; db ContainerDown critical; web TargetDown pending, dependency of api
			11m db starts
			12m api answers
			12m30s web answers
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical db
			14m0s chat: ContainerDown warning db is over
		`,
	},
	{
		name:  "a dependency stops, and what needs it does not come back",
		lasts: 20 * time.Minute,
		script: `
			1m db stops
			1m5s api fails
			11m db starts
			12m a shows: api TargetDown pending, dependency of db
			14m a shows: api TargetDown critical
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical db
			14m0s chat: ContainerDown warning db is over
			14m15s page: TargetDown critical api
			15m0s chat: TargetDown warning api
		`,
	},
	{
		name:  "what needs the dependency failed 2 minutes before it",
		lasts: 14 * time.Minute,
		script: `
			1m api fails
			3m db stops
			5m a shows: api TargetDown warning, also db; db ContainerDown warning
		`,
		notifications: `
			5m30s chat: TargetDown warning api
			6m0s chat: ContainerDown warning db
			7m45s page: TargetDown critical api
			9m15s page: ContainerDown critical db
		`,
	},
	{
		name:  "what needs the dependency is seen to fail half a minute before it",
		lasts: 14 * time.Minute,
		script: `
			1m api fails
			1m30s db stops
			9m a shows: api TargetDown pending, dependency of db; db ContainerDown critical
		`,
		notifications: `
			4m30s chat: ContainerDown warning db
			7m45s page: ContainerDown critical db
		`,
	},
	{
		name:  "a paged problem does not end when its cause appears",
		lasts: 20 * time.Minute,
		script: `
			1m api fails
			8m db stops
			12m a shows: api TargetDown critical, also db; db ContainerDown warning
			14m db starts
			15m api answers
		`,
		notifications: `
			5m30s chat: TargetDown warning api
			7m45s page: TargetDown critical api
			11m0s chat: ContainerDown warning db
			14m15s page: ContainerDown critical db
		`,
	},
	{
		name:  "a container is up for 3 minutes and restarting for 30 s, and its target is dead all along",
		lasts: 12 * time.Minute,
		script: `
			1m web fails
			4m web dies
			4m30s web comes back
			7m30s web dies
			8m web comes back
			11m web dies
			11m30s web comes back
		`,
		notifications: `
			5m0s chat: TargetDown warning web
			7m15s page: TargetDown critical web
			10m0s chat: ContainerRestarts warning web; TargetDown warning web
		`,
	},
	{
		name:  "a dependency is down for 30 s in every 2 minutes, and what needs it is dead",
		lasts: 10 * time.Minute,
		script: `
			1m api fails
			1m db stops
			1m30s db starts
			3m db stops
			3m30s db starts
			5m db stops
			5m30s db starts
			7m db stops
			7m30s db starts
		`,
		notifications: `
			3m30s chat: ContainerRestarts warning db
			5m30s chat: TargetDown warning api
			7m45s page: TargetDown critical api
			8m45s page: ContainerRestarts critical db
		`,
	},
	{
		name:  "a dependency is down for 30 s in every 2 minutes, and its end meets the threshold",
		lasts: 10 * time.Minute,
		script: `
			1m api fails
			2m db stops
			2m30s db starts
			4m db stops
			4m30s db starts
			6m db stops
			6m30s db starts
			8m db stops
			8m30s db starts
		`,
		notifications: `
			4m30s chat: ContainerRestarts warning db
			6m0s chat: TargetDown warning api
			7m45s page: TargetDown critical api
			9m45s page: ContainerRestarts critical db
		`,
	},
	{
		name:  "containers that need each other excuse nobody among them",
		lasts: 10 * time.Minute,
		needs: map[string]string{"db": "api", "other": "api"},
		script: `
			1m db stops
			1m api stops
			8m a shows: api ContainerDown critical; api TargetDown pending, container of api; db ContainerDown critical
		`,
		notifications: `
			4m0s chat: ContainerDown warning api
			4m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical db
			7m15s page: ContainerDown critical api
		`,
	},
	{
		name:  "a container never gets healthy after its restart, and its target is dead",
		lasts: 12 * time.Minute,
		script: `
			1m web turns unhealthy
			1m web fails
			1m5s web restarts
			5m a shows: web ContainerRestarts warning; web TargetDown pending, starting of web
			11m a shows: web ContainerRestarts warning; web TargetDown critical, also web
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
			7m15s page: TargetDown critical web
			8m0s chat: ContainerRestarts warning web; TargetDown warning web
		`,
	},
	{
		name:  "maintenance of a container holds back what needs it, as long as it lasts",
		lasts: 26 * time.Minute,
		script: `
			1m db is maintained
			1m30s db stops
			1m40s api fails
			14m a shows: api TargetDown pending, maintenance of db; db ContainerDown pending, maintenance
			15m db is released
			16m a shows: api TargetDown pending, dependency of db; db ContainerDown critical
			23m db starts
			23m api answers
		`,
		notifications: `
			16m15s page: ContainerDown critical db
			17m0s chat: ContainerDown warning db
		`,
	},
	{
		name:  "maintenance of a target holds back no container",
		lasts: 10 * time.Minute,
		script: `
			1m web as a target is maintained
			1m30s web stops
			9m a shows: web ContainerDown critical; web TargetDown pending, maintenance
		`,
		notifications: `
			4m30s chat: ContainerDown warning web
			7m45s page: ContainerDown critical web
		`,
	},
	{
		name:  "maintenance that begins after the page resolves nothing",
		lasts: 14 * time.Minute,
		script: `
			1m web fails
			8m web as a target is maintained
			12m a shows: web TargetDown critical
		`,
		notifications: `
			4m30s chat: TargetDown warning web
			7m10s page: TargetDown critical web
		`,
	},
	{
		name:  "two lost scrapes reset nothing and resolve nothing",
		lasts: 14 * time.Minute,
		script: `
			1m other stops
			1m other fails
			4m a cannot be scraped
			5m a can be scraped
			8m a cannot be scraped
			9m a can be scraped
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:  "the exporter cannot be scraped for 6 minutes",
		lasts: 16 * time.Minute,
		script: `
			1m a cannot be scraped
			7m a can be scraped
		`,
		notifications: `
			4m15s page: ExporterDown critical
			5m0s chat: ExporterDown critical
			10m0s chat: ExporterDown critical is over
		`,
	},
	{
		name:      "the state cannot be saved for 20 minutes, nor for 10, and a restart forgets nothing",
		lasts:     60 * time.Minute,
		exporters: keeping,
		script: `
			1m a cannot save
			21m a can save
			30m other stops
			31m a cannot save
			41m a can save
			42m a is killed
		`,
		notifications: `
			18m0s chat: StateNotSaved warning a
			23m0s chat: StateNotSaved warning a is over
			33m0s chat: ContainerDown warning other
			36m15s page: ContainerDown critical other; TargetDown critical other
			38m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:  "Prometheus is restarted during an outage",
		lasts: 14 * time.Minute,
		script: `
			1m other stops
			3m prometheus restarts
			8m prometheus stops
			9m prometheus starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:  "Prometheus loses its data during an outage",
		lasts: 12 * time.Minute,
		script: `
			1m other stops
			3m prometheus loses its data
			8m prometheus loses its data
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:  "the clock of Prometheus is 90 s ahead",
		lasts: 16 * time.Minute,
		script: `
			0s prometheus is 90 s ahead
			2m other stops
			10m other starts
		`,
		notifications: `
			5m0s chat: ContainerDown warning other
			8m15s page: ContainerDown critical other; TargetDown critical other
			10m0s chat: ContainerDown warning other; TargetDown warning other
			15m0s chat: ContainerDown warning other is over; TargetDown warning other is over
		`,
	},
	{
		name:  "the clock of Prometheus is 90 s behind",
		lasts: 16 * time.Minute,
		script: `
			0s prometheus is 90 s behind
			2m other stops
			10m other starts
		`,
		notifications: `
			5m0s chat: ContainerDown warning other
			8m15s page: ContainerDown critical other; TargetDown critical other
			10m0s chat: ContainerDown warning other; TargetDown warning other
			15m0s chat: ContainerDown warning other is over; TargetDown warning other is over
		`,
	},
	{
		name:      "the exporter is restarted with its state: nothing resolves, and nothing starts anew",
		lasts:     22 * time.Minute,
		exporters: keeping,
		script: `
			1m other stops
			1m other fails
			1m web crashes
			2m db stops
			2m5s api fails
			3m a restarts
			3m10s a shows: api TargetDown pending, dependency of db; db ContainerDown warning; other ContainerDown warning; other TargetDown pending; web ContainerRestarts warning
			9m a restarts
			9m10s a shows: api TargetDown pending, dependency of db; db ContainerDown critical; other ContainerDown critical; other TargetDown critical; web ContainerRestarts warning
			12m a shows: api TargetDown pending, dependency of db; db ContainerDown critical; other ContainerDown critical; other TargetDown critical
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
			4m0s chat: ContainerDown warning other
			5m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical other; TargetDown critical other
			8m15s page: ContainerDown critical db
			9m0s chat: ContainerDown warning other; TargetDown warning other
			13m0s chat: ContainerRestarts warning web is over
		`,
	},
	{
		name:      "the exporter is killed with its state: nothing resolves, and nothing starts anew",
		lasts:     22 * time.Minute,
		exporters: keeping,
		script: `
			1m other stops
			1m other fails
			1m web crashes
			2m db stops
			2m5s api fails
			3m a is killed
			3m10s a shows: api TargetDown pending, dependency of db; db ContainerDown warning; other ContainerDown warning; other TargetDown pending; web ContainerRestarts warning
			9m a is killed
			9m10s a shows: api TargetDown pending, dependency of db; db ContainerDown critical; other ContainerDown critical; other TargetDown critical; web ContainerRestarts warning
			12m a shows: api TargetDown pending, dependency of db; db ContainerDown critical; other ContainerDown critical; other TargetDown critical
		`,
		notifications: `
			3m0s chat: ContainerRestarts warning web
			4m0s chat: ContainerDown warning other
			5m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical other; TargetDown critical other
			8m15s page: ContainerDown critical db
			9m0s chat: ContainerDown warning other; TargetDown warning other
			13m0s chat: ContainerRestarts warning web is over
		`,
	},
	{
		name:  "the exporter is restarted without a state: containers are known from the engine, targets after their threshold",
		self:  "a target with the name of the container is no other cause",
		lasts: 16 * time.Minute,
		script: `
			1m other stops
			1m other fails
			3m a restarts
			4m a shows: other ContainerDown warning; other TargetDown pending
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
			9m15s page: ContainerDown critical other; TargetDown critical other
		`,
	},
	{
		name:  "the exporter is restarted without a state while alerts fire: nothing resolves until it has looked for 5 minutes",
		self:  "without a state, it tells again what lasts",
		lasts: 30 * time.Minute,
		script: `
			1m other fails
			1m web stops
			9m a restarts
			20m other answers
			20m web starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			5m30s chat: TargetDown warning other
			7m15s page: ContainerDown critical web
			7m45s page: TargetDown critical other
			24m0s chat: ContainerDown warning web is over
			25m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:  "a target has recovered while the exporter was restarted without a state",
		lasts: 30 * time.Minute,
		script: `
			1m other fails
			9m other answers
			9m a restarts
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			20m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:  "the exporter is away for 10 minutes while alerts fire: nothing resolves",
		self:  "without a state, it tells again what lasts",
		lasts: 40 * time.Minute,
		script: `
			1m other fails
			9m a stops
			19m a starts
			30m other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			12m15s page: ExporterDown critical
			13m0s chat: ExporterDown critical
			23m0s chat: ExporterDown critical is over
			35m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:  "a target gets another name while it is down: the former one is over once, and the new one is as old",
		lasts: 30 * time.Minute,
		script: `
			1m other fails
			10m a calls other another
			11m a shows: another TargetDown critical
			20m other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			11m15s page: TargetDown critical another
			12m0s chat: TargetDown warning another
			15m30s chat: TargetDown warning other is over
			27m0s chat: TargetDown warning another is over
		`,
	},
	{
		name:  "the exporter restarts again and again",
		lasts: 40 * time.Minute,
		script: `
			1m other fails
			9m a restarts
			11m a restarts
			13m a restarts
			15m a restarts
			17m a restarts
			18m other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			16m15s page: ExporterRestarts critical a
			17m0s chat: ExporterRestarts warning a
			25m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:      "an exporter that keeps its state is killed every 5 minutes: the second outage is told, too",
		exporters: keeping,
		lasts:     54 * time.Minute,
		script: `
			1m api fails
			9m api answers
			9m a is killed
			14m a is killed
			19m a is killed
			24m a is killed
			29m a is killed
			34m a is killed
			39m a is killed
			44m api fails
			44m a is killed
			49m a is killed
		`,
		notifications: `
			5m30s chat: TargetDown warning api
			7m45s page: TargetDown critical api
			15m30s chat: TargetDown warning api is over
			26m0s chat: ExporterRestarts warning a
			48m0s chat: TargetDown warning api
			50m15s page: TargetDown critical api
		`,
	},
	{
		name:      "a pair, one of which is killed every 5 minutes: the second outage is told, too",
		exporters: pair,
		lasts:     54 * time.Minute,
		script: `
			1m api fails
			9m api answers
			9m b is killed
			14m b is killed
			19m b is killed
			24m b is killed
			29m b is killed
			34m b is killed
			39m b is killed
			44m api fails
			44m b is killed
			49m b is killed
		`,
		notifications: `
			5m30s chat: TargetDown warning api
			7m45s page: TargetDown critical api
			26m0s chat: ExporterRestarts warning b
			30m30s chat: TargetDown warning api is over
			48m30s chat: TargetDown warning api
			50m45s page: TargetDown critical api
		`,
	},
	{
		name:      "an exporter is killed every 4 minutes: that is one page",
		exporters: keeping,
		lasts:     70 * time.Minute,
		script: `
			1m a is killed
			5m a is killed
			9m a is killed
			13m a is killed
			17m a is killed
			21m a is killed
			25m a is killed
			29m a is killed
			33m a is killed
			37m a is killed
			41m a is killed
			45m a is killed
			49m a is killed
			53m a is killed
		`,
		notifications: `
			14m15s page: ExporterRestarts critical a
			15m0s chat: ExporterRestarts warning a
		`,
	},
	{
		name:      "a server has two outages, and all along a certificate that expires soon",
		exporters: alone,
		lasts:     80 * time.Minute,
		script: `
			1m a sees a certificate of 2 days
			20m web stops
			32m web starts
			60m web stops
			72m web starts
		`,
		notifications: `
			2m15s page: TLSCertificateExpiry critical web web
			3m0s chat: TLSCertificateExpiry warning web web
			23m0s chat: ContainerDown warning web; TLSCertificateExpiry warning web web
			26m15s page: ContainerDown critical web
			38m0s chat: ContainerDown warning web is over; TLSCertificateExpiry warning web web
			1h3m0s chat: ContainerDown warning web; TLSCertificateExpiry warning web web
			1h6m15s page: ContainerDown critical web
			1h18m0s chat: ContainerDown warning web is over; TLSCertificateExpiry warning web web
		`,
	},
	{
		name:      "a certificate expires soon, and a disk of the same server is full twice",
		exporters: alone,
		lasts:     80 * time.Minute,
		script: `
			1m a sees a certificate of 2 days
			10m a sees that certificate and a full disk
			20m a sees that certificate and no full disk
			60m a sees that certificate and a full disk
		`,
		notifications: `
			2m15s page: TLSCertificateExpiry critical web web
			3m0s chat: TLSCertificateExpiry warning web web
			12m15s page: DataVolumeUsage critical
			18m0s chat: DataVolumeUsage warning; TLSCertificateExpiry warning web web
			38m0s chat: DataVolumeUsage warning is over; TLSCertificateExpiry warning web web
			1h2m15s page: DataVolumeUsage critical
			1h8m0s chat: DataVolumeUsage warning; TLSCertificateExpiry warning web web
		`,
	},
	{
		name:      "a scrape is lost every 13 minutes after a brown-out: that is over all the same",
		exporters: alone,
		lasts:     60 * time.Minute,
		script: `
			1m api is flaky
			20m api is steady
			25m a cannot be scraped
			25m30s a can be scraped
			38m a cannot be scraped
			38m30s a can be scraped
			51m a cannot be scraped
			51m30s a can be scraped
		`,
		notifications: `
			11m30s chat: TargetUnstable warning api
			12m45s page: TargetUnstable critical api
			46m30s chat: TargetUnstable warning api is over
		`,
	},
	{
		name:      "one of a pair without a state starts every 14 minutes after a brown-out: that is over all the same",
		exporters: pair,
		lasts:     95 * time.Minute,
		script: `
			1m api is flaky
			20m api is steady
			25m b restarts
			39m b restarts
			53m b restarts
			67m b restarts
			81m b restarts
		`,
		notifications: `
			11m30s chat: TargetUnstable warning api
			12m45s page: TargetUnstable critical api
			1h9m0s chat: ExporterRestarts warning b
			1h26m30s chat: TargetUnstable warning api is over
		`,
	},
	{
		name:      "an exporter that keeps its state is killed every 10 minutes after a brown-out: that is over all the same",
		exporters: keeping,
		lasts:     60 * time.Minute,
		script: `
			1m api is flaky
			20m api is steady
			25m a is killed
			35m a is killed
			45m a is killed
			55m a is killed
		`,
		notifications: `
			11m30s chat: TargetUnstable warning api
			12m45s page: TargetUnstable critical api
			46m30s chat: TargetUnstable warning api is over
			57m0s chat: ExporterRestarts warning a
		`,
	},
	{
		name:      "everything stops once, then an exporter that keeps its state is killed every 4.5 minutes: MostTargetsDown ends",
		exporters: wide,
		lasts:     80 * time.Minute,
		script: `
			1m stack stops
			9m stack starts
			10m a is killed
			14m30s a is killed
			19m a is killed
			23m30s a is killed
			28m a is killed
			32m30s a is killed
			37m a is killed
			41m30s a is killed
			46m a is killed
			50m30s a is killed
			55m a is killed
			56m api fails
			59m30s a is killed
			64m a is killed
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: ContainerDown critical db; ContainerDown critical docs; ContainerDown critical irc; ContainerDown critical other; ContainerDown critical xmpp; MostTargetsDown critical; TargetDown critical other
			19m0s chat: MostTargetsDown warning is over
			24m45s page: ExporterRestarts critical a
			25m30s chat: ExporterRestarts warning a
			1h0m30s chat: TargetDown warning api
			1h2m45s page: TargetDown critical api
		`,
	},
	{
		name:      "an outage lasts while an exporter without a state is restarted three times: that is one page",
		self:      "without a state, it tells again what lasts",
		exporters: alone,
		lasts:     45 * time.Minute,
		script: `
			1m other fails
			9m a restarts
			14m a restarts
			19m a restarts
			40m a shows: other TargetDown critical
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
		`,
	},
	{
		name:      "an exporter that keeps its state loses it",
		self:      "without a state, it tells again what lasts",
		lasts:     14 * time.Minute,
		exporters: keeping,
		script: `
			1m other stops
			2m web crashes
			3m a loses its state
			4m a shows: other ContainerDown warning; other TargetDown pending
		`,
		notifications: `
			4m0s chat: ContainerRestarts warning web
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
			9m15s page: ContainerDown critical other; TargetDown critical other
			14m0s chat: ContainerRestarts warning web is over
		`,
	},
	{
		name:  "the engine does not answer for 10 minutes, and a container is down",
		lasts: 20 * time.Minute,
		script: `
			1m other stops
			2m engine hangs
			10m a shows: docker TargetDown critical; other ContainerDown critical; other TargetDown critical
			12m engine answers
			14m other starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			6m0s chat: TargetDown warning docker
			7m15s page: ContainerDown critical other; TargetDown critical other
			8m45s page: TargetDown critical docker
			9m0s chat: ContainerDown warning other; TargetDown warning other
			16m0s chat: TargetDown warning docker is over
			19m0s chat: ContainerDown warning other is over; TargetDown warning other is over
		`,
	},
	{
		name:  "a container stops, then the engine does not answer for half an hour",
		lasts: 44 * time.Minute,
		script: `
			1m web stops
			1m30s engine hangs
			30m a shows: docker TargetDown critical; web ContainerDown critical; web TargetDown pending, container of web
			31m30s engine answers
			35m web starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			7m15s page: ContainerDown critical web
			9m0s chat: ContainerDown warning web; TargetDown warning docker
			9m15s page: ContainerDown critical web; TargetDown critical docker
			39m0s chat: ContainerDown warning web is over; TargetDown warning docker is over
		`,
	},
	{
		name:  "a container comes back while the engine does not answer: its target says so",
		lasts: 20 * time.Minute,
		script: `
			1m web stops
			1m30s engine hangs
			9m a shows: docker TargetDown critical; web ContainerDown critical; web TargetDown pending, container of web
			10m web starts
			11m a shows: docker TargetDown critical
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			7m15s page: ContainerDown critical web
			9m0s chat: ContainerDown warning web; TargetDown warning docker
			9m15s page: ContainerDown critical web; TargetDown critical docker
			14m0s chat: ContainerDown warning web is over; TargetDown warning docker
		`,
	},
	{
		name:      "the exporter is killed while the engine does not answer",
		exporters: keeping,
		lasts:     20 * time.Minute,
		script: `
			1m web stops
			1m30s engine hangs
			4m a is killed
			12m a shows: docker TargetDown critical; web ContainerDown critical; web TargetDown pending, container of web
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			8m15s page: TargetDown critical docker
			9m0s chat: ContainerDown warning web; TargetDown warning docker
			10m15s page: ContainerDown critical web; TargetDown critical docker
		`,
	},
	{
		name:  "the engine is restarted",
		lasts: 14 * time.Minute,
		script: `
			1m engine stops
			1m30s engine starts
		`,
		notifications: `
			4m0s chat: ContainerRestarts warning api; ContainerRestarts warning db; ContainerRestarts warning other; ContainerRestarts warning web
			14m0s chat: ContainerRestarts warning api is over; ContainerRestarts warning db is over; ContainerRestarts warning other is over; ContainerRestarts warning web is over
		`,
	},
	{
		name:  "the engine tells no events",
		lasts: 12 * time.Minute,
		script: `
			1m engine tells no events
			2m other stops
		`,
		notifications: `
			5m0s chat: ContainerDown warning other
			8m15s page: ContainerDown critical other; TargetDown critical other
			10m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:      "a pair: one alert for what both see",
		lasts:     12 * time.Minute,
		exporters: pair,
		script: `
			1m other stops
			1m other fails
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:      "a pair: what one alone sees is a warning",
		lasts:     13 * time.Minute,
		exporters: pair,
		script: `
			1m b reaches nothing
			11m b reaches all
		`,
		notifications: `
			5m0s chat: TargetDown warning web
			5m30s chat: TargetDown warning other
			5m30s chat: TargetDown warning api
		`,
	},
	{
		name:      "a pair: one of two ends",
		lasts:     14 * time.Minute,
		exporters: pair,
		script: `
			1m a stops
			9m a starts
		`,
		notifications: `
			8m0s chat: ExporterDown warning a
			13m0s chat: ExporterDown warning a is over
		`,
	},
	{
		name:      "a pair: one of two is restarted without a state during an outage",
		lasts:     12 * time.Minute,
		exporters: pair,
		script: `
			1m other stops
			1m other fails
			4m b restarts
			9m b restarts
		`,
		notifications: `
			4m0s chat: ContainerDown warning other
			7m15s page: ContainerDown critical other; TargetDown critical other
			9m0s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:      "a pair: both end",
		lasts:     10 * time.Minute,
		exporters: pair,
		script: `
			1m a stops
			1m b stops
		`,
		notifications: `
			4m15s page: ExporterDown critical
			5m0s chat: ExporterDown critical
		`,
	},
	{
		name:      "two environments: what happens in one is told of it alone",
		lasts:     16 * time.Minute,
		exporters: twoSites,
		script: `
			1m staging other stops
			1m db stops
			1m staging api fails
			9m s shows: api TargetDown critical; other ContainerDown critical; other TargetDown critical
			9m a shows: db ContainerDown critical
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			4m0s chat: ContainerDown warning staging other
			5m30s chat: TargetDown warning staging api
			7m15s page: ContainerDown critical db
			7m15s page: ContainerDown critical staging other; TargetDown critical staging other
			7m45s page: TargetDown critical staging api
			9m0s chat: ContainerDown warning staging other; TargetDown warning staging other
		`,
	},
	{
		name:      "two environments: maintenance in one is none in the other",
		lasts:     10 * time.Minute,
		exporters: twoSites,
		script: `
			1m staging other is maintained
			1m30s staging other stops
			1m30s other stops
		`,
		notifications: `
			4m30s chat: ContainerDown warning other
			6m0s chat: TargetDown warning staging other
			7m45s page: ContainerDown critical other; TargetDown critical other
			8m15s page: TargetDown critical staging other
			9m30s chat: ContainerDown warning other; TargetDown warning other
		`,
	},
	{
		name:      "two environments: the exporter of one ends",
		lasts:     10 * time.Minute,
		exporters: twoSites,
		script: `
			1m a stops
			2m staging other stops
		`,
		notifications: `
			4m15s page: ExporterDown critical
			5m0s chat: ExporterDown critical
			5m0s chat: ContainerDown warning staging other
			8m15s page: ContainerDown critical staging other; TargetDown critical staging other
			10m0s chat: ContainerDown warning staging other; TargetDown warning staging other
		`,
	},
	{
		name:      "probes and containers by two exporters: the container excuses its target",
		lasts:     14 * time.Minute,
		exporters: apart,
		script: `
			1m web stops
			9m web starts
		`,
		notifications: `
			4m0s chat: ContainerDown warning web
			7m15s page: ContainerDown critical web
			14m0s chat: ContainerDown warning web is over
		`,
	},
	{
		name:      "probes and containers by two exporters: what a container depends on excuses no target",
		lasts:     10 * time.Minute,
		exporters: apart,
		script: `
			1m db stops
			1m5s api fails
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			5m30s chat: TargetDown warning api
			7m15s page: ContainerDown critical db
			7m45s page: TargetDown critical api
		`,
	},
	{
		name:      "probes and containers by two exporters: a paged target stays when its container stops",
		lasts:     14 * time.Minute,
		exporters: apart,
		script: `
			1m web fails
			8m web stops
			12m host shows: web ContainerDown warning
		`,
		notifications: `
			5m0s chat: TargetDown warning web
			7m15s page: TargetDown critical web
			10m0s chat: ContainerDown warning web; TargetDown warning web
		`,
	},
}
