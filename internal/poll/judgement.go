package poll

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var (
	targetDownDesc = prometheus.NewDesc("chatstack_target_down_seconds",
		"How long the target has been down, by the exporter's monotonic clock; 0 while it is up. Absent until that is known, and while a target that was up is not read.", []string{"target", "kind"}, nil)
	targetPagesDesc = prometheus.NewDesc("chatstack_target_pages",
		"Whether the target's own alerts may be critical: its page: in the configuration.", []string{"target"}, nil)
	targetExcusedDesc = prometheus.NewDesc("chatstack_target_excused",
		"Whether the alert on the target is held back because of something else; chatstack_excuse_info has the reason.", []string{"target"}, nil)
	excusedFailuresDesc = prometheus.NewDesc("chatstack_probe_excused_failures_total",
		"Failed scheduled readings that do not count for TargetUnstable: something else explains them, or TargetDown has told of them.", []string{"target"}, nil)
	containerDownDesc = prometheus.NewDesc("chatstack_container_down_seconds",
		"How long the container has existed and not been running although it should be; 0 while it runs. Absent while one that was well cannot be looked at.", []string{"container", "docker_host"}, nil)
	containerMissingDesc = prometheus.NewDesc("chatstack_container_missing_seconds",
		"How long the container has not existed although it should; 0 while it does.", []string{"container", "docker_host"}, nil)
	containerRemovedDesc = prometheus.NewDesc("chatstack_container_removed_seconds",
		"How long the container has not existed since somebody removed it; absent unless that is so.", []string{"container", "docker_host"}, nil)
	containerUnhealthyDesc = prometheus.NewDesc("chatstack_container_unhealthy_seconds",
		"How long the container's health checks have been failing; 0 unless it is unhealthy.", []string{"container", "docker_host"}, nil)
	containerExcusedDesc = prometheus.NewDesc("chatstack_container_excused",
		"Whether alerts on the container are held back because of something else; chatstack_excuse_info has the reason.", []string{"container", "docker_host"}, nil)
	memoryExcusedDesc = prometheus.NewDesc("chatstack_container_memory_excused",
		"Whether the alert on the container's memory is held back for the same reason; an alert that fires is not.", []string{"container", "docker_host"}, nil)
	recentRestartsDesc = prometheus.NewDesc("chatstack_container_recent_restarts",
		"Restarts of the container within the window of the alert on restarts, without those that something else explains.", []string{"container", "docker_host"}, nil)
	recentKillsDesc = prometheus.NewDesc("chatstack_container_recent_oom_kills",
		"How often the kernel killed a process of the container for want of memory, within the window of the alert on that, and the container went on.", []string{"container", "docker_host"}, nil)
	problemSecondsDesc = prometheus.NewDesc("chatstack_problem_seconds",
		"How long something besides being down has been wrong with the target, by the alert that tells of it; 0 while all is well. Without a target, it is about all of the exporter's.", []string{"alert", "severity", "target", "of"}, nil)
	problemExcusedDesc = prometheus.NewDesc("chatstack_problem_excused",
		"Whether the alert on the problem is held back because of something else.", []string{"alert", "severity", "target", "of"}, nil)
	certificateExcusedDesc = prometheus.NewDesc("chatstack_tls_certificate_excused",
		"1 while maintenance holds back alerts on the end of the certificate.", []string{"endpoint"}, nil)
	volumeExcusedDesc = prometheus.NewDesc("chatstack_volume_excused",
		"1 while maintenance holds back alerts on the usage of the volume.", []string{"volume"}, nil)
	authExcusedDesc = prometheus.NewDesc("chatstack_xmpp_auth_failures_excused",
		"1 while maintenance holds back alerts on failed logins.", nil, nil)
	sessionsExcusedDesc = prometheus.NewDesc("chatstack_xmpp_sessions_excused",
		"1 while maintenance holds back the alert on the sessions of clients.", nil, nil)
	ircExcusedDesc = prometheus.NewDesc("chatstack_irc_excused",
		"1 while maintenance holds back alerts on the users and servers of the IRC network.", nil, nil)
	excuseInfoDesc = prometheus.NewDesc("chatstack_excuse_info",
		"1 while an alert on the target or container is held back: because of maintenance, a dependency, the target's container, or since something is starting; cause is the container to blame, or the target of an engine that cannot be read.",
		[]string{"kind", "name", "docker_host", "reason", "cause"}, nil)
)

