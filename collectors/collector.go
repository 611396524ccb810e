// Package collectors asks the services of a chat stack how they are: one file per service, one entry per kind in the
// table of kinds.
package collectors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// Collector asks one target how it is.
type Collector interface {
	// Collect makes one reading and writes what it learnt to b. It returns when ctx is done at the latest; one that
	// does not is abandoned, and what it still writes is thrown away. A nil error means that the target is up. With an
	// error, failure.ReasonOf tells why, and of b only what was kept with Keep remains. It is never called twice at once.
	Collect(ctx context.Context, b *Batch) error
}

// Kind is a sort of target: what its block in exporter.yaml may hold, and how a collector is made of it.
type Kind struct {
	config.Kind
	// Reasons are those for which a target of the kind fails. Their counters are on the page from the start. Not among them are
	// faults of the exporter itself: panic and internal.
	Reasons []failure.Reason
	// New makes a collector of settings that this kind's Defaults made and that were found valid. It connects to nothing.
	New func(config.Settings, Deps) (Collector, error)
}

// Deps is what a collector may need beside its settings.
type Deps struct {
	Limits config.Limits
	// Log is the target's own logger.
	Log *slog.Logger
	// State is the part of the state file that belongs to the target.
	State State
	// UserAgent is sent with every HTTP request.
	UserAgent string
	// ModuleStatus says that a target of kind xmpp_status tells the states of the XMPP server's modules, so that no other
	// target does.
	ModuleStatus bool
	// Containers are the containers that targets name as theirs, so that somebody wants them to exist.
	Containers []string
	// MountInfo is the file that tells in which container the exporter runs: /proc/self/mountinfo, or "" for none.
	MountInfo string
	// Once says that a single reading will be made and nobody follows, so that a reading finds out by itself what would
	// be learnt beside it.
	Once bool
}

// http returns a client for a target with these settings. Answers may be as long as limits.body.
func (d *Deps) http(s config.HTTP) exchange.HTTP {
	return exchange.HTTP{Settings: s, Limit: int64(d.Limits.Body), UserAgent: d.UserAgent}
}

// State keeps a small value over restarts of the exporter. Without a state file it keeps it in memory.
type State interface {
	// Load fills v, a pointer, with the value kept last, or leaves it as it is where there is none.
	Load(v any) error
	// Save keeps v. When it returns nil, v is on the disk.
	Save(v any) error
}

// Batch is what one reading learnt. It belongs to the collector until Collect returns.
type Batch struct {
	// Target is the name of the target. Whoever makes the Batch sets it.
	Target string
	exchange.Record
	// Engine is what a Follower of a container engine knows, for the judgement; nil for other targets.
	Engine *health.Engine
	// Impairments are the parts of a target that do not work although it is up, each in a few words.
	Impairments []string

	metrics exposition.Samples
	kept    []prometheus.Metric
	// conditions are true if the reading succeeds, keptConditions always.
	conditions, keptConditions []health.Condition
	families                   []exposition.Family
	dropped                    Drops
}

// Gauge adds a gauge that is true if the reading succeeds.
func (b *Batch) Gauge(desc *prometheus.Desc, value float64, labels ...string) {
	b.metrics.Add(desc, prometheus.GaugeValue, value, labels...)
}

// Counter adds a counter that is true if the reading succeeds.
func (b *Batch) Counter(desc *prometheus.Desc, value float64, labels ...string) {
	b.metrics.Add(desc, prometheus.CounterValue, value, labels...)
}

// KeepGauge adds a gauge that this very reading found out and that is true even if the reading fails.
func (b *Batch) KeepGauge(desc *prometheus.Desc, value float64, labels ...string) {
	b.kept = append(b.kept, newMetric(desc, prometheus.GaugeValue, value, labels))
}

// Families adds families of another exposition, which count if the reading succeeds.
func (b *Batch) Families(families ...exposition.Family) {
	b.families = append(b.families, families...)
}

// Drop counts series of another exposition that were left out. Whoever adds Families tells every reason, those of which
// there were none with 0, since what is lost later is counted with them.
func (b *Batch) Drop(reason openmetrics.Reason, series int) {
	if b.dropped == nil {
		b.dropped = Drops{}
	}
	b.dropped[reason] += series
}

// Impair adds a part of the target that does not work although it is up, such as "server.list is refused". A note says why.
func (b *Batch) Impair(part string) { b.Impairments = append(b.Impairments, part) }

// Condition tells whether something holds that an alert of its own is about, if the reading succeeds.
func (b *Batch) Condition(alert, of string, holds bool) {
	b.conditions = append(b.conditions, health.Condition{Alert: alert, Of: of, Holds: holds})
}

// KeepCondition does so even if the reading fails.
func (b *Batch) KeepCondition(alert, of string, holds bool) {
	b.keptConditions = append(b.keptConditions, health.Condition{Alert: alert, Of: of, Holds: holds})
}

