package status

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
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
func (p *Problem) Level() Level { return levelOf(&p.Problem) }

// ExporterWide reports whether the problem is about everything that the exporter watches, not one target or container.
func (p *Problem) ExporterWide() bool { return p.Subject == health.ExporterSubject }

// judged is the judgement with a text for each problem.
type judged struct {
	*health.Judgement
	problems  []Problem
	bySubject map[health.Subject][]int // indexes in problems, the worst first
	measured  map[health.HeldBack]float64
	down      map[string]bool // containers, by name
}

// Describe returns a judgement's problems with their texts.
func Describe(given *health.Judgement) []Problem { return newJudged(given).problems }

func newJudged(given *health.Judgement) *judged {
	j := &judged{
		Judgement: printable(given),
		problems:  []Problem{},
		bySubject: map[health.Subject][]int{},
		measured:  map[health.HeldBack]float64{},
		down:      map[string]bool{},
	}
	for _, v := range j.Values {
		j.measured[health.HeldBack{Alert: v.Alert, Subject: v.Subject}] = v.Number
	}
	for s, v := range j.Verdicts {
		if s.Kind == health.KindContainer && (v.Down > 0 || v.Missing > 0) {
			j.down[s.Name] = true
		}
	}
	for i, known := range j.Problems {
		p := Problem{Problem: known, Lasted: known.Lasted.Seconds()}
		p.Text, p.Hint = plainText(&p.Problem)+j.alertNote(&p.Problem), alerts.WordsOf(p.Alert).Hint
		j.problems, j.bySubject[p.Subject] = append(j.problems, p), append(j.bySubject[p.Subject], i)
	}
	return j
}

// plainText says what is wrong, without measured values.
func plainText(p *health.Problem) string {
	text := cmp.Or(alerts.WordsOf(p.Alert).Text, p.Alert)
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, cmp.Or(p.Of, p.Name))
	}
	return text
}

// describeAll returns the judgement's problems with texts that use what only the snapshot knows of containers and targets.
func (m *memory) describeAll(in *Input, all *fleet, targets []poll.Status) *judged {
	j := newJudged(in.Snapshot.Judgement)
	byName := map[string]*poll.Status{}
	for i := range targets {
		byName[targets[i].Target] = &targets[i]
	}
	for i := range j.problems {
		p, text := &j.problems[i], ""
		if place := (place{p.Host, p.Name}); all.containers[place] != nil && p.Kind == health.KindContainer {
			text, p.Hint = j.describeContainer(in, &p.Problem, all.containers[place], m.containers[place])
		} else if t := byName[p.Name]; t != nil && p.Kind == health.KindTarget {
			text, p.Hint = j.describeTarget(p, t, all)
		}
		if text != "" {
			p.Text = text + j.alertNote(&p.Problem)
		}
	}
	return j
}

// maxName limits the length of shown names. An engine's own names are not longer.
const maxName = 255

// printableName returns an untrusted name as it is shown.
func printableName(s string) string { return failure.Printable(s, maxName) }

// printable returns a copy with printable names: an engine's names are untrusted.
func printable(given *health.Judgement) *health.Judgement {
	if given == nil {
		return &health.Judgement{}
	}
	subject := func(s health.Subject) health.Subject {
		return health.Subject{Kind: s.Kind, Host: printableName(s.Host), Name: printableName(s.Name)}
	}
	j := *given
	j.Problems, j.Values, j.Verdicts = slices.Clone(j.Problems), slices.Clone(j.Values),
		make(map[health.Subject]health.Verdict, len(j.Verdicts))
	for i := range j.Problems {
		p := &j.Problems[i]
		p.Subject, p.Cause, p.Of, p.Also, p.Excuse.Cause, p.Excuse.Root = subject(p.Subject), subject(p.Cause),
			printableName(p.Of), printableName(p.Also), printableName(p.Excuse.Cause), subject(p.Excuse.Root)
		p.Consequences = slices.Clone(p.Consequences)
		for k := range p.Consequences {
			p.Consequences[k] = subject(p.Consequences[k])
		}
	}
	for i := range j.Values {
		j.Values[i].Subject = subject(j.Values[i].Subject)
	}
	for s, v := range given.Verdicts {
		v.Excuse.Cause, v.Excuse.Root = printableName(v.Excuse.Cause), subject(v.Excuse.Root)
		j.Verdicts[subject(s)] = v
	}
	return &j
}

