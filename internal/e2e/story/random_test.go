package story

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var (
	firstSeed = flag.Uint64("story.seed", 1, "first seed of the random scripts")
	seeds     = flag.Int("story.seeds", 2, "how many random scripts there are of each kind")
	lasting   = flag.Duration("story.lasts", 30*time.Minute, "how long each random script lasts")
	longest   = flag.Duration("story.longest", 24*time.Hour, "how long a scenario may last that is played")
)

// TestRandomScripts has random things happen. In each round of the rules, the alerts must be those that the page calls for.
func TestRandomScripts(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		for name, exporters := range map[string][]exporterSpec{
			"alone": alone, "keeping its state": keeping, "a pair": pair, "with a bridge": bridged,
		} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				t.Parallel()
				script := randomScript(seed, *lasting, exporters)
				play(t, exporters, nil, func(w *world) {
					o := &observer{world: w, seen: map[string]time.Time{}}
					c := &chronicler{world: w}
					own := &teller{world: w, forgets: strings.Contains(script, "loses its state")}
					w.afterRound = func() { o.compare(); c.compare(); own.compare() }
					(&scenario{script: script}).perform(w)
					w.until(w.began.Add(*lasting))
					c.settled()
					w.router.checkGroups(w.T)
					own.settled()
					if w.Failed() {
						w.Logf("the script of seed %d:\n%s", seed, script)
					}
				})
			})
		}
	}
}

// pauseBetween is how long it takes on average until the next thing happens.
const pauseBetween = 100 * time.Second

// randomScript is a script of that length, in which each thing that begins ends after a while.
func randomScript(seed uint64, lasts time.Duration, exporters []exporterSpec) string {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it is to be repeated
	var events []event
	busy := map[string]time.Duration{} // until when a fault of a subject lasts
	upTo := func(d time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(d))).Truncate(time.Second)
	}
	for at := upTo(pauseBetween); at < lasts; at += upTo(2 * pauseBetween) {
		subject, begins, ends, alone := randomFault(random, exporters)
		key := subject
		if !alone {
			key += begins
		}
		end := at + time.Second
		if ends != "" {
			end += upTo([]time.Duration{time.Minute, 4 * time.Minute, 15 * time.Minute}[random.IntN(3)])
		}
		if busy[key] >= at {
			continue
		}
		busy[key] = end
		events = append(events, event{at, subject + " " + begins})
		if ends != "" {
			events = append(events, event{end, subject + " " + ends})
		}
	}
	return scriptOf(events)
}

// randomFault chooses a fault and its subject. alone says that no other fault of the subject may last meanwhile.
func randomFault(random *rand.Rand, exporters []exporterSpec) (subject, begins, ends string, alone bool) {
	list, kinds := containers, 10
	if exporters[0].relay {
		list, kinds = slices.Concat(containers, bridgeContainers), 14
	}
	switch n := random.IntN(kinds); {
	case n >= 10:
		f := relayFaults[random.IntN(len(relayFaults))]
		subject, begins, _ = strings.Cut(f.begins, " ")
		_, ends, _ = strings.Cut(f.ends, " ")
		return subject, begins, ends, false
	case n < 7:
		f := containerFaults[random.IntN(len(containerFaults))]
		name := list[random.IntN(len(list))].Name
		if strings.Contains(f.begins, "target") && (name == "db" || name == "bridge") {
			name = "web" // no target has the other name
		}
		return name, f.begins, f.ends, false
	case n < 8:
		f := engineFaults[random.IntN(len(engineFaults))]
		return "engine", f.begins, f.ends, true
	case n < 9:
		f := exporterFaults[random.IntN(len(exporterFaults)-1)] // all but another name, which other faults of the target do not know
		e := exporters[random.IntN(len(exporters))]
		if f.begins == "loses its state" && !e.saves {
			f = exporterFaults[0]
		}
		return e.name, f.begins, f.ends, true
	default:
		f := prometheusFaults[random.IntN(len(prometheusFaults)-1)] // all but the clock, which begins with no data
		return "prometheus", f.begins, f.ends, true
	}
}

