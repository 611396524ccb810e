package simstack

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"go.uber.org/goleak"
	"gopkg.in/yaml.v3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started starts a stack that ends with the test. Slow answers take for ever, so that no test waits for one by chance.
func started(t *testing.T, o Options) *Stack {
	t.Helper()
	o.Slow = cmp.Or(o.Slow, time.Hour)
	k, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func switchFault(t *testing.T, k *Stack, service, fault string, on bool) {
	t.Helper()
	if err := k.Switch(service, fault, on); err != nil {
		t.Fatal(err)
	}
}

// call is one request of a plain client.
type call struct {
	service, method, target, host, body string
	header                              http.Header // in place of the service's own credential
	anonymous                           bool
	timeout                             time.Duration
}

// seen is what a plain client saw.
type seen struct {
	status int
	header http.Header
	body   string
	err    error
}

// maxSeen bounds what a test's client reads of a body.
const maxSeen = 2 << 20

func (k *Stack) base(service string) string {
	scheme := "http://"
	if k.service(service).secure {
		scheme = "https://"
	}
	if service == "docker" {
		return scheme + "docker"
	}
	return scheme + k.service(service).address()
}

// request is the call as a request, with the service's own credential unless the call says otherwise.
func (k *Stack) request(t *testing.T, c call) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), cmp.Or(c.method, http.MethodGet), k.base(c.service)+c.target,
		strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.header != nil {
		req.Header = c.header
	} else if !c.anonymous {
		k.authorize(req, c.service)
	}
	req.Host = c.host
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (k *Stack) do(t *testing.T, c call) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.timeout, 30*time.Second))
	defer cancel()
	req := k.request(t, c).WithContext(ctx)
	transport := &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig:        k.trust(t),
	}
	if c.service == "docker" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", k.service("docker").address())
		}
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return seen{err: err}
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSeen))
	return seen{
		resp.StatusCode,
		resp.Header,
		string(body),
		err,
	}
}

func (k *Stack) trust(t *testing.T) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(k.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// authorize gives a request the credential that its service wants.
func (k *Stack) authorize(req *http.Request, service string) {
	token := map[string]string{"xmpp": "-xmpp", "plant_store": "-plants", "identity": "-identity"}[service]
	switch {
	case service == "irc_rpc":
		req.SetBasicAuth(ircUser, k.opts.Password)
	case token != "":
		req.Header.Set("Authorization", "Bearer "+k.opts.Token+token)
	}
}

// probe is the plainest request to a service that shows whether it is well.
func (k *Stack) probe(t *testing.T, service string, timeout time.Duration) seen {
	t.Helper()
	if k.service(service).speak != nil {
		if err := k.speaking(t, service, timeout); err != nil {
			return seen{err: err}
		}
		return seen{status: http.StatusOK}
	}
	c := map[string]call{
		"xmpp":         {target: "/status"},
		"proxy":        {target: "/health"},
		"irc_rpc":      {method: http.MethodPost, target: "/api", body: rpcInfo},
		"irc_services": {target: "/"},
		"plant_store":  {method: http.MethodPost, target: "/plants", body: `{}`},
		"identity":     {target: "/api/bridge/identity?ircNick=alice"},
		"docs_search":  {target: "/api/search?query=x"},
		"docker":       {target: "/v1.41/containers/json?all=1"},
	}[service]
	c.service, c.timeout = service, timeout
	return k.do(t, c)
}

const rpcInfo = `{"jsonrpc":"2.0","method":"rpc.info","params":{},"id":1}`

// wellStatus is the status of a probe's answer when all is well; 200 where it is not here.
var wellStatus = map[string]int{"irc_services": http.StatusNotFound, "plant_store": http.StatusBadRequest}

func (k *Stack) mustBeWell(t *testing.T, service string) {
	t.Helper()
	want := cmp.Or(wellStatus[service], http.StatusOK)
	if got := k.probe(t, service, 0); got.err != nil || got.status != want {
		t.Fatalf("%s: got status %d, error %v; want %d, none", service, got.status, got.err, want)
	}
}

// answerCase is a line of testdata/answers.yaml.
type answerCase struct {
	Fault, Ask, RPC, As, Host, Send string
	Status                          int
	Header                          []string
	Body                            string
}

// answerCases has the expected answers by fault; "" means no fault.
func answerCases(t *testing.T, fault string) []answerCase {
	t.Helper()
	text, err := os.ReadFile("testdata/answers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []answerCase
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c answerCase) bool { return c.Fault != fault })
}

