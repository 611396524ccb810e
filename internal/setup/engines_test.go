package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// machine is a directory with sockets, and a home with Docker's files.
type machine struct {
	t       *testing.T
	dir     string
	environ map[string]string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "engines") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck,gosec // it is below the directory for temporary files
	return &machine{t: t, dir: dir, environ: map[string]string{"HOME": dir + "/home"}}
}

func (m *machine) places() *Places {
	return &Places{
		Lookup: func(name string) (string, bool) { value, ok := m.environ[name]; return value, ok },
		Socket: m.dir + "/run/docker.sock",
		Run:    m.dir + "/run",
	}
}

// write writes a file below the directory.
func (m *machine) write(path, content string) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// listen opens a socket below the directory.
func (m *machine) listen(path string) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.t.Fatal(err)
	}
	l, err := net.Listen("unix", path) //nolint:noctx // it listens at once
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // it only listened
}

// context writes a context of Docker's.
func (m *machine) context(name, host string) {
	id := sha256.Sum256([]byte(name))
	m.write("home/.docker/contexts/meta/"+hex.EncodeToString(id[:])+"/meta.json",
		`{"Name":"`+name+`","Metadata":{},"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`)
}

func TestEnginesAreFoundWhereTheyListen(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(*machine)
		want    []string
		problem string
	}{
		"nothing": {func(*machine) {}, nil, ""},
		"DOCKER_HOST": {func(m *machine) {
			m.environ["DOCKER_HOST"] = "tcp://engine:2376"
			m.listen("run/docker.sock")
		}, []string{"tcp://engine:2376"}, ""},
		"every socket": {func(m *machine) {
			m.listen("run/user/1000/podman/podman.sock")
			m.listen("run/podman/podman.sock")
			m.listen("run/user/1000/docker.sock")
			m.listen("run/docker.sock")
		}, []string{
			"unix://DIR/run/docker.sock", "unix://DIR/run/user/1000/docker.sock", "unix://DIR/run/podman/podman.sock",
			"unix://DIR/run/user/1000/podman/podman.sock",
		}, ""},
		"one that accepts none": {func(m *machine) {
			m.write("run/docker.sock", "")
			m.listen("run/user/1000/docker.sock")
		}, []string{"unix://DIR/run/user/1000/docker.sock", "unix://DIR/run/docker.sock"}, ""},
		"a link": {func(m *machine) {
			m.listen("run/podman/podman.sock")
			if err := os.Symlink(m.dir+"/run/podman/podman.sock", m.dir+"/run/docker.sock"); err != nil {
				m.t.Fatal(err)
			}
		}, []string{"unix://DIR/run/docker.sock"}, ""},
		"the current context": {func(m *machine) {
			m.write("home/.docker/config.json", `{"auths":{},"currentContext":"rootless"}`)
			m.context("rootless", "unix://"+m.dir+"/run/user/1000/docker.sock")
			m.listen("run/docker.sock")
			m.listen("run/user/1000/docker.sock")
		}, []string{"unix://DIR/run/user/1000/docker.sock", "unix://DIR/run/docker.sock"}, ""},
		"DOCKER_CONTEXT": {func(m *machine) {
			m.write("home/.docker/config.json", `{"currentContext":"rootless"}`)
			m.environ["DOCKER_CONTEXT"] = "far"
			m.context("far", "tcp://10.0.0.1:2375")
		}, []string{"tcp://10.0.0.1:2375"}, ""},
		"DOCKER_CONFIG": {func(m *machine) {
			m.environ["DOCKER_CONFIG"] = m.dir + "/home/.docker"
			delete(m.environ, "HOME")
			m.write("home/.docker/config.json", `{"currentContext":"here"}`)
			m.context("here", "unix:///here")
		}, []string{"unix:///here"}, ""},
		"the default context": {func(m *machine) {
			m.write("home/.docker/config.json", `{"currentContext":"default"}`)
			m.listen("run/docker.sock")
		}, []string{"unix://DIR/run/docker.sock"}, ""},
		"a context over SSH": {func(m *machine) {
			m.environ["DOCKER_CONTEXT"] = "far"
			m.context("far", "ssh://me@far")
		}, nil, `the context "far" of Docker is at "ssh://me@far", which is no unix:// or tcp://`},
		"a context without its file": {func(m *machine) {
			m.environ["DOCKER_CONTEXT"] = "gone"
		}, nil, `the context "gone" of Docker is at ""`},
		"a broken file": {func(m *machine) {
			m.write("home/.docker/config.json", "{")
		}, nil, "config.json: unexpected end of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.make(m)
			got, err := m.places().Engines()
			for i := range got {
				got[i] = strings.Replace(got[i], m.dir, "DIR", 1)
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("problem %v, want %q", err, c.problem)
			}
		})
	}
}
