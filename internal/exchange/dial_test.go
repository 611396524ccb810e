package exchange

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestNameServersAreAskedForALabels has names as people write them; a final dot keeps its meaning to the resolver.
func TestNameServersAreAskedForALabels(t *testing.T) {
	for address, want := range map[string]string{
		"müller.test:5222": "xn--mller-kva.test:5222", "MÜLLER.test.:1": "xn--mller-kva.test.:1", "chat_irc_1:6697": "chat_irc_1:6697",
		"Chat.test.:443": "Chat.test.:443", "[2001:db8::1%eth0]:1": "[2001:db8::1%eth0]:1",
	} {
		var got string
		ctx := WithDialer(t.Context(), func(_ context.Context, _, address string) (net.Conn, error) {
			got = address
			return nil, errors.New("no network")
		})
		if _, err := Dial(ctx, "tcp", address); err == nil || got != want {
			t.Errorf("%s: dials %s, want %s", address, got, want)
		}
	}
}
