package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// row is a row of the table of thresholds.
type row struct {
	alert string
	alerts.Gauge
	warning, critical float64
	oneLevel          bool // only critical
	// includes selects the containers that the row is about; nil selects all.
	includes func(s health.Subject) bool
	// emptyText is the text without any value, instead of the gauge's.
	emptyText string
}

// limits are the thresholds of an alert on a number; nil for none.
type limits struct {
	alert             string
	warning, critical *float64
}

// limitsOf returns the thresholds of an alert on a charted number.
func limitsOf(a *config.Alerts, alert string) limits {
	warning, critical := alerts.Limits(a, alert)
	return limits{alert, &warning.Over, &critical.Over}
}

// worst is the subject that a row shows: the worst problem's, and of several, the one nearest to the limit or farthest beyond it.
type worst struct {
	name    string
	value   *float64
	level   Level
	problem *health.Problem
	// warning and critical are its limits, which those of certificates depend on.
	warning, critical float64
}

// replaceIfWorse sets w to o if o is worse.
func (w *worst) replaceIfWorse(o worst, below bool) {
	better := func() bool {
		switch {
		case w.value == nil || o.value == nil:
			return w.value == nil
		case *w.value-w.warning == *o.value-o.warning:
			return o.name < w.name
		}
		return (*o.value-o.warning > *w.value-w.warning) != below
	}
	if w.name == "" || o.level > w.level || o.level == w.level && better() {
		*w = o
	}
}

// worst finds the subject that the row shows. Rows about durations ignore excused problems.
func (r *row) worst(j *judged) (w worst) {
	limited := func(s health.Subject, value *float64, warning, critical float64) {
		if r.includes != nil && !r.includes(s) {
			return
		}
		o := worst{
			name:     s.Name,
			value:    value,
			warning:  warning,
			critical: critical,
		}
		for _, i := range j.bySubject[s] {
			if p := &j.problems[i].Problem; p.Alert == r.alert {
				o.level, o.problem = levelOf(p), p
			}
		}
		w.replaceIfWorse(o, r.Below)
	}
	add := func(s health.Subject, value *float64) { limited(s, value, r.warning, r.critical) }
	for i := range j.problems {
		p := &j.problems[i].Problem
		_, measured := j.value(p)
		switch {
		case p.Alert != r.alert:
		case r.Lasts && !p.Excuse.Holds():
			add(p.Subject, new(math.Trunc(p.Lasted.Seconds())))
		case !r.Lasts && !measured && r.alert != health.AlertContainerRestarts:
			add(p.Subject, nil)
		}
	}
	for _, v := range j.Values {
		switch value := new(math.Trunc(v.Number*1e6) / 1e6); {
		case v.Alert != r.alert:
		case v.Warning > 0:
			limited(v.Subject, value, v.Warning, v.Critical)
		default:
			add(v.Subject, value)
		}
	}
	if r.alert == health.AlertContainerRestarts {
		for s, v := range j.Verdicts {
			if v.RecentRestarts > 0 {
				add(s, new(float64(v.RecentRestarts)))
			}
		}
	}
	return w
}

// setLimits takes what the row compares from the row of its alert.
func (r *row) setLimits(a *config.Alerts) {
	warning, critical := alerts.Limits(a, r.alert)
	r.Gauge = alerts.GaugeOf(r.alert)
	r.warning, r.critical = r.Number(warning), r.Number(critical)
	r.emptyText = cmp.Or(r.emptyText, r.Unknown)
	if r.oneLevel {
		r.warning = 0
	}
}

