//go:build realservers

package web_test

import (
	"bytes"
	"image"
	"image/png"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/public"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// published is a source of the public page: two of the report's services, one of them down, and incidents.
type published struct {
	shown

	incidents []*incident.Incident
	public    *config.Public
}

func (p *published) Incidents() []*incident.Incident { return p.incidents }

func (p *published) Public() *config.Public { return p.public }

// newPublished has everything that the public page can show.
func newPublished(t *testing.T) *published {
	t.Helper()
	report := faultyReport(3)
	report.Summarize()
	report.Maintenance = []maintenance.Entry{
		{
			Kind:  "target",
			Name:  "irc_tls",
			From:  ago(-time.Hour),
			Until: ago(-2 * time.Hour),
		},
		{
			Kind:   "target",
			Name:   "docs_search",
			From:   ago(time.Hour),
			Until:  ago(-time.Hour),
			Active: true,
		},
	}
	event := newIncident("20260501-00000001", incident.Closed, "docs_search", ago(3*time.Hour))
	event.Updates = []incident.Note{{Time: ago(2 * time.Hour), Author: "alice", Text: "A new disk is in.\nWe watch it."}}
	var logo bytes.Buffer
	must(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 400, 100))))
	return &published{shown{report: report}, []*incident.Incident{event}, &config.Public{
		Title:   "Example Chat",
		Colour:  "#ffd700",
		HomeURL: "https://chat.example.org/",
		Logo:    config.Image{Type: "image/png", Data: logo.Bytes()},
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
	}}
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
		"public":       {public.New(newPublished(t), slog.New(slog.DiscardHandler)), ""},
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

// TestRealBrowserReadsPublicPageWithoutScript, by keyboard, on a screen of 320 pixels: what a pointer finds on the bars is text too.
func TestRealBrowserReadsPublicPageWithoutScript(t *testing.T) {
	b := newTab(t, chromium(t), look{width: 320, height: 640, phone: true})
	_, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	b.open(t, serveHandler(t, public.New(newPublished(t), slog.New(slog.DiscardHandler))))
	if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > 320 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	holds(t, ask[string](t, b, "document.body.innerText"), "As of ", "Load this page again to see changes.", "Back to chat.example.org",
		"90 days ago", "A new disk is in.\nWe watch it.", " of 19 h 59 min")
	if n := ask[int64](t, b, `document.querySelectorAll("meta[http-equiv]").length`); n != 0 {
		t.Error("the page loads itself by a meta element")
	}
	if broken := ask[bool](t, b, `[...document.images].some((i) => !i.complete || i.naturalWidth === 0)`); broken {
		t.Error("the logo is not shown")
	}
	b.do(t, chromedp.KeyEvent(kb.Tab))
	if got := ask[string](t, b, "document.activeElement.href"); got != "https://chat.example.org/" {
		t.Errorf("the first stop is %q", got)
	}
	b.do(t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if !ask[bool](t, b, `document.activeElement.parentElement.open`) {
		t.Fatal("Enter opens no days in words")
	}
	holds(t, ask[string](t, b, `document.activeElement.parentElement.innerText`), ": down for ", ": not watched")
	// Just after midnight, that is not the last day.
	if !ask[bool](t, b, `[...document.querySelectorAll(".bars rect title")].some((t) => t.textContent.includes(": down for "))`) {
		t.Error("no day has a tooltip that says how long the service was down")
	}
	b.do(t, chromedp.Click[chromedp.CSS]("#still a"))
	b.waitFor(t, `document.querySelector("#verdict") !== null && document.querySelector("details[open]") === null`)
}

// TestRealBrowserUpdatesPublicPage: what is open stays open, and the script runs under the page's policy.
func TestRealBrowserUpdatesPublicPage(t *testing.T) {
	source := newPublished(t)
	b := newTab(t, chromium(t), desktop)
	b.open(t, serveHandler(t, public.New(source, slog.New(slog.DiscardHandler))))
	b.waitFor(t, `document.getElementById("still").textContent.includes("updates itself")`)
	ask[bool](t, b, `document.querySelector("summary").focus(), document.querySelector("details").open = true`)
	changed := *source.public
	changed.Title, changed.Services = "Another <b>Chat</b>", slices.Clone(changed.Services)
	changed.Services[1].Name = "Documents"
	changed.Announcements = nil
	source.public = &changed
	ask[bool](t, b, `document.dispatchEvent(new Event("visibilitychange"))`)
	b.waitFor(t, `document.body.innerText.includes("Another <b>Chat</b>")`)
	if !ask[bool](t, b, `document.querySelector("details").open && document.activeElement === document.querySelector("summary")`) {
		t.Error("an update closes what was open, or loses the focus")
	}
	text := ask[string](t, b, `document.body.innerText`)
	holds(t, text, "Documents", "This page updates itself.")
	if strings.Contains(text, "New rooms on Friday") || strings.Contains(text, "Load this page again") {
		t.Errorf("the page has what is gone: %s", text)
	}
	if got := ask[string](t, b, `document.title`); !strings.HasSuffix(got, " · Another <b>Chat</b>") {
		t.Errorf("the title is %q", got)
	}
}