// judgementMetrics are what the alert rules compare with their thresholds.
func judgementMetrics(j *health.Judgement) []prometheus.Metric {
	const perSubject = 6 // about
	m := make([]prometheus.Metric, 0, perSubject*len(j.Verdicts))
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		m = append(m, exposition.NewSample(desc, prometheus.GaugeValue, v, labels...))
	}
	// That something was well when it was seen last is no opinion, which would keep another exporter's alert from being critical.
	lasting := func(desc *prometheus.Desc, d time.Duration, unlessWell bool, labels ...string) {
		if d > 0 || !unlessWell {
			gauge(desc, d.Seconds(), labels...)
		}
	}
	subjects := slices.SortedFunc(maps.Keys(j.Verdicts), func(a, b health.Subject) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Host, b.Host))
	})
	for _, s := range subjects {
		v := j.Verdicts[s]
		excused := 0.0
		if v.Excuse.Holds() {
			excused = 1
			gauge(excuseInfoDesc, 1, s.Kind, s.Name, s.Host, v.Excuse.Reason, v.Excuse.Cause)
		}
		labels := []string{s.Name, s.Host}
		if s.Kind == config.MaintenanceTarget {
			labels = labels[:1]
			pages := 1.0
			if v.WarnOnly {
				pages = 0
			}
			gauge(targetPagesDesc, pages, labels...)
			m = append(m, exposition.NewSample(excusedFailuresDesc, prometheus.CounterValue, float64(v.ExcusedFailures), labels...))
			if v.Known { // the rules look back for both: an excuse of an unknown duration would be of the last one that was known
				gauge(targetExcusedDesc, excused, labels...)
				lasting(targetDownDesc, v.Down, v.Unknown, s.Name, v.TargetKind)
			}
			continue
		}
		lasting(containerDownDesc, v.Down, v.Unknown, labels...)
		lasting(containerMissingDesc, v.Missing, v.Unknown, labels...)
		lasting(containerUnhealthyDesc, v.Unhealthy, v.Unknown, labels...)
		lasting(containerRemovedDesc, v.Removed, true, labels...)
		gauge(containerExcusedDesc, excused, labels...)
		if v.MemoryTold {
			excused = 0
		}
		gauge(memoryExcusedDesc, excused, labels...)
		gauge(recentRestartsDesc, float64(v.RecentRestarts), labels...)
		gauge(recentKillsDesc, float64(v.RecentKills), labels...)
	}
	for _, h := range j.HeldBack {
		switch h.Alert {
		case health.AlertCertificateExpiry:
			gauge(certificateExcusedDesc, 1, h.Name)
		case health.AlertVolumeUsage:
			gauge(volumeExcusedDesc, 1, h.Name)
		case health.AlertSessionsGone:
			gauge(sessionsExcusedDesc, 1)
		case health.AlertUsersGone:
			gauge(ircExcusedDesc, 1)
		default:
			gauge(authExcusedDesc, 1)
		}
	}
	for i := range j.Conditions {
		c := &j.Conditions[i]
		labels := []string{c.Alert, c.Severity.String(), c.Target, c.Of}
		gauge(problemSecondsDesc, c.Lasted.Seconds(), labels...)
		excused := 0.0
		if c.Excused {
			excused = 1
		}
		gauge(problemExcusedDesc, excused, labels...)
	}
	return m
}
