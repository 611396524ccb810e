package setup

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Result is a configuration, and what to say about it.
type Result struct {
	YAML []byte
	// Found is what was found, one line each.
	Found []string
	// Targets and Open count the targets, and those that are only comments.
	Targets, Open int
}

// Write makes a configuration from facts. What answers becomes a target. What does not, or needs a decision, becomes a comment.
func Write(f *Facts) Result {
	w := &writer{facts: f}
	w.head()
	w.docker()
	for _, role := range roleOrder {
		w.role(role)
	}
	w.volume()
	w.unknown()
	w.variables()
	if len(w.transient) > 0 {
		fmt.Fprintf(&w.top, "\n# Addresses marked with (!) change when their container is recreated. Publish these ports on 127.0.0.1, "+
			"or run the exporter on the\n"+
			"# stack's network (%s) and use the names of the services.\n", plain(list(w.transient)))
	}
	text := w.top.String() + "\ntargets:\n" + w.targets.String()
	if w.Targets == 0 {
		text = w.top.String() + "\n" + w.targets.String() + "targets: []\n"
	}
	w.YAML = []byte(text)
	return w.Result
}

// writer collects the parts of a Result.
type writer struct {
	facts        *Facts
	top, targets strings.Builder
	kinds        []string // that have a target
	names        []string // of targets that have one
	// transient are the networks of containers whose own address is used.
	transient []string
	Result
}

// maxText bounds one foreign text, in characters.
const maxText = 400

// plain makes a foreign text fit for a comment or a terminal.
func plain(text string) string { return failure.Printable(text, maxText) }

// quote makes a foreign text a YAML string. Every escape that Go writes means the same in YAML.
func quote(text string) string { return strconv.QuoteToASCII(text) }

// list makes foreign texts a sequence of YAML.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (w *writer) found(format string, args ...any) {
	w.Found = append(w.Found, fmt.Sprintf(format, args...))
}

func (w *writer) comment(format string, args ...any) {
	fmt.Fprintf(&w.targets, "  # "+format+"\n", args...)
}

func (w *writer) head() {
	w.top.WriteString(`# Written by chatstack_exporter init from what it found on this machine. Comments name what it could not decide.
# The reference with all settings is exporter.yaml of the documentation.
`)
	if w.facts.StateFile != "" {
		fmt.Fprintf(&w.top, "\nstate_file: %s\n", quote(w.facts.StateFile))
		return
	}
	w.top.WriteString("\n# For counters and the age of problems to survive a restart, " +
		"name a file in a directory that the exporter can write to:\n" +
		"# state_file: /var/lib/chatstack_exporter/state.json\n")
}

func (w *writer) docker() {
	f := w.facts
	if f.Engine == "" {
		w.found("Docker: none found, %s; looked at the usual ports of 127.0.0.1 instead", plain(f.NoEngine))
		w.comment("Containers are not monitored: no Docker Engine, %s.", plain(f.NoEngine))
		w.comment("- kind: docker\n  #   host: unix:///var/run/docker.sock")
		w.Open++
		return
	}
	where := "no Compose project has chat services"
	if f.Project != "" {
		where = "Compose project " + plain(f.Project)
	}
	containers := "1 container"
	if n := len(f.Containers); n != 1 {
		containers = strconv.Itoa(n) + " containers"
	}
	w.found("Docker: %s, %s, %s", plain(f.Engine), where, containers)
	w.begin("docker", "")
	fmt.Fprintf(&w.targets, "    host: %s\n", quote(f.Engine))
	if f.Cgroup {
		w.targets.WriteString("    resources: cgroup # a container needs the host's /sys/fs/cgroup and /proc mounted below /host\n")
	}
	if hostName.MatchString(f.Project) { // as Compose names projects; a label could say anything
		fmt.Fprintf(&w.targets, "    projects: %s\n", list([]string{f.Project}))
	}
	w.services()
	w.engines()
	if len(f.Others) > 0 {
		fmt.Fprintf(&w.targets, "    # Other Compose projects have chat services, too: %s. Add those that belong to the stack.\n",
			plain(list(f.Others)))
		w.found("Docker: other projects with chat services: %s; choose with --project", plain(list(f.Others)))
	}
	named := false
	for i := range f.Containers {
		c := &f.Containers[i]
		if !c.RoleByPort || c.Role == webServer || !slices.Contains(roleOrder, c.Role) {
			continue
		}
		if !named {
			w.targets.WriteString("    roles: # by their ports\n")
		}
		named = true
		fmt.Fprintf(&w.targets, "      %s: %s\n", quote(c.Name), quote(c.Role))
	}
}

