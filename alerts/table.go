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
	// sameEnvironment selects series of the alert's environment. An empty value matches series without that label.
	sameEnvironment     = "cluster=%q,env=%q,part=%q"
	sameEnvironmentArgs = "$labels.cluster $labels.env $labels.part"
	// reasons are queried when the text is rendered: as a label, a change of the reason would start another alert.
	reasons = "{{ range $i, $r := query (printf `count by (reason) (chatstack_probe_failing{target=%q," + sameEnvironment + "})` $labels.target " + sameEnvironmentArgs +
		") | sortByLabel \"reason\" }}{{ if $i }}, {{ end }}{{ $r.Labels.reason }}{{ else }}reason unknown{{ end }}"
	// nextTry is when a target that waits on purpose is probed again.
	nextTry = "{{ range query (printf `min(chatstack_target_retry_timestamp_seconds{target=%q," + sameEnvironment + "})` $labels.target " + sameEnvironmentArgs +
		") }} The exporter waits until {{ (toTime .Value).Format `15:04` }} UTC for its next try, so that the server does not ban it.{{ end }}"
	// endSources are the sources of the certificate that expires first, such as "file, leaf".
	endSources = "{{ $ends := printf `min by (source) (chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=%q," + sameEnvironment + "})` $labels.endpoint " + sameEnvironmentArgs +
		" }}{{ range $i, $c := query (printf `%s == scalar(min(%s))` $ends $ends) | sortByLabel \"source\" }}{{ if $i }}, {{ end }}{{ $c.Labels.source }}{{ else }}unknown{{ end }}"
	// brokenAt is where messages of the alert's direction stop: irc, xmpp or bridge.
	brokenAt = "{{ range $i, $r := query (printf `count by (at) (chatstack_relay_broken_at{target=%q,from=%q," + sameEnvironment + "})` $labels.target (reReplaceAll ` to .*` `` $labels.of) " + sameEnvironmentArgs +
		") | sortByLabel \"at\" }}{{ if $i }}, {{ end }}{{ $r.Labels.at }}{{ else }}unknown{{ end }}"
	// downOfAll is how many targets of the alert's environment are down, such as "11 of 13".
	downOfAll = "{{ $of := printf `max by (target) (chatstack_probe_success{" + sameEnvironment + "})` " + sameEnvironmentArgs + " }}" +
		"{{ range query (printf `count(%s == 0)` $of) }}{{ .Value }}{{ else }}Most{{ end }} of {{ range query (printf `count(%s)` $of) }}{{ .Value }}{{ else }}the{{ end }}"
	forValue = " for {{ $value | humanizeDuration }}."
	// readLog and openPage are the first step of whoever receives the alert.
	readLog  = " First read its log: docker logs --tail 100 {{ $labels.container }}."
	openPage = " First open /debug/targets/{{ $labels.target }} on the status page."
	// bytesUsed and shareUsed write a value with a space before its unit.
	bytesUsed = "{{ $value | humanize | reReplaceAll `([kMGTPEZY]?)$` ` ${1}B` }}"
	shareUsed = "{{ $value | humanizePercentage | reReplaceAll `%` ` %` }}"
)

// limitOf is the limit of an endpoint's certificate at a severity, such as "2d". An older exporter does not export it.
func limitOf(severity, otherwise string) string {
	return "{{ range query (printf `max(chatstack_tls_certificate_expiry_limit_seconds{severity=\"" + severity + "\",endpoint=%q," + sameEnvironment + "})` $labels.endpoint " + sameEnvironmentArgs +
		") }}{{ humanizeDuration .Value | reReplaceAll `( 0[hms])+$` `` }}{{ else }}" + otherwise + "{{ end }}"
}

// usersMayBeWell is what failures mean for a target's users if the server only limits the exporter's address, and otherwise. Of %s, a
// series with matchers, remain the failures that count.
func usersMayBeWell(failures, otherwise string) string {
	count := func(matcher string) string {
		return "count(" + strings.ReplaceAll(failures, "%s", "{"+matcher+",target=%q,"+sameEnvironment+"}") + ")"
	}
	args := " $labels.target " + sameEnvironmentArgs
	return "{{ if query (printf `" + count(`reason="throttled"`) + " unless " + count(`reason!="throttled"`) + "`" + args + args + ") }} " +
		"The server limits this address; users may be well.{{ else }} " + otherwise + "{{ end }}"
}

