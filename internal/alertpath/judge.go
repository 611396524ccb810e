package alertpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// The severities of our alerts that somebody is told.
const (
	warning  = "warning"
	critical = "critical"
)

// What a problem leads to that begins at 3 am.
const (
	TellsUnknown  = "unknown"
	TellsNobody   = "nobody"
	TellsNextDay  = "is told in the morning"
	WakesSomebody = "wakes somebody"
)

// Told is where an alert of a severity goes, and what that leads to.
type Told struct {
	Alert    string `json:"alert"`
	Severity string `json:"severity"`
	// Now and Night are the receivers that are sent a message now, and at 3 am.
	Now   []string `json:"now"`
	Night []string `json:"night"`
	Told  string   `json:"told"`
	// Of are the labels of the server or target with this result, if others have a better one.
	Of string `json:"of,omitempty"`

	differ bool
}

// Judgement is what becomes of our alerts in Alertmanager, by its configuration.
type Judgement struct {
	// Steps are the route, inhibition, silences and time intervals.
	Steps []Step
	// Stops are the steps where the alert of a drill ends. Rung are receivers of worse alerts that it would notify.
	Stops, Rung []string
	Told        []Told

	facts      *Facts
	now, night routing.Moment
	// week are these two moments, and every hour of a week.
	week []time.Time
	// wakers are the receivers that wake somebody, tried those that the alert of a drill notifies.
	wakers, tried []string
	complaints    map[string][]complaint
}

// complaint is one reason why alerts reach nobody. Minor ones are about warnings, which may be dropped on purpose.
type complaint struct {
	text, hint string
	minor      bool
	of         []string
}

// ourAlert is one of our alerts, as Prometheus sends it; without labels if relabeling drops it.
type ourAlert struct {
	name, severity string
	labels         map[string]string
	// before is its warning, which fires first, if it is critical and has one.
	before map[string]string
}

// drilled is the name of the alert of a drill in complaints.
const drilled = "the test alert"

// quiet are integrations that wake nobody if critical alerts also have another one.
const quiet = " discord email jira mattermost msteams msteamsv2 rocketchat slack webex wechat "

// longestWait is how late the first message of an outage may be, longestNext that of an alert which joins others.
const (
	longestWait = 15 * time.Minute
	longestNext = time.Hour
)

