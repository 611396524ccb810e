package collectors

import (
	"io"
	"net"
	"regexp"
	"slices"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
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
