package receivers

import (
	"fmt"
	"strings"
	"time"
)

// Alert is one as Prometheus posts it to Alertmanager.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt,omitzero"`
	EndsAt       time.Time         `json:"endsAt,omitzero"`
	GeneratorURL string            `json:"generatorURL"`
}

// Case is a group of alerts, and what each message of it says.
type Case struct {
	Name   string
	Alerts []Alert
	// Title is how the message begins, Says what it contains, wherever it is, and Never what it does not contain.
	Title       string
	Says, Never []string
}

// StatusPage is where the exporter of the alerts has its page.
const StatusPage = "https://status.example.org"

// alert is one of the login port.
func alert(of, name, summary, description string) Alert {
	return Alert{
		Labels: map[string]string{
			"alertname": name, "severity": "critical", "stack": "chat", "case": of, "env": "prod", "cluster": "eu-1", "target": "xmpp_c2s",
		},
		Annotations: map[string]string{
			"summary":     summary,
			"description": description,
			"since":       "2026-11-28 02:05 UTC",
			"status_url":  StatusPage + "/",
			"runbook_url": StatusPage + "/runbooks/" + name,
		},
		GeneratorURL: "http://prometheus.example.org/graph?g0.expr=a+%3E+1&g0.tab=1",
	}
}

const (
	downSummary = "XMPP server login port (xmpp_c2s) down for over 5 minutes: it does not answer."
	downText    = "Every check has failed since 2026-11-28 02:05 UTC, for 5m 30s. Nobody can log in " +
		"to the XMPP server. First read the log of its container: docker logs --tail 100 prosody-1."
	// evil is what no service may read as its own mark-up.
	evil = "\"quoted\" 'single' <b>bold <!channel> <script>x</script> & &amp; *star* _under_ ~tilde~ `code` ```block``` ||spoiler|| " +
		"[link](http://evil.example.org) @everyone \\ {{ .Labels }} %s é 你好 🚨\nBcc: victim@example.org\r\n\r\nthe end"
)

// Cases are alerts of which each message must be right.
func Cases() []Case {
	down := func(of string) Alert { return alert(of, "TargetDown", downSummary, downText) }
	hostile := alert("hostile", "TargetDown", evil, strings.Repeat(evil+" ", 40))
	hostile.Labels["env"], hostile.Labels["target"] = evil, evil
	many := make([]Alert, 300)
	for i := range many {
		many[i] = alert("many", "TargetDown", fmt.Sprintf("Target %d: %s", i, strings.Repeat("<&*_`", 60)), strings.Repeat(evil, 20))
		many[i].Labels["target"] = fmt.Sprintf("%03d", i)
	}
	most := alert("most", "MostTargetsDown", "11 of 13 targets down for over 5 minutes.", "Most of the chat stack does not answer.")
	most.StartsAt = time.Now().Add(-time.Hour)
	ended := down("one of two")
	ended.Labels["target"], ended.StartsAt, ended.EndsAt = "xmpp_rest", time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	over := down("one")
	over.EndsAt = time.Now()
	whole := []string{
		"Nobody can log in to the XMPP server", "since 2026-11-28 02:05 UTC", StatusPage + "/", "docker logs --tail 100 prosody-1",
	}
	const place = " (cluster eu-1, env prod)"
	return []Case{
		{
			Name:   "one",
			Alerts: []Alert{down("one")},
			Title:  "[CRITICAL] " + downSummary + place,
			Says:   append(whole, StatusPage+"/runbooks/TargetDown"),
		},
		{
			Name:   "one, which ends",
			Alerts: []Alert{over},
			Title:  "[RESOLVED] It was: " + downSummary + place,
			Says:   []string{"from 2026-11-28 02:05 UTC to "},
			Never:  []string{"CRITICAL", "docker logs"},
		},
		{
			Name:   "one of two",
			Alerts: []Alert{down("one of two"), ended},
			Title:  "[CRITICAL] " + downSummary + place + " Over: 1.",
			Says:   whole,
		},
		{
			Name:   "most",
			Alerts: []Alert{down("most"), most},
			Title:  "[CRITICAL] 11 of 13 targets down for over 5 minutes." + place + " Also firing: 1.",
			Says:   []string{"Most of the chat stack does not answer", StatusPage + "/runbooks/MostTargetsDown"},
		},
		{
			Name:   "hostile",
			Alerts: []Alert{hostile},
			Title:  `[CRITICAL] "quoted" 'single' ‹b›bold ‹!channel›`,
			Says:   []string{StatusPage + "/"},
		},
		{
			Name:   "many",
			Alerts: many,
			Title:  "[CRITICAL] Target ",
			Says:   []string{StatusPage + "/", " Also firing: 299."},
		},
	}
}
