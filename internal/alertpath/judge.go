package alertpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
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
	// week are these two moments, and those within a week at which a time interval begins or ends.
	week []time.Time
	// wakers are the receivers that may wake somebody. Unless each of them does, an alert must reach them all.
	wakers   []string
	eachDoes bool
	// tried are the receivers of a drill's alert.
	tried      []string
	complaints []complaint
}

// complaint is a verdict on a step that some alerts have in common. One that works is only a note.
type complaint struct {
	Step
	of []string
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

// The integrations that surely wake somebody, and those that wake nobody if critical alerts also have another one.
const (
	paging = " incidentio opsgenie pagerduty pushover victorops "
	chat   = " discord jira mattermost msteams msteamsv2 rocketchat slack telegram webex wechat "
)

// longestWait is how late the first message of an outage may be, and that on an alert which joins others.
const longestWait = 15 * time.Minute

// Judge follows every alert of ours through Alertmanager's configuration, and that of a drill, which wanted receivers must get.
func (f *Facts) Judge(severity string, wanted []string) *Judgement {
	j := &Judgement{facts: f}
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
			j.add(&a, []string{}, []string{}, TellsUnknown)
		}
		return j
	}
	j.now = routing.Moment{At: f.Now.Add(f.Alertmanager.Ahead), Firing: f.firing(), Silences: f.Silences}
	j.night = j.now
	j.night.At = time.Date(f.Now.Year(), f.Now.Month(), f.Now.Day(), 3, 0, 0, 0, f.Now.Location())
	if j.night.At.Before(f.Now) {
		j.night.At = j.night.At.AddDate(0, 0, 1)
	}
	j.week = append([]time.Time{j.now.At, j.night.At}, f.routing.Boundaries(j.now.At)...)
	worse := f.receiversOf(alerts, critical)
	j.chooseWakers(worse, wanted)
	for i := range alerts {
		j.judge(&alerts[i])
	}
	if !slices.ContainsFunc(alerts, func(a ourAlert) bool { return a.severity == critical }) {
		j.complain(&ourAlert{name: "the loaded rules"}, wrong(StepRoute, "load what `chatstack_exporter rules` prints",
			"none of them is critical, so nobody is woken"))
	}
	if severity == "none" {
		worse = append(f.receiversOf(alerts, warning), worse...)
	}
	j.judgeDrill(severity, wanted, worse)
	j.row(StepRoute, "critical alerts go to %s; the test alert to %s", j.described(j.wakers), j.described(j.tried))
	j.doubtRelabeling()
	if j.Steps[0].State == Works && len(f.with(j.wakers, chat+" email ", false)) == 0 {
		j.Steps[0] = j.Steps[0].note("that chat or mail wakes somebody is only assumed")
	}
	j.row(StepInhibition, "nothing inhibits them")
	j.row(StepSilence, "no silence covers them until %s", j.night.At.Format("Mon 15:04 -0700"))
	j.row(StepTimeInterval, "they are sent now, at %s, and at each time of a week", j.night.At.Format("15:04 -0700"))
	return j
}

// doubtRelabeling makes unknown what alert_relabel_configs could change that nothing shows.
func (j *Judgement) doubtRelabeling() {
	err, servers := j.facts.unserved["status/config"], j.facts.Setup.Alerting.Servers
	if len(servers) > 1 && slices.ContainsFunc(servers, func(s alertmanagers) bool { return len(s.Relabel) > 0 }) {
		err = errors.New("several groups of Alertmanagers have some of their own")
	}
	if err == nil {
		return
	}
	if j.Steps[0].State == Works {
		j.Steps[0] = unknown(StepRoute, "compare alert_relabel_configs yourself", "%s, unless alert_relabel_configs change the labels: %v",
			j.Steps[0].Text, err).by(Computed)
	}
	for i := range j.Told {
		if j.Told[i].Told != TellsNobody {
			j.Told[i].Told = TellsUnknown
		}
	}
}

