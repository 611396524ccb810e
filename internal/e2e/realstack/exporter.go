//go:build realservers

package realstack

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// BuildExporter builds the exporter's binary as it is shipped, without cgo, and returns its path. The test's end removes it.
func BuildExporter(tb testing.TB) string {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "chatstack_exporter")
	if err := exportertest.Build(program, "-s -w"); err != nil {
		tb.Fatal(err)
	}
	return program
}

// Exporter is a running exporter with its own configuration and state.
type Exporter struct {
	*Program
}

// StartExporter starts a binary of BuildExporter as the test's user, with a configuration, environment variables and additional
// flags. Its HTTP lifecycle API is enabled.
func StartExporter(tb testing.TB, program, config string, environ map[string]string, flags ...string) *Exporter {
	tb.Helper()
	e := &Exporter{newProgram(tb, "exporter", false)}
	e.write("exporter.yaml", []byte(config))
	for name, value := range environ {
		e.environ = append(e.environ, name+"="+value)
	}
	e.serve("/-/healthy",
		append([]string{program, "--config.file=" + e.path("exporter.yaml"), "--web.listen-address=" + e.Addr, "--web.enable-lifecycle"},
			flags...)...)
	return e
}

// Rules returns the alert rules that the binary prints for the configuration.
func (e *Exporter) Rules() string {
	e.tb.Helper()
	rules, err := e.command(e.argv[0], "rules", e.argv[1]).Output()
	if err != nil {
		e.tb.Fatalf("print the rules: %v", err)
	}
	return string(rules)
}

// Reconfigure replaces the configuration and requests a reload, without waiting for it.
func (e *Exporter) Reconfigure(config string) {
	e.tb.Helper()
	e.write("exporter.yaml", []byte(config))
	if err := syscall.Kill(e.PID(), syscall.SIGHUP); err != nil {
		e.tb.Fatalf("reload the exporter: %v", err)
	}
}
