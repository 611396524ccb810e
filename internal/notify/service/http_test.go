package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// overAll runs a test for each service with a stand-in.
func overAll(t *testing.T, test func(t *testing.T, s *standIn, r Receiver, secrets []string)) {
	t.Helper()
	for _, tt := range services {
		t.Run(tt.name, func(t *testing.T) {
			s := newStandIn(t)
			test(t, s, open(t, tt.url, s.options), tt.secrets)
		})
	}
}

func TestRefusalsHaveReasonsAndNoSecrets(t *testing.T) {
	date := time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		name      string
		answer    http.HandlerFunc
		reason    failure.Reason
		permanent bool
		least     time.Duration
		most      time.Duration
	}{
		{
			name:      "400",
			answer:    status(400, `{"message":"bad"}`),
			reason:    failure.HTTPStatus,
			permanent: true,
		},
		{name: "401", answer: status(401, `{"error":"no"}`), reason: failure.Unauthorized},
		{name: "403", answer: status(403, `{"error":"no"}`), reason: failure.Forbidden},
		{name: "404", answer: status(404, `<html>none</html>`), reason: failure.NotFound},
		{
			name:      "413",
			answer:    status(413, ""),
			reason:    failure.HTTPStatus,
			permanent: true,
		},
		{
			name:   "429 with seconds",
			answer: status(429, `{}`, "Retry-After", "90"),
			reason: failure.Throttled,
			least:  90 * time.Second,
			most:   90 * time.Second,
		},
		{
			name:   "429 with a date",
			answer: status(429, `{}`, "Retry-After", date),
			reason: failure.Throttled,
			least:  time.Minute,
			most:   10 * time.Minute,
		},
		{name: "429 without a time", answer: status(429, `{}`), reason: failure.Throttled},
		{name: "500", answer: status(500, "oops"), reason: failure.HTTPStatus},
		{
			name:   "503 with seconds",
			answer: status(503, "", "Retry-After", "30"),
			reason: failure.HTTPStatus,
			least:  30 * time.Second,
			most:   30 * time.Second,
		},
		{name: "a redirect", answer: status(302, "", "Location", "https://evil.example.org/token"), reason: failure.HTTPStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
				t.Helper()
				s.respond(tt.answer)
				_, err := r.Send(soon(t), message())
				wantFailure(t, err, tt.reason, secrets)
				if got := Permanent(err); got != tt.permanent {
					t.Errorf("permanent %t, want %t: %v", got, tt.permanent, err)
				}
				if got := RetryAfter(err); got < tt.least || got > tt.most {
					t.Errorf("retry after %s, want from %s to %s", got, tt.least, tt.most)
				}
				if got := len(s.requests()); got != 1 {
					t.Errorf("%d requests, want 1", got)
				}
				s.respond(nil)
				if _, err := r.Send(soon(t), message()); err != nil {
					t.Errorf("it does not recover: %v", err)
				}
			})
		})
	}
}

// TestEchoedSecretsAreMasked answers with all that the request contained.
func TestEchoedSecretsAreMasked(t *testing.T) {
	for _, code := range []int{200, 400, 500} {
		overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
			t.Helper()
			s.respond(func(w http.ResponseWriter, req *http.Request) {
				if strings.HasSuffix(req.URL.Path, "/login") {
					accept(w, req)
					return
				}
				var b strings.Builder
				b.WriteString(req.URL.String() + " ")
				req.Header.Write(&b) //nolint:errcheck // a buffer
				for _, secret := range secrets {
					b.WriteString(secret + " ")
				}
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(code)
				io.WriteString(w, b.String()) //nolint:errcheck,gosec // the client may be gone
			})
			answer, err := r.Send(soon(t), message())
			wantNoSecret(t, answer, secrets)
			if err != nil {
				wantNoSecret(t, err.Error()+failure.HintOf(err), secrets)
			}
		})
	}
}

func TestHangingServiceEndsWithTheContext(t *testing.T) {
	overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		s.respond(func(_ http.ResponseWriter, req *http.Request) {
			cancel()
			<-req.Context().Done() // the client has closed the connection
		})
		_, err := r.Send(ctx, message())
		wantFailure(t, err, failure.Timeout, secrets)
		s.respond(nil)
		if _, err := r.Send(soon(t), message()); err != nil {
			t.Errorf("it does not recover: %v", err)
		}
	})
}

func TestSilentHandshakeEndsWithTheContext(t *testing.T) {
	for _, tt := range services {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			address := exchangetest.RawServer(t, "tcp", func(c net.Conn) {
				cancel()
				exchangetest.Hold(c)
			})
			_, err := open(t, tt.url, Options{dial: dialTo(address)}).Send(ctx, message())
			wantFailure(t, err, failure.Timeout, tt.secrets)
		})
	}
}

func TestUnknownAuthorityIsRefused(t *testing.T) {
	overAll(t, func(t *testing.T, s *standIn, _ Receiver, secrets []string) {
		t.Helper()
		for _, tt := range services {
			_, err := open(t, tt.url, Options{dial: s.options.dial}).Send(soon(t), message())
			wantFailure(t, err, failure.TLS, secrets)
			if hint := failure.HintOf(err); !strings.Contains(hint, "ca_file") {
				t.Errorf("the hint does not name ca_file: %s", hint)
			}
		}
		if got := s.requests(); len(got) > 0 {
			t.Errorf("the stand-in got %v", got)
		}
	})
}

func TestEarlyCloseIsClosed(t *testing.T) {
	overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
		t.Helper()
		s.respond(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := r.Send(soon(t), message())
		wantFailure(t, err, failure.Closed, secrets)
	})
}

func TestRefusedConnectionIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	l.Close() //nolint:errcheck,gosec // nothing is lost
	for _, tt := range services {
		_, err := open(t, tt.url, Options{dial: dialTo(l.Addr().String())}).Send(soon(t), message())
		wantFailure(t, err, failure.Refused, tt.secrets)
	}
}

// TestHugeAnswerIsNotRead answers without an end. The service has accepted the message, unless its body says whether it has.
func TestHugeAnswerIsNotRead(t *testing.T) {
	overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
		t.Helper()
		s.respond(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/login") {
				accept(w, req)
				return
			}
			for chunk := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		})
		_, err := r.Send(soon(t), message())
		if r.Service() == "matrix" || r.Threads() && r.Service() == "slack" {
			wantFailure(t, err, failure.Malformed, secrets)
		} else if err != nil {
			t.Errorf("got %v, want success", err)
		}
	})
}

func TestProxyIsUsedOnlyIfConfigured(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://proxy.example.org:3128")
	}
	for _, tt := range services {
		s := newStandIn(t)
		var dialed string
		dial := s.options.dial
		s.options.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed = address
			return dial(ctx, network, address)
		}
		r := open(t, tt.url, s.options)
		if _, err := r.Send(soon(t), message()); err != nil {
			t.Fatal(err)
		}
		if want := r.Host() + ":443"; dialed != want {
			t.Errorf("%s: connected to %s, want %s", tt.name, dialed, want)
		}
	}
}

func TestConfiguredProxyIsAsked(t *testing.T) {
	var got []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.String())
		if user, password, _ := parseBasic(r.Header.Get("Proxy-Authorization")); user != "me" || password != "pr0xysecret" {
			w.WriteHeader(http.StatusProxyAuthRequired)
		}
	}))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "pr0xysecret")
	if _, err := open(t, "generic+http://hook.example.org/in", Options{ProxyURL: u.String()}).Send(soon(t), message()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != "http://hook.example.org/in" {
		t.Errorf("the proxy was asked for %v", got)
	}
	proxy.Close()
	_, err = open(t, "generic+http://hook.example.org/in", Options{ProxyURL: u.String()}).Send(soon(t), message())
	wantFailure(t, err, failure.Refused, []string{"pr0xysecret"})
	if hint := failure.HintOf(err); !strings.Contains(hint, "proxy_url") {
		t.Errorf("the hint does not name proxy_url: %s", hint)
	}
}

func parseBasic(header string) (user, password string, ok bool) {
	r := http.Request{Header: http.Header{"Authorization": {header}}}
	return r.BasicAuth()
}

func TestRenewedAuthorityCountsAtOnce(t *testing.T) {
	s := newStandIn(t)
	other := exchangetest.Certificate{Name: "other", Authority: true}.Make(t)
	o := s.options
	o.CAFile = exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), other)
	r := open(t, services[0].url, o)
	_, err := r.Send(soon(t), message())
	wantFailure(t, err, failure.TLS, nil)
	copyFile(t, s.options.CAFile, o.CAFile)
	if _, err := r.Send(soon(t), message()); err != nil {
		t.Error(err)
	}
}

// Some services say in the body how long to wait: https://core.telegram.org/bots/api#responseparameters,
// https://discord.com/developers/docs/topics/rate-limits, https://spec.matrix.org/v1.9/client-server-api/#rate-limiting.
func TestWaitIsReadFromTheBody(t *testing.T) {
	for _, tt := range []struct {
		body string
		want time.Duration
	}{
		{`{"ok":false,"error_code":429,"description":"retry after 14","parameters":{"retry_after":14}}`, 14 * time.Second},
		{`{"message":"You are being rate limited.","retry_after":0.75,"global":false}`, 750 * time.Millisecond},
		{`{"errcode":"M_LIMIT_EXCEEDED","error":"Too many requests","retry_after_ms":2500}`, 2500 * time.Millisecond},
		{`{"retry_after":1e12}`, time.Hour},
		{`{"retry_after":-1}`, 0},
	} {
		overAll(t, func(t *testing.T, s *standIn, r Receiver, secrets []string) {
			t.Helper()
			s.respond(status(429, tt.body))
			_, err := r.Send(soon(t), message())
			wantFailure(t, err, failure.Throttled, secrets)
			if got := RetryAfter(err); got != tt.want {
				t.Errorf("%s: wait %s, want %s", tt.body, got, tt.want)
			}
		})
	}
}

// TestAnswersThatSayNothingAreMalformed answers with status 200 where the body has to say more.
func TestAnswersThatSayNothingAreMalformed(t *testing.T) {
	for _, tt := range []struct {
		service int
		body    string
	}{
		{5, "<html>"},
		{7, "<html>"},
		{7, "{}"}, // of the login
		{6, "[]"},
	} {
		s := newStandIn(t)
		s.respond(status(http.StatusOK, tt.body))
		_, err := open(t, services[tt.service].url, s.options).Send(soon(t), message())
		wantFailure(t, err, failure.Malformed, services[tt.service].secrets)
	}
}

func TestPlainServerOnTheTLSPortIsExplained(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(accept))
	t.Cleanup(plain.Close)
	for _, tt := range services {
		_, err := open(t, tt.url, Options{dial: dialTo(plain.Listener.Addr().String())}).Send(soon(t), message())
		wantFailure(t, err, failure.TLS, tt.secrets)
	}
}

func TestLostAuthorityIsExplained(t *testing.T) {
	s := newStandIn(t)
	r := open(t, services[0].url, s.options)
	if err := os.Remove(s.options.CAFile); err != nil {
		t.Fatal(err)
	}
	_, err := r.Send(soon(t), message())
	wantFailure(t, err, failure.TLS, services[0].secrets)
}
