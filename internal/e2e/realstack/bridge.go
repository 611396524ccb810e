//go:build realservers

package realstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// IRCChannel is a channel that every IRC server of this package keeps.
const IRCChannel = "#check"

// IRC is an IRC server: ngIRCd, or InspIRCd, which supports echo-message and services.
type IRC struct {
	*Process
	// Host is an address of loopback that nothing else uses, since the bridge connects only to the usual port.
	Host string
	// Addr is host:port without TLS, TLSAddr with TLS, at a port that the bridge does not try: it would refuse the certificate.
	Addr, TLSAddr string
	// Authority signs its certificate, which is for Host, and for proxies at 127.0.0.1.
	Authority *Authority

	password string // of the server
}

// StartNgIRCd starts an IRC server.
func StartNgIRCd(tb testing.TB) *IRC {
	tb.Helper()
	return StartNgIRCdLimited(tb, 0)
}

// StartNgIRCdLimited is StartNgIRCd with a limit of the connections of one address at the same time.
func StartNgIRCdLimited(tb testing.TB, connections int) *IRC {
	tb.Helper()
	return startIRC(tb, ircSettings{Connections: connections}, "ngircd", "--nodaemon", "--config")
}

// StartInspIRCd starts another IRC server.
func StartInspIRCd(tb testing.TB) *IRC {
	tb.Helper()
	return StartInspIRCdWith(tb, "")
}

// StartInspIRCdWith is StartInspIRCd with additional lines before its connect block.
func StartInspIRCdWith(tb testing.TB, lines string) *IRC {
	tb.Helper()
	return startIRC(tb, ircSettings{Lines: lines}, "inspircd", "--nofork", "--config")
}

// StartLinkedNgIRCds starts two IRC servers of one network: irc.test, and leaf.irc.test, which keeps the link.
func StartLinkedNgIRCds(tb testing.TB) (hub, leaf *IRC) {
	tb.Helper()
	const link = "\n[Server]\nName = %s\nMyPassword = pw-link\nPeerPassword = pw-link\n"
	hub = startIRC(tb, ircSettings{Lines: fmt.Sprintf(link, "leaf.irc.test")}, "ngircd", "--nodaemon", "--config")
	leaf = startIRC(tb, ircSettings{
		Name:  "leaf.irc.test",
		Lines: fmt.Sprintf(link+"Host = %s\nPort = 6667\n", "irc.test", hub.Host),
	}, "ngircd", "--nodaemon", "--config")
	return hub, leaf
}

// ServerPassword is what the servers of StartClosedNgIRCd and StartClosedInspIRCd demand of every connection.
const ServerPassword = "pw server"

// StartClosedNgIRCd is StartNgIRCd with a password of the server.
func StartClosedNgIRCd(tb testing.TB) *IRC {
	tb.Helper()
	return startIRC(tb, ircSettings{Password: ServerPassword}, "ngircd", "--nodaemon", "--config")
}

// StartClosedInspIRCd is StartInspIRCd with a password of the server.
func StartClosedInspIRCd(tb testing.TB) *IRC {
	tb.Helper()
	return startIRC(tb, ircSettings{Password: ServerPassword}, "inspircd", "--nofork", "--config")
}

// ConnectBan are lines of InspIRCd that ban an address after 10 connections in an hour, as its example file does, from the start.
const ConnectBan = `<module name="connectban"><connectban threshold="10" banduration="6h" bootwait="0" splitwait="0">`

// ircSettings are what the templates of IRC servers get.
type ircSettings struct {
	Host, Dir   string
	Connections int    // of one address; 0 is no limit
	Lines       string // additional ones
	Name        string // of an ngIRCd; "" is irc.test
	Password    string // of the server; "" is none
}

// startIRC starts the IRC server of a Debian package. The path of its configuration follows the arguments.
func startIRC(tb testing.TB, settings ircSettings, name string, arguments ...string) *IRC {
	tb.Helper()
	program := binary(tb, name, name)
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)) //nolint:gosec // any address will do
	i := &IRC{
		Process:   newProcess(tb, name, true),
		Host:      host,
		Addr:      net.JoinHostPort(host, "6667"),
		TLSAddr:   net.JoinHostPort(host, "6698"),
		Authority: NewAuthority(tb),
		password:  settings.Password,
	}
	i.argv = append(append([]string{program}, arguments...), i.path(name+".conf"))
	certificate, key := i.Authority.Issue(host, "127.0.0.1")
	i.write("cert.pem", certificate)
	i.write("key.pem", key)
	settings.Host, settings.Dir = i.Host, i.dir
	i.configure(name+".conf", settings)
	i.ready = func(ctx context.Context) error {
		c, err := i.dial(ctx, fmt.Sprintf("probe%d", rand.IntN(10000))) //nolint:gosec // see above
		if err != nil {
			return err
		}
		return c.Close()
	}
	i.Start()
	return i
}

