package health

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Server is the container that serves a target, as far as known.
type Server struct {
	// Container is its name and Host the docker_host of its engine. Both are "" if unknown.
	Container, Host string
	// Service is the configured workload, "" for none. Then Container is the instance that answers for it, a running one if there is one.
	Service string
	// Inferred says that it was found by the target's address, not configured.
	Inferred bool
	// Candidates are the containers with the target's address, if there are several. Then none is inferred.
	Candidates []string
	// Unseen says that it is configured but no engine has it, and that all engines could be read. Advice says then what may be meant,
	// "" if nothing resembles it.
	Unseen bool
	Advice string
}

// Origin returns the container's name, and says how it was found unless it is configured.
func (s *Server) Origin() string {
	switch {
	case s.Inferred:
		return s.Container + " (found by the address)"
	case s.Service != "" && s.Container != "" && s.Container != s.Service:
		return s.Container + " (of the service " + s.Service + ")"
	}
	return s.Container
}

// configured names what the configuration does.
func (s *Server) configured() string {
	if s.Service != "" {
		return "service " + s.Service
	}
	return "container " + s.Container
}

// Warning returns a warning if what is configured does not exist, or if several containers have the target's address; else "".
func (s *Server) Warning() string {
	switch {
	case s.Unseen && s.Advice != "":
		return s.configured() + " does not exist on any engine; " + s.Advice
	case s.Unseen:
		return s.configured() + " does not exist on any engine"
	case len(s.Candidates) == 0:
		return ""
	}
	return fmt.Sprintf("%d containers have the target's address (%s), so the exporter cannot pick one; set service or container",
		len(s.Candidates), firstOf(s.Candidates))
}

// firstOf lists the first of these names.
func firstOf(names []string) string { return strings.Join(names[:min(len(names), maxNamed)], ", ") }

// maxNamed is the most candidates to name.
const maxNamed = 5

// directory finds containers by their names.
type directory struct{ byName, byWorkload, byHostName map[string][]*Container }

// newDirectory makes one of containers, which may be called by several names.
func newDirectory(containers []*Container, byName map[Subject]*Container) directory {
	d := directory{
		byName:     make(map[string][]*Container, len(containers)),
		byWorkload: make(map[string][]*Container, len(containers)),
		byHostName: map[string][]*Container{},
	}
	for _, c := range containers {
		for _, name := range c.names() {
			if byName[ContainerSubject(c.Host, name)] == c {
				addNames(d.byName, c, name)
			}
		}
		addNames(d.byWorkload, c, cmp.Or(c.Workload, c.Name))
		addNames(d.byHostName, c, c.HostNames...)
	}
	return d
}

// addNames adds the container under each of the names, once.
func addNames(to map[string][]*Container, c *Container, names ...string) {
	for _, name := range names {
		if !slices.Contains(to[name], c) {
			to[name] = append(to[name], c)
		}
	}
}

// server returns the container that serves the target: the configured one or an instance of the configured service, else the container
// with the target's host name on a network of the exporter.
func (d directory) server(t *Target) (s Server) {
	if t.isServed() {
		return d.configured(t)
	}
	fits := preferring((*Container).isRecent, preferring((*Container).exists, d.reachableAs(t.HostName)))
	if len(fits) == 1 {
		return Server{Container: fits[0].Name, Host: fits[0].Host, Inferred: true}
	}
	for _, c := range fits {
		s.Candidates = append(s.Candidates, c.Name)
	}
	return s
}

// configured returns what the settings name. Its engine is unknown unless exactly one engine has it.
func (d directory) configured(t *Target) Server {
	s := Server{Container: t.Container, Host: t.ContainerHost, Service: t.Service}
	list := d.candidates(t)
	if len(list) == 0 {
		return s
	}
	if !slices.ContainsFunc(list, func(c *Container) bool { return c.Host != list[0].Host }) {
		s.Host = list[0].Host
	}
	if !slices.ContainsFunc(list, func(c *Container) bool { return c.Name == t.Container || slices.Contains(c.Members, t.Container) }) {
		s.Container = slices.MaxFunc(list, func(a, b *Container) int { return cmp.Compare(a.presence(), b.presence()) }).Name
	}
	return s
}

// presence orders containers by how well they can answer for their workload.
func (c *Container) presence() int {
	switch {
	case !c.exists():
		return 0
	case c.State != Running:
		return 1
	}
	return 2
}

// reachableAs returns the containers that the exporter can reach by that name. IP addresses and localhost never count as names of
// containers.
func (d directory) reachableAs(name string) []*Container {
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return nil
	}
	return d.byHostName[name]
}

// isServed reports whether the settings name what serves the target.
func (t *Target) isServed() bool { return t.Container != "" || t.Service != "" }

// candidates returns the containers that may serve the target, on its engine if that is known: all of its service, or all with its
// container's name.
func (d directory) candidates(t *Target) []*Container {
	list := d.byName[t.Container]
	if t.Service != "" {
		list = d.byWorkload[t.Service]
	}
	if t.ContainerHost == "" {
		return preferring((*Container).isRecent, list)
	}
	return slices.DeleteFunc(slices.Clone(list), func(c *Container) bool { return c.Host != t.ContainerHost })
}

// Find reports whether one of the containers is what the settings of a target name. If none is, it returns what they may mean.
func Find(containers []Container, t *Target) (found bool, advice string) {
	s := &scene{byName: map[Subject]*Container{}}
	for i := range containers {
		s.containers = append(s.containers, &containers[i])
	}
	s.callByNames()
	d := newDirectory(s.containers, s.byName)
	if len(d.candidates(t)) > 0 {
		return true, ""
	}
	return false, d.advice(t)
}

// advice says what the settings of a target may mean that name what no engine has, "" if nothing resembles it.
func (d directory) advice(t *Target) string {
	name, like := cmp.Or(t.Service, t.Container), []string{}
	var known []string
	for service, instances := range d.byWorkload {
		if !slices.ContainsFunc(instances, (*Container).exists) {
			continue // it may be somebody's mistake as well
		}
		known = append(known, service)
		if service == name || strings.HasSuffix(service, "/"+name) || strings.HasPrefix(name, strings.Replace(service, "/", "-", 1)+"-") {
			like = append(like, service)
		}
	}
	slices.Sort(like)
	switch own := d.byName[name]; {
	case len(own) > 0:
		return "that is a container; its service is " + own[0].Workload
	case len(like) == 1:
		return "did you mean the service " + like[0] + "?"
	case len(like) > 1:
		return "did you mean one of the services " + firstOf(like) + "?"
	case t.Service != "" && len(known) > 0:
		slices.Sort(known)
		return "the services are " + firstOf(known)
	}
	return ""
}

func (c *Container) exists() bool { return c.State != Missing && !c.vanished }

// isRecent reports whether the container may still be where it was: its engine was read a short while ago.
func (c *Container) isRecent() bool { return !c.stale }

// preferring returns those of the list that are better, or all if none is.
func preferring(better func(*Container) bool, list []*Container) []*Container {
	if !slices.ContainsFunc(list, better) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(c *Container) bool { return !better(c) })
}
