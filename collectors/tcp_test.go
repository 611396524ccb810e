package collectors

import (
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestTCPShapes(t *testing.T) {
	t.Parallel()
	talk := func(answers ...string) func(net.Conn) {
		return func(conn net.Conn) {
			for _, a := range answers {
				exchangetest.Say(a)(conn)
			}
			exchangetest.Hold(conn)
		}
	}
	for name, c := range map[string]struct {
		answer       func(net.Conn)
		send, expect string
		want         failure.Reason // "" is up
	}{
		"accepts":           {exchangetest.Hold, "", "", ""},
		"accepts and ends":  {func(net.Conn) {}, "", "", ""},
		"answers":           {talk("+PONG\r\n"), "PING\r\n", `^\+PONG`, ""},
		"answers in pieces": {talk("+PO", "NG\r\n"), "PING\r\n", `^\+PONG\r\n$`, ""},
		"greets late":       {talk("* banner alice\r\n", "220 ready\r\n"), "x", "(?m)^220 ", ""},
		"says another":      {exchangetest.Say("HTTP/1.1 400 alice\r\n"), "PING\r\n", `^\+PONG`, failure.Mismatch},
		"goes on and on":    {exchangetest.Say(strings.Repeat("alice", 8000)), "PING\r\n", `^\+PONG`, failure.Mismatch},
		"says too little":   {talk("+PO"), "PING\r\n", `^\+PONG`, failure.Mismatch},
		"is silent":         {exchangetest.Hold, "PING\r\n", "PONG", failure.Timeout},
		"ends":              {func(net.Conn) {}, "PING\r\n", "PONG", failure.Closed},
		"resets":            {exchangetest.Reset, "PING\r\n", "PONG", failure.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTCPSettings()
			s.Address, s.Send, s.Expect = exchangetest.RawServer(t, "tcp", c.answer), c.send, c.expect
			probe, err := newTCP(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			timeout := 10 * time.Second
			if c.want == failure.Timeout || name == "says too little" {
				timeout = 100 * time.Millisecond
			}
			b, err := read(t, probe, timeout)
			if len(b.Exchanges) != 1 || b.Exchanges[0].Request != "connect to "+s.Address || len(b.Exchanges[0].Phases) < 2 {
				t.Errorf("exchanges: got %+v", b.Exchanges)
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				phases := ""
				for _, p := range b.Exchanges[0].Phases {
					phases += p.Name + " "
				}
				want := "connect end "
				if c.expect != "" {
					want = "connect first_byte end " // once, in however many pieces
				}
				if phases != want {
					t.Errorf("phases: got %q, want %q", phases, want)
				}
				return
			}
			wantReason(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), "alice") {
				t.Errorf("what it said stands in %q", err)
			}
			goldenFailure(t, "tcp/"+strings.ReplaceAll(name, " ", "_"), b, err)
		})
	}
}

func TestTCPNobodyThere(t *testing.T) {
	for address, want := range map[string]failure.Reason{"127.0.0.1:1": failure.Refused, "no-such-host.invalid:80": failure.DNS} {
		s := newTCPSettings()
		s.Address = address
		probe, err := newTCP(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		mustFail(t, probe, want)
	}
}

// TestPiecesAreHeardTogether has a service say its answer in pieces, each of which is read before the next is sent.
func TestPiecesAreHeardTogether(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close() //nolint:errcheck // a pipe's never fails
	said := make(chan error, 1)
	go func() {
		for _, piece := range []string{"* ban", "ner\r\n2", "20 ready\r\n"} {
			if _, err := io.WriteString(server, piece); err != nil {
				said <- err
				return
			}
		}
		said <- nil
	}()
	timing := exchange.NewTiming()
	c := &tcp{address: "irc:6667", expect: regexp.MustCompile(`(?m)^220 ready`)}
	if err := c.hear(t.Context(), client, timing); err != nil {
		t.Error(err)
	}
	client.Close() //nolint:errcheck,gosec // whoever still speaks is told so
	if err := <-said; err != nil {
		t.Error(err)
	}
	if got, want := phases(&exchange.Exchange{Phases: timing.End("end")}), []string{"first_byte", "end"}; !slices.Equal(got, want) {
		t.Errorf("phases: got %q, want %q", got, want)
	}
}

func TestFirstByteIsTimedIfThereIsOne(t *testing.T) {
	for said, want := range map[string][]string{"": {"connect", "failed"}, "!": {"connect", "first_byte", "end"}} {
		c := &tcp{address: exchangetest.RawServer(t, "tcp", exchangetest.Say(said)), send: "?", expect: regexp.MustCompile("!")}
		b, err := read(t, c, 10*time.Second)
		if up := said != ""; (err == nil) != up {
			t.Errorf("%q: got %v, want success: %t", said, err, up)
		}
		if got := phases(b.Exchanges[0]); !slices.Equal(got, want) {
			t.Errorf("%q: phases %q, want %q", said, got, want)
		}
	}
}
