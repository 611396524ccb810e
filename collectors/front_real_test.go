//go:build realservers

package collectors

import (
	"fmt"
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
		s := newTLSEndpointSettings()
		s.Address, s.Domain, s.ALPN, s.CAFile = front.Addr, realstack.XMPPDomain, alpn, authority
		return newProbe(t, newTLSEndpoint, s)
	}
	login := newXMPPLoginSettings()
	login.Address, login.DirectTLS, login.CAFile = front.Addr, true, xmpp.Authority.File
	login.User, login.Password = realstack.XMPPUser+"@"+realstack.XMPPDomain, config.NewSecret(realstack.XMPPPassword)
	site := proxyProbe(t, "https://"+front.Addr+"/health", config.TLS{CAFile: web.Authority.File})
	xmppProbes := map[string]Collector{"tls": port([]string{"xmpp-client"}, xmpp.Authority.File), "xmpp_login": newProbe(t, newXMPPLogin, login)}
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
