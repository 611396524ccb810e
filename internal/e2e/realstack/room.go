//go:build realservers

package realstack

import (
	"fmt"
	"testing"
)

const (
	roomNamespace    = "http://jabber.org/protocol/muc"
	archiveNamespace = "urn:xmpp:mam:2"
)

// Room is a room of a Prosody with Rooms, as its owner controls it, who is also in it.
type Room struct {
	// Address is the room's address.
	Address string

	tb    testing.TB
	owner *Client
}

// User connects a client of an account on XMPPDomain.
func (p *Prosody) User(user, password string) *Client {
	p.tb.Helper()
	c, err := p.Dial(p.tb.Context(), XMPPDomain)
	if err != nil {
		p.tb.Fatal(err)
	}
	if err := c.Login(SCRAMSHA1, user, password); err != nil {
		p.tb.Fatalf("log in as %s: %v", user, err)
	}
	if err := c.Bind("test"); err != nil {
		p.tb.Fatal(err)
	}
	return c
}

// Room creates a persistent room, whose owner is XMPPUser.
func (p *Prosody) Room(name string) *Room {
	p.tb.Helper()
	r := &Room{Address: name + "@" + RoomsHost, tb: p.tb, owner: p.User(XMPPUser, XMPPPassword)}
	r.Create()
	return r
}

// Create joins the room and makes it persistent. It tries again while somebody else is creating the room.
func (r *Room) Create() {
	r.tb.Helper()
	var answer *element
	created := eventually(readyWithin, func() bool {
		r.send("<presence to='" + r.Address + "/owner'><x xmlns='" + roomNamespace + "'><history maxstanzas='0'/></x></presence>")
		answer = r.ask(configuration("persistentroom", "1"))
		return answer.attr("type") == "result"
	})
	if !created {
		r.tb.Fatalf("create %s: %+v", r.Address, answer)
	}
}

// Configure changes one setting of the room, such as membersonly, to "0" or "1".
func (r *Room) Configure(setting, value string) {
	r.tb.Helper()
	r.do(configuration(setting, value))
}

func configuration(setting, value string) string {
	return fmt.Sprintf("<query xmlns='%s#owner'><x xmlns='jabber:x:data' type='submit'><field "+
		"var='FORM_TYPE'><value>%s#roomconfig</value></field>"+
		"<field var='muc#roomconfig_%s'><value>%s</value></field></x></query>", roomNamespace, roomNamespace, setting, value)
}

// Affiliate gives an account an affiliation: none, member, admin, outcast.
func (r *Room) Affiliate(user, affiliation string) {
	r.tb.Helper()
	r.administer(fmt.Sprintf("jid='%s@%s' affiliation='%s'", user, XMPPDomain, affiliation))
}

// Role gives somebody in the room a role: none is a kick, visitor takes the voice away, participant gives it.
func (r *Room) Role(nick, role string) {
	r.tb.Helper()
	r.administer(fmt.Sprintf("nick='%s' role='%s'", nick, role))
}

func (r *Room) administer(item string) {
	r.tb.Helper()
	r.do("<query xmlns='" + roomNamespace + "#admin'><item " + item + "/></query>")
}

// Destroy destroys the room.
func (r *Room) Destroy() {
	r.tb.Helper()
	r.do("<query xmlns='" + roomNamespace + "#owner'><destroy/></query>")
}

// Say sends an ordinary message to the room.
func (r *Room) Say(text string) {
	r.tb.Helper()
	r.send("<message type='groupchat' to='" + r.Address + "'><body>" + text + "</body></message>")
}

// Archive returns all messages in the room's archive, each as "sender: text".
func (r *Room) Archive() []string {
	r.tb.Helper()
	return archive(r.tb, r.owner, r.Address)
}

// Archive returns all messages in the archive of the client's account, each as "sender: text".
func (c *Client) Archive(tb testing.TB) []string {
	tb.Helper()
	return archive(tb, c, "")
}

// archive queries a whole archive (XEP-0313), page by page.
func archive(tb testing.TB, c *Client, address string) (messages []string) {
	tb.Helper()
	after := ""
	for {
		answer, before, err := c.exchange(iq("set", address,
			"<query xmlns='"+archiveNamespace+"'><set xmlns='http://jabber.org/protocol/rsm'><max>50</max>"+after+"</set></query>"))
		if err != nil {
			tb.Fatalf("query the archive of %s: %v", address, err)
		}
		fin := answer.find("fin")
		if fin == nil {
			tb.Fatalf("query the archive of %s: %+v", address, answer)
		}
		for i := range before {
			if result := before[i].find("result"); result != nil {
				message := result.find("message")
				messages = append(messages, message.attr("from")+": "+message.find("body").text())
			}
		}
		if fin.attr("complete") == "true" {
			return messages
		}
		after = "<after>" + fin.find("last").text() + "</after>"
	}
}

// find returns the first element of that name below e, in document order; nil if there is none.
func (e *element) find(name string) *element {
	for i := range e.Children {
		if e.Children[i].XMLName.Local == name {
			return &e.Children[i]
		}
		if found := e.Children[i].find(name); found != nil {
			return found
		}
	}
	return nil
}

// text returns the element's text; "" for nil.
func (e *element) text() string {
	if e == nil {
		return ""
	}
	return e.Text
}

// iq is a request; without an address, to the client's own account.
func iq(kind, address, payload string) string {
	to := ""
	if address != "" {
		to = " to='" + address + "'"
	}
	return fmt.Sprintf("<iq type='%s' id='%s'%s>%s</iq>", kind, requestID, to, payload)
}

// do sends a request to the room, which must succeed.
func (r *Room) do(payload string) {
	r.tb.Helper()
	if answer := r.ask(payload); answer.attr("type") != "result" {
		r.tb.Fatalf("%s: %s: %+v", r.Address, payload, answer)
	}
}

func (r *Room) ask(payload string) *element {
	r.tb.Helper()
	answer, _, err := r.owner.exchange(iq("set", r.Address, payload))
	if err != nil {
		r.tb.Fatalf("%s: %s: %v", r.Address, payload, err)
	}
	return answer
}

func (r *Room) send(text string) {
	r.tb.Helper()
	if err := r.owner.Send(text); err != nil {
		r.tb.Fatalf("%s: %v", r.Address, err)
	}
}
