//go:build realservers

package collectors

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealModuleThatFailsToLoadIsMissing breaks a module of a real server, and restarts it.
func TestRealModuleThatFailsToLoadIsMissing(t *testing.T) {
	t.Parallel()
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Modules: []string{"extra"}})
	s := &XMPPStatus{}
	s.URL = prosody.URL() + "/status"
	c := newProbe(t, newXMPPStatus, s)
	step := func(what, content, want string) {
		t.Helper()
		if content != "" {
			prosody.File("plugins/mod_extra.lua", content)
			prosody.Stop()
			time.Sleep(time.Second) // the times on the page have whole seconds
			prosody.Start()
		}
		if _, err := read(t, c, realDeadline); err != nil {
			t.Fatal(err)
		}
		if got := c.(*xmppStatus).loaded.missing(); got != want {
			t.Errorf("%s: missing %q, want %q", what, got, want)
		}
	}
	step("at first", "", "")
	step("a new module", "module:log('info', 'loaded');", "")
	step("restarted", "module:log('info', 'loaded again');", "")
	step("it fails to load", "error('simulated');", "chat.test extra; other.test extra")
	step("corrected", "module:log('info', 'loaded');", "")
}
