//go:build realservers

package deploytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/realstack"
)

// imagesEnv names the images that stand for those of registries; .ci/deploy-images prints them.
var imagesEnv = []string{"PROMETHEUS_IMAGE", "ALERTMANAGER_IMAGE", "SOCKET_PROXY_IMAGE", "GRAFANA_IMAGE"}

// What the test makes on the engine is called so, beside the compose project of the page.
const (
	project   = "chatstack-monitoring"
	network   = "chatstack-walkthrough"
	xmpp      = "chat-xmpp-1"
	webPanel  = "chat-web-panel-1"
	receiver  = "chatstack-walkthrough-receiver"
	testImage = "chatstack_exporter:walkthrough"
	version   = "0.0.0-walkthrough"
)

// newcomer is somebody who follows the page, with a shell in one directory after the other.
type newcomer struct {
	t   *testing.T
	dir string
	env []string
}

// run gives a command to a shell as it stands, and returns what it printed. A failure ends the test.
func (n *newcomer) run(command string) string {
	n.t.Helper()
	out, err := n.try(n.t.Context(), command)
	if err != nil {
		n.t.Fatalf("%s\n%v\n%s", command, err, out)
	}
	return out
}

func (n *newcomer) try(ctx context.Context, command string) (string, error) {
	where := filepath.Join(n.t.TempDir(), "pwd")
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command+"\npwd >"+where)
	cmd.Dir, cmd.Env = n.dir, n.env
	out, err := cmd.CombinedOutput()
	if pwd, readErr := os.ReadFile(where); readErr == nil {
		n.dir = strings.TrimSpace(string(pwd))
	}
	return string(out), err
}

// blocks are the commands of the page, in their order.
func blocks(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		found = append(found, string(m[1]))
	}
	if len(found) != 7 {
		t.Fatalf("the page has %d blocks of commands, want 7", len(found))
	}
	return found
}

// arrive prepares the machine: the stack that is to be watched, who is to be told, and the settings that the newcomer has
// in mind.
func arrive(t *testing.T) *newcomer {
	t.Helper()
	engine := os.Getenv("CHATSTACK_TEST_DOCKER")
	if engine == "" {
		t.Fatal("CHATSTACK_TEST_DOCKER names no container engine; make test-deploy says how this is run")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	plugins := filepath.Join(home, ".docker", "cli-plugins")
	if err := os.MkdirAll(plugins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "bin", "docker-compose"), filepath.Join(plugins, "docker-compose")); err != nil {
		t.Fatal(err)
	}
	editor := filepath.Join(home, "editor")
	script := `#!/bin/sh
sed -i 's#^STACK_NETWORK=.*#STACK_NETWORK=` + network + `#;s#^XMPP_REST_URL=.*#XMPP_REST_URL=http://xmpp:5280#' .env
printf http://` + receiver + `:8080/hook >secrets/chat_webhook_url
`
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	n := &newcomer{t: t, dir: t.TempDir(), env: append(os.Environ(),
		"HOME="+home, "DOCKER_CONFIG="+filepath.Join(home, ".docker"), "EDITOR="+editor,
		"DOCKER_HOST="+engine, "DOCKER_SOCKET="+strings.TrimPrefix(engine, "unix://"),
		"EXPORTER_IMAGE="+testImage, "BUILD_NETWORK=host", "DOCKER_BUILDKIT=0",
		"EXPORTER_PORT="+port(t), "PROMETHEUS_PORT="+port(t), "ALERTMANAGER_PORT="+port(t), "GRAFANA_PORT="+port(t),
		// The page's address is this very tree.
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url."+root+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/chatstack-exporter/chatstack_exporter",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
	)}
	for _, name := range imagesEnv {
		if os.Getenv(name) == "" {
			t.Fatalf("%s is not set; make test-deploy says how this is run", name)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if t.Failed() {
			out, _ := n.try(ctx, "docker compose ps --all; docker compose logs --tail 40")
			t.Log(out)
		}
		command := fmt.Sprintf("docker rm -f %s %s %s; docker compose down --volumes --timeout 1; docker rmi -f %s; docker network rm %s", xmpp, webPanel, receiver, testImage, network)
		if out, err := n.try(ctx, command); err != nil {
			t.Errorf("clear up: %v\n%s", err, out)
		}
	})
	n.env = append(n.env, "VERSION="+version, "REVISION="+strings.TrimSpace(n.run("git -C "+root+" rev-parse HEAD")))
	n.run("docker network create " + network)
	stack := "docker run --detach --network " + network + " --label com.docker.compose.project=chat --name "
	n.run(stack + xmpp + " --network-alias xmpp $GRAFANA_IMAGE 5280")
	n.run(stack + webPanel + " $GRAFANA_IMAGE 8080")
	return n
}

