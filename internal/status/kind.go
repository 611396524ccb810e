package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

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

// sum adds up what a figure is of.
func (f *figure) sum(t *observed) (sum float64, ok bool) {
	samples := t.families.of(f.family)
	for i := range samples {
		if f.label == "" || samples[i].Label(f.label) == f.value {
			sum += samples[i].Value
			ok = true
		}
	}
	return sum, ok && finite(sum)
}

// details adds the numbers of a service, and what is wrong although it answers.
func (m *memory) details(in *Input, s *Service, t *observed, all *fleet, now time.Time) {
	for i := range figures {
		f := &figures[i]
		if f.kind != t.Kind {
			continue
		}
		if v, ok := f.sum(t); ok {
			s.Values = append(s.Values, newValue(f.name, v, f.unit))
			if f.chart {
				s.Charts = m.chart(s.Charts, "service/"+s.Name+"/"+f.name, s.Name+": "+f.name, f.unit, last, now, v)
			}
		}
	}
	if t.Kind == "xmpp_metrics" {
		if v, ok := m.authFailures(t, now, in.Alerts.XMPPAuthFailureRate.Window.Std()); ok {
			s.Values = append(s.Values, newValue("failed logins", v, "per_minute"))
			s.Charts = m.chart(s.Charts, "service/"+s.Name+"/auth_failures", s.Name+": failed logins", "per_minute", most, now, v)
		}
	}
	if t.Kind == "docker" && s.State == up {
		runs := 0
		for p, f := range all.facts {
			if past := m.containers[p]; past != nil && past.target == t.Target && f.state == running {
				runs++
			}
		}
		s.Values = append(s.Values, newValue("containers running", float64(runs), ""))
	}
	if used, ok := volumeUsage(t); ok {
		s.Values = append(s.Values, newValue("used", used, "ratio"))
		s.Charts = m.chart(s.Charts, "service/"+s.Name+"/used", s.Name+": used", "ratio", most, now, used)
	}
	if end := certificateEndOf(t); !end.IsZero() {
		s.Values = append(s.Values, newValue("certificate ends in", end.Sub(now).Truncate(time.Second).Seconds(), "seconds"))
	}
	problems := m.problems(in, t, all, now)
	began := m.began(s, problems, now)
	for _, p := range problems {
		s.Level = max(s.Level, p.level)
	}
	s.tell(problems)
	begun := began(s.Level)
	s.ProblemSince, s.ProblemSinceAtLeast = begun.at, begun.atLeast
}

// tell puts everything that is wrong into the text, the worst first; of what is to be done it tells that of the first.
func (s *Service) tell(problems []problem) {
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b problem) int { return cmp.Compare(b.level, a.level) })
	for i, p := range problems {
		if i == 0 && s.State != down { // why it is down says more
			s.Text, s.Hint = p.text, p.hint
		} else if p.what != "certificate" || !strings.Contains(s.Text, "certificate has expired") {
			s.Text += "; " + p.text
		}
	}
}

// began returns when what is wrong with a service began: the oldest problem of its level, or that it is down, of which its
// text speaks then, however long its certificate has been too old.
func (m *memory) began(s *Service, problems []problem, now time.Time) func(Level) beginning {
	known := m.services[s.Name]
	began := known.begun.of(problems, now)
	return func(level Level) beginning {
		if s.State == down {
			return beginning{s.Since, known.atTheStart}
		}
		return first(problems, began, level)
	}
}

// problems are what the alert rules know of a service besides that it is down.
func (m *memory) problems(in *Input, t *observed, all *fleet, now time.Time) []problem {
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
	samples := t.families.of("chatstack_xmpp_component_connected")
	for i := range samples {
		host := samples[i].Label("host")
		switch is, long := lasts("component/"+host, samples[i].Value == 0, a.XMPPComponentDisconnected.For); {
		case long && !all.roleExcused("bridge"):
			add("component/"+host, Critical, "Look at the component's own log; for the bridge, no message passes between the networks.", "the component %s is not connected", host)
		case is:
			add("component/"+host, Warning, "Look at the component's own log; for the bridge, no message passes between the networks.", "the component %s is not connected", host)
		}
	}
	if n := modulesInError(t, a.XMPPModuleProblem.Ignore); n > 0 {
		add("modules", Warning, "The XMPP server's log says which, and its page /status.", "%s in error", count(n, "module"))
	}
	if linked, ok := t.families.value("chatstack_irc_services_linked"); ok {
		switch is, long := lasts("linked", linked == 0, a.IRCServicesUnlinked.For); {
		case long && !all.roleExcused("irc_services") && !servicesExcused(in, all):
			add("linked", Critical, "Nobody can log in to an account: look at the services' log and at the link block of the IRC server.", "no services are linked")
		case is:
			add("linked", Warning, "Nobody can log in to an account: look at the services' log and at the link block of the IRC server.", "no services are linked")
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
	families := t.families.of("chatstack_xmpp_family_available")
	for i := range families {
		if families[i].Label("family") == authFailures {
			if _, long := lasts("source", families[i].Value == 0, a.XMPPAuthSourceMissing.For); long {
				add("source", Warning, "Load the module of deploy/prosody, or set auth_failure_log.", "nobody counts failed logins")
			}
		}
	}
	if expires, ok := t.families.value("chatstack_identity_cache_expires_timestamp_seconds"); ok && t.Known && !t.Up && now.After(unix(expires)) {
		add("cache", Critical, "Bring the identity API back.", "the bridge's cache has run out: it knows no identities any more")
		list[len(list)-1].since = unix(expires)
	}
	return append(list, limits(a, t, now)...)
}

// limits are the thresholds that a single service can pass.
func limits(a config.Alerts, t *observed, now time.Time) []problem {
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
		text := valueText(used, "ratio") + " of it is used"
		switch u := a.DataVolumeUsage; {
		case used > float64(u.Critical.Over)/100:
			list = append(list, problem{what: "used", level: Critical, text: text, hint: "Make room, or make the volume larger."})
		case used > float64(u.Warning.Over)/100:
			list = append(list, problem{what: "used", level: Warning, text: text, hint: "Make room, or make the volume larger."})
		}
	}
	return list
}

// modulesInError counts the modules of the XMPP server that are in error and not ignored.
func modulesInError(t *observed, ignore []string) int {
	n := 0
	if samples := t.families.of("xmpp_module_status"); t.Kind == "xmpp_status" && len(samples) > 0 {
		for i := range samples {
			if samples[i].Value == 3 && !slices.Contains(ignore, samples[i].Label("module")) {
				n++
			}
		}
		return n
	}
	samples := t.families.of("chatstack_xmpp_module_problems")
	for i := range samples {
		if samples[i].Label("state") == "error" {
			n += int(samples[i].Value)
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

// roleExcused reports whether the containers of a role explain that their service fails. One that serves is enough to be
// blamed.
func (f *fleet) roleExcused(role string) bool {
	excused := false
	for _, c := range f.facts {
		if c.role != role {
			continue
		}
		if c.serving() {
			return false
		}
		excused = excused || c.down() || c.excused()
	}
	return excused
}
