package story

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/provider"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/silence/silencepb"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"google.golang.org/protobuf/types/known/timestamppb"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
)

var (
	firstRouting = flag.Uint64("story.routing", 1, "first seed of the random configurations of Alertmanager")
	routings     = flag.Int("story.routings", 10_000, "how many random configurations of Alertmanager there are")
)

// dice makes random configurations. Few names and values make most of them matter.
type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// several is what a function returns, for up to n times, as a list of YAML.
func (d dice) several(n int, what func() string) string { return d.list(d.IntN(n+1), what) }

func (d dice) list(n int, what func() string) string {
	var list []string
	for range n {
		list = append(list, what())
	}
	return "[" + strings.Join(list, ", ") + "]"
}

var (
	labelNames    = []string{"alertname", "severity", "stack", "env", "target"}
	labelValues   = []string{"x", "y", "xy", "critical", `b\d`, `say "no"`, "a{2}, b"}
	patterns      = []string{"x|y", "x.*", ".+", ".*", "", "c(ritical)?", "[xy]+", `b\\d`, "(?i)CRITICAL"}
	receiverNames = []string{"null", "a", "b", "c"}
	zones         = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Local"}
)

// local is the location of Alertmanager's machine. The tests of a package have one.
var local = time.Local

func (d dice) labels() map[string]string {
	set := map[string]string{}
	for _, name := range labelNames {
		if d.chance(70) {
			set[name] = pick(d, labelValues...)
		}
	}
	return set
}

