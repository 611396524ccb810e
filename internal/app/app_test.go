package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// logBuffer is a log that may be read while it is written.
type logBuffer = exportertest.Log

// networks are those of the tests that run in simulated time, by the test.
var networks sync.Map

// inSimulatedTime runs a test in simulated time, with its stack and its exporter on a network in memory: waiting costs nothing,
// and a busy machine makes no reading late.
func inSimulatedTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, new(simstack.Network))
		t.Cleanup(func() { networks.Delete(t) })
		test(t)
	})
}

// networkOf is the test's network in memory; nil is the machine's.
func networkOf(t *testing.T) *simstack.Network {
	t.Helper()
	if n, ok := networks.Load(t); ok {
		return n.(*simstack.Network) //nolint:forcetypeassert // nothing else is stored
	}
	return nil
}

// testClient makes a client with a connection for each request, by the test's network.
func testClient(t *testing.T) http.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if n := networkOf(t); n != nil {
		transport.DialContext = n.Dial
	}
	return http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// listenOnLoopback listens on the test's network.
func listenOnLoopback(t *testing.T) net.Listener {
	t.Helper()
	listen := net.Listen
	if n := networkOf(t); n != nil {
		listen = n.Listen
	}
	l, err := listen("tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

// serve starts a server on the test's network that ends with the test, and returns its address as a URL.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := &httptest.Server{Listener: listenOnLoopback(t), Config: &http.Server{Handler: handler}} //nolint:gosec // a test's
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// contextOf is the test's context, under which collectors connect by the test's network.
func contextOf(t *testing.T) context.Context {
	t.Helper()
	return onNetworkOf(t.Context(), t)
}

func onNetworkOf(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	if n := networkOf(t); n != nil {
		return exchange.WithDialer(ctx, n.Dial)
	}
	return ctx
}

// exporter is an App under test that polls faster than a configuration can say.
type exporter struct {
	app    *App
	url    string
	log    *logBuffer
	stop   func() error
	client http.Client

	mu     sync.Mutex
	body   []byte // of the last page, and what it says
	parsed page
}

func options(env map[string]string, log io.Writer) Options {
	address, none := []string{"127.0.0.1:0"}, ""
	return Options{
		Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Timeout: 3 * time.Second,
		Web:     &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none},
		Log:     slog.New(slog.NewTextHandler(log, nil)),
	}
}

// with has a configuration file of this content.
func (o Options) with(content string) Options {
	o.ConfigFile, o.configContent = "exporter.yaml", []byte(content)
	return o
}

func startExporter(t *testing.T, env map[string]string, content string) *exporter {
	t.Helper()
	log := &logBuffer{}
	o := options(env, log)
	if content != "" {
		o = o.with(content)
	}
	return startApp(t, o, log)
}

func startApp(t *testing.T, o Options, log *logBuffer) *exporter {
	t.Helper()
	e := &exporter{log: log, client: testClient(t)}
	every := 100 * time.Millisecond
	if n := networkOf(t); n != nil {
		o.Listen = n.Listen
		every = 500 * time.Millisecond
	}
	if o.pace == nil {
		o.pace = func(string) (time.Duration, time.Duration) { return every, 0 }
	}
	a, err := New(o)
	must(t, err)
	e.app = a
	ctx, cancel := context.WithCancel(onNetworkOf(context.Background(), t))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var once sync.Once
	var result error
	e.url = "http://" + a.Addresses()[0].String()
	e.stop = func() error {
		once.Do(func() { cancel(); result = <-ended })
		return result
	}
	t.Cleanup(func() {
		if err := e.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		if t.Failed() {
			t.Log(e.log)
		}
	})
	return e
}

func startStack(t *testing.T, o simstack.Options) *simstack.Stack {
	t.Helper()
	o.Network = networkOf(t)
	return simstacktest.Start(t, o)
}

// only are the variables of a stack that begin so.
func only(stack *simstack.Stack, prefixes ...string) map[string]string {
	env := stack.Environ()
	maps.DeleteFunc(env, func(name, _ string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	return env
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (e *exporter) get(t *testing.T, path string, header http.Header) reply {
	t.Helper()
	return e.do(t, http.MethodGet, path, "", header)
}

// do makes one request, on a connection of its own.
func (e *exporter) do(t *testing.T, method, path, body string, header http.Header) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.url+path, strings.NewReader(body))
	must(t, err)
	req.Header = header
	resp, err := e.client.Do(req)
	must(t, err)
	defer resp.Body.Close() //nolint:errcheck // read to its end
	answer, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp.StatusCode, resp.Header, answer}
}

// fetch is the page at an address.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	body, err := exportertest.Fetch(t.Context(), patience, url)
	must(t, err)
	return body
}

