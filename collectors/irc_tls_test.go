package collectors

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

func ircTLSProbe(t *testing.T, address string, trust config.TLS) Collector {
	t.Helper()
	s := newIRCTLSSettings()
	s.Address, s.TLS = address, trust
	return newProbe(t, newIRCTLS, s)
}

// overTLS lets answer speak inside TLS.
func overTLS(t *testing.T, shown tls.Certificate, answer func(net.Conn)) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	return exchangetest.ServeEach(t, l, answer)
}

// TestIRCShapes also sees that nothing but CAP LS and QUIT is ever said, so that the probe is no user.
func TestIRCShapes(t *testing.T) {
	t.Parallel()
	root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
	shown := exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}}.Make(t))
	trust := config.TLS{CAFile: exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)}
	const yes = ":irc.test CAP * LS :sasl=PLAIN tls\r\n"
	for name, c := range map[string]struct {
		answer string
		holds  bool
		want   failure.Reason
		says   string
	}{
		"capabilities":         {yes, true, "", ""},
		"first of several":     {":irc.test CAP * LS * :sasl=PLAIN\r\n", true, "", ""},
		"bare line feed":       {"CAP * LS :\n", true, "", ""},
		"with tags":            {"@time=2026-01-01T00:00:00Z;x=1 :irc.test CAP * LS :tls\r\n", true, "", ""},
		"without a list":       {":irc.test CAP * LS\r\n", true, "", ""},
		"more spaces than one": {"@x=1  :irc.test   CAP * LS :tls\r\n", true, "", ""},
		"after notices":        {":irc.test NOTICE * :*** Looking up your hostname\r\n\r\nPING :12345\r\n" + yes, true, "", ""},
		"old server":           {":irc.test 451 CAP :You have not registered\r\n", true, "", ""},
		"older server":         {":irc.test 421 * CAP :Unknown command\r\n", true, "", ""},
		"throttled":            {"ERROR :Closing Link: [127.0.0.1] (Throttled: Reconnecting too fast)\r\n", false, "throttled", "except ban { mask IP; type { connect-flood; } }"},
		"banned":               {":irc.test NOTICE * :x\r\nerror :Closing Link (Banned)\r\n", false, failure.Mismatch, "exempt"},
		"http":                 {"HTTP/1.1 400 Bad Request\r\n\r\n", true, failure.Malformed, ""},
		"another protocol":     {"SSH-2.0-OpenSSH_9.2\r\n", true, failure.Malformed, ""},
		"not a line":           {"\x00\x01\x02\r\n", true, failure.Malformed, ""},
		"source alone":         {":irc.test\r\n", true, failure.Malformed, ""},
		"silence":              {"", true, failure.Timeout, ""},
		"another capability":   {":irc.test CAP * ACK :tls\r\n", true, failure.Timeout, ""},
		"a number of its own":  {":irc.test 001 x :Welcome\r\n", true, failure.Timeout, ""},
		"closes":               {"", false, failure.Closed, ""},
		"cut off":              {yes[:len(yes)-2], false, failure.Closed, ""},
		"endless line":         {strings.Repeat("x", 2*(8191+512)), true, failure.TooLarge, ""},
		"long line at the end": {":irc.test CAP * LS :" + strings.Repeat("x", 8000) + "\r\n", true, "", ""},
		"endless notices":      {strings.Repeat(":irc.test NOTICE * :x\r\n", 101), true, failure.TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			address := overTLS(t, shown, func(conn net.Conn) {
				buf := make([]byte, 512)
				n, err := conn.Read(buf)
				if err != nil {
					heard <- ""
					return
				}
				exchangetest.Say(c.answer)(conn)
				rest := []byte{}
				if c.holds {
					rest, _ = io.ReadAll(conn) // a client may leave without a goodbye
				}
				heard <- string(buf[:n]) + string(rest)
			})
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 200 * time.Millisecond
			}
			b, err := read(t, ircTLSProbe(t, address, trust), timeout)
			said := <-heard
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if said != "CAP LS 302\r\nQUIT\r\n" {
					t.Errorf("the probe said %q", said)
				}
				return
			}
			wantReason(t, err, c.want)
			if err != nil && !strings.Contains(err.Error()+failure.HintOf(err), c.says) {
				t.Errorf("%q, %q lacks %q", err, failure.HintOf(err), c.says)
			}
			if said != "CAP LS 302\r\n" {
				t.Errorf("the probe said %q", said)
			}
			if len(b.Exchanges) != 1 || b.Exchanges[0].Err == "" {
				t.Errorf("exchanges: %+v", b.Exchanges)
			}
		})
	}
}

const throttledLine = "ERROR :Closing Link: [192.0.2.1] (Throttled: Reconnecting too fast - Email admin@irc.test for more information.)\r\n"

