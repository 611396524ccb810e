package poll

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// judgedLabels are those of what is judged as a container. The label workload is empty for a container, and container for a shared
// workload. It is exported all the same, so that no scrape configuration adds a label container.
var judgedLabels = []string{"container", "docker_host", "workload"}

var (
	targetDownDesc = prometheus.NewDesc("chatstack_target_down_seconds",
		"Seconds since the target went down, or since the first of three outages within 90 minutes until it has been up for 15 minutes; "+
			"else 0 while it is up. Absent until that is known, and while a target that was up is not probed.",
		[]string{"target", "kind"}, nil)
	targetOutagesDesc = prometheus.NewDesc("chatstack_target_recent_outages",
		"Outages of the target within the last 90 minutes that are one alert, since there were three; absent for all other targets.",
		[]string{"target", "kind"}, nil)
	targetCalmDesc = prometheus.NewDesc("chatstack_target_calm_seconds",
		"Seconds that a target has been up whose outages are one alert, which goes on for 15 minutes; absent for all other targets.",
		[]string{"target", "kind"}, nil)
	targetPagesDesc = prometheus.NewDesc("chatstack_target_pages",
		"Whether the target's own alerts can be critical (page: true in the configuration); 0 for an optional target, "+
			"while the server only limits this address, and while outages that are one alert are all short or explained.",
		[]string{"target"}, nil)
	targetExcusedDesc = prometheus.NewDesc("chatstack_target_excused",
		"Whether the exporter holds back alerts on the target; chatstack_excuse_info says why.", []string{"target"}, nil)
	unansweredDesc = prometheus.NewDesc("chatstack_docker_targets_down",
		"How many targets are down whose containers run on the engine, as far as known.", []string{"target", "docker_host"}, nil)
	excusedFailuresDesc = prometheus.NewDesc("chatstack_probe_excused_failures_total",
		"Failed scheduled probes that the warning TargetUnstable does not count, because another problem explains them or TargetDown "+
			"reports them.",
		[]string{"target"}, nil)
	containerDownDesc = prometheus.NewDesc("chatstack_container_down_seconds",
		"Seconds that the container has existed without running although it should run, or since the first of three outages within "+
			"90 minutes until it has run for 15 minutes; else 0 while it runs. While its engine cannot be read, one that was down stays "+
			"down unless its own target answers, and that of others is absent.",
		judgedLabels, nil)
	containerOutagesDesc = prometheus.NewDesc("chatstack_container_recent_outages",
		"Outages of the container within the last 90 minutes that are one alert, since there were three; absent for all other containers.",
		judgedLabels, nil)
	containerCalmDesc = prometheus.NewDesc("chatstack_container_calm_seconds",
		"Seconds that a container has run whose outages are one alert, which goes on for 15 minutes; absent for all other containers.",
		judgedLabels, nil)
	lastKnownDesc = prometheus.NewDesc("chatstack_container_last_known_timestamp_seconds",
		"When the state of the container was last read, in seconds since the epoch; absent unless its engine cannot be read now.",
		judgedLabels, nil)
	containerMissingDesc = prometheus.NewDesc("chatstack_container_missing_seconds",
		"Seconds that the container has not existed although it should; 0 while it exists.", judgedLabels, nil)
	workloadDownDesc = prometheus.NewDesc("chatstack_workload_down_seconds",
		"Seconds that fewer instances of the workload have run than should; 0 while enough do, and while its only instance is restarting.",
		[]string{"docker_host", "workload"}, nil)
	containerRemovedDesc = prometheus.NewDesc("chatstack_container_removed_seconds",
		"Seconds since somebody removed the container; absent for all other containers.", judgedLabels, nil)
	containerUnhealthyDesc = prometheus.NewDesc("chatstack_container_unhealthy_seconds",
		"Seconds that the container's health checks have been failing; 0 unless the container is unhealthy.",
		judgedLabels, nil)
	recentlyUnhealthyDesc = prometheus.NewDesc("chatstack_container_recently_unhealthy_seconds",
		"Seconds of the last hour, or of the configured window, that the container was unhealthy, or was starting again after that, "+
			"without an excuse; 0 while the alert on a single spell reports it.", judgedLabels, nil)
	oneShotFailedDesc = prometheus.NewDesc("chatstack_container_one_shot_failed_seconds",
		"Seconds since a container failed that does its work and ends; absent for all other containers.", judgedLabels, nil)
	containerExcusedDesc = prometheus.NewDesc("chatstack_container_excused",
		"Whether the exporter holds back alerts on the container; chatstack_excuse_info says why.",
		judgedLabels, nil)
	memoryExcusedDesc = prometheus.NewDesc("chatstack_container_memory_excused",
		"Whether the exporter holds back the alert on the container's memory; 0 once that alert fires.",
		judgedLabels, nil)
	recentRestartsDesc = prometheus.NewDesc("chatstack_container_recent_restarts",
		"Unexplained restarts of the container within the window of ContainerRestarts.", judgedLabels, nil)
	recentKillsDesc = prometheus.NewDesc("chatstack_container_recent_oom_kills",
		"Out-of-memory kills that the container survived within the window of ContainerOOMKill.", judgedLabels, nil)
	problemSecondsDesc = prometheus.NewDesc("chatstack_problem_seconds",
		"Seconds that a problem other than an outage has lasted, by alert; 0 while there is none. "+
			"An empty target means all targets of the exporter.",
		[]string{"alert", "severity", "target", "of"}, nil)
	problemExcusedDesc = prometheus.NewDesc("chatstack_problem_excused",
		"Whether the exporter holds back the alert on the problem.", []string{"alert", "severity", "target", "of"}, nil)
	certificateExcusedDesc = prometheus.NewDesc("chatstack_tls_certificate_excused",
		"1 while maintenance holds back alerts on the certificate's expiry, or another endpoint with the same certificate has them.",
		[]string{"endpoint"}, nil)
	certificateLimitDesc = prometheus.NewDesc("chatstack_tls_certificate_expiry_limit_seconds",
		"Remaining seconds of the first certificate of the endpoint to expire under which the alert on its expiry fires, by severity.",
		[]string{"endpoint", "severity"}, nil)
	volumeExcusedDesc = prometheus.NewDesc("chatstack_volume_excused",
		"1 while maintenance holds back alerts on the volume's usage.", []string{"volume"}, nil)
	authExcusedDesc = prometheus.NewDesc("chatstack_xmpp_auth_failures_excused",
		"1 while maintenance holds back alerts on failed logins.", nil, nil)
	sessionsExcusedDesc = prometheus.NewDesc("chatstack_xmpp_sessions_excused",
		"1 while maintenance holds back the alert on client sessions.", nil, nil)
	ircExcusedDesc = prometheus.NewDesc("chatstack_irc_excused",
		"1 while maintenance holds back alerts on the users and servers of the IRC network.", nil, nil)
	renamedDesc = prometheus.NewDesc("chatstack_renamed_info",
		"1 for a target or workload with a problem that began under another name, was; absent otherwise.",
		[]string{"kind", "name", "docker_host", "was"}, nil)
	excuseInfoDesc = prometheus.NewDesc("chatstack_excuse_info",
		"1 while the exporter holds back alerts on the target, container or workload, by reason: maintenance, dependency, container, "+
			"starting or certificate. The cause is the container that explains the problem, the target of an engine that cannot be read, "+
			"or the one that has the alert on the certificate.",
		[]string{"kind", "name", "docker_host", "reason", "cause"}, nil)
)