// page is a scraped text page.
type page = exportertest.Page

func (e *exporter) scrape(t *testing.T) page {
	t.Helper()
	body := e.get(t, "/metrics", http.Header{}).body
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parsed != nil && bytes.Equal(body, e.body) {
		return e.parsed // to read a page is what most of the time goes into
	}
	parsed, err := exportertest.ParsePage(body)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	e.body, e.parsed = body, parsed
	return parsed
}

// between is the time between two looks at a page. In simulated time each look costs, and the time does not.
func between(t *testing.T) time.Duration {
	t.Helper()
	if networkOf(t) != nil {
		return 500 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// wait polls until the page is as it should be.
func (e *exporter) wait(t *testing.T, what string, reached func(page) bool) page {
	t.Helper()
	var p page
	if !exportertest.Eventually(20*time.Second, between(t), func() bool { p = e.scrape(t); return reached(p) }) {
		t.Errorf("never reached: %s", what)
	}
	return p
}

// knows waits until the exporter has made that many readings of a target and has this verdict on it. It reads no page, which
// is what most of a test's time goes into.
func (e *exporter) knows(t *testing.T, target, verdict string, attempts float64) {
	t.Helper()
	exportertest.Eventually(20*time.Second, between(t), func() bool {
		return slices.ContainsFunc(e.app.Snapshot().Statuses, func(s poll.Status) bool {
			return s.Target == target && s.Known && s.Up == (verdict == "up") && (s.Up || string(s.Reason) == verdict) &&
				float64(s.Attempts) >= attempts
		})
	})
}

// waitForPage polls until the status page has all of what is wanted: it follows a reading a moment later.
func (e *exporter) waitForPage(t *testing.T, wants ...string) reply {
	t.Helper()
	var r reply
	lacks := func(want string) bool { return !bytes.Contains(r.body, []byte(want)) }
	if !exportertest.Eventually(20*time.Second, between(t), func() bool {
		r = e.get(t, "/", http.Header{})
		return r.status == http.StatusOK && !slices.ContainsFunc(wants, lacks)
	}) {
		t.Errorf("status %d; the status page never has %q:\n%s", r.status, wants, r.body)
	}
	return r
}

// simulated is what each service of the simulated stack is to the exporter.
var simulated = map[string][]string{
	"xmpp": {"xmpp_status", "xmpp_metrics", "xmpp_rest"}, "proxy": {"xmpp_proxy"}, "irc_rpc": {"irc_rpc"}, "irc_services": {"irc_services"},
	"plant_store": {"plant_store"}, "identity": {"identity"}, "docs_search": {"docs_search"}, "docker": {"docker"},
	"xmpp_c2s": {"xmpp_c2s"}, "xmpp_s2s": {"xmpp_s2s"}, "irc_tls": {"irc_tls"},
}

var allTargets = []string{
	"xmpp_status", "xmpp_metrics", "xmpp_proxy", "xmpp_rest", "irc_rpc", "irc_services", "plant_store", "identity", "docs_search", "docker",
}

// tlsPorts are the targets of tlsPortBlocks.
var tlsPorts = []string{"xmpp_c2s", "xmpp_s2s", "irc_tls"}

// tlsPortBlocks are the blocks of the targets whose addresses no variable names.
func tlsPortBlocks(stack *simstack.Stack) string {
	return fmt.Sprintf(`
  - kind: xmpp_c2s
    address: %s
  - kind: tls
    name: xmpp_s2s
    address: %s
    starttls: xmpp-server
    domain: %s
    ca_file: %s
  - kind: irc_tls
    address: %s
`, stack.XMPPClientAddress(), stack.XMPPServerAddress(), simstack.XMPPDomain, stack.CAFile(), stack.IRCAddress())
}

// relayBlock is a check of the stack's bridge.
func relayBlock(stack *simstack.Stack) string {
	return fmt.Sprintf("  - {kind: relay, name: bridge, irc: {address: '%s', user: %s, password: %s, channel: '%s', ca_file: %s}, "+
		"xmpp: {address: '%[6]s', user: %[2]s@%[7]s, password: %[3]s, room: %[8]s, ca_file: %[5]s}, deadline: 1s, slow: 500ms, timeout: "+
		"5s}\n",
		stack.IRCAddress(), simstack.RelayUser, simstack.RelayPassword, simstack.RelayChannel, stack.CAFile(), stack.XMPPClientAddress(),
		simstack.XMPPDomain, simstack.RelayRoom)
}

// canaryMode also bounds pages low, so that an endless one is at its bound long before the deadline.
const canaryMode = "limits:\n  metrics_body: 2MiB\ntargets:\n  - kind: plant_store\n    mode: canary\n"

func allUp(p page) bool { return p.Up(allTargets...) }

// reasonOf is the reason that a fault of the simulated stack must give a target: "up" where it is none of its business.
// A fault that the table does not name must be one that every service has.
func reasonOf(target, fault string) (string, bool) {
	if reason, ok := particular[target][fault]; ok {
		return reason, true
	}
	reason, ok := map[string]string{
		"stopped": "refused", "hang": "timeout", "slow": "timeout", "reset": "closed", "not_http": "malformed",
		"expired_certificate": "tls", "wrong_name_certificate": "tls", "other_certificate": "tls",
		"incomplete_chain": "tls", "no_tls": "tls",
		"status_403": "forbidden", "status_404": "not_found", "status_500": "http_status", "flaky": "http_status",
		"status_502": "http_status",
		"redirect":   "http_status", "header_flood": "too_large", "truncated": "closed", "malformed": "malformed",
		"huge": "too_large", "gzip_bomb": "too_large", "wrong_credentials": "unauthorized",
	}[fault]
	return reason, ok
}

// xmppStreamFaults are those of a port on which TLS begins in an XMPP stream.
var xmppStreamFaults = map[string]string{
	"no_starttls": "tls", "starttls_failure": "tls", "unknown_host": "not_found", "stream_error": "mismatch",
	"hang_after_proceed": "timeout",
}

// particular are the faults that mean something else to one target than to others.
var particular = map[string]map[string]string{
	"xmpp_status": {
		"malformed": "up", // 200 without JSON is up
		"not_json":  "up", "module_error": "up", "module_missing": "up", "component_disconnected": "up",
		"wrong_credentials": "up", "not_admin": "up", "unknown_host": "up", "metrics_403": "up", "status_page_403": "forbidden",
		"statistics_off": "up", "bad_page": "up", "no_eof": "up", "auth_failures": "up", "no_auth_source": "up",
	},
	"xmpp_metrics": {
		"not_json": "up", "module_error": "up", "module_missing": "up", "component_disconnected": "up",
		"wrong_credentials": "up", "not_admin": "up", "unknown_host": "up", "metrics_403": "forbidden", "status_page_403": "up",
		"statistics_off": "not_found", "bad_page": "up", "no_eof": "up", "auth_failures": "up", "no_auth_source": "up",
	},
	"xmpp_rest": {
		"not_json": "up", "module_error": "up", "module_missing": "up", "component_disconnected": "up",
		"not_admin": "forbidden", "unknown_host": "up", // it is asked for the right one
		"metrics_403": "up", "status_page_403": "up", "statistics_off": "up", "bad_page": "up", "no_eof": "up", "auth_failures": "up",
		"no_auth_source": "up",
	},
	"xmpp_c2s": xmppStreamFaults,
	"xmpp_s2s": xmppStreamFaults,
	"irc_tls": {
		"not_http": "tls", "throttled": "throttled", "connect_flood": "throttled", "hang_after_tls": "timeout", "no_cap": "up",
	},
	"identity": {
		"status_404": "up", // as good an answer as any to a key that nobody has
	},
	"xmpp_proxy": {
		"malformed": "up", // its status is all that is asked for
		"no_tls":    "tls", "not_http": "tls",
	},
	"irc_rpc": {
		"not_http": "tls", "forbidden": "rpc_error", "rpc_error": "rpc_error", "other_id": "mismatch", "services_unlinked": "up",
		"numbers_forbidden": "up", "no_stats": "up", // its methods beside rpc.info give numbers, not the verdict
	},
	"irc_services": {
		"status_403": "up", "status_404": "up", "malformed": "up",
	},
	"plant_store": {
		"reject_all": "http_status", "accepts_invalid": "up", "wrong_plant": "mismatch", "create_500": "http_status",
		"lost_create": "closed", "refuse_delete": "http_status", "lost_delete": "closed",
	},
	"docker": {
		"gzip_bomb": "malformed", // compression is not asked for
		"partial":   "closed",
		"hang_list": "timeout", "hang_inspect": "up", // the list tells of what cannot be inspected
	},
}

// belongings are the beginnings of the names that only a target that is up has on the page.
var belongings = map[string][]string{
	"xmpp_status":  {"chatstack_xmpp_module_", "chatstack_xmpp_component_", "xmpp_module_"},
	"xmpp_metrics": {"prosody_", "xmpp_c2s_", "xmpp_memory_"},
	"docker":       {"chatstack_container_"},
}

// TestEveryFaultIsToldApart switches every fault of every simulated service on and off again: the target is down with
// the right reason, the others never are, nothing of the target's old values stays, and it recovers.
func TestEveryFaultIsToldApart(t *testing.T) {
	for service, targets := range simulated {
		t.Run(service, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				stack := startStack(t, simstack.Options{Slow: 6 * time.Second})
				log := &logBuffer{}
				o := options(stack.Environ(), log).with(canaryMode + tlsPortBlocks(stack))
				o.pace = func(target string) (every, timeout time.Duration) {
					if slices.Contains(targets, target) {
						return 500 * time.Millisecond, 0
					}
					return 10 * time.Second, 0
				}
				e := startApp(t, o, log)
				e.wait(t, "every target up", func(p page) bool { return allUp(p) && p.Up(tlsPorts...) })
				tried := 0
				for _, fault := range stack.Faults() {
					if fault.Service != service {
						continue
					}
					tried++
					if _, engines := reasonOf(service, fault.Name); service == "docker" && !engines {
						continue // a container's fault is not the engine's; what it means to the container is tried with the collector
					}
					tryFault(t, stack, e, service, fault.Name, targets)
				}
				if tried < 5 {
					t.Errorf("only %d faults were tried", tried)
				}
				p := e.scrape(t)
				for _, other := range slices.Concat(allTargets, tlsPorts) {
					if slices.Contains(targets, other) {
						continue
					}
					if n := p.Sum("chatstack_probe_failures_total", "target", other); n > 0 {
						t.Errorf("faults of %s touched %s: it failed %v times", service, other, n)
					}
				}
				if err := e.stop(); err != nil {
					t.Error(err)
				}
				if len(stack.Plants()) != 0 {
					t.Errorf("plants left in the store: %v", stack.Plants())
				}
			})
		})
	}
}

