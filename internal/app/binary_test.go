package app

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

const patience = exportertest.Patience

// binaryDir is where the program is built, once for all tests; TestMain removes it.
var binaryDir = filepath.Join(os.TempDir(), "chatstack-app-test-"+strconv.Itoa(os.Getpid()))

// binaryBuilt builds the program as it is shipped, without cgo. An engine that this machine runs is nothing to it: the
// default socket is the path with defaultSocket after it.
var binaryBuilt = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(binaryDir, "chatstack_exporter")
	return path, exportertest.Build(path, "-X 'main.dockerSocket="+path+defaultSocket+"'")
})

// buildBinary returns the path of the program as it is shipped.
func buildBinary(t *testing.T) string {
	t.Helper()
	path, err := binaryBuilt()
	must(t, err)
	return path
}

const defaultSocket = ".sock"

// startProgram runs a binary in a directory, with the given environment and nothing else of this one.
func startProgram(t *testing.T, binary, dir string, env map[string]string, args ...string) *exportertest.Program {
	t.Helper()
	return exportertest.Start(t, exec.CommandContext(t.Context(), binary, args...), dir, env)
}

// exporterOf waits until the program listens.
func exporterOf(t *testing.T, p *exportertest.Program) *exporter {
	t.Helper()
	return &exporter{url: p.URL(t), log: &p.Stderr, client: testClient(t)}
}

// stopsAtOnce ends the program as an init system does, and wants what an init system wants.
func stopsAtOnce(t *testing.T, p *exportertest.Program, e *exporter) {
	t.Helper()
	p.Terminate(t)
	if code := p.ExitCode(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "http://")); !errors.Is(err,
		syscall.ECONNREFUSED) {
		if err == nil {
			conn.Close() //nolint:errcheck // it should not be there
		}
		t.Errorf("dial after the end: %v, want %v", err, syscall.ECONNREFUSED)
	}
}

func TestGracefulStopOfTheBinary(t *testing.T) {
	binary := buildBinary(t)
	t.Run("environment alone", func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		p := startProgram(t, binary, t.TempDir(), stack.Environ(), "--web.listen-address=127.0.0.1:0", "--poll.interval=1s",
			"--poll.timeout=1s")
		e := exporterOf(t, p)
		e.wait(t, "every target up", allUp)
		stopsAtOnce(t, p, e)
		if plants := stack.Plants(); len(plants) > 0 {
			t.Errorf("plants left in the store: %v", plants)
		}
	})
	// The store takes its time, so that the signal meets a canary that was created and not deleted yet.
	t.Run("canary under way", func(t *testing.T) {
		stack := startStack(t, simstack.Options{Slow: 300 * time.Millisecond})
		must(t, stack.Switch("plant_store", "slow", true))
		dir := t.TempDir()
		rewrite(t, filepath.Join(dir, "exporter.yaml"), canaryMode)
		p := startProgram(t, binary, dir, stack.Environ(), "--web.listen-address=127.0.0.1:0")
		e := exporterOf(t, p)
		if !exportertest.Eventually(patience, 10*time.Millisecond, func() bool { return len(stack.Plants()) > 0 }) {
			t.Fatalf("no canary after %s", patience)
		}
		stopsAtOnce(t, p, e)
		if plants := stack.Plants(); len(plants) > 0 {
			t.Errorf("plants left in the store: %v", plants)
		}
		if !slices.ContainsFunc(stack.Requests("plant_store"), func(r simstack.Request) bool { return r.Method == http.MethodDelete }) {
			t.Error("the store was never asked to delete the canary")
		}
	})
}

func TestRestartsThatWereShownOutliveAKill(t *testing.T) {
	binary := buildBinary(t)
	engine := simstacktest.StartEngine(t, nil)
	irc := engine.Add(simstack.ContainerSpec{Name: "irc", Image: "chat/irc:1", Restart: "always"})
	dir := directoryWith(t, "state_file: state.json\ntargets:\n  - kind: docker\n    host: "+engine.Host()+"\n    resources: none\n")
	restarts := func(p page) float64 {
		n, _ := p.Value("chatstack_container_restarts_total", "container", "irc")
		return n
	}
	begin := func() (*exportertest.Program, *exporter) {
		p := startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=10m", "--poll.timeout=5s")
		e := exporterOf(t, p)
		e.wait(t, "events flow", eventsFlow)
		return p, e
	}
	p, e := begin()
	const times = 5
	for range times {
		irc.Restart()
	}
	e.wait(t, "every restart counted", func(p page) bool { return restarts(p) == times })
	must(t, p.Process.Kill())
	<-p.Ended
	engine.Noise(1000) // so that it cannot repeat the events of the restarts
	_, e = begin()
	if n := restarts(e.scrape(t)); n != times {
		t.Errorf("%v restarts after SIGKILL, want %d as before", n, times)
	}
}