// services writes which services must run: those with a role that run now. With projects, no others are watched.
func (w *writer) services() {
	var names []string
	for i := range w.facts.Containers {
		c := &w.facts.Containers[i]
		name := c.service()
		project, _, _ := strings.Cut(name, "/")
		if name != "" && notRunning(c) == "" && slices.Contains(roleOrder, c.Role) && !slices.Contains(names, name) &&
			(!hostName.MatchString(w.facts.Project) || project == w.facts.Project) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		fmt.Fprintf(&w.targets, "    expected_services: %s\n", list(names))
	}
}

// engines mentions what else was found of engines.
func (w *writer) engines() {
	if w.facts.Problem != "" {
		w.found("Docker: %s", plain(w.facts.Problem))
	}
	if len(w.facts.OtherEngines) > 0 {
		w.found("Docker: other engines: %s", plain(list(w.facts.OtherEngines)))
		fmt.Fprintf(&w.targets, "    # Other engines: %s. To watch one, add a target of kind docker with a name and a label.\n",
			plain(list(w.facts.OtherEngines)))
	}
}

// begin writes the first lines of a target. Its name is the kind's if it is empty.
func (w *writer) begin(kind, name string) {
	fmt.Fprintf(&w.targets, "  - kind: %s\n", kind)
	if name != "" {
		fmt.Fprintf(&w.targets, "    name: %s\n", quote(name))
	}
	w.kinds = append(w.kinds, kind)
	w.Targets++
}

// role writes the targets of the containers with a role, else those of this machine's ports.
func (w *writer) role(role string) {
	var has []*Container
	for i := range w.facts.Containers {
		if c := &w.facts.Containers[i]; c.Role == role {
			has = append(has, c)
		}
	}
	// A container that was left behind is not the service.
	slices.SortStableFunc(has, func(a, b *Container) int { return strings.Compare(notRunning(a), notRunning(b)) })
	var services []string
	for i, c := range has {
		service := c.service()
		if service != "" && slices.Contains(services, service) {
			continue // the service has its targets
		}
		services = append(services, service)
		switch {
		case i > 0 && role != webServer:
			w.found("%s: container %s is another one; it is only a comment", role, plain(c.Name))
			w.targets.WriteString("\n")
			w.comment("Container %s is another %s. Give its targets names, or leave them out.", plain(c.Name), role)
			w.Open++
		case role == "bridge":
			w.bridge(c)
		default:
			w.server(role, c)
		}
	}
	if len(has) == 0 {
		w.local(role)
	}
}

func (w *writer) bridge(c *Container) {
	w.found("bridge: container %s%s; whether it relays is checked with two accounts, see the comment", plain(c.Name), notRunning(c))
	w.targets.WriteString("\n")
	w.comment("bridge: container %s. The relay check needs an account on both sides, and a channel that the bridge maps to a room:",
		plain(c.Name))
	fmt.Fprintf(&w.targets, `  # - kind: relay
  #   %s
  #   irc: {address: "irc:6697", nick: irccheck, channel: "#bridge-check"}
  #   xmpp: {user: check@chat.example.org, password_file: /run/secrets/relay_xmpp, room: check@rooms.example.org}
`, c.server())
	w.Open++
}

