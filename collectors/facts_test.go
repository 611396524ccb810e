package collectors

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// wantFacts holds that what is measured reaches the judgement as it is on the page.
func wantFacts(t *testing.T, b *Batch, success bool, page []byte) {
	t.Helper()
	facts := map[string]float64{}
	var err error
	if !success {
		err = errors.New("a failure")
	}
	for _, c := range b.Conditions(err) {
		switch c.Alert {
		case health.AlertVolumeUsage, health.AlertVolumeInodes:
			facts[c.Alert] = c.Used
		case health.AlertCertificateExpiry:
			if b.Target != "" { // else nobody is told of certificates
				first := slices.MinFunc(c.Certificates, func(a, b health.Validity) int { return a.Ends.Compare(b.Ends) })
				facts[c.Alert] = float64(first.Ends.Unix())
			}
		case health.AlertAuthFailureRate:
			for _, n := range c.Counts {
				facts[c.Alert] += n
			}
		}
	}
	if b.Engine != nil {
		for _, c := range b.Engine.Containers {
			if c.Memory > 0 {
				facts["memory of "+c.Name] = c.Memory
			}
		}
	}
	shown := map[string]float64{}
	for line := range exposition.Lines(page) {
		switch line.Name {
		case "chatstack_volume_used_ratio":
			shown[health.AlertVolumeUsage] = line.Value
		case "chatstack_volume_inodes_used_ratio":
			shown[health.AlertVolumeInodes] = line.Value
		case "chatstack_tls_certificate_not_after_timestamp_seconds":
			first, known := shown[health.AlertCertificateExpiry]
			if !known || line.Value < first {
				first = line.Value
			}
			shown[health.AlertCertificateExpiry] = first
		case authFailures:
			if !(line.Value >= 0 && line.Value <= 1<<53) {
				continue
			}
			shown[health.AlertAuthFailureRate] += line.Value
		case "chatstack_container_memory_working_set_bytes":
			if line.Value > 0 && b.Engine != nil {
				shown["memory of "+line.Label("container")] = line.Value
			}
		}
	}
	for name, v := range shown {
		if got, ok := facts[name]; !ok || got != v {
			t.Errorf("%s is %g on the page and %g (known: %t) in the facts", name, v, got, ok)
		}
	}
	for name := range facts {
		if _, ok := shown[name]; !ok {
			t.Errorf("%s is in the facts alone", strings.TrimPrefix(name, "memory of "))
		}
	}
}
