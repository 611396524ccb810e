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

// Directory finds containers by their names.
type Directory struct{ byName, byHostName map[string][]*Container }

// NewDirectory makes a directory of containers.
func NewDirectory(containers []*Container) Directory {
	d := Directory{byName: make(map[string][]*Container, len(containers)), byHostName: map[string][]*Container{}}
	for _, c := range containers {
		d.byName[c.Name] = append(d.byName[c.Name], c)
		for _, name := range c.HostNames {
			if !slices.Contains(d.byHostName[name], c) {
				d.byHostName[name] = append(d.byHostName[name], c)
			}
		}
	}
	return d
}

// Server returns the container that serves the target: the configured one, else the container with the target's host name on a network
// of the exporter.
func (d Directory) Server(t *Target) Server {
	if t.Container != "" {
		return d.configured(t)
	}
	fits := d.reachableAs(t.HostName)
	if slices.ContainsFunc(fits, (*Container).exists) {
		fits = slices.DeleteFunc(slices.Clone(fits), func(c *Container) bool { return !c.exists() })
	}
	s := Server{}
	switch len(fits) {
	case 0:
	case 1:
		s = Server{Container: fits[0].Name, Host: fits[0].Host, Inferred: true}
	default:
		for _, c := range fits {
			s.Candidates = append(s.Candidates, c.Name)
		}
	}
	return s
}

// configured returns the container that the configuration names. Its engine is unknown unless exactly one engine has that name.
func (d Directory) configured(t *Target) Server {
	s := Server{Container: t.Container, Host: t.ContainerHost}
	if named := d.byName[t.Container]; s.Host == "" && len(named) == 1 {
		s.Host = named[0].Host
	}
	return s
}

// reachableAs returns the containers that the exporter can reach by that name. IP addresses and localhost never count as names of
// containers.
func (d Directory) reachableAs(name string) []*Container {
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return nil
	}
	return d.byHostName[name]
}

func (c *Container) exists() bool { return c.State != Missing && !c.vanished }

// candidates returns the containers that may serve the target: all with its container's name, on its engine if that is known.
func (d Directory) candidates(t *Target) []*Container {
	list := d.byName[t.Container]
	if t.ContainerHost == "" {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(c *Container) bool { return c.Host != t.ContainerHost })
}

// findServers finds the container of each target.
func (r *round) findServers(f *Facts, d Directory) {
	r.targets, r.servers, r.found = slices.Clone(f.Targets), d, make(map[string]Server, len(f.Targets))
	allRead := !slices.ContainsFunc(f.Engines, func(e Engine) bool { return !e.Read })
	for i := range r.targets {
		t := &r.targets[i]
		s := r.judge.findHome(t, d.Server(t), f.Engines)
		own := slices.ContainsFunc(f.Engines, func(e Engine) bool { return t.ContainerHost == "" || t.ContainerHost == e.Host })
		s.Unseen = t.Container != "" && own && allRead && len(d.candidates(t)) == 0
		t.Container, t.ContainerHost, t.inferred = s.Container, s.Host, s.Inferred
		r.found[t.Name] = s
	}
}
