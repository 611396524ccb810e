package exchange

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	ngIRCdRefusal = "ERROR :Connection refused, too many connections from your IP address\r\n"
	unrealRefusal = "ERROR :Closing Link: [192.0.2.1] (Throttled: Reconnecting too fast)"
	banned        = ":irc.test 465 * :You're banned!\r\n"
	zLined        = "ERROR :Closing link: (1AA@192.0.2.1) [Z-lined: connecting too many times]\r\n"
)

// brokenWrites are the errors of writing to a server that has gone.
var brokenWrites = []error{syscall.EPIPE, syscall.ECONNRESET}

func TestWordsBeforeABrokenWriteAreRead(t *testing.T) {
	for _, broken := range brokenWrites {
		for _, end := range []error{io.EOF, syscall.ECONNRESET} {
			conn, err := exchangetest.Refusing{Words: "the words", Write: broken, End: end}.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			heard := Hear(conn)
			for range 2 {
				if n, err := heard.Write([]byte("hello")); n != 5 || err != nil {
					t.Errorf("%v: write: %d, %v", broken, n, err)
				}
			}
			words := make([]byte, 100)
			if n, err := heard.Read(words); err != nil || string(words[:n]) != "the words" {
				t.Errorf("%v: read %q, %v", broken, words[:n], err)
			}
			if _, err := heard.Read(words); err == nil || failure.ReasonOf(err) != failure.Closed {
				t.Errorf("%v: after the words: %v", broken, err)
			}
		}
	}
}

func TestBrokenWriteWithoutWordsIsToldAsItIs(t *testing.T) {
	for _, broken := range brokenWrites {
		ctx := WithDialer(t.Context(), exchangetest.Refusing{Write: broken}.Dial)
		err := (&TLSServer{Address: "irc.test:6697"}).Converse(ctx, &Record{}, nil)
		wantReason(t, err, failure.Closed)
		if err != nil && !strings.Contains(err.Error(), broken.Error()) {
			t.Errorf("%v does not name %v", err, broken)
		}
	}
}

// TestPortWithoutTLSIsAPossibleCause of silence, but not once the server has begun STARTTLS.
func TestPortWithoutTLSIsAPossibleCause(t *testing.T) {
	ctx := WithDialer(t.Context(), exchangetest.Refusing{Write: brokenWrites[0], End: io.EOF}.Dial)
	for startTLS, want := range map[string]bool{"": true, XMPPClient: false} {
		err := (&TLSServer{Address: "irc.test:6667", StartTLS: startTLS, Domain: "irc.test"}).Converse(ctx, &Record{}, nil)
		wantReason(t, err, failure.Closed)
		if got := strings.Contains(failure.GuessOf(err), "as on 6667 of IRC"); got != want {
			t.Errorf("starttls %q: guess %q", startTLS, failure.GuessOf(err))
		}
	}
}

