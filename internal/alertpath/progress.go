package alertpath

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Plan is a drill that has been raised.
type Plan struct {
	Facts *Facts
	// ID is a label of the drill's alert.
	ID string
	// Receivers must be notified; others may be.
	Receivers []string
	// Raised is when the exporter was asked, Took how long that took, and Until when the drill ends by itself.
	Raised time.Time
	Took   time.Duration
	Until  time.Time
	// Before are Alertmanager's counters before that.
	Before Counters
}

// Counters are Alertmanager's counters of notifications.
type Counters map[Channel]Count

// Channel is an integration of a receiver. Alertmanager leaves the receiver out, unless its feature receiver-name-in-metrics is enabled.
type Channel struct{ Receiver, Integration string }

// Count is how many notifications were begun, and how many of their attempts ended and failed.
type Count struct{ Notifications, GivenUp, Attempts, Failed float64 }

func (c Count) minus(o Count) Count {
	return Count{
		c.Notifications - o.Notifications,
		c.GivenUp - o.GivenUp,
		c.Attempts - o.Attempts,
		c.Failed - o.Failed,
	}
}

// Observation is what Prometheus and Alertmanager say at one moment of a drill.
type Observation struct {
	At time.Time
	// Sampled reports whether Prometheus has the drill's series now.
	Sampled bool
	// Alert is the drill's alert in Prometheus, nil if there is none.
	Alert *Alert
	// Alerts are all alerts in Alertmanager.
	Alerts   []Received
	Silences []routing.Silence
	// Groups are Alertmanager's groups with the drill's alert.
	Groups   []AlertGroup
	Counters Counters
	// Err is why something could not be asked; the rest is then unknown.
	Err error
}

// AlertGroup is a group of alerts in Alertmanager, which a receiver gets in one message.
type AlertGroup struct {
	Receiver struct {
		Name string `json:"name"`
	} `json:"receiver"`
	Alerts []Received `json:"alerts"`
}

// received is the drill's alert in Alertmanager.
func (o *Observation) received(id string) *Received {
	for i := range o.Alerts {
		if o.Alerts[i].Labels["id"] == id && o.Alerts[i].Labels["drill"] == "true" {
			return &o.Alerts[i]
		}
	}
	return nil
}

// Progress follows a drill by observations.
type Progress struct {
	plan *Plan
	last Observation
	// The moments when each was seen first.
	sampled, pending, fired, delivered, notified, ended, resolved time.Time
	// arrived is the alert as Alertmanager had it last.
	arrived *Received
	// joined reports whether its group had alerts before it.
	joined bool
	// beforeSending are Alertmanager's counters shortly before it can send the alert there.
	beforeSending Counters
	// busy are the receivers that have had other alerts since the drill began.
	busy map[string]bool
	// verdict is the step of the notification, once it is known.
	verdict Step
	// interrupted reports whether nobody waited until all was known.
	interrupted bool
	// endErr is why the exporter did not end the drill when asked.
	endErr error
}

// Slack is what each step may take longer than its intervals explain.
const slack = 15 * time.Second

// margin is how much earlier or later than its wait says Alertmanager may seem to send.
const margin = 3 * time.Second

// NewProgress begins to follow a drill.
func NewProgress(plan *Plan) *Progress {
	return &Progress{plan: plan, busy: map[string]bool{}, beforeSending: maps.Clone(plan.Before)}
}

