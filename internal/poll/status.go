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

// Status is what is known of a target, apart from its metrics. It is a value: nobody changes one that was handed out.
type Status struct {
	Target string
	Kind   string
	// Server is the container that serves the target: the configured one, or that which the judgement has found.
	health.Server
	// Known is false before the first reading has ended, and again when no reading has for three intervals.
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
	// Dropped counts the series of the target's own page that the last reading left out, by reason; nil for a target that
	// has none, and after a failure. Clashes are the families that it found and the exporter's page could not take.
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
	// Missed are the failed readings that the schedule asked for: no first one, and no retry.
	Missed uint64
}

var (
	successDesc = prometheus.NewDesc("chatstack_probe_success",
		"Whether the last reading of the target succeeded; absent before the first one.", []string{"target"}, nil)
	durationDesc = prometheus.NewDesc("chatstack_probe_duration_seconds",
		"How long the last reading of the target took.", []string{"target"}, nil)
	attemptsDesc = prometheus.NewDesc("chatstack_probe_attempts_total",
		"Readings of the target that were begun.", []string{"target"}, nil)
	failuresDesc = prometheus.NewDesc("chatstack_probe_failures_total",
		"Readings of the target that failed, by reason.", []string{"target", "reason"}, nil)
	lastAttemptDesc = prometheus.NewDesc("chatstack_probe_last_attempt_timestamp_seconds",
		"When the last reading of the target ended.", []string{"target"}, nil)
	lastSuccessDesc = prometheus.NewDesc("chatstack_probe_last_success_timestamp_seconds",
		"When the last reading of the target that succeeded ended.", []string{"target"}, nil)
	failingDesc = prometheus.NewDesc("chatstack_probe_failing",
		"1 with the reason of the last failure, only while the target is failing.", []string{"target", "reason"}, nil)
	httpStatusDesc = prometheus.NewDesc("chatstack_probe_http_status_code",
		"Status of the last HTTP answer of the target; absent where the last reading got none.", []string{"target"}, nil)
	targetInfoDesc = prometheus.NewDesc("chatstack_target_info",
		"1 with the target's kind, and the container that serves it and its engine, where those are known.",
		[]string{"target", "kind", "container", "docker_host"}, nil)
	overrunsDesc = prometheus.NewDesc("chatstack_poll_overruns_total",
		"Times when a reading was due while the one before was not over.", []string{"target"}, nil)
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
	lost := 0 // when our own page was made
	for _, c := range s.Clashes {
		lost += c.Series
	}
	return append(m, s.Dropped.Metrics(s.Target, lost)...)
}

// targetInfo tells which containers serve the targets.
func targetInfo(statuses []Status) []prometheus.Metric {
	info := make([]prometheus.Metric, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		info[i] = exposition.NewSample(targetInfoDesc, prometheus.GaugeValue, 1, s.Target, s.Kind, s.Container, s.Host)
	}
	return info
}

// unixSeconds is a time as Prometheus writes it, to the millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
