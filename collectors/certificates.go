package collectors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	certificateNotAfterDesc = prometheus.NewDesc("chatstack_tls_certificate_not_after_timestamp_seconds",
		"When a certificate ends: the one that the server shows (leaf), the first of the chain that verifies (verified_chain), the one in the server's file (file).",
		[]string{"endpoint", "source"}, nil)
	certificateVerifiedDesc = prometheus.NewDesc("chatstack_tls_certificate_verified",
		"Whether authority, name and date of the server's certificate verify, whatever the connection was trusted for.",
		[]string{"endpoint"}, nil)
	certificateMatchesFileDesc = prometheus.NewDesc("chatstack_tls_certificate_matches_file",
		"Whether the server shows the certificate that its file holds. It is 0 from a renewal until the server reloads.",
		[]string{"endpoint"}, nil)
)

// certificateMetrics returns what the reading found out about the server's certificate. Without a target's name, an endpoint's
// metrics cannot be told from another's.
func (b *Batch) certificateMetrics() []prometheus.Metric {
	if b.Target == "" {
		return nil
	}
	var metrics []prometheus.Metric
	add := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics = append(metrics, newMetric(desc, prometheus.GaugeValue, value, append([]string{b.Target}, labels...)))
	}
	end := func(source string, at time.Time) {
		if !at.IsZero() {
			add(certificateNotAfterDesc, float64(at.Unix()), source)
		}
	}
	c := &b.Certificate
	end("leaf", c.Leaf)
	end("verified_chain", c.Chain)
	if c.Verified != nil {
		add(certificateVerifiedDesc, boolValue(*c.Verified))
	}
	end("file", c.File)
	if c.MatchesFile != nil {
		add(certificateMatchesFileDesc, boolValue(*c.MatchesFile))
	}
	return metrics
}
