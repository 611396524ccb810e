//go:build realservers

package collectors

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealServicesAnswerTheCall calls real IRC services, which are silent on whatever they cannot read, and at a path
// where they have no JSON-RPC.
func TestRealServicesAnswerTheCall(t *testing.T) {
	services := realstack.StartAtheme(t)
	s := &IRCServices{}
	s.URL, s.JSONRPC = services.URL(), true
	if _, err := readServices(t, s, 10*time.Second); err != nil {
		t.Error(err)
	}
	s.JSONRPCURL = services.URL() + "nowhere"
	_, err := readServices(t, s, time.Second)
	wantReason(t, err, failure.NotFound)
	if err != nil && !strings.Contains(failure.HintOf(err), "by default this page is at /jsonrpc") {
		t.Errorf("hint %q", failure.HintOf(err))
	}
}