func port(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only held the port
	_, number, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// variable is one of the newcomer's shell.
func (n *newcomer) variable(name string) string {
	n.t.Helper()
	return strings.TrimSpace(n.run("printf %s \"$" + name + "\""))
}

// await tries until what a command prints has the text.
func (n *newcomer) await(command, want string, within time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var out string
	for {
		if latest, err := n.try(ctx, command); err == nil {
			if out = latest; strings.Contains(out, want) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			n.t.Fatalf("%s: %q does not come within %v\n%s", command, want, within, out)
		}
	}
}

// ask is an HTTP request to one of the stack's ports.
func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestRealNewcomerIsToldInTheChannel(t *testing.T) {
	n := arrive(t)
	page := blocks(t)
	begun := time.Now()
	for _, block := range page[:4] { // get, settings, secrets, start
		n.run(block)
		t.Logf("%.0f s:\n%s", time.Since(begun).Seconds(), block)
	}
	checked := n.run(page[4])
	if !strings.Contains(checked, "4 up, 0 down") {
		t.Errorf("check in the container says\n%s\nwant 4 up: docker, docker_volumes, xmpp_status, xmpp_metrics", checked)
	}
	n.run("docker run --detach --name " + receiver + " --network " + project + "_monitoring chatstack-local-receiver")

	n.holdsRestrictions()
	n.proxyRefuses()
	n.loaded()
	n.overridesAreSound()

	n.run(page[5])
	n.await("docker logs "+receiver, "*ContainerDown* Container "+webPanel+" ", 4*time.Minute)
	t.Logf("told after %.0f s", time.Since(begun).Seconds())
	n.run(strings.ReplaceAll(page[6], "$CONTAINER", webPanel)) // a shell of its own does not know the variable
	n.figures()
	n.imageIsReproducible()
	n.staysHealthyWhenProtected()
}

// holdsRestrictions asks the engine, not the file, what the containers may do.
func (n *newcomer) holdsRestrictions() {
	n.t.Helper()
	for _, service := range []string{"exporter", "socket-proxy", "prometheus", "alertmanager", "grafana"} {
		var all []struct {
			Config     struct{ User string }
			HostConfig struct {
				ReadonlyRootfs bool
				CapDrop        []string
				SecurityOpt    []string
				Memory         int64
				Privileged     bool
				Binds          []string
				PortBindings   map[string][]struct{ HostIP string }
			}
			State struct{ Health struct{ Status string } }
		}
		out := n.run("docker inspect " + project + "-" + service + "-1")
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			n.t.Fatal(err)
		}
		c := all[0]
		h := c.HostConfig
		if !h.ReadonlyRootfs || h.Privileged || h.Memory == 0 || strings.Join(h.CapDrop, "") != "ALL" || strings.Join(h.SecurityOpt, "") != "no-new-privileges:true" {
			n.t.Errorf("%s is not restricted: %+v", service, h)
		}
		if c.Config.User == "" || strings.HasPrefix(c.Config.User, "0") || strings.HasPrefix(c.Config.User, "root") {
			n.t.Errorf("%s runs as %q", service, c.Config.User)
		}
		if c.State.Health.Status != "healthy" {
			n.t.Errorf("%s is %q, want healthy", service, c.State.Health.Status)
		}
		if strings.Contains(fmt.Sprint(h.Binds), "docker.sock") != (service == "socket-proxy") {
			n.t.Errorf("%s has mounts %v; the socket is for the proxy alone", service, h.Binds)
		}
		for inside, bindings := range h.PortBindings {
			for _, b := range bindings {
				if b.HostIP != "127.0.0.1" {
					n.t.Errorf("%s: port %s is bound to %q", service, inside, b.HostIP)
				}
			}
		}
	}
}

