package fleet

import "cmp"

// The labels of other things that containers are instances of.
const (
	swarmService = "com.docker.swarm.service.name"
	systemdUnit  = "PODMAN_SYSTEMD_UNIT"
)

// WorkloadOf returns the workload of a container: Compose's project/service, the swarm service, the systemd unit, else its name.
func WorkloadOf(labels map[string]string, name string) string {
	if project, service := labels[ComposeProject], labels[ComposeService]; project != "" && service != "" {
		return project + "/" + service
	}
	return cmp.Or(labels[swarmService], labels[systemdUnit], name)
}
