//go:build realservers

package web_test

import (
	"os"
	"testing"
)

func TestRealBrowserShowsProbes(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	address := serveHandler(t, newHandler(failing()))
	for _, path := range []string{"debug/targets/", "debug/targets/irc_rpc"} {
		for name, l := range map[string]look{"phone": phone, "desktop-dark": desktopDark} {
			t.Run(path+"/"+name, func(t *testing.T) {
				b := newTab(t, browser, l)
				b.open(t, address+path)
				if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > l.width {
					t.Errorf("the page is %d pixels wide, the screen %d", wide, l.width)
				}
				for _, v := range axeRun(t, b, axe) {
					t.Errorf("%s (%s): %s", v.ID, v.Impact, v.Help)
				}
				b.save(t, "probes-"+name)
			})
		}
	}
}
