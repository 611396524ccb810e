//go:build realservers

package collectors

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealStockServerHasFewCanonicalFamilies reads a server that has none but its own modules: connections with other
// servers are all that it counts from the start, and sessions once there are some.
func TestRealStockServerHasFewCanonicalFamilies(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Federation: true})
	reading := func() *Batch {
		b, err := readXMPPMetrics(t, prosody.URL(), deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := reading()
	if diff := cmp.Diff([]string{"xmpp_s2s_connections_total"}, availableFamilies(t, b)); diff != "" {
		t.Errorf("available without a client (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`xmpp_s2s_connections_total{direction="in"} 0`}, canonicalSeries(b)); diff != "" {
		t.Errorf("series without a client (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(b.Notes, func(n string) bool {
		return strings.Contains(n, "nothing counts failed logins, so no alert covers them")
	}) {
		t.Errorf("notes: got %q, want one about authentication failures", b.Notes)
	}
	openClientStream(t, prosody)
	b = reading()
	if diff := cmp.Diff([]string{"xmpp_c2s_sessions", "xmpp_s2s_connections_total"}, availableFamilies(t, b)); diff != "" {
		t.Errorf("available with a client (-want +got):\n%s", diff)
	}
	if got, want := canonicalSeries(b), `xmpp_c2s_sessions{host="chat.test",type="c2s_unauthed"} 1`; !slices.Contains(got, want) {
		t.Errorf("series with a client: got %q, want %s among them", got, want)
	}
	wantReadable(t, b)
}

// openClientStream opens the stream of a client that goes no further, and leaves it open until the test ends.
func openClientStream(t *testing.T, prosody *realstack.Prosody) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", prosody.ClientAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck,gosec // a test's connection
	if _, err := fmt.Fprintf(conn,
		"<stream:stream to='%s' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
		realstack.XMPPDomain); err != nil {
		t.Fatal(err)
	}
	for answer := bufio.NewReader(conn); ; {
		tag, err := answer.ReadString('>')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(tag, "</stream:features>") {
			return
		}
	}
}

// TestRealStatusPageTellsModules reads the states of a real server's modules.
func TestRealStatusPageTellsModules(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{})
	s := &XMPPStatus{}
	s.URL = prosody.URL() + "/status"
	c := newProbe(t, newXMPPStatus, s)
	b, err := read(t, c, realDeadline)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`xmpp_module_status{host="*",module="c2s"} 0`, `xmpp_module_status{host="chat.test",module="saslauth"} 0`,
		`chatstack_xmpp_family_available{family="xmpp_module_status"} 1`,
	} {
		if own := string(ownText(t, b)); !strings.Contains(own, want+"\n") {
			t.Errorf("got\n%s\nwant %s in it", own, want)
		}
	}
}
