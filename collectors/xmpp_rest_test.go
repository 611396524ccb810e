package collectors

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

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
		"the host": {
			at("chat.test", true),
			other,
			"chat.test",
			"",
		},
		"the host in capitals": {
			at("Chat.Test", true),
			other,
			"chat.test",
			"",
		},
		"a host that is not there": {
			at("ghost.test", true),
			other,
			"chat.test",
			failure.Mismatch,
		},
		"no such host in the JID": {
			asJID,
			other,
			"chat.test",
			failure.Mismatch,
		},
		"open, no such host": {
			at("ghost.test", false),
			other,
			"",
			failure.Mismatch,
		},
		"no token, no such host": {
			at("ghost.test", false),
			other,
			"chat.test",
			failure.Mismatch,
		},
		"a title of the host": {
			at("chat.test", true),
			titled,
			"chat.test",
			"",
		},
		"a title of another host": {
			at("ghost.test", true),
			titled,
			"chat.test",
			failure.Mismatch,
		},
		"no host was configured": {
			at("", true),
			other,
			"chat.test",
			"",
		},
		"another path, without a name": {
			at("ghost.test", true),
			`[]`,
			"chat.test",
			"",
		},
		"another path, with other JSON": {
			at("ghost.test", true),
			`{"site_name":1}`,
			"chat.test",
			"",
		},
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
				if noted := strings.Contains(strings.Join(b.Notes, "\n"),
					"the API of chat.test answered"); noted != (name == "no host was configured") {
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

// TestVirtualHostMayAnswerAtAnotherName has a server whose http_host gives a virtual host another name for HTTP.
func TestVirtualHostMayAnswerAtAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		token       string
		defaultHost string // whose http_default_host answers at every other name; "" is none
		challenged  bool
		want        failure.Reason
	}{
		"no default host":      {token: "sesame-token", challenged: true},
		"another default host": {token: "sesame-token", challenged: true, defaultHost: "other.test"},
		"the default host itself": {
			token:       "sesame-token",
			challenged:  true,
			defaultHost: "chat.test",
			want:        failure.Mismatch,
		},
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
