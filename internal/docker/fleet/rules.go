package fleet

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Rules decide which of an engine's containers are watched and which must run.
type Rules struct {
	// Host is the engine's address, Label its name.
	Host, Label string
	// Projects, Labels, Names and Exclude choose containers. An empty list does not restrict; Names and Exclude are patterns.
	Projects, Labels, Names, Exclude []string
	// Roles are the roles of containers by name.
	Roles map[string]string
	// Expected are the names of containers that must run, Served the names of containers that serve targets. ExpectedServices and
	// ServedServices are the same for workloads.
	Expected, Served                 []string
	ExpectedServices, ServedServices []string
	// Networks are the exporter's networks on which containers have names.
	Networks []string
	// MissingAfter is how long an expected container may be gone before it is missing. ForgetAfter is how long a missing one
	// is remembered if Expected does not name it; 0 is for ever.
	MissingAfter, ForgetAfter time.Duration
	// MaxContainers bounds the number of watched containers.
	MaxContainers int
}

// Watches reports whether the rules choose a container with this name and these labels.
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

// mentions reports whether the configuration expects a container of this name, or gives it a role or a target.
func (r *Rules) mentions(name string) bool {
	return r.expects(name) || r.Roles[name] != "" || slices.Contains(r.Served, name)
}

// stillWatches reports whether the rules may still choose a saved container. Labels is the setting as of the save: if it has
// changed, the answer is no, because a container's own labels are not saved.
func (r *Rules) stillWatches(name, project string, labels []string) bool {
	withoutLabels := *r
	withoutLabels.Labels = nil
	return slices.Equal(labels, r.Labels) && withoutLabels.Watches(name, map[string]string{ComposeProject: project})
}

// NeededLabels returns the labels of a container that the exporter uses, and the others requested.
func (r *Rules) NeededLabels(all map[string]string, others ...string) map[string]string {
	needed := map[string]string{}
	keep := func(key string) {
		if value, ok := all[key]; ok && len(value) <= MaxDependsOn {
			needed[key] = value
		}
	}
	for _, key := range []string{
		ComposeProject, ComposeService, ComposeOneOff, ComposeDepends, composeHash, swarmService, systemdUnit, roleLabel,
	} {
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
