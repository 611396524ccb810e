package health

import (
	"cmp"
	"time"
)

// Rules are what the judge knows of the settings. Whoever makes the judge has read them.
type Rules struct {
	// Lookback is how long what has ended still counts, SlowLookback how long a certificate does that no reading has seen since.
	Lookback, SlowLookback time.Duration
	// Alerts has what is known of each alert, by its name.
	Alerts map[string]*Rule
}

// Rule is when the alert on a problem fires, and what excuses it.
type Rule struct {
	Warning, Critical Limit
	// Window is how long events count.
	Window time.Duration
	// Pages says that a problem is critical, and a warning only for a target that only warns, or a container that somebody removed.
	Pages bool
	// Measured says that a condition has a value, which exceeds the limits; OwnSeries that rules compare the value itself.
	Measured, OwnSeries bool
	// ExcusedIn is the series that is 1 while maintenance holds back the alert on a value or on history.
	ExcusedIn string
	// Unsettles says that because of the problem of a container, what it serves may fail.
	Unsettles bool
	// Apart says that the problem is none of the target's server, whatever else is wrong with that.
	Apart bool
	// Own says that the judge itself checks the condition, not a reading.
	Own bool
	// BeginsAnew says that a condition which an excuse explained begins when the excuse ends. It has the whole hold to end, too.
	BeginsAnew bool
	// Excuses may explain that a condition holds: the first that does.
	Excuses []Excuser
	// Roles are the container roles that the alert is about, Ignore the modules whose errors are accepted.
	Roles, Ignore []string
}

// Limit is what a value exceeds, and for how long a problem lasts, before the alert of one severity fires.
type Limit struct {
	// Over is in the unit of the value, Under the time left until something expires.
	Over  float64
	Under time.Duration
	Hold  time.Duration
	// Keep is how long the alert goes on firing.
	Keep time.Duration
}

// expires reports whether the value is the time left of something: it needs no new reading.
func (r *Rule) expires() bool { return r.Warning.Under != 0 }

// Excuser is something that may explain that a condition of a target holds.
type Excuser int

// The excusers. All but ByMaintenance are about what does not work.
const (
	// ByMaintenance is maintenance of the target or its container.
	ByMaintenance Excuser = iota
	// ByServer is that, or what explains an outage of the target: its container, what that needs, its engine.
	ByServer
	// ByOutage is the outage of the target itself.
	ByOutage
	// ByBridge is that no container with the role of a bridge works, ByAlertedBridge that an alert says that a bridge does not relay.
	ByBridge
	ByAlertedBridge
	// ByServices is that a target for the IRC services, or their containers, do not work.
	ByServices
	// ByPort is that no client reaches the side of the bridge that the condition is about, ByAnyPort that none reaches one of them.
	ByPort
	ByAnyPort
	// BySession is that an alert says that the check of a bridge has no session.
	BySession
)

// noRule is for problems of alerts that there are no longer: they never fire.
var noRule = Rule{Warning: Limit{Hold: never}, Critical: Limit{Hold: never}}

func (j *Judge) rule(alert string) *Rule {
	return cmp.Or(j.rules.Alerts[alert], &noRule)
}