// See adds an observation. It reports whether all is known that can be known while the drill lasts.
func (p *Progress) See(o *Observation) (done bool) {
	if o.Err != nil {
		p.last.Err = o.Err
		return o.At.After(p.plan.Until)
	}
	p.last = *o
	mark := func(when *time.Time, holds bool) {
		if holds && when.IsZero() {
			*when = o.At
		}
	}
	// What is seen at a later step has passed those before it, though they were asked a moment earlier.
	received := o.received(p.plan.ID)
	mark(&p.delivered, received != nil)
	mark(&p.fired, received != nil || o.Alert != nil && o.Alert.State == "firing")
	mark(&p.pending, received != nil || o.Alert != nil)
	mark(&p.sampled, received != nil || o.Alert != nil || o.Sampled)
	for i := range o.Alerts {
		if a := &o.Alerts[i]; a.Labels["id"] != p.plan.ID {
			for _, name := range a.receivers() {
				p.busy[name] = true
			}
		}
	}
	if received != nil {
		p.arrived = received
		p.seeGroups(o.Groups)
	}
	switch {
	case p.delivered.IsZero():
		p.beforeSending = maps.Clone(o.Counters)
	case p.plan.Facts.routing != nil:
		for _, c := range p.channels() {
			if o.At.Before(c.earliest) {
				p.beforeSending[c.Channel] = o.Counters[c.Channel]
			}
		}
	}
	if !p.ended.IsZero() {
		mark(&p.resolved, !o.Sampled && o.Alert == nil && received == nil)
		return !p.resolved.IsZero() || o.At.After(p.ended.Add(2*p.scrape()+2*p.evaluation()+slack))
	}
	return p.settled(o.At)
}

// seeGroups looks whether a group of the drill's alert had others before it.
func (p *Progress) seeGroups(groups []AlertGroup) {
	for _, group := range groups {
		for _, a := range group.Alerts {
			p.joined = p.joined || a.Labels["id"] != p.plan.ID && a.StartsAt.Before(p.arrived.StartsAt)
		}
	}
}

// Ended says when the drill was ended. What follows is its resolution.
func (p *Progress) Ended(at time.Time) { p.ended = at }

// settled reports whether the drill may end: somebody was notified, or it is known where it got stuck.
func (p *Progress) settled(now time.Time) bool {
	switch {
	case p.sampled.IsZero():
		return now.After(p.plan.Raised.Add(2*p.scrape() + slack))
	case p.fired.IsZero():
		return now.After(p.sampled.Add(2*p.evaluation() + p.hold() + slack))
	case p.delivered.IsZero():
		return now.After(p.fired.Add(slack))
	case p.plan.Facts.routing == nil, p.heldBack() != "":
		return true
	}
	step, known := p.judgeNotification(now)
	if known {
		p.verdict, p.notified = step, now
	}
	return known || now.After(p.plan.Until)
}

// scrape, evaluation and hold are how long Prometheus takes for each step.
func (p *Progress) scrape() time.Duration { return p.plan.Facts.scrapeInterval() }

func (f *Facts) scrapeInterval() time.Duration {
	interval := time.Second
	for _, t := range f.ours() {
		interval = max(interval, t.interval())
	}
	return interval
}

func (p *Progress) evaluation() time.Duration {
	return p.plan.Facts.evaluationInterval() + p.plan.Facts.delay()
}

func (f *Facts) evaluationInterval() time.Duration {
	for _, g := range f.ourGroups() {
		if slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.Name == f.Drill }) {
			return seconds(g.Interval)
		}
	}
	return time.Minute
}

func (p *Progress) hold() time.Duration {
	if r := p.plan.Facts.rule(p.plan.Facts.Drill); r != nil {
		return seconds(r.Duration)
	}
	return 0
}

// Lasts is how long a drill must last, so that a message can be sent before it ends: two minutes, or more for a slow chain.
func (f *Facts) Lasts(severity string) time.Duration {
	p := Progress{plan: &Plan{Facts: f}}
	needed := p.scrape() + p.evaluation() + p.hold() + 2*slack
	if f.routing != nil {
		first, _ := routing.Waits(f.routing.RoutesOf(f.drillLabels(severity)))
		needed += first
	}
	return min(max(needed, 2*time.Minute), 10*time.Minute)
}

