//go:build realservers

package realstack

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// BuildExporter builds the exporter's binary as it is shipped, without cgo, and returns its path. It ends with the test.
func BuildExporter(tb testing.TB) string {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "chatstack_exporter")
	if err := exportertest.Build(program, "-s -w"); err != nil {
		tb.Fatal(err)
	}
	return program
}

// Exporter is the exporter's own binary, with a configuration and a state of its own.
type Exporter struct {
	*Program
}

// StartExporter starts a binary of BuildExporter with a configuration, as exporter.yaml has it, and environment
// variables, as the user that the test is, and further flags. Its lifecycle can be switched over HTTP.
func StartExporter(tb testing.TB, program, config string, environ map[string]string, flags ...string) *Exporter {
	tb.Helper()
	e := &Exporter{newProgram(tb, "exporter", false)}
	e.write("exporter.yaml", []byte(config))
	for name, value := range environ {
		e.environ = append(e.environ, name+"="+value)
	}
	e.serve("/-/healthy", append([]string{program, "--config.file=" + e.path("exporter.yaml"), "--web.listen-address=" + e.Addr, "--web.enable-lifecycle"}, flags...)...)
	return e
}

// Rules are the alert rules for the configuration, as the binary prints them.
func (e *Exporter) Rules() string {
	e.tb.Helper()
	rules, err := e.command(e.argv[0], "rules", e.argv[1]).Output()
	if err != nil {
		e.tb.Fatalf("print the rules: %v", err)
	}
	return string(rules)
}

// Reconfigure replaces the configuration and has the exporter read it. It does not wait for that.
func (e *Exporter) Reconfigure(config string) {
	e.tb.Helper()
	e.write("exporter.yaml", []byte(config))
	if err := syscall.Kill(e.PID(), syscall.SIGHUP); err != nil {
		e.tb.Fatalf("reload the exporter: %v", err)
	}
}
