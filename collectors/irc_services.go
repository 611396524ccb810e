package collectors

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// IRCServices is the block of the IRC services' HTTP daemon.
type IRCServices struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
	// JSONRPC adds a read-only JSON-RPC call; false by default.
	JSONRPC bool `yaml:"jsonrpc"`
	// JSONRPCURL is the URL of that call: /jsonrpc at the URL's host by default.
	JSONRPCURL string `yaml:"jsonrpc_url"`
}

// jsonRPCPath is where the services have their JSON-RPC by default.
const jsonRPCPath = "/jsonrpc"

// Environ implements config.Settings.
func (s *IRCServices) Environ(e *config.Env) {
	e.Origin("url", "IRC_SERVICES_JSONRPC_URL", &s.URL)
	e.String("jsonrpc_url", "IRC_SERVICES_JSONRPC_URL", &s.JSONRPCURL)
	e.TLS("IRC_SERVICES", &s.TLS)
}

// Check implements config.Settings.
func (s *IRCServices) Check(r *config.Report) {
	s.HTTP.Check(r)
	if s.JSONRPCURL != "" {
		s.JSONRPCURL = config.WithPath(s.JSONRPCURL, jsonRPCPath)
		config.CheckURL(r, "jsonrpc_url", s.JSONRPCURL, "http", "https")
	}
}

// ircServices requests GET /. The real daemon answers 404, so any status below 500 counts as alive. The optional JSON-RPC
// call shows that the services behind the HTTP daemon answer. Only the IRC server knows whether services are linked to it.
type ircServices struct {
	http exchange.HTTP
	rpc  string // URL of the JSON-RPC call; "" makes none
}

func newIRCServices(s *IRCServices, d Deps) (Collector, error) {
	c := &ircServices{http: d.http(s.HTTP)}
	switch {
	case !s.JSONRPC:
	case s.JSONRPCURL != "":
		c.rpc = s.JSONRPCURL
	default:
		c.rpc = parsed(s.URL).ResolveReference(&url.URL{Path: jsonRPCPath}).String()
	}
	return c, nil
}

// Collect implements Collector.
func (c *ircServices) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, nil)
	if err != nil {
		return err
	}
	if a.Status >= http.StatusInternalServerError {
		return a.Refusal()
	}
	if c.rpc == "" {
		return nil
	}
	return c.ison(ctx, b)
}

const (
	servicesMethod = "atheme.ison"
	// servicesCall asks whether an impossible nick is online. The services do not answer calls whose id or params are not
	// strings.
	servicesCall = `{"jsonrpc":"2.0","method":"` + servicesMethod + `","params":["*"],"id":"1"}`
)

const (
	hintLoadJSONRPC    = "load the services' module transport/jsonrpc"
	hintServicesSilent = "the HTTP daemon answers, but the JSON-RPC call does not: the services hang, " +
		"or something else listens at jsonrpc_url"
)

// ison makes the call atheme.ison, which needs no login and changes nothing.
func (c *ircServices) ison(ctx context.Context, b *Batch) error {
	a, err := c.http.Do(ctx, &b.Record, http.MethodPost, c.rpc, http.Header{"Content-Type": {"application/json"}},
		bytes.NewReader([]byte(servicesCall)))
	e := b.Exchanges[len(b.Exchanges)-1]
	e.Request += " " + servicesMethod
	enable := seeTargets
	if exchange.ProductOf(e.Header, nil) == exchange.Atheme {
		enable = hintLoadJSONRPC
	}
	hints := hintsForPage("jsonrpc_url", c.rpc, jsonRPCPath, enable)
	switch {
	case err != nil && e.Status == http.StatusNotFound:
		// The real daemon announces a body for its 404 but never sends it.
		return failure.Errorf(failure.NotFound, "%s: %w", servicesMethod, err).WithHint(hints[e.Status])
	case err != nil && failure.ReasonOf(err) == failure.Timeout:
		return failure.Errorf(failure.Timeout, "%s: %w", servicesMethod, err).WithHint(hintServicesSilent)
	case err != nil:
		return fmt.Errorf("%s: %w", servicesMethod, err)
	}
	if err := a.WantOK(hints); err != nil {
		return err
	}
	_, err = rpcResult(servicesMethod, a.Body, "1", "belongs to another call")
	return err
}