// alertNote says why the alert on a problem is held back, or what else is wrong.
func (j *judged) alertNote(p *health.Problem) string {
	text := ""
	if p.Unknown {
		text = " (last known state)"
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
	case e.Reason == health.ReasonDependency && e.Root.Kind == health.KindTarget && j.Verdicts[e.Root].Down > 0:
		return "it needs " + e.Cause + ", which is down"
	case e.Reason == health.ReasonMaintenance && e.Cause == "":
		return "it is under maintenance"
	case e.Reason == health.ReasonMaintenance:
		return e.Cause + " is under maintenance"
	case e.Reason == health.ReasonStarting && p.Kind == health.KindContainer:
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
func (j *judged) describeTarget(p *Problem, t *poll.Status, all *fleet) (text, todo string) {
	v, known := j.value(&p.Problem)
	switch {
	case p.Alert == health.AlertTargetDown && t.Known:
		text = explainFailure(t)
		if retry := retryText(t.RetryAt, t.LastAttempt, string(t.RetryReason)); retry != "" {
			text += "; " + retry
		}
		return text, targetHint(t, all)
	case health.FailsReadings(p.Alert) && t.Known && !t.Up:
		return "", targetHint(t, all)
	case p.Alert == health.AlertTargetUnstable && known && p.Throttled:
		return wording.Amount(v, "ratio") + " of its probes failed in the last hour: " + failure.Explain(failure.Throttled),
			"Exempt the exporter's address from the server's limit, or probe the target less often: set its schedule."
	case p.Alert == health.AlertTargetUnstable && known:
		text = wording.Amount(v, "ratio") + " of its probes failed in the last hour"
	case p.Alert == health.AlertCertificateExpiry && known && v < 0:
		text = "a certificate expired " + wording.Amount(-v, "seconds") + " ago"
	case p.Alert == health.AlertCertificateExpiry && known:
		text = "a certificate expires in " + wording.Amount(v, "seconds")
	case p.Alert == health.AlertVolumeUsage && known:
		text = wording.Amount(v, "ratio") + " of it is used"
	case p.Alert == health.AlertVolumeInodes && known:
		text = wording.Amount(v, "ratio") + " of its inodes are used"
	case p.Alert == health.AlertAuthFailureRate && known:
		text = wording.Number(v) + " logins per minute fail"
	}
	return text, p.Hint
}

// describeContainer says what is wrong with a container, and what to do.
func (j *judged) describeContainer(in *Input, p *health.Problem, given *health.Container, past *pastContainer) (text, todo string) {
	now, logs := in.Snapshot.Time, "`docker logs --tail 50 "+p.Name+"`"
	forget := fmt.Sprintf("`curl -X DELETE http://EXPORTER:PORT/api/v1/containers/%s/%s` (requires --web.enable-lifecycle)",
		url.PathEscape(p.Host), url.PathEscape(p.Name))
	switch p.Alert {
	case health.AlertContainerMissing:
		if given.State == health.Missing && !given.Expected {
			return "was removed", "If that was on purpose, do nothing: the exporter forgets it after an hour. To forget it at once: " +
				forget + ". Otherwise, create it again."
		}
		return "does not exist",
			"Create it again. If it is gone for good, remove its name from exporter.yaml and make the exporter forget it: " + forget +
				". A deployment that takes longer than missing_after looks the same."
	case health.AlertContainerDown:
		switch given.State {
		case health.Restarting:
			text = "waits for a restart that does not happen"
			if p.Excuse.Holds() {
				text = "keeps exiting and restarting"
			}
			return text + exitText(given, past, now), "Find out why it exited: " + logs
		case created:
			return "was created but never started",
				"Find out why it did not start, then start it: `docker inspect --format '{{.State.Error}}' " + p.Name + "`"
		case "":
			return "is not running", "Find out why it exited, then start it: " + logs
		}
		return "is not running: " + given.State + exitText(given, past, now), "Find out why it exited, then start it: " + logs
	case health.AlertContainerUnhealthy:
		return "its health check fails", "Read the health check's output: `docker inspect --format '{{json .State.Health}}' " + p.Name + "`"
	case health.AlertContainerRestarts:
		if todo = "Find"; p.Severity < health.Critical {
			todo = "Unless somebody restarted it, find"
		}
		text = fmt.Sprintf("restarted %s within %s, %s",
			wording.Times(float64(j.Verdicts[p.Subject].RecentRestarts)), wording.Exact(in.Alerts.Of("container_restarts").Window.Std()),
			restartsEnd(p, now))
		if given.State == health.Restarting {
			text += "; keeps exiting and restarting" + exitText(given, past, now)
		}
		return text, todo + " out why it exited: " + logs
	case health.AlertContainerOOMKill:
		return fmt.Sprintf("the kernel killed one of its processes %s within %s because memory ran out; the container kept running; "+
				"this counts until %s",
				wording.Times(float64(j.Verdicts[p.Subject].RecentKills)), wording.Exact(in.Alerts.Of("container_oom_kill").Window.Std()),
				clockUntil(now, p.Ends)),
			"See which with `dmesg` or `journalctl -k`. Then give it more memory, or find out what uses it: `docker stats " + p.Name + "`"
	default: // memory
		limit, todo := in.Alerts.Of("container_memory").Critical.Over, "Find out what uses it, or give the container a limit."
		if given.Role == "xmpp" && p.Severity < health.Critical {
			limit, todo = in.Alerts.Of("container_memory").Warning.Over,
				"Watch whether it keeps growing. A restart of the XMPP server logs everybody out."
		}
		used, known := j.value(p)
		if !known {
			return "uses over " + wording.Bytes(float64(limit)) + " of memory", todo
		}
		return "uses " + wording.Bytes(used) + " of memory, over " + wording.Bytes(float64(limit)), todo
	}
}

// value returns what was measured of a problem's subject.
func (j *judged) value(p *health.Problem) (float64, bool) {
	number, known := j.measured[health.HeldBack{Alert: p.Alert, Subject: p.Subject}]
	return number, known
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

// worstOf returns a subject's problems, the worst first, and their worst level.
func (j *judged) worstOf(s health.Subject) (list []*Problem, worst Level) {
	for _, i := range j.bySubject[s] {
		list = append(list, &j.problems[i])
		worst = max(worst, levelOf(&j.problems[i].Problem))
	}
	return list, worst
}

// underMaintenance says until when and why a target or container is under maintenance, "" if it is not. The maintenance of a
// container includes the targets that it serves. worst is the level of its problems: an alert that has fired keeps firing.
func underMaintenance(entries []maintenance.Entry, kind, name, container string, worst Level) string {
	text, fired := "", ""
	if worst >= Warning {
		fired = "; its alert fired before: silence it in Alertmanager"
	}
	for _, e := range entries {
		because := ""
		if e.Reason != "" {
			because = ": " + e.Reason
		}
		switch {
		case !e.Active:
		case e.Kind == kind && e.Name == name:
			return "Under maintenance until " + clock(e.Until) + because + fired
		case e.Kind == config.MaintenanceContainer && e.Name == container && container != "":
			text = fmt.Sprintf("Its container %s is under maintenance until %s%s%s", e.Name, clock(e.Until), because, fired)
		}
	}
	return text
}
