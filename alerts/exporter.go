package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on the exporters, their scrapes and the rules. All but ExporterDown fire for each exporter separately.

const exporterName = "Exporter {{ $labels.instance }}"

// up is Prometheus' own series of the exporters' scrapes.
func up(a *config.Alerts) string { return fmt.Sprintf("up{job=%q}", a.Job) }

var exporterDown = row{
	name: "ExporterDown",
	AlertKind: kind("exporter_down", config.Keys("remember", "warning", "for", "keep_firing_for", "critical", "for", "keep_firing_for"),
		config.AlertSettings{Warning: lasting(5*minute, 0), Critical: lasting(2*minute, 0), Remember: day}, func(c *config.AlertCheck) {
			c.Scrapes("remember", c.Remember)
			c.AtLeast("remember", c.Remember, c.Critical.For+c.Alerts.Lookback,
				"exporter_down.critical.for and alerts.lookback, or the alert could never fire")
		}),
	server:    theExporter,
	timed:     true,
	elsewhere: true,
	evidence:  evidence{expr: exporterDownExpr, trials: exporterTrials},
	panels:    []string{"exporter/Scraped"},
	warning: message{
		"one of several exporters: <after>", exporterName + " is down; another one still watches.",
		"Prometheus has not scraped it for over <for>. First read its log, then start it.",
	},
	// Where exporters watch different things, the label part says what is unmonitored.
	critical: message{
		"no exporter left in an environment that had one within <remember>, or none known at all: <after>",
		"No chatstack_exporter is reachable{{ with $labels.env }} in {{ . }}{{ end }}; " +
			"{{ with $labels.part }}{{ . }}{{ else }}the chat stack{{ end }} is unmonitored.",
		"Prometheus has not scraped any for over <for>. Until it does, no other alert about {{ with $labels.part }}it{{ else }}the " +
			"stack{{ end }} can fire. Start an exporter, and look at the stack yourself.",
	},
}

// exporterDownExpr is critical if all known exporters are down or something else answers for them; or an environment lost its last
// exporter; or none is known.
func exporterDownExpr(a *config.Alerts, t *alert) string {
	if t.severity == Warning {
		return fmt.Sprintf("%s == 0 unless ignoring (%s) %s == 0", up(a), list(scrapeLabels, foreign...), exporterUp)
	}
	return fmt.Sprintf("%[1]s == 0 or present_over_time(%[1]s[%[2]s]) unless on (%[3]s) %[1]s or absent(%[1]s)",
		exporterUp, seconds(t.settings.Remember), list(environment))
}

