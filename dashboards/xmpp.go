package dashboards

// rate is the rate of a counter of the XMPP server.
func rate(counter string) string {
	return combine("max", "rate("+sel(counter)+"[$__rate_interval])")
}

// total adds up series over the labels in apart.
func total(series string, apart ...string) string { return without("sum", series, apart) }

func moduleStates() []Mapping {
	return values(Mapped{Text: "ok", Color: healthy}, Mapped{Text: "info", Color: "blue"}, Mapped{Text: "warn", Color: warning}, Mapped{Text: "error", Color: critical})
}

func (b *builder) xmpp() Dashboard {
	const (
		noSource = "the XMPP server does not count this: see Metric sources"
		noPage   = "the XMPP server's metrics cannot be read"
		kinds    = `kind=~"xmpp_.*"`
		httpSide = `kind=~"xmpp_status|xmpp_metrics|xmpp_rest|xmpp_proxy"`
	)
	moduleLimits := steps([]string{healthy, "blue", warning, critical}, 1, 2, 3)
	return b.dashboard(
		XMPP, "XMPP", "The XMPP server: sessions, logins, traffic, resources and modules.", "now-6h", nil,
		section{title: "Now", panels: []panel{
			stat("Sessions", "Client sessions that are logged in.", query{combine("max", sel("chatstack_xmpp_sessions")), "sessions"}).emptyText(noPage),
			stat("Targets", "State of every target of the XMPP server.", query{successOfKinds(kinds), "{{target}}"}).thresholds(goodAtOne()).valueTexts(upDown()).emptyText(noExporter).size(8, 4),
			stat("Modules in error", "Modules that the server's /status reports in error.",
				query{perEnvironment("sum", combine("max", sel("chatstack_xmpp_module_problems", `state="error"`))), "modules"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText("the server's /status cannot be read"),
			stat("Modules missing", "Modules that the server's /status showed before its restart, and has not shown since.",
				query{perEnvironment("sum", combine("max", sel("chatstack_xmpp_module_missing"))), "modules"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText("none"),
			stat("Components", "Whether external components, such as the bridge, are connected, by the server's /status.",
				query{combine("min", sel("chatstack_xmpp_component_connected")), "{{host}}"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText("no external component, or no /status"),
			stat("Failed logins per minute", "As the alert counts them: the rate over the last two minutes.", query{perEnvironment("max", sel("chatstack:xmpp_auth_failures_per_minute")), "per minute"}).decimals(1).
				limits(overLimits).emptyText("no source, or rules not loaded"),
		}},
		section{title: "Connections and logins", panels: []panel{
			chart("Sessions", "Open sessions: of clients by type; and with other servers, if the server counts them (xmpp_s2s_sessions).",
				query{total(combine("max", sel("xmpp_c2s_sessions")), "host"), "clients, {{type}}"},
				query{total(combine("max", sel("xmpp_s2s_sessions")), "host"), "servers, {{type}}"}).emptyText(noPage),
			chart("New connections", "New connections: with other servers by direction; and of clients, if the server counts them (xmpp_c2s_connections_total).",
				query{total(rate("xmpp_s2s_connections_total"), "host"), "servers, {{direction}}"},
				query{total(rate("xmpp_c2s_connections_total"), "host"), "clients"}).unit("cps").emptyText(noSource),
			chart("Failed logins", "Failed logins per minute, as the alert counts them. The lines are its thresholds. Requires mod_measure_chatstack or another source: see Metric sources.",
				query{combine("max", sel("chatstack:xmpp_auth_failures_per_minute")), "failed"}).unit("cpm").
				limitLines(overLimits).emptyText("no source, or rules not loaded"),
			chart("Logins", "Successful and failed logins per minute, by virtual host.",
				query{rate("xmpp_c2s_auth_success_total") + " * 60", "success, {{host}}"},
				query{rate("xmpp_c2s_auth_failure_total") + " * 60", "failure, {{host}}"}).unit("cpm").emptyText(noSource),
		}},
		section{title: "Traffic", panels: []panel{
			chart("Messages and presence", "Stanzas from clients (received) and to clients (sent).",
				query{total(rate("xmpp_messages_received_total"), "host"), "messages received"}, query{total(rate("xmpp_messages_sent_total"), "host"), "messages sent"},
				query{total(rate("xmpp_presence_received_total"), "host"), "presence received"}, query{total(rate("xmpp_presence_sent_total"), "host"), "presence sent"}).unit("cps").emptyText(noSource),
			chart("Storage", "Storage operations by virtual host; and errors, if the server counts them (xmpp_storage_errors_total).",
				query{rate("xmpp_storage_operations_total"), "operations, {{host}}"}, query{rate("xmpp_storage_errors_total"), "errors, {{host}}"}).unit("ops").emptyText(noSource),
			chart("HTTP requests", "HTTP requests, if the server counts them (xmpp_http_requests_total), and the exporter's own probes.",
				query{perEnvironment("sum", rate("xmpp_http_requests_total")), "all"},
				query{combine("max", ofKind("rate("+sel("chatstack_probe_attempts_total")+"[$__rate_interval])", httpSide)), "probe, {{target}}"}).unit("reqps").emptyText(noPage),
			chart("HTTP durations", "95th percentile of HTTP requests, if the server measures them (xmpp_http_request_duration_seconds), and the duration of the exporter's probes.",
				query{"histogram_quantile(0.95, " + perEnvironment("sum", rate("xmpp_http_request_duration_seconds_bucket"), "le") + ") >= 0", "95 %, all"},
				query{combine("max", ofKind(sel("chatstack_probe_duration_seconds"), httpSide)), "probe, {{target}}"}).unit("s").emptyText(noPage),
		}},
		section{title: "Process", panels: []panel{
			chart("Memory", "Resident and virtual memory of the server's process. The lines are thresholds of the alert, which compares the memory of the container.",
				query{combine("max", sel("xmpp_memory_usage_bytes")), "resident"}, query{combine("max", sel("xmpp_process_virtual_memory_bytes")), "virtual"}).unit("decbytes").
				limitLines(overLimits).emptyText(noPage).size(8, 8),
			chart("CPU", "Share of one CPU core that the server's process uses.", query{rate("xmpp_cpu_usage_seconds_total"), "processor"}).unit("percentunit").emptyText(noPage).size(8, 8),
			chart("File descriptors", "Open file descriptors, and their limit.",
				query{combine("max", sel("xmpp_process_open_fds")), "open"}, query{combine("max", sel("xmpp_process_max_fds")), "limit"}).emptyText(noPage).size(8, 8),
		}}.folded(),
		section{title: "Modules and sources", panels: []panel{
			timeline("Worst module by host", "Worst module state of each virtual host or component (* is global).",
				query{combine("max", sel("xmpp_module_status"), "module"), "{{host}}"}).thresholds(moduleLimits).valueTexts(moduleStates()).emptyText("the server's /status cannot be read").size(24, 6),
			table("Modules", "Every module in the server's /status, worst first.",
				[]column{{"host", "Host"}, {"module", "Module"}, {"A", "Status"}}, query{combine("max", sel("xmpp_module_status")), ""}).
				field("Status", textsFor(moduleStates()), coloured(), colouredBy(moduleLimits)).emptyText("the server's /status cannot be read").size(12, 10),
			table("Metric sources", "Whether the server provides each metric family. Without a source, the charts above say so instead of showing 0.",
				[]column{{"family", "Family"}, {"A", "Source"}}, query{combine("max", sel("chatstack_xmpp_family_available")), ""}).
				field("Source", textsFor(values(Mapped{Text: "none", Color: unknown}, Mapped{Text: "yes", Color: healthy})), coloured()).emptyText(noPage).size(12, 10),
		}}.folded(),
	)
}