// chooseWakers finds which receivers of critical alerts wake somebody: those with a paging service, or if there are none, those that the
// user names. Without either, nothing shows which receivers are only logs.
func (j *Judgement) chooseWakers(all, wanted []string) {
	f := j.facts
	named := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(wanted, name) })
	choices := [][]string{f.with(all, paging, true), named, f.with(all, chat, false), all}
	i := slices.IndexFunc(choices, func(names []string) bool { return len(names) > 0 })
	j.wakers, j.eachDoes = choices[max(i, 0)], i < 2
}

// with are the receivers that have one of some integrations, or if has is false, another one.
func (f *Facts) with(receivers []string, integrations string, has bool) []string {
	return slices.DeleteFunc(slices.Clone(receivers), func(name string) bool {
		fits := func(one string) bool { return strings.Contains(integrations, " "+one+" ") == has }
		return !slices.ContainsFunc(slices.Collect(maps.Keys(f.routing.Integrations[name])), fits)
	})
}

// judge finds what is wrong with the way of an alert, and what a problem at night leads to.
func (j *Judgement) judge(a *ourAlert) {
	if a.severity == critical {
		j.complain(a, j.reach(a, j.week))
	} else {
		j.complain(a, j.way(a, nil, nil))
	}
	now, night := j.fateOf(a, &j.now), j.fateOf(a, &j.night)
	j.judgeHeld(a, &now, j.night.At)
	atNow, atNight, told := j.notified(&now), j.notified(&night), TellsNobody
	held := a.labels == nil || night.Silence != nil || night.Inhibitor != nil
	reached := j.reach(a, []time.Time{j.night.At}).State
	sends := func(route *routing.Route) bool {
		return j.facts.routing.Uses(route.Receiver) != "" &&
			slices.ContainsFunc(j.week, func(t time.Time) bool { return j.facts.routing.Mutes(route, t) == "" })
	}
	switch {
	case a.labels == nil:
	case !held && reached == Works:
		told = WakesSomebody
	case !held && reached == Unknown:
		told = TellsUnknown
	case len(atNow)+len(atNight) > 0 || !held && slices.ContainsFunc(j.facts.routing.RoutesOf(a.labels), sends):
		told = TellsNextDay
	}
	j.add(a, atNow, atNight, told)
}

// reach is the verdict on the way of an alert to those who wake somebody, at each of some times.
func (j *Judgement) reach(a *ourAlert, times []time.Time) Step {
	step := j.way(a, j.wakers, times)
	if step.State == Wrong || j.eachDoes {
		return step
	}
	for _, name := range j.wakers {
		if one := j.way(a, []string{name}, times); one.State == Wrong {
			return unknown(one.Name, "name the receiver that wakes somebody: --severity=critical --receiver=NAME",
				"%s; nothing shows which of %s wakes somebody", one.Error, quoted(j.wakers))
		}
	}
	return step
}

