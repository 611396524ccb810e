package collectors

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		default:
			isUsed := func(line exposition.Line) bool { return line.Value == c.Used }
			if c.Used != 0 && !slices.ContainsFunc(slices.Collect(exposition.Lines(page)), isUsed) {
				t.Errorf("%s judges %g, which no series on the page has", c.Alert, c.Used)
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

// metricsOfFigures are the metrics that say the same as a figure: the sum of a family's series with a label's value, or of all. A figure
// that is not here says the same as the sum of any family of ours.
var metricsOfFigures = map[string]struct{ family, label, value string }{
	"sessions":                 {"xmpp_c2s_sessions", "type", "c2s"},
	"links to other servers":   {family: "xmpp_s2s_sessions"},
	"memory":                   {family: "xmpp_memory_usage_bytes"},
	"modules in error":         {"chatstack_xmpp_module_problems", "state", "error"},
	"components connected":     {family: "chatstack_xmpp_component_connected"},
	"users":                    {family: "chatstack_irc_users"},
	"channels":                 {family: "chatstack_irc_channels"},
	"servers":                  {family: "chatstack_irc_servers"},
	"creating":                 {"chatstack_plant_store_operation_duration_seconds", "operation", "create"},
	"deleting":                 {"chatstack_plant_store_operation_duration_seconds", "operation", "delete"},
	"test records not deleted": {family: "chatstack_plant_store_orphans"},
	"IRC to XMPP":              {"chatstack_relay_last_delivery_seconds", "from", "irc"},
	"XMPP to IRC":              {"chatstack_relay_last_delivery_seconds", "from", "xmpp"},
	"available":                {family: "chatstack_volume_available_bytes"},
	"newest backup":            {family: "chatstack_backup_size_bytes"},
}

// wantFigures holds that the status page shows the same numbers as the metrics page. Of another server's families, it shows only the
// canonical ones.
func wantFigures(t *testing.T, b *Batch, success bool, page []byte) {
	t.Helper()
	figures, shown := map[string]float64{}, map[string]float64{}
	for _, f := range b.Figures(success) {
		figures[f.Name] = f.Value
	}
	sums := map[string]float64{}
	for line := range exposition.Lines(page) {
		if strings.HasPrefix(line.Name, ownPrefix) {
			sums[line.Name] += line.Value
		}
	}
	for name, v := range figures {
		if _, known := metricsOfFigures[name]; !known && slices.Contains(slices.Collect(maps.Values(sums)), v) {
			shown[name] = v
		}
	}
	canonical := bytes.Contains(page, []byte("chatstack_xmpp_family_available"))
	for name, m := range metricsOfFigures {
		for line := range exposition.Lines(page) {
			finite := !math.IsNaN(line.Value) && !math.IsInf(line.Value, 0)
			if line.Name == m.family && finite && line.Label(m.label) == m.value && (canonical || strings.HasPrefix(m.family, ownPrefix)) {
				shown[name] += line.Value
			}
		}
	}
	if diff := cmp.Diff(shown, figures); diff != "" {
		t.Errorf("a figure is the sum of no family, or not what metricsOfFigures says (-metrics +figures):\n%s", diff)
	}
}