func notRunning(c *Container) string {
	if c.State == "running" {
		return ""
	}
	return " (" + plain(c.State) + ")"
}

// server writes the targets of one container.
func (w *writer) server(role string, c *Container) {
	w.targets.WriteString("\n")
	w.comment("%s: container %s%s, image %s", role, plain(c.Name), notRunning(c), plain(c.Image))
	var said []string
	for _, e := range endpointsOf(role) {
		port := e.portOf(c)
		addresses := c.candidates(port)
		at := slices.IndexFunc(addresses, func(a string) bool { return w.facts.Answers[a] })
		switch {
		case e.optional && (at < 0 || slices.Contains(w.kinds, e.kind) || w.hasRole(e.role)):
		case at < 0:
			said = append(said, fmt.Sprintf("%s: port %d does not answer", e.kind, port))
			w.silent(&e, port, c)
		default:
			said = append(said, w.target(&e, port, addresses[at], c))
		}
	}
	w.found("%s: container %s%s: %s", role, plain(c.Name), notRunning(c), strings.Join(said, "; "))
}

func (w *writer) hasRole(role string) bool {
	return slices.ContainsFunc(w.facts.Containers, func(c Container) bool { return c.Role == role })
}

// target writes a target that answers and returns what to say about it.
func (w *writer) target(e *endpoint, port int, address string, c *Container) string {
	key, value := e.at(port, address)
	lines := key + ": " + quote(value)
	name := ""
	if e.role == webServer {
		name = w.unused(c)
	}
	if e.NeedsDomain && !w.knowsDomain() {
		w.comment("The virtual host is unknown. Set domain, or XMPP_DOMAIN, or run init --domain=chat.example.org:")
		w.comment("- kind: %s", e.kind)
		w.comment("  %s", lines)
		w.comment("  domain: chat.example.org")
		w.Open++
		return e.kind + " at " + address + " needs a domain"
	}
	w.begin(e.kind, name)
	if c != nil && c.isTransient(address) {
		lines += " # (!)"
		for _, network := range c.Networks {
			if !slices.Contains(w.transient, network) {
				w.transient = append(w.transient, network)
			}
		}
	}
	fmt.Fprintf(&w.targets, "    %s\n", lines)
	if name := w.facts.ServerNames[address]; name != "" {
		fmt.Fprintf(&w.targets, "    server_name: %s # from its certificate\n", quote(name))
		value += ", whose certificate is for " + plain(name)
	}
	if e.NeedsDomain && w.facts.Domain != "" {
		fmt.Fprintf(&w.targets, "    domain: %s\n", quote(w.facts.Domain))
	}
	if c != nil {
		fmt.Fprintf(&w.targets, "    %s\n", c.server())
		if e.role == webServer {
			w.targets.WriteString("    # If this is the web client, write kind: web_irc and remove the name.\n")
		}
	}
	if len(e.Credentials) > 0 {
		fmt.Fprintf(&w.targets, "    # Add what only you know: %s\n", strings.Join(e.Credentials, ", "))
	}
	return e.kind + " at " + value
}

// silent writes a target that does not answer as a comment.
func (w *writer) silent(e *endpoint, port int, c *Container) {
	host := c.Name
	if c.Service != "" {
		host = c.Service
	}
	key, value := e.at(port, net.JoinHostPort(host, strconv.Itoa(port)))
	why := "does not answer here"
	switch {
	case c.State != "running":
		why = "cannot answer while the container is " + plain(c.State)
	case len(c.candidates(port)) == 0:
		why = "cannot be reached from here: the container shares no network with this process and does not publish it"
	}
	w.comment("Port %d %s. If the service has it elsewhere, or later:", port, why)
	w.comment("- kind: %s", e.kind)
	w.comment("  %s: %s", key, plain(quote(value)))
	w.comment("  %s", c.server())
	if e.NeedsDomain && !w.knowsDomain() {
		w.comment("  domain: chat.example.org")
	}
	w.Open++
}