// A server that reads nothing has not closed the connection.
func TestWriteThatTakesTooLongFails(t *testing.T) {
	conn, err := exchangetest.Refusing{Words: "the words", Write: os.ErrDeadlineExceeded}.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hear(conn).Write([]byte("hello")); err == nil || failure.ReasonOf(err) != failure.Timeout {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestLastWordsDecideInEveryProtocol(t *testing.T) {
	const stream = "<?xml version='1.0'?><stream:stream version='1.0' xmlns='jabber:client' " +
		"xmlns:stream='http://etherx.jabber.org/streams'>"
	const ban = "<stream:error><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>"
	ask := func(method, url string) func(context.Context) error {
		return func(ctx context.Context) error {
			h := &HTTP{Settings: config.HTTP{URL: url}, Limit: 1000}
			answer, err := h.Do(ctx, &Record{}, method, url, nil, strings.NewReader(strings.Repeat("x", 100_000)))
			if err != nil {
				return err
			}
			return answer.Refusal()
		}
	}
	connect := func(s TLSServer) func(context.Context) error {
		return func(ctx context.Context) error { return s.Converse(ctx, &Record{}, nil) }
	}
	for name, tt := range map[string]struct {
		words string
		talk  func(context.Context) error
		want  failure.Reason
	}{
		"IRC refusal on a TLS port": {ngIRCdRefusal, connect(TLSServer{Address: "irc.test:6697"}), failure.Throttled},
		"without a line end":        {unrealRefusal, connect(TLSServer{Address: "irc.test:6697"}), failure.Throttled},
		"IRC refusal for HTTPS":     {unrealRefusal + "\r\n", ask(http.MethodPost, "https://irc.test:8600/api"), failure.Throttled},
		"IRC refusal for HTTP":      {ngIRCdRefusal, ask(http.MethodGet, "http://irc.test:8600/api"), failure.Throttled},
		"stream error before STARTTLS": {
			stream + ban,
			connect(TLSServer{Address: "xmpp.test:5222", StartTLS: XMPPClient, Domain: "xmpp.test"}),
			failure.Throttled,
		},
		"another service on a TLS port": {"SSH-2.0-OpenSSH_9.2\r\n", connect(TLSServer{Address: "irc.test:6697"}), failure.TLS},
		"401 before the body is sent": {
			"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
			ask(http.MethodPost, "http://web.test/"),
			failure.Unauthorized,
		},
		"413 without a length": {
			"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\ntoo large",
			ask(http.MethodPost, "http://web.test/"),
			failure.HTTPStatus,
		},
		"429 with less than its length": {
			"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 100\r\n\r\nslow",
			ask(http.MethodPost, "http://web.test/"),
			failure.Throttled,
		},
		"200 with less than its length": {
			"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
			ask(http.MethodPost, "http://web.test/"),
			failure.Closed,
		},
		"403 for a request without a body": {
			"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
			ask(http.MethodGet, "http://web.test/"),
			failure.Forbidden,
		},
	} {
		for _, broken := range brokenWrites {
			for _, end := range []error{io.EOF, syscall.ECONNRESET} {
				t.Run(name, func(t *testing.T) {
					ctx := WithDialer(t.Context(), exchangetest.Refusing{Words: tt.words, Write: broken, End: end}.Dial)
					wantReason(t, tt.talk(ctx), tt.want)
				})
			}
		}
	}
}

func TestRetryAfterOfAnAnswerIsInItsFailure(t *testing.T) {
	answer := &Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"90"}}}
	if got := failure.RetryAfterOf(answer.Refusal()); got != 90*time.Second {
		t.Errorf("got %s, want 90s", got)
	}
}

func TestBanIsReadToItsERRORLine(t *testing.T) {
	for text, want := range map[string]string{
		banned + zLined:                            "Z-lined",
		banned:                                     "You're banned!",
		strings.TrimSuffix(zLined, "\r\n"):         "Z-lined",
		":irc.test NOTICE * :hello\r\n" + zLined:   "Z-lined",
		banned + ":irc.test NOTICE * :write to us": "You're banned!",
		banned + "ERROR :Closing Link: x (no)\r\n": "You're banned!",
	} {
		err := AwaitIRCCapabilities(strings.NewReader(text))
		wantReason(t, err, failure.Throttled)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestDeliberateEndOfTLSIsTold has servers that end TLS in each way. In TLS 1.3 a client cannot see why a server ended it in the handshake.
func TestDeliberateEndOfTLSIsTold(t *testing.T) {
	const closeNotify = "\x15\x03\x03\x00\x02\x01\x00"
	certificate := exchangetest.Chain(exchangetest.Certificate{Name: "irc.test"}.Make(t))
	served := func(words string) func(net.Conn) {
		return func(conn net.Conn) {
			server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
			if server.HandshakeContext(t.Context()) == nil && server.ConnectionState().Version == tls.VersionTLS12 {
				io.WriteString(server, words) //nolint:errcheck // the client tells
			}
			server.Close() //nolint:errcheck,gosec // a test's server
		}
	}
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		want  failure.Reason
		says  string
		other bool // no IRC server is expected there
	}{
		"a ban, which only TLS 1.2 shows": {
			served(banned + zLined),
			failure.Throttled,
			"Z-lined",
			false,
		},
		"a ban behind kind tls": {
			served(banned + zLined),
			failure.Throttled,
			"Z-lined",
			true,
		},
		"an end in another handshake": {
			exchangetest.Say(closeNotify),
			failure.Closed,
			"handshake",
			true,
		},
		"a proxy without its server": {
			served(""),
			failure.Closed,
			"CAP LS",
			false,
		},
		"another end of the session": {
			served("ERROR :Closing Link (Server shutdown)\r\n"),
			failure.Closed,
			"CAP LS",
			false,
		},
		"an end in the handshake": {
			exchangetest.Say(closeNotify),
			failure.Throttled,
			"on purpose",
			false,
		},
		"an end after the server's first record": {
			exchangetest.Say("\x16\x03\x03\x00\x01\x00" + closeNotify),
			failure.Throttled,
			"on purpose",
			false,
		},
		"a crash in the handshake": {
			exchangetest.Say("\x16\x03\x03"),
			failure.Closed,
			"handshake",
			false,
		},
		"a refusal of the handshake": {
			exchangetest.Say("\x15\x03\x03\x00\x02\x02\x28"),
			failure.TLS,
			"handshake",
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
			if err != nil {
				t.Fatal(err)
			}
			s := &TLSServer{Address: exchangetest.ServeEach(t, l, tt.serve), IRC: !tt.other, Trust: config.TLS{InsecureSkipVerify: true}}
			err = s.Converse(t.Context(), &Record{}, func(conn *tls.Conn) error {
				io.WriteString(conn, "CAP LS 302\r\n") //nolint:errcheck // the answer tells
				return AwaitIRCCapabilities(conn)
			})
			wantReason(t, err, tt.want)
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s in it", err, tt.says)
			}
		})
	}
}

