package exportertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page has the families of a metrics page by name.
type Page map[string]*dto.MetricFamily

// ParsePage reads a page in the text format.
func ParsePage(text []byte) (Page, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the page does not parse: %w", err)
	}
	return families, nil
}

// Label returns the value of a sample's label, "" if it is missing.
func Label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Samples returns a family's samples with these labels, given as name, value, name, value.
func (p Page) Samples(family string, labels ...string) (found []*dto.Metric) {
	for _, m := range p[family].GetMetric() {
		matching := 0
		for i := 0; i < len(labels); i += 2 {
			if Label(m, labels[i]) == labels[i+1] {
				matching += 2
			}
		}
		if matching == len(labels) {
			found = append(found, m)
		}
	}
	return found
}

// ValueOf returns a sample's value.
func ValueOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

// Value returns the value of the first sample with these labels, given as name, value, name, value.
func (p Page) Value(family string, labels ...string) (value float64, ok bool) {
	if found := p.Samples(family, labels...); len(found) > 0 {
		return ValueOf(found[0]), true
	}
	return 0, false
}

// Verdict returns "" before a target's first probe, then "up" or the reason of the failure.
func (p Page) Verdict(target string) string {
	success, known := p.Value("chatstack_probe_success", "target", target)
	failing := p.Samples("chatstack_probe_failing", "target", target)
	switch {
	case !known:
		return ""
	case success == 1:
		return "up"
	case len(failing) == 0:
		return "down without a reason"
	}
	return Label(failing[0], "reason")
}

// Verdicts returns the verdict of each target by name.
func (p Page) Verdicts() map[string]string {
	all := map[string]string{}
	for _, m := range p["chatstack_target_info"].GetMetric() {
		name := Label(m, "target")
		all[name] = p.Verdict(name)
	}
	return all
}

// Up reports whether each of these targets is up.
func (p Page) Up(targets ...string) bool {
	return !slices.ContainsFunc(targets, func(target string) bool { return p.Verdict(target) != "up" })
}

// AllUp reports whether the page has targets and all of them are up.
func (p Page) AllUp() bool {
	targets := slices.Collect(maps.Keys(p.Verdicts()))
	return len(targets) > 0 && p.Up(targets...)
}

// Sum returns the sum of all samples with these labels, given as name, value, name, value; 0 without any.
func (p Page) Sum(family string, labels ...string) (sum float64) {
	for _, m := range p.Samples(family, labels...) {
		sum += ValueOf(m)
	}
	return sum
}

// Judged reports whether a family comes from the judgement of problems. Such samples outlive a failed probe for a while.
func Judged(family string) bool {
	switch family {
	case "chatstack_container_down_seconds", "chatstack_container_missing_seconds", "chatstack_container_removed_seconds",
		"chatstack_container_unhealthy_seconds", "chatstack_container_excused", "chatstack_container_memory_excused",
		"chatstack_container_recent_oom_kills",
		"chatstack_container_recent_restarts",
		"chatstack_target_down_seconds", "chatstack_target_excused", "chatstack_target_pages", "chatstack_problem_seconds",
		"chatstack_problem_excused", "chatstack_docker_targets_down",
		"chatstack_container_last_known_timestamp_seconds",
		"chatstack_tls_certificate_expiry_limit_seconds":
		return true
	}
	return false
}