// Conditions returns those that are known. err is how the reading ended.
func (b *Batch) Conditions(err error) []health.Condition {
	list := slices.Clone(b.keptConditions)
	if err == nil {
		list = append(list, b.conditions...)
		for i := range b.families {
			if f := &b.families[i]; f.TextName() == authFailures {
				list = append(list, health.Condition{Alert: health.AlertAuthFailureRate, Counts: countsOf(f)})
			}
		}
	}
	c := &b.Certificate
	var first time.Time
	for _, end := range []time.Time{c.Leaf, c.Chain, c.File} {
		if !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	if !first.IsZero() {
		list = append(list, health.Condition{Alert: health.AlertCertificateExpiry, Ends: first})
	}
	if c.Verified != nil { // a certificate that is pinned need not verify: then the reading does not fail
		refused := !*c.Verified && err != nil && failure.ReasonOf(err) == failure.TLS && c.Leaf.After(time.Now())
		list = append(list, health.Condition{Alert: health.AlertChainInvalid, Holds: refused})
	}
	if c.MatchesFile != nil {
		list = append(list, health.Condition{Alert: health.AlertServedNotRenewed, Holds: !*c.MatchesFile, Ends: c.Leaf})
	}
	return list
}

// countsOf are the values of a family by their labels.
func countsOf(f *exposition.Family) map[string]float64 {
	counts := map[string]float64{}
	for line := range exposition.Lines(f.Text) {
		if line.Value >= 0 && line.Value <= 1<<53 { // else it counts nothing
			counts[fmt.Sprint(line.Labels)] = line.Value
		}
	}
	return counts
}

// Metrics returns the metrics that hold: all of them after a success, those kept after a failure.
func (b *Batch) Metrics(success bool) []prometheus.Metric {
	always := slices.Concat(b.kept, certificateMetrics(b.Target, &b.Certificate))
	if !success {
		return always
	}
	return b.metrics.AppendTo(always)
}

// Foreign returns the families of other expositions that hold: none after a failure.
func (b *Batch) Foreign(success bool) []exposition.Family {
	if !success {
		return nil
	}
	return b.families
}

// Dropped returns how many series of other expositions were left out, by reason: nil after a failure, and where Drop was
// not called.
func (b *Batch) Dropped(success bool) Drops {
	if !success {
		return nil
	}
	return b.dropped
}

var upstreamDroppedSeriesDesc = prometheus.NewDesc("chatstack_upstream_dropped_series",
	"Series of the target's own metrics that were dropped: duplicates or names already in use (clash), over a limit (limit), or malformed.",
	[]string{"target", "reason"}, nil)

// Drops counts the series of a target's own page that were left out, by reason. It is nil for a target without one.
type Drops map[openmetrics.Reason]int

// Metrics tells what was dropped, and among the clashes those series that were lost beside other targets' later.
func (d Drops) Metrics(target string, lost int) []prometheus.Metric {
	metrics := make([]prometheus.Metric, 0, len(d))
	for reason, n := range d {
		if reason == openmetrics.Clash {
			n += lost
		}
		metrics = append(metrics, newMetric(upstreamDroppedSeriesDesc, prometheus.GaugeValue, float64(n), []string{target, string(reason)}))
	}
	return metrics
}

// newMetric never fails: a metric that cannot be made fails the encoding of its batch.
func newMetric(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) prometheus.Metric {
	return exposition.NewSample(desc, kind, value, labels...)
}

// boolValue is 1 for true and 0 for false.
func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Retrier is implemented by a collector whose target is read again sooner after a failure, so that a passing fault is
// over in seconds. Each of these readings counts by itself: a retry hides no outage.
type Retrier interface {
	// Backoff returns a fresh policy for one outage. When it says backoff.Stop, the target waits for its schedule again.
	Backoff() backoff.BackOff
}

// Sparing is implemented by a collector whose target counts who asks, and refuses those that ask too often.
type Sparing interface {
	// LeastInterval is the least time between two readings, also across a reload, unless the target's own schedule is
	// shorter.
	LeastInterval() time.Duration
}

// Reloader is implemented by a collector that puts something off which a reload should try again at once.
type Reloader interface {
	// Reloaded forgets what was put off, and reports whether to read the target now. It may be called during a reading.
	Reloaded() bool
}

// Follower is implemented by a collector whose target says by itself, between readings, what has changed.
type Follower interface {
	// Follow listens to the target until ctx is done, and calls changed whenever Present would write something else than
	// before. Collect and Present may be called meanwhile.
	Follow(ctx context.Context, changed func())
	// Present adds what holds now: what the last successful reading found, and what was learnt since. It asks nobody and
	// does not wait. It is called as long as the last reading succeeded; Collect need not add the same.
	Present(b *Batch)
}

// Forgetter is implemented by a collector that remembers containers that are gone.
type Forgetter interface {
	// Forget forgets one. The error wraps one of those below.
	Forget(container string) error
}

// Why a container cannot be forgotten.
var (
	// ErrContainerUnknown means that none of that name is remembered.
	ErrContainerUnknown = fleet.ErrUnknown
	// ErrContainerNeeded means that it exists, or that the configuration expects it.
	ErrContainerNeeded = fleet.ErrNeeded
)