// Operator is a user of an IRC server who may do everything in IRCChannel.
type Operator struct {
	conn net.Conn
	in   *bufio.Scanner
}

// Operator connects as an operator and joins the channel.
func (i *IRC) Operator() *Operator {
	i.tb.Helper()
	o := i.User("boss")
	if err := o.Do("OPER boss pw-boss", "381"); err != nil {
		i.tb.Fatal(err)
	}
	if err := o.Do("JOIN "+IRCChannel, "366"); err != nil {
		i.tb.Fatal(err)
	}
	return o
}

// User connects as a user, until the test ends.
func (i *IRC) User(nick string) *Operator {
	i.tb.Helper()
	o, err := i.dial(i.tb.Context(), nick)
	if err != nil {
		i.tb.Fatalf("connect to %s: %v", i.name, err)
	}
	i.tb.Cleanup(func() { o.Close() }) //nolint:errcheck,gosec // the server may be gone
	return o
}

func (i *IRC) dial(ctx context.Context, nick string) (*Operator, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", i.Addr)
	if err != nil {
		return nil, err
	}
	o := &Operator{conn, bufio.NewScanner(conn)}
	first := "NICK " + nick + "\r\nUSER " + nick + " 0 * :" + nick
	if i.password != "" {
		first = "PASS :" + i.password + "\r\n" + first
	}
	if err := o.Do(first, "001"); err != nil {
		conn.Close() //nolint:errcheck,gosec // the error before says more
		return nil, err
	}
	return o, nil
}

// Do sends a line and waits for a line with that command.
func (o *Operator) Do(line, answer string) error {
	if err := o.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(o.conn, "%s\r\n", line); err != nil {
		return err
	}
	for o.in.Scan() {
		fields := strings.Fields(o.in.Text())
		if len(fields) > 1 && fields[0] == "PING" {
			if _, err := fmt.Fprintf(o.conn, "PONG %s\r\n", fields[1]); err != nil {
				return err
			}
		}
		if len(fields) > 1 && (fields[0] == answer || fields[1] == answer) {
			return nil
		}
	}
	return fmt.Errorf("%s: no %s: %w", line, answer, o.in.Err())
}

// Close ends the session.
func (o *Operator) Close() error { return errors.Join(o.Do("QUIT", "ERROR"), o.conn.Close()) }

// Biboumi is a bridge: a component of the XMPP server that shows IRC channels as rooms.
type Biboumi struct {
	*Process
	irc *IRC
}

// StartBiboumi starts a bridge in the place of the XMPP server's component.
func StartBiboumi(tb testing.TB, xmpp *Prosody, irc *IRC) *Biboumi {
	tb.Helper()
	program := binary(tb, "biboumi", "biboumi")
	b := &Biboumi{newProcess(tb, "biboumi", true), irc}
	b.argv = []string{program, b.path("biboumi.cfg")}
	b.ready = func(context.Context) error {
		if !strings.Contains(b.Log(), "Authenticated with the XMPP server") {
			return fmt.Errorf("the bridge is not connected")
		}
		return nil
	}
	b.ended = func() { b.removeIfThere("server.log") } // so that ready waits for the next connection
	b.Configure(xmpp, ComponentSecret)
	b.Start()
	return b
}

// Configure sets the password that the bridge sends when it starts next.
func (b *Biboumi) Configure(xmpp *Prosody, secret string) {
	b.tb.Helper()
	b.configure("biboumi.cfg", struct {
		Hostname, Secret, Dir string
		Port                  int
	}{
		ComponentHost,
		secret,
		b.dir,
		xmpp.ports.ComponentPort,
	})
}

// TryToStart starts the bridge without waiting until it is connected.
func (b *Biboumi) TryToStart() {
	b.tb.Helper()
	connected := b.ready
	b.ready = func(context.Context) error { return nil }
	b.Start()
	b.ready = connected
}

// Room is the address of the channel as a room.
func (b *Biboumi) Room() string { return IRCChannel + "%" + b.irc.Host + "@" + ComponentHost }
