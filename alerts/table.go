package alerts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// table returns the alerts on the stack and on the exporter, in the order of the rule file.
func table(a *config.Alerts) []alert {
	return slices.Concat(containerAlerts(a), valueAlerts(a), historyAlerts(a), targetAlerts(a), problemAlerts(a), monitoringAlerts(a))
}

const (
	aContainer = "Container {{ $labels.container }} on {{ $labels.docker_host }}"
	aTarget    = "Target {{ $labels.target }}"
	// here selects series of the alert's environment: an empty value matches series without that label.
	here     = "cluster=%q,env=%q,part=%q"
	hereArgs = "$labels.cluster $labels.env $labels.part"
	// reasons are queried when the alert is written: as a label, a change of the reason would make another alert.
	reasons = "{{ range $i, $r := query (printf `count by (reason) (chatstack_probe_failing{target=%q," + here + "})` $labels.target " + hereArgs +
		") | sortByLabel \"reason\" }}{{ if $i }}, {{ end }}{{ $r.Labels.reason }}{{ else }}reason unknown{{ end }}"
	// endSources are the sources of the certificate that ends first, such as "file, leaf".
	endSources = "{{ $ends := printf `min by (source) (chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=%q," + here + "})` $labels.endpoint " + hereArgs +
		" }}{{ range $i, $c := query (printf `%s == scalar(min(%s))` $ends $ends) | sortByLabel \"source\" }}{{ if $i }}, {{ end }}{{ $c.Labels.source }}{{ else }}unknown{{ end }}"
	// downOfAll is how many targets are down, such as "11 of 13", of those whose alert it is.
	downOfAll = "{{ $of := printf `max by (target) (chatstack_probe_success{" + here + "})` " + hereArgs + " }}" +
		"{{ range query (printf `count(%s == 0)` $of) }}{{ .Value }}{{ else }}Most{{ end }} of {{ range query (printf `count(%s)` $of) }}{{ .Value }}{{ else }}the{{ end }}"
	lasted = " for {{ $value | humanizeDuration }}."
)

func containerAlerts(a *config.Alerts) []alert {
	down := unlessExcused(a, "container", "chatstack_container_down_seconds")
	unhealthy := unlessExcused(a, "container", "chatstack_container_unhealthy_seconds")
	missing := unlessExcused(a, "container", "chatstack_container_missing_seconds")
	removed := unlessExcused(a, "container", "chatstack_container_removed_seconds")
	// Critical too takes the most: an exporter that began to watch later has seen fewer restarts, never more.
	restarts := containers("max", latest(a, "chatstack_container_recent_restarts"))
	within := plain(a.ContainerRestarts.Window)
	return []alert{
		{
			name: "ContainerUnhealthy", severity: Warning, keep: a.ContainerUnhealthy.Warning.KeepFiringFor,
			expr:        containers("max", unhealthy) + longer(a.ContainerUnhealthy.Warning.For),
			summary:     aContainer + " is unhealthy.",
			description: "Its health check has been failing" + lasted,
		}, {
			name: "ContainerUnhealthy", severity: Critical, keep: a.ContainerUnhealthy.Critical.KeepFiringFor,
			expr:        containers("min", unhealthy) + longer(a.ContainerUnhealthy.Critical.After),
			summary:     aContainer + " has been unhealthy for over " + plain(a.ContainerUnhealthy.Critical.After) + ".",
			description: "Its health check has been failing" + lasted,
		}, {
			name: "ContainerRestarts", severity: Warning,
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Warning.Over),
			summary:     aContainer + " has restarted.",
			description: "It has restarted {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} within " + within + ". A deploy does not count.",
		}, {
			name: "ContainerRestarts", severity: Critical,
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Critical.Over),
			summary:     aContainer + " is crash-looping: {{ $value }} restarts in " + within + ".",
			description: fmt.Sprintf("More than %d restarts in %s are critical. A deploy does not count.", a.ContainerRestarts.Critical.Over, within),
		}, {
			name: "ContainerOOMKill", severity: Warning,
			expr:        containers("max", latest(a, "chatstack_container_recent_oom_kills")) + " > 0",
			summary:     aContainer + " ran out of memory; the kernel killed one of its processes.",
			description: "That was within " + plain(a.ContainerOOMKill.Window) + ", and the container goes on without it. Give it more memory, or find out what uses it.",
		}, {
			name: "ContainerDown", severity: Warning, keep: a.ContainerDown.Warning.KeepFiringFor,
			expr:        containers("max", down) + longer(a.ContainerDown.Warning.For),
			summary:     aContainer + " is not running.",
			description: "It should run, and has not" + lasted + " No container that it depends on is down.",
		}, {
			name: "ContainerDown", severity: Critical, keep: a.ContainerDown.Critical.KeepFiringFor,
			expr:        containers("min", down) + longer(a.ContainerDown.Critical.For),
			summary:     aContainer + " has not been running for over " + plain(a.ContainerDown.Critical.For) + ".",
			description: "It should run, and has not" + lasted + " No container that it depends on is down.",
		}, {
			name: "ContainerMissing", severity: Warning, keep: a.ContainerMissing.KeepFiringFor,
			expr:        containers("max", removed) + longer(a.ContainerMissing.For),
			summary:     aContainer + " has been removed.",
			description: "Somebody removed it {{ $value | humanizeDuration }} ago. The exporter forgets it an hour after that.",
		}, {
			name: "ContainerMissing", severity: Critical, keep: a.ContainerMissing.KeepFiringFor,
			expr:        containers("min", missing) + longer(a.ContainerMissing.For),
			summary:     aContainer + " is missing.",
			description: "It is expected, and has not existed" + lasted,
		},
	}
}

