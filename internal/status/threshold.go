package status

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// row is a threshold before it is compared.
type row struct {
	alert, unit       string
	warning, critical float64
	oneLevel          bool // there is no warning
	below             bool
	// from says that a threshold is passed at its value, as one of time is, not above it.
	from bool
}

// compare makes the row of a present value. Subject is what it is of; what the text says of it is left to the caller
// where it is not empty.
func (r row) compare(subject string, present float64, text string) Threshold {
	t := r.unknown("")
	t.Subject, t.Present, t.Level = subject, &present, OK
	passed := func(limit float64) bool {
		if r.below {
			return present < limit
		}
		return present > limit || r.from && present == limit && limit > 0
	}
	left := func(limit float64) *float64 {
		d := limit - present
		if r.below {
			d = present - limit
		}
		return &d
	}
	switch {
	case passed(r.critical):
		t.Level, t.Distance = Critical, left(r.critical)
	case !r.oneLevel && passed(r.warning):
		t.Level, t.Distance = Warning, left(r.critical)
	case r.oneLevel:
		t.Distance = left(r.critical)
	default:
		t.Distance = left(r.warning)
	}
	if t.Text = text; text == "" {
		t.Text = r.text(&t)
	}
	return t
}

// text tells the value and the distance.
func (r row) text(t *Threshold) string {
	text := valueText(*t.Present, r.unit)
	if r.below {
		text += " left"
	}
	switch next := map[Level]string{OK: "warning", Warning: "critical"}[t.Level]; {
	case t.Level == Critical && r.below:
		text += ", under the critical " + valueText(r.critical, r.unit)
	case t.Level == Critical:
		text += ", over the critical " + valueText(r.critical, r.unit)
	case r.oneLevel:
		text += fmt.Sprintf(", %s from critical", valueText(*t.Distance, r.unit))
	default:
		text += fmt.Sprintf(", %s from %s", valueText(*t.Distance, r.unit), next)
	}
	return text
}

// unknown is the row where nothing is measured.
func (r row) unknown(why string) Threshold {
	t := Threshold{Alert: r.alert, Unit: r.unit, Critical: &r.critical, Below: r.below, Level: Unknown, Text: why}
	if !r.oneLevel {
		t.Warning = &r.warning
	}
	return t
}

const (
	noEngine     = "no Docker Engine is configured, so nobody watches containers"
	engineSilent = "no Docker Engine answers, so nothing is known of containers"
)

// thresholds are the operators' table with its present values.
func (m *memory) thresholds(in *Input, r *Report, all *fleet, targets []observed, now time.Time) []Threshold {
	a := in.Alerts
	counted := slices.DeleteFunc(slices.Clone(targets), func(t observed) bool {
		return excuse(in.Maintenance, config.MaintenanceTarget, t.Target, t.Container) != ""
	})
	list := m.containerThresholds(in, all, now)
	// The order of the operators' table.
	list = slices.Insert(list, 1, m.authThreshold(in, targets, now), certificateThreshold(a, counted, now), volumeThreshold(a, counted))
	var longest worst
	for _, s := range r.Services {
		lasts := now.Sub(s.Since).Seconds()
		if s.State == down && s.Level > Maintenance && all.cause(s.Container) == "" && (!longest.known || lasts > longest.value) {
			longest = worst{s.Name, lasts, true}
		}
	}
	targetDown := row{alert: "TargetDown", unit: "seconds", warning: a.TargetDown.Warning.For.Std().Seconds(), critical: a.TargetDown.Critical.For.Std().Seconds(), from: true}
	list = append(list, targetDown.lasting(longest, "no target is down of itself"))
	for i := range list {
		if lasted, ok := m.holds.hold(fmt.Sprintf("row/%d", i), list[i].Level > Unknown, now); ok {
			list[i].Since = now.Add(-lasted)
		}
	}
	return list
}

