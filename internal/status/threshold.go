package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// row is a row of the table of thresholds.
type row struct {
	alert    string
	gauge    alerts.Gauge
	oneLevel bool // only critical
	// includes selects the containers that the row is about; nil selects all.
	includes func(s health.Subject) bool
	// none is the text without any value, instead of the gauge's. within is in which time events count; "" for what is no event.
	none, within string

	measured
}

// measured is the subject that a row shows: the worst problem's, and of several, the one nearest to the limit or farthest beyond it.
type measured struct {
	name    string
	value   *float64
	problem *Problem // nil if there is none
	// warning and critical are its limits, which those of certificates depend on.
	warning, critical float64
}

func (m *measured) level() Level {
	if m.problem == nil {
		return OK
	}
	return m.problem.Level()
}

// isWorse reports whether the row must show m instead of o.
func (r *row) isWorse(m, o *measured) bool {
	switch {
	case o.name == "" || m.level() > o.level():
		return true
	case m.level() < o.level() || o.value != nil && m.value == nil:
		return false
	case o.value == nil:
		return true
	}
	over, before := *m.value-m.warning, *o.value-o.warning
	if over == before {
		return m.name < o.name
	}
	return (over > before) != r.gauge.Below
}

// add lets the row show a subject, unless it shows a worse one.
func (r *row) add(j *judged, s health.Subject, value *float64, warning, critical float64) {
	if r.includes != nil && !r.includes(s) {
		return
	}
	m := measured{
		name:     s.Name,
		value:    value,
		warning:  warning,
		critical: critical,
	}
	for _, p := range j.bySubject[s] {
		if p.Alert == r.alert {
			m.problem = p
		}
	}
	if r.isWorse(&m, &r.measured) {
		r.measured = m
	}
}

// measure finds the subject that the row shows. Rows about durations ignore excused problems.
func (r *row) measure(j *judged) {
	warning, critical := r.warning, r.critical
	for i := range j.problems {
		p := &j.problems[i]
		_, measured := j.value(&p.Problem)
		switch {
		case p.Alert != r.alert:
		case r.gauge.Lasts && !p.Excuse.Holds():
			r.add(j, p.Subject, new(math.Trunc(p.Lasted)), warning, critical)
		case !r.gauge.Lasts && !measured:
			r.add(j, p.Subject, nil, warning, critical)
		}
	}
	for _, v := range j.values {
		switch value := new(math.Trunc(v.Number*1e6) / 1e6); {
		case v.Alert != r.alert:
		case v.Warning > 0:
			r.add(j, v.Subject, value, v.Warning, v.Critical)
		default:
			r.add(j, v.Subject, value, warning, critical)
		}
	}
}

// threshold returns the row with its present value.
func (r *row) threshold(j *judged) Threshold {
	warning, critical := alerts.Limits(&j.Alerts, r.alert)
	r.gauge = alerts.GaugeOf(r.alert)
	r.warning, r.critical = r.gauge.Number(warning), r.gauge.Number(critical)
	if r.oneLevel {
		r.warning = 0
	}
	r.measure(j)
	if r.name == "" && (r.gauge.Lasts || r.within != "") {
		r.value = new(0.0)
	}
	t := Threshold{
		Alert:    r.alert,
		Unit:     r.gauge.Unit,
		Critical: &r.critical,
		Below:    r.gauge.Below,
		Level:    Unknown,
		Text:     cmp.Or(r.none, r.gauge.Unknown),
		Subject:  r.name,
		Present:  r.value,
	}
	if !r.oneLevel {
		t.Warning = &r.warning
	}
	if t.Present != nil {
		t.Level = OK
	}
	if r.problem != nil {
		t.Level, t.Since = r.level(), r.problem.Since
		if t.Level == Pending {
			t.Level, t.Pending = OK, true
		}
	}
	if t.Present != nil {
		r.describe(&t)
	}
	return t
}

