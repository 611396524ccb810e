package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// Warning is a likely mistake in a valid configuration.
type Warning struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// Warnings returns the likely mistakes in a valid configuration, in the order of its targets.
func Warnings(cfg *config.Config) []Warning {
	var warnings []Warning
	for _, w := range cfg.Warnings {
		warnings = append(warnings, Warning(w))
	}
	for _, settings := range cfg.Targets {
		name := settings.Common().Name
		if keys := config.Placeholders(settings); len(keys) > 0 {
			slices.Sort(keys)
			warnings = append(warnings,
				Warning{name, fmt.Sprintf("%s: an obvious placeholder, or empty; set a real secret", strings.Join(keys, ", "))})
		}
		if keys := config.ShortSecrets(settings); len(keys) > 0 {
			warnings = append(warnings, Warning{
				name,
				fmt.Sprintf("%s: shorter than 8 bytes, so a server can put it on /metrics unnoticed; use a longer secret",
					strings.Join(keys, ", ")),
			})
		}
		if d := dutyOf(settings); d != nil && d.WithoutState != "" && cfg.StateFile == "" {
			warnings = append(warnings, Warning{name, d.WithoutState})
		}
		for _, text := range append(botWarnings(cfg, settings), throttleWarning(cfg, settings), pairWarning(cfg, settings),
			containerWarning(cfg, settings)) {
			if text != "" {
				warnings = append(warnings, Warning{name, text})
			}
		}
		for _, text := range settings.Warnings() {
			warnings = append(warnings, Warning{name, text})
		}
	}
	for _, s := range cfg.Public.Services {
		for _, target := range s.Targets {
			if slices.Contains(cfg.Unconfigured, target) {
				warnings = append(warnings, Warning{
					target,
					fmt.Sprintf("the public service %s has this target, which is not configured, so it stays unknown", s.Name),
				})
			}
		}
	}
	return append(warnings, maintenanceWarnings(cfg)...)
}

// containerWarning warns if no engine is watched for the container or service that a target names.
func containerWarning(cfg *config.Config, settings config.Settings) string {
	t := settings.Common()
	watched := slices.ContainsFunc(cfg.Targets, func(s config.Settings) bool {
		d, isEngine := s.(*collectors.Docker)
		return isEngine && (t.ContainerHost == "" || t.ContainerHost == d.Label)
	})
	switch {
	case watched:
	case t.Service != "":
		return fmt.Sprintf("service %s has no effect, because this exporter does not watch its engine; if another one does, "+
			"set container and container_host", t.Service)
	case t.Container != "" && t.ContainerHost == "":
		return fmt.Sprintf("container %s has no effect, because this exporter watches no engine; if another one does, "+
			"set container_host to that engine's docker_host", t.Container)
	}
	return ""
}

// botWarnings warn if the sessions of a relay check count as users, so that there is always one.
// A login is over too soon to be one of them.
func botWarnings(cfg *config.Config, settings config.Settings) (texts []string) {
	if !rowOf(settings).Relay {
		return nil
	}
	var counted []string
	for _, s := range cfg.Targets {
		counted = append(counted, rowOf(s).ValueAlerts...)
	}
	slices.Sort(counted)
	for _, alert := range slices.Compact(counted) {
		if gone := alerts.Settings(&cfg.Alerts, alert); gone.Typical > 0 && gone.Bots == 0 {
			texts = append(texts, fmt.Sprintf("its own session counts as a user, so that %s never fires; "+
				"set alerts.%s.bots to the number of such sessions and bots", alert, alerts.Key(alert)))
		}
	}
	return texts
}

// throttleWarning warns if an irc_login and an irc_tls together connect to one IRC server more often than it accepts by default.
func throttleWarning(cfg *config.Config, settings config.Settings) string {
	login, ok := settings.(*collectors.IRCLogin)
	if !ok || collectors.IsLoopback(login.Address) {
		return ""
	}
	perMinute := func(schedule string) float64 {
		s, err := config.ParseSchedule(schedule)
		if err != nil {
			return 0
		}
		next := s.Next(time.Now())
		return float64(time.Minute) / float64(s.Next(next).Sub(next))
	}
	for _, other := range cfg.Targets {
		if tls, ok := other.(*collectors.IRCTLS); ok && exchange.SameHost(tls.HostName(), login.HostName()) &&
			perMinute(tls.Schedule)+perMinute(login.Schedule) > 3 {
			return fmt.Sprintf("with %s it connects more than 3 times in 60 s, which UnrealIRCd throttles (connect-flood); set schedule: "+
				"\"@every 1m\" in both, "+
				"or exempt the exporter's address as TARGETS.md says", tls.Name)
		}
	}
	return ""
}

// StateWarning says what a restart loses without a state file; "" with one.
func StateWarning(o Options) string {
	cfg, err := LoadConfig(o)
	if err != nil || forgets(cfg) == "" {
		return ""
	}
	return "without state_file, a restart of the exporter forgets " + forgets(cfg)
}

// forgets says what a restart loses; "" if nothing.
func forgets(cfg *config.Config) string {
	if cfg.StateFile != "" {
		return ""
	}
	return "how long targets have been down and how often, which containers should run, incidents, and maintenance that was set"
}

// maintenanceWarnings warns about past maintenance, and maintenance of targets that are not configured.
func maintenanceWarnings(cfg *config.Config) []Warning {
	var warnings []Warning
	for i := range cfg.Maintenance {
		m := &cfg.Maintenance[i]
		if _, _, ok := m.At(time.Now()); ok {
			if m.Kind == config.MaintenanceTarget && slices.Contains(cfg.Unconfigured, m.Name) {
				warnings = append(warnings,
					Warning{m.Name, fmt.Sprintf("maintenance[%d] has no effect, because target %s is not configured", i, m.Name)})
			}
			continue
		}
		about := "maintenance"
		if m.Kind == config.MaintenanceTarget {
			about = m.Name
		}
		warnings = append(warnings, Warning{about, fmt.Sprintf("maintenance[%d] of %s %s ended at %s; remove it, or set a new time",
			i, m.Kind, m.Name, m.Until.UTC().Format(time.RFC3339))})
	}
	return warnings
}

// pairWarning warns if an exporter with pair: other has a duty of the first, or if it has a duty and peers but no role, because all of
// them may share one file. It always warns about statistics_interval, whose value is unknown.
func pairWarning(cfg *config.Config, settings config.Settings) string {
	d := dutyOf(settings)
	switch {
	case d == nil:
	case cfg.Pair == config.PairOther:
		return "pair is other, but only the first exporter of a pair may " + d.Infinitive + "; " + d.AdviceForOther
	case cfg.Pair == "" && len(cfg.Peers) > 0:
		return "pair is not set although peers lists other exporters; only one exporter of the same targets may " + d.Infinitive +
			"; set pair: first in one, and pair: other in all others"
	}
	return ""
}
