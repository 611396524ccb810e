// Package collectors probes the services of a chat stack: one file per service, one entry per kind in the table of kinds.
package collectors

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// Collector probes one target. Its life, in order:
//
//   - Checked: its settings are loaded and checked, and a mistake ends the start or the reload. No collector is made for that.
//   - Made: Kind.New makes it at the start, and again at each reload. That of a target whose settings are the same is thrown away
//     unused, so New opens nothing and starts nothing.
//   - Started: a Follower gets a goroutine, which is started again if it ends or panics. The first probe follows at once, or after the
//     kind's least interval. The command check starts nothing, and probes once.
//   - Read: Collect is one probe with a deadline, or one for each address, one after the other. Its calls never overlap: while one has not
//     returned, even after its deadline, no other begins. A panic is a failed probe. After a success, and at each change, a Presenter is
//     asked what there is.
//   - Reloaded: all collectors are stopped. One whose settings are the same is started again, after a Reloader was told. Any other is
//     replaced; the new one is not probed until the last probe of the old one has returned.
//   - Stopped: the contexts of Collect and Follow end, and both return soon. Nothing else is called: what must be closed belongs to them.
//
// It may keep what it likes in its fields, until it is stopped; what must survive that goes to Deps.State. Collect alone needs no lock for
// its fields. Follow, Present, Forget and Reloaded may run at the same time as Collect and as each other, so the collector locks what it
// shares with them.
type Collector interface {
	// Collect probes the target once and writes the results to b. It must return when ctx is done; otherwise the caller
	// abandons it and discards its results. A nil error means that the target is up. After an error, whose reason is
	// failure.ReasonOf, only what b.Kept has remains.
	Collect(ctx context.Context, b *Batch) error
}

// Follower is implemented by a collector with a goroutine of its own, which listens to the target or keeps sessions between probes.
type Follower interface {
	// Follow runs until ctx is done and calls changed whenever the output of Present changes. Collect and Present may run at the
	// same time.
	Follow(ctx context.Context, changed func())
}

// Presenter is implemented by a collector that knows between probes what its target has.
type Presenter interface {
	// Present adds the current results: those of the last successful probe with the changes since. It sends no request and
	// does not wait. It is called while the last probe is successful; Collect need not add the same.
	Present(b *Batch)
	// Forget forgets a removed container. The error wraps ErrContainerUnknown or ErrContainerNeeded.
	Forget(container string) error
}

// ModuleForgetter is implemented by a collector that remembers modules of an XMPP server.
type ModuleForgetter interface {
	// ForgetModule forgets a missing module. The error wraps ErrModuleUnknown.
	ForgetModule(host, module string) error
}

// Reloader is implemented by a collector that postpones work which a reload should retry at once.
type Reloader interface {
	// Reloaded ends all postponements and reports whether to probe the target now. It may be called during a probe.
	Reloaded() bool
}

// Kind is a kind of target: the settings of its block in exporter.yaml, and how to make a collector of them.
type Kind struct {
	config.Kind
	// Reasons are why probes of the kind can fail. Their counters are served from the start. Errors of the exporter itself,
	// panic and internal, are not listed.
	Reasons []failure.Reason
	// New makes a collector of valid settings, which this kind's Defaults made. It opens no connection.
	New func(config.Settings, Deps) (Collector, error)
}

// Deps is what a collector may need beside its settings.
type Deps struct {
	Limits config.Limits
	// Log is the target's own logger.
	Log *slog.Logger
	// Secrets finds the secrets of all targets; nil finds none.
	Secrets *config.SecretFinder
	// State is the part of the state file that belongs to the target.
	State State
	// UserAgent is sent with every HTTP request.
	UserAgent string
	// ModuleStatus is true if a target of kind xmpp_status serves the states of the XMPP server's modules, so that no other
	// target has to.
	ModuleStatus bool
	// Containers are the containers that targets run in, and Services the services. They are therefore expected to exist.
	Containers, Services []string
	// MountInfo is the file that shows in which container the exporter runs: /proc/self/mountinfo, or "" for none.
	MountInfo string
	// Logins has the clocks of refused credentials; nil to send them at once always.
	Logins *pacing.Logins
	// Once means that the target is probed only once, without Follow, so that the probe must do Follow's work, too.
	Once bool
	// ReadOnly means that probes send no messages over a bridge.
	ReadOnly bool
}

