//go:build realservers

package realstack

import (
	"context"
	"errors"
	"net/http"
	"testing"
)

// Atheme is IRC services. Their HTTP side works the same without a linked IRC server.
type Atheme struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartAtheme starts IRC services without an IRC server.
func StartAtheme(tb testing.TB) *Atheme {
	tb.Helper()
	return startAtheme(tb, "unreal4", "127.0.0.1", 1) // nothing listens there
}

// IRCServices starts services for InspIRCd, in which an account of that name and password is registered.
func (i *IRC) IRCServices(account, password string) *Atheme {
	i.tb.Helper()
	a := startAtheme(i.tb, "inspircd", i.Host, ircLinkPort)
	var err error
	registered := eventually(readyWithin, func() bool { // while the services are not linked, there is no NickServ
		var user *Operator
		if user, err = i.dial(i.tb.Context(), account); err != nil {
			return false
		}
		defer func() { err = errors.Join(err, user.Close()) }()
		err = user.Do("PRIVMSG NickServ :REGISTER "+password+" "+account+"@irc.test", "900")
		return err == nil
	})
	if !registered {
		i.tb.Fatalf("register %s with the IRC services: %v", account, err)
	}
	return a
}

// ircLinkPort is InspIRCd's port for services.
const ircLinkPort = 7000

func startAtheme(tb testing.TB, protocol, uplink string, uplinkPort int) *Atheme {
	tb.Helper()
	program := binary(tb, "atheme-services", "atheme-services")
	port := freePort(tb)
	a := &Atheme{Process: newProcess(tb, "atheme", true), Addr: address(port)}
	a.argv = []string{
		program, "-n",
		"-c", a.path("atheme.conf"), "-D", a.dir, "-l", a.path("server.log"), "-p", a.path("atheme.pid"),
	}
	a.ready = func(ctx context.Context) error { return answers(ctx, http.DefaultTransport, a.URL()) }
	// Killed services leave their pid file, and refuse to start while it names a process.
	a.ended = func() { a.removeIfThere("atheme.pid") }
	a.mkdir("www")
	a.configure("atheme.conf", struct {
		Dir, Protocol, Uplink string
		Port, UplinkPort      int
	}{
		a.dir,
		protocol,
		uplink,
		port,
		uplinkPort,
	})
	a.Start()
	return a
}

// URL returns the services' HTTP address, with a slash at its end.
func (a *Atheme) URL() string { return "http://" + a.Addr + "/" }
