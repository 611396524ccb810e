//go:build realservers

package realstack

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/xdg-go/scram"
)

const (
	saslNamespace    = "urn:ietf:params:xml:ns:xmpp-sasl"
	streamManagement = "urn:xmpp:sm:3"
	// requestID is the id of every request, since there is one at a time.
	requestID = "request"
)

// SASLError is the condition of a refused login, such as not-authorized.
type SASLError string

func (e SASLError) Error() string { return "server refuses the login: " + string(e) }

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms that Client supports.
const (
	Plain     Mechanism = "PLAIN"
	SCRAMSHA1 Mechanism = "SCRAM-SHA-1"
)

// Client is an XMPP client over STARTTLS, for one goroutine. It counts the messages and presences that it receives.
type Client struct {
	// Messages and Presences count what arrived before the last answer to a Request or Settle.
	Messages, Presences int

	domain string
	conn   net.Conn
	xml    *xml.Decoder
	stop   func() bool
}

// element is an XML element with its children.
type element struct {
	XMLName  xml.Name
	Attr     []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

// condition returns the name of an error's first child.
func (e *element) condition() string {
	if len(e.Children) == 0 {
		return e.XMLName.Local
	}
	return e.Children[0].XMLName.Local
}

func (e *element) attr(name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// Dial connects a client to a virtual host and encrypts the stream. The context bounds the client's life.
func (p *Prosody) Dial(ctx context.Context, domain string) (*Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.ClientAddr)
	if err != nil {
		return nil, fmt.Errorf("connect client to %s: %w", domain, err)
	}
	c := &Client{domain: domain, conn: conn}
	c.stop = context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck,gosec // wakes the reader
	if err := c.encrypt(ctx, p.Authority.client()); err != nil {
		return nil, fmt.Errorf("connect client to %s: %w", domain, errors.Join(err, c.Drop()))
	}
	return c, nil
}

func (c *Client) encrypt(ctx context.Context, config *tls.Config) error {
	if err := c.open(); err != nil {
		return err
	}
	answer, err := c.ask("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
	if err != nil {
		return err
	}
	if answer.XMLName.Local != "proceed" {
		return fmt.Errorf("start TLS: %s", answer.XMLName.Local)
	}
	config.ServerName = c.domain
	encrypted := tls.Client(c.conn, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return err
	}
	c.conn = encrypted
	return c.open()
}

// open starts a stream on the current connection and reads its features.
func (c *Client) open() error {
	err := c.Send(fmt.Sprintf("<stream:stream to='%s' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
		c.domain))
	if err != nil {
		return err
	}
	c.xml = xml.NewDecoder(c.conn)
	if _, err := nextElement(c.xml); err != nil {
		return fmt.Errorf("read stream header: %w", err)
	}
	features, err := c.next()
	if err != nil {
		return err
	}
	if features.XMLName.Local != "features" {
		return fmt.Errorf("read stream features: got %s: %s", features.XMLName.Local, features.condition())
	}
	return nil
}

// Login logs in. A refusal is a SASLError, after which the client may try again on the same connection.
func (c *Client) Login(m Mechanism, user, password string) error {
	first, step, err := begin(m, user, password)
	if err != nil {
		return err
	}
	answer, err := c.authenticate(m, first)
	for err == nil && answer.XMLName.Local == "challenge" {
		var text string
		if text, err = step(answer.Text); err != nil {
			return err
		}
		answer, err = c.ask(fmt.Sprintf("<response xmlns='%s'>%s</response>", saslNamespace, text))
	}
	switch {
	case err != nil:
		return err
	case answer.XMLName.Local == "failure":
		return SASLError(answer.condition())
	case answer.XMLName.Local != "success":
		return fmt.Errorf("log in: got %s", answer.XMLName.Local)
	}
	if _, err := step(answer.Text); err != nil {
		return fmt.Errorf("log in: verify the server: %w", err)
	}
	return c.open()
}

// Abort begins a login with SCRAM-SHA-1 and aborts it after the server's answer. The client may then log in.
func (c *Client) Abort(user string) error {
	first, _, err := begin(SCRAMSHA1, user, "")
	if err != nil {
		return err
	}
	answer, err := c.authenticate(SCRAMSHA1, first)
	if err != nil {
		return err
	}
	if answer.XMLName.Local != "challenge" {
		return fmt.Errorf("begin to log in: got %s", answer.XMLName.Local)
	}
	answer, err = c.ask(fmt.Sprintf("<abort xmlns='%s'/>", saslNamespace))
	if err != nil {
		return err
	}
	if got := answer.condition(); answer.XMLName.Local != "failure" || got != "aborted" {
		return fmt.Errorf("abort the login: got %s: %s", answer.XMLName.Local, got)
	}
	return nil
}

func (c *Client) authenticate(m Mechanism, first string) (*element, error) {
	return c.ask(fmt.Sprintf("<auth xmlns='%s' mechanism='%s'>%s</auth>", saslNamespace, m, first))
}

// begin returns a mechanism's first message, and a function that answers the server's challenge. Messages are in base64.
func begin(m Mechanism, user, password string) (first string, step func(string) (string, error), err error) {
	if m == Plain {
		return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)),
			func(string) (string, error) { return "", nil }, nil
	}
	client, err := scram.SHA1.NewClient(user, password, "")
	if err != nil {
		return "", nil, fmt.Errorf("prepare the login: %w", err)
	}
	conversation := client.NewConversation()
	step = func(challenge string) (string, error) {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(challenge))
		if err != nil {
			return "", err
		}
		response, err := conversation.Step(string(text))
		return base64.StdEncoding.EncodeToString([]byte(response)), err
	}
	first, err = step("")
	return first, step, err
}

