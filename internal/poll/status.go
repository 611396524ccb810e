package poll

import (
	"slices"
	"strings"
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
	// ChatServer is the server that it is part of, in the alerts' label chat_server; "" for that of its container, else its name.
	ChatServer string
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
	Waiting
	// Abandoned says that a reading still runs which was given up after its deadline. No other one starts meanwhile.
	Abandoned bool
	// Engine is what is known of the containers of a container engine; nil for other targets.
	Engine *health.Engine
	LastReading
	Yield
	Counters
}

// Waiting is until when and why a target waits on purpose; zero for a target that is probed on its schedule.
type Waiting struct {
	// RetryAt is when it is probed again. RetryReason is unauthorized, throttled, or "" for a limit on connections to its address.
	RetryAt     time.Time      `json:"retry_at,omitzero"`
	RetryReason failure.Reason `json:"retry_reason,omitempty"`
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
	// Figures are the numbers that the status page shows for it.
	Figures []collectors.Figure
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
		"Whether the last probe of the target succeeded; absent before the first one, and while probes are overdue.",
		[]string{"target"}, nil)
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
	retryDesc = prometheus.NewDesc("chatstack_target_retry_timestamp_seconds",
		"Unix time of the next probe of a target that waits on purpose, so that its server does not ban this address; "+
			"absent for any other target.",
		[]string{"target"}, nil)
	httpStatusDesc = prometheus.NewDesc("chatstack_probe_http_status_code",
		"HTTP status code of the target's last response; absent if the last probe got none.", []string{"target"}, nil)
	targetInfoDesc = prometheus.NewDesc("chatstack_target_info",
		"1, with the target's kind and, where known, the container that serves it and the engine.",
		[]string{"target", "kind", "container", "docker_host"}, nil)
	chatServerDesc = prometheus.NewDesc("chatstack_target_chat_server",
		"1, with the target's kind and the server that it is part of, for the label chat_server of the alerts. "+
			"Absent if its kind does not say it: then it has that of its container, else its name.",
		[]string{"target", "kind", "chat_server"}, nil)
	targetWordsDesc = prometheus.NewDesc("chatstack_target_words",
		"1, with the words of messages: what people call the target, and what its users lose while it is down, if that is known.",
		[]string{"target", "title", "loss"}, nil)
	overrunsDesc = prometheus.NewDesc("chatstack_poll_overruns_total",
		"Probes that were skipped because the one before was still running.", []string{"target"}, nil)
	abandonedDesc = prometheus.NewDesc("chatstack_probe_abandoned",
		"Whether a probe of the target still runs that was given up after its deadline; no other one starts meanwhile.",
		[]string{"target"}, nil)
)

// statusFamily is a family that has samples of every target's status.
type statusFamily struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// add adds the samples of one status, with the values of the labels after target.
	add func(s *Status, sample func(value float64, labels ...string))
}

// samples returns the family's samples of all targets.
func (f *statusFamily) samples(statuses []Status) []prometheus.Metric {
	var all exposition.Samples
	var labels []string
	for i := range statuses {
		s := &statuses[i]
		f.add(s, func(value float64, others ...string) {
			labels = append(append(labels[:0], s.Target), others...)
			all.Add(f.desc, f.kind, value, labels...)
		})
	}
	return all.AppendTo(nil)
}

// statusFamilies are encoded one after the other, which needs little memory for thousands of targets.
var statusFamilies = []statusFamily{
	{targetInfoDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) { sample(1, s.Kind, s.Container, s.Host) }},
	{chatServerDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if s.ChatServer != "" {
			sample(1, s.Kind, s.ChatServer)
		}
	}},
	{targetWordsDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if kind, _ := collectors.KindOf(s.Kind); kind.Title != "" {
			sample(1, strings.ToUpper(kind.Title[:1])+kind.Title[1:], kind.Loss)
		}
	}},
	{attemptsDesc, prometheus.CounterValue, func(s *Status, sample func(float64, ...string)) { sample(float64(s.Attempts)) }},
	{overrunsDesc, prometheus.CounterValue, func(s *Status, sample func(float64, ...string)) { sample(float64(s.Overruns)) }},
	{abandonedDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		value := 0.0
		if s.Abandoned {
			value = 1
		}
		sample(value)
	}},
	{failuresDesc, prometheus.CounterValue, func(s *Status, sample func(float64, ...string)) {
		kind, _ := collectors.KindOf(s.Kind)
		for _, r := range failure.Reasons {
			if n := s.Failures[r]; n > 0 || slices.Contains(kind.Reasons, r) {
				sample(float64(n), string(r))
			}
		}
	}},
	{lastAttemptDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if !s.LastAttempt.IsZero() {
			sample(unixSeconds(s.LastAttempt))
		}
	}},
	{lastSuccessDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if !s.LastSuccess.IsZero() {
			sample(unixSeconds(s.LastSuccess))
		}
	}},
	{durationDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if s.Known {
			sample(s.Duration.Seconds())
		}
	}},
	{successDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		switch {
		case s.Known && s.Up:
			sample(1)
		case s.Known:
			sample(0)
		}
	}},
	{failingDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if s.Known && !s.Up {
			sample(1, string(s.Reason))
		}
	}},
	{retryDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if !s.RetryAt.IsZero() {
			sample(unixSeconds(s.RetryAt))
		}
	}},
	{httpStatusDesc, prometheus.GaugeValue, func(s *Status, sample func(float64, ...string)) {
		if s.Known && s.HTTPStatus != 0 {
			sample(float64(s.HTTPStatus))
		}
	}},
}

// droppedSeries returns how many series of the targets' own metrics are not on the page.
func droppedSeries(statuses []Status) (metrics []prometheus.Metric) {
	for i := range statuses {
		s := &statuses[i]
		clashing := 0
		for _, c := range s.Clashes {
			clashing += c.Series
		}
		if s.Known {
			metrics = append(metrics, s.Dropped.Metrics(s.Target, clashing)...)
		}
	}
	return metrics
}

// unixSeconds returns a Unix time rounded down to milliseconds, as Prometheus stores it.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
