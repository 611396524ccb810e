package app

import (
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
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

// WriteRuleTests writes unit tests of the alert rules for the thresholds in the configuration, for promtool or vmalert-tool. It reads no
// secrets.
func WriteRuleTests(w io.Writer, o Options, vmalert bool) error {
	o.WithoutSecrets = true
	cfg, err := LoadConfig(o)
	if err != nil {
		return err
	}
	return alerts.WriteTests(w, cfg.Alerts, "chatstack.rules.yml", vmalert)
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