// TestReasonOfASilentEndIsAskedOncePerOutage, since a look costs a connection that the server counts.
func TestReasonOfASilentEndIsAskedOncePerOutage(t *testing.T) {
	certificate := exchangetest.Chain(exchangetest.Certificate{Name: "irc.test"}.Make(t))
	var connections atomic.Int32
	var well atomic.Bool
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	s := &TLSServer{IRC: true, Trust: config.TLS{InsecureSkipVerify: true}, Address: exchangetest.ServeEach(t, l, func(conn net.Conn) {
		connections.Add(1)
		server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		if server.HandshakeContext(t.Context()) == nil && well.Load() {
			io.WriteString(server, ":irc.test CAP * LS :\r\n") //nolint:errcheck // the client tells
		}
		server.Close() //nolint:errcheck,gosec // a test's server
	})}
	for i, want := range []int32{2, 1, 1, 2} {
		connections.Store(0)
		well.Store(i == 2)
		err := s.Converse(t.Context(), &Record{}, func(conn *tls.Conn) error { return AwaitIRCCapabilities(conn) })
		if n := connections.Load(); n != want || (err == nil) != well.Load() {
			t.Errorf("probe %d: %d connections, want %d: %v", i+1, n, want, err)
		}
	}
}

func TestProductsShowThemselves(t *testing.T) {
	for line, want := range map[string]Product{
		":irc.test CAP * LS :echo-message inspircd.org/poison":                     InspIRCd,
		":irc.test 004 x irc.test InspIRCd-3 BIRiorswx":                            InspIRCd,
		":irc.test 002 x :Your host is irc.test, running version UnrealIRCd-6.1.8": UnrealIRCd,
		":irc.test CAP * LS * :sts=port=6697 unrealircd.org/link-security=2":       UnrealIRCd,
		":irc.test 004 x irc.test ngircd-26.1 abBcCFiIoqrRswx":                     NgIRCd,
		":irc.test CAP * LS :draft/relaymsg=/ ergo.chat/nope":                      Ergo,
		":irc.test CAP * LS :solanum.chat/identify-msg multi-prefix":               Solanum,
		":irc.test CAP * LS :multi-prefix":                                         "",
		"ERROR :Closing Link: (Throttled by UnrealIRCd-6.1.8)":                     "",
		":irc.test NOTICE * :we moved from InspIRCd-3":                             "",
	} {
		var r Record
		r.RecogniseIRCLines(line + "\r\n")
		if r.Product != want {
			t.Errorf("%q: %q, want %q", line, r.Product, want)
		}
		if hint := LimitHint(r.Product); !strings.Contains(hint, string(want)) || want == "" && strings.Contains(hint, "IRCd") {
			t.Errorf("%q: the hint names another product: %s", want, hint)
		}
	}
}