func (c answerCase) try(t *testing.T, k *Stack) {
	t.Helper()
	if c.RPC != "" {
		c.Ask, c.As, c.Send = "POST irc_rpc /api", "token", fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{},"id":1}`, c.RPC)
	}
	words := strings.Fields(c.Ask)
	ask := call{
		method:    words[0],
		service:   words[1],
		target:    words[2],
		host:      c.Host,
		body:      c.Send,
		anonymous: c.As == "",
	}
	if c.As == "wrong" {
		ask.header = http.Header{"Authorization": {"Bearer wrong"}}
	}
	got := k.do(t, ask)
	if got.err != nil || got.status != c.Status {
		t.Errorf("%s %s: got status %d, error %v; want %d", c.Ask, c.Send, got.status, got.err, c.Status)
	}
	for _, line := range c.Header {
		name, value, _ := strings.Cut(line, ":")
		if got := got.header.Get(name); got != strings.TrimSpace(value) {
			t.Errorf("%s: header %s: got %q, want %q", c.Ask, name, got, strings.TrimSpace(value))
		}
	}
	whole, isWhole := strings.CutPrefix(c.Body, "=")
	lacking, lacks := strings.CutPrefix(c.Body, "!")
	switch {
	case isWhole && got.body == whole, lacks && !strings.Contains(got.body, lacking),
		!isWhole && !lacks && strings.Contains(got.body, c.Body):
	default:
		t.Errorf("%s %s: got body %.300q, want %q", c.Ask, c.Send, got.body, c.Body)
	}
}

func TestAnswersAreThoseOfTheRealServers(t *testing.T) {
	k := started(t, Options{})
	for _, c := range answerCases(t, "") {
		c.try(t, k)
	}
}

// pageSeries are the series of the capture, and those of the module that counts logins, creation times among them.
const pageSeries = 563 + 4

func TestMetricsPageIsTheCaptureAndGrows(t *testing.T) {
	k := started(t, Options{})
	page := func() string { return k.do(t, call{service: "xmpp", target: "/metrics"}).body }
	first, second := page(), page()
	if want := strings.Replace(string(captured("xmpp_metrics").body), endOfPage, fmt.Sprintf(loginLines, 0)+endOfPage, 1); first != want {
		t.Errorf("the first page differs from the capture with logins: %d bytes, want %d", len(first), len(want))
	}
	sample := regexp.MustCompile(`(?m)^prosody_mod_measure_stanza_counts__sent_total\{session_type="c2s",stanza_kind="message"\} (.*)$`)
	if got := sample.FindStringSubmatch(second); len(got) != 2 || got[1] != "15" {
		t.Errorf("messages sent on the second page: got %q, want 15", got)
	}
	const upstream = 1203
	large := started(t, Options{UpstreamSeries: upstream}).do(t, call{service: "xmpp", target: "/metrics"}).body
	for page, want := range map[string]int{first: pageSeries, second: pageSeries, large: pageSeries + upstream} {
		if n := parsed(t, page); n != want {
			t.Errorf("got %d series, want %d", n, want)
		}
	}
}

// parsed counts the series of an OpenMetrics page.
func parsed(t *testing.T, page string) int {
	t.Helper()
	p := textparse.NewOpenMetricsParser([]byte(page), labels.NewSymbolTable())
	for n := 0; ; {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry == textparse.EntrySeries {
			n++
		}
	}
}

// effect checks what a fault does, while it is on.
type effect func(t *testing.T, k *Stack, service string)

// sees is the effect of a fault on the plainest request.
func sees(expected func(seen) bool) effect {
	return func(t *testing.T, k *Stack, service string) {
		t.Helper()
		if got := k.probe(t, service, 0); !expected(got) {
			t.Errorf("got status %d, header %v, %d bytes %.80q, error %v", got.status, got.header, len(got.body), got.body, got.err)
		}
	}
}

func status(want int) effect {
	return sees(func(s seen) bool { return s.err == nil && s.status == want })
}

func failure(want func(error) bool) effect {
	return sees(func(s seen) bool { return s.err != nil && want(s.err) })
}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

func text(s string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), s) }
}

// silent checks that no answer comes before the client gives up.
func silent(t *testing.T, k *Stack, service string) {
	t.Helper()
	if got := k.probe(t, service, 50*time.Millisecond); !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("got status %d, error %v; want none before the deadline", got.status, got.err)
	}
}

// commonEffects are the effects of faults that several services have.
var commonEffects = map[string]effect{
	"stopped":    failure(isAny(syscall.ECONNREFUSED, syscall.ENOENT)),
	"hang":       silent,
	"slow":       silent,
	"reset":      failure(isAny(syscall.ECONNRESET, syscall.EPIPE, io.EOF)),
	"not_http":   failure(func(err error) bool { return text("malformed HTTP")(err) || text("does not look like a TLS")(err) }),
	"status_403": status(403),
	"status_404": status(404),
	"status_500": status(500),
	"flaky":      status(500),
	"status_502": status(502),
	"header_flood": func(t *testing.T, k *Stack, service string) {
		t.Helper()
		exceeded := text("server response headers exceeded")
		failure(exceeded)(t, k, service)
		if got := k.do(t, call{service: service, method: http.MethodHead, target: "/"}); got.err == nil || !exceeded(got.err) {
			t.Errorf("HEAD: got status %d, error %v", got.status, got.err)
		}
	},
	"redirect": sees(func(s seen) bool { return s.status == 302 && s.header.Get("Location") == "http://elsewhere.invalid/" }),
	"truncated": sees(func(s seen) bool {
		unexpected := errors.Is(s.err, io.ErrUnexpectedEOF)
		if s.header.Get("Server") == "UnrealIRCd" { // no length says that something is missing
			unexpected = s.body != ""
		}
		return unexpected && !json.Valid([]byte(s.body))
	}),
	"malformed": sees(func(s seen) bool { return s.status == 200 && s.body != "" && !json.Valid([]byte(s.body)) }),
	"huge": sees(func(s seen) bool { // more than the client reads, and endless for a reader of JSON that stops at the value's end
		var v any
		return len(s.body) == maxSeen && json.NewDecoder(strings.NewReader(s.body)).Decode(&v) != nil
	}),
	"gzip_bomb": sees(func(s seen) bool {
		r, err := gzip.NewReader(strings.NewReader(s.body))
		if s.err != nil || s.header.Get("Content-Encoding") != "gzip" || len(s.body) == maxSeen || err != nil {
			return false
		}
		n, err := io.CopyN(io.Discard, r, 20<<20)
		return n == 20<<20 && err == nil
	}),
	"expired_certificate":    failure(text("expired")),
	"wrong_name_certificate": failure(is[x509.HostnameError]),
	"other_certificate":      failure(is[x509.UnknownAuthorityError]),
	"incomplete_chain":       failure(is[x509.UnknownAuthorityError]),
	"no_tls":                 failure(is[tls.RecordHeaderError]),
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ownEffects are the effects of one service's faults, beyond a different answer.
var ownEffects = map[string]effect{
	"plant_store/wrong_plant":   stores(func(s seen) bool { return s.status == 200 && !strings.Contains(s.body, `"name":"fern"`) }),
	"plant_store/create_500":    stores(func(s seen) bool { return s.status == 500 }),
	"plant_store/lost_create":   stores(func(s seen) bool { return errors.Is(s.err, io.EOF) }),
	"plant_store/refuse_delete": deletes(1, func(s seen) bool { return s.status == 500 }),
	"plant_store/lost_delete":   deletes(0, func(s seen) bool { return errors.Is(s.err, io.EOF) }),
}

// stores is the effect of a fault on a creation that stores its plant all the same: what the client saw.
func stores(see func(seen) bool) effect {
	return func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		k.store.mu.Lock()
		clear(k.store.plants)
		k.store.mu.Unlock()
		if got := k.do(t, call{
			service: "plant_store",
			method:  http.MethodPost,
			target:  "/plants",
			body:    `{"id":1,"name":"fern"}`,
		}); !see(got) || len(k.Plants()) != 1 {
			t.Errorf("got status %d, %q, error %v, %d plants; want one plant", got.status, got.body, got.err, len(k.Plants()))
		}
	}
}

// deletes is the effect of a fault on a deletion.
func deletes(want int, see func(seen) bool) effect {
	return func(t *testing.T, k *Stack, service string) {
		t.Helper()
		stores(func(s seen) bool { return s.status == 200 })(t, k, service)
		if got := k.do(t, call{service: "plant_store", method: http.MethodDelete, target: "/plants/1"}); !see(got) ||
			len(k.Plants()) != want {
			t.Errorf("got status %d, error %v, %d plants; want %d plants", got.status, got.err, len(k.Plants()), want)
		}
	}
}

func TestEveryFaultIsFeltAndPasses(t *testing.T) {
	k := started(t, Options{CrashEvery: 20 * time.Millisecond})
	before := k.Environ()
	for _, f := range k.Faults() {
		if f.Service == "bridge" {
			continue // the tests of the relay check feel its faults
		}
		t.Run(f.Service+"/"+f.Name, func(t *testing.T) {
			felt := commonEffects[f.Name]
			if e := streamEffects[f.Name]; e != nil && k.service(f.Service).startTLS {
				felt = e
			}
			for _, own := range []map[string]effect{ownEffects, dockerEffects, speakEffects} {
				if e := own[f.Service+"/"+f.Name]; e != nil {
					felt = e
				}
			}
			cases := answerCases(t, f.Service+"/"+f.Name)
			if felt == nil && len(cases) == 0 {
				t.Fatal("nothing here checks this fault")
			}
			k.mustBeWell(t, f.Service)
			switchFault(t, k, f.Service, f.Name, true)
			if got := k.Active(); !slices.Equal(got, []Fault{f}) {
				t.Errorf("active faults: got %v, want %v", got, f)
			}
			for _, c := range cases {
				c.try(t, k)
			}
			if felt != nil {
				felt(t, k, f.Service)
			}
			switchFault(t, k, f.Service, f.Name, false)
			k.mustBeWell(t, f.Service)
			if got := k.Active(); len(got) != 0 {
				t.Errorf("active faults: got %v, want none", got)
			}
			if f.Description == "" {
				t.Error("it has no description")
			}
		})
	}
	if after := k.Environ(); !maps.Equal(before, after) {
		t.Errorf("afterwards: got %v, want the same addresses as before, %v", after, before)
	}
}

func TestUnknownFaultListsTheKnown(t *testing.T) {
	k := started(t, Options{})
	if err := k.Switch("xmpp", "unhappy", true); err == nil || !strings.Contains(err.Error(), "statistics_off") {
		t.Errorf("unknown fault: got %v, want the known ones", err)
	}
	if err := k.Switch("mail", "hang", true); err == nil || !strings.Contains(err.Error(), "plant_store") {
		t.Errorf("unknown service: got %v, want the known ones", err)
	}
}

func TestHangLetsGo(t *testing.T) {
	for _, fault := range []string{"hang", "slow"} {
		for _, service := range Services {
			t.Run(fault+" "+service, func(t *testing.T) {
				t.Parallel()
				k := started(t, Options{})
				switchFault(t, k, service, fault, true)
				silent(t, k, service)
				answered := make(chan seen, 1)
				var asking sync.WaitGroup
				asking.Go(func() { answered <- k.probe(t, service, 0) })
				defer asking.Wait()
				switchFault(t, k, service, fault, false)
				want := max(wellStatus[service], 200)
				if got := <-answered; got.err != nil || got.status != want {
					t.Errorf("got status %d, error %v; want %d once the fault is off", got.status, got.err, want)
				}
			})
		}
	}
}

func TestCloseCutsWhatHangs(t *testing.T) {
	k, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range Services {
		switchFault(t, k, service, "hang", true)
	}
	conns := make([]net.Conn, len(Services))
	for i, name := range Services {
		s := k.service(name)
		conns[i] = dial(t, s.endpoints[0].network, s.address())
	}
	dir := k.dir
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: got %d bytes, error %v; want a closed connection", Services[i], n, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary directory after Close: got %v, want none", err)
	}
	if err := k.Switch("docker", "crash_loop", true); !errors.Is(err, errClosed) {
		t.Errorf("switch after Close: got %v, want %v", err, errClosed)
	}
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// conversation sends bytes, ends its side and returns all that comes back.
func conversation(t *testing.T, conn net.Conn, send string) string {
	t.Helper()
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestSilenceIsThatOfTheRealServers(t *testing.T) {
	k := started(t, Options{})
	request := func(service, method, target, body string) string {
		var b bytes.Buffer
		if err := k.request(t, call{
			service: service,
			method:  method,
			target:  target,
			body:    body,
		}).Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const unreal = "HTTP/1.1 200 OK\r\nServer: UnrealIRCd\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		name, service string
		secure        bool
		send, want    string
	}{
		{
			"services, integer id",
			"irc_services",
			false,
			request("irc_services", "POST", "/jsonrpc", `{"method":"atheme.ison","params":["a"],"id":1}`),
			"",
		},
		{
			"services, malformed",
			"irc_services",
			false,
			request("irc_services", "POST", "/jsonrpc", `{bad`),
			"",
		},
		{
			"services, object params",
			"irc_services",
			false,
			request("irc_services", "POST", "/jsonrpc", `{"method":"atheme.ison","params":{},"id":"1"}`),
			"",
		},
		{
			"services, POST /",
			"irc_services",
			false,
			request("irc_services", "POST", "/", `{}`),
			"HTTP/1.1 404 Not Found\r\nServer: Atheme/7.2.12\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\n",
		},
		{
			"rpc, empty body",
			"irc_rpc",
			true,
			request("irc_rpc", "POST", "/api", ""),
			unreal,
		},
		{
			"rpc, short body",
			"irc_rpc",
			true,
			strings.Replace(request("irc_rpc", "POST", "/api", rpcInfo), "Content-Length: ", "Content-Length: 1", 1),
			unreal,
		},
		{
			"rpc, plain HTTP",
			"irc_rpc",
			false,
			request("irc_rpc", "GET", "/api", ""),
			"",
		},
		{
			"rpc, answer",
			"irc_rpc",
			true,
			request("irc_rpc", "POST", "/api", `{"jsonrpc":"2.0","method":"no.such","id":7}`),
			unreal + `{"jsonrpc": "2.0", "method": "no.such", "id": 7, "error": {"code": -32601, "message": "Unsupported method"}}` + "\n",
		},
		{
			"xmpp, garbage",
			"xmpp",
			false,
			"garbage\r\n\r\n",
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, "tcp", k.service(c.service).address())
			if c.secure {
				config := k.trust(t)
				config.ServerName = "localhost"
				conn = tls.Client(conn, config)
			}
			if got := conversation(t, conn, c.send); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := conversation(t, dial(t, "tcp", k.service("proxy").address()), request("proxy", "GET", "/health", "")); !strings.Contains(got,
		"The plain HTTP request was sent to HTTPS port") {
		t.Errorf("proxy, plain HTTP: got %q", got)
	}
}

func TestIRCSocketIsPersistent(t *testing.T) {
	k := started(t, Options{})
	conn := dial(t, "unix", k.IRCSocket())
	answers := bufio.NewReader(conn)
	for _, c := range []struct{ send, want string }{
		{
			`{"jsonrpc":"2.0","method":"no.such","params":{},"id":3}`,
			`{"jsonrpc": "2.0", "method": "no.such", "id": 3, "error": {"code": -32601, "message": "Unsupported method"}}`,
		},
		{`{bad`, `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Unparsable JSON data"}}`},
		{
			`{"jsonrpc":"2.0","method":"channel.list","id":4}`,
			`{"jsonrpc": "2.0", "method": "channel.list", "id": 4, "result": ` +
				`{"list":[{"name":"#room2"},{"name":"#room1"},{"name":"#room0"},{"name":"#chan"}]}}`,
		},
	} {
		if _, err := io.WriteString(conn, c.send+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); got != c.want+"\n" || err != nil {
			t.Errorf("%s: got %q, error %v; want %q", c.send, got, err, c.want)
		}
	}
	// The file of the real server's socket outlives the server.
	switchFault(t, k, "irc_rpc", "stopped", true)
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "unix", k.IRCSocket()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("stopped: got %v, want refused", err)
	}
	switchFault(t, k, "irc_rpc", "stopped", false)
	dial(t, "unix", k.IRCSocket())
}

