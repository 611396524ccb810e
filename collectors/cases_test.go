package collectors

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// caseTable is one table of a file below testdata/cases. The README.md there explains every key.
type caseTable struct {
	Proves       string      `yaml:"proves"`
	Shared       []yaml.Node `yaml:"shared"` // pieces that cases name with *alias
	Pages        string      `yaml:"pages"`
	FailurePages string      `yaml:"failure_pages"`
	serviceCase  `yaml:",inline"`
	Cases        map[string]*serviceCase `yaml:"cases"`
}

// serviceCase is a server's answer, a target that reads it, and what must be seen. The table gives what a case leaves out.
type serviceCase struct {
	answer   `yaml:",inline"`
	Paths    map[string]*answer  `yaml:"paths"`
	RPC      map[string]caseText `yaml:"rpc"`
	Over     string              `yaml:"over"`
	Target   map[string]any      `yaml:"target"`
	Limits   map[string]any      `yaml:"limits"`
	Deadline time.Duration       `yaml:"deadline"`

	Want       string              `yaml:"want"`
	Error      string              `yaml:"error"`
	Hint       string              `yaml:"hint"`
	Notes      []string            `yaml:"notes"`
	Lines      map[string][]string `yaml:"lines"`
	Exchanges  []string            `yaml:"exchanges"`
	HTTPStatus int                 `yaml:"http_status"`
	Asked      []string            `yaml:"asked"`
	Sent       map[string]string   `yaml:"sent"`
	Heard      string              `yaml:"heard"`
	NeverSaid  []string            `yaml:"never_said"`
}

// answer is what a server sends.
type answer struct {
	Status  int               `yaml:"status"`
	Headers map[string]string `yaml:"headers"`
	Body    caseText          `yaml:"body"`
	Gzip    bool              `yaml:"gzip"`
	Says    []caseText        `yaml:"says"`
	Capture string            `yaml:"capture"`
	Then    string            `yaml:"then"`
}

// caseText is a text, or {times: 3, of: a text}.
type caseText string

// UnmarshalYAML implements yaml's older interface, which keeps the decoder's strictness.
func (c *caseText) UnmarshalYAML(unmarshal func(any) error) error {
	var repeated struct {
		Times int    `yaml:"times"`
		Of    string `yaml:"of"`
	}
	if unmarshal((*string)(c)) == nil {
		return nil
	}
	err := unmarshal(&repeated)
	*c = caseText(strings.Repeat(repeated.Of, repeated.Times))
	return err
}

// inherit fills what a case leaves out, and adds the table's keys to those of its target.
func (c *serviceCase) inherit(table *serviceCase) {
	target := maps.Clone(table.Target)
	if target == nil {
		target = map[string]any{}
	}
	maps.Copy(target, c.Target)
	c.Target = target
	fillZero(reflect.ValueOf(c).Elem(), reflect.ValueOf(table).Elem())
}

// fillZero sets the fields of own that are zero to those of common.
func fillZero(own, common reflect.Value) {
	for i := range own.NumField() {
		if f := own.Field(i); f.Kind() == reflect.Struct {
			fillZero(f, common.Field(i))
		} else if f.IsZero() {
			f.Set(common.Field(i))
		}
	}
}

// TestCases runs every case below testdata/cases.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tables []caseTable
		decoder := yaml.NewDecoder(bytes.NewReader(content))
		decoder.KnownFields(true)
		if err := decoder.Decode(&tables); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, table := range tables {
			for name, c := range table.Cases {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+"/"+table.Proves+"/"+name, func(t *testing.T) {
					t.Parallel()
					c.inherit(&table.serviceCase)
					b, err := c.run(t)
					page := strings.NewReplacer(" ", "_", ",", "").Replace(name)
					switch {
					case err != nil && table.Pages+table.FailurePages != "":
						goldenFailure(t, table.Pages+table.FailurePages+"/"+page, b, err)
					case err == nil && table.Pages != "":
						goldenPage(t, table.Pages+"/"+page, b)
					}
				})
			}
		}
	}
}

