package collectors

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var (
	upstreamSeriesDesc = readDesc("chatstack_upstream_series",
		"Series that the exporter serves from the target's own metrics.", "target")
	xmppSessionsDesc = readDesc("chatstack_xmpp_sessions",
		"Sessions of logged-in clients on all virtual hosts of the XMPP server: the sum of xmpp_c2s_sessions, "+
			"or 0 before the first session.")
)

// metricsAccept prefers OpenMetrics, but accepts any format.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," +
	"text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// upstream serves a target's own metrics.
type upstream struct {
	http exchange.HTTP
	// target is the value of the label target in metrics about the page.
	target  string
	options openmetrics.Options
	// lineGrowth is how many bytes a prefix and labels add to each line.
	lineGrowth int
}

// newUpstream overwrites the limits, Keep and Rename in o with the configured limits and rules.
func newUpstream(target string, settings config.HTTP, d Deps, rules *FamilyRules, o openmetrics.Options) upstream {
	o.Series, o.Families, o.LabelBytes = d.Limits.Series, d.Limits.Families, d.Limits.LabelBytes
	o.Keep, o.Rename, o.HoldsSecret = rules.serves, rules.renamed, d.Secrets.In
	growth := 0
	for _, l := range o.Labels {
		growth += len(l.Name) + len(l.Value) + len(`="",`)
	}
	return upstream{
		exchange.HTTP{Settings: settings, Limit: int64(d.Limits.MetricsBody), UserAgent: d.UserAgent},
		target,
		o,
		growth,
	}
}

func (u *upstream) get(ctx context.Context, b *Batch) (*exchange.Answer, error) {
	return u.http.Get(ctx, &b.Record, http.Header{"Accept": {metricsAccept}})
}

// reexpose adds the families of a page and the number of their series to b.
func (u *upstream) reexpose(b *Batch, a *exchange.Answer) error {
	page, err := u.read(b, a)
	if err != nil {
		return err
	}
	u.keep(b, page.Families)
	return nil
}

// read reads a page, and notes and counts what it drops. A page without series is an error unless it is empty.
func (u *upstream) read(b *Batch, a *exchange.Answer) (*openmetrics.Page, error) {
	contentType := a.Header.Get("Content-Type")
	lines := bytes.Count(a.Body, []byte{'\n'})
	if size := int64(len(a.Body)) + int64(lines)*int64(u.lineGrowth); size > u.http.Limit {
		return nil, a.Errorf(failure.TooLarge, "%s, %d bytes with the added prefix and labels, more than %d",
			wording.Count(lines, "line"), size, u.http.Limit).
			WithHint("each line gets the prefix and the label target: shorten the prefix or the target's name, " +
				"or raise limits.metrics_body in exporter.yaml (or the memory limit, if the startup log says that it is too small)")
	}
	page := openmetrics.Read(a.Body, contentType, u.options)
	for _, d := range page.Drops {
		b.Note(fmt.Sprintf("line %d of the metrics page: %s: %s", d.Line, d.Reason, d.What))
	}
	malformed := page.Dropped[openmetrics.Malformed]
	if page.Series == 0 && (malformed > 0 || isMarkup(contentType)) {
		return nil, a.Errorf(failure.Malformed, "not a metrics page: no sample, %s of other text", wording.Count(malformed, "line")).
			WithHint("the server has another page than its metrics at " + exchange.PathOf(a.URL) +
				": correct the path or the port of url; most servers have them at " + metricsPath)
	}
	if !page.Complete {
		b.Note("the metrics page does not end with # EOF and may be incomplete")
	}
	b.Drops = page.Dropped
	return page, nil
}

// keep adds families of the page to b, and counts their series. Any server's own count of failed logins is judged.
func (u *upstream) keep(b *Batch, families []exposition.Family) {
	series := 0
	for i := range families {
		f := &families[i]
		series += f.Series
		if f.TextName() == authFailures {
			b.countFailedLogins(exposition.Lines(f.Text))
		}
	}
	b.Gauge(upstreamSeriesDesc, float64(series), u.target)
	b.Families(families...)
}

// isMarkup reports whether a content type is HTML, JSON or XML, which are not metrics.
func isMarkup(contentType string) bool {
	mediaType, _, _ := mime.ParseMediaType(contentType) // wrong parameters do not matter
	return slices.Contains([]string{"text/html", "application/xhtml+xml", "application/json", "application/xml", "text/xml"}, mediaType)
}

// XMPPMetrics is the block of the XMPP server's own metrics page.
type XMPPMetrics struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
	FamilyRules   `yaml:",inline"`
	// CIDR lists the networks, separated by commas, that the XMPP server allows to read the page. The exporter only warns if
	// this host has no address in it.
	CIDR string `yaml:"openmetrics_cidr"`
	// Log is where failed logins are counted if the page does not count them.
	Log AuthFailureLog `yaml:"auth_failure_log"`
}