// observer compares alerts with pages.
type observer struct {
	*world
	// seen is when a page has called for an alert last.
	seen map[string]time.Time
}

// lookback is how long what was read last counts.
var lookback = alerts.Defaults().Lookback.Std()

// opinion is what an exporter's page says of an alert on something.
type opinion int

const (
	none opinion = iota // it knows nothing of the subject, or holds the alert back
	well
	firing
)

// key names an alert on something.
func key(alert, severity, kind, name string) string {
	return strings.Join([]string{alert, severity, kind, name}, " ")
}

// judged are the alerts that the exporter judges, with what keeps them firing after that.
var judged = []struct {
	alert, kind string
	keep        func(*config.Alerts) config.Duration
}{
	{
		health.AlertTargetDown,
		config.MaintenanceTarget,
		func(a *config.Alerts) config.Duration { return a.Of("target_down").Critical.KeepFiringFor },
	},
	{
		health.AlertTargetUnstable,
		config.MaintenanceTarget,
		func(a *config.Alerts) config.Duration { return a.Of("target_unstable").Critical.KeepFiringFor },
	},
	{
		health.AlertBridgeNotRelaying,
		config.MaintenanceTarget,
		func(a *config.Alerts) config.Duration { return a.Of("bridge_not_relaying").KeepFiringFor },
	},
	{
		health.AlertRelaySessionDown,
		config.MaintenanceTarget,
		func(a *config.Alerts) config.Duration { return a.Of("relay_session_down").KeepFiringFor },
	},
	{
		health.AlertComponentDisconnected,
		config.MaintenanceTarget,
		func(a *config.Alerts) config.Duration { return a.Of("xmpp_component_disconnected").KeepFiringFor },
	},
	{
		health.AlertContainerDown,
		config.MaintenanceContainer,
		func(a *config.Alerts) config.Duration { return a.Of("container_down").Critical.KeepFiringFor },
	},
	{
		health.AlertContainerUnhealthy,
		config.MaintenanceContainer,
		func(a *config.Alerts) config.Duration { return a.Of("container_unhealthy").Critical.KeepFiringFor },
	},
	{
		health.AlertContainerMissing,
		config.MaintenanceContainer,
		func(a *config.Alerts) config.Duration { return a.Of("container_missing").KeepFiringFor },
	},
	{health.AlertContainerRestarts, config.MaintenanceContainer, func(*config.Alerts) config.Duration { return 0 }},
}

// exceptions are when alerts may differ from pages, and why.
var exceptions = []struct {
	reason string
	// silent says that the alert may be silent though a page calls for it, lasts how long it may go on when none does.
	silent func(o *observer, alert, severity, name string, opinions []opinion) bool
	lasts  func(o *observer, alert, severity string) time.Duration
}{
	{
		reason: "of several exporters, all that have an opinion must agree before an alert is critical",
		silent: func(_ *observer, alert, severity, _ string, opinions []opinion) bool {
			return severity == "critical" && alert != health.AlertContainerRestarts && slices.Contains(opinions, well)
		},
	},
	{
		reason: "what any exporter has known of its container for two minutes excuses a target that went down with it",
		silent: func(o *observer, alert, severity, name string, _ []opinion) bool {
			down := append(o.outages(health.TargetSubject(name)), 0)
			slices.Sort(down)
			counts := down[len(down)-1]
			if severity == "critical" && len(down) > 1 { // all must agree on it, so the shortest outage counts
				counts = down[1]
			}
			container := slices.Max(append(o.outages(health.ContainerSubject("local", name)), 0))
			return alert == health.AlertTargetDown && slices.Contains(served, name) && counts-container < time.Minute
		},
	},
	{
		reason: "keep_firing_for reports a problem that comes and goes only once",
		lasts:  func(_ *observer, alert, _ string) time.Duration { return keptFiring(alert) },
	},
	{
		reason: "how long ago a container was removed is told only while it is, and what was read last counts for two minutes",
		lasts: func(_ *observer, alert, severity string) time.Duration {
			if alert == health.AlertContainerMissing && severity == "warning" {
				return lookback
			}
			return 0
		},
	},
	{
		reason: "what was recorded before Prometheus stopped counts for five minutes, since nothing marks it as stale",
		silent: func(o *observer, alert, _, name string, _ []opinion) bool { // the excuse of a container that is back
			return alert == health.AlertTargetDown && slices.Contains(served, name) && time.Since(o.prometheus.started) < lookbackDelta
		},
		lasts: func(o *observer, alert, _ string) time.Duration {
			if strings.Contains(alert, "Container") {
				return 0
			}
			if time.Since(o.prometheus.started) < lookbackDelta+keptFiring(alert) {
				return lookbackDelta
			}
			return 0
		},
	},
}

