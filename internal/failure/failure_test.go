package failure

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestReasonOfRecognizesCauses(t *testing.T) {
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

// TestOwnFaultIsThatOfAServerThatAnswers lists the reasons that nothing explains that a server needs.
func TestOwnFaultIsThatOfAServerThatAnswers(t *testing.T) {
	own := []Reason{TLS, Unauthorized, Forbidden, Throttled}
	for _, r := range Reasons {
		if got, want := r.IsOwn(), slices.Contains(own, r); got != want {
			t.Errorf("%s is the server's own fault: %t, want %t", r, got, want)
		}
	}
}

func TestPrintableCutsAtWholeCharacters(t *testing.T) {
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

func TestAdviceNamesLogUnlessHintSet(t *testing.T) {
	const unknownName = "the host name does not resolve: the name server knows no address for it, so the name is wrong, " +
		"or the service's container is stopped"
	noSuchHost := &net.DNSError{Err: "no such host", Name: "irc", IsNotFound: true}
	for _, tt := range []struct {
		name, container string
		err             error
		want            string
	}{
		{
			"a container",
			"irc-1",
			syscall.ECONNREFUSED,
			Explain(Refused) + "; read the log of its container: docker logs --tail 50 irc-1",
		},
		{
			"no container",
			"",
			syscall.ECONNREFUSED,
			Explain(Refused) + "; read the service's log; the last probes are at /debug/targets/irc",
		},
		{
			"a name of a container",
			"irc-1",
			noSuchHost,
			unknownName +
				"; run docker ps --all --filter name=irc-1; if the container runs, correct the name in the target's configuration",
		},
		{
			"a name",
			"",
			noSuchHost,
			unknownName + "; resolve the name where the exporter runs (getent hosts NAME), and correct it in the target's configuration",
		},
		{
			"error of the exporter",
			"irc-1",
			Errorf(Internal, "x"),
			Explain(Internal),
		},
		{
			"panic of the exporter",
			"irc-1",
			Errorf(Panic, "x"),
			Explain(Panic),
		},
		{
			"a hint",
			"irc-1",
			Errorf(Refused, "x").WithHint("start it"),
			"start it",
		},
	} {
		if got := AdviceOf(tt.err, "irc", tt.container); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestEveryReasonIsDocumented requires each reason in the table of TROUBLESHOOTING.md, with its explanation, in openapi.yaml, and in words.
func TestEveryReasonIsDocumented(t *testing.T) {
	if !slices.Contains(Reasons, "throttled") {
		t.Error("throttled is not among the reasons")
	}
	document, err := os.ReadFile("../../TROUBLESHOOTING.md")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(Reasons))
	for i, r := range Reasons {
		names[i] = string(r)
		if InWords(r) == "" {
			t.Errorf("%s has no words for headlines", r)
		}
		if !strings.Contains(string(document), fmt.Sprintf("\n| `%s` | %s", r, Explain(r))) || Explain(r) == "" {
			t.Errorf("TROUBLESHOOTING.md lacks %s: %s", r, Explain(r))
		}
	}
	api, err := os.ReadFile("../web/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "enum: [" + strings.Join(names, ", ") + "]"; !strings.Contains(string(api), want) {
		t.Errorf("openapi.yaml lacks %s", want)
	}
}

func TestDescriptorExhaustionIsInternal(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE} {
		for _, err := range []error{
			fmt.Errorf("dial: %w", cause),
			Errorf(TLS, "read authorities: %w", cause),
			&net.DNSError{Err: "socket", Name: "irc", UnwrapErr: cause},
		} {
			if got := ReasonOf(err); got != Internal {
				t.Errorf("%v: reason %q, want %q", err, got, Internal)
			}
			if hint := HintOf(err); !strings.Contains(hint, "out of file descriptors") {
				t.Errorf("%v: the hint does not say what to raise: %s", err, hint)
			}
		}
	}
}

// The poller masks secrets later: a text that was cut in the middle of one would show half of it.
func TestOneLineKeepsSecretsWhole(t *testing.T) {
	for at := range 2000 {
		if got := OneLine(strings.Repeat("x", at) + "sesame-token"); !strings.Contains(got, "sesame-token") {
			t.Fatalf("cut after %d characters", at)
		}
	}
}

func TestAdviceAddsAnotherPossibleCause(t *testing.T) {
	hinted := Errorf(Closed, "gone").WithHint("read its log")
	for _, tt := range []struct {
		err         error
		want, guess string
	}{
		{OrElse(hinted, "or this"), "read its log; or this", ""},
		{OrElse(io.EOF, "or this"), Explain(Closed) + "; read the log of its container: docker logs --tail 50 chat-1; or this", ""},
		{
			OrElse(&Error{Reason: Closed, Guess: "another port", Err: io.EOF}, "or this"),
			Explain(Closed) + "; read the log of its container: docker logs --tail 50 chat-1; or this",
			"another port; or this",
		},
		{hinted, "read its log", ""},
	} {
		if got, guess := AdviceOf(tt.err, "it", "chat-1"), GuessOf(tt.err); got != tt.want || guess != tt.guess {
			t.Errorf("%v: got %q and %q, want %q and %q", tt.err, got, guess, tt.want, tt.guess)
		}
		if reason := ReasonOf(tt.err); reason != Closed {
			t.Errorf("%v: reason %s, want closed", tt.err, reason)
		}
	}
}