// way is the verdict on the way of an alert to one of some receivers, at each of some times. Without times, it may go to anybody.
func (j *Judgement) way(a *ourAlert, goals []string, times []time.Time) Step {
	r, routes := j.facts.routing, j.facts.routing.RoutesOf(a.labels)
	names := routing.ReceiversOf(routes)
	test := "compare with `amtool config routes test alertname=" + describe(a.labels) + "`"
	if a.labels == nil {
		return wrong(StepRoute, "change alert_relabel_configs in prometheus.yml", "alert_relabel_configs drop it")
	}
	if len(times) > 0 {
		routes = slices.DeleteFunc(routes, func(r *routing.Route) bool { return !slices.Contains(goals, r.Receiver) })
	}
	if len(routes) == 0 && len(r.Served(names)) > 0 {
		return wrong(StepRoute, test, "to %s, and not to %s", quoted(names), quoted(goals))
	}
	if len(routes) > 0 {
		names = routing.ReceiversOf(routes)
	}
	if len(r.Served(names)) == 0 {
		return wrong(StepRoute, "give that receiver an integration, or add a route to another one; "+test,
			"to %s, which notifies nobody", quoted(names))
	}
	prompt := slices.DeleteFunc(slices.Clone(routes), func(r *routing.Route) bool {
		first, next := routing.Waits([]*routing.Route{r})
		return max(first, next) > longestWait
	})
	switch {
	case len(times) == 0 || a.name == drilled: // only the worst alerts must be prompt
	case len(prompt) == 0:
		first, next := routing.Waits(routes[:1])
		return wrong(StepRoute, "shorten group_wait and group_interval of that route",
			"its route waits %s, and %s after another alert of its group", wording.AsPrometheus(first), wording.AsPrometheus(next))
	default:
		routes = prompt
	}
	for _, t := range times {
		if !slices.ContainsFunc(routes, func(route *routing.Route) bool { return r.Mutes(route, t) == "" }) {
			return wrong(StepTimeInterval, "change the intervals of that route, or add another one that sends then",
				"at %s, the route to %q %s", t.Format("Mon 15:04 -0700"), routes[0].Receiver, r.Mutes(routes[0], t))
		}
	}
	return works(StepRoute, "")
}

// fateOf is what becomes of an alert at a moment, while its warning fires.
func (j *Judgement) fateOf(a *ourAlert, m *routing.Moment) routing.Fate {
	with := *m
	if a.before != nil {
		with.Firing = append([]map[string]string{a.before}, m.Firing...)
	}
	return j.facts.routing.FateOf(a.labels, &with)
}

// notified are the receivers that are sent a message.
func (j *Judgement) notified(fate *routing.Fate) []string {
	if fate.Silence != nil || fate.Inhibitor != nil {
		return []string{}
	}
	return append([]string{}, j.facts.routing.Served(fate.Receivers)...)
}

// judgeHeld finds what holds back an alert until a time. A silence that begins later is a note: it may be planned.
func (j *Judgement) judgeHeld(a *ourAlert, fate *routing.Fate, until time.Time) {
	for i := range j.facts.Silences {
		s, begins := &j.facts.Silences[i], j.now.At
		if s.StartsAt.After(begins) {
			begins = s.StartsAt
		}
		switch {
		case a.labels == nil || !s.Covers(a.labels, begins):
		case !begins.After(until):
			j.complain(a, wrong(StepSilence, "end the silence, if it is not meant", "%s", s))
		case a.severity == critical:
			j.complain(a, works(StepSilence, "from %s, %s", begins.UTC().Format("2006-01-02 15:04 UTC"), s))
		}
	}
	if a.labels != nil && fate.Inhibitor != nil {
		j.complain(a, wrong(StepInhibition, "change that rule under inhibit_rules", "inhibited by %s", describe(fate.Inhibitor)))
	}
}

// judgeDrill finds where the alert of a drill ends, and what receivers of worse alerts it would notify. All wanted receivers must get it.
func (j *Judgement) judgeDrill(severity string, wanted, worse []string) {
	r, a := j.facts.routing, &ourAlert{name: drilled, labels: j.facts.drillLabels(severity)}
	names, fate := r.Served(routing.ReceiversOf(r.RoutesOf(a.labels))), j.fateOf(a, &j.now)
	j.tried = r.Served(fate.Receivers)
	j.Rung = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(worse, name) })
	if len(wanted) == 0 {
		j.complain(a, j.way(a, names, j.week[:1]))
	}
	for _, name := range wanted {
		if _, exists := r.Integrations[name]; !exists {
			j.complain(a, wrong(StepRoute, "name another one: --receiver=NAME", "no receiver is named %q; Alertmanager has %s", name,
				quoted(slices.Sorted(maps.Keys(r.Integrations)))))
			continue
		}
		j.complain(a, j.way(a, []string{name}, j.week[:1]))
	}
	j.judgeHeld(a, &fate, j.now.At)
	for i := range j.complaints {
		if c := &j.complaints[i]; slices.Contains(c.of, drilled) && !slices.Contains(j.Stops, c.Name) {
			j.Stops = append(j.Stops, c.Name)
		}
	}
}

