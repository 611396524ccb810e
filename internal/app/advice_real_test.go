//go:build realservers

package app

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealServersAskedInTheOtherScheme asks nginx, which answers, and Prosody and Atheme, which mostly wait for more: it
// depends on the random bytes of a handshake whether they read an end of line in it.
func TestRealServersAskedInTheOtherScheme(t *testing.T) {
	nginx := realstack.StartNginx(t, "http://127.0.0.1:1")
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{})
	atheme := realstack.StartAtheme(t)
	for url, want := range map[string]string{
		"http://" + nginx.Addr + "/health":  "what to do: this port speaks TLS: write https:// in the url\n",
		"https://" + prosody.HTTPAddr + "/": "write http:// in the url",
		"https://" + atheme.Addr + "/":      "write http:// in the url",
	} {
		if table := checkOf(t, "targets:\n  - kind: xmpp_proxy\n    url: "+url+"\n"); strings.Count(table, want) != 1 {
			t.Errorf("%s: the table lacks %q:\n%s", url, want, table)
		}
	}
}