// local writes what answers at this machine's own ports.
func (w *writer) local(role string) {
	for _, e := range endpointsOf(role) {
		if !w.facts.Answers[e.local()] || e.optional || role == webServer {
			continue
		}
		if !e.Sure {
			key, value := e.at(e.Port, e.local())
			w.found("127.0.0.1:%d answers; it may be a %s", e.Port, e.kind)
			w.comment("127.0.0.1:%d answers. If it is the service, use it:", e.Port)
			w.comment("- kind: %s", e.kind)
			w.comment("  %s: %s", key, quote(value))
			w.Open++
			continue
		}
		w.found("%s: %s", role, w.target(&e, e.Port, e.local(), nil))
	}
}

// at returns the key and the value of the target's address.
func (e *endpoint) at(port int, address string) (key, value string) {
	if e.URL == "" {
		return "address", address
	}
	url := fmt.Sprintf(e.URL, address)
	if slices.Contains(tlsPorts, port) {
		url = "https://" + url[strings.Index(url, "://")+3:]
	}
	return "url", url
}

func (w *writer) knowsDomain() bool {
	return w.facts.Domain != "" || slices.Contains(w.facts.Environment, "XMPP_DOMAIN")
}

// unused returns a name for a web server's target.
func (w *writer) unused(c *Container) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && hostName.MatchString(string(r)) || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, c.Service)
	name = strings.TrimLeft(name, "._-")
	if name == "" {
		name = "web"
	}
	name = name[:min(len(name), 40)]
	for i, base := 2, name; slices.Contains(w.names, name) || fixedName(name); i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	w.names = append(w.names, name)
	return name
}

// fixedName reports whether a name is that of another target, which has no name key.
func fixedName(name string) bool {
	_, isKind := collectors.KindOf(name)
	return isKind || name == volumeName
}

const volumeName = "data"

func (w *writer) volume() {
	if w.facts.Volume == "" {
		return
	}
	w.targets.WriteString("\n")
	w.begin("volume", volumeName)
	fmt.Fprintf(&w.targets, "    path: %s\n", quote(w.facts.Volume))
	w.found("volume: %s", plain(w.facts.Volume))
}

// unknown names the containers that are watched as containers only.
func (w *writer) unknown() {
	var names []string
	for i := range w.facts.Containers {
		if c := &w.facts.Containers[i]; !slices.Contains(roleOrder, c.Role) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	w.found("not recognised, watched as containers only: %s", plain(strings.Join(names, ", ")))
	w.targets.WriteString("\n")
	w.comment("Not recognised, so only their containers are watched: %s. For others, use kind: http or tcp.",
		plain(strings.Join(names, ", ")))
}

// variables names what is set, so that nobody has to write a secret twice.
func (w *writer) variables() {
	if names := w.facts.Environment; len(names) > 0 {
		w.found("environment: sets %s", strings.Join(names, ", "))
		fmt.Fprintf(&w.top, "\n# The environment of init sets %s.\n# The exporter needs the same variables. They override this file.\n",
			strings.Join(names, ", "))
	}
	for _, file := range w.facts.EnvFiles {
		switch path := plain(file.Path); {
		case file.Problem != "":
			w.found("%s: cannot be read: %s", path, plain(file.Problem))
			fmt.Fprintf(&w.top, "\n# %s could not be read: %s\n", path, plain(file.Problem))
		case len(file.Names) == 0:
			w.found("%s: sets no variable of a target", path)
		default:
			w.found("%s: sets %s", path, strings.Join(file.Names, ", "))
			fmt.Fprintf(&w.top, "\n# %s sets %s.\n# The exporter does not read that file: set the same variables where it runs, "+
				"or the keys of the targets below.\n",
				path, strings.Join(file.Names, ", "))
		}
	}
}