// levels are the warning and the critical alert on the same thing.
func levels[Level any](warning, critical Level, on func(severity string, level Level) alert) []alert {
	return []alert{on(Warning, warning), on(Critical, critical)}
}

// valueAlerts are those on measured values.
func valueAlerts(a *config.Alerts) []alert {
	memory := levels(a.ContainerMemory.Warning, a.ContainerMemory.Critical, func(severity string, limit config.Amount) alert {
		used, which := memory, "It"
		if severity == Warning {
			used, which = xmppMemory, "The XMPP server"
		}
		return alert{
			name: "ContainerMemory", severity: severity, keep: limit.KeepFiringFor,
			expr:        exceeds(used, number(float64(limit.Over)), limit.For),
			summary:     aContainer + " uses over " + size(limit.Over) + " of memory: {{ $value | humanize }}B.",
			description: fmt.Sprintf("%s has used over %s%s.", which, size(limit.Over), forOver(limit.For)),
		}
	})
	logins := levels(a.XMPPAuthFailureRate.Warning, a.XMPPAuthFailureRate.Critical, func(severity string, limit config.Amount) alert {
		return alert{
			name: "XMPPAuthFailureRate", severity: severity, hold: limit.For, keep: limit.KeepFiringFor,
			// A rate dips while scrapes are lost, so that the best of the last ones counts.
			expr:        fmt.Sprintf("%s > %d", unexcusedLogins(a, fmt.Sprintf("max_over_time(%s[%s])", authFailureRate, seconds(a.Interval*5/2))), limit.Over),
			summary:     fmt.Sprintf("Over %d logins a minute fail at the XMPP server", limit.Over) + `: {{ $value | printf "%.1f" }}.`,
			description: fmt.Sprintf("More than %d a minute have failed%s.", limit.Over, forOver(limit.For)),
		}
	})
	ends := over("min", fmt.Sprintf("last_over_time(chatstack_tls_certificate_not_after_timestamp_seconds[%s]) unless ignoring (source) %s",
		seconds(a.SlowLookback), latest(a, "chatstack_tls_certificate_excused")), []string{"source"}, "endpoint")
	ending := "{{ if gt $value 0.0 }}ends in {{ humanizeDuration $value }}{{ else }}has ended{{ end }}."
	certificates := levels(a.TLSCertificateExpiry.Warning, a.TLSCertificateExpiry.Critical, func(severity string, limit config.Expiry) alert {
		states := " "
		if severity == Critical {
			states = " must be renewed: it "
		}
		return alert{
			name: "TLSCertificateExpiry", severity: severity, keep: limit.KeepFiringFor, target: "{{ $labels.endpoint }}",
			expr:        ends + " - time() < " + number(limit.Under.Std().Seconds()),
			summary:     "The certificate of {{ $labels.endpoint }}" + states + ending,
			description: "It ends in less than " + plain(limit.Under) + ". Found in: " + endSources + ".",
		}
	})
	volumes := levels(a.DataVolumeUsage.Warning, a.DataVolumeUsage.Critical, func(severity string, limit config.Amount) alert {
		return alert{
			name: "DataVolumeUsage", severity: severity, keep: limit.KeepFiringFor,
			expr:        exceeds(volumeUsed, number(float64(limit.Over)/100), limit.For),
			summary:     fmt.Sprintf("Volume {{ $labels.volume }} is over %d %% full: {{ $value | humanizePercentage }}.", limit.Over),
			description: fmt.Sprintf("Over %d %% of the usable space has been used%s, as df counts it.", limit.Over, forOver(limit.For)),
		}
	})
	return slices.Concat(memory, logins, certificates, volumes)
}

