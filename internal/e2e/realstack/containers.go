//go:build realservers

package realstack

import (
	"context"
	_ "embed"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// workloadSource is the package of the program that the containers run.
const workloadSource = "github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack/testdata/workload"

//go:embed testdata/workload/Dockerfile
var workloadFile []byte

// Formats of docker inspect, for Says and Await.
const (
	HealthStatus  = "{{.State.Health.Status}}"
	FailingStreak = "{{.State.Health.FailingStreak}}"
	ContainerIs   = "{{.State.Status}}"
	StartedAt     = "{{.State.StartedAt}}"
)

// awaitWithin bounds the wait of Await.
const awaitWithin = 2 * time.Minute

// Containers creates containers of one image with the engine's command. Their program waits and has a health check every second.
// SIGUSR1 switches its health.
type Containers struct {
	// Name begins the names of all containers, and is their compose project and a label of theirs. Tests that share an engine have
	// different ones.
	Name string

	tb testing.TB
	// client is the engine's command with what it needs to find the engine.
	client []string
	engine *Process
}

// Containers builds the image, FROM scratch. It and all containers made of it end with the test.
func (d *Docker) Containers() *Containers {
	d.tb.Helper()
	return containersOf(d.Process, binary(d.tb, "docker", "docker.io"), "-H", d.Host)
}

func containersOf(engine *Process, client ...string) *Containers {
	tb := engine.tb
	tb.Helper()
	c := &Containers{
		Name:   fmt.Sprintf("chatstack-test-%d-%08x", os.Getpid(), crc32.ChecksumIEEE([]byte(tb.Name()))),
		tb:     tb,
		client: client,
		engine: engine,
	}
	dir := tb.TempDir()
	build := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-ldflags=-s -w",
		"-o", filepath.Join(dir, "workload"), workloadSource)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build workload: %v\n%s", err, output)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), workloadFile, 0o600); err != nil {
		tb.Fatalf("build workload: %v", err)
	}
	tb.Cleanup(c.remove)
	c.Docker("build", "-q", "-t", c.Name, dir)
	return c
}

func (c *Containers) remove() {
	if !c.engine.given && !c.engine.alive() {
		return // they ended with the engine
	}
	// The test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.tb.Context()), awaitWithin)
	defer cancel()
	if ids := strings.Fields(c.docker(ctx, "ps", "-aq", "--filter", "label="+c.Name)); len(ids) > 0 {
		c.docker(ctx, append([]string{"rm", "-f"}, ids...)...)
	}
	c.docker(ctx, "rmi", "-f", c.Name)
}

// In returns the same containers for a subtest, which then is the one that fails.
func (c *Containers) In(tb testing.TB) *Containers {
	tb.Helper()
	in := *c
	in.tb = tb
	return &in
}

// Docker runs the engine's command, docker or podman, and returns what it printed, trimmed. A failure ends the test.
func (c *Containers) Docker(args ...string) string {
	c.tb.Helper()
	return c.docker(c.tb.Context(), args...)
}

// Succeeds runs the engine's command and reports whether that succeeds.
func (c *Containers) Succeeds(args ...string) bool {
	return c.command(c.tb.Context(), args).Run() == nil
}

func (c *Containers) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.client[0], slices.Concat(c.client[1:], args)...)
	cmd.Env = append(os.Environ(), c.engine.environ...)
	return cmd
}

func (c *Containers) docker(ctx context.Context, args ...string) string {
	c.tb.Helper()
	var stderr strings.Builder
	cmd := c.command(ctx, args)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		c.tb.Fatalf("%s %s: %v\n%s", filepath.Base(c.client[0]), strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(output))
}

// Run starts a container of a compose service, without a network unless the options say otherwise, and returns its name.
// Options are options of docker run; what follows "--" is the container's own command.
func (c *Containers) Run(service string, options ...string) string {
	c.tb.Helper()
	return c.make([]string{"run", "--detach"}, service, options)
}

// Create is Run without starting the container.
func (c *Containers) Create(service string, options ...string) string {
	c.tb.Helper()
	return c.make([]string{"create"}, service, options)
}

func (c *Containers) make(how []string, service string, options []string) string {
	c.tb.Helper()
	name := c.Name + "-" + service
	var command []string
	network := []string{"--network", "none"}
	if slices.Contains(options, "--network") {
		network = nil
	}
	if i := slices.Index(options, "--"); i >= 0 {
		options, command = options[:i], options[i+1:]
	}
	c.Docker(slices.Concat(how, network, []string{
		"--name", name, "--label", c.Name,
		"--label", "com.docker.compose.project=" + c.Name, "--label", "com.docker.compose.service=" + service,
	}, options, []string{c.Name}, command)...)
	return name
}

// Turn switches a container's health. The engine reports the change after its next check.
func (c *Containers) Turn(name string) {
	c.tb.Helper()
	c.Docker("kill", "--signal", "USR1", name)
}

// Says returns the engine's report on a container, in a format of docker inspect.
func (c *Containers) Says(name, format string) string {
	c.tb.Helper()
	return c.Docker("inspect", "--format", format, name)
}

// Await waits up to two minutes until the engine reports the wanted value.
func (c *Containers) Await(name, format, want string) {
	c.tb.Helper()
	var got string
	if !eventually(awaitWithin, func() bool { got = c.Says(name, format); return got == want }) {
		c.tb.Fatalf("container %s: %s is still %q after %v, want %q", name, format, got, awaitWithin, want)
	}
}
