package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRotatedSecretIsUsedWithoutAReload has a server that expects another token from now on, and somebody who edits the configuration file
// meanwhile. The target that waits after refusals is probed with the new token at once; no other target notices.
func TestRotatedSecretIsUsedWithoutAReload(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		var expected atomic.Pointer[string]
		var refused atomic.Int64
		expect := func(token string) { expected.Store(&token) }
		expect("first-token")
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Authorization") {
			case "", "Bearer " + *expected.Load():
				return
			case "Bearer wrong-token":
				refused.Add(1)
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		secret := filepath.Join(t.TempDir(), "token")
		rewrite(t, secret, "first-token\n")
		e, path := startWithFile(t, nil, fmt.Sprintf("targets:\n  - {kind: http, name: rotated, url: '%[1]s', token_file: %[2]s}\n"+
			"  - {kind: http, name: refused, url: '%[1]s', token: wrong-token}\n  - {kind: http, name: unchanged, url: '%[1]s'}\n",
			server, secret), nil)
		e.wait(t, "two are up", func(p page) bool { return p.Up("rotated") && p.Up("unchanged") })
		rewrite(t, path, "somebody is about to edit this")

		expect("second-token")
		e.wait(t, "the refusal", func(p page) bool { return p.Verdict("rotated") == "unauthorized" })
		for _, content := range []string{"", "\n", "second\ntoken\n"} { // whoever writes the file is not done
			rewrite(t, secret, content)
			time.Sleep(3 * filesInterval)
		}
		if got := strings.Count(e.log.String(), "cannot be used as they are"); got != 2 {
			t.Errorf("%d lines about a file that cannot be used, want one for each of two causes", got)
		}
		before, sent := attempts(e.scrape(t), "unchanged"), refused.Load()
		rewrite(t, secret, "second-token\n")
		time.Sleep(filesInterval + time.Second)
		p := e.scrape(t)
		if !p.Up("rotated") {
			t.Errorf("with the new token the target is %q", p.Verdict("rotated"))
		}
		if ok, _ := p.Value("chatstack_config_last_reload_successful"); ok != 1 {
			t.Error("the edited configuration file was read")
		}
		if attempts(p, "unchanged") < before || strings.Count(e.log.String(), "target=unchanged kind=http") != 1 {
			t.Error("a target without a secret began anew")
		}
		if refused.Load() != sent {
			t.Error("the refused token of another target was sent again, as after a reload")
		}
		if strings.Contains(e.log.String(), "-token") {
			t.Error("the log shows a secret")
		}
	})
}
