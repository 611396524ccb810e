//go:build realservers

package realstack

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// Program is a server that listens on one address for HTTP.
type Program struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartProgram starts a server by the command line that argv returns, and returns when it answers a GET of path with status
// 200. Environ are further variables, NAME=VALUE.
func StartProgram(tb testing.TB, name, path string, environ []string, argv func(p *Program) []string) *Program {
	tb.Helper()
	p := newProgram(tb, name, false)
	p.environ = environ
	p.serve(path, argv(p)...)
	return p
}

func newProgram(tb testing.TB, name string, drop bool) *Program {
	tb.Helper()
	return &Program{newProcess(tb, name, drop), address(freePort(tb))}
}

// serve starts the server by a command line.
func (p *Program) serve(path string, argv ...string) {
	p.tb.Helper()
	p.argv = argv
	p.ready = func(ctx context.Context) error {
		_, err := exportertest.Fetch(ctx, readyWithin, p.URL()+path)
		return err
	}
	p.Start()
}

// File writes a file into the program's directory and returns its path.
func (p *Program) File(name, content string) string {
	p.tb.Helper()
	p.write(name, []byte(content))
	return p.path(name)
}

// URL is the server, without a slash at its end.
func (p *Program) URL() string { return "http://" + p.Addr }

// StartPrometheus starts a Prometheus with a storage of its own, the given configuration, as prometheus.yml has it, and
// files beside that, by their paths from there.
func StartPrometheus(tb testing.TB, config string, files map[string][]byte) *Program {
	tb.Helper()
	program := binary(tb, "prometheus", "prometheus")
	p := newConfigured(tb, "prometheus", config, files)
	p.serve("/-/ready", program, "--config.file="+p.path("prometheus.yml"), "--storage.tsdb.path="+p.path("data"),
		"--web.listen-address="+p.Addr, "--log.level=debug")
	return p
}

// StartAlertmanager does the same with an Alertmanager, which has no peers.
func StartAlertmanager(tb testing.TB, config string, files map[string][]byte) *Program {
	tb.Helper()
	program := binary(tb, "prometheus-alertmanager", "prometheus-alertmanager")
	a := newConfigured(tb, "alertmanager", config, files)
	a.serve("/-/ready", program, "--config.file="+a.path("alertmanager.yml"), "--storage.path="+a.path("data"),
		"--web.listen-address="+a.Addr, "--web.external-url="+a.URL(), "--cluster.listen-address=", "--log.level=debug")
	return a
}

// newConfigured makes the directory of a server: its configuration, files beside it, and data/.
func newConfigured(tb testing.TB, name, config string, files map[string][]byte) *Program {
	tb.Helper()
	p := newProgram(tb, name, true)
	p.write(name+".yml", []byte(config))
	made := map[string]bool{".": true}
	for file, content := range files {
		if dir := filepath.Dir(file); !made[dir] {
			p.mkdir(dir)
			made[dir] = true
		}
		p.write(file, content)
	}
	p.mkdir("data")
	return p
}