// add adds what an alert leads to. The worst of its servers and targets counts.
func (j *Judgement) add(a *ourAlert, now, night []string, told string) {
	t := Told{
		Alert:    a.name,
		Severity: a.severity,
		Now:      now,
		Night:    night,
		Told:     told,
	}
	worst := []string{TellsNobody, TellsUnknown, TellsNextDay, WakesSomebody}
	i := slices.IndexFunc(j.Told, func(o Told) bool { return o.Alert == t.Alert && o.Severity == t.Severity })
	if i < 0 {
		j.Told = append(j.Told, t)
	} else if slices.Index(worst, told) < slices.Index(worst, j.Told[i].Told) {
		j.Told[i] = t
	}
}

// complain adds to what is wrong with a step. Warnings may be dropped on purpose.
func (j *Judgement) complain(a *ourAlert, s Step) {
	text, of := s.Text+s.Error, strings.TrimSpace(a.severity+" "+a.name)
	if text == "" {
		return
	}
	if a.severity == warning {
		s = works(s.Name, "%s", text)
	}
	i := slices.IndexFunc(j.complaints, func(c complaint) bool {
		return c.Name == s.Name && c.State == s.State && c.Text+c.Error == text
	})
	if i < 0 {
		i = len(j.complaints)
		j.complaints = append(j.complaints, complaint{Step: s})
	}
	if c := &j.complaints[i]; !slices.Contains(c.of, of) {
		c.of = append(c.of, of)
	}
}

// row adds the verdict on a step: the worst complaint, with the others as notes.
func (j *Judgement) row(name, format string, args ...any) {
	all := slices.DeleteFunc(slices.Clone(j.complaints), func(c complaint) bool { return c.Name != name })
	rank := []State{Wrong, Unknown, Works}
	slices.SortStableFunc(all, func(a, b complaint) int { return slices.Index(rank, a.State) - slices.Index(rank, b.State) })
	step := works(name, format, args...)
	if len(all) > 0 && all[0].State != Works {
		step, step.Error = all[0].Step, all[0].String()
		all = all[1:]
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
	return names + ": " + c.Text + c.Error
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
	step := unknown(StepReceiver, j.howToTry(untried, len(wanted) > 0), "nothing shows that a message to %s arrives",
		cmp.Or(j.described(untried), "anybody")).by(Assumed)
	if sent != nil {
		step = step.note("%s", sent.Text)
	}
	return step
}

// howToTry names the drill that notifies some receivers, which are flags of it or not. It is "" if other steps say what to do first.
func (j *Judgement) howToTry(receivers []string, flags bool) string {
	if len(j.week) == 0 || len(receivers) == 0 {
		return ""
	}
	for _, severity := range []string{"none", warning, critical} {
		would, command := j.facts.Judge(severity, receivers), "drill"
		if len(would.Stops) > 0 {
			continue
		}
		if severity != "none" {
			command += " --severity=" + severity
		}
		if flags {
			command += " --receiver=" + strings.Join(receivers, " --receiver=")
		}
		if severity == critical || would.Unconfirmed() != nil {
			command += " --yes"
		}
		return "raise a test alert that they get: " + command
	}
	return "no test alert reaches them all: repair the steps above, or add a route for drills: deploy/alertmanager/README.md, Drill"
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
				named := map[string]string{"alertname": r.Name}
				a := ourAlert{name: r.Name, severity: severity, labels: f.asSent(named, r.Labels, subject)}
				if severity == critical && warns {
					a.before = f.asSent(named, map[string]string{"severity": warning}, r.Labels, subject)
				}
				all = append(all, a)
			}
		}
	}
	return all
}

