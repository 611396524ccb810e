package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// table returns the alerts on the stack and on the exporter, in the order of the rule file.
func table(a *config.Alerts) []alert {
	return slices.Concat(containerAlerts(a), valueAlerts(a), targetAlerts(a), problemAlerts(a), exporterAlerts(a))
}

const (
	aContainer = "Container {{ $labels.container }} on {{ $labels.docker_host }}"
	aTarget    = "Target {{ $labels.target }}"
	// reasons are queried when the alert is written: as a label, a change of the reason would make another alert.
	reasons = "{{ range $i, $r := query (printf `count by (reason) (chatstack_probe_failing{target=%q})` $labels.target) }}" +
		"{{ if $i }}, {{ end }}{{ $r.Labels.reason }}{{ else }}reason unknown{{ end }}"
	lasted = " for {{ $value | humanizeDuration }}."
)

func containerAlerts(a *config.Alerts) []alert {
	labels := map[string]string{"container": "web", "docker_host": "local"}
	gauge := func(what, severity string, keep config.Duration) subject {
		return subject{keep: keep, name: "chatstack_container_" + what, labels: labels, excused: "chatstack_container_excused", least: severity == Critical}
	}
	beyond := func(s subject, d config.Duration) []trial { return s.trials(d.Std().Seconds(), d.Std().Seconds()+1) }
	restarted := func(over int64) []trial {
		s := gauge("recent_restarts", Warning, 0)
		s.excused = ""
		return s.trials(float64(over), float64(over+1))
	}
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
			trials:      beyond(gauge("unhealthy_seconds", Warning, a.ContainerUnhealthy.Warning.KeepFiringFor), a.ContainerUnhealthy.Warning.For),
			expr:        containers("max", unhealthy) + longer(a.ContainerUnhealthy.Warning.For),
			summary:     aContainer + " is unhealthy.",
			description: "Its health check has been failing" + lasted,
		}, {
			name: "ContainerUnhealthy", severity: Critical, keep: a.ContainerUnhealthy.Critical.KeepFiringFor,
			trials:      beyond(gauge("unhealthy_seconds", Critical, a.ContainerUnhealthy.Critical.KeepFiringFor), a.ContainerUnhealthy.Critical.After),
			expr:        containers("min", unhealthy) + longer(a.ContainerUnhealthy.Critical.After),
			summary:     aContainer + " has been unhealthy for over " + plain(a.ContainerUnhealthy.Critical.After) + ".",
			description: "Its health check has been failing" + lasted,
		}, {
			name: "ContainerRestarts", severity: Warning,
			trials:      restarted(a.ContainerRestarts.Warning.Over),
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Warning.Over),
			summary:     aContainer + " has restarted.",
			description: "It has restarted {{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} within " + within + ". A deploy does not count.",
		}, {
			name: "ContainerRestarts", severity: Critical,
			trials:      restarted(a.ContainerRestarts.Critical.Over),
			expr:        fmt.Sprintf("%s > %d", restarts, a.ContainerRestarts.Critical.Over),
			summary:     aContainer + " is crash-looping: {{ $value }} restarts in " + within + ".",
			description: fmt.Sprintf("More than %d restarts in %s are critical. A deploy does not count.", a.ContainerRestarts.Critical.Over, within),
		}, {
			name: "ContainerDown", severity: Warning, keep: a.ContainerDown.Warning.KeepFiringFor,
			trials:      beyond(gauge("down_seconds", Warning, a.ContainerDown.Warning.KeepFiringFor), a.ContainerDown.Warning.For),
			expr:        containers("max", down) + longer(a.ContainerDown.Warning.For),
			summary:     aContainer + " is not running.",
			description: "It should run, and has not" + lasted + " No container that it depends on is down.",
		}, {
			name: "ContainerDown", severity: Critical, keep: a.ContainerDown.Critical.KeepFiringFor,
			trials:      beyond(gauge("down_seconds", Critical, a.ContainerDown.Critical.KeepFiringFor), a.ContainerDown.Critical.For),
			expr:        containers("min", down) + longer(a.ContainerDown.Critical.For),
			summary:     aContainer + " has not been running for over " + plain(a.ContainerDown.Critical.For) + ".",
			description: "It should run, and has not" + lasted + " No container that it depends on is down.",
		}, {
			name: "ContainerMissing", severity: Warning, keep: a.ContainerMissing.KeepFiringFor,
			trials:      beyond(gauge("removed_seconds", Warning, a.ContainerMissing.KeepFiringFor), a.ContainerMissing.For),
			expr:        containers("max", removed) + longer(a.ContainerMissing.For),
			summary:     aContainer + " has been removed.",
			description: "Somebody removed it {{ $value | humanizeDuration }} ago. The exporter forgets it an hour after that.",
		}, {
			name: "ContainerMissing", severity: Critical, keep: a.ContainerMissing.KeepFiringFor,
			trials:      beyond(gauge("missing_seconds", Critical, a.ContainerMissing.KeepFiringFor), a.ContainerMissing.For),
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
	excused := latest(a, "chatstack_container_excused") + " == 1"
	memory := levels(a.ContainerMemory.Warning, a.ContainerMemory.Critical, func(severity string, limit config.Amount) alert {
		series, which := "chatstack_container_memory_working_set_bytes", "It"
		if severity == Warning {
			series, which = xmppMemory, "The XMPP server"
		}
		labels := map[string]string{"container": "web", "docker_host": "local"}
		subject := subject{keep: limit.KeepFiringFor, name: "chatstack_container_memory_working_set_bytes", labels: labels, excused: "chatstack_container_excused"}
		info := map[string]string{"container": "web", "docker_host": "local", "role": "xmpp", "image": "x"}
		for _, exporter := range [][2]string{{"a", "prod"}, {"b", "prod"}, {"b", "staging"}} {
			subject.beside = append(subject.beside, input{from(exporter[0], exporter[1], "chatstack_container_info", info), steady(1)})
		}
		trials := subject.trialsOver(float64(limit.Over), float64(limit.Over+1), limit.For)
		if severity == Warning {
			subject.beside = nil
			other := subject.trials(0, float64(limit.Over+1))[1]
			other.name, other.fires = "another role", false
			trials = append(trials, other)
		}
		return alert{
			trials: trials,
			name:   "ContainerMemory", severity: severity, keep: limit.KeepFiringFor,
			expr:        fmt.Sprintf("%s > %d", containers("max", throughout(series, limit.For)+" unless "+excused), limit.Over),
			summary:     aContainer + " uses {{ $value | humanize }}B of memory.",
			description: fmt.Sprintf("%s has used over %s for over %s.", which, size(limit.Over), plain(limit.For)),
		}
	})
	logins := levels(a.XMPPAuthFailureRate.Warning, a.XMPPAuthFailureRate.Critical, func(severity string, limit config.Amount) alert {
		recent := fmt.Sprintf("max_over_time(%s[%s])", authFailureRate, seconds(a.Interval*5/2))
		failing := func(perMinute int64) []input {
			return []input{{from("a", "prod", "xmpp_c2s_auth_failure_total", map[string]string{"host": "x"}), fmt.Sprintf("0+%gx4000", float64(perMinute)/2)}}
		}
		long := limit.For.Std() + 20*time.Minute
		excuse := input{from("a", "prod", "chatstack_xmpp_auth_failures_excused", nil), steady(1)}
		return alert{
			trials: []trial{
				{"below the limit", failing(limit.Over - 1), long, false},
				{"above the limit", failing(limit.Over + 1), long, true},
				{"not yet long enough", failing(limit.Over + 1), limit.For.Std(), false},
				{"excused", append(failing(limit.Over+1), excuse), long, false},
			},
			name: "XMPPAuthFailureRate", severity: severity, hold: limit.For, keep: limit.KeepFiringFor,
			expr:        fmt.Sprintf("%s > %d", over("max", recent+" unless on (instance, job) "+latest(a, "chatstack_xmpp_auth_failures_excused"), nil), limit.Over),
			summary:     `{{ $value | printf "%.1f" }} logins a minute fail at the XMPP server.`,
			description: fmt.Sprintf("More than %d a minute have failed for over %s.", limit.Over, plain(limit.For)),
		}
	})
	certificates := levels(a.TLSCertificateExpiry.Warning, a.TLSCertificateExpiry.Critical, func(severity string, limit config.Remaining) alert {
		end := over("min", certificateEnd+" unless ignoring (source) "+latest(a, "chatstack_tls_certificate_excused"), []string{"source"}, "endpoint")
		now := 10*time.Minute + limit.For.Std()
		endpoint := map[string]string{"endpoint": "x"}
		ends := func(left time.Duration, beside ...input) []input {
			labels := map[string]string{"endpoint": "x", "source": "leaf"}
			return append(beside, input{from("a", "prod", "chatstack_tls_certificate_not_after_timestamp_seconds", labels), steady((now + left).Seconds())})
		}
		return alert{
			trials: []trial{
				{"at the limit", ends(limit.Under.Std()), now, false},
				{"below the limit", ends(limit.Under.Std() - limit.For.Std() - 2*evaluation), now, true},
				{"not yet long enough", ends(limit.Under.Std() - limit.For.Std() + evaluation), now, false},
				{"it has ended", ends(-now), now, true},
				{"excused", ends(time.Second, input{from("a", "prod", "chatstack_tls_certificate_excused", endpoint), steady(1)}), now, false},
			},
			name: "TLSCertificateExpiry", severity: severity, hold: limit.For, keep: limit.KeepFiringFor,
			target:      "{{ $labels.endpoint }}",
			expr:        end + " - time() < " + number(limit.Under.Std().Seconds()),
			summary:     "The certificate of {{ $labels.endpoint }} {{ if gt $value 0.0 }}ends in {{ humanizeDuration $value }}{{ else }}has ended{{ end }}.",
			description: "A certificate that its server shows, or has in its file, ends in less than " + plain(limit.Under) + ".",
		}
	})
	volumes := levels(a.DataVolumeUsage.Warning, a.DataVolumeUsage.Critical, func(severity string, limit config.Amount) alert {
		used := throughout("chatstack_volume_used_ratio", limit.For) + " unless " + latest(a, "chatstack_volume_excused")
		subject := subject{keep: limit.KeepFiringFor, name: "chatstack_volume_used_ratio", labels: map[string]string{"volume": "data"}, excused: "chatstack_volume_excused"}
		trials := subject.trialsOver(float64(limit.Over)/100, float64(limit.Over)/100+0.001, limit.For)
		trials = slices.DeleteFunc(trials, func(t trial) bool { return t.name == "not excused" }) // the excuse is there only while it holds
		return alert{
			trials: trials,
			name:   "DataVolumeUsage", severity: severity, keep: limit.KeepFiringFor,
			expr:        over("max", used, nil) + " > " + number(float64(limit.Over)/100),
			summary:     "Volume {{ $labels.volume }} is {{ $value | humanizePercentage }} full.",
			description: fmt.Sprintf("Over %d %% of the usable space has been used for over %s, as df counts it.", limit.Over, plain(limit.For)),
		}
	})
	return slices.Concat(memory, logins, certificates, volumes)
}

