package exchange

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestCertificatesAreComparedByALabels(t *testing.T) {
	for want, trust := range map[string]config.TLS{
		"xn--mller-kva.test": {},
		"xn--grn-ioa.test":   {ServerName: "grün.test"},
		"chat.test":          {ServerName: "chat.test"},
	} {
		if got := nameFor(&trust, "müller.test"); got != want {
			t.Errorf("server_name %q: got %s, want %s", trust.ServerName, got, want)
		}
	}
}
