package web_test

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// named is a web.Source whose stack has a name.
type named struct{ probed }

func (named) Incidents() []*incident.Incident {
	return []*incident.Incident{{ID: "1", Title: "IRC server is down"}}
}
func (named) Maintenance() []maintenance.Entry    { return nil }
func (named) Runbook(alert string) (string, bool) { return alerts.Runbook(alert) }
func (named) AlertIndex() string                  { return alerts.Index(alerts.Defaults()) }

// TestEveryPageNamesTheStack looks for the configured title in the title of each page, of the feed and of the calendar.
func TestEveryPageNamesTheStack(t *testing.T) {
	source := named{failing()}
	source.report.PageTitle = "Plants & people"
	source.report.Headline = "Some are down"
	h := newHandler(source)
	for path, want := range map[string]string{
		"/":                      "<title>Some are down · Plants &amp; people</title>",
		"/incidents":             "<title>Incidents · Plants &amp; people</title>",
		"/incidents/1":           "<title>IRC server is down · Plants &amp; people</title>",
		"/incidents.atom":        "<title>Incidents · Plants &amp; people</title>",
		"/maintenance":           "<title>Maintenance · Plants &amp; people</title>",
		"/maintenance.ics":       "X-WR-CALNAME:Maintenance · Plants & people\r\n",
		"/runbooks":              "<title>Alerts · Plants &amp; people</title>",
		"/runbooks/TargetDown":   "<title>TargetDown · Plants &amp; people</title>",
		"/debug/targets/":        "<title>Targets · Plants &amp; people</title>",
		"/debug/targets/irc_rpc": "<title>irc_rpc · Plants &amp; people</title>",
	} {
		t.Run(path, func(t *testing.T) { holds(t, string(fetch(t, h, path, "Accept", "text/html").body), want) })
	}
}
