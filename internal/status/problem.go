package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Problem is a problem of the judgement with a text for people.
type Problem struct {
	health.Problem
	// Lasted is the duration so far, in seconds.
	Lasted float64 `json:"lasted_seconds"`
	// Text says what is wrong and why its alert is held back; Hint says what to do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Level returns the problem's level.
func (p *Problem) Level() Level {
	switch {
	case p.Severity == health.Critical:
		return Critical
	case p.Severity == health.Warning:
		return Warning
	case p.Excuse.Reason == health.ReasonMaintenance:
		return Maintenance
	}
	return Pending
}

// judged is what a report is made from: an input, and its judgement with a text for each problem. Names are printable, since an engine's
// are untrusted.
type judged struct {
	*Input
	now       time.Time
	problems  []Problem
	bySubject map[health.Subject][]*Problem // an outage first, then the worst
	verdicts  map[health.Subject]health.Verdict
	values    map[health.Subject][]health.Value
	down      map[string]bool // containers, by name
	targets   map[health.Subject]*poll.Status
	// containers are those of the engines that are up.
	containers map[health.Subject]*health.Container
	byRole     map[string][]string // their names
}

// Describe returns a judgement's problems with their texts.
func Describe(given *health.Judgement) []Problem {
	m := newMemory()
	return m.judge(&Input{Snapshot: &poll.Snapshot{Judgement: given}}, given.Time).problems
}

// judge reads an input, and describes the problems of its judgement.
func (m *memory) judge(in *Input, now time.Time) *judged {
	given := cmp.Or(in.Snapshot.Judgement, &health.Judgement{})
	j := &judged{
		Input:      in,
		now:        now,
		problems:   make([]Problem, len(given.Problems)),
		bySubject:  map[health.Subject][]*Problem{},
		verdicts:   make(map[health.Subject]health.Verdict, len(given.Verdicts)),
		values:     map[health.Subject][]health.Value{},
		down:       map[string]bool{},
		targets:    map[health.Subject]*poll.Status{},
		containers: map[health.Subject]*health.Container{},
		byRole:     map[string][]string{},
	}
	m.readTargets(j)
	j.readVerdicts(given)
	for i, known := range given.Problems {
		p := &j.problems[i]
		p.Problem, p.Lasted = printable(known), known.Lasted.Seconds()
		m.describe(j, p)
		j.bySubject[p.Subject] = insert(j.bySubject[p.Subject], p, p.Alert == health.AlertTargetDown && !byCertificate(p))
	}
	return j
}

// byCertificate reports whether the alert on a certificate says more.
func byCertificate(p *Problem) bool { return p.Excuse.Reason == health.ReasonCertificate }

// insert inserts an element as the first or as the last.
func insert[T any](list []T, e T, first bool) []T {
	if first {
		return slices.Insert(list, 0, e)
	}
	return append(list, e)
}

// readVerdicts reads what a judgement says of each subject.
func (j *judged) readVerdicts(given *health.Judgement) {
	for s, v := range given.Verdicts {
		s, v.Excuse = printableSubject(s), printableExcuse(v.Excuse)
		j.verdicts[s] = v
		if s.OnEngine() && (v.IsDown() || v.Missing > 0) {
			j.down[s.Name] = true
		}
		if v.RecentRestarts > 0 {
			j.values[s] = append(j.values[s], health.Value{Alert: health.AlertContainerRestarts, Number: float64(v.RecentRestarts)})
		}
	}
	for _, v := range given.Values {
		s := printableSubject(v.Subject)
		j.values[s] = append(j.values[s], v)
	}
}

// describe says what is wrong, with what only the snapshot knows of containers and targets, and what to do.
func (m *memory) describe(j *judged, p *Problem) {
	text := ""
	p.Hint = alerts.WordsOf(p.Alert).Hint
	if given := j.containers[p.Subject]; given != nil {
		text, p.Hint = j.describeContainer(&p.Problem, given, m.containers[p.Subject])
	} else if t := j.targets[p.Subject]; t != nil {
		text, p.Hint = j.describeTarget(p, t)
	}
	p.Text = cmp.Or(text, plainText(&p.Problem))
	if p.UpAgain {
		p.Text, p.Hint = j.describeFlapping(p)
	}
	if p.Because != "" {
		p.Text += ": " + p.Because
	}
	if p.Was != "" {
		p.Text += "; it was " + p.Was
	}
	p.Text += j.alertNote(&p.Problem)
}

// plainText says what is wrong, without measured values.
func plainText(p *health.Problem) string {
	switch {
	case p.Outages > 0:
		return fmt.Sprintf("has been down %d times in the last 90 minutes", p.Outages)
	case p.Wanted > 0:
		return numberOf(p.Instances, p.Wanted)
	}
	text := cmp.Or(alerts.WordsOf(p.Alert).Text, p.Alert)
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, cmp.Or(p.Of, p.Name))
	}
	return text
}

