// Package simstack is a simulated chat stack: every service that the exporter probes, with the answers of the real ones and
// faults that can be switched on by name.
package simstack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a stack. The zero value is a stack on ephemeral ports of 127.0.0.1.
type Options struct {
	// BasePort is the switchboard's port. The services use the ports after it, in the order of Services. 0 uses ephemeral ports.
	BasePort int
	// UpstreamSeries is how many series the XMPP server's metrics page has in addition to the real server's.
	UpstreamSeries int
	// IRCUsers is how many users the IRC server has without the services' bots; 3 by default.
	IRCUsers int
	// Password is the password of the IRC server's RPC.
	Password string
	// Token is the prefix of the bearer tokens. Each service has its own token, see Environ.
	Token string
	// Slow is how long an answer takes under the fault "slow": 3 s by default.
	Slow time.Duration
	// Coupled lets the faults of one server come together: a stopped service stops its container with everything else in it, and
	// a container that ends takes its services along. Otherwise each fault is alone.
	Coupled bool
	// CrashEvery is how long one round of a crash loop takes: 2 s by default.
	CrashEvery time.Duration
	// Network is a network in memory for the services; nil means the machine's network.
	Network *Network
}

// The names that the certificates are valid for.
const (
	// XMPPDomain is the one virtual host of the stack's XMPP server.
	XMPPDomain = "chat.test"
	ircName    = "irc.test"
)

// loopback is the address that all services listen on.
const loopback = "127.0.0.1"

// Stack is a running simulated stack. Its methods are safe for concurrent use.
type Stack struct {
	opts     Options
	dir      string // has the sockets and the authority's certificate; Close removes it
	services []*service
	store    *plantStore
	engine   *Engine
	relayed  *relayed
	control  *http.Server
	wg       sync.WaitGroup
	closing  sync.Once

	coupling sync.Mutex     // held while a fault of a coupled stack is switched
	followed map[Fault]bool // which faults followed from a container's state

	stories    storySwitches
	statusPage atomic.Value // the URL of the exporter's status page, a string
}

// Services are the names of a stack's services, in the order of their ports. The bridge has only faults.
// The engine listens on a Unix socket only.
var Services = []string{
	"xmpp", "proxy", "irc_rpc", "irc_services", "plant_store", "identity", "docs_search", "docker", "xmpp_c2s", "xmpp_s2s", "irc_tls",
	"web_irc", "web_panel", "log_viewer",
}