// heldBack says why Alertmanager sends nothing, although its configuration did not say so before the drill; "" if it sends.
func (p *Progress) heldBack() string {
	names := p.arrived.receivers()
	lacks := func(name string) bool { return !slices.Contains(names, name) }
	if len(p.served()) == 0 || slices.ContainsFunc(p.plan.Receivers, lacks) {
		return fmt.Sprintf("sent to %s by another configuration than before", quoted(names))
	}
	return heldBack(p.arrived, p.plan.Facts.routing, p.moment())
}

// moment is when Alertmanager was asked last, with what may hold back the alert.
func (p *Progress) moment() *routing.Moment {
	at := p.last.At.Add(p.plan.Facts.Alertmanager.Ahead)
	return &routing.Moment{At: at, Firing: labelsOf(p.last.Alerts), Silences: p.last.Silences}
}

// served are the alert's receivers that notify somebody, and that no time interval mutes.
func (p *Progress) served() []string {
	facts := p.plan.Facts
	muted := facts.routing.FateOf(p.arrived.Labels, p.moment()).Muted
	return slices.DeleteFunc(facts.routing.Served(p.arrived.receivers()), func(name string) bool { return muted[name] != "" })
}

// channel is an integration that must send, with the number of notifications that make it complete.
type channel struct {
	Channel
	want float64
	// earliest is when the alert can be sent there, less a margin.
	earliest time.Time
	// sure reports whether only this alert can have caused the notifications there.
	sure bool
	// Count is what happened since then.
	Count
}

func (c *channel) accepted() float64 { return c.Attempts - c.Failed }

// channels are those of the alert's receivers, with what they may have sent for it.
func (p *Progress) channels() []channel {
	byKey := map[Channel]*channel{}
	for _, name := range p.served() {
		for integration, n := range p.plan.Facts.routing.Integrations[name] {
			key := Channel{name, integration}
			if _, named := p.last.Counters[key]; !named {
				key.Receiver = ""
			}
			if byKey[key] == nil {
				byKey[key] = &channel{Channel: key, earliest: p.earliest(name)}
			}
			c := byKey[key]
			c.want += float64(n)
			c.earliest = slices.MinFunc([]time.Time{c.earliest, p.earliest(name)}, time.Time.Compare)
		}
	}
	var channels []channel
	for key, c := range byKey {
		c.Count = p.last.Counters[key].minus(p.beforeSending[key])
		c.sure = c.Notifications <= c.want && p.beforeSending[key] == p.plan.Before[key]
		for name := range p.busy {
			c.sure = c.sure && !p.uses(name, key)
		}
		channels = append(channels, *c)
	}
	slices.SortFunc(channels, func(a, b channel) int {
		return strings.Compare(a.Integration+" "+a.Receiver, b.Integration+" "+b.Receiver)
	})
	return channels
}

// uses reports whether messages to a receiver are counted there.
func (p *Progress) uses(receiver string, c Channel) bool {
	return p.plan.Facts.routing.Integrations[receiver][c.Integration] > 0 && (c.Receiver == "" || c.Receiver == receiver)
}

// earliest is when Alertmanager may send the alert to a receiver, less a margin. Its wait begins when the alert does.
func (p *Progress) earliest(receiver string) time.Time {
	if p.joined {
		return p.delivered
	}
	wait := time.Duration(math.MaxInt64)
	for _, r := range p.plan.Facts.routing.RoutesOf(p.arrived.Labels) {
		if r.Receiver == receiver {
			wait = min(wait, time.Duration(*r.GroupWait))
		}
	}
	if wait == math.MaxInt64 { // the routes are not what they were
		return p.delivered
	}
	begun := slices.MinFunc([]time.Time{p.delivered, p.arrived.StartsAt.Add(-p.plan.Facts.Alertmanager.Ahead)}, time.Time.Compare)
	return begun.Add(wait - margin)
}

