//go:build realservers

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// patience limits how long a test waits.
const patience = time.Minute

// exporter is the whole exporter with a simulated stack, which it polls every second.
type exporter struct {
	stack *simstack.Stack
	url   string
	stop  func()
}

// startExporter starts both. Targets and containers that are down are critical at once.
func startExporter(t *testing.T) exporter {
	t.Helper()
	stack := simstacktest.Start(t, simstack.Options{})
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	content := "poll:\n  interval: 1s\ntargets:\n  - kind: plant_store\n    mode: canary\n" +
		"  - kind: xmpp_c2s\n    address: " + stack.XMPPClientAddress() + "\n  - kind: irc_tls\n    address: " + stack.IRCAddress() +
		"\nalerts:\n  target_down: {warning: {for: 0s}, critical: {for: 0s}}\n" +
		"  container_down: {warning: {for: 0s}, critical: {for: 0s}}\n"
	must(t, os.WriteFile(file, []byte(content), 0o600))
	env, address, none := stack.Environ(), []string{"127.0.0.1:0"}, ""
	a, err := app.New(app.Options{
		ConfigFile: file,
		Lookup:     func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Web:        &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none},
		Log:        slog.New(slog.DiscardHandler),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	e := exporter{stack: stack, url: "http://" + a.Addresses()[0].String() + "/"}
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(e.stop)
	return e
}

// get returns the body of a path of the exporter.
func (e exporter) get(t *testing.T, path string) string {
	t.Helper()
	return string(request(t, http.MethodGet, e.url+path).body)
}

// until polls until a condition holds.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	if !exportertest.Eventually(patience, 20*time.Millisecond, reached) {
		t.Fatalf("never reached: %s", what)
	}
}

func (b *tab) waitFor(t *testing.T, script string) {
	t.Helper()
	until(t, script, func() bool { return ask[bool](t, b, script) })
}

func TestRealBrowserShowsProblemWithoutReload(t *testing.T) {
	browser := chromium(t)
	e := startExporter(t)
	until(t, "everything is all right", func() bool { return strings.Contains(e.get(t, ""), `data-level="ok"`) })
	b := newTab(t, browser, phone)
	b.open(t, e.url)
	b.waitFor(t, `document.getElementById("page").dataset.level === "ok"`)
	// Open details, the focus and the scroll position must stay.
	ask[bool](t, b, `window.marker = true, document.getElementById("service:xmpp_rest").querySelector("summary").focus(), `+
		`document.activeElement.click(), scrollTo(0, 400), true`)
	b.waitFor(t, `document.getElementById("service:xmpp_rest").firstElementChild.open`)

	// The next probe, within a second, finds the service down; an event reports the container.
	for _, fault := range []struct{ service, name, problem string }{
		{"irc_services", "stopped", "problem:service:irc_services"}, {"docker", "exited", "problem:container:local/docs"},
	} {
		b.waitFor(t, `document.getElementById("page").dataset.level === "ok" && document.getElementById("problems") === null`)
		begun := time.Now()
		must(t, e.stack.Switch(fault.service, fault.name, true))
		b.waitFor(t,
			`document.getElementById("page").dataset.level === "critical" && !document.title.startsWith("All systems operational")`)
		took := time.Since(begun)
		t.Logf("%s is %s: critical on the page after %s", fault.service, fault.name, took)
		if took > 2*time.Second {
			t.Errorf("%s is %s: critical on the page after %s, want 2 s at most", fault.service, fault.name, took)
		}
		if !ask[bool](t, b, fmt.Sprintf(`document.getElementById(%q) !== null`, fault.problem)) {
			t.Errorf("the page does not tell of %s", fault.problem)
		}
		if fault.service == "docker" {
			break // a restarted container has a problem for a while
		}
		must(t, e.stack.Switch(fault.service, fault.name, false))
	}
	if !ask[bool](t, b, `window.marker === true`) {
		t.Error("the page was loaded anew")
	}
	if !ask[bool](t, b, `document.getElementById("service:xmpp_rest").firstElementChild.open && document.activeElement === `+
		`document.getElementById("service:xmpp_rest").querySelector("summary")`) {
		t.Errorf("what was open is shut, or the focus is elsewhere: on %s",
			ask[string](t, b, `document.activeElement.outerHTML.slice(0, 100)`))
	}
	b.waitFor(t, `document.getElementById("say").textContent.includes("down")`) // announced at most every ten seconds
}

