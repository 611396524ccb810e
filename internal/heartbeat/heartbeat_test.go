package heartbeat

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// TestMain holds that the package's tests leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is in every URL, and must be nowhere else.
const secret = "hunter2-token"

// buffer is a log that several goroutines may write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// service is a RoundTripper that remembers when it was asked, and answers.
type service struct {
	mu     sync.Mutex
	begun  time.Time
	asked  []time.Duration
	answer func(*http.Request) (*http.Response, error)
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.begun))
	answer := s.answer
	s.mu.Unlock()
	return answer(req)
}

// set replaces the answer.
func (s *service) set(answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// times returns when it was asked, since the last call.
func (s *service) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func status(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code,
			Header:     http.Header{},
			Body:       io.NopCloser(strings.NewReader(body)),
			Request:    req,
		}, nil
	}
}

func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// bench is a heartbeat each minute beside polls each 30 s, in the time of a bubble.
type bench struct {
	*Heartbeat
	service *service
	log     *buffer
	// completed is when the last poll completed, polling whether polls complete.
	completed atomic.Pointer[time.Time]
	polling   atomic.Bool
}

// inBubble runs a test with a bench whose polls complete each 10 s once polling is set.
func inBubble(t *testing.T, test func(*testing.T, *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		answer := status(200, "OK") //nolint:bodyclose // the client closes it
		b := &bench{service: &service{begun: time.Now(), answer: answer}, log: &buffer{}}
		b.completed.Store(&time.Time{})
		b.Heartbeat = New(Options{
			URL:          config.NewSecret("https://hc.test/" + secret),
			Method:       config.HeartbeatGet,
			Every:        time.Minute,
			PollInterval: 30 * time.Second,
			Completed:    func() time.Time { return *b.completed.Load() },
			Transport:    b.service,
			Log:          slog.New(slog.NewTextHandler(b.log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		running.Go(func() {
			for ctx.Err() == nil {
				if now := time.Now(); b.polling.Load() {
					b.completed.Store(&now)
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
				}
			}
		})
		test(t, b)
		cancel()
		running.Wait()
		if shown := fmt.Sprintf("%s %+v", b.log, b.Status()); strings.Contains(shown, secret) {
			t.Errorf("the token is told: %s", shown)
		}
	})
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) mustAsk(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := b.service.times(); !slices.Equal(got, want) {
		t.Errorf("heartbeats at %v, want %v", got, want)
	}
}

func TestHeartbeatsBeginWithTheFirstPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		t.Helper()
		pass(15 * time.Minute)
		b.mustAsk(t)
		if b.Status() != (Status{}) {
			t.Errorf("before the first poll: %+v", b.Status())
		}
		b.polling.Store(true)
		pass(3*time.Minute + 15*time.Second)
		const poll = 15*time.Minute + 10*time.Second
		asked := b.service.times()
		if len(asked) != 4 || asked[0] < poll || asked[0] > poll+time.Second {
			t.Fatalf("heartbeats at %v, want 4, the first within a second after %s", asked, poll)
		}
		for i := range asked[1:] {
			if asked[i+1]-asked[i] != time.Minute {
				t.Errorf("heartbeats at %v, want one each minute", asked)
			}
		}
	})
}

func TestHeartbeatsPauseWhileNoPollCompletes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.polling.Store(true)
		pass(61 * time.Second)
		b.service.times()
		b.polling.Store(false) // the last poll completed at 60 s, so heartbeats go on until 60 s + 2 * 60 s + 30 s
		pass(10 * time.Minute)
		for _, at := range b.service.times() {
			if at > 210*time.Second {
				t.Errorf("a heartbeat at %s, want none later than 210 s", at)
			}
		}
		if !b.Status().Paused || b.Status().LastError != "" {
			t.Errorf("while no poll completes: %+v", b.Status())
		}
		b.polling.Store(true)
		pass(11 * time.Second)
		if asked := b.service.times(); len(asked) != 1 || b.Status().Paused {
			t.Errorf("polls complete again: heartbeats at %v, %+v; want one within a second of a poll", asked, b.Status())
		}
		for _, line := range []string{"no heartbeats are sent, because no poll completes", "heartbeats are sent again"} {
			if n := strings.Count(b.log.String(), line); n != 1 {
				t.Errorf("the log has %q %d times, want once:\n%s", line, n, b.log)
			}
		}
	})
}

