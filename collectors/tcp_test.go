package collectors

import (
	"io"
	"net"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
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
	b := &Batch{}
	_, timing := b.Begin(t.Context(), "connect")
	c := &tcp{TCP: &TCP{Endpoint: at("irc:6667")}, expect: regexp.MustCompile(`(?m)^220 ready`)}
	if err := c.hear(t.Context(), client, timing); err != nil {
		t.Error(err)
	}
	client.Close() //nolint:errcheck,gosec // whoever still speaks is told so
	if err := <-said; err != nil {
		t.Error(err)
	}
	timing.End("end", nil)
	if got, want := phases(b.Exchanges[0]), []string{"first_byte", "end"}; !slices.Equal(got, want) {
		t.Errorf("phases: got %q, want %q", got, want)
	}
}

// TestWhatAServiceSaysLastIsHeard has services that have gone when the client writes.
func TestWhatAServiceSaysLastIsHeard(t *testing.T) {
	for _, tt := range []struct {
		words, expect string
		want          failure.Reason
	}{
		{"ready\r\n", "^ready", ""},
		{"ERROR :Connection refused, too many connections from your IP address\r\n", "^:", failure.Throttled},
		{"gone\r\n", "^ready", failure.Mismatch},
		{"", "^ready", failure.Closed},
		{"ready\r\n", "", failure.Closed}, // nothing is read, so the write is all there is
	} {
		c, err := newTCP(&TCP{Endpoint: at("irc.test:6667"), Send: "PING\r\n", Expect: tt.expect}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Collect(exchange.WithDialer(t.Context(), exchangetest.Refusing{Words: tt.words, Write: syscall.EPIPE}.Dial), &Batch{})
		if got := reasonOf(err); got != tt.want {
			t.Errorf("%q, expect %q: %v, want reason %q", tt.words, tt.expect, err, tt.want)
		}
	}
}
