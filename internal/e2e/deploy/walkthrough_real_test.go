//go:build realservers

package deploy

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// imagesEnv names the images that stand for those of registries; .ci/deploy-images prints them.
var imagesEnv = []string{"PROMETHEUS_IMAGE", "ALERTMANAGER_IMAGE", "SOCKET_PROXY_IMAGE", "GRAFANA_IMAGE"}

// What the test makes on the engine is called so, beside the compose project of the page.
const (
	project  = "chatstack-monitoring"
	network  = "chatstack-walkthrough"
	xmpp     = "chat-xmpp-1"
	webPanel = "chat-web-panel-1"
	receiver = "chatstack-walkthrough-receiver"
	// A Prometheus that was there before.
	theirs = "chatstack-walkthrough-prometheus"
	// What is for a node of a swarm.
	node      = "chatstack-walkthrough-node"
	testImage = "chatstack_exporter:walkthrough"
	version   = "0.0.0-walkthrough"
)

// patience is how long what is sure to come may take on a machine that does something else besides.
const patience = 5 * time.Minute

// newcomer is somebody who follows the page, with a shell in one directory after the other.
type newcomer struct {
	t   *testing.T
	dir string
	env []string
	// upstream is where the tree is cloned from, and pulled.
	upstream string
	followed map[string]bool
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

// follow runs the block of commands of the page that begins so, one of those that are walked.
func (n *newcomer) follow(begin string) string {
	n.t.Helper()
	if !slices.Contains(known.Walked, begin) {
		n.t.Fatalf("%q is not among those that are walked", begin)
	}
	for _, block := range blocks(n.t) {
		if strings.HasPrefix(block, begin) {
			n.followed[begin] = true
			began := time.Now()
			out := n.run(block)
			n.t.Logf("%.0f s:\n%s", time.Since(began).Seconds(), block)
			return out
		}
	}
	n.t.Fatalf("no page has commands that begin with %q", begin)
	return ""
}

// arrive prepares the machine: the stack that is to be watched, who is to be told, and the settings that the newcomer has
// in mind.
func arrive(t *testing.T) *newcomer {
	t.Helper()
	engine := os.Getenv("CHATSTACK_TEST_DOCKER")
	if engine == "" {
		t.Fatal("CHATSTACK_TEST_DOCKER names no container engine; make test-deploy says how this is run")
	}
	root, err := filepath.Abs("../../..")
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
case $1 in
.env)
	sed -i 's#^STACK_NETWORK=.*#STACK_NETWORK=` + network + `#;s#^XMPP_REST_URL=.*#XMPP_REST_URL=http://xmpp:5280#' .env
	printf http://` + receiver + `:8080/hook >secrets/chat_webhook_url ;;
exporter.local/exporter.yaml)
	echo 'alerts: {container_unhealthy: {critical: {after: 7m}}}' >>"$1" ;;
prometheus.local.yml)
	sed -i 's/# basic_auth:/basic_auth:/;s/# scheme:/scheme:/;s/# tls_config:/tls_config:/;s/chat.example.org/chatstack-exporter/' "$1"
	printf password >"$2" ;;
