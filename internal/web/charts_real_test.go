//go:build realservers

package web_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// openCharts opens the first container's row, with charts of these names, and waits until they are drawn.
func openCharts(t *testing.T, browser chrome, l look, names ...string) *tab {
	t.Helper()
	report := healthyReport()
	report.Containers[0].Charts = names
	address := serve(t, report) // before the tab, which reports a server that stops first
	b := newTab(t, browser, l)
	b.open(t, address)
	ask[bool](t, b, `document.querySelector("#containers details.row").open = true`)
	b.waitFor(t, fmt.Sprintf(`document.querySelectorAll("details.row[open] .plot canvas").length === %d`, len(names)))
	return b
}

// shownTime is the range of time that the open row's charts say they show.
const shownTime = `document.querySelector("details.row[open] .zoom output").textContent`

func pressButton(t *testing.T, b *tab, button string) {
	t.Helper()
	ask[bool](t, b, fmt.Sprintf(
		`[...document.querySelectorAll("details.row[open] .zoom button")].find((b) => b.textContent === %q).click(), true`, button))
}

func TestRealBrowserZoomsByMouse(t *testing.T) {
	b := openCharts(t, chromium(t), desktop, "bytes:memory", "seconds:reading")
	if got := ask[string](t, b, shownTime); got != "24 hours" {
		t.Fatalf("at first the charts show %q", got)
	}
	ask[bool](t, b, `document.querySelector("details.row[open] .u-over").scrollIntoView({block: "center"}), true`)
	box := ask[[]float64](t, b, `(() => { const r = document.querySelector("details.row[open] .u-over").getBoundingClientRect(); return `+
		`[r.left, r.top, r.width, r.height]; })()`)
	x, y := func(part float64) float64 { return box[0] + part*box[2] }, box[1]+box[3]/2
	drawn := func() []string {
		return ask[[]string](t, b, `[...document.querySelectorAll("details.row[open] .plot canvas")].map((c) => c.toDataURL())`)
	}
	before := drawn()
	b.do(t,
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x(0.5), y),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x(0.5), y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x(0.6), y, chromedp.ButtonLeft),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x(0.75), y, chromedp.ButtonLeft),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, x(0.75), y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
	)
	b.waitFor(t, shownTime+`.includes(" to ")`)
	part := ask[string](t, b, shownTime)
	if minutes := ask[float64](t, b, fmt.Sprintf(`((of) => { const [a, b] = of.split(" to ").map((c) => 60 * c.slice(0, 2) + `+
		`Number(c.slice(3))); return (b - a + 1440) %% 1440; })(%q)`, part)); minutes < 350 || minutes > 370 {
		t.Errorf("a quarter of the day was dragged, %s are shown", part)
	}
	b.waitFor(t, `new Set([...document.querySelectorAll("details.row[open] .plot canvas")].map((c) => c.toDataURL())).size === 2`)
	if after := drawn(); slices.Equal(before, after) || after[0] == before[0] || after[1] == before[1] {
		t.Error("not every chart of the row has zoomed")
	}
	b.save(t, "zoomed")
	b.do(t, chromedp.MouseClickXY(x(0.3), y, chromedp.ClickCount(1)), chromedp.MouseClickXY(x(0.3), y, chromedp.ClickCount(2)))
	b.waitFor(t, shownTime+` === "24 hours"`)
}

func TestRealBrowserZoomsByKeyboard(t *testing.T) {
	b := openCharts(t, chromium(t), phone, "bytes:memory")
	if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > phone.width {
		t.Errorf("with charts the page is %d pixels wide, the screen %d", wide, phone.width)
	}
	ask[bool](t, b, `document.querySelector("details.row[open] > summary").focus(), true`)
	focused := func() string { return ask[string](t, b, `document.activeElement.textContent`) }
	for i := 0; focused() != "Zoom in"; i++ {
		if i > 8 {
			t.Fatalf("no button within eight stops, but %s", focused())
		}
		b.do(t, chromedp.KeyEvent(kb.Tab))
	}
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.waitFor(t, shownTime+`.includes(" to ")`)
	first := ask[string](t, b, shownTime)
	for _, stop := range []string{"Zoom out", "Earlier", "Later"} {
		b.do(t, chromedp.KeyEvent(kb.Tab))
		if got := focused(); got != stop {
			t.Fatalf("the next stop is %q, want %q", got, stop)
		}
		if stop != "Zoom out" {
			b.do(t, chromedp.KeyEvent(kb.Enter))
		}
		if stop == "Earlier" && ask[string](t, b, shownTime) == first {
			t.Error("nothing earlier is shown")
		}
	}
	if got := ask[string](t, b, shownTime); got != first {
		t.Errorf("earlier and later lead to %s, want %s", got, first)
	}
	for range 12 {
		pressButton(t, b, "Zoom in")
	}
	if got := ask[string](t, b, shownTime); !strings.Contains(got, " to ") {
		t.Errorf("the shortest part is %q", got)
	}
	pressButton(t, b, "Whole day")
	b.waitFor(t, shownTime+` === "24 hours"`)
	b.save(t, "charts-390")
}

