package exchange

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

const (
	serverStart = "<?xml version='1.0'?><stream:stream id='1' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' " +
		"from='chat.test' version='1.0'>"
	serverFeatures = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls></stream:features>"
	serverProceed  = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
)

// TestXMPPStreamAsksForTheVirtualHost sees what is sent until TLS begins, and that nothing more is.
func TestXMPPStreamAsksForTheVirtualHost(t *testing.T) {
	for kind, namespace := range map[string]string{XMPPClient: "jabber:client", XMPPServer: "jabber:server"} {
		client, server := net.Pipe()
		sent := make(chan string, 1)
		go func() {
			defer server.Close() //nolint:errcheck // a test's server
			var all strings.Builder
			buf := make([]byte, 4096)
			for _, answer := range []string{serverStart + serverFeatures, serverProceed} {
				n, err := server.Read(buf)
				if err != nil {
					break
				}
				all.Write(buf[:n])
				io.WriteString(server, strings.Replace(answer, "jabber:client", namespace, 1)) //nolint:errcheck // the client may be gone
			}
			sent <- all.String()
		}()
		if err := startXMPP(client, kind, "chat.test"); err != nil {
			t.Fatal(err)
		}
		client.Close() //nolint:errcheck,gosec // all is said
		want := "<?xml version='1.0'?><stream:stream to='chat.test' version='1.0' xml:lang='en' xmlns='" + namespace +
			"' xmlns:stream='http://etherx.jabber.org/streams'><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
		if got := <-sent; got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", kind, got, want)
		}
	}
}

// said is a connection to a server that says all it has to say, whatever it is told.
type said struct {
	net.Conn
	io.Reader
	told bytes.Buffer
}

func (s *said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (s *said) Write(p []byte) (int, error) { return s.told.Write(p) }

// FuzzXMPPStream negotiates TLS with a made-up server. Nothing that it says before TLS may pass as said in TLS, and only
// one that offers TLS and goes on with it is believed.
func FuzzXMPPStream(f *testing.F) {
	const open = "<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:client' " +
		"from='chat.test' id='1' version='1.0'>"
	const offer = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls></stream:features>"
	const proceed = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
	for _, seed := range []string{
		open + offer + proceed, open + offer + proceed + "injected",
		open + offer + "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>",
		open + "<stream:features/>",
		open + "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/><text " +
			"xmlns='urn:ietf:params:xml:ns:xmpp-streams'>no\x00</text></stream:error>",
		strings.ReplaceAll(open, "jabber:client", "jabber:server") + offer, "\x15\x03\x01\x00\x02\x02\x46", "220 smtp\r\n", "", "<",
		"<!DOCTYPE x [<!ENTITY y 'z'>]><x>&y;</x>",
		open + strings.Repeat("<a>", 1000), open + "<stream:features>" + strings.Repeat(" ", maxStream),
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(strings.ReplaceAll(seed, "jabber:client", "jabber:server")), true)
	}
	f.Fuzz(func(t *testing.T, content []byte, server bool) {
		kind := XMPPClient
		if server {
			kind = XMPPServer
		}
		conn := &said{Reader: bytes.NewReader(content)}
		err := startXMPP(conn, kind, "chat.test")
		judgeFailure(t, err)
		if err != nil {
			return
		}
		switch rest, _ := io.ReadAll(conn.Reader); {
		case len(content)-len(rest) > maxStream+1:
			t.Errorf("%d bytes were read", len(content)-len(rest))
		case !bytes.Contains(content, []byte("proceed")) || !bytes.Contains(content, []byte("starttls")):
			t.Errorf("TLS begins after %.300q", content)
		case !strings.HasSuffix(conn.told.String(), "<starttls xmlns='"+nsStartTLS+"'/>"):
			t.Errorf("TLS begins unasked for, after %q", conn.told.String())
		}
	})
}