func TestRealBrowserAnnouncesChangesRarely(t *testing.T) {
	browser := chromium(t)
	src := newTeller()
	address := serveHandler(t, newHandler(src))
	b := newTab(t, browser, desktop)
	b.open(t, address)
	ask[bool](t, b, `(() => {
		const say = document.getElementById("say");
		window.said = [];
		new MutationObserver(() => said.push([performance.now(), say.textContent])).observe(say, {childList: true, characterData: true, subtree: true});
		return true;
	})()`)
	for range 3 {
		src.tell()
		b.waitFor(t, fmt.Sprintf(`document.getElementById("page").dataset.summary === %q`, src.Report().Summary))
	}
	if got := ask[int64](t, b, "said.length"); got != 0 {
		t.Errorf("of other words alone it is told %d times", got)
	}
	for _, name := range []string{"one", "two", "three"} {
		src.tellOf(name)
		b.waitFor(t, fmt.Sprintf(`document.getElementById("problem:service:%s") !== null`, name))
		if name == "one" {
			b.waitFor(t, "said.length === 1")
		}
	}
	if got := ask[int64](t, b, "said.length"); got != 1 {
		t.Errorf("within a moment it is told %d times, want once", got)
	}
	b.waitFor(t, "said.length === 2")
	if got := ask[float64](t, b, "said[1][0] - said[0][0]"); got < 9900 {
		t.Errorf("it is told again after %.0f ms", got)
	}
	if got := ask[string](t, b, "said[1][1]"); !strings.Contains(got, "three") {
		t.Errorf("it is told %q, want what is so now", got)
	}
}

func TestRealBrowserShowsLostConnection(t *testing.T) {
	browser := chromium(t)
	e := startExporter(t)
	until(t, "everything is all right", func() bool { return strings.Contains(e.get(t, ""), `data-level="ok"`) })
	b := newTab(t, browser, desktop)
	b.open(t, e.url)
	b.waitFor(t, `document.getElementById("lost").hidden && !document.body.classList.contains("gone")`)
	e.stop()
	b.waitFor(t, `!document.getElementById("lost").hidden && document.body.classList.contains("gone")`)
	if got := ask[string](t, b, `document.getElementById("lost").textContent`); !strings.Contains(got, "lost") {
		t.Errorf("the page says %q", got)
	}
	before := ask[string](t, b, `document.querySelector(".asof time").textContent`)
	b.waitFor(t, fmt.Sprintf(`document.querySelector(".asof time").textContent !== %q`, before))
	b.save(t, "gone-desktop")
	for _, fault := range b.complaints() {
		if !strings.Contains(fault, "Failed to load resource") {
			t.Error(fault)
		}
	}
}

func TestRealBrowserDrawsCharts(t *testing.T) {
	browser := chromium(t)
	for _, l := range []look{desktop, phoneDark} {
		address := serve(t, healthyReport())
		b := newTab(t, browser, l)
		b.open(t, address)
		ask[bool](t, b, `document.querySelector("details.row").open = true`)
		b.waitFor(t, `document.querySelectorAll("details.row[open] .plot canvas").length === 2`)
		// Something other than the ground is on the canvas.
		if !ask[bool](t, b, `(() => { const c = document.querySelector(".plot canvas"); return c.getContext("2d").getImageData(0, 0, `+
			`c.width, c.height).data.some((v) => v > 0); })()`) {
			t.Error("the canvas is empty")
		}
		if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > l.width {
			t.Errorf("with charts the page is %d pixels wide, the screen %d", wide, l.width)
		}
		b.save(t, fmt.Sprintf("charts-%d", l.width))
		ask[bool](t, b, `document.querySelector("details.row").open = false, true`)
		b.waitFor(t, `document.querySelectorAll(".plot canvas").length === 0`)
	}
}

