package exchange

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestChainEnd(t *testing.T) {
	at := func(days ...time.Time) []*x509.Certificate {
		certs := make([]*x509.Certificate, len(days))
		for i, d := range days {
			certs[i] = &x509.Certificate{NotAfter: d}
		}
		return certs
	}
	for name, c := range map[string]struct {
		chains [][]*x509.Certificate
		want   time.Time
	}{
		"leaf ends first": {
			[][]*x509.Certificate{at(exchangetest.FirstDay, exchangetest.SecondDay, exchangetest.ThirdDay)},
			exchangetest.FirstDay,
		},
		"root ends first": {
			[][]*x509.Certificate{at(exchangetest.ThirdDay, exchangetest.SecondDay, exchangetest.FirstDay)},
			exchangetest.FirstDay,
		},
		"in between ends first": {
			[][]*x509.Certificate{at(exchangetest.ThirdDay, exchangetest.FirstDay, exchangetest.SecondDay)},
			exchangetest.FirstDay,
		},
		"leaf alone": {[][]*x509.Certificate{at(exchangetest.SecondDay)}, exchangetest.SecondDay},
		"shorter chain first": {
			[][]*x509.Certificate{at(exchangetest.ThirdDay, exchangetest.FirstDay), at(exchangetest.ThirdDay, exchangetest.SecondDay)},
			exchangetest.SecondDay,
		},
		"shorter chain last": {
			[][]*x509.Certificate{at(exchangetest.ThirdDay, exchangetest.SecondDay), at(exchangetest.ThirdDay, exchangetest.FirstDay)},
			exchangetest.SecondDay,
		},
		"not the latest of all": {
			[][]*x509.Certificate{at(exchangetest.SecondDay, exchangetest.ThirdDay), at(exchangetest.FirstDay, exchangetest.ThirdDay)},
			exchangetest.SecondDay,
		},
		"three, the best in the middle": {[][]*x509.Certificate{
			at(exchangetest.SecondDay, exchangetest.FirstDay), at(exchangetest.ThirdDay, exchangetest.ThirdDay),
			at(exchangetest.ThirdDay, exchangetest.SecondDay),
		}, exchangetest.ThirdDay},
		"before 1970": {[][]*x509.Certificate{at(time.Unix(-10, 0))}, time.Unix(-10, 0)},
	} {
		if got := chainEnd(c.chains).Ends; !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestHintOfACertificateTakesNobodyElsesPlace(t *testing.T) {
	expired := x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotAfter: time.Unix(1_700_000_000, 0)}}
	for _, tt := range []struct {
		name string
		err  error
		want string // a part of the hint
	}{
		{"its own hint", failure.Errorf(failure.TLS, "handshake: %w", expired).WithHint("write https"), "write https"},
		{"expired", fmt.Errorf("handshake: %w", expired), "expired at 2023-11-14 22:13 UTC"},
		{"not for this", x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign, Cert: expired.Cert}, failure.Explain(failure.TLS)},
		{"no name", errors.New("remote error: tls: unrecognized name"), "set server_name or domain"},
		{"no certificate at all", syscall.ECONNREFUSED, failure.Explain(failure.Refused)},
	} {
		if got := failure.HintOf((&CertificateWatch{}).withHint(tt.err)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: hint: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}
