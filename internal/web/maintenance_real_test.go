//go:build realservers

package web_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	toolkit "github.com/prometheus/exporter-toolkit/web"
)

const (
	pagePassword = "sesame-own-port"
	pageBcrypt   = "$2a$04$zHsYhEEcr2fk2cX5ruyqBesp58fWiFjYEnoWdGUZz6AezVPFM1auK"
)

// serveWithPassword serves pages to the user alice, as the exporter does with a web configuration, and returns the port.
func serveWithPassword(t *testing.T, h http.Handler) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	must(t, os.WriteFile(file, []byte("basic_auth_users:\n  alice: "+pageBcrypt+"\n"), 0o600))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	ended := make(chan error, 1)
	go func() {
		ended <- toolkit.Serve(l, server, &toolkit.FlagConfig{WebConfigFile: &file}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		must(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// TestRealBrowserSetsMaintenanceWithoutScript, by keyboard, under a name for which browsers send an origin but no Sec-Fetch-Site.
func TestRealBrowserSetsMaintenanceWithoutScript(t *testing.T) {
	browser := chromium(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	k, h := newKept(t, true, "alice")
	port := serveWithPassword(t, h)
	b := newTab(t, browser, phone)
	disableScripts := func(value bool) {
		if _, err := chromedp.Call(b, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	disableScripts(true)
	address := "http://exporter.test:" + port + "/"
	login := url.URL{
		Scheme:   "http",
		User:     url.UserPassword("alice", pagePassword),
		Host:     "exporter.test:" + port,
		Path:     "/maintenance",
		RawQuery: "subject=target/irc_rpc",
	}
	b.do(t, chromedp.Navigate(login.String()))
	fits := func() {
		t.Helper()
		if wide := ask[int64](t, b, "document.documentElement.scrollWidth"); wide > phone.width {
			t.Errorf("the page is %d pixels wide, the screen %d", wide, phone.width)
		}
		disableScripts(false) // axe-core waits for timers
		for _, v := range axeRun(t, b, axe) {
			t.Errorf("%s (%s): %s", v.ID, v.Impact, v.Help)
		}
		disableScripts(true)
	}
	fits()
	b.save(t, "maintenance-form")
	ask[bool](t, b, `document.getElementById("duration").select(), document.getElementById("duration").focus(), true`)
	b.do(t, chromedp.KeyEvent("soon"), chromedp.KeyEvent(kb.Enter))
	b.waitFor(t, `document.querySelector("[role=alert]") !== null`)
	holds(t, ask[string](t, b, `document.body.innerText`), "Nothing was changed.", "must be one such as 30m, 2h or 1d12h")
	if got := ask[string](t, b,
		`document.getElementById("subject").value + " " + document.getElementById("duration").value`); got != "target/irc_rpc soon" {
		t.Errorf("after an error, the form has %q", got)
	}
	fits()
	for _, fault := range b.complaints() { // the browser logs the status
		if !strings.Contains(fault, "400 (Bad Request)") {
			t.Error(fault)
		}
	}
	ask[bool](t, b, `document.getElementById("duration").select(), document.getElementById("duration").focus(), true`)
	b.do(t, chromedp.KeyEvent("2h"), chromedp.KeyEvent(kb.Enter))
	b.waitFor(t, `document.querySelector("[role=status]") !== null`)
	if set := k.set(); len(set) != 1 || !strings.HasPrefix(set[0], "target/irc_rpc") {
		t.Fatalf("set %q", set)
	}
	fits()
	b.save(t, "maintenance-set")
	b.do(t, chromedp.Reload())
	if set := k.set(); len(set) != 1 {
		t.Errorf("after a reload, set %q", set)
	}
	b.waitFor(t, `document.querySelector("button[name=end]") !== null`)
	ask[bool](t, b, `document.querySelector("button[name=end]").focus(), true`)
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.waitFor(t, `(document.body?.innerText ?? "").includes("has ended")`)
	if set := k.set(); len(set) != 0 {
		t.Errorf("after the end, set %q", set)
	}
	b.do(t, chromedp.Navigate(address))
	if got := ask[string](t, b, `document.querySelector("#maintenance a").getAttribute("href")`); got != "maintenance" {
		t.Errorf("the status page links to %q", got)
	}
}

// TestRealBrowserKeepsPasswordFromForeignNames has a browser that is logged in, and a page of another name for the same address, as
// after DNS rebinding; and a form of another site.
func TestRealBrowserKeepsPasswordFromForeignNames(t *testing.T) {
	browser := chromium(t)
	k, h := newKept(t, true, "alice")
	port := serveWithPassword(t, h)
	token := tokenOf(t, h) // the attacker would not even have it
	evil := http.NewServeMux()
	evil.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		//nolint:errcheck // the browser is gone
		fmt.Fprintf(w, `<!DOCTYPE html><title>evil</title><form method="post" action="http://exporter.test:%s/maintenance">`+
			`<input name="token" value="%s"><input name="subject" value="target/irc_rpc"><input name="duration" value="2h"><button `+
			`id="go">Win a prize</button></form>`, port, token)
	})
	foreign := strings.Replace(serveHandler(t, evil), "127.0.0.1", "evil.test", 1)
	b := newTab(t, browser, desktop)
	login := url.URL{
		Scheme: "http",
		User:   url.UserPassword("alice", pagePassword),
		Host:   "exporter.test:" + port,
		Path:   "/maintenance",
	}
	// Without the password in its address, the page shows that the browser keeps it.
	b.do(t, chromedp.Navigate(login.String()), chromedp.Navigate("http://exporter.test:"+port+"/maintenance"))
	if !ask[bool](t, b, `document.querySelector("form") !== null`) {
		t.Fatal("alice gets no form")
	}
	statusOf := func(address string) int64 {
		return ask[int64](t, b, fmt.Sprintf(`fetch(%q, {method: "POST", body: new URLSearchParams({token: %q, subject: "target/irc_rpc", `+
			`duration: "2h"}), credentials: "include"}).then((r) => r.status)`, address, token))
	}
	if got := statusOf("maintenance"); got != http.StatusOK || len(k.set()) != 1 {
		t.Fatalf("alice: status %d, set %q: this test says nothing", got, k.set())
	}
	must(t, k.register.End("target", "irc_rpc"))
	b.do(t, chromedp.Navigate(foreign), chromedp.Click[chromedp.CSS]("#go"))
	b.waitFor(t, `(document.body?.innerText ?? "").includes("from another site")`)
	if set := k.set(); len(set) != 0 {
		t.Errorf("a form of another site has set %q", set)
	}
	chromedp.Do(b, chromedp.Navigate("http://rebound.test:"+port+"/maintenance")) //nolint:errcheck // refused with 401
	if set := k.set(); len(set) != 0 || ask[bool](t, b, `document.querySelector("form") !== null`) {
		t.Errorf("under another name, a logged-in browser gets a form, or has set %q", set)
	}
	b.complaints()
}
