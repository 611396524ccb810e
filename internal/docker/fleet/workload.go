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

// onlyInstance returns the name of the only member that is an instance of a workload, else the name that it was given.
func (f *Fleet) onlyInstance(workload string) string {
	var names []string
	for name, c := range f.Members {
		if WorkloadOf(map[string]string{ComposeProject: c.Project, ComposeService: c.Service}, name) == workload {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return workload
	}
	return names[0]
}
