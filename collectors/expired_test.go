package collectors

import (
	"errors"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestExpiredCertificateIsSeenToFailTheProbe tries what else may have failed it.
func TestExpiredCertificateIsSeenToFailTheProbe(t *testing.T) {
	refused := failure.Errorf(failure.TLS, "certificate has expired")
	for name, c := range map[string]struct {
		left time.Duration
		err  error
		want bool
	}{
		"it has expired":           {-time.Minute, refused, true},
		"it expires soon":          {time.Hour, refused, false},
		"another failure":          {-time.Minute, errors.New("a failure"), false},
		"it is accepted all along": {-time.Minute, nil, false},
	} {
		b := &Batch{}
		b.Certificate = exchange.Certificate{Leaf: exchange.Validity{Ends: time.Now().Add(c.left), Fingerprint: [32]byte{1}}}
		for _, found := range b.Conditions(c.err) {
			if found.Alert == health.AlertCertificateExpiry && (found.Refused != c.want || found.Certificates[0].Fingerprint[0] != 1) {
				t.Errorf("%s: got %+v, want that it is refused: %t", name, found, c.want)
			}
		}
	}
}
