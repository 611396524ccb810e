package status

import "time"

// figure is a number of a service that matters.
type figure struct {
	kind, family, name, unit string
	// label and value choose the series; both empty take the sum of all.
	label, value string
	chart        bool
}

// figures are what is shown of each kind of service, in this order.
var figures = []figure{
	{kind: "xmpp_metrics", family: "xmpp_c2s_sessions", name: "sessions", label: "type", value: "c2s", chart: true},
	{kind: "xmpp_metrics", family: "xmpp_s2s_sessions", name: "links to other servers"},
	{kind: "xmpp_metrics", family: "xmpp_memory_usage_bytes", name: "memory", unit: "bytes"},
	{kind: "xmpp_status", family: "chatstack_xmpp_module_problems", name: "modules in error", label: "state", value: "error"},
	{kind: "xmpp_status", family: "chatstack_xmpp_component_connected", name: "components connected"},
	{kind: "irc_rpc", family: "chatstack_irc_users", name: "users", chart: true},
	{kind: "irc_rpc", family: "chatstack_irc_channels", name: "channels"},
	{kind: "irc_rpc", family: "chatstack_irc_servers", name: "servers"},
	{kind: "plant_store", family: "chatstack_plant_store_operation_duration_seconds", name: "creating", unit: "seconds", label: "operation", value: "create"},
	{kind: "plant_store", family: "chatstack_plant_store_operation_duration_seconds", name: "deleting", unit: "seconds", label: "operation", value: "delete"},
	{kind: "plant_store", family: "chatstack_plant_store_orphans", name: "canaries left"},
	{kind: "volume", family: "chatstack_volume_available_bytes", name: "available", unit: "bytes"},
}

// others are families that are read for what they mean, not shown as they are.
var others = []string{
	authFailures, certificateEnd, "chatstack_volume_size_bytes", "chatstack_volume_free_bytes", "chatstack_irc_services_linked",
	"chatstack_xmpp_family_available", "xmpp_module_status", "chatstack_upstream_dropped_series", "chatstack_tls_certificate_matches_file",
	"chatstack_tls_certificate_verified",
	"chatstack_identity_cache_expires_timestamp_seconds",
}

// wanted are the families that are read, by their names in text format.
var wanted = func() map[string]bool {
	names := map[string]bool{}
	for _, f := range figures {
		names[f.family] = true
	}
	for _, name := range others {
		names[name] = true
	}
	for name := range containerFamilies {
		names[name] = true
	}
	return names
}()

func isWanted(name string) bool { return wanted[name] }

// sum adds up what a figure is of.
func (f *figure) sum(t *observed) (sum float64, ok bool) {
	for _, s := range t.families.of(f.family) {
		if f.label == "" || s.Label(f.label) == f.value {
			sum += s.Value
			ok = true
		}
	}
	return sum, ok && finite(sum)
}

const certificateEnd = "chatstack_tls_certificate_not_after_timestamp_seconds"

// certificateEndOf is when the first of the target's certificates ends, zero where none is known.
func certificateEndOf(t *observed) time.Time {
	var first time.Time
	for _, s := range t.families.of(certificateEnd) {
		if end := unix(s.Value); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// volumeUsage is the used part of what can be used, as df counts it.
func volumeUsage(t *observed) (float64, bool) {
	size, ok := t.families.value("chatstack_volume_size_bytes")
	free, hasFree := t.families.value("chatstack_volume_free_bytes")
	available, hasAvailable := t.families.value("chatstack_volume_available_bytes")
	used := size - free
	if !ok || !hasFree || !hasAvailable || used+available <= 0 {
		return 0, false
	}
	return used / (used + available), true
}

const authFailures = "xmpp_c2s_auth_failure_total"

// authFailures is how many logins fail a minute.
func (m *memory) authFailures(t *observed, now time.Time, window time.Duration) (float64, bool) {
	known := m.rates[t.Target]
	samples := t.families.of(authFailures)
	if !t.Known || !t.Up || len(samples) == 0 {
		if known != nil && now.Sub(t.LastSuccess) > window {
			delete(m.rates, t.Target)
		}
		return 0, false
	}
	if known == nil {
		known = &rate{}
		m.rates[t.Target] = known
	}
	known.observe(t.LastAttempt, samples, window)
	return known.perMinute(now, window)
}