func TestPlantsAreKeptUntilDeleted(t *testing.T) {
	k := started(t, Options{})
	const big = 9007199254740991
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
		plants               []int64
	}{
		{
			"POST",
			"/plants",
			`{"id":7,"name":"fern","tag":"canary"}`,
			200,
			`{"name":"fern","tag":"canary"}`,
			[]int64{7},
		},
		{
			"POST",
			"/plants",
			`{"id":9007199254740991,"name":"moss"}`,
			200,
			`{"name":"moss"}`,
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"id":7,"name":"fern"}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"name":"fern"}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"id":"8","name":"fern"}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"id":8.5,"name":"fern"}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"id":8}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`{"id":8,"name":1}`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"POST",
			"/plants",
			`not JSON`,
			400,
			"",
			[]int64{7, big},
		},
		{
			"DELETE",
			"/plants/7",
			"",
			204,
			"",
			[]int64{big},
		},
		{
			"DELETE",
			"/plants/7",
			"",
			404,
			"",
			[]int64{big},
		},
		{
			"DELETE",
			"/plants/fern",
			"",
			400,
			"",
			[]int64{big},
		},
	} {
		got := k.do(t, call{
			service: "plant_store",
			method:  c.method,
			target:  c.target,
			body:    c.body,
		})
		if got.err != nil || got.status != c.status {
			t.Errorf("%s %s %s: got status %d, error %v; want %d", c.method, c.target, c.body, got.status, got.err, c.status)
		}
		if c.want != "" && got.body != c.want {
			t.Errorf("%s %s %s: got %s, want %s", c.method, c.target, c.body, got.body, c.want)
		}
		if c.status == 400 {
			var e struct {
				Error   *int32
				Message *string
			}
			if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.Error == nil || e.Message == nil {
				t.Errorf("%s %s %s: %s is not an Error: %v", c.method, c.target, c.body, got.body, err)
			}
		}
		if got := k.Plants(); !slices.Equal(got, c.plants) {
			t.Errorf("%s %s %s: got plants %v, want %v", c.method, c.target, c.body, got, c.plants)
		}
	}
}

