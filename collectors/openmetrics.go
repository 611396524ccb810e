package collectors

import (
	"context"
	"regexp"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// OpenMetrics is the block of any service that serves metrics.
type OpenMetrics struct {
	config.Target        `yaml:",inline"`
	config.HTTP          `yaml:",inline"`
	exchange.Credentials `yaml:",inline"`
	FamilyRules          `yaml:",inline"`
	// Prefix is added to the names of all families, after Rename.
	Prefix string `yaml:"prefix"`
}

// metricsPath is where servers have their metrics by default.
const metricsPath = "/metrics"

var prefixPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Check implements config.Settings.
func (s *OpenMetrics) Check(r *config.Report) {
	s.HTTP.Check(r)
	s.Credentials.CheckCredentials(r)
	s.FamilyRules.check(r, func(name string) string { return s.Prefix + name })
	switch {
	case s.Prefix == "":
	case !prefixPattern.MatchString(s.Prefix):
		r.Faultf("prefix", "is %q, must be letters, digits and underscores, and not begin with a digit", s.Prefix)
	case strings.HasPrefix(s.Prefix, ownPrefix):
		r.Faultf("prefix", "begins with %s, the prefix of the exporter's own metrics", ownPrefix)
	}
}

// ownPrefix is the prefix of this exporter's own metrics.
const ownPrefix = "chatstack_"

// openMetrics serves the families of a metrics page, each series with the label target.
type openMetrics struct {
	upstream    upstream
	credentials exchange.Credentials
}

func newOpenMetrics(s *OpenMetrics, d Deps) (Collector, error) {
	c := &openMetrics{
		upstream: newUpstream(s.Name, s.HTTP, d, &s.FamilyRules, openmetrics.Options{
			Name: func(family string) (string, bool) {
				name := s.Prefix + family
				return name, !strings.HasPrefix(name, ownPrefix)
			},
			Labels:     []exposition.Label{{Name: "target", Value: s.Name}},
			DropLabels: []string{"job", "instance"},
		}),
		credentials: s.Credentials,
	}
	c.upstream.lineGrowth += len(s.Prefix)
	return c, nil
}

// Collect implements Collector.
func (c *openMetrics) Collect(ctx context.Context, b *Batch) error {
	header := c.credentials.AuthHeader()
	header.Set("Accept", metricsAccept)
	a, err := c.upstream.http.Get(ctx, &b.Record, header)
	if err != nil {
		return err
	}
	if err := a.WantOK(hintsForPage("url", a.URL, metricsPath, "")); err != nil {
		return err
	}
	return c.upstream.reexpose(b, a)
}
