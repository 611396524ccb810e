//go:build realservers

package collectors

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// ircProbes are the kinds that connect to an IRC server's TLS port.
func ircProbes(t *testing.T, server *realstack.IRC) map[string]Collector {
	t.Helper()
	tlsPort := &IRCTLS{}
	tlsPort.Address, tlsPort.CAFile = server.TLSAddr, server.Authority.File
	login := newIRCLoginSettings()
	login.Address, login.CAFile = server.TLSAddr, server.Authority.File
	certificate := &TLSEndpoint{}
	certificate.Address, certificate.CAFile = server.TLSAddr, server.Authority.File
	return map[string]Collector{
		"irc_tls": newProbe(t, newIRCTLS, tlsPort), "irc_login": newProbe(t, newIRCLogin, login),
		"tls": newProbe(t, newTLSEndpoint, certificate),
	}
}

// TestRealInspIRCdBanIsThrottled has the module connectban ban the exporter, as its example file does.
func TestRealInspIRCdBanIsThrottled(t *testing.T) {
	t.Parallel()
	probes := ircProbes(t, realstack.StartInspIRCdWith(t, realstack.ConnectBan))
	served := 0
	for probeLogin(t, probes["irc_tls"]) == nil {
		if served++; served > 10 {
			t.Fatal("never banned")
		}
	}
	if served < 5 {
		t.Fatalf("only %d probes were served before the ban", served)
	}
	for kind, probe := range probes {
		for range 10 {
			err := probeLogin(t, probe)
			// A handshake that is complete has shown the certificate, which is all that tls asks for. That the server ends it in
			// order shows a ban only where an IRC server is expected.
			fits := kind == "tls" && (err == nil || reasonOf(err) == failure.Closed)
			if !fits && reasonOf(err) != failure.Throttled {
				t.Errorf("%s: got %v, want throttled", kind, err)
			}
		}
	}
	if hint := failure.HintOf(probeLogin(t, probes["irc_tls"])); !strings.Contains(hint, "useconnectban") {
		t.Errorf("the advice is not for InspIRCd, which had shown itself: %s", hint)
	}
}

// TestRealInspIRCdServesWhatIsExempt tries the lines that TARGETS.md tells to write.
func TestRealInspIRCdServesWhatIsExempt(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"from connectban":          realstack.ConnectBan + `<connect name="exporter" allow="127.0.0.1" parent="all" useconnectban="no">`,
		"from a ban that is there": `<badip ipmask="127.0.0.1" reason="banned"><exception host="*@127.0.0.1" reason="exporter">`,
	} {
		probes := ircProbes(t, realstack.StartInspIRCdWith(t, lines))
		for range 30 {
			if err := probeLogin(t, probes["irc_tls"]); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// TestRealFullNgIRCdIsThrottledEveryTime has other connections take all that the server allows one address.
func TestRealFullNgIRCdIsThrottledEveryTime(t *testing.T) {
	t.Parallel()
	server := realstack.StartNgIRCdLimited(t, 2)
	server.User("one")
	server.User("two")
	for kind, probe := range ircProbes(t, server) {
		for range 30 {
			if err := probeLogin(t, probe); reasonOf(err) != failure.Throttled {
				t.Errorf("%s: got %v, want throttled", kind, err)
			}
		}
	}
}

// TestRealEjabberdBanIsThrottled has mod_fail2ban ban the exporter after logins with a wrong password.
func TestRealEjabberdBanIsThrottled(t *testing.T) {
	t.Parallel()
	server := realstack.StartEjabberd(t, "{c2s_max_auth_failures: 3}")
	login, port := ejabberdProbes(t, server)
	for range 3 {
		if err := probeLogin(t, login("wrong")); reasonOf(err) != failure.Unauthorized && reasonOf(err) != failure.Throttled {
			t.Errorf("wrong password: got %v", err)
		}
	}
	for range 3 {
		wantLogin(t, "xmpp_c2s of a banned address", probeLogin(t, port), failure.Throttled)
		wantLogin(t, "xmpp_login of a banned address", probeLogin(t, login(realstack.XMPPPassword)), failure.Throttled)
	}
	server.Unban("127.0.0.1")
	wantLogin(t, "after the ban", probeLogin(t, login(realstack.XMPPPassword)), "")
}

// TestRealEjabberdServesWhatIsExempt tries the lines that TARGETS.md tells to write.
func TestRealEjabberdServesWhatIsExempt(t *testing.T) {
	t.Parallel()
	login, port := ejabberdProbes(t, realstack.StartEjabberd(t, realstack.NeverBanned))
	for range 25 {
		wantLogin(t, "wrong password", probeLogin(t, login("wrong")), failure.Unauthorized)
	}
	wantLogin(t, "xmpp_c2s", probeLogin(t, port), "")
}

// ejabberdProbes returns a login with a password, and the port for clients.
func ejabberdProbes(t *testing.T, server *realstack.Ejabberd) (login func(password string) Collector, port Collector) {
	t.Helper()
	c2s := &XMPPC2S{}
	c2s.Address, c2s.Domain, c2s.CAFile = server.ClientAddr, realstack.XMPPDomain, server.Authority.File
	return func(password string) Collector {
		s := newXMPPLoginSettings()
		s.Address, s.User, s.Password = server.ClientAddr, realstack.XMPPUser+"@"+realstack.XMPPDomain, config.NewSecret(password)
		s.CAFile = server.Authority.File
		return newProbe(t, newXMPPLogin, s)
	}, newProbe(t, newXMPPC2S, c2s)
}