func tryFault(t *testing.T, stack *simstack.Stack, e *exporter, service, fault string, targets []string) {
	t.Helper()
	want := map[string]string{}
	for _, target := range targets {
		reason, ok := reasonOf(target, fault)
		if !ok {
			t.Errorf("%s/%s: no test says what it means to %s", service, fault, target)
			return
		}
		want[target] = reason
	}
	before := e.scrape(t)
	must(t, stack.Switch(service, fault, true))
	for target, reason := range want {
		least := 0.0
		if reason == "up" {
			least = attempts(before, target) + 3 // the first reading may have been under way
		}
		if _, counted := before.Value("chatstack_probe_failures_total", "target", target, "reason", reason); reason != "up" && !counted {
			t.Errorf("%s/%s: failures of %s for the reason %s are not counted from the start", service, fault, target, reason)
		}
		e.knows(t, target, reason, least)
		p := e.wait(t, fmt.Sprintf("%s/%s: %s is %s", service, fault, target, reason), func(p page) bool {
			return p.Verdict(target) == reason && attempts(p, target) >= least
		})
		for name := range p {
			if reason != "up" && !exportertest.Judged(name) &&
				slices.ContainsFunc(belongings[target], func(own string) bool { return strings.HasPrefix(name, own) }) {
				t.Errorf("%s/%s: %s is stale", service, fault, name)
			}
		}
	}
	must(t, stack.Switch(service, fault, false))
	if slices.Contains(slices.Collect(maps.Values(want)), "unauthorized") {
		must(t, e.app.Reload(t.Context())) // ends the wait after refused credentials
	}
	for _, target := range targets {
		e.knows(t, target, "up", 0)
	}
	e.wait(t, fmt.Sprintf("%s/%s: recovery", service, fault), func(p page) bool {
		orphans, _ := p.Value("chatstack_plant_store_orphans")
		return allUp(p) && p.Up(targets...) && orphans == 0
	})
}

