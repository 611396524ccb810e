package app

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/setup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// initialize runs init for a file, where nothing of this machine answers.
func initialize(t *testing.T, env map[string]string, file string) (said string, results []CheckResult, err error) {
	t.Helper()
	var b strings.Builder
	flags := InitOptions{File: file, sockets: t.TempDir(), look: lookNowhere(t)}
	results, err = Init(t.Context(), &b, options(env, io.Discard), flags)
	return b.String(), results, err
}

// lookNowhere makes init find nothing of this machine but its engine.
func lookNowhere(t *testing.T) func(*setup.Options) {
	t.Helper()
	return func(o *setup.Options) {
		o.Directory, o.StateFile, o.Volumes = t.TempDir(), "", nil
		o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") }
	}
}

func TestInitWritesWhatItFindsOnce(t *testing.T) {
	engine := simstacktest.StartEngine(t, nil)
	for _, service := range []string{"xmpp", "irc", "bridge", "postgres"} {
		engine.Add(simstack.ContainerSpec{
			Name:    "chat-" + service + "-1",
			Image:   "local/" + service,
			Service: service,
			Restart: "always",
		})
	}
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	said, results, err := initialize(t, map[string]string{"DOCKER_HOST": engine.Host(), "IRC_RPC_PASSWORD": "hunter2"}, file)
	must(t, err)
	for _, want := range []string{
		"Docker: " + engine.Host() + ", Compose project chat, 4 containers\n", "\nxmpp: container chat-xmpp-1: ",
		"\nirc: container chat-irc-1: ",
		"\nbridge: container chat-bridge-1", "containers only: chat-postgres-1\n", "\nenvironment: sets IRC_RPC_PASSWORD\n",
		"\nWrote " + file + ": 1 target, ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("init does not say %q:\n%s", want, said)
		}
	}
	if len(results) != 1 || results[0].Kind != "docker" || results[0].State != "up" {
		t.Errorf("the check has %+v, want the engine alone, up", results)
	}
	content, err := os.ReadFile(file)
	must(t, err)
	if text := string(content); !strings.Contains(text, `expected_services: ["chat/bridge", "chat/irc", "chat/xmpp"]`) ||
		!strings.Contains(text, `#   service: "chat/irc"`) {
		t.Errorf("the file names no services:\n%s", text)
	}
	if text := string(content); strings.Contains(text+said, "hunter2") || !strings.Contains(text, "# - kind: xmpp_status") ||
		!strings.Contains(text, "container shares no network with this process") {
		t.Errorf("the file is\n%s", text)
	}
	info, err := os.Stat(file)
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	for _, r := range engine.Requests() {
		if r.Method != "GET" && r.Method != "HEAD" {
			t.Errorf("init asks the engine %s %s", r.Method, r.Path)
		}
	}
	o := options(map[string]string{"DOCKER_HOST": engine.Host()}, io.Discard)
	o.ConfigFile = file
	if _, refused := checked(o); refused != "" {
		t.Errorf("check-config refuses the file: %s", refused)
	}

	if _, _, err := initialize(t, map[string]string{"DOCKER_HOST": engine.Host()}, file); err == nil ||
		!strings.Contains(err.Error(), file+" is already there") {
		t.Errorf("with a file that is there: %v", err)
	}
	now, err := os.ReadFile(file)
	must(t, err)
	if !slices.Equal(now, content) {
		t.Error("a second run changed the file")
	}
}

func TestInitFindsTheSocketOfRootlessDocker(t *testing.T) {
	engine := simstacktest.StartEngine(t, nil)
	engine.Add(instanceOf("irc"))
	run, err := os.MkdirTemp("", "run") //nolint:usetesting // the path of a socket must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(run) }) //nolint:errcheck,gosec // it is below the directory for temporary files
	must(t, os.MkdirAll(run+"/user/1000", 0o700))
	must(t, os.Symlink(strings.TrimPrefix(engine.Host(), "unix://"), run+"/user/1000/docker.sock"))
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	var said strings.Builder
	results, err := Init(t.Context(), &said, options(nil, io.Discard), InitOptions{File: file, sockets: run, look: lookNowhere(t)})
	must(t, err)
	if len(results) != 1 || results[0].Kind != "docker" || results[0].State != "up" ||
		!strings.Contains(said.String(), "Docker: unix://"+run+"/user/1000/docker.sock, Compose project chat, 1 container\n") {
		t.Errorf("%+v\n%s", results, &said)
	}
}

func TestInitWritesNothingWhereNothingIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		env        map[string]string
		file, want string
	}{
		"a context without a file": {
			map[string]string{"DOCKER_CONTEXT": "far", "DOCKER_CONFIG": dir},
			"exporter.yaml",
			"no service of a chat stack was found",
		},
		"no engine": {nil, "exporter.yaml", "no service of a chat stack was found"},
		"an engine is down": {
			map[string]string{"DOCKER_HOST": "unix://" + dir + "/none.sock"},
			"exporter.yaml",
			"no service of a chat stack was found",
		},
		"a wrong host":    {map[string]string{"DOCKER_HOST": "ssh://a"}, "exporter.yaml", "begins with ssh://"},
		"a dangling link": {nil, "link", "is already there"},
		"no directory":    {nil, "none/exporter.yaml", "none: no such file or directory; name a file in a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file == "link" {
				must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
			}
			said, _, err := initialize(t, c.env, filepath.Join(dir, c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s; said\n%s", err, c.want, said)
			}
			if strings.HasPrefix(name, "an engine") && !strings.Contains(said, "no such file") {
				t.Errorf("why the engine does not answer is not said:\n%s", said)
			}
		})
	}
	left, err := filepath.Glob(dir + "/*")
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
}

// TestInitWritesOnlyWhatIsValid holds that a wrong flag or variable can be corrected and init run again.
func TestInitWritesOnlyWhatIsValid(t *testing.T) {
	for name, c := range map[string]struct {
		domain, want string
		env          map[string]string
	}{
		"domain": {"no domain", `domain: is "no domain"`, nil},
		"variable": {
			"chat.example.org",
			"IRC_RPC_PASSWORD: is set beside IRC_RPC_PASSWORD_FILE",
			map[string]string{"IRC_RPC_PASSWORD": "hunter2", "IRC_RPC_PASSWORD_FILE": "/hunter2"},
		},
	} {
		file := filepath.Join(t.TempDir(), "exporter.yaml")
		_, err := Init(t.Context(), io.Discard, options(c.env, io.Discard),
			InitOptions{
				File:    file,
				Domain:  c.domain,
				sockets: t.TempDir(),
				look: func(o *setup.Options) {
					o.Directory, o.StateFile, o.Volumes = t.TempDir(), "", nil
					o.Dial = func(context.Context, string, string) (net.Conn, error) { conn, _ := net.Pipe(); return conn, nil }
				},
			})
		if err == nil || !strings.HasPrefix(err.Error(), "nothing was written: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s: the file was written", name)
		}
	}
}
