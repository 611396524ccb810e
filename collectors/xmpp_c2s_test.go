package collectors

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

func c2sProbe(t *testing.T, address string, trust config.TLS) Collector {
	t.Helper()
	s := &XMPPC2S{}
	s.Address, s.Domain, s.TLS = address, simstack.XMPPDomain, trust
	return newProbe(t, newXMPPC2S, s)
}

const streamStart = "<?xml version='1.0'?><stream:stream id='1' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' " +
	"from='chat.test' version='1.0'>"

// phases are the names of an exchange's phases.
func phases(e *exchange.Exchange) []string {
	names := make([]string, len(e.Phases))
	for i, p := range e.Phases {
		names[i] = p.Name
	}
	return names
}

func TestTLSPortsOfTheStack(t *testing.T) {
	stack := simstacktest.Start(t, simstack.Options{})
	ca := config.TLS{CAFile: stack.CAFile()}
	port := func(s TLSEndpoint) Collector {
		s.TLS = ca
		return newProbe(t, newTLSEndpoint, &s)
	}
	_, number, err := net.SplitHostPort(stack.XMPPClientAddress())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		probe  Collector
		phases []string
	}{
		"c2s":         {c2sProbe(t, stack.XMPPClientAddress(), ca), []string{"connect", "starttls", "tls"}},
		"c2s by name": {c2sProbe(t, "localhost:"+number, ca), []string{"dns", "connect", "starttls", "tls"}},
		"starttls c2s": {
			port(TLSEndpoint{Endpoint: at(stack.XMPPClientAddress()), StartTLS: exchange.XMPPClient, Domain: simstack.XMPPDomain}),
			[]string{"connect", "starttls", "tls"},
		},
		"starttls s2s": {
			port(TLSEndpoint{Endpoint: at(stack.XMPPServerAddress()), StartTLS: exchange.XMPPServer, Domain: simstack.XMPPDomain}),
			[]string{"connect", "starttls", "tls"},
		},
		"tls at once":   {port(TLSEndpoint{Endpoint: at(stack.IRCAddress())}), []string{"connect", "tls"}},
		"domain in sni": {port(TLSEndpoint{Endpoint: at(stack.IRCAddress()), Domain: simstack.XMPPDomain}), []string{"connect", "tls"}},
		"irc":           {ircTLSProbe(t, stack.IRCAddress(), ca), []string{"connect", "tls", "reply"}},
	} {
		b, err := readNamed(t, c.probe)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(b.Metrics(true)) != 3 {
			t.Errorf("%s: %d metrics, want leaf, verified chain, verified", name, len(b.Metrics(true)))
		}
		if got := phases(b.Exchanges[0]); !slices.Equal(got, c.phases) {
			t.Errorf("%s: phases %v, want %v", name, got, c.phases)
		}
	}
	for name, c := range map[string]struct {
		probe Collector
		want  failure.Reason
	}{
		"another domain": {port(TLSEndpoint{Endpoint: at(stack.IRCAddress()), Domain: "unknown.test"}), failure.TLS},
		"another virtual host": {
			port(TLSEndpoint{Endpoint: at(stack.XMPPServerAddress()), StartTLS: exchange.XMPPServer, Domain: "unknown.test"}),
			failure.NotFound,
		},
		"tls at once where it isn't": {port(TLSEndpoint{Endpoint: at(stack.XMPPClientAddress())}), failure.TLS},
		"nobody there":               {port(TLSEndpoint{Endpoint: at("127.0.0.1:1")}), failure.Refused},
		"no such host":               {port(TLSEndpoint{Endpoint: at("no-such-host.invalid:1")}), failure.DNS},
		"unknown authority":          {c2sProbe(t, stack.XMPPClientAddress(), config.TLS{}), failure.TLS},
	} {
		_, err := readNamed(t, c.probe)
		wantReason(t, err, c.want)
		if err != nil && !strings.Contains(err.Error(), "tls") {
			t.Errorf("%s: %q does not say what was asked", name, err)
		}
	}
}
