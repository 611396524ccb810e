package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// deaf is a listener that ignores everything.
type deaf struct{}

func (deaf) Joined(Conversation)   {}
func (deaf) Heard(Message)         {}
func (deaf) Refused(string, error) {}
func (deaf) Members([]string)      {}
func (deaf) Archived()             {}
func (deaf) Moved(Move)            {}

// ircServer answers what a client must have answered to log in and join #c; more answers the rest.
func ircServer(conn net.Conn, afterJoin string, more func(line string) string) {
	lines := make(chan string, 100) // a pipe has no buffer
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(conn); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for line := range lines {
		answer := ""
		switch {
		case strings.HasPrefix(line, "CAP LS"):
			answer = ":s CAP * LS :\r\n"
		case line == "CAP END":
			answer = ":s 001 n :welcome\r\n"
		case strings.HasPrefix(line, "JOIN"):
			answer = afterJoin
		case more != nil:
			answer = more(line)
		}
		if answer != "" {
			_, _ = io.WriteString(conn, answer)
		}
	}
}

// keepIRC runs a keeper of a session at a server in memory until the end of the test. It returns how often the keeper has connected.
func keepIRC(t *testing.T, plain bool, serve func(net.Conn)) (k *Keeper, dials func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	ctx, stop := context.WithCancel(exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		client, server := net.Pipe()
		go serve(server)
		return client, nil
	}))
	k = NewKeeper(&IRC{Server: Server{TLSServer: exchange.TLSServer{Address: "irc.test:6697"}, Plain: plain}, Nick: "n", Channel: "#c"},
		deaf{})
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return k, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// state is the session's conversation, or why there is none.
func (k *Keeper) state(t *testing.T) (Conversation, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, _, err := k.Await(ctx)
	return c, err
}

// TestTLSMayBeginAtOnce: a port that ends a plain session without a word may expect TLS.
func TestTLSMayBeginAtOnce(t *testing.T) {
	k, _ := keepIRC(t, true, func(c net.Conn) {
		defer c.Close() //nolint:errcheck // a test's server
		lines := bufio.NewScanner(c)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "USER") {
			continue
		}
	})
	if _, err := k.state(t); err == nil || !strings.Contains(failure.HintOf(err), "remove plain") {
		t.Errorf("%v: hint %q", err, failure.HintOf(err))
	}
}

// refusing is a gate that is closed after the first session.
type refusing struct{ begun atomic.Bool }

func (g *refusing) Begin(time.Time) error {
	if g.begun.Swap(true) {
		return failure.Errorf(failure.Throttled, "the next session begins later")
	}
	return nil
}

func (g *refusing) End(_, _ time.Time, _ *exchange.Record, _ error) {}

// TestSessionSaysThatItWaits for the server's limit, and how the last one ended.
func TestSessionSaysThatItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no route")
		}))
		k := NewKeeper(&IRC{Server: Server{TLSServer: exchange.TLSServer{Address: "irc.test:6697"}}, Nick: "n"}, deaf{})
		k.Gate = new(refusing)
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		time.Sleep(10 * time.Minute)
		_, failed, err := k.Await(ctx)
		if failed != 1 || failure.ReasonOf(err) != failure.Throttled || strings.Count(err.Error(), "no route") != 1 ||
			!strings.Contains(err.Error(), "begins later") {
			t.Errorf("%d failed: %v", failed, err)
		}
		stop()
		running.Wait()
	})
}

// TestServerThatHangsIsLeft has a server accept connections and say nothing, before or after the encryption.
func TestServerThatHangsIsLeft(t *testing.T) {
	for _, plain := range []bool{true, false} {
		t.Run(fmt.Sprintf("plain %t", plain), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, dials := keepIRC(t, plain, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
				time.Sleep(time.Hour)
				if got := dials(); got < 30 || got > 60 {
					t.Errorf("%d connections in an hour, want one each 90 s", got)
				}
				if _, err := k.state(t); failure.ReasonOf(err) != failure.Timeout {
					t.Errorf("got %v, want a timeout", err)
				}
			})
		})
	}
}

// TestNameServerThatHangsIsNotTheServer: the wait for a connection ends in the lookup, so no server has accepted anything.
func TestNameServerThatHangsIsNotTheServer(t *testing.T) {
	for _, plain := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx := exchange.WithDialer(t.Context(), func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, &net.OpError{
					Op:  "dial",
					Net: "tcp",
					Err: &net.DNSError{Err: "operation was canceled", Name: "irc.test", UnwrapErr: ctx.Err()},
				}
			})
			account := &IRC{Server: Server{TLSServer: exchange.TLSServer{Address: "irc.test:6697"}, Plain: plain}, Nick: "n"}
			err := account.Run(ctx, &exchange.Record{}, deaf{})
			if failure.ReasonOf(err) != failure.DNS || !strings.HasPrefix(failure.HintOf(err), "the name server does not answer") {
				t.Errorf("plain %t: got %v, hint %q", plain, err, failure.HintOf(err))
			}
		})
	}
}

// TestPlainLoginSaysWhichAddressAnswered, as one in TLS does.
func TestPlainLoginSaysWhichAddressAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	address := exchangetest.ServeEach(t, l, func(net.Conn) {})
	r := &exchange.Record{}
	account := &IRC{Server: Server{TLSServer: exchange.TLSServer{Address: address}, Plain: true}, Nick: "n"}
	if err := account.Run(t.Context(), r, deaf{}); err == nil || len(r.Exchanges) != 1 || r.Exchanges[0].Address != address ||
		r.Exchanges[0].Err == "" {
		t.Errorf("error %v, exchanges %+v, want one that failed at %s", err, r.Exchanges, address)
	}
}

// TestSessionsThatEndAtOnceAreRare has somebody kick the exporter from the channel whenever it joins.
func TestSessionsThatEndAtOnceAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, dials := keepIRC(t, true, func(c net.Conn) { ircServer(c, ":s 366 n #c :End\r\n:op KICK #c n :go away\r\n", nil) })
		time.Sleep(time.Hour)
		if _, err := k.state(t); failure.ReasonOf(err) != failure.Forbidden {
			t.Errorf("got %v, want that the exporter was kicked", err)
		}
		if got := dials(); got < 50 || got > 80 {
			t.Errorf("joined %d times in an hour, want about once a minute", got)
		}
	})
}

// TestLongSessionComesBackSoon: the back-off of former failures is over after it.
func TestLongSessionComesBackSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, dials := keepIRC(t, true, func(c net.Conn) { ircServer(c, ":s 366 n #c :End\r\n", nil) })
		for range 6 {
			k.endSession(errors.New("cut"))
			time.Sleep(2 * time.Minute)
		}
		time.Sleep(steadySession)
		before := dials()
		k.endSession(errors.New("cut"))
		time.Sleep(25 * time.Second)
		if got := dials() - before; got != 1 {
			t.Errorf("%d connections within 25 s after a long session, want 1", got)
		}
	})
}

// endSession ends the current session with that error.
func (k *Keeper) endSession(err error) {
	synctest.Wait()
	k.mu.Lock()
	end := k.end
	k.mu.Unlock()
	end(err)
}

type broken struct{}

func (broken) Run(context.Context, *exchange.Record, Listener) error { panic("broken") }

func TestKeeperSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeper(broken{}, deaf{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		if _, err := k.state(t); failure.ReasonOf(err) != failure.Panic {
			t.Errorf("got %v, want that the session panicked", err)
		}
		running.Wait()
	})
}