// run makes one reading of the case's server and compares what is seen.
func (c *serviceCase) run(t *testing.T) (*Batch, error) {
	t.Helper()
	if c.Want == "" {
		t.Fatal("the case wants nothing: give it want")
	}
	server := &caseServer{serviceCase: c}
	address, authority := server.start(t)
	placeholders := strings.NewReplacer("ADDRESS", address, "AUTHORITY", authority)
	collector, name := c.collector(t, placeholders)
	deadline := 10 * time.Second
	if c.Deadline > 0 {
		deadline = c.Deadline
	} else if c.Want == string(failure.Timeout) {
		deadline = 100 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	b := &Batch{Target: name}
	err := collector.Collect(ctx, b)
	c.compare(t, b, err, placeholders)
	server.compare(t, placeholders)
	return b, err
}

// collector makes the target's collector of its block, as exporter.yaml would hold it.
func (c *serviceCase) collector(t *testing.T, placeholders *strings.Replacer) (Collector, string) {
	t.Helper()
	block, err := yaml.Marshal(map[string]any{"targets": []any{c.Target}, "limits": c.Limits})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{
		File:    "exporter.yaml",
		Content: []byte(placeholders.Replace(string(block))),
		Kinds:   ConfigKinds(),
		Lookup:  func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := KindOf(cfg.Targets[0].Common().Kind)
	d := deps(&memory{})
	d.Limits = cfg.Limits
	collector, err := kind.New(cfg.Targets[0], d)
	if err != nil {
		t.Fatal(err)
	}
	return collector, cfg.Targets[0].Common().Name
}

// compare holds a reading to what the case wants.
func (c *serviceCase) compare(t *testing.T, b *Batch, err error, placeholders *strings.Replacer) {
	t.Helper()
	got := "up"
	if err != nil {
		got = string(failure.ReasonOf(err))
	}
	if got != c.Want {
		t.Errorf("got %s (%v), want %s", got, err, c.Want)
	}
	if err != nil {
		wantListed(t, fmt.Sprint(c.Target["kind"]), failure.ReasonOf(err))
	}
	told := strings.Join(b.Notes, "\n")
	c.wantSeen(t, b, err)
	if err != nil {
		told += err.Error() + failure.HintOf(err)
		if !strings.Contains(err.Error(), c.Error) || !strings.Contains(failure.HintOf(err), c.Hint) {
			t.Errorf("got %q with the hint %q, want %q and %q in them", err, failure.HintOf(err), c.Error, c.Hint)
		}
	} else if c.Error+c.Hint != "" {
		t.Errorf("no error, want %q with the hint %q", c.Error, c.Hint)
	}
	wantParts(t, "notes", b.Notes, c.Notes)
	var exchanges []string
	for _, e := range b.Exchanges {
		exchanges = append(exchanges, e.Request+": "+strings.Join(phases(e), " "))
		told += fmt.Sprint(e.Request, e.Err, e.Header)
	}
	if c.Exchanges != nil {
		wanted := slices.Clone(c.Exchanges)
		for i := range wanted {
			wanted[i] = placeholders.Replace(wanted[i])
		}
		wantParts(t, "exchanges", exchanges, wanted)
	}
	if c.HTTPStatus != 0 && b.HTTPStatus != c.HTTPStatus {
		t.Errorf("HTTP status: got %d, want %d", b.HTTPStatus, c.HTTPStatus)
	}
	page := string(pageOf(t, b, err == nil))
	for pattern, want := range c.Lines {
		if got := regexp.MustCompile("(?m)^"+pattern+".*$").FindAllString(page, -1); !slices.Equal(got, want) {
			t.Errorf("lines of the page that begin with %s (-want +got):\n%s", pattern, cmp.Diff(want, got))
		}
	}
	for _, secret := range c.NeverSaid {
		if strings.Contains(told, secret) {
			t.Errorf("%q is said in %s", secret, told)
		}
	}
	if err == nil {
		wantReadable(t, b)
		wantAvailableOnly(t, page)
	}
	for _, f := range b.Foreign(err == nil) {
		if f.Series > 0 && !strings.Contains(string(f.Text), f.TextName()) {
			t.Errorf("samples of %s are called otherwise:\n%s", f.Name, f.Text)
		}
	}
}

// wantAvailableOnly holds that a canonical family is called available if and only if the page has a sample of it.
func wantAvailableOnly(t *testing.T, page string) {
	t.Helper()
	for _, family := range regexp.MustCompile(`(?m)^chatstack_xmpp_family_available{family="(.*)"} (.)$`).FindAllStringSubmatch(page, -1) {
		if served := regexp.MustCompile(`(?m)^` + family[1] + `(_bucket)?[ {]`).MatchString(page); served != (family[2] == "1") {
			t.Errorf("family %s is called available: %s, on a page that has it: %t", family[1], family[2], served)
		}
	}
}

// wantParts wants each of these texts in another of got, and no more of got than that.
func wantParts(t *testing.T, what string, got, want []string) {
	t.Helper()
	rest := slices.Clone(got)
	for _, part := range want {
		if i := slices.IndexFunc(rest, func(s string) bool { return strings.Contains(s, part) }); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
	}
	if len(rest) > 0 || len(got) != len(want) {
		t.Errorf("%s: got %q, want these in them: %q", what, got, want)
	}
}

// caseServer is the server of one case.
type caseServer struct {
	*serviceCase
	ended  sync.WaitGroup     // conversations over plain connections
	packed map[*answer]string // the bodies of those with gzip

	mu    sync.Mutex
	asked []string
	sent  http.Header // with the last request
	heard []byte
}

// start starts the server and returns its address and, over TLS, the file of its authority.
func (s *caseServer) start(t *testing.T) (address, authority string) {
	t.Helper()
	// Compressing must not take the reading's time.
	s.packed = map[*answer]string{}
	for _, a := range append(slices.Collect(maps.Values(s.Paths)), &s.answer) {
		if a.Gzip {
			s.packed[a] = gzipped(string(a.Body))
		}
	}
	if s.Over == "" && s.Says == nil && s.Capture == "" && s.Then != "closes" && s.Then != "resets" {
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		return server.Listener.Addr().String(), ""
	}
	network, address := "tcp", "127.0.0.1:0"
	if s.Over == "unix" {
		network, address = "unix", filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address) //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	if s.Over == "tls" {
		root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
		authority = exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)
		shown := exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}}.Make(t))
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12})
	}
	if s.Capture != "" {
		s.readCapture(t)
	}
	return exchangetest.ServeEach(t, l, func(conn net.Conn) {
		s.ended.Add(1)
		defer s.ended.Done()
		s.converse(conn)
	}), authority
}