*) exit 1 ;;
esac
`
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	upstream := filepath.Join(home, "upstream.git")
	n := &newcomer{
		t:        t,
		dir:      t.TempDir(),
		upstream: upstream,
		followed: map[string]bool{},
		env: append(os.Environ(),
			"HOME="+home, "DOCKER_CONFIG="+filepath.Join(home, ".docker"), "EDITOR="+editor,
			"DOCKER_HOST="+engine, "DOCKER_SOCKET="+strings.TrimPrefix(engine, "unix://"),
			"EXPORTER_IMAGE="+testImage, "BUILD_NETWORK=host", "DOCKER_BUILDKIT=0",
			"EXPORTER_PORT="+port(t), "PROMETHEUS_PORT="+port(t), "ALERTMANAGER_PORT="+port(t), "GRAFANA_PORT="+port(t),
			// The page's address is what is committed to this very tree.
			"GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=url."+upstream+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/chatstack-exporter/chatstack_exporter",
			"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
		),
	}
	for _, name := range imagesEnv {
		if os.Getenv(name) == "" {
			t.Fatalf("%s is not set; make test-deploy says how this is run", name)
		}
	}
	// What is removed at the end has names that a stack of somebody's may have as well.
	there := strings.Fields(n.run("docker ps --all --format '{{.Names}}'; docker network ls --format '{{.Name}}'"))
	for _, name := range []string{xmpp, webPanel, receiver, theirs, network, project + "_monitoring"} {
		if slices.Contains(there, name) {
			t.Fatalf("%s is on the engine already: of another run, which goes on or was killed, or a stack of yours. "+
				"Remove it if it is a leftover, or name an engine in CHATSTACK_TEST_DOCKER that may be thrown away", name)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if t.Failed() {
			out, _ := n.try(ctx, "[ ! -e compose.yaml ] || { docker compose ps --all; docker compose logs --tail 40; }")
			t.Log(out)
		}
		command := fmt.Sprintf("failed=0; docker rm -f %s %s %s %s || failed=1; if [ -e compose.yaml ]; "+
			"then COMPOSE_FILE=compose.yaml docker compose down --volumes --timeout 1 || failed=1; docker compose -p %s down --volumes "+
			"--timeout 1 || failed=1; fi; docker rmi -f %s || failed=1; docker network rm %s %s || failed=1; [ $failed = 0 ]",
			xmpp, webPanel, receiver, theirs, node, testImage, network, theirs)
		if out, err := n.try(ctx, command); err != nil {
			t.Errorf("clear up: %v\n%s", err, out)
		}
	})
	n.env = append(n.env, "VERSION="+version, "REVISION="+strings.TrimSpace(n.run("git -C "+root+" rev-parse HEAD")))
	n.run("git clone --quiet --bare " + root + " " + upstream)
	n.run("docker network create " + network)
	n.run("docker network create " + theirs)
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
func (n *newcomer) await(command, want string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	var out string
	if !exportertest.Eventually(patience, time.Second, func() bool {
		latest, err := n.try(ctx, command)
		if err == nil {
			out = latest
		}
		return err == nil && strings.Contains(out, want)
	}) {
		n.t.Fatalf("%s: %q does not come within %v\n%s", command, want, patience, out)
	}
}

// ask is the page at one of the stack's ports.
func ask(t *testing.T, url string) string {
	t.Helper()
	body, err := exportertest.Fetch(t.Context(), patience, url)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestRealNewcomerIsToldInTheChannel(t *testing.T) {
	composeKnowsItsOptions(t)
	n := arrive(t)
	begun := time.Now()
	n.follow("git clone ")
	n.follow("install -m 0600 .env.example .env")
	n.follow("${EDITOR:-vi} .env")
	n.follow("docker compose config --quiet")
	n.follow("docker compose up --detach --wait --force-recreate")
	t.Logf("up after %.0f s", time.Since(begun).Seconds())
	checked := n.follow("docker compose ps")
	if !strings.Contains(checked, "4 up, 0 down") {
		t.Errorf("check in the container says\n%s\nwant 4 up: docker, docker_volumes, xmpp_status, xmpp_metrics", checked)
	}
	n.run("docker run --detach --name " + receiver + " --network " + project + "_monitoring chatstack-local-receiver")

	n.initFindsTheStack()
	n.holdsRestrictions()
	n.proxyRefuses()
	n.loaded()
	n.overridesAreSound()
	n.figures()
	if testing.Short() {
		n.goesAway()
		return
	}

	n.follow("CONTAINER=")
	n.await("docker logs "+receiver, "[WARNING] Container "+webPanel+" ")
	t.Logf("told after %.0f s", time.Since(begun).Seconds())
	n.env = append(n.env, "CONTAINER="+webPanel) // a shell of its own does not know the variable
	n.follow("docker start ")
	n.imageIsReproducible()
	n.hasSettingsOfTheirOwn()
	n.staysHealthyWhenProtected()
	n.upgrades()
	n.besideTheirPrometheus()
	n.doesNotStart()
	n.goesAway()
	n.nodeOfSwarm()
	for _, begin := range known.Walked {
		if !n.followed[begin] {
			t.Errorf("the commands that begin with %q were not run", begin)
		}
	}
}

// initFindsTheStack runs init in the exporter's container, behind the proxy and on the stack's network.
func (n *newcomer) initFindsTheStack() {
	n.t.Helper()
	exporter := "docker compose exec -T chatstack-exporter /chatstack_exporter --config.file=/var/lib/chatstack_exporter/found.yaml "
	out := n.run(exporter + "init")
	for _, want := range []string{
		", Compose project chat, 2 containers\n", "xmpp_status at http://xmpp:5280/status; xmpp_metrics at http://xmpp:5280/metrics;",
		// the stand-in of the web panel has no page
		"web_panel at http://" + webPanel + ":8080/\n", "Wrote /var/lib/chatstack_exporter/found.yaml: 5 targets", "4 up, 1 down",
	} {
		if !strings.Contains(out, want) {
			n.t.Errorf("init in the container does not say %q:\n%s", want, out)
		}
	}
	n.run(exporter + "check-config")
	if !strings.Contains(out, "environment: sets XMPP_REST_URL\n") {
		n.t.Errorf("the one variable is not named alone, or empty files of secrets count as set:\n%s", out)
	}
	if out, err := n.try(n.t.Context(), exporter+"init"); err == nil || !strings.Contains(out, "is already there") {
		n.t.Errorf("init overwrites a file: %v\n%s", err, out)
	}
}

// holdsRestrictions asks the engine, not the file, what the containers may do.
func (n *newcomer) holdsRestrictions() {
	n.t.Helper()
	for _, service := range []string{"chatstack-exporter", "socket-proxy", "prometheus", "alertmanager", "grafana"} {
		var all []struct {
			Config     struct{ User string }
			HostConfig struct {
				ReadonlyRootfs bool
				CapDrop        []string
				SecurityOpt    []string
				Memory         int64
				NanoCpus       int64
				PidsLimit      int64
				LogConfig      struct{ Config map[string]string }
				Privileged     bool
				PortBindings   map[string][]struct{ HostIP string }
			}
			Mounts          []struct{ Source string }
			State           struct{ Health struct{ Status string } }
			NetworkSettings struct {
				Networks map[string]struct{ Aliases []string }
			}
		}
		out := n.run("docker inspect " + project + "-" + service + "-1")
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			n.t.Fatal(err)
		}
		c := all[0]
		h := c.HostConfig
		if !h.ReadonlyRootfs || h.Privileged || h.Memory == 0 || strings.Join(h.CapDrop, "") != "ALL" ||
			strings.Join(h.SecurityOpt, "") != "no-new-privileges:true" {
			n.t.Errorf("%s is not restricted: %+v", service, h)
		}
		if h.NanoCpus == 0 || h.PidsLimit <= 0 || h.LogConfig.Config["max-size"] == "" {
			n.t.Errorf("%s has no limit of processors (%d), processes (%d) or logs (%v)",
				service, h.NanoCpus, h.PidsLimit, h.LogConfig.Config)
		}
		for _, alias := range c.NetworkSettings.Networks[network].Aliases {
			// Its container's name, id and service; the stack may have an exporter or a socket-proxy.
			if !strings.Contains(alias, "chatstack") && !regexp.MustCompile("^[0-9a-f]{12}$").MatchString(alias) {
				n.t.Errorf("%s is called %s on the stack's network", service, alias)
			}
		}
		if c.Config.User == "" || strings.HasPrefix(c.Config.User, "0") || strings.HasPrefix(c.Config.User, "root") {
			n.t.Errorf("%s runs as %q", service, c.Config.User)
		}
		if c.State.Health.Status != "healthy" {
			n.t.Errorf("%s is %q, want healthy", service, c.State.Health.Status)
		}
		if strings.Contains(fmt.Sprint(c.Mounts), "docker.sock") != (service == "socket-proxy") {
			n.t.Errorf("%s has mounts %v; the socket is for the proxy alone", service, c.Mounts)
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
	address := strings.TrimSpace(n.run("docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' " +
		project + "-socket-proxy-1"))
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
		if got := wire(n.t, address+":2375", c.request+" HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got,
			"HTTP/1.1 "+c.want) {
			n.t.Errorf("%s through the proxy: %.80q, want status %s", c.request, got, c.want)
		}
	}
	for _, c := range []struct{ rest, want string }{
		{"Content-Length: 1\r\n\r\nx", "200"}, // which the engine does not get
		{"Content-Length: 2\r\n\r\n{}", "413"},
		{"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "413"},
		{"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n", "413"},
		{"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "400"},
		{"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\nx\r\n0\r\n\r\n", "400"},
	} {
		request := "GET /v1.41/containers/json HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n" + c.rest
		if got := wire(n.t, address+":2375", request); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
			n.t.Errorf("%q through the proxy: %.80q, want status %s", c.rest, got, c.want)
		}
	}
	// As it was asked for, without what stands after the question mark.
	log := n.run("docker compose logs --no-log-prefix socket-proxy")
	for _, want := range []string{
		"refused: GET /v1.41/containers/%2e%2e/json, status 403\n",
		"refused: GET /v1.41/containers/" + id + "/json/../archive, status 403\n",
	} {
		if !strings.Contains(log, want) {
			n.t.Errorf("the proxy's log lacks %s", want)
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
	rules := ask(n.t, prometheus+"/api/v1/rules?type=alert")
	for _, alert := range []string{"ContainerDown", "TargetDown", "XMPPAuthFailureRate", "Watchdog"} {
		if !strings.Contains(rules, `"name":"`+alert+`"`) {
			n.t.Errorf("prometheus knows no rule %s", alert)
		}
	}
	n.await("bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PROMETHEUS_PORT; "+
		"printf \"GET /api/v1/query?query=up%%7Bjob=%%22chatstack_exporter%%22%%7D==1 HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'",
		`"instance":"chatstack-exporter:9655"`)
	page := ask(n.t, "http://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics")
	for _, line := range []string{
		`chatstack_docker_feature_available{docker_host="local",feature="events"} 1`,
		`chatstack_probe_success{target="docker"} 1`,
		`chatstack_probe_success{target="docker_volumes"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			n.t.Errorf("the page lacks %s", line)
		}
	}
	if log := n.run("docker compose logs chatstack-exporter"); strings.Contains(log, "memory limit is too low") {
		n.t.Errorf("the memory limit does not do for the default limits:\n%s", log)
	}
}

