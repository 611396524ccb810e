package realstack

import (
	"net"
	"net/textproto"
	"regexp"
	"strings"
	"testing"
)

// FitAlertmanager fits the shipped configuration of Alertmanager to operators of a test: to /page and /heartbeat below their URL,
// a mail server, files beside it, and every hour of the day. More are additional changes: a pattern and its replacement.
// The test fails if the configuration does not contain a pattern.
func FitAlertmanager(tb testing.TB, config, url, mailAddress string, more ...[2]string) string {
	tb.Helper()
	for _, change := range append([][2]string{
		{`https://oncall\.example\.org/alertmanager`, url + "/page"},
		{`https://heartbeat\.example\.org/chatstack`, url + "/heartbeat"},
		{`smtp_smarthost: \S+`, "smtp_require_tls: false\n  smtp_smarthost: " + mailAddress},
		{`  smtp_auth_(username|password_file): \S+\n`, ""},
		{`/etc/alertmanager/`, ""},
		{`start_time: \S+`, `start_time: "00:00"`},
		{`end_time: \S+`, `end_time: "24:00"`},
	}, more...) {
		before := config
		if config = regexp.MustCompile(change[0]).ReplaceAllLiteralString(config, change[1]); config == before {
			tb.Fatalf("the shipped configuration of alertmanager has no %s", change[0])
		}
	}
	return config
}

// ReceiveMail starts a mail server that accepts everything until the test ends, and returns its address. It calls received with
// each mail, from the goroutine of its connection.
func ReceiveMail(tb testing.TB, received func(mail []byte)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() }) //nolint:errcheck // nothing is lost
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go receiveMail(textproto.NewConn(c), received)
		}
	}()
	return l.Addr().String()
}

func receiveMail(c *textproto.Conn, received func(mail []byte)) {
	defer c.Close() //nolint:errcheck // nothing is lost
	for reply := "220 mail"; c.PrintfLine("%s", reply) == nil && reply != "221 bye"; {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		switch strings.ToUpper(line) {
		case "QUIT":
			reply = "221 bye"
		case "DATA":
			if c.PrintfLine("354 go on") != nil {
				return
			}
			mail, err := c.ReadDotBytes()
			if err != nil {
				return
			}
			received(mail)
			reply = "250 taken"
		default:
			reply = "250 ok"
		}
	}
}
