package collectors

import (
	"bytes"
	"io"
	"math"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/pkg/stdcopy"
)

// said is a connection to a server that says all it has to say, whatever it is told.
type said struct {
	net.Conn
	io.Reader
	told bytes.Buffer
}

func (s *said) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s *said) Write(p []byte) (int, error) { return s.told.Write(p) }

// FuzzXMPPStream negotiates TLS with a made-up server. Nothing that it says before TLS may pass as said in TLS, and only
// one that offers TLS and goes on with it is believed.
func FuzzXMPPStream(f *testing.F) {
	const open = "<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:client' from='chat.test' id='1' version='1.0'>"
	const offer = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls></stream:features>"
	const proceed = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
	for _, seed := range []string{
		open + offer + proceed, open + offer + proceed + "injected", open + offer + "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>",
		open + "<stream:features/>", open + "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/><text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>no\x00</text></stream:error>",
		strings.ReplaceAll(open, "jabber:client", "jabber:server") + offer, "\x15\x03\x01\x00\x02\x02\x46", "220 smtp\r\n", "", "<", "<!DOCTYPE x [<!ENTITY y 'z'>]><x>&y;</x>",
		open + strings.Repeat("<a>", 1000), open + "<stream:features>" + strings.Repeat(" ", maxStream),
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(strings.ReplaceAll(seed, "jabber:client", "jabber:server")), true)
	}
	f.Fuzz(func(t *testing.T, content []byte, server bool) {
		kind := xmppClient
		if server {
			kind = xmppServer
		}
		conn := &said{Reader: bytes.NewReader(content)}
		err := startXMPP(conn, kind, "chat.test")
		judge(t, &Batch{}, err, 0)
		if err != nil {
			return
		}
		switch rest, _ := io.ReadAll(conn.Reader); {
		case len(content)-len(rest) > maxStream+1:
			t.Errorf("%d bytes were read", len(content)-len(rest))
		case !bytes.Contains(content, []byte("proceed")) || !bytes.Contains(content, []byte("starttls")):
			t.Errorf("TLS begins after %.300q", content)
		case !strings.HasSuffix(conn.told.String(), "<starttls xmlns='"+nsStartTLS+"'/>"):
			t.Errorf("TLS begins unasked for, after %q", conn.told.String())
		}
	})
}

// FuzzIRCLines reads lines of a made-up IRC server. Whoever is believed has said one of the three commands that count.
func FuzzIRCLines(f *testing.F) {
	for _, seed := range []string{
		":irc.test CAP * LS :multi-prefix\r\n", "@time=x :irc.test NOTICE * :*** Looking up\r\n:irc.test CAP * LS * :a\r\n", "ERROR :Closing Link: (Throttled)\r\n",
		":irc.test 421 * CAP :Unknown command\r\n", "451 CAP :register\n", "PING :1\r\n\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "CAP\r\n", "CAP * ACK\r\n", ": \r\n", "@\r\n",
		strings.Repeat("x", maxIRCLine+1), strings.Repeat("\n", maxIRCLines+1), "ERROR :\x00\xff\x1b[31m\n", "",
	} {
		f.Add([]byte(seed))
	}
	answer := regexp.MustCompile(`CAP|421|451`)
	f.Fuzz(func(t *testing.T, content []byte) {
		err := awaitCapabilities(bytes.NewReader(content))
		judge(t, &Batch{}, err, 0)
		if err == nil && !answer.Match(content) {
			t.Errorf("an answer is found in %.300q", content)
		}
	})
}

// FuzzLoginLog counts failed logins in a made-up log, twice, as two readings do. The count never falls, has no more than
// there are lines, begins at 0, and a line that was seen is not counted again.
func FuzzLoginLog(f *testing.F) {
	line := func(n int, text string) string {
		return time.Unix(1_800_000_000+int64(n), 1).UTC().Format(time.RFC3339Nano) + " " + text + "\n"
	}
	bare := line(1, "started") + line(2, "Failed authentication attempt (not-authorized)") + line(2, "Failed authentication attempt") + line(1, "Failed authentication attempt\r") + "no stamp\n" + line(3, "cut")
	var framed bytes.Buffer
	for i, text := range strings.SplitAfter(bare, "\n") {
		stdcopy.NewStdWriter(&framed, []stdcopy.StdType{stdcopy.Stdout, stdcopy.Stderr}[i%2]).Write([]byte(text)) //nolint:errcheck,gosec // a buffer takes everything
	}
	f.Add([]byte(bare), true, int64(0))
	f.Add([]byte(bare), true, int64(1_800_000_000))
	f.Add(framed.Bytes(), false, int64(1_800_000_002))
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x05error"), false, int64(0))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"), false, int64(0))
	f.Add([]byte(strings.Repeat("x", 2*maxLineBytes)), true, int64(0))
	f.Fuzz(func(t *testing.T, content []byte, terminal bool, clock int64) {
		var now time.Time
		if clock > 0 && clock < math.MaxInt32*4 {
			now = time.Unix(clock, 0)
		}
		l := &loginLog{pattern: regexp.MustCompile(defaultFailurePattern)}
		err := l.count(bytes.NewReader(content), terminal, now)
		if l.failures != 0 {
			t.Errorf("the first reading counts %v", l.failures)
		}
		first := *l
		again := l.count(bytes.NewReader(content), terminal, now)
		for _, err := range []error{err, again} {
			if err != nil {
				judgeText(t, "error", err.Error())
			}
		}
		most := float64(bytes.Count(content, []byte{'\n'}))
		if l.failures < first.failures || l.failures > most || math.IsNaN(l.failures) {
			t.Errorf("%v failures after %v, in %v lines", l.failures, first.failures, most)
		}
		if err == nil && again == nil && first.begun && !first.last.IsZero() && l.failures > first.failures && l.last.Equal(first.last) {
			// Lines of an older stamp behind the last one are those of a clock that went back; they cannot be told from new ones.
			if monotonic(content) {
				t.Errorf("%v failures are counted again", l.failures-first.failures)
			}
		}
		if !now.IsZero() && ahead(l.last, now) {
			t.Errorf("the last line is of %s, the clock says %s", l.last, now)
		}
	})
}

// monotonic reports whether no line of a log that begins with a stamp has one that is older than, or the same as, that of a
// line before it.
func monotonic(content []byte) bool {
	var last time.Time
	for line := range bytes.Lines(content) {
		for word := range bytes.FieldsSeq(line) {
			if len(word) > 8 {
				word = word[max(0, bytes.IndexByte(word, '2')):] // behind the head of a frame
			}
			if at, err := time.Parse(time.RFC3339Nano, string(word)); err == nil {
				if !at.After(last) {
					return false
				}
				last = at
			}
		}
	}
	return true
}
