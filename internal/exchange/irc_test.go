package exchange

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// FuzzIRCLines reads lines of a made-up IRC server. Whoever is believed has said one of the three commands that count.
func FuzzIRCLines(f *testing.F) {
	for _, seed := range []string{
		":irc.test CAP * LS :multi-prefix\r\n", "@time=x :irc.test NOTICE * :*** Looking up\r\n:irc.test CAP * LS * :a\r\n",
		"ERROR :Closing Link: (Throttled)\r\n",
		":irc.test 421 * CAP :Unknown command\r\n", "451 CAP :register\n", "PING :1\r\n\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
		"CAP\r\n", "CAP * ACK\r\n", ": \r\n", "@\r\n",
		strings.Repeat("x", maxIRCLine+1), strings.Repeat("\n", maxIRCLines+1), "ERROR :\x00\xff\x1b[31m\n", "",
	} {
		f.Add([]byte(seed))
	}
	answer := regexp.MustCompile(`CAP|421|451`)
	f.Fuzz(func(t *testing.T, content []byte) {
		err := AwaitIRCCapabilities(bytes.NewReader(content))
		judgeFailure(t, err)
		if err == nil && !answer.Match(content) {
			t.Errorf("an answer is found in %.300q", content)
		}
	})
}
