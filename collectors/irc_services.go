package collectors

import (
	"context"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// IRCServices is the block of the IRC services' HTTP daemon.
type IRCServices struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
}

func newIRCServicesSettings() *IRCServices { return &IRCServices{} }

// Environ implements config.Settings.
func (s *IRCServices) Environ(e *config.Env) {
	e.At("url", "IRC_SERVICES_JSONRPC_URL", "/", &s.URL)
	e.TLS("IRC_SERVICES", &s.TLS)
}

// Configured implements config.Settings.
func (s *IRCServices) Configured() bool { return s.URL != "" }

// Check implements config.Settings.
func (s *IRCServices) Check(r *config.Report) { s.HTTP.Check(r) }

// ircServices reads GET /. The real daemon serves no page there and says 404, so any status below 500 is a sign of
// life; whether services are linked to the IRC server, only that server knows.
type ircServices struct{ http httpTarget }

func newIRCServices(s *IRCServices, d Deps) (Collector, error) {
	return &ircServices{httpTarget{s.HTTP, int64(d.Limits.Body), d.UserAgent}}, nil
}

// Collect implements Collector.
func (c *ircServices) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.get(ctx, b, nil)
	if err != nil {
		return err
	}
	if a.status >= http.StatusInternalServerError {
		return statusError(http.MethodGet, c.http.settings.URL, a.status)
	}
	return nil
}
