package alerts

import (
	"fmt"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on containers.

// containerWithCause is withCause for alerts on containers.
var containerWithCause = together{
	critical: withMost,
	all:      withEngine + "last_over_time(chatstack_docker_targets_down{docker_host=%[6]q,<env>}[<range>])",
}

var containerUnhealthy = row{
	name: health.AlertContainerUnhealthy,
	AlertKind: kind("container_unhealthy", config.Keys("warning", "for", "keep_firing_for", "critical", "after", "keep_firing_for"),
		config.AlertSettings{Warning: lasting(0, 5*minute), Critical: lasting(5*minute, 5*minute)}, func(c *config.AlertCheck) {
			c.AtLeast("critical.after", c.Critical.For, c.Alerts.Interval, "one alerts.interval")
		}),
	server:   ofContainer,
	together: containerWithCause,
	judged:   &health.Rule{Unsettles: true},
	evidence: containerState("container_unhealthy_seconds", "container_unhealthy_seconds"),
	page:     Words{"its health check fails", ""},
	gauge: Gauge{
		Place:      1,
		Title:      "Unhealthy containers",
		Unit:       "seconds",
		Lasts:      true,
		Containers: true,
		Unknown:    "no container is unhealthy",
	},
	panels:   []string{"overview/Containers unhealthy"},
	warning:  message{"", aContainer + " is unhealthy" + lastKnown, unhealthyText},
	critical: message{"", aContainer + " has been unhealthy for over <for>" + lastKnown, unhealthyText},
}

const unhealthyText = "Its health check has been failing" + sinceThen + " Its users may see errors." + readLog

var containerOftenUnhealthy = row{
	name: health.AlertContainerOftenUnhealthy,
	AlertKind: kind("container_often_unhealthy", config.Keys("window", "for", "keep_firing_for"),
		config.AlertSettings{Window: hour, Level: lasting(30*minute, 0)}, func(c *config.AlertCheck) {
			c.AtLeast("window", c.Window, c.For, "its for")
		}),
	server: ofContainer,
	judged: &health.Rule{Unsettles: true},
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return containers(agreed[t.severity], latest(a, oftenUnhealthy)) + aboveSeconds(t.For)
		},
		held: true,
		trials: func(a *config.Alerts, t *alert) []trial {
			s := newSubject(a, t, strings.TrimPrefix(oftenUnhealthy, "chatstack_"), container, t.For.Std().Seconds())
			s.all = true
			return s.trials()
		},
	},
	page: Words{"its health check keeps failing", "Find out why it does not stay healthy."},
	critical: message{
		"over <for> within <window>", aContainer + " keeps becoming unhealthy" + lastKnown,
		"It was unhealthy, or starting again after that, for {{ $value | humanizeDuration }} of the last <window>. " +
			"Its users see errors again and again." + readLog,
	},
}

const oftenUnhealthy = "chatstack_container_recently_unhealthy_seconds"

var oneShotFailed = row{
	name:      health.AlertOneShotFailed,
	AlertKind: flat("one_shot_failed", 0, 0),
	server:    ofContainer,
	judged:    &health.Rule{},
	evidence:  containerState("container_one_shot_failed_seconds", ""),
	page:      Words{"did not do its work", "Find out why it failed, then run it again."},
	warning: message{
		"", aContainer + " has failed to do its work" + lastKnown,
		"It should do its work and end, but its last run ended with an error {{ $value | humanizeDuration }} ago. " +
			"What needs its work may be out of date." + readLog,
	},
}

var containerRestarts = row{
	name: health.AlertContainerRestarts,
	AlertKind: kind("container_restarts", config.Keys("window", "warning", "over", "critical", "over"),
		config.AlertSettings{Window: 10 * minute, Critical: config.Level{Over: 3}}, config.ScrapesFit, config.Amounts),
	server:   ofContainer,
	together: withOthers,
	judged:   &health.Rule{Unsettles: true},
	evidence: containerEvents("container_recent_restarts"),
	page:     Words{"was restarted", "Find out why it exited."},
	gauge: Gauge{
		Place:      5,
		Title:      "Container restarts",
		Containers: true,
		Events:     true,
	},
	panels: []string{"overview/Most restarts in 10 minutes", "containers/Restarts in 10 minutes"},
	warning: message{
		"<more> or more within <window>", aContainer + " has restarted" + lastKnown,
		"It has restarted {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} within <window>. Deploys do not count. " +
			"Each restart disconnects its users." + readLog,
	},
	critical: message{
		"<more> or more within <window>", aContainer + " is crash-looping" + unlessHeld("", ": {{ $value }} restarts in <window>") + lastKnown,
		"More than <over> restarts within <window> are critical; deploys do not count. Its service is as good as down." + readLog,
	},
}

var containerOOMKill = row{
	name: health.AlertContainerOOMKill,
	AlertKind: kind("container_oom_kill", config.Keys("window"),
		config.AlertSettings{Window: 10 * minute}, config.ScrapesFit),
	server:   ofContainer,
	judged:   &health.Rule{},
	evidence: containerEvents("container_recent_oom_kills"),
	page:     Words{"the kernel killed one of its processes because memory ran out", "Give it more memory, or find out what uses it."},
	warning: message{
		"1 or more within <window>", aContainer + " ran out of memory and lost a process.",
		"Processes killed within <window>: {{ $value }}. The container still runs, but part of its service may be gone. " +
			"First check that the service works.",
	},
}

