package alerts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// scrapeLabels tell one exporter of a pair from the other, or say how it was found. No alert has them, so that two
// exporters make one alert. What else an operator has put to the series stays: env, cluster, namespace.
var scrapeLabels = []string{"instance", "job", "node", "pod", "service"}

// foreign are labels of ours that an operator's scrape configuration puts to series that do not have them from us.
var foreign = []string{"container", "endpoint"}

// A family's own labels, where they are among foreign.
var (
	ownContainer = []string{"container"}
	ownEndpoint  = []string{"endpoint"}
	ownNone      []string
)

// over aggregates series of one exporter each over the exporters: max or min, whichever is worse, or group where only
// counts whether there is one. The labels in drop go too. own are those of foreign that the series have from us.
func over(operator string, own, drop []string, series string) string {
	labels := slices.Concat(scrapeLabels, drop)
	for _, l := range foreign {
		if !slices.Contains(own, l) {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s without (%s) (%s)", operator, strings.Join(slices.Compact(labels), ", "), series)
}

// latest is what the last scrape said, also if it was not the very last: a reading that was lost neither resets a timer
// nor resolves an alert.
func latest(a *config.Alerts, selector string) string {
	return fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.Lookback))
}

// slow is what the last scrape said of what changes slowly, over the exporters. An exporter that has said it of late wins
// over one that has not, which may be gone since, or ask no more: its word is out of date.
func slow(a *config.Alerts, operator string, own []string, selector string) string {
	return lines(
		over(operator, own, nil, latest(a, selector)),
		"or",
		over(operator, own, nil, fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.SlowLookback))),
	)
}

// known is whether the last scrape, as latest has it, had the series at all; the value says nothing.
func known(a *config.Alerts, selector string) string {
	return fmt.Sprintf("present_over_time(%s[%s])", selector, seconds(a.Lookback))
}

// lines joins the parts of an expression, one a line.
func lines(parts ...string) string { return strings.Join(parts, "\n") }

// indented moves an expression to the right.
func indented(expr string) string { return "  " + strings.ReplaceAll(expr, "\n", "\n  ") }

// number is a literal without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// ofKind is whether any target of the kind is in the recorded condition; it has no labels of ours.
func ofKind(condition, kind string) string {
	return fmt.Sprintf("group without (container, kind, target) (%s{kind=~%q})", condition, kind)
}

// ofTarget is the recorded condition by target alone, under another name of the label where renamed is not empty.
func ofTarget(condition, renamed string) string {
	by := fmt.Sprintf("group without (container, kind) (%s)", condition)
	if renamed == "" {
		return by
	}
	return fmt.Sprintf("label_replace(%s, %q, \"$1\", \"target\", \"(.+)\")", by, renamed)
}

// The conditions that several alerts share are recorded, so that they are written, and worked out, once.
const (
	containerDown        = "chatstack:container_down"
	containerMaintenance = "chatstack:container_maintenance"
	dependencyDown       = "chatstack:dependency_down"
	containerExcused     = "chatstack:container_excused"
	containerRestarts    = "chatstack:container_restarts"
	containerStopped     = "chatstack:container_stopped"
	containerServing     = "chatstack:container_serving"
	roleExcused          = "chatstack:role_excused"
	certificateEnd       = "chatstack:certificate_end"
	certificateMatches   = "chatstack:certificate_matches_file"
	certificateRefused   = "chatstack:certificate_refused"
	targetDown           = "chatstack:target_down"
	targetMaintenance    = "chatstack:target_maintenance"
	targetExcused        = "chatstack:target_excused"
	authFailureRate      = "chatstack:xmpp_auth_failure_rate"
	volumeUsed           = "chatstack:volume_used_bytes"
	volumeUsageSeen      = "chatstack:volume_usage_seen"
	volumeUsage          = "chatstack:volume_usage"
)

// conditions returns the recording rules that come before the alerts, in an order in which each uses only those before
// it. Of a pair of exporters, the one that sees the worse counts.
func conditions(a *config.Alerts) []rule {
	return slices.Concat(containerConditions(a), targetConditions(a), certificateConditions(a), amounts(a))
}

// chain is how many containers that are down may stand between one and the cause of it. What is further away has no
// excuse, and is told too.
const chain = 3

