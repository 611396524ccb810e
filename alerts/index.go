package alerts

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:embed runbooks/*.md
var runbookFiles embed.FS

// Runbook returns the runbook of an alert, in Markdown, or false for a name that no alert has.
func Runbook(alert string) (text string, ok bool) {
	content, err := runbookFiles.ReadFile("runbooks/" + alert + ".md")
	return string(content), err == nil
}

// RunbookLink is the address of an alert's runbook. The exporter serves it, except for alerts that fire when the exporter may not
// answer.
func RunbookLink(a *config.Alerts, alert string) string {
	if a.ExternalURL == "" || rowOf(alert).elsewhere {
		return strings.TrimSuffix(a.RunbookURL, "/") + "/" + alert + ".md"
	}
	return RunbooksLink(a) + "/" + alert
}

// RunbooksLink is the address of all runbooks.
func RunbooksLink(a *config.Alerts) string {
	if a.ExternalURL == "" {
		return a.RunbookURL
	}
	return a.ExternalURL + "/runbooks"
}

// Index lists all alerts for the settings in Markdown, with their thresholds and meanings. Its links are relative to alerts/.
func Index(a config.Alerts) string {
	var b strings.Builder
	b.WriteString("# Alerts\n\nEvery alert, with the threshold of each severity. Its name links to its runbook.\n\n" +
		"| alert | warning | critical | what it means |\n|---|---|---|---|\n")
	for _, r := range rows {
		warning, critical := r.when(&a, Warning, None), r.when(&a, Critical)
		fmt.Fprintf(&b, "| [%s](runbooks/%[1]s.md) | %s | %s | %s |\n", r.name, warning, critical, meaning(r.name))
	}
	return b.String()
}

// when is in words when the alert fires with one of the severities.
func (r *row) when(a *config.Alerts, severities ...string) string {
	list := r.alerts(a, "")
	i := slices.IndexFunc(list, func(t alert) bool { return slices.Contains(severities, t.severity) })
	switch {
	case i < 0:
		return "never"
	case !r.isOn(a):
		return list[i].fill(a, r.off)
	}
	return list[i].fill(a, cmp.Or(list[i].message.when, "<after>"))
}

// meaning is the first paragraph of an alert's runbook.
func meaning(alert string) string {
	text, _ := Runbook(alert)
	_, text, _ = strings.Cut(text, "\n\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.ReplaceAll(text, "\n", " ")
}
