package chat

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// TestServerMustProveThatItKnowsThePassword has servers without the password end or prolong the login.
func TestServerMustProveThatItKnowsThePassword(t *testing.T) {
	for name, c := range map[string]struct{ answer, iterations, want string }{
		"success in place of a proof": {"success", "4096", "without a proof"},
		"endless work":                {"challenge", "2147483647", "it demands 2147483647 iterations, more than 100000"},
		"no number":                   {"challenge", "99999999999999999999", "does not follow SCRAM"},
		"a sign":                      {"challenge", "+900000000", "does not follow SCRAM"},
		"too little work":             {"challenge", "4095", "fewer than 4096"},
		"a second count":              {"challenge", "4096,i=900000000", "does not follow SCRAM"},
		"an extension to obey":        {"challenge", "4096,m=1", "does not follow SCRAM"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close() //nolint:errcheck // a test
			go func() {
				defer theirs.Close() //nolint:errcheck // a test
				request := make([]byte, 4096)
				n, err := theirs.Read(request)
				if err != nil {
					return
				}
				_, text, _ := strings.Cut(string(request[:n]), ">")
				text, _, _ = strings.Cut(text, "<")
				first, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					return
				}
				_, nonce, _ := strings.Cut(string(first), "r=")
				message := "r=" + nonce + "more,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=" + c.iterations
				if _, err := fmt.Fprintf(theirs, "<%[1]s xmlns='%[2]s'>%[3]s</%[1]s>", c.answer, nsSASL, base64.StdEncoding.EncodeToString([]byte(message))); err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, theirs)
			}()
			if err := passwordSession(ours).authenticate(offer("SCRAM-SHA-256")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPasswordIsNotShownToAnybody(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close() //nolint:errcheck // a test
	defer ours.Close()   //nolint:errcheck // a test
	s := passwordSession(ours)
	s.account.Trust.InsecureSkipVerify = true
	if err := s.authenticate(offer("PLAIN")); err == nil || !strings.Contains(err.Error(), "offers only PLAIN") {
		t.Errorf("got %v", err)
	}
}

func passwordSession(conn net.Conn) *xmppSession {
	return inStream(newXMPPSession(&XMPP{User: "check", Password: config.NewSecret("sesame"), Iterations: 100_000}, newLink(context.Background(), conn), deaf{}))
}

// inStream puts a session where the server has opened its stream.
func inStream(s *xmppSession) *xmppSession {
	s.in.depth, s.in.room = 1, maxStanza
	s.xml = xml.NewDecoder(s.in)
	return s
}

// offer is what a server with these mechanisms offers.
func offer(names ...string) *element {
	list := element{XMLName: xml.Name{Space: nsSASL, Local: "mechanisms"}}
	for _, name := range names {
		list.Children = append(list.Children, element{Text: name})
	}
	return &element{Children: []element{list}}
}
