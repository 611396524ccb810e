package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// speaking serves each connection with what serve writes once the request's header was read, and tells of requests.
func speaking(t *testing.T, serve func(conn net.Conn)) (dial exchange.DialFunc, requests <-chan *http.Request) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck,gosec // the test is over
	came := make(chan *http.Request, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // the test is over
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				came <- req
				serve(conn)
			}()
		}
	}()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}, came
}

// callSingly makes one call.
func callSingly(ctx context.Context, dial exchange.DialFunc) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v1.41/containers/a/stats?one-shot=1", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Host = "api.moby.localhost"
	return singleCalls{dial}.RoundTrip(req)
}

// askSingly makes one call and reads its answer.
func askSingly(ctx context.Context, dial exchange.DialFunc) (string, error) {
	seen := &exchange.Wire{}
	resp, err := callSingly(ctx, seen.Watch(dial))
	if err != nil {
		return "", seen.Explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		err = seen.Explain(err)
	}
	return string(content), err
}

func TestSingleCallReadsEveryKindOfAnswer(t *testing.T) {
	long := strings.Repeat("x", 3*singleBuffer)
	for name, tt := range map[string]struct{ answer, want string }{
		"with a length":   {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long), long},
		"in chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", "onetwo"},
		"until the end":   {"HTTP/1.0 200 OK\r\n\r\n" + long, long},
		"nothing":         {"HTTP/1.1 204 No Content\r\n\r\n", ""},
		"of an old kind":  {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
		"hints before it": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
		"more than it is": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", "ok"},
	} {
		dial, requests := speaking(t, func(conn net.Conn) {
			io.WriteString(conn, tt.answer) //nolint:errcheck,gosec // the caller says what came
		})
		got, err := askSingly(t.Context(), dial)
		if got != tt.want || err != nil {
			t.Errorf("%s: got %d bytes, error %v; want %d", name, len(got), err, len(tt.want))
		}
		req := <-requests
		if !req.Close || req.Host != "api.moby.localhost" || req.RequestURI != "/v1.41/containers/a/stats?one-shot=1" {
			t.Errorf("%s: asked for %s of %s, last: %t", name, req.RequestURI, req.Host, req.Close)
		}
	}
}

func TestSingleCallTellsWhyItFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		reason failure.Reason
		text   string
	}{
		"no answer":          {"", failure.Closed, "unexpected EOF"},
		"a part of a header": {"HTTP/1.1 200 OK\r\nContent-", failure.Closed, "breaks off"},
		"a part of a body":   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", failure.Closed, "unexpected EOF"},
		"a part of a chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", failure.Closed, "unexpected EOF"},
		"no length":          {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", failure.Malformed, "Content-Length"},
		"unknown encoding":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", failure.Malformed, "transfer encoding"},
		"no HTTP":            {"SSH-2.0-OpenSSH_9.2\r\n\r\n", failure.Malformed, "malformed HTTP"},
		"an endless header":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*exchange.MaxHeaderBytes), failure.TooLarge, "the header has more than"},
	} {
		dial, _ := speaking(t, func(conn net.Conn) {
			io.WriteString(conn, tt.answer) //nolint:errcheck,gosec // the caller says what came
		})
		_, err := askSingly(t.Context(), dial)
		if err == nil || failure.ReasonOf(err) != tt.reason || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, reason %s; want one that says %q, reason %s", name, err, failure.ReasonOf(err), tt.text, tt.reason)
		}
	}
	refused := errors.New("refused")
	if _, err := askSingly(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want the dial's", err)
	}
}

func TestSingleCallEndsWithItsContextAndLeavesNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer":        "",
		"in the middle of a body":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
		"in the middle of a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			dial, requests := speaking(t, func(conn net.Conn) {
				io.WriteString(conn, answer)         //nolint:errcheck,gosec // the caller says what came
				_, err := conn.Read(make([]byte, 1)) // until the other side closes
				if err == nil {
					t.Error("the caller sent more than its request")
				}
				close(ended)
			})
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-requests
				cancel()
			}()
			if _, err := askSingly(ctx, dial); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's", err)
			}
			<-ended
			for range 1000 {
				if runtime.NumGoroutine() <= before {
					return
				}
				time.Sleep(time.Millisecond)
			}
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		})
	}
}

// TestRefusalBeforeTheRequestIsReadIsHeard writes to a connection whose other side has answered and is gone.
func TestRefusalBeforeTheRequestIsReadIsHeard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // the test is over
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		theirs, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		io.WriteString(theirs, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno") //nolint:errcheck,gosec // what came is looked at
		return ours, theirs.Close()
	}
	if got, err := askSingly(t.Context(), dial); got != "no" || err != nil {
		t.Errorf("got %q, error %v, want the answer", got, err)
	}
}

