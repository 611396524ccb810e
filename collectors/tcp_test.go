package collectors

import (
	"io"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// TestPiecesAreHeardTogether has a service say its answer in pieces, each of which is read before the next is sent.
func TestPiecesAreHeardTogether(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close() //nolint:errcheck // a pipe's never fails
	said := make(chan error, 1)
	go func() {
		for _, piece := range []string{"* ban", "ner\r\n2", "20 ready\r\n"} {
			if _, err := io.WriteString(server, piece); err != nil {
				said <- err
				return
			}
		}
		said <- nil
	}()
	timing := exchange.NewTiming()
	c := &tcp{address: "irc:6667", expect: regexp.MustCompile(`(?m)^220 ready`)}
	if err := c.hear(t.Context(), client, timing); err != nil {
		t.Error(err)
	}
	client.Close() //nolint:errcheck,gosec // whoever still speaks is told so
	if err := <-said; err != nil {
		t.Error(err)
	}
	if got, want := phases(&exchange.Exchange{Phases: timing.End("end")}), []string{"first_byte", "end"}; !slices.Equal(got, want) {
		t.Errorf("phases: got %q, want %q", got, want)
	}
}

func TestFirstByteIsTimedIfThereIsOne(t *testing.T) {
	for said, want := range map[string][]string{"": {"connect", "failed"}, "!": {"connect", "first_byte", "end"}} {
		c := &tcp{address: exchangetest.RawServer(t, "tcp", exchangetest.Say(said)), send: "?", expect: regexp.MustCompile("!")}
		b, err := read(t, c, 10*time.Second)
		if up := said != ""; (err == nil) != up {
			t.Errorf("%q: got %v, want success: %t", said, err, up)
		}
		if got := phases(b.Exchanges[0]); !slices.Equal(got, want) {
			t.Errorf("%q: phases %q, want %q", said, got, want)
		}
	}
}