// containerConditions have a series while the condition holds; its value says nothing. Only the number of restarts does.
func containerConditions(a *config.Alerts) []rule {
	state := func(operator, selector string) string {
		return over(operator, ownContainer, []string{"state"}, latest(a, "chatstack_container_state"+selector))
	}
	// What is down though nothing that it depends on is: that is told. Of containers that depend on each other none is a
	// cause, so that none excuses another.
	const cause = containerDown + " unless group without (depends_on) (" + dependencyDown + ")"
	excused := behind(cause)
	for range chain - 1 {
		excused = behind(lines(cause, "or", excused))
	}
	justExcused := fmt.Sprintf("present_over_time(%s[%s])", containerExcused, seconds(a.Lookback))
	return []rule{
		{Record: containerDown, Expr: lines(
			over("max", ownContainer, nil, latest(a, "chatstack_container_expected"))+" == 1",
			"and",
			state("min", `{state="running"}`)+" == 0",
		)},
		{Record: containerMaintenance, Expr: lines(
			over("group", ownContainer, []string{"state"}, known(a, "chatstack_container_state")),
			"and ignoring (docker_host, kind, name)",
			maintained(a, "container"),
		)},
		{Record: dependencyDown, Expr: lines(
			over("group", ownContainer, nil, known(a, "chatstack_container_dependency")),
			"and ignoring (container)",
			asDependency(containerDown),
		)},
		// Not to blame: under maintenance, or one that it depends on is down, and that one or what brought it down is told.
		{Record: containerExcused, Expr: lines(containerMaintenance, "or", excused)},
		{Record: containerRestarts, Expr: restarts(a)},
		// One that is restarted again and again is the business of ContainerRestarts, a missing one of ContainerMissing. One
		// that waits for a restart that does not come is told here.
		{Record: containerStopped, Expr: lines(
			containerDown,
			"unless "+state("max", `{state="missing"}`)+" == 1",
			"unless (",
			indented(lines(
				state("max", `{state="restarting"}`)+" == 1",
				"and",
				fmt.Sprintf("(%s > 0 or %s)", containerRestarts, justExcused),
			)),
			")",
			"unless "+containerExcused,
		)},
		{Record: containerServing, Expr: lines(
			state("min", `{state="running"}`)+" == 1",
			"unless "+containerExcused,
		)},
		// One container of the role that is well is enough to be blamed.
		{Record: roleExcused, Expr: lines(
			ofRole(a, `chatstack_container_info{role!=""}`, fmt.Sprintf("(%s or %s)", containerDown, containerExcused)),
			"unless",
			ofRole(a, "chatstack_container_info", containerServing),
		)},
	}
}

// asDependency is a condition of containers by the name that others depend on.
func asDependency(condition string) string {
	return fmt.Sprintf("label_replace(%s, \"depends_on\", \"$1\", \"container\", \"(.+)\")", condition)
}

// behind are the containers that depend on one which is down and in the condition.
func behind(condition string) string {
	return lines(
		"group without (depends_on) (",
		indented(lines(dependencyDown, "and ignoring (container)", asDependency("\n"+indented(condition)+"\n"))),
		")",
	)
}

// ofRole are the roles, as the info tells them, of the containers in the condition.
func ofRole(a *config.Alerts, info, condition string) string {
	return lines(
		"group without (container, docker_host) (",
		indented(lines(
			over("group", ownContainer, []string{"compose_project", "compose_service", "image"}, known(a, info)),
			"and ignoring (role)",
			condition,
		)),
		")",
	)
}

// restarts are those within the window, but for what a container did because of another one, or under maintenance.
// They are counted whole: increase() would make 3.2 of 3. The counter's growth is added up from one step to the next,
// where a counter that fell, since the exporter began to count anew, has grown by all that it shows. A step begins before
// the evaluation that it is looked at in, hence the offset of the excuse.
func restarts(a *config.Alerts) string {
	const counter = "chatstack_container_restarts_total"
	window, interval := seconds(a.ContainerRestarts.Window), seconds(a.Interval)
	before := fmt.Sprintf("%s[%s] offset %s", counter, window, interval)
	others := slices.Sorted(slices.Values(append(slices.Clone(scrapeLabels), "endpoint")))
	return over("max", ownContainer, nil, "\n"+indented(lines(
		"sum_over_time((",
		indented(lines(
			"(",
			indented(lines(
				fmt.Sprintf("%s - last_over_time(%s) >= 0", counter, before),
				"or",
				fmt.Sprintf("%s * present_over_time(%s)", counter, before),
			)),
			")",
			fmt.Sprintf("unless ignoring (%s)", strings.Join(others, ", ")),
			fmt.Sprintf("present_over_time(%s[%s] offset -%s)", containerExcused, seconds(a.Lookback+a.Interval), interval),
		)),
		fmt.Sprintf(")[%s:%s])", window, interval),
	))+"\n")
}

