package collectors

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// servicesRPC serves GET / as the real services do, and answers calls with status and body; without a body it is silent.
func servicesRPC(t *testing.T, status int, body string) *IRCServices {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusNotFound)
		case err != nil || r.URL.Path != "/jsonrpc" || r.Header.Get("Content-Type") != "application/json" || !strings.Contains(string(call), `"id":"1"`):
			t.Errorf("call %s %s: %s: %v", r.URL.Path, r.Header, call, err)
		case body == "":
			w.Header().Set("Content-Length", "24")
			if status != 0 {
				w.WriteHeader(status)
				http.NewResponseController(w).Flush() //nolint:errcheck,gosec // a test's server
			}
			<-r.Context().Done()
		default:
			w.WriteHeader(status)
			io.WriteString(w, body) //nolint:errcheck // a test's server
		}
	}))
	t.Cleanup(server.Close)
	s := newIRCServicesSettings()
	s.URL, s.JSONRPC = server.URL+"/", true
	return s
}

func readServices(t *testing.T, s *IRCServices, timeout time.Duration) (*Batch, error) {
	t.Helper()
	probe, err := newIRCServices(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, probe, timeout)
}

func TestIRCServicesCallShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body       string
		want       failure.Reason
		hint, text string
	}{
		"answered":                               {200, `{"error":null,"id":"1","result":{"accountname":"*","online":false}}`, "", "", ""},
		"error":                                  {200, `{"error":{"code":2,"message":"Invalid command"},"id":"1","result":null}`, failure.RPCError, "", "error 2: Invalid command"},
		"other id":                               {200, `{"error":null,"id":"2","result":{}}`, failure.Mismatch, "", ""},
		"int id":                                 {200, `{"error":null,"id":1,"result":{}}`, failure.Malformed, "", ""},
		"no result":                              {200, `{"error":null,"id":"1","result":null}`, failure.Malformed, "", ""},
		"no json":                                {200, "<html>", failure.Malformed, "", ""},
		"silent":                                 {0, "", failure.Timeout, "the JSON-RPC call does not", ""},
		"404":                                    {404, "Not Found", failure.NotFound, "transport/jsonrpc", ""},
		"404 without the body that it announces": {404, "", failure.NotFound, "transport/jsonrpc", ""},
		"415":                                    {415, "no", failure.HTTPStatus, "", "status 415"},
		"500":                                    {500, "no", failure.HTTPStatus, "", "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 10 * time.Second
			if c.body == "" {
				timeout = 300 * time.Millisecond
			}
			b, err := readServices(t, servicesRPC(t, c.status, c.body), timeout)
			if len(b.Exchanges) != 2 || !strings.HasSuffix(b.Exchanges[1].Request, "/jsonrpc atheme.ison") {
				t.Errorf("exchanges %v", b.Exchanges)
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.want)
			if err != nil && (!strings.Contains(failure.HintOf(err), c.hint) || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("got %q with hint %q, want %q and %q", err, failure.HintOf(err), c.text, c.hint)
			}
		})
	}
}

func TestIRCServicesAreCalledOnlyWhereThatIsWanted(t *testing.T) {
	stack := simstacktest.Start(t, simstack.Options{})
	for content, want := range map[string]string{"": "", "    jsonrpc: true\n": "atheme.ison"} {
		cfg, err := config.Load(config.Source{
			File: "exporter.yaml", Content: []byte("targets:\n  - kind: irc_services\n" + content), Kinds: ConfigKinds(),
			Lookup: func(name string) (string, bool) {
				if name != "IRC_SERVICES_JSONRPC_URL" {
					return "", false
				}
				return stack.Environ()[name], true
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		before := len(stack.Requests("irc_services"))
		if _, err := readServices(t, cfg.Targets[0].(*IRCServices), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range stack.Requests("irc_services")[before:] {
			got += r.RPC
		}
		if got != want {
			t.Errorf("%q: called %q, want %q", content, got, want)
		}
	}
}

func TestIRCServicesAddressesFollowTheVariable(t *testing.T) {
	for variable, want := range map[string][2]string{
		"http://irc:8081/jsonrpc": {"http://irc:8081/", "http://irc:8081/jsonrpc"},
		"http://irc:8081":         {"http://irc:8081/", "http://irc:8081/jsonrpc"},
		"http://irc:8081/x/rpc":   {"http://irc:8081/", "http://irc:8081/x/rpc"},
	} {
		cfg, err := config.Load(config.Source{Kinds: ConfigKinds(), Lookup: func(name string) (string, bool) {
			if name != "IRC_SERVICES_JSONRPC_URL" {
				return "", false
			}
			return variable, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		s := cfg.Targets[0].(*IRCServices)
		if got := [2]string{s.URL, s.JSONRPCURL}; got != want {
			t.Errorf("%s: got %v, want %v", variable, got, want)
		}
	}
	s := newIRCServicesSettings()
	s.URL, s.JSONRPC = "http://irc:8081/health", true
	c := newProbe(t, newIRCServices, s)
	if got, want := c.(*ircServices).rpc, "http://irc:8081/jsonrpc"; got != want {
		t.Errorf("without jsonrpc_url got %s, want %s", got, want)
	}
}