// subjectLabels say what the alerts of a rule are about, if the template of its label chat_server has the second of them. The series of
// such subjects have the first one.
var subjectLabels = [][]string{{"kind", "target"}, {"docker_host", "container", "workload"}, {"volume", "volume"}, {"target", "endpoint"}}

// problemOf finds the label alert of the series of problems, which their alerts keep.
var problemOf = regexp.MustCompile(`^chatstack:\w+_seconds:\w+\{alert="(\w+)"\}`)

// isOfSubject reports whether a label says what an alert is about. Others are those that an operator adds to all series.
func isOfSubject(name string) bool {
	return name == "chat_server" || slices.ContainsFunc(subjectLabels, func(names []string) bool { return slices.Contains(names, name) })
}

// subjects are the labels that the alerts of a rule have beside its name and its own.
func (f *Facts) subjects(r *Rule) (all []map[string]string) {
	server, own, subject := r.Labels["chat_server"], f.ownLabels(), []string{""}
	if server == "exporter" && !strings.Contains(r.Query, "without (") && !strings.Contains(r.Query, "chatstack:") {
		return own // nothing drops the labels of its scrape
	}
	for _, names := range subjectLabels {
		if strings.Contains(server, "$labels."+names[1]) {
			subject = names
		}
	}
	known := slices.DeleteFunc(slices.Clone(f.Subjects), func(labels map[string]string) bool {
		return subject[0] != "" && labels[subject[0]] == "" || !f.isOfExporter(labels, own) || heedsPages(r) && f.isQuiet(labels)
	})
	if len(known) == 0 || strings.Contains(r.Query, "absent(") {
		known = append(known, nil)
	}
	seen := map[string]bool{}
	for _, series := range known {
		labels := map[string]string{}
		for name, value := range series {
			if !isOfSubject(name) || slices.Contains(subject, name) {
				labels[name] = value
			}
		}
		if slices.Contains(subject, "endpoint") {
			labels["endpoint"] = series["target"]
		}
		if problem := problemOf.FindStringSubmatch(r.Query); problem != nil { // its series has no kind
			labels["alert"] = problem[1]
			delete(labels, "kind")
		}
		for _, chat := range []string{series["chat_server"], "stack"} {
			if isTemplate(server) {
				labels["chat_server"] = cmp.Or(chat, "stack")
			}
			if key := describe(labels); !seen[key] {
				seen[key] = true
				all = append(all, maps.Clone(labels))
			}
		}
	}
	return all
}

// heedsPages reports whether a rule leaves out targets that do not page.
func heedsPages(r *Rule) bool {
	return strings.Contains(r.Query, "chatstack:target_unexplained_seconds:all")
}

// isQuiet reports whether a series is of a target that does not page.
func (f *Facts) isQuiet(series map[string]string) bool {
	return slices.ContainsFunc(f.Quiet, func(quiet map[string]string) bool {
		for name, value := range quiet {
			if name != "__name__" && series[name] != value {
				return false
			}
		}
		return true
	})
}

// ownLabels are the labels of the scrapes of the exporter that was asked, or if Prometheus has not scraped it since its start, of all.
func (f *Facts) ownLabels() []map[string]string {
	all := f.Own
	if len(all) == 0 {
		for _, t := range f.ours() {
			all = append(all, t.Labels)
		}
	}
	if len(all) == 0 {
		all = []map[string]string{nil}
	}
	return all
}

// isOfExporter reports whether a series may be of one of some exporters. Those of another environment have routes of their own.
func (f *Facts) isOfExporter(series map[string]string, exporters []map[string]string) bool {
	return slices.ContainsFunc(exporters, func(own map[string]string) bool {
		for name, value := range series {
			if (own[name] != "" || len(f.Own) > 0) && own[name] != value && !isOfSubject(name) {
				return false
			}
		}
		return true
	})
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
	own := map[string]string{"alertname": f.Drill, "stack": "chat", "drill": "true", "severity": severity, "job": f.Job}
	return f.asSent(own, f.subjects(&Rule{Name: f.Drill})[0])
}