// Judge follows every alert of ours through Alertmanager's configuration, and that of a drill, which wanted receivers must get.
func (f *Facts) Judge(severity string, wanted []string) *Judgement {
	j := &Judgement{facts: f, complaints: map[string][]complaint{}}
	alerts := f.ourAlerts()
	switch {
	case f.Alertmanager.Err != nil || f.Prometheus.Err != nil:
		return j
	case f.routing == nil || len(alerts) == 0:
		why := "Prometheus has no rules that show the labels of the alerts"
		if f.routing == nil {
			why = fmt.Sprintf("Alertmanager's configuration cannot be read: %v", f.routingErr)
		}
		for _, name := range []string{StepRoute, StepInhibition, StepSilence, StepTimeInterval} {
			j.Steps = append(j.Steps, unknown(name, "", "%s", why).by(Computed))
		}
		for _, a := range alerts {
			told := toldOf(&a)
			told.Told = TellsUnknown
			j.add(told)
		}
		return j
	}
	j.now = routing.Moment{At: f.Now.Add(f.Alertmanager.Ahead), Firing: f.routing.Sources(f.firing()), Silences: f.Silences}
	j.night = j.now
	j.night.At = time.Date(f.Now.Year(), f.Now.Month(), f.Now.Day(), 3, 0, 0, 0, f.Now.Location())
	if j.night.At.Before(f.Now) {
		j.night.At = j.night.At.AddDate(0, 0, 1)
	}
	j.week = []time.Time{j.now.At, j.night.At}
	for hour := range 7 * 24 {
		j.week = append(j.week, j.now.At.Add(time.Duration(hour)*time.Hour))
	}
	all := f.receiversOf(alerts, critical)
	loud := func(integration string) bool { return !strings.Contains(quiet, " "+integration+" ") }
	for _, name := range all {
		if slices.ContainsFunc(slices.Collect(maps.Keys(f.routing.Integrations[name])), loud) {
			j.wakers = append(j.wakers, name)
		}
	}
	onlyQuiet := len(j.wakers) == 0
	if onlyQuiet {
		j.wakers = all
	}
	for i := range alerts {
		j.add(j.judge(&alerts[i], j.wakers, j.week))
	}
	for i := range j.Told {
		if !j.Told[i].differ {
			j.Told[i].Of = ""
		}
	}
	if severity == "none" {
		all = append(f.receiversOf(alerts, warning), all...)
	}
	j.judgeDrill(severity, wanted, all)
	j.row(StepRoute, "critical alerts go to %s; the test alert to %s", j.described(j.wakers), j.described(j.tried))
	err := f.unserved["status/config"]
	servers := f.Setup.Alerting.Servers
	if len(servers) > 1 && slices.ContainsFunc(servers, func(s alertmanagers) bool { return len(s.Relabel) > 0 }) {
		err = errors.New("several groups of Alertmanagers have some of their own")
	}
	if err != nil && j.Steps[0].State == Works {
		j.Steps[0] = unknown(StepRoute, "compare alert_relabel_configs yourself", "%s, unless alert_relabel_configs change the labels: %v",
			j.Steps[0].Text, err).by(Computed)
	}
	if onlyQuiet && j.Steps[0].State == Works {
		j.Steps[0] = j.Steps[0].note("that chat or mail wakes somebody is only assumed")
	}
	j.row(StepInhibition, "nothing inhibits them")
	j.row(StepSilence, "no silence covers them")
	j.row(StepTimeInterval, "they are sent now, at %s, and at each hour of a week", j.night.At.Format("15:04 -0700"))
	return j
}

func toldOf(a *ourAlert) Told {
	return Told{
		Alert:    a.name,
		Severity: a.severity,
		Now:      []string{},
		Night:    []string{},
		Told:     TellsNobody,
		Of:       asMatchers(a.labels, "chat_server", "target", "container", "workload"),
	}
}

// judge finds what is wrong with the way of an alert to one of some receivers, at each of some times; the first two are now and at night.
func (j *Judgement) judge(a *ourAlert, goals []string, times []time.Time) Told {
	r, told := j.facts.routing, toldOf(a)
	routes := r.RoutesOf(a.labels)
	names := routing.ReceiversOf(routes)
	isGoal := func(name string) bool { return slices.Contains(goals, name) }
	complain := func(step, hint, format string, args ...any) { j.complain(a, step, hint, fmt.Sprintf(format, args...)) }
	matchers := asMatchers(a.labels, "alertname", "chat_server", "drill", "env", "severity", "stack")
	test := "compare with `amtool config routes test " + matchers + "`"
	switch {
	case a.labels == nil:
		complain(StepRoute, "change alert_relabel_configs in prometheus.yml", "alert_relabel_configs drop it")
		return told
	case len(r.Served(names)) == 0:
		complain(StepRoute, "give that receiver an integration, or add a route to another one; "+test,
			"to %s, which notifies nobody", quoted(names))
		return told
	case a.severity == warning:
	case !slices.ContainsFunc(names, isGoal):
		complain(StepRoute, test, "to %s, and not to %s", quoted(names), quoted(goals))
	default:
		j.judgeTimes(a, slices.DeleteFunc(slices.Clone(routes), func(r *routing.Route) bool { return !isGoal(r.Receiver) }), times)
	}
	held := false
	for i := range min(2, len(times)) {
		m := []routing.Moment{j.now, j.night}[i]
		if a.before != nil {
			m.Firing = append([]map[string]string{a.before}, m.Firing...)
		}
		fate := r.FateOf(a.labels, &m)
		if fate.Silence != nil {
			complain(StepSilence, "end the silence, if it is not meant", "%s", fate.Silence)
		}
		if fate.Inhibitor != nil {
			complain(StepInhibition, "change that rule under inhibit_rules", "inhibited by %s", describe(fate.Inhibitor))
		}
		told.Now, told.Night = told.Night, r.Served(fate.Receivers) // the first round is now
		if held = fate.Silence != nil || fate.Inhibitor != nil; held {
			told.Night = []string{}
		}
	}
	sends := func(route *routing.Route) bool {
		return r.Uses(route.Receiver) != "" && slices.ContainsFunc(times, func(t time.Time) bool { return r.Mutes(route, t) == "" })
	}
	switch {
	case slices.ContainsFunc(told.Night, isGoal):
		told.Told = WakesSomebody
	case len(told.Now)+len(told.Night) > 0 || !held && slices.ContainsFunc(routes, sends):
		told.Told = TellsNextDay
	}
	return told
}