// Bind binds a resource. Then the client may send stanzas.
func (c *Client) Bind(resource string) error {
	answer, err := c.ask(fmt.Sprintf(
		"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>%s</resource></bind></iq>", resource))
	if err != nil {
		return err
	}
	if answer.attr("type") != "result" {
		return fmt.Errorf("bind %s: %s", resource, answer.condition())
	}
	return nil
}

// Keep enables stream resumption, so that the session outlives the connection, and returns the token for Resume.
func (c *Client) Keep() (token string, err error) {
	answer, err := c.ask(fmt.Sprintf("<enable xmlns='%s' resume='true'/>", streamManagement))
	if err != nil {
		return "", err
	}
	if answer.XMLName.Local != "enabled" {
		return "", fmt.Errorf("enable stream management: %s", answer.XMLName.Local)
	}
	return answer.attr("id"), nil
}

// Resume resumes a session of Keep, instead of Bind. The server sends everything since Keep again.
func (c *Client) Resume(token string) error {
	answer, err := c.ask(fmt.Sprintf("<resume xmlns='%s' previd='%s' h='0'/>", streamManagement, token))
	if err != nil {
		return err
	}
	if answer.XMLName.Local != "resumed" {
		return fmt.Errorf("resume the session: %s", answer.condition())
	}
	return nil
}

// Send writes text to the stream unchanged.
func (c *Client) Send(text string) error {
	_, err := c.conn.Write([]byte(text))
	return err
}

// Settle waits until the server has processed everything that the client sent, and counts what arrives before.
func (c *Client) Settle() error {
	answer, err := c.Request("get", "<ping xmlns='urn:xmpp:ping'/>")
	if err == nil && answer != "result" {
		return fmt.Errorf("ping %s: %s", c.domain, answer)
	}
	return err
}

// Request sends an iq of a type, and returns the type of the answer, result or error. It counts what arrives before.
func (c *Client) Request(kind, payload string) (string, error) {
	answer, before, err := c.exchange(iq(kind, "", payload))
	for i := range before {
		switch before[i].XMLName.Local {
		case "message":
			c.Messages++
		case "presence":
			c.Presences++
		}
	}
	if err != nil {
		return "", err
	}
	return answer.attr("type"), nil
}

// exchange sends an iq, and returns its answer and the stanzas that arrive before.
func (c *Client) exchange(iq string) (answer *element, before []element, err error) {
	if err := c.Send(iq); err != nil {
		return nil, nil, err
	}
	for {
		e, err := c.next()
		if err != nil {
			return nil, before, err
		}
		if e.XMLName.Local == "iq" && e.attr("id") == requestID {
			return e, before, nil
		}
		before = append(before, *e)
	}
}

// Close ends the stream and the connection, and waits until the server has ended them too.
func (c *Client) Close() error {
	if err := c.Send("</stream:stream>"); err != nil {
		return errors.Join(err, c.Drop())
	}
	for {
		token, err := c.xml.Token()
		if end, ok := token.(xml.EndElement); err != nil || ok && end.Name.Local == "stream" {
			break
		}
	}
	return c.Drop()
}

// Drop closes the connection without ending the stream.
func (c *Client) Drop() error {
	c.stop()
	return ignoreClosed(c.conn.Close())
}

// ask sends an element and reads the next one.
func (c *Client) ask(text string) (*element, error) {
	if err := c.Send(text); err != nil {
		return nil, err
	}
	return c.next()
}

func (c *Client) next() (*element, error) {
	start, err := nextElement(c.xml)
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	var e element
	if err := c.xml.DecodeElement(&e, &start); err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	return &e, nil
}