// overridesAreSound has the files beside compose.yaml read by those that they are for.
func (n *newcomer) overridesAreSound() {
	n.t.Helper()
	existing := "COMPOSE_FILE=compose.yaml:compose.existing-prometheus.yaml docker compose config "
	if out, err := n.try(n.t.Context(), existing+"--quiet"); err == nil || !strings.Contains(out, "PROMETHEUS_NETWORK") {
		n.t.Errorf("without PROMETHEUS_NETWORK %q is said: %v", out, err)
	}
	n.run("PROMETHEUS_NETWORK=" + theirs + " " + existing + "--quiet")
	services := n.run("PROMETHEUS_NETWORK=" + theirs + " " + existing + "--services | sort | xargs")
	if want := "chatstack-exporter socket-proxy\n"; services != want {
		n.t.Errorf("beside an existing Prometheus start %q, want %q", services, want)
	}
	// Inside, with the rules that it names.
	if out := n.run("docker compose exec -T prometheus promtool check config /etc/prometheus/prometheus.yml"); !strings.Contains(out,
		" rules found") {
		n.t.Errorf("prometheus.yml comes without rules:\n%s", out)
	}
	n.run("promtool check config prometheus/scrape.yml")
	// Links in messages: as they are told to be.
	links := n.run("PROMETHEUS_URL=https://prometheus.example.org/ ALERTMANAGER_URL=https://alerts.example.org/ docker compose config")
	for _, want := range []string{"--web.external-url=https://prometheus.example.org/", "--web.external-url=https://alerts.example.org/"} {
		if !strings.Contains(links, want) {
			n.t.Errorf("compose.yaml does not pass on %s", want)
		}
	}
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
	n.run("cd .. && export CGO_ENABLED=0 GOTOOLCHAIN=local BRANCH=unknown && " +
		strings.ReplaceAll(string(build[1]), out, dir+"/host") + " && cd deploy")
	n.run("docker cp " + project + "-chatstack-exporter-1:/chatstack_exporter " + dir + "/image")
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
	pid := strings.TrimSpace(n.run("docker inspect -f '{{.State.Pid}}' " + project + "-chatstack-exporter-1"))
	n.t.Logf("image: %s bytes; exporter: %s", size, strings.TrimSpace(n.run("grep VmRSS /proc/"+pid+"/status")))
	if len(size) > 8 || len(size) == 8 && size >= "40000000" {
		n.t.Errorf("the image has %s bytes, want less than 40000000", size)
	}
}