func containerAlerts(a *config.Alerts) []alert {
	down := unlessExcused(a, "container", "chatstack_container_down_seconds")
	unhealthy := unlessExcused(a, "container", "chatstack_container_unhealthy_seconds")
	missing := unlessExcused(a, "container", "chatstack_container_missing_seconds")
	removed := unlessExcused(a, "container", "chatstack_container_removed_seconds")
	// The critical alert uses max too: an exporter that started later has seen fewer restarts, never more.
	restarts := containers("max", latest(a, "chatstack_container_recent_restarts"))
	within := inWords(a.ContainerRestarts.Window)
	return []alert{
		{
			name: "ContainerUnhealthy", severity: Warning, keep: a.ContainerUnhealthy.Warning.KeepFiringFor,
			expr:        containers("max", unhealthy) + aboveSeconds(a.ContainerUnhealthy.Warning.For),
			summary:     aContainer + " is unhealthy.",
			description: "Its health check has been failing" + forValue + " Its users may see errors." + readLog,
		}, {
			name: "ContainerUnhealthy", severity: Critical, keep: a.ContainerUnhealthy.Critical.KeepFiringFor,
			expr:        containers("min", unhealthy) + aboveSeconds(a.ContainerUnhealthy.Critical.After),
			summary:     aContainer + " has been unhealthy for over " + inWords(a.ContainerUnhealthy.Critical.After) + ".",
			description: "Its health check has been failing" + forValue + " Its users may see errors." + readLog,
		}, {
			name: "ContainerRestarts", severity: Warning,
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Warning.Over),
			summary:     aContainer + " has restarted.",
			description: "It has restarted {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} within " + within + ". Deploys do not count. Each restart disconnects its users." + readLog,
		}, {
			name: "ContainerRestarts", severity: Critical,
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Critical.Over),
			summary:     aContainer + " is crash-looping: {{ $value }} restarts in " + within + ".",
			description: fmt.Sprintf("More than %d restarts within %s are critical; deploys do not count. Its service is as good as down.", a.ContainerRestarts.Critical.Over, within) + readLog,
		}, {
			name: "ContainerOOMKill", severity: Warning,
			expr:        containers("max", latest(a, "chatstack_container_recent_oom_kills")) + " > 0",
			summary:     aContainer + " ran out of memory and lost a process.",
			description: "Processes killed within " + inWords(a.ContainerOOMKill.Window) + ": {{ $value }}. The container still runs, but part of its service may be gone. First check that the service works.",
		}, {
			name: "ContainerDown", severity: Warning, keep: a.ContainerDown.Warning.KeepFiringFor,
			expr:        containers("max", down) + aboveSeconds(a.ContainerDown.Warning.For),
			summary:     aContainer + " is not running.",
			description: "It should run, and has been down" + forValue + " No container that it depends on is down." + readLog,
		}, {
			name: "ContainerDown", severity: Critical, keep: a.ContainerDown.Critical.KeepFiringFor,
			expr:        containers("min", down) + aboveSeconds(a.ContainerDown.Critical.For),
			summary:     aContainer + " has been down for over " + inWords(a.ContainerDown.Critical.For) + ".",
			description: "It should run, and has been down" + forValue + " No container that it depends on is down." + readLog,
		}, {
			name: "ContainerMissing", severity: Warning, keep: a.ContainerMissing.KeepFiringFor,
			expr:        containers("max", removed) + aboveSeconds(a.ContainerMissing.For),
			summary:     aContainer + " has been removed.",
			description: "Somebody removed it {{ $value | humanizeDuration }} ago. What it served is down. If that was a mistake, create it again. The exporter forgets it 1 hour after the removal.",
		}, {
			name: "ContainerMissing", severity: Critical, keep: a.ContainerMissing.KeepFiringFor,
			expr:        containers("min", missing) + aboveSeconds(a.ContainerMissing.For),
			summary:     aContainer + " is missing.",
			description: "It should exist, and has been gone" + forValue + " What it served is down. First create it again: docker compose up -d.",
		},
	}
}

// levels are the warning and the critical alert on the same thing.
func levels[Level any](warning, critical Level, on func(severity string, level Level) alert) []alert {
	return []alert{on(Warning, warning), on(Critical, critical)}
}

