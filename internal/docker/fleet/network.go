package fleet

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// containerMount matches the mountinfo line of a file that engines mount into each container on a network: Docker below
// containers/ID, Podman below overlay-containers/ID/userdata. A container that shares another one's network has that one's id there.
var containerMount = regexp.MustCompile(`(?m)^(?:\S+ ){3}\S*/([0-9a-f]{64})/(?:userdata/)?(?:hostname|hosts|resolv\.conf) /etc/`)

// NetworkOwner returns the id of the container whose network a process uses, from its /proc/self/mountinfo; "" outside of
// Docker and Podman.
func NetworkOwner(mountinfo string) string {
	if found := containerMount.FindStringSubmatch(mountinfo); found != nil {
		return found[1]
	}
	return ""
}

// namelessNetworks are networks on which containers cannot reach each other by name.
var namelessNetworks = []string{"bridge", "host", "none", "podman"}

// maxNetworks bounds how many networks of the exporter are used.
const maxNetworks = 64

// NetworksOf returns the networks of a container on which it reaches others by name.
func NetworksOf(c *container.InspectResponse) []string {
	if c.NetworkSettings == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(namelessNetworks, name) || len(name) > MaxLabel })
	return names[:min(len(names), maxNetworks)]
}

// maxHostNames bounds the host names of one container, in bytes.
const maxHostNames = 2048

// hostNames returns the names of a container on the networks that it shares with the exporter, separated by spaces.
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
