package chat

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// FuzzStanzas reads made-up streams. What a decoder gets is never deeper or longer than the limits,
// and nothing of a small stanza is missing.
func FuzzStanzas(f *testing.F) {
	for _, text := range []string{
		"<a/>", "<a b='>'>x<c/></a> <d/>", strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40) + "<b/>", "<a><![CDATA[<b>]]]></a>",
		"<!-- a -->", "<a>&lt;</a>", "</stream:stream>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := newPruner(strings.NewReader(streamBegin + text))
		p.restart()
		decoder := xml.NewDecoder(p)
		depth := 0
		for {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			switch token.(type) {
			case xml.StartElement:
				depth++
			case xml.EndElement:
				depth--
			}
			if depth > maxDepth || len(p.unit) > maxStanza+2 {
				t.Fatalf("depth %d, a unit of %d bytes", depth, len(p.unit))
			}
		}
		whole := streamBegin + "<b>" + text + "</b>"
		if len(text) > maxStanza/2 || strings.Count(text, "<") > maxDepth-3 || strings.Contains(text, "</b") ||
			xml.Unmarshal([]byte(whole+"</stream:stream>"), &element{}) != nil {
			return
		}
		p = newPruner(strings.NewReader(whole))
		p.restart()
		if passed, err := io.ReadAll(p); err == nil && string(passed) != whole {
			t.Errorf("%q became %q", whole, passed)
		}
	})
}

// FuzzIRCSession reads made-up lines before and after the login.
func FuzzIRCSession(f *testing.F) {
	for _, text := range []string{
		":s CAP * LS :sasl=PLAIN echo-message\r\n:s CAP * ACK :sasl\r\nAUTHENTICATE +\r\n:s 903 n :ok\r\n:s 001 n :hi\r\n" +
			":s 366 n #c :End\r\n",
		":s CAP * LS :sasl=SCRAM-SHA-256,PLAIN\r\n:s CAP * ACK :sasl\r\nAUTHENTICATE +\r\nAUTHENTICATE cj14\r\n:s 908 n PLAIN :x\r\n" +
			":s 904 n :no\r\n:s 903 n :ok\r\n",
		"PING\r\n", "@a=b :x 353\r\n", ":s 001\r\n:n NICK\r\n:s 433 * n :taken\r\n", ":a KICK #c n\r\n", "ERROR\r\n",
		":n!a@b PART #c\r\nFAIL PRIVMSG\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs) //nolint:errcheck // it ends with the pipe
		defer theirs.Close()           //nolint:errcheck // a test
		s := &ircSession{
			account: &IRC{
				Nick:     "n",
				User:     "u",
				Password: config.NewSecret("p"),
				Channel:  "#c",
			},
			conn:     newLink(t.Context(), ours),
			lines:    bufio.NewReaderSize(strings.NewReader(text), maxLine),
			nick:     "n",
			record:   &exchange.Record{},
			listener: deaf{},
			offered:  map[string]bool{},
			pongs:    map[string]chan struct{}{},
		}
		if s.login() == nil {
			if err := s.listen(); err == nil || errors.Is(err, bufio.ErrBufferFull) {
				t.Errorf("the session ends with %v", err)
			}
		}
		if len(s.offered) > len(capabilities) {
			t.Errorf("remembered %v", s.offered)
		}
	})
}
