package fleet

import (
	"regexp"
	"strings"
)

// What is read of other people's containers is bounded, so that no engine can fill the memory.
const (
	// MaxName is the longest name of a file, which engines make of a container's name.
	MaxName = 255
	// MaxLabel bounds the project, the service and the image of a container, and maxDependsOn what compose says of
	// its dependencies. Longer ones are left out.
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
)

// roleLabel is the container label that names a role where the configuration does not.
const roleLabel = "chatstack.role"

// temporaryName is what compose calls the old or the new container while it replaces one: 12 digits of an id, and the
// name.
var temporaryName = regexp.MustCompile(`^[0-9a-f]{12}_(.+)$`)

// LastingName is a container's name, or the one that a temporary name stands in for.
func LastingName(name string) string {
	if m := temporaryName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// OwnName is a container's name among those that the engine lists: links of the old kind add names such as
// /other/alias. It is "" where there is none.
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

// bounded returns the value of a label, or "" and false where it is too long.
func bounded(value string, limit int) (kept string, ok bool) {
	if len(value) > limit {
		return "", false
	}
	return value, true
}
