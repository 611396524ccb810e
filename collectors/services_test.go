package collectors

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// expired is a certificate for 127.0.0.1 that is a day too old.
func expired(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "chat.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serving serves one answer to everything.
func serving(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // a test's server
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestXMPPStatusShapes(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   failure.Reason // "" is up
	}{
		"healthy":          {200, `{"chat.test":{"muc":{"type":"core","message":"Loaded","time":"2026-11-20T15:32:15Z"}},"*":{"http":{"type":"core"}}}`, ""},
		"problems":         {200, `{"chat.test":{"a":{"type":"warn","message":"x"},"b":{"type":"error"},"c":{"type":"error"},"d":{}},"*":{}}`, ""},
		"component_up":     {200, `{"bridge.chat.test":{"component":{"type":"info","message":"Connected"}}}`, ""},
		"component_new":    {200, `{"bridge.chat.test":{"component":{"type":"core","message":"Loaded"}}}`, ""},
		"component_global": {200, `{"*":{"component":{"type":"core","message":"Loaded"}}}`, ""},
		"odd_entry":        {200, `{"chat.test":{"a":{"type":5},"b":{"type":"error"}},"bridge.chat.test":{"component":{"type":"info","message":"Connected"}}}`, ""},
		"component_down":   {200, `{"bridge.chat.test":{"component":{"type":"warn","message":"Disconnected"}}}`, ""},
		"not_json":         {200, "OK\n", ""},
		"empty":            {200, "", ""},
		"other_json":       {200, `[1]`, ""},
		"403":              {403, "<html>", failure.Forbidden},
		"404":              {404, "<html>", failure.NotFound},
		"502":              {502, "<html>", failure.HTTPStatus},
	} {
		t.Run(name, func(t *testing.T) {
			s := newXMPPStatusSettings()
			s.URL = serving(t, c.status, c.body) + "/status"
			probe, err := newXMPPStatus(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := read(t, probe, 10*time.Second)
			if c.want != "" {
				wantReason(t, err, c.want)
				goldenFailure(t, "xmpp_status/"+name, b, err)
				if c.want == failure.Forbidden && !strings.Contains(failure.HintOf(err), "http_status_allow_cidr") {
					t.Errorf("hint %q does not name the status module's own allow list", failure.HintOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			goldenPage(t, "xmpp_status/"+name, b)
		})
	}
}

// TestOneOfThemIsInTheSingular reads what people read of one thing: a module, a byte, a deletion that is owed.
func TestOneOfThemIsInTheSingular(t *testing.T) {
	s := newXMPPStatusSettings()
	s.URL = serving(t, 200, `{"chat.test":{"b":{"type":"error"}}}`) + "/status"
	page, err := newXMPPStatus(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := read(t, page, 10*time.Second)
	if want := "chat.test: 1 module in state error"; err != nil || !slices.Contains(b.Notes, want) {
		t.Errorf("got %q, %v, want %q", b.Notes, err, want)
	}

	login := webProbe(t, serving(t, 200, "x"), func(s *Web) { s.ExpectBody = "log in" })
	if _, err := read(t, login, 10*time.Second); err == nil || !strings.HasSuffix(err.Error(), "nothing in 1 byte matches expect_body") {
		t.Errorf("got %v", err)
	}

	plants, url := startStore(t)
	plants.swap(nil, toDeletions(500))
	store := newStoreProbe(t, url, ModeCanary, &memory{})
	mustFail(t, store, failure.HTTPStatus)
	plants.swap(nil, func(w http.ResponseWriter, _ int64) bool { return reset(w) })
	_, err = readFails(t, store, failure.Closed)
	if !strings.HasPrefix(err.Error(), "1 deletion of canaries still owed: ") {
		t.Errorf("got %v", err)
	}
}

// TestComponentsAreToldOfHoweverManyHosts reads a page that is too large for the rest.
func TestComponentsAreToldOfHoweverManyHosts(t *testing.T) {
	for components, want := range map[int]int{1: 1, maxHosts + 5: maxHosts} {
		hosts := map[string]any{"*": map[string]any{"component": map[string]string{"type": "core"}}}
		for i := range maxHosts {
			hosts[fmt.Sprintf("h%d.test", i)] = map[string]any{"roster": map[string]string{"type": "error"}}
		}
		for i := range components {
			hosts[fmt.Sprintf("c%d.test", i)] = map[string]any{"component": map[string]string{"type": "info", "message": "Connected"}}
		}
		page, err := json.Marshal(hosts)
		if err != nil {
			t.Fatal(err)
		}
		s := newXMPPStatusSettings()
		s.URL = serving(t, http.StatusOK, string(page)) + "/status"
		probe, err := newXMPPStatus(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		b := readUp(t, probe)
		if got := ownSeries(t, b, "chatstack_xmpp_component_connected"); len(got) != want || !strings.HasSuffix(got[0], "} 1") {
			t.Errorf("%d components: got %d series, want %d of 1", components, len(got), want)
		}
		if got := ownSeries(t, b, "chatstack_xmpp_module_problems"); len(got) > 0 || len(b.Notes) == 0 || len(b.Notes) > 2 {
			t.Errorf("%d components: got %d series of problems and the notes %q, want none and at most two", components, len(got), b.Notes)
		}
	}
}

func TestIRCServicesAreAliveBelow500(t *testing.T) {
	for status, want := range map[int]failure.Reason{200: "", 404: "", 401: "", 411: "", 500: failure.HTTPStatus, 502: failure.HTTPStatus, 504: failure.HTTPStatus} {
		s := newIRCServicesSettings()
		s.URL = serving(t, status, "")
		probe, err := newIRCServices(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, probe, 10*time.Second); (err == nil) != (want == "") || (err != nil && failure.ReasonOf(err) != want) {
			t.Errorf("status %d: got %v, want %q", status, err, want)
		}
	}
}

// rpcServer answers JSON-RPC over HTTP or over a Unix socket, with the id of the request for %ID%.
func rpcServer(t *testing.T, network, answer string) string {
	t.Helper()
	reply := func(request []byte) string {
		var r struct {
			JSONRPC, Method string
			Params          map[string]any
			ID              int64
		}
		if err := json.Unmarshal(request, &r); err != nil || r.JSONRPC != "2.0" || r.Method != "rpc.info" || r.Params == nil {
			t.Errorf("request %s is no rpc.info: %v", request, err)
		}
		return strings.ReplaceAll(answer, "%ID%", fmt.Sprint(r.ID))
	}
	if network == "unix" {
		l, err := net.Listen("unix", t.TempDir()+"/s") //nolint:noctx // ends with the test
		if err != nil {
			t.Fatal(err)
		}
		return "unix://" + exchangetest.ServeEach(t, l, func(conn net.Conn) {
			buf := make([]byte, 4096)
			n, err := conn.Read(buf)
			if err == nil && buf[n-1] == '\n' {
				io.WriteString(conn, reply(buf[:n])+"\n") //nolint:errcheck // a test's server
			}
			exchangetest.Hold(conn)
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "exporter" || password != "good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.ContentLength != int64(len(body)) {
			t.Errorf("%s with %d of %d bytes: %v", r.Method, len(body), r.ContentLength, err)
		}
		io.WriteString(w, reply(body)) //nolint:errcheck // a test's server
	}))
	t.Cleanup(server.Close)
	return server.URL + "/api"
}

func TestIRCRPCShapes(t *testing.T) {
	for name, c := range map[string]struct {
		answer, password string
		want             failure.Reason
	}{
		"info":        {`{"jsonrpc": "2.0", "method": "rpc.info", "id": %ID%, "result": {"methods": {"rpc.info": {"name": "rpc.info"}}}}`, "good", ""},
		"error":       {`{"jsonrpc": "2.0", "method": "rpc.info", "id": %ID%, "error": {"code": -32000, "message": "not authorized"}}`, "good", failure.RPCError},
		"error no id": {`{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Unparsable JSON data"}}`, "good", failure.RPCError},
		"other id":    {`{"jsonrpc": "2.0", "id": 99999, "result": {"methods": {"rpc.info": {}}}}`, "good", failure.Mismatch},
		"no methods":  {`{"jsonrpc": "2.0", "id": %ID%, "result": {}}`, "good", failure.Mismatch},
		"no result":   {`{"jsonrpc": "2.0", "id": %ID%}`, "good", failure.Malformed},
		"null result": {`{"jsonrpc": "2.0", "id": %ID%, "result": null}`, "good", failure.Malformed},
		"odd result":  {`{"jsonrpc": "2.0", "id": %ID%, "result": [1]}`, "good", failure.Malformed},
		"no json":     {`<html>`, "good", failure.Malformed},
		"password":    {``, "bad", failure.Unauthorized},
	} {
		for _, network := range []string{"tcp", "unix"} {
			if network == "unix" && c.want == failure.Unauthorized {
				continue // the socket knows no passwords
			}
			t.Run(name+"/"+network, func(t *testing.T) {
				s := newIRCRPCSettings()
				s.URL, s.User, s.Password = rpcServer(t, network, c.answer), "exporter", config.NewSecret(c.password)
				probe, err := newIRCRPC(s, deps(&memory{}))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second call has another id
					_, err = read(t, probe, 10*time.Second)
					if c.want == "" && err != nil {
						t.Fatal(err)
					}
					if c.want != "" {
						wantReason(t, err, c.want)
					}
				}
				if err != nil && strings.Contains(err.Error(), "bad") {
					t.Errorf("the password stands in %q", err)
				}
			})
		}
	}
}

func TestIRCSocketFailures(t *testing.T) {
	for name, c := range map[string]struct {
		url  string
		want failure.Reason
	}{
		"missing":  {"unix:///does/not/exist", failure.Refused},
		"hangs":    {"unix://" + exchangetest.RawServer(t, "unix", exchangetest.Hold), failure.Timeout},
		"closes":   {"unix://" + exchangetest.RawServer(t, "unix", func(net.Conn) {}), failure.Closed},
		"half":     {"unix://" + exchangetest.RawServer(t, "unix", exchangetest.Say(`{"jsonrpc":`)), failure.Closed},
		"too long": {"unix://" + exchangetest.RawServer(t, "unix", exchangetest.Say(strings.Repeat("x", 2<<20))), failure.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIRCRPCSettings()
			s.URL = c.url
			probe, err := newIRCRPC(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 100 * time.Millisecond
			}
			_, err = read(t, probe, timeout)
			wantReason(t, err, c.want)
		})
	}
}

func TestStatusPageOfTooManyHostsTellsNothingOfThem(t *testing.T) {
	var body strings.Builder
	for i := range maxHosts + 1 {
		fmt.Fprintf(&body, `,"h%d":{}`, i)
	}
	wantNoModules(t, "{"+body.String()[1:]+"}", 1)
}

func TestStatusPageOfTooManyModulesTellsTheirNumbersAlone(t *testing.T) {
	var body strings.Builder
	for i := range maxModules + 1 {
		fmt.Fprintf(&body, `,"m%d":{"type":"core"}`, i)
	}
	wantNoModules(t, `{"chat.test":{`+body.String()[1:]+"}}", 3)
}

// wantNoModules reads a status page of which the modules are not told, and counts the other metrics.
func wantNoModules(t *testing.T, page string, metrics int) {
	t.Helper()
	s := newXMPPStatusSettings()
	s.URL = serving(t, 200, page) + "/status"
	probe, err := newXMPPStatus(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	b := readUp(t, probe)
	if n := len(b.Metrics(true)); n != metrics || len(b.Notes) != 1 {
		t.Errorf("%d metrics, want %d and one note; notes %q", n, metrics, b.Notes)
	}
	if own := string(ownText(t, b)); strings.Contains(own, "xmpp_module_status{") || !strings.Contains(own, `{family="xmpp_module_status"} 0`) {
		t.Errorf("got\n%s\nwant no module in it, and the family not available", own)
	}
}

// TestStateThatIsNotKnownIsToldOfNoModule reads pages without a module whose state can be told, of which one has an entry
// that is only half of the usual form.
func TestStateThatIsNotKnownIsToldOfNoModule(t *testing.T) {
	for _, page := range []string{`{"chat.test":{"a":{"type":"new"}}}`, `{"chat.test":{"a":{"type":"error","message":5}}}`} {
		s := newXMPPStatusSettings()
		s.URL = serving(t, 200, page) + "/status"
		probe, err := newXMPPStatus(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		b := readUp(t, probe)
		if own := string(ownText(t, b)); strings.Contains(own, "xmpp_module_status{") || !strings.Contains(own, `{family="xmpp_module_status"} 0`) {
			t.Errorf("%s: got\n%s\nwant no module in it, and the family not available", page, own)
		}
	}
}
