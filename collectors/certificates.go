package collectors

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

var (
	certificateNotAfterDesc = readDesc("chatstack_tls_certificate_not_after_timestamp_seconds",
		"Expiry of a certificate, in seconds since the epoch: the one that the server presents (leaf), "+
			"the one that it presents to clients of another algorithm (other_leaf, read hourly), "+
			"the first to expire in the verified chain (verified_chain), or the one in the server's file (file).",
		"endpoint", "source")
	certificateVerifiedDesc = readDesc("chatstack_tls_certificate_verified",
		"Whether the server's certificate passes verification of authority, name and dates, "+
			"even if the exporter trusts it for another reason.",
		"endpoint")
	certificateMatchesFileDesc = readDesc("chatstack_tls_certificate_matches_file",
		"Whether the server presents the certificate in its file: 0 after a renewal until the server reloads.", "endpoint")
)

// certificateMetrics returns the metrics of a server's certificate. A target without a name has none, because nothing would
// identify them.
func certificateMetrics(target string, c *exchange.Certificate) []prometheus.Metric {
	if target == "" {
		return nil
	}
	var metrics []prometheus.Metric
	add := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics = append(metrics, exposition.NewSample(desc, prometheus.GaugeValue, value, append([]string{target}, labels...)...))
	}
	flag := func(desc *prometheus.Desc, is *bool) {
		switch {
		case is == nil:
		case *is:
			add(desc, 1)
		default:
			add(desc, 0)
		}
	}
	end := func(source string, v exchange.Validity) {
		if !v.Ends.IsZero() {
			add(certificateNotAfterDesc, float64(v.Ends.Unix()), source)
		}
	}
	end("leaf", c.Leaf)
	end("other_leaf", c.Other)
	end("verified_chain", c.Chain)
	flag(certificateVerifiedDesc, c.Verified)
	end("file", c.File)
	flag(certificateMatchesFileDesc, c.MatchesFile)
	return metrics
}
