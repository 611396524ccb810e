package collectors

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// captured serves a captured answer of a real server to everything, byte for byte.
func captured(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", dir, name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + exchangetest.RawServer(t, "tcp", exchangetest.Say(string(raw)))
}

func restProbe(t *testing.T, url string, change func(*XMPPRest)) Collector {
	t.Helper()
	s := newXMPPRestSettings()
	s.Name, s.URL = "xmpp_rest", url
	if change != nil {
		change(s)
	}
	return newProbe(t, newXMPPRest, s)
}

func withToken(s *XMPPRest) {
	s.Token, s.Domain = config.NewSecret("sesame-token"), "chat.test"
}

func withPassword(s *XMPPRest) {
	s.User, s.Password = "admin@chat.test", config.NewSecret("sesame-password")
}

func TestXMPPRestSaysWhetherTheCredentialIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		capture    string
		credential func(*XMPPRest)
		want       failure.Reason // "" is up
		says       string         // in the hint, or in the notes
	}{
		"token":              {"ok", withToken, "", "version 13.0.1"},
		"no_credential_open": {"ok", nil, "", "without any credential"},
		"password":           {"ok", withPassword, "", "deprecated"},
		"token_unknown":      {"401", withToken, failure.Unauthorized, "does not know this token at chat.test"},
		"password_refused":   {"401", withPassword, failure.Unauthorized, "set XMPP_REST_TOKEN"},
		"no_credential":      {"401", nil, "", "nothing is known of credentials"},
		"no_admin":           {"403", withToken, failure.Forbidden, "no administrator of chat.test"},
		"no_module":          {"404_module", withToken, failure.NotFound, "enable its module http_admin_api"},
		"no_host":            {"404_host", withToken, failure.NotFound, "no virtual host of that name"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(t, restProbe(t, captured(t, "xmpp_rest", c.capture), c.credential), 10*time.Second)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.Join(b.Notes, "\n"), c.says) {
					t.Errorf("notes: got %q, want %q in them", b.Notes, c.says)
				}
				return
			}
			wantReason(t, err, c.want)
			if !strings.Contains(failure.HintOf(err), c.says) {
				t.Errorf("hint: got %q, want %q in it", failure.HintOf(err), c.says)
			}
			if strings.Contains(err.Error()+failure.HintOf(err)+strings.Join(b.Notes, ""), "sesame") {
				t.Errorf("a secret stands in %q, %q or %q", err, failure.HintOf(err), b.Notes)
			}
			goldenFailure(t, "xmpp_rest/"+name, b, err)
		})
	}
}

