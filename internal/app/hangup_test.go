package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// TestHangupDuringTheStartIsAReload sends SIGHUP while the exporter reads its configuration, which comes from a pipe.
func TestHangupDuringTheStartIsAReload(t *testing.T) {
	const content = "targets: [{kind: http, name: a, url: \"http://127.0.0.1:1/\"}]\n"
	dir := t.TempDir()
	config, later := filepath.Join(dir, "exporter.yaml"), filepath.Join(dir, "later.yaml")
	must(t, syscall.Mkfifo(config, 0o600))
	rewrite(t, later, content)
	p := startProgram(t, buildBinary(t), dir, nil, "--config.file=exporter.yaml", "--web.listen-address=127.0.0.1:0")
	pipe, err := os.OpenFile(config, os.O_WRONLY, 0) // returns when the exporter has opened it, too
	must(t, err)
	must(t, os.Rename(later, config)) // for the reload
	must(t, p.Process.Signal(syscall.SIGHUP))
	_, err = pipe.WriteString(content)
	must(t, err)
	must(t, pipe.Close())
	e := exporterOf(t, p)
	if !exportertest.Eventually(patience, 10*time.Millisecond,
		func() bool { return strings.Contains(p.Stderr.String(), "configuration reloaded") }) {
		t.Errorf("no reload: %s", &p.Stderr)
	}
	stopsAtOnce(t, p, e)
}