func exporterTrials(a *config.Alerts, t *alert) []trial {
	hold, keep := t.rounds()
	// ups are exporters that are up or down.
	ups := func(each ...[]step) (list []input) {
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
	fires := rise + hold
	end := fires + 2
	down := []step{{value: 1}, {from: rise, value: 0}, {from: end, value: 1}}
	edges := between(fires, end+keep)
	silent := []check{{fires - 1, false}, {fires, false}, {end + keep - 1, false}}
	if t.severity == Warning {
		return []trial{
			try("one of two", ups(down, steady(1)), edges...),
			try("both", ups(down, down), silent...),
			try("both, while something else is up",
				append(ups(down, down), from(0, "up", map[string]string{"job": a.Job + "2"}, steady(1)...)), silent...),
			try("another job", []input{
				from(0, "up", map[string]string{"job": a.Job + "2"}, down...),
				from(1, "up", map[string]string{"job": a.Job + "2"}, steady(1)...),
			}, silent...),
		}
	}
	gone := []step{{value: 1}, {from: rise, value: lost}, {from: end, value: 1}}
	// vanishes is an exporter that is known no longer for a while, beside another one that differs by a label.
	vanishes := func(name string, checks []check) trial {
		series := append(with(map[string]string{name: "a"}, ups(gone)), with(map[string]string{name: "b"}, ups(steady(1)))...)
		return try(name+" without an exporter", series, checks...).apart()
	}
	long := append(with(map[string]string{"env": "a"}, ups([]step{{value: 1}, {from: rise, value: lost}})),
		with(map[string]string{"env": "b"}, ups(steady(1)))...)
	page := func(steps ...step) input {
		return from(0, "chatstack_exporter_build_info", nil, steps...)
	}
	// Prometheus has the exporter as down although it is lost to it for so long that both sides of the expression hold.
	both := with(map[string]string{"env": "prod"}, ups([]step{{value: 1}, {from: 1, value: 0}}))
	// A day has too many rounds to be tried.
	remembered := t.within(t.settings.Remember)
	return append([]trial{
		try("the only one", ups(down), edges...),
		try("one of two", ups(down, steady(1)), silent...),
		try("both", ups(down, down), edges...),
		try("its page is another one", []input{from(0, "up", map[string]string{"job": a.Job}, steady(1)...), page(gone...)}, edges...),
		try("its page is another one, beside another environment", append(with(map[string]string{"env": "a"},
			[]input{from(0, "up", map[string]string{"job": a.Job}, steady(1)...), page(gone...)}),
			with(map[string]string{"env": "b"}, ups(steady(1)))...),
			edges...).apart(),
		try("another job", []input{from(0, "up", map[string]string{"job": a.Job + "2"}, down...), page(steady(1)...)}, silent...),
		vanishes("cluster", edges), vanishes("env", edges), vanishes("part", edges), vanishes("version", silent),
		try("one of a pair is known no longer", ups(gone, steady(1)), silent...),
		try("another job is known no longer",
			append(ups(steady(1)), from(1, "up", map[string]string{"job": a.Job + "2", "part": "x"}, gone...)), silent...),
		try("none was ever scraped", nil, check{hold - 1, false}, check{hold, true}).apart(),
		try("none is known", []input{page(step{value: 1}, step{from: 1, value: lost})},
			check{hold, false}, check{1 + hold, true}).apart(),
		try("the only one has been down for long", both, check{1 + hold + 20, true}).apart(),
	}, when(remembered < 200 && remembered > hold, try("an environment is removed", long,
		t.forgotten(rise, keep, t.settings.Remember, true)...).apart())...)
}

var exporterRestarts = row{
	name: "ExporterRestarts",
	AlertKind: kind("exporter_restarts", config.Keys("window", "over", "keep_firing_for"),
		config.AlertSettings{Level: over(3, 0, 15*minute), Window: 15 * minute}, config.ScrapesFit,
		func(c *config.AlertCheck) { c.Number("over", c.Over, config.MaxCount) }),
	server:    theExporter,
	elsewhere: true,
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return fmt.Sprintf("changes(process_start_time_seconds{job=%q,target=\"\"}[%s]) > %d", a.Job, seconds(restartWindow(t)), t.Over)
		},
		trials: restartTrials,
	},
	warning: message{
		"<more> or more restarts within <windows>", exporterName + " restarts often: {{ $value }} restarts in <windows>.", restartsText,
	},
	critical: message{
		"<more> or more restarts within <window>", exporterName + " keeps restarting: {{ $value }} restarts in <window>.", restartsText,
	},
}

const restartsText = "New problems may not be seen, and what has ended may be told late. " +
	"First read its log: the last lines of the run before say why it ended."

// restartWindows is how much longer restarts count for the warning: one every five minutes is too seldom to page.
const restartWindows = 4

func restartWindow(t *alert) config.Duration {
	if t.severity == Warning {
		return restartWindows * t.settings.Window
	}
	return t.settings.Window
}

// restartTrials start an exporter again every other round.
func restartTrials(a *config.Alerts, t *alert) []trial {
	window, most := restartWindow(t), int(t.Over)
	_, keep := t.rounds()
	starts := func(n int) (steps []step) {
		steps = []step{{value: 1000}}
		for i := range n {
			steps = append(steps, step{from: rise + 2*i, value: 2000 + float64(i)})
		}
		return steps
	}
	process := func(exporter int, job, target string, steps []step) input {
		labels := map[string]string{"job": job}
		if target != "" {
			labels["target"] = target
		}
		return from(exporter, "process_start_time_seconds", labels, steps...)
	}
	last := rise + 2*most
	return append([]trial{
		try("as often as may be", []input{process(0, a.Job, "", starts(most))}, check{last - 2, false}, check{last, false}),
		try("another job", []input{process(0, a.Job+"2", "", starts(most+1))}, check{last, false}),
		try("a page that the exporter reads", []input{process(0, a.Job, "another", starts(most+1))}, check{last, false}),
	}, when(last < t.within(window)+rise, try("once more", []input{process(0, a.Job, "", starts(most+1))}, append([]check{{last - 1, false}, {last, true}},
		t.forgotten(rise, keep, window, true)...)...),
		try("one of two exporters", []input{process(0, a.Job, "", starts(most+1)), process(1, a.Job, "", steady(1000))}, check{last, true}))...)
}

