package collectors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
)

func TestReasonIsReadOffTheCause(t *testing.T) {
	for cause, want := range map[error]Reason{
		syscall.ECONNREFUSED:      Refused,
		syscall.ENOENT:            Refused,
		syscall.EHOSTUNREACH:      Refused,
		syscall.ENETUNREACH:       Refused,
		syscall.EACCES:            Forbidden,
		syscall.EPERM:             Forbidden,
		syscall.ECONNRESET:        Closed,
		syscall.ECONNABORTED:      Closed,
		syscall.EPIPE:             Closed,
		io.EOF:                    Closed,
		io.ErrUnexpectedEOF:       Closed,
		syscall.ETIMEDOUT:         Timeout,
		os.ErrDeadlineExceeded:    Timeout,
		errors.New("never heard"): Internal,
		errors.New("http: server closed idle connection"):           Closed,
		errors.New("http2: server sent GOAWAY and closed the rest"): Closed,
	} {
		if got := ReasonOf(fmt.Errorf("get http://x: %w", cause)); got != want {
			t.Errorf("%v: reason %q, want %q", cause, got, want)
		}
	}
}

func TestForeignTextIsCutAtWholeCharacters(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"äöü", "äöü"},
		{"äöü!", "äöü…"},
		{"a\nb", "a b"},
	} {
		if got := Printable(tt.text, 3); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestWhereToLookOnIsToldWhereNothingElseIs(t *testing.T) {
	for _, tt := range []struct {
		name, container string
		err             error
		want            string
	}{
		{"a container", "irc-1", syscall.ECONNREFUSED, Explain(Refused) + "; read the log of its container: docker logs --tail 50 irc-1"},
		{"no container", "", syscall.ECONNREFUSED, Explain(Refused) + "; read the service's own log; what was asked and what came back is at /debug/targets/irc"},
		{"our own fault", "irc-1", Failf(Internal, "x"), Explain(Internal)},
		{"our own panic", "irc-1", Failf(Panic, "x"), Explain(Panic)},
		{"a hint", "irc-1", Failf(Refused, "x").WithHint("start it"), "start it"},
	} {
		if got := TodoOf(tt.err, "irc", tt.container); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
