package collectors

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestTCPShapes(t *testing.T) {
	talk := func(answers ...string) func(net.Conn) {
		return func(conn net.Conn) {
			for _, a := range answers {
				say(a)(conn)
			}
			hold(conn)
		}
	}
	for name, c := range map[string]struct {
		answer       func(net.Conn)
		send, expect string
		want         Reason // "" is up
	}{
		"accepts":           {hold, "", "", ""},
		"accepts and ends":  {func(net.Conn) {}, "", "", ""},
		"answers":           {talk("+PONG\r\n"), "PING\r\n", `^\+PONG`, ""},
		"answers in pieces": {talk("+PO", "NG\r\n"), "PING\r\n", `^\+PONG\r\n$`, ""},
		"greets late":       {talk("* banner alice\r\n", "220 ready\r\n"), "x", "(?m)^220 ", ""},
		"says another":      {say("HTTP/1.1 400 alice\r\n"), "PING\r\n", `^\+PONG`, Mismatch},
		"goes on and on":    {say(strings.Repeat("alice", 8000)), "PING\r\n", `^\+PONG`, Mismatch},
		"says too little":   {talk("+PO"), "PING\r\n", `^\+PONG`, Mismatch},
		"is silent":         {hold, "PING\r\n", "PONG", Timeout},
		"ends":              {func(net.Conn) {}, "PING\r\n", "PONG", Closed},
		"resets":            {rst, "PING\r\n", "PONG", Closed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTCPSettings()
			s.Address, s.Send, s.Expect = rawServer(t, "tcp", c.answer), c.send, c.expect
			probe, err := newTCP(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			timeout := 10 * time.Second
			if c.want == Timeout || name == "says too little" {
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
	for address, want := range map[string]Reason{"127.0.0.1:1": Refused, "no-such-host.invalid:80": DNS} {
		s := newTCPSettings()
		s.Address = address
		probe, err := newTCP(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = read(t, probe, 10*time.Second)
		wantReason(t, err, want)
	}
}