var pollStalled = row{
	name: "PollStalled",
	AlertKind: kind("poll_stalled", config.Keys("after", "keep_firing_for"),
		config.AlertSettings{Level: lasting(3*minute, 0)}, func(c *config.AlertCheck) {
			c.AtLeast("after", c.For, c.Alerts.Lookback+oldestHeartbeat,
				fmt.Sprintf("alerts.lookback + %s, the maximum age of a heartbeat", oldestHeartbeat.Std()))
		}),
	server:    theExporter,
	elsewhere: true,
	evidence: evidence{
		// All times are by the exporter's clock, so that Prometheus' does not matter. If that clock stands still,
		// scrapes return an old page.
		expr: func(a *config.Alerts, t *alert) string {
			return age(a, "chatstack_poll_last_completed_timestamp_seconds") + aboveSeconds(t.For) +
				fmt.Sprintf(" or delta(%s[%s]) == 0 and chatstack_exporter_time_seconds offset %[2]s", exporterClock, seconds(t.For))
		},
		trials: pollTrials,
	},
	panels: []string{"exporter/Poll loop heartbeat"},
	critical: message{
		"", exporterName + " has stopped polling; its data is stale.",
		"It has not polled for over <for>, or something between it and Prometheus serves an old page. New problems raise no alert. " +
			"First restart it.",
	},
}

// age returns how long ago the time of a series is by the exporter's own clock.
func age(a *config.Alerts, series string) string {
	return latest(a, "chatstack_exporter_time_seconds") + " - " + latest(a, series)
}

// ageClock is the exporter's clock in trials about ages. It goes on by ageTick in a round, which is next to nothing, so that the limits are
// exact.
const ageClock, ageTick = 1e6, -0.001

// newAge returns the time of something that may not be older than the alert's limit, beside the exporter's clock.
func newAge(a *config.Alerts, t *alert, name string) *subject {
	after := t.For.Std().Seconds()
	s := newSubject(a, t, name, nil, 0)
	s.good, s.bad, s.times = ageClock-after, ageClock-above(after), 2
	s.beside = []input{{name: "chatstack_exporter_time_seconds", steps: []step{{value: ageClock, by: ageTick}}}}
	return s
}

// clocked are the series of an age that is just allowed, with another clock.
func (s *subject) clocked(steps ...step) []input {
	series := s.series(0, steady(s.good)...)
	series[1].steps = steps
	return series
}

// ageTrials compare two times of one exporter.
func ageTrials(a *config.Alerts, t *alert, s *subject) []trial {
	after := t.For.Std().Seconds()
	late := ageClock + above(after) - after
	lostClock := s.series(0, steady(s.bad)...)
	lostClock[1].steps = []step{{value: ageClock, by: ageTick}, {from: rise, value: lost}}
	return append(s.trials(),
		try("its clock goes on", s.clocked(step{value: ageClock, by: ageTick}, step{from: rise, value: late, by: ageTick}),
			check{rise - 1, false}, check{rise, true}),
		try("its clock is set back", s.clocked(step{value: late, by: ageTick}, step{from: rise, value: ageClock, by: ageTick}),
			check{rise - 1, true}, check{rise + t.ceil(s.keep), false}),
		try("its clock is lost", lostClock, t.forgotten(rise, t.ceil(s.keep), a.Lookback, true)...),
		try("its clock is another one than Prometheus'", []input{
			from(0, s.name, nil, steady(5e9-after)...),
			from(0, "chatstack_exporter_time_seconds", nil, step{value: 5e9, by: ageTick}),
		}, check{rise, false}))
}

