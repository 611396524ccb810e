//go:build realservers

package web_test

import (
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/public"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// published is a source of the public page: two of the report's services, one of them down, and incidents.
type published struct {
	shown

	incidents []*incident.Incident
}

func (p published) Incidents() []*incident.Incident { return p.incidents }

func (published) Public() *config.Public {
	return &config.Public{
		Title: "Example Chat",
		Services: []config.PublicService{
			{Name: "IRC", Targets: []string{"irc_rpc", "irc_tls"}},
			{Name: "Service with a rather long name that has to wrap", Targets: []string{"docs_search"}},
			{Name: "New service", Targets: []string{"none"}},
		},
		Announcements: []config.Announcement{{
			From:  ago(time.Hour),
			Until: now().Add(time.Hour),
			Text:  "New rooms on Friday, see https://chat.example/a-rather-long-address-that-a-phone-cannot-hold/in-one-line",
		}},
	}
}

// TestRealBrowserFindsNoBarrierOnOtherPages checks that the pages beside the status page fit every screen and have no barrier.
func TestRealBrowserFindsNoBarrierOnOtherPages(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	const longName = "tenant-042-service-with-a-rather-long-name-that-never-ends-1"
	events := &chronicle{incidents: []*incident.Incident{
		newIncident("20260501-00000001", incident.Open, longName, ago(time.Hour)),
		newIncident("20260501-00000002", incident.Closed, "docs_search", ago(30*time.Hour)),
	}}
	_, forms := newKept(t, true)
	report := faultyReport(3)
	report.Summarize()
	recent := newIncident("20260501-00000001", incident.Closed, "docs_search", ago(3*time.Hour))
	recent.Impact = "The search of the documentation does not work."
	recent.Acknowledged = incident.Acknowledgement{Time: ago(time.Hour), By: longName}
	began := recent.Began
	report.Problems = []status.Problem{{
		Problem: health.Problem{
			Subject:  health.TargetSubject("irc_rpc"),
			Alert:    "TargetDown",
			Severity: health.Critical,
			Since:    began,
		},
		Text: "is down: nothing listens there",
	}, {
		Problem: health.Problem{Subject: health.ContainerSubject("local", longName), Alert: "ContainerDown", Since: began},
		Text:    "is not running",
	}}
	remembered := remembering{&chronicle{report: report, incidents: []*incident.Incident{recent}}, began}
	for name, page := range map[string]struct {
		handler http.Handler
		path    string
	}{
		"incidents":    {events.handler(false), "incidents"},
		"no-incidents": {(&chronicle{}).handler(false), "incidents"},
		"incident":     {events.handler(false), "incidents/20260501-00000001"},
		"closed":       {events.handler(false), "incidents/20260501-00000002"},
		"with-charts":  {newHandler(remembered), "incidents/20260501-00000001"},
		"open-now":     {newHandler(remembered), "incidents"},
		"maintenance":  {forms, "maintenance"},
		"public": {
			public.New(published{
				shown{report: report},
				[]*incident.Incident{newIncident("20260501-00000001", incident.Closed, "docs_search", ago(3*time.Hour))},
			},
				slog.New(slog.DiscardHandler)),
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := serveHandler(t, page.handler)
			b := newTab(t, browser, phone)
			b.open(t, address+page.path)
			b.fits(t, func(look string) {
				findNoBarrier(t, b, axe, look)
				b.save(t, name+"-"+look)
			})
		})
	}
}
