package collectors

import "github.com/chatstack-exporter/chatstack_exporter/internal/exchange"

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

// certificate adds the metrics of a server's certificate. A target without a name has none, because nothing would identify them.
func (r *Results) certificate(target string, c *exchange.Certificate) {
	if target == "" {
		return
	}
	for _, end := range []struct {
		source string
		exchange.Validity
	}{{"leaf", c.Leaf}, {"other_leaf", c.Other}, {"verified_chain", c.Chain}, {"file", c.File}} {
		if !end.Ends.IsZero() {
			r.Gauge(certificateNotAfterDesc, float64(end.Ends.Unix()), target, end.source)
		}
	}
	if c.Verified != nil {
		r.Gauge(certificateVerifiedDesc, boolValue(*c.Verified), target)
	}
	if c.MatchesFile != nil {
		r.Gauge(certificateMatchesFileDesc, boolValue(*c.MatchesFile), target)
	}
}
