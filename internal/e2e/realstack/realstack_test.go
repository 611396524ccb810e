//go:build realservers

package realstack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// answer is what came back of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// impatience is how long a hung server is given to show that it does not answer.
const impatience = 300 * time.Millisecond

// patience bounds the wait for what must come.
const patience = time.Minute

// client makes requests on fresh connections.
type client struct{ transport *http.Transport }

func newClient(t *testing.T, config *tls.Config) *client {
	t.Helper()
	c := &client{&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

func unixClient(t *testing.T, host string) *client {
	t.Helper()
	c := newClient(t, nil)
	c.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(host, "unix://"))
	}
	return c
}

func (c *client) do(ctx context.Context, method, url, contentType, body string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(content)}, err
}

func (c *client) get(t *testing.T, url string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := c.do(ctx, http.MethodGet, url, "", "", nil)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	return a
}

func (c *client) fails(t *testing.T, url string, within time.Duration, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	a, err := c.do(ctx, http.MethodGet, url, "", "", nil)
	if !errors.Is(err, want) {
		t.Errorf("get %s = %d, %v, want error %v", url, a.status, err, want)
	}
}

// server is what every real server can do.
type server interface {
	Start()
	Stop()
	Hang()
	Resume()
	Kill()
	PID() int
	Log() string
}

// testLifecycle sees a server stopped, killed and hung, and answering again each time, at the same place.
func testLifecycle(t *testing.T, s server, c *client, url string, want int) {
	t.Helper()
	answers := func(when string) {
		t.Helper()
		if got := c.get(t, url).status; got != want {
			t.Errorf("status %s = %d, want %d", when, got, want)
		}
	}
	stopped := error(syscall.ECONNREFUSED)
	if strings.HasPrefix(url, "http://docker/") {
		stopped = os.ErrNotExist // the engine takes its socket away
	}
	answers("after the start")
	first := s.PID()

	s.Stop()
	c.fails(t, url, patience, stopped)
	if got := s.PID(); got != 0 {
		t.Errorf("PID after Stop = %d, want 0", got)
	}
	s.Start()
	answers("after Stop and Start")
	if got := s.PID(); got == 0 || got == first {
		t.Errorf("PID after Start = %d, want a new one, not %d", got, first)
	}

	s.Hang()
	c.fails(t, url, impatience, context.DeadlineExceeded)
	s.Resume()
	answers("after Hang and Resume")

	s.Kill()
	c.fails(t, url, patience, syscall.ECONNREFUSED)
	s.Start()
	answers("after Kill and Start")

	s.Hang()
	s.Stop()
	c.fails(t, url, patience, stopped)
}

func TestProsodyComesBackAfterEveryEnd(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	testLifecycle(t, p, newClient(t, nil), p.URL()+"/status", http.StatusOK)
}

func TestAthemeComesBackAfterEveryEnd(t *testing.T) {
	a := realstack.StartAtheme(t, realstack.AthemeOptions{})
	testLifecycle(t, a, newClient(t, nil), a.URL(), http.StatusNotFound)
}

func TestNginxComesBackAfterEveryEnd(t *testing.T) {
	n := realstack.StartNginx(t, realstack.NginxOptions{Upstream: "http://127.0.0.1:1"})
	testLifecycle(t, n, newClient(t, &tls.Config{RootCAs: n.Authority.Pool()}), n.URL()+"/health", http.StatusOK)
}

func TestDockerComesBackAfterEveryEnd(t *testing.T) {
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	testLifecycle(t, d, unixClient(t, d.Host), "http://docker/_ping", http.StatusOK)
}

func TestProsodyServesMetricsInItsDialect(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	got := newClient(t, nil).get(t, p.URL()+"/metrics")
	if got.status != http.StatusOK {
		t.Errorf("status = %d, want 200", got.status)
	}
	if got, want := got.header.Get("Content-Type"), "application/openmetrics-text; version=0.0.4"; got != want {
		t.Errorf("content type = %q, want %q", got, want)
	}
	for _, want := range []string{
		"# UNIT prosody_mod_c2s__connections \n# TYPE prosody_mod_c2s__connections gauge\n",
		"\nprosody_stats_collection_seconds_bucket{",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("page lacks %q:\n%s", want, got.body)
		}
	}
	if !strings.HasSuffix(got.body, "# EOF\n") {
		t.Errorf("page ends in %q, want # EOF", got.body[max(0, len(got.body)-20):])
	}
}