func targetAlerts(a *config.Alerts) []alert {
	// A container on another exporter's engine excuses a target that went down after it, or not a minute before it.
	unlessElsewhere := func(down string) string { return " unless " + down + " - " + targetElsewhere + " < 60" }
	description := "Every check has failed" + lasted + " As far as is known, its container runs."
	labels := map[string]string{"target": "web"}
	proof := func(severity string, hold config.Hold) []trial {
		limit := hold.For.Std().Seconds()
		long := limit + 61
		s := subject{keep: hold.KeepFiringFor, name: "chatstack_target_down_seconds", labels: labels, excused: "chatstack_target_excused", least: severity == Critical}
		trials := s.trials(limit, limit+1)
		down := s.trials(limit, long)[1].series
		info := map[string]string{"target": "web", "kind": "http", "container": "c", "docker_host": "far"}
		container := map[string]string{"container": "c", "docker_host": "far"}
		far := func(env string, seconds float64) []input {
			return append(slices.Clone(down), input{from("a", "prod", "chatstack_target_info", info), steady(1)},
				input{from("b", env, "chatstack_container_down_seconds", container), steady(seconds)})
		}
		nowhere := maps.Clone(info)
		delete(nowhere, "docker_host")
		refused := map[string]string{"alert": "TLSChainInvalid", "target": "web", "severity": "warning"}
		return append(trials,
			trial{"its container on another host went down less than a minute after it", far("prod", long-59), 10 * time.Minute, false},
			trial{"its container on another host went down a minute after it", far("prod", long-60), 10 * time.Minute, true},
			trial{"its container on another host runs", far("prod", 0), 10 * time.Minute, true},
			trial{"a container of another environment is down", far("staging", long), 10 * time.Minute, true},
			trial{"a container of that name is down on a host that the target does not name", append(slices.Clone(down),
				input{from("a", "prod", "chatstack_target_info", nowhere), steady(1)},
				input{from("b", "prod", "chatstack_container_down_seconds", container), steady(long)}), 10 * time.Minute, true},
			trial{"its certificate is refused", append(slices.Clone(down), input{from("a", "prod", "chatstack_problem_seconds", refused),
				steady(a.TLSChainInvalid.For.Std().Seconds() + 1)}), 10 * time.Minute, severity == Critical})
	}
	return []alert{
		{
			trials: proof(Warning, a.TargetDown.Warning),
			name:   "TargetDown", severity: Warning, keep: a.TargetDown.Warning.KeepFiringFor,
			// The warning about a refused certificate says more. The critical alert comes all the same.
			expr: targetDownMax + longer(a.TargetDown.Warning.For) + unlessElsewhere(targetDownMax) +
				" unless ignoring (alert, of, severity) " + problemMax + `{alert="TLSChainInvalid"}` + longer(a.TLSChainInvalid.For),
			summary:     aTarget + " is down (" + reasons + ").",
			description: description,
		}, {
			trials: proof(Critical, a.TargetDown.Critical),
			name:   "TargetDown", severity: Critical, keep: a.TargetDown.Critical.KeepFiringFor,
			expr:        targetDownMin + longer(a.TargetDown.Critical.For) + unlessElsewhere(targetDownMin),
			summary:     aTarget + " has been down for over " + plain(a.TargetDown.Critical.For) + " (" + reasons + ").",
			description: description,
		},
	}
}

