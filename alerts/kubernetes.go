package alerts

import (
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// manifest is a PrometheusRule of the Prometheus Operator.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       file              `yaml:"spec"`
}

// WriteManifest writes the alert rules and the recording rules for the settings, which must be valid, as one resource of
// the Prometheus Operator.
func WriteManifest(w io.Writer, a config.Alerts) error {
	return write(w,
		"The rules of chatstack_exporter for the Prometheus Operator. Generated from the settings under alerts: in exporter.yaml:\n"+
			"#   chatstack_exporter rules --kubernetes --config.file=exporter.yaml >prometheusrule.yaml",
		manifest{
			APIVersion: "monitoring.coreos.com/v1",
			Kind:       "PrometheusRule",
			Metadata:   map[string]string{"name": "chatstack-exporter"},
			Spec:       file{[]group{alertGroup(&a), availabilityGroup(&a)}},
		})
}
