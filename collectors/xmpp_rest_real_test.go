//go:build realservers

package collectors

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealXMPPServerWithoutRESTAPI asks a server as Debian's packages make it: they have no REST API. What one with the
// API says is replayed from captures in testdata/cases/xmpp_rest.yaml.
func TestRealXMPPServerWithoutRESTAPI(t *testing.T) {
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{})
	for name, credential := range map[string]func(*XMPPRest){"token": withToken, "password": withPassword, "none": nil} {
		_, err := read(t, restProbe(t, prosody.URL(), credential), realDeadline)
		wantReason(t, err, failure.NotFound)
		if !strings.Contains(failure.HintOf(err), "enable its module http_admin_api") {
			t.Errorf("%s: hint: got %q, want the module in it", name, failure.HintOf(err))
		}
	}
}