// unexcusedLogins is a number of failed logins, the highest of all exporters, unless maintenance holds it back.
func unexcusedLogins(a *config.Alerts, number string) string {
	return over("max", number+" unless "+latest(a, "chatstack_xmpp_auth_failures_excused"), nil)
}

// forOver is the end of a sentence that says how long something has lasted at least.
func forOver(d config.Duration) string {
	if d == 0 {
		return ""
	}
	return " for over " + plain(d)
}

func targetAlerts(a *config.Alerts) []alert {
	// A container on another exporter's engine excuses a target that went down after it, or not a minute before it, and was not told.
	unlessElsewhere := func(down string, threshold config.Duration) string {
		return fmt.Sprintf(" unless %s - %s < %s", down, targetElsewhere, number(min(60, threshold.Std().Seconds())))
	}
	description := "Every check has failed" + lasted + " Nothing that the exporter knows of explains it."
	return []alert{
		{
			name: "TargetDown", severity: Warning, keep: a.TargetDown.Warning.KeepFiringFor,
			// The warning about a refused certificate says more. The critical alert comes all the same.
			expr: targetDownAny + longer(a.TargetDown.Warning.For) + unlessElsewhere(targetDownAny, a.TargetDown.Warning.For) +
				" unless ignoring (alert, kind, of, severity) " + warningsAny + `{alert="TLSChainInvalid"}` + longer(a.TLSChainInvalid.For),
			summary:     aTarget + " is down (" + reasons + ").",
			description: description,
		}, {
			name: "TargetDown", severity: Critical, keep: a.TargetDown.Critical.KeepFiringFor,
			expr: targetDownAll + longer(a.TargetDown.Critical.For) + unlessElsewhere(targetDownAll, a.TargetDown.Critical.For) +
				" unless ignoring (kind) " + targetPages + " == 0",
			summary:     aTarget + " has been down for over " + plain(a.TargetDown.Critical.For) + " (" + reasons + ").",
			description: description,
		},
	}
}

