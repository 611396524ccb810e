package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// monitoringAlerts are about the exporters and their scrapes. All but ExporterDown fire for each exporter separately.
func monitoringAlerts(a *config.Alerts) []alert {
	up := fmt.Sprintf("up{job=%q}", a.Job)
	reloaded := latest(a, "chatstack_config_last_reload_successful")
	if hold := a.ConfigReloadFailed.For; hold > 0 {
		reloaded = fmt.Sprintf("max_over_time(chatstack_config_last_reload_successful[%s])", seconds(hold))
	}
	// The clock of an exporter that is a target of this one is as old as the probe.
	const clock = `chatstack_exporter_time_seconds{target=""}`
	const exporter = "Exporter {{ $labels.instance }}"
	return []alert{
		{
			name: "ExporterDown", severity: Warning, hold: a.ExporterDown.Warning.For, keep: a.ExporterDown.Warning.KeepFiringFor,
			expr:        fmt.Sprintf("%s == 0 unless ignoring (%s) %s == 0", up, list(scrapeLabels, foreign...), exporterUp),
			summary:     "Exporter {{ $labels.instance }} is down; another one still watches.",
			description: "Prometheus has not scraped it for over " + inWords(a.ExporterDown.Warning.For) + ". First read its log, then start it.",
		}, {
			name: "ExporterDown", severity: Critical, hold: a.ExporterDown.Critical.For, keep: a.ExporterDown.Critical.KeepFiringFor,
			// Either all known exporters are down or something else answers for them; or an environment lost its last exporter; or none is known.
			expr: fmt.Sprintf("%[1]s == 0 or present_over_time(%[1]s[%[2]s]) unless on (%[3]s) %[1]s or absent(%[1]s)",
				exporterUp, seconds(a.ExporterDown.Remember), list(environment)),
			// Where exporters watch different things, the label part says what is unmonitored.
			summary: "No chatstack_exporter is reachable{{ with $labels.env }} in {{ . }}{{ end }}; {{ with $labels.part }}{{ . }}{{ else }}the chat stack{{ end }} is unmonitored.",
			description: "Prometheus has not scraped any for over " + inWords(a.ExporterDown.Critical.For) +
				". Until it does, no other alert about {{ with $labels.part }}it{{ else }}the stack{{ end }} can fire. Start an exporter, and look at the stack yourself.",
		}, {
			name: "PollStalled", severity: Critical, keep: a.PollStalled.KeepFiringFor,
			// All times are by the exporter's clock, so that Prometheus' does not matter. If that clock stands still, scrapes return an old page.
			expr: latest(a, "chatstack_exporter_time_seconds") + " - " + latest(a, "chatstack_poll_last_completed_timestamp_seconds") + aboveSeconds(a.PollStalled.After) +
				fmt.Sprintf(" or delta(%s[%s]) == 0 and chatstack_exporter_time_seconds offset %[2]s", clock, seconds(a.PollStalled.After)),
			summary:     exporter + " has stopped polling; its data is stale.",
			description: "It has not polled for over " + inWords(a.PollStalled.After) + ", or something between it and Prometheus serves an old page. New problems raise no alert. First restart it.",
		}, {
			name: "ConfigReloadFailed", severity: Warning, keep: a.ConfigReloadFailed.KeepFiringFor,
			expr:        reloaded + " == 0",
			summary:     exporter + " could not reload its configuration.",
			description: "It keeps running with the previous one, but a restart may fail. First run `chatstack_exporter check-config`, or read its log.",
		}, {
			name: "RelayUnwatched", severity: Warning, hold: a.RelayUnwatched.For, keep: a.RelayUnwatched.KeepFiringFor,
			expr:    relayLeft + " or " + warningsAny + `{alert="RelayUnwatched"} > 0`,
			summary: "Nobody knows whether messages cross {{ $labels.target }}.",
			description: "{{ if $labels.alert }}The check has said nothing about the bridge for over " + inWords(a.RelayUnwatched.For) +
				"{{ else }}An exporter leaves the check to the first of the pair, which does not make it: start the first one, or set pair: first in this one{{ end }}." + openPage,
		}, {
			name: "HonorLabelsOff", severity: Warning, hold: a.HonorLabelsOff.For, keep: a.HonorLabelsOff.KeepFiringFor,
			expr:        latest(a, "chatstack_label_check") + " unless " + latest(a, "chatstack_label_check{"+checkedLabels()+"}"),
			summary:     "Prometheus overwrites labels of exporter {{ $labels.instance }}.",
			description: "Alerts and dashboards name the wrong container or endpoint, or miss the series. Set honor_labels: true in the scrape configuration.",
		}, {
			name: "ScrapedTooSeldom", severity: Warning, hold: a.ScrapedTooSeldom.For, keep: a.ScrapedTooSeldom.KeepFiringFor,
			expr:        fmt.Sprintf("count_over_time(%s[%s]) < %d", up, seconds(fewestScrapes*a.Lookback), fewestScrapes),
			summary:     "Prometheus scrapes exporter {{ $labels.instance }} too rarely: {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} in " + inWords(fewestScrapes*a.Lookback) + ".",
			description: "Scrapes are over " + inWords(a.Lookback) + " apart, so alerts come and go. Set scrape_interval to " + inWords(a.Interval) + ".",
		}, {
			name: "ClockSkew", severity: Warning, hold: a.ClockSkew.For, keep: a.ClockSkew.KeepFiringFor,
			expr:        fmt.Sprintf("abs(timestamp(%[1]s) - %[1]s)", clock) + aboveSeconds(a.ClockSkew.Over),
			summary:     "The clocks of Prometheus and exporter {{ $labels.instance }} are {{ $value | humanizeDuration }} apart.",
			description: "The limit is " + inWords(a.ClockSkew.Over) + ". One of the two clocks is wrong, so alerts about expiring certificates come too early or too late. First run timedatectl on both machines.",
		}, {
			// The series exists only during a drill, and has the severity that the drill asks for.
			name: DrillAlert, severity: None, drill: true, expr: "chatstack_drill == 1",
			summary:     "This is a drill: nothing is wrong.",
			description: "Somebody runs `chatstack_exporter drill` to see whether alerts arrive. It ends by itself. Nothing has to be done.",
		},
	}
}

// DrillAlert is the alert that a drill raises.
const DrillAlert = "ChatstackDrill"

// fewestScrapes is the number of scrapes in fewestScrapes times the lookback, if each two are at most the lookback apart.
const fewestScrapes = config.FewestScrapes

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

// environment are the labels that identify an environment, as in Alertmanager's routes and inhibition.
var environment = []string{"cluster", "env", "part"}

// outOfDate compares the checksum in the exporter's metrics with the one in the deployed rules.
func outOfDate(a *config.Alerts, checksum string) alert {
	return alert{
		name: "RulesOutOfDate", severity: Warning, hold: a.RulesOutOfDate.For, keep: a.RulesOutOfDate.KeepFiringFor,
		expr:        acrossExporters("group", latest(a, fmt.Sprintf("chatstack_rules_info{checksum!=%q}", checksum)), []string{"checksum"}) + " == 1",
		summary:     "The alert rules do not match the exporter's configuration.",
		description: "Alerts fire at other thresholds, or are missing. Deploy the output of `chatstack_exporter rules --config.file=exporter.yaml`.",
	}
}

// watchdog always fires, so that an outside service notices when alerts stop.
func watchdog() alert {
	return alert{
		name: "Watchdog", severity: None, expr: "vector(1)",
		summary:     "Alerting works.",
		description: "This alert always fires. If it stops, no other alert arrives either.",
	}
}