// keptFiring is how long the rules keep an alert firing.
func keptFiring(alert string) time.Duration {
	settings := alerts.Defaults()
	for _, j := range judged {
		if j.alert == alert {
			return j.keep(&settings).Std()
		}
	}
	return 0
}

// outages are how long the subject has been down, at most, by the pages of each exporter that are not too old to count.
func (o *observer) outages(s health.Subject) []time.Duration {
	var outages []time.Duration
	for _, e := range o.exporters {
		var longest time.Duration
		for _, page := range e.scraped {
			if time.Since(page.at) < lookback {
				longest = max(longest, page.Verdicts[s].Down)
			}
		}
		if longest > 0 {
			outages = append(outages, longest)
		}
	}
	return outages
}

// compare compares what fires with what the pages of the last scrape call for.
func (o *observer) compare() {
	fires := map[string]*rules.Alert{}
	for _, a := range o.prometheus.firing() {
		a.Annotations.Range(func(l labels.Label) {
			if strings.Contains(l.Value, "error expanding template") {
				o.Errorf("after %s, %s of %s is %s", time.Since(o.began), l.Name, a.Labels, l.Value)
			}
		})
		kind, name := config.MaintenanceTarget, a.Labels.Get("target")
		if container := a.Labels.Get("container"); container != "" {
			kind, name = config.MaintenanceContainer, container
		}
		fires[key(a.Labels.Get("alertname"), a.Labels.Get("severity"), kind, name)] = a
	}
	for _, j := range judged {
		for _, severity := range []health.Severity{health.Warning, health.Critical} {
			for _, name := range append(slices.Sorted(maps.Keys(o.sites["prod"].services)), "docker", "crossing", "xmpp_status",
				"xmpp_c2s", "irc_tls") {
				k := key(j.alert, severity.String(), j.kind, name)
				o.compareOne(k, j.alert, j.kind, name, severity, fires[k] != nil)
			}
		}
	}
}

// nobodyKnows reports whether an exporter has just started or none answers, so that nothing that fires ends. Prometheus may have stopped
// meanwhile: what it recorded before counts for five minutes.
func (o *observer) nobodyKnows() bool {
	settings := alerts.Defaults()
	if time.Since(o.prometheus.started) < 2*interval {
		return true // the first evaluation may come before the first scrape
	}
	answers, starting := false, alerts.StartingTime(&settings)+lookback
	if time.Since(o.prometheus.started) < lookbackDelta {
		starting += lookbackDelta
	}
	for _, e := range o.exporters {
		if time.Since(e.started) < starting {
			return true
		}
		answers = answers || len(e.scraped) > 0 && time.Since(e.scraped[len(e.scraped)-1].at) <= interval
	}
	return !answers
}

func (o *observer) compareOne(k, alert, kind, name string, severity health.Severity, fires bool) {
	now := time.Now()
	var opinions []opinion
	for _, e := range o.exporters {
		opinions = append(opinions, e.opinion(alert, kind, name, severity))
	}
	calls := slices.Contains(opinions, firing)
	var lasts time.Duration
	silent := !calls
	for _, x := range exceptions {
		silent = silent || x.silent != nil && x.silent(o, alert, severity.String(), name, opinions)
		if x.lasts != nil {
			lasts += x.lasts(o, alert, severity.String())
		}
	}
	if !o.seen[k].IsZero() && fires && o.nobodyKnows() {
		o.seen[k] = now
	}
	if calls && (severity == health.Warning || alert == health.AlertContainerRestarts || !slices.Contains(opinions, well)) {
		o.seen[k] = now
	}
	switch last, known := o.seen[k]; {
	case !silent && !fires:
		o.Errorf("after %s, a page calls for %s, which does not fire", now.Sub(o.began), k)
	case fires && !known:
		o.Errorf("after %s, %s fires, which no page has ever called for", now.Sub(o.began), k)
	case fires && now.Sub(last) > lasts:
		o.Errorf("after %s, %s fires, which no page has called for since %s", now.Sub(o.began), k, last.Sub(o.began))
	}
}

