//go:build realservers

package collectors

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealXMPPServerWithoutRESTAPI asks a server as Debian's packages make it: they have no REST API. What one with the
// API says is replayed from captures in TestXMPPRestSaysWhetherTheCredentialIsAccepted.
func TestRealXMPPServerWithoutRESTAPI(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for name, credential := range map[string]func(*XMPPRest){"token": withToken, "password": withPassword, "none": nil} {
		_, err := read(t, restProbe(t, prosody.URL(), credential), realDeadline)
		wantReason(t, err, NotFound)
		if !strings.Contains(HintOf(err), "enable its module http_admin_api") {
			t.Errorf("%s: hint: got %q, want the module in it", name, HintOf(err))
		}
	}
}