func TestRequestsAreRememberedWithoutSecrets(t *testing.T) {
	k := started(t, Options{Password: "the-secret-itself"})
	k.do(t, call{
		service: "irc_rpc",
		method:  "POST",
		target:  "/api",
		body:    `{"jsonrpc":"2.0","method":"server.rehash","params":{},"id":1}`,
	})
	k.do(t, call{
		service: "irc_services",
		method:  "POST",
		target:  "/jsonrpc?a=b",
		body:    `{"method":"atheme.ison","params":["x"],"id":"1"}`,
	})
	got := k.Requests("irc_rpc")
	if len(got) != 1 || got[0].Method != "POST" || got[0].Path != "/api" || got[0].RPC != "server.rehash" {
		t.Errorf("got %+v", got)
	}
	if s := fmt.Sprintf("%+v", got); strings.Contains(s, "Basic") || strings.Contains(s, "the-secret-itself") {
		t.Errorf("a header's value is remembered: %s", s)
	}
	if got := k.Requests("irc_services"); len(got) != 1 || got[0].RPC != "atheme.ison" {
		t.Errorf("got %+v", got)
	}
	for service, want := range map[string]string{"irc_tls": "CAP LS 302", "xmpp_c2s": "stream", "xmpp_s2s": "stream"} {
		if err := k.speaking(t, service, 0); err != nil || k.Requests(service)[0].RPC != want {
			t.Errorf("%s: got %v, error %v; want %s first", service, k.Requests(service), err, want)
		}
	}
	if got := k.Requests("nobody"); got != nil {
		t.Errorf("unknown service: got %v, want nil", got)
	}
}