func TestNothingIsAskedThatChangesAnything(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		e := startExporter(t, stack.Environ(), canaryMode)
		p := e.wait(t, "five readings of each target", func(p page) bool {
			return allUp(p) && !slices.ContainsFunc(allTargets, func(target string) bool { return attempts(p, target) < 5 })
		})
		if len(p["prosody_mod_c2s__connections"].GetMetric()) == 0 {
			t.Error("the XMPP server's own families are not on the page")
		}
		for _, r := range stack.Requests("irc_rpc") {
			if !slices.Contains([]string{"rpc.info", "stats.get", "server.list"}, r.RPC) || r.Method != http.MethodPost {
				t.Errorf("the IRC server was asked %s %s %s, which may change something or is not needed", r.Method, r.Path, r.RPC)
			}
		}
		for _, r := range stack.Requests("docker") {
			if r.Method != http.MethodGet && (r.Method != http.MethodHead || !strings.HasSuffix(r.Path, "/_ping")) {
				t.Errorf("the engine was asked %s %s", r.Method, r.Path)
			}
		}
		for _, service := range []string{"xmpp", "proxy", "irc_services", "identity", "docs_search"} {
			for _, r := range stack.Requests(service) {
				if r.Method != http.MethodGet {
					t.Errorf("%s was asked %s %s", service, r.Method, r.Path)
				}
			}
		}
		if err := e.stop(); err != nil {
			t.Error(err)
		}
		if len(stack.Plants()) != 0 {
			t.Errorf("plants left in the store: %v", stack.Plants())
		}
		env := stack.Environ()
		for _, secret := range []string{"IRC_RPC_PASSWORD", "PLANT_STORE_TOKEN", "XMPP_REST_TOKEN", "BRIDGE_IDENTITY_TOKEN"} {
			if strings.Contains(e.log.String(), env[secret]) {
				t.Errorf("%s stands in the log", secret)
			}
		}
	})
}