// Start starts a stack. When it returns, every service answers.
func Start(opts Options) (*Stack, error) {
	k := &Stack{opts: withDefaults(opts), followed: map[Fault]bool{}}
	if err := k.start(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func withDefaults(o Options) Options {
	o.Password, o.Token = cmp.Or(o.Password, "simulated-rpc-password"), cmp.Or(o.Token, "simulated-token")
	o.IRCUsers, o.Slow, o.CrashEvery = cmp.Or(o.IRCUsers, ircPeople), cmp.Or(o.Slow, 3*time.Second), cmp.Or(o.CrashEvery, 2*time.Second)
	return o
}

func (k *Stack) start() error {
	if err := k.makeDir(); err != nil {
		return err
	}
	certs, err := newCertificates()
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.CAFile(), certs.caPEM, 0o644); err != nil { //nolint:gosec // a certificate is public
		return fmt.Errorf("write authority: %w", err)
	}
	k.relayed = newRelayed(RelayPassword)
	k.store = &plantStore{plants: map[int64]plant{}, token: k.opts.Token + "-plants"}
	k.engine = newStackEngine(k.opts.CrashEvery)
	for _, s := range []*service{
		newXMPP(k.opts),
		newProxy(),
		newIRC(k.opts, filepath.Join(k.dir, "irc-rpc.sock")),
		{name: "irc_services", handle: handleIRCServices},
		newPlantStore(k.store),
		newIdentity(k.opts.Token + "-identity"),
		{name: "docs_search", handle: handleDocsSearch},
		newDocker(k.engine, filepath.Join(k.dir, "docker.sock")),
		newXMPPStream("xmpp_c2s", "jabber:client",
			"<limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>840</idle-seconds></limits>", k.relayed),
		newXMPPStream("xmpp_s2s", "jabber:server", "<dialback xmlns='urn:xmpp:features:dialback'/>", nil),
		newIRCPort(k.relayed),
		newFrontEnd("web_irc", "Web IRC"),
		newFrontEnd("web_panel", "Web panel"),
		newFrontEnd("log_viewer", "Log viewer"),
		k.relayed.service,
	} {
		if err := k.add(s, certs); err != nil {
			return err
		}
	}
	return k.startControl()
}

func (k *Stack) makeDir() (err error) {
	k.dir, err = os.MkdirTemp("", "chatstack-")
	return err
}

// add starts a service on the next port.
func (k *Stack) add(s *service, certs *certificates) error {
	s.slow, s.wg, s.network = k.opts.Slow, &k.wg, k.opts.Network
	s.findFaults()
	if s.secure || s.startTLS {
		s.tls = certs.config(s)
	}
	if s.name != "docker" && s.name != "bridge" {
		port := 0
		if k.opts.BasePort != 0 {
			port = k.opts.BasePort + len(k.services) + 1
		}
		tcp := &endpoint{network: "tcp", address: net.JoinHostPort(loopback, strconv.Itoa(port))}
		s.endpoints = append([]*endpoint{tcp}, s.endpoints...)
	}
	k.services = append(k.services, s)
	if err := s.open(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	return nil
}

// Close stops every service and waits until all goroutines have ended. It cuts connections. A second Close does
// nothing.
func (k *Stack) Close() error {
	var err error
	k.closing.Do(func() {
		if k.control != nil {
			err = k.control.Close()
		}
		for _, s := range k.services {
			s.close()
		}
		k.wg.Wait()
		if k.dir != "" {
			err = errors.Join(err, os.RemoveAll(k.dir))
		}
	})
	return err
}

// Environ returns the environment variables that point an exporter at the stack.
func (k *Stack) Environ() map[string]string {
	url := func(scheme, name, path string) string {
		return scheme + "://" + k.service(name).address() + path
	}
	return map[string]string{
		"IRC_RPC_URL":              url("https", "irc_rpc", "/api"),
		"IRC_RPC_USER":             ircUser,
		"IRC_RPC_PASSWORD":         k.opts.Password,
		"IRC_RPC_CA_FILE":          k.CAFile(),
		"IRC_SERVICES_JSONRPC_URL": url("http", "irc_services", "/jsonrpc"),
		"XMPP_REST_URL":            url("http", "xmpp", ""),
		"XMPP_REST_TOKEN":          k.opts.Token + "-xmpp",
		"XMPP_DOMAIN":              XMPPDomain,
		"XMPP_OPENMETRICS_CIDR":    "127.0.0.0/8",
		"XMPP_PROXY_URL":           url("https", "proxy", ""),
		"XMPP_PROXY_CA_FILE":       k.CAFile(),
		"XMPP_C2S_CA_FILE":         k.CAFile(),
		"IRC_TLS_CA_FILE":          k.CAFile(),
		"PLANT_STORE_URL":          url("http", "plant_store", ""),
		"PLANT_STORE_TOKEN":        k.opts.Token + "-plants",
		"BRIDGE_IDENTITY_BASE_URL": url("http", "identity", ""),
		"BRIDGE_IDENTITY_TOKEN":    k.opts.Token + "-identity",
		"DOCS_SEARCH_URL":          url("http", "docs_search", ""),
		"DOCKER_HOST":              "unix://" + k.service("docker").address(),
	}
}

// IRCSocket returns the path of the IRC server's JSON-RPC Unix socket.
func (k *Stack) IRCSocket() string { return k.service("irc_rpc").endpoints[1].address }

// ControlURL returns the address of the switchboard.
func (k *Stack) ControlURL() string {
	return "http://" + k.control.Addr + "/"
}

// LinkStatusPage makes the switchboard link to the status page of the exporter that watches the stack.
func (k *Stack) LinkStatusPage(url string) { k.statusPage.Store(url) }

// URL returns the address of a service that speaks HTTP without TLS, such as "http://127.0.0.1:9668/".
func (k *Stack) URL(service string) string { return "http://" + k.service(service).address() + "/" }

// XMPPClientAddress returns host:port of the XMPP server for clients.
func (k *Stack) XMPPClientAddress() string { return k.service("xmpp_c2s").address() }

// XMPPServerAddress returns host:port of the XMPP server for other servers.
func (k *Stack) XMPPServerAddress() string { return k.service("xmpp_s2s").address() }

// IRCAddress returns host:port of the IRC server's TLS port.
func (k *Stack) IRCAddress() string { return k.service("irc_tls").address() }

// CAFile returns the path of the certificate of the authority that signed the stack's certificates.
func (k *Stack) CAFile() string { return filepath.Join(k.dir, "ca.pem") }

// Faults returns the whole catalogue, sorted by service and name.
func (k *Stack) Faults() []Fault { return k.faults(func(*service, string) bool { return true }) }

// Active returns the faults that are on, sorted by service and name.
func (k *Stack) Active() []Fault {
	return k.faults(func(s *service, fault string) bool { return s.on(fault) })
}

func (k *Stack) faults(selects func(*service, string) bool) []Fault {
	var selected []Fault
	for _, s := range k.services {
		for name, description := range s.faults {
			if selects(s, name) {
				selected = append(selected, Fault{s.name, name, description})
			}
		}
	}
	slices.SortFunc(selected, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Name, b.Name)) })
	return selected
}

// Switch turns one fault on or off. When it returns, new requests see the change; requests that hung because of the
// fault go on once it is off. The error of an unknown service or fault lists the known ones.
func (k *Stack) Switch(service, fault string, on bool) error {
	s := k.service(service)
	if s == nil {
		return fmt.Errorf("unknown service %q; the services are %v", service, Services)
	}
	if k.opts.Coupled {
		return k.switchCoupled(s, fault, on)
	}
	return s.turn(fault, on)
}

// Reset turns every fault and story off.
func (k *Stack) Reset() error {
	k.stories.mu.Lock()
	defer k.stories.mu.Unlock()
	k.stories.switched = nil
	var errs []error
	for _, f := range k.Active() {
		errs = append(errs, k.Switch(f.Service, f.Name, false))
	}
	return errors.Join(errs...)
}

// Requests returns the requests to a service, oldest first, at most the last 10,000; nil for an unknown service.
func (k *Stack) Requests(service string) []Request {
	if s := k.service(service); s != nil {
		return s.recorded()
	}
	return nil
}

// Plants returns the ids of the plants that the plant store holds, sorted.
func (k *Stack) Plants() []int64 {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	return slices.Sorted(maps.Keys(k.store.plants))
}

func (k *Stack) service(name string) *service {
	if i := slices.IndexFunc(k.services, func(s *service) bool { return s.name == name }); i >= 0 {
		return k.services[i]
	}
	return nil
}