func TestSwitchingIsSafeAtAnyTime(t *testing.T) {
	k := started(t, Options{CrashEvery: 2 * time.Millisecond, Slow: time.Millisecond})
	deadline := time.Now().Add(300 * time.Millisecond)
	faults := k.Faults()
	var work sync.WaitGroup
	for _, service := range Services {
		work.Go(func() {
			for time.Now().Before(deadline) {
				k.probe(t, service, 20*time.Millisecond)
			}
		})
	}
	for start := range 3 {
		work.Go(func() {
			for i := start; time.Now().Before(deadline); i += 7 {
				f := faults[i%len(faults)]
				if err := k.Switch(f.Service, f.Name, i%2 == 0); err != nil {
					t.Error(err)
				}
				if i%101 == 0 {
					k.Environ()
					k.Requests(f.Service)
				}
			}
		})
	}
	work.Wait()
	if err := k.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := k.Active(); len(got) != 0 {
		t.Errorf("after Reset: got %v, want none", got)
	}
	for _, service := range Services {
		k.mustBeWell(t, service)
	}
}

// listen takes an ephemeral port until the test ends.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// The network is in memory, since a busy machine need not have that many consecutive ports.
func TestFixedPortsAreConsecutive(t *testing.T) {
	const port = 9000
	k := started(t, Options{BasePort: port, Network: &Network{}})
	if got, want := k.ControlURL(), fmt.Sprintf("http://127.0.0.1:%d/", port); got != want {
		t.Errorf("switchboard: got %s, want %s", got, want)
	}
	if got, want := k.Environ()["DOCS_SEARCH_URL"], fmt.Sprintf("http://127.0.0.1:%d", port+7); got != want {
		t.Errorf("search: got %s, want %s", got, want)
	}
}

