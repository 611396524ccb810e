package exchange

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// exchangeOver makes one request through a transport whose connections w sees, and returns what w makes of its failure.
func exchangeOver(ctx context.Context, t *testing.T, w *Wire, dialer *net.Dialer, url string) error {
	t.Helper()
	transport := &http.Transport{DialContext: dialUntil(ctx, w.Watch(dialer.DialContext)), DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return w.Explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if _, err := io.ReadAll(resp.Body); err != nil {
		return w.Explain(err)
	}
	return nil
}

func TestAnswerCutAnywhereIsClosed(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
	for n := range len(whole) {
		//nolint:errcheck // the reader tells
		address := exchangetest.RawServer(t, "tcp", func(conn net.Conn) { io.WriteString(conn, whole[:n]) })
		err := exchangeOver(t.Context(), t, &Wire{}, &net.Dialer{}, "http://"+address)
		if err == nil {
			t.Errorf("cut to %q: no error", whole[:n])
		} else if got := failure.ReasonOf(err); got != failure.Closed {
			t.Errorf("cut to %q: reason %q, want %q: %v", whole[:n], got, failure.Closed, err)
		}
	}
	//nolint:errcheck // the reader tells
	address := exchangetest.RawServer(t, "tcp", func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nno field\r\n\r\n") })
	if err := exchangeOver(t.Context(), t, &Wire{}, &net.Dialer{}, "http://"+address); err == nil ||
		failure.ReasonOf(err) != failure.Malformed {
		t.Errorf("a whole header that is none: %v, want %q", err, failure.Malformed)
	}
}

// TestEndOfAnEarlierConnectionIsNotThatOfTheNext has two exchanges that one wire sees, as before and after a redirect.
func TestEndOfAnEarlierConnectionIsNotThatOfTheNext(t *testing.T) {
	seen := &Wire{}
	for _, c := range []struct {
		answer string
		want   failure.Reason
	}{{"HTTP/1.1 200 OK\r\nCont", failure.Closed}, {"HTTP/1.1 200 OK\r\nno field\r\n\r\n", failure.Malformed}} {
		err := exchangeOver(t.Context(), t, seen, &net.Dialer{}, "http://"+exchangetest.RawServer(t, "tcp", exchangetest.Say(c.answer)))
		if err == nil || failure.ReasonOf(err) != c.want {
			t.Errorf("%q: got %v, want %q", c.answer, err, c.want)
		}
	}
}

// TestConnectionThatTheClientClosedItselfIsRefusedTLS has net/http close a connection on which a server refused it after the
// handshake, before its own goroutine wrote the request: that one then hears of the close alone.
func TestConnectionThatTheClientClosedItselfIsRefusedTLS(t *testing.T) {
	const clientHello, get = "\x16\x03\x01", "GET /"
	for _, tt := range []struct {
		name, sent string
		ended      bool
		want       failure.Reason
	}{
		{
			"TLS",
			clientHello,
			false,
			failure.TLS,
		},
		{
			"TLS, and the server hung up",
			clientHello,
			true,
			failure.Closed,
		},
		{
			"no TLS",
			get,
			false,
			failure.Closed,
		},
	} {
		seen := &Wire{}
		var server net.Conn
		dial := seen.Watch(func(context.Context, string, string) (net.Conn, error) {
			var client net.Conn
			client, server = net.Pipe()
			return client, nil
		})
		conn, err := dial(t.Context(), "tcp", "engine:2376")
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(server, make([]byte, len(tt.sent)))
			read <- err
		}()
		if _, err := io.WriteString(conn, tt.sent); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if tt.ended {
			server.Close()             //nolint:errcheck // a pipe's never fails
			conn.Read(make([]byte, 1)) //nolint:errcheck // it is the end
		}
		conn.Close()   //nolint:errcheck // a pipe's never fails
		server.Close() //nolint:errcheck // a pipe's never fails
		err = seen.Explain(fmt.Errorf("write tcp: %w", net.ErrClosed))
		if got := failure.ReasonOf(err); got != tt.want {
			t.Errorf("%s: %v: reason %q, want %q", tt.name, err, got, tt.want)
		}
	}
}

func TestNameServerThatHangsIsDNS(t *testing.T) {
	t.Parallel()
	hanging := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := exchangeOver(ctx, t, &Wire{}, &net.Dialer{Resolver: hanging}, "http://service.invalid.test")
	if err == nil || failure.ReasonOf(err) != failure.DNS {
		t.Errorf("%v, want reason %q", err, failure.DNS)
	}
	// One that is found and does not answer has another fault.
	release := make(chan struct{})
	address := exchangetest.RawServer(t, "tcp", func(net.Conn) { <-release })
	defer close(release)
	for _, address := range []string{address, strings.Replace(address, "127.0.0.1", "localhost", 1)} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // time to find and reach it
		defer cancel()
		if err := exchangeOver(ctx, t, &Wire{}, &net.Dialer{}, "http://"+address); err == nil || failure.ReasonOf(err) != failure.Timeout {
			t.Errorf("%s: %v, want reason %q", address, err, failure.Timeout)
		}
	}
}

// TestNothingGoesOnAfterTheReading asks servers that hang in every step of a connection.
func TestNothingGoesOnAfterTheReading(t *testing.T) {
	silent := make(chan struct{})
	address := exchangetest.RawServer(t, "tcp", func(net.Conn) { <-silent })
	defer close(silent)
	ignore := goleak.IgnoreCurrent()
	for _, url := range []string{"http://" + address, "https://" + address} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		h := &HTTP{Settings: config.HTTP{URL: url + "/"}, Limit: 1}
		if _, err := h.Get(ctx, &Record{}, nil); err == nil || failure.ReasonOf(err) != failure.Timeout {
			t.Errorf("%s: %v, want reason %q", url, err, failure.Timeout)
		}
	}
	if err := goleak.Find(ignore, goleak.IgnoreAnyFunction(
		"github.com/chatstack-exporter/chatstack_exporter/internal/exchange.TestNothingGoesOnAfterTheReading.func1")); err != nil {
		t.Error(err)
	}
}

// TestDialThatIsCutShortSaysWhy has a dial that ends with the request's deadline.
func TestDialThatIsCutShortSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dial := dialUntil(ctx, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if _, err := dial(t.Context(), "tcp", "web.test:443"); failure.ReasonOf(err) != failure.Timeout {
			t.Errorf("got %v, want a timeout", err)
		}
	})
}