// TestIRCServerThatThrottlesBeforeTLSSaysSo has the server answer in plain text, as UnrealIRCd does when it accepts.
func TestIRCServerThatThrottlesBeforeTLSSaysSo(t *testing.T) {
	for name, answer := range map[string]func(net.Conn){
		"at once": sayAndHold(throttledLine),
		"in two parts": func(c net.Conn) {
			exchangetest.Say(throttledLine[:20])(c)
			exchangetest.Say(throttledLine[20:])(c)
			exchangetest.Hold(c)
		},
		"without a line end": exchangetest.Say(strings.TrimSpace(throttledLine)),
	} {
		_, err := readFails(t, ircTLSProbe(t, exchangetest.RawServer(t, "tcp", answer), config.TLS{}), "throttled")
		if err != nil && (!strings.Contains(err.Error(), "Reconnecting too fast") || !strings.Contains(failure.HintOf(err), "except ban { mask IP; type { connect-flood; } }")) {
			t.Errorf("%s: %q, %q lack the cause or the cure", name, err, failure.HintOf(err))
		}
	}
}

// TestIRCResetAfterThrottlingKeepsItsReason: a server that throttles resets some connections without a word.
func TestIRCResetAfterThrottlingKeepsItsReason(t *testing.T) {
	root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
	shown := exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}}.Make(t))
	trust := config.TLS{CAFile: exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)}
	well := func(c net.Conn) {
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12})
		exchangetest.Say(":irc.test CAP * LS :tls\r\n")(secure)
		exchangetest.Hold(secure)
	}
	turns := []struct {
		answer func(net.Conn)
		want   failure.Reason
	}{{exchangetest.Reset, failure.Closed}, {sayAndHold(throttledLine), "throttled"}, {exchangetest.Reset, "throttled"}, {well, ""}, {exchangetest.Reset, failure.Closed}}
	n := 0
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	probe := ircTLSProbe(t, exchangetest.ServeEach(t, l, func(c net.Conn) {
		turns[n].answer(c)
		n++
	}), trust)
	for i, turn := range turns {
		_, err := read(t, probe, 10*time.Second)
		if got := reasonOrNone(err); got != turn.want {
			t.Errorf("reading %d: got %v, want reason %q", i+1, err, turn.want)
		}
	}
}

// TestStockIRCServerThrottlesTheFourthConnection has the simulated server count connections as a stock UnrealIRCd does.
func TestStockIRCServerThrottlesTheFourthConnection(t *testing.T) {
	stack := simstacktest.Start(t, simstack.Options{})
	if err := stack.Switch("irc_tls", "connect_flood", true); err != nil {
		t.Fatal(err)
	}
	probe := ircTLSProbe(t, stack.IRCAddress(), config.TLS{CAFile: stack.CAFile()})
	for i, want := range []failure.Reason{"", "", "", "throttled", "throttled"} {
		if _, err := readNamed(t, probe); reasonOrNone(err) != want {
			t.Errorf("connection %d: got %v, want reason %q", i+1, err, want)
		}
	}
}

// TestIRCPortIsAskedEvery30SecondsAtMost unless its own schedule says otherwise, which is warned of.
func TestIRCPortIsAskedEvery30SecondsAtMost(t *testing.T) {
	for _, c := range []struct{ poll, target, want, warning string }{
		{"30s", "", "@every 30s", ""},
		{"10s", "", "@every 30s", ""},
		{"1m", "", "@every 1m0s", ""},
		{"30s", `, schedule: "@every 10s"`, "@every 10s", "3 times in 60 s"},
		{"10s", `, schedule: "@every 45s"`, "@every 45s", ""},
		{"30s", `, schedule: "* * * * *"`, "* * * * *", ""},
		{"30s", `, schedule: "@every 10s", insecure_skip_verify: true`, "@every 10s", "3 times in 60 s"},
		{"30s", ", insecure_skip_verify: true", "@every 30s", "every certificate"},
	} {
		for address, throttles := range map[string]bool{"irc.test": true, "127.0.0.1:6697": false, "localhost": false, "'[::1]:6697'": false} {
			content := "poll: {interval: " + c.poll + "}\ntargets:\n  - {kind: irc_tls, address: " + address + c.target + "}\n"
			cfg, err := config.Load(config.Source{File: "exporter.yaml", Content: []byte(content), Kinds: ConfigKinds(), Lookup: func(string) (string, bool) { return "", false }})
			if err != nil {
				t.Fatal(err)
			}
			s := cfg.Targets[0]
			if got := s.Common().Schedule; got != c.want {
				t.Errorf("%s: schedule %q, want %q", content, got, c.want)
			}
			warnings := strings.Join(s.(config.Warner).Warnings(), "\n")
			want := c.warning
			if !throttles && strings.Contains(want, "60 s") {
				want = ""
			}
			if !strings.Contains(warnings, want) || (want == "") != (warnings == "") && !strings.Contains(c.target, "insecure") {
				t.Errorf("%s: warnings %q, want %q", content, warnings, want)
			}
		}
	}
}