// proxyRefuses tries what the exporter has no use for, past the exporter's own guard.
func (n *newcomer) proxyRefuses() {
	n.t.Helper()
	address := strings.TrimSpace(n.run("docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' " + project + "-socket-proxy-1"))
	id := strings.TrimSpace(n.run("docker inspect -f '{{.Id}}' " + xmpp))
	for _, c := range []struct {
		request string
		want    string
	}{
		{"GET /_ping", "200"},
		{"HEAD /_ping", "200"},
		{"GET /v1.41/containers/json?all=1", "200"},
		{"GET /v1.41/containers/" + id + "/json", "200"},
		{"GET /v1.41/containers/" + id + "/stats?stream=0&one-shot=1", "200"},
		{"GET /v1.41/containers/" + id + "/logs?stdout=1", "403"},
		{"GET /v1.41/containers/" + id + "/archive?path=/", "403"},
		{"GET /v1.41/containers/" + id + "/export", "403"},
		{"GET /v1.41/containers/" + id + "/top", "403"},
		{"GET /v1.41/images/json", "403"},
		{"GET /v1.41/secrets", "403"},
		{"GET /v1.41/info", "403"},
		{"GET /v1.41/containers/../images/json", "403"},
		{"GET /v1.41/containers/%2e%2e/json", "403"},
		{"GET /v1.41//containers/json", "403"},
		{"GET /v1.41/containers/json%3f", "403"},
		{"GET /v1.41/containers/" + id + "/json/../archive?path=/", "403"},
		{"GET http://docker/v1.41/images/json", "403"},
		{"POST /v1.41/containers/create", "403"},
		{"POST /v1.41/containers/" + id + "/stop", "403"},
		{"POST /v1.41/containers/" + id + "/json", "403"},
		{"DELETE /v1.41/containers/" + id, "403"},
		{"PUT /v1.41/containers/" + id + "/archive?path=/", "403"},
		{"POST /_ping", "403"},
		{"CONNECT /v1.41/containers/json", "40"},
		{"get /v1.41/containers/json", "40"},
	} {
		if got := wire(n.t, address+":2375", c.request+" HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
			n.t.Errorf("%s through the proxy: %.80q, want status %s", c.request, got, c.want)
		}
	}
	upgrade := "GET /v1.41/containers/json HTTP/1.1\r\nHost: docker\r\nUpgrade: tcp\r\nConnection: Upgrade, close\r\n\r\n"
	if got := wire(n.t, address+":2375", upgrade); strings.HasPrefix(got, "HTTP/1.1 101") {
		n.t.Errorf("the proxy lets a connection be taken over: %.80q", got)
	}
	if n.run("docker inspect -f '{{.State.Running}}' "+xmpp) != "true\n" {
		n.t.Errorf("%s does not run any more", xmpp)
	}
}

// wire sends bytes as they are and returns the beginning of what comes back.
func wire(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var head bytes.Buffer
	if _, err := io.CopyN(&head, conn, 64); err != nil && head.Len() == 0 {
		t.Fatalf("%.60q: %v", request, err)
	}
	return head.String()
}