// http returns a client for a target with these settings. limits.body bounds its answers.
func (d *Deps) http(s config.HTTP) exchange.HTTP {
	return exchange.HTTP{Settings: s, Limit: int64(d.Limits.Body), UserAgent: d.UserAgent}
}

// State keeps a small value over restarts of the exporter. Without a state file it keeps it in memory.
type State interface {
	// Load fills v, a pointer, with the last saved value. Without one, it leaves v unchanged.
	Load(v any) error
	// Save saves v. When it returns nil, v is on disk. An error is logged, and v is saved once the disk works again.
	Save(v any) error
}

// Batch holds the results of one probe. It belongs to the collector until Collect returns.
type Batch struct {
	// Target is the name of the target, set by the creator of the Batch.
	Target string
	exchange.Record
	// Engine holds the facts about a Docker Engine for internal/health; nil for other targets.
	Engine *health.Engine
	// Impairments are the parts of a target that do not work although it is up, in a few words each.
	Impairments []string

	// Results are served only if the probe succeeds, Kept even if it fails.
	Results
	Kept Results

	// Drops counts the dropped series of the target's own metrics. Callers of Families must set it for every reason, since series that
	// are lost later add to these counts.
	Drops Drops

	families []exposition.Family
}

// Results are what a probe has found: metrics, conditions of alerts, and figures.
type Results struct {
	metrics    exposition.Samples
	others     []prometheus.Metric // than gauges and counters
	conditions []health.Condition
	figures    []Figure
}

// Figure is a number that the status page shows for a target, in the order of the calls that add it.
type Figure struct {
	Name  string
	Value float64
	// Unit is seconds, bytes, ratio, per_minute, or "" for a plain number.
	Unit string
	// Chart is true if the page also shows its history.
	Chart bool
}

// Gauge adds a gauge.
func (r *Results) Gauge(desc *prometheus.Desc, value float64, labels ...string) {
	r.metrics.Add(desc, prometheus.GaugeValue, value, labels...)
}

// Counter adds a counter.
func (r *Results) Counter(desc *prometheus.Desc, value float64, labels ...string) {
	r.metrics.Add(desc, prometheus.CounterValue, value, labels...)
}

// Histogram adds a histogram. buckets has the cumulative counts by upper bound.
func (r *Results) Histogram(desc *prometheus.Desc, count uint64, sum float64, buckets map[float64]uint64, labels ...string) {
	r.others = append(r.others, prometheus.MustNewConstHistogram(desc, count, sum, maps.Clone(buckets), labels...))
}

// Figure adds a figure.
func (r *Results) Figure(f Figure) { r.figures = append(r.figures, f) }

// Condition adds whether the condition of an alert holds. part is the part of the target that the alert is about, such as a
// virtual host; "" for the target itself.
func (r *Results) Condition(alert, part string, holds bool) {
	r.conditions = append(r.conditions, health.Condition{Alert: alert, Of: part, Holds: holds})
}

// remaining returns what is left of all results after a success, or of the kept ones after a failure.
func remaining[T any](success bool, kept, others []T) []T {
	if !success {
		return slices.Clone(kept)
	}
	return slices.Concat(kept, others)
}

// Figures returns the figures that are shown.
func (b *Batch) Figures(success bool) []Figure { return remaining(success, b.Kept.figures, b.figures) }

// Families adds families of a target's own metrics, which are served only if the probe succeeds.
func (b *Batch) Families(families ...exposition.Family) {
	b.families = append(b.families, families...)
}

// Impair adds a part of the target that does not work although it is up, such as "server.list is refused". A note says why.
func (b *Batch) Impair(part string) { b.Impairments = append(b.Impairments, part) }

