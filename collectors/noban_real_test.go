//go:build realservers

package collectors

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

var (
	noBanTime = flag.Duration("noban.time", 20*time.Second, "how long TestRealNoBan probes ejabberd and ngIRCd with a wrong password")
	// InspIRCd counts the connections of an hour.
	noBanInspIRCdTime = flag.Duration("noban.inspircd", 20*time.Second, "how long TestRealNoBan probes InspIRCd with a wrong password")
)

// TestRealNoBan has the exporter with its default settings and a wrong password probe servers that ban for less. At the end, each still
// serves a new connection from the exporter's address.
func TestRealNoBan(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a while in real time")
	}
	program := realstack.BuildExporter(t)
	ircTargets := func(server *realstack.IRC) string {
		return fmt.Sprintf(`targets:
  - {kind: irc_login, address: %[1]q, ca_file: %[2]q, user: checker, password: wrong}
  - {kind: irc_tls, address: %[1]q, ca_file: %[2]q}
`, server.TLSAddr, server.Authority.File)
	}
	// The server counts connections of the test as well, so it makes only the last one.
	outlast := func(t *testing.T, targets string, wait time.Duration, served Collector) {
		t.Helper()
		exporter := realstack.StartExporter(t, program, targets, nil)
		time.Sleep(wait) // servers count in real time
		exporter.Stop()
		wantLogin(t, "a new connection", probeLogin(t, served), "")
	}
	t.Run("ejabberd", func(t *testing.T) {
		t.Parallel()
		server := realstack.StartEjabberd(t, "{}")
		login, _ := ejabberdProbes(t, server)
		outlast(t, fmt.Sprintf(`targets:
  - {kind: xmpp_login, address: %[1]q, ca_file: %[2]q, user: %[3]q, password: wrong}
  - {kind: xmpp_c2s, address: %[1]q, ca_file: %[2]q, domain: %[4]s}
`, server.ClientAddr, server.Authority.File, realstack.XMPPUser+"@"+realstack.XMPPDomain, realstack.XMPPDomain), *noBanTime,
			login(realstack.XMPPPassword))
	})
	t.Run("ngIRCd", func(t *testing.T) {
		t.Parallel()
		server := realstack.StartNgIRCdLimited(t, 3)
		outlast(t, ircTargets(server), *noBanTime, ircProbes(t, server)["irc_tls"])
	})
	t.Run("InspIRCd", func(t *testing.T) {
		t.Parallel()
		server := realstack.StartInspIRCdWith(t, realstack.ConnectBan)
		server.IRCServices("checker", "pw-checker")
		s := newIRCLoginSettings()
		s.Address, s.CAFile, s.User, s.Password = server.TLSAddr, server.Authority.File, "checker", config.NewSecret("pw-checker")
		outlast(t, ircTargets(server), *noBanInspIRCdTime, newProbe(t, newIRCLogin, s))
	})
}