func newXMPPMetricsSettings() *XMPPMetrics { return &XMPPMetrics{Log: newAuthFailureLog()} }

// Environ implements config.Settings.
func (s *XMPPMetrics) Environ(e *config.Env) {
	e.Origin("url", "XMPP_REST_URL", &s.URL)
	e.String("openmetrics_cidr", "XMPP_OPENMETRICS_CIDR", &s.CIDR)
	e.TLS("XMPP_REST", &s.TLS)
}

// statisticsDuty is to read a page that the server may count anew for each reader.
var statisticsDuty = &config.Duty{
	Infinitive:     "read the XMPP server's metrics while its statistics_interval is \"manual\"",
	ThirdPerson:    "reads an XMPP server's metrics",
	AdviceForOther: "set a number of seconds there, or leave this target to the first exporter of the pair",
	AdviceForAll: "with statistics_interval = \"manual\" the server counts for one scraper only; set a number of seconds there, " +
		"or leave the target to one exporter",
}

// Check implements config.Settings.
func (s *XMPPMetrics) Check(r *config.Report) {
	s.HTTP.Check(r)
	s.check(r, func(name string) string { return name })
	s.Log.check(r)
	if _, err := s.networks(); err != nil {
		r.Faultf("openmetrics_cidr", "%v; write a network such as 172.16.0.0/12", err)
	}
}

// networks parses the CIDR. A single address is a network of one.
func (s *XMPPMetrics) networks() ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.SplitSeq(s.CIDR, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		n, err := netip.ParsePrefix(part)
		if a, noPrefix := netip.ParseAddr(part); noPrefix == nil {
			n, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a network", part)
		}
		networks = append(networks, n)
	}
	return networks, nil
}

// Warnings implements config.Settings.
func (s *XMPPMetrics) Warnings() []string {
	warnings := s.TLS.Warnings()
	networks, err := s.networks()
	if err != nil || len(networks) == 0 {
		return warnings
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return warnings // unknown
	}
	for _, a := range own {
		address, err := netip.ParsePrefix(a.String())
		if err == nil && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address.Addr().Unmap()) }) {
			return warnings
		}
	}
	return append(warnings, "no address of this host is in XMPP_OPENMETRICS_CIDR ("+s.CIDR+
		"), so the XMPP server will refuse the exporter: widen it, or run the exporter inside it")
}

// xmppMetrics requests GET /metrics and serves the server's families under their own names, plus the canonical ones.
type xmppMetrics struct {
	upstream upstream
	rules    *FamilyRules
	// chosen is where each canonical family came from on the last complete page.
	chosen []choice
	log    *loginLog // nil where no log is read
	// modules is true if only this page has the states of modules.
	modules bool
}

func newXMPPMetrics(s *XMPPMetrics, d Deps) (Collector, error) {
	log, err := newLoginLog(s.Log, d)
	if err != nil {
		return nil, err
	}
	c := &xmppMetrics{
		rules:   &s.FamilyRules,
		log:     log,
		modules: !d.ModuleStatus,
		chosen:  make([]choice, len(canonicalFamilies)),
	}
	c.upstream = newUpstream(s.Name, s.HTTP, d, c.rules, openmetrics.Options{
		Name:       c.served,
		DropLabels: []string{"job", "instance"},
	})
	// Sources of canonical families are always read, and removed afterwards if the rules require it.
	c.upstream.options.Keep = func(family string, kind model.MetricType) bool {
		return c.rules.serves(family, kind) || isCanonicalSource(family)
	}
	return c, nil
}

// served returns the name that a family of the server is served under. Process metrics get a prefix, so that they do not pass for the
// exporter's, whose own prefix is refused. So are the states of modules if the status page has the same series.
func (c *xmppMetrics) served(family string) (string, bool) {
	if strings.HasPrefix(family, "process_") || strings.HasPrefix(family, "go_") {
		return "xmpp_" + family, true
	}
	return family, !strings.HasPrefix(family, ownPrefix) && (c.modules || family != moduleStatusFamily)
}

