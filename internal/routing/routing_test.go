package routing

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

func shippedRouting(t *testing.T, name string) *Routing {
	t.Helper()
	content, err := os.ReadFile("../../deploy/alertmanager/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(string(content), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestShippedConfigurationsAreRead holds what TestRealRoutesGoWhereTheSeveritySays has from amtool.
func TestShippedConfigurationsAreRead(t *testing.T) {
	for _, tt := range []struct {
		file, alert, severity string
		drill                 bool
		want                  []string
		uses                  string
		first, next           time.Duration
	}{
		{
			"alertmanager.yml",
			"ChatstackDrill",
			"none",
			true,
			[]string{"drill"},
			"email",
			0,
			5 * time.Minute,
		},
		{
			"alertmanager.yml",
			"ChatstackDrill",
			"critical",
			true,
			[]string{"page"},
			"email, webhook",
			45 * time.Second,
			2 * time.Minute,
		},
		{
			"alertmanager.yml",
			"ChatstackDrill",
			"warning",
			true,
			[]string{"chat"},
			"slack",
			90 * time.Second,
			5 * time.Minute,
		},
		{
			"alertmanager.yml",
			"Watchdog",
			"none",
			false,
			[]string{"heartbeat"},
			"webhook",
			0,
			time.Minute,
		},
		{
			"alertmanager.yml",
			"PollStalled",
			"critical",
			false,
			[]string{"page", "chat"},
			"email, webhook",
			90 * time.Second,
			5 * time.Minute,
		},
		{
			"first.yml",
			"ChatstackDrill",
			"none",
			true,
			[]string{"drill"},
			"slack",
			0,
			2 * time.Minute,
		},
		{
			"first.yml",
			"Watchdog",
			"none",
			false,
			[]string{"nobody"},
			"",
			90 * time.Second,
			2 * time.Minute,
		},
	} {
		r := shippedRouting(t, tt.file)
		labels := map[string]string{"alertname": tt.alert, "severity": tt.severity, "stack": "chat"}
		if tt.drill {
			labels["drill"] = "true"
		}
		routes := r.RoutesOf(labels)
		var got []string
		for _, route := range routes {
			got = append(got, route.Receiver)
		}
		first, next := Waits(routes)
		if !slices.Equal(got, tt.want) || r.Uses(got[0]) != tt.uses || first != tt.first || next != tt.next {
			t.Errorf("%s: %v goes to %v (%s), after %s and %s; want %+v",
				tt.file, labels, got, r.Uses(got[0]), first, next, tt)
		}
	}
}

func TestMatchersAreReadInEveryForm(t *testing.T) {
	labels := map[string]string{"a": "x", "b c": `say "no", {y}`}
	for line, want := range map[string]bool{
		`a="x"`: true, `a=x`: true, `a = "x"`: true, `a="y"`: false, `a!="y"`: true, `a!=x`: false, `a=~"x|y"`: true, `a=~"xx?y"`: false,
		`a!~"y.*"`: true, `a!~x`: false,
		`{a="x"}`: true, `{a="x",missing=""}`: true, `a="x", a=~"y"`: false, `"b c"="say \"no\", {y}"`: true, `a="x",`: true,
		`missing!=""`: false, `{}`: true, ``: true, `a=~"\w"`: true, `a!~"\d\\w"`: true, `"b c"=~".*\"no\".*"`: true,
	} {
		parsed, err := parseMatchers(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := !slices.ContainsFunc(parsed, func(m matcher) bool { return !m.matches(labels) }); got != want {
			t.Errorf("%s: matches: %t", line, got)
		}
	}
	for _, line := range []string{`a`, `a="x" b="y"`, `="x"`, `a=~"("`, `a="x`} {
		if _, err := parseMatchers(line); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}

func TestRoutesOfOldConfigurationsAreRead(t *testing.T) {
	r, err := Parse(`
route:
  receiver: a
  group_wait: 10s
  routes:
    - {match: {severity: none}, receiver: b, continue: true, group_wait: 0s}
    - match_re: {severity: none|info}
      routes: [{match: {drill: "false"}, receiver: c}]
receivers: [{name: a, webhook_configs: [{url: x}, {url: y}]}, {name: b}]
`, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, route := range r.RoutesOf(map[string]string{"severity": "none", "drill": "true"}) {
		got = append(got, route.Receiver)
	}
	if !slices.Equal(got, []string{"b", "a"}) || r.Integrations["a"]["webhook"] != 2 {
		t.Errorf("routes to %v, integrations %v", got, r.Integrations)
	}
	for _, config := range []string{
		"", "route: [", "route: {receiver: a, matchers: ['a']}", "route: {receiver: a, match_re: {a: '('}}",
		"route: {receiver: a, routes: [null]}",
	} {
		if _, err := Parse(config, time.UTC); err == nil {
			t.Errorf("%q is read", config)
		}
	}
}

// TestFateOfAnAlert has each thing that holds an alert back. internal/e2e/story compares thousands of others with Alertmanager's own code.
func TestFateOfAnAlert(t *testing.T) {
	r, err := Parse(`
route:
  receiver: a
  routes:
    - {receiver: b, matchers: [x=y], active_time_intervals: [office], continue: true}
    - {receiver: c, matchers: [x=y], mute_time_intervals: [may_day], continue: true}
    - {receiver: c, matchers: [x=z], mute_time_intervals: [may_day], continue: true}
    - {receiver: c, matchers: [x=z]}
inhibit_rules:
  - {source_matchers: [s=1], target_matchers: [x=~"y|z"], equal: [env, missing]}
time_intervals:
  - name: office
    time_intervals: [{weekdays: ['monday:friday'], times: [{start_time: '09:00', end_time: '17:00'}], location: Local}]
mute_time_intervals:
  - name: may_day
    time_intervals: [{months: [may], days_of_month: ['1', '-31'], years: ['2026:2027']}]
receivers: [{name: a}, {name: b}, {name: c, email_configs: [{to: x}]}]
`, time.FixedZone("", 2*60*60))
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 5, day, hour, minute, 0, 0, time.UTC) }
	y, z := map[string]string{"x": "y", "env": "e"}, map[string]string{"x": "z", "env": "e"}
	for _, tt := range []struct {
		labels map[string]string
		m      Moment
		want   string
	}{
		{nil, Moment{At: at(1, 12, 0)}, "[a] map[] false"},
		{y, Moment{At: at(4, 6, 59)}, "[c] map[b:sends only during office] false"},
		{y, Moment{At: at(4, 7, 0)}, "[b c] map[] false"},
		{y, Moment{At: at(4, 14, 59)}, "[b c] map[] false"},
		{y, Moment{At: at(4, 15, 0)}, "[c] map[b:sends only during office] false"},
		{y, Moment{At: at(2, 12, 0)}, "[c] map[b:sends only during office] false"}, // Saturday
		{y, Moment{At: at(1, 12, 0)}, "[b] map[c:sends nothing during may_day] false"},
		{z, Moment{At: at(1, 12, 0)}, "[c] map[] false"}, // another route to c sends
		{z, Moment{At: at(1, 12, 0), Firing: []map[string]string{{"s": "1", "env": "e"}}}, "[c] map[] true"},
		{z, Moment{At: at(1, 12, 0), Firing: []map[string]string{{"s": "1", "env": "f"}, {"s": "2", "env": "e"}, nil}}, "[c] map[] false"},
		{z, Moment{At: at(1, 12, 0), Firing: []map[string]string{{"s": "1", "env": "e", "missing": "m"}}}, "[c] map[] false"},
	} {
		fate := r.FateOf(tt.labels, &tt.m)
		if got := fmt.Sprintf("%v %v %t", fate.Receivers, fate.Muted, fate.Inhibitor != nil); got != tt.want {
			t.Errorf("%v at %s: %s, want %s", tt.labels, tt.m.At, got, tt.want)
		}
	}
	if served := r.Served([]string{"a", "b", "c"}); !slices.Equal(served, []string{"c"}) {
		t.Errorf("%v notify somebody", served)
	}
	for _, wrong := range []string{
		"time_intervals: [{weekdays: [mon]}]", "time_intervals: [{times: [{start_time: noon, end_time: '13:00'}]}]",
		"time_intervals: [{location: Nowhere}]",
	} {
		if _, err := Parse("route: {receiver: a}\ntime_intervals: [{name: x, "+wrong+"}]", time.UTC); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}

// TestNothingChangesBetweenBoundaries compares each minute of a week with the boundary before it.
func TestNothingChangesBetweenBoundaries(t *testing.T) {
	r, err := Parse(`
route: {receiver: a, mute_time_intervals: [lunch, weekend, first]}
time_intervals:
  - name: lunch
    time_intervals:
      - {times: [{start_time: '12:05', end_time: '12:50'}, {start_time: '23:00', end_time: '24:00'}], location: Asia/Kathmandu}
  - {name: weekend, time_intervals: [{weekdays: [saturday, sunday], location: Asia/Tokyo}]}
  - {name: first, time_intervals: [{days_of_month: ['1']}]}
`, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	begin, changes := time.Date(2026, 4, 29, 12, 40, 0, 0, time.UTC), 0
	boundaries, route := r.Boundaries(begin), r.RoutesOf(nil)[0]
	for at, last := begin, r.Mutes(route, begin); at.Before(begin.AddDate(0, 0, 7)); at = at.Add(time.Minute) {
		now := r.Mutes(route, at)
		if now != last && !slices.Contains(boundaries, at) {
			t.Errorf("%s: %q", at, now)
		}
		if now != last {
			changes++
		}
		last = now
	}
	if changes < 20 || !slices.IsSortedFunc(boundaries, time.Time.Compare) || boundaries[0].Before(begin) {
		t.Errorf("%d changes, boundaries %v", changes, boundaries)
	}
}

func TestRelabelingChangesOrDropsAnAlert(t *testing.T) {
	labels := map[string]string{"severity": "critical", "env": "prod"}
	for entries, want := range map[string]string{
		"": "map[env:prod severity:critical]",
		"{source_labels: [severity], regex: critical, action: drop}":                          "map[]",
		"{source_labels: [severity], regex: crit, action: Drop}":                              "map[env:prod severity:critical]",
		"{source_labels: [env, severity], regex: prod;critical, action: keep}":                "map[env:prod severity:critical]",
		"{source_labels: [env], target_label: shard, modulus: 7, action: hashmod}":            "map[env:prod severity:critical shard:6]",
		"{regex: env, action: labeldrop}":                                                     "map[severity:critical]",
		"{regex: env, action: labelkeep}":                                                     "map[env:prod]",
		"{source_labels: [env], target_label: severity}":                                      "map[env:prod severity:prod]",
		"{source_labels: [env], regex: '(p)(.*)', target_label: $1, replacement: $2}":         "map[env:prod p:rod severity:critical]",
		"{target_label: severity, replacement: ''}":                                           "map[env:prod]",
		"{source_labels: [env], target_label: env, action: uppercase}":                        "map[env:PROD severity:critical]",
		"{regex: env, replacement: to, action: labelmap}":                                     "map[env:prod severity:critical to:prod]",
		"{source_labels: [env], target_label: severity, action: keepequal}":                   "map[]",
		"{target_label: env, replacement: x}, {source_labels: [env], regex: x, action: drop}": "map[]",
		"{source_labels: [env, severity], separator: '-', target_label: env, action: lowercase}": "map[env:prod-critical " +
			"severity:critical]",
		"{source_labels: [env], target_label: severity, action: dropequal}": "map[env:prod severity:critical]",
	} {
		var parsed []Relabeling
		if err := yaml.Unmarshal([]byte("["+entries+"]"), &parsed); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(Relabel(labels, parsed)); got != want {
			t.Errorf("%s: %s, want %s", entries, got, want)
		}
	}
}
