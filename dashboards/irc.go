package dashboards

func (b *book) irc() Dashboard {
	const (
		noRPC   = "the IRC server's RPC is not read, or its account may not see this"
		noStore = "no plant store is configured"
		// All that no other dashboard shows, with the user's own.
		kinds = `kind!~"docker|volume|xmpp_.*"`
	)
	return b.dashboard(
		IRC, "IRC and services", "The IRC server, its services, and what belongs to the stack beside the XMPP server.", "now-6h", nil,
		section{title: "Now", panels: []panel{
			stat("Users", "People on the IRC network, without the services' bots.", query{each("max", sel("chatstack_irc_users")), "users"}).none(noRPC),
			stat("Channels", "Channels on the IRC network.", query{each("max", sel("chatstack_irc_channels")), "channels"}).none(noRPC),
			b.guided(stat("Services linked", "Whether IRC services are linked to the IRC server, as that one says: their own HTTP side cannot show it.",
				query{each("min", sel("chatstack_irc_services_linked")), "linked"}).limits(good()).maps(yesNo()).none(noRPC), "IRCServicesUnlinked"),
			b.guided(stat("Identity cache left", "How long the bridge can go on with what it remembers of identities if their API answers no more.",
				query{each("max", sel("chatstack_identity_cache_expires_timestamp_seconds")) + " - time()", "left"}).unit("s").limits(below(0, 1800)).none("no identity API is configured, or it has never answered"), "IdentityCacheExhausted"),
			b.guided(stat("Plants left behind", "Test entries that are still in the plant store and should not be.",
				query{each("max", sel("chatstack_plant_store_orphans")), "plants"}).limits(steps([]string{well, warning}, 1)).none(noStore), "PlantStoreOrphans"),
			stat("Targets down", "Of the services on this page.", query{failing(success(kinds), "== 0"), "down"}).limits(critically(1)).none(noExporter),
		}},
		section{title: "IRC", panels: []panel{
			chart("Users and channels", "On the whole IRC network.",
				query{each("max", sel("chatstack_irc_users")), "users"}, query{each("max", sel("chatstack_irc_channels")), "channels"}).none(noRPC),
			chart("Servers and operators", "Servers of the network, with linked services, and operators who are online.",
				query{each("max", sel("chatstack_irc_servers")), "servers"}, query{each("max", sel("chatstack_irc_operators")), "operators"}).none(noRPC),
			timeline("Services linked", "Whether IRC services were linked to the IRC server. Gaps: the server was not read.",
				query{each("min", sel("chatstack_irc_services_linked")), "linked"}).limits(good()).maps(yesNo()).none(noRPC).size(24, 4),
		}},
		section{title: "Services", panels: []panel{
			timeline("Targets", "State of every target but those of the XMPP server, of engines and of volumes.", query{success(kinds), "{{target}}"}).limits(good()).maps(upDown()).none(noExporter).size(24, 8),
			chart("Time to answer", "How long the last reading took.", query{each("max", ofKind(sel("chatstack_probe_duration_seconds"), kinds)), "{{target}}"}).unit("s").none(noExporter),
			chart("Plant store", "How long the store took to make and to delete a plant.",
				query{each("max", sel("chatstack_plant_store_operation_duration_seconds")), "{{operation}}"}).unit("s").none(noStore),
			timeline("Plant store operations", "Whether the store answered each operation as it promises.",
				query{each("min", sel("chatstack_plant_store_operation_success")), "{{operation}}"}).limits(good()).maps(values(Mapped{Text: "failed", Color: critical}, Mapped{Text: "as promised", Color: well})).none(noStore).size(12, 8),
		}},
	)
}