func TestProsodyRefusesAsConfigured(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	c := newClient(t, nil)
	for _, tc := range []struct {
		name            string
		options         realstack.ProsodyOptions
		metrics, status int
		metricsBody     string
	}{
		{"nothing", realstack.ProsodyOptions{}, 200, 200, "# EOF\n"},
		{"metrics", realstack.ProsodyOptions{MetricsCIDR: realstack.Elsewhere}, 403, 200, "not allowed to do that"},
		{"status", realstack.ProsodyOptions{StatusCIDR: realstack.Elsewhere}, 200, 403, "# EOF\n"},
		{"statistics off", realstack.ProsodyOptions{NoStatistics: true}, 404, 200, "No statistics provider configured\n"},
		{"no status module", realstack.ProsodyOptions{NoStatus: true}, 200, 404, "# EOF\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.Reconfigure(tc.options)
			metrics := c.get(t, p.URL()+"/metrics")
			if metrics.status != tc.metrics || !strings.Contains(metrics.body, tc.metricsBody) {
				t.Errorf("metrics = %d %.200q, want %d with %q", metrics.status, metrics.body, tc.metrics, tc.metricsBody)
			}
			if got := c.get(t, p.URL()+"/status").status; got != tc.status {
				t.Errorf("status page = %d, want %d", got, tc.status)
			}
		})
	}
}

func TestForwardedAddressReplacesTheClients(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for forwarded, want := range map[string]int{"127.0.0.9": http.StatusOK, "192.0.2.1": http.StatusForbidden} {
		a, err := newClient(t, nil).do(t.Context(), http.MethodGet, p.URL()+"/metrics", "", "", http.Header{"X-Forwarded-For": {forwarded}})
		if err != nil || a.status != want {
			t.Errorf("metrics forwarded for %s = %d, %v, want %d", forwarded, a.status, err, want)
		}
	}
}

// moduleStatus is one entry of the status page.
type moduleStatus struct{ Type, Message, Time string }

func status(t *testing.T, p *realstack.Prosody) map[string]map[string]moduleStatus {
	t.Helper()
	a := newClient(t, nil).get(t, p.URL()+"/status")
	if got, want := a.header.Get("Content-Type"), "application/json"; got != want {
		t.Errorf("content type = %q, want %q", got, want)
	}
	var hosts map[string]map[string]moduleStatus
	if err := json.Unmarshal([]byte(a.body), &hosts); err != nil {
		t.Fatalf("read status page: %v\n%s", err, a.body)
	}
	return hosts
}

func TestStatusListsModulesOfEveryHost(t *testing.T) {
	hosts := status(t, realstack.StartProsody(t, realstack.ProsodyOptions{Modules: []string{"no_such_module"}}))
	for host, module := range map[string]string{
		"*": "http_openmetrics", realstack.XMPPDomain: "saslauth", realstack.OtherDomain: "roster", realstack.ComponentHost: "component",
	} {
		got := hosts[host][module]
		if got.Type != "core" || got.Message != "Loaded" {
			t.Errorf("%s of %s = %+v, want core, Loaded", module, host, got)
		}
		if _, err := time.Parse(time.RFC3339, got.Time); err != nil {
			t.Errorf("time of %s of %s: %v", module, host, err)
		}
	}
	if got, ok := hosts[realstack.XMPPDomain]["no_such_module"]; ok {
		t.Errorf("a module that did not load = %+v, want it absent", got)
	}
}

func TestStatusFollowsTheComponent(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for wantMessage, end := range map[string]func(*realstack.Component) error{
		"Disconnected":               (*realstack.Component).Drop,
		"Disconnected: stream error": (*realstack.Component).Close,
	} {
		c, err := realstack.DialComponent(t.Context(), p.ComponentAddr, realstack.ComponentHost, realstack.ComponentSecret)
		if err != nil {
			t.Fatal(err)
		}
		becomes(t, p, "info", "Connected")
		if err := end(c); err != nil {
			t.Errorf("end component: %v", err)
		}
		becomes(t, p, "warn", wantMessage)
	}
}

// becomes waits until the component says so.
func becomes(t *testing.T, p *realstack.Prosody, wantType, wantMessage string) {
	t.Helper()
	var got moduleStatus
	if !eventually(func() bool {
		got = status(t, p)[realstack.ComponentHost]["component"]
		return got.Type == wantType && got.Message == wantMessage
	}) {
		t.Errorf("component = %+v, want %s, %s", got, wantType, wantMessage)
	}
}

// eventually reports whether a condition holds in time.
func eventually(condition func() bool) bool {
	return exportertest.Eventually(patience, 10*time.Millisecond, condition)
}

func TestComponentWithWrongSecretIsRefused(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	c, err := realstack.DialComponent(t.Context(), p.ComponentAddr, realstack.ComponentHost, "wrong")
	if err == nil {
		c.Close() //nolint:errcheck // it should not be there
		t.Fatal("connected, want an error")
	}
	if !strings.Contains(err.Error(), "not-authorized") {
		t.Errorf("error = %v, want one that says not-authorized", err)
	}
}

