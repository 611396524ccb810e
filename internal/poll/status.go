package poll

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Status is what is known of a target, apart from its metrics. It is a value: one that was handed out never changes.
type Status struct {
	Target string
	Kind   string
	// Server is the container that serves the target, configured or found by the judgement.
	health.Server
	// Known is false before the first reading has ended, and after three intervals without a reading.
	Known bool
	// Up is the verdict of the last reading, Since the time of the first one in a row with that verdict.
	Up    bool
	Since time.Time
	// Reason, Error and Hint are set while the target is down.
	Reason failure.Reason
	Error  string
	Hint   string
	Notes  []string
	// Impairments are the parts that did not work at the last reading although the target is up.
	Impairments []string
	LastReading
	Yield
	Counters
}

// LastReading is when the last readings ended and how the last one went.
type LastReading struct {
	// Duration is how long the last reading took.
	Duration    time.Duration
	LastAttempt time.Time
	LastSuccess time.Time
	// HTTPStatus is the status of the last HTTP answer; 0 where the last reading had none.
	HTTPStatus int
}

// Yield is what a target brings to the page.
type Yield struct {
	// Dropped counts the series of the target's own metrics that the last reading dropped, by reason; nil for a target without
	// metrics of its own, and after a failure. Clashes are families whose names or types conflict with others on the exporter's page.
	Dropped collectors.Drops
	Clashes []exposition.Clash
	// Series counts the series of the target's own families on the page.
	Series int
}

// Counters outlive a reload that changes the target.
type Counters struct {
	Attempts uint64
	Overruns uint64
	Failures map[failure.Reason]uint64
	// Missed counts failed scheduled readings, so not the first one and no retries.
	Missed uint64
}

var (
	successDesc = prometheus.NewDesc("chatstack_probe_success",
		"Whether the last probe of the target succeeded; absent before the first one, and while probes are overdue.", []string{"target"}, nil)
	durationDesc = prometheus.NewDesc("chatstack_probe_duration_seconds",
		"Seconds that the last probe of the target took.", []string{"target"}, nil)
	attemptsDesc = prometheus.NewDesc("chatstack_probe_attempts_total",
		"Probes of the target that were started.", []string{"target"}, nil)
	failuresDesc = prometheus.NewDesc("chatstack_probe_failures_total",
		"Failed probes of the target, by reason.", []string{"target", "reason"}, nil)
	lastAttemptDesc = prometheus.NewDesc("chatstack_probe_last_attempt_timestamp_seconds",
		"Unix time when the last probe of the target ended.", []string{"target"}, nil)
	lastSuccessDesc = prometheus.NewDesc("chatstack_probe_last_success_timestamp_seconds",
		"Unix time when the last successful probe of the target ended; absent before the first one.", []string{"target"}, nil)
	failingDesc = prometheus.NewDesc("chatstack_probe_failing",
		"1 while the last probe of the target has failed, with the reason; absent otherwise.", []string{"target", "reason"}, nil)
	httpStatusDesc = prometheus.NewDesc("chatstack_probe_http_status_code",
		"HTTP status code of the target's last response; absent if the last probe got none.", []string{"target"}, nil)
	targetInfoDesc = prometheus.NewDesc("chatstack_target_info",
		"1, with the target's kind and, where known, the container that serves it and the engine.",
		[]string{"target", "kind", "container", "docker_host"}, nil)
	overrunsDesc = prometheus.NewDesc("chatstack_poll_overruns_total",
		"Probes that were skipped because the one before was still running.", []string{"target"}, nil)
)

// metrics returns the metrics that every target has.
func (s *Status) metrics() []prometheus.Metric {
	var m []prometheus.Metric
	add := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		m = append(m, exposition.NewSample(desc, kind, v, append([]string{s.Target}, labels...)...))
	}
	add(attemptsDesc, prometheus.CounterValue, float64(s.Attempts))
	add(overrunsDesc, prometheus.CounterValue, float64(s.Overruns))
	kind, _ := collectors.KindOf(s.Kind)
	for _, r := range failure.Reasons {
		if n := s.Failures[r]; n > 0 || slices.Contains(kind.Reasons, r) {
			add(failuresDesc, prometheus.CounterValue, float64(n), string(r))
		}
	}
	if !s.LastAttempt.IsZero() {
		add(lastAttemptDesc, prometheus.GaugeValue, unixSeconds(s.LastAttempt))
	}
	if !s.LastSuccess.IsZero() {
		add(lastSuccessDesc, prometheus.GaugeValue, unixSeconds(s.LastSuccess))
	}
	if !s.Known {
		return m
	}
	add(durationDesc, prometheus.GaugeValue, s.Duration.Seconds())
	if s.Up {
		add(successDesc, prometheus.GaugeValue, 1)
	} else {
		add(successDesc, prometheus.GaugeValue, 0)
		add(failingDesc, prometheus.GaugeValue, 1, string(s.Reason))
	}
	if s.HTTPStatus != 0 {
		add(httpStatusDesc, prometheus.GaugeValue, float64(s.HTTPStatus))
	}
	clashing := 0
	for _, c := range s.Clashes {
		clashing += c.Series
	}
	return append(m, s.Dropped.Metrics(s.Target, clashing)...)
}

// targetInfo returns a sample per target that names the container that serves it.
func targetInfo(statuses []Status) []prometheus.Metric {
	info := make([]prometheus.Metric, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		info[i] = exposition.NewSample(targetInfoDesc, prometheus.GaugeValue, 1, s.Target, s.Kind, s.Container, s.Host)
	}
	return info
}

// unixSeconds returns a Unix time rounded down to milliseconds, as Prometheus stores it.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
