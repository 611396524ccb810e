package fleet

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Rules say which of an engine's containers are watched, and what is expected of them.
type Rules struct {
	// Host is the engine's address, Label its name.
	Host, Label string
	// Projects, Labels, Names and Exclude choose containers. An empty one chooses all; Names and Exclude are patterns.
	Projects, Labels, Names, Exclude []string
	// Roles are the roles of containers by name.
	Roles map[string]string
	// Expected are the names of containers that must run, Served of those that serve targets.
	Expected, Served []string
	// Networks are those of the exporter on which containers have names. They are known before any container is described.
	Networks []string
	// MissingAfter is how long an expected container may be gone. ForgetAfter is how long another one is missed; 0 is for ever.
	MissingAfter, ForgetAfter time.Duration
	// MaxContainers is how many containers are watched at most.
	MaxContainers int
}

// Watches reports whether a container of this name and these labels is to be watched.
func (r *Rules) Watches(name string, labels map[string]string) bool {
	if labels[ComposeOneOff] == "True" {
		return false
	}
	if len(r.Projects) > 0 && !slices.Contains(r.Projects, labels[ComposeProject]) {
		return false
	}
	for _, want := range r.Labels {
		key, value, valued := strings.Cut(want, "=")
		if got, ok := labels[key]; !ok || (valued && got != value) {
			return false
		}
	}
	if len(r.Names) > 0 && !MatchesAny(name, r.Names) {
		return false
	}
	return !MatchesAny(name, r.Exclude)
}

// expects reports whether the configuration says that a container of this name must run.
func (r *Rules) expects(name string) bool { return slices.Contains(r.Expected, name) }

// mentions reports whether the configuration speaks of a container of this name.
func (r *Rules) mentions(name string) bool {
	return r.expects(name) || r.Roles[name] != "" || slices.Contains(r.Served, name)
}

// watchesStill reports whether a container that was watched is still chosen, as far as that can be told without it.
func (r *Rules) watchesStill(name, project string, labels []string) bool {
	kept := *r
	kept.Labels = nil
	return slices.Equal(labels, r.Labels) && kept.Watches(name, map[string]string{ComposeProject: project})
}

// NeededLabels returns those of a container's labels that anybody looks at, and what else is asked for.
func (r *Rules) NeededLabels(all map[string]string, others ...string) map[string]string {
	needed := map[string]string{}
	keep := func(key string) {
		if value, ok := all[key]; ok && len(value) <= MaxDependsOn {
			needed[key] = value
		}
	}
	for _, key := range []string{ComposeProject, ComposeService, ComposeOneOff, ComposeDepends, roleLabel} {
		keep(key)
	}
	for _, label := range r.Labels {
		key, _, _ := strings.Cut(label, "=")
		keep(key)
	}
	for _, key := range others {
		keep(key)
	}
	return needed
}

// MatchesAny reports whether a name matches one of the patterns.
func MatchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