// hasSettingsOfTheirOwn changes the exporter's file, has it read anew, and has rules made of its thresholds.
func (n *newcomer) hasSettingsOfTheirOwn() {
	n.t.Helper()
	n.follow("cp -r exporter exporter.local")
	page := "wget -q -O - http://127.0.0.1:" + n.variable("EXPORTER_PORT") + "/metrics"
	n.run("echo 'no_such_key: 1' >>exporter.local/exporter.yaml")
	n.follow("docker compose kill --signal HUP chatstack-exporter")
	n.await(page, "chatstack_config_last_reload_successful 0")
	n.run("sed -i '/no_such_key/d' exporter.local/exporter.yaml")
	n.follow("docker compose kill --signal HUP chatstack-exporter")
	n.await(page, "chatstack_config_last_reload_successful 1")
	n.follow("docker compose exec -T chatstack-exporter /chatstack_exporter rules")
	n.run("promtool check rules rules.local.yml")
	n.awaitRules(`\u003e 420`) // the seven minutes of the editor
}

// awaitRules waits until Prometheus has rules with the text.
func (n *newcomer) awaitRules(text string) {
	n.t.Helper()
	n.await("wget -q -O - 'http://127.0.0.1:"+n.variable("PROMETHEUS_PORT")+"/api/v1/rules?type=alert'", text)
}

