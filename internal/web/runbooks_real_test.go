//go:build realservers

package web_test

import (
	"os"
	"testing"
)

func TestRealBrowserReadsRunbooks(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	address := serveHandler(t, newShelf())
	for _, path := range []string{"runbooks", "runbooks/TargetDown", "runbooks/ContainerRestarts"} {
		for name, l := range everyLook {
			t.Run(path+"/"+name, func(t *testing.T) {
				b := newTab(t, browser, l)
				b.open(t, address+path)
				if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > l.width {
					t.Errorf("the page is %d pixels wide, the screen %d", wide, l.width)
				}
				for _, v := range axeRun(t, b, axe) {
					for _, n := range v.Nodes {
						t.Errorf("%s (%s): %s\n%s\n%s", v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary)
					}
				}
			})
		}
	}
}
