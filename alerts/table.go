package alerts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// table returns the alerts on the stack and on the exporter, in the order of the rule file.
func table(a *config.Alerts) []alert {
	return slices.Concat(containerAlerts(a), xmppAlerts(a), certificateAlerts(a), targetAlerts(a), exporterAlerts(a))
}

const (
	aContainer = "Container {{ $labels.container }} on {{ $labels.docker_host }}"
	aTarget    = "Target {{ $labels.target }}"
	anEndpoint = "the server of {{ $labels.endpoint }}"
	// reasons are asked for when the alert is written, since a label would make another alert of each.
	reasons = "{{ range $i, $r := query (printf `count by (reason) (chatstack_probe_failing{target=%q})` $labels.target) }}" +
		"{{ if $i }}, {{ end }}{{ $r.Labels.reason }}{{ else }}the reason is not known{{ end }}"
)

func held(h config.Hold) float64 { return h.For.Std().Seconds() }

// both are the warning and the critical alert on the same thing.
func both[Level any](warning, critical Level, on func(severity string, level Level) alert) []alert {
	return []alert{on(Warning, warning), on(Critical, critical)}
}

func containerAlerts(a *config.Alerts) []alert {
	unlessExcused := "unless " + containerExcused
	// It takes a container a health check to find out that the one it depends on is well again.
	unlessJustExcused := fmt.Sprintf("unless present_over_time(%s[%s])", containerExcused, seconds(a.Lookback))
	health := `chatstack_container_health{health="unhealthy"}`
	drop := []string{"health"}
	unhealthy := over("max", ownContainer, drop, latest(a, health)) + " == 1"
	after := a.ContainerUnhealthy.Critical.After
	// The engine says since when. Where it does not, what was scraped for as long must do.
	longUnhealthy := lines(
		unhealthy,
		"and (",
		indented(lines(
			fmt.Sprintf("time() - %s > %s", over("min", ownContainer, nil, latest(a, "chatstack_container_unhealthy_since_timestamp_seconds")), number(after.Std().Seconds())),
			"or",
			over("group", ownContainer, drop, fmt.Sprintf("min_over_time(%s[%s]) == 1 and %s offset %s == 1", health, seconds(after), health, seconds(after))),
		)),
		")",
		unlessJustExcused,
	)
	missing := over("max", ownContainer, []string{"state"}, latest(a, `chatstack_container_state{state="missing"}`)) + " == 1"
	alerts := []alert{
		{
			name: "ContainerUnhealthy", severity: Warning, expr: lines(unhealthy, unlessJustExcused),
			hold: a.ContainerUnhealthy.Warning, threshold: held(a.ContainerUnhealthy.Warning),
			summary:     aContainer + " is unhealthy.",
			description: "Its health check fails.",
		}, {
			name: "ContainerUnhealthy", severity: Critical, expr: longUnhealthy,
			hold: config.Hold{KeepFiringFor: a.ContainerUnhealthy.Critical.KeepFiringFor}, threshold: after.Std().Seconds(),
			summary:     aContainer + " has been unhealthy for over " + plain(after) + ".",
			description: "Its health check has been failing for over " + plain(after) + ".",
		},
	}
	alerts = append(alerts, restartAlerts(a)...)
	alerts = append(alerts, memoryAlerts(a)...)
	return append(
		append(alerts, bothDown("ContainerDown", containerStopped, a.ContainerDown, aContainer+" does not run.",
			"It should run, and has not for over %s. No container that it depends on is down.")...),
		alert{
			name: "ContainerMissing", severity: Critical, expr: lines(missing, unlessExcused),
			hold: a.ContainerMissing, threshold: held(a.ContainerMissing),
			summary:     aContainer + " is missing.",
			description: "It was there, or is expected by the configuration, and has not existed for over " + plain(a.ContainerMissing.For) + ".",
		},
	)
}

// bothDown are the two alerts on something that is down. The description has one %s, for how long.
func bothDown(name, expr string, d config.DownAlert, summary, description string) []alert {
	return both(d.Warning, d.Critical, func(severity string, hold config.Hold) alert {
		return alert{
			name: name, severity: severity, expr: expr, hold: hold, threshold: held(hold),
			summary: summary, description: strings.Replace(description, "%s", plain(hold.For), 1),
		}
	})
}