// write makes a file that users of containers can read, below the newcomer's directory.
func (n *newcomer) write(name string, content []byte) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), content, 0o644); err != nil { //nolint:gosec // read by another user
		n.t.Fatal(err)
	}
}

// staysHealthyWhenProtected puts TLS and a password, then a demand for client certificates, before the exporter's port.
func (n *newcomer) staysHealthyWhenProtected() {
	n.t.Helper()
	authority := realstack.NewAuthority(n.t)
	certificate, key := authority.Issue("chatstack-exporter", "127.0.0.1")
	signed, err := os.ReadFile(authority.File)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("exporter.local/cert.pem", certificate)
	n.write("secrets/web_key", key)
	n.write("secrets/web_ca", signed)
	n.run("sed -i 's#^\\(WEB_KEY\\|SCRAPE_PASSWORD\\|WEB_CA\\)_FILE=.*#\\1_FILE=./secrets/\\L\\1#' .env")
	const served = "tls_server_config:\n  cert_file: cert.pem\n  key_file: /run/secrets/web_key\n"
	// The hash of "password".
	password := served + "basic_auth_users:\n  prometheus: $2a$05$WY9EzLbTFOIdjW37odODau.Xzaai8TBE1bz7gRY5wuxgM5P.v04FK\n"
	n.write("exporter.local/web.yml", []byte(password))
	n.follow("cp prometheus/prometheus.yml prometheus.local.yml") // --wait fails unless it becomes healthy
	n.wantsPassword(authority)
	n.scrapedWell("http://127.0.0.1:"+n.variable("PROMETHEUS_PORT"), "https://chatstack-exporter:9655/metrics")

	n.write("exporter.local/web.yml", []byte(served+"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n"))
	n.run("docker compose up --detach --no-deps --force-recreate --wait chatstack-exporter")
	if status, err := n.askProtected(authority); err == nil {
		n.t.Errorf("with demand for a client certificate the page answers %d to nobody in particular", status)
	}
	n.write("exporter.local/web.yml", []byte(password))
}