func TestFailureIsToldOnceAndRetriedAtTheNextTick(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.polling.Store(true)
		pass(30 * time.Second)
		good := b.Status().LastSuccess
		if good.IsZero() {
			t.Fatalf("the first heartbeat: %+v", b.Status())
		}
		b.service.set(status(500, "no "+secret)) //nolint:bodyclose // the client closes it
		pass(4 * time.Minute)
		if n := len(b.service.times()); n != 5 {
			t.Errorf("%d heartbeats, want 5: one each minute", n)
		}
		got := b.Status()
		if got.LastSuccess != good || got.FailingSince.IsZero() ||
			!strings.Contains(got.LastError, "get at hc.test: status 500: no <secret>") {
			t.Errorf("while it fails: %+v", got)
		}
		b.service.set(func(*http.Request) (*http.Response, error) { return nil, errors.New("dial: refused " + secret) })
		pass(2 * time.Minute)
		b.service.set(status(204, "")) //nolint:bodyclose // the client closes it
		pass(2 * time.Minute)
		if got := b.Status(); got.LastError != "" || !got.FailingSince.IsZero() || !got.LastSuccess.After(good) {
			t.Errorf("after it has recovered: %+v", got)
		}
		for line, want := range map[string]int{"heartbeat does not arrive": 1, "heartbeat arrives again": 1, "failed_for=6m0s": 1} {
			if n := strings.Count(b.log.String(), line); n != want {
				t.Errorf("the log has %q %d times, want %d:\n%s", line, n, want, b.log)
			}
		}
	})
}

func TestHeartbeatThatHangsIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.service.set(hang)
		b.polling.Store(true)
		pass(2*time.Minute + 30*time.Second)
		asked := b.service.times()
		if len(asked) != 3 || asked[2]-asked[1] != time.Minute || asked[1]-asked[0] != time.Minute {
			t.Errorf("heartbeats at %v, want one each minute, whatever becomes of it", asked)
		}
		if got := b.Status(); got.FailingSince.Sub(b.service.begun) > asked[0]+sendTimeout || !strings.Contains(got.LastError, "deadline") {
			t.Errorf("after 15 s: %+v", got)
		}
		if !strings.Contains(b.log.String(), "no complete answer within the deadline") {
			t.Errorf("the log lacks what it means:\n%s", b.log)
		}
	})
}

func TestHeartbeatInFlightEndsWithTheExporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, log := time.Now(), &buffer{}
		h := New(Options{
			URL:       config.NewSecret("https://hc.test/" + secret),
			Method:    config.HeartbeatPost,
			Every:     time.Minute,
			Completed: func() time.Time { return now },
			Transport: &service{answer: hang},
			Log:       slog.New(slog.NewTextHandler(log, nil)),
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		h.Run(ctx)
		if took := time.Since(now); took != 5*time.Second || log.String() != "" || h.Status() != (Status{}) {
			t.Errorf("it ended after %s, with %+v and the log %q", took, h.Status(), log)
		}
	})
}

// sent sends one heartbeat over sockets and returns its error as the page shows it, and the log.
func sent(ctx context.Context, t *testing.T, address, method string, transport http.RoundTripper) (shown, log string) {
	t.Helper()
	b := &buffer{}
	h := New(Options{
		URL:       config.NewSecret(address),
		Method:    method,
		Every:     time.Minute,
		Completed: time.Now,
		UserAgent: "chatstack_exporter/test",
		Transport: transport,
		Log:       slog.New(slog.NewTextHandler(b, nil)),
	})
	h.beat(ctx)
	if strings.Contains(h.Status().LastError+b.String(), secret) {
		t.Errorf("the token is told: %+v\n%s", h.Status(), b)
	}
	if (h.Status().LastError == "") == h.Status().LastSuccess.IsZero() {
		t.Errorf("neither arrived nor failed: %+v", h.Status())
	}
	return h.Status().LastError, b.String()
}

