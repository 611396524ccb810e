package exchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// HTTP is a client of one HTTP service. Each request opens a new connection, to see what a new client sees, such as a renewed
// certificate.
type HTTP struct {
	Settings config.HTTP
	// Limit is the maximum size of an answer's body, in bytes.
	Limit     int64
	UserAgent string

	tries *secondTries
}

// Answer is an HTTP answer with its whole body.
type Answer struct {
	// Method and URL are those of the request.
	Method, URL string
	// Host is the host that was asked for, as in the header Host.
	Host   string
	Status int
	Header http.Header
	Body   []byte
	// hint is what to do about the status, if the answer shows that.
	hint string
}

// HTTPProtocols are what a client of HTTP offers in TLS.
var HTTPProtocols = []string{"http/1.1"}

// maxRedirects is how many redirects on the same host are followed.
const maxRedirects = 5

// The errors of answers that are not those of the service.
var (
	// ErrRedirect is a redirect to another scheme, host or port, which is not followed.
	ErrRedirect  = errors.New("redirect to another host is not followed")
	errRedirects = fmt.Errorf("more than %d redirects in a row", maxRedirects)
	// ErrChallenge is a page with which a front asks the visitor to prove to be no program.
	ErrChallenge = errors.New("a front challenges the visitor to prove to be no program")
)

// Get requests the URL of the settings. Header may be nil.
func (h *HTTP) Get(ctx context.Context, r *Record, header http.Header) (*Answer, error) {
	return h.Do(ctx, r, http.MethodGet, h.Settings.URL, header, nil)
}

// Do sends one request and reads the whole answer, whatever its status. An answer longer than the limit is an error with
// reason TooLarge.
func (h *HTTP) Do(ctx context.Context, r *Record, method, rawURL string, header http.Header, body io.Reader) (*Answer, error) {
	timed, timing := r.Begin(ctx, method+" "+PrintableURL(rawURL))
	secure, host := splitURL(rawURL)
	if h.tries == nil {
		h.tries = &secondTries{}
	}
	watch := &CertificateWatch{Trust: &h.Settings.TLS, Host: host, ALPN: HTTPProtocols}
	if secure {
		defer watch.Record(r)
	}
	a, err := h.converse(timed, r, timing.exchange, watch, method, rawURL, header, body)
	timing.End("body", err)
	if secure && h.Settings.ProxyURL == "" && !r.certificateSeen {
		h.tries.seeOther(ctx, watch, err != nil, false,
			func(ctx context.Context, c *tls.Config) error { return h.handshakeAgain(ctx, addressOf(rawURL), c) })
	}
	return a, err
}

func (h *HTTP) converse(
	ctx context.Context, r *Record, e *Exchange, watch *CertificateWatch, method, rawURL string, header http.Header, body io.Reader,
) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, rawURL, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", h.UserAgent)
	req.Host = header.Get("Host") // net/http ignores a header of that name; empty means the URL's host
	seen := &Wire{}
	if h.Settings.ProxyURL != "" {
		seen.AddressKey = "url or the proxy_url"
	}
	transport, err := h.transport(ctx, watch, seen)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, PrintableURL(rawURL), err)
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: followOnServer, Jar: r.cookies()}
	if method != http.MethodGet {
		// Following a redirect would send the request twice, or with another method.
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		if resp != nil && (errors.Is(err, ErrRedirect) || errors.Is(err, errRedirects)) {
			r.HTTPStatus, e.Status = resp.StatusCode, resp.StatusCode
			return nil, failure.Errorf(failure.HTTPStatus, "%s %s: status %d: %w",
				method, PrintableURL(rawURL), resp.StatusCode, withoutURL(err)).WithHint(redirectHint(resp))
		}
		err = watch.withHint(fmt.Errorf("%s %s: %w", method, PrintableURL(rawURL), seen.Explain(withoutURL(err))))
		if heard := seen.heard.Load(); heard != nil && h.Settings.ProxyURL == "" && watch.last() == nil {
			err = WithHeader(err, heard, h.Settings.Connection)
		}
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // the body is read to its end or given up
	r.HTTPStatus = resp.StatusCode
	e.Status, e.Header = resp.StatusCode, maskedHeader(resp.Header)
	content, err := readLimited(resp.Body, h.Limit)
	if err != nil && (!refusals[resp.StatusCode] || failure.ReasonOf(err) != failure.Closed) {
		return nil, fmt.Errorf("%s %s: status %d: read body: %w", method, PrintableURL(rawURL), resp.StatusCode, err)
	}
	if resp.TLS == nil && WantsTLS(resp.StatusCode, content) {
		return nil, fmt.Errorf("%s %s: status %d: %w", method, PrintableURL(rawURL), resp.StatusCode, seen.wantsTLS())
	}
	if isChallenge(resp.Header) {
		return nil, failure.OfStatus(resp.StatusCode, resp.Header, "%s %s: status %d: %w",
			method, PrintableURL(rawURL), resp.StatusCode, ErrChallenge).WithHint(challengeHint)
	}
	a := &Answer{
		Method: method,
		URL:    rawURL,
		Host:   ASCIIHost(cmp.Or(req.Host, req.URL.Hostname())),
		Status: resp.StatusCode,
		Header: resp.Header,
		Body:   content,
	}
	switch {
	case resp.StatusCode != http.StatusBadRequest:
	case refusesCertificate.Match(content):
		a.hint = watch.requested().refusal()
	case h.Settings.ProxyProtocol != "" && resp.TLS == nil:
		a.hint = "the service does not understand the request: if it expects no PROXY header, remove proxy_protocol"
	}
	return a, nil
}