// pollTrials also have pages that stand still. There the clock goes as clocks do.
func pollTrials(a *config.Alerts, t *alert) []trial {
	s := newAge(a, t, "poll_last_completed_timestamp_seconds")
	after := t.For.Std().Seconds()
	// seldom is a scrape each so many rounds.
	seldom := func(every int, value, by float64) []input { return s.clocked(scraped(every, 3*every+30, value, by)...) }
	// An old page has the same time again and again. Whether a sample counts that is just as old as the window depends on the version.
	least, most := rise-2+t.floor(t.For), rise+t.ceil(t.For)
	return append(ageTrials(a, t, s),
		try("its page stands still", s.clocked(step{value: ageClock - after, by: 1}, step{from: rise, value: ageClock}),
			check{least, false}, check{most, true}),
		try("it returns the same page from the first scrape on", s.clocked(step{value: lost}, step{from: rise, value: ageClock}),
			check{rise - 1 + t.floor(t.For), false}, check{most, true}),
		try("every other scrape is lost, and its page stands still", seldom(2, ageClock, 0), check{most + 1, true}),
		try("every other scrape is lost", seldom(2, ageClock-after, 1), check{most + 1, false}),
		try("one scrape in the time", seldom(most, ageClock, 0), check{2*most - 1, false}),
		try("another exporter's page that it reads stands still", append(s.clocked(step{value: ageClock, by: ageTick}),
			from(1, "chatstack_exporter_time_seconds", map[string]string{"target": "other"}, steady(ageClock)...)),
			check{most, false}))
}

// oldestHeartbeat is the maximum age of the heartbeat in the metrics of a running poll loop: it beats every 10 s, and every second beat
// refreshes the metrics.
const oldestHeartbeat = config.Duration(20 * time.Second)

// exporterClock is the exporter's clock. That of an exporter that is a target of this one is as old as the probe.
const exporterClock = `chatstack_exporter_time_seconds{target=""}`

// The names of the alerts on the exporter itself that it also tells of without Prometheus.
const (
	ConfigReloadFailed   = "ConfigReloadFailed"
	StateNotSaved        = "StateNotSaved"
	NotificationsFailing = "NotificationsFailing"
)

var configReloadFailed = row{
	name: ConfigReloadFailed,
	AlertKind: kind("config_reload_failed", holdKeys,
		config.AlertSettings{Level: lasting(5*minute, 0)}, func(c *config.AlertCheck) {
			if c.For != 0 && c.For < c.Alerts.Lookback {
				c.Faultf("for", "is %s, must be 0s or at least %s: alerts.lookback, so that two lost scrapes change nothing",
					c.For.Std(), c.Alerts.Lookback.Std())
			}
		}),
	server: theExporter,
	itself: true,
	page: Words{
		"the exporter could not reload its configuration",
		"Run `chatstack_exporter check-config`, or read its log. It keeps running with the previous one, but a restart may fail.",
	},
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			if t.For > 0 {
				return fmt.Sprintf("max_over_time(chatstack_config_last_reload_successful[%s]) == 0", seconds(t.For))
			}
			return latest(a, "chatstack_config_last_reload_successful") + " == 0"
		},
		trials: func(a *config.Alerts, t *alert) []trial {
			s := newSubject(a, t, "config_last_reload_successful", nil, 1)
			s.good, s.bad, s.hold, s.times = 1, 0, t.For, 2
			s.lookback = max(s.lookback, s.hold)
			return s.trials()
		},
	},
	panels: []string{"exporter/Configuration"},
	warning: message{
		"", exporterName + " could not reload its configuration.",
		"It keeps running with the previous one, but a restart may fail. First run `chatstack_exporter check-config`, or read its log.",
	},
}

var stateNotSaved = row{
	name:      StateNotSaved,
	AlertKind: flat("state_not_saved", 15*minute, 0),
	server:    theExporter,
	itself:    true,
	page: Words{
		"the exporter cannot save its state",
		"A restart would forget what has happened since. Its log says what is wrong with the disk of `state_file`.",
	},
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return age(a, "chatstack_state_last_saved_timestamp_seconds") + aboveSeconds(t.For)
		},
		trials: func(a *config.Alerts, t *alert) []trial {
			return ageTrials(a, t, newAge(a, t, "state_last_saved_timestamp_seconds"))
		},
	},
	warning: message{
		"", exporterName + " cannot save its state.",
		"A restart of the exporter would forget what has happened since, and when problems began. First look at its log: it says what " +
			"is wrong with the disk of `state_file`.",
	},
}

