//go:build realservers

package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealRotatedPasswordIsUsedWithoutAReload changes the password of an account on a real XMPP server, and then its file.
func TestRealRotatedPasswordIsUsedWithoutAReload(t *testing.T) {
	server := realstack.StartProsody(t, realstack.ProsodyOptions{})
	secret := filepath.Join(t.TempDir(), "password")
	rewrite(t, secret, realstack.XMPPPassword+"\n")
	e := startExporter(t, nil, fmt.Sprintf("targets:\n  - {kind: xmpp_login, address: %q, user: %s@%s, password_file: %q, ca_file: %q}\n",
		server.ClientAddr, realstack.XMPPUser, realstack.XMPPDomain, secret, server.Authority.File))
	e.wait(t, "the first password", func(p page) bool { return p.Up("xmpp_login") })
	server.Register(realstack.XMPPUser, realstack.XMPPDomain, "rotated-password")
	e.wait(t, "the refusal of the first password", func(p page) bool { return p.Verdict("xmpp_login") == "unauthorized" })
	rewrite(t, secret, "rotated-password\n")
	e.wait(t, "the second password", func(p page) bool { return p.Up("xmpp_login") })
	if log := e.log.String(); strings.Contains(log, "configuration reloaded") || strings.Contains(log, "rotated-password") {
		t.Errorf("a reload, or a secret in the log:\n%s", log)
	}
}
