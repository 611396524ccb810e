package alerts

import (
	"bytes"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"

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
	m := manifest{
		APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule",
		Metadata: map[string]string{"name": "chatstack-exporter"},
	}
	for _, writeRules := range []func(io.Writer, config.Alerts) error{Write, WriteRecording} {
		var b bytes.Buffer
		if err := writeRules(&b, a); err != nil {
			return err
		}
		var one file
		if err := yaml.Unmarshal(b.Bytes(), &one); err != nil {
			return fmt.Errorf("read own rules: %w", err)
		}
		m.Spec.Groups = append(m.Spec.Groups, one.Groups...)
	}
	return write(w,
		"The rules of chatstack_exporter for the Prometheus Operator. Generated from the settings under alerts: in exporter.yaml:\n"+
			"#   chatstack_exporter rules --kubernetes --config.file=exporter.yaml >prometheusrule.yaml", m)
}
