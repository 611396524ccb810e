package collectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Docker is the block of a Docker Engine. A container is watched if it matches projects, labels and names, and does not
// match exclude. An empty filter matches all containers.
type Docker struct {
	config.Target `yaml:",inline"`
	// Host is where the engine listens: unix:///path/to/socket, tcp://host:port (2375 or, with TLS, 2376 where it has
	// no port), or http:// and https:// for tcp without and with TLS. Any TLS key switches TLS on for tcp.
	Host string `yaml:"host"`
	// Label is the value of docker_host on every metric of a container: "local" by default.
	Label string `yaml:"label"`
	// TLS says whom to trust. Only insecure_skip_verify switches verification off.
	config.TLS `yaml:",inline"`
	// Projects are compose projects; a container must belong to one of them.
	Projects []string `yaml:"projects"`
	// Labels are "key" or "key=value"; a container must have all of them.
	Labels []string `yaml:"labels"`
	// Names and Exclude are patterns of whole container names as path.Match reads them: * stands for any letters, ? for
	// one, [a-z] for one of those. A container must fit one of Names and none of Exclude.
	Names   []string `yaml:"names"`
	Exclude []string `yaml:"exclude"`
	// Roles are the roles of containers, by name. One that is not named here has the role that its label chatstack.role
	// says, or that its compose service, image or name tells.
	Roles map[string]string `yaml:"roles"`
	// ChatServers are the servers that containers are part of, in the alerts' label chat_server, by the name of the container or service.
	ChatServers map[string]string `yaml:"chat_servers"`
	// Expected are names of containers that must exist and run, besides all that were seen and should run.
	Expected []string `yaml:"expected"`
	// ExpectedServices are services of which at least one instance must run, whatever its name.
	ExpectedServices []string `yaml:"expected_services"`
	// MissingAfter is how long an expected container may be gone before it counts as missing: a minute by default, to allow
	// for deploys. ForgetAfter is how long a container is missed that the configuration does not name: a week by default, 0 forever.
	MissingAfter config.Duration `yaml:"missing_after"`
	ForgetAfter  config.Duration `yaml:"forget_after"`
	// MaxContainers is the maximum number of watched containers: 1,000 by default. Known containers and those in Expected or
	// Roles come first, then the others in the engine's order. The rest are left out, with a note.
	MaxContainers int `yaml:"max_containers"`
	// Parallelism is how many containers are inspected at once: 8 by default, from 1 to 64.
	Parallelism int `yaml:"parallelism"`
	// Resources is where memory, CPU and network numbers come from: "auto" by default, "cgroup" for the files of the host's
	// cgroup tree, "engine", "none". Auto chooses at a start or reload: cgroup if it has the engine's containers, else engine.
	Resources string `yaml:"resources"`
	// CgroupRoot is where the host's cgroup tree is mounted, and ProcRoot its /proc, whose network numbers are then read. An
	// empty one is found below /host, where a container may have the host's, or else in its usual place.
	CgroupRoot string `yaml:"cgroup_root" path:"file"`
	ProcRoot   string `yaml:"proc_root" path:"file"`
	// ResourcesParallelism is how many containers the engine is asked about at once: 256 by default, from 1 to 1024. Engines
	// answer each of these calls at their next tick of a second.
	ResourcesParallelism int `yaml:"resources_parallelism"`

	// verify is true if DOCKER_TLS_VERIFY is set: it requires TLS even without a file.
	verify bool
}

// DefaultDockerHost is the label of an engine whose block has none, and the engine of a command that names none.
const DefaultDockerHost = "local"

func newDockerSettings() *Docker {
	return &Docker{
		Label:                DefaultDockerHost,
		Parallelism:          8,
		MaxContainers:        1000,
		MissingAfter:         config.Duration(time.Minute),
		ForgetAfter:          config.Duration(7 * 24 * time.Hour),
		Resources:            resourcesAuto,
		ResourcesParallelism: 256,
	}
}

// The values of Docker.Resources.
const (
	resourcesAuto   = "auto"
	resourcesEngine = "engine"
	resourcesCgroup = "cgroup"
	resourcesNone   = "none"
)

// UseDefaultSocket makes the socket at this path the host, if there is something and no host was set. It is for a start
// without a configuration file, to be called before the environment is laid over the settings.
func (s *Docker) UseDefaultSocket(path string) {
	if s.Host != "" {
		return
	}
	// A socket that this user may not see exists, too: the probe will report it.
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		s.Host = "unix://" + path
	}
}