func restartAlerts(a *config.Alerts) []alert {
	return both(a.ContainerRestarts.Warning, a.ContainerRestarts.Critical, func(severity string, limit config.Count) alert {
		return alert{
			name: "ContainerRestarts", severity: severity, threshold: float64(limit.Over),
			expr:        fmt.Sprintf("%s > %d", containerRestarts, limit.Over),
			summary:     aContainer + " was restarted.",
			description: fmt.Sprintf("It was restarted {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} within %s. More than %d is %s; a deploy is no restart.", plain(a.ContainerRestarts.Window), limit.Over, severity),
		}
	})
}

func memoryAlerts(a *config.Alerts) []alert {
	used := over("max", ownContainer, nil, latest(a, "chatstack_container_memory_working_set_bytes"))
	xmpp := over("group", ownContainer, []string{"compose_project", "compose_service", "image"}, known(a, `chatstack_container_info{role="xmpp"}`))
	warning, critical := a.ContainerMemory.Warning, a.ContainerMemory.Critical
	const uses = " uses {{ $value | humanize }}B of memory."
	return []alert{
		{
			name: "ContainerMemory", severity: Warning, hold: warning.Hold, threshold: float64(warning.Over),
			expr:        lines(fmt.Sprintf("%s > %d", used, warning.Over), "and ignoring (role)", xmpp, "unless "+containerMaintenance),
			summary:     aContainer + uses,
			description: fmt.Sprintf("It is the XMPP server, and has used over %s for over %s.", size(warning.Over), plain(warning.For)),
		}, {
			name: "ContainerMemory", severity: Critical, hold: critical.Hold, threshold: float64(critical.Over),
			expr:        lines(fmt.Sprintf("%s > %d", used, critical.Over), "unless "+containerMaintenance),
			summary:     aContainer + uses,
			description: fmt.Sprintf("It has used over %s for over %s.", size(critical.Over), plain(critical.For)),
		},
	}
}

func xmppAlerts(a *config.Alerts) []alert {
	alerts := both(a.XMPPAuthFailureRate.Warning, a.XMPPAuthFailureRate.Critical, func(severity string, rate config.Amount) alert {
		return alert{
			name: "XMPPAuthFailureRate", severity: severity, hold: rate.Hold, threshold: float64(rate.Over),
			expr: lines(
				fmt.Sprintf("%s > %d", authFailureRate, rate.Over),
				"unless group without (host) ("+ofKind(targetMaintenance, "xmpp_metrics")+")",
			),
			summary:     `{{ $value | printf "%.1f" }} logins a minute fail at the XMPP server.`,
			description: fmt.Sprintf("More than %d a minute have failed for over %s.", rate.Over, plain(rate.For)),
		}
	})
	modules := over("max", ownNone, []string{"state"}, latest(a, `chatstack_xmpp_module_problems{state="error"}`))
	if ignored := a.XMPPModuleProblem.Ignore; len(ignored) > 0 {
		names := strings.ReplaceAll(strings.Join(ignored, "|"), ".", `\\.`)
		modules = over("max", ownNone, nil, fmt.Sprintf("count without (module) (%s == 3)", latest(a, `xmpp_module_status{module!~"`+names+`"}`)))
	}
	statusExcused := "unless ignoring (host) " + ofKind(targetExcused, "xmpp_status")
	return append(
		alerts,
		alert{
			name: "XMPPAuthSourceMissing", severity: Warning, hold: a.XMPPAuthSourceMissing, threshold: held(a.XMPPAuthSourceMissing),
			// One exporter of a pair that sees the failures is enough.
			expr: lines(
				over("max", ownNone, []string{"family"}, latest(a, `chatstack_xmpp_family_available{family="xmpp_c2s_auth_failure_total"}`))+" == 0",
				"unless "+ofKind(targetMaintenance, "xmpp_metrics"),
			),
			summary:     "Nobody counts failed logins at the XMPP server.",
			description: "Its metrics page has no source of xmpp_c2s_auth_failure_total, so that XMPPAuthFailureRate cannot fire.",
		},
		alert{
			name: "XMPPModuleProblem", severity: Warning, hold: a.XMPPModuleProblem.Hold, threshold: held(a.XMPPModuleProblem.Hold),
			expr:        lines(modules+" > 0", statusExcused),
			summary:     "Modules of the XMPP server are in error on {{ $labels.host }}.",
			description: "Its status page says so of {{ $value }} of them.",
		},
		alert{
			name: "XMPPComponentDisconnected", severity: Critical, hold: a.XMPPComponentDisconnected, threshold: held(a.XMPPComponentDisconnected),
			expr: lines(
				over("min", ownNone, nil, latest(a, "chatstack_xmpp_component_connected"))+" == 0",
				statusExcused,
				"unless ignoring (host, role) "+roleExcused+`{role="bridge"}`,
			),
			summary:     "The component {{ $labels.host }} is not connected to the XMPP server.",
			description: "It has not been for over " + plain(a.XMPPComponentDisconnected.For) + ". If it is the bridge, no message passes between the networks.",
		},
	)
}

