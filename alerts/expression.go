package alerts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// scrapeLabels distinguish the exporters of a pair, or say how they were discovered. Alerts drop them, so that two exporters fire one
// alert. Labels that an operator adds stay: env, cluster, namespace.
var scrapeLabels = []string{"instance", "job", "node", "pod", "service"}

// foreign are labels that the exporter uses, and that scrape configurations may add to series without them.
var foreign = []string{"container", "endpoint"}

// buildLabels are the labels of chatstack_exporter_build_info.
var buildLabels = []string{"branch", "goarch", "goos", "goversion", "revision", "tags", "version"}

// ExporterLabels returns the labels of the exporter's series that its alerts do not have. They keep those that an operator adds.
func ExporterLabels() []string { return slices.Concat(scrapeLabels, buildLabels, []string{"endpoint"}) }

// agreed is the operator by which exporters agree on an alert: for a warning, one that sees a problem is enough.
var agreed = map[string]string{Warning: "max", Critical: "min"}

// acrossExporters aggregates the series of all exporters: max if one that sees a problem is enough, min if all must agree. It also
// drops the labels in drop. keep lists the labels of foreign that the exporter itself sets on the series.
func acrossExporters(operator, series string, drop []string, keep ...string) string {
	added := slices.DeleteFunc(slices.Clone(foreign), func(label string) bool { return slices.Contains(keep, label) })
	return fmt.Sprintf("%s without (%s) (%s)", operator, list(scrapeLabels, append(added, drop...)...), series)
}

// containers aggregates series of containers.
func containers(operator, series string) string {
	return acrossExporters(operator, series, nil, "container")
}

// latest is the last scraped value, even if one or two scrapes failed since.
func latest(a *config.Alerts, selector string) string {
	return fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.Lookback))
}

// certificateSeen are the ends of certificates.
const certificateSeen = "chatstack_tls_certificate_not_after_timestamp_seconds"

// seenAt is when a series about certificates was last scraped, or up to one interval before that: it must be known for as much longer.
func seenAt(a *config.Alerts, series string) string {
	return fmt.Sprintf("max_over_time(timestamp(%s)[%s:%s])", series, seconds(a.SlowLookback+a.Interval), seconds(a.Interval))
}

// unlessExcused selects the latest values without excused subjects.
func unlessExcused(a *config.Alerts, subject, selector string) string {
	unless := "unless"
	if subject == "target" {
		unless += " ignoring (kind)"
	}
	return fmt.Sprintf("%s %s %s == 1", latest(a, selector), unless, latest(a, "chatstack_"+subject+"_excused"))
}