// judgementMetrics are what the alert rules compare with their thresholds.
func judgementMetrics(j *health.Judgement) []prometheus.Metric {
	const perSubject = 6 // about
	m := make([]prometheus.Metric, 0, perSubject*len(j.Verdicts))
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		m = append(m, exposition.NewSample(desc, prometheus.GaugeValue, v, labels...))
	}
	// An outdated "well" must not be exported: it would keep the alert of the other exporter of a pair from becoming critical.
	gaugeDuration := func(desc *prometheus.Desc, d time.Duration, unlessWell bool, labels ...string) {
		if d > 0 || !unlessWell {
			gauge(desc, d.Seconds(), labels...)
		}
	}
	flapping := func(outages, calm *prometheus.Desc, v *health.Verdict, labels ...string) {
		if v.Outages > 0 {
			gauge(outages, float64(v.Outages), labels...)
		}
		gaugeDuration(calm, v.Calm, true, labels...)
	}
	subjects := slices.SortedFunc(maps.Keys(j.Verdicts), func(a, b health.Subject) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Host, b.Host))
	})
	workloadDown := map[health.Subject]time.Duration{} // before the first list, and after a rename, two subjects may be of one workload
	for _, s := range subjects {
		v := j.Verdicts[s]
		excused := 0.0
		if v.Excuse.Holds() {
			excused = 1
			gauge(excuseInfoDesc, 1, s.Kind, s.Name, s.Host, v.Excuse.Reason, v.Excuse.Cause)
		}
		if v.Was != "" {
			gauge(renamedDesc, 1, s.Kind, s.Name, s.Host, v.Was)
		}
		labels := []string{s.Name, s.Host, ""}
		if s.Kind == health.KindWorkload {
			labels = []string{"", s.Host, s.Name}
		}
		if s.Kind == health.KindTarget {
			labels = []string{s.Name}
			pages := 1.0
			if v.WarnOnly {
				pages = 0
			}
			gauge(targetPagesDesc, pages, labels...)
			if v.Engine != "" {
				gauge(unansweredDesc, float64(v.Unanswered), s.Name, v.Engine)
			}
			m = append(m, exposition.NewSample(excusedFailuresDesc, prometheus.CounterValue, float64(v.ExcusedFailures), labels...))
			if v.Known { // the rules look back for both metrics: an excuse without a duration would apply to an older duration
				gauge(targetExcusedDesc, excused, labels...)
				gaugeDuration(targetDownDesc, v.Down, v.Unknown, s.Name, v.TargetKind)
				flapping(targetOutagesDesc, targetCalmDesc, &v, s.Name, v.TargetKind)
			}
			continue
		}
		gaugeDuration(containerDownDesc, v.Down, v.Unknown, labels...)
		flapping(containerOutagesDesc, containerCalmDesc, &v, labels...)
		gaugeDuration(containerMissingDesc, v.Missing, v.Unknown, labels...)
		down := max(v.Missing, v.Removed)
		if v.Calm == 0 {
			down = max(down, v.Down)
		}
		if v.Workload != "" && (down > 0 || !v.Unknown) {
			of := health.WorkloadSubject(s.Host, v.Workload)
			workloadDown[of] = max(workloadDown[of], down)
		}
		gaugeDuration(containerUnhealthyDesc, v.Unhealthy, v.Unknown, labels...)
		gaugeDuration(containerRemovedDesc, v.Removed, true, labels...)
		gaugeDuration(oneShotFailedDesc, v.WorkFailed, true, labels...)
		gaugeDuration(recentlyUnhealthyDesc, v.OftenUnhealthy, v.Unknown, labels...)
		if v.Unknown && !v.LastKnown.IsZero() {
			gauge(lastKnownDesc, float64(v.LastKnown.Unix()), labels...)
		}
		gauge(containerExcusedDesc, excused, labels...)
		if v.MemoryAlerted {
			excused = 0
		}
		for _, name := range j.Instances(s) { // memory is a metric of each container
			gauge(memoryExcusedDesc, excused, name, s.Host, "")
		}
		gauge(recentRestartsDesc, float64(v.RecentRestarts), labels...)
		gauge(recentKillsDesc, float64(v.RecentKills), labels...)
	}
	for of, down := range workloadDown {
		gauge(workloadDownDesc, down.Seconds(), of.Host, of.Name)
	}
	for _, v := range j.Values {
		if v.Warning > 0 { // a certificate has limits of its own
			gauge(certificateLimitDesc, v.Warning, v.Name, health.Warning.String())
			gauge(certificateLimitDesc, v.Critical, v.Name, health.Critical.String())
		}
	}
	for _, h := range j.HeldBack {
		switch h.In {
		case "chatstack_tls_certificate_excused":
			gauge(certificateExcusedDesc, 1, h.Name)
			if h.Excuse.Holds() && j.Verdicts[h.Subject].Excuse != h.Excuse {
				gauge(excuseInfoDesc, 1, h.Kind, h.Name, "", h.Excuse.Reason, h.Excuse.Cause)
			}
		case "chatstack_volume_excused":
			gauge(volumeExcusedDesc, 1, h.Name)
		case "chatstack_xmpp_sessions_excused":
			gauge(sessionsExcusedDesc, 1)
		case "chatstack_irc_excused":
			gauge(ircExcusedDesc, 1)
		case "chatstack_xmpp_auth_failures_excused":
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
