package alerts

import (
	"fmt"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on certificates.

var tlsCertificateExpiry = row{
	name: health.AlertCertificateExpiry,
	AlertKind: kind("tls_certificate_expiry", config.Keys("warning", "under", "keep_firing_for", "critical", "under", "keep_firing_for"),
		config.AlertSettings{
			Warning:  config.Level{Under: 14 * day, KeepFiringFor: 15 * minute},
			Critical: config.Level{Under: 3 * day, KeepFiringFor: 15 * minute},
		}, func(c *config.AlertCheck) {
			c.AtLeast("critical.under", c.Critical.Under, second, "")
			c.AtLeast("warning.under", c.Warning.Under, second, "")
			if c.Critical.Under > c.Warning.Under {
				c.Faultf("critical.under", "is %s, must be at most the warning's %s", c.Critical.Under.Std(), c.Warning.Under.Std())
			}
		}),
	server: ofCertificate,
	target: "{{ $labels.endpoint }}",
	since:  "{{ if le $value 0.0 }}" + certificateEnds + "{{ end }}",
	judged: &health.Rule{
		Measured:  true,
		OwnSeries: true,
		Apart:     true,
		ExcusedIn: "chatstack_tls_certificate_excused",
		Excuses:   []health.Excuser{health.ByMaintenance},
	},
	evidence: evidence{expr: expiryExpr, trials: certificateTrials},
	ahead:    true,
	page:     Words{"a certificate expires soon or has expired", "Renew it, then reload the server."},
	gauge: Gauge{
		Place:       3,
		Title:       "Certificate expiry",
		Unit:        "seconds",
		Below:       true,
		Unknown:     "no certificate is known",
		Figure:      "certificate expires in",
		Past:        "certificate expired",
		Problem:     "a certificate expires in <value>",
		PastProblem: "a certificate expired <value> ago",
	},
	panels: []string{"overview/Next certificate to expire", "tls-disks/Days left", "tls-disks/Days left over time"},
	warning: message{
		"less than <under> left; a third of its life, if it lives no longer than that", expirySummary,
		expiryText(Warning),
	},
	critical: message{"less than <under> left; a sixth of that life", expiryAlarm, expiryText(Critical)},
}

// The summaries have no advice: a message also says them of the alert when the certificate is renewed.
var (
	expirySummary = "The certificate of " + named("endpoint", "") + expires
	expiryAlarm   = "Clients {{ if gt $value 0.0 }}will soon {{ end }}refuse to connect to " + named("endpoint", "") + ": its certificate" + expires
)

const expires = " {{ if gt $value 0.0 }}expires on " + certificateEnds + ", in {{ humanizeDuration $value }}{{ else }}expired on " +
	certificateEnds + "{{ end }}."

const certificateEnds = "{{ range query (printf `time() + %f` $value) }}{{ (toTime .Value).Format `2006-01-02 15:04` }} UTC{{ end }}"

// endSources say where the certificate that expires first was found.
var endSources = "{{ $ends := printf `min by (source) (chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=%q," +
	sameEnvironment + "})` $labels.endpoint " + sameEnvironmentArgs +
	" }}{{ range $i, $c := query (printf `%s == scalar(min(%s))` $ends $ends) | sortByLabel \"source\" }}{{ if $i }}, " +
	"{{ end }}{{ with $c.Labels.source }}{{ if eq . \"file\" }}the one in the file{{ else if eq . \"verified_chain\" }}one of its authorities'" +
	"{{ else }}the one that the server sends{{ end }}{{ end }}{{ else }}unknown{{ end }}"

// expiryText names the limit of the endpoint's certificate, such as "2d". An older exporter does not export it.
func expiryText(severity string) string {
	limit := ask(`max(chatstack_tls_certificate_expiry_limit_seconds{severity="`+severity+`",endpoint=%q,ENV})`, "$labels.endpoint")
	return "{{ if gt $value 0.0 }}Less than {{ range " + limit + " }}{{ humanizeDuration .Value | reReplaceAll `( 0[hms])+$` `` }}{{ else }}<under>" +
		"{{ end }} are left. Once it has expired, clients refuse to connect.{{ else }}Clients have refused to connect since then.{{ end }} " +
		"First look at the certificate's file: if it has been renewed, reload the server; if not, renew it." + alsoServed + " The certificate is " + endSources + "."
}

// alsoServed are the other endpoints with the same certificate, whose alerts are held back.
const alsoServed = "{{ with query (printf `max by (name) (chatstack_excuse_info{kind=\"target\",reason=\"certificate\",cause=%q," +
	"name!=%q," + sameEnvironment + "})` $labels.endpoint $labels.endpoint " + sameEnvironmentArgs + ") | sortByLabel \"name\" }}" +
	" Others with the same certificate:{{ range $i, $e := . }}{{ if $i }},{{ end }} {{ $e.Labels.name }}{{ end }}.{{ end }}"

// expiryExpr compares with the limit of the endpoint's certificate, or with the rule's, since an older exporter has none of its own.
func expiryExpr(a *config.Alerts, t *alert) string {
	own := acrossExporters("max",
		fmt.Sprintf("last_over_time(chatstack_tls_certificate_expiry_limit_seconds{severity=%q}[%s])", t.severity, seconds(a.SlowLookback)),
		[]string{"severity"}, "endpoint")
	return fmt.Sprintf("%s - time() < (%s or 0 * %[1]s + %[3]s)", certificateEnd, own, number(t.Under.Std().Seconds()))
}

// certificateTrials test the exact limit separately, since the remaining time decreases with each round.
func certificateTrials(a *config.Alerts, t *alert) []trial {
	under := t.Under.Std().Seconds()
	s := newSubject(a, t, "tls_certificate_not_after_timestamp_seconds", map[string]string{"endpoint": "x", "source": "leaf"}, 0)
	s.good, s.bad, s.lookback = 1e10, under*0.995, a.SlowLookback
	s.heldBackBy(a, "tls_certificate_excused", lost).labels = map[string]string{"endpoint": "x"}
	chain := map[string]string{"endpoint": "x", "source": "verified_chain"}
	trials := append(s.trials(), expiryLimitTrials(a, t, s, under)...)
	return append(append(trials, heldCertificateTrials(a, s)...),
		try("the limit is reached", s.series(0, steady(s.pace.time(rise)+under)...), check{rise, false}, check{rise + 1, true}),
		try("the limit is passed", s.series(0, steady(s.pace.time(rise)+under*0.995)...), check{rise, true}),
		try("it has expired", s.series(0, steady(-1)...), check{rise, true}),
		try("one certificate of the chain expires", append(s.series(0, steady(s.good)...), from(0, s.name, chain, steady(s.bad)...)),
			check{rise, true}),
		try("the whole chain expires", append(s.series(0, steady(s.bad)...), from(0, s.name, chain, steady(s.bad)...)), check{rise, true}))
}

// heldCertificateTrials have a certificate that no reading sees any more, while something held it back, or long after that.
func heldCertificateTrials(a *config.Alerts, s *subject) []trial {
	lostAt := func(until int, at ...step) []input {
		return append(s.series(0, append([]step{{value: s.bad}}, at...)...), from(0, "chatstack_tls_certificate_excused",
			map[string]string{"endpoint": "x"}, step{value: 1}, step{from: until, value: lost}))
	}
	// The certificate is seen for longer than its excuse from this round on. Steps of a minute would find it in every other round.
	released := func(until int) int { return until - 1 + s.pace.ceil(a.Lookback) }
	forgotten := rise - 1 + s.pace.within(a.SlowLookback)
	return []trial{
		try("it is held back when it is lost", lostAt(rise, step{from: rise, value: lost}),
			check{rise, false}, check{released(rise), false}, check{forgotten, false}),
		try("it was held back before it is lost", lostAt(rise, step{from: released(rise) + 1, value: lost}),
			check{released(rise) - 1, false}, check{released(rise), true}, check{forgotten, true}),
		try("it is not held back any more", lostAt(rise+1), check{released(rise+1) - 1, false}, check{released(rise + 1), true}),
	}
}

// expiryLimitTrials have exporters that know the limit of the endpoint's certificate, which counts instead of the rule's.
func expiryLimitTrials(a *config.Alerts, t *alert, s *subject, under float64) []trial {
	limit := func(exporter int, endpoint, severity string, steps ...step) input {
		return from(exporter, "chatstack_tls_certificate_expiry_limit_seconds",
			map[string]string{"endpoint": endpoint, "severity": severity}, steps...)
	}
	keep := s.pace.ceil(s.keep)
	// many is more than the rule's limit until all trials have ended.
	end := s.pace.time(rise + s.pace.beyond(a.SlowLookback) + keep + 2)
	many := steady(end + under*1.01)
	lower, part, higher := end*0.5, (end+under)*0.6, (end+under)*2
	with := func(certificate []step, more ...input) []input { return append(s.series(0, certificate...), more...) }
	own := func(value float64) input { return limit(0, "x", t.severity, steady(value)...) }
	return []trial{
		try("its limit is lower", with(steady(under*0.99), own(under*0.5)), check{0, false}),
		try("its limit is lower and reached", with(steady(under*0.49), own(under*0.5)), check{0, true}),
		try("its limit is higher", with(many, own(higher)), check{0, true}, check{rise, true}),
		try("its limit is higher and not reached", with(steady(1e10), own(higher)), check{rise, false}),
		try("its other severity has another limit", with(many, limit(0, "x", otherSeverity[t.severity], steady(higher)...)),
			check{0, false}, check{rise, false}),
		try("another endpoint has another limit", with(many, limit(0, "y", t.severity, steady(higher)...)),
			check{0, false}, check{rise, false}),
		try("one of two exporters has a higher limit", with(many, own(lower), limit(1, "x", t.severity, steady(higher)...)),
			check{0, true}, check{rise, true}),
		try("both exporters have the same limit", with(many, own(part), limit(1, "x", t.severity, steady(part)...)),
			check{0, false}, check{rise, false}),
		try("one of two exporters has no limit", slices.Concat(s.series(0, many...), s.series(1, many...), []input{own(higher)}),
			check{0, true}, check{rise, true}),
		try("its limit falls", with(many, limit(0, "x", t.severity, step{value: higher}, step{from: rise, value: lower})),
			check{rise - 1, true}, check{rise + keep, false}),
		try("its limit rises", with(many, limit(0, "x", t.severity, step{value: lower}, step{from: rise, value: higher})),
			check{rise - 1, false}, check{rise, true}),
		try("its limit is lost", with(many, limit(0, "x", t.severity, step{value: higher}, step{from: rise, value: lost})),
			append([]check{{rise - 1 + s.pace.within(a.SlowLookback), true}}, t.forgotten(rise, keep, a.SlowLookback, true)...)...),
	}
}

var tlsChainInvalid = row{
	name:      health.AlertChainInvalid,
	AlertKind: flat("tls_chain_invalid", 2*minute, 5*minute),
	judged:    &health.Rule{Apart: true, Excuses: []health.Excuser{health.ByServer}},
	evidence:  problem,
	inOutage:  true,
	page:      Words{"its certificate does not verify", "Its authority, name or date is wrong. Clients refuse it too, unless they pin it."},
	panels:    []string{"tls-disks/Certificate verifies"},
	warning: message{
		"", "The certificate of " + named("target", "") + " fails verification.",
		"Its authority, its name or its date is wrong, or it is not the pinned one. Clients refuse it too, unless they pin it." + openPage,
	},
}

var tlsServedNotRenewed = row{
	name: health.AlertServedNotRenewed,
	AlertKind: kind("tls_served_not_renewed",
		config.Keys("warning", "for", "keep_firing_for", "critical", "under", "for", "keep_firing_for"),
		config.AlertSettings{Warning: lasting(hour, 0), Critical: config.Level{Under: 3 * day, For: 15 * minute}},
		func(c *config.AlertCheck) { c.AtLeast("critical.under", c.Critical.Under, second, "") }),
	judged:   &health.Rule{Apart: true, Excuses: []health.Excuser{health.ByMaintenance}},
	evidence: problem,
	ahead:    true,
	page:     Words{"does not serve the certificate in its file", "Make the server reload its certificate."},
	panels:   []string{"tls-disks/Serves the certificate in its file"},
	warning: message{
		"", aTarget + " does not serve the certificate in its file.",
		"The file has held another certificate for over <for>. If it was renewed, reload the server; " +
			"the target's notes say more." + openPage,
	},
	critical: message{
		"<after>, with less than <under> left",
		aTarget + " serves an expiring certificate, not the one in its file.",
		"It expires in less than <under>; then clients refuse to connect. The file holds another certificate. If it was renewed, " +
			"reload the server; the target's notes say more." + openPage,
	},
}