func TestRealBrowserFollowsTheScheme(t *testing.T) {
	browser := chromium(t)
	address := serve(t, faultyReport(2))
	brightness := map[bool]int64{}
	for dark, l := range map[bool]look{false: desktop, true: desktopDark} {
		b := newTab(t, browser, l)
		b.open(t, address)
		brightness[dark] = ask[int64](t, b,
			`getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((sum, v) => sum + Number(v), 0)`)
	}
	if brightness[true] > 100 || brightness[false] < 600 {
		t.Errorf("the ground's brightness is %d when dark and %d when light", brightness[true], brightness[false])
	}
}

// prefer makes the tab render for a medium and for a wish of its reader's.
func (b *tab) prefer(t *testing.T, medium, feature, value string) {
	t.Helper()
	if _, err := chromedp.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	}); err != nil {
		t.Fatal(err)
	}
}

// The dark scheme must not be printed.
func TestRealBrowserPrintsEverythingDarkOnWhite(t *testing.T) {
	address := serve(t, faultyReport(2))
	b := newTab(t, chromium(t), desktopDark)
	b.open(t, address)
	b.prefer(t, "print", "prefers-color-scheme", "dark")
	const brightness = `getComputedStyle(document.querySelector(".problem")).%s.match(/\d+/g).slice(0, 3).reduce((sum, ` +
		`v) => sum + Number(v), 0)`
	for property, good := range map[string]func(int64) bool{
		"color": func(sum int64) bool { return sum < 200 }, "backgroundColor": func(sum int64) bool { return sum > 600 },
	} {
		if sum := ask[int64](t, b, fmt.Sprintf(brightness, property)); !good(sum) {
			t.Errorf("the brightness of a problem's %s in print: %d", property, sum)
		}
	}
	if hidden := ask[string](t, b, `[...document.querySelectorAll("details.fold > :not(summary)")].filter(e => `+
		`!e.checkVisibility({contentVisibilityAuto: true})).map(e => e.outerHTML.slice(0, 80)).join("\n")`); hidden != "" {
		t.Errorf("not printed:\n%s", hidden)
	}
	if ask[bool](t, b, `document.querySelector("nav").checkVisibility()`) {
		t.Error("the links to what is below are printed")
	}
}

func TestRealBrowserRespectsReducedMotion(t *testing.T) {
	address := serve(t, faultyReport(2)) // before the tab, which reports a server that stops first
	b := newTab(t, chromium(t), desktop)
	b.open(t, address)
	const moving = `[...document.querySelectorAll("*")].filter(e => { const s = getComputedStyle(e); return s.transitionDuration !== ` +
		`"0s" || s.animationName !== "none" || s.scrollBehavior === "smooth" }).length`
	b.prefer(t, "screen", "prefers-reduced-motion", "no-preference")
	if ask[int64](t, b, moving) == 0 {
		t.Fatal("nothing moves at all: this test says nothing")
	}
	b.prefer(t, "screen", "prefers-reduced-motion", "reduce")
	if n := ask[int64](t, b, moving); n > 0 {
		t.Errorf("%d elements move for a reader who asked for rest", n)
	}
}

