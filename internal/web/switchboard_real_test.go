//go:build realservers

package web_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// press clicks a button of the switchboard and returns where it was on the screen before and is after the page has come back.
func press(t *testing.T, b *tab, row string) (before, after float64) {
	t.Helper()
	top := fmt.Sprintf("document.querySelector('#%s button').getBoundingClientRect().top", row)
	before = ask[float64](t, b, fmt.Sprintf("document.getElementById('%s').scrollIntoView({block: 'center'}), %s", row, top))
	wasOn := ask[bool](t, b, fmt.Sprintf("document.getElementById('%s').classList.contains('active')", row))
	b.do(t, chromedp.Click(fmt.Sprintf("#%s button", row)))
	b.waitFor(t, fmt.Sprintf("document.readyState === 'complete' && document.getElementById('%s')?.classList.contains('active') === %t",
		row, !wasOn))
	b.waitFor(t, fmt.Sprintf("(y => y >= 0 && y < innerHeight)(%s)", top))
	return before, ask[float64](t, b, top)
}

// TestRealBrowserSwitchesStoriesAndFaultsOnAPhone works with and without JavaScript, at 390 pixels.
func TestRealBrowserSwitchesStoriesAndFaultsOnAPhone(t *testing.T) {
	browser := chromium(t)
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts %t", scripts), func(t *testing.T) {
			stack := simstacktest.Start(t, simstack.Options{Coupled: true})
			stack.LinkStatusPage("http://localhost:1/")
			b := newTab(t, browser, look{
				width:  390,
				height: 844,
				phone:  true,
				dark:   !scripts,
			})
			if !scripts {
				_, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
				must(t, err)
			}
			b.open(t, stack.ControlURL())
			fits := func() {
				t.Helper()
				if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > 390 {
					t.Errorf("the page is %d pixels wide", wide)
				}
			}
			fits()
			b.save(t, fmt.Sprintf("switchboard-%t", scripts))
			before, after := press(t, b, "story-services_unlinked")
			t.Logf("the story's button was at %.0f, is at %.0f", before, after)
			if scripts && before-after > 20 {
				t.Errorf("the button moved from %.0f to %.0f", before, after)
			}
			if got := stack.ActiveStories(); !slices.Equal(got, []string{"services_unlinked"}) {
				t.Errorf("got %v, want the story that was switched on", got)
			}
			ask[bool](t, b, "document.getElementById('service-identity').open = true")
			press(t, b, "fault-identity-slow")
			if got := ask[bool](t, b, "document.getElementById('service-identity').open"); !got {
				t.Error("the group closed")
			}
			fits()
			if got := len(stack.Active()); got != 2 {
				t.Errorf("%d faults are on, want 2", got)
			}
			filtered := ask[bool](t, b, "document.getElementById('filter').hidden")
			if filtered == scripts {
				t.Errorf("the filter is hidden: %t", filtered)
			}
			if scripts {
				ask[bool](t, b, "document.getElementById('words').value = 'GZIP identity', "+
					"document.getElementById('words').dispatchEvent(new Event('input'))")
				rows := "[...document.querySelectorAll('.faults li')].filter(row => row.checkVisibility()).map(row => row.id).join()"
				if got := ask[string](t, b, rows); got != "fault-identity-gzip_bomb" {
					t.Errorf("the filter shows %s", got)
				}
				press(t, b, "fault-identity-gzip_bomb")
				if got := ask[string](t, b, rows); got != "fault-identity-gzip_bomb" {
					t.Errorf("after a switch, the filter shows %s", got)
				}
			}
			b.do(t, chromedp.Click("[formaction='/reset']"))
			b.waitFor(t, "document.querySelectorAll('li.active').length === 0")
			if got := stack.Active(); len(got) > 0 {
				t.Errorf("%v are on, want none", got)
			}
		})
	}
}