func certificateAlerts(a *config.Alerts) []alert {
	unlessMaintained := "unless ignoring (target) " + ofTarget(targetMaintenance, "endpoint")
	left := func(selector string) string {
		return fmt.Sprintf("min without (source) (%s%s) - time()", certificateEnd, selector)
	}
	const ends = "{{ if gt $value 0.0 }}ends in {{ humanizeDuration $value }}{{ else }}has ended{{ end }}."
	alerts := both(a.TLSCertificateExpiry.Warning, a.TLSCertificateExpiry.Critical, func(severity string, end config.Remaining) alert {
		limit := end.Under.Std().Seconds()
		return alert{
			name: "TLSCertificateExpiry", severity: severity, hold: end.Hold, threshold: limit,
			expr:        lines(left("")+" < "+number(limit), unlessMaintained),
			summary:     "A certificate of {{ $labels.endpoint }} " + ends,
			description: "One of the certificates that " + anEndpoint + " shows, or has in its file, ends in less than " + plain(end.Under) + ", or has ended.",
		}
	})
	const stale = certificateMatches + " == 0"
	renewal := a.TLSServedNotRenewed
	limit := renewal.Critical.Under.Std().Seconds()
	return append(
		alerts,
		alert{
			name: "TLSChainInvalid", severity: Warning, hold: a.TLSChainInvalid, threshold: held(a.TLSChainInvalid),
			expr: lines(
				certificateRefused,
				"unless ignoring (endpoint) "+ofTarget(targetExcused, ""),
				fmt.Sprintf("unless ignoring (source, target) %s{source=\"leaf\"} < time()", certificateEnd),
			),
			summary:     "The certificate of {{ $labels.endpoint }} does not verify.",
			description: "What " + anEndpoint + " shows is refused: by its authority, its name, its date, or because it is not the pinned one. Clients refuse it too, unless it is pinned there.",
		},
		alert{
			name: "TLSServedNotRenewed", severity: Warning, hold: renewal.Warning, threshold: held(renewal.Warning),
			expr:        lines(stale, unlessMaintained),
			summary:     "{{ $labels.endpoint }} shows another certificate than its file holds.",
			description: "The file was renewed over " + plain(renewal.Warning.For) + " ago, but " + anEndpoint + " has not loaded it.",
		},
		alert{
			name: "TLSServedNotRenewed", severity: Critical, hold: renewal.Critical.Hold, threshold: limit,
			expr:        lines(left(`{source="leaf"}`)+" < "+number(limit), "and", stale, unlessMaintained),
			summary:     "{{ $labels.endpoint }} shows an old certificate, which " + ends,
			description: "The file was renewed, but " + anEndpoint + " has not loaded it, and the certificate that it shows ends in less than " + plain(renewal.Critical.Under) + ".",
		},
	)
}

