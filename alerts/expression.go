package alerts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// scrapeLabels distinguish one exporter of a pair from the other, or say how it was discovered. No alert has them, so that two
// exporters make one alert. Labels that an operator adds stay: env, cluster, namespace.
var scrapeLabels = []string{"instance", "job", "node", "pod", "service"}

// foreign are labels of ours that an operator's scrape configuration adds to series that do not have them from us.
var foreign = []string{"container", "endpoint"}

// over aggregates series of one exporter each over the exporters: max where one that sees a problem is enough, min where all have
// to agree. drop are labels that go too; keep are those of foreign that the series have from us.
func over(operator, series string, drop []string, keep ...string) string {
	labels := slices.Concat(scrapeLabels, drop)
	for _, l := range foreign {
		if !slices.Contains(keep, l) {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s without (%s) (%s)", operator, strings.Join(slices.Compact(labels), ", "), series)
}

// containers aggregates series of containers.
func containers(operator, series string) string { return over(operator, series, nil, "container") }

// latest is what the last scrape returned, even if one or two were lost since.
func latest(a *config.Alerts, selector string) string {
	return fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.Lookback))
}

// unlessExcused leaves out of latest values those of subjects that something else excuses.
func unlessExcused(a *config.Alerts, subject, selector string) string {
	return fmt.Sprintf("%s unless %s == 1", latest(a, selector), latest(a, "chatstack_"+subject+"_excused"))
}

// throughout is the least that a series was during a time.
func throughout(selector string, d config.Duration) string {
	return fmt.Sprintf("min_over_time(%s[%s])", selector, seconds(max(d, config.Duration(time.Second))))
}

// number is a literal without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// longer is a number of seconds that is exceeded.
func longer(d config.Duration) string { return " > " + number(d.Std().Seconds()) }

// The recorded series.
const (
	targetDownMax   = "chatstack:target_down_seconds:max"
	targetDownMin   = "chatstack:target_down_seconds:min"
	containerDown   = "chatstack:container_down_seconds"
	targetElsewhere = "chatstack:target_container_down_seconds"
	problemMax      = "chatstack:problem_seconds:max" // of warnings
	problemMin      = "chatstack:problem_seconds:min" // of critical alerts
	authFailureRate = "chatstack:xmpp_auth_failure_rate"
	xmppMemory      = "chatstack:xmpp_container_memory_bytes"
	certificateEnd  = "chatstack:tls_certificate_not_after"
)

// recorded returns the recording rules that the alerts use.
func recorded(a *config.Alerts) []rule {
	down := unlessExcused(a, "target", "chatstack_target_down_seconds")
	problems := func(operator, severity string) string {
		return over(operator, fmt.Sprintf("%s unless %s == 1", latest(a, fmt.Sprintf("chatstack_problem_seconds{severity=%q}", severity)), latest(a, "chatstack_problem_excused")), nil)
	}
	return []rule{
		{Record: targetDownMax, Expr: over("max", down, nil)},
		{Record: targetDownMin, Expr: over("min", down, nil)},
		{Record: containerDown, Expr: containers("max", latest(a, "chatstack_container_down_seconds")+" > 0")},
		// The container that serves a target, also on an engine that another exporter watches.
		{Record: targetElsewhere, Expr: over("max", "chatstack_target_info * ignoring (endpoint, instance, job, kind, node, pod, service, target) group_left "+
			containerDown, []string{"docker_host", "kind"})},
		{Record: problemMax, Expr: problems("max", Warning)},
		{Record: problemMin, Expr: problems("min", Critical)},
		// A rate dips while scrapes are lost, so that the alert takes the best of the last ones.
		{Record: authFailureRate, Expr: fmt.Sprintf("sum without (host) (rate(xmpp_c2s_auth_failure_total[%s])) * 60", seconds(a.XMPPAuthFailureRate.Window))},
		{Record: xmppMemory, Expr: `chatstack_container_memory_working_set_bytes and on (container, docker_host, instance, job) chatstack_container_info{role="xmpp"}`},
		{Record: certificateEnd, Expr: fmt.Sprintf("last_over_time(chatstack_tls_certificate_not_after_timestamp_seconds[%s])", seconds(a.SlowLookback))},
	}
}