// judgeTimes finds what is wrong with the waits of routes, and when all of them are muted.
func (j *Judgement) judgeTimes(a *ourAlert, routes []*routing.Route, times []time.Time) {
	fastest := slices.MinFunc(routes, func(a, b *routing.Route) int {
		return cmp.Compare(*a.GroupWait+*a.GroupInterval, *b.GroupWait+*b.GroupInterval)
	})
	first, next := routing.Waits([]*routing.Route{fastest})
	if first > longestWait && a.name != drilled {
		j.complain(a, StepRoute, "shorten group_wait of that route", "its route waits "+wording.AsPrometheus(first))
	}
	if next > longestNext && a.name != drilled {
		j.complain(a, StepRoute, "shorten group_interval of that route",
			"after another alert of its group, it waits "+wording.AsPrometheus(next))
	}
	sendsAt := func(t time.Time) bool {
		return slices.ContainsFunc(routes, func(r *routing.Route) bool { return j.facts.routing.Mutes(r, t) == "" })
	}
	if i := slices.IndexFunc(times, func(t time.Time) bool { return !sendsAt(t) }); i >= 0 {
		j.complain(a, StepTimeInterval, "change the intervals of that route, or add another one that sends then",
			fmt.Sprintf("at %s, the route to %q %s", times[i].Format("Mon 15:04 -0700"), routes[0].Receiver,
				j.facts.routing.Mutes(routes[0], times[i])))
	}
}

// judgeDrill finds where the alert of a drill ends, and what receivers of worse alerts it would notify. All wanted receivers must get it.
func (j *Judgement) judgeDrill(severity string, wanted, worse []string) {
	r, a := j.facts.routing, &ourAlert{name: drilled, labels: j.facts.drillLabels(severity)}
	names := r.Served(routing.ReceiversOf(r.RoutesOf(a.labels)))
	j.tried = r.Served(r.FateOf(a.labels, &j.now).Receivers)
	j.Rung = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(worse, name) })
	if len(wanted) == 0 {
		j.judge(a, names, j.week[:1])
	}
	for _, name := range wanted {
		j.judge(a, []string{name}, j.week[:1])
		if r.Uses(name) == "" {
			j.complain(a, StepRoute, "give that receiver an integration", fmt.Sprintf("to %q, which notifies nobody", name))
		}
	}
	for _, step := range []string{StepRoute, StepInhibition, StepSilence, StepTimeInterval} {
		if slices.ContainsFunc(j.complaints[step], func(c complaint) bool { return slices.Contains(c.of, drilled) }) {
			j.Stops = append(j.Stops, step)
		}
	}
}

