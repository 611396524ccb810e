package exchange

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// The streams of XMPP, as they are called in starttls and in ALPN.
const (
	XMPPClient = "xmpp-client"
	XMPPServer = "xmpp-server"
)

// The namespaces of a stream.
const (
	nsStreams    = "http://etherx.jabber.org/streams"
	nsConditions = "urn:ietf:params:xml:ns:xmpp-streams"
	nsStartTLS   = "urn:ietf:params:xml:ns:xmpp-tls"
)

// maxStream bounds what is read of a server before TLS begins.
const maxStream = 64 << 10

// startXMPP opens a stream for a virtual host and negotiates TLS in it (RFC 6120, sections 4 and 5). When it returns nil,
// the connection is ready for the handshake. The server is silent until the stream is opened.
func startXMPP(conn net.Conn, kind, domain string) error {
	content := "jabber:client"
	if kind == XMPPServer {
		content = "jabber:server"
	}
	if err := openStream(conn, content, domain); err != nil {
		return fmt.Errorf("open stream: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxStream}
	// With a byte reader, the decoder does not read ahead into the TLS handshake.
	in := bufio.NewReader(limited)
	if err := negotiateTLS(conn, in, content); err != nil {
		if limited.N <= 0 {
			return failure.Errorf(failure.TooLarge, "stream: more than %d bytes before TLS", maxStream)
		}
		return err
	}
	if in.Buffered() > 0 {
		// An attacker may have injected it, to pass for data that came over TLS.
		return failure.Errorf(failure.Malformed, "stream: %s between <proceed/> and TLS", wording.Count(in.Buffered(), "byte"))
	}
	return nil
}

func openStream(w io.Writer, content, domain string) error {
	var to bytes.Buffer
	if err := xml.EscapeText(&to, []byte(domain)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "<?xml version='1.0'?><stream:stream to='%s' version='1.0' xml:lang='en' xmlns='%s' xmlns:stream='%s'>",
		to.Bytes(), content, nsStreams)
	return err
}

func negotiateTLS(w io.Writer, in *bufio.Reader, content string) error {
	if err := expectXML(in); err != nil {
		return err
	}
	d := xml.NewDecoder(in)
	root, err := nextElement(d)
	if err != nil {
		return err
	}
	if root.Name != (xml.Name{Space: nsStreams, Local: "stream"}) {
		hint := xmppPorts
		if strings.EqualFold(root.Name.Local, "html") {
			hint = webPortHint
		}
		return failure.Errorf(failure.Malformed, "stream: the server opens a %q instead", failure.OneLine(root.Name.Local)).WithHint(hint)
	}
	for _, a := range root.Attr {
		// A server may answer a stream of the other kind in its own.
		if a.Name == (xml.Name{Local: "xmlns"}) && a.Value != content {
			return failure.Errorf(failure.Mismatch, "stream: the server answers in %q, not in %q", failure.OneLine(a.Value), content).
				WithHint("clients and other servers have ports of their own: 5222 is for xmpp-client, 5269 for xmpp-server")
		}
	}
	offered, err := readFeatures(d)
	if err != nil {
		return err
	}
	if !offered {
		return failure.Errorf(failure.TLS, "stream: the server offers no STARTTLS").
			WithHint("STARTTLS may be off in the XMPP server, or it may have no certificate that it can use for this virtual host: " +
				"read its log of the last start")
	}
	if _, err := fmt.Fprintf(w, "<starttls xmlns='%s'/>", nsStartTLS); err != nil {
		return fmt.Errorf("ask for TLS: %w", err)
	}
	reply, err := nextElement(d)
	if err != nil {
		return err
	}
	switch reply.Name {
	case xml.Name{Space: nsStartTLS, Local: "proceed"}:
		return streamError(d.Skip())
	case xml.Name{Space: nsStartTLS, Local: "failure"}:
		return failure.Errorf(failure.TLS, "stream: the server offers STARTTLS and then refuses it").
			WithHint("the XMPP server may not be able to use its certificate or key for this virtual host: read its log")
	default:
		return failure.Errorf(failure.Malformed, "stream: the server answers <starttls/> with %q", failure.OneLine(reply.Name.Local))
	}
}

// expectXML checks the first byte. A server of another protocol may send a line and wait; an XML decoder would wait, too.
func expectXML(in *bufio.Reader) error {
	first, err := in.Peek(1)
	switch {
	case err != nil:
		return fmt.Errorf("stream: %w", err)
	case first[0] == tlsAlert:
		return speaksTLS.insteadOfXMPP(nil)
	case first[0] != '<':
		// What arrived with the first byte is enough to tell what it is.
		start, _ := in.Peek(in.Buffered())
		return protocolOf(start).
			insteadOfXMPP(failure.Errorf(failure.Malformed, "stream: the server does not answer in XML").WithHint(xmppPorts))
	}
	return nil
}

// nextElement returns the next start element. A stream error from the server and the end of the stream are errors.
func nextElement(d *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return xml.StartElement{}, streamError(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if t.Name == (xml.Name{Space: nsStreams, Local: "error"}) {
				return t, serverError(d, &t)
			}
			return t.Copy(), nil
		case xml.EndElement:
			return xml.StartElement{}, failure.Errorf(failure.Closed, "stream: the server closed it")
		}
	}
}

// readFeatures reports whether the server offers TLS.
func readFeatures(d *xml.Decoder) (startTLS bool, err error) {
	start, err := nextElement(d)
	if err != nil {
		return false, err
	}
	if start.Name != (xml.Name{Space: nsStreams, Local: "features"}) {
		return false, failure.Errorf(failure.Malformed, "stream: %q instead of the features", failure.OneLine(start.Name.Local))
	}
	var features struct {
		StartTLS *struct{} `xml:"urn:ietf:params:xml:ns:xmpp-tls starttls"`
	}
	if err := d.DecodeElement(&features, &start); err != nil {
		return false, streamError(err)
	}
	return features.StartTLS != nil, nil
}

// serverError reads the error that a server ends a stream with.
func serverError(d *xml.Decoder, start *xml.StartElement) error {
	var said struct {
		Children []struct {
			XMLName xml.Name
			Text    string `xml:",chardata"`
		} `xml:",any"`
	}
	if err := d.DecodeElement(&said, start); err != nil {
		return streamError(err)
	}
	condition, text := "", ""
	for _, c := range said.Children {
		switch {
		case c.XMLName.Space != nsConditions:
		case c.XMLName.Local == "text":
			text = c.Text
		default:
			condition = c.XMLName.Local
		}
	}
	message := failure.OneLine(strings.TrimSuffix(condition+": "+text, ": "))
	switch {
	case failure.LimitsStream(condition, text, false):
		return failure.Errorf(failure.Throttled, "stream: the server says %s", message).WithHint(LimitHint(""))
	case condition == "host-unknown", condition == "host-gone":
		return failure.Errorf(failure.NotFound, "stream: the server says %s", message).
			WithHint("the XMPP server does not serve this virtual host: set domain (XMPP_DOMAIN), " +
				"or the part after the @ of the account, to one that it serves")
	case condition == "system-shutdown":
		return failure.Errorf(failure.Closed, "stream: the server says %s", message)
	default:
		return failure.Errorf(failure.Mismatch, "stream: the server says %s", message)
	}
}

// streamError classifies a decoder's error: errors of the connection keep their reason, all others mean that it is not XML.
func streamError(err error) error {
	syntax, ok := errors.AsType[*xml.SyntaxError](err)
	switch {
	case err == nil:
		return nil
	case ok && syntax.Msg == "unexpected EOF":
		return failure.Errorf(failure.Closed, "stream: %w", io.ErrUnexpectedEOF)
	case ok || failure.ReasonOf(err) == failure.Internal:
		return failure.Errorf(failure.Malformed, "stream: %w", err)
	default:
		return fmt.Errorf("stream: %w", err)
	}
}
