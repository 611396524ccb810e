package setup

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

// Options say where to look.
type Options struct {
	// Engine is the Docker Engine; nil for none, and then NoEngine says why.
	Engine   *api.Client
	NoEngine string
	// OtherEngines are the hosts of further engines. Problem says what kept Docker's context from being used, "" if nothing did.
	OtherEngines []string
	Problem      string
	// Project is the Compose project to choose, "" to find it.
	Project string
	// Domain is the XMPP server's virtual host, if known.
	Domain string
	// Lookup finds an environment variable, as os.LookupEnv does.
	Lookup func(string) (string, bool)
	// Directory may hold an .env file of the stack. Compose's labels name others.
	Directory string
	// StateFile becomes Facts.StateFile.
	StateFile string
	// Volumes are directories. The first that exists becomes Facts.Volume.
	Volumes []string
	// Dial opens a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Limits that end everything within half a minute.
const (
	engineTime    = 15 * time.Second
	answerTime    = 2 * time.Second
	parallel      = 16
	maxContainers = 500
	maxEnvFile    = 1 << 20
)

// Look looks around. It only reads.
func Look(ctx context.Context, o Options) (*Facts, error) {
	f := &Facts{
		Domain:       o.Domain,
		NoEngine:     o.NoEngine,
		OtherEngines: o.OtherEngines,
		Problem:      o.Problem,
		StateFile:    o.StateFile,
	}
	if o.Engine != nil {
		all, err := containersOf(ctx, o.Engine)
		if err != nil {
			f.NoEngine = err.Error()
		} else {
			f.Engine = o.Engine.Host
			if err := f.choose(all, o.Project); err != nil {
				return nil, err
			}
			ids := make([]string, len(all))
			for i := range all {
				ids[i] = all[i].ID
			}
			f.Cgroup = new(collectors.Docker).HasCgroup(ctx, ids)
		}
	}
	resolve(ctx, f.Containers)
	f.knock(ctx, doors(f.Containers), o.Dial)
	f.Environment = knownNames(slices.DeleteFunc(namesOfVariables(), func(name string) bool {
		value, _ := o.Lookup(name)
		if strings.HasSuffix(name, "_FILE") {
			info, err := os.Stat(value)
			return err == nil && info.Size() == 0 || value == "" // Compose files also mount secrets that are not used
		}
		return value == ""
	}))
	f.EnvFiles = envFiles(f.Containers, o.Directory)
	for _, dir := range o.Volumes {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			f.Volume = dir
			break
		}
	}
	return f, ctx.Err()
}

