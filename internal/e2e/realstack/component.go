//go:build realservers

package realstack

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
)

// Component is a connected external component (XEP-0114).
type Component struct {
	conn net.Conn
	xml  *xml.Decoder
}

// DialComponent connects a component to a server's component port. A wrong secret is an error with
// the server's condition. DialComponent retries for a while, because a starting server closes connections without an answer.
// The context bounds the handshake, not the connection.
func DialComponent(ctx context.Context, addr, host, secret string) (c *Component, err error) {
	eventually(readyWithin, func() bool {
		c, err = dialComponent(ctx, addr, host, secret)
		return ctx.Err() != nil || !errors.Is(err, errSilent)
	})
	return c, err
}

// errSilent means that the server refused or closed the connection before its stream began.
var errSilent = errors.New("no stream header")

func dialComponent(ctx context.Context, addr, host, secret string) (*Component, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect component %s: %w: %w", host, errSilent, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // wakes the reader
	d := xml.NewDecoder(conn)
	err = handshake(conn, d, host, secret)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("connect component %s: %w", host, errors.Join(err, ctx.Err(), ignoreClosed(conn.Close())))
	}
	return &Component{conn, d}, nil
}

// Send writes text to the stream unchanged.
func (c *Component) Send(text string) error {
	_, err := c.conn.Write([]byte(text))
	return err
}

// Settle waits until the server has processed everything that the component sent: it sends an iq between the two addresses and
// waits for any answer. No other stanza for the component may be in transit.
func (c *Component) Settle(from, to string) error {
	if err := c.Send(fmt.Sprintf("<iq type='get' id='settle' from='%s' to='%s'><ping xmlns='urn:xmpp:ping'/></iq>", from, to)); err != nil {
		return err
	}
	answer, err := nextElement(c.xml)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", to, err)
	}
	if answer.Name.Local != "iq" {
		return fmt.Errorf("settle: got %s of %s", answer.Name.Local, to)
	}
	return c.xml.Skip()
}

// Close ends the stream and the connection, as a component does in an orderly shutdown. The server's status page then says
// "Disconnected: stream error", although no error occurred.
func (c *Component) Close() error {
	_, err := c.conn.Write([]byte("</stream:stream>"))
	return errors.Join(err, c.conn.Close())
}

// Drop closes only the connection, as a crash of the component would. The status page then says "Disconnected".
func (c *Component) Drop() error { return c.conn.Close() }

func handshake(conn net.Conn, d *xml.Decoder, host, secret string) error {
	_, err := fmt.Fprintf(conn,
		"<?xml version='1.0'?><stream:stream to='%s' xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams'>",
		host)
	if err != nil {
		return err
	}
	stream, err := nextElement(d)
	if err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	id := ""
	for _, attr := range stream.Attr {
		if attr.Name.Local == "id" {
			id = attr.Value
		}
	}
	proof := sha1.Sum([]byte(id + secret))
	if _, err := fmt.Fprintf(conn, "<handshake>%s</handshake>", hex.EncodeToString(proof[:])); err != nil {
		return err
	}
	reply, err := nextElement(d)
	if err != nil {
		return fmt.Errorf("read answer to handshake: %w", err)
	}
	if reply.Name.Local == "handshake" {
		return nil
	}
	condition, err := nextElement(d)
	if err != nil {
		return fmt.Errorf("read %s: %w", reply.Name.Local, err)
	}
	return fmt.Errorf("%s: %s", reply.Name.Local, condition.Name.Local)
}

func nextElement(d *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return xml.StartElement{}, err
		}
		if start, ok := token.(xml.StartElement); ok {
			return start, nil
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
