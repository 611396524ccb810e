package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Warning is something about a valid configuration that its user should know.
type Warning struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// Warnings are what is doubtful about a valid configuration, in the order of its targets.
func Warnings(cfg *config.Config) []Warning {
	var warnings []Warning
	for _, settings := range cfg.Targets {
		name := settings.Common().Name
		if keys := config.Placeholders(settings); len(keys) > 0 {
			slices.Sort(keys)
			warnings = append(warnings, Warning{name, fmt.Sprintf("%s: an obvious placeholder, which must be changed before production", strings.Join(keys, ", "))})
		}
		if n, ok := settings.(interface{ NeedsState() bool }); ok && n.NeedsState() && cfg.StateFile == "" {
			warnings = append(warnings, Warning{name, "a canary that cannot be deleted before the exporter ends stays in the store; set state_file"})
		}
		if w, ok := settings.(config.Warner); ok {
			for _, text := range w.Warnings() {
				warnings = append(warnings, Warning{name, text})
			}
		}
	}
	return warnings
}