// valueAlerts compare measured values with limits.
func valueAlerts(a *config.Alerts) []alert {
	memory := levels(a.ContainerMemory.Warning, a.ContainerMemory.Critical, func(severity string, limit config.Amount) alert {
		used, which := memory, "It"
		if severity == Warning {
			used, which = xmppMemory, "The XMPP server"
		}
		return alert{
			name: "ContainerMemory", severity: severity, keep: limit.KeepFiringFor,
			expr:        exceeds(used, number(float64(limit.Over)), limit.For),
			summary:     aContainer + " uses over " + size(limit.Over) + " of memory.",
			description: which + " has used at least " + bytesUsed + forOver(limit.For) + ". At its limit the kernel kills it. First compare: docker stats --no-stream {{ $labels.container }}.",
		}
	})
	logins := levels(a.XMPPAuthFailureRate.Warning, a.XMPPAuthFailureRate.Critical, func(severity string, limit config.Amount) alert {
		return alert{
			name: "XMPPAuthFailureRate", severity: severity, hold: limit.For, keep: limit.KeepFiringFor,
			// Lost scrapes lower a rate, so the highest of the last values counts.
			expr:        fmt.Sprintf("%s > %d", unexcusedLogins(a, fmt.Sprintf("max_over_time(%s[%s])", authFailureRate, seconds(a.Interval*5/2))), limit.Over),
			summary:     fmt.Sprintf("Over %d XMPP logins fail per minute.", limit.Over),
			description: fmt.Sprintf(`The rate is {{ $value | printf "%%.1f" }} per minute, and has been over %d%s. Either somebody tries passwords, or people cannot log in. First try to log in yourself.`, limit.Over, forOver(limit.For)),
		}
	})
	expires := "{{ if gt $value 0.0 }}expires in {{ humanizeDuration $value }}{{ else }}has expired{{ end }}."
	certificates := levels(a.TLSCertificateExpiry.Warning, a.TLSCertificateExpiry.Critical, func(severity string, limit config.Expiry) alert {
		// An older exporter has no limit of its own.
		own := acrossExporters("max", fmt.Sprintf("last_over_time(chatstack_tls_certificate_expiry_limit_seconds{severity=%q}[%s])", severity, seconds(a.SlowLookback)),
			[]string{"severity"}, "endpoint")
		urge := ""
		if severity == Critical {
			urge = " Renew it now."
		}
		return alert{
			name: "TLSCertificateExpiry", severity: severity, keep: limit.KeepFiringFor, target: "{{ $labels.endpoint }}",
			expr:        fmt.Sprintf("%s - time() < (%s or 0 * %[1]s + %[3]s)", certificateEnd, own, number(limit.Under.Std().Seconds())),
			summary:     "The certificate of {{ $labels.endpoint }} " + expires + urge,
			description: "Less than " + limitOf(severity, inWords(limit.Under)) + " are left. Once it has expired, clients refuse to connect. If its file is new, reload the server; if not, renew it. Seen in: " + endSources + ".",
		}
	})
	volumes := levels(a.DataVolumeUsage.Warning, a.DataVolumeUsage.Critical, func(severity string, limit config.Amount) alert {
		return alert{
			name: "DataVolumeUsage", severity: severity, keep: limit.KeepFiringFor,
			expr:        exceeds(volumeUsed, number(float64(limit.Over)/100), limit.For),
			summary:     fmt.Sprintf("Volume {{ $labels.volume }} is over %d %% full.", limit.Over),
			description: "At least " + shareUsed + " has been used" + forOver(limit.For) + ", as df counts it. When it is full, services lose data or stop. First find what fills it, with du.",
		}
	})
	return slices.Concat(memory, logins, certificates, volumes)
}

// unexcusedLogins is the highest number of failed logins of all exporters, without maintenance.
func unexcusedLogins(a *config.Alerts, number string) string {
	return acrossExporters("max", number+" unless "+latest(a, "chatstack_xmpp_auth_failures_excused"), nil)
}

// forOver ends a sentence with a minimum duration.
func forOver(d config.Duration) string {
	if d == 0 {
		return ""
	}
	return " for over " + inWords(d)
}

func targetAlerts(a *config.Alerts) []alert {
	// A container on another exporter's engine excuses a target that went down after it, or less than a minute before it, unless the
	// alert already fired.
	unlessElsewhere := func(down string, threshold config.Duration) string {
		return fmt.Sprintf(" unless %s - %s < %s", down, targetElsewhere, number(max(1, min(60, threshold.Std().Seconds()))))
	}
	description := "Every check has failed" + forValue + " No other known problem explains it." +
		usersMayBeWell("chatstack_probe_failing%s", "Whoever uses it gets errors or waits.") + nextTry + openPage
	return []alert{
		{
			name: "TargetDown", severity: Warning, keep: a.TargetDown.Warning.KeepFiringFor,
			// TLSChainInvalid replaces the warning. The critical alert still fires.
			expr: targetDownAny + aboveSeconds(a.TargetDown.Warning.For) + unlessElsewhere(targetDownAny, a.TargetDown.Warning.For) +
				" unless ignoring (alert, kind, of, severity) " + warningsAny + `{alert="TLSChainInvalid"}` + aboveSeconds(a.TLSChainInvalid.For),
			summary:     aTarget + " is down (" + reasons + ").",
			description: description,
		}, {
			name: "TargetDown", severity: Critical, keep: a.TargetDown.Critical.KeepFiringFor,
			expr: targetDownAll + aboveSeconds(a.TargetDown.Critical.For) + unlessElsewhere(targetDownAll, a.TargetDown.Critical.For) +
				" unless ignoring (kind) " + targetPages + " == 0",
			summary:     aTarget + " has been down for over " + inWords(a.TargetDown.Critical.For) + " (" + reasons + ").",
			description: description,
		},
	}
}