// threshold returns the row with its present value.
func (r *row) threshold(j *judged) Threshold {
	w := r.worst(j)
	if w.name == "" {
		w.warning, w.critical = r.warning, r.critical
	}
	t := Threshold{
		Alert:    r.alert,
		Unit:     r.Unit,
		Critical: &w.critical,
		Below:    r.Below,
		Level:    Unknown,
		Text:     r.emptyText,
		Subject:  w.name,
		Present:  w.value,
	}
	if !r.oneLevel {
		t.Warning = &w.warning
	}
	if w.name == "" && (r.Lasts || r.alert == health.AlertContainerRestarts) {
		t.Present = new(0.0)
	}
	if t.Present != nil {
		t.Level = OK
	}
	if w.problem != nil {
		t.Level, t.Since = w.level, w.problem.Since
		if w.level == Pending {
			t.Level, t.Pending = OK, true
		}
	}
	if t.Present == nil {
		return t
	}
	limit, why := w.critical, ""
	if w.problem != nil && neverUp(w.problem) {
		why = ", since it was never seen up"
	} else if !r.oneLevel && t.Level < Warning && (w.warning > 0 || !r.Lasts) {
		limit = w.warning
	}
	distance := limit - *t.Present
	if r.Below {
		distance = -distance
	}
	t.Distance = &distance
	switch {
	case t.Pending && r.Lasts:
		t.Text = fmt.Sprintf("%s, no alert yet; it alerts after %s%s",
			wording.Amount(*t.Present, r.Unit), wording.Amount(limit, r.Unit), why)
	case t.Pending:
		t.Text = fmt.Sprintf("%s, over the limit for %s; no alert yet", wording.Amount(*t.Present, r.Unit), wording.Exact(w.problem.Lasted))
	case w.name != "" && r.alert != health.AlertContainerRestarts:
		t.Text = r.text(&t)
	case w.name != "":
		t.Text = wording.Times(*t.Present) + " within " + r.emptyText
	case r.alert == health.AlertContainerRestarts:
		t.Text = "none within " + r.emptyText
	}
	return t
}

// text returns the value and its distance from the next threshold.
func (r *row) text(t *Threshold) string {
	text := wording.Amount(*t.Present, r.Unit)
	switch {
	case r.Below && *t.Present < 0:
		return "expired " + wording.Amount(-*t.Present, r.Unit) + " ago"
	case r.Below:
		text += " left"
	}
	switch {
	case t.Level == Critical && r.Below:
		text += ", under the critical " + wording.Amount(*t.Critical, r.Unit)
	case t.Level == Critical:
		text += ", over the critical " + wording.Amount(*t.Critical, r.Unit)
	case t.Level == Warning || r.oneLevel:
		text += fmt.Sprintf(", %s from critical", wording.Amount(*t.Distance, r.Unit))
	default:
		text += fmt.Sprintf(", %s from warning", wording.Amount(*t.Distance, r.Unit))
	}
	return text
}

const (
	noEngine     = "no Docker Engine is configured, so containers are not watched"
	engineSilent = "no Docker Engine answers, so the containers' state is unknown"
)

// thresholds returns the table of thresholds with its present values.
func thresholds(in *Input, containers []Container, all *fleet, j *judged, targets []poll.Status) []Threshold {
	a := &in.Alerts
	xmpp := map[health.Subject]bool{}
	for i := range containers {
		if c := &containers[i]; c.Role == "xmpp" {
			xmpp[health.ContainerSubject(c.DockerHost, c.Name)] = true
		}
	}
	rows := []row{
		{alert: health.AlertContainerUnhealthy},
		{alert: health.AlertAuthFailureRate, emptyText: whyNoLogins(j, targets)},
		{alert: health.AlertCertificateExpiry},
		{alert: health.AlertVolumeUsage},
		{alert: health.AlertContainerRestarts, emptyText: wording.Exact(a.Of("container_restarts").Window.Std())},
		{
			alert:     health.AlertContainerMemory,
			includes:  func(s health.Subject) bool { return xmpp[s] },
			emptyText: "the memory of a container with the role xmpp is unknown",
		},
		{alert: health.AlertContainerMemory, includes: func(s health.Subject) bool { return !xmpp[s] }, oneLevel: true},
		{alert: health.AlertContainerDown},
		{alert: health.AlertTargetDown},
	}
	list := make([]Threshold, len(rows))
	for i := range rows {
		r := &rows[i]
		r.setLimits(a)
		list[i] = r.threshold(j)
		if len(all.containers) == 0 && list[i].Subject == "" && slices.Contains(containerRows, r.alert) {
			list[i].Present, list[i].Distance, list[i].Level, list[i].Text = nil, nil, Unknown, engineSilent
			if all.engines == 0 {
				list[i].Text = noEngine
			}
		}
	}
	return list
}

var containerRows = []string{
	health.AlertContainerUnhealthy, health.AlertContainerRestarts, health.AlertContainerMemory, health.AlertContainerDown,
}

// whyNoLogins says why the rate of failed logins is unknown.
func whyNoLogins(j *judged, targets []poll.Status) string {
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