// Environ implements config.Settings. The variables mean what they mean to the docker command: DOCKER_TLS_VERIFY, set
// to anything, demands TLS with verification, and only then DOCKER_CERT_PATH (else DOCKER_CONFIG, else ~/.docker) is
// the directory of ca.pem, cert.pem and key.pem.
func (s *Docker) Environ(e *config.Env) {
	e.String("host", "DOCKER_HOST", &s.Host)
	e.TLS("DOCKER", &s.TLS)
	if e.Get("DOCKER_TLS_VERIFY") == "" || strings.HasPrefix(s.Host, "unix:") {
		return
	}
	s.verify = true
	origin, dir := "DOCKER_CERT_PATH", e.Get("DOCKER_CERT_PATH")
	if dir == "" {
		origin, dir = "DOCKER_TLS_VERIFY", e.Get("DOCKER_CONFIG")
	}
	if dir == "" {
		dir = filepath.Join(e.Get("HOME"), ".docker")
	}
	if s.Fingerprint == "" && e.Get("DOCKER_CA_FILE") == "" {
		e.String("ca_file", origin, &s.CAFile)
		s.CAFile = filepath.Join(dir, "ca.pem")
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	// The command does without the pair where the directory holds none.
	if _, err := os.Stat(cert); err == nil {
		e.String("cert_file", origin, &s.CertFile)
		e.String("key_file", origin, &s.KeyFile)
		s.CertFile, s.KeyFile = cert, key
	}
}

// Configured implements config.Settings.
func (s *Docker) Configured() bool { return s.Host != "" }

// Place implements config.Settings.
func (s *Docker) Place() string { return s.Host }

// HostName implements config.Settings.
func (s *Docker) HostName() string { return "" }

// maxParallelism bounds how many calls an engine gets at once.
const maxParallelism = 64

// Check implements config.Settings.
func (s *Docker) Check(r *config.Report) {
	if _, err := s.endpoint(); err != nil {
		r.Faultf("host", "%v", err)
	}
	if s.Label == "" {
		r.Faultf("label", "is empty; give the engine a name, such as local")
	}
	r.Unique("label", s.Label)
	s.TLS.Check(r)
	for _, key := range []struct {
		name     string
		patterns []string
	}{{"names", s.Names}, {"exclude", s.Exclude}} {
		for i, p := range key.patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				r.Faultf(fmt.Sprintf("%s[%d]", key.name, i), "is %q, must be a pattern such as chat-* or irc-?", p)
			}
		}
	}
	for i, project := range s.Projects {
		if project == "" {
			r.Faultf(fmt.Sprintf("projects[%d]", i), "is empty; name a compose project")
		}
	}
	for i, label := range s.Labels {
		if key, _, _ := strings.Cut(label, "="); key == "" {
			r.Faultf(fmt.Sprintf("labels[%d]", i), "is %q, must be \"key\" or \"key=value\"", label)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		if strings.Contains(name, "/") {
			r.Faultf("roles."+name, "is for %q, which is not a container name; write it without a slash", name)
		}
		if role := s.Roles[name]; !fleet.ValidRole.MatchString(role) {
			r.Faultf("roles."+name, "is %q, must be a role such as xmpp or irc_services: lower-case letters, digits and '_'", role)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.ChatServers)) {
		r.ChatServer("chat_servers."+name, s.ChatServers[name])
	}
	s.checkResources(r)
	for i, name := range s.Expected {
		switch {
		case strings.Contains(strings.Trim(name, "/"), "/"):
			r.Faultf(fmt.Sprintf("expected[%d]", i), "is %q, which is a service, not a container; move it to expected_services", name)
		case strings.ContainsAny(name, `*?[\/`) || name == "":
			r.Faultf(fmt.Sprintf("expected[%d]", i), "is %q, must be the name of one container", name)
		case fleet.MatchesAny(name, s.Exclude) || len(s.Names) > 0 && !fleet.MatchesAny(name, s.Names):
			r.Faultf(fmt.Sprintf("expected[%d]", i), "is %q, which names or exclude filters out", name)
		}
	}
	for i, name := range s.ExpectedServices {
		key := fmt.Sprintf("expected_services[%d]", i)
		r.Service(key, name)
		project, _, ofCompose := strings.Cut(name, "/")
		switch {
		case len(s.Projects) == 0 || slices.Contains(s.Projects, project) || r.HasFault(key):
		case ofCompose:
			r.Faultf(key, "is %q, which projects filters out", name)
		default:
			r.Faultf(key, "is %q, which belongs to none of projects; write the project too, such as %s/%s", name, s.Projects[0], name)
		}
	}
	unread := r.HasFault("forget_after", "missing_after")
	if !unread && s.ForgetAfter > 0 && s.ForgetAfter <= s.MissingAfter {
		r.Faultf("forget_after", "is %s, must be longer than missing_after, or 0 for never", s.ForgetAfter.Std())
	}
	if s.MaxContainers < 1 {
		r.Faultf("max_containers", "is %d, must be above 0", s.MaxContainers)
	}
	if s.Parallelism < 1 || s.Parallelism > maxParallelism {
		r.Faultf("parallelism", "is %d, must be from 1 to %d", s.Parallelism, maxParallelism)
	}
}