func TestPortInUseIsAnError(t *testing.T) {
	l := listen(t)
	k, err := Start(Options{BasePort: l.Addr().(*net.TCPAddr).Port - 1})
	if !errors.Is(err, syscall.EADDRINUSE) || k != nil {
		t.Errorf("got %v, %v; want an address in use", k, err)
	}
}

func TestSwitchboardWorksWithoutScripts(t *testing.T) {
	k := started(t, Options{})
	ask := func(method, path string, header http.Header) (int, string, http.Header) {
		r, w := httptest.NewRequestWithContext(t.Context(), method, path, nil), httptest.NewRecorder()
		r.Header = header
		k.switchboard().ServeHTTP(w, r)
		return w.Code, w.Body.String(), w.Header()
	}
	browser := http.Header{"Accept": {"text/html,*/*"}}
	_, page, _ := ask("GET", "/", browser)
	for _, f := range k.Faults() {
		if action := fmt.Sprintf(`formaction="/faults/%s/%s/on"`, f.Service, f.Name); !strings.Contains(page, action) {
			t.Errorf("the page lacks %s", action)
		}
	}
	const back = "/?open=xmpp#fault-xmpp-no_eof"
	if code, _, h := ask("POST", "/faults/xmpp/no_eof/on", browser); code != 303 || h.Get("Location") != back {
		t.Errorf("browser: got %d to %q, want 303 to %s", code, h.Get("Location"), back)
	}
	if _, page, _ := ask("GET", "/?open=xmpp", browser); !strings.Contains(page, `data-service="xmpp" open>`) ||
		strings.Count(page, " open>") != 1 {
		t.Error("not only the group of the fault is open")
	}
	if _, page, _ := ask("GET", "/", browser); !strings.Contains(page, `formaction="/faults/xmpp/no_eof/off"`) ||
		!strings.Contains(page, "1 of ") {
		t.Error("the page does not show the fault that is on")
	}
	var states []switchState
	_, list, _ := ask("GET", "/faults", nil)
	if err := json.Unmarshal([]byte(list), &states); err != nil || len(states) != len(k.Faults()) {
		t.Errorf("got %d faults, error %v; want %d", len(states), err, len(k.Faults()))
	}
	if !slices.ContainsFunc(states, func(s switchState) bool { return s.Active && s.Service == "xmpp" && s.Name == "no_eof" }) {
		t.Error("the list does not show the fault that is on")
	}
	for _, c := range []struct {
		method, path string
		header       http.Header
		want         int
	}{
		{
			"POST",
			"/faults/xmpp/no_eof/off",
			nil,
			204,
		},
		{
			"POST",
			"/faults/xmpp/nothing/on",
			nil,
			404,
		},
		{
			"POST",
			"/faults/xmpp/no_eof/maybe",
			nil,
			404,
		},
		{
			"GET",
			"/faults/xmpp/no_eof/on",
			nil,
			405,
		},
		{
			"POST",
			"/faults/xmpp/no_eof/on",
			http.Header{"Sec-Fetch-Site": {"cross-site"}},
			403,
		},
		{
			"POST",
			"/faults/docker/paused/on",
			nil,
			204,
		},
		{
			"POST",
			"/stories/crash_loop/on",
			nil,
			204,
		},
		{
			"POST",
			"/stories/crash_loop/maybe",
			nil,
			404,
		},
		{
			"POST",
			"/stories/none/on",
			nil,
			404,
		},
		{
			"POST",
			"/stories/crash_loop/off",
			http.Header{"Sec-Fetch-Site": {"cross-site"}},
			403,
		},
		{
			"POST",
			"/reset",
			nil,
			204,
		},
	} {
		if got, body, _ := ask(c.method, c.path, c.header); got != c.want {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, got, body, c.want)
		}
	}
	if got := k.Active(); len(got) != 0 {
		t.Errorf("after reset: got %v, want none", got)
	}
}
