package simstack

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
)

// xmppStream is an XMPP port with STARTTLS: for clients or for other servers.
type xmppStream struct {
	service *service
	// content is the namespace of the stream's stanzas, extra has the features beside STARTTLS.
	content, extra string
	relayed        *relayed // nil if nobody can log in
}

func newXMPPStream(name, content, extra string, r *relayed) *service {
	x := &xmppStream{content: content, extra: extra, relayed: r}
	x.service = &service{name: name, startTLS: true, speak: x.speak}
	return x.service
}

// speak serves one stream.
func (x *xmppStream) speak(ctx context.Context, conn net.Conn) {
	in := bufio.NewReader(io.LimitReader(conn, 1<<20))
	d := xml.NewDecoder(in)
	header, err := nextStart(d)
	if _, broken := errors.AsType[*xml.SyntaxError](err); broken {
		_, _ = io.WriteString(conn, "<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='"+
			x.content+"' version='1.0'>"+
			"<stream:error><not-well-formed xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>")
		waitForClient(conn)
		return
	}
	if err != nil || !x.service.delay(ctx) {
		return
	}
	host := ""
	for _, a := range header.Attr {
		if a.Name.Local == "to" {
			host = a.Value
		}
	}
	x.service.remember(&Request{RPC: "stream"})
	if !x.open(conn, host) {
		waitForClient(conn)
		return
	}
	if start, err := nextStart(d); err != nil || start.Name.Local != "starttls" || d.Skip() != nil {
		return
	}
	if x.service.on("starttls_failure") {
		_, _ = io.WriteString(conn, "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>")
		waitForClient(conn)
		return
	}
	if _, err := io.WriteString(conn, "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"); err != nil {
		return
	}
	if x.service.on("hang_after_proceed") {
		waitForClient(conn)
		return
	}
	secure := tls.Server(peeked{conn, in}, x.service.tls)
	if secure.HandshakeContext(ctx) != nil {
		return
	}
	x.service.remember(&Request{RPC: "starttls"})
	if x.relayed == nil {
		waitForClient(secure)
	} else {
		newXMPPClient(x, secure).serve()
	}
	_ = secure.Close()
}

// open answers a stream's header and reports whether it offered TLS.
func (x *xmppStream) open(w io.Writer, host string) bool {
	say := func(s string) bool {
		_, err := io.WriteString(w, s)
		return err == nil
	}
	s := x.service
	if s.on("malformed") {
		say("<?xml version='1.0'?><stream:stream <<<< \x00\n")
		return false
	}
	// The real server writes the attributes in random order.
	attributes := []string{
		"xml:lang='en'", "version='1.0'", "xmlns:stream='http://etherx.jabber.org/streams'", "from='" + escape(host) + "'",
		"xmlns='" + x.content + "'", fmt.Sprintf("id='%08x'", rand.Uint32()),
	}
	rand.Shuffle(len(attributes), func(i, j int) { attributes[i], attributes[j] = attributes[j], attributes[i] })
	say("<?xml version='1.0'?><stream:stream " + strings.Join(attributes, " ") + ">")
	const starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"
	switch {
	case host != XMPPDomain || s.on("unknown_host"):
		say("<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>" +
			"<text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>This server does not serve " + escape(host) +
			"</text></stream:error></stream:stream>")
	case s.on("stream_error"):
		say("<stream:error><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>")
	case s.on("no_starttls"):
		say("<stream:features>" + x.extra + "</stream:features>")
	case s.on("huge"):
		say("<stream:features>")
		_ = s.flood("huge", x.extra)(w)
	case s.on("truncated"):
		say("<stream:features><starttls xml")
		if closer, ok := w.(io.Closer); ok {
			_ = closer.Close()
		}
	default:
		return say("<stream:features>" + starttls + x.extra + "</stream:features>")
	}
	return false
}

// nextStart reads up to the next start element.
func nextStart(d *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		if start, ok := token.(xml.StartElement); ok || err != nil {
			return start.Copy(), err
		}
	}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