func TestHungServerKeepsNoComponentWaitingForEver(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	p.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), impatience)
	defer cancel()
	_, err := realstack.DialComponent(ctx, p.ComponentAddr, realstack.ComponentHost, realstack.ComponentSecret)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestProsodySpeaksToItsUsers(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.ClientAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	header := "<?xml version='1.0'?><stream:stream to='" + realstack.XMPPDomain +
		"' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
	if _, err := io.WriteString(conn, header); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for buf := make([]byte, 4096); !strings.Contains(got.String(), "</stream:features>"); {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("read features: %v, after %q", err, got.String())
		}
	}
	if !strings.Contains(got.String(), "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'>") {
		t.Errorf("features = %q, want STARTTLS", got.String())
	}
	want := `prosody_mod_c2s__connections{host="chat.test",type="c2s_unauthed",ip_family="ipv4"} 1`
	if page := newClient(t, nil).get(t, p.URL()+"/metrics").body; !strings.Contains(page, want+"\n") {
		t.Errorf("page with a stream open lacks %q:\n%s", want, page)
	}
}

func TestAthemeAnswersAsServicesDo(t *testing.T) {
	a := realstack.StartAtheme(t, realstack.AthemeOptions{})
	c := newClient(t, nil)
	root := c.get(t, a.URL())
	if root.status != http.StatusNotFound || !strings.HasPrefix(root.header.Get("Server"), "Atheme/") {
		t.Errorf("root = %d, server %q, want 404 of Atheme", root.status, root.header.Get("Server"))
	}
	for _, tc := range []struct{ name, request, want string }{
		{
			"call", `{"method":"atheme.ison","params":["alice"],"id":"1"}`,
			`{"error":null,"id":"1","result":{"accountname":"*","online":false}}`,
		},
		{
			"wrong credentials", `{"method":"atheme.login","params":["nobody","wrong"],"id":"1"}`,
			`{"error":{"code":3,"message":"The account is not registered."},"id":"1","result":null}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := c.do(t.Context(), http.MethodPost, a.URL()+"jsonrpc", "application/json", tc.request, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusOK || !sameJSON(t, got.body, tc.want) {
				t.Errorf("answer = %d %s, want 200 %s", got.status, got.body, tc.want)
			}
		})
	}
}

func sameJSON(t *testing.T, got, want string) bool {
	t.Helper()
	var canonical [2]bytes.Buffer
	for i, text := range []string{got, want} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("read %q: %v", text, err)
			return false
		}
		if err := json.NewEncoder(&canonical[i]).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return canonical[0].String() == canonical[1].String()
}

func TestNginxIsHealthyWhateverItsUpstreamDoes(t *testing.T) {
	p := realstack.StartProsody(t, realstack.ProsodyOptions{})
	n := realstack.StartNginx(t, realstack.NginxOptions{Upstream: p.URL()})
	c := newClient(t, &tls.Config{RootCAs: n.Authority.Pool()})
	healthy := func(when string) {
		t.Helper()
		if got := c.get(t, n.URL()+"/health"); got.status != http.StatusOK || got.body != "ok\n" {
			t.Errorf("health %s = %d %q, want 200 ok", when, got.status, got.body)
		}
	}
	proxied := func(want int) {
		t.Helper()
		if got := c.get(t, n.URL()+"/status").status; got != want {
			t.Errorf("proxied status page = %d, want %d", got, want)
		}
	}
	healthy("with its upstream")
	proxied(http.StatusOK)
	p.Hang()
	healthy("with a hung upstream")
	c.fails(t, n.URL()+"/status", impatience, context.DeadlineExceeded)
	p.Stop()
	healthy("without an upstream")
	proxied(http.StatusBadGateway)
	p.Start()
	proxied(http.StatusOK)
}

func TestNginxIsNotTrustedByStrangers(t *testing.T) {
	n := realstack.StartNginx(t, realstack.NginxOptions{Upstream: "http://127.0.0.1:1"})
	c := newClient(t, &tls.Config{RootCAs: realstack.NewAuthority(t).Pool()})
	_, err := c.do(t.Context(), http.MethodGet, n.URL()+"/health", "", "", nil)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("error = %v, want one of verification", err)
	}
}

func TestServersKeepTheirPorts(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	a := realstack.StartAtheme(t, realstack.AthemeOptions{Port: port})
	if want := "127.0.0.1:" + strconv.Itoa(port); a.Addr != want {
		t.Errorf("address = %s, want %s", a.Addr, want)
	}
	if got := newClient(t, nil).get(t, a.URL()).status; got != http.StatusNotFound {
		t.Errorf("status = %d, want 404", got)
	}
}

// orphanEnv makes TestServersEndWithTheirTest the test that is killed, and names its directory.
const orphanEnv = "REALSTACK_ORPHAN"

func TestServersEndWithTheirTest(t *testing.T) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		t.Setenv("TMPDIR", dir)
		p := realstack.StartProsody(t, realstack.ProsodyOptions{})
		n := realstack.StartNginx(t, realstack.NginxOptions{Upstream: p.URL()})
		p.Hang()
		fmt.Fprintf(os.Stderr, "%s %s %d %d\n", p.HTTPAddr, n.Addr, p.PID(), n.PID())
		select {} // until it is killed
	}
	// The servers' user must be able to enter it, which TB.TempDir does not allow.
	dir, err := os.MkdirTemp("", "realstack-orphan-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersEndWithTheirTest$")
	cmd.Env = append(os.Environ(), orphanEnv+"="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var (
		prosody, nginx string
		pids           [2]int
	)
	if _, err := fmt.Fscan(stderr, &prosody, &nginx, &pids[0], &pids[1]); err != nil {
		t.Errorf("read addresses: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the test was not killed")
	}
	for _, addr := range []string{prosody, nginx} {
		if !eventually(func() bool {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			if err == nil {
				conn.Close() //nolint:errcheck // it was only to see who listens
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		}) {
			t.Errorf("%s still listens", addr)
		}
	}
	// A server that listens no more still writes to its directory, which is removed next.
	for _, pid := range pids {
		if !eventually(func() bool { return ended(pid) }) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// ended reports whether a process that may be nobody's child has ended.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || bytes.Contains(status, []byte("\nState:\tZ"))
}

func TestDockerAsksForACertificate(t *testing.T) {
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true, TLS: true})
	ca, err := os.ReadFile(filepath.Join(d.CertPath, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(d.CertPath, "cert.pem"), filepath.Join(d.CertPath, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: realstack.NewAuthority(t).Pool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	url := "https://" + strings.TrimPrefix(d.TLSHost, "tcp://") + "/_ping"
	if a, err := newClient(t, config).do(t.Context(), http.MethodGet, url, "", "", nil); err == nil {
		t.Errorf("ping without a certificate = %d, want an error", a.status)
	}
	config.Certificates = []tls.Certificate{own}
	if got := newClient(t, config).get(t, url); got.status != http.StatusOK || got.body != "OK" {
		t.Errorf("ping = %d %q, want 200 OK", got.status, got.body)
	}
}

func TestGivenDockerIsUsed(t *testing.T) {
	engine := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	t.Setenv(realstack.DockerEnv, engine.Host)
	given := realstack.StartDocker(t, realstack.DockerOptions{})
	if given.Host != engine.Host || given.PID() != 0 {
		t.Errorf("host = %s, PID = %d, want %s and no process", given.Host, given.PID(), engine.Host)
	}
}

func TestDockerLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(*realstack.Docker){
		"stopped": func(d *realstack.Docker) { d.Stop() },
		"killed":  func(d *realstack.Docker) { d.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
			runIdle(t, d.Host)
			dir := filepath.Dir(strings.TrimPrefix(d.Host, "unix://"))
			if got := commandsNaming(t, dir); len(got) < 3 {
				t.Errorf("with a container run %q, want the engine, containerd and a shim", got)
			}
			end(d)
			if got := commandsNaming(t, dir); len(got) > 0 {
				t.Errorf("left behind: %q", got)
			}
			if got := commandsNaming(t, idle); len(got) > 0 {
				t.Errorf("left behind: %q", got)
			}
			mounts, err := os.ReadFile("/proc/self/mounts")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(mounts), dir) {
				t.Errorf("still mounted below %s:\n%s", dir, mounts)
			}
		})
	}
}

// idle is the path of the only program of the test's image.
const idle = "/realstack-idle"

// runIdle runs a container of an image that holds one program.
func runIdle(t *testing.T, host string) {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, arg ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, arg...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, arg, err, output)
		}
	}
	run("go", "build", "-o", filepath.Join(dir, idle), "./testdata/idle")
	run("tar", "-C", dir, "-cf", filepath.Join(dir, "image.tar"), strings.TrimPrefix(idle, "/"))
	run("docker", "-H", host, "import", filepath.Join(dir, "image.tar"), "idle")
	run("docker", "-H", host, "run", "--detach", "--network=none", "idle", idle)
}

// commandsNaming are the command lines of processes that hold a text, this test's own aside.
func commandsNaming(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), text) && filepath.Dir(file) != "/proc/"+strconv.Itoa(os.Getpid()) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}
