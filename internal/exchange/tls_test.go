package exchange

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestErrorsSayHowTLSWasBegun(t *testing.T) {
	for want, s := range map[string]TLSServer{
		"tls irc.test:6697":                   {Address: "irc.test:6697"},
		"starttls xmpp-client xmpp.test:5222": {Address: "xmpp.test:5222", StartTLS: XMPPClient},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func wantReason(t *testing.T, err error, want failure.Reason) {
	t.Helper()
	if err == nil || failure.ReasonOf(err) != want {
		t.Errorf("got %v, want reason %q", err, want)
	}
}

// judgeFailure holds what is true of every failure, whatever a server has said: it is not our own fault, and its text has an end.
func judgeFailure(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if reason := failure.ReasonOf(err); reason == failure.Internal || reason == failure.Panic {
		t.Errorf("reason %s, as if it were our fault: %v", reason, err)
	}
	if text := err.Error(); len(text) > 5*failure.MaxLine {
		t.Errorf("an error of %d bytes: %.300q", len(text), text)
	}
}