// maxName limits the length of shown names. An engine's own names are not longer.
const maxName = 255

// printableName returns an untrusted name as it is shown.
func printableName(s string) string { return failure.Printable(s, maxName) }

func printableSubject(s health.Subject) health.Subject {
	return health.Subject{Kind: s.Kind, Host: printableName(s.Host), Name: printableName(s.Name)}
}

func printableExcuse(e health.Excuse) health.Excuse {
	return health.Excuse{Reason: e.Reason, Cause: printableName(e.Cause), Root: printableSubject(e.Root)}
}

// printable returns a copy with printable names.
func printable(p health.Problem) health.Problem {
	p.Subject, p.Cause, p.Excuse = printableSubject(p.Subject), printableSubject(p.Cause), printableExcuse(p.Excuse)
	p.Of, p.Also, p.Was = printableName(p.Of), printableName(p.Also), printableName(p.Was)
	p.Consequences = slices.Clone(p.Consequences)
	for i, s := range p.Consequences {
		p.Consequences[i] = printableSubject(s)
	}
	return p
}

// alertNote says why the alert on a problem is held back, or what else is wrong.
func (j *judged) alertNote(p *health.Problem) string {
	text := ""
	if p.Unknown {
		text = " (" + lastKnownAt(j.now, p.LastKnown) + ")"
	}
	switch {
	case p.Excuse.Holds():
		text += "; no alert: " + j.excuseText(p)
	case neverUp(p):
		text += "; no alert before target_down.critical, since it was never seen up"
	case p.Also != "" && j.down[p.Also]:
		text += "; also: " + p.Also + " is down"
	case p.Also != "":
		text += "; also: " + p.Also + " is not available"
	}
	return text
}

// neverUp reports whether a target's alert waits for the critical threshold because the begin of the outage is unknown.
func neverUp(p *health.Problem) bool {
	return p.Alert == health.AlertTargetDown && p.AtLeast && p.Severity == health.Pending && !p.Excuse.Holds()
}

// excuseText says why the alert on a problem is held back.
func (j *judged) excuseText(p *health.Problem) string {
	e, root := &p.Excuse, ""
	if e.Root.Name != "" && e.Root.Name != e.Cause {
		root = " because of " + e.Root.Name
	}
	switch {
	case p.Alert == health.AlertRelayUnwatched && e.Root == p.Subject:
		return health.AlertRelaySessionDown + " says so"
	case e.Reason == health.ReasonDependency && e.Root.Kind == health.KindTarget && j.verdicts[e.Root].Down > 0:
		return "it needs " + e.Cause + ", which is down"
	case e.Reason == health.ReasonCertificate:
		return "the alert on the certificate of " + e.Cause + " says so"
	case e.Reason == health.ReasonMaintenance && e.Cause == "":
		return "it is under maintenance"
	case e.Reason == health.ReasonMaintenance:
		return e.Cause + " is under maintenance"
	case e.Reason == health.ReasonStarting && p.OnEngine():
		return "it waits for " + e.Cause
	case e.Reason == health.ReasonStarting:
		return "its container " + e.Cause + " is starting" + root
	case e.Reason == health.ReasonContainer && j.down[e.Cause]:
		return "its container " + e.Cause + " is not running" + root
	case e.Reason == health.ReasonContainer:
		return "its container " + e.Cause + " has just come back" + root
	}
	if j.down[cmp.Or(e.Root.Name, e.Cause)] {
		return "it needs " + e.Cause + ", which is not available" + root
	}
	return "it needs " + e.Cause + ", which is starting or has just come back" + root
}

