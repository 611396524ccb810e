package app

import (
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// WriteRules writes the rule file of the alerts for the thresholds in the configuration, or that of the recording rules
// for the dashboards. It reads no secrets.
func WriteRules(w io.Writer, o Options, recording bool) error {
	o.WithoutSecrets = true
	cfg, err := LoadConfig(o)
	if err != nil {
		return err
	}
	if recording {
		return alerts.WriteRecording(w, cfg.Alerts)
	}
	return alerts.Write(w, cfg.Alerts)
}

// WriteRuleManifest writes both as one resource of the Prometheus Operator. It reads no secrets.
func WriteRuleManifest(w io.Writer, o Options) error {
	o.WithoutSecrets = true
	cfg, err := LoadConfig(o)
	if err != nil {
		return err
	}
	return alerts.WriteManifest(w, cfg.Alerts)
}

// newThresholdGauge makes the metric that shows where deployed rules differ from the configuration.
func newThresholdGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "chatstack_alert_threshold",
		Help: "What the configuration holds an alert against: seconds, bytes, a ratio or a number; of RulesOutOfDate a checksum of all rules.",
	}, []string{"alert", "severity"})
}

func setThresholds(g *prometheus.GaugeVec, a config.Alerts) {
	g.Reset()
	for _, t := range alerts.Thresholds(a) {
		g.WithLabelValues(t.Alert, t.Severity).Set(t.Value)
	}
}
