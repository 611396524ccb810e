//go:build realservers

package web_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

var screens = flag.String("screens", "", "directory to put pictures of every state of the status page into")

// chrome is a running browser.
type chrome struct{ ctx context.Context }

// chromium starts Debian's browser until the test ends.
func chromium(t *testing.T) chrome {
	t.Helper()
	path := "/usr/bin/chromium"
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: install Debian's package chromium", err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"), chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("force-color-profile", "srgb"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("stop the browser: %v", err)
		}
		cancel()
	})
	must(t, chromedp.Do(ctx))
	return chrome{ctx}
}

// look is a screen and its size.
type look struct {
	width, height int64
	dark, phone   bool
}

var (
	desktop     = look{width: 1280, height: 900}
	desktopDark = look{width: 1280, height: 900, dark: true}
	tablet      = look{width: 768, height: 1024}
	tabletDark  = look{width: 768, height: 1024, dark: true}
	phone       = look{width: 390, height: 844, phone: true}
	phoneDark   = look{
		width:  390,
		height: 844,
		phone:  true,
		dark:   true,
	}
	smallPhone = look{width: 360, height: 740, phone: true}
	everyLook  = map[string]look{
		"desktop": desktop, "desktop-dark": desktopDark, "tablet": tablet, "tablet-dark": tabletDark, "phone": phone,
		"phone-dark": phoneDark, "small-phone": smallPhone,
	}
	everyReports = map[string]func() *status.Report{
		"healthy": healthyReport, "fault": func() *status.Report { return faultyReport(1) },
		"faults-5":  func() *status.Report { return faultyReport(5) },
		"faults-30": func() *status.Report { return faultyReport(30) }, "maintenance": maintenanceReport, "large": largeReport,
		"empty": emptyReport,
	}
)

// tab is a tab of the browser that collects errors of the page.
type tab struct {
	context.Context

	mu     sync.Mutex
	origin string
	faults []string
}

// newTab opens a tab. At the test's end, it closes the tab and reports the page's errors.
func newTab(t *testing.T, browser chrome, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser.ctx)
	b := &tab{Context: ctx}
	t.Cleanup(func() {
		cancel()
		for _, fault := range b.complaints() {
			t.Error(fault)
		}
	})
	b.do(t, l.emulate())
	must(t, chromedp.Listen(ctx, b.observe))
	return b
}

// observe collects errors of the page: on the console, against its own policy, exceptions, and requests to other servers.
func (b *tab) observe(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.faults = append(b.faults, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.faults = append(b.faults, "exception: "+text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || b.origin != "" && u.Scheme != "data" && u.Scheme+"://"+u.Host != b.origin {
			b.faults = append(b.faults, "request to "+e.Request.URL)
		}
	}
}

// complaints returns the page's errors since the last call.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// open opens a page. Requests to any other server are errors from then on.
func (b *tab) open(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	b.mu.Lock()
	b.origin = u.Scheme + "://" + u.Host
	b.mu.Unlock()
	b.do(t, chromedp.Navigate(address))
}

func (b *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	must(t, chromedp.Do(b, actions...))
}

// ask returns the result of a script.
func ask[T any](t *testing.T, b *tab, script string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return v
}

func (l look) emulate() chromedp.Action[chromedp.Void] {
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if l.phone {
		options = []chromedp.EmulateViewportOption{
			chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait,
		}
	}
	return chromedp.Steps(chromedp.EmulateViewport(l.width, l.height,
		options...), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// serve serves a report's page on loopback.
func serve(t *testing.T, r *status.Report) string {
	t.Helper()
	return serveHandler(t, pagesOf(r))
}

func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/"
}

// fits checks that a page is not wider than each screen. It resizes the tab, which takes less time than opening the page again.
func (b *tab) fits(t *testing.T, each func(name string)) {
	t.Helper()
	for name, l := range everyLook {
		b.do(t, l.emulate())
		b.waitFor(t, fmt.Sprintf("document.documentElement.clientWidth === %d", l.width))
		if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > l.width {
			t.Errorf("%s: the page is %d pixels wide, the screen %d", name, wide, l.width)
		}
		each(name)
	}
}

func TestRealBrowserFitsEveryScreen(t *testing.T) {
	browser := chromium(t)
	for state, report := range everyReports {
		t.Run(state, func(t *testing.T) {
			address := serve(t, report())
			b := newTab(t, browser, phone)
			b.open(t, address)
			b.fits(t, func(name string) { b.save(t, state+"-"+name) })
		})
	}
}

// save writes a screenshot if the flag asks for it.
func (b *tab) save(t *testing.T, name string) {
	t.Helper()
	if *screens == "" {
		return
	}
	for suffix, shot := range map[string]chromedp.Action[[]byte]{"-first": chromedp.CaptureScreenshot(), "": chromedp.FullScreenshot(100)} {
		picture, err := chromedp.Run(b, shot)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(*screens, name+suffix+".png"), picture, 0o644)) //nolint:gosec // pictures are for everybody
	}
}
