package collectors

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// XMPPRest is the block of the XMPP server's REST admin API.
type XMPPRest struct {
	config.Target        `yaml:",inline"`
	config.HTTP          `yaml:",inline"` // the URL is the API's base address
	exchange.Credentials `yaml:",inline"`
	// Path is requested below the base address: by default the server's name and version, which changes nothing.
	Path string `yaml:"path"`
	// Domain is the virtual host of the API; by default the URL's host.
	Domain string `yaml:"domain"`
}

// xmppRestPath is the page of the API that is requested by default.
const xmppRestPath = "/admin_api/server/info"

func newXMPPRestSettings() *XMPPRest { return &XMPPRest{Path: xmppRestPath} }

// Environ implements config.Settings. XMPP_REST_URL is also used for the server's other pages, so it does not mean without a
// credential that the server has a REST API.
func (s *XMPPRest) Environ(e *config.Env) {
	e.Secret("token", "XMPP_REST_TOKEN", &s.Token)
	e.String("user", "XMPP_REST_USERNAME", &s.User)
	e.Secret("password", "XMPP_REST_PASSWORD", &s.Password)
	e.String("domain", "XMPP_DOMAIN", &s.Domain)
	if s.HasCredentials() || s.URL != "" {
		e.String("url", "XMPP_REST_URL", &s.URL)
	}
	e.TLS("XMPP_REST", &s.TLS)
}

// Check implements config.Settings.
func (s *XMPPRest) Check(r *config.Report) {
	s.HTTP.Check(r)
	s.CheckCredentials(r)
	if !strings.HasPrefix(s.Path, "/") {
		r.Faultf("path", "is %q, must begin with a slash", s.Path)
	}
	if strings.ContainsAny(s.Domain, "/:@ \t\r\n") {
		r.Faultf("domain", "is %q, must be the name of a virtual host alone, such as chat.example.org", s.Domain)
	}
}

// Warnings implements config.Settings.
func (s *XMPPRest) Warnings() []string {
	warnings := s.TLS.Warnings()
	if s.deprecated() {
		warnings = append(warnings,
			"user and password use HTTP Basic, which is deprecated for the REST API: issue a bearer token and set XMPP_REST_TOKEN")
	}
	return warnings
}

// deprecated reports whether the API of the path deprecates the credential. Other APIs may accept nothing else.
func (s *XMPPRest) deprecated() bool { return s.UsesBasicAuth() && s.Path == xmppRestPath }

// host returns the virtual host to request; "" is the URL's host.
func (s *XMPPRest) host() string {
	if s.Domain != "" {
		return s.Domain
	}
	_, domain, _ := strings.Cut(s.User, "@")
	domain, _, _ = strings.Cut(domain, "/")
	return domain
}

// xmppRest requests one page of the REST admin API, which each virtual host has separately. Without a credential, a 401
// that asks for a token counts as up.
type xmppRest struct {
	*XMPPRest
	http exchange.HTTP
}

func newXMPPRest(s *XMPPRest, d Deps) (Collector, error) {
	c := &xmppRest{s, d.http(s.HTTP)}
	c.http.Settings.URL = parsed(s.URL).JoinPath(s.Path).String()
	return c, nil
}

// Collect implements Collector.
func (c *xmppRest) Collect(ctx context.Context, b *Batch) error {
	header := c.AuthHeader()
	if host := c.host(); host != "" {
		header.Set("Host", host)
	}
	a, err := c.http.Get(ctx, &b.Record, header)
	if err != nil {
		return err
	}
	if c.deprecated() {
		b.Note("the exporter uses HTTP Basic, which is deprecated for the REST API")
	}
	failed := a.Refusal()
	switch a.Status {
	case http.StatusOK:
		return c.accepted(ctx, b, a)
	case http.StatusUnauthorized:
		return c.unauthorized(ctx, b, a, failed)
	case http.StatusForbidden:
		return failed.WithHint(c.forbidden(a))
	case http.StatusNotFound:
		return failed.WithHint(c.missing(a))
	default:
		return failed
	}
}

// accepted checks an answer with status 200.
func (c *xmppRest) accepted(ctx context.Context, b *Batch, a *exchange.Answer) error {
	if !json.Valid(a.Body) {
		return a.Errorf(failure.Malformed, "the answer is not JSON")
	}
	info := serverInfoOf(a)
	if info.Version != "" {
		b.Note("server version: " + failure.OneLine(info.Version))
	}
	if !c.HasCredentials() {
		b.Note("the API answers without a credential: anyone who can reach it can manage accounts")
	}
	switch {
	case info.SiteName == "" || exchange.SameHost(info.SiteName, c.where()):
		return nil
	case c.host() == "":
		b.Note("no virtual host is configured, and the API of " + failure.OneLine(info.SiteName) +
			" answered: set XMPP_DOMAIN so that the exporter checks the virtual host")
		return nil
	}
	// site_name may be a custom title, so the realm of a refusal takes precedence.
	refusal, err := c.http.Get(ctx, &b.Record, http.Header{"Host": {c.host()}})
	if err != nil {
		return err
	}
	b.HTTPStatus = a.Status
	realm, _ := challenge(refusal)
	if exchange.SameHost(realm, c.host()) {
		return nil
	}
	return c.otherHost(ctx, b, a, cmp.Or(realm, info.SiteName))
}