// lasting is a row of how many seconds something has lasted. It has not begun where an engine's clock is ahead of ours.
func (r row) lasting(w worst, calm string) Threshold {
	if !w.known || w.value < 0 {
		t := r.compare("", 0, calm)
		t.Level = OK
		return t
	}
	t := r.compare(w.name, math.Trunc(w.value), "")
	if t.Level == OK {
		next := r.warning
		if r.oneLevel || next <= 0 {
			next = r.critical
		}
		t.Pending = true
		t.Text = fmt.Sprintf("%s, no alert yet; it counts after %s", valueText(*t.Present, r.unit), valueText(next, r.unit))
	}
	return t
}

// worst is the container of which a row tells.
type worst struct {
	name  string
	value float64
	known bool
}

func (w *worst) take(name string, v float64) {
	if !w.known || v > w.value || v == w.value && name < w.name {
		*w = worst{name, v, true}
	}
}

// worstContainers are those of the rows about containers.
type worstContainers struct{ unhealthy, restarts, xmpp, memory, stopped worst }

func (m *memory) worstContainers(a config.Alerts, all *fleet, now time.Time) (w worstContainers) {
	for p, f := range all.facts {
		past := m.containers[p]
		if past == nil || f.maintained {
			continue
		}
		switch {
		case f.measured && f.role == "xmpp":
			w.xmpp.take(p.name, f.memory)
		case f.measured:
			w.memory.take(p.name, f.memory)
		}
		if f.health == unhealthy && !past.justExcused(a, now) {
			w.unhealthy.take(p.name, now.Sub(past.badSince).Seconds())
		}
		if n := past.restarts.within(); n > 0 {
			w.restarts.take(p.name, n)
		}
		if !past.stoppedSince.IsZero() {
			w.stopped.take(p.name, now.Sub(past.stoppedSince).Seconds())
		}
	}
	return w
}

// containerThresholds are the rows about containers: unhealthy, restarts, memory twice, down.
func (m *memory) containerThresholds(in *Input, all *fleet, now time.Time) []Threshold {
	a := in.Alerts
	rows := []row{
		{alert: "ContainerUnhealthy", unit: "seconds", critical: a.ContainerUnhealthy.Critical.After.Std().Seconds()},
		{alert: "ContainerRestarts", warning: float64(a.ContainerRestarts.Warning.Over), critical: float64(a.ContainerRestarts.Critical.Over)},
		{alert: "ContainerMemory", unit: "bytes", warning: float64(a.ContainerMemory.Warning.Over), critical: float64(a.ContainerMemory.Critical.Over)},
		{alert: "ContainerMemory", unit: "bytes", critical: float64(a.ContainerMemory.Critical.Over), oneLevel: true},
		{alert: "ContainerDown", unit: "seconds", warning: a.ContainerDown.Warning.For.Std().Seconds(), critical: a.ContainerDown.Critical.For.Std().Seconds(), from: true},
	}
	list := make([]Threshold, len(rows))
	if len(all.facts) == 0 {
		why := engineSilent
		if all.engines == 0 {
			why = noEngine
		}
		for i := range rows {
			list[i] = rows[i].unknown(why)
		}
		return list
	}
	w := m.worstContainers(a, all, now)
	list[0] = rows[0].lasting(w.unhealthy, "no container is unhealthy")
	if w.unhealthy.known && list[0].Level == OK {
		list[0].Level, list[0].Pending = Warning, false // at once
		list[0].Text = rows[0].text(&list[0])
	}
	counted := "none within "
	if w.restarts.known {
		counted = times(w.restarts.value) + " within "
	}
	list[1] = rows[1].compare(w.restarts.name, w.restarts.value, counted+ago(a.ContainerRestarts.Window.Std()))
	list[2] = rows[2].ofAmount(w.xmpp, "no memory of a container with the role xmpp is known")
	list[3] = rows[3].ofAmount(w.memory, "no container's memory is known")
	list[4] = rows[4].lasting(w.stopped, "every container that should run does")
	return list
}

// ofAmount is a row of a number.
func (r row) ofAmount(w worst, why string) Threshold {
	if !w.known {
		return r.unknown(why)
	}
	return r.compare(w.name, w.value, "")
}

