//go:build realservers

package collectors

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealOtherPortsOfTheXMPPServerAreNamed has the check of the clients' port connect to the others: Prosody resets the
// connection on the one and stays silent on the other.
func TestRealOtherPortsOfTheXMPPServerAreNamed(t *testing.T) {
	port := unusedPort(t)
	p := realstack.StartProsody(t, realstack.ProsodyOptions{DirectTLSPort: port})
	for name, c := range map[string]struct {
		address string
		want    failure.Reason
		speaks  string
	}{
		"direct TLS": {net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), failure.TLS, "speaks TLS at once"},
		"HTTP":       {p.HTTPAddr, failure.Malformed, "speaks HTTP"},
	} {
		_, err := readFails(t, c2sProbe(t, c.address, config.TLS{InsecureSkipVerify: true}), c.want)
		if err != nil && (!strings.Contains(err.Error(), c.speaks) || !strings.Contains(failure.HintOf(err), "5222")) {
			t.Errorf("%s: %q, hint %q", name, err, failure.HintOf(err))
		}
	}
	_, err := readFails(t, ircTLSProbe(t, p.ClientAddr, config.TLS{}), failure.TLS)
	if err != nil && !strings.Contains(err.Error(), "speaks XMPP") {
		t.Errorf("irc_tls at the clients' port: %q", err)
	}
}

// unusedPort returns a port of loopback that nothing listens on.
func unusedPort(t *testing.T) int {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close() //nolint:errcheck // only its number is wanted
	return free.Addr().(*net.TCPAddr).Port
}