// TestConnectionEndsWithTheBody reads an answer to its end and does not close it, as the Docker client does with errors.
func TestConnectionEndsWithTheBody(t *testing.T) {
	ended := make(chan error, 1)
	dial, _ := speaking(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno") //nolint:errcheck,gosec // the caller says what came
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	})
	resp, err := callSingly(t.Context(), dial)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(resp.Body); string(content) != "no" || err != nil {
		t.Errorf("got %q, error %v", content, err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the engine's side: %v, want the end", err)
	}
	for range 2 {
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d bytes, error %v", n, err)
		}
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosedAnswerReadsNothing(t *testing.T) {
	dial, _ := speaking(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") //nolint:errcheck,gosec // the caller says what came
	})
	resp, err := callSingly(t.Context(), dial)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := resp.Body.Read(make([]byte, 2)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got %d bytes, error %v", n, err)
	}
}

// watchedReads fails the test where something is read before that is allowed.
type watchedReads struct {
	net.Conn
	t       *testing.T
	allowed *atomic.Bool
}

func (c watchedReads) Read(p []byte) (int, error) {
	if !c.allowed.Load() {
		c.t.Error("the answer was looked for before the rest was over")
	}
	return c.Conn.Read(p)
}

// TestAnswerIsLeftAloneUntilTheRestIsOver has it there long before.
func TestAnswerIsLeftAloneUntilTheRestIsOver(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	var allowed atomic.Bool
	answered := make(chan struct{}, 1)
	plain, _ := speaking(t, func(conn net.Conn) {
		io.WriteString(conn, answer) //nolint:errcheck,gosec // the caller says what came
		answered <- struct{}{}
	})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain(ctx, network, address)
		return watchedReads{conn, t, &allowed}, err
	}
	over := make(chan struct{})
	ctx, c := record(t.Context())
	c.rest = &Rest{over: over}
	go func() {
		<-answered
		allowed.Store(true)
		close(over)
	}()
	if got, err := askSingly(ctx, dial); got != "ok" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	ended, c = record(ended)
	c.rest = &Rest{over: make(chan struct{})} // which never is
	go func() {
		<-answered
		cancel()
	}()
	if _, err := askSingly(ended, dial); !errors.Is(err, context.Canceled) {
		t.Errorf("given up while it rested: got %v, want %v", err, context.Canceled)
	}
}

// TestRestFollowsTheEngine has engines answer until some moment, and a machine that takes long to read what is there.
func TestRestFollowsTheEngine(t *testing.T) {
	const ms = time.Millisecond
	var rest time.Duration
	for _, engine := range []struct {
		last        time.Duration
		least, most time.Duration // of the rest, once it is known
		rounds      int           // that may pass until then
	}{
		{1800 * ms, 1450 * ms, 1810 * ms, 1},
		{2500 * ms, maxRest, maxRest, 1},    // some come one by one
		{900 * ms, 600 * ms, 910 * ms, 20},  // it has become quicker, or has fewer containers
		{0, 0, 10 * ms, 100},                // it answers at once
		{1000 * ms, 700 * ms, 1010 * ms, 1}, // it does so no more
	} {
		for round := range engine.rounds + 100 {
			if round >= engine.rounds && (rest < engine.least || rest > engine.most) {
				t.Fatalf("last answer after %s: round %d rests for %s, want %s to %s", engine.last, round, rest, engine.least, engine.most)
			}
			begun := time.Now()
			r := &Rest{patience: rest, begun: begun}
			for i := range 100 { // a quarter of a second to read all of them
				looked := begun.Add(rest + time.Duration(i)*5*ms/2)
				there := begun.Add(engine.last * time.Duration(i+1) / 100)
				now := looked.Add(ms)
				if there.After(now) {
					now = there
				}
				r.came(looked, now)
			}
			rest, _ = r.Next()
		}
	}
}

// TestStatsTakeNoGoroutineBesideTheirOwn has an engine hold all answers back, and counts.
func TestStatsTakeNoGoroutineBesideTheirOwn(t *testing.T) {
	const calls = 20
	release := make(chan struct{})
	dial, requests := speaking(t, func(conn net.Conn) {
		<-release
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") //nolint:errcheck,gosec // the caller says what came
	})
	before := runtime.NumGoroutine()
	results := make(chan error, calls)
	for range calls {
		go func() {
			_, err := askSingly(t.Context(), dial)
			results <- err
		}()
	}
	for range calls {
		<-requests
	}
	// The caller's and the engine's, which this test is as well.
	if got := runtime.NumGoroutine() - before; got > 2*calls {
		t.Errorf("%d goroutines for %d calls, want two each", got, calls)
	}
	close(release)
	for range calls {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