// judgeNotification compares Alertmanager's counters with those before the drill.
func (p *Progress) judgeNotification(now time.Time) (step Step, known bool) {
	var sent, failing, unclear, waiting, silent []string
	sure, untold := true, p.served()
	for _, c := range p.channels() {
		untold = slices.DeleteFunc(untold, func(name string) bool { return c.sure && p.uses(name, c.Channel) })
		sure = sure && c.sure
		switch {
		case c.accepted() >= c.want && (c.sure || c.Failed == 0 && c.accepted() >= c.Notifications):
			sent = append(sent, c.Integration)
		case c.GivenUp > 0 || c.Failed >= 2 || c.Failed > 0 && !c.sure:
			failing = append(failing, fmt.Sprintf("%s (%.0f of %.0f attempts failed)", c.Integration, c.Failed, c.Attempts))
		case c.accepted() > 0 && !c.sure:
			unclear = append(unclear, c.Integration)
		case c.Notifications > 0:
			waiting = append(waiting, c.Integration)
		default:
			silent = append(silent, c.Integration)
		}
	}
	probably := ""
	if !sure {
		if now.Before(p.delivered.Add(p.wait()+slack)) && now.Before(p.plan.Until) {
			return Step{}, false // the message, or its failure, may still be to come, and needs the alert
		}
		probably = "probably "
	}
	to := quoted(p.served())
	const log = "read Alertmanager's log, which says why (\"Notify for alerts failed\")"
	if len(failing) > 0 {
		return wrong(StepReceiver, log+"; then check the address and the credentials of that receiver", "the message to %s %sfails: %s",
			to, probably, strings.Join(failing, ", ")), true
	}
	switch {
	case len(waiting)+len(silent) > 0:
	case len(untold)+len(unclear) > 0:
		return unknown(StepReceiver, "see whether the message has arrived; start Alertmanager with "+
			"--enable-feature=receiver-name-in-metrics, or repeat the drill when those receivers have no other alerts",
			"Alertmanager has sent messages by %s; its counters do not show whether one of them was to %s",
			strings.Join(append(unclear, sent...), ", "), cmp.Or(quoted(untold), to)), true
	default:
		step := works(StepReceiver, "sent to %s by %s, and accepted", to, strings.Join(sent, ", "))
		if !sure {
			step = step.note("others are notified by some of these, too, and Alertmanager's counters do not tell the messages apart")
		}
		return step, true
	}
	switch {
	case p.joined && now.After(p.plan.Until):
		return unknown(StepReceiver, "add id to group_by of that route, or wait that long between two drills",
			"the alert joined a group that has sent a message, and sends the next one within %s", wording.AsPrometheus(p.wait())), true
	case now.Before(p.delivered.Add(p.wait() + slack)):
		return Step{}, false
	}
	if len(waiting) > 0 {
		return wrong(StepReceiver, log+"; then check the address and the network of that receiver",
			"the message to %s does not get through: %s does not answer", to, strings.Join(waiting, ", ")), true
	}
	const silence = "Alertmanager has sent nothing to %s by %s within %s"
	after := wording.AsPrometheus(now.Sub(p.delivered))
	if n := p.plan.Facts.Peers; n > p.plan.Facts.Asked {
		return unknown(StepReceiver, "see whether the message has arrived; or repeat the drill with --alertmanager=URL for each of them",
			silence+"; another one of its cluster of %d may have", to, strings.Join(silent, ", "), after, n), true
	}
	return wrong(StepReceiver, log, silence, to, strings.Join(silent, ", "), after), true
}

// wait is how long Alertmanager collects alerts before it sends this one.
func (p *Progress) wait() time.Duration {
	first, next := routing.Waits(p.plan.Facts.routing.RoutesOf(p.arrived.Labels))
	if p.joined {
		return max(first, next)
	}
	return first
}