func targetAlerts(a *config.Alerts) []alert {
	return append(
		slices.Concat(volumeAlerts(a), targetDownAlerts(a)),
		alert{
			name: "UpstreamSeriesDropped", severity: Warning, hold: a.UpstreamSeriesDropped, threshold: held(a.UpstreamSeriesDropped),
			expr: lines(
				over("max", ownNone, nil, "sum without (reason) ("+latest(a, "chatstack_upstream_dropped_series")+")")+" > 0",
				"unless "+ofTarget(targetMaintenance, ""),
			),
			summary:     "{{ $value }} series of {{ $labels.target }} {{ if eq $value 1.0 }}is{{ else }}are{{ end }} left out.",
			description: "They clash with others, are malformed or exceed a limit; the target's page under /debug/targets/ says which.",
		},
		alert{
			name: "PlantStoreOrphans", severity: Warning, hold: a.PlantStoreOrphans, threshold: held(a.PlantStoreOrphans),
			// A store that refuses every deletion is down, and told of as such. One that fails now and then is not, and this
			// alert waits no longer because of it.
			expr: lines(
				over("max", ownNone, nil, latest(a, "chatstack_plant_store_orphans"))+" > 0",
				"unless "+ofKind(targetExcused, "plant_store"),
				fmt.Sprintf("unless group without (container, kind, target) (count_over_time(%s{kind=~\"plant_store\"}[%s]) >= %d)",
					targetDown, seconds(a.TargetDown.Warning.For), a.TargetDown.Warning.For/a.Interval),
			),
			summary:     "{{ $value }} canary {{ if eq $value 1.0 }}plant is{{ else }}plants are{{ end }} left in the plant store.",
			description: "They were created to try the store, and it has not let them be deleted for over " + plain(a.PlantStoreOrphans.For) + ".",
		},
		alert{
			name: "IdentityCacheExhausted", severity: Critical, hold: a.IdentityCacheExhausted, threshold: held(a.IdentityCacheExhausted),
			// It is worse than what causes it, so that only maintenance keeps it back.
			expr: lines(
				"time() - "+over("max", ownNone, nil, latest(a, "chatstack_identity_cache_expires_timestamp_seconds"))+" > 0",
				"and",
				ofKind(targetDown, "identity"),
				"unless "+ofKind(targetMaintenance, "identity"),
			),
			summary:     "The bridge knows no identities any more.",
			description: "The identity API has been down for longer than the bridge's cache lasts: it ran out {{ $value | humanizeDuration }} ago.",
		},
		alert{
			name: "IRCServicesUnlinked", severity: Critical, hold: a.IRCServicesUnlinked, threshold: held(a.IRCServicesUnlinked),
			// Services that are down are told of as such.
			expr: lines(
				over("min", ownNone, nil, latest(a, "chatstack_irc_services_linked"))+" == 0",
				"unless "+ofKind(targetExcused, "irc_rpc|irc_services"),
				"unless "+ofKind(targetDown, "irc_services"),
				"unless ignoring (role) "+roleExcused+`{role="irc_services"}`,
			),
			summary:     "No services are linked to the IRC server.",
			description: "They have not been for over " + plain(a.IRCServicesUnlinked.For) + ", though they run: nobody can log in to an account.",
		},
	)
}

// targetDownAlerts leave the warning of a certificate that is refused to the alert on that. The critical one comes all the
// same: when a certificate ends, it is the only one that begins at that moment.
func targetDownAlerts(a *config.Alerts) []alert {
	alerts := bothDown("TargetDown", lines(targetDown, "unless "+targetExcused), a.TargetDown,
		aTarget+" is down ("+reasons+").",
		"All readings of it have failed for over %s. As far as is known, the container that serves it runs.")
	alerts[0].expr = lines(alerts[0].expr, "unless ignoring (container, endpoint, kind) "+certificateRefused)
	return alerts
}

func volumeAlerts(a *config.Alerts) []alert {
	return both(a.DataVolumeUsage.Warning, a.DataVolumeUsage.Critical, func(severity string, percent config.Amount) alert {
		limit := float64(percent.Over) / 100
		return alert{
			name: "DataVolumeUsage", severity: severity, hold: percent.Hold, threshold: limit,
			expr: lines(
				volumeUsage+" > "+number(limit),
				"unless ignoring (target) "+ofTarget(targetMaintenance, "volume"),
			),
			summary:     "Volume {{ $labels.volume }} is {{ $value | humanizePercentage }} full.",
			description: fmt.Sprintf("Over %d%% of what can be used has been used for over %s, as df counts it.", percent.Over, plain(percent.For)),
		}
	})
}

