package chat

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// logInAt logs in at a server that answers the client's first message with an element and a number of iterations.
func logInAt(t *testing.T, mechanism, answer, iterations string, trust config.TLS) error {
	t.Helper()
	conn, server := net.Pipe()
	t.Cleanup(func() { _ = conn.Close() })
	s := &xmppSession{account: &XMPP{User: "check", Password: config.NewSecret("secret")}, conn: conn, in: &io.LimitedReader{R: conn, N: maxStanza}}
	s.account.Trust = trust
	s.xml = xml.NewDecoder(s.in)
	go func() {
		defer server.Close() //nolint:errcheck // a pipe
		request := make([]byte, 4096)
		n, _ := server.Read(request)
		_, text, _ := strings.Cut(string(request[:n]), ">")
		text, _, _ = strings.Cut(text, "<")
		first, _ := base64.StdEncoding.DecodeString(text)
		_, nonce, _ := strings.Cut(string(first), "r=")
		challenge := "r=" + nonce + "more,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=" + iterations
		_, _ = fmt.Fprintf(server, "<%s xmlns='%s'>%s</%s>", answer, nsSASL, base64.StdEncoding.EncodeToString([]byte(challenge)), answer)
	}()
	offer := element{XMLName: xml.Name{Space: nsSASL, Local: "mechanisms"}, Children: []element{{Text: mechanism}}}
	return s.authenticate(&element{Children: []element{offer}})
}

// TestLoginNeedsProof tries servers that do not know the password.
func TestLoginNeedsProof(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mechanism, answer, iterations string
		trust                               config.TLS
		want                                string
	}{
		{"success without proof", "SCRAM-SHA-256", "success", "4096", config.TLS{}, "without proof"},
		{"endless computation", "SCRAM-SHA-256", "challenge", "2147483647", config.TLS{}, "more than 1000000 iterations"},
		{"no number", "SCRAM-SHA-1", "challenge", "99999999999999999999", config.TLS{}, "more than 1000000 iterations"},
		{"password in plain text to anybody", "PLAIN", "success", "", config.TLS{InsecureSkipVerify: true}, "offers only PLAIN"},
		{"password in plain text to a known server", "PLAIN", "success", "", config.TLS{}, ""},
	} {
		err := logInAt(t, tt.mechanism, tt.answer, tt.iterations, tt.trust)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