// maintained is what is under maintenance: its name stands in the label name and in that of the kind.
func maintained(a *config.Alerts, kind string) string {
	own := ownContainer
	if kind == "container" {
		own = ownNone // what stands in the label container is the operator's, and about to be replaced
	}
	return fmt.Sprintf("label_replace(%s, %q, \"$1\", \"name\", \"(.+)\")",
		over("group", own, nil, known(a, fmt.Sprintf("chatstack_maintenance{kind=%q}", kind))), kind)
}

// targetConditions have a series while the condition holds; its value says nothing.
func targetConditions(a *config.Alerts) []rule {
	info := over("group", ownContainer, nil, known(a, "chatstack_target_info"))
	return []rule{
		{Record: targetDown, Expr: lines(
			info,
			"and ignoring (container, kind)",
			over("min", ownContainer, nil, latest(a, "chatstack_probe_success"))+" == 0",
		)},
		{Record: targetMaintenance, Expr: lines(
			info,
			"and ignoring (container, kind, name)",
			maintained(a, "target"),
			"or",
			info,
			"and ignoring (kind, target)",
			fmt.Sprintf("group without (docker_host) (%s)", containerMaintenance),
		)},
		// Not to blame: under maintenance, or its container is down, or is itself not to blame, and none of that name on
		// another engine is well.
		{Record: targetExcused, Expr: lines(
			targetMaintenance,
			"or",
			info,
			"and ignoring (kind, target)",
			fmt.Sprintf("group without (docker_host) (%s or %s)", containerDown, containerExcused),
			"unless ignoring (kind, target)",
			fmt.Sprintf("group without (docker_host) (%s)", containerServing),
		)},
	}
}

// certificateConditions are what several alerts say of certificates. Only the end of one is a number.
func certificateConditions(a *config.Alerts) []rule {
	return []rule{
		{Record: certificateEnd, Expr: slow(a, "min", ownEndpoint, "chatstack_tls_certificate_not_after_timestamp_seconds")},
		{Record: certificateMatches, Expr: slow(a, "min", ownEndpoint, "chatstack_tls_certificate_matches_file")},
		// A certificate that is pinned need not verify: then the target does not fail.
		{Record: certificateRefused, Expr: lines(
			"label_replace((",
			indented(slow(a, "min", ownEndpoint, "chatstack_tls_certificate_verified")),
			`) == 0, "target", "$1", "endpoint", "(.+)")`,
			"and ignoring (endpoint)",
			over("group", ownEndpoint, []string{"reason"}, known(a, `chatstack_probe_failing{reason="tls"}`)),
		)},
	}
}

// amounts are what the thresholds of several severities are held against.
func amounts(a *config.Alerts) []rule {
	interval := a.Interval
	last := func(name string) string {
		return fmt.Sprintf("last_over_time(chatstack_volume_%s_bytes[%s])", name, seconds(a.SlowLookback))
	}
	return []rule{
		// rate() is per second. While two readings are lost, and until its window is full again, it shows as little as a third:
		// the best of three evaluations counts, which lie within two and a half intervals.
		{Record: authFailureRate, Expr: over("max", ownNone, nil, fmt.Sprintf("max_over_time(sum without (host) (rate(xmpp_c2s_auth_failure_total[%s]))[%s:%s])",
			seconds(a.XMPPAuthFailureRate.Window), seconds(interval*5/2), seconds(interval))) + " * 60"},
		// As df counts: what is kept back for root is neither used nor to be had.
		{Record: volumeUsed, Expr: last("size") + " - " + last("free")},
		{Record: volumeUsageSeen, Expr: fmt.Sprintf("%s / (%s + %s)", volumeUsed, volumeUsed, last("available"))},
		// As with slow, an exporter that has seen the volume of late wins over one that has not.
		{Record: volumeUsage, Expr: lines(
			over("max", ownNone, nil, volumeUsageSeen+" and "+known(a, "chatstack_volume_size_bytes")),
			"or",
			over("max", ownNone, nil, volumeUsageSeen),
		)},
	}
}