// problemAlerts are about problems that the exporter detects itself. The rules only compare how long they have lasted.
func problemAlerts(a *config.Alerts) []alert {
	of := func(name, severity string, hold config.Hold, summary, description string) alert {
		series := warningsAny
		if severity == Critical {
			series = criticalAll
		}
		return alert{
			name: name, severity: severity, keep: hold.KeepFiringFor,
			expr:    fmt.Sprintf("%s{alert=%q}", series, name) + aboveSeconds(hold.For),
			summary: summary, description: strings.ReplaceAll(description, "%s", inWords(hold.For)),
		}
	}
	renewal := a.TLSServedNotRenewed
	most := fmt.Sprintf("Over %d %% of the targets are down, and no single container or engine explains it. Most of the chat stack does not answer, at least not to the exporter. First check the host, its network, and the exporter's own network.", a.MostTargetsDown.Over)
	unstable := func(severity string, limit config.Share) alert {
		share, meaning := fmt.Sprintf("over %d %% of its probes", limit.Over), " It is not down, but its users get an error or wait now and then."
		if severity == Warning {
			meaning = usersMayBeWell("increase(chatstack_probe_failures_total%s[1h]) > 0", strings.TrimSpace(meaning))
		}
		return of("TargetUnstable", severity, config.Hold{KeepFiringFor: limit.KeepFiringFor}, aTarget+" fails "+share+".",
			"In the last hour and in the last 5 minutes, "+share+" have failed."+meaning+openPage)
	}
	inodes := a.DataVolumeInodes
	readOnly := "Its file system has been read-only" + forValue + " What services write there is lost. First read the kernel's log on its machine: dmesg."
	notRelaying := "Three of the check's messages in a row, or half of the last hour's, were lost or late; they stop at: " + brokenAt + ". People on the two networks do not see each other's messages." + openPage
	return []alert{
		unstable(Warning, a.TargetUnstable.Warning), unstable(Critical, a.TargetUnstable.Critical),
		of("MostTargetsDown", Warning, a.MostTargetsDown.Warning, downOfAll+" targets are down.", most),
		of("MostTargetsDown", Critical, a.MostTargetsDown.Critical, downOfAll+" targets have been down for over "+inWords(a.MostTargetsDown.Critical.For)+".", most),
		of("XMPPAuthSourceMissing", Warning, a.XMPPAuthSourceMissing, "Failed logins at the XMPP server are not counted.",
			"The server does not count xmpp_c2s_auth_failure_total, so XMPPAuthFailureRate cannot fire. Load mod_measure_chatstack, or have the exporter count log lines."),
		of("DataVolumeInodes", Warning, inodes.Warning.Hold, fmt.Sprintf("Volume {{ $labels.target }} has used over %d %% of its inodes.", inodes.Warning.Over),
			"This has lasted"+forValue+" Without free inodes, no file can be created, however much space is left. First find the directories with most files: du --inodes."),
		of("DataVolumeInodes", Critical, inodes.Critical.Hold, fmt.Sprintf("Volume {{ $labels.target }} has used over %d %% of its inodes.", inodes.Critical.Over),
			"This has lasted"+forValue+" Without free inodes, no file can be created, however much space is left. First find the directories with most files: du --inodes."),
		of("DataVolumeReadOnly", Warning, a.DataVolumeReadOnly, "Volume {{ $labels.target }} is read-only.", readOnly),
		of("DataVolumeReadOnly", Critical, a.DataVolumeReadOnly, "Volume {{ $labels.target }} has been read-only for over "+inWords(a.DataVolumeReadOnly.For)+".", readOnly),
		of("BackupOld", Warning, a.BackupOld, "{{ $labels.target }} has no recent backup.",
			"This has lasted"+forValue+" No file matches, or the newest one is too old or too small. Users notice nothing until somebody needs it. First read the log of the backup job."+openPage),
		of("XMPPModuleProblem", Warning, a.XMPPModuleProblem.Hold, "XMPP modules are in error on {{ $labels.of }}.",
			"The server has reported errors"+forValue+" What these modules do is missing. With storage in error, nobody can log in. The server's /status names them."),
		of("XMPPComponentDisconnected", Warning, a.XMPPComponentDisconnected, "Component {{ $labels.of }} is disconnected from the XMPP server.",
			"Disconnected"+forValue+" If it is the bridge, no message passes between the networks. First read the logs of both sides."),
		of("XMPPComponentDisconnected", Critical, a.XMPPComponentDisconnected, "Component {{ $labels.of }} has been disconnected from the XMPP server for over "+inWords(a.XMPPComponentDisconnected.For)+".",
			"Disconnected"+forValue+" If it is the bridge, no message passes between the networks. First read the logs of both sides."),
		of("BridgeNotRelaying", Warning, a.BridgeNotRelaying, "Messages do not cross {{ $labels.target }} from {{ $labels.of }}.", notRelaying),
		of("BridgeNotRelaying", Critical, a.BridgeNotRelaying, "Messages no longer cross {{ $labels.target }} from {{ $labels.of }}.", notRelaying),
		of("BridgeSlow", Warning, a.BridgeSlow, "Messages cross {{ $labels.target }} slowly from {{ $labels.of }}.",
			"At least half of the check's messages of the last hour were slow or lost. People's messages arrive late or not at all. First read the log of the bridge."),
		of("RelaySessionDown", Warning, a.RelaySessionDown, "The check of {{ $labels.target }} cannot speak on {{ $labels.of }}.",
			"This has lasted"+forValue+" Until it can, nothing shows whether messages cross the bridge. The target's last error says why."+openPage),
		of("IRCServicesUnlinked", Warning, a.IRCServicesUnlinked, "The IRC services are not linked to the IRC server.",
			"Unlinked"+forValue+" The services run, but nobody can log in to an account. The IRC server's log says why."),
		of("IRCServicesUnlinked", Critical, a.IRCServicesUnlinked, "The IRC services have been unlinked from the IRC server for over "+inWords(a.IRCServicesUnlinked.For)+".",
			"Unlinked"+forValue+" The services run, but nobody can log in to an account. The IRC server's log says why."),
		of("PlantStoreOrphans", Warning, a.PlantStoreOrphans, "The plant store refuses to delete test records.",
			"The exporter created them to check the store, and could not delete them"+forValue+" Users notice nothing. First read the log of the store."),
		of("IdentityCacheExhausted", Warning, a.IdentityCacheExhausted, "The bridge's identity cache has expired; users appear under made-up nicks.",
			"The identity API is down, and the cache expired {{ $value | humanizeDuration }} ago. Messages still pass. First check the identity application."),
		of("TLSChainInvalid", Warning, a.TLSChainInvalid, "The certificate of {{ $labels.target }} fails verification.",
			"Its authority, its name or its date is wrong, or it is not the pinned one. Clients refuse it too, unless they pin it."+openPage),
		of("TLSServedNotRenewed", Warning, renewal.Warning, "{{ $labels.target }} does not serve the certificate in its file.",
			"The file has held another certificate for over %s. If it was renewed, reload the server; the target's notes say more."+openPage),
		of("TLSServedNotRenewed", Critical, renewal.Critical.Hold, "{{ $labels.target }} serves an expiring certificate, not the one in its file.",
			"It expires in less than "+inWords(renewal.Critical.Under)+"; then clients refuse to connect. The file holds another certificate. If it was renewed, reload the server; the target's notes say more."+openPage),
		of("UpstreamSeriesDropped", Warning, a.UpstreamSeriesDropped, "The exporter drops series of {{ $labels.target }}.",
			"They clash with others, are malformed or exceed a limit. Dashboards and alerts lack them."+openPage),
		of("MonitoringGap", Warning, a.MonitoringGap.Hold, "Not monitored at {{ $labels.target }}: {{ $labels.of }}.",
			"This has lasted"+forValue+" Until it is fixed, alerts that depend on it cannot fire. The runbook has the fix for each case."),
		of("PlaceholderCredential", Warning, a.PlaceholderCredential, "A secret of {{ $labels.target }} is a placeholder.",
			"It comes from an example, so everybody knows it. Whoever reaches the service can use it. Change it in the service, then in the exporter's configuration."),
	}
}
