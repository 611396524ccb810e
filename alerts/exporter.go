package alerts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
	timed:     true,
	elsewhere: true,
	evidence:  evidence{exporterDownExpr, exporterTrials},
	panels:    []string{"exporter/Scraped"},
	texts: []message{
		{
			Warning,
			"one of several exporters: <after>",
			exporterName + " is down; another one still watches.",
			"Prometheus has not scraped it for over <for>. First read its log, then start it.",
		},
		{
			// Where exporters watch different things, the label part says what is unmonitored.
			Critical,
			"no exporter left in an environment that had one within <remember>, or none known at all: <after>",
			"No chatstack_exporter is reachable{{ with $labels.env }} in {{ . }}{{ end }}; " +
				"{{ with $labels.part }}{{ . }}{{ else }}the chat stack{{ end }} is unmonitored.",
			"Prometheus has not scraped any for over <for>. Until it does, no other alert about {{ with $labels.part }}it{{ else }}the " +
				"stack{{ end }} can fire. Start an exporter, and look at the stack yourself.",
		},
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

var pollStalled = row{
	name: "PollStalled",
	AlertKind: kind("poll_stalled", config.Keys("after", "keep_firing_for"),
		config.AlertSettings{Level: lasting(3*minute, 0)}, func(c *config.AlertCheck) {
			c.AtLeast("after", c.For, c.Alerts.Lookback+oldestHeartbeat,
				fmt.Sprintf("alerts.lookback + %s, the maximum age of a heartbeat", oldestHeartbeat.Std()))
		}),
	elsewhere: true,
	evidence: evidence{
		// All times are by the exporter's clock, so that Prometheus' does not matter. If that clock stands still,
		// scrapes return an old page.
		expr: func(a *config.Alerts, t *alert) string {
			return latest(a, "chatstack_exporter_time_seconds") + " - " + latest(a, "chatstack_poll_last_completed_timestamp_seconds") +
				aboveSeconds(t.For) +
				fmt.Sprintf(" or delta(%s[%s]) == 0 and chatstack_exporter_time_seconds offset %[2]s", exporterClock, seconds(t.For))
		},
		trials: pollTrials,
	},
	panels: []string{"exporter/Poll loop heartbeat"},
	texts: []message{
		{
			Critical,
			"",
			exporterName + " has stopped polling; its data is stale.",
			"It has not polled for over <for>, or something between it and Prometheus serves an old page. New problems raise no alert. " +
				"First restart it.",
		},
	},
}

// oldestHeartbeat is the maximum age of the heartbeat in the metrics of a running poll loop: it beats every 10 s, and every second beat
// refreshes the metrics.
const oldestHeartbeat = config.Duration(20 * time.Second)

// exporterClock is the exporter's clock. That of an exporter that is a target of this one is as old as the probe.
const exporterClock = `chatstack_exporter_time_seconds{target=""}`

var configReloadFailed = row{
	name: "ConfigReloadFailed",
	AlertKind: kind("config_reload_failed", holdKeys,
		config.AlertSettings{Level: lasting(5*minute, 0)}, func(c *config.AlertCheck) {
			if c.For != 0 && c.For < c.Alerts.Lookback {
				c.Faultf("for", "is %s, must be 0s or at least %s: alerts.lookback, so that two lost scrapes change nothing",
					c.For.Std(), c.Alerts.Lookback.Std())
			}
		}),
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			if t.For > 0 {
				return fmt.Sprintf("max_over_time(chatstack_config_last_reload_successful[%s]) == 0", seconds(t.For))
			}
			return latest(a, "chatstack_config_last_reload_successful") + " == 0"
		},
		trials: func(a *config.Alerts, t *alert) []trial {
			s := newSubject(a, t, "config_last_reload_successful", nil, 1)
			s.good, s.bad, s.hold, s.each = 1, 0, t.For, true
			s.lookback = max(s.lookback, s.hold)
			return s.trials()
		},
	},
	panels: []string{"exporter/Configuration"},
	texts: []message{
		{
			Warning,
			"",
			exporterName + " could not reload its configuration.",
			"It keeps running with the previous one, but a restart may fail. First run `chatstack_exporter check-config`, or read its log.",
		},
	},
}

var honorLabelsOff = row{
	name:      "HonorLabelsOff",
	AlertKind: flat("honor_labels_off", 15*minute, 0),
	timed:     true,
	evidence: evidence{
		expr: func(a *config.Alerts, _ *alert) string {
			return latest(a, "chatstack_label_check") + " unless " + latest(a, "chatstack_label_check{"+checkedLabels()+"}")
		},
		trials: labelTrials,
	},
	texts: []message{
		{
			Warning,
			"",
			"Prometheus overwrites labels of exporter {{ $labels.instance }}.",
			"Alerts and dashboards name the wrong container or endpoint, or miss the series. Set honor_labels: " +
				"true in the scrape configuration.",
		},
	},
}

// LabelCheck returns the labels of chatstack_label_check. Series of the exporter have them, and scrape configurations add them.
// Prometheus keeps their values only with honor_labels.
func LabelCheck() map[string]string {
	return map[string]string{"container": "ours", "endpoint": "ours", "host": "ours", "name": "ours", "role": "ours", "target": "ours"}
}

