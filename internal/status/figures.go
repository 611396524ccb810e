package status

// figure is a number that the page shows for a service.
type figure struct {
	kind, family, name, unit string
	// label and value select the series; if both are empty, the figure is the sum of all.
	label, value string
	chart        bool
}

// figures are shown in this order.
var figures = []figure{
	{
		kind:   "xmpp_metrics",
		family: "xmpp_c2s_sessions",
		name:   "sessions",
		label:  "type",
		value:  "c2s",
		chart:  true,
	},
	{kind: "xmpp_metrics", family: "xmpp_s2s_sessions", name: "links to other servers"},
	{
		kind:   "xmpp_metrics",
		family: "xmpp_memory_usage_bytes",
		name:   "memory",
		unit:   "bytes",
	},
	{
		kind:   "xmpp_status",
		family: "chatstack_xmpp_module_problems",
		name:   "modules in error",
		label:  "state",
		value:  "error",
	},
	{kind: "xmpp_status", family: "chatstack_xmpp_component_connected", name: "components connected"},
	{
		kind:   "irc_rpc",
		family: "chatstack_irc_users",
		name:   "users",
		chart:  true,
	},
	{kind: "irc_rpc", family: "chatstack_irc_channels", name: "channels"},
	{kind: "irc_rpc", family: "chatstack_irc_servers", name: "servers"},
	{
		kind:   "plant_store",
		family: "chatstack_plant_store_operation_duration_seconds",
		name:   "creating",
		unit:   "seconds",
		label:  "operation",
		value:  "create",
	},
	{
		kind:   "plant_store",
		family: "chatstack_plant_store_operation_duration_seconds",
		name:   "deleting",
		unit:   "seconds",
		label:  "operation",
		value:  "delete",
	},
	{kind: "plant_store", family: "chatstack_plant_store_orphans", name: "test records not deleted"},
	{
		kind:   "relay",
		family: "chatstack_relay_last_delivery_seconds",
		name:   "IRC to XMPP",
		unit:   "seconds",
		label:  "from",
		value:  "irc",
		chart:  true,
	},
	{
		kind:   "relay",
		family: "chatstack_relay_last_delivery_seconds",
		name:   "XMPP to IRC",
		unit:   "seconds",
		label:  "from",
		value:  "xmpp",
		chart:  true,
	},
	{
		kind:   "volume",
		family: "chatstack_volume_available_bytes",
		name:   "available",
		unit:   "bytes",
	},
	{
		kind:   "backup",
		family: "chatstack_backup_size_bytes",
		name:   "newest backup",
		unit:   "bytes",
	},
}

// wanted are the families to parse, by their names in text format.
var wanted = func() map[string]bool {
	names := map[string]bool{}
	for _, f := range figures {
		names[f.family] = true
	}
	return names
}()

func isWanted(name string) bool { return wanted[name] }

// sum adds up the figure's series.
func (f *figure) sum(t *observed) (sum float64, ok bool) {
	for _, s := range t.families.of(f.family) {
		if f.label == "" || s.Label(f.label) == f.value {
			sum += s.Value
			ok = true
		}
	}
	return sum, ok && finite(sum)
}