// TestRealBrowserDrawsThresholds, and says in words which are not on the axis, and when the axis does not start at 0.
func TestRealBrowserDrawsThresholds(t *testing.T) {
	browser := chromium(t)
	const (
		// painted is how many pixels have a colour of the style sheet.
		painted = `(() => {
			const canvas = document.querySelector("details.row[open] .plot canvas"), probe = document.createElement("i");
			probe.style.color = getComputedStyle(document.documentElement).getPropertyValue("--%s");
			document.body.append(probe);
			const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
			probe.remove();
			const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
			copy.drawImage(canvas, 0, 0);
			const d = copy.getImageData(0, 0, canvas.width, canvas.height).data;
			let n = 0;
			for (let i = 0; i < d.length; i += 4) n += Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 8 && d[i + 3] > 200;
			return n;
		})()`
		note = `document.querySelector("details.row[open] .plot .quiet").textContent`
	)
	for _, c := range []struct {
		chart             string
		look              look
		warning, critical bool
		notes             []string
	}{
		{
			"bytes:memory",
			desktop,
			true,
			true,
			nil,
		},
		{
			"bytes:memory",
			phoneDark,
			true,
			true,
			nil,
		},
		{
			"bytes:steady memory",
			desktop,
			false,
			false,
			[]string{"The axis starts at 200 MB, not at 0.", "Not on the axis: warning over 320 MB.", "critical over 1 GB"},
		},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.chart, c.look.width), func(t *testing.T) {
			b := openCharts(t, browser, c.look, c.chart)
			b.waitFor(t, fmt.Sprintf(painted, "chart")+` > 100`)
			for word, want := range map[string]bool{"warning": c.warning, "critical": c.critical} {
				if n := ask[int64](t, b, fmt.Sprintf(painted, word)); (n > 100) != want {
					t.Errorf("%d pixels have the colour of %s", n, word)
				}
			}
			got := ask[string](t, b, note)
			for _, want := range c.notes {
				if !strings.Contains(got, want) {
					t.Errorf("the note %q lacks %q", got, want)
				}
			}
			if len(c.notes) == 0 && got != "" {
				t.Errorf("the note is %q", got)
			}
			if label := ask[string](t, b, `document.querySelector("details.row[open] .uplot").ariaLabel`); !strings.Contains(label,
				"warning over 320 MB; critical over 1 GB") {
				t.Errorf("the chart's label %q names no thresholds", label)
			}
			for _, want := range []string{"mean", "lowest", "highest"} {
				if !strings.Contains(ask[string](t, b, `document.querySelector("details.row[open] .u-legend").textContent`), want) {
					t.Errorf("the legend lacks %q", want)
				}
			}
			b.save(t, fmt.Sprintf("thresholds-%s-%d", strings.ReplaceAll(c.chart[6:], " ", "-"), c.look.width))
		})
	}
}

// TestRealBrowserShowsStatesFromZeroToOne: an axis that fits would make a state that is always 1 look like any other.
func TestRealBrowserShowsStatesFromZeroToOne(t *testing.T) {
	b := openCharts(t, chromium(t), desktop, "ratio:up")
	if legend := ask[string](t, b, `document.querySelector("details.row[open] .u-legend").textContent`); strings.Contains(legend, "mean") ||
		!strings.Contains(legend, "lowest") {
		t.Errorf("a state has the legend %q", legend)
	}
	if got := ask[string](t, b, `document.querySelector("details.row[open] .plot .quiet").textContent`); got != "" {
		t.Errorf("a state has the note %q", got)
	}
}

func TestRealBrowserShowsChartsWithoutScript(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	for _, script := range []bool{true, false} {
		report := healthyReport()
		report.Services = slices.DeleteFunc(report.Services, func(s status.Service) bool { return s.Name != "irc_rpc" })
		address := serve(t, report)
		b := newTab(t, browser, phone)
		if _, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !script}); err != nil {
			t.Fatal(err)
		}
		b.open(t, address)
		ask[bool](t, b, `document.querySelectorAll("details").forEach((d) => { d.open = true; }), true`)
		if script {
			b.waitFor(t, `document.querySelectorAll("details[open] .zoom button").length > 0`)
			for _, v := range axeRun(t, b, axe) {
				t.Errorf("%s (%s): %s", v.ID, v.Impact, v.Help)
			}
			continue
		}
		if n := ask[int64](t, b, `[...document.querySelectorAll("svg.large path")].filter((e) => e.checkVisibility()).length`); n == 0 {
			t.Error("without script, no chart is shown")
		}
		if ask[bool](t, b, `[...document.querySelectorAll(".zoom")].some((e) => e.checkVisibility())`) {
			t.Error("without script, there is a place for buttons")
		}
	}
}
