package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	for _, d := range cfg.Doubts {
		warnings = append(warnings, Warning(d))
	}
	for _, settings := range cfg.Targets {
		name := settings.Common().Name
		if keys := config.Placeholders(settings); len(keys) > 0 {
			slices.Sort(keys)
			warnings = append(warnings, Warning{name, fmt.Sprintf("%s: an obvious placeholder, which must be changed before production", strings.Join(keys, ", "))})
		}
		if n, ok := settings.(stateful); ok && n.NeedsState() && cfg.StateFile == "" {
			warnings = append(warnings, Warning{name, "a canary that cannot be deleted before the exporter ends stays in the store; set state_file"})
		}
		for _, text := range []string{pairWarning(cfg, settings), containerWarning(cfg, settings)} {
			if text != "" {
				warnings = append(warnings, Warning{name, text})
			}
		}
		if w, ok := settings.(config.Warner); ok {
			for _, text := range w.Warnings() {
				warnings = append(warnings, Warning{name, text})
			}
		}
	}
	return append(warnings, maintenanceWarnings(cfg)...)
}

// containerWarning says that the container that a target names is watched nowhere, "" if that is not known.
func containerWarning(cfg *config.Config, settings config.Settings) string {
	t := settings.Common()
	watches := func(s config.Settings) bool { return s.Common().Kind == "docker" }
	if t.Container == "" || t.ContainerHost != "" || slices.ContainsFunc(cfg.Targets, watches) {
		return ""
	}
	return fmt.Sprintf("container %s excuses nothing, since this exporter watches no engine; set container_host to the docker_host under which another one watches it", t.Container)
}

// StateWarning says what a restart of the exporter forgets without a state file; "" with one.
func StateWarning(o Options) string {
	if cfg, err := LoadConfig(o); err != nil || cfg.StateFile != "" {
		return ""
	}
	return "without state_file, a restart of the exporter forgets how long targets have been down"
}

// maintenanceWarnings are windows that are over and will never come again, and those of targets that are not configured.
func maintenanceWarnings(cfg *config.Config) []Warning {
	var warnings []Warning
	for i := range cfg.Maintenance {
		m := &cfg.Maintenance[i]
		if _, _, ok := m.At(time.Now()); ok {
			if m.Kind == config.MaintenanceTarget && slices.Contains(cfg.Unconfigured, m.Name) {
				warnings = append(warnings, Warning{m.Name, fmt.Sprintf("maintenance[%d] has no effect, since target %s is not configured", i, m.Name)})
			}
			continue
		}
		about := "maintenance"
		if m.Kind == config.MaintenanceTarget {
			about = m.Name
		}
		warnings = append(warnings, Warning{about, fmt.Sprintf("maintenance[%d] of %s %s is over since %s; take it out, or write when the next one is",
			i, m.Kind, m.Name, m.Until.Std().UTC().Format(time.RFC3339))})
	}
	return warnings
}

// pairWarning is what a target of an exporter that is not the first of a pair must not do beside the first, or "". What
// the XMPP server's statistics_interval is cannot be asked, so that it is told in any case. Who names peers and does not say
// which of them this is may have copied one file to all of them.
func pairWarning(cfg *config.Config, settings config.Settings) string {
	d := dutyOf(settings)
	switch {
	case d == nil:
	case cfg.Pair == config.PairOther:
		return "pair: other, and only the first of a pair may " + d.do + "; " + d.other
	case cfg.Pair == "" && len(cfg.Peers) > 0:
		return "peers names other exporters, and of those that ask the same targets only one may " + d.do +
			"; write pair: first if that is this one, else pair: other"
	}
	return ""
}
