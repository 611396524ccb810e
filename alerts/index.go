package alerts

import (
	"embed"
	"fmt"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:embed runbooks/*.md
var runbookFiles embed.FS

// Runbook returns the runbook of an alert, in Markdown, or false for a name that no alert has.
func Runbook(alert string) (text string, ok bool) {
	content, err := runbookFiles.ReadFile("runbooks/" + alert + ".md")
	return string(content), err == nil
}

// Index lists all alerts for the settings in Markdown, with their thresholds and meanings. Its links are relative to alerts/.
func Index(a config.Alerts) string {
	var b strings.Builder
	b.WriteString("# Alerts\n\nEvery alert, with the threshold of each severity. Its name links to its runbook.\n\n" +
		"| alert | warning | critical | what it means |\n|---|---|---|---|\n")
	when := thresholds(&a)
	done, all := map[string]bool{}, allOn(a)
	for _, row := range append(table(&all), outOfDate(&a, ""), watchdog()) {
		if done[row.name] {
			continue
		}
		done[row.name] = true
		fmt.Fprintf(&b, "| [%s](runbooks/%[1]s.md) | %s | %s | %s |\n", row.name, when[row.name][0], when[row.name][1], meaning(row.name))
	}
	return b.String()
}

// allOn enables every alert in the settings.
func allOn(a config.Alerts) config.Alerts {
	a.IRCServersSplit.Enabled = true
	a.XMPPSessionsGone.Typical, a.IRCUsersGone.Typical = max(a.XMPPSessionsGone.Typical, 1), max(a.IRCUsersGone.Typical, 1)
	return a
}

// meaning is the first paragraph of an alert's runbook.
func meaning(alert string) string {
	text, _ := Runbook(alert)
	_, text, _ = strings.Cut(text, "\n\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.ReplaceAll(text, "\n", " ")
}

// thresholds returns the conditions of each alert in words: for the warning and the critical alert.
func thresholds(a *config.Alerts) map[string][2]string {
	const none = "never"
	warning := func(h config.Hold) [2]string { return [2]string{after(h.For), none} }
	critical := func(h config.Hold) [2]string {
		return [2]string{"instead of critical, with `page: false`", after(h.For)}
	}
	amount := func(format string, level config.Amount) string {
		return fmt.Sprintf(format, level.Over) + forOver(level.For)
	}
	memory := func(level config.Amount) string { return "over " + size(level.Over) + forOver(level.For) }
	gone := func(g config.GoneAlert) [2]string {
		if g.Typical == 0 {
			return [2]string{"off (`typical: 0`)", none}
		}
		nobody := "nobody"
		if g.Bots > 0 {
			nobody = fmt.Sprintf("%d or fewer", g.Bots)
		}
		return [2]string{fmt.Sprintf("%s%s, if the median of the last 24 hours is %d or more", nobody, forOver(g.For), g.Typical), none}
	}
	split := after(a.IRCServersSplit.For)
	if !a.IRCServersSplit.Enabled {
		split = "off; with `enabled: true`: " + split
	}
	return map[string][2]string{
		"DataVolumeInodes": {amount("over %d %%", a.DataVolumeInodes.Warning), amount("over %d %%", a.DataVolumeInodes.Critical)},
		"DataVolumeFilling": {fmt.Sprintf("over %d %%, and full within %s at the rate of the last %s%s", a.DataVolumeFilling.Over,
			inWords(a.DataVolumeFilling.Within), inWords(a.DataVolumeFilling.Window), forOver(a.DataVolumeFilling.For)), none},
		"DataVolumeReadOnly": critical(a.DataVolumeReadOnly),
		"BackupOld":          warning(a.BackupOld),
		"ContainerOOMKill":   {"1 or more within " + inWords(a.ContainerOOMKill.Window), none},
		"XMPPAuthFailuresSustained": {
			fmt.Sprintf("over %d a minute, averaged over %s",
				a.XMPPAuthFailuresSustained.Over, inWords(a.XMPPAuthFailuresSustained.Window)),
			none,
		},
		"XMPPSessionsGone":   gone(a.XMPPSessionsGone),
		"IRCUsersGone":       gone(a.IRCUsersGone),
		"IRCServersSplit":    {split, none},
		"ContainerUnhealthy": {after(a.ContainerUnhealthy.Warning.For), after(a.ContainerUnhealthy.Critical.After)},
		"ContainerRestarts": {
			fmt.Sprintf("%d or more within %s", a.ContainerRestarts.Warning.Over+1, inWords(a.ContainerRestarts.Window)),
			fmt.Sprintf("%d or more within %s", a.ContainerRestarts.Critical.Over+1, inWords(a.ContainerRestarts.Window)),
		},
		"ContainerDown":    {after(a.ContainerDown.Warning.For), after(a.ContainerDown.Critical.For)},
		"ContainerMissing": {"removed by a person: " + after(a.ContainerMissing.For), "otherwise: " + after(a.ContainerMissing.For)},
		"ContainerMemory":  {"XMPP server: " + memory(a.ContainerMemory.Warning), "any container: " + memory(a.ContainerMemory.Critical)},
		"XMPPAuthFailureRate": {
			amount("over %d a minute", a.XMPPAuthFailureRate.Warning), amount("over %d a minute", a.XMPPAuthFailureRate.Critical),
		},
		"TLSCertificateExpiry": {
			"less than " + inWords(a.TLSCertificateExpiry.Warning.Under) + " left; a third of its life, if it lives no longer than that",
			"less than " + inWords(a.TLSCertificateExpiry.Critical.Under) + " left; a sixth of that life",
		},
		"DataVolumeUsage": {amount("over %d %%", a.DataVolumeUsage.Warning), amount("over %d %%", a.DataVolumeUsage.Critical)},
		"TargetUnstable": {
			fmt.Sprintf("over %d %% of the probes failed, both in the last hour and in the last 5 minutes", a.TargetUnstable.Warning.Over),
			fmt.Sprintf("over %d %% of them", a.TargetUnstable.Critical.Over),
		},
		"MostTargetsDown": {
			fmt.Sprintf("over %d %%", a.MostTargetsDown.Over) + " of the targets for " + inWords(a.MostTargetsDown.Warning.For),
			"for " + inWords(a.MostTargetsDown.Critical.For),
		},
		"TargetDown":                {after(a.TargetDown.Warning.For), after(a.TargetDown.Critical.For)},
		"XMPPAuthSourceMissing":     warning(a.XMPPAuthSourceMissing),
		"XMPPModuleProblem":         warning(a.XMPPModuleProblem.Hold),
		"XMPPComponentDisconnected": critical(a.XMPPComponentDisconnected),
		"IRCServicesUnlinked":       critical(a.IRCServicesUnlinked),
		"PlantStoreOrphans":         warning(a.PlantStoreOrphans),
		"IdentityCacheExhausted":    warning(a.IdentityCacheExhausted),
		"TLSChainInvalid":           warning(a.TLSChainInvalid),
		"TLSServedNotRenewed": {
			after(a.TLSServedNotRenewed.Warning.For),
			after(a.TLSServedNotRenewed.Critical.For) + ", with less than " + inWords(a.TLSServedNotRenewed.Critical.Under) + " left",
		},
		"UpstreamSeriesDropped": warning(a.UpstreamSeriesDropped),
		"PlaceholderCredential": warning(a.PlaceholderCredential),
		"BridgeNotRelaying":     critical(a.BridgeNotRelaying), "BridgeSlow": warning(a.BridgeSlow),
		"RelaySessionDown": warning(a.RelaySessionDown),
		"RelayUnwatched":   warning(a.RelayUnwatched),
		"ExporterDown": {
			"one of several exporters: " + after(a.ExporterDown.Warning.For),
			"no exporter left in an environment that had one within " + inWords(a.ExporterDown.Remember) + ", or none known at all: " +
				after(a.ExporterDown.Critical.For),
		},
		"PollStalled":        {none, after(a.PollStalled.After)},
		"ConfigReloadFailed": warning(a.ConfigReloadFailed),
		"MonitoringGap": {
			"overdue probes, a `container:` that no engine has, or no container with a role of " +
				strings.Join(a.MonitoringGap.Roles, ", ") + ": " + after(a.MonitoringGap.For),
			none,
		},
		"HonorLabelsOff": warning(a.HonorLabelsOff),
		"ScrapedTooSeldom": {
			fmt.Sprintf("fewer than %d scrapes in %s, ", fewestScrapes, inWords(fewestScrapes*a.Lookback)) + after(a.ScrapedTooSeldom.For),
			none,
		},
		"ClockSkew":      {"over " + inWords(a.ClockSkew.Over) + " apart, " + after(a.ClockSkew.For), none},
		"RulesOutOfDate": warning(a.RulesOutOfDate),
		DrillAlert:       {"during a drill, with the severity that it asks for, by default none", none},
		"Watchdog":       {"always, with severity none", none},
	}
}

func after(d config.Duration) string {
	if d == 0 {
		return "at once"
	}
	return "after " + inWords(d)
}
