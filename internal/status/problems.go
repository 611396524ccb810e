package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// findProblems finds what the alert rules know of a service besides that it is down.
func (m *memory) findProblems(in *Input, t *observed, all *fleet, now time.Time) []problem {
	var list []problem
	a := in.Alerts
	add := func(what string, level Level, hint, format string, args ...any) {
		list = append(list, problem{what: what, level: level, text: fmt.Sprintf(format, args...), hint: hint})
	}
	// lasts is for how long something has been so, judged by how long an alert waits.
	lasts := func(key string, holds bool, wait config.Duration) (is, long bool) {
		d, is := m.holds.hold(t.Target+"/"+key, holds, now)
		return is, is && d >= wait.Std()
	}
	if slices.Contains(in.Placeholders, t.Target) {
		add("placeholder", Warning, "Change it in the service and in the exporter's configuration.", "a secret is an obvious placeholder, which everybody knows")
	}
	if t.Known && t.Up && len(t.Impairments) > 0 {
		add("impaired", Warning, "Its notes say why.", "partly working: %s", strings.Join(t.Impairments, "; "))
	}
	for _, s := range t.families.of("chatstack_xmpp_component_connected") {
		host := s.Label("host")
		if is, long := lasts("component/"+host, s.Value == 0, a.XMPPComponentDisconnected.For); is {
			add("component/"+host, criticalIf(long && !all.roleExcused("bridge")),
				"Look at the component's own log; for the bridge, no message passes between the networks.", "the component %s is not connected", host)
		}
	}
	if n := modulesInError(t, a.XMPPModuleProblem.Ignore); n > 0 {
		add("modules", Warning, "The XMPP server's log says which, and its page /status.", "%s in error", count(n, "module"))
	}
	if linked, ok := t.families.value("chatstack_irc_services_linked"); ok {
		if is, long := lasts("linked", linked == 0, a.IRCServicesUnlinked.For); is {
			add("linked", criticalIf(long && !all.roleExcused("irc_services") && !servicesExcused(in, all)),
				"Nobody can log in to an account: look at the services' log and at the link block of the IRC server.", "no services are linked")
		}
	}
	if orphans, ok := t.families.value("chatstack_plant_store_orphans"); ok && orphans > 0 {
		add("orphans", Warning, "Their deletion is tried again at each reading; see why the store refuses it.", "%s left in the store", count(int(orphans), "canary plant"))
	}
	if matches, ok := t.families.value("chatstack_tls_certificate_matches_file"); ok {
		if _, long := lasts("file", matches == 0, a.TLSServedNotRenewed.Warning.For); long {
			add("file", Warning, "Have the server load its certificate anew.", "shows another certificate than its file holds")
		}
	}
	dropped, _ := t.families.sum("chatstack_upstream_dropped_series")
	if _, long := lasts("dropped", dropped > 0, a.UpstreamSeriesDropped.For); long {
		add("dropped", Warning, "The page of its last readings names them.", "%.0f series of its page left out", dropped)
	}
	for _, s := range t.families.of("chatstack_xmpp_family_available") {
		if s.Label("family") == authFailures {
			if _, long := lasts("source", s.Value == 0, a.XMPPAuthSourceMissing.For); long {
				add("source", Warning, "Load the module of deploy/prosody, or set auth_failure_log.", "nobody counts failed logins")
			}
		}
	}
	if expires, ok := t.families.value("chatstack_identity_cache_expires_timestamp_seconds"); ok && t.Known && !t.Up && now.After(unix(expires)) {
		add("cache", Critical, "Bring the identity API back.", "the bridge's cache has run out: it knows no identities any more")
		list[len(list)-1].since = unix(expires)
	}
	return append(list, limitProblems(a, t, now)...)
}

// limitProblems are the thresholds that a single service has passed.
func limitProblems(a config.Alerts, t *observed, now time.Time) []problem {
	var list []problem
	if end := certificateEndOf(t); !end.IsZero() {
		left, e := end.Sub(now), a.TLSCertificateExpiry
		p := problem{what: "certificate", hint: "Renew it, and have the server load it.", text: "a certificate ends in " + ago(left)}
		switch {
		case left < 0:
			p.level, p.since, p.text = Critical, end, "a certificate has ended, "+ago(-left)+" ago"
		case left < e.Critical.Under.Std():
			p.level, p.since = Critical, end.Add(-e.Critical.Under.Std())
		case left < e.Warning.Under.Std():
			p.level, p.since = Warning, end.Add(-e.Warning.Under.Std())
		}
		if p.level != OK {
			list = append(list, p)
		}
	}
	if used, ok := volumeUsage(t); ok {
		critical := used > float64(a.DataVolumeUsage.Critical.Over)/100
		if critical || used > float64(a.DataVolumeUsage.Warning.Over)/100 {
			list = append(list, problem{
				what: "used", level: criticalIf(critical), text: valueText(used, "ratio") + " of it is used", hint: "Make room, or make the volume larger.",
			})
		}
	}
	return list
}

// modulesInError counts the modules of the XMPP server that are in error and not ignored.
func modulesInError(t *observed, ignore []string) int {
	n := 0
	if samples := t.families.of("xmpp_module_status"); t.Kind == "xmpp_status" && len(samples) > 0 {
		for _, s := range samples {
			if s.Value == 3 && !slices.Contains(ignore, s.Label("module")) {
				n++
			}
		}
		return n
	}
	for _, s := range t.families.of("chatstack_xmpp_module_problems") {
		if s.Label("state") == "error" {
			n += int(s.Value)
		}
	}
	return n
}

// servicesExcused reports whether a target of the IRC services says already that they do not run, or need not.
func servicesExcused(in *Input, all *fleet) bool {
	return slices.ContainsFunc(in.Snapshot.Statuses, func(s poll.Status) bool {
		return s.Kind == "irc_services" && (s.Known && !s.Up || all.cause(s.Container) != "" ||
			excuse(in.Maintenance, config.MaintenanceTarget, s.Target, s.Container) != "")
	})
}
