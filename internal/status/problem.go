package status

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// Problem is what the judgement says is wrong, in words.
type Problem struct {
	health.Problem
	// Lasted is for how long, in seconds.
	Lasted float64 `json:"lasted_seconds"`
	// Text says what is wrong, and what holds back its alert; Hint what to do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Level is how bad it is.
func (p *Problem) Level() Level { return levelOf(&p.Problem) }

// OfAll reports whether it is about all that the exporter watches, not about one target or container.
func (p *Problem) OfAll() bool { return p.Subject == health.ExporterSubject }

// judged is the judgement with its problems in words.
type judged struct {
	*health.Judgement
	problems []Problem
	// of are the indexes of the problems of each subject, the worst first.
	of       map[health.Subject][]int
	measured map[health.HeldBack]float64
	down     map[string]bool // containers, by name
}

// Describe puts a judgement into words.
func Describe(given *health.Judgement) []Problem { return newJudged(given).problems }

func newJudged(given *health.Judgement) *judged {
	j := &judged{
		Judgement: printable(given), problems: []Problem{}, of: map[health.Subject][]int{}, measured: map[health.HeldBack]float64{}, down: map[string]bool{},
	}
	for _, v := range j.Values {
		j.measured[health.HeldBack{Alert: v.Alert, Subject: v.Subject}] = v.Number
	}
	for s, v := range j.Verdicts {
		if s.Kind == config.MaintenanceContainer && (v.Down > 0 || v.Missing > 0) {
			j.down[s.Name] = true
		}
	}
	for i, known := range j.Problems {
		p := Problem{Problem: known, Lasted: known.Lasted.Seconds()}
		w := plainWords[p.Alert]
		if p.Text, p.Hint = cmp.Or(w.text, p.Alert), w.hint; strings.Contains(p.Text, "%s") {
			p.Text = fmt.Sprintf(p.Text, cmp.Or(p.Of, p.Name))
		}
		p.Text += j.explain(&p.Problem)
		j.problems, j.of[p.Subject] = append(j.problems, p), append(j.of[p.Subject], i)
	}
	return j
}

// describeAll puts the judgement into words, with what is known of containers and targets that it does not need.
func (m *memory) describeAll(in *Input, all *fleet, targets []observed) *judged {
	j := newJudged(in.Snapshot.Judgement)
	byName := map[string]*observed{}
	for i := range targets {
		byName[targets[i].Target] = &targets[i]
	}
	for i := range j.problems {
		p, text := &j.problems[i], ""
		if place := (place{p.Host, p.Name}); all.facts[place] != nil && p.Kind == config.MaintenanceContainer {
			text, p.Hint = j.describeContainer(in, &p.Problem, all.facts[place], m.containers[place])
		} else if t := byName[p.Name]; t != nil && p.Kind == config.MaintenanceTarget {
			text, p.Hint = j.describeTarget(p, t, all)
		}
		if text != "" {
			p.Text = text + j.explain(&p.Problem)
		}
	}
	return j
}

// printable is the judgement with the names that an engine gave fit to be shown, as parse makes them.
func printable(given *health.Judgement) *health.Judgement {
	if given == nil {
		return &health.Judgement{}
	}
	text := func(s string) string { return failure.Printable(s, maxName) }
	subject := func(s health.Subject) health.Subject {
		return health.Subject{Kind: s.Kind, Host: text(s.Host), Name: text(s.Name)}
	}
	j := *given
	j.Problems, j.Values, j.Verdicts = slices.Clone(j.Problems), slices.Clone(j.Values), make(map[health.Subject]health.Verdict, len(j.Verdicts))
	for i := range j.Problems {
		p := &j.Problems[i]
		p.Subject, p.Of, p.Also, p.Excuse.Cause, p.Excuse.Root = subject(p.Subject), text(p.Of), text(p.Also), text(p.Excuse.Cause), subject(p.Excuse.Root)
		p.Consequences = slices.Clone(p.Consequences)
		for k := range p.Consequences {
			p.Consequences[k] = subject(p.Consequences[k])
		}
	}
	for i := range j.Values {
		j.Values[i].Subject = subject(j.Values[i].Subject)
	}
	for s, v := range given.Verdicts {
		v.Excuse.Cause, v.Excuse.Root = text(v.Excuse.Cause), subject(v.Excuse.Root)
		j.Verdicts[subject(s)] = v
	}
	return &j
}

// explain says what holds back the alert on a problem, or what else is wrong.
func (j *judged) explain(p *health.Problem) string {
	text := ""
	if p.Unknown {
		text = " (when it was last known)"
	}
	switch {
	case p.Excuse.Holds():
		text += "; no alert: " + j.because(p)
	case neverUp(p):
		text += "; no alert before target_down.critical, since it was never seen up"
	case p.Also != "" && j.down[p.Also]:
		text += "; also: " + p.Also + " is down"
	case p.Also != "":
		text += "; also: " + p.Also + " is not available"
	}
	return text
}

// neverUp reports whether a target's alert waits for the critical threshold, since nobody knows how long the target has been down.
func neverUp(p *health.Problem) bool {
	return p.Alert == health.AlertTargetDown && p.AtLeast && p.Severity == health.Pending && !p.Excuse.Holds()
}

// because says why the alert on a problem is held back.
func (j *judged) because(p *health.Problem) string {
	e, root := &p.Excuse, ""
	if e.Root.Name != "" && e.Root.Name != e.Cause {
		root = " because of " + e.Root.Name
	}
	switch {
	case e.Reason == health.ReasonDependency && e.Root.Kind == config.MaintenanceTarget && j.Verdicts[e.Root].Down > 0:
		return "it needs " + e.Cause + ", which is down"
	case e.Reason == health.ReasonMaintenance && e.Cause == "":
		return "it is under maintenance"
	case e.Reason == health.ReasonMaintenance:
		return e.Cause + " is under maintenance"
	case e.Reason == health.ReasonStarting && p.Kind == config.MaintenanceContainer:
		return "it waits for " + e.Cause
	case e.Reason == health.ReasonStarting:
		return "its container " + e.Cause + " is starting" + root
	case e.Reason == health.ReasonContainer && j.down[e.Cause]:
		return "its container " + e.Cause + " does not run" + root
	case e.Reason == health.ReasonContainer:
		return "its container " + e.Cause + " has just come back" + root
	}
	if j.down[cmp.Or(e.Root.Name, e.Cause)] {
		return "it needs " + e.Cause + ", which is not available" + root
	}
	return "it needs " + e.Cause + ", which is starting or has just come back" + root
}

// words are what is said of a problem: the text, where %s is what it is about, and what to do.
type words struct{ text, hint string }

// plainWords say what a problem is, by the name of its alert, where nothing else is known.
var plainWords = map[string]words{
	health.AlertTargetDown:            {"is down", ""},
	health.AlertTargetUnstable:        {"many of its checks fail", "The page of its last readings shows the failures. Look for a server that is overloaded, or one of several behind a name that is broken."},
	health.AlertMostTargetsDown:       {"most of them are down, and not for one reason", "Check the host, its network, and whether the exporter itself reaches anything."},
	health.AlertContainerDown:         {"does not run", "Read why it ended, then start it."},
	health.AlertContainerMissing:      {"does not exist", "Create it again."},
	health.AlertContainerUnhealthy:    {"its health check fails", ""},
	health.AlertContainerRestarts:     {"was restarted", "Read why it ended."},
	health.AlertContainerMemory:       {"uses too much memory", "Find out what uses it, or give the container a limit."},
	health.AlertCertificateExpiry:     {"a certificate ends soon", "Renew it, and have the server load it."},
	health.AlertVolumeUsage:           {"is nearly full", "Make room, or make the volume larger."},
	health.AlertVolumeInodes:          {"has hardly any inodes left", "Delete files that nobody needs: there are very many small ones."},
	health.AlertContainerOOMKill:      {"the kernel killed one of its processes, since memory was short", "Give it more memory, or find out what uses it."},
	health.AlertAuthFailureRate:       {"too many logins fail", "Read in the XMPP server's log where they come from."},
	health.AlertPlaceholder:           {"a secret is an obvious placeholder, which everybody knows", "Change it in the service and in the exporter's configuration."},
	health.AlertComponentDisconnected: {"the component %s is not connected", "Read the component's own log. If it is the bridge, no message passes between the networks."},
	health.AlertModuleProblem:         {"modules of %s are in error", "The XMPP server's log and its page /status say which."},
	health.AlertServicesUnlinked:      {"no services are linked", "Nobody can log in to an account. Read the services' log, and check the link block of the IRC server."},
	health.AlertOrphans:               {"test records are left in the store", "The exporter tries to delete them at every check. Find out why the store refuses."},
	health.AlertServedNotRenewed:      {"shows an old certificate; its file holds another one", "Have the server reload its certificate."},
	health.AlertChainInvalid:          {"its certificate does not verify", "Clients refuse it too, unless they pin it: its authority, its name or its date is wrong."},
	health.AlertSeriesDropped:         {"some series of its metrics page are dropped", "The page of its last readings lists them."},
	health.AlertAuthSourceMissing:     {"failed logins are not counted", "Load the module of deploy/prosody, or set auth_failure_log."},
	health.AlertMonitoringGap:         {"%s", "Until that is mended, alerts that depend on it cannot fire. See container: and roles: in exporter.yaml, and for overdue checks the exporter's log."},
	health.AlertCacheExhausted:        {"the bridge's identity cache has expired; users appear under made-up nicks", "Repair the identity API."},
}

// describeTarget says more of what is wrong with a target, and what to do.
func (j *judged) describeTarget(p *Problem, t *observed, all *fleet) (text, todo string) {
	v, known := j.value(&p.Problem)
	switch {
	case p.Alert == health.AlertTargetDown && t.Known:
		return explainFailure(t), hint(t, all)
	case p.Alert == health.AlertTargetUnstable && known:
		text = valueText(v, "ratio") + " of its checks failed in the last hour"
	case p.Alert == health.AlertCertificateExpiry && known && v < 0:
		text = "a certificate has ended, " + valueText(-v, "seconds") + " ago"
	case p.Alert == health.AlertCertificateExpiry && known:
		text = "a certificate ends in " + valueText(v, "seconds")
	case p.Alert == health.AlertVolumeUsage && known:
		text = valueText(v, "ratio") + " of it is used"
	case p.Alert == health.AlertVolumeInodes && known:
		text = valueText(v, "ratio") + " of its inodes are used"
	case p.Alert == health.AlertAuthFailureRate && known:
		text = number(v) + " logins a minute fail"
	}
	return text, p.Hint
}

// describeContainer says what is wrong with a container, and what to do.
func (j *judged) describeContainer(in *Input, p *health.Problem, f *facts, past *pastContainer) (text, todo string) {
	now, logs := in.Snapshot.Time, "docker logs --tail 50 "+p.Name
	forget := fmt.Sprintf("curl -X DELETE http://EXPORTER:PORT/api/v1/containers/%s/%s (requires --web.enable-lifecycle)", url.PathEscape(p.Host), url.PathEscape(p.Name))
	switch p.Alert {
	case health.AlertContainerMissing:
		if f.state == health.Missing && !f.expected {
			return "was removed", "If that was on purpose, do nothing: the exporter forgets it after an hour. To forget it at once: " + forget + ". Otherwise create it again."
		}
		return "does not exist", "Create it again. If it is gone for good, remove its name from exporter.yaml and have the exporter forget it: " + forget +
			". A deploy that takes longer than missing_after looks the same."
	case health.AlertContainerDown:
		switch f.state {
		case health.Restarting:
			text = "is waiting for a restart that does not come"
			if p.Excuse.Holds() {
				text = "keeps ending and is restarted by its policy"
			}
			return text + exitText(f, past, now), "Read why it ended: " + logs
		case created:
			return "was created but does not run", "Find out why it did not start, then start it: docker inspect --format '{{.State.Error}}' " + p.Name
		case "":
			return "does not run", "Read why it ended, then start it: " + logs
		}
		return "does not run: " + f.state + exitText(f, past, now), "Read why it ended, then start it: " + logs
	case health.AlertContainerUnhealthy:
		return "its health check fails", "Read what the check says: docker inspect --format '{{json .State.Health}}' " + p.Name
	case health.AlertContainerRestarts:
		if todo = "Read"; p.Severity < health.Critical {
			todo = "Unless somebody did it, read"
		}
		text = fmt.Sprintf("restarted %s within %s, %s", times(float64(j.Verdicts[p.Subject].RecentRestarts)), ago(in.Alerts.ContainerRestarts.Window.Std()), counts(p, now))
		if f.state == health.Restarting {
			text += "; keeps ending and is restarted by its policy" + exitText(f, past, now)
		}
		return text, todo + " why it ended: " + logs
	case health.AlertContainerOOMKill:
		return fmt.Sprintf("the kernel killed one of its processes %s within %s, since memory was short; it went on running, which counts until %s",
				times(float64(j.Verdicts[p.Subject].RecentKills)), ago(in.Alerts.ContainerOOMKill.Window.Std()), soon(now, p.Ends)),
			"Find out which with dmesg or journalctl -k, then give it more memory or find out what uses it: docker stats " + p.Name
	default: // memory
		limit, todo := in.Alerts.ContainerMemory.Critical.Over, "Find out what uses it, or give the container a limit."
		if f.role == "xmpp" && p.Severity < health.Critical {
			limit, todo = in.Alerts.ContainerMemory.Warning.Over, "Watch whether it keeps growing. A restart of the XMPP server logs everybody out."
		}
		used, known := j.value(p)
		if !known {
			return "uses over " + bytesText(float64(limit)) + " of memory", todo
		}
		return "uses " + bytesText(used) + " of memory, over " + bytesText(float64(limit)), todo
	}
}

// value is what was measured of a problem's subject.
func (j *judged) value(p *health.Problem) (float64, bool) {
	number, known := j.measured[health.HeldBack{Alert: p.Alert, Subject: p.Subject}]
	return number, known
}

// counts says until when restarts are critical, where they are, and until when they count at all: of a loop that is over,
// people are told for as long as its window is.
func counts(p *health.Problem, now time.Time) string {
	end := soon(now, p.Ends)
	if p.Eases.IsZero() || soon(now, p.Eases) == end {
		return "which counts until " + end
	}
	return "which is critical until " + soon(now, p.Eases) + " and counts until " + end
}

// worstOf are the problems of a subject, the worst first, and the level of that one.
func (j *judged) worstOf(s health.Subject) (list []*Problem, worst Level) {
	for _, i := range j.of[s] {
		list = append(list, &j.problems[i])
		worst = max(worst, levelOf(&j.problems[i].Problem))
	}
	return list, worst
}

// underMaintenance says until when and why a target or container is under maintenance, "" where it is not. A target is as well
// while the container that serves it is. worst is how bad its problems are: those that are no longer pending go on.
func underMaintenance(entries []maintenance.Entry, kind, name, container string, worst Level) string {
	text, goesOn := "", ""
	if worst >= Warning {
		goesOn = "; an alert had fired before: silence it in Alertmanager"
	}
	for _, e := range entries {
		because := ""
		if e.Reason != "" {
			because = ": " + e.Reason
		}
		switch {
		case !e.Active:
		case e.Kind == kind && e.Name == name:
			return "Under maintenance until " + clock(e.Until) + because + goesOn
		case e.Kind == config.MaintenanceContainer && e.Name == container && container != "":
			text = fmt.Sprintf("Its container %s is under maintenance until %s%s%s", e.Name, clock(e.Until), because, goesOn)
		}
	}
	return text
}