func checkedLabels() string {
	var matchers []string
	labels := LabelCheck()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		matchers = append(matchers, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return strings.Join(matchers, ",")
}

var scrapedTooSeldom = row{
	name: "ScrapedTooSeldom",
	AlertKind: kind("scraped_too_seldom", holdKeys,
		config.AlertSettings{Level: lasting(15*minute, 0)}, func(c *config.AlertCheck) {
			c.AtLeast("for", c.For, fewestScrapes*c.Alerts.Lookback,
				fmt.Sprintf("%d times alerts.lookback, so that the alert ignores newly discovered exporters", fewestScrapes))
		}),
	timed: true,
	evidence: evidence{
		expr: func(a *config.Alerts, _ *alert) string {
			return fmt.Sprintf("count_over_time(%s[%s]) < %d", up(a), seconds(fewestScrapes*a.Lookback), fewestScrapes)
		},
		trials: scrapeTrials,
	},
	texts: []message{
		{
			Warning,
			"fewer than <scrapes> scrapes in <lookbacks>, <after>",
			"Prometheus scrapes exporter {{ $labels.instance }} too rarely: " +
				"{{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} in <lookbacks>.",
			"Scrapes are over <lookback> apart, so alerts come and go. Set scrape_interval to <interval>.",
		},
	},
}

// fewestScrapes is the number of scrapes in fewestScrapes times the lookback, if each two are at most the lookback apart.
const fewestScrapes = 5

var clockSkew = row{
	name: "ClockSkew",
	AlertKind: kind("clock_skew", append(config.Keys("for", "keep_firing_for"),
		config.AlertKey{Name: "over", At: func(s *config.AlertSettings) any { return &s.Apart }}),
		config.AlertSettings{Level: lasting(15*minute, 5*minute), Apart: minute},
		func(c *config.AlertCheck) { c.AtLeast("over", c.Apart, second, "") }),
	timed: true,
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return fmt.Sprintf("abs(timestamp(%[1]s) - %[1]s)", exporterClock) + aboveSeconds(t.settings.Apart)
		},
		trials: clockTrials,
	},
	panels: []string{"exporter/Clock skew"},
	texts: []message{
		{
			Warning,
			"over <apart> apart, <after>",
			"The clocks of Prometheus and exporter {{ $labels.instance }} are {{ $value | humanizeDuration }} apart.",
			"The limit is <apart>. One of the two clocks is wrong, so alerts about expiring certificates come too early or too late. " +
				"First run timedatectl on both machines.",
		},
	},
}

var monitoringGap = row{
	name: health.AlertMonitoringGap,
	AlertKind: kind("monitoring_gap", config.Keys("for", "keep_firing_for", "roles"),
		config.AlertSettings{Level: lasting(15*minute, 0), Roles: []string{"xmpp"}}, func(c *config.AlertCheck) {
			c.Names("roles", c.Roles, regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`), "container roles, such as xmpp")
		}),
	judged:   excusedBy(health.ByMaintenance),
	evidence: problem,
	page: Words{"%s", "Until this is fixed, alerts that depend on it cannot fire. See container: and roles: in exporter.yaml. " +
		"For overdue probes, see the exporter's log."},
	texts: []message{
		{
			Warning,
			"overdue probes, a `container:` that no engine has, or no container with a role of <roles>: <after>",
			"Not monitored at {{ $labels.target }}: {{ $labels.of }}.",
			"This has lasted" + forValue +
				" Until it is fixed, alerts that depend on it cannot fire. The runbook has the fix for each case.",
		},
	},
}

// rulesOutOfDate compares the checksum in the exporter's metrics with the one in the deployed rules.
var rulesOutOfDate = row{
	name:      "RulesOutOfDate",
	AlertKind: flat("rules_out_of_date", 15*minute, 0),
	timed:     true,
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return acrossExporters("group", latest(a, fmt.Sprintf("chatstack_rules_info{checksum!=%q}", t.checksum)),
				[]string{"checksum"}) + " == 1"
		},
		trials: checksumTrials,
	},
	panels: []string{"exporter/Rules out of date", "exporter/Rules"},
	texts: []message{
		{
			Warning,
			"",
			"The alert rules do not match the exporter's configuration.",
			"Alerts fire at other thresholds, or are missing. Deploy the output of `chatstack_exporter rules --config.file=exporter.yaml`.",
		},
	},
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
	texts: []message{
		{
			None,
			"during a drill, with the severity that it asks for, by default none",
			"This is a drill: nothing is wrong.",
			"Somebody runs `chatstack_exporter drill` to see whether alerts arrive. It ends by itself. Nothing has to be done.",
		},
	},
}

// watchdog always fires, so that an outside service notices when alerts stop.
var watchdog = row{
	name:      "Watchdog",
	elsewhere: true,
	evidence: evidence{
		expr: func(*config.Alerts, *alert) string { return "vector(1)" },
		trials: func(*config.Alerts, *alert) []trial {
			return []trial{{name: "always", checks: []check{{0, true}, {2, true}}, alone: true}}
		},
	},
	texts: []message{
		{
			None,
			"always, with severity none",
			"Alerting works.",
			"This alert always fires. If it stops, no other alert arrives either.",
		},
	},
}

// environment are the labels that identify an environment, as in Alertmanager's routes and inhibition.
var environment = []string{"cluster", "env", "part"}
