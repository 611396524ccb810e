package chat

import (
	"encoding/xml"
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestServerThatRefusesPingsIsAlive has a server without mod_ping refuse the ping of itself. In a room,
// a refusal means that the session has left.
func TestServerThatRefusesPingsIsAlive(t *testing.T) {
	for room, want := range map[string]string{"": "", "a@rooms.test": "ping: not-acceptable"} {
		ours, theirs := net.Pipe()
		s := inStream(newXMPPSession(&XMPP{Room: room, Nick: "n"}, newLink(t.Context(), ours), deaf{}))
		s.account.Domain = "chat.test"
		go s.listen() //nolint:errcheck // it ends with the pipe
		go func() {
			in := xml.NewDecoder(theirs)
			for {
				var request element
				if in.Decode(&request) != nil {
					return
				}
				condition := "service-unavailable"
				if strings.Contains(request.attr("to"), "/") {
					condition = "not-acceptable"
				}
				//nolint:errcheck // a pipe
				fmt.Fprintf(theirs, "<iq xmlns='jabber:client' type='error' id='%s'><error type='cancel'><%s xmlns='%s'/></error></iq>",
					request.attr("id"), condition, nsStanzas)
			}
		}()
		err := s.Ping(t.Context())
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("room %q: got %v, want %q", room, err, want)
		}
		ours.Close() //nolint:errcheck // a test
	}
}