// directoryWith makes a directory with this exporter.yaml in it, or with none.
func directoryWith(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	if file != "" {
		rewrite(t, filepath.Join(dir, "exporter.yaml"), file)
	}
	return dir
}

// TestDefaultSocketIsThatOfTheBuild holds that one place names the socket, so that tests can have it elsewhere than users.
func TestDefaultSocketIsThatOfTheBuild(t *testing.T) {
	binary := buildBinary(t)
	for _, want := range []string{" 1 target is configured", " 2 targets are configured"} {
		p := startProgram(t, binary, t.TempDir(),
			map[string]string{"IRC_SERVICES_JSONRPC_URL": "http://127.0.0.1:1/jsonrpc"}, "check-config")
		if code := p.ExitCode(t, patience); code != 0 || !strings.Contains(p.Stdout.String(), want) {
			t.Errorf("exit code %d, standard output %q, want 0 and %q", code, &p.Stdout, want)
		}
		must(t, os.WriteFile(binary+defaultSocket, nil, 0o600))
		t.Cleanup(func() { os.Remove(binary + defaultSocket) }) //nolint:errcheck // it may be gone
	}
}

// TestBinaryAnswersOrSaysWhatIsWrong has commands, and starts that end before anything has begun.
func TestBinaryAnswersOrSaysWhatIsWrong(t *testing.T) {
	binary := buildBinary(t)
	stack := startStack(t, simstack.Options{})
	busy := listenOnLoopback(t)
	defer busy.Close() //nolint:errcheck // a test's listener
	webConfig := filepath.Join(t.TempDir(), "web.yml")
	rewrite(t, webConfig, "tls_server_config:\n  cert_file: /does/not/exist\n")
	two := map[string]string{"PLANT_STORE_URL": "http://127.0.0.1:1", "IRC_SERVICES_JSONRPC_URL": "http://127.0.0.1:1/jsonrpc"}
	for name, c := range map[string]struct {
		file string
		env  map[string]string // nil is the stack's
		args []string
		// Each stream holds all of these, and is empty where there are none. What is wrong ends with the exit code 1,
		// unless code says otherwise.
		stdout, stderr []string
		code           int
	}{
		"version": {args: []string{"version"}, stdout: []string{"chatstack_exporter, version "}},
		"check-config of a good file": {
			file:   canaryMode + "  - kind: irc_services\n",
			env:    two,
			args:   []string{"check-config"},
			stdout: []string{"valid", "2 targets are configured"},
		},
		"check-config of the environment": {
			env:    two,
			args:   []string{"check-config"},
			stdout: []string{"valid", "2 targets are configured"},
		},
		"check-config of a bad file": {
			file:   "poll:\n  interval: soon\ntargets:\n  - kind: plant_store\n    mode: plough\n",
			env:    two,
			args:   []string{"check-config"},
			stderr: []string{"exporter.yaml:2: ", "soon", "exporter.yaml:5: ", "plough"},
		},
		"interval without a unit": {
			args:   []string{"check-config", "--poll.interval=30"},
			stderr: []string{`--poll.interval is "30", must be a duration such as 500ms, 30s, 5m or 14d; write 30s`}, code: 2,
		},
		"timeout of two words": {
			args:   []string{"check-config", "--poll.timeout=10 sec"},
			stderr: []string{`--poll.timeout is "10 sec", must be a duration such as 500ms, 30s, 5m or 14d; write 10s`}, code: 2,
		},
		"unknown flag": {args: []string{"--no-such-flag"}, stderr: []string{"serve has no flag --no-such-flag; try --help"}, code: 2},
		"mistyped flag": {
			args:   []string{"check", "--config.fil=x"},
			stderr: []string{"check has no flag --config.fil; did you mean --config.file?"},
			code:   2,
		},
		"another's flag":  {args: []string{"check", "--recording"}, stderr: []string{"check has no flag --recording"}, code: 2},
		"unknown command": {args: []string{"juggle"}, stderr: []string{`unknown command "juggle"; try --help`}, code: 2},
		"mistyped":        {args: []string{"chekc"}, stderr: []string{`unknown command "chekc"; did you mean check?`}, code: 2},
		"help for one":    {args: []string{"help", "rule"}, stderr: []string{`unknown command "rule"; did you mean rules?`}, code: 2},
		"a file alone": {
			args:   []string{"my.yaml"},
			stderr: []string{`unknown command "my.yaml"; did you mean --config.file=my.yaml, or check-config my.yaml?`},
			code:   2,
		},
		"another's --config": {
			args:   []string{"--config", "my.yaml"},
			stderr: []string{"serve has no flag --config; did you mean --config.file=my.yaml?"},
			code:   2,
		},
		"--config=": {
			args:   []string{"check-config", "--config=my.yaml"},
			stderr: []string{"check-config has no flag --config; did you mean --config.file=my.yaml?"},
			code:   2,
		},
		"-c": {
			args:   []string{"check", "-c", "my.yaml"},
			stderr: []string{"check has no flag -c; did you mean --config.file=my.yaml?"},
			code:   2,
		},
		"-c before the command": {
			args:   []string{"-c", "check"},
			stderr: []string{"check has no flag -c; did you mean --config.file=FILE?"},
			code:   2,
		},
		"standard input": {
			args:   []string{"check-config", "-"},
			stderr: []string{"- is not a file, and standard input is not read; write the path"},
			code:   2,
		},
		"a name that is -": {
			args:   []string{"drill", "--receiver", "-", "--prometheus=http://127.0.0.1:1"},
			stderr: []string{"--prometheus and --alertmanager go together"},
			code:   2,
		},
		"standard input's flag": {
			args:   []string{"check-config", "--config.file=-"},
			stderr: []string{"- is not a file, and standard input is not read"},
			code:   2,
		},
		"an empty FILE": {args: []string{"check-config", ""}, stderr: []string{"FILE is empty; name the configuration file"}, code: 2},
		"two files": {
			args:   []string{"check-config", "a.yaml", "--config.file=b.yaml"},
			stderr: []string{"FILE and --config.file"},
			code:   2,
		},
		"tests for no rules": {args: []string{"rules", "--vmalert"}, stderr: []string{"--vmalert is for --tests"}, code: 2},
		"two kinds of rules": {args: []string{"rules", "--kubernetes", "--tests"}, stderr: []string{"exclude each other"}, code: 2},
		"drill unconfirmed": {
			args:   []string{"drill", "--severity=critical", "--prometheus=http://127.0.0.1:1", "--alertmanager=http://127.0.0.1:1"},
			stderr: []string{"add --yes"}, code: 2,
		},
		"drill without a URL": {
			args:   []string{"drill", "--prometheus=9090", "--alertmanager=http://127.0.0.1:1"},
			stderr: []string{"--prometheus"},
			code:   2,
		},
		"healthcheck's wrong use": {
			args:   []string{"healthcheck", "--no-such-flag"},
			stderr: []string{"healthcheck has no flag --no-such-flag"},
			code:   1,
		},
		"healthcheck's wrong word": {args: []string{"healthcheck", "twice"}, stderr: []string{"unexpected twice"}, code: 1},
		"file as an argument": {
			env: two, args: []string{"check-config", "absent.yaml"}, stderr: []string{"absent.yaml"},
		},
		"file": {
			file:   "poll:\n  intervall: 30s\ntargets:\n  - kind: telepathy\n",
			stderr: []string{"exporter.yaml:2: ", "intervall", "exporter.yaml:4: ", "telepathy"},
		},
		"environment":     {env: map[string]string{"XMPP_REST_URL": "ftp://127.0.0.1"}, stderr: []string{"XMPP_REST_URL", "http"}},
		"no such file":    {args: []string{"--config.file=absent.yaml"}, stderr: []string{"absent.yaml", "--config.file"}},
		"state directory": {file: "state_file: /does/not/exist/state.json\n", stderr: []string{"/does/not/exist", "state_file"}},
		"web config":      {args: []string{"--web.config.file=" + webConfig}, stderr: []string{webConfig}},
		"no such address": {
			args:   []string{"--web.listen-address=192.0.2.1:9655"},
			stderr: []string{"192.0.2.1:9655", "--web.listen-address"},
		},
		"port in use": {
			args:   []string{"--web.listen-address=" + busy.Addr().String()},
			stderr: []string{busy.Addr().String(), "address already in use", "--web.listen-address"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := c.env
			if env == nil {
				env = stack.Environ()
			}
			p := startProgram(t, binary, directoryWith(t, c.file), env, append([]string{"--web.listen-address=127.0.0.1:0"}, c.args...)...)
			if code := p.ExitCode(t, patience); (code == 0) != (c.stderr == nil) || code != max(code&1, c.code) {
				t.Errorf("exit code %d, want %d, or 1 where something is wrong", code, c.code)
			}
			says(t, "standard output", p.Stdout.String(), c.stdout...)
			says(t, "standard error", p.Stderr.String(), c.stderr...)
			if m, listens := p.Listens(); listens || (p.Stdout.String() == "") != (c.stdout == nil) ||
				(p.Stderr.String() == "") != (c.stderr == nil) {
				t.Errorf("half started: %s, standard output %q, standard error %q", m, &p.Stdout, &p.Stderr)
			}
		})
	}
	for _, service := range simstack.Services {
		if asked := stack.Requests(service); len(asked) > 0 {
			t.Errorf("half started: %s was asked %v", service, asked)
		}
	}
}