// problemAlerts are those on conditions that the exporter judges itself: only how long is left to compare.
func problemAlerts(a *config.Alerts) []alert {
	of := func(name, severity string, hold config.Hold, summary, description string) alert {
		series := warningsAny
		if severity == Critical {
			series = criticalAll
		}
		return alert{
			name: name, severity: severity, keep: hold.KeepFiringFor,
			expr:    fmt.Sprintf("%s{alert=%q}", series, name) + longer(hold.For),
			summary: summary, description: strings.ReplaceAll(description, "%s", plain(hold.For)),
		}
	}
	renewal := a.TLSServedNotRenewed
	most := fmt.Sprintf("Over %d %% of the targets fail, and no few causes explain it. Check the host, its network, and the exporter's own network.", a.MostTargetsDown.Over)
	unstable := func(severity string, limit config.Share) alert {
		share := fmt.Sprintf("over %d %% of its checks", limit.Over)
		return of("TargetUnstable", severity, config.Hold{KeepFiringFor: limit.KeepFiringFor}, aTarget+" fails "+share+".",
			"In the last hour and in the last 5 minutes, "+share+" have failed. It is not down: some answers come, and users notice the others.")
	}
	inodes := a.DataVolumeInodes
	return []alert{
		unstable(Warning, a.TargetUnstable.Warning), unstable(Critical, a.TargetUnstable.Critical),
		of("MostTargetsDown", Warning, a.MostTargetsDown.Warning, downOfAll+" targets are down.", most),
		of("MostTargetsDown", Critical, a.MostTargetsDown.Critical, downOfAll+" targets have been down for over "+plain(a.MostTargetsDown.Critical.For)+".", most),
		of("XMPPAuthSourceMissing", Warning, a.XMPPAuthSourceMissing, "Failed logins at the XMPP server are not counted.",
			"Its metrics page has no source of xmpp_c2s_auth_failure_total, so XMPPAuthFailureRate cannot fire."),
		of("DataVolumeInodes", Warning, inodes.Warning.Hold, fmt.Sprintf("Over %d %% of the inodes of volume {{ $labels.target }} are used.", inodes.Warning.Over),
			"They have been"+lasted+" Without inodes no file can be created, however much space is left."),
		of("DataVolumeInodes", Critical, inodes.Critical.Hold, fmt.Sprintf("Volume {{ $labels.target }} has hardly any inodes left: over %d %% are used.", inodes.Critical.Over),
			"They have been"+lasted+" Without inodes no file can be created, however much space is left."),
		of("XMPPModuleProblem", Warning, a.XMPPModuleProblem.Hold, "Modules of the XMPP server are in error on {{ $labels.of }}.",
			"Its status page has reported errors"+lasted),
		of("XMPPComponentDisconnected", Warning, a.XMPPComponentDisconnected, "The component {{ $labels.of }} has lost the XMPP server.",
			"Disconnected"+lasted+" If it is the bridge, no message passes between the networks."),
		of("XMPPComponentDisconnected", Critical, a.XMPPComponentDisconnected, "The component {{ $labels.of }} is not connected to the XMPP server.",
			"Disconnected"+lasted+" If it is the bridge, no message passes between the networks."),
		of("IRCServicesUnlinked", Warning, a.IRCServicesUnlinked, "The IRC server has lost its services.",
			"Unlinked"+lasted+" The services run, but nobody can log in to an account."),
		of("IRCServicesUnlinked", Critical, a.IRCServicesUnlinked, "No services are linked to the IRC server.",
			"Unlinked"+lasted+" The services run, but nobody can log in to an account."),
		of("PlantStoreOrphans", Warning, a.PlantStoreOrphans, "Test records in the plant store are not deleted.",
			"The exporter created them to check the store, which has refused to delete them"+lasted),
		of("IdentityCacheExhausted", Warning, a.IdentityCacheExhausted, "The bridge's identity cache has expired; users appear under made-up nicks.",
			"The identity API has been down for longer than the bridge's cache lasts. It expired {{ $value | humanizeDuration }} ago."),
		of("TLSChainInvalid", Warning, a.TLSChainInvalid, "The certificate of {{ $labels.target }} does not verify.",
			"Its authority, its name or its date is wrong, or it is not the pinned one. Clients refuse it too, unless they pin it."),
		of("TLSServedNotRenewed", Warning, renewal.Warning, "The certificate that {{ $labels.target }} shows and the one in its file differ.",
			"Its file was renewed over %s ago, but the server has not loaded it."),
		of("TLSServedNotRenewed", Critical, renewal.Critical.Hold, "The certificate that {{ $labels.target }} shows ends in less than "+plain(renewal.Critical.Under)+" and differs from the one in its file.",
			"Its file was renewed, but the server has not loaded it."),
		of("UpstreamSeriesDropped", Warning, a.UpstreamSeriesDropped, "Some series of {{ $labels.target }} are dropped.",
			"They clash with others, are malformed or exceed a limit. The page /debug/targets/{{ $labels.target }} lists them."),
		of("MonitoringGap", Warning, a.MonitoringGap.Hold, "Not monitored at {{ $labels.target }}: {{ $labels.of }}.",
			"This has lasted"+lasted+" Until it is mended, alerts that depend on it cannot fire."),
		of("PlaceholderCredential", Warning, a.PlaceholderCredential, "A secret of {{ $labels.target }} is a placeholder.",
			"It is one from an example, which everybody knows. Change it in the service and in the exporter's configuration."),
	}
}