// choose keeps the containers of the stack.
func (f *Facts) choose(all []Container, project string) error {
	if f.Project, f.Others = chooseProject(all); project != "" {
		if !slices.ContainsFunc(all, func(c Container) bool { return c.Project == project }) {
			return fmt.Errorf("--project %q: no container belongs to this Compose project; docker compose ls lists them", project)
		}
		f.Others = slices.DeleteFunc(append(f.Others, f.Project), func(p string) bool { return p == project })
		f.Project = project
	}
	f.Others = slices.DeleteFunc(f.Others, func(p string) bool { return p == "" })
	for _, c := range all {
		// Without a project, every container of the machine would count.
		if c.Project == f.Project && (f.Project != "" || c.Role != "" && c.Role != webServer) {
			f.Containers = append(f.Containers, c)
		}
	}
	slices.SortFunc(f.Containers, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// containersOf asks an engine for all containers that last.
func containersOf(ctx context.Context, client *api.Client) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	s, err := client.Open(parallel)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := s.Negotiate(ctx); err != nil {
		return nil, err
	}
	listed, _, err := s.List(ctx, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range listed {
		if len(ids) < maxContainers && !strings.EqualFold(listed[i].Labels[fleet.ComposeOneOff], "true") {
			ids = append(ids, listed[i].ID)
		}
	}
	described := make([]*container.InspectResponse, len(ids))
	if err := api.ForEach(ctx, len(ids), parallel, func(ctx context.Context, i int) (err error) {
		described[i], _, err = s.Inspect(ctx, ids[i])
		return err
	}); err != nil {
		return nil, err
	}
	var found []Container
	owners := map[string]*container.InspectResponse{}
	for _, d := range described {
		if d != nil && d.ContainerJSONBase != nil {
			owners[d.ID], owners[strings.TrimPrefix(d.Name, "/")] = d, d
		}
	}
	for _, d := range described {
		if c, ok := describe(d, owners); ok {
			found = append(found, c)
		}
	}
	return found, nil
}

// describe keeps what Write needs. A container can use the network of another one.
func describe(d *container.InspectResponse, all map[string]*container.InspectResponse) (Container, bool) {
	if d == nil || d.ContainerJSONBase == nil || d.Config == nil || d.State == nil || !fleet.ValidName(strings.TrimPrefix(d.Name, "/")) {
		return Container{}, false
	}
	labels := d.Config.Labels
	c := Container{
		ID:        d.ID,
		Name:      strings.TrimPrefix(d.Name, "/"),
		Image:     d.Config.Image,
		State:     d.State.Status,
		Project:   labels[fleet.ComposeProject],
		Service:   labels[fleet.ComposeService],
		Workload:  fleet.WorkloadOf(labels, strings.TrimPrefix(d.Name, "/")),
		Directory: labels["com.docker.compose.project.working_dir"],
		EnvFile:   labels["com.docker.compose.project.environment_file"],
		Published: map[int]string{},
	}
	for _, m := range d.Mounts {
		c.EngineSocket = c.EngineSocket || strings.HasSuffix(m.Source, "/docker.sock")
	}
	owner := d
	if d.HostConfig != nil && d.HostConfig.NetworkMode.IsContainer() {
		owner = cmp.Or(all[d.HostConfig.NetworkMode.ConnectedContainer()], d)
	}
	for port := range d.Config.ExposedPorts {
		c.addPort(port.Proto(), port.Int())
	}
	c.addNetworks(owner)
	slices.Sort(c.Ports)
	c.Role, c.RoleByPort = recognize(&c, labels)
	return c, true
}

func (c *Container) addPort(protocol string, port int) {
	if protocol == "tcp" && port > 0 && !slices.Contains(c.Ports, port) {
		c.Ports = append(c.Ports, port)
	}
}

// addNetworks adds where a container is reached.
func (c *Container) addNetworks(d *container.InspectResponse) {
	if d.HostConfig != nil && d.HostConfig.NetworkMode.IsHost() {
		c.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if d.NetworkSettings == nil {
		return
	}
	for port, bindings := range d.NetworkSettings.Ports {
		if port.Proto() != "tcp" {
			continue
		}
		for _, b := range bindings {
			if at := publishedAt(b.HostIP, b.HostPort); at != "" && c.Published[port.Int()] == "" {
				c.Published[port.Int()] = at
			}
		}
		c.addPort(port.Proto(), port.Int())
	}
	for _, name := range slices.Sorted(maps.Keys(d.NetworkSettings.Networks)) {
		n := d.NetworkSettings.Networks[name]
		if n == nil {
			continue
		}
		c.Networks = append(c.Networks, name)
		if ip, err := netip.ParseAddr(n.IPAddress); err == nil {
			c.Addresses = append(c.Addresses, ip)
		}
		for _, host := range slices.Concat([]string{c.Service}, n.Aliases, []string{c.Name}) {
			// An alias may also be the id of the container, which does not last.
			if hostName.MatchString(host) && !strings.HasPrefix(d.ID, host) && !slices.Contains(c.Hosts, host) {
				c.Hosts = append(c.Hosts, host)
			}
		}
	}
}

// publishedAt returns where a published port is reached on this machine, "" if it has no number.
func publishedAt(hostIP, hostPort string) string {
	ip, err := netip.ParseAddr(hostIP)
	if err != nil || ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	port, err := strconv.ParseUint(hostPort, 10, 16)
	if err != nil || port == 0 {
		return ""
	}
	return netip.AddrPortFrom(ip, uint16(port)).String()
}

// resolve finds a name of each container that this process can use, because both are on one network.
func resolve(ctx context.Context, containers []Container) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	inParallel(len(containers), func(i int) {
		c := &containers[i]
		if c.Role == "" {
			return
		}
		for _, host := range c.Hosts {
			addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			if err == nil && slices.ContainsFunc(addresses, func(ip netip.Addr) bool { return slices.Contains(c.Addresses, ip.Unmap()) }) {
				c.Resolved = append(c.Resolved, host)
				return
			}
		}
	})
}

// knock finds the first address of each door that accepts a connection. IRC servers throttle whoever makes more of them.
func (f *Facts) knock(ctx context.Context, all []door, dial func(context.Context, string, string) (net.Conn, error)) {
	f.Answers, f.ServerNames = map[string]bool{}, map[string]string{}
	var mu sync.Mutex
	inParallel(len(all), func(i int) {
		for _, address := range all[i].addresses {
			if answers, name := f.open(ctx, address, all[i].tls, dial); answers {
				mu.Lock()
				defer mu.Unlock()
				f.Answers[address] = true
				if name != "" {
					f.ServerNames[address] = name
				}
				return
			}
		}
	})
}

// open reports whether the address accepts a connection, and a name on its certificate if the host of the address is not on it.
func (f *Facts) open(
	ctx context.Context, address string, secure bool, dial func(context.Context, string, string) (net.Conn, error),
) (answers bool, name string) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return false, ""
	}
	defer conn.Close() //nolint:errcheck // only opened
	host, _, err := net.SplitHostPort(address)
	if err != nil || !secure {
		return true, ""
	}
	//nolint:gosec // nothing but the names is used
	client := tls.Client(conn, &tls.Config{ServerName: cmp.Or(f.Domain, host), InsecureSkipVerify: true})
	if client.HandshakeContext(ctx) != nil {
		return true, ""
	}
	leaf := client.ConnectionState().PeerCertificates[0]
	if leaf.VerifyHostname(host) == nil {
		return true, ""
	}
	names := append([]string{f.Domain}, leaf.DNSNames...)
	if i := slices.IndexFunc(names, func(n string) bool { return hostName.MatchString(n) && leaf.VerifyHostname(n) == nil }); i >= 0 {
		name = names[i]
	}
	return true, name
}

