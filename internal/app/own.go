package app

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// allocatedTotal is a counter of the Go collector. It is dropped, since a gauge has the same family name in OpenMetrics.
const allocatedTotal = "go_memstats_alloc_bytes_total"

// ownMetrics are the exporter's own metrics: of the Go runtime, the process, the build and the configuration.
type ownMetrics struct {
	registry    *prometheus.Registry
	reloadedOK  prometheus.Gauge
	reloadedAt  prometheus.Gauge
	placeholder *prometheus.GaugeVec
	left        *prometheus.GaugeVec
	rules       *prometheus.GaugeVec
	address     *prometheus.GaugeVec
}

func newOwnMetrics() *ownMetrics {
	m := &ownMetrics{
		registry: prometheus.NewPedanticRegistry(),
		reloadedOK: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chatstack_config_last_reload_successful",
			Help: "Whether the last attempt to load the configuration succeeded.",
		}),
		reloadedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chatstack_config_last_reload_success_timestamp_seconds",
			Help: "Unix time when the configuration was last loaded successfully.",
		}),
		placeholder: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_placeholder_credential",
			Help: "1 while a secret of the target is an obvious placeholder, such as changeme; absent otherwise.",
		}, []string{"target"}),
		left: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_target_left_to_first",
			Help: "1 for a target that this exporter leaves to the first of the pair, because of pair: other.",
		}, []string{"target", "kind"}),
		rules: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_rules_info",
			Help: "1, with the checksum of the alert rules that the command rules prints for this configuration.",
		}, []string{"checksum"}),
		address: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_exporter_info",
			Help: "1, with the address of the status page as people reach it: web.external_url.",
		}, []string{"external_url"}),
	}
	m.registry.MustRegister(
		promcollectors.NewGoCollector(),
		promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("chatstack_exporter"),
		m.reloadedOK, m.reloadedAt, m.placeholder, m.left, m.rules, m.address,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chatstack_label_check", ConstLabels: alerts.LabelCheck(),
			Help: "Always 1; Prometheus changes its labels unless the scrape configuration has honor_labels: true.",
		}, func() float64 { return 1 }),
	)
	m.reloaded(nil)
	return m
}

// startingMetric says whether the exporter has started so shortly before now that it does not know enough yet.
func startingMetric(lasts time.Duration) prometheus.Collector {
	started := time.Now()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "chatstack_exporter_starting",
		Help: "1 after a start until the exporter has seen for itself how its targets are, else 0. Until then, no alert about them ends. " +
			"That takes 5.5 minutes, until a target that is down is critical; none with a recent state file.",
	}, func() float64 {
		if time.Since(started) < lasts {
			return 1
		}
		return 0
	})
}

// Gather implements prometheus.Gatherer.
func (m *ownMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == allocatedTotal }), err
}

// reloaded records whether the configuration was loaded.
func (m *ownMetrics) reloaded(err error) {
	if err != nil {
		m.reloadedOK.Set(0)
		return
	}
	m.reloadedOK.Set(1)
	m.reloadedAt.SetToCurrentTime()
}

// keepsState adds the metrics of the state file, if there is one.
func (m *ownMetrics) keepsState(f *state.File) {
	if !f.Keeps() {
		return
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chatstack_state_writable",
			Help: "Whether the state file takes what the exporter must keep over a restart. Absent without state_file.",
		}, func() float64 {
			if _, err := f.Status(); err != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chatstack_state_last_saved_timestamp_seconds",
			Help: "Unix time when the state file last had everything; while it is not writable, nothing is kept since. " +
				"Absent without state_file.",
		}, func() float64 {
			saved, _ := f.Status()
			return float64(saved.UnixMilli()) / 1000
		}),
	)
}

// describe sets the metrics that depend only on the configuration.
func (m *ownMetrics) describe(cfg *config.Config) {
	m.rules.Reset()
	m.rules.WithLabelValues(alerts.Checksum(cfg.Alerts)).Set(1)
	m.address.Reset()
	m.address.WithLabelValues(cfg.Alerts.ExternalURL).Set(1)
	m.left.Reset()
	for _, t := range cfg.LeftToFirst {
		m.left.WithLabelValues(t.Name, t.Kind).Set(1)
	}
	m.placeholder.Reset()
	for _, settings := range cfg.Targets {
		if len(config.Placeholders(settings)) > 0 {
			m.placeholder.WithLabelValues(settings.Common().Name).Set(1)
		}
	}
}