// Steps are the verdicts on all steps of the drill that were tried.
func (p *Progress) Steps() []Step {
	facts := p.plan.Facts
	steps := []Step{works(StepRaise, "the exporter shows the drill %s", p.plan.ID).since(p.plan.Raised).took(p.plan.Took)}
	if p.sampled.IsZero() {
		step := p.stuck(StepSample,
			"see whether Prometheus scrapes this very exporter, and whether something between them serves an old page",
			"Prometheus has no series of the drill after %s", p.waited(p.plan.Raised))
		return p.finish(append(steps, step.note("Prometheus scrapes %s", targetsOf(facts.ours()))))
	}
	steps = append(steps, works(StepSample, "Prometheus has scraped the drill").took(p.sampled.Sub(p.plan.Raised)))
	if p.fired.IsZero() {
		return p.finish(append(steps, p.stuck(StepAlert, "open the rule on Prometheus' page /alerts",
			"the alert %s does not fire %s after the scrape", facts.Drill, p.waited(p.sampled))))
	}
	alert := works(StepAlert, "%s fires", facts.Drill).took(p.fired.Sub(p.sampled))
	if hold := p.hold(); hold > 0 {
		alert = alert.note("it was pending for %s, since its rule has for: %s",
			wording.AsPrometheus(p.fired.Sub(p.pending)), wording.AsPrometheus(hold))
	}
	steps = append(steps, alert)
	if p.delivered.IsZero() {
		step := p.stuck(StepDelivery, facts.howToSend(),
			"the alert has not arrived at %s after %s", facts.Alertmanager.URL, p.waited(p.fired))
		return p.finish(append(steps, step.note("Prometheus sends to %s", strings.Join(facts.Known, ", "))))
	}
	delivery := works(StepDelivery, "Alertmanager has received it, for %s", quoted(p.arrived.receivers()))
	steps = append(steps, delivery.took(p.delivered.Sub(p.fired)))
	switch {
	case facts.routing == nil:
	case p.heldBack() != "":
		steps = append(steps, wrong(StepReceiver, "end what holds it back, if it is not meant; nobody is notified meanwhile",
			"the alert is %s", p.heldBack()))
	case p.verdict.State == "":
		steps = append(steps, unknown(StepReceiver, "read Alertmanager's log", "the drill ended before a message was sent"))
	default:
		steps = append(steps, p.verdict.took(p.notified.Sub(p.delivered)))
	}
	return p.finish(steps)
}

// stuck is a step that did not happen.
func (p *Progress) stuck(name, hint, format string, args ...any) Step {
	if p.interrupted {
		return unknown(name, "", format, args...)
	}
	return wrong(name, hint, format, args...)
}

// waited is how long a step has been waited for, until the drill was ended.
func (p *Progress) waited(since time.Time) string {
	if !p.ended.IsZero() {
		return wording.AsPrometheus(p.ended.Sub(since))
	}
	return wording.AsPrometheus(p.last.At.Sub(since))
}

// finish appends the resolution.
func (p *Progress) finish(steps []Step) []Step {
	if p.last.Err != nil {
		steps[len(steps)-1] = steps[len(steps)-1].note("a request failed last: %v", p.last.Err)
	}
	return append(steps, p.resolution())
}

func (p *Progress) resolution() Step {
	var step Step
	switch {
	case p.ended.IsZero():
		step = unknown(StepResolution, "", "the drill ends by itself at %s", p.plan.Until.UTC().Format("15:04:05 UTC"))
	case p.last.At.Before(p.ended):
		step = unknown(StepResolution, "", "the drill has ended; nothing shows that its alert has")
	case p.resolved.IsZero():
		step = p.stuck(StepResolution, "open the rule on Prometheus' page /alerts; the drill has ended",
			"the alert has not ended %s after the drill", wording.AsPrometheus(p.last.At.Sub(p.ended)))
	default:
		step = works(StepResolution, "the alert has ended everywhere").took(p.resolved.Sub(p.ended))
	}
	if p.endErr != nil {
		step = step.note("the exporter did not end the drill when asked: %v; give --exporter the address of one exporter, not of several",
			p.endErr)
	}
	return step
}

func targetsOf(targets []Target) string {
	urls := map[string]bool{}
	for _, t := range targets {
		urls[t.address()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(urls)), ", ")
}