// askProtected asks for the exporter's page without a password or a certificate.
func (n *newcomer) askProtected(authority *realstack.Authority) (int, error) {
	n.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet,
		"https://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics", http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func (n *newcomer) wantsPassword(authority *realstack.Authority) {
	n.t.Helper()
	if status, err := n.askProtected(authority); err != nil || status != http.StatusUnauthorized {
		n.t.Errorf("the page answers %d, %v to nobody in particular; want 401", status, err)
	}
}

// scrapedWell waits until a Prometheus gets the exporter's page at an address.
func (n *newcomer) scrapedWell(prometheus, address string) {
	n.t.Helper()
	n.await("wget -q -O - "+prometheus+"/api/v1/targets | tr '{' '\\n' | grep '\"scrapeUrl\":\""+address+"\"'", `"health":"up"`)
}

// upgrades changes a rule file and the proxy's configuration upstream, as git does it: with a new file in place of the old.
// With containers that go on they would stay as they were. The password must stay, too.
func (n *newcomer) upgrades() {
	n.t.Helper()
	n.run("sed -i 's#^RULES_FILE=.*#RULES_FILE=../alerts/chatstack.rules.yml#' .env")
	n.run("docker compose up --detach --wait")
	work := filepath.Join(n.t.TempDir(), "work")
	n.run("git clone --quiet " + n.upstream + " " + work + ` && (cd ` + work + `
printf '  - name: upgraded\n    rules:\n      - alert: UpgradeCame\n        expr: vector(0) > 1\n' >>alerts/chatstack.rules.yml
echo '# upgraded' >>deploy/socket-proxy/nginx.conf
promtool check rules alerts/chatstack.rules.yml
git -c user.name=upstream -c user.email=upstream@example.org commit --quiet --all --message 'alerts: add a rule'
git push --quiet)`)
	n.follow("git pull")
	n.awaitRules(`"name":"UpgradeCame"`)
	n.run("docker compose exec -T socket-proxy cat /etc/nginx/nginx.conf | grep '^# upgraded$'")
	if command := n.run("docker inspect -f '{{.Args}}' " + project + "-chatstack-exporter-1"); !strings.Contains(command,
		"--web.config.file") {
		n.t.Errorf("after the upgrade the exporter runs with %s, without its password", command)
	}
}

// besideTheirPrometheus has a Prometheus that was there before scrape the exporter, by the job that is for it.
func (n *newcomer) besideTheirPrometheus() {
	n.t.Helper()
	n.run("sed -i 's#^PROMETHEUS_NETWORK=.*#PROMETHEUS_NETWORK=" + theirs + "#' .env")
	n.follow("sed -i 's/^COMPOSE_FILE=.*/COMPOSE_FILE=compose.yaml:compose.existing-prometheus.yaml/'")
	config := filepath.Join(n.t.TempDir(), "prometheus.yml")
	n.run("sed 's/localhost:9655/chatstack-exporter:9655/' prometheus/scrape.yml >" + config)
	number := port(n.t)
	n.run("docker run --detach --name " + theirs + " --network " + theirs + " --publish 127.0.0.1:" + number + ":9090" +
		" --volume " + config + ":/prometheus.yml:ro $PROMETHEUS_IMAGE --config.file=/prometheus.yml --storage.tsdb.path=/prometheus")
	n.scrapedWell("http://127.0.0.1:"+number, "http://chatstack-exporter:9655/metrics")
	n.run("sed -i 's/^COMPOSE_FILE=.*/COMPOSE_FILE=compose.yaml/' .env")
	n.follow("docker compose up --detach --wait chatstack-exporter socket-proxy")
}

// doesNotStart makes the mistakes of the page's table, and holds that what is said then is what the table has.
func (n *newcomer) doesNotStart() {
	n.t.Helper()
	const up = " docker compose up --detach --wait chatstack-exporter socket-proxy"
	for _, c := range []struct{ name, command, want string }{
		{"command", "DOCKER_CONFIG=/nonexistent docker compose config --quiet", "unknown flag: --quiet"},
		{"network", "STACK_NETWORK=no-such-network" + up, "declared as external, but could not be found"},
		{"variable", "DOCKER_GID=" + up, "set it in .env - "},
		{"port", "EXPORTER_PORT=$ALERTMANAGER_PORT" + up, "port is already allocated"},
		{"secret", "IRC_RPC_PASSWORD_FILE=./secrets/irc_password" + up, "bind source path does not exist"},
		{"directory", "EXPORTER_CONFIG=./exporter.lcoal" + up, "bind source path does not exist"},
		{"socket", "DOCKER_SOCKET=unix://$DOCKER_SOCKET" + up, "bind source path does not exist"},
		{"number of the group", "DOCKER_GID=docker" + up, "unable to find group"},
		{"address", "EXPORTER_ADDRESS=localhost" + up, "invalid IP address: localhost"},
		// The exporter starts all the same, to tell of it.
		{"group", "DOCKER_GID=1" + up, "socket-proxy-1 is unhealthy"},
	} {
		out, err := n.try(n.t.Context(), c.command)
		if err == nil || !strings.Contains(out, c.want) {
			n.t.Errorf("with a wrong %s is said: %v, want %s\n%s", c.name, err, c.want, out)
		}
		if !strings.Contains(read(n.t, "README.md"), strings.Trim(c.want, "- ")) && c.name != "group" {
			n.t.Errorf("the page's table lacks %s", c.want)
		}
	}
	n.await("wget -q -O - http://127.0.0.1:"+n.variable("EXPORTER_PORT")+"/metrics", "chatstack_probe_success{target=\"docker\"} 0\n")
	if log := n.run("docker compose logs socket-proxy"); !strings.Contains(log, "Permission denied") {
		n.t.Errorf("with a wrong group the proxy's log says\n%s", log)
	}
}

// goesAway holds what each of the two ways leaves.
func (n *newcomer) goesAway() {
	n.t.Helper()
	n.run("docker rm -f " + receiver) // it is on their network
	left := "docker ps --all --quiet --filter label=com.docker.compose.project=" + project +
		" | wc -l; docker volume ls --quiet --filter label=com.docker.compose.project=" + project + " | wc -l"
	n.follow("docker compose down\n")
	if got := n.run(left); got != "0\n4\n" {
		n.t.Errorf("after down there are so many containers and volumes: %q, want 0 and 4", got)
	}
	n.follow("docker compose down --volumes")
	if got := n.run(left); got != "0\n0\n" {
		n.t.Errorf("after down --volumes there are so many containers and volumes: %q", got)
	}
}

// nodeOfSwarm has docker stack read the files for a swarm, and starts what they say is for each node, under the names that
// Compose has for it: the exporter sees its engine, though nothing but the proxy has the engine's socket.
func (n *newcomer) nodeOfSwarm() {
	n.t.Helper()
	n.write("swarm/web.yml", nil)
	n.run("docker stack config --compose-file swarm/stack.yaml --compose-file swarm/stack.web-config.yaml")
	n.run("rm swarm/web.yml")
	n.run("sed 's/{{ .Node.Hostname }}/node-1/' swarm/node.yaml >node.local.yaml")
	// What is the swarm's: the overlay network, the template, the port on all addresses. And where this engine's socket is.
	n.write("swarm.local.yaml", []byte(`
services:
  socket-proxy:
    volumes: ["${DOCKER_SOCKET}:/var/run/docker.sock:ro"]
  node:
    ports: !reset []
networks:
  alone: {driver: bridge}
configs:
  chatstack_node: !override {file: `+filepath.Join(n.dir, "node.local.yaml")+`}
`))
	compose := "CHATSTACK_IMAGE=$EXPORTER_IMAGE DOCKER_GID=$(stat -c %g $DOCKER_SOCKET) docker compose -p " + node +
		" -f swarm/stack.yaml -f swarm.local.yaml "
	n.run(compose + "up --detach --wait socket-proxy node")
	if got := n.run(compose + "exec -T node /chatstack_exporter check"); !strings.Contains(got, "1 up, 0 down") {
		n.t.Errorf("on a node of a swarm check says\n%s", got)
	}
	n.run("docker kill " + node + "-socket-proxy-1 && " + compose + "up --detach --wait socket-proxy") // though its socket is left
	n.await(compose+"exec -T node /chatstack_exporter check", "1 up, 0 down")
	n.run(compose + "down --volumes --timeout 1")
	// Secrets are not there; everything else is.
	n.run("mkdir bin && docker create --name " + theirs + "-program $EXPORTER_IMAGE && docker cp " + theirs +
		"-program:/chatstack_exporter bin/ && docker rm " + theirs + "-program")
	n.env = append(n.env, "PATH="+filepath.Join(n.dir, "bin")+":"+os.Getenv("PATH"))
	n.dir = filepath.Join(n.dir, "many-hosts")
	n.follow("chatstack_exporter check-config --without-secrets")
	n.dir = filepath.Dir(n.dir)
}
