package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// client makes the connections of one receiver: a new one for each request, so that none is reused after the server has closed it.
type client struct {
	Options
	proxy *url.URL
	// verdicts come from the receiver's kind.
	verdicts []verdict
}

// verdict is what a service's words mean that its status does not say.
type verdict struct {
	says   *regexp.Regexp
	reason failure.Reason
}

// newClient checks the options.
func newClient(a *address, o Options) (*client, error) {
	o.UserAgent = cmp.Or(o.UserAgent, "chatstack_exporter")
	if o.dial == nil {
		o.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return exchange.DialWithin(ctx, 0, network, address)
		}
	}
	c := &client{Options: o, verdicts: a.kind.verdicts}
	if _, err := c.tls(""); err != nil {
		return nil, err
	}
	if o.ProxyURL == "" {
		return c, nil
	}
	proxy, err := url.Parse(o.ProxyURL)
	if err != nil || proxy.Host == "" || proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, errors.New("proxy_url is not a URL of an HTTP proxy: write http://HOST:PORT")
	}
	password, _ := proxy.User.Password()
	a.secret(proxy.User.Username(), password)
	c.proxy = proxy
	return c, nil
}

// tls returns the settings for TLS with a server of this name. It reads CAFile again each time.
func (c *client) tls(name string) (*tls.Config, error) {
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, failure.Errorf(failure.TLS, "read ca_file: %w", err).WithHint("correct ca_file, and who may read it")
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, failure.Errorf(failure.TLS, "ca_file %s contains no PEM certificate", c.CAFile).
			WithHint("write the authority's certificate in PEM into ca_file")
	}
	return config, nil
}

// connect dials until ctx is done, which also ends the connection.
func (c *client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err == nil {
		context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a closed one needs none
	}
	return conn, err
}

// request is one call of a service.
type request struct {
	// method is POST by default.
	method, url string
	header      map[string]string
	// body is sent as a form if it is url.Values, else as JSON; nil sends none.
	body any
}

// reply is the answer to a request that the service accepted, with as much of its body as came.
type reply struct {
	status int
	body   []byte
	err    error // of reading the body
}

// String is what is shown of an answer.
func (r *reply) String() string { return fmt.Sprintf("status %d", r.status) }

// read reads JSON for what is only useful, such as the message's id. The service has accepted the message whatever it contains.
func (r *reply) read(into any) {
	json.Unmarshal(r.body, into) //nolint:errcheck,gosec // as above
}

// decode reads JSON. Its error is for services whose status alone does not mean success.
func (r *reply) decode(into any) error {
	err := json.Unmarshal(r.body, into)
	if err != nil && r.err != nil {
		return fmt.Errorf("status %d: read the answer: %w", r.status, r.err)
	}
	if err != nil {
		return failure.Errorf(failure.Malformed, "status %d: the answer is not JSON", r.status)
	}
	return nil
}

// call makes one request. It follows no redirect, since the token would go with it. An answer outside 2xx is an error.
func (c *client) call(ctx context.Context, q request) (*reply, error) {
	req, err := q.build(ctx)
	if err != nil {
		return nil, failure.Errorf(failure.Internal, "make the request: %w", err)
	}
	req.Header.Set("User-Agent", c.UserAgent)
	trust, err := c.tls("")
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(c.proxy),
		// net/http would go on dialling when the request has ended.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return c.connect(ctx, network, address)
		},
		TLSClientConfig:        trust,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxAnswer,
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, c.unanswered(ctx, req.URL.Hostname(), err)
	}
	defer resp.Body.Close() //nolint:errcheck // what is needed has been read
	r := &reply{status: resp.StatusCode}
	r.body, r.err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if r.status < http.StatusOK || r.status >= http.StatusMultipleChoices {
		return nil, c.refused(resp, r)
	}
	return r, nil
}

// send is call for services whose answer holds nothing to keep.
func (c *client) send(ctx context.Context, q request) (*receipt, error) {
	r, err := c.call(ctx, q)
	if err != nil {
		return nil, err
	}
	return &receipt{answer: r.String()}, nil
}

