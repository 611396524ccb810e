package failure

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestAdviceSaysHowALookupFailed has the errors as package net returns them, within those of a dial.
func TestAdviceSaysHowALookupFailed(t *testing.T) {
	const unanswered, failing, unknown = "the name server does not answer: ", "the name server answers with an error such as SERVFAIL: ",
		"the host name does not resolve: "
	for name, tt := range map[string]struct {
		err  net.DNSError
		want string
	}{
		"no answer":            {net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true}, unanswered},
		"nobody waited longer": {net.DNSError{Err: "operation was canceled", UnwrapErr: context.Canceled}, unanswered},
		"refused": {
			net.DNSError{Err: "read udp 127.0.0.1:4->127.0.0.1:53: read: connection refused", IsTemporary: true},
			unanswered,
		},
		"no route":             {net.DNSError{Err: "dial udp 10.0.0.1:53: connect: network is unreachable", IsTemporary: true}, unanswered},
		"SERVFAIL":             {net.DNSError{Err: "server misbehaving", IsTemporary: true}, failing},
		"REFUSED":              {net.DNSError{Err: "server misbehaving"}, failing},
		"a broken answer":      {net.DNSError{Err: "cannot unmarshal DNS message"}, failing},
		"NXDOMAIN, no address": {net.DNSError{Err: "no such host", IsNotFound: true}, unknown},
	} {
		err := fmt.Errorf("get http://irc.test: %w", &net.OpError{Op: "dial", Net: "tcp", Err: &tt.err})
		if got := ReasonOf(err); got != DNS {
			t.Errorf("%s: reason %q, want %q", name, got, DNS)
		}
		if got := HintOf(err); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if got := AdviceOf(err, "irc", "irc-1"); strings.Contains(got, "docker ps --all --filter name=irc-1") == (tt.want == unanswered) {
			t.Errorf("%s, in a container: got %q", name, got)
		}
	}
}
