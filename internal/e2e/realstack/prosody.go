//go:build realservers

package realstack

import (
	"context"
	_ "embed"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The hosts and the account of every Prosody in this package.
const (
	// XMPPDomain is its first virtual host; OtherDomain is a second one.
	XMPPDomain  = "chat.test"
	OtherDomain = "other.test"
	// XMPPUser is an account on XMPPDomain.
	XMPPUser     = "alice"
	XMPPPassword = "pw-alice"
	// ComponentHost is its external component, in the bridge's place.
	ComponentHost   = "bridge.chat.test"
	ComponentSecret = "secret-bridge"
	// RoomsHost is its service of rooms, with an archive of each.
	RoomsHost = "rooms.chat.test"
)

// Loopback is the network of all servers and clients, Elsewhere a network without any client.
const (
	Loopback  = "127.0.0.0/8"
	Elsewhere = "192.0.2.0/24"
)

//go:embed mod_http_status.lua
var modHTTPStatus []byte

//go:embed mod_rehearse.lua
var modRehearse []byte

// ProsodyOptions configure a Prosody. The zero value answers everything.
type ProsodyOptions struct {
	// DirectTLSPort is the port for clients with direct TLS; 0 means none.
	DirectTLSPort int
	// Federation enables connections with other servers.
	Federation bool
	// MetricsCIDR and StatusCIDR are the networks that may request /metrics and /status, Loopback by default. Others
	// get a 403. An X-Forwarded-For from loopback replaces the client's address.
	MetricsCIDR, StatusCIDR string
	// NoStatistics leaves statistics unset, as Debian does, so that /metrics is a 404 in plain text.
	NoStatistics bool
	// NoStatus leaves the status module out: /status is a 404 in HTML.
	NoStatus bool
	// StatisticsInterval is the setting of that name, "manual" by default: "manual", or seconds.
	StatisticsInterval string
	// Modules are additional modules to load, including those in deploy/prosody. The server only logs missing ones.
	Modules []string
	// Rooms adds RoomsHost.
	Rooms bool
	// PasswordHash is the hash function of SCRAM: SHA-1 by default, or SHA-256.
	PasswordHash string
	// OldTLS limits its ports to TLS 1.2.
	OldTLS bool
	// ArchiveLimit is how many items an archive of an account may hold; 0 is the server's default.
	ArchiveLimit int
}

// Rehearse is a module that causes what a test's clients cannot, by GET /rehearse/ and the paths in its source.
const Rehearse = "rehearse"

// Prosody is an XMPP server.
type Prosody struct {
	*Process
	// HTTPAddr, ClientAddr (STARTTLS), ComponentAddr and ServerAddr (STARTTLS) are host:port. Nothing listens on ServerAddr
	// without Federation.
	HTTPAddr, ClientAddr, ComponentAddr, ServerAddr string
	// Authority signed its certificate, which is for XMPPDomain, OtherDomain, localhost and 127.0.0.1.
	Authority *Authority

	ports prosodyPorts
}

type prosodyPorts struct{ HTTPPort, ClientPort, ComponentPort, ServerPort int }

// StartProsody starts an XMPP server with virtual hosts, an account and a component as the constants say.
func StartProsody(tb testing.TB, o ProsodyOptions) *Prosody {
	tb.Helper()
	program := prosodyProgram(tb, "prosody")
	ports := prosodyPorts{
		freePort(tb),
		freePort(tb),
		freePort(tb),
		freePort(tb),
	}
	p := &Prosody{
		Process:       newProcess(tb, "prosody", true),
		Authority:     NewAuthority(tb),
		ports:         ports,
		HTTPAddr:      address(ports.HTTPPort),
		ClientAddr:    address(ports.ClientPort),
		ComponentAddr: address(ports.ComponentPort),
		ServerAddr:    address(ports.ServerPort),
	}
	p.argv = []string{program, "-F", "--config", p.path("prosody.cfg.lua")}
	p.ready = func(ctx context.Context) error { return answers(ctx, http.DefaultTransport, p.URL()) }
	p.mkdir("data")
	p.mkdir("plugins")
	p.write("plugins/mod_http_status.lua", modHTTPStatus)
	p.write("plugins/mod_rehearse.lua", modRehearse)
	p.write("plugins/mod_measure_chatstack.lua", repositoryFile(tb, "deploy/prosody/mod_measure_chatstack.lua"))
	certificate, key := p.Authority.Issue(XMPPDomain, OtherDomain, "localhost", "127.0.0.1")
	p.write("certificate.pem", certificate)
	p.write("key.pem", key)
	p.apply(o)
	p.Register(XMPPUser, XMPPDomain, XMPPPassword)
	p.Start()
	return p
}

// Register creates an account or changes its password. The server need not run.
func (p *Prosody) Register(user, domain, password string) {
	p.tb.Helper()
	p.control("register", user, domain, password)
}

// Module makes the running server reload, unload or load a module on these hosts. Without hosts it does so everywhere; load then means
// all virtual hosts. The shared part of a module is always unloaded. It requires the module admin_shell.
func (p *Prosody) Module(verb, name string, hosts ...string) {
	p.tb.Helper()
	output := p.control(append([]string{"shell", "module", verb, name}, hosts...)...)
	if !strings.Contains(output, "OK: Module "+verb+"ed") {
		p.tb.Fatalf("%s module %s:\n%s", verb, name, output)
	}
}

// Host makes the running server activate or deactivate a virtual host. It requires the module admin_shell.
func (p *Prosody) Host(verb, host string) {
	p.tb.Helper()
	p.control("shell", "host", verb, host)
}

// FailToReload makes the running server reload a module from a source that fails. It then restores the source, so that Module can load
// it. It requires the module admin_shell.
func (p *Prosody) FailToReload(name string) {
	p.tb.Helper()
	source := filepath.Join("plugins", "mod_"+name+".lua")
	was, err := os.ReadFile(p.path(source))
	if err != nil {
		p.tb.Fatal(err)
	}
	p.write(source, []byte("error('broken on purpose')\n"))
	// Only some versions of the program exit with an error if a command fails.
	output, _ := p.tool("shell", "module", "reload", name)
	if !strings.Contains(output, "broken on purpose") {
		p.tb.Fatalf("reload broken module %s:\n%s", name, output)
	}
	p.write(source, was)
}

// control runs prosodyctl and returns its output.
func (p *Prosody) control(args ...string) string {
	p.tb.Helper()
	output, err := p.tool(args...)
	if err != nil {
		p.tb.Fatalf("prosodyctl %s: %v\n%s", args[0], err, output)
	}
	return output
}

func (p *Prosody) tool(args ...string) (string, error) {
	p.tb.Helper()
	program := prosodyProgram(p.tb, "prosodyctl")
	output, err := p.command(append([]string{program, "--config", p.path("prosody.cfg.lua")}, args...)...).CombinedOutput()
	return string(output), err
}

// Forbid makes the data of a virtual host read-only for the server, and returns a function that undoes this.
func (p *Prosody) Forbid(domain, store string) (allow func()) {
	p.tb.Helper()
	dir := p.path(filepath.Join("data", strings.ReplaceAll(domain, ".", "%2e"), store))
	change := func(mode os.FileMode) {
		p.tb.Helper()
		if err := os.Chmod(dir, mode); err != nil {
			p.tb.Fatalf("change the rights to store %s of %s: %v", store, domain, err)
		}
	}
	change(0o500)
	return func() { change(0o700) }
}

// prosodyProgram is one of the server's programs: of the directory that CHATSTACK_TEST_PROSODY names, as .ci/prosody13
// prints it, or else of Debian's package.
func prosodyProgram(tb testing.TB, name string) string {
	tb.Helper()
	if dir := os.Getenv("CHATSTACK_TEST_PROSODY"); dir != "" {
		return filepath.Join(dir, name)
	}
	return binary(tb, name, "prosody prosody-modules")
}

// repositoryFile returns the content of a file in this repository.
func repositoryFile(tb testing.TB, name string) []byte {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("find the repository: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("find the repository: no go.mod above the test's directory")
		}
		dir = up
	}
	content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

// URL returns the server's HTTP address, without a slash at its end.
func (p *Prosody) URL() string { return "http://" + p.HTTPAddr }

// Reconfigure restarts the server with other options on the same ports.
func (p *Prosody) Reconfigure(o ProsodyOptions) {
	p.tb.Helper()
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
	if o.PasswordHash == "" {
		o.PasswordHash = "SHA-1"
	}
	if o.StatisticsInterval == "" {
		o.StatisticsInterval = "manual"
	}
	p.configure("prosody.cfg.lua", struct {
		ProsodyOptions
		prosodyPorts
		Dir, ComponentSecret string
	}{
		o,
		p.ports,
		p.dir,
		ComponentSecret,
	})
}
