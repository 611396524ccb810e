package alerts

import (
	"maps"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func exporterTrials(a *config.Alerts, t *alert) []trial {
	p, hold := pace(a.Interval), t.For
	keep := p.ceil(t.keep)
	// ups are exporters that are up or down.
	ups := func(each ...[]step) []input {
		var list []input
		for i, steps := range each {
			pages := slices.Clone(steps)
			for k := range pages {
				if pages[k].value == 0 {
					pages[k].value = lost
				}
			}
			list = append(list, from(i, "up", map[string]string{"job": a.Job}, steps...),
				from(i, "chatstack_exporter_build_info", nil, pages...))
		}
		return list
	}
	fires := rise + p.ceil(hold)
	end := fires + 2
	down := []step{{value: 1}, {from: rise, value: 0}, {from: end, value: 1}}
	edges := []check{{fires - 1, false}, {fires, true}, {end + keep - 1, true}, {end + keep, false}}
	silent := []check{{fires - 1, false}, {fires, false}, {end + keep - 1, false}}
	if t.severity == Warning {
		return []trial{
			{name: "one of two", series: ups(down, steady(1)), checks: edges},
			{name: "both", series: ups(down, down), checks: silent},
			{
				name: "both, while something else is up", checks: silent,
				series: append(ups(down, down), from(0, "up", map[string]string{"job": a.Job + "2"}, steady(1)...)),
			},
			{name: "another job", series: []input{
				from(0, "up", map[string]string{"job": a.Job + "2"}, down...),
				from(1, "up", map[string]string{"job": a.Job + "2"}, steady(1)...),
			}, checks: silent},
		}
	}
	gone := []step{{value: 1}, {from: rise, value: lost}, {from: end, value: 1}}
	// vanishes is an exporter that is known no longer for a while, beside another one that differs by a label.
	vanishes := func(name string, checks []check) trial {
		series := append(with(map[string]string{name: "a"}, ups(gone)), with(map[string]string{name: "b"}, ups(steady(1)))...)
		return trial{
			name:   name + " without an exporter",
			series: series,
			checks: checks,
			alone:  true,
		}
	}
	long := append(with(map[string]string{"env": "a"}, ups([]step{{value: 1}, {from: rise, value: lost}})),
		with(map[string]string{"env": "b"}, ups(steady(1)))...)
	page := func(steps ...step) input {
		return from(0, "chatstack_exporter_build_info", nil, steps...)
	}
	// Prometheus has the exporter as down although it is lost to it for so long that both sides of the expression hold.
	both := with(map[string]string{"env": "prod"}, ups([]step{{value: 1}, {from: 1, value: 0}}))
	both[1].steps = []step{{value: 1}, {from: 1, value: lost}}
	trials := []trial{
		{name: "the only one", series: ups(down), checks: edges},
		{name: "one of two", series: ups(down, steady(1)), checks: silent},
		{name: "both", series: ups(down, down), checks: edges},
		{
			name:   "its page is another one",
			series: []input{from(0, "up", map[string]string{"job": a.Job}, steady(1)...), page(gone...)},
			checks: edges,
		},
		{
			name:   "its page is another one, beside another environment",
			checks: edges,
			alone:  true,
			series: append(with(map[string]string{"env": "a"},
				[]input{from(0, "up", map[string]string{"job": a.Job}, steady(1)...), page(gone...)}),
				with(map[string]string{"env": "b"}, ups(steady(1)))...),
		},
		{
			name:   "another job",
			series: []input{from(0, "up", map[string]string{"job": a.Job + "2"}, down...), page(steady(1)...)},
			checks: silent,
		},
		vanishes("cluster", edges), vanishes("env", edges), vanishes("part", edges), vanishes("version", silent),
		{name: "one of a pair is known no longer", series: ups(gone, steady(1)), checks: silent},
		{
			name:   "another job is known no longer",
			series: append(ups(steady(1)), from(1, "up", map[string]string{"job": a.Job + "2", "part": "x"}, gone...)),
			checks: silent,
		},
		{name: "none was ever scraped", checks: []check{{p.ceil(hold) - 1, false}, {p.ceil(hold), true}}, alone: true},
		{
			name:   "none is known",
			alone:  true,
			series: []input{page(step{value: 1}, step{from: 1, value: lost})},
			checks: []check{{p.ceil(hold), false}, {1 + p.ceil(hold), true}},
		},
		{
			name:   "the only one has been down for long",
			alone:  true,
			series: both,
			checks: []check{{1 + p.ceil(hold) + 20, true}},
		},
	}
	// A day has too many rounds to be tried.
	if n := p.within(t.settings.Remember); n < 200 && n > p.ceil(hold) {
		trials = append(trials, trial{
			name:   "an environment is removed",
			alone:  true,
			series: long,
			checks: []check{{rise - 1 + n, true}, {rise - 1 + p.beyond(t.settings.Remember) + keep, false}},
		})
	}
	return trials
}

// with adds labels to series.
func with(labels map[string]string, series []input) []input {
	for i := range series {
		maps.Copy(series[i].labels, labels)
	}
	return series
}

// relayTrials have the series of the first exporter vanish, to which another leaves the check of a bridge.
func relayTrials(a *config.Alerts, t *alert) []trial {
	p := pace(a.Interval)
	checks := func(side string, steps ...step) input {
		return from(0, "chatstack_relay_session_up", map[string]string{"target": "bridge", "side": side}, steps...)
	}
	leaves := func(exporter int, kind string, steps ...step) input {
		return from(exporter, "chatstack_target_left_to_first", map[string]string{"target": "bridge", "kind": kind}, steps...)
	}
	keep, quiet := p.ceil(t.keep), rise-1+p.within(a.Lookback)+p.ceil(t.hold)
	fires := rise - 1 + p.beyond(a.Lookback) + p.ceil(t.hold)
	end := fires + 2
	gone := []step{{value: 0}, {from: rise, value: lost}, {from: end, value: 1}}
	left := []step{{value: 1}, {from: end, value: lost}}
	silent := []check{{quiet, false}, {fires, false}}
	other := func(label string, series input) input {
		return with(map[string]string{label: "b"}, []input{series})[0]
	}
	trials := []trial{
		{
			name: "the first is down", series: []input{leaves(1, "relay", steady(1)...), checks("irc", gone...), checks("xmpp", gone...)},
			checks: []check{{quiet, false}, {fires, true}, {end + keep - 1, true}, {end + keep, false}},
		},
		{
			name: "the other does not leave it any more", series: []input{leaves(1, "relay", left...)},
			checks: []check{
				{p.ceil(t.hold) - 1, false},
				{p.ceil(t.hold), true},
				{end - 1 + p.within(a.Lookback) + keep, true},
				{end - 1 + p.beyond(a.Lookback) + keep, false},
			},
		},
		{name: "one side of it is checked", series: []input{leaves(1, "relay", steady(1)...), checks("irc", steady(0)...)}, checks: silent},
		{name: "nobody leaves it to another", series: []input{checks("irc", gone...)}, checks: silent},
		{name: "another kind is left", series: []input{leaves(1, "irc_tls", steady(1)...)}, checks: silent},
		{
			name:   "two leave it",
			series: []input{leaves(0, "relay", steady(1)...), leaves(1, "relay", steady(1)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "another target is checked",
			series: []input{leaves(1, "relay", steady(1)...), other("target", checks("irc", steady(1)...))},
			checks: []check{{fires, true}},
		},
	}
	// An exporter that checks cannot tell whether messages cross.
	blind := func(name string, steps ...step) input {
		return from(0, "chatstack_problem_"+name, map[string]string{"alert": t.name, "severity": Warning, "target": "bridge"}, steps...)
	}
	anotherProblem := blind("seconds", steady(1)...)
	anotherProblem.labels["alert"] = "RelaySessionDown"
	told := rise + p.ceil(t.hold)
	trials = append(trials,
		trial{
			name:   "a check finds out nothing",
			series: []input{blind("seconds", step{value: 0}, step{from: rise, value: 1}, step{from: told + 2, value: 0})},
			checks: []check{{told - 1, false}, {told, true}, {told + 1 + keep, true}, {told + 2 + keep, false}},
		},
		trial{name: "the check has another problem", series: []input{anotherProblem}, checks: []check{{told + 5, false}}},
		trial{
			name: "something explains that a check finds out nothing", checks: []check{{told, false}, {told + 5, false}},
			series: []input{blind("seconds", steady(1)...), blind("excused", steady(1)...)},
		})
	for _, label := range environment {
		if label == "env" { // each trial has a value of its own
			continue
		}
		trials = append(trials, trial{
			name:   "another " + label + " checks its own",
			checks: []check{{fires, true}},
			series: []input{leaves(1, "relay", steady(1)...), other(label, checks("irc", steady(1)...))},
		})
	}
	return trials
}

// checksumTrials have other rules deployed for a while.
func checksumTrials(a *config.Alerts, t *alert) []trial {
	p, keep := pace(a.Interval), pace(a.Interval).ceil(t.keep)
	info := func(exporter int, checksum string, steps ...step) input {
		return from(exporter, "chatstack_rules_info", map[string]string{"checksum": checksum}, steps...)
	}
	fires := rise + p.ceil(t.hold)
	end := fires + 2
	same := t.checksum
	return []trial{
		{name: "the same rules", series: []input{info(0, same, steady(1)...)}, checks: []check{{fires, false}}},
		{
			name:   "other rules for a while",
			series: []input{info(0, "other", step{value: lost}, step{from: rise, value: 1}, step{from: end, value: lost})},
			checks: []check{
				{fires - 1, false},
				{fires, true},
				{end - 1 + p.within(a.Lookback) + keep, true},
				{end - 1 + p.beyond(a.Lookback) + keep, false},
			},
		},
		{
			name:   "both exporters have others",
			series: []input{info(0, "other", steady(1)...), info(1, "another", steady(1)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "one of two exporters has others",
			series: []input{info(0, same, steady(1)...), info(1, "other", steady(1)...)},
			checks: []check{{fires, true}},
		},
	}
}

// pollTrials compare two times of one exporter. The clock goes, by next to nothing, so that the limits are exact, but in the last
// trials.
// ageClock is the exporter's clock in trials about ages, and ageTick what it goes on in a round.
const ageClock, ageTick = 1e6, -0.001

// newAge returns the time of something that may not be older than the alert's limit, beside the exporter's clock.
func newAge(a *config.Alerts, t *alert, name string) *subject {
	after := t.For.Std().Seconds()
	s := newSubject(a, t, name, nil, 0)
	s.good, s.bad, s.each = ageClock-after, ageClock-above(after), true
	s.beside = []input{{name: "chatstack_exporter_time_seconds", steps: []step{{value: ageClock, by: ageTick}}}}
	return s
}

// clocked are the series of an age that is just allowed, with another clock.
func (s *subject) clocked(steps ...step) []input {
	series := s.series(0, steady(s.good)...)
	series[1].steps = steps
	return series
}

// ageTrials test an age, which grows with the exporter's clock.
func ageTrials(a *config.Alerts, t *alert, s *subject) []trial {
	after := t.For.Std().Seconds()
	late := ageClock + above(after) - after
	lostClock := s.series(0, steady(s.bad)...)
	lostClock[1].steps = []step{{value: ageClock, by: ageTick}, {from: rise, value: lost}}
	within, beyond := rise-1+s.pace.within(a.Lookback), rise-1+s.pace.beyond(a.Lookback)
	return append(s.trials(),
		trial{
			name:   "its clock goes on",
			series: s.clocked(step{value: ageClock, by: ageTick}, step{from: rise, value: late, by: ageTick}),
			checks: []check{{rise - 1, false}, {rise, true}},
		},
		trial{
			name:   "its clock is set back",
			series: s.clocked(step{value: late, by: ageTick}, step{from: rise, value: ageClock, by: ageTick}),
			checks: []check{{rise - 1, true}, {rise + s.pace.ceil(s.keep), false}},
		},
		trial{
			name:   "its clock is lost",
			series: lostClock,
			checks: []check{{within + s.pace.ceil(s.keep), true}, {beyond + s.pace.ceil(s.keep), false}},
		},
		trial{
			name: "its clock is another one than Prometheus'", checks: []check{{rise, false}},
			series: []input{
				from(0, s.name, nil, steady(5e9-after)...), from(0, "chatstack_exporter_time_seconds", nil, step{value: 5e9, by: ageTick}),
			},
		})
}

func pollTrials(a *config.Alerts, t *alert) []trial {
	s := newAge(a, t, "poll_last_completed_timestamp_seconds")
	after := t.For.Std().Seconds()
	// seldom is a scrape each so many rounds.
	seldom := func(n int, value, by float64) []step {
		var steps []step
		for at := 0; at < 3*n+30; at += n {
			steps = append(steps, step{from: at, value: value + by*float64(at)}, step{from: at + 1, value: missing})
		}
		return steps
	}
	// An old page has the same time again and again. Whether a sample counts that is just as old as the window depends on the version.
	least, most := rise-2+s.pace.floor(t.For), rise+s.pace.ceil(t.For)
	return append(ageTrials(a, t, s),
		trial{
			name: "its page stands still", checks: []check{{least, false}, {most, true}},
			series: s.clocked(step{value: ageClock - after, by: 1}, step{from: rise, value: ageClock}),
		},
		trial{
			name:   "it returns the same page from the first scrape on",
			series: s.clocked(step{value: lost}, step{from: rise, value: ageClock}),
			checks: []check{{rise - 1 + s.pace.floor(t.For), false}, {most, true}},
		},
		trial{
			name:   "every other scrape is lost, and its page stands still",
			series: s.clocked(seldom(2, ageClock, 0)...),
			checks: []check{{most + 1, true}},
		},
		trial{name: "every other scrape is lost", series: s.clocked(seldom(2, ageClock-after, 1)...), checks: []check{{most + 1, false}}},
		trial{name: "one scrape in the time", series: s.clocked(seldom(most, ageClock, 0)...), checks: []check{{2*most - 1, false}}},
		trial{
			name: "another exporter's page that it reads stands still", checks: []check{{most, false}},
			series: append(s.clocked(step{value: ageClock, by: ageTick}),
				from(1, "chatstack_exporter_time_seconds", map[string]string{"target": "other"}, steady(ageClock)...)),
		})
}

// labelTrials have one label after another overwritten.
func labelTrials(a *config.Alerts, t *alert) []trial {
	p, name := pace(a.Interval), "chatstack_label_check"
	keep, fires := p.ceil(t.keep), rise+p.ceil(t.hold)
	ours := func(exporter int, steps ...step) input { return from(exporter, name, LabelCheck(), steps...) }
	overwritten := func(exporter int, label string, steps ...step) input {
		labels := LabelCheck()
		labels["exported_"+label], labels[label] = labels[label], "theirs"
		return from(exporter, name, labels, steps...)
	}
	trials := []trial{
		{name: "all labels arrive", series: []input{ours(0, steady(1)...)}, checks: []check{{fires + 2, false}}},
		{
			name:   "one of two exporters",
			series: []input{ours(0, steady(1)...), overwritten(1, "container", steady(1)...)},
			checks: []check{{fires, true}},
		},
		{
			name:   "both exporters",
			series: []input{overwritten(0, "endpoint", steady(1)...), overwritten(1, "endpoint", steady(1)...)},
			checks: []check{{fires, true}},
			each:   true,
		},
	}
	end := fires + 2
	for _, label := range slices.Sorted(maps.Keys(LabelCheck())) {
		trials = append(trials, trial{
			name: label + " is overwritten",
			series: []input{
				ours(0, step{value: 1}, step{from: rise, value: lost}, step{from: end, value: 1}),
				overwritten(0, label, step{value: lost}, step{from: rise, value: 1}, step{from: end, value: lost}),
			},
			checks: []check{
				{fires - 1, false},
				{fires, true},
				{end - 1 + p.within(a.Lookback) + keep, true},
				{end - 1 + p.beyond(a.Lookback) + keep, false},
			},
		})
	}
	lostAt := fires + 2
	return append(trials, trial{
		name: "two scrapes are lost", checks: []check{{lostAt, true}, {lostAt + 1, true}, {lostAt + 2, true}},
		series: []input{overwritten(0, "target", step{value: 1}, step{from: lostAt, value: lost}, step{from: lostAt + 2, value: 1})},
	})
}

// scrapeTrials scrape as often as is just enough, and a little less often.
func scrapeTrials(a *config.Alerts, t *alert) []trial {
	p, window := pace(a.Interval), fewestScrapes*a.Lookback
	rounds, hold, keep := p.ceil(window), p.ceil(t.hold), p.ceil(t.keep)
	job := map[string]string{"job": a.Job}
	// every is a scrape each so many rounds, up to a round.
	every := func(n, to int) []step {
		var steps []step
		for at := 0; at < to; at += n {
			steps = append(steps, step{from: at, value: 1}, step{from: at + 1, value: missing})
		}
		return steps
	}
	const begin = 1
	// In any window of enough there are enough scrapes, and in none of tooFew.
	enough, tooFew := p.floor(a.Lookback), p.ceil(window)/(fewestScrapes-1)+1
	last := begin + rounds + hold + 2*tooFew
	seldom := from(0, "up", job, every(tooFew, last+1)...)
	// again is when there are enough scrapes again if they are in each round after the last,
	// with those at the edge of the window or without.
	again := func(edge config.Duration) int {
		for n := last + 1; ; n++ {
			count := n - last
			for at := 0; at <= last; at += tooFew {
				if config.Duration(n-at)*config.Duration(p) < window+edge {
					count++
				}
			}
			if count >= fewestScrapes {
				return n
			}
		}
	}
	return []trial{
		{
			name:   "scrapes as far apart as may be",
			series: []input{from(0, "up", job, every(enough, last+1)...)},
			checks: []check{{last - 1, false}, {last, false}},
		},
		{name: "scrapes a little further apart", series: []input{seldom}, checks: []check{{hold - 1, false}, {hold, true}, {last, true}}},
		{
			name:   "another job",
			series: []input{from(0, "up", map[string]string{"job": a.Job + "2"}, every(tooFew, last+1)...)},
			checks: []check{{last, false}},
		},
		{
			name:   "an exporter is found",
			series: []input{from(0, "up", job, step{value: lost}, step{from: rise, value: 1})},
			checks: []check{{rise + hold - 1, false}, {rise + hold, false}, {last, false}},
		},
		{name: "an exporter is down", series: []input{from(0, "up", job, steady(0)...)}, checks: []check{{last, false}}},
		{name: "one of two exporters", series: []input{seldom, from(1, "up", job, steady(1)...)}, checks: []check{{last, true}}},
		{
			name:   "both exporters",
			series: []input{seldom, from(1, "up", job, every(tooFew, last+1)...)},
			checks: []check{{last, true}},
			each:   true,
		},
		{
			name: "scrapes are close again", checks: []check{{last, true}, {again(1) - 1 + keep, true}, {again(0) + keep, false}},
			series: []input{from(0, "up", job, append(every(tooFew, last+1), step{from: last + 1, value: 1})...)},
		},
	}
}

// clockTrials have the exporter's clock ahead of Prometheus', or behind it. Prometheus' clock starts at 0.
func clockTrials(a *config.Alerts, t *alert) []trial {
	p, name, limit := pace(a.Interval), "chatstack_exporter_time_seconds", t.settings.Apart.Std().Seconds()
	keep, fires := p.ceil(t.keep), rise+p.ceil(t.hold)
	end := fires + 2
	// ahead is a clock that is ahead of Prometheus' by so many seconds.
	ahead := func(from int, by float64) step { return step{from: from, value: p.time(from) + by, by: p.time(1)} }
	clock := func(exporter int, steps ...step) input { return from(exporter, name, nil, steps...) }
	edges := []check{{fires - 1, false}, {fires, true}, {end + keep - 1, true}, {end + keep, false}}
	apart := func(by float64) []input { return []input{clock(0, ahead(0, 0), ahead(rise, by), ahead(end, 0))} }
	foreign := clock(0, ahead(0, 10*limit))
	foreign.labels["target"] = "another"
	return []trial{
		{name: "the same time", series: []input{clock(0, ahead(0, 0))}, checks: []check{{fires, false}}},
		{name: "ahead", series: apart(above(limit)), checks: edges},
		{name: "behind", series: apart(-above(limit)), checks: edges},
		{name: "ahead by no more", series: apart(limit), checks: []check{{fires, false}}},
		{name: "behind by no more", series: apart(-limit), checks: []check{{fires, false}}},
		{name: "one of two exporters", series: []input{clock(0, ahead(0, 0)), clock(1, ahead(0, 2*limit))}, checks: []check{{fires, true}}},
		{
			name:   "both exporters",
			series: []input{clock(0, ahead(0, 2*limit)), clock(1, ahead(0, 2*limit))},
			checks: []check{{fires, true}},
			each:   true,
		},
		{name: "on a page that the exporter reads", series: []input{foreign}, checks: []check{{fires, false}}},
	}
}
