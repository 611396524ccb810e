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

// over aggregates series of one exporter each over the exporters: max or min, whichever is worse. The labels in drop go
// too. own are those of foreign that the series have from us.
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

// slow is latest for what changes slowly.
func slow(a *config.Alerts, selector string) string {
	return fmt.Sprintf("last_over_time(%s[%s])", selector, seconds(a.SlowLookback))
}

// lines joins the parts of an expression, one a line.
func lines(parts ...string) string { return strings.Join(parts, "\n") }

// indented moves an expression to the right.
func indented(expr string) string { return "  " + strings.ReplaceAll(expr, "\n", "\n  ") }

// number is a literal without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// ofKind is whether any target of the kind is in the recorded condition; it has no labels of ours.
func ofKind(condition, kind string) string {
	return fmt.Sprintf("max without (container, kind, target) (%s{kind=~%q})", condition, kind)
}

// ofTarget is the recorded condition by target alone, under another name of the label where renamed is not empty.
func ofTarget(condition, renamed string) string {
	by := fmt.Sprintf("max without (container, kind) (%s)", condition)
	if renamed == "" {
		return by
	}
	return fmt.Sprintf("label_replace(%s, %q, \"$1\", \"target\", \"(.+)\")", by, renamed)
}

// The conditions that several alerts share are recorded, so that they are written, and worked out, once.
const (
	containerDown        = "chatstack:container_down"
	containerMaintenance = "chatstack:container_maintenance"
	containerExcused     = "chatstack:container_excused"
	roleExcused          = "chatstack:role_excused"
	targetDown           = "chatstack:target_down"
	targetMaintenance    = "chatstack:target_maintenance"
	targetExcused        = "chatstack:target_excused"
)

// conditions returns the recording rules that come before the alerts, in an order in which each uses only those before
// it. A series of theirs exists while the condition holds; its value says nothing.
func conditions(a *config.Alerts) []rule {
	info := over("max", ownContainer, nil, latest(a, "chatstack_target_info"))
	running := func(operator string) string {
		return over(operator, ownContainer, []string{"state"}, latest(a, `chatstack_container_state{state="running"}`))
	}
	maintained := func(kind string) string {
		return fmt.Sprintf("label_replace(%s, %q, \"$1\", \"name\", \"(.+)\")",
			over("max", ownNone, []string{"kind"}, latest(a, fmt.Sprintf("chatstack_maintenance{kind=%q}", kind))), kind)
	}
	return []rule{
		// Of a pair, the exporter that sees the worse counts.
		{Record: containerDown, Expr: lines(
			over("max", ownContainer, nil, latest(a, "chatstack_container_expected"))+" == 1",
			"and",
			running("min")+" == 0",
		)},
		{Record: containerMaintenance, Expr: lines(
			running("max"),
			"and ignoring (docker_host, name)",
			maintained("container"),
		)},
		// Not to blame: under maintenance, or one that it depends on is down.
		{Record: containerExcused, Expr: lines(
			containerMaintenance,
			"or",
			"max without (depends_on) (",
			indented(lines(
				over("max", ownContainer, nil, latest(a, "chatstack_container_dependency")),
				"and ignoring (container)",
				fmt.Sprintf("label_replace(%s, \"depends_on\", \"$1\", \"container\", \"(.+)\")", containerDown),
			)),
			")",
		)},
		{Record: roleExcused, Expr: lines(
			"max without (container, docker_host) (",
			indented(lines(
				over("max", ownContainer, []string{"compose_project", "compose_service", "image"}, latest(a, `chatstack_container_info{role!=""}`)),
				"and ignoring (role)",
				fmt.Sprintf("(%s or %s)", containerDown, containerExcused),
			)),
			")",
		)},
		{Record: targetDown, Expr: lines(
			info,
			"and ignoring (container, kind)",
			over("min", ownNone, nil, latest(a, "chatstack_probe_success"))+" == 0",
		)},
		{Record: targetMaintenance, Expr: lines(
			info,
			"and ignoring (container, kind, name)",
			maintained("target"),
			"or",
			info,
			"and ignoring (kind, target)",
			fmt.Sprintf("max without (docker_host) (%s)", containerMaintenance),
		)},
		// Not to blame: under maintenance, or its container is down, or is itself not to blame.
		{Record: targetExcused, Expr: lines(
			targetMaintenance,
			"or",
			info,
			"and ignoring (kind, target)",
			fmt.Sprintf("max without (docker_host) (%s or %s)", containerDown, containerExcused),
		)},
	}
}