// TestXMPPRestSaysWhichVirtualHostAnswered has servers with an http_default_host, which answers for hosts that do not exist.
func TestXMPPRestSaysWhichVirtualHostAnswered(t *testing.T) {
	at := func(domain string, token bool) func(*XMPPRest) {
		return func(s *XMPPRest) {
			if s.Domain = domain; token {
				s.Token = config.NewSecret("sesame-token")
			}
		}
	}
	asJID := func(s *XMPPRest) { withPassword(s); s.User = "admin@ghost.test" }
	const titled, other = `{"site_name":"Our little chat","version":"13.0.1"}`, `{"site_name":"chat.test","version":"13.0.1"}`
	for name, c := range map[string]struct {
		change      func(*XMPPRest)
		body, realm string // realm is the virtual host that answers; "" challenges nobody
		want        failure.Reason
	}{
		"the host":                      {at("chat.test", true), other, "chat.test", ""},
		"the host in capitals":          {at("Chat.Test", true), other, "chat.test", ""},
		"a host that is not there":      {at("ghost.test", true), other, "chat.test", failure.Mismatch},
		"no such host in the JID":       {asJID, other, "chat.test", failure.Mismatch},
		"open, no such host":            {at("ghost.test", false), other, "", failure.Mismatch},
		"no token, no such host":        {at("ghost.test", false), other, "chat.test", failure.Mismatch},
		"a title of the host":           {at("chat.test", true), titled, "chat.test", ""},
		"a title of another host":       {at("ghost.test", true), titled, "chat.test", failure.Mismatch},
		"no host was configured":        {at("", true), other, "chat.test", ""},
		"another path, without a name":  {at("ghost.test", true), `[]`, "chat.test", ""},
		"another path, with other JSON": {at("ghost.test", true), `{"site_name":1}`, "chat.test", ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := answering(t, func(w http.ResponseWriter, r *http.Request) {
				if c.realm != "" && r.Header.Get("Authorization") == "" {
					w.Header().Set("Authorization", `Bearer realm="`+c.realm+`/http_admin_api"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Write([]byte(c.body)) //nolint:errcheck,gosec // a test's server
			})
			b, err := read(t, restProbe(t, url, c.change), 10*time.Second)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if b.HTTPStatus != http.StatusOK {
					t.Errorf("status: got %d, want that of the answer", b.HTTPStatus)
				}
				if noted := strings.Contains(strings.Join(b.Notes, "\n"), "the API of chat.test answered"); noted != (name == "no host was configured") {
					t.Errorf("notes: got %q, want the host that answered only where none was configured", b.Notes)
				}
				return
			}
			if err == nil {
				t.Fatal("got no failure, though another host answered")
			}
			wantReason(t, err, c.want)
			if !strings.Contains(failure.HintOf(err), "set XMPP_DOMAIN") || !strings.Contains(failure.HintOf(err), "ghost.test") {
				t.Errorf("hint: got %q, want the host and what to set in it", failure.HintOf(err))
			}
			if says := "but chat.test answered"; !strings.Contains(err.Error(), says) {
				t.Errorf("error: got %q, want %q in it", err, says)
			}
		})
	}
}

func TestXMPPRestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   failure.Reason
	}{
		"500":                 {exchangetest.Say("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), failure.HTTPStatus},
		"a page of something": {exchangetest.Say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), failure.Malformed},
		"401 of a proxy":      {exchangetest.Say("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"proxy\"\r\nContent-Length: 0\r\n\r\n"), failure.Unauthorized},
		"hangs":               {exchangetest.Hold, failure.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 100 * time.Millisecond
			}
			for _, credential := range []func(*XMPPRest){nil, withToken} {
				_, err := read(t, restProbe(t, "http://"+exchangetest.RawServer(t, "tcp", c.answer), credential), timeout)
				wantReason(t, err, c.want)
			}
		})
	}
}

func TestXMPPRestAsksTheVirtualHostWithItsBestCredential(t *testing.T) {
	for name, c := range map[string]struct {
		change              func(*XMPPRest)
		host, authorization string
	}{
		"domain and token": {withToken, "chat.test", "Bearer sesame-token"},
		"domain of the name": {
			func(s *XMPPRest) { withPassword(s); s.User = "admin@other.test/x" }, "other.test",
			"Basic YWRtaW5Ab3RoZXIudGVzdC94OnNlc2FtZS1wYXNzd29yZA==",
		},
		"token before password": {func(s *XMPPRest) { withPassword(s); withToken(s) }, "chat.test", "Bearer sesame-token"},
		"name without password": {func(s *XMPPRest) { s.User = "admin@chat.test" }, "chat.test", ""},
		"nothing":               {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			url := answering(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.Write([]byte("{}")) //nolint:errcheck,gosec // a test's server
			})
			b := readUp(t, restProbe(t, url+"/base/", c.change))
			host := c.host
			if host == "" {
				host = strings.TrimPrefix(url, "http://")
			}
			if got.Host != host || got.Header.Get("Authorization") != c.authorization || got.URL.Path != "/base/admin_api/server/info" {
				t.Errorf("got host %s, %q, path %s; want host %s, %q", got.Host, got.Header.Get("Authorization"), got.URL.Path, host, c.authorization)
			}
			if strings.Contains(strings.Join(b.Notes, "\n"), "of version") {
				t.Errorf("notes: got %q, want no version, since the server tells none", b.Notes)
			}
			if len(b.Exchanges) != 1 || b.Exchanges[0].Request != "GET "+url+"/base/admin_api/server/info" {
				t.Errorf("exchanges: got %+v", b.Exchanges)
			}
		})
	}
}

func TestDeprecatedCredentialIsWarnedAbout(t *testing.T) {
	s := newXMPPRestSettings()
	withPassword(s)
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "set XMPP_REST_TOKEN") {
		t.Errorf("got %q, want one warning that says what to set", w)
	}
	withToken(s)
	s.InsecureSkipVerify = true
	if w := s.Warnings(); len(w) != 1 || !slices.Equal(w, s.TLS.Warnings()) {
		t.Errorf("got %q, want what is said of TLS alone", w)
	}
}

func TestVirtualHostThatIsNotSetIsTheURLs(t *testing.T) {
	for want, probe := range map[string]xmppRest{
		"xmpp.test": {url: "http://xmpp.test:5280/admin_api"},
		"chat.test": {url: "http://xmpp.test:5280/admin_api", host: "chat.test"},
	} {
		if got := probe.where(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestVirtualHostMayAnswerAtAnotherName has a server whose http_host gives a virtual host another name for HTTP.
func TestVirtualHostMayAnswerAtAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		token       string
		defaultHost string // whose http_default_host answers at every other name; "" is none
		challenged  bool
		want        failure.Reason
	}{
		"no default host":           {token: "sesame-token", challenged: true},
		"another default host":      {token: "sesame-token", challenged: true, defaultHost: "other.test"},
		"the default host itself":   {token: "sesame-token", challenged: true, defaultHost: "chat.test", want: failure.Mismatch},
		"without a token":           {challenged: true},
		"a wrong token":             {token: "wrong-token", challenged: true, want: failure.Unauthorized},
		"a proxy has the challenge": {token: "sesame-token"},
	} {
		t.Run(name, func(t *testing.T) {
			url := answering(t, func(w http.ResponseWriter, r *http.Request) {
				host := "chat.test"
				if r.Host != "xmpp.chat.test" {
					host = c.defaultHost
				}
				switch {
				case host == "":
					w.WriteHeader(http.StatusNotFound)
				case r.Header.Get("Authorization") == "Bearer sesame-token":
					fmt.Fprintf(w, `{"site_name":%q,"version":"13.0.1"}`, host) //nolint:errcheck // a test's server
				default:
					if c.challenged {
						w.Header().Set("Authorization", `Bearer realm="`+host+`/http_admin_api"`)
					}
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			_, err := read(t, restProbe(t, url, func(s *XMPPRest) {
				s.Domain = "xmpp.chat.test"
				if c.token != "" {
					s.Token = config.NewSecret(c.token)
				}
			}), 10*time.Second)
			if c.want != "" {
				wantReason(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
