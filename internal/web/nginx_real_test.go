//go:build realservers

package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nginxExample is the example in deploy/README.md, which has the exporter's default port.
var nginxExample = regexp.MustCompile("(?ms)^```nginx\n(.*?)^```$")

// startNginx starts Debian's nginx with the example in front of an exporter, and returns its address.
func startNginx(t *testing.T, exporter string) string {
	t.Helper()
	page, err := os.ReadFile("../../deploy/README.md")
	must(t, err)
	example := nginxExample.FindSubmatch(page)
	const upstream = "http://127.0.0.1:9655/"
	if example == nil || !strings.Contains(string(example[1]), upstream) {
		t.Fatalf("deploy/README.md has no example for nginx with %s", upstream)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	must(t, err)
	address := free.Addr().String()
	must(t, free.Close())
	dir := t.TempDir()
	config := fmt.Sprintf("daemon off;\nworker_processes 1;\npid %[1]s/pid;\nevents { worker_connections 64; }\nhttp {\n"+
		"access_log off;\nclient_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\nfastcgi_temp_path %[1]s/fastcgi;\n"+
		"uwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\nserver {\nlisten %[2]s;\n%[3]s}\n}\n",
		dir, address, strings.ReplaceAll(string(example[1]), upstream, exporter))
	file := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	nginx := exec.CommandContext(t.Context(), "/usr/sbin/nginx", "-c", file, "-p", dir, "-e", "stderr") //nolint:gosec // a test's own file
	nginx.Stderr = t.Output()
	nginx.Cancel = func() error { return nginx.Process.Signal(os.Interrupt) }
	if err := nginx.Start(); err != nil {
		t.Fatalf("%v: install Debian's package nginx", err)
	}
	t.Cleanup(func() { nginx.Wait() }) //nolint:errcheck // it was interrupted
	until(t, "nginx listens", func() bool {
		conn, err := net.Dial("tcp", address) //nolint:noctx // on loopback
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return "http://" + address
}

// request sends a request without a body.
func request(t *testing.T, method, address string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp.StatusCode, resp.Header, body}
}

// TestRealNginxServesThePageBelowAPath follows all links of the page through the example of deploy/README.md, and opens the page in a
// browser, since events and charts must work too.
func TestRealNginxServesThePageBelowAPath(t *testing.T) {
	browser := chromium(t)
	e := startExporter(t)
	until(t, "everything is all right", func() bool { return strings.Contains(e.get(t, ""), `data-level="ok"`) })
	server := startNginx(t, e.url)
	links := regexp.MustCompile(`(?:href|src)="([^"#][^"]*)"`)
	seen := map[string]bool{"/chat-status/": true}
	for queue := []string{"/chat-status/"}; len(queue) > 0; queue = queue[1:] {
		resp := request(t, http.MethodGet, server+queue[0])
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", queue[0], resp.StatusCode)
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		base, err := url.Parse(queue[0])
		must(t, err)
		for _, link := range links.FindAllStringSubmatch(string(resp.body), -1) {
			to, err := base.Parse(link[1])
			if err != nil {
				t.Errorf("%s: link %q: %v", queue[0], link[1], err)
				continue
			}
			if to.IsAbs() && strings.Contains(queue[0], "/runbooks/") {
				continue // the README, Prometheus
			}
			if to.Host != "" || !strings.HasPrefix(to.Path, "/chat-status/") {
				t.Errorf("%s: link %q leads out of the path", queue[0], link[1])
			} else if !seen[to.RequestURI()] {
				seen[to.RequestURI()] = true
				queue = append(queue, to.RequestURI())
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only these were found: %v", seen)
	}
	if resp := request(t, http.MethodPost, server+"/chat-status/api/v1/maintenance"); resp.StatusCode != http.StatusForbidden ||
		strings.Contains(string(resp.body), "lifecycle") {
		t.Errorf("POST: status %d, %s; want nginx to refuse it", resp.StatusCode, resp.body)
	}

	b := newTab(t, browser, desktop)
	b.open(t, server+"/chat-status") // without the slash
	b.waitFor(t, `document.getElementById("page").dataset.level === "ok"`)
	ask[bool](t, b, `window.marker = true, document.getElementById("service:xmpp_rest").querySelector("summary").click(), true`)
	// A chart needs ten minutes of data, but its script must load at once.
	b.waitFor(t, `typeof uPlot === "function" && performance.getEntriesByType("resource").some((r) => r.responseStatus === 200 && `+
		`r.name.includes("/chat-status/api/v1/history/service/xmpp_rest/"))`)
	must(t, e.stack.Switch("irc_services", "stopped", true))
	b.waitFor(t, `document.getElementById("page").dataset.level === "critical"`)
	if !ask[bool](t, b, `window.marker === true`) {
		t.Error("the page was loaded anew")
	}
}