func TestRealBrowserShowsEverythingWithoutScript(t *testing.T) {
	browser := chromium(t)
	report := maintenanceReport()
	address := serve(t, report)
	b := newTab(t, browser, phone)
	if _, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open(t, address)
	if !ask[bool](t, b, `document.querySelector('noscript meta[http-equiv="refresh"]') !== null && typeof uPlot === "undefined"`) {
		t.Error("the page does not renew itself, or a script ran")
	}
	text := ask[string](t, b, `document.body.textContent`)
	wants := []string{"Critical", report.Headline, "targets[3]: unknown key", "What to do:", "Maintenance", "Not configured"}
	for _, s := range report.Services {
		wants = append(wants, s.Name)
	}
	for _, c := range report.Containers {
		wants = append(wants, c.Name)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := ask[int64](t, b, `document.querySelectorAll(".past svg.bars").length`); int(n) != len(report.Services)+len(report.Containers) {
		t.Errorf("%d rows of bars for %d services and containers", n, len(report.Services)+len(report.Containers))
	}
	b.save(t, "noscript-phone")
}

func TestRealBrowserWorksByKeyboard(t *testing.T) {
	browser := chromium(t)
	address := serve(t, faultyReport(1))
	b := newTab(t, browser, desktop)
	b.open(t, address)
	press := func(key string) { b.do(t, chromedp.KeyEvent(key)) }
	press(kb.Tab)
	if got := ask[string](t, b, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first stop is %q, want the link past the head", got)
	}
	press(kb.Enter)
	if got := ask[string](t, b, `document.activeElement.id`); got != "main" {
		t.Errorf("the link leads to %q", got)
	}
	for range 40 {
		press(kb.Tab)
		if !ask[bool](t, b,
			`document.activeElement.matches(":focus-visible") && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`) {
			t.Fatalf("the focus is not to be seen on %s", ask[string](t, b, `document.activeElement.outerHTML.slice(0, 200)`))
		}
		if ask[bool](t, b, `document.activeElement.matches("details.row > summary")`) {
			press(kb.Enter)
			b.waitFor(t, `document.activeElement.parentElement.open && document.activeElement.parentElement.querySelectorAll(".plot `+
				`canvas").length > 0`)
			return
		}
	}
	t.Error("no service is within forty stops")
}

// violation is a finding of axe-core.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

func TestRealBrowserFindsNoBarrier(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	for _, test := range []struct {
		state  string
		look   look
		report *status.Report
	}{
		{"healthy", desktop, healthyReport()},
		{"healthy", phoneDark, healthyReport()},
		{"faults", desktopDark, faultyReport(8)},
		{"faults", phone, faultyReport(8)},
		{"maintenance", desktop, maintenanceReport()},
		{"maintenance", phoneDark, maintenanceReport()},
		{"empty", phone, emptyReport()},
	} {
		t.Run(fmt.Sprintf("%s/%d/dark=%v", test.state, test.look.width, test.look.dark), func(t *testing.T) {
			address := serve(t, test.report)
			b := newTab(t, browser, test.look)
			b.open(t, address)
			// Unfold everything, and a few rows with their charts.
			ask[bool](t, b, `document.querySelectorAll("details:not(.row), .rows > li:nth-child(-n+2) > .row").forEach((d) => `+
				`{ d.open = true; }), true`)
			b.waitFor(t, `document.querySelectorAll(".plot canvas").length === document.querySelectorAll("details[open] .plot").length`)
			findNoBarrier(t, b, axe, test.state)
		})
	}
}

// findNoBarrier reports what axe-core finds in the tab.
func findNoBarrier(t *testing.T, b *tab, axe []byte, where string) {
	t.Helper()
	for _, v := range axeRun(t, b, axe) {
		for _, n := range v.Nodes {
			t.Errorf("%s: %s (%s): %s\n%s\n%s", where, v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary)
		}
	}
}

func axeRun(t *testing.T, b *tab, axe []byte) []violation {
	t.Helper()
	ask[bool](t, b, string(axe)+"\n;true")
	found := ask[string](t, b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`)
	var violations []violation
	must(t, json.Unmarshal([]byte(found), &violations))
	return violations
}