// loaded asks Prometheus for the rules and the target, and the exporter whether events come through the proxy.
func (n *newcomer) loaded() {
	n.t.Helper()
	prometheus := "http://127.0.0.1:" + n.variable("PROMETHEUS_PORT")
	_, rules := ask(n.t, http.MethodGet, prometheus+"/api/v1/rules?type=alert")
	for _, alert := range []string{"ContainerDown", "TargetDown", "XMPPAuthFailureRate", "Watchdog"} {
		if !strings.Contains(rules, `"name":"`+alert+`"`) {
			n.t.Errorf("prometheus knows no rule %s", alert)
		}
	}
	n.await("bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PROMETHEUS_PORT; printf \"GET /api/v1/query?query=up%%7Bjob=%%22chatstack_exporter%%22%%7D==1 HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'",
		`"instance":"exporter:9655"`, time.Minute)
	_, page := ask(n.t, http.MethodGet, "http://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics")
	for _, line := range []string{
		`chatstack_docker_feature_available{docker_host="local",feature="events"} 1`,
		`chatstack_probe_success{target="docker"} 1`,
		`chatstack_probe_success{target="docker_volumes"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			n.t.Errorf("the page lacks %s", line)
		}
	}
}

// overridesAreSound has the files beside compose.yaml read by those that they are for.
func (n *newcomer) overridesAreSound() {
	n.t.Helper()
	n.run("docker compose -f compose.yaml -f compose.web-config.yaml config --quiet")
	existing := "docker compose -f compose.yaml -f compose.existing-prometheus.yaml config "
	if out, err := n.try(n.t.Context(), existing+"--quiet"); err == nil || !strings.Contains(out, "PROMETHEUS_NETWORK") {
		n.t.Errorf("without PROMETHEUS_NETWORK %q is said: %v", out, err)
	}
	n.run("PROMETHEUS_NETWORK=" + network + " " + existing + "--quiet")
	services := n.run("PROMETHEUS_NETWORK=" + network + " " + existing + "--services | sort | xargs")
	if want := "exporter socket-proxy\n"; services != want {
		n.t.Errorf("beside an existing Prometheus start %q, want %q", services, want)
	}
	// Inside, with the rules that it names.
	if out := n.run("docker compose exec -T prometheus promtool check config /etc/prometheus/prometheus.yml"); !strings.Contains(out, " rules found") {
		n.t.Errorf("prometheus.yml comes without rules:\n%s", out)
	}
	n.run("promtool check config prometheus/scrape.yml")
}

// imageIsReproducible builds the program once more, outside of the image, by the very command of the Dockerfile.
func (n *newcomer) imageIsReproducible() {
	n.t.Helper()
	dockerfile, err := os.ReadFile(filepath.Join(n.dir, "..", "Dockerfile"))
	if err != nil {
		n.t.Fatal(err)
	}
	const out = "/out/chatstack_exporter"
	build := regexp.MustCompile(`(?m)^RUN (GOOS=linux (?:.*\\\n)*.*\./cmd/chatstack_exporter)$`).FindSubmatch(dockerfile)
	if build == nil || !bytes.Contains(build[1], []byte(out)) {
		n.t.Fatal("the Dockerfile has no line that builds the program")
	}
	dir := n.t.TempDir()
	n.run("cd .. && export CGO_ENABLED=0 GOTOOLCHAIN=local BRANCH=unknown && " + strings.ReplaceAll(string(build[1]), out, dir+"/host") + " && cd deploy")
	n.run("docker cp " + project + "-exporter-1:/chatstack_exporter " + dir + "/image")
	var sums []string
	for _, name := range []string{"host", "image"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			n.t.Fatal(err)
		}
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(content)))
	}
	n.t.Logf("sha256 of the program in the image: %s", sums[1])
	if sums[0] != sums[1] {
		n.t.Errorf("outside of the image the same build has sha256 %s\n%s", sums[0], n.run("go version -m "+dir+"/host "+dir+"/image"))
	}
	revision := n.variable("REVISION")
	for label, want := range map[string]string{"version": version, "revision": revision} {
		got := n.run("docker image inspect -f '{{index .Config.Labels \"org.opencontainers.image." + label + "\"}}' " + testImage)
		if strings.TrimSpace(got) != want {
			n.t.Errorf("label %s of the image: %q, want %q", label, got, want)
		}
	}
	if got := n.run(dir + "/image --version 2>&1"); !strings.Contains(got, version) || !strings.Contains(got, revision) {
		n.t.Errorf("the program says %q of itself, want version %s, revision %s", got, version, revision)
	}
}

// figures prints what the image and the running exporter take. The image has an upper limit.
func (n *newcomer) figures() {
	n.t.Helper()
	size := strings.TrimSpace(n.run("docker image inspect -f '{{.Size}}' " + testImage))
	pid := strings.TrimSpace(n.run("docker inspect -f '{{.State.Pid}}' " + project + "-exporter-1"))
	n.t.Logf("image: %s bytes; exporter: %s", size, strings.TrimSpace(n.run("grep VmRSS /proc/"+pid+"/status")))
	if len(size) > 8 || len(size) == 8 && size >= "25000000" {
		n.t.Errorf("the image has %s bytes, want less than 25000000", size)
	}
}

// staysHealthyWhenProtected puts a password, then a demand for client certificates, before the exporter's port.
func (n *newcomer) staysHealthyWhenProtected() {
	n.t.Helper()
	authority := realstack.NewAuthority(n.t)
	certificate, key := authority.Issue("exporter")
	for name, content := range map[string][]byte{"cert.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(n.dir, "exporter", name), content, 0o644); err != nil { //nolint:gosec // read by another user
			n.t.Fatal(err)
		}
	}
	up := "docker compose -f compose.yaml -f compose.web-config.yaml up --detach --no-build --no-deps --force-recreate --wait exporter"
	for _, c := range []struct{ name, config, url string }{
		// The hash of "password".
		{"password", "basic_auth_users:\n  prometheus: $2y$05$Rb7BNcDDLPWRdDAGs7aI.OkkfnFuvPXZvBhyWdrFLBKJeU7LMGHCe\n", "http"},
		{"client certificate", "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n", "https"},
	} {
		if err := os.WriteFile(filepath.Join(n.dir, "exporter", "web.yml"), []byte(c.config), 0o644); err != nil { //nolint:gosec // read by another user
			n.t.Fatal(err)
		}
		n.run(up) // --wait fails unless it becomes healthy
		if c.url == "http" {
			if status, _ := ask(n.t, http.MethodGet, "http://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics"); status != http.StatusUnauthorized {
				n.t.Errorf("with a %s the page answers %d to nobody in particular, want 401", c.name, status)
			}
			continue
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is refused
		req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "https://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics", http.NoBody)
		if err != nil {
			n.t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close() //nolint:errcheck // only read
			n.t.Errorf("with a %s the page answers %d to nobody in particular", c.name, resp.StatusCode)
		}
	}
}