func (q *request) build(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	kind := ""
	switch content := q.body.(type) {
	case nil:
	case url.Values:
		body, kind = strings.NewReader(content.Encode()), "application/x-www-form-urlencoded"
	default:
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(content); err != nil {
			return nil, err
		}
		body, kind = &b, "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodPost), q.url, body)
	if err != nil {
		return nil, withoutURL(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// withoutURL removes the URL from an error of net/url and net/http.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// unanswered explains why a host did not answer.
func (c *client) unanswered(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return failure.Errorf(failure.Timeout, "%s: no complete answer in time: %w", host, ctx.Err())
	}
	if failure.HasHint(err) {
		return fmt.Errorf("%s: %w", host, err)
	}
	failed := failure.Errorf(failure.ReasonOf(err), "%s: %w", host, withoutURL(err))
	hop, _ := errors.AsType[*net.OpError](err)
	switch {
	case hop != nil && hop.Op == "proxyconnect":
		return failed.WithHint("the proxy cannot be reached: correct proxy_url, or start the proxy")
	case errors.Is(err, http.ErrSchemeMismatch):
		return failed.WithHint("the port speaks plain HTTP: set the port that speaks TLS, or disabletls=yes if the way there is safe")
	case failure.HasType[x509.UnknownAuthorityError](err):
		return failed.WithHint("the certificate's authority is not trusted: if it is your own, set ca_file of this receiver")
	}
	return failed
}

// finalStatuses mean that the service will never accept this message.
var finalStatuses = []int{
	http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
	http.StatusRequestHeaderFieldsTooLarge,
}

// hints say what to do about an answer. They are shorter than failure's, which are about targets.
var hints = map[failure.Reason]string{
	failure.Unauthorized: "the token, user or password in the receiver's URL is wrong or was revoked: renew it in url or url_file",
	failure.Forbidden:    "the receiver's account may not send there: give it the permission, or have it invited",
	failure.NotFound:     "the chat, room, webhook or path in the receiver's URL does not exist: correct it in url or url_file",
	failure.HTTPStatus:   "the service has a fault of its own: later attempts may pass; its log or status page says more",
	failure.Throttled:    "the service limits how much is sent: later attempts will pass, fewer receivers or messages help",
}

// refused is the failure of an answer outside 2xx.
func (c *client) refused(resp *http.Response, r *reply) error {
	host := resp.Request.URL.Hostname()
	if r.status >= http.StatusMultipleChoices && r.status < http.StatusBadRequest {
		return failure.Errorf(failure.HTTPStatus, "%s: status %d: it redirects, which is not followed", host, r.status).
			WithHint("open the service in a browser, and write the address where that ends in the receiver's URL")
	}
	words := complaint(r.body, resp.Header)
	err := c.judge(r.status, fmt.Sprintf("%s: %s%s", host, r, words.suffix()), words.String())
	if known, ok := errors.AsType[*failure.Error](err); ok {
		known.RetryAfter = waitOf(r.status, resp.Header, words)
	}
	return err
}

// judge turns a status and a service's words into a failure with this text.
func (c *client) judge(status int, text, words string) error {
	reason, final := failure.ReasonOfStatus(status), slices.Contains(finalStatuses, status)
	if status == http.StatusGone {
		reason = failure.NotFound
	}
	for _, v := range c.verdicts {
		if v.says.MatchString(words) {
			reason, final = v.reason, false
			break
		}
	}
	failed := failure.Errorf(reason, "%s", text).WithHint(hints[reason])
	switch {
	case final:
		return permanentError{failed.WithHint("the service refuses this message for good; please report it with the service's words")}
	case reason == failure.HTTPStatus && status < http.StatusInternalServerError:
		return failed.WithHint("the service refuses the request: read its words, and check the receiver's URL")
	}
	return failed
}

// waitOf returns how long the service asks to wait, in its header or its body.
func waitOf(status int, header http.Header, words *complaints) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	wait := failure.RetryAfter(http.StatusTooManyRequests, header, time.Now())
	seconds := max(words.RetryAfter, words.Parameters.RetryAfter, words.RetryAfterMS/1000)
	return max(wait, time.Duration(min(seconds, time.Hour.Seconds())*float64(time.Second)))
}

// complaints are the words of services about a request that they refuse, under all their names.
type complaints struct {
	Message          string          `json:"message"`
	Description      string          `json:"description"`
	Error            json.RawMessage `json:"error"`
	ErrorDescription string          `json:"errorDescription"`
	ErrCode          string          `json:"errcode"`
	Errors           json.RawMessage `json:"errors"`
	// Seconds of Discord and Telegram, milliseconds of Matrix.
	RetryAfter   float64 `json:"retry_after"`
	RetryAfterMS float64 `json:"retry_after_ms"`
	Parameters   struct {
		RetryAfter float64 `json:"retry_after"`
	} `json:"parameters"`

	plain string
}

// complaint reads the words of an answer. Pages in HTML are for browsers, and tell nothing.
func complaint(body []byte, header http.Header) *complaints {
	var c complaints
	if json.Unmarshal(body, &c) != nil && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) &&
		strings.HasPrefix(cmp.Or(header.Get("Content-Type"), "text/plain"), "text/plain") {
		c.plain = string(body)
	}
	return &c
}

func (c *complaints) String() string {
	var words []string
	for _, w := range []string{c.ErrCode, c.Message, c.Description, texts(c.Error), c.ErrorDescription, texts(c.Errors), c.plain} {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return failure.OneLine(strings.ToValidUTF8(strings.Join(words, ": "), "\uFFFD"))
}

// suffix is the words for the end of an error.
func (c *complaints) suffix() string {
	if words := c.String(); words != "" {
		return ": " + words
	}
	return ""
}

// texts returns a JSON text, or a list of them.
func texts(raw json.RawMessage) string {
	var one string
	var list []string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		return one
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, ", ")
	}
	return ""
}