// refusesCertificate matches what nginx answers in HTTP instead of refusing a client's certificate, or its lack of one, in TLS.
var refusesCertificate = regexp.MustCompile(`(?i)(required )?SSL certificate (was sent|error)`)

// refusals are the statuses of servers that may not read a whole request, and so reset the connection: the status says why they did.
// With other statuses, the answer may be what the target is about.
var refusals = map[int]bool{
	http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusRequestEntityTooLarge: true, http.StatusTooManyRequests: true,
}

// MaxHeaderBytes is how long the header of an answer may be.
const MaxHeaderBytes = 64 << 10

func (h *HTTP) transport(ctx context.Context, watch *CertificateWatch, seen *Wire) (*http.Transport, error) {
	tlsConfig, err := watch.ClientConfig()
	if err != nil {
		return nil, err
	}
	dial := dialUntil(ctx, seen.Watch(h.dial))
	t := &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        tlsConfig,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		ExpectContinueTimeout:  time.Second,
	}
	if h.Settings.ProxyURL == "" {
		t.DialTLSContext = dialUntil(ctx, h.dialTLS(dial, tlsConfig))
		return t, nil
	}
	proxy, err := url.Parse(h.Settings.ProxyURL)
	if err != nil {
		return nil, fmt.Errorf("parse proxy_url: %w", err)
	}
	t.Proxy = http.ProxyURL(proxy)
	t.DialTLSContext, err = h.dialProxy(proxy.Hostname(), dial)
	return t, err
}

// dial connects to the service, or to the HTTP proxy, which gets no PROXY header.
func (h *HTTP) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return Dial(ctx, h.Settings.Connection, network, address)
}

// dialTLS connects to the service itself and makes the handshake.
func (h *HTTP) dialTLS(dial DialFunc, tlsConfig *tls.Config) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, tlsConfig)
		again := func(ctx context.Context) error { return h.handshakeAgain(ctx, address, shortHello(tlsConfig)) }
		//nolint:forcetypeassert // Wire.Watch makes it
		if err := h.tries.handshake(ctx, conn, raw.(*watchedConn).Heard, again); err != nil {
			raw.Close() //nolint:errcheck,gosec // the error is that of the handshake
			return nil, err
		}
		return conn, nil
	}
}

// handshakeAgain makes another connection to the service itself as far as its handshake.
func (h *HTTP) handshakeAgain(ctx context.Context, address string, tlsConfig *tls.Config) error {
	return attempt(ctx, h.Settings.Connection, address, func(ctx context.Context, conn net.Conn) error {
		return tls.Client(conn, tlsConfig).HandshakeContext(ctx)
	})
}

// dialProxy connects to an HTTPS proxy. Its certificate need not match the target's name or fingerprint, and is not reported.
func (h *HTTP) dialProxy(host string, dial DialFunc) (DialFunc, error) {
	trust := &config.TLS{CAFile: h.Settings.CAFile, InsecureSkipVerify: h.Settings.InsecureSkipVerify}
	tlsConfig, err := clientFor(trust, host, HTTPProtocols, func(peer) {})
	if err != nil {
		return nil, ownFileError(err)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, tlsConfig), nil // the transport makes the handshake
	}, nil
}

// followOnServer follows a redirect on the same server, up to maxRedirects in a row.
func followOnServer(req *http.Request, via []*http.Request) error {
	first := via[0]
	// A header Host says by which name the server knows itself, and so redirects.
	named := &url.URL{Scheme: first.URL.Scheme, Host: cmp.Or(first.Host, first.URL.Host)}
	if !sameServer(req.URL, first.URL) && !sameServer(req.URL, named) {
		return ErrRedirect
	}
	if len(via) > maxRedirects {
		return errRedirects
	}
	// net/http takes another spelling of the host for another host, and leaves credentials out.
	req.URL.Host, req.Host = first.URL.Host, first.Host
	for _, name := range []string{"Authorization", "Cookie"} {
		if credential, ok := first.Header[name]; ok && req.Header.Get(name) == "" {
			req.Header[name] = slices.Clone(credential)
		}
	}
	return nil
}