// problemAlerts are those on conditions that the exporter judges itself: only how long is left to compare.
func problemAlerts(a *config.Alerts) []alert {
	of := func(name, severity string, hold config.Hold, summary, description string) alert {
		series := problemMax
		if severity == Critical {
			series = problemMin
		}
		s := subject{least: severity == Critical, keep: hold.KeepFiringFor, name: "chatstack_problem_seconds", excused: "chatstack_problem_excused", labels: map[string]string{
			"alert": name, "severity": severity, "target": "x", "of": "y",
		}}
		return alert{
			trials: s.trials(hold.For.Std().Seconds(), hold.For.Std().Seconds()+1),
			name:   name, severity: severity, keep: hold.KeepFiringFor,
			expr:    fmt.Sprintf("%s{alert=%q}", series, name) + longer(hold.For),
			summary: summary, description: strings.ReplaceAll(description, "%s", plain(hold.For)),
		}
	}
	renewal := a.TLSServedNotRenewed
	return []alert{
		of("XMPPAuthSourceMissing", Warning, a.XMPPAuthSourceMissing, "Failed logins at the XMPP server are not counted.",
			"Its metrics page has no source of xmpp_c2s_auth_failure_total, so XMPPAuthFailureRate cannot fire."),
		of("XMPPModuleProblem", Warning, a.XMPPModuleProblem.Hold, "Modules of the XMPP server are in error on {{ $labels.of }}.",
			"Its status page has reported errors"+lasted),
		of("XMPPComponentDisconnected", Critical, a.XMPPComponentDisconnected, "The component {{ $labels.of }} is not connected to the XMPP server.",
			"Disconnected"+lasted+" If it is the bridge, no message passes between the networks."),
		of("IRCServicesUnlinked", Critical, a.IRCServicesUnlinked, "No services are linked to the IRC server.",
			"Unlinked"+lasted+" The services run, but nobody can log in to an account."),
		of("PlantStoreOrphans", Warning, a.PlantStoreOrphans, "Test records in the plant store are not deleted.",
			"The exporter created them to check the store, which has refused to delete them"+lasted),
		of("IdentityCacheExhausted", Critical, a.IdentityCacheExhausted, "The bridge's identity cache has expired; users appear under made-up nicks.",
			"The identity API has been down for longer than the bridge's cache lasts. It expired {{ $value | humanizeDuration }} ago."),
		of("TLSChainInvalid", Warning, a.TLSChainInvalid, "The certificate of {{ $labels.target }} does not verify.",
			"Its authority, its name or its date is wrong, or it is not the pinned one. Clients refuse it too, unless they pin it."),
		of("TLSServedNotRenewed", Warning, renewal.Warning, "{{ $labels.target }} shows an old certificate.",
			"Its file was renewed over %s ago, but the server has not loaded it."),
		of("TLSServedNotRenewed", Critical, renewal.Critical.Hold, "{{ $labels.target }} shows an old certificate, which ends in less than "+plain(renewal.Critical.Under)+".",
			"Its file was renewed, but the server has not loaded it."),
		of("UpstreamSeriesDropped", Warning, a.UpstreamSeriesDropped, "Some series of {{ $labels.target }} are dropped.",
			"They clash with others, are malformed or exceed a limit. The page /debug/targets/{{ $labels.target }} lists them."),
		of("PlaceholderCredential", Warning, a.PlaceholderCredential, "A secret of {{ $labels.target }} is a placeholder.",
			"It is one from an example, which everybody knows. Change it in the service and in the exporter's configuration."),
	}
}