// describeTarget says what is wrong with a target, with measured values, and what to do.
func (j *judged) describeTarget(p *Problem, t *poll.Status) (text, todo string) {
	v, known := j.value(&p.Problem)
	gauge := alerts.GaugeOf(p.Alert)
	switch {
	case p.Alert == health.AlertTargetDown && t.Known:
		text = explainFailure(t)
		if p.Outages > 0 {
			text += "; it " + plainText(&p.Problem)
		}
		if retry := retryText(t.Waiting, t.LastAttempt); retry != "" {
			text += "; " + retry
		}
		if n := j.verdicts[p.Subject].Unanswered; n > 0 {
			text += fmt.Sprintf("; %d of the services on it do not answer", n)
		}
		return text, j.targetHint(t)
	case health.FailsReadings(p.Alert) && t.Known && !t.Up:
		return "", j.targetHint(t)
	case !known:
	case gauge.PastProblem != "" && v < 0:
		text = strings.Replace(gauge.PastProblem, "<value>", wording.Amount(-v, gauge.Unit), 1)
	default:
		text = strings.NewReplacer("<value>", wording.Amount(v, gauge.Unit), "<number>", wording.Number(v)).Replace(gauge.Problem)
	}
	if known && p.Throttled {
		return text + ": " + failure.Explain(failure.Throttled),
			"Exempt the exporter's address from the server's limit, or probe the target less often: set its schedule."
	}
	return text, p.Hint
}

// describeFlapping says how often what is up again was down, and what to do.
func (j *judged) describeFlapping(p *Problem) (text, todo string) {
	text = plainText(&p.Problem) + ", and up again for " + wording.Duration(j.verdicts[p.Subject].Calm)
	if p.OnEngine() {
		return text, "Find out why it does not keep running: its log is `docker logs --since 1h " + p.Name + "`"
	}
	return text, "Find out why it does not stay up. Its last probes say how it failed."
}

// describeContainer says what is wrong with a container, and what to do.
func (j *judged) describeContainer(p *health.Problem, given *health.Container, past *pastContainer) (text, todo string) {
	now, v, logs := j.Snapshot.Time, j.verdicts[p.Subject], "`docker logs --tail 50 "+given.Name+"`"
	exit := exitText(given, past, now)
	forget := "`chatstack_exporter forget " + p.Name + "`"
	if p.Host != collectors.DefaultDockerHost {
		forget = "`chatstack_exporter forget --docker-host=" + p.Host + " " + p.Name + "`"
	}
	switch p.Alert {
	case health.AlertContainerMissing:
		if given.GoneOnPurpose() {
			return "was removed", "If that was on purpose, acknowledge the incident, or make the exporter forget it: " + forget +
				". Otherwise, create it again."
		}
		return "does not exist",
			"Create it again. If it is gone for good, remove its name from exporter.yaml and make the exporter forget it: " + forget +
				". A deployment that takes longer than missing_after looks the same."
	case health.AlertContainerDown:
		return describeStopped(p, given, exit, logs)
	case health.AlertContainerUnhealthy:
		return "its health check fails",
			"Read the health check's output: `docker inspect --format '{{json .State.Health}}' " + given.Name + "`"
	case health.AlertContainerOftenUnhealthy:
		return "its health check keeps failing: " + wording.Duration(v.OftenUnhealthy) + j.within(p.Alert),
			"Find out why it does not stay healthy: " + logs
	case health.AlertOneShotFailed:
		return "did not do its work: it ended" + exit, "Find out why it failed, then run it again: " + logs
	case health.AlertContainerRestarts:
		if todo = "Find"; p.Severity < health.Critical {
			todo = "Unless somebody restarted it, find"
		}
		text = "restarted " + wording.Times(float64(v.RecentRestarts)) + j.within(p.Alert) + ", " + restartsEnd(p, now)
		if given.State == health.Restarting {
			text += "; keeps exiting and restarting" + exit
		}
		return text, todo + " out why it exited: " + logs
	case health.AlertContainerOOMKill:
		return fmt.Sprintf("the kernel killed one of its processes %s%s because memory ran out; the container kept running; "+
				"this counts until %s", wording.Times(float64(v.RecentKills)), j.within(p.Alert), clockUntil(now, p.Ends)),
			"See which with `dmesg` or `journalctl -k`. Then give it more memory, or find out what uses it: " +
				"`docker stats " + given.Name + "`"
	}
	limits := j.limits(p.Alert)
	limit, todo := limits.Critical, "Find out what uses it, or give the container a limit."
	if given.Role == "xmpp" && p.Severity < health.Critical {
		limit, todo = limits.Warning, "Watch whether it keeps growing. A restart of the XMPP server logs everybody out."
	}
	if used, known := j.value(p); known {
		return "uses " + wording.Bytes(used) + " of memory, over " + wording.Bytes(*limit), todo
	}
	return "uses over " + wording.Bytes(*limit) + " of memory", todo
}