func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}

// namesOfVariables returns the variables that the exporter reads for targets. Facts.Engine is the engine, whoever names it.
func namesOfVariables() []string {
	return slices.DeleteFunc(collectors.Variables(), func(name string) bool { return name == "HOME" || name == "DOCKER_HOST" })
}

// envFiles reads the names in the files that Compose used for the stack, as far as they are on this machine.
func envFiles(containers []Container, directory string) []EnvFile {
	var paths []string
	if directory != "" {
		paths = append(paths, filepath.Join(directory, ".env"))
	}
	for i := range containers {
		c := &containers[i]
		if filepath.IsAbs(c.Directory) {
			paths = append(paths, filepath.Join(c.Directory, ".env"))
		}
		for path := range strings.SplitSeq(c.EnvFile, ",") {
			if filepath.IsAbs(path) {
				paths = append(paths, filepath.Clean(path))
			}
		}
	}
	slices.Sort(paths)
	var files []EnvFile
	for _, path := range slices.Compact(paths) {
		text, err := readRegular(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // also in a container, which has other files
		case err != nil:
			files = append(files, EnvFile{Path: path, Problem: err.Error()})
		default:
			files = append(files, EnvFile{Path: path, Names: knownNames(namesIn(text))})
		}
	}
	return files
}

// readRegular reads a file that is neither a device nor a pipe, which a label could name.
func readRegular(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFile))
	return string(text), err
}
