//go:build realservers

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/realstack"
)

// installed are servers of others that have the page of ours: nginx, which has it in files, and Prometheus, which has
// scraped it.
func installed(b *testing.B, ours *rival, series int) []*rival {
	b.Helper()
	return []*rival{startNginx(b, ours), startFederate(b, ours, series)}
}

// awaitWithin bounds the wait for a server to be as it should.
const awaitWithin = time.Minute

// await asks again and again, until ready returns true.
func await(b *testing.B, what string, ready func() bool) {
	b.Helper()
	for begun := time.Now(); !ready(); {
		if time.Since(begun) > awaitWithin {
			b.Fatalf("%s: not within %s", what, awaitWithin)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
	}
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
	sendfile on;
	tcp_nopush on;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; root %[1]s/www; }
}
`

func startNginx(b *testing.B, ours *rival) *rival {
	b.Helper()
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o700); err != nil {
		b.Fatal(err)
	}
	for name, encoding := range map[string]string{"metrics": "identity", "metrics.gz": "gzip"} {
		page, err := get(b.Context(), "http://"+ours.addr+ours.path, encoding)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "www", name), page, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() //nolint:errcheck,gosec // only its port was wanted
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, addr), 0o600); err != nil {
		b.Fatal(err)
	}
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	cmd := exec.CommandContext(b.Context(), program, "-p", dir, "-c", config, "-e", "stderr") //nolint:gosec // a program that is named here
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatalf("nginx, a package that CI installs: %v", err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck,gosec // it has ended then
		cmd.Wait()         //nolint:errcheck,gosec // killed
	})
	r := &rival{name: "nginx", addr: addr, path: "/metrics", pid: cmd.Process.Pid}
	await(b, "nginx answers", func() bool {
		_, err := get(b.Context(), "http://"+addr+r.path, "identity")
		return err == nil
	})
	return r
}

const prometheusConfig = `scrape_configs:
- job_name: ours
  scrape_interval: 5s
  scrape_timeout: 5s
  static_configs: [{targets: [%q]}]
`

// startFederate has a Prometheus scrape our page. It goes on scraping while it is measured, as it does in life: what is
// older than five minutes is not federated.
func startFederate(b *testing.B, ours *rival, series int) *rival {
	b.Helper()
	p := realstack.StartPrometheus(b, fmt.Sprintf(prometheusConfig, ours.addr))
	r := &rival{name: "federate", addr: p.Addr, path: "/federate?match[]=%7Bjob%3D%22ours%22%7D", pid: p.PID()}
	await(b, "prometheus has scraped", func() bool {
		page, err := get(b.Context(), "http://"+r.addr+r.path, "identity")
		return err == nil && strings.Count(string(page), "\n") >= series
	})
	return r
}

func get(ctx context.Context, url, encoding string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", metricsAccept)
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", url, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}