func exporterAlerts(a *config.Alerts) []alert {
	up := fmt.Sprintf("up{job=%q}", a.Job)
	allDown := over("max", ownNone, nil, up) + " == 0"
	others := slices.Sorted(slices.Values(slices.Concat(scrapeLabels, foreign)))
	stalled := a.PollStalled.After.Std().Seconds()
	return []alert{
		{
			name: "ExporterDown", severity: Warning, hold: a.ExporterDown.Warning, threshold: held(a.ExporterDown.Warning),
			expr:        lines(up+" == 0", fmt.Sprintf("unless ignoring (%s)", strings.Join(others, ", ")), allDown),
			summary:     "One of the exporters is down: {{ $labels.instance }}.",
			description: "Prometheus has had no page of it for over " + plain(a.ExporterDown.Warning.For) + ". Another one still watches the chat stack.",
		}, {
			name: "ExporterDown", severity: Critical, hold: a.ExporterDown.Critical, threshold: held(a.ExporterDown.Critical),
			expr: lines(allDown, "or on ()", fmt.Sprintf("absent_over_time(chatstack_exporter_build_info[%s])", seconds(a.ExporterDown.Absent))),
			// Where exporters watch different things, the label part says which nobody watches.
			summary: "Nobody watches {{ with $labels.part }}{{ . }}{{ else }}the chat stack{{ end }}.",
			description: "Prometheus has had no page of any chatstack_exporter{{ with $labels.part }} for {{ . }}{{ end }} for over " +
				plain(a.ExporterDown.Critical.For) + ". Until it does, no other alert about {{ with $labels.part }}it{{ else }}the stack{{ end }} can fire.",
		}, {
			name: "PollStalled", severity: Critical, hold: config.Hold{KeepFiringFor: a.PollStalled.KeepFiringFor}, threshold: stalled,
			expr:        fmt.Sprintf("time() - %s > %s", over("min", ownNone, nil, latest(a, "chatstack_poll_last_completed_timestamp_seconds")), number(stalled)),
			summary:     "The exporter asks nobody any more.",
			description: "Its poll loop has stood still for {{ $value | humanizeDuration }}, though it answers. What it shows is out of date.",
		}, {
			name: "ConfigReloadFailed", severity: Warning, hold: a.ConfigReloadFailed, threshold: held(a.ConfigReloadFailed),
			expr:        over("min", ownNone, nil, latest(a, "chatstack_config_last_reload_successful")) + " == 0",
			summary:     "The exporter's configuration could not be reloaded.",
			description: "It goes on with the one that it had. Its log and `chatstack_exporter check-config` name the faults.",
		}, {
			name: "PlaceholderCredential", severity: Warning, hold: a.PlaceholderCredential, threshold: held(a.PlaceholderCredential),
			expr:        over("max", ownNone, nil, latest(a, "chatstack_placeholder_credential")) + " == 1",
			summary:     "A secret of {{ $labels.target }} is a placeholder.",
			description: "It is one that examples have, which everybody knows. Change it in the service and here.",
		},
	}
}

// outOfDate compares what the exporter has in its configuration with what the rules were made of.
func outOfDate(a *config.Alerts, thresholds []Threshold) rule {
	comparisons := make([]string, len(thresholds))
	for i, t := range thresholds {
		comparisons[i] = fmt.Sprintf("%s != %s", latest(a, fmt.Sprintf("chatstack_alert_threshold{alert=%q,severity=%q}", t.Alert, t.Severity)), number(t.Value))
	}
	differs := alert{
		name: "RulesOutOfDate", severity: Warning, hold: a.RulesOutOfDate,
		expr:        over("max", ownNone, []string{"severity"}, "\n"+indented(strings.Join(comparisons, "\nor\n"))+"\n"),
		summary:     "The alert rules are not those of the exporter's configuration.",
		description: "They differ in {{ $labels.alert }}: its threshold is {{ $value }} in the configuration (for RulesOutOfDate: the checksum of all rules). Deploy what `chatstack_exporter rules` prints.",
	}
	return differs.rule(a)
}

// watchdog always fires, so that somebody outside notices when alerts stop coming.
func watchdog(a *config.Alerts) rule {
	always := alert{
		name: "Watchdog", severity: None, expr: "vector(1)",
		summary:     "Alerting works.",
		description: "This alert always fires. Whoever does not receive it any more will not receive any other either.",
	}
	return always.rule(a)
}
