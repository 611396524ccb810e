//go:build bench && realservers

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// installed are servers of others that have the page of ours: nginx, which has it in files, and Prometheus and Telegraf,
// which have scraped it.
func (s *suite) installed(t *testing.T, ours *rival, series int) (all []*rival) {
	t.Helper()
	if find("nginx") != "" {
		all = append(all, s.startNginx(t, ours, series))
	}
	// Never stopped, so that those who scrape it do not think that it is gone.
	source := startServer(t, "source", "bare", series)
	if find("prometheus") != "" {
		all = append(all, s.startFederate(t, source, series))
	}
	if program := os.Getenv(telegrafVariable); program != "" {
		all = append(all, s.startTelegraf(t, program, source, series))
	}
	return slices.DeleteFunc(all, func(r *rival) bool { return r == nil })
}

// find is where a program is, or "".
func find(program string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// await asks again and again, until ready returns true.
func await(t *testing.T, what string, within time.Duration, ready func() bool) {
	t.Helper()
	for begun := time.Now(); !ready(); {
		if time.Since(begun) > within {
			t.Fatalf("%s: not within %s", what, within)
		}
		pause(t, 20*time.Millisecond)
	}
}

// ready waits as await does, but notes who is not ready in time instead of ending the part.
func (s *suite) ready(t *testing.T, r *rival, series int, within time.Duration, ready func() bool) *rival {
	t.Helper()
	for begun := time.Now(); !ready(); {
		if time.Since(begun) > within {
			s.absent(t, fmt.Sprintf("%s: has not %s series within %s", r.name, thousands(series), within))
			return nil
		}
		pause(t, 20*time.Millisecond)
	}
	return r
}

// nginxConfig has one process do everything, so that its processor time is easily told.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	default_type "application/openmetrics-text; version=1.0.0; charset=utf-8";
	gzip_static on;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	sendfile on;
	tcp_nopush on;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; root %[1]s/www; }
}
`

func (s *suite) startNginx(t *testing.T, ours *rival, series int) *rival {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, encoding := range map[string]string{"metrics": "identity", "metrics.gz": "gzip"} {
		page, err := get(t.Context(), "http://"+ours.addr+ours.path, encoding)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "www", name), page, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := freePort(t)
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, addr), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rival{name: serverNginx, addr: addr, path: "/metrics", pid: spawn(t, nil, find("nginx"), "-p", dir, "-c", config, "-e", "stderr")}
	return s.ready(t, r, series, awaitWithin, func() bool {
		_, err := get(t.Context(), "http://"+addr+r.path, "identity")
		return err == nil
	})
}

const prometheusConfig = `scrape_configs:
- job_name: ours
  scrape_interval: %[2]s
  scrape_timeout: %[2]s
  static_configs: [{targets: [%[1]q]}]
`

// startFederate has a Prometheus scrape a page of ours. It goes on scraping when its turn comes, as it does in life: what
// is older than five minutes is not federated.
func (s *suite) startFederate(t *testing.T, source *rival, series int) *rival {
	t.Helper()
	p := realstack.StartPrometheus(t, fmt.Sprintf(prometheusConfig, source.addr, s.scrapes.every))
	r := &rival{name: peers[1], addr: p.Addr, path: "/federate?match[]=%7Bjob%3D%22ours%22%7D", pid: p.PID()}
	return s.ready(t, r, series, awaitWithin, func() bool {
		page, err := get(t.Context(), "http://"+r.addr+r.path, "identity")
		return err == nil && strings.Count(string(page), "\n") >= series
	})
}

const telegrafConfig = `[agent]
interval = %q
flush_interval = "1s"
metric_buffer_limit = 200000
metric_batch_size = 200000
omit_hostname = true
[[inputs.prometheus]]
urls = [%q]
metric_version = 2
url_tag = ""
[[outputs.prometheus_client]]
listen = %q
read_timeout = "1h"
write_timeout = "1h"
metric_version = 2
expiration_interval = "0s"
collectors_exclude = ["gocollector", "process"]
`

// startTelegraf has a Telegraf scrape a page of ours and serve it again.
func (s *suite) startTelegraf(t *testing.T, program string, source *rival, series int) *rival {
	t.Helper()
	addr := freePort(t)
	config := filepath.Join(t.TempDir(), "telegraf.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, telegrafConfig, s.scrapes.every.String(), "http://"+source.addr+source.path, addr), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rival{name: peers[2], addr: addr, path: "/metrics", pid: spawn(t, nil, program, config)}
	return s.ready(t, r, series, 2*awaitWithin, func() bool {
		page, err := get(t.Context(), "http://"+addr+r.path, "identity")
		return err == nil && strings.Count(string(page), "\n") >= series
	})
}

// spawn starts a program, ends it with the test, and tells what it said where the test failed.
func spawn(t *testing.T, environ []string, program string, args ...string) (pid int) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) //nolint:gosec // what the suite names
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, environ...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also while it is stopped
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck,gosec // it has ended then
		cmd.Wait()         //nolint:errcheck,gosec // killed
		if t.Failed() {
			t.Logf("%s:\n%s", program, output.String())
		}
	})
	return cmd.Process.Pid
}
