//go:build realservers

package realstack

import (
	"context"
	_ "embed"
	"net/http"
	"testing"
)

// What every Prosody of this package knows.
const (
	// XMPPDomain is its first virtual host; OtherDomain is a second one.
	XMPPDomain  = "chat.test"
	OtherDomain = "other.test"
	// XMPPUser is an account on XMPPDomain.
	XMPPUser     = "alice"
	XMPPPassword = "pw-alice"
	// ComponentHost is its external component, the bridge's place.
	ComponentHost   = "bridge.chat.test"
	ComponentSecret = "secret-bridge"
)

// Loopback is the network that all of these servers listen in, and Elsewhere one that no client here is in.
const (
	Loopback  = "127.0.0.0/8"
	Elsewhere = "192.0.2.0/24"
)

//go:embed mod_http_status.lua
var modHTTPStatus []byte

// ProsodyOptions say what is particular about a Prosody. The zero value is one that answers everything.
type ProsodyOptions struct {
	// HTTPPort, ClientPort (c2s, STARTTLS) and ComponentPort are ports of 127.0.0.1; 0 picks a free one.
	HTTPPort, ClientPort, ComponentPort int
	// Federation has it speak with other servers: on ServerPort (s2s, STARTTLS), of which 0 picks a free one.
	Federation bool
	ServerPort int
	// MetricsCIDR and StatusCIDR are the networks that may ask for /metrics and /status, Loopback by default. Others
	// get a 403. An X-Forwarded-For from loopback replaces the client's address.
	MetricsCIDR, StatusCIDR string
	// NoStatistics leaves statistics unset, as Debian does: /metrics is a 404 in plain text.
	NoStatistics bool
	// NoStatus leaves the status module out: /status is a 404 in HTML.
	NoStatus bool
	// Modules are further modules to load; one that does not exist is only logged.
	Modules []string
}

// Prosody is an XMPP server.
type Prosody struct {
	*Process
	// HTTPAddr, ClientAddr, ComponentAddr and ServerAddr are host:port. Nothing listens on ServerAddr without Federation.
	HTTPAddr, ClientAddr, ComponentAddr, ServerAddr string
	// Authority signed its certificate, which is for XMPPDomain, OtherDomain, localhost and 127.0.0.1.
	Authority *Authority

	options ProsodyOptions
}

// StartProsody starts an XMPP server with virtual hosts, an account and a component as the constants say.
func StartProsody(tb testing.TB, o ProsodyOptions) *Prosody {
	tb.Helper()
	program := binary(tb, "prosody", "prosody prosody-modules")
	control := binary(tb, "prosodyctl", "prosody")
	o.HTTPPort, o.ClientPort, o.ComponentPort = port(tb, o.HTTPPort), port(tb, o.ClientPort), port(tb, o.ComponentPort)
	o.ServerPort = port(tb, o.ServerPort)
	p := &Prosody{
		Process:       newProcess(tb, "prosody", true),
		HTTPAddr:      address(o.HTTPPort),
		ClientAddr:    address(o.ClientPort),
		ComponentAddr: address(o.ComponentPort),
		ServerAddr:    address(o.ServerPort),
		Authority:     NewAuthority(tb),
	}
	p.argv = []string{program, "-F", "--config", p.path("prosody.cfg.lua")}
	p.ready = func(ctx context.Context) error { return answers(ctx, http.DefaultTransport, p.URL()) }
	p.mkdir("data")
	p.mkdir("plugins")
	p.write("plugins/mod_http_status.lua", modHTTPStatus)
	certificate, key := p.Authority.Issue(XMPPDomain, OtherDomain, "localhost", "127.0.0.1")
	p.write("certificate.pem", certificate)
	p.write("key.pem", key)
	p.apply(o)
	register := p.command(control, "--config", p.path("prosody.cfg.lua"), "register", XMPPUser, XMPPDomain, XMPPPassword)
	if output, err := register.CombinedOutput(); err != nil {
		tb.Fatalf("register %s@%s: %v\n%s", XMPPUser, XMPPDomain, err, output)
	}
	p.Start()
	return p
}

// URL is the server's HTTP side, without a slash at its end.
func (p *Prosody) URL() string { return "http://" + p.HTTPAddr }

// Reconfigure restarts the server with other options, on the ports it has.
func (p *Prosody) Reconfigure(o ProsodyOptions) {
	p.tb.Helper()
	o.HTTPPort, o.ClientPort, o.ComponentPort = p.options.HTTPPort, p.options.ClientPort, p.options.ComponentPort
	o.ServerPort = p.options.ServerPort
	p.Stop()
	p.apply(o)
	p.Start()
}

func (p *Prosody) apply(o ProsodyOptions) {
	p.tb.Helper()
	if o.MetricsCIDR == "" {
		o.MetricsCIDR = Loopback
	}
	if o.StatusCIDR == "" {
		o.StatusCIDR = Loopback
	}
	p.options = o
	p.configure("prosody.cfg.lua", struct {
		ProsodyOptions
		Dir, ComponentSecret string
	}{o, p.dir, ComponentSecret})
}