func exporterAlerts(a *config.Alerts) []alert {
	up := fmt.Sprintf("up{job=%q}", a.Job)
	allDown := over("max", up, nil) + " == 0"
	ups := func(values ...string) []input {
		var list []input
		for i, v := range values {
			list = append(list, input{from(string(rune('a'+i)), "prod", "up", nil), v},
				input{from(string(rune('a'+i)), "prod", "chatstack_exporter_build_info", nil), steady(1)})
		}
		return list
	}
	beat := input{from("a", "prod", "chatstack_poll_last_completed_timestamp_seconds", nil), steady(600)}
	reload := func(v float64) []input {
		return []input{{from("a", "prod", "chatstack_config_last_reload_successful", nil), steady(v)}}
	}
	// falling is 1 for ten minutes, then 0.
	const falling = "1x19 0x4000"
	warning, critical := a.ExporterDown.Warning.For.Std(), a.ExporterDown.Critical.For.Std()
	others := strings.Join(slices.Sorted(slices.Values(slices.Concat(scrapeLabels, foreign))), ", ")
	return []alert{
		{
			trials: []trial{
				{"one of two, not yet long enough", ups(falling, steady(1)), 10*time.Minute + warning - evaluation, false},
				{"one of two", ups(falling, steady(1)), 10*time.Minute + warning + evaluation, true},
				{"both", ups(falling, falling), 10*time.Minute + warning + evaluation, false},
			},
			name: "ExporterDown", severity: Warning, hold: a.ExporterDown.Warning.For, keep: a.ExporterDown.Warning.KeepFiringFor,
			expr:        fmt.Sprintf("%s == 0 unless ignoring (%s) %s", up, others, allDown),
			summary:     "One of the exporters is down: {{ $labels.instance }}.",
			description: "Prometheus has not scraped it for over " + plain(a.ExporterDown.Warning.For) + ". Another one still watches the chat stack.",
		}, {
			trials: []trial{
				{"the only one, not yet long enough", ups(falling), 10*time.Minute + critical - evaluation, false},
				{"the only one", ups(falling), 10*time.Minute + critical + evaluation, true},
				{"one of two", ups(falling, steady(1)), 30 * time.Minute, false},
				{"none was ever scraped", nil, a.ExporterDown.Absent.Std() + critical + 2*evaluation, true},
			},
			name: "ExporterDown", severity: Critical, hold: a.ExporterDown.Critical.For, keep: a.ExporterDown.Critical.KeepFiringFor,
			expr: fmt.Sprintf("%s or on () absent_over_time(chatstack_exporter_build_info[%s])", allDown, seconds(a.ExporterDown.Absent)),
			// Where exporters watch different things, the label part says what is unmonitored.
			summary: "No chatstack_exporter is reachable; {{ with $labels.part }}{{ . }}{{ else }}the chat stack{{ end }} is unmonitored.",
			description: "Prometheus has not scraped any for over " + plain(a.ExporterDown.Critical.For) +
				". Until it does, no other alert about {{ with $labels.part }}it{{ else }}the stack{{ end }} can fire.",
		}, {
			trials: []trial{
				{"at the limit", []input{beat}, 10*time.Minute + a.PollStalled.After.Std(), false},
				{"above the limit", []input{beat}, 10*time.Minute + a.PollStalled.After.Std() + evaluation, true},
			},
			name: "PollStalled", severity: Critical, keep: a.PollStalled.KeepFiringFor,
			expr:        "time() - " + over("min", latest(a, "chatstack_poll_last_completed_timestamp_seconds"), nil) + longer(a.PollStalled.After),
			summary:     "chatstack_exporter has stopped polling; its data is stale.",
			description: "Its poll loop has stood still" + lasted,
		}, {
			trials: []trial{{"successful", reload(1), 10 * time.Minute, false}, {"failed", reload(0), 10 * time.Minute, true}},
			name:   "ConfigReloadFailed", severity: Warning, keep: a.ConfigReloadFailed.KeepFiringFor,
			expr:        over("max", fmt.Sprintf("max_over_time(chatstack_config_last_reload_successful[%s])", seconds(a.ConfigReloadFailed.For)), nil) + " == 0",
			summary:     "The exporter's configuration could not be reloaded.",
			description: "It keeps running with the previous one. See its log, or run `chatstack_exporter check-config`.",
		},
	}
}

