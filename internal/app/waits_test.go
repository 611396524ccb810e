package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// loginBlocks are two targets with one account, whose secret is in a file.
func loginBlocks(stack *simstack.Stack, password string) string {
	block := "  - {kind: xmpp_login, name: %s, address: %q, user: %q, password_file: %q, ca_file: %q}\n"
	user := simstack.RelayUser + "@" + simstack.XMPPDomain
	blocks := "targets:\n"
	for _, name := range []string{"a", "b"} {
		blocks += fmt.Sprintf(block, name, stack.XMPPClientAddress(), user, password, stack.CAFile())
	}
	return blocks
}

// TestWrongPasswordIsTriedUntilItIsCorrected has the whole exporter wait, answer a request for a probe, and take a new secret on a reload.
func TestWrongPasswordIsTriedUntilItIsCorrected(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		password := filepath.Join(t.TempDir(), "password")
		rewrite(t, password, "an-outdated-password")
		e, _ := startWithFile(t, nil, loginBlocks(stack, password), func(o *Options) {
			o.EnableLifecycle = true
			o.pace = func(string) (time.Duration, time.Duration) { return 30 * time.Second, 0 }
		})
		d := describe(t, e)
		logins := func() int {
			p := e.scrape(t)
			return int(attempts(p, "a") + attempts(p, "b"))
		}
		time.Sleep(90 * time.Minute)
		if n := logins(); n > 8 {
			t.Errorf("%d logins of two targets in 90 minutes with a wrong password", n)
		}
		if code, body := e.exchange(t, http.MethodGet, "/-/healthy", ""); code != http.StatusOK {
			t.Errorf("healthy: %d, %s", code, body)
		}
		for _, name := range []string{"a", "b"} {
			if v := e.scrape(t).Verdict(name); v != "unauthorized" {
				t.Errorf("%s waits and is %q", name, v)
			}
		}
		says(t, "page of the target", string(e.get(t, "/debug/targets/a", nil).body), "Waiting: next try at ",
			"the server refused the password or token")

		const path = "/api/v1/targets/a/probe"
		before := logins()
		code, body := e.exchange(t, http.MethodPost, path, "")
		if code != http.StatusAccepted {
			t.Fatalf("status %d: %s", code, body)
		}
		d.hold(t, schemaOf("/api/v1/targets/{target}/probe", "post", "202"), body)
		time.Sleep(5 * time.Second)
		if n := logins(); n != before+1 {
			t.Errorf("%d logins after one request", n-before)
		}
		code, body = e.exchange(t, http.MethodPost, path, "")
		if code != http.StatusTooManyRequests || !strings.Contains(string(body), "try again in ") {
			t.Errorf("a second request: status %d, %s", code, body)
		}
		d.hold(t, "/components/schemas/Error", body)
		if code, body = e.exchange(t, http.MethodPost, "/api/v1/targets/nobody/probe", ""); code != http.StatusNotFound {
			t.Errorf("a target that does not exist: status %d, %s", code, body)
		}

		rewrite(t, password, simstack.RelayPassword)
		if code, said := e.post(t, "/-/reload"); code != http.StatusOK {
			t.Fatalf("reload: %d, %s", code, said)
		}
		e.wait(t, "both are up", func(p page) bool { return p.Up("a", "b") })
	})
}
