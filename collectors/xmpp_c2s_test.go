package collectors

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// sayAndHold answers with bytes and then waits for the client to leave.
func sayAndHold(s string) func(net.Conn) {
	return func(c net.Conn) { exchangetest.Say(s)(c); exchangetest.Hold(c) }
}

func c2sProbe(t *testing.T, address string, trust config.TLS) Collector {
	t.Helper()
	s := newXMPPC2SSettings()
	s.Address, s.Domain, s.TLS = address, simstack.XMPPDomain, trust
	return newProbe(t, newXMPPC2S, s)
}

const (
	streamStart    = "<?xml version='1.0'?><stream:stream id='1' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' from='chat.test' version='1.0'>"
	streamFeatures = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls></stream:features>"
	streamProceed  = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
)

func streamFault(condition, text string) string {
	return streamStart + "<stream:error><" + condition + " xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>" +
		"<text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>" + text + "</text></stream:error></stream:stream>"
}

func TestXMPPStreamShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   failure.Reason
		says   string // in the message or the hint
	}{
		"says nothing":             {exchangetest.Hold, failure.Timeout, ""},
		"closes":                   {func(net.Conn) {}, failure.Closed, ""},
		"resets":                   {exchangetest.Reset, failure.Closed, ""},
		"another protocol":         {sayAndHold("SSH-2.0-OpenSSH_9.2\r\n"), failure.Malformed, ""},
		"http":                     {sayAndHold("HTTP/1.1 400 Bad Request\r\n\r\n"), failure.Malformed, "port of a web server"},
		"tls at once":              {sayAndHold("\x15\x03\x01\x00\x02\x02\x46"), failure.TLS, "leave starttls empty"},
		"html":                     {sayAndHold("<html><body>"), failure.Malformed, `"html"`},
		"stream of another kind":   {sayAndHold("<stream:stream xmlns:stream='urn:other'>"), failure.Malformed, ""},
		"port of servers":          {sayAndHold(strings.Replace(streamStart, "jabber:client", "jabber:server", 1) + streamFeatures), failure.Mismatch, "5269"},
		"bad xml":                  {sayAndHold("<stream:stream <<<"), failure.Malformed, ""},
		"another encoding":         {sayAndHold("<?xml version='1.0' encoding='latin1'?>" + streamStart[21:]), failure.Malformed, ""},
		"header cut off":           {exchangetest.Say(streamStart[:60]), failure.Closed, ""},
		"header and end":           {exchangetest.Say(streamStart), failure.Closed, ""},
		"header and closed stream": {sayAndHold(streamStart + "</stream:stream>"), failure.Closed, ""},
		"features cut off":         {exchangetest.Say(streamStart + streamFeatures[:40]), failure.Closed, ""},
		"header only":              {sayAndHold(streamStart), failure.Timeout, ""},
		"no features":              {sayAndHold(streamStart + "<iq/>"), failure.Malformed, `"iq"`},
		"no starttls":              {sayAndHold(streamStart + "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></stream:features>"), failure.TLS, "no certificate that it can use"},
		"starttls of another kind": {sayAndHold(streamStart + "<stream:features><starttls xmlns='urn:other'/></stream:features>"), failure.TLS, ""},
		"endless features": {func(c net.Conn) {
			exchangetest.Say(streamStart + "<stream:features>" + strings.Repeat("<x/>", 64<<10/4))(c)
			exchangetest.Hold(c)
		}, failure.TooLarge, ""},
		"endless name":               {sayAndHold("<" + strings.Repeat("a", 2*64<<10)), failure.TooLarge, ""},
		"starttls refused":           {sayAndHold(streamStart + streamFeatures + "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"), failure.TLS, "read its log"},
		"starttls answered oddly":    {sayAndHold(streamStart + streamFeatures + "<message/>"), failure.Malformed, `"message"`},
		"proceed of another kind":    {sayAndHold(streamStart + streamFeatures + "<proceed xmlns='urn:other'/>"), failure.Malformed, ""},
		"silence after proceed":      {sayAndHold(streamStart + streamFeatures + streamProceed), failure.Timeout, ""},
		"words after proceed":        {sayAndHold(streamStart + streamFeatures + streamProceed + "<stream:features/>"), failure.Malformed, "between <proceed/> and TLS"},
		"unknown host":               {sayAndHold(streamFault("host-unknown", "This server does not serve chat.test")), failure.NotFound, "XMPP_DOMAIN"},
		"host is gone":               {sayAndHold(streamFault("host-gone", "")), failure.NotFound, "XMPP_DOMAIN"},
		"shutdown":                   {sayAndHold(streamFault("system-shutdown", "")), failure.Closed, "system-shutdown"},
		"policy":                     {sayAndHold(streamFault("policy-violation", "Too many\x09connections")), failure.Mismatch, "policy-violation: Too many connections"},
		"fault instead of proceed":   {sayAndHold(streamStart + streamFeatures + streamFault("resource-constraint", "")[len(streamStart):]), failure.Mismatch, "resource-constraint"},
		"fault that is cut off":      {exchangetest.Say(streamFault("host-unknown", "x")[:len(streamStart)+30]), failure.Closed, ""},
		"fault of another namespace": {sayAndHold(streamStart + "<stream:error><host-unknown xmlns='urn:other'/></stream:error>"), failure.Mismatch, ""},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 100 * time.Millisecond
			}
			b, err := read(t, c2sProbe(t, exchangetest.RawServer(t, "tcp", c.answer), config.TLS{}), timeout)
			wantReason(t, err, c.want)
			if err != nil && !strings.Contains(err.Error()+failure.HintOf(err), c.says) {
				t.Errorf("%q, %q lacks %q", err, failure.HintOf(err), c.says)
			}
			if len(b.Exchanges) != 1 || b.Exchanges[0].Err == "" {
				t.Errorf("exchanges: %+v", b.Exchanges)
			}
		})
	}
}

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
		"c2s":           {c2sProbe(t, stack.XMPPClientAddress(), ca), []string{"connect", "starttls", "tls"}},
		"c2s by name":   {c2sProbe(t, "localhost:"+number, ca), []string{"dns", "connect", "starttls", "tls"}},
		"starttls c2s":  {port(TLSEndpoint{Address: stack.XMPPClientAddress(), StartTLS: exchange.XMPPClient, Domain: simstack.XMPPDomain}), []string{"connect", "starttls", "tls"}},
		"starttls s2s":  {port(TLSEndpoint{Address: stack.XMPPServerAddress(), StartTLS: exchange.XMPPServer, Domain: simstack.XMPPDomain}), []string{"connect", "starttls", "tls"}},
		"tls at once":   {port(TLSEndpoint{Address: stack.IRCAddress()}), []string{"connect", "tls"}},
		"domain in sni": {port(TLSEndpoint{Address: stack.IRCAddress(), Domain: simstack.XMPPDomain}), []string{"connect", "tls"}},
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
		"another domain":             {port(TLSEndpoint{Address: stack.IRCAddress(), Domain: "unknown.test"}), failure.TLS},
		"another virtual host":       {port(TLSEndpoint{Address: stack.XMPPServerAddress(), StartTLS: exchange.XMPPServer, Domain: "unknown.test"}), failure.NotFound},
		"tls at once where it isn't": {port(TLSEndpoint{Address: stack.XMPPClientAddress()}), failure.TLS},
		"nobody there":               {port(TLSEndpoint{Address: "127.0.0.1:1"}), failure.Refused},
		"no such host":               {port(TLSEndpoint{Address: "no-such-host.invalid:1"}), failure.DNS},
		"unknown authority":          {c2sProbe(t, stack.XMPPClientAddress(), config.TLS{}), failure.TLS},
	} {
		_, err := readNamed(t, c.probe)
		wantReason(t, err, c.want)
		if err != nil && !strings.Contains(err.Error(), "tls") {
			t.Errorf("%s: %q does not say what was asked", name, err)
		}
	}
}
