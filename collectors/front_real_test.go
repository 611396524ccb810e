//go:build realservers

package collectors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealSharedPortShowsTheServerOfItsProtocol has nginx share a port between Prosody and a web server by ALPN.
func TestRealSharedPortShowsTheServerOfItsProtocol(t *testing.T) {
	t.Parallel()
	direct := unusedPort(t)
	xmpp := realstack.StartProsody(t, realstack.ProsodyOptions{DirectTLSPort: direct})
	web := realstack.StartNginx(t, xmpp.URL())
	front := realstack.StartFront(t, realstack.FrontOptions{
		Default: web.Addr, ALPN: map[string]string{"xmpp-client": fmt.Sprintf("127.0.0.1:%d", direct)},
	})
	port := func(alpn []string, authority string) Collector {
		s := &TLSEndpoint{}
		s.Address, s.Domain, s.ALPN, s.CAFile = front.Addr, realstack.XMPPDomain, alpn, authority
		return newProbe(t, newTLSEndpoint, s)
	}
	login := newXMPPLoginSettings()
	login.Address, login.DirectTLS, login.CAFile = front.Addr, true, xmpp.Authority.File
	login.User, login.Password = realstack.XMPPUser+"@"+realstack.XMPPDomain, config.NewSecret(realstack.XMPPPassword)
	site := proxyProbe(t, "https://"+front.Addr+"/health", config.TLS{CAFile: web.Authority.File})
	xmppProbes := map[string]Collector{
		"tls":        port([]string{"xmpp-client"}, xmpp.Authority.File),
		"xmpp_login": newProbe(t, newXMPPLogin, login),
	}
	for name, probe := range xmppProbes {
		wantLogin(t, name, probeLogin(t, probe), "")
	}
	wantLogin(t, "the web site", probeLogin(t, site), "")
	wantLogin(t, "tls of the web site", probeLogin(t, port(nil, web.Authority.File)), "")
	wantLogin(t, "a protocol that the web server does not serve", probeLogin(t, port([]string{"irc"}, web.Authority.File)), failure.TLS)

	xmpp.Stop()
	for name, probe := range xmppProbes {
		wantLogin(t, name+" of a stopped server", probeLogin(t, probe), failure.Closed)
	}
	wantLogin(t, "the web site without the XMPP server", probeLogin(t, site), "")
}

// TestRealServersThatExpectAPROXYHeader has nginx, ejabberd and InspIRCd expect one, each in the versions that it knows.
func TestRealServersThatExpectAPROXYHeader(t *testing.T) {
	t.Parallel()
	xmpp := realstack.StartProsody(t, realstack.ProsodyOptions{})
	front := realstack.StartFront(t, realstack.FrontOptions{Default: xmpp.ClientAddr, Proxied: true})
	ejabberd := realstack.StartEjabberd(t, realstack.NeverBanned)
	ircPort := fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	realstack.StartInspIRCdWith(t, fmt.Sprintf(`<module name="haproxy"><bind address="127.0.0.1" port="%s" type="clients" hook="haproxy">`,
		strings.TrimPrefix(ircPort, "127.0.0.1:")))
	c2s := func(address, authority string) func(string) Collector {
		return func(version string) Collector {
			s := &XMPPC2S{}
			s.Address, s.Domain, s.CAFile, s.ProxyProtocol = address, realstack.XMPPDomain, authority, version
			return newProbe(t, newXMPPC2S, s)
		}
	}
	ircLogin := func(version string) Collector {
		s := newIRCLoginSettings()
		s.Address, s.Plain, s.ProxyProtocol = ircPort, true, version
		return newProbe(t, newIRCLogin, s)
	}
	for name, c := range map[string]struct {
		probe     func(version string) Collector
		version   []string
		otherwise failure.Reason // without the header
	}{
		"nginx":    {c2s(front.Addr, xmpp.Authority.File), []string{"v1", "v2"}, failure.Closed},
		"ejabberd": {c2s(ejabberd.ProxiedAddr, ejabberd.Authority.File), []string{"v1", "v2"}, failure.Closed},
		"InspIRCd": {ircLogin, []string{"v2"}, failure.Closed},
	} {
		for _, version := range c.version {
			wantLogin(t, name+" "+version, probeLogin(t, c.probe(version)), "")
		}
		err := probeLogin(t, c.probe(""))
		wantLogin(t, name+" without a header", err, c.otherwise)
		if advice := failure.AdviceOf(err, "it", ""); err != nil && !strings.Contains(advice, "set proxy_protocol") {
			t.Errorf("%s without a header: advice %q", name, advice)
		}
	}
	for name, probe := range map[string]Collector{
		"Prosody": c2s(xmpp.ClientAddr, xmpp.Authority.File)("v1"), "ejabberd": c2s(ejabberd.ClientAddr, ejabberd.Authority.File)("v2"),
	} {
		err := probeLogin(t, probe)
		if advice := failure.AdviceOf(err, "it", ""); err == nil || !strings.Contains(advice, "remove proxy_protocol") {
			t.Errorf("%s, which expects no header: %v, advice %q", name, err, advice)
		}
	}
}
