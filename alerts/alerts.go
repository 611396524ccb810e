// Package alerts generates the Prometheus rules, their tests and runbooks from the thresholds of the configuration.
package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// The severities. None is for the alert that proves that alerting works.
const (
	Warning  = "warning"
	Critical = "critical"
	None     = "none"
)

// Defaults returns the thresholds of the rules that are shipped, which are also the configuration's defaults.
func Defaults() config.Alerts { return config.NewAlerts(Kinds()) }

// Checksum identifies the rules for the settings by their expressions, durations and labels, without texts and links. The rule that
// compares the checksum contributes with an empty one.
func Checksum(a config.Alerts) string {
	rules := rulesWith(&a, "")
	for i := range rules {
		rules[i].Annotations = nil
	}
	text, err := yaml.Marshal(rules)
	if err != nil {
		panic(err) // rules are strings
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text))
}

// Write writes the alert rules for the settings, which must be valid, as a rule file of Prometheus.
func Write(w io.Writer, a config.Alerts) error {
	return write(w, "The alert rules of chatstack_exporter. Generated from the settings under alerts: in exporter.yaml:\n"+
		"#   chatstack_exporter rules --config.file=exporter.yaml >chatstack.rules.yml\n"+
		"# They need Prometheus 2.42 or newer, and honor_labels: true in the scrape configuration.",
		file{[]group{alertGroup(&a)}})
}

// groupName is the name of the group of the alert rules.
const groupName = "chatstack"

func alertGroup(a *config.Alerts) group {
	return group{groupName, seconds(a.Interval), rulesWith(a, Checksum(*a))}
}

// Loaded is the group of rules for the settings as Prometheus shows it among those that it has loaded, at /api/v1/rules: an object of JSON.
func Loaded(a config.Alerts) []byte {
	type loaded struct {
		Name        string            `json:"name"`
		Type        string            `json:"type"`
		Query       string            `json:"query"`
		Duration    float64           `json:"duration"`
		Keep        float64           `json:"keepFiringFor"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	printed := alertGroup(&a)
	shown := struct {
		Name     string   `json:"name"`
		Interval float64  `json:"interval"`
		Rules    []loaded `json:"rules"`
	}{Name: printed.Name, Interval: a.Interval.Std().Seconds()}
	for _, r := range printed.Rules {
		shown.Rules = append(shown.Rules, loaded{
			Name:        r.Record + r.Alert,
			Type:        map[bool]string{true: "recording", false: "alerting"}[r.Alert == ""],
			Query:       r.Expr,
			Duration:    time.Duration(r.For).Seconds(),
			Keep:        time.Duration(r.KeepFiringFor).Seconds(),
			Labels:      r.Labels,
			Annotations: r.Annotations,
		})
	}
	text, err := json.Marshal(shown)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// rulesWith returns all rules; one of them compares the checksum.
func rulesWith(a *config.Alerts, checksum string) []rule {
	rules := recorded(a)
	for _, t := range table(a, checksum) {
		rules = append(rules, t.rule(a))
	}
	return rules
}

func (t *alert) rule(a *config.Alerts) rule {
	labels := map[string]string{"severity": t.severity, "stack": "chat"}
	if t.severity != None {
		labels["chat_server"] = t.serverLabel(a)
	}
	if t.target != "" {
		labels["target"] = t.target
	}
	if t.drill {
		labels["drill"] = "true"
		delete(labels, "severity")
	}
	expr := t.expr(a, t)
	annotations := map[string]string{
		"summary":     t.fill(a, t.summary),
		"description": t.fill(a, t.description),
		"runbook_url": RunbookLink(a, t.name),
		"status_url":  "",
		"since":       t.since,
	}
	switch {
	case t.elsewhere:
	case a.ExternalURL != "":
		annotations["status_url"] = a.ExternalURL + "/"
	default: // the exporter knows where its pages are
		annotations["status_url"] = "{{ with " + statusPage + " }}{{ . | first | label \"external_url\" }}/{{ end }}"
		annotations["runbook_url"] = "{{ with " + statusPage + " }}{{ . | first | label \"external_url\" }}/runbooks/" + t.name +
			"{{ else }}" + annotations["runbook_url"] + "{{ end }}"
	}
	if t.lasts {
		annotations["since"] = began
	}
	if t.held {
		expr += fmt.Sprintf(" or ignoring (alertname, severity) %s{alertname=%q,severity=%q}", heldAlerts, t.name, t.severity)
		annotations["description"] = unlessHeld(nobodyKnows, annotations["description"])
		if annotations["since"] != "" {
			annotations["since"] = unlessHeld("", annotations["since"])
		}
	}
	maps.DeleteFunc(annotations, func(_, text string) bool { return text == "" })
	return rule{
		Alert:         t.name,
		Expr:          expr,
		For:           seconds(t.hold),
		KeepFiringFor: seconds(t.keep),
		Labels:        labels,
		Annotations:   annotations,
	}
}

// nobodyKnows is what an alert says that is held.
const nobodyKnows = "This is the last known state: no exporter answers, or one has just started and looks whether it goes on."

// unlessHeld is one text if the alert is held, else the other.
func unlessHeld(text, otherwise string) string {
	return "{{ if eq $value 0.0 }}" + text + "{{ else }}" + otherwise + "{{ end }}"
}

// The shape of a rule file.
type (
	file struct {
		Groups []group `yaml:"groups"`
	}
	group struct {
		Name     string         `yaml:"name"`
		Interval model.Duration `yaml:"interval,omitempty"`
		Rules    []rule         `yaml:"rules"`
	}
	rule struct {
		Record        string            `yaml:"record,omitempty"`
		Alert         string            `yaml:"alert,omitempty"`
		Expr          string            `yaml:"expr"`
		For           model.Duration    `yaml:"for,omitempty"`
		KeepFiringFor model.Duration    `yaml:"keep_firing_for,omitempty"`
		Labels        map[string]string `yaml:"labels,omitempty"`
		Annotations   map[string]string `yaml:"annotations,omitempty"`
	}
)

func write(w io.Writer, heading string, content any) error {
	if _, err := fmt.Fprintf(w, "# %s\n", heading); err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(content), e.Close())
}

// seconds converts a duration to one that Prometheus prints.
func seconds(d config.Duration) model.Duration { return model.Duration(d) }

// inWords spells a duration for people: 14 days, 5 minutes.
func inWords(d config.Duration) string { return wording.Limit(d.Std()) }

// size spells a number of bytes for people: 500 MB, 1 GB.
func size(n int64) string { return wording.SizeLimit(n) }
