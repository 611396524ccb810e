package dashboards

func (b *builder) irc() Dashboard {
	const (
		noRPC   = "the IRC server's RPC does not answer, or its account may not read this"
		noStore = "no plant store is configured"
		noRelay = "no relay check is configured, or its sessions are down"
		// Everything that no other dashboard shows, including targets of kinds such as http and tcp.
		kinds = `kind!~"docker|volume|xmpp_.*"`
	)
	return b.dashboard(
		IRC, "IRC and services", "The IRC server, its services, and all other targets except the XMPP server.", "now-6h", nil,
		section{title: "Now", panels: []panel{
			stat("Users", "Users on the IRC network, without the bots of the services.", query{combine("max", sel("chatstack_irc_users")), "users"}).emptyText(noRPC),
			stat("Channels", "Channels on the IRC network.", query{combine("max", sel("chatstack_irc_channels")), "channels"}).emptyText(noRPC),
			stat("Services linked", "Whether the IRC server reports linked services. The services' own HTTP interface cannot show it.",
				query{combine("min", sel("chatstack_irc_services_linked")), "linked"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText(noRPC),
			stat("Identity cache left", "Time until the bridge's cache of identities expires, if the identity API stops answering.",
				query{combine("max", sel("chatstack_identity_cache_expires_timestamp_seconds")) + " - time()", "left"}).unit("s").thresholds(badBelow(0, 1800)).emptyText("no identity API is configured, or it has never answered"),
			stat("Test records left behind", "Test records (canaries) that the exporter created in the plant store and could not delete.",
				query{combine("max", sel("chatstack_plant_store_orphans")), "test records"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText(noStore),
			stat("Targets down", "Targets on this dashboard whose last probe failed.", query{countMatching(successOfKinds(kinds), "== 0"), "down"}).thresholds(criticalFrom(1)).emptyText(noExporter),
		}},
		section{title: "IRC", panels: []panel{
			chart("Users and channels", "Users and channels on the whole IRC network.",
				query{combine("max", sel("chatstack_irc_users")), "users"}, query{combine("max", sel("chatstack_irc_channels")), "channels"}).emptyText(noRPC),
			chart("Servers and operators", "Servers of the network, including linked services, and operators online.",
				query{combine("max", sel("chatstack_irc_servers")), "servers"}, query{combine("max", sel("chatstack_irc_operators")), "operators"}).emptyText(noRPC),
			timeline("Services linked", "Whether services were linked to the IRC server. Gaps: the exporter got no answer.",
				query{combine("min", sel("chatstack_irc_services_linked")), "linked"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText(noRPC).size(24, 4),
		}},
		section{title: "Bridge", panels: []panel{
			stat("Messages cross", "Whether the last message of the relay check arrived in time, each way.",
				query{combine("min", sel("chatstack_relay_success")), "{{from}} to {{to}}"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText(noRelay),
			stat("Sessions", "Whether the relay check's sessions have joined and may speak.",
				query{combine("min", sel("chatstack_relay_session_up")), "{{side}}"}).thresholds(goodAtOne()).valueTexts(upDown()).emptyText(noRelay),
			chart("Delivery time", "Median time that messages of the relay check take across the bridge, each way, over an hour.",
				query{"histogram_quantile(0.5, " + perEnvironment("sum", "rate("+sel("chatstack_relay_delivery_seconds_bucket")+"[1h])", "from", "to", "le") + ") >= 0", "{{from}} to {{to}}"}).unit("s").emptyText(noRelay).size(8, 8),
			chart("Messages", "Messages of the relay check within 5 minutes, by outcome.",
				query{combine("max", "increase("+sel("chatstack_relay_messages_total")+"[5m])"), "{{from}} to {{to}}, {{outcome}}"}).emptyText(noRelay).size(8, 8),
			stat("Copies", "How often messages of the relay check were heard again within 15 minutes, each way. More than 0 means that people see messages twice.",
				query{combine("max", "increase("+sel("chatstack_relay_copies_total")+"[15m])"), "{{from}} to {{to}}"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText(noRelay),
		}}.folded(),
		section{title: "Services", panels: []panel{
			timeline("Targets", "State of every target except the XMPP server, engines and volumes.", query{successOfKinds(kinds), "{{target}}"}).thresholds(goodAtOne()).valueTexts(upDown()).emptyText(noExporter).size(24, 8),
			chart("Probe duration", "Duration of the last probe.", query{combine("max", ofKind(sel("chatstack_probe_duration_seconds"), kinds)), "{{target}}"}).unit("s").emptyText(noExporter),
			chart("Plant store", "Time that the store took to create and to delete a test record.",
				query{combine("max", sel("chatstack_plant_store_operation_duration_seconds")), "{{operation}}"}).unit("s").emptyText(noStore),
			timeline("Plant store operations", "Whether each operation of the last probe succeeded.",
				query{combine("min", sel("chatstack_plant_store_operation_success")), "{{operation}}"}).thresholds(goodAtOne()).valueTexts(values(Mapped{Text: "failed", Color: critical}, Mapped{Text: "succeeded", Color: healthy})).emptyText(noStore).size(12, 8),
		}},
	)
}