// sameServer reports whether two URLs lead to the same scheme, host and port, however they are written.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && CanonicalServer(a) == CanonicalServer(b)
}

// redirectHint returns what to do about a redirect that is not followed, or "".
func redirectHint(resp *http.Response) string {
	to, err := resp.Location()
	switch {
	case err != nil:
		return ""
	case sameServer(to, resp.Request.URL):
		return "the service redirects in a circle: open the url in a browser, and set it to the page where that ends"
	case SameHost(to.Hostname(), resp.Request.URL.Hostname()) && to.Scheme == "https":
		return "the service redirects to TLS: write https:// in the url, with the port that it names"
	}
	return "the service redirects to another host: write the address that it names in the url"
}

// isChallenge reports whether an answer is a front's challenge. The fronts that mark theirs do so by a header field of their own.
func isChallenge(h http.Header) bool {
	action := h.Get("X-Amzn-Waf-Action")
	return h.Get("Cf-Mitigated") == "challenge" || action == "challenge" || action == "captcha"
}

const challengeHint = "the answer is not from the service, but from a front that lets only browsers pass: " +
	"exempt the exporter's address from its challenges, or set the url to the service behind it"

// readLimited reads r to its end, up to limit bytes. After an error it returns what came before.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return content, err
	}
	if int64(len(content)) > limit {
		return nil, failure.Errorf(failure.TooLarge, "more than %d bytes", limit).
			WithHint("if the answer is meant to be this large, raise limits.body or limits.metrics_body in exporter.yaml (or the memory " +
				"limit, if the startup log says that it is too small)")
	}
	return content, nil
}

// withoutURL removes the URL from a client's error: ours names it already, and a redirect's may contain a secret.
func withoutURL(err error) error {
	wrapped, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case strings.HasPrefix(wrapped.Err.Error(), badLocation):
		return errors.New(badLocation + ": it is not a URL")
	}
	return wrapped.Err
}

// badLocation is how net/http's error about an invalid redirect begins. The rest repeats the location.
const badLocation = "failed to parse Location header"

// splitURL returns a URL's host, and whether it requires TLS.
func splitURL(raw string) (secure bool, host string) {
	u, err := url.Parse(raw)
	if err != nil {
		return false, ""
	}
	return u.Scheme == "https", u.Hostname()
}

// addressOf returns host:port of an https URL.
func addressOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
}

// PrintableURL returns a URL without credentials, query and fragment, so that it may be shown. Its host is the one that HTTP asks for.
func PrintableURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "<no URL>"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	u.Host = strings.Replace(u.Host, u.Hostname(), ASCIIHost(u.Hostname()), 1)
	return u.String()
}

// PathOf returns the path that a request for a URL asks for.
func PathOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "the URL"
	}
	return cmp.Or(u.EscapedPath(), "/")
}

// String is the request and the status, for messages.
func (a *Answer) String() string {
	return fmt.Sprintf("%s %s: status %d", a.Method, PrintableURL(a.URL), a.Status)
}

// Errorf returns a failure of the answer, which begins with the request and the status.
func (a *Answer) Errorf(reason failure.Reason, format string, args ...any) *failure.Error {
	return failure.Errorf(reason, "%s: "+format, append([]any{a}, args...)...)
}

// Refusal is the failure of an answer with a status outside 2xx. The hint for a 404 names the path.
func (a *Answer) Refusal() *failure.Error {
	failed := failure.OfStatus(a.Status, a.Header, "%s", a)
	if a.hint != "" {
		return failed.WithHint(a.hint)
	}
	if a.Status == http.StatusNotFound {
		return failed.WithHint(cmp.Or(a.HostHint(),
			"the server answers, but has nothing at "+PathOf(a.URL)+": correct the path or the port of the url"))
	}
	return failed
}

// UnknownHost reports whether the answer is Prosody's to a host that none of its virtual hosts has.
func (a *Answer) UnknownHost() bool {
	return a.Status == http.StatusNotFound && ProductOf(a.Header, a.Body) == Prosody && bytes.Contains(a.Body, []byte("Unknown host"))
}

// HostHint returns what to do if the server does not know a host because its name is not ASCII, else "".
func (a *Answer) HostHint() string {
	if host := config.HostOf(a.Host); a.UnknownHost() && IsIDN(host) {
		return fmt.Sprintf(
			"the server answers \"Unknown host\" to the name that HTTP clients ask for: set http_host = %q in its VirtualHost", host)
	}
	return ""
}

// WantOK returns the failure of an answer with another status than 200, with the hint for its status, if there is one.
func (a *Answer) WantOK(hints map[int]string) error {
	if a.Status == http.StatusOK {
		return nil
	}
	failed := a.Refusal()
	return failed.WithHint(cmp.Or(a.HostHint(), hints[a.Status], failed.Hint))
}