// add adds what an alert leads to. The worst of its servers and targets counts, and is named if others differ.
func (j *Judgement) add(t Told) {
	i := slices.IndexFunc(j.Told, func(o Told) bool { return o.Alert == t.Alert && o.Severity == t.Severity })
	worst := []string{TellsUnknown, TellsNobody, TellsNextDay, WakesSomebody}
	if i < 0 {
		j.Told = append(j.Told, t)
		return
	}
	old := &j.Told[i]
	differ := old.differ || old.Told != t.Told
	if slices.Index(worst, t.Told) < slices.Index(worst, old.Told) {
		*old = t
	}
	old.differ = differ
}

// complain adds to what is wrong with a step.
func (j *Judgement) complain(a *ourAlert, step, hint, text string) {
	of, minor := strings.TrimSpace(a.severity+" "+a.name), a.severity == warning
	i := slices.IndexFunc(j.complaints[step], func(c complaint) bool { return c.text == text && c.minor == minor })
	if i < 0 {
		i = len(j.complaints[step])
		j.complaints[step] = append(j.complaints[step], complaint{text: text, hint: hint, minor: minor})
	}
	if c := &j.complaints[step][i]; !slices.Contains(c.of, of) {
		c.of = append(c.of, of)
	}
}

// row adds the verdict on a step: the first complaint, with the others as notes.
func (j *Judgement) row(name, format string, args ...any) {
	step, all := works(name, format, args...), j.complaints[name]
	if i := slices.IndexFunc(all, func(c complaint) bool { return !c.minor }); i >= 0 {
		step = wrong(name, all[i].hint, "%s", &all[i])
		all = slices.Delete(all, i, i+1)
	}
	for i := range all {
		step = step.note("%s", &all[i])
	}
	j.Steps = append(j.Steps, step.by(Computed))
}

// String names at most three alerts.
func (c *complaint) String() string {
	names := strings.Join(c.of[:min(3, len(c.of))], ", ")
	if more := len(c.of) - 3; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names + ": " + c.text
}

// Receiver is the verdict on the receivers. A drill has notified some of them; of the others, nothing shows that a message arrives. Without
// wanted ones, all that wake somebody count. Without a drill, sent is nil.
func (j *Judgement) Receiver(sent *Step, wanted []string) Step {
	untried := slices.Clone(wanted)
	if len(wanted) == 0 {
		untried = slices.Clone(j.wakers)
	}
	if sent != nil {
		untried = slices.DeleteFunc(untried, func(name string) bool { return slices.Contains(j.tried, name) })
		if sent.State != Works || len(untried) == 0 {
			return *sent
		}
	}
	step := unknown(StepReceiver, "raise a test alert that they get, such as: drill --severity=critical --yes",
		"nothing shows that a message to %s arrives", cmp.Or(j.described(untried), "anybody")).by(Assumed)
	if sent != nil {
		step = step.note("%s", sent.Text)
	}
	return step
}

// described lists receivers with their integrations.
func (j *Judgement) described(receivers []string) string {
	var words []string
	for _, name := range receivers {
		if j.facts.routing != nil {
			name = fmt.Sprintf("%s (%s)", name, cmp.Or(j.facts.routing.Uses(name), "nobody"))
		}
		words = append(words, name)
	}
	return strings.Join(words, ", ")
}

