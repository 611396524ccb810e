package setup

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Places are where engines may listen.
type Places struct {
	// Lookup finds an environment variable, as os.LookupEnv does.
	Lookup func(string) (string, bool)
	// Socket is the engine's default socket. Run is the directory of the sockets of Podman and of the users: /run.
	Socket, Run string
}

// Engines returns the hosts of the engines that are there: DOCKER_HOST alone, else that of Docker's context, then the sockets of Docker,
// of Rootless Docker and of Podman. Sockets that accept a connection are first. A problem is a context that names no usable host.
func (p *Places) Engines() (hosts []string, problem error) {
	if host, _ := p.Lookup("DOCKER_HOST"); host != "" {
		return []string{host}, nil
	}
	chosen, problem := p.context()
	if chosen != "" {
		hosts = append(hosts, chosen)
	}
	var refused []string
	seen := map[string]bool{realPath(chosen): true}
	for _, socket := range p.sockets() {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) || seen[realPath(socket)] {
			continue
		}
		seen[realPath(socket)] = true
		if conn, err := net.Dial("unix", socket); err == nil { //nolint:noctx // it answers at once
			conn.Close() //nolint:errcheck,gosec // nothing was sent
			hosts = append(hosts, "unix://"+socket)
		} else {
			refused = append(refused, "unix://"+socket)
		}
	}
	return append(hosts, refused...), problem
}

// sockets are the paths of the usual sockets. Only root sees those of other users.
func (p *Places) sockets() []string {
	list := []string{p.Socket}
	for _, pattern := range []string{"user/*/docker.sock", "podman/podman.sock", "user/*/podman/podman.sock"} {
		found, err := filepath.Glob(filepath.Join(p.Run, pattern))
		if err != nil {
			continue // the pattern is valid, and Run has none
		}
		list = append(list, found...)
	}
	return list
}

// Looked says where Engines looks, for people.
func (p *Places) Looked() string {
	return fmt.Sprintf("DOCKER_HOST is not set, Docker has no other context, and there is no %s, no docker.sock or podman/podman.sock "+
		"in %s/user/UID, and no %[2]s/podman/podman.sock", p.Socket, p.Run)
}

// realPath is the path of a socket or of its host without links: Podman may have a link at Docker's socket.
func realPath(host string) string {
	path := strings.TrimPrefix(host, "unix://")
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// context returns the host of Docker's context: the one in DOCKER_CONTEXT, else the current one; "" for the default one.
func (p *Places) context() (host string, err error) {
	home, _ := p.Lookup("HOME")
	dir, _ := p.Lookup("DOCKER_CONFIG")
	dir = cmp.Or(dir, filepath.Join(home, ".docker"))
	name, _ := p.Lookup("DOCKER_CONTEXT")
	if name == "" {
		var file struct{ CurrentContext string }
		if err := readJSON(filepath.Join(dir, "config.json"), &file); err != nil {
			return "", err
		}
		name = file.CurrentContext
	}
	if name == "" || name == "default" {
		return "", nil
	}
	var meta struct {
		Endpoints struct{ Docker struct{ Host string } }
	}
	id := sha256.Sum256([]byte(name))
	if err := readJSON(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json"), &meta); err != nil {
		return "", err
	}
	host = meta.Endpoints.Docker.Host
	scheme, _, _ := strings.Cut(host, "://")
	if !slices.Contains([]string{"unix", "tcp"}, scheme) {
		return "", fmt.Errorf("the context %q of Docker is at %q, which is no unix:// or tcp://", name, host)
	}
	return host, nil
}

// readJSON reads a file, unless there is none.
func readJSON(path string, into any) error {
	text, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
