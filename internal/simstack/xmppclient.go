package simstack

import (
	"encoding/base64"
	"encoding/xml"
	"net"
	"strings"
	"time"

	"github.com/xdg-go/scram"
)

// xmppClient is a client of the XMPP server that logs in.
type xmppClient struct {
	member
	port *xmppStream
	raw  net.Conn
	xml  *xml.Decoder
}

// xmlElement is a stanza.
type xmlElement struct {
	XMLName  xml.Name
	Attr     []xml.Attr   `xml:",any,attr"`
	Children []xmlElement `xml:",any"`
	Text     string       `xml:",chardata"`
}

func (e *xmlElement) attr(name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return escape(a.Value)
		}
	}
	return ""
}

// has reports whether an element has a child of that name.
func (e *xmlElement) has(local string) bool {
	for i := range e.Children {
		if e.Children[i].XMLName.Local == local {
			return true
		}
	}
	return false
}

func newXMPPClient(x *xmppStream, conn net.Conn) *xmppClient {
	u := &xmppClient{
		port:   x,
		raw:    conn,
		xml:    xml.NewDecoder(conn),
		member: member{side: onXMPP, conn: conn, address: RelayUser + "@" + XMPPDomain + "/simulated"},
	}
	u.hear = func(from, text string, delayed bool) {
		delay := ""
		if delayed {
			delay = "<delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'/>"
		}
		u.say("<message type='groupchat' from='%s/%s' to='%s'><body>%s</body>%s</message>",
			RelayRoom, escape(from), u.address, escape(text), delay)
	}
	u.leave = func() {
		u.out.Store(true)
		status := "<status code='307'/>"
		if fault := x.relayed.refusal(); fault == "destroyed" {
			status = "<destroy/>"
		} else if fault == "banned" {
			status = "<status code='301'/>"
		}
		u.say("<presence type='unavailable' from='%s/%s' to='%s'><x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' "+
			"role='none'/><status code='110'/>%s</x></presence>",
			RelayRoom, escape(u.nick), u.address, status)
	}
	return u
}

// serve speaks with the client until it leaves.
func (u *xmppClient) serve() {
	defer u.port.relayed.part(&u.member)
	if !u.open("<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-256</mechanism></mechanisms>") || !u.logIn() {
		return
	}
	if !u.open("<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>") {
		return
	}
	for {
		e, ok := u.next()
		if !ok {
			return
		}
		switch e.XMLName.Local {
		case "iq":
			u.iq(e)
		case "presence":
			u.presence(e)
		case "message":
			u.message(e)
		}
	}
}

// open answers a stream's header with features.
func (u *xmppClient) open(features string) bool {
	u.xml = xml.NewDecoder(u.raw)
	_ = u.raw.SetReadDeadline(time.Now().Add(maxIdle))
	if _, err := nextStart(u.xml); err != nil {
		return false
	}
	u.say("<?xml version='1.0'?><stream:stream from='%s' id='1' version='1.0' xmlns='jabber:client' "+
		"xmlns:stream='http://etherx.jabber.org/streams'><stream:features>%s</stream:features>",
		XMPPDomain, features)
	return true
}

func (u *xmppClient) next() (*xmlElement, bool) {
	idle := maxIdle
	if u.address != "" {
		idle = maxSession
	}
	_ = u.raw.SetReadDeadline(time.Now().Add(idle))
	for {
		token, err := u.xml.Token()
		if err != nil {
			return nil, false
		}
		switch t := token.(type) {
		case xml.EndElement:
			return nil, false
		case xml.StartElement:
			var e xmlElement
			return &e, u.xml.DecodeElement(&e, &t) == nil
		}
	}
}

// logIn checks the password by SCRAM.
func (u *xmppClient) logIn() bool {
	r := u.port.relayed
	password := r.password
	if r.service.on("wrong_password") {
		password += "-changed"
	}
	known, err := scram.SHA256.NewClient(RelayUser, password, "")
	if err != nil {
		return false
	}
	stored, err := known.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "simulated", Iters: 4096})
	if err != nil {
		return false
	}
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
	if err != nil {
		return false
	}
	conversation := server.NewConversation()
	for {
		e, ok := u.next()
		if !ok {
			return false
		}
		text, _ := base64.StdEncoding.DecodeString(e.Text)
		answer, err := conversation.Step(string(text))
		encoded := base64.StdEncoding.EncodeToString([]byte(answer))
		switch {
		case err != nil:
			u.say("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>")
			return false
		case conversation.Done():
			u.say("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>%s</success>", encoded)
			return true
		}
		u.say("<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>%s</challenge>", encoded)
	}
}

func (u *xmppClient) iq(e *xmlElement) {
	bound := ""
	if e.has("bind") {
		bound = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>" + u.address + "</jid></bind>"
	}
	u.say("<iq type='result' id='%s' from='%s'>%s</iq>", e.attr("id"), e.attr("to"), bound)
}

func (u *xmppClient) presence(e *xmlElement) {
	room, nick, _ := strings.Cut(e.attr("to"), "/")
	refuse := func(kind, condition string) {
		u.say("<presence type='error' from='%s/%s' to='%s'><error type='%s'><%s "+
			"xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
			room, nick, u.address, kind, condition)
	}
	r := u.port.relayed
	switch fault := r.refusal(); {
	case room != RelayRoom || fault == "destroyed":
		refuse("cancel", "item-not-found")
	case fault == "banned":
		refuse("auth", "forbidden")
	case e.attr("type") == "unavailable":
		r.part(&u.member)
	default:
		u.nick = nick
		u.say("<presence from='%s/%s' to='%s'><x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' "+
			"role='participant'/><status code='110'/></x></presence>",
			room, nick, u.address)
		r.join(&u.member)
	}
}

func (u *xmppClient) message(e *xmlElement) {
	r := u.port.relayed
	refuse := func(kind, condition string) {
		u.say("<message type='error' from='%s' to='%s' id='%s'><error type='%s'><%s "+
			"xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
			RelayRoom, u.address, e.attr("id"), kind, condition)
	}
	switch {
	case u.out.Load():
		refuse("modify", "not-acceptable")
		return
	case r.service.on("throttled"):
		refuse("wait", "policy-violation")
		return
	}
	for i := range e.Children {
		if e.Children[i].XMLName.Local == "body" {
			r.accept(&u.member, e.Children[i].Text)
		}
	}
}