// receiversOf are the receivers of our alerts of a severity that notify somebody.
func (f *Facts) receiversOf(alerts []ourAlert, severity string) (names []string) {
	for _, a := range alerts {
		if a.severity == severity && a.labels != nil {
			names = append(names, f.routing.Served(routing.ReceiversOf(f.routing.RoutesOf(a.labels)))...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// firing are the labels of all alerts that fire, and of the one that always does.
func (f *Facts) firing() (all []map[string]string) {
	if r := f.alwaysFiring(); r != nil {
		if sent := f.asSent(r.Labels, map[string]string{"alertname": r.Name}); sent != nil {
			all = append(all, sent)
		}
	}
	for i := range f.Alerts {
		all = append(all, f.Alerts[i].Labels)
	}
	return all
}

// ourAlerts are our warnings and critical alerts with the labels that they can have: those of the rules that Prometheus has loaded, those
// that an operator adds to the series, and those of each target and container.
func (f *Facts) ourAlerts() (all []ourAlert) {
	for _, g := range f.ourGroups() {
		for i := range g.Rules {
			r := &g.Rules[i]
			severity := r.Labels["severity"]
			if !f.isOurs(r) || severity != warning && severity != critical {
				continue
			}
			warns := slices.ContainsFunc(g.Rules, func(o Rule) bool { return o.Name == r.Name && o.Labels["severity"] == warning })
			for _, subject := range f.subjects(r) {
				a := ourAlert{name: r.Name, severity: severity, labels: f.asSent(r.Labels, subject)}
				if severity == critical && warns {
					a.before = f.asSent(map[string]string{"severity": warning}, r.Labels, subject)
				}
				all = append(all, a)
			}
		}
	}
	return all
}

// subjects are the labels that the alerts of a rule have beside its own. The template of its label chat_server shows what they are about.
func (f *Facts) subjects(r *Rule) (all []map[string]string) {
	server, seen, subject := r.Labels["chat_server"], map[string]bool{}, []string(nil)
	for _, names := range [][]string{{"kind", "target"}, {"docker_host", "container", "workload"}} {
		if strings.Contains(server, "$labels."+names[1]) {
			subject = names
		}
	}
	for _, known := range append(slices.Clone(f.Subjects), nil) {
		labels := map[string]string{"alertname": r.Name}
		for name, value := range known {
			if slices.Contains(subject, name) ||
				!slices.Contains([]string{"kind", "target", "docker_host", "container", "workload", "chat_server"}, name) {
				labels[name] = value
			}
		}
		fits := known != nil && (subject == nil || known[subject[0]] != "") || known == nil && len(all) == 0
		for _, chat := range []string{known["chat_server"], "stack"} {
			if isTemplate(server) {
				labels["chat_server"] = cmp.Or(chat, "stack")
			}
			if key := describe(labels); fits && !seen[key] {
				seen[key] = true
				all = append(all, maps.Clone(labels))
			}
		}
	}
	return all
}

func isTemplate(value string) bool { return strings.Contains(value, "{{") }

// asSent joins labels, the first ones first, and relabels them as Prometheus does before it sends an alert. It is nil if that drops it.
func (f *Facts) asSent(sets ...map[string]string) map[string]string {
	labels := map[string]string{}
	for _, set := range append(sets, f.externalLabels()) {
		for name, value := range set {
			if labels[name] == "" && !isTemplate(value) {
				labels[name] = value
			}
		}
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	entries := f.Setup.Alerting.Relabel
	if servers := f.Setup.Alerting.Servers; len(servers) == 1 {
		entries = slices.Concat(entries, servers[0].Relabel)
	}
	return routing.Relabel(labels, entries)
}

// externalLabels are what Prometheus adds to all alerts. If it does not show its configuration, the alert that always fires has them.
func (f *Facts) externalLabels() map[string]string {
	rule := f.alwaysFiring()
	if f.unserved["status/config"] == nil || rule == nil || f.received() == nil {
		return f.Setup.Global.ExternalLabels
	}
	labels := maps.Clone(f.received().Labels)
	maps.DeleteFunc(labels, func(name, _ string) bool { return name == "alertname" || rule.Labels[name] != "" })
	return labels
}

// drillLabels are the labels of a drill's alert, as far as they are known before it; nil if relabeling drops it.
func (f *Facts) drillLabels(severity string) map[string]string {
	own := map[string]string{"stack": "chat", "drill": "true", "severity": severity, "job": f.Job}
	return f.asSent(own, f.subjects(&Rule{Name: f.Drill})[0])
}

// asMatchers are some of the labels, as amtool wants them.
func asMatchers(labels map[string]string, names ...string) string {
	var words []string
	for _, name := range names {
		if labels[name] != "" {
			words = append(words, name+"="+labels[name])
		}
	}
	return strings.Join(words, " ")
}