func TestFormsOfKnownServicesAreSentAsWritten(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		if strings.HasPrefix(r.URL.Path, "/api/push/") {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"ok":true}`) //nolint:errcheck // read to its end
			return
		}
		io.WriteString(w, "OK") //nolint:errcheck // read to its end
	}))
	defer server.Close()
	for _, path := range []string{
		"/ping/" + secret, "/" + secret + "/a-slug?create=1", "/api/push/" + secret + "?status=up&msg=OK&ping=",
		"/p/" + secret + "/monitor?state=ok",
	} {
		for _, method := range []string{config.HeartbeatGet, config.HeartbeatPost} {
			if shown, _ := sent(t.Context(), t, server.URL+path, method, nil); shown != "" {
				t.Errorf("%s %s: %s", method, path, shown)
			}
			if got.RequestURI != path || !strings.EqualFold(got.Method, method) || got.ContentLength != 0 ||
				got.UserAgent() != "chatstack_exporter/test" {
				t.Errorf("%s %s arrived as %s %s, %d bytes, by %s",
					method, path, got.Method, got.RequestURI, got.ContentLength, got.UserAgent())
			}
		}
	}
}

func TestRefusalsAreFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"an unknown token of Kuma": {404, `{"ok":false,"msg":"Monitor not found or not active."}`, "status 404"},
		"Kuma with status 200": {
			200, `{"ok":false,"msg":"Monitor not found\u0007 for hunter2-token"}`, `"ok": false: Monitor not found`,
		},
		"Kuma":                    {200, `{"ok":true}`, ""},
		"JSON of another service": {200, `{"ok":"no"}`, ""},
		"no JSON":                 {202, `{"ok":false`, ""},
		"a list":                  {200, `[]`, ""},
		"too many":                {429, "", "status 429"},
		"not modified":            {304, "", "status 304"},
		"unauthorized":            {401, "who?", "status 401: who?"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body) //nolint:errcheck // read to its end
		}))
		shown, log := sent(t.Context(), t, server.URL+"/"+secret, config.HeartbeatGet, nil)
		if !strings.Contains(shown, c.want) || c.want == "" && shown != "" {
			t.Errorf("%s: got %q, want %q", name, shown, c.want)
		}
		if (log != "") != (c.want != "") || strings.Contains(log, "\a") {
			t.Errorf("%s: the log is %q", name, log)
		}
		server.Close()
	}
}

func TestTokenGoesToNoOtherServer(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	var location string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/done/") {
			http.Redirect(w, r, location, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	for to, want := range map[string]string{
		other.URL + "/" + secret: "status 307: redirect to another host is not followed",
		strings.Replace(server.URL, "http://", "https://", 1) + "/" + secret: "redirect to another host is not followed",
		"/" + secret:      "redirect to another host is not followed", // in a circle
		"/done/" + secret: "",
	} {
		location = to
		for _, method := range []string{config.HeartbeatGet, config.HeartbeatPost} {
			shown, _ := sent(t.Context(), t, server.URL+"/"+secret, method, nil)
			if !strings.Contains(shown, want) || want == "" && shown != "" {
				t.Errorf("%s to %s: got %q, want %q", method, to, shown, want)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

func TestProxyOfTheEnvironmentIsNotObeyed(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://proxy.test:3128")
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var dialled string
	ctx := exchange.WithDialer(t.Context(), func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = address
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	})
	if shown, _ := sent(ctx, t, "http://hc.test/"+secret, config.HeartbeatGet, nil); shown != "" || dialled != "hc.test:80" {
		t.Errorf("connected to %q: %s; want the service itself", dialled, shown)
	}
}

func TestFailuresOfTheConnectionAreToldWithoutTheToken(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	secure.StartTLS()
	defer secure.Close()
	for address, want := range map[string]string{
		closed.URL + "/" + secret: "connection refused",
		secure.URL + "/" + secret: "certificate",
		"http://a:hunter2-token@" + strings.TrimPrefix(closed.URL, "http://") + "/": "connection refused",
		"http://[::1/" + secret: "make request",
	} {
		shown, log := sent(t.Context(), t, address, config.HeartbeatGet, nil)
		if !strings.Contains(shown, want) || !strings.Contains(log, "hint=") {
			t.Errorf("%s: got %q, want %q; the log is %s", address, shown, want, log)
		}
	}
}

func TestAnswerThatNeverEndsIsBounded(t *testing.T) {
	endless := &service{answer: func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200,
			Header:     http.Header{},
			Body:       io.NopCloser(zeros{}),
			Request:    req,
		}, nil
	}}
	if shown, _ := sent(t.Context(), t, "https://hc.test/"+secret, config.HeartbeatGet, endless); shown != "" {
		t.Errorf("got %q", shown)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
