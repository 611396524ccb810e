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
		t.Run(path, func(t *testing.T) {
			b := newTab(t, browser, phone)
			b.open(t, address+path)
			b.fits(t, func(name string) { findNoBarrier(t, b, axe, name) })
		})
	}
}