// authThreshold is the row of failed logins. It is passed when the rate has been over it for as long as the alert waits.
func (m *memory) authThreshold(in *Input, targets []observed, now time.Time) Threshold {
	a := in.Alerts.XMPPAuthFailureRate
	r := row{alert: "XMPPAuthFailureRate", unit: "per_minute", warning: float64(a.Warning.Over), critical: float64(a.Critical.Over)}
	worst := r.unknown("no xmpp_metrics target is configured, so nobody counts failed logins")
	first := true
	for i := range targets {
		if targets[i].Kind != "xmpp_metrics" {
			continue
		}
		found := m.authOf(in, r, &targets[i], now)
		if first || weight(found.Level) > weight(worst.Level) ||
			found.Level == worst.Level && found.Present != nil && (worst.Present == nil || *found.Present > *worst.Present) {
			worst, first = found, false
		}
	}
	return worst
}

// weight is how bad a level is beside others of the same row: what is not known is told where nothing else is.
func weight(l Level) int {
	if l == Unknown {
		return -1
	}
	return int(l)
}

// authOf is the row of failed logins as one target tells it. What is not known for a moment, since a reading failed, is
// over the threshold for as long as the rule would look back.
func (m *memory) authOf(in *Input, r row, t *observed, now time.Time) Threshold {
	a := in.Alerts.XMPPAuthFailureRate
	value, ok := m.authFailures(t, now, a.Window.Std())
	grace := in.Alerts.Lookback.Std() + a.Window.Std()
	over, isOver := m.holds.last("auth/"+t.Target+"/warning", ok, value > r.warning, grace, now)
	overCritical, isCritical := m.holds.last("auth/"+t.Target+"/critical", ok, value > r.critical, grace, now)
	var found Threshold
	switch {
	case ok:
		found = r.compare(t.Target, value, "")
		found.Level = OK
	case !t.Known || !t.Up:
		found = r.unknown(t.Target + " is not up, so nothing is known of failed logins")
	case len(t.families.of(authFailures)) == 0:
		found = r.unknown("the XMPP server has no source of failed logins; the README names those that there are")
	default:
		found = r.unknown("two readings are needed to know a rate")
	}
	switch {
	case isCritical && overCritical >= a.Critical.For.Std():
		found.Level = Critical
	case isOver && over >= a.Warning.For.Std():
		found.Level = Warning
	case isOver && ok:
		found.Pending = true
		found.Text = fmt.Sprintf("%s, over the threshold for %s; it counts after %s", valueText(value, r.unit), ago(over), ago(a.Warning.For.Std()))
	}
	if excuse(in.Maintenance, config.MaintenanceTarget, t.Target, t.Container) != "" && found.Level > Maintenance {
		found.Level = Maintenance
	}
	return found
}

// certificateThreshold is the row of the certificate that ends first.
func certificateThreshold(a config.Alerts, targets []observed, now time.Time) Threshold {
	e := a.TLSCertificateExpiry
	r := row{alert: "TLSCertificateExpiry", unit: "seconds", warning: e.Warning.Under.Std().Seconds(), critical: e.Critical.Under.Std().Seconds(), below: true}
	var first time.Time
	name := ""
	for i := range targets {
		if end := certificateEndOf(&targets[i]); !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first, name = end, targets[i].Target
		}
	}
	if first.IsZero() {
		return r.unknown("no certificate is known")
	}
	left := first.Sub(now)
	if left < 0 {
		return r.compare(name, left.Seconds(), "ended "+ago(-left)+" ago")
	}
	return r.compare(name, left.Truncate(time.Second).Seconds(), "")
}

// volumeThreshold is the row of the fullest volume.
func volumeThreshold(a config.Alerts, targets []observed) Threshold {
	r := row{
		alert: "DataVolumeUsage", unit: "ratio",
		warning: float64(a.DataVolumeUsage.Warning.Over) / 100, critical: float64(a.DataVolumeUsage.Critical.Over) / 100,
	}
	fullest, name := -1.0, ""
	for i := range targets {
		if used, ok := volumeUsage(&targets[i]); ok && used > fullest {
			fullest, name = used, targets[i].Target
		}
	}
	if name == "" {
		return r.unknown("no volume is configured or can be read")
	}
	return r.compare(name, fullest, "")
}