// describeStopped says why a container that should run does not, and what to do.
func describeStopped(p *health.Problem, given *health.Container, exit, logs string) (text, todo string) {
	switch {
	case p.Outages > 0:
		return plainText(p), "Find out why it exited, then start it: " + logs
	case p.Wanted > 0:
		return "", "Find out why the others exited: `docker ps --all`"
	case given.State == health.Restarting && p.Excuse.Holds():
		return "keeps exiting and restarting" + exit, "Find out why it exited: " + logs
	case given.State == health.Restarting:
		return "waits for a restart that does not happen" + exit, "Find out why it exited: " + logs
	case given.State == created:
		return "was created but never started",
			"Find out why it did not start, then start it: `docker inspect --format '{{.State.Error}}' " + given.Name + "`"
	case given.State == "":
		return "is not running", "Find out why it exited, then start it: " + logs
	}
	return "is not running: " + given.State + exit, "Find out why it exited, then start it: " + logs
}

// value returns what was measured of a problem's subject. If its severities measure different things, the worst is the last.
func (j *judged) value(p *health.Problem) (float64, bool) {
	for _, v := range slices.Backward(j.values[p.Subject]) {
		if v.Alert == p.Alert {
			return v.Number, true
		}
	}
	return 0, false
}

// within says how long the events of an alert count.
func (j *judged) within(alert string) string {
	return " within " + wording.Exact(alerts.Settings(&j.Alerts, alert).Window.Std())
}

// limits returns the thresholds of an alert on a number.
func (j *judged) limits(alert string) Limits {
	warning, critical := alerts.Limits(&j.Alerts, alert)
	return Limits{alert, &warning.Over, &critical.Over}
}

// restartsEnd says until when restarts are critical, if they are, and until when they count: a restart loop that is over remains
// a problem until its window has passed.
func restartsEnd(p *health.Problem, now time.Time) string {
	end := clockUntil(now, p.Ends)
	if p.Eases.IsZero() || clockUntil(now, p.Eases) == end {
		return "which counts until " + end
	}
	return "which is critical until " + clockUntil(now, p.Eases) + " and counts until " + end
}

// problemsOf returns a subject's problems, and their worst level.
func (j *judged) problemsOf(s health.Subject) (list []*Problem, worst Level) {
	for _, p := range j.bySubject[s] {
		worst = max(worst, p.Level())
	}
	return j.bySubject[s], worst
}

// underMaintenance says until when and why a target or container is under maintenance, "" if it is not. The maintenance of a
// container includes the targets that it serves. worst is the level of its problems: an alert that has fired keeps firing.
func (j *judged) underMaintenance(s health.Subject, container string, worst Level) string {
	text := ""
	for _, e := range j.Maintenance {
		until := "under maintenance until " + clock(e.Until)
		if e.Reason != "" {
			until += ": " + e.Reason
		}
		if worst >= Warning {
			until += "; its alert fired before: silence it in Alertmanager"
		}
		switch {
		case !e.Active:
		case e.Kind == s.Kind && e.Name == s.Name, j.containers[s] != nil && j.containers[s].CoveredBy(e.Kind, e.Name):
			return UpperFirst(until)
		case e.Kind == health.KindContainer && e.Name == container && container != "":
			text = "Its container " + e.Name + " is " + until
		}
	}
	return text
}