// pages are the paths of everything that anybody may read, and of every history and target.
func (e *exporter) pages(t *testing.T) []string {
	t.Helper()
	paths := []string{
		"/", "/metrics", "/api/v1/status", "/api/v1/discovery", "/api/v1/maintenance", "/maintenance", "/debug/targets/",
		"/api/v1/openapi.yaml", "/runbooks", "/runbooks/TargetDown",
	}
	for _, s := range e.report(t).Services {
		paths = append(paths, "/debug/targets/"+s.Name, "/badge/"+s.Name+".svg")
		for _, name := range s.Charts {
			paths = append(paths, "/api/v1/history/"+name)
		}
	}
	return paths
}

// report is what the exporter tells people now.
func (e *exporter) report(t *testing.T) *status.Report {
	t.Helper()
	r := new(status.Report)
	must(t, json.Unmarshal(e.get(t, "/api/v1/status", http.Header{}).body, r))
	return r
}

// firstEvent is what the stream of events begins with.
func (e *exporter) firstEvent(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/api/v1/events", http.NoBody)
	must(t, err)
	resp, err := e.client.Do(req)
	must(t, err)
	defer resp.Body.Close() //nolint:errcheck // a stream is never read to its end
	lines := bufio.NewReader(resp.Body)
	var event strings.Builder
	for {
		line, err := lines.ReadString('\n')
		must(t, err)
		if event.WriteString(line); line == "\n" && strings.Contains(event.String(), "data:") {
			return event.String()
		}
	}
}

