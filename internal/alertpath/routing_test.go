package alertpath

import (
	"os"
	"slices"
	"testing"
	"time"
)

func shippedRouting(t *testing.T, name string) *routing {
	t.Helper()
	content, err := os.ReadFile("../../deploy/alertmanager/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseRouting(string(content))
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
		uses, timed           string
		first, next           time.Duration
	}{
		{
			"alertmanager.yml",
			"ChatstackDrill",
			"none",
			true,
			[]string{"drill"},
			"email",
			"",
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
			"",
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
			"sends only during waking_hours",
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
			"",
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
			"",
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
			"",
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
		routes := r.routesOf(labels)
		var got []string
		for _, route := range routes {
			got = append(got, route.Receiver)
		}
		first, next := waits(routes)
		if !slices.Equal(got, tt.want) || r.uses(got[0]) != tt.uses || timed(routes) != tt.timed || first != tt.first || next != tt.next {
			t.Errorf("%s: %v goes to %v (%s), %q, after %s and %s; want %+v",
				tt.file, labels, got, r.uses(got[0]), timed(routes), first, next, tt)
		}
	}
}

func TestMatchersAreReadInEveryForm(t *testing.T) {
	labels := map[string]string{"a": "x", "b c": `say "no", {y}`}
	for line, want := range map[string]bool{
		`a="x"`: true, `a=x`: true, `a = "x"`: true, `a="y"`: false, `a!="y"`: true, `a!=x`: false, `a=~"x|y"`: true, `a=~"xx?y"`: false,
		`a!~"y.*"`: true, `a!~x`: false,
		`{a="x"}`: true, `{a="x",missing=""}`: true, `a="x", a=~"y"`: false, `"b c"="say \"no\", {y}"`: true, `a="x",`: true,
		`missing!=""`: false, `{}`: true, ``: true,
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
	r, err := parseRouting(`
route:
  receiver: a
  group_wait: 10s
  routes:
    - {match: {severity: none}, receiver: b, continue: true, group_wait: 0s}
    - match_re: {severity: none|info}
      routes: [{match: {drill: "false"}, receiver: c}]
receivers: [{name: a, webhook_configs: [{url: x}, {url: y}]}, {name: b}]
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, route := range r.routesOf(map[string]string{"severity": "none", "drill": "true"}) {
		got = append(got, route.Receiver)
	}
	if !slices.Equal(got, []string{"b", "a"}) || r.integrations["a"]["webhook"] != 2 {
		t.Errorf("routes to %v, integrations %v", got, r.integrations)
	}
	for _, config := range []string{"", "route: [", "route: {receiver: a, matchers: ['a']}", "route: {receiver: a, match_re: {a: '('}}"} {
		if _, err := parseRouting(config); err == nil {
			t.Errorf("%q is read", config)
		}
	}
}