// serverInfo is what the default page of the API says.
type serverInfo struct {
	SiteName string `json:"site_name"`
	Version  string `json:"version"`
}

// serverInfoOf reads an answer. What cannot be read is unknown.
func serverInfoOf(a *exchange.Answer) (info serverInfo) {
	if json.Unmarshal(a.Body, &info) != nil {
		return serverInfo{SiteName: info.SiteName}
	}
	return info
}

// noHost is an impossible name of a virtual host.
const noHost = "chatstack-exporter.invalid"

// otherHost returns the failure of an answer from another virtual host than the requested one. The virtual host may have the
// requested name as its http_host: then it does not answer for an impossible name, and otherHost returns nil.
func (c *xmppRest) otherHost(ctx context.Context, b *Batch, a *exchange.Answer, answered string) error {
	nowhere, err := c.http.Get(ctx, &b.Record, http.Header{"Host": {noHost}})
	if err != nil {
		return err
	}
	b.HTTPStatus = a.Status
	if whoAnswered(nowhere) != answered {
		b.Note("the virtual host " + failure.OneLine(answered) + " answers at the name " + c.host())
		return nil
	}
	return a.Errorf(failure.Mismatch, "asked for virtual host %s, but %s answered", c.host(), failure.OneLine(answered)).
		WithHint("the server does not serve HTTP for " + c.host() + ", so its default host " + failure.OneLine(answered) +
			" answered: set XMPP_DOMAIN to a virtual host that it serves")
}

// whoAnswered returns the virtual host that answered a request without a credential, or its title; "" if unknown.
func whoAnswered(a *exchange.Answer) string {
	host, _ := challenge(a)
	return cmp.Or(host, serverInfoOf(a).SiteName)
}

// challenge parses the challenge of a 401: the virtual host in its realm, and whether it asks for a bearer token.
func challenge(a *exchange.Answer) (host string, bearer bool) {
	// The real server sends its challenge in the wrong header.
	for _, name := range []string{"Authorization", "WWW-Authenticate"} {
		scheme, params, _ := strings.Cut(a.Header.Get(name), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		bearer = true
		if realm, ok := strings.CutPrefix(params, `realm="`); ok && host == "" {
			host, _, _ = strings.Cut(realm, "/")
		}
	}
	return host, bearer
}

// unauthorized judges a 401: without a credential, it is the expected answer.
func (c *xmppRest) unauthorized(ctx context.Context, b *Batch, a *exchange.Answer, failed *failure.Error) error {
	host, bearer := challenge(a)
	switch {
	case !bearer:
		what := "no credential is set, and the server requires one: set token, or user and password"
		if c.HasCredentials() {
			what = "the server refuses the credential: correct it"
		}
		return failed.WithHint(what +
			"; the answer does not ask for a bearer token, so it may come from a proxy in between: check what answers at " +
			exchange.PrintableURL(a.URL))
	case c.host() != "" && host != "" && !exchange.SameHost(host, c.host()):
		if err := c.otherHost(ctx, b, a, host); err != nil {
			return err
		}
	}
	switch {
	case !c.HasCredentials():
		b.Note("the API is up and asks for a token; none is set, so the exporter cannot test credentials")
		return nil
	case c.UsesBasicAuth():
		return failed.WithHint("the server rejects this user and password at " + c.where() +
			", and asks for a bearer token: issue one and set XMPP_REST_TOKEN")
	default:
		return failed.WithHint("the server rejects this token at " + c.where() +
			": it may have expired, been revoked, or belong to another virtual host; issue a new one and set XMPP_REST_TOKEN")
	}
}

// forbidden returns the hint for a 403.
func (c *xmppRest) forbidden(a *exchange.Answer) string {
	if !c.HasCredentials() {
		return "no credential is set, and the server refuses the request without one, or from this address: set token, or user and password"
	}
	return cmp.Or(
		a.IfFrom(exchange.Prosody, "the account of the credential is not an administrator of "+c.where()+
			": make it one, or issue a token with an administrator's role"),
		"the server does not let this credential, or this address, request "+exchange.PathOf(a.URL)+" of "+c.where()+
			": give the credential's account that permission, or admit the exporter's address",
	)
}

// missing returns the hint for a 404.
func (c *xmppRest) missing(a *exchange.Answer) string {
	if hint := a.HostHint(); hint != "" {
		return hint
	}
	if a.UnknownHost() {
		return "the server has no such virtual host: set XMPP_DOMAIN to one that it serves; the exporter asked for " + c.where()
	}
	nothing := "the server answers, but " + c.where() + " has nothing at " + exchange.PathOf(a.URL)
	if exchange.PathOf(a.URL) != xmppRestPath {
		return nothing + ": the API is below /admin_api by default; correct the path of url, or the key path"
	}
	return nothing + ": " + cmp.Or(
		a.IfFrom(exchange.Prosody,
			"enable its module http_admin_api for that virtual host, or set XMPP_DOMAIN to the virtual host that has it"),
		"if its API is elsewhere, correct url or the key path; "+seeTargets,
	)
}

// where returns the virtual host for messages.
func (c *xmppRest) where() string {
	if c.host() != "" {
		return c.host()
	}
	return parsed(c.http.Settings.URL).Hostname()
}