// matching is a selector of series with those labels.
func matching(labels map[string]string) string {
	var matchers []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		matchers = append(matchers, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// number is a PromQL literal without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func aboveSeconds(d config.Duration) string { return " > " + number(d.Std().Seconds()) }

// The recorded series. Suffix any: at least one exporter sees it. Suffix all: every exporter with such a series sees it.
const (
	targetDownAny   = "chatstack:target_down_seconds:any"
	targetDownAll   = "chatstack:target_down_seconds:all"
	targetPages     = "chatstack:target_pages"
	targetWarning   = "chatstack:target_unexplained_seconds:any"
	targetCritical  = "chatstack:target_unexplained_seconds:all"
	heldAlerts      = "chatstack:held"
	unknown         = "chatstack:unknown"
	downContainers  = "chatstack:container_down"
	targetElsewhere = "chatstack:target_container_down_seconds"
	warningsAny     = "chatstack:warning_seconds:any"
	criticalAll     = "chatstack:critical_seconds:all"
	authFailureRate = "chatstack:xmpp_auth_failures_per_minute"
	authAverage     = "chatstack:xmpp_auth_failures_average"
	memory          = "chatstack:container_memory_bytes"
	xmppMemory      = "chatstack:xmpp_container_memory_bytes"
	volumeUsed      = "chatstack:volume_used_ratio"
	certificateHeld = "chatstack:certificate_held"
	certificateEnd  = "chatstack:certificate_end"
	exporterUp      = "chatstack:exporter_up"

	exporterStarting = "chatstack:exporter_starting"
	relayLeft        = "chatstack:relay_left_unchecked"
)

// ofContainers is the name of the recorded series of a gauge of containers, without excused ones. For a warning, it has what any exporter
// sees; for a critical alert, what all of them see.
func ofContainers(gauge, severity string) string {
	return "chatstack:" + gauge + map[string]string{Warning: ":any", Critical: ":all"}[severity]
}

// recorded returns the recording rules that the alerts use.
func recorded(a *config.Alerts) []rule {
	down := unlessExcused(a, "target", "chatstack_target_down_seconds")
	problems := func(severity string) string {
		return acrossExporters(agreed[severity], fmt.Sprintf("%s unless %s == 1",
			latest(a, fmt.Sprintf("chatstack_problem_seconds{severity=%q}", severity)), latest(a, "chatstack_problem_excused")), nil)
	}
	rules := []rule{
		{Record: targetDownAny, Expr: acrossExporters("max", down, nil)},
		{Record: targetDownAll, Expr: acrossExporters("min", down, nil)},
		{Record: targetPages, Expr: acrossExporters("max", latest(a, "chatstack_target_pages"), nil)},
		// A container that has just come back still explains a target whose next probe is pending.
		{
			Record: downContainers,
			Expr: containers("max", fmt.Sprintf("max_over_time(chatstack_container_down_seconds[%s]) > 0 unless %s%s", seconds(a.Lookback),
				latest(a, "chatstack_container_calm_seconds"), aboveSeconds(a.Lookback))),
		},
		// The container that serves a target, also on an engine that another exporter watches.
		{
			Record: targetElsewhere,
			Expr: acrossExporters("max", fmt.Sprintf("%s * ignoring (%s) group_left () %s", latest(a, "chatstack_target_info"),
				list(scrapeLabels, "endpoint", "kind", "target"), downContainers), []string{"docker_host"}),
		},
		{Record: warningsAny, Expr: problems(Warning)},
		{Record: criticalAll, Expr: problems(Critical)},
		{
			Record: authFailureRate,
			Expr: fmt.Sprintf("sum without (host) (rate(xmpp_c2s_auth_failure_total[%s])) * 60",
				seconds(a.Of(xmppAuthFailureRate.Key).Window)),
		},
		{Record: memory, Expr: memoryUsed(a)},
		{Record: xmppMemory, Expr: fmt.Sprintf("%s and ignoring (%s) %s", memory,
			list(scrapeLabels, "compose_project", "compose_service", "endpoint", "image", "role"),
			latest(a, `chatstack_container_info{role="xmpp"}`))},
		{
			Record: volumeUsed,
			Expr:   acrossExporters("max", latest(a, "chatstack_volume_used_ratio")+" unless "+latest(a, "chatstack_volume_excused"), nil),
		},
		// What holds back the alert on a certificate must not be forgotten before the certificate, which may be seen no more.
		{
			Record: certificateHeld,
			Expr: fmt.Sprintf("%s - ignoring (source) group_left () %s < %s", seenAt(a, certificateSeen),
				seenAt(a, "chatstack_tls_certificate_excused"), number(a.Lookback.Std().Seconds())),
		},
		{
			Record: certificateEnd,
			Expr: acrossExporters("min",
				fmt.Sprintf("last_over_time(%s[%s]) unless %s", certificateSeen, seconds(a.SlowLookback), certificateHeld),
				[]string{"source"}, "endpoint"),
		},
		// Bridges that an exporter leaves to the first of a pair, which does not check them.
		{Record: relayLeft, Expr: acrossExporters("group", latest(a, `chatstack_target_left_to_first{kind="relay"}`), nil) +
			fmt.Sprintf(" unless on (%s) %s", list(environment, "target"), latest(a, "chatstack_relay_session_up"))},
		// A page that is not the exporter's is none.
		{
			Record: exporterUp,
			Expr:   acrossExporters("max", fmt.Sprintf("0 * up{job=%q} or chatstack_exporter_build_info", a.Job), buildLabels),
		},
	}
	for _, r := range rows {
		if r.records != nil && r.isOn(a) {
			rules = append(rules, r.records(a, a.Of(r.Key))...)
		}
		if f := r.fewest; f.record != "" && r.isOn(a) {
			lowest := acrossExporters("min", latest(a, f.series)+" unless "+latest(a, f.excused), nil)
			rules = append(rules, rule{Record: f.record, Expr: lowest})
		}
	}
	// Alerts that were firing go on while nobody knows. It has the value 0, which no alert has that is seen.
	return append(rules,
		rule{Record: exporterStarting, Expr: acrossExporters("max", latest(a, "chatstack_exporter_starting"), nil)},
		rule{Record: unknown, Expr: unknownExpr(a)},
		rule{
			Record: heldAlerts,
			Expr: fmt.Sprintf("0 * max without (%s) (%s) and on (%s) %s",
				list([]string{"alertgroup", "alertstate", "chat_server", "stack"}), `ALERTS{alertstate="firing",stack="chat"}`,
				list(environment), unknown),
		})
}

// StartingTime is how long an exporter that remembers nothing counts as starting: until it has seen for itself for as long as a target is
// down before that is critical. With the shipped settings, that is five and a half minutes.
func StartingTime(a *config.Alerts) time.Duration { return criticalAfter(a) + a.Interval.Std() }

// unknownExpr is true of environments in which an exporter has just started, or none has answered until its last scrape counts no longer:
// one lost scrape must not begin keep_firing_for again. One that Prometheus no longer discovers counts while ExporterDown remembers it.
func unknownExpr(a *config.Alerts) string {
	_, silent := rounds(a, a.Lookback-a.Interval)
	startsWithin, fourStarts := countedStarts(a)
	return fmt.Sprintf("%s == 1 unless sum_over_time(%[1]s[%s]) > %d or present_over_time(%s[%s]) unless on (%s) "+
		"max_over_time(%[4]s[%[7]s]) > 0", exporterStarting, seconds(startsWithin), fourStarts,
		exporterUp, seconds(a.Of(exporterDown.Key).Remember), list(environment), seconds(silent))
}

// countedStarts are for how many evaluations four starts count, and within what time. A fifth start does not count: an exporter that keeps
// restarting would hold its alerts for ever. ExporterRestarts reports it.
func countedStarts(a *config.Alerts) (within config.Duration, evaluations int) {
	starting, keep := StartingTime(a), config.Duration(0)
	for _, t := range table(a, "") {
		if t.held {
			keep = max(keep, t.keep)
		}
	}
	return 5 * (config.Duration(starting) + keep), int(4*starting/a.Interval.Std()) + 2
}

// exceeds is true if a recorded series was above the limit throughout hold. It omits series that are new or gone.
func exceeds(recorded, limit string, hold config.Duration) string {
	if hold == 0 {
		return recorded + " > " + limit
	}
	return fmt.Sprintf("min_over_time(%s[%s]) > %s and %[1]s and %[1]s offset %[2]s", recorded, seconds(hold), limit)
}

// list is a sorted list of labels.
func list(labels []string, more ...string) string {
	return strings.Join(slices.Sorted(slices.Values(slices.Concat(labels, more))), ", ")
}

// rounds returns the number of evaluations in a window, and a range with exactly as many. The range begins between two evaluations,
// since Prometheus 2 and 3 differ about a sample at its very beginning.
func rounds(a *config.Alerts, window config.Duration) (n int, within config.Duration) {
	n = max(int(math.Round(float64(window)/float64(a.Interval))), 1)
	return n, config.Duration(n)*a.Interval - a.Interval/2
}