var containerDown = row{
	name:      health.AlertContainerDown,
	AlertKind: holds("container_down", lasting(minute, 2*minute), lasting(5*minute, 2*minute), config.NotShorter),
	server:    ofContainer,
	together:  containerWithCause,
	judged:    &health.Rule{},
	evidence:  containerState("container_down_seconds", "container_down_seconds"),
	page:      Words{"is not running", "Find out why it exited, then start it."},
	gauge: Gauge{
		Place:      7,
		Title:      "Container down",
		Unit:       "seconds",
		Lasts:      true,
		Containers: true,
		Unknown:    "every container that should run is running",
	},
	panels:   []string{"overview/Containers down", "containers/Container problems over time"},
	warning:  message{"", aContainer + containerFlaps(flapSummary, upAgain, notRunning) + lastKnown, containerDownText},
	critical: message{"", aContainer + containerFlaps(flapSummary, upAgain, " has been down for over <for>") + lastKnown, containerDownText},
}

// notRunning is true of a workload of which some instances run, too.
const notRunning = " {{ if $labels.container }}is not running{{ else }}runs fewer instances than it should{{ end }}"

var containerDownText = lostWithIt + containerFlaps(flapText, flapText, "{{ if $labels.container }}It has been down{{ else }}An "+
	"instance should run, and has been down at least{{ end }}"+sinceThen+" No container that it depends on is down.") + readLog

func containerFlaps(again, up, otherwise string) string {
	return flaps("container", "{container=%q,docker_host=%q,workload=%q,ENV}",
		"$labels.container $labels.docker_host $labels.workload", again, up, otherwise)
}

var containerMissing = row{
	name:      health.AlertContainerMissing,
	AlertKind: flat("container_missing", 5*minute, 0),
	server:    ofContainer,
	together:  containerWithCause,
	judged:    &health.Rule{Pages: true},
	evidence:  containerState("container_removed_seconds", "container_missing_seconds"),
	page:      Words{"does not exist", "Create it again."},
	warning: message{
		"removed by a person: <after>", aContainer + " has been removed" + lastKnown,
		"Somebody removed it {{ $value | humanizeDuration }} ago. " + lostWithIt + "If that was a mistake, create it again. " +
			"If not, acknowledge the incident, or run: chatstack_exporter forget.",
	},
	critical: message{
		"otherwise: <after>", aContainer + " is missing" + lastKnown,
		lostWithIt + "It should exist, and has been gone" + sinceThen + " First create it again: docker compose up -d.",
	},
}

var containerMemory = row{
	name:      health.AlertContainerMemory,
	AlertKind: amounts("container_memory", config.Amounts, over(500_000_000, 5*minute, 5*minute), over(1_000_000_000, 2*minute, 5*minute)),
	server:    ofContainer,
	judged:    &health.Rule{Measured: true, OwnSeries: true},
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			used := memory
			if t.severity == Warning {
				used = xmppMemory
			}
			return exceeds(used, number(float64(t.Over)), t.For)
		},
		trials: memoryTrials,
	},
	page: Words{"uses too much memory", "Find out what uses it, or give the container a limit."},
	gauge: Gauge{
		Place:      6,
		Title:      "Container memory",
		Unit:       "bytes",
		Containers: true,
		XMPPApart:  true,
		Unknown:    "no container's memory is known",
	},
	panels:   []string{"overview/Memory of the XMPP server", "overview/Largest container", "containers/Memory", "xmpp/Memory"},
	warning:  message{"XMPP server: over <size><held>", memorySummary, "The XMPP server" + memoryText},
	critical: message{"any container: over <size><held>", memorySummary, "It" + memoryText},
}

var (
	memorySummary = aContainer + " uses over <size> of memory."
	memoryText    = " has used at least " + bytesUsed +
		"<held>. At its limit the kernel kills it. First compare: docker stats --no-stream {{ $labels.container }}."
)

// memoryUsed leaves out containers whose alert on memory is held back.
func memoryUsed(a *config.Alerts) string {
	return containers("max", unlessExcused(a, "container_memory", "chatstack_container_memory_working_set_bytes"))
}

// containerState compares how long containers have been in a state; all exporters must agree that it is critical.
func containerState(warning, critical string) evidence {
	gauge := map[string]string{Warning: warning, Critical: critical}
	return evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return ofContainers(gauge[t.severity], t.severity) + aboveSeconds(t.For)
		},
		held: true,
		records: func(a *config.Alerts, _ *config.AlertSettings) (list []rule) {
			for _, severity := range []string{Warning, Critical} {
				if name := gauge[severity]; name != "" {
					list = append(list, rule{
						Record: ofContainers(name, severity),
						Expr:   containers(agreed[severity], unlessExcused(a, "container", "chatstack_"+name)),
					})
				}
			}
			return list
		},
		trials: func(a *config.Alerts, t *alert) []trial {
			s := newSubject(a, t, gauge[t.severity], container, t.For.Std().Seconds())
			s.all = t.severity == Critical
			s.heldBackBy(a, "container_excused", 0)
			return s.trials()
		},
		lasts: true,
	}
}

// containerEvents counts what happened to containers. An exporter that started later has seen fewer events, never more.
func containerEvents(gauge string) evidence {
	return evidence{
		expr: func(a *config.Alerts, t *alert) string {
			return fmt.Sprintf("%s > %d", containers("max", latest(a, "chatstack_"+gauge)), t.Over)
		},
		held: true,
		trials: func(a *config.Alerts, t *alert) []trial {
			return newSubject(a, t, gauge, container, float64(t.Over)).trials()
		},
	}
}

func memoryTrials(a *config.Alerts, t *alert) []trial {
	s := newSubject(a, t, "container_memory_working_set_bytes", container, float64(t.Over))
	s.hold, s.born = t.For, true
	s.heldBackBy(a, "container_memory_excused", 0).wait = s.hold
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
		try("it is another server", other.series(0, steady(s.bad)...), check{s.pace.ceil(s.hold) + 2, false}))
}
