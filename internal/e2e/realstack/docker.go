//go:build realservers

package realstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// DockerEnv is the environment variable with the address of a running engine.
const DockerEnv = "CHATSTACK_TEST_DOCKER"

// DockerdEnv is the environment variable with the program of the engines that tests start; without it, that is Debian's.
const DockerdEnv = "CHATSTACK_TEST_DOCKERD"

// DockerOptions configure an engine.
type DockerOptions struct {
	// Own starts an engine even if DockerEnv is set, for a test that stops or hangs it.
	Own bool
	// TLS makes a started engine listen on TCP too, for clients with a certificate.
	TLS bool
	// Runtimes are further programs that run containers, by name.
	Runtimes map[string]string
}

// Docker is a container engine. It has only the networks none and host, and changes no firewall rule.
type Docker struct {
	*Process
	// Host is the engine's address as DOCKER_HOST has it.
	Host string
	// TLSHost is its address over TCP, tcp://host:port; "" without DockerOptions.TLS.
	TLSHost string
	// CertPath is a directory that holds ca.pem, cert.pem and key.pem, as DOCKER_CERT_PATH has it; "" without TLS.
	CertPath string
}

// StartDocker returns the engine that DockerEnv names, which a test must not stop, hang or kill. Without one it starts an engine, which
// requires root.
func StartDocker(tb testing.TB, o DockerOptions) *Docker {
	tb.Helper()
	if given := os.Getenv(DockerEnv); given != "" && !o.Own {
		return &Docker{Host: given, Process: &Process{tb: tb, name: "docker at " + given, given: true}}
	}
	if os.Getuid() != 0 {
		tb.Fatalf("a container engine needs root: run as root, or name a running one in %s", DockerEnv)
	}
	program := os.Getenv(DockerdEnv)
	if program == "" {
		program = binary(tb, "dockerd", "docker.io")
	}
	p := newProcess(tb, "docker", false)
	d := &Docker{Process: p, Host: "unix://" + p.path("docker.sock")}
	runtimes := map[string]map[string]string{}
	for name, path := range o.Runtimes {
		runtimes[name] = map[string]string{"path": path}
	}
	configuration, err := json.Marshal(map[string]any{"runtimes": runtimes})
	if err != nil {
		tb.Fatal(err)
	}
	p.write("daemon.json", configuration)
	p.argv = []string{
		program,
		"--config-file", p.path("daemon.json"),
		"--data-root", p.path("data"), "--exec-root", p.path("exec"), "--pidfile", p.path("docker.pid"),
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--log-level=warn",
		"--host", d.Host,
	}
	if o.TLS {
		d.listenTLS()
	}
	p.ready = func(ctx context.Context) error { return pings(ctx, p.path("docker.sock")) }
	p.ended = d.sweep
	p.Start()
	return d
}

func (d *Docker) listenTLS() {
	d.tb.Helper()
	addr := address(freePort(d.tb))
	authority := NewAuthority(d.tb)
	ca, err := os.ReadFile(authority.File)
	if err != nil {
		d.tb.Fatalf("read certificate of authority: %v", err)
	}
	d.write("ca.pem", ca)
	certificate, key := authority.Issue("127.0.0.1", "localhost")
	d.write("server.pem", certificate)
	d.write("server-key.pem", key)
	certificate, key = authority.Issue("client")
	d.write("cert.pem", certificate)
	d.write("key.pem", key)
	d.TLSHost, d.CertPath = "tcp://"+addr, d.dir
	d.argv = append(d.argv, "--host", d.TLSHost,
		"--tlsverify", "--tlscacert", d.path("ca.pem"), "--tlscert", d.path("server.pem"), "--tlskey", d.path("server-key.pem"))
}

// PIDs returns the processes of a started engine: dockerd, containerd, and one shim per container, without the containers.
func (d *Docker) PIDs() (engine, shims []int) {
	d.tb.Helper()
	d.refuseGiven("tell processes of")
	for pid, program := range d.ours(processes()) {
		if strings.HasPrefix(program, "containerd-shim") {
			shims = append(shims, pid)
		} else {
			engine = append(engine, pid)
		}
	}
	return engine, shims
}

// ours returns the programs, by process id, with the engine's directory in their arguments: dockerd, containerd and the shims. The
// containers are the shims' children.
func (d *Docker) ours(all []procStat) map[int]string {
	programs := map[int]string{}
	for _, s := range all {
		commandLine, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid), "cmdline"))
		if err == nil && bytes.Contains(commandLine, []byte(d.dir)) && s.pid != os.Getpid() {
			program, _, _ := bytes.Cut(commandLine, []byte{0})
			programs[s.pid] = filepath.Base(string(program))
		}
	}
	return programs
}

// sweep ends the processes that a killed engine leaves running, and removes its mounts.
func (d *Docker) sweep() {
	all := processes()
	left := map[int]bool{}
	for pid := range d.ours(all) {
		left[pid] = true
	}
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if left[s.parent] && !left[s.pid] {
				left[s.pid], grown = true, true
			}
		}
	}
	for pid := range left {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			d.tb.Errorf("end process %d of docker: %v", pid, err)
		}
	}
	ended := eventually(stopWithin, func() bool {
		return !slices.ContainsFunc(processes(), func(s procStat) bool { return left[s.pid] && s.state != 'Z' && s.state != 'X' })
	})
	if !ended {
		d.tb.Errorf("stop docker: of processes %v some survive SIGKILL", left)
	}
	d.unmount()
	// A new engine mistakes an unreaped process with the id in its pid file for a running engine.
	d.removeIfThere("docker.pid")
	d.removeIfThere("exec/containerd/containerd.pid")
}

// unmount removes the mounts in the engine's directory, which is deleted later.
func (d *Docker) unmount() {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		d.tb.Errorf("list mounts: %v", err)
		return
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], d.dir+"/") {
			continue
		}
		if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			d.tb.Errorf("unmount %s: %v", fields[1], err)
		}
	}
}

// pings asks an engine whether it is there.
func pings(ctx context.Context, socket string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	return answers(ctx, transport, "http://docker/_ping")
}

// answers reports whether a URL answers one request, with any status.
func answers(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read answer of %s: %w", url, err)
	}
	return nil
}