// maxResourcesParallelism bounds how many calls for stats an engine gets at once.
const maxResourcesParallelism = 1024

// Warnings implements config.Settings. Custom roles are allowed, but an unknown role is more often a typo.
func (s *Docker) Warnings() []string {
	warnings := s.TLS.Warnings()
	var known []string
	for _, role := range Roles {
		known = append(known, role.Name)
	}
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		if role := s.Roles[name]; !slices.Contains(known, role) {
			warnings = append(warnings, fmt.Sprintf("roles.%s is %q, which no alert rule or dashboard uses; known roles: %s",
				name, role, strings.Join(known, ", ")))
		}
	}
	return warnings
}

// chatServer returns the server that a container is part of: that of its role, else its service without the Compose project.
func (s *Docker) chatServer(c *health.Container) string {
	of := config.Role{Name: c.Role}
	if i := slices.IndexFunc(Roles, func(r config.Role) bool { return r.Name == c.Role }); i >= 0 {
		of = Roles[i]
	}
	service := c.Workload[strings.LastIndexByte(c.Workload, '/')+1:]
	return cmp.Or(s.ChatServers[c.Name], s.ChatServers[c.Workload], of.ChatServer(), service)
}

func (s *Docker) checkResources(r *config.Report) {
	switch s.Resources {
	case resourcesAuto, resourcesCgroup, resourcesEngine, resourcesNone:
	default:
		r.Faultf("resources", "is %q, must be auto, cgroup, engine or none", s.Resources)
	}
	if s.ResourcesParallelism < 1 || s.ResourcesParallelism > maxResourcesParallelism {
		r.Faultf("resources_parallelism", "is %d, must be from 1 to %d", s.ResourcesParallelism, maxResourcesParallelism)
	}
}

// cgroupRoot and procRoot are the configured places, or those where the host's are.
func (s *Docker) cgroupRoot() string { return cmp.Or(s.CgroupRoot, hostPath("/sys/fs/cgroup")) }
func (s *Docker) procRoot() string   { return cmp.Or(s.ProcRoot, hostPath("/proc")) }

// HasCgroup reports whether resources: cgroup would find one of these containers here.
func (s *Docker) HasCgroup(ctx context.Context, ids []string) bool {
	subjects := make([]usage.Subject, len(ids))
	for i, id := range ids {
		subjects[i].ID = id
	}
	tree := cgroup.Tree{Root: s.cgroupRoot()}
	used, err := tree.Measure(ctx, subjects)
	return err == nil && len(used) > 0
}

// hostPath returns where the host's path is: below /host in a container that has it mounted there.
func hostPath(path string) string {
	mounted := "/host" + path
	if info, err := os.Stat(mounted); err == nil && info.IsDir() {
		return mounted
	}
	return path
}

// Client returns a client of the engine. Its error is about host.
func (s *Docker) Client(limit int64, userAgent string) (*api.Client, error) {
	endpoint, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	return &api.Client{
		Host:      s.Host,
		Endpoint:  endpoint,
		Trust:     s.TLS,
		TLSKeys:   s.wantsTLS(),
		Limit:     limit,
		UserAgent: userAgent,
	}, nil
}

func (s *Docker) endpoint() (api.Endpoint, error) { return api.ParseEndpoint(s.Host, s.wantsTLS()) }

func (s *Docker) wantsTLS() bool { return s.verify || s.TLS.IsSet() }

// rules returns the rules for containers. served are the names of the containers that targets run in, servedServices the services.
func (s *Docker) rules(served, servedServices []string) *fleet.Rules {
	return &fleet.Rules{
		Host:             s.Host,
		Label:            s.Label,
		Projects:         s.Projects,
		Labels:           s.Labels,
		Names:            s.Names,
		Exclude:          s.Exclude,
		Roles:            s.Roles,
		Expected:         s.Expected,
		Served:           served,
		ExpectedServices: s.ExpectedServices,
		ServedServices:   servedServices,
		MissingAfter:     s.MissingAfter.Std(),
		ForgetAfter:      s.ForgetAfter.Std(),
		MaxContainers:    s.MaxContainers,
	}
}
