package routing

import (
	"crypto/md5"
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Relabeling is an entry of Prometheus' alert_relabel_configs.
type Relabeling struct {
	Sources     []string `yaml:"source_labels"`
	Separator   string   `yaml:"separator"`
	Regex       string   `yaml:"regex"`
	Modulus     uint64   `yaml:"modulus"`
	Target      string   `yaml:"target_label"`
	Replacement string   `yaml:"replacement"`
	Action      string   `yaml:"action"`

	pattern *regexp.Regexp
}

// UnmarshalYAML has Prometheus' defaults.
func (r *Relabeling) UnmarshalYAML(node *yaml.Node) (err error) {
	type plain Relabeling
	r.Separator, r.Regex, r.Replacement, r.Action = ";", "(.*)", "$1", "replace"
	if err := node.Decode((*plain)(r)); err != nil {
		return err
	}
	r.pattern, err = regexp.Compile("^(?s:" + r.Regex + ")$")
	return err
}

// Relabel returns the labels of an alert as Prometheus sends them; nil if an entry drops the alert.
func Relabel(labels map[string]string, entries []Relabeling) map[string]string {
	labels = maps.Clone(labels)
	for i := range entries {
		if !entries[i].apply(labels) {
			return nil
		}
		maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	}
	return labels
}

// apply changes labels; an empty value stands for no label. It reports whether the alert is kept.
func (r *Relabeling) apply(labels map[string]string) bool {
	var values []string
	for _, name := range r.Sources {
		values = append(values, labels[name])
	}
	value := strings.Join(values, r.Separator)
	found := r.pattern.FindStringSubmatchIndex(value)
	switch action := strings.ToLower(r.Action); action {
	case "keep", "drop":
		return (found != nil) == (action == "keep")
	case "keepequal", "dropequal":
		return (labels[r.Target] == value) == (action == "keepequal")
	case "replace":
		if target := string(r.pattern.ExpandString(nil, r.Target, value, found)); found != nil && target != "" {
			labels[target] = string(r.pattern.ExpandString(nil, r.Replacement, value, found))
		}
	case "lowercase":
		labels[r.Target] = strings.ToLower(value)
	case "uppercase":
		labels[r.Target] = strings.ToUpper(value)
	case "hashmod":
		hash := md5.Sum([]byte(value))
		labels[r.Target] = strconv.FormatUint(binary.BigEndian.Uint64(hash[8:])%max(r.Modulus, 1), 10)
	case "labelmap":
		before := maps.Clone(labels)
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if r.pattern.MatchString(name) {
				labels[r.pattern.ReplaceAllString(name, r.Replacement)] = before[name]
			}
		}
	case "labeldrop", "labelkeep":
		maps.DeleteFunc(labels, func(name, _ string) bool { return r.pattern.MatchString(name) == (action == "labeldrop") })
	}
	return true
}
