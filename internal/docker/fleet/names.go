package fleet

import (
	"regexp"
	"strings"
)

// Limits on what the exporter reads about a container, so that no engine can exhaust its memory.
const (
	// MaxName is the longest file name: engines use a container's name as one.
	MaxName = 255
	// MaxLabel bounds the project, the service and the image of a container, MaxDependsOn compose's label of its
	// dependencies. Longer ones are dropped.
	MaxLabel     = 512
	MaxDependsOn = 4096
	// maxDependencies bounds how many containers one container depends on.
	maxDependencies = 32
)

// The labels that compose puts on its containers.
const (
	ComposeProject = "com.docker.compose.project"
	ComposeService = "com.docker.compose.service"
	ComposeOneOff  = "com.docker.compose.oneoff"
	ComposeDepends = "com.docker.compose.depends_on"
	composeHash    = "com.docker.compose.config-hash"
)

// The labels of other things that containers are instances of.
const (
	swarmService = "com.docker.swarm.service.name"
	systemdUnit  = "PODMAN_SYSTEMD_UNIT"
)

// roleLabel is the container label that names a role where the configuration does not.
const roleLabel = "chatstack.role"

// temporaryName matches what compose calls a container while it replaces one: 12 digits of an id, and the lasting name.
var temporaryName = regexp.MustCompile(`^[0-9a-f]{12}_(.+)$`)

// LastingName returns a container's name without compose's temporary prefix.
func LastingName(name string) string {
	if m := temporaryName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// OwnName returns a container's own name from the names in a list, or "". Legacy links add names such as /other/alias.
func OwnName(names []string) string {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") {
			return n
		}
	}
	return ""
}

// ContainerName matches what engines accept as a container's name.
var ContainerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// ValidName reports whether an engine could have given a container this name.
func ValidName(name string) bool {
	return len(name) <= MaxName && ContainerName.MatchString(name)
}

// bounded returns the value of a label, or "" if it is too long.
func bounded(value string, limit int) string {
	if len(value) > limit {
		return ""
	}
	return value
}