// converse reads the head of a request and says the case's text, or answers calls, one line each.
func (s *caseServer) converse(conn net.Conn) {
	var in io.Reader = conn
	if s.Heard != "" {
		in = io.TeeReader(conn, (*heardBy)(s))
	}
	if s.Says == nil && s.Over == "unix" && s.Then == "" {
		for d := json.NewDecoder(in); ; {
			var request json.RawMessage
			if d.Decode(&request) != nil {
				return
			}
			if text, ok := s.call("", nil, request, string(s.Body)); ok {
				io.WriteString(conn, text+"\n") //nolint:errcheck // the client may be gone
			}
		}
	}
	in.Read(make([]byte, 4096)) //nolint:errcheck,gosec // whatever it is
	var said strings.Builder    // in one piece, so that the client has it in one piece
	for _, piece := range s.Says {
		said.WriteString(string(piece))
	}
	exchangetest.Say(said.String())(conn)
	switch s.Then {
	case "hangs":
		io.Copy(io.Discard, in) //nolint:errcheck // the client is gone then
	case "resets":
		exchangetest.Reset(conn)
	}
}

// heardBy notes what the client says.
type heardBy caseServer

// Write implements io.Writer.
func (h *heardBy) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, p...)
	return len(p), nil
}

// ServeHTTP implements http.Handler.
func (s *caseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Header.Set("Host", r.Host)
	a := &s.answer
	if s.Paths != nil {
		if a = s.Paths[r.Method+" "+r.URL.Path]; a == nil {
			a = s.Paths[r.Method+" "+path.Dir(r.URL.Path)+"/*"]
		}
		if a == nil {
			a = &answer{Status: http.StatusTeapot}
		}
	}
	text, ok := s.call(r.Method+" "+r.URL.RequestURI(), r.Header, request, string(a.Body))
	if a.Then == "closes" {
		panic(http.ErrAbortHandler)
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	if a.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		text = s.packed[a]
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	io.WriteString(w, text) //nolint:errcheck // a test's server
	if !ok || a.Then == "hangs" {
		if a.Status != 0 {
			http.NewResponseController(w).Flush() //nolint:errcheck,gosec // a test's server
		}
		<-r.Context().Done()
	}
}

// call notes a request and returns its answer: by the method of a JSON-RPC call where the case has rpc, and with its id for
// %ID%. False is no answer at all.
func (s *caseServer) call(line string, header http.Header, request []byte, text string) (string, bool) {
	var call struct {
		JSONRPC, Method string
		ID              json.RawMessage
	}
	isCall := json.Unmarshal(request, &call) == nil && call.JSONRPC == "2.0"
	s.mu.Lock()
	s.asked, s.sent = append(s.asked, strings.TrimSpace(line+" "+call.Method)), header
	s.mu.Unlock()
	if !isCall {
		return text, s.RPC == nil
	}
	if s.RPC != nil {
		text = string(s.RPC[call.Method])
		if _, own := s.RPC[call.Method]; !own && call.Method == "rpc.info" {
			methods := "{\"rpc.info\": {}"
			for method := range s.RPC {
				methods += fmt.Sprintf(", %q: {}", method)
			}
			text = `{"jsonrpc": "2.0", "id": %ID%, "result": {"methods": ` + methods + `}}}`
		}
	}
	return strings.ReplaceAll(text, "%ID%", string(call.ID)), s.RPC == nil || text != ""
}

// compare holds what the server was asked to what the case wants.
func (s *caseServer) compare(t *testing.T, placeholders *strings.Replacer) {
	t.Helper()
	if s.Heard != "" {
		s.ended.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Asked != nil && !slices.Equal(s.asked, s.Asked) {
		t.Errorf("asked: got %q, want %q", s.asked, s.Asked)
	}
	for name, want := range s.Sent {
		if want = placeholders.Replace(want); s.sent == nil || s.sent.Get(name) != want {
			t.Errorf("header %s of the last request: got %q, want %q", name, s.sent.Get(name), want)
		}
	}
	if got := string(s.heard); got != s.Heard {
		t.Errorf("the server heard %q, want %q", got, s.Heard)
	}
}

// captureTrailer is what the tool that made the captures wrote below them.
var captureTrailer = regexp.MustCompile(`\n\[curl [^\]]*\]\n?$`)

// readCapture makes the case's server say what a real one once did: the bytes of an .http file, or a .txt file with the line
// ends of the wire, after which the server closes, or hangs where the real one did.
func (s *caseServer) readCapture(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", s.Capture))
	if err != nil {
		t.Fatal(err)
	}
	said := string(raw)
	if strings.HasSuffix(s.Capture, ".txt") {
		if strings.Contains(said, "exit=28") {
			s.Then = "hangs"
		}
		head, body, _ := strings.Cut(strings.ReplaceAll(captureTrailer.ReplaceAllString(said, ""), "\r\n", "\n"), "\n\n")
		said = strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
		if !strings.HasPrefix(head, "HTTP/") {
			said = ""
		}
		// The captures' own line ends may have changed the length of a body.
		said = regexp.MustCompile(`(?i)Content-Length: \d+\r\n`).ReplaceAllString(said, "")
		said = strings.Replace(said, "Connection: Keep-Alive", "Connection: close", 1)
	}
	s.Says = []caseText{caseText(said)}
}

func gzipped(text string) string {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	io.WriteString(z, text) //nolint:errcheck // a buffer takes it
	z.Close()               //nolint:errcheck,gosec // a buffer takes it
	return packed.String()
}
