package fleet

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// ownMount matches the line of a mountinfo file about a file that engines mount into each container on a network: Docker
// below containers/ID, Podman below overlay-containers/ID/userdata. A container on the network of another one has that one's.
var ownMount = regexp.MustCompile(`(?m)^(?:\S+ ){3}\S*/([0-9a-f]{64})/(?:userdata/)?(?:hostname|hosts|resolv\.conf) /etc/`)

// NetworkOwner returns the id of the container whose network a process is on, told by its file /proc/self/mountinfo; "" if it is
// in no container of Docker or Podman.
func NetworkOwner(mountinfo string) string {
	if found := ownMount.FindStringSubmatch(mountinfo); found != nil {
		return found[1]
	}
	return ""
}

// unnamed are networks on which containers have no names for each other.
var unnamed = []string{"bridge", "host", "none", "podman"}

// maxNetworks bounds how many networks of the exporter count.
const maxNetworks = 64

// NetworksOf returns the networks of a container on which others are reached by name.
func NetworksOf(c *container.InspectResponse) []string {
	if c.NetworkSettings == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unnamed, name) || len(name) > MaxLabel })
	return names[:min(len(names), maxNetworks)]
}

// maxHostNames bounds the host names of one container, in bytes.
const maxHostNames = 2048

// hostNames are the names of a container on the networks that the exporter is on too, with spaces between them.
func (r *Rules) hostNames(c *container.InspectResponse, s *Status) string {
	if c.NetworkSettings == nil {
		return ""
	}
	var names []string
	size := 0
	for _, network := range slices.Sorted(maps.Keys(c.NetworkSettings.Networks)) {
		e := c.NetworkSettings.Networks[network]
		if e == nil || !slices.Contains(r.Networks, network) {
			continue
		}
		for _, name := range slices.Concat([]string{s.Name, s.Service}, e.Aliases) {
			unfit := name == "" || strings.ContainsAny(name, " \t\n") || slices.Contains(names, name)
			if !unfit && size+len(name) < maxHostNames {
				names, size = append(names, name), size+len(name)+1
			}
		}
	}
	return strings.Join(names, " ")
}
