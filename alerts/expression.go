package alerts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// scrapeLabels distinguish one exporter of a pair from the other, or say how it was discovered. No alert has them, so that two
// exporters make one alert. Labels that an operator adds stay: env, cluster, namespace.
var scrapeLabels = []string{"instance", "job", "node", "pod", "service"}

// foreign are labels of ours that an operator's scrape configuration adds to series that do not have them from us.
var foreign = []string{"container", "endpoint"}

// buildLabels are those of chatstack_exporter_build_info.
var buildLabels = []string{"branch", "goarch", "goos", "goversion", "revision", "tags", "version"}

// over aggregates series of one exporter each over the exporters: max where one that sees a problem is enough, min where all have
// to agree. drop are labels that go too; keep are those of foreign that the series have from us.
func over(operator, series string, drop []string, keep ...string) string {
	labels := slices.Clone(drop)
	for _, l := range foreign {
		if !slices.Contains(keep, l) {
			labels = append(labels, l)
		}
	}
	return fmt.Sprintf("%s without (%s) (%s)", operator, list(scrapeLabels, labels...), series)
}

// containers aggregates series of containers.
func containers(operator, series string) string { return over(operator, series, nil, "container") }

// latest is what the last scrape returned, even if one or two were lost since.
func latest(a *config.Alerts, selector string) string {
	return fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.Lookback))
}

// unlessExcused leaves out of latest values those of subjects that something else excuses.
func unlessExcused(a *config.Alerts, subject, selector string) string {
	unless := "unless"
	if subject == "target" {
		unless += " ignoring (kind)"
	}
	return fmt.Sprintf("%s %s %s == 1", latest(a, selector), unless, latest(a, "chatstack_"+subject+"_excused"))
}

// number is a literal without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// longer is a number of seconds that is exceeded.
func longer(d config.Duration) string { return " > " + number(d.Std().Seconds()) }

// The recorded series. any is what one exporter sees at least, all what every exporter sees that has an opinion.
const (
	targetDownAny   = "chatstack:target_down_seconds:any"
	targetDownAll   = "chatstack:target_down_seconds:all"
	targetPages     = "chatstack:target_pages"
	containerDown   = "chatstack:container_down"
	targetElsewhere = "chatstack:target_container_down_seconds"
	warningsAny     = "chatstack:warning_seconds:any"
	criticalAll     = "chatstack:critical_seconds:all"
	authFailureRate = "chatstack:xmpp_auth_failures_per_minute"
	xmppSessions    = "chatstack:xmpp_sessions"
	ircUsers        = "chatstack:irc_users"
	ircServers      = "chatstack:irc_servers"
	memory          = "chatstack:container_memory_bytes"
	xmppMemory      = "chatstack:xmpp_container_memory_bytes"
	volumeUsed      = "chatstack:volume_used_ratio"
	exporterUp      = "chatstack:exporter_up"
)

// recorded returns the recording rules that the alerts use.
func recorded(a *config.Alerts) []rule {
	down := unlessExcused(a, "target", "chatstack_target_down_seconds")
	problems := func(operator, severity string) string {
		return over(operator, fmt.Sprintf("%s unless %s == 1", latest(a, fmt.Sprintf("chatstack_problem_seconds{severity=%q}", severity)), latest(a, "chatstack_problem_excused")), nil)
	}
	rules := []rule{
		{Record: targetDownAny, Expr: over("max", down, nil)},
		{Record: targetDownAll, Expr: over("min", down, nil)},
		{Record: targetPages, Expr: over("max", latest(a, "chatstack_target_pages"), nil)},
		// One that has just come back still explains that its target is not read again yet.
		{Record: containerDown, Expr: containers("max", fmt.Sprintf("max_over_time(chatstack_container_down_seconds[%s]) > 0", seconds(a.Lookback)))},
		// The container that serves a target, also on an engine that another exporter watches.
		{Record: targetElsewhere, Expr: over("max", fmt.Sprintf("%s * ignoring (%s) group_left %s", latest(a, "chatstack_target_info"),
			list(scrapeLabels, "endpoint", "kind", "target"), containerDown), []string{"docker_host"})},
		{Record: warningsAny, Expr: problems("max", Warning)},
		{Record: criticalAll, Expr: problems("min", Critical)},
		{Record: authFailureRate, Expr: fmt.Sprintf("sum without (host) (rate(xmpp_c2s_auth_failure_total[%s])) * 60", seconds(a.XMPPAuthFailureRate.Window))},
		{Record: memory, Expr: containers("max", unlessExcused(a, "container_memory", "chatstack_container_memory_working_set_bytes"))},
		{Record: xmppMemory, Expr: fmt.Sprintf("%s and ignoring (%s) %s", memory,
			list(scrapeLabels, "compose_project", "compose_service", "endpoint", "image", "role"), latest(a, `chatstack_container_info{role="xmpp"}`))},
		{Record: volumeUsed, Expr: over("max", latest(a, "chatstack_volume_used_ratio")+" unless "+latest(a, "chatstack_volume_excused"), nil)},
		// A page that is not the exporter's is none.
		{Record: exporterUp, Expr: over("max", fmt.Sprintf("0 * up{job=%q} or chatstack_exporter_build_info", a.Job), buildLabels)},
	}
	// For a warning, one exporter that finds few is enough.
	fewest := func(record, series, excused string, wanted bool) {
		if wanted {
			rules = append(rules, rule{Record: record, Expr: over("min", latest(a, series)+" unless "+latest(a, excused), nil)})
		}
	}
	fewest(xmppSessions, "chatstack_xmpp_sessions", "chatstack_xmpp_sessions_excused", a.XMPPSessionsGone.Typical > 0)
	fewest(ircUsers, "chatstack_irc_users", "chatstack_irc_excused", a.IRCUsersGone.Typical > 0)
	fewest(ircServers, "chatstack_irc_servers", "chatstack_irc_excused", a.IRCServersSplit.Enabled)
	return rules
}

// exceeds compares what is recorded in every round with a limit. It must have exceeded that throughout hold, and not be new or gone: then
// there are too few values to tell.
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
