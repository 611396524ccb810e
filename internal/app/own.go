package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// allocatedTotal is a counter of the Go collector whose family has the same name in OpenMetrics as a gauge beside it.
// The gauge is kept.
const allocatedTotal = "go_memstats_alloc_bytes_total"

// ownMetrics are the exporter's own: of the Go runtime, of the process, of the build, and of the configuration.
type ownMetrics struct {
	registry    *prometheus.Registry
	reloadedOK  prometheus.Gauge
	reloadedAt  prometheus.Gauge
	placeholder *prometheus.GaugeVec
	rules       *prometheus.GaugeVec
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
			Help: "When the configuration was last loaded with success.",
		}),
		placeholder: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_placeholder_credential",
			Help: "1 while a secret of the target is an obvious placeholder, which must be changed before production.",
		}, []string{"target"}),
		rules: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chatstack_rules_info",
			Help: "1 with a checksum of the alert rules that the command rules prints for this configuration.",
		}, []string{"checksum"}),
	}
	m.registry.MustRegister(
		promcollectors.NewGoCollector(),
		promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("chatstack_exporter"),
		m.reloadedOK, m.reloadedAt, m.placeholder, m.rules,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chatstack_label_check", ConstLabels: alerts.LabelCheck(),
			Help: "1; its labels arrive as they are if the scrape configuration has honor_labels: true.",
		}, func() float64 { return 1 }),
	)
	m.reloaded(nil)
	return m
}

// Gather implements prometheus.Gatherer.
func (m *ownMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == allocatedTotal }), err
}

// reloaded notes how the configuration was loaded.
func (m *ownMetrics) reloaded(err error) {
	if err != nil {
		m.reloadedOK.Set(0)
		return
	}
	m.reloadedOK.Set(1)
	m.reloadedAt.SetToCurrentTime()
}

// describe notes what can be told of a configuration without asking anybody.
func (m *ownMetrics) describe(cfg *config.Config) {
	m.rules.Reset()
	m.rules.WithLabelValues(alerts.Checksum(cfg.Alerts)).Set(1)
	m.placeholder.Reset()
	for _, settings := range cfg.Targets {
		if len(config.Placeholders(settings)) > 0 {
			m.placeholder.WithLabelValues(settings.Common().Name).Set(1)
		}
	}
}