// reexpose adds the families of a page and the canonical families to b, and reports which canonical ones are available.
func (c *xmppMetrics) reexpose(ctx context.Context, b *Batch, a *exchange.Answer) error {
	page, err := c.upstream.read(b, a)
	if err != nil {
		return err
	}
	whole := page.Complete && page.Dropped[openmetrics.Limit]+page.Dropped[openmetrics.Malformed] == 0
	reading := readCanonical(page, whole, c.chosen)
	c.upstream.keep(b, c.shown(page))
	b.Notes = append(b.Notes, reading.notes...)
	for _, f := range reading.families {
		if c.rules.serves(f.Name, f.Type) {
			b.Families(f)
		}
	}
	if sessions, known := reading.sessions(a.Body); known && whole {
		b.Gauge(xmppSessionsDesc, sessions)
	}
	for row := range canonicalFamilies {
		f, found := &canonicalFamilies[row], &reading.rows[row]
		serves := c.rules.serves(f.fullName(), f.kind)
		available := found.available && serves
		if sum, known := found.total(f.figured); known && f.figure.Name != "" && (serves || found.chosen == ready) {
			shown := f.figure
			shown.Value = sum
			b.Figure(shown)
		}
		if f.name == authFailures {
			cut := !whole && c.chosen[row] != noSource // an incomplete page may lack the source
			available = c.failureCount(ctx, b, reading, serves, cut)
			if !available && serves && !cut {
				b.Note("nothing counts failed logins, so no alert covers them" +
					a.IfFrom(exchange.Prosody, ": load "+ownModule+" (deploy/prosody) on every virtual host of the XMPP server"))
			}
			if text := reading.uncounted(); available && whole && text != "" {
				b.Note(text)
			}
		}
		b.Gauge(familyAvailableDesc, boolValue(available), f.name)
	}
	if c.modules {
		there := slices.ContainsFunc(page.Families, func(f exposition.Family) bool { return f.TextName() == moduleStatusFamily })
		b.Gauge(familyAvailableDesc, boolValue(there), moduleStatusFamily)
	}
	for row := range c.chosen {
		if whole {
			c.chosen[row] = reading.rows[row].chosen
		}
	}
	return nil
}

// failureCount judges the count of failed logins, that of the log if the page has none, and reports whether there is one.
func (c *xmppMetrics) failureCount(ctx context.Context, b *Batch, r *canonicalReading, serves, cut bool) (available bool) {
	found := &r.rows[rowOf(authFailures)]
	available = found.available && serves
	switch {
	case available && found.chosen != ready: // else keep has judged it
		b.countFailedLogins(slices.Values(found.samples))
	case available:
	case cut:
		b.Note("failed logins are missing from this probe: the metrics page is incomplete")
	case !serves:
		b.Note("failed logins are not served, so no alert covers them: allow or deny of this target leaves " +
			strings.TrimSuffix(authFailures, exposition.Total.Suffix()) + " out")
	case !found.blocked && c.log != nil:
		available = c.log.report(ctx, b)
	}
	b.Condition(health.AlertAuthSourceMissing, "", !available)
	return available
}

// declaredSessions shows that a server counts sessions, even before the first.
var declaredSessions = []byte("\n# TYPE prosody_mod_c2s__connections gauge\n")

// sessions returns the number of logged-in clients on all virtual hosts, and whether it is known. A server has no sample before
// the first client.
func (r *canonicalReading) sessions(page []byte) (sum float64, known bool) {
	found := &r.rows[rowOf(clientSessions)]
	known = found.available || bytes.Contains(page, declaredSessions)
	for _, s := range found.samples {
		if kind := s.Label("type"); (kind == "" || kind == "c2s") && s.Value > 0 {
			sum += s.Value
		}
	}
	return sum, known && !math.IsInf(sum, 1)
}

// shown returns the families of a page without those that were only read as sources of canonical families.
func (c *xmppMetrics) shown(page *openmetrics.Page) []exposition.Family {
	families := make([]exposition.Family, 0, len(page.Families))
	for i, f := range page.Families {
		if own := page.Names[i]; c.rules.serves(own, f.Type) || !isCanonicalSource(own) {
			families = append(families, f)
		}
	}
	return families
}

// noStatistics is in the server's answer if statistics are switched off.
const noStatistics = "No statistics provider configured"

// Collect implements Collector.
func (c *xmppMetrics) Collect(ctx context.Context, b *Batch) error {
	a, err := c.upstream.get(ctx, b)
	if err != nil {
		return err
	}
	if a.Status == http.StatusOK {
		return c.reexpose(ctx, b, a)
	}
	hints := hintsForPage("url", a.URL, metricsPath,
		cmp.Or(a.IfFrom(exchange.Prosody, "enable the XMPP server's module http_openmetrics"), seeTargets))
	hints[http.StatusForbidden] = a.IfFrom(exchange.Prosody,
		"the metrics module refuses this address: add it to openmetrics_allow_cidr in the XMPP server's configuration")
	if bytes.Contains(a.Body, []byte(noStatistics)) {
		hints[http.StatusNotFound] = `statistics are switched off: set statistics = "internal" in the XMPP server's configuration`
	}
	return a.WantOK(hints)
}
