package alerts

import (
	"fmt"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// newSubject returns a gauge that fires above a limit, without gates.
func newSubject(a *config.Alerts, t *alert, name string, labels map[string]string, limit float64) *subject {
	return &subject{
		pace:     pace(a.Interval),
		name:     "chatstack_" + name,
		labels:   labels,
		good:     limit,
		bad:      above(limit),
		keep:     t.keep,
		lookback: a.Lookback,
	}
}

// excusedBy adds a gate that is 1 while something excuses the subject, and 0 otherwise.
func (s *subject) excusedBy(a *config.Alerts, name string) *gate {
	s.gates = append(s.gates, gate{
		name:     "chatstack_" + name,
		labels:   s.labels,
		open:     0,
		shut:     1,
		optional: true,
		lookback: a.Lookback,
	})
	return &s.gates[len(s.gates)-1]
}

// heldBackBy adds a gate that exists only while maintenance holds the alert back.
func (s *subject) heldBackBy(a *config.Alerts, name string, labels map[string]string) *gate {
	s.gates = append(s.gates, gate{
		name:     "chatstack_" + name,
		labels:   labels,
		open:     lost,
		shut:     1,
		optional: true,
		lookback: a.Lookback,
	})
	return &s.gates[len(s.gates)-1]
}

var container = map[string]string{"container": "web", "docker_host": "local"}

func drillTrials(*config.Alerts, *alert) []trial {
	series := func(steps ...step) input {
		return from(0, "chatstack_drill", map[string]string{"id": "a", "severity": None}, steps...)
	}
	return []trial{
		{
			name:   "a drill",
			series: []input{series(step{value: lost}, step{from: rise, value: 1}, step{from: rise + 3, value: lost})},
			checks: []check{{rise - 1, false}, {rise, true}, {rise + 2, true}, {rise + 3, false}},
		},
		{name: "no drill", series: []input{series(steady(0)...)}, checks: []check{{rise, false}}},
	}
}

func memoryTrials(a *config.Alerts, t *alert) []trial {
	s := newSubject(a, t, "container_memory_working_set_bytes", container, float64(t.Over))
	s.hold, s.born = t.For, true
	s.excusedBy(a, "container_memory_excused").wait = s.hold
	if t.severity == Critical {
		return s.trials()
	}
	info := func(role string) map[string]string {
		return map[string]string{
			"container": "web", "docker_host": "local", "role": role, "image": "x", "compose_project": "x", "compose_service": "x",
		}
	}
	s.gates = append(s.gates, gate{
		name:     "chatstack_container_info",
		labels:   info("xmpp"),
		open:     1,
		shut:     lost,
		lookback: a.Lookback,
		wait:     s.hold,
	})
	other := *s
	other.gates = []gate{{name: "chatstack_container_info", labels: info("irc"), open: 1}}
	return append(s.trials(),
		trial{name: "it is another server", series: other.series(0, steady(s.bad)...), checks: []check{{s.pace.ceil(s.hold) + 2, false}}})
}

func volumeTrials(a *config.Alerts, t *alert) []trial {
	labels := map[string]string{"volume": "data"}
	s := newSubject(a, t, "volume_used_ratio", labels, float64(t.Over)/100)
	s.bad = max(s.good*1.005, 0.001)
	s.hold, s.born = t.For, true
	s.heldBackBy(a, "volume_excused", labels).wait = s.hold
	return s.trials()
}

// certificateTrials test the exact limit separately, since the remaining time decreases with each round.
func certificateTrials(a *config.Alerts, t *alert) []trial {
	under := t.Under.Std().Seconds()
	leaf := map[string]string{"endpoint": "x", "source": "leaf"}
	s := newSubject(a, t, "tls_certificate_not_after_timestamp_seconds", leaf, 0)
	s.good, s.bad, s.lookback = 1e10, under*0.995, a.SlowLookback
	s.heldBackBy(a, "tls_certificate_excused", map[string]string{"endpoint": "x"})
	chain := map[string]string{"endpoint": "x", "source": "verified_chain"}
	return append(append(s.trials(), expiryLimitTrials(a, t, s, under)...),
		trial{
			name:   "the limit is reached",
			series: s.series(0, steady(s.pace.time(rise)+under)...),
			checks: []check{{rise, false}, {rise + 1, true}},
		},
		trial{name: "the limit is passed", series: s.series(0, steady(s.pace.time(rise)+under*0.995)...), checks: []check{{rise, true}}},
		trial{name: "it has expired", series: s.series(0, steady(-1)...), checks: []check{{rise, true}}},
		trial{
			name: "one certificate of the chain expires", checks: []check{{rise, true}},
			series: append(s.series(0, steady(s.good)...), from(0, s.name, chain, steady(s.bad)...)),
		},
		trial{
			name: "the whole chain expires", checks: []check{{rise, true}},
			series: append(s.series(0, steady(s.bad)...), from(0, s.name, chain, steady(s.bad)...)),
		})
}

// expiryLimitTrials have exporters that know the limit of the endpoint's certificate, which counts instead of the rule's.
func expiryLimitTrials(a *config.Alerts, t *alert, s *subject, under float64) []trial {
	limit := func(exporter int, endpoint, severity string, steps ...step) input {
		return from(exporter, "chatstack_tls_certificate_expiry_limit_seconds",
			map[string]string{"endpoint": endpoint, "severity": severity}, steps...)
	}
	other := Critical
	if t.severity == Critical {
		other = Warning
	}
	keep := s.pace.ceil(s.keep)
	within, beyond := rise-1+s.pace.within(a.SlowLookback), rise-1+s.pace.beyond(a.SlowLookback)
	// many is more than the rule's limit until all trials have ended.
	end := s.pace.time(beyond + keep + 3)
	many := steady(end + under*1.01)
	lower, part, higher := end*0.5, (end+under)*0.6, (end+under)*2
	with := func(certificate []step, more ...input) []input { return append(s.series(0, certificate...), more...) }
	own := func(value float64) input { return limit(0, "x", t.severity, steady(value)...) }
	return []trial{
		{name: "its limit is lower", series: with(steady(under*0.99), own(under*0.5)), checks: []check{{0, false}}},
		{name: "its limit is lower and reached", series: with(steady(under*0.49), own(under*0.5)), checks: []check{{0, true}}},
		{name: "its limit is higher", series: with(many, own(higher)), checks: []check{{0, true}, {rise, true}}},
		{name: "its limit is higher and not reached", series: with(steady(1e10), own(higher)), checks: []check{{rise, false}}},
		{
			name:   "its other severity has another limit",
			series: with(many, limit(0, "x", other, steady(higher)...)),
			checks: []check{{0, false}, {rise, false}},
		},
		{
			name:   "another endpoint has another limit",
			series: with(many, limit(0, "y", t.severity, steady(higher)...)),
			checks: []check{{0, false}, {rise, false}},
		},
		{
			name:   "one of two exporters has a higher limit",
			series: with(many, own(lower), limit(1, "x", t.severity, steady(higher)...)),
			checks: []check{{0, true}, {rise, true}},
		},
		{
			name:   "both exporters have the same limit",
			series: with(many, own(part), limit(1, "x", t.severity, steady(part)...)),
			checks: []check{{0, false}, {rise, false}},
		},
		{
			name:   "one of two exporters has no limit",
			series: slices.Concat(s.series(0, many...), s.series(1, many...), []input{own(higher)}),
			checks: []check{{0, true}, {rise, true}},
		},
		{
			name:   "its limit falls",
			series: with(many, limit(0, "x", t.severity, step{value: higher}, step{from: rise, value: lower})),
			checks: []check{{rise - 1, true}, {rise + keep, false}},
		},
		{
			name:   "its limit rises",
			series: with(many, limit(0, "x", t.severity, step{value: lower}, step{from: rise, value: higher})),
			checks: []check{{rise - 1, false}, {rise, true}},
		},
		{
			name:   "its limit is lost",
			series: with(many, limit(0, "x", t.severity, step{value: higher}, step{from: rise, value: lost})),
			checks: []check{{within, true}, {within + keep, true}, {beyond + keep, false}},
		},
	}
}

func targetTrials(a *config.Alerts, t *alert) []trial {
	limit := t.For.Std().Seconds()
	long, earlier := limit+61, max(1, min(60, limit))
	s := newSubject(a, t, "target_down_seconds", map[string]string{"target": "web", "kind": "http"}, limit)
	s.all = t.severity == Critical
	web := map[string]string{"target": "web"}
	s.excusedBy(a, "target_excused").labels = web
	if t.severity == Critical {
		s.gates = append(s.gates, gate{
			name:     "chatstack_target_pages",
			labels:   web,
			open:     1,
			shut:     0,
			optional: true,
			lookback: a.Lookback,
		})
	}
	// pages sets target_pages to 0 at one exporter and to a value at the other.
	pages := func(other float64) []input {
		return []input{
			from(0, s.name, s.labels, steady(long)...), from(0, "chatstack_target_pages", web, steady(0)...),
			from(1, s.name, s.labels, steady(long)...), from(1, "chatstack_target_pages", web, steady(other)...),
		}
	}
	there := map[string]string{"container": "c", "docker_host": "far"}
	info := map[string]string{"target": "web", "kind": "http", "container": "c", "docker_host": "far"}
	// on puts the target's container on the other exporter's engine.
	on := func(down, container []step) []input {
		return append(s.series(0, down...), from(0, "chatstack_target_info", info, steady(1)...),
			from(1, "chatstack_container_down_seconds", there, container...))
	}
	gone := []step{{value: long}, {from: rise, value: lost}}
	within, beyond := rise-1+s.pace.within(a.Lookback), rise-1+s.pace.beyond(a.Lookback)
	// both lets both exporters know the target and its container, which one of them found down later.
	both := func(first, later float64) []input {
		return append(on(steady(long), steady(first)), from(0, "chatstack_container_down_seconds", there, steady(later)...),
			from(1, "chatstack_target_info", info, steady(1)...))
	}
	another := map[string]string{"target": "web", "kind": "http", "container": "d", "docker_host": "far"}
	two := append(on(steady(long), steady(long)), from(1, "chatstack_target_info", another, steady(1)...),
		from(1, "chatstack_container_down_seconds", map[string]string{"container": "d", "docker_host": "far"}, steady(1)...))
	infoLost := on(steady(long), steady(long))
	infoLost[len(infoLost)-2].steps = []step{{value: 1}, {from: rise, value: lost}}
	// nowhere lacks the engine of the target's container.
	nowhere := on(steady(long), steady(long))
	nowhere[len(nowhere)-2] = from(0, "chatstack_target_info",
		map[string]string{"target": "web", "kind": "http", "container": "c"}, steady(1)...)
	trials := append(s.trials(),
		trial{name: "no exporter pages about it", series: pages(0), checks: []check{{rise, t.severity == Warning}}},
		trial{name: "one of two exporters pages about it", series: pages(1), checks: []check{{rise, true}}},
		trial{name: "a container of the same name is down on another host", series: nowhere, checks: []check{{rise, true}}},
		trial{
			name:   "its container elsewhere went down soon after it",
			series: on(steady(long), steady(long-earlier+1)),
			checks: []check{{rise, false}},
		},
		trial{
			name:   "its container elsewhere went down later",
			series: on(steady(long), steady(long-earlier)),
			checks: []check{{rise, true}},
		},
		trial{name: "its container elsewhere runs", series: on(steady(s.bad), steady(0)), checks: []check{{rise, true}}},
		trial{
			name:   "its container elsewhere was started",
			series: on(steady(long), []step{{value: long}, {from: rise, value: 0}}),
			checks: []check{{within, false}, {beyond, true}},
		},
		trial{
			name:   "its container elsewhere goes down",
			series: on(steady(long), []step{{value: 0}, {from: rise, value: long}}),
			checks: []check{{rise - 1, true}, {rise + s.pace.ceil(s.keep), false}},
		},
		trial{name: "two exporters know its container", series: both(long-earlier+1, 1), checks: []check{{rise, false}}},
		trial{
			name:   "two exporters know its container, which went down later",
			series: both(long-earlier, long-earlier),
			checks: []check{{rise, true}},
		},
		trial{name: "one of its two containers has been down for long", series: two, checks: []check{{rise, false}}},
		trial{name: "the other exporter is lost", series: on(steady(long), gone), checks: []check{{within, false}, {beyond, true}}},
		trial{name: "its container is forgotten", series: infoLost, checks: []check{{within, false}, {beyond, true}}})
	if t.severity == Critical {
		return trials
	}
	refused := func(alert string, seconds float64) []input {
		labels := map[string]string{"alert": alert, "target": "web", "severity": "warning", "of": "x"}
		return append(s.series(0, steady(long)...), from(0, "chatstack_problem_seconds", labels, steady(seconds)...))
	}
	chain := a.Of(tlsChainInvalid.Key).For.Std().Seconds()
	return append(trials,
		trial{name: "its certificate is refused", series: refused("TLSChainInvalid", above(chain)), checks: []check{{rise, false}}},
		trial{
			name:   "its certificate has not been refused for long",
			series: refused("TLSChainInvalid", chain),
			checks: []check{{rise, true}},
		},
		trial{
			name:   "something else is wrong with it",
			series: refused("UpstreamSeriesDropped", above(chain)),
			checks: []check{{rise, true}},
		})
}

// problem is a problem that the exporter detects itself. The rules only compare how long it has lasted.
var problem = evidence{
	expr: func(_ *config.Alerts, t *alert) string {
		series := warningsAny
		if t.severity == Critical {
			series = criticalAll
		}
		return fmt.Sprintf("%s{alert=%q}", series, t.name) + aboveSeconds(t.For)
	},
	trials: problemTrials,
}

func problemTrials(a *config.Alerts, t *alert) []trial {
	labels := func(severity string) map[string]string {
		return map[string]string{"alert": t.name, "severity": severity, "target": "x", "of": "y"}
	}
	s := newSubject(a, t, "problem_seconds", labels(t.severity), t.For.Std().Seconds())
	s.all = t.severity == Critical
	s.excusedBy(a, "problem_excused")
	other := Warning
	if t.severity == Warning {
		other = Critical
	}
	alone, another := *s, *s
	alone.labels, another.labels = labels(other), labels(t.severity)
	another.labels["alert"] = "Another"
	both := append(alone.series(0, steady(s.bad)...), s.series(0, steady(s.bad)...)...)
	return append(s.trials(),
		trial{name: "it has the other severity", series: alone.series(0, steady(s.bad)...), checks: []check{{rise, false}}},
		trial{name: "it is another problem", series: another.series(0, steady(s.bad)...), checks: []check{{rise, false}}},
		trial{name: "it has both severities", series: both, checks: []check{{rise, true}}})
}

// loginTrials judge a rate: it is a little above or below its limit, comes in bursts, or is shared by two hosts.
func loginTrials(a *config.Alerts, t *alert) []trial {
	p, limit := pace(a.Interval), float64(t.Over)
	window, keep := t.settings.Window, p.ceil(t.keep)
	// each is by how much the counter increases in a round, at a number per minute.
	each := func(perMinute float64) float64 { return perMinute * p.time(1) / 60 }
	below, beyond := each(limit*0.995), each(max(limit*1.005, 0.5))
	count := func(exporter int, host string, steps ...step) input {
		return from(exporter, "xmpp_c2s_auth_failure_total", map[string]string{"host": host}, steps...)
	}
	begin := p.ceil(window) + 2
	// burst is enough for the whole window at once.
	burst := beyond * float64(p.ceil(window)+1)
	rising := func(by float64) []step { return []step{{value: 0}, {from: begin, value: burst * by / beyond, by: by}} }
	fires := begin + p.ceil(t.hold)
	excuse := func(steps ...step) input { return from(0, "chatstack_xmpp_auth_failures_excused", nil, steps...) }
	change := fires + 2
	trials := []trial{
		{name: "below the limit", series: []input{count(0, "x", step{by: below})}, checks: []check{{fires + 5, false}}},
		{
			name:   "above the limit",
			series: []input{count(0, "x", rising(beyond)...)},
			checks: []check{{fires - 1, false}, {fires, true}, {fires + begin + keep, true}},
		},
		{
			name:   "two hosts together",
			series: []input{count(0, "x", rising(beyond/2)...), count(0, "y", rising(beyond/2)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "one of two exporters finds it",
			series: []input{count(0, "x", rising(beyond)...), count(1, "x", steady(0)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "both exporters find it",
			series: []input{count(0, "x", rising(beyond)...), count(1, "x", rising(beyond)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "each of two exporters is below",
			series: []input{count(0, "x", step{by: below}), count(1, "x", step{by: below})},
			checks: []check{{fires + 5, false}},
		},
		{
			name:   "maintenance begins",
			series: []input{count(0, "x", rising(beyond)...), excuse(step{value: lost}, step{from: change, value: 1})},
			checks: []check{
				{change - 1, true}, {change + keep - 1, true}, {change + keep, false},
			},
		},
		{
			name:   "maintenance ends",
			series: []input{count(0, "x", rising(beyond)...), excuse(step{value: 1}, step{from: change, value: lost})},
			checks: []check{
				{change - 1 + p.within(a.Lookback) + p.ceil(t.hold), false}, {change - 1 + p.beyond(a.Lookback) + p.ceil(t.hold), true},
			},
		},
	}
	// Prometheus 3 and 2 see a burst for this long: in the window, and in what the alert remembers.
	least, most := p.ceil(window)+1, p.floor(window)+2
	if p.ceil(t.hold) < least {
		trials = append(trials, trial{
			name: "one burst", series: []input{count(0, "x", step{value: 0}, step{from: begin, value: burst * 10})},
			checks: []check{{begin + least - 1 + keep, true}, {begin + most + keep, false}},
		})
	}
	// Bursts that are as far apart as that, and a little further.
	bursts := func(every int) []input {
		var steps []step
		for n, last := 0, fires+2*every; n <= last; n += every {
			steps = append(steps, step{from: n, value: burst * 10 * float64(n/every)})
		}
		return []input{count(0, "x", steps...)}
	}
	trials = append(trials,
		trial{name: "bursts that the window bridges", series: bursts(least), checks: []check{{fires + p.ceil(window), true}}})
	if apart := most + 1; p.ceil(t.hold) >= most {
		trials = append(trials, trial{
			name:   "bursts that it does not",
			series: bursts(apart),
			checks: []check{{fires + apart, false}, {fires + apart - 1, false}},
		})
	}
	if at := begin + p.ceil(window) + 2; at+2 < fires {
		steps := []step{
			{value: 0},
			{from: begin, value: burst, by: beyond},
			{from: at, value: lost},
			{from: at + 2, value: burst + beyond*float64(at+2-begin), by: beyond},
		}
		trials = append(trials, trial{
			name:   "two scrapes are lost",
			series: []input{count(0, "x", steps...)},
			checks: []check{{fires - 1, false}, {fires, true}},
		})
	}
	return slices.Clip(trials)
}
