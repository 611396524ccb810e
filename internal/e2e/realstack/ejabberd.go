//go:build realservers

package realstack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// NeverBanned are options of mod_fail2ban that exempt every address of loopback.
const NeverBanned = "{access: never_banned}"

// Ejabberd is another XMPP server, with the account XMPPUser on XMPPDomain. It bans addresses after failed logins.
type Ejabberd struct {
	*Process
	// ClientAddr (STARTTLS) and HTTPAddr, with its API, are host:port. ProxiedAddr is ClientAddr for clients behind a proxy, which
	// sends the PROXY header.
	ClientAddr, ProxiedAddr, HTTPAddr string
	// Authority signed its certificate, which is for XMPPDomain and 127.0.0.1.
	Authority *Authority
}

// StartEjabberd starts an XMPP server with these options of mod_fail2ban, in YAML: "{}" are the defaults. It is a node of its own, without
// Erlang's name server.
func StartEjabberd(tb testing.TB, fail2ban string) *Ejabberd {
	tb.Helper()
	return StartEjabberdWith(tb, fail2ban, "")
}

// StartEjabberdWith is StartEjabberd with additional lines at the top of its configuration.
func StartEjabberdWith(tb testing.TB, fail2ban, lines string) *Ejabberd {
	tb.Helper()
	binary(tb, "ejabberdctl", "ejabberd")
	program := binary(tb, "erl", "erlang-base")
	client, proxied, web := freePort(tb), freePort(tb), freePort(tb)
	e := &Ejabberd{
		newProcess(tb, "ejabberd", true),
		address(client),
		address(proxied),
		address(web),
		NewAuthority(tb),
	}
	certificate, key := e.Authority.Issue(XMPPDomain, "127.0.0.1")
	e.write("certificate.pem", slices.Concat(key, certificate))
	e.configure("ejabberd.yml", struct {
		Dir, Fail2Ban, Lines              string
		ClientPort, ProxiedPort, HTTPPort int
	}{
		e.dir,
		fail2ban,
		lines,
		client,
		proxied,
		web,
	})
	e.mkdir("data")
	e.environ = []string{
		"EJABBERD_CONFIG_PATH=" + e.path("ejabberd.yml"), "EJABBERD_LOG_PATH=" + e.path("server.log"),
		"ERL_CRASH_DUMP=" + e.path("crash.dump"), "ERL_LIBS=/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu",
	}
	e.argv = []string{program, "-noinput", "-mnesia", "dir", fmt.Sprintf("%q", e.path("data")), "-s", "ejabberd"}
	e.ready = func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.ClientAddr)
		if err != nil {
			return err
		}
		conn.Close() //nolint:errcheck,gosec // it only had to be accepted
		return e.call(ctx, "status", "{}")
	}
	e.Start()
	if err := e.call(tb.Context(), "register", fmt.Sprintf(`{"user": %q, "host": %q, "password": %q}`,
		XMPPUser, XMPPDomain, XMPPPassword)); err != nil {
		tb.Fatal(err)
	}
	return e
}

// Unban ends the ban of an address.
func (e *Ejabberd) Unban(ip string) {
	e.tb.Helper()
	if err := e.call(e.tb.Context(), "unban_ip", fmt.Sprintf(`{"address": %q}`, ip)); err != nil {
		e.tb.Fatal(err)
	}
}

// call calls the server's API.
func (e *Ejabberd) call(ctx context.Context, command, arguments string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.HTTPAddr+"/api/"+command, strings.NewReader(arguments))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // the status says enough
		return fmt.Errorf("%s: status %d: %s", command, resp.StatusCode, said)
	}
	return nil
}
