package collectors

import (
	"bytes"
	"context"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

var (
	upstreamSeriesDesc = prometheus.NewDesc("chatstack_upstream_series",
		"Series that were taken over from the target's own metrics page.",
		[]string{"target"}, nil)
	upstreamDroppedSeriesDesc = prometheus.NewDesc("chatstack_upstream_dropped_series",
		"Series of the target's own metrics page that were left out: a duplicate or a name that is taken (clash), beyond a limit, or malformed.",
		[]string{"target", "reason"}, nil)
)

// metricsAccept asks for OpenMetrics first, and takes what comes.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," +
	"text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// upstream re-exposes the metrics page that a target has itself.
type upstream struct {
	http httpTarget
	// target is the value of the label target of what is said about the page.
	target  string
	options openmetrics.Options
}

// newUpstream bounds what is read by the limits. The options' own bounds are replaced.
func newUpstream(target string, settings config.HTTP, d Deps, o openmetrics.Options) upstream {
	o.Series, o.Families, o.LabelBytes = d.Limits.Series, d.Limits.Families, d.Limits.LabelBytes
	return upstream{httpTarget{settings, int64(d.Limits.MetricsBody), d.UserAgent}, target, o}
}

// get asks for the page.
func (u *upstream) get(ctx context.Context, b *Batch) (*answer, error) {
	return u.http.get(ctx, b, http.Header{"Accept": {metricsAccept}})
}

// reexpose adds the families of a page to b, and says how much of it was kept. A page without a single series is an
// error if it held something else, and fine if it is just empty.
func (u *upstream) reexpose(b *Batch, a *answer) error {
	contentType := a.header.Get("Content-Type")
	page := openmetrics.Read(a.body, contentType, u.options)
	for _, d := range page.Drops {
		b.Note(fmt.Sprintf("line %d of the metrics page: %s: %s", d.Line, d.Reason, d.What))
	}
	malformed := page.Dropped[openmetrics.Malformed]
	if page.Series == 0 && (malformed > 0 || isMarkup(contentType)) {
		return Failf(Malformed, "%s %s: status %d: no metrics page: no sample, %d lines of something else",
			http.MethodGet, printable(u.http.settings.URL), a.status, malformed)
	}
	if !page.Complete {
		b.Note("the metrics page does not end in # EOF: the upstream may have left something out")
	}
	b.Gauge(upstreamSeriesDesc, float64(page.Series), u.target)
	for reason, n := range page.Dropped {
		b.Gauge(upstreamDroppedSeriesDesc, float64(n), u.target, string(reason))
	}
	b.Families(page.Families...)
	return nil
}

// isMarkup reports whether a content type is one that people or programs read, but no scraper.
func isMarkup(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch mediaType {
	case "text/html", "application/xhtml+xml", "application/json", "application/xml", "text/xml":
		return true
	default:
		return false
	}
}

// XMPPMetrics is the block of the XMPP server's own metrics page.
type XMPPMetrics struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
	// CIDR is the network that may read the page, as the XMPP server was told, or several with commas between them.
	// Nothing is asked with it: a host that has no address in it is warned of.
	CIDR string `yaml:"openmetrics_cidr"`
}

func newXMPPMetricsSettings() *XMPPMetrics { return &XMPPMetrics{} }

// Environ implements config.Settings.
func (s *XMPPMetrics) Environ(e *config.Env) {
	e.At("url", "XMPP_REST_URL", "/metrics", &s.URL)
	e.String("openmetrics_cidr", "XMPP_OPENMETRICS_CIDR", &s.CIDR)
	e.TLS("XMPP_REST", &s.TLS)
}

// Configured implements config.Settings.
func (s *XMPPMetrics) Configured() bool { return s.URL != "" }

// Distinction implements config.Distinct.
func (s *XMPPMetrics) Distinction() (key, value string) { return "", "" }

// Check implements config.Settings.
func (s *XMPPMetrics) Check(r *config.Report) {
	s.HTTP.Check(r)
	if _, err := s.networks(); err != nil {
		r.Faultf("openmetrics_cidr", "%v; write a network such as 172.16.0.0/12", err)
	}
}

// networks reads the CIDR. A lone address is a network of one.
func (s *XMPPMetrics) networks() ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.SplitSeq(s.CIDR, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if a, err := netip.ParseAddr(part); err == nil {
			networks = append(networks, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		n, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is no network", part)
		}
		networks = append(networks, n)
	}
	return networks, nil
}

// Warnings implements config.Warner.
func (s *XMPPMetrics) Warnings() []string {
	warnings := s.TLS.Warnings()
	networks, err := s.networks()
	if err != nil || len(networks) == 0 {
		return warnings
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return warnings // nothing can be said
	}
	for _, a := range own {
		ip, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		address, ok := netip.AddrFromSlice(ip.IP)
		if ok && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address.Unmap()) }) {
			return warnings
		}
	}
	return append(warnings, "no address of this host lies in XMPP_OPENMETRICS_CIDR ("+s.CIDR+"), so the XMPP server will refuse the exporter: widen it, or run the exporter inside it")
}

// xmppMetrics reads GET /metrics and takes the server's families over, under their own names.
type xmppMetrics struct{ upstream upstream }

func newXMPPMetrics(s *XMPPMetrics, d Deps) (Collector, error) {
	return &xmppMetrics{newUpstream(s.Name, s.HTTP, d, openmetrics.Options{
		Name:       xmppFamilyName,
		DropLabels: []string{"job", "instance"},
	})}, nil
}

// xmppFamilyName is what a family of the XMPP server is served as. Those about a process would pass for our own, and
// our own prefix is not the server's to use.
func xmppFamilyName(name string) (string, bool) {
	switch {
	case strings.HasPrefix(name, "process_"), strings.HasPrefix(name, "go_"):
		return "xmpp_" + name, true
	default:
		return name, !strings.HasPrefix(name, "chatstack_")
	}
}

// noStatistics is what the server's metrics page says where statistics are switched off.
const noStatistics = "No statistics provider configured"

// Collect implements Collector.
func (c *xmppMetrics) Collect(ctx context.Context, b *Batch) error {
	a, err := c.upstream.get(ctx, b)
	if err != nil {
		return err
	}
	failed := statusError(http.MethodGet, c.upstream.http.settings.URL, a.status)
	switch {
	case a.status == http.StatusOK:
		return c.upstream.reexpose(b, a)
	case a.status == http.StatusForbidden:
		return failed.WithHint("this address is outside XMPP_OPENMETRICS_CIDR: add it to openmetrics_allow_cidr in the XMPP server's configuration")
	case a.status == http.StatusNotFound && bytes.Contains(a.body, []byte(noStatistics)):
		return failed.WithHint(`statistics are switched off: set statistics = "internal" in the XMPP server's configuration`)
	case a.status == http.StatusNotFound:
		return failed.WithHint("the XMPP server answers, but has no metrics page: enable its module http_openmetrics")
	default:
		return failed
	}
}
