//go:build realservers

package collectors

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealXMPPLogin logs in at a real XMPP server, with STARTTLS and with direct TLS.
func TestRealXMPPLogin(t *testing.T) {
	t.Parallel()
	directPort := unusedPort(t)
	server := realstack.StartProsody(t, realstack.ProsodyOptions{DirectTLSPort: directPort})
	settings := func() *XMPPLogin {
		s := newXMPPLoginSettings()
		s.Address, s.User, s.Password = server.ClientAddr, realstack.XMPPUser+"@"+realstack.XMPPDomain,
			config.NewSecret(realstack.XMPPPassword)
		s.CAFile = server.Authority.File
		return s
	}
	for _, c := range []struct {
		name   string
		change func(*XMPPLogin)
		reason failure.Reason
	}{
		{"STARTTLS", func(*XMPPLogin) {}, ""},
		{"direct TLS", func(s *XMPPLogin) { s.Address, s.DirectTLS = fmt.Sprintf("127.0.0.1:%d", directPort), true }, ""},
		{"wrong password", func(s *XMPPLogin) { s.Password = config.NewSecret("wrong") }, failure.Unauthorized},
		{"unknown account", func(s *XMPPLogin) { s.User = "nobody@" + realstack.XMPPDomain }, failure.Unauthorized},
		{"unknown domain", func(s *XMPPLogin) { s.User = realstack.XMPPUser + "@unknown.test" }, failure.NotFound},
		{"direct TLS at the wrong port", func(s *XMPPLogin) { s.DirectTLS = true }, failure.TLS},
		{"another authority", func(s *XMPPLogin) { s.CAFile = realstack.NewAuthority(t).File }, failure.TLS},
	} {
		s := settings()
		c.change(s)
		collector, err := newXMPPLogin(s, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		wantLogin(t, c.name, probeLogin(t, collector), c.reason)
	}
}

// TestRealIRCLogin logs in at real IRC servers, which have no services and so no accounts.
func TestRealIRCLogin(t *testing.T) {
	t.Parallel()
	for _, server := range []*realstack.IRC{realstack.StartNgIRCd(t), realstack.StartInspIRCd(t)} {
		s := newIRCLoginSettings()
		s.Address, s.Plain = server.Addr, true
		collector, err := newIRCLogin(s, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		wantLogin(t, "without an account", probeLogin(t, collector), "")

		s.Password = config.NewSecret("pw")
		collector, err = newIRCLogin(s, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		failed := probeLogin(t, collector)
		wantLogin(t, "with an account", failed, failure.Unauthorized)
		if failed != nil && !strings.Contains(failed.Error(), "offers no SASL") {
			t.Errorf("with an account: %v", failed)
		}
	}
}

// TestRealIRCLoginWithServices logs in over TLS to an account of real IRC services.
func TestRealIRCLoginWithServices(t *testing.T) {
	t.Parallel()
	server := realstack.StartInspIRCd(t)
	services := server.IRCServices("checker", "pw-checker")
	settings := func() *IRCLogin {
		s := newIRCLoginSettings()
		s.Address, s.CAFile, s.User, s.Password = server.TLSAddr, server.Authority.File, "checker", config.NewSecret("pw-checker")
		return s
	}
	try := func(s *IRCLogin) error {
		t.Helper()
		collector, err := newIRCLogin(s, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		return probeLogin(t, collector)
	}
	login := func(what string, change func(*IRCLogin), want failure.Reason) {
		t.Helper()
		s := settings()
		change(s)
		wantLogin(t, what, try(s), want)
	}
	login("with an account", func(*IRCLogin) {}, "")
	login("without an account", func(s *IRCLogin) { s.Password = config.Secret{} }, "")
	login("wrong password", func(s *IRCLogin) { s.Password = config.NewSecret("wrong") }, failure.Unauthorized)
	wrong := settings()
	wrong.Password = config.NewSecret("wrong")
	if err := try(wrong); !strings.Contains(fmt.Sprint(err), "by PLAIN") || !strings.Contains(fmt.Sprint(err), "the server offers ") {
		t.Errorf("a refusal names neither the mechanism nor the offer: %v", err)
	}
	login("unknown account", func(s *IRCLogin) { s.User = "nobody" }, failure.Unauthorized)
	login("another authority", func(s *IRCLogin) { s.CAFile = realstack.NewAuthority(t).File }, failure.TLS)
	services.Hang()
	failed := try(settings())
	wantLogin(t, "services hang", failed, failure.Timeout)
	if !strings.Contains(failure.HintOf(failed), "services, which do not answer") {
		t.Errorf("services hang: %v, with the hint %q", failed, failure.HintOf(failed))
	}
	services.Kill()
	// Until the server notices, logins wait for the services.
	if !exportertest.Eventually(time.Minute, 20*time.Millisecond,
		func() bool { return failure.ReasonOf(try(settings())) == failure.Unauthorized }) {
		t.Error("no services: a login is never refused")
	}
}

// TestRealIRCServerPassword connects to real IRC servers that demand a password of everybody. Each refuses in its own words.
func TestRealIRCServerPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server *realstack.IRC
		wrong  failure.Reason
	}{
		{realstack.StartClosedNgIRCd(t), failure.Unauthorized},
		{realstack.StartClosedInspIRCd(t), failure.Forbidden},
	} {
		port, err := newIRCTLS(&IRCTLS{Endpoint: at(c.server.TLSAddr), TLS: config.TLS{CAFile: c.server.Authority.File}}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		wantLogin(t, "irc_tls, which does not register", probeLogin(t, port), "")
		hints := map[string]string{"wrong": "correct server_password", "": "set server_password"}
		for password, want := range map[string]failure.Reason{realstack.ServerPassword: "", "wrong": c.wrong, "": failure.Forbidden} {
			s := newIRCLoginSettings()
			s.Address, s.CAFile, s.ServerPassword = c.server.TLSAddr, c.server.Authority.File, config.NewSecret(password)
			collector, err := newIRCLogin(s, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			failed := probeLogin(t, collector)
			wantLogin(t, fmt.Sprintf("%s with %q", c.server.Addr, password), failed, want)
			if want != "" && !strings.Contains(failure.HintOf(failed), hints[password]) {
				t.Errorf("%s with %q: the hint is %q, want %q", c.server.Addr, password, failure.HintOf(failed), hints[password])
			}
		}
	}
}

// TestRealXMPPMechanisms logs in at real XMPP servers. A wrong password shows which mechanism the exporter chose. Prosody 13 lists its
// bindings; Prosody 0.12 and ejabberd offer -PLUS without a list, and ejabberd refuses clients that say they could bind.
func TestRealXMPPMechanisms(t *testing.T) {
	t.Parallel()
	plus := ""
	if os.Getenv("CHATSTACK_TEST_PROSODY") != "" {
		plus = "-PLUS"
	}
	prosody := func(o realstack.ProsodyOptions) (address, authority string) {
		server := realstack.StartProsody(t, o)
		return server.ClientAddr, server.Authority.File
	}
	ejabberd := func(hash string) (address, authority string) {
		server := realstack.StartEjabberdWith(t, realstack.NeverBanned, "auth_scram_hash: "+hash)
		return server.ClientAddr, server.Authority.File
	}
	for _, c := range []struct {
		start func() (address, authority string)
		want  string
	}{
		{func() (string, string) { return prosody(realstack.ProsodyOptions{}) }, "SCRAM-SHA-1" + plus},
		{func() (string, string) { return prosody(realstack.ProsodyOptions{PasswordHash: "SHA-256"}) }, "SCRAM-SHA-256" + plus},
		{func() (string, string) {
			return prosody(realstack.ProsodyOptions{PasswordHash: "SHA-256", OldTLS: true})
		}, "SCRAM-SHA-256" + plus},
		{func() (string, string) { return ejabberd("sha256") }, "SCRAM-SHA-256"},
		{func() (string, string) { return ejabberd("sha512") }, "SCRAM-SHA-512"},
	} {
		address, authority := c.start()
		try := func(password string) error {
			s := newXMPPLoginSettings()
			s.Address, s.User, s.Password, s.CAFile = address, realstack.XMPPUser+"@"+realstack.XMPPDomain,
				config.NewSecret(password), authority
			collector, err := newXMPPLogin(s, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			return probeLogin(t, collector)
		}
		wantLogin(t, c.want, try(realstack.XMPPPassword), "")
		failed := try("wrong")
		wantLogin(t, c.want+" with a wrong password", failed, failure.Unauthorized)
		if !strings.Contains(fmt.Sprint(failed), "log in by "+c.want+": ") ||
			!strings.Contains(fmt.Sprint(failed), "; the server offers ") {
			t.Errorf("want %s and what the server offers: %v", c.want, failed)
		}
	}
}

func probeLogin(t *testing.T, c Collector) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return c.Collect(ctx, &Batch{Target: "login"})
}

func wantLogin(t *testing.T, what string, err error, want failure.Reason) {
	t.Helper()
	var got failure.Reason
	if err != nil {
		got = failure.ReasonOf(err)
	}
	if got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}