// outOfDate compares the checksum of the exporter's rules with that of these.
func outOfDate(a *config.Alerts, checksum string) alert {
	info := func(checksum string) []input {
		return []input{{from("a", "prod", "chatstack_rules_info", map[string]string{"checksum": checksum}), steady(1)}}
	}
	return alert{
		name: "RulesOutOfDate", severity: Warning, hold: a.RulesOutOfDate.For, keep: a.RulesOutOfDate.KeepFiringFor,
		expr:        over("group", latest(a, fmt.Sprintf("chatstack_rules_info{checksum!=%q}", checksum)), []string{"checksum"}),
		summary:     "The alert rules are not those of the exporter's configuration.",
		description: "Deploy the output of `chatstack_exporter rules`.",
		trials: []trial{
			{"the same rules", info(checksum), a.RulesOutOfDate.For.Std() + 5*evaluation, false},
			{"other rules, not yet long enough", info("other"), a.RulesOutOfDate.For.Std() - evaluation, false},
			{"other rules", info("other"), a.RulesOutOfDate.For.Std() + evaluation, true},
		},
	}
}

// watchdog always fires, so that somebody outside notices when alerts stop coming.
func watchdog() alert {
	return alert{
		name: "Watchdog", severity: None, expr: "vector(1)",
		summary:     "Alerting works.",
		description: "This alert always fires. Who stops receiving it will not receive any other alert either.",
		trials:      []trial{{"always", nil, time.Minute, true}},
	}
}