func TestSecretsAreOnNoPage(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{Token: "sesame-token", Password: "sesame-password"})
		e := startExporter(t, stack.Environ(), "targets:\n  - kind: identity\n    irc_nick: sesame-nick\n")
		// Each of these targets has a credential, which its service knows no more under the fault.
		locked := map[string]string{"irc_rpc": "irc_rpc", "plant_store": "plant_store", "identity": "identity", "xmpp": "xmpp_rest"}
		for _, want := range []string{"up", "unauthorized"} {
			for service, target := range locked {
				must(t, stack.Switch(service, "wrong_credentials", want != "up"))
				e.wait(t, target+" "+want, func(p page) bool { return p.Verdict(target) == want })
			}
			for _, path := range e.pages(t) {
				if r := e.get(t, path, http.Header{}); r.status != http.StatusOK || bytes.Contains(r.body, []byte("sesame")) {
					t.Errorf("status %d, or a secret stands on %s", r.status, path)
				}
			}
			if event := e.firstEvent(t); !strings.Contains(event, "summary") || strings.Contains(event, "sesame") {
				t.Errorf("a secret stands in the event, or no summary:\n%s", event)
			}
		}
		if strings.Contains(e.log.String(), "sesame") {
			t.Error("a secret stands in the log")
		}
	})
}

func TestStatusPageAndHealth(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		e := startExporter(t, stack.Environ(), "targets:"+tlsPortBlocks(stack))
		e.wait(t, "every target up", func(p page) bool { return allUp(p) && p.Up(tlsPorts...) })
		for path, want := range map[string]string{"/-/healthy": "healthy", "/-/ready": "ready"} {
			if r := e.get(t, path, http.Header{}); r.status != http.StatusOK || !bytes.Contains(r.body, []byte(want)) {
				t.Errorf("%s: status %d, lacks %q:\n%s", path, r.status, want, r.body)
			}
		}
		e.waitForPage(t, "Operational", `data-level="ok"`)
		must(t, stack.Switch("irc_services", "stopped", true))
		e.wait(t, "irc_services down", func(p page) bool { return p.Verdict("irc_services") == "refused" })
		r := e.waitForPage(t, "IRC services are down", "nothing listens there")
		if r.header.Get("Content-Security-Policy") == "" {
			t.Error("no content security policy")
		}
		if r := e.get(t, "/nowhere", http.Header{}); r.status != http.StatusNotFound {
			t.Errorf("/nowhere: status %d", r.status)
		}
	})
}
