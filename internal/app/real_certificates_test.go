//go:build realservers

package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// TestRealCertificateOfSixDays has nginx serve a certificate that lives for 6 days, so it always has less than 14 days left.
func TestRealCertificateOfSixDays(t *testing.T) {
	const day = 24 * time.Hour
	nginx := realstack.StartNginx(t, "http://127.0.0.1:1")
	nginx.Authority = realstack.NewAuthorityUntil(t, time.Now().Add(365*day))
	issued := time.Now().Add(-3 * time.Hour).Truncate(time.Second)
	serve := func(begins time.Time, life time.Duration) {
		nginx.Renew(nginx.Authority.Sign(exchangetest.Certificate{Names: []string{"127.0.0.1"}, Begins: begins, End: begins.Add(life)}).
			PEM(t))
		nginx.Reload()
	}
	serve(issued, 6*day)
	web := fmt.Sprintf("targets:\n"+`  - {kind: http, name: web, url: "%s/health", ca_file: %s, schedule: "@every 1s", timeout: 1s}`+"\n",
		nginx.URL(), nginx.Authority.File)
	alone := startExporter(t, map[string]string{}, web) // beside strict, which serves the same certificate, its problem may be held back
	e := startExporter(t, map[string]string{}, web+fmt.Sprintf(`
  - {kind: tls, name: strict, address: "%s", ca_file: %s, schedule: "@every 1s", timeout: 1s, certificate_expiry: {warning: 30d, critical: 2d}}
`, nginx.Addr, nginx.Authority.File))
	limit := func(p page, endpoint, severity string) float64 {
		v, _ := p.Value("chatstack_tls_certificate_expiry_limit_seconds", "endpoint", endpoint, "severity", severity)
		return v
	}
	leaf := func(p page, endpoint string) bool {
		v, _ := p.Value("chatstack_tls_certificate_not_after_timestamp_seconds", "endpoint", endpoint, "source", "leaf")
		return v == float64(issued.Add(6*day).Unix())
	}
	expiring := func(e *exporter) []status.Problem {
		return slices.DeleteFunc(e.report(t).Problems, func(p status.Problem) bool { return p.Alert != "TLSCertificateExpiry" })
	}
	e.wait(t, "the limits of six days", func(p page) bool {
		return leaf(p, "web") && leaf(p, "strict") && limit(p, "web", "warning") == (2*day).Seconds() &&
			limit(p, "web", "critical") == day.Seconds() &&
			limit(p, "strict", "warning") == (30*day).Seconds() && limit(p, "strict", "critical") == (2*day).Seconds()
	})
	if got := expiring(e); len(got) != 1 || got[0].Name != "strict" || !got[0].Since.Equal(issued) {
		t.Errorf("problems: %+v, want that of strict, since %s", got, issued)
	}
	for _, c := range []struct {
		life, left time.Duration
		want       string
	}{
		{6 * day, 2*day + time.Hour, ""},
		{6 * day, 2*day - time.Hour, "warning"},
		{6 * day, day - time.Hour, "critical"},
		{90 * day, 13 * day, "warning"},
		{90 * day, 15 * day, ""},
	} {
		serve(time.Now().Add(c.left-c.life), c.life)
		reached := func() bool {
			now := expiring(alone)
			i := slices.IndexFunc(now, func(p status.Problem) bool { return p.Name == "web" })
			return i < 0 && c.want == "" || i >= 0 && now[i].Severity.String() == c.want
		}
		if !exportertest.Eventually(20*time.Second, between(t), reached) {
			t.Errorf("%s left of %s: %+v, want %q", c.left, c.life, expiring(alone), c.want)
		}
	}
}