// opinion is what the last page says that knows the subject and that is not too old to count.
func (e *exporter) opinion(alert, kind, name string, severity health.Severity) opinion {
	switch alert {
	case health.AlertTargetUnstable:
		return e.opinionOnCondition(alert, name, severity)
	case health.AlertBridgeNotRelaying, health.AlertRelaySessionDown, health.AlertComponentDisconnected:
		return e.opinionOnParts(alert, name, severity)
	}
	s := health.TargetSubject(name)
	if kind == config.MaintenanceContainer {
		s = health.ContainerSubject("local", name)
	}
	for _, page := range slices.Backward(e.scraped) {
		v, known := page.Verdicts[s]
		counts := known && v.RecentRestarts+v.RecentKills > 0 // also those of a container that has just disappeared
		if !known || !v.Known && !counts || time.Since(page.at) >= lookback {
			continue
		}
		// That something was well when it was seen last is no opinion, but of its restarts.
		wellAtLast := v.Unknown && v.Down+v.Missing+v.Unhealthy == 0 && alert != health.AlertContainerRestarts
		if o := opinionOf(page.Judgement, s, alert, severity); o != well || !wellAtLast {
			return o
		}
	}
	return none
}

// opinionOnCondition is what the last page says that has an opinion on a condition and that is not too old to count.
func (e *exporter) opinionOnCondition(alert, target string, severity health.Severity) opinion {
	for _, page := range slices.Backward(e.scraped) {
		i := slices.IndexFunc(page.Conditions, func(c health.ConditionVerdict) bool {
			return c.Alert == alert && c.Target == target && c.Severity == severity
		})
		switch {
		case i < 0 || time.Since(page.at) >= lookback:
		case page.Conditions[i].Excused:
			return none
		case page.Conditions[i].Lasted > 0:
			return firing
		default:
			return well
		}
	}
	return none
}

// opinionOnParts is about a condition that each part of a target has for itself. What counts of a part is the last page that knows it
// and is not too old: a page after a restart may know only some.
func (e *exporter) opinionOnParts(alert, target string, severity health.Severity) opinion {
	parts := map[string]opinion{}
	for _, page := range slices.Backward(e.scraped) {
		if time.Since(page.at) >= lookback {
			break
		}
		for _, c := range page.Conditions {
			if _, known := parts[c.Of]; known || c.Alert != alert || c.Target != target || c.Severity != severity {
				continue
			}
			switch {
			case slices.ContainsFunc(page.Problems, func(p health.Problem) bool {
				return p.Alert == alert && p.Subject == health.TargetSubject(target) && p.Of == c.Of && p.Severity == severity
			}):
				parts[c.Of] = firing
			case c.Excused:
				parts[c.Of] = none
			default:
				parts[c.Of] = well
			}
		}
	}
	opinions := slices.Collect(maps.Values(parts))
	switch {
	case slices.Contains(opinions, firing):
		return firing
	case slices.Contains(opinions, none), len(opinions) == 0:
		return none
	}
	return well
}

func opinionOf(j *health.Judgement, s health.Subject, alert string, severity health.Severity) opinion {
	for _, p := range j.Problems {
		switch {
		case p.Subject != s || p.Alert != alert:
		case p.Severity == severity, p.Severity > severity && alert != health.AlertContainerMissing:
			return firing
		case p.Excuse.Holds():
			return none
		}
	}
	if j.Verdicts[s].Excuse.Holds() {
		return none
	}
	return well
}