// describe adds how far the present value is from the next threshold, and the text.
func (r *row) describe(t *Threshold) {
	next, limit, why := "critical", r.critical, ""
	if r.problem != nil && neverUp(&r.problem.Problem) {
		why = ", since it was never seen up"
	} else if !r.oneLevel && t.Level < Warning && (r.warning > 0 || !r.gauge.Lasts) {
		next, limit = "warning", r.warning
	}
	distance := limit - *t.Present
	if r.gauge.Below {
		distance = -distance
	}
	t.Distance = &distance
	amount := func(v float64) string { return wording.Amount(v, t.Unit) }
	switch {
	case t.Pending && r.gauge.Lasts:
		t.Text = fmt.Sprintf("%s, no alert yet; it alerts after %s%s", amount(*t.Present), amount(limit), why)
	case t.Pending:
		t.Text = fmt.Sprintf("%s, over the limit for %s; no alert yet", amount(*t.Present), wording.Exact(r.problem.Problem.Lasted))
	case r.name == "" && r.within != "":
		t.Text = "none" + r.within
	case r.name == "":
	case r.within != "":
		t.Text = wording.Times(*t.Present) + r.within
	case t.Below && *t.Present < 0:
		t.Text = "expired " + amount(-*t.Present) + " ago"
	case t.Below && t.Level == Critical:
		t.Text = amount(*t.Present) + " left, under the critical " + amount(*t.Critical)
	case t.Below:
		t.Text = fmt.Sprintf("%s left, %s from %s", amount(*t.Present), amount(distance), next)
	case t.Level == Critical:
		t.Text = amount(*t.Present) + ", over the critical " + amount(*t.Critical)
	default:
		t.Text = fmt.Sprintf("%s, %s from %s", amount(*t.Present), amount(distance), next)
	}
}

// thresholds returns the table of thresholds with its present values.
func (m *memory) thresholds(j *judged) []Threshold {
	isXMPP := func(s health.Subject) bool { return m.containers[s] != nil && m.containers[s].last.Role == "xmpp" }
	isOther := func(s health.Subject) bool { return !isXMPP(s) }
	noXMPP := "the memory of a container with the role xmpp is unknown"
	rows := []row{
		{alert: health.AlertContainerUnhealthy},
		{alert: health.AlertAuthFailureRate, none: whyNoLogins(j)},
		{alert: health.AlertCertificateExpiry},
		{alert: health.AlertVolumeUsage},
		{alert: health.AlertContainerRestarts, within: j.within("container_restarts")},
		{alert: health.AlertContainerMemory, includes: isXMPP, none: noXMPP},
		{alert: health.AlertContainerMemory, includes: isOther, oneLevel: true},
		{alert: health.AlertContainerDown},
		{alert: health.AlertTargetDown},
	}
	why := "no Docker Engine is configured, so containers are not watched"
	if slices.ContainsFunc(j.Snapshot.Statuses, func(t poll.Status) bool { return t.Engine != nil }) {
		why = "no Docker Engine answers, so the containers' state is unknown"
	}
	list := make([]Threshold, len(rows))
	for i := range rows {
		list[i] = rows[i].threshold(j)
		if t := &list[i]; len(j.containers) == 0 && t.Subject == "" && slices.Contains(containerRows, t.Alert) {
			t.unmeasured(why)
		}
	}
	return list
}

var containerRows = []string{
	health.AlertContainerUnhealthy, health.AlertContainerRestarts, health.AlertContainerMemory, health.AlertContainerDown,
}

// whyNoLogins says why the rate of failed logins is unknown.
func whyNoLogins(j *judged) string {
	targets := j.Snapshot.Statuses
	i := slices.IndexFunc(targets, func(t poll.Status) bool {
		return slices.Contains(rowOf(t.Kind).ValueAlerts, health.AlertAuthFailureRate)
	})
	switch {
	case i < 0:
		return "no xmpp_metrics target is configured, so failed logins are not counted"
	case !targets[i].Known || !targets[i].Up:
		return targets[i].Target + " is not up, so failed logins are not counted"
	case slices.ContainsFunc(j.problems, func(p Problem) bool { return p.Alert == health.AlertAuthSourceMissing }):
		return "nothing counts the XMPP server's failed logins: load the module from deploy/prosody, or set auth_failure_log"
	}
	return "a rate needs two probes"
}