// matcher is one as a scalar of YAML, in one of the forms that people write.
func (d dice) matcher() string {
	name := pick(d, labelNames...)
	text := name + pick(d, `="x"`, "=x", "!=x", ` != "y"`, `="b\\d"`, `="b\d"`, `="say \"no\""`, `=""`, `="a{2}, b"`, `= "critical" `, "=")
	if d.chance(50) {
		text = name + pick(d, "=~", "!~") + `"` + pick(d, patterns...) + `"`
	}
	if d.chance(20) {
		text = `"` + name + `"="x"`
	}
	if d.chance(15) {
		text += pick(d, ",", `, env="x"`)
	}
	if d.chance(10) {
		text = "{" + text + "}"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// matchers are the keys of a route, or with a prefix those of a side of an inhibition.
func (d dice) matchers(prefix string) string {
	value := func() string { return fmt.Sprintf("%q", pick(d, labelValues...)) }
	one := func(value func() string) string { return fmt.Sprintf("{%s: %s}", pick(d, labelNames...), value()) }
	keys := prefix + "matchers: " + d.several(2, d.matcher)
	if d.chance(20) {
		keys += ", " + prefix + "match: " + one(value)
	}
	if d.chance(20) {
		keys += ", " + prefix + "match_re: " + one(func() string { return fmt.Sprintf("%q", pick(d, patterns...)) })
	}
	return keys
}

func (d dice) route(depth int) string {
	keys := fmt.Sprintf("continue: %t, receiver: %q", d.chance(35), pick(d, receiverNames...))
	if d.chance(20) {
		keys = "continue: true"
	}
	keys += ", " + d.matchers("")
	for _, key := range []string{"mute_time_intervals", "active_time_intervals"} {
		if d.chance(20) {
			keys += ", " + key + ": " + d.several(2, func() string { return pick(d, "t0", "t1", "t2") })
		}
	}
	if depth > 0 {
		keys += ", routes: " + d.several(3, func() string { return d.route(depth - 1) })
	}
	return "{" + keys + "}"
}

// span is a range of numbers or names from low to high.
func (d dice) span(low, high int, name func(int) string) string {
	first := low + d.IntN(high-low+1)
	last := first + d.IntN(high-first+1)
	if first == last || d.chance(30) {
		return "'" + name(first) + "'"
	}
	return "'" + name(first) + ":" + name(last) + "'"
}

func (d dice) interval() string {
	plain := func(n int) string { return fmt.Sprint(n) }
	kinds := map[string]func() string{
		"times": func() string {
			first := d.IntN(24 * 60)
			last := first + 1 + d.IntN(24*60-first)
			clock := func(m int) string { return fmt.Sprintf("'%02d:%02d'", m/60, m%60) }
			return fmt.Sprintf("{start_time: %s, end_time: %s}", clock(first), clock(last))
		},
		"weekdays": func() string {
			return d.span(0, 6, func(n int) string { return pick(d, strings.ToLower, strings.ToUpper)(time.Weekday(n).String()) })
		},
		"days_of_month": func() string {
			if d.chance(30) {
				return d.span(-28, -1, plain)
			}
			if d.chance(20) {
				return fmt.Sprintf("'%d:%d'", 1+d.IntN(5), -1-d.IntN(5))
			}
			return d.span(1, 31, plain)
		},
		"months": func() string {
			return d.span(1, 12, func(n int) string { return pick(d, plain(n), strings.ToLower(time.Month(n).String())) })
		},
		"years": func() string { return d.span(2024, 2028, plain) },
	}
	var keys []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if d.chance(35) { // Alertmanager does not report an empty list, which excludes all times
			keys = append(keys, kind+": "+d.list(1+d.IntN(2), kinds[kind]))
		}
	}
	if d.chance(50) {
		keys = append(keys, "location: "+pick(d, zones...))
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

func (d dice) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route: {receiver: a, routes: %s}\n", d.several(4, func() string { return d.route(2) }))
	b.WriteString("inhibit_rules: " + d.several(4, func() string {
		equal := d.several(2, func() string { return pick(d, labelNames...) })
		return fmt.Sprintf("{%s, %s, equal: %s}", d.matchers("source_"), d.matchers("target_"), equal)
	}))
	fmt.Fprintf(&b, "\n%s:\n", pick(d, "time_intervals", "mute_time_intervals"))
	for i := range 3 {
		fmt.Fprintf(&b, "  - {name: t%d, time_intervals: %s}\n", i, d.several(2, d.interval))
	}
	b.WriteString("receivers: [{name: 'null'}, {name: a, webhook_configs: [{url: 'http://x'}]}, {name: b}, {name: c}]\n")
	return b.String()
}

// silences are some for both sides.
func (d dice) silences(now time.Time) (all []routing.Silence, theirs []*silencepb.Silence) {
	for i := range d.IntN(3) {
		begin := now.Add(time.Duration(d.IntN(200)-100) * time.Minute)
		end := begin.Add(time.Duration(1+d.IntN(200)) * time.Minute)
		s := &silencepb.Silence{Id: fmt.Sprint(i), StartsAt: timestamppb.New(begin), EndsAt: timestamppb.New(end)}
		var matchers []map[string]any
		for range 1 + d.IntN(2) {
			kind := silencepb.Matcher_Type(d.IntN(4))
			m := &silencepb.Matcher{Name: pick(d, labelNames...), Type: kind, Pattern: pick(d, labelValues[:4]...)}
			isRegex := kind == silencepb.Matcher_REGEXP || kind == silencepb.Matcher_NOT_REGEXP
			if isRegex {
				m.Pattern = pick(d, patterns...)
			}
			s.Matchers = append(s.Matchers, m)
			matchers = append(matchers, map[string]any{
				"name": m.Name, "value": m.Pattern, "isRegex": isRegex,
				"isEqual": kind == silencepb.Matcher_EQUAL || kind == silencepb.Matcher_REGEXP,
			})
		}
		theirs = append(theirs, s)
		text, err := json.Marshal(map[string]any{"id": s.Id, "startsAt": begin, "endsAt": end, "matchers": matchers})
		if err != nil {
			panic(err)
		}
		var ours routing.Silence
		if err := json.Unmarshal(text, &ours); err != nil {
			panic(err)
		}
		all = append(all, ours)
	}
	return all, theirs
}

// constantAlerts is a provider of alerts that never change.
type constantAlerts struct {
	provider.Alerts
	alerts []*alert.Alert
}

func (f constantAlerts) SlurpAndSubscribe(string) ([]*alert.Alert, provider.AlertIterator) {
	return f.alerts, provider.NewAlertIterator(make(chan *provider.Alert), make(chan struct{}), nil)
}

func setOf(from map[string]string) model.LabelSet {
	set := model.LabelSet{}
	for name, value := range from {
		set[model.LabelName(name)] = model.LabelValue(value)
	}
	return set
}

// inhibits reports whether Alertmanager's own code inhibits an alert while others fire.
func inhibits(t *testing.T, rules []common.InhibitRule, sources []map[string]string, target map[string]string) bool {
	t.Helper()
	var list constantAlerts
	for _, source := range sources {
		list.alerts = append(list.alerts, &alert.Alert{Alert: model.Alert{Labels: setOf(source), EndsAt: time.Now().Add(time.Hour)}})
	}
	inhibitor := inhibit.NewInhibitor(list, rules, slog.New(slog.DiscardHandler), eventrecorder.NopRecorder())
	done := make(chan struct{})
	go func() { inhibitor.Run(); close(done) }()
	inhibitor.WaitForLoading()
	defer func() { inhibitor.Stop(); <-done }()
	return inhibitor.Mutes(t.Context(), setOf(target))
}

// TestRoutingIsAlertmanagers compares what internal/routing says of random alerts with Alertmanager's own code: routes, inhibition,
// silences and time intervals.
func TestRoutingIsAlertmanagers(t *testing.T) {
	t.Logf("seeds %d to %d", *firstRouting, *firstRouting+uint64(*routings)-1)
	quiet := slog.New(slog.DiscardHandler)
	compat.InitFromFlags(quiet, featurecontrol.NoopFlags{}) // as Alertmanager does when it starts
	tally := map[string]int{}
	for i := range *routings {
		seed := *firstRouting + uint64(i)
		d := dice{rand.New(rand.NewPCG(seed, 45))} //nolint:gosec // it is to be repeated
		text := d.configuration()
		cfg, err := config.Load(text)
		if err != nil {
			tally["refused by Alertmanager"]++
			continue
		}
		ours, err := routing.Parse(cfg.String(), local)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		at := time.Date(2024+d.IntN(4), time.Month(1+d.IntN(12)), 1+d.IntN(31), d.IntN(24), d.IntN(60), 0, 0, time.UTC)
		set := d.labels()
		m := routing.Moment{At: at}
		for range d.IntN(4) {
			m.Firing = append(m.Firing, d.labels())
		}
		now := time.Now()
		silences, theirs := d.silences(now)
		silenced := false
		for i, one := range slices.Backward(theirs) {
			by, err := silencedBy(t, quiet, one, set)
			if silenced = silenced || by; err != nil && one.EndsAt.AsTime().After(now) {
				silences = slices.Delete(silences, i, i+1) // Alertmanager refuses it
			}
		}
		got := ours.FateOf(set, &m)
		asked := ours.FateOf(set, &routing.Moment{At: now, Silences: silences})

		want, muted := theirRoutes(t, cfg, set, at)
		inhibited := inhibits(t, cfg.InhibitRules, m.Firing, set)
		// Of several sources with the same labels, Alertmanager 0.34 looks at one only. Older versions look at all, and so do we.
		for _, source := range m.Firing {
			inhibited = inhibited || inhibits(t, cfg.InhibitRules, []map[string]string{source}, set)
		}
		names := routing.ReceiversOf(ours.RoutesOf(set))
		if !slices.Equal(got.Receivers, want) || !slices.Equal(slices.Sorted(maps.Keys(got.Muted)), muted) ||
			(got.Inhibitor != nil) != inhibited || (asked.Silence != nil) != silenced {
			t.Errorf("seed %d: %v at %s, while %v fire: got %+v, silence %v; want %v, muted %v, inhibited %t, silenced %t\n%s",
				seed, set, at, m.Firing, got, asked.Silence, want, muted, inhibited, silenced, text)
		}
		for name, counts := range map[string]bool{
			"other than the root": !slices.Equal(names, []string{"a"}), "several": len(names) > 1, "muted": len(muted) > 0,
			"inhibited": inhibited, "silenced": silenced,
		} {
			if counts {
				tally[name]++
			}
		}
		tally["compared"]++
	}
	t.Logf("%v", tally)
	for _, name := range []string{"other than the root", "several", "muted", "inhibited", "silenced"} {
		if tally[name] < *routings/100 {
			t.Errorf("%s: only %d, so that little was compared", name, tally[name])
		}
	}
}

// theirRoutes are the receivers to which Alertmanager's own code sends, and those to which it only sends at other times.
func theirRoutes(t *testing.T, cfg *config.Config, set map[string]string, at time.Time) (sends, muted []string) {
	t.Helper()
	times := map[string][]timeinterval.TimeInterval{}
	for _, i := range cfg.TimeIntervals {
		times[i.Name] = i.TimeIntervals
	}
	for _, i := range cfg.MuteTimeIntervals {
		times[i.Name] = i.TimeIntervals
	}
	intervener := timeinterval.NewIntervener(times)
	within := func(names []string) bool {
		in, _, err := intervener.Mutes(names, at)
		must(t, err)
		return in
	}
	for _, r := range dispatch.NewRoute(cfg.Route, nil).Match(setOf(set)) {
		o := &r.RouteOpts
		switch {
		case within(o.MuteTimeIntervals), len(o.ActiveTimeIntervals) > 0 && !within(o.ActiveTimeIntervals):
			muted = append(muted, o.Receiver)
		case !slices.Contains(sends, o.Receiver):
			sends = append(sends, o.Receiver)
		}
	}
	muted = slices.DeleteFunc(muted, func(name string) bool { return slices.Contains(sends, name) })
	slices.Sort(muted)
	return sends, slices.Compact(muted)
}

// silencedBy reports whether Alertmanager's own code silences an alert. It refuses a silence that has ended or would silence everything.
func silencedBy(t *testing.T, quiet *slog.Logger, s *silencepb.Silence, set map[string]string) (bool, error) {
	t.Helper()
	registry, record := prometheus.NewRegistry(), eventrecorder.NopRecorder()
	all, err := silence.New(silence.Options{
		Retention:     time.Hour,
		Logger:        quiet,
		Metrics:       registry,
		EventRecorder: record,
	})
	must(t, err)
	s.Id = ""
	if err := all.Set(t.Context(), s); err != nil {
		return false, err
	}
	return silence.NewSilencer(all, quiet, record).Mutes(t.Context(), setOf(set)), nil
}

// TestRelabelingIsPrometheus compares internal/routing with Prometheus' own code.
func TestRelabelingIsPrometheus(t *testing.T) {
	tally := map[bool]int{}
	for i := range *routings {
		seed := *firstRouting + uint64(i)
		d := dice{rand.New(rand.NewPCG(seed, 45))} //nolint:gosec // it is to be repeated
		text := d.several(4, d.relabeling)
		var theirs []*relabel.Config
		if err := yaml.Unmarshal([]byte(text), &theirs); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		valid := true
		for _, c := range theirs {
			valid = valid && c.Validate(model.UTF8Validation) == nil
		}
		if !valid {
			continue
		}
		var ours []routing.Relabeling
		must(t, yaml.Unmarshal([]byte(text), &ours))
		set := d.labels()
		builder := labels.NewBuilder(labels.FromMap(set))
		kept := relabel.ProcessBuilder(builder, theirs...)
		got := routing.Relabel(set, ours)
		if tally[kept]++; (got != nil) != kept || kept && !maps.Equal(got, builder.Labels().Map()) {
			t.Errorf("seed %d: %v by %s: got %v, want %t, %v", seed, set, text, got, kept, builder.Labels())
		}
	}
	t.Logf("seeds %d to %d: %d alerts kept, %d dropped", *firstRouting, *firstRouting+uint64(*routings)-1, tally[true], tally[false])
	if tally[true] < *routings/10 || tally[false] < *routings/10 {
		t.Error("that compares little")
	}
}

func (d dice) relabeling() string {
	sources := d.several(2, func() string { return pick(d, labelNames...) })
	action := pick(d, "replace", "Replace", "keep", "drop", "labeldrop", "labelkeep", "labelmap", "lowercase", "uppercase", "keepequal",
		"dropequal", "hashmod")
	keys := []string{"action: " + action}
	regex := func() {
		pattern := pick(d, append(patterns, "(x)(.*)", "s.*", "(.+)e(.*)")...)
		keys = append(keys, fmt.Sprintf("regex: %q", strings.ReplaceAll(pattern, `\\`, `\`)))
	}
	switch action {
	case "labeldrop", "labelkeep":
		regex()
	case "labelmap": // no two onto one name: which wins is not defined
		keys = append(keys, "regex: "+pick(d, "(s.*)", "(e.*)"), "replacement: new_$1")
	case "keep", "drop":
		regex()
		keys = append(keys, "source_labels: "+sources)
	case "replace", "Replace":
		keys = append(keys, "source_labels: "+sources, "target_label: "+pick(d, "severity", "new", "x_$1"))
		if d.chance(70) {
			regex()
		}
		if d.chance(70) {
			keys = append(keys, "replacement: "+pick(d, "$1", "critical", "'${1}-$2'", "''"))
		}
		if d.chance(30) {
			keys = append(keys, "separator: "+pick(d, "'-'", "''"))
		}
	default:
		keys = append(keys, "source_labels: "+sources, "target_label: "+pick(d, labelNames...))
		if action == "hashmod" {
			keys = append(keys, "modulus: 3")
		}
	}
	return "{" + strings.Join(keys, ", ") + "}"
}
