package health

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Server is the container that serves a target, as far as known.
type Server struct {
	// Container is its name and Host the docker_host of its engine. Both are "" if unknown.
	Container, Host string
	// Inferred says that it was found by the target's address, not configured.
	Inferred bool
	// Candidates are the containers with the target's address, if there are several. Then none is inferred.
	Candidates []string
	// Unseen says that it is configured but no engine has it, and that all engines could be read.
	Unseen bool
}

// Origin returns the container's name, and says so if it was found by the address.
func (s *Server) Origin() string {
	if s.Inferred {
		return s.Container + " (found by the address)"
	}
	return s.Container
}

// Warning returns a warning if the configured container does not exist, or if several containers have the target's address; else "".
func (s *Server) Warning() string {
	switch {
	case s.Unseen:
		return fmt.Sprintf("container %s does not exist on any engine", s.Container)
	case len(s.Candidates) == 0:
		return ""
	}
	return fmt.Sprintf("%d containers have the target's address (%s), so the exporter cannot pick one; set container",
		len(s.Candidates), strings.Join(s.Candidates[:min(len(s.Candidates), maxNamed)], ", "))
}

// maxNamed is the most candidates to name.
const maxNamed = 5

// directory finds containers by their names.
type directory struct{ byName, byHostName map[string][]*Container }

// newDirectory makes one of containers, which may be called by several names.
func newDirectory(containers []*Container, byName map[Subject]*Container) directory {
	d := directory{byName: make(map[string][]*Container, len(containers)), byHostName: map[string][]*Container{}}
	for _, c := range containers {
		for _, name := range c.names() {
			if byName[ContainerSubject(c.Host, name)] == c && !slices.Contains(d.byName[name], c) {
				d.byName[name] = append(d.byName[name], c)
			}
		}
		for _, name := range c.HostNames {
			if !slices.Contains(d.byHostName[name], c) {
				d.byHostName[name] = append(d.byHostName[name], c)
			}
		}
	}
	return d
}

// server returns the container that serves the target: the configured one, else the container with the target's host name on a network
// of the exporter.
func (d directory) server(t *Target) (s Server) {
	if t.Container != "" { // its engine is unknown unless exactly one engine has that name
		s.Container, s.Host = t.Container, t.ContainerHost
		if named := d.byName[t.Container]; s.Host == "" && len(named) == 1 {
			s.Host = named[0].Host
		}
		return s
	}
	fits := d.reachableAs(t.HostName)
	if slices.ContainsFunc(fits, (*Container).exists) {
		fits = slices.DeleteFunc(slices.Clone(fits), func(c *Container) bool { return !c.exists() })
	}
	if len(fits) == 1 {
		return Server{Container: fits[0].Name, Host: fits[0].Host, Inferred: true}
	}
	for _, c := range fits {
		s.Candidates = append(s.Candidates, c.Name)
	}
	return s
}

// reachableAs returns the containers that the exporter can reach by that name. IP addresses and localhost never count as names of
// containers.
func (d directory) reachableAs(name string) []*Container {
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return nil
	}
	return d.byHostName[name]
}

// candidates returns the containers that may serve the target: all with its container's name, on its engine if that is known.
func (d directory) candidates(t *Target) []*Container {
	list := d.byName[t.Container]
	if t.ContainerHost == "" {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(c *Container) bool { return c.Host != t.ContainerHost })
}

func (c *Container) exists() bool { return c.State != Missing && !c.vanished }