// Conditions returns the conditions that count, and those of the certificate. err is the result of the probe.
func (b *Batch) Conditions(err error) []health.Condition {
	list := remaining(err == nil, b.Kept.conditions, b.conditions)
	c := &b.Certificate
	var certificates []health.Validity
	for _, v := range []exchange.Validity{c.Leaf, c.Other, c.Chain, c.File} {
		if !v.Ends.IsZero() {
			certificates = append(certificates, health.Validity(v))
		}
	}
	if len(certificates) > 0 {
		list = append(list, health.Condition{
			Alert:        health.AlertCertificateExpiry,
			Certificates: certificates,
			Refused:      refusesTLS(err) && !c.Leaf.Ends.IsZero() && !c.Leaf.Ends.After(time.Now()),
			OwnLimits:    health.ExpiryLimits{Warning: c.Limits.Warning.Std(), Critical: c.Limits.Critical.Std()},
		})
	}
	if c.Verified != nil { // a pinned certificate need not verify: then the probe does not fail
		refused := !*c.Verified && refusesTLS(err) && c.Leaf.Ends.After(time.Now())
		list = append(list, health.Condition{Alert: health.AlertChainInvalid, Holds: refused})
	}
	if c.MatchesFile != nil {
		list = append(list, health.Condition{
			Alert:        health.AlertServedNotRenewed,
			Holds:        !*c.MatchesFile,
			Certificates: []health.Validity{health.Validity(c.Stale)},
		})
	}
	return list
}

// refusesTLS reports whether a probe failed because of TLS. There may be no error.
func refusesTLS(err error) bool { return err != nil && failure.ReasonOf(err) == failure.TLS }

// countFailedLogins adds counts of failed logins, by their labels.
func (b *Batch) countFailedLogins(samples iter.Seq[exposition.Line]) {
	counts := map[string]float64{}
	for s := range samples {
		if s.Value >= 0 && s.Value <= 1<<53 { // else it is not a count
			counts[fmt.Sprint(s.Labels)] = s.Value
		}
	}
	b.reportFailedLogins(counts)
}

// reportFailedLogins adds how many logins have failed, by series.
func (b *Batch) reportFailedLogins(counts map[string]float64) {
	b.conditions = append(b.conditions, health.Condition{Alert: health.AlertAuthFailureRate, Counts: counts})
}

// Metrics returns the metrics that are served, and those of the certificate.
func (b *Batch) Metrics(success bool) []prometheus.Metric {
	var certificate Results
	certificate.certificate(b.Target, &b.Certificate)
	list := certificate.metrics.AppendTo(b.Kept.metrics.AppendTo(remaining(success, b.Kept.others, b.others)))
	if success {
		list = b.metrics.AppendTo(list)
	}
	return list
}

// Foreign returns the families of the target's own metrics; none after a failure.
func (b *Batch) Foreign(success bool) []exposition.Family {
	if !success {
		return nil
	}
	return b.families
}

// Dropped returns the number of dropped series by reason; nil after a failure, or without metrics of its own.
func (b *Batch) Dropped(success bool) Drops {
	if !success {
		return nil
	}
	return b.Drops
}

// share returns a context with a part of ctx's remaining time, so that a slow step leaves time for the next.
func share(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(deadline))))
}

// readAge says how old what a collector reads may be, as an exporter that keeps its readings should.
const readAge = " Up to one poll interval old."

// readDesc describes a family whose values a collector reads. It adds to the help how old they may be.
func readDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help+readAge, labels, nil)
}

var upstreamDroppedSeriesDesc = readDesc("chatstack_upstream_dropped_series",
	"Series of the target's own metrics that were dropped: duplicates or names already in use (clash), over a limit (limit), malformed, "+
		"or with a secret of the configuration in a name or label (secret).",
	"target", "reason")

// Drops counts the dropped series of a target's own metrics by reason. It is nil for a target without metrics of its own.
type Drops map[openmetrics.Reason]int

// Metrics returns the counts as metrics. lost is how many series were dropped later because of other targets' families.
func (d Drops) Metrics(target string, lost int) []prometheus.Metric {
	metrics := make([]prometheus.Metric, 0, len(d))
	for reason, n := range d {
		if reason == openmetrics.Clash {
			n += lost
		}
		sample := exposition.NewSample(upstreamDroppedSeriesDesc, prometheus.GaugeValue, float64(n), target, string(reason))
		metrics = append(metrics, sample)
	}
	return metrics
}

// boolValue is 1 for true and 0 for false.
func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Why a container cannot be forgotten.
var (
	// ErrContainerUnknown means that no container of that name is remembered.
	ErrContainerUnknown = fleet.ErrUnknown
	// ErrContainerNeeded means that it exists, or that the configuration expects it.
	ErrContainerNeeded = fleet.ErrNeeded
)
