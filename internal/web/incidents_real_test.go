//go:build realservers

package web_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// incidentAt is the address of an incident for alice, who logs in with it.
func incidentAt(port, id string) string {
	login := url.URL{
		Scheme: "http",
		User:   url.UserPassword("alice", pagePassword),
		Host:   "exporter.test:" + port,
		Path:   "/incidents/" + id,
	}
	return login.String()
}

// TestRealBrowserAcknowledgesAndAddsTexts by keyboard, with and without script, and after a mistake.
func TestRealBrowserAcknowledgesAndAddsTexts(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	for name, scripts := range map[string]bool{"with script": true, "without script": false} {
		t.Run(name, func(t *testing.T) {
			c := acknowledging()
			c.public.ListenAddress = "127.0.0.1:9657"
			port := serveWithPassword(t, c.handler(true, "alice"))
			b := newTab(t, browser, phone)
			disable := func(value bool) {
				_, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: value})
				must(t, err)
			}
			disable(!scripts)
			b.do(t, chromedp.Navigate(incidentAt(port, openID)))
			fits := func() {
				t.Helper()
				if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > phone.width {
					t.Errorf("the page is %d pixels wide, the screen %d", wide, phone.width)
				}
				disable(false) // axe-core waits for timers
				for _, v := range axeRun(t, b, axe) {
					t.Errorf("%s (%s): %s", v.ID, v.Impact, v.Help)
				}
				disable(!scripts)
			}
			fits()
			b.save(t, "incident-forms")
			write := func(field, text string) {
				t.Helper()
				ask[bool](t, b, `document.getElementById("`+field+`").select(), document.getElementById("`+field+`").focus(), true`)
				b.do(t, chromedp.KeyEvent(text))
			}
			write("as", " ")
			b.do(t, chromedp.KeyEvent(kb.Enter))
			b.waitFor(t, `document.querySelector("[role=alert]") !== null`)
			holds(t, ask[string](t, b, `document.body.innerText`), "Nothing was changed.", "the name is empty")
			fits()
			for _, fault := range b.complaints() { // the browser logs the status
				if !strings.Contains(fault, "400 (Bad Request)") {
					t.Error(fault)
				}
			}
			write("as", "Zoë")
			b.do(t, chromedp.KeyEvent(kb.Enter))
			b.waitFor(t, `document.querySelector("[role=status]") !== null`)
			if c.said != "Zoë (alice)" {
				t.Fatalf("acknowledged by %q", c.said)
			}
			holds(t, ask[string](t, b, `document.body.innerText`), "Zoë is on it: acknowledged")
			write("text", "The disk was full.")
			b.do(t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
			b.waitFor(t, `(document.body?.innerText ?? "").includes("Your note was added.")`)
			if c.noted != "alice: The disk was full." {
				t.Errorf("noted %q", c.noted)
			}
			write("update", "A new disk is in.")
			b.do(t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
			b.waitFor(t, `(document.body?.innerText ?? "").includes("Your update was added.")`)
			if c.noted != "for users, alice: A new disk is in." {
				t.Errorf("noted %q", c.noted)
			}
			fits()
			c.said, c.noted = "", ""
			if b.do(t, chromedp.Reload()); c.said+c.noted != "" {
				t.Errorf("a reload sent %q, %q", c.said, c.noted)
			}
		})
	}
}

// TestRealBrowserShowsTheTimesOfItsZone beside those in UTC, which are alone without script.
func TestRealBrowserShowsTheTimesOfItsZone(t *testing.T) {
	browser := chromium(t)
	address := serveHandler(t, newChronicle().handler(false)) + "incidents/" + closedID
	for zone, want := range map[string]string{
		"America/New_York": "8:00:00|EDT|(1 May 2026 12:00:00 UTC)", "Asia/Kolkata": "17:30:00|GMT+5:30|(1 May 2026 12:00:00 UTC)",
		"UTC": "Began: 1 May 2026 12:00:00 UTC",
	} {
		b := newTab(t, browser, desktop)
		_, err := chromedp.Call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		must(t, err)
		b.open(t, address)
		text := ask[string](t, b, `document.querySelector("main li:has(time)").innerText`)
		holds(t, text, strings.Split(want, "|")...)
		if zone == "UTC" && strings.Contains(text, "(") {
			t.Errorf("in UTC, the page has the time twice: %s", text)
		}
		_, err = chromedp.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		must(t, err)
		b.open(t, address)
		if got := ask[string](t, b, `document.querySelector("main li:has(time)").innerText`); got != "Began: 1 May 2026 12:00:00 UTC" {
			t.Errorf("%s, without script: %q", zone, got)
		}
	}
}