var notificationsFailing = row{
	name:      NotificationsFailing,
	AlertKind: flat("notifications_failing", 15*minute, 0),
	server:    theExporter,
	itself:    true,
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return latest(a, "chatstack_notification_failing_seconds") + aboveSeconds(t.For)
		},
		trials: func(a *config.Alerts, t *alert) []trial {
			s := newSubject(a, t, "notification_failing_seconds", map[string]string{"receiver": "phone"}, t.For.Std().Seconds())
			s.times = 2
			return s.trials()
		},
	},
	page: Words{
		"the exporter cannot deliver its messages to %s",
		"The exporter's log has the answer of the service, and `chatstack_exporter notify --test` gets it again.",
	},
	warning: message{
		"", exporterName + " cannot deliver its messages to {{ $labels.receiver }}.",
		"Every attempt has failed for over <for>. Who gets messages only there does not hear of problems. " +
			"First run `chatstack_exporter notify --test {{ $labels.receiver }}`: it says what the service answers.",
	},
}

var monitoringGap = row{
	name: health.AlertMonitoringGap,
	AlertKind: kind("monitoring_gap", config.Keys("for", "keep_firing_for", "roles"),
		config.AlertSettings{Level: lasting(15*minute, 0), Roles: []string{"xmpp"}}, func(c *config.AlertCheck) {
			c.Names("roles", c.Roles, regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`), "container roles, such as xmpp")
		}),
	judged:   &health.Rule{Own: true, Excuses: []health.Excuser{health.ByMaintenance}},
	evidence: problem,
	page: Words{"%s", "Until this is fixed, alerts that depend on it cannot fire. See container: and roles: in exporter.yaml. " +
		"For overdue probes, see the exporter's log."},
	warning: message{
		"overdue probes, a `container:` that no engine has, or no container with a role of <roles>: <after>",
		"Not monitored at {{ $labels.target }}: {{ $labels.of }}.",
		"This has lasted" + sinceThen +
			" Until it is fixed, alerts that depend on it cannot fire. The runbook has the fix for each case.",
	},
}

// rulesOutOfDate compares the checksum in the exporter's metrics with the one in the deployed rules. If Prometheus scrapes itself, it also
// compares how many rules of the group are loaded, and how often they are evaluated.
var rulesOutOfDate = row{
	name:      "RulesOutOfDate",
	AlertKind: flat("rules_out_of_date", 15*minute, 0),
	server:    theExporter,
	timed:     true,
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return acrossExporters("group", fmt.Sprintf("%s or %s < %d or %s != %s",
				latest(a, fmt.Sprintf("chatstack_rules_info{checksum!=%q}", t.checksum)), ofRuleGroup("rules"), t.rules,
				ofRuleGroup("interval_seconds"), number(a.Interval.Std().Seconds())), []string{"checksum", "rule_group"}) + " == 1"
		},
		trials: func(a *config.Alerts, t *alert) []trial { return append(checksumTrials(a, t), loadedTrials(a, t)...) },
	},
	panels: []string{"exporter/Rules out of date", "exporter/Rules"},
	warning: message{
		"", "The alert rules do not match the exporter's configuration.",
		"Alerts fire at other thresholds, or are missing. Deploy the output of `chatstack_exporter rules --config.file=exporter.yaml`.",
	},
}

// ofRuleGroup is what Prometheus says of the group of the alert rules, if it scrapes itself.
func ofRuleGroup(what string) string {
	return fmt.Sprintf(`prometheus_rule_group_%s{rule_group=~".+;%s"}`, what, groupName)
}

// loadedTrials have rules missing, or evaluated at another interval.
func loadedTrials(a *config.Alerts, t *alert) []trial {
	hold, keep := t.rounds()
	fires := rise + hold
	end := fires + 2
	group := func(what, name string, steps ...step) []input {
		return []input{from(0, "prometheus_rule_group_"+what, map[string]string{"rule_group": "/etc/rules.yml;" + name}, steps...)}
	}
	another := from(1, "prometheus_rule_group_rules", map[string]string{"rule_group": "/srv/rules.yml;" + groupName}, steady(0)...)
	rules, interval := float64(t.rules), a.Interval.Std().Seconds()
	awhile := func(good, bad float64) []step {
		return []step{{value: good}, {from: rise, value: bad}, {from: end, value: good}}
	}
	return []trial{
		try("a rule is missing for a while", group("rules", groupName, awhile(rules, rules-1)...), between(fires, end+keep)...),
		try("rules of two Prometheus are missing", append(group("rules", groupName, steady(0)...), another), check{fires, true}),
		try("more rules", group("rules", groupName, steady(rules+1)...), check{fires, false}),
		try("rules of another group", group("rules", "my"+groupName, steady(rules-1)...), check{fires, false}),
		try("evaluated too seldom for a while", group("interval_seconds", groupName, awhile(interval, interval+1)...),
			between(fires, end+keep)...),
		try("evaluated too often", group("interval_seconds", groupName, steady(interval-0.5)...), check{fires, true}),
		try("another group is evaluated too seldom", group("interval_seconds", "my"+groupName, steady(interval+1)...), check{fires, false}),
	}
}

// checksumTrials have other rules deployed for a while.
func checksumTrials(a *config.Alerts, t *alert) []trial {
	hold, keep := t.rounds()
	info := func(exporter int, checksum string, steps ...step) input {
		return from(exporter, "chatstack_rules_info", map[string]string{"checksum": checksum}, steps...)
	}
	fires, same := rise+hold, t.checksum
	end := fires + 2
	return []trial{
		try("the same rules", []input{info(0, same, steady(1)...)}, check{fires, false}),
		try("other rules for a while",
			[]input{info(0, "other", step{value: lost}, step{from: rise, value: 1}, step{from: end, value: lost})},
			append([]check{{fires - 1, false}, {fires, true}}, t.forgotten(end, keep, a.Lookback, true)...)...),
		try("both exporters have others", []input{info(0, "other", steady(1)...), info(1, "another", steady(1)...)}, check{fires, true}),
		try("one of two exporters has others", []input{info(0, same, steady(1)...), info(1, "other", steady(1)...)}, check{fires, true}),
	}
}

// DrillAlert is the alert that a drill raises.
const DrillAlert = "ChatstackDrill"

// drill has a series that exists only during a drill, with the severity that the drill asks for.
var drill = row{
	name:  DrillAlert,
	drill: true,
	evidence: evidence{
		expr:   func(*config.Alerts, *alert) string { return "chatstack_drill == 1" },
		trials: drillTrials,
	},
	none: message{
		"during a drill, with the severity that it asks for, by default none", "This is a drill: nothing is wrong.",
		"Somebody runs `chatstack_exporter drill` to see whether alerts arrive. It ends by itself. Nothing has to be done.",
	},
}

func drillTrials(*config.Alerts, *alert) []trial {
	series := func(steps ...step) input {
		return from(0, "chatstack_drill", map[string]string{"id": "a", "severity": None}, steps...)
	}
	return []trial{
		try("a drill", []input{series(step{value: lost}, step{from: rise, value: 1}, step{from: rise + 3, value: lost})},
			check{rise - 1, false}, check{rise, true}, check{rise + 2, true}, check{rise + 3, false}),
		try("no drill", []input{series(steady(0)...)}, check{rise, false}),
	}
}

// watchdog always fires, so that an outside service notices when alerts stop.
var watchdog = row{
	name:      "Watchdog",
	elsewhere: true,
	evidence: evidence{
		expr: func(*config.Alerts, *alert) string { return "vector(1)" },
		trials: func(*config.Alerts, *alert) []trial {
			return []trial{try("always", nil, check{0, true}, check{2, true}).apart()}
		},
	},
	none: message{
		"always, with severity none", "Alerting works.",
		"This alert always fires. If it stops, no other alert arrives either.",
	},
}

// environment are the labels that identify an environment, as in Alertmanager's routes and inhibition.
var environment = []string{"cluster", "env", "part"}
