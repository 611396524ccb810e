package health

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Server is the container that serves a target, as far as that is known.
type Server struct {
	// Container is its name and Host the docker_host of its engine. Both are "" if unknown.
	Container, Host string
	// Inferred says that the target's address tells it, not the configuration.
	Inferred bool
	// Candidates are the containers that the address fits, if there are several. Then none is inferred.
	Candidates []string
	// Unseen says that it is configured, and that all engines were read and none has it.
	Unseen bool
}

// Origin is the container, and how it was found unless it is configured.
func (s *Server) Origin() string {
	if s.Inferred {
		return s.Container + " (found by the address)"
	}
	return s.Container
}

// Doubt says that the configured container is not there, or that several have the target's address; "" if neither is so.
func (s *Server) Doubt() string {
	switch {
	case s.Unseen:
		return fmt.Sprintf("container %s is not seen on any engine", s.Container)
	case len(s.Candidates) == 0:
		return ""
	}
	return fmt.Sprintf("the address fits %d containers (%s), so none of them is taken for the one that serves the target; name it with container",
		len(s.Candidates), strings.Join(s.Candidates[:min(len(s.Candidates), maxNamed)], ", "))
}

// maxNamed is how many candidates are named.
const maxNamed = 5

// Directory finds containers by their names.
type Directory struct{ byName, byHostName map[string][]*Container }

// NewDirectory makes a directory of containers.
func NewDirectory(containers []*Container) Directory {
	d := Directory{byName: make(map[string][]*Container, len(containers)), byHostName: map[string][]*Container{}}
	for _, c := range containers {
		d.byName[c.Name] = append(d.byName[c.Name], c)
		for _, name := range c.HostNames {
			// Resolvers do not tell upper from lower case.
			if name = strings.ToLower(name); !slices.Contains(d.byHostName[name], c) {
				d.byHostName[name] = append(d.byHostName[name], c)
			}
		}
	}
	return d
}

// Server finds the container that serves the target: the configured one, else the one that has the target's host name on a network
// of the exporter.
func (d Directory) Server(t *Target) Server {
	if t.Container != "" {
		return d.configured(t)
	}
	fits := d.reached(t.HostName)
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

// configured is the container that the configuration names. Its engine is unknown if none or several have one of that name.
func (d Directory) configured(t *Target) Server {
	s := Server{Container: t.Container, Host: t.ContainerHost}
	if named := d.byName[t.Container]; s.Host == "" && len(named) == 1 {
		s.Host = named[0].Host
	}
	return s
}

// reached are the containers that the exporter reaches by that name. An IP address and localhost are no names of containers,
// whatever those are called.
func (d Directory) reached(name string) []*Container {
	name = strings.ToLower(name)
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return nil
	}
	return d.byHostName[name]
}

func (c *Container) exists() bool { return c.State != Missing && !c.vanished }

// of are the containers that may serve the target: those of its container's name, on any engine if its engine is unknown.
func (d Directory) of(t *Target) []*Container {
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
		s.Unseen = t.Container != "" && own && allRead && len(d.of(t)) == 0
		t.Container, t.ContainerHost, t.inferred = s.Container, s.Host, s.Inferred
		r.found[t.Name] = s
	}
}
