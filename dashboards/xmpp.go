package dashboards

// rate is how fast a counter of the XMPP server grows, over all of its hosts.
func rate(counter string) string {
	return each("max", "rate("+sel(counter)+"[$__rate_interval])")
}

// total adds up all that the series keep apart but what an operator has put to them.
func total(series string, apart ...string) string { return without("sum", series, apart) }

// moduleStates are the states of the XMPP server's modules.
func moduleStates() []Mapping {
	return values(Mapped{Text: "ok", Color: well}, Mapped{Text: "info", Color: "blue"}, Mapped{Text: "warn", Color: warning}, Mapped{Text: "error", Color: critical})
}

func (b *book) xmpp() Dashboard {
	a := b.alerts
	const (
		noSource = "the XMPP server counts none of this: see Sources"
		noPage   = "the XMPP server's metrics page is not read"
		kinds    = `kind=~"xmpp_.*"`
		httpSide = `kind=~"xmpp_status|xmpp_metrics|xmpp_rest|xmpp_proxy"`
	)
	logins := a.XMPPAuthFailureRate
	memory := a.ContainerMemory
	moduleLimits := steps([]string{well, "blue", warning, critical}, 1, 2, 3)
	return b.dashboard(
		XMPP, "XMPP", "The XMPP server: who is on it, what passes through it, and what it says of itself.", "now-6h", nil,
		section{title: "Now", panels: []panel{
			stat("Sessions", "Sessions of clients that are logged in now.", query{each("max", sel("chatstack_xmpp_sessions")), "sessions"}).none(noPage),
			stat("Targets", "What answers of the XMPP server.", query{success(kinds), "{{target}}"}).limits(good()).maps(upDown()).none(noExporter).size(8, 4),
			b.guided(stat("Modules in error", "Modules that the status page reports in state error.",
				query{perEnvironment("sum", each("max", sel("chatstack_xmpp_module_problems", `state="error"`))), "modules"}).limits(steps([]string{well, warning}, 1)).none("the status page is not read"), "XMPPModuleProblem"),
			b.guided(stat("Component", "External components, such as the bridge: connected only when the status page says so.",
				query{each("min", sel("chatstack_xmpp_component_connected")), "{{host}}"}).limits(good()).maps(yesNo()).none("no external component, or no status page"), "XMPPComponentDisconnected"),
			stat("Failed logins per minute", "As the alert sees them: the rate of the last two minutes.", query{perEnvironment("max", sel("chatstack:xmpp_auth_failures_per_minute")), "per minute"}).decimals(1).
				limits(above(float64(logins.Warning.Over), float64(logins.Critical.Over))).none("no source, or rules not loaded"),
		}},
		section{title: "Connections and logins", panels: []panel{
			chart("Sessions", "Open sessions: of clients by type, and with other servers where the server tells (xmpp_s2s_sessions).",
				query{total(each("max", sel("xmpp_c2s_sessions")), "host"), "clients, {{type}}"},
				query{total(each("max", sel("xmpp_s2s_sessions")), "host"), "servers, {{type}}"}).none(noPage),
			chart("New connections", "Connections that began: of clients where the server counts them (xmpp_c2s_connections_total), and with other servers by direction.",
				query{total(rate("xmpp_s2s_connections_total"), "host"), "servers, {{direction}}"},
				query{total(rate("xmpp_c2s_connections_total"), "host"), "clients"}).unit("cps").none(noSource),
			b.guided(chart("Failed logins", "Per minute, as the alert sees them, with both of its thresholds. Needs mod_measure_chatstack or another source: see Sources.",
				query{each("max", sel("chatstack:xmpp_auth_failures_per_minute")), "failed"}).unit("cpm").
				drawn(above(float64(logins.Warning.Over), float64(logins.Critical.Over))).none("no source, or rules not loaded"), "XMPPAuthFailureRate"),
			chart("Logins", "Logins per minute that succeeded and that failed, by virtual host.",
				query{rate("xmpp_c2s_auth_success_total") + " * 60", "success, {{host}}"},
				query{rate("xmpp_c2s_auth_failure_total") + " * 60", "failure, {{host}}"}).unit("cpm").none(noSource),
		}},
		section{title: "Traffic", panels: []panel{
			chart("Messages and presence", "From clients (received) and to clients (sent).",
				query{total(rate("xmpp_messages_received_total"), "host"), "messages received"}, query{total(rate("xmpp_messages_sent_total"), "host"), "messages sent"},
				query{total(rate("xmpp_presence_received_total"), "host"), "presence received"}, query{total(rate("xmpp_presence_sent_total"), "host"), "presence sent"}).unit("cps").none(noSource),
			chart("Storage", "Operations on the server's stores by virtual host, and errors where the server counts them (xmpp_storage_errors_total).",
				query{rate("xmpp_storage_operations_total"), "operations, {{host}}"}, query{rate("xmpp_storage_errors_total"), "errors, {{host}}"}).unit("ops").none(noSource),
			chart("HTTP requests", "Requests to the server's HTTP side where it counts them (xmpp_http_requests_total), and the exporter's own readings.",
				query{perEnvironment("sum", rate("xmpp_http_requests_total")), "all"},
				query{each("max", ofKind("rate("+sel("chatstack_probe_attempts_total")+"[$__rate_interval])", httpSide)), "reading, {{target}}"}).unit("reqps").none(noPage),
			chart("HTTP durations", "95 of 100 requests are faster than this, where the server tells (xmpp_http_request_duration_seconds); and how long the exporter's readings take.",
				query{"histogram_quantile(0.95, " + perEnvironment("sum", rate("xmpp_http_request_duration_seconds_bucket"), "le") + ") >= 0", "95 %, all"},
				query{each("max", ofKind(sel("chatstack_probe_duration_seconds"), httpSide)), "reading, {{target}}"}).unit("s").none(noPage),
		}},
		section{title: "Process", panels: []panel{
			b.guided(chart("Memory", "Resident memory of the server's process. The lines are the alert's thresholds, which are held against its container.",
				query{each("max", sel("xmpp_memory_usage_bytes")), "resident"}, query{each("max", sel("xmpp_process_virtual_memory_bytes")), "virtual"}).unit("decbytes").
				drawn(above(float64(memory.Warning.Over), float64(memory.Critical.Over))).none(noPage).size(8, 8), "ContainerMemory"),
			chart("CPU", "Part of one processor that the server's process uses.", query{rate("xmpp_cpu_usage_seconds_total"), "processor"}).unit("percentunit").none(noPage).size(8, 8),
			chart("File descriptors", "Open ones, and how many there may be.",
				query{each("max", sel("xmpp_process_open_fds")), "open"}, query{each("max", sel("xmpp_process_max_fds")), "limit"}).none(noPage).size(8, 8),
		}}.folded(),
		section{title: "Modules and sources", panels: []panel{
			b.guided(timeline("Worst module by host", "The worst state of any module of each virtual host or component (* is global).",
				query{each("max", sel("xmpp_module_status"), "module"), "{{host}}"}).limits(moduleLimits).maps(moduleStates()).none("the status page is not read").size(24, 6), "XMPPModuleProblem"),
			table("Modules", "Every module that the status page tells of, the worst first.",
				[]column{{"host", "Host"}, {"module", "Module"}, {"A", "Status"}}, query{each("max", sel("xmpp_module_status")), ""}).
				field("Status", mapped(moduleStates()), coloured(), within(moduleLimits)).none("the status page is not read").size(12, 10),
			b.guided(table("Sources", "Families that the server has a source for. Where it has none, the charts above say so instead of showing 0.",
				[]column{{"family", "Family"}, {"A", "Source"}}, query{each("max", sel("chatstack_xmpp_family_available")), ""}).
				field("Source", mapped(values(Mapped{Text: "none", Color: unknown}, Mapped{Text: "yes", Color: well})), coloured()).none(noPage).size(12, 10), "XMPPAuthSourceMissing"),
		}}.folded(),
	)
}
