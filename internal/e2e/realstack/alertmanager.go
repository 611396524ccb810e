//go:build realservers

package realstack

import (
	"context"
	"path/filepath"
	"testing"
)

// Alertmanager is an Alertmanager without peers, with a storage of its own.
type Alertmanager struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartAlertmanager starts an Alertmanager with the given configuration, as alertmanager.yml has it, and with files
// beside it, by their paths from there.
func StartAlertmanager(tb testing.TB, config string, files map[string][]byte) *Alertmanager {
	tb.Helper()
	program := binary(tb, "prometheus-alertmanager", "prometheus-alertmanager")
	a := &Alertmanager{Process: newProcess(tb, "alertmanager", true), Addr: address(port(tb, 0))}
	a.write("alertmanager.yml", []byte(config))
	made := map[string]bool{".": true}
	for name, content := range files {
		if dir := filepath.Dir(name); !made[dir] {
			a.mkdir(dir)
			made[dir] = true
		}
		a.write(name, content)
	}
	a.mkdir("data")
	a.argv = []string{
		program,
		"--config.file=" + a.path("alertmanager.yml"), "--storage.path=" + a.path("data"),
		"--web.listen-address=" + a.Addr, "--web.external-url=" + a.URL(), "--cluster.listen-address=", "--log.level=debug",
	}
	a.ready = func(ctx context.Context) error { return succeeds(ctx, a.URL()+"/-/ready") }
	a.Start()
	return a
}

// URL is the server, without a slash at its end.
func (a *Alertmanager) URL() string { return "http://" + a.Addr }
