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

// row is a row of the table of thresholds, with the subject that it shows: the worst problem's, and of several, the one nearest to the
// limit or farthest beyond it.
type row struct {
	Threshold
	lasts, oneLevel bool // the number is a duration; only critical
	// includes selects the containers that the row is about; nil selects all.
	includes func(s health.Subject) bool
	// within is in which time events count; "" for what is no event.
	within string
	// warning and critical are the limits of the subject, on which those of certificates depend.
	warning, critical float64
	problem           *Problem // of the subject; nil if there is none
}

func (r *row) problemLevel() Level {
	if r.problem == nil {
		return OK
	}
	return r.problem.Level()
}

// isWorse reports whether r must be shown instead of o.
func (r *row) isWorse(o *row) bool {
	switch {
	case o.Subject == "" || r.problemLevel() > o.problemLevel():
		return true
	case r.problemLevel() < o.problemLevel() || o.Present != nil && r.Present == nil:
		return false
	case o.Present == nil:
		return true
	}
	over, before := *r.Present-r.warning, *o.Present-o.warning
	if over == before {
		return r.Subject < o.Subject
	}
	return (over > before) != r.Below
}

// add lets the row show a subject, unless it shows a worse one.
func (r *row) add(j *judged, s health.Subject, value *float64, warning, critical float64) {
	if r.includes != nil && !r.includes(s) {
		return
	}
	o := *r
	o.Subject, o.Present, o.warning, o.critical, o.problem = s.Name, value, warning, critical, nil
	for _, p := range j.bySubject[s] {
		if p.Alert == r.Alert {
			o.problem = p
		}
	}
	if o.isWorse(r) {
		*r = o
	}
}

// measure finds the subject that the row shows. Rows about durations ignore excused problems.
func (r *row) measure(j *judged) {
	warning, critical := r.warning, r.critical
	for i := range j.problems {
		p := &j.problems[i]
		_, measured := j.value(&p.Problem)
		switch {
		case p.Alert != r.Alert:
		case r.lasts && !p.Excuse.Holds():
			r.add(j, p.Subject, new(math.Trunc(p.Lasted)), warning, critical)
		case !r.lasts && !measured:
			r.add(j, p.Subject, nil, warning, critical)
		}
	}
	for s, values := range j.values {
		for _, v := range values {
			switch value := math.Trunc(v.Number*1e6) / 1e6; {
			case v.Alert != r.Alert:
			case v.Warning > 0:
				r.add(j, s, &value, v.Warning, v.Critical)
			default:
				r.add(j, s, &value, warning, critical)
			}
		}
	}
}

// threshold returns the row with its present value.
func (r *row) threshold(j *judged) Threshold {
	gauge := alerts.GaugeOf(r.Alert)
	warning, critical := alerts.Limits(&j.Alerts, r.Alert)
	r.warning, r.critical = gauge.Number(warning), gauge.Number(critical)
	r.Unit, r.Below, r.lasts, r.Text = gauge.Unit, gauge.Below, gauge.Lasts, cmp.Or(r.Text, gauge.Unknown)
	if r.oneLevel {
		r.warning = 0
	}
	r.measure(j)
	if r.Subject == "" && (r.lasts || r.within != "") {
		r.Present = new(0.0)
	}
	r.Level, r.Critical = Unknown, &r.critical
	if !r.oneLevel {
		r.Warning = &r.warning
	}
	if r.Present != nil {
		r.Level = OK
	}
	if r.problem != nil {
		r.Level, r.Since = r.problemLevel(), r.problem.Since
		if r.Level == Pending {
			r.Level, r.Pending = OK, true
		}
	}
	if r.Present != nil {
		r.describe()
	}
	return r.Threshold
}

// describe adds how far the present value is from the next threshold, and the text.
func (r *row) describe() {
	next, limit, why := "critical", r.critical, ""
	if r.problem != nil && neverUp(&r.problem.Problem) {
		why = ", since it was never seen up"
	} else if !r.oneLevel && r.Level < Warning && (r.warning > 0 || !r.lasts) {
		next, limit = "warning", r.warning
	}
	distance := limit - *r.Present
	if r.Below {
		distance = -distance
	}
	r.Distance = &distance
	amount := func(v float64) string { return wording.Amount(v, r.Unit) }
	switch {
	case r.problem != nil && r.problem.Outages > 0:
		r.Text = plainText(&r.problem.Problem)
	case r.Pending && r.lasts:
		r.Text = fmt.Sprintf("%s, no alert yet; it alerts after %s%s", amount(*r.Present), amount(limit), why)
	case r.Pending:
		r.Text = fmt.Sprintf("%s, over the limit for %s; no alert yet", amount(*r.Present), wording.Exact(r.problem.Problem.Lasted))
	case r.Subject == "" && r.within != "":
		r.Text = "none" + r.within
	case r.Subject == "":
	case r.within != "":
		r.Text = wording.Times(*r.Present) + r.within
	case r.Below && *r.Present < 0:
		r.Text = "expired " + amount(-*r.Present) + " ago"
	case r.Below && r.Level == Critical:
		r.Text = amount(*r.Present) + " left, under the critical " + amount(*r.Critical)
	case r.Below:
		r.Text = fmt.Sprintf("%s left, %s from %s", amount(*r.Present), amount(distance), next)
	case r.Level == Critical:
		r.Text = amount(*r.Present) + ", over the critical " + amount(*r.Critical)
	default:
		r.Text = fmt.Sprintf("%s, %s from %s", amount(*r.Present), amount(distance), next)
	}
}

const noXMPP = "the memory of a container with the role xmpp is unknown"

// thresholds returns the table of thresholds with its present values.
func (m *memory) thresholds(j *judged) []Threshold {
	isXMPP := func(s health.Subject) bool { return m.containers[s] != nil && m.containers[s].last.Role == "xmpp" }
	isOther := func(s health.Subject) bool { return !isXMPP(s) }
	var rows []row
	for _, alert := range alerts.Gauged() {
		r, gauge := row{Threshold: Threshold{Alert: alert}}, alerts.GaugeOf(alert)
		switch {
		case gauge.Events:
			r.within = j.within(alert)
		case gauge.XMPPApart:
			xmpp := r
			xmpp.Text, xmpp.includes = noXMPP, isXMPP
			rows = append(rows, xmpp)
			r.includes, r.oneLevel = isOther, true
		case alert == health.AlertAuthFailureRate:
			r.Text = whyNoLogins(j)
		}
		rows = append(rows, r)
	}
	why := "no Docker Engine is configured, so containers are not watched"
	if slices.ContainsFunc(j.Snapshot.Statuses, func(t poll.Status) bool { return t.Engine != nil }) {
		why = "no Docker Engine answers, so the containers' state is unknown"
	}
	list := make([]Threshold, len(rows))
	for i := range rows {
		list[i] = rows[i].threshold(j)
		if t := &list[i]; len(j.containers) == 0 && t.Subject == "" && alerts.GaugeOf(t.Alert).Containers {
			t.unmeasured(why)
		}
	}
	return list
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
