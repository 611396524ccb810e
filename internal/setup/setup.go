// Package setup writes a first configuration from what it finds: the containers of a stack, or the ports of this machine.
package setup

import (
	"cmp"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

// Facts is what was found. Its texts come from others and may contain anything.
type Facts struct {
	// Engine is the address of the Docker Engine, "" without one. NoEngine says why there is none.
	Engine, NoEngine string
	// OtherEngines are the hosts of further engines. Problem says what kept Docker's context from being used.
	OtherEngines []string
	Problem      string
	// Cgroup is true if this machine has the cgroup files of the engine's containers.
	Cgroup bool
	// Project is the Compose project of the stack, "" if its containers have none. Others are further projects with chat services.
	Project string
	Others  []string
	// Containers are those of the stack.
	Containers []Container
	// Answers are the addresses that accept a connection.
	Answers map[string]bool
	// ServerNames are names on the certificates of addresses that are not on them.
	ServerNames map[string]string
	// Domain is the XMPP server's virtual host, "" if unknown.
	Domain string
	// Environment has the variables of the stack that are set where this runs.
	Environment []string
	// EnvFiles are the stack's files of variables.
	EnvFiles []EnvFile
	// StateFile is a path that the exporter can write to, or "".
	StateFile string
	// Volume is a directory on the file system with the data.
	Volume string
}

// EnvFile is a file of variables. Only their names are used.
type EnvFile struct {
	Path string
	// Names are the variables that a target can use.
	Names []string
	// Problem says why the file could not be read.
	Problem string
}

// Container is a container as the engine describes it.
type Container struct {
	ID, Name, Project, Service, Image, Role, State string
	// Workload is what the exporter knows as its service: project/service, a swarm service or a systemd unit, else its name.
	Workload string
	// RoleByPort is true if the exporter cannot find the role by itself.
	RoleByPort bool
	// Directory and EnvFile are where Compose says that the project and its variables are.
	Directory, EnvFile string
	// Ports are the TCP ports that the image or Compose names, Published where they are reached on this machine.
	Ports     []int
	Published map[int]string
	// Hosts are names, and Addresses IP addresses, under which the networks know the container.
	Hosts, Networks []string
	Addresses       []netip.Addr
	// Resolved are those Hosts that lead to the container from here.
	Resolved []string
	// EngineSocket is true if the container has the socket of an engine.
	EngineSocket bool
}

// service returns the name of the container's service, "" if that is only the container, or no name that the configuration accepts.
func (c *Container) service() string {
	if c.Workload == c.Name || !config.IsService(c.Workload) {
		return ""
	}
	return c.Workload
}

// server returns the key and value of a target that the container serves.
func (c *Container) server() string {
	if service := c.service(); service != "" {
		return "service: " + quote(service)
	}
	return "container: " + quote(c.Name)
}

// endpoint is a port where init looks for a target of a kind.
type endpoint struct {
	config.Endpoint
	kind, role string
	// optional endpoints are only mentioned if the container has the port.
	optional bool
}

// endpointsOf returns the usual ports of a role. The roles are those of the metrics, and webServer.
func endpointsOf(role string) (list []endpoint) {
	for _, k := range collectors.Kinds {
		own := cmp.Or(k.Init.Role, k.Role.Name)
		if k.Init.Port > 0 && (own == role || k.Init.Beside == role) {
			list = append(list, endpoint{
				k.Init,
				k.Name,
				own,
				own != role,
			})
		}
	}
	return list
}

// roleOrder is the order of the roles in the file.
var roleOrder = func() (names []string) {
	for _, role := range collectors.Roles {
		names = append(names, role.Name)
	}
	return append(names, webServer)
}()

// webServer is a web server of an unknown role.
const webServer = config.WebServer

// isCore reports whether containers with a role make a Compose project the stack.
func isCore(role string) bool {
	return slices.ContainsFunc(collectors.Roles, func(r config.Role) bool { return r.Name == role && r.Core })
}

// tlsPorts are the ports of web servers where TLS begins at once.
var tlsPorts = []int{443, 5281, 8443}

// recognize returns a container's role: that of its label or name, else that of its ports.
func recognize(c *Container, labels map[string]string) (role string, byPort bool) {
	if role = fleet.RoleOf(labels, c.Image, c.Name); role != "" || c.EngineSocket { // a proxy of the engine has no other role
		return role, false
	}
	for _, known := range roleOrder { // an XMPP server may have its proxy's port too
		names := func(e endpoint) bool { return e.NamesRole && slices.Contains(c.Ports, e.Port) }
		if slices.ContainsFunc(endpointsOf(known), names) {
			return known, true
		}
	}
	if fleet.IsProxy(c.Image) {
		return webServer, false
	}
	return "", false
}

// chooseProject returns the Compose project with the most core roles, "" for containers without one, and the other projects that
// have any.
func chooseProject(all []Container) (chosen string, others []string) {
	roles := map[string][]string{}
	for i := range all {
		if c := &all[i]; isCore(c.Role) && !slices.Contains(roles[c.Project], c.Role) {
			roles[c.Project] = append(roles[c.Project], c.Role)
		}
	}
	for project := range roles {
		others = append(others, project)
	}
	slices.SortFunc(others, func(a, b string) int {
		if d := len(roles[b]) - len(roles[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(others) == 0 {
		return "", nil
	}
	return others[0], others[1:]
}

// portOf returns the port of the container that an endpoint means.
func (e *endpoint) portOf(c *Container) int {
	if !e.AnyPort || len(c.Ports) == 0 || slices.Contains(c.Ports, e.Port) {
		return e.Port
	}
	return slices.Min(c.Ports)
}

// candidates are the addresses of a container's port, the most lasting first: a name in its network, a port of this machine, and the
// container's present address.
func (c *Container) candidates(port int) []string {
	var found []string
	for _, host := range c.Resolved {
		found = append(found, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if published := c.Published[port]; published != "" {
		found = append(found, published)
	}
	for _, ip := range c.Addresses {
		found = append(found, netip.AddrPortFrom(ip, uint16(port)).String()) //nolint:gosec // ports are below 65536
	}
	return found
}

// isTransient reports whether an address is that of a container, which the next one need not get.
func (c *Container) isTransient(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && slices.Contains(c.Addresses, at.Addr()) && !at.Addr().IsLoopback()
}

// door is a port at all addresses that lead to it. The first that answers is enough.
type door struct {
	addresses []string
	tls       bool
}

// doors are what Write wants to know about.
func doors(containers []Container) []door {
	var all []door
	add := func(e *endpoint, port int, addresses []string) {
		if !slices.ContainsFunc(all, func(d door) bool { return slices.Equal(d.addresses, addresses) }) {
			all = append(all, door{addresses, e.tls(port)})
		}
	}
	for i := range containers {
		c := &containers[i]
		for _, e := range endpointsOf(c.Role) {
			port := e.portOf(c)
			add(&e, port, c.candidates(port))
		}
	}
	for _, e := range localEndpoints(containers) {
		add(&e, e.Port, []string{e.local()})
	}
	return all
}

// localEndpoints are the endpoints to look for on this machine: of roles that no container has. Beside a stack in containers, a common
// port says nothing.
func localEndpoints(containers []Container) []endpoint {
	var found []endpoint
	for _, role := range roleOrder {
		has := slices.ContainsFunc(containers, func(c Container) bool { return c.Role == role })
		for _, e := range endpointsOf(role) {
			if !has && role != webServer && !e.optional && (e.Sure || len(containers) == 0) {
				found = append(found, e)
			}
		}
	}
	return found
}

// tls reports whether TLS begins at once.
func (e *endpoint) tls(port int) bool {
	return e.TLS || strings.HasPrefix(e.URL, "https://") || slices.Contains(tlsPorts, port)
}

func (e *endpoint) local() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port)) }

// hostName matches names that can be written into an address. An engine accepts others as aliases.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?$`)

// knownNames returns those of these names that the exporter reads. A secret's is without _FILE.
func knownNames(names []string) []string {
	var known []string
	all := namesOfVariables()
	for _, name := range all {
		if secret := strings.TrimSuffix(name, "_FILE"); slices.Contains(all, secret) {
			name = secret
		}
		if (slices.Contains(names, name) || slices.Contains(names, name+"_FILE")) && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	return known
}

// assignment matches a line of an .env file.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$`)

// namesIn returns the names of the variables that the text of an .env file sets to something.
func namesIn(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if m := assignment.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil && strings.Trim(m[2], ` "'`) != "" {
			names = append(names, m[1])
		}
	}
	return names
}
