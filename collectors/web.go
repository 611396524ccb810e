package collectors

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Web is the block of a service that is checked over HTTP by status and body, such as the stack's web front ends.
type Web struct {
	config.Target        `yaml:",inline"`
	config.HTTP          `yaml:",inline"`
	exchange.Credentials `yaml:",inline"`
	// Method is GET or HEAD. GET follows redirects on the same host, HEAD follows none.
	Method string `yaml:"method"`
	// Headers are sent unchanged; Host sets the requested host. Their values may be secret.
	Headers map[string]config.Secret `yaml:"headers"`
	// ExpectStatus are the statuses that count as up, such as 204 or 2xx: 2xx by default.
	ExpectStatus []string `yaml:"expect_status"`
	// ExpectBody and RefuseBody are regular expressions that the body must match and must not match.
	ExpectBody string `yaml:"expect_body"`
	RefuseBody string `yaml:"refuse_body"`
}

func newWebSettings() *Web { return &Web{Method: http.MethodGet, ExpectStatus: []string{"2xx"}} }

var (
	statusPattern = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// Check implements config.Settings.
func (s *Web) Check(r *config.Report) {
	s.HTTP.Check(r)
	s.CheckCredentials(r)
	if s.Method != http.MethodGet && s.Method != http.MethodHead {
		r.Faultf("method", "is %q, must be GET or HEAD", s.Method)
	}
	if len(s.ExpectStatus) == 0 {
		r.Faultf("expect_status", "is empty, so nothing would count as up; add a status, or remove the key")
	}
	for _, status := range s.ExpectStatus {
		if !statusPattern.MatchString(status) {
			r.Faultf("expect_status", "contains %q; write statuses such as 204 or 2xx", status)
		}
	}
	for name := range s.Headers {
		if !headerPattern.MatchString(name) {
			// The message must not repeat the key: it may be a secret value.
			r.Faultf("headers", "has a key that is not a valid header name; write \"Name: value\"")
		}
	}
	for _, key := range []struct{ name, pattern string }{{"expect_body", s.ExpectBody}, {"refuse_body", s.RefuseBody}} {
		if key.pattern == "" {
			continue
		}
		checkPattern(r, key.name, key.pattern)
		if s.Method == http.MethodHead {
			r.Faultf(key.name, "cannot be used with method HEAD, whose answers have no body; use GET")
		}
	}
}

// checkPattern reports an invalid regular expression.
func checkPattern(r *config.Report, key, pattern string) {
	if _, err := regexp.Compile(pattern); err != nil {
		r.Faultf(key, "is not a regular expression: %v", err)
	}
}

// pattern compiles a regular expression; nil for an empty one.
func pattern(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no expression is none
	}
	return regexp.Compile(s)
}

// web requests one URL.
type web struct {
	settings       *Web
	http           exchange.HTTP
	header         http.Header
	expect, refuse *regexp.Regexp
}

func newWeb(s *Web, d Deps) (Collector, error) {
	c := &web{settings: s, http: d.http(s.HTTP), header: s.AuthHeader()}
	for name, value := range s.Headers {
		c.header.Set(name, value.Reveal())
	}
	var err error
	if c.expect, err = pattern(s.ExpectBody); err != nil {
		return nil, err
	}
	if c.refuse, err = pattern(s.RefuseBody); err != nil {
		return nil, err
	}
	return c, nil
}

// Collect implements Collector.
func (c *web) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Do(ctx, &b.Record, c.settings.Method, c.settings.URL, c.header, nil)
	switch {
	case errors.Is(err, exchange.ErrRedirect) && c.expects(b.HTTPStatus) && c.expect == nil:
		b.Note("the answer is a redirect to another host, which is expected and not followed")
		return nil
	case errors.Is(err, exchange.ErrChallenge) && c.expects(b.HTTPStatus) && c.expect == nil:
		b.Note("the answer is a front's challenge, not the service's, but its status is expected")
		return nil
	case errors.Is(err, exchange.ErrRedirect):
		return failure.Errorf(failure.HTTPStatus, "%w", err).
			WithHint("the answer is a redirect to another host, or from http to https: set url to the address that it leads to, " +
				"or add its status to expect_status if that is the expected answer")
	case err != nil:
		return err
	case !c.expects(a.Status):
		return c.unexpected(a)
	case c.expect != nil && !c.expect.Match(a.Body):
		return a.Errorf(failure.Mismatch, "nothing in %s matches expect_body", wording.Count(len(a.Body), "byte")).
			WithHint("the service answers with a different page than expect_body describes")
	case c.refuse != nil && c.refuse.Match(a.Body):
		return a.Errorf(failure.Mismatch, "the body matches refuse_body").
			WithHint("the service answers with a page that refuse_body describes")
	}
	return nil
}

// expects reports whether a status counts as up.
func (c *web) expects(status int) bool {
	text := strconv.Itoa(status)
	return slices.ContainsFunc(c.settings.ExpectStatus, func(s string) bool {
		class, isClass := strings.CutSuffix(s, "xx")
		return s == text || isClass && strings.HasPrefix(text, class)
	})
}

func (c *web) unexpected(a *exchange.Answer) *failure.Error {
	failed := failure.OfStatus(a.Status, a.Header, "%s, want %s", a, strings.Join(c.settings.ExpectStatus, " or "))
	const expected = ", or add the status to expect_status if that is the expected answer"
	sent := c.header.Get("Authorization") != ""
	others := slices.DeleteFunc(slices.Collect(maps.Keys(c.header)), func(name string) bool { return name == "Host" })
	switch {
	case a.Status == http.StatusUnauthorized && sent:
		return failed.WithHint("the service refuses the credential: correct it" + expected)
	case a.Status == http.StatusUnauthorized && len(others) > 0: // one of them may be a credential
		return failed.WithHint("the service requires another login than the one in headers, if there is one: correct headers, " +
			"or set user and password or a token" + expected)
	case a.Status == http.StatusUnauthorized:
		return failed.WithHint("the service requires a login: set user and password or a token" + expected)
	case a.Status == http.StatusForbidden && sent:
		return failed.WithHint("the service refuses this request: its address, or the account of its credential, may not be allowed; " +
			"admit it there" + expected)
	case a.Status == http.StatusForbidden:
		return failed.WithHint("the service refuses this request: its address may not be allowed, or it needs a login; " +
			"admit the address there, or set user and password or a token" + expected)
	}
	return failed.WithHint(a.Refusal().Hint)
}
