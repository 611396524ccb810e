package collectors

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// httpTarget asks one HTTP service. Every reading has a fresh connection, so that it sees what a new client would see,
// and a certificate that was renewed.
type httpTarget struct {
	settings  config.HTTP
	limit     int64
	userAgent string
}

// answer is an HTTP answer whose body was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// maxRedirects is how many redirects on the same host are followed.
const maxRedirects = 5

// These are redirects that are not followed.
var (
	errRedirect  = errors.New("redirect to another host is not followed")
	errRedirects = fmt.Errorf("more than %d redirects in a row", maxRedirects)
)

// get asks for rawURL, which is the target's own URL in most cases.
func (h *httpTarget) get(ctx context.Context, b *Batch, header http.Header) (*answer, error) {
	return h.do(ctx, b, http.MethodGet, h.settings.URL, header, nil)
}

// do sends one request and reads the whole answer, whatever its status. The error of an answer that is longer than the
// limit is TooLarge.
func (h *httpTarget) do(ctx context.Context, b *Batch, method, rawURL string, header http.Header, body io.Reader) (*answer, error) {
	timing, clientTrace := trace()
	e := &Exchange{Request: method + " " + printable(rawURL)}
	b.Exchanges = append(b.Exchanges, e)
	secure, host := splitURL(rawURL)
	watch := &certificateWatch{trust: &h.settings.TLS, host: host}
	if secure {
		defer watch.keep(b)
	}
	a, err := h.exchange(httptrace.WithClientTrace(ctx, clientTrace), b, e, watch, method, rawURL, header, body)
	if err != nil {
		e.Phases, e.Err = timing.end("failed"), failure.OneLine(err.Error())
		return nil, err
	}
	e.Phases = timing.end("body")
	return a, nil
}

func (h *httpTarget) exchange(ctx context.Context, b *Batch, e *Exchange, watch *certificateWatch, method, rawURL string, header http.Header, body io.Reader) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, rawURL, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", h.userAgent)
	req.Host = header.Get("Host") // net/http heeds no header of that name; empty is the URL's
	seen := &wire{}
	if h.settings.ProxyURL != "" {
		seen.key = "url or the proxy_url"
	}
	transport, err := h.transport(ctx, watch, seen)
	if err != nil {
		return nil, failure.Errorf(failure.TLS, "%s %s: %w", method, printable(rawURL), err)
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: sameHost}
	if method != http.MethodGet {
		// A redirect would send it again, or as another method.
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		if resp != nil && (errors.Is(err, errRedirect) || errors.Is(err, errRedirects)) {
			b.HTTPStatus, e.Status = resp.StatusCode, resp.StatusCode
			return nil, failure.Errorf(failure.HTTPStatus, "%s %s: status %d: %w", method, printable(rawURL), resp.StatusCode, withoutURL(err)).WithHint(redirectHint(resp))
		}
		return nil, withTLSHint(fmt.Errorf("%s %s: %w", method, printable(rawURL), seen.reason(withoutURL(err))))
	}
	defer resp.Body.Close() //nolint:errcheck // the body is read to its end or given up
	b.HTTPStatus = resp.StatusCode
	e.Status, e.Header = resp.StatusCode, maskedHeader(resp.Header)
	content, err := readLimited(resp.Body, h.limit)
	if err != nil {
		return nil, fmt.Errorf("%s %s: status %d: read body: %w", method, printable(rawURL), resp.StatusCode, err)
	}
	if resp.TLS == nil && isForTLS(resp.StatusCode, content) {
		return nil, fmt.Errorf("%s %s: status %d: %w", method, printable(rawURL), resp.StatusCode, seen.wantsTLS())
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: content}, nil
}

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 64 << 10

func (h *httpTarget) transport(ctx context.Context, watch *certificateWatch, seen *wire) (*http.Transport, error) {
	tlsConfig, err := watch.client()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext:            during(ctx, seen.watched(dial)),
		TLSClientConfig:        tlsConfig,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ExpectContinueTimeout:  time.Second,
	}
	if h.settings.ProxyURL != "" {
		proxy, err := url.Parse(h.settings.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("parse proxy_url: %w", err)
		}
		t.Proxy = http.ProxyURL(proxy)
		if t.DialTLSContext, err = h.dialProxy(proxy.Hostname()); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// dialProxy connects to an HTTPS proxy. Its certificate is not the target's: neither the target's name nor its pin is
// asked of it, and it is not reported.
func (h *httpTarget) dialProxy(host string) (func(context.Context, string, string) (net.Conn, error), error) {
	trust := config.TLS{CAFile: h.settings.CAFile, InsecureSkipVerify: h.settings.InsecureSkipVerify}
	tlsConfig, err := trust.ClientFor(host, func(config.Peer) {})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, tlsConfig), nil // the transport makes the handshake
	}, nil
}

func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errRedirect
	}
	if len(via) > maxRedirects {
		return errRedirects
	}
	return nil
}

// redirectHint is what to do about a redirect that is not followed; "" where the reason says enough.
func redirectHint(resp *http.Response) string {
	to, err := resp.Location()
	switch {
	case err != nil || to.Host == resp.Request.URL.Host && to.Scheme == resp.Request.URL.Scheme:
		return ""
	case to.Hostname() == resp.Request.URL.Hostname() && to.Scheme == "https":
		return "the service redirects to TLS: write https:// in the url, with the port that it names"
	}
	return "the service redirects to another host: write the address that it names in the url"
}

// readLimited reads r to its end, up to limit bytes.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, failure.Errorf(failure.TooLarge, "more than %d bytes", limit).
			WithHint("raise limits.body or limits.metrics_body in exporter.yaml if the answer is meant to be so large, or the memory limit if the log at start says that it is too small")
	}
	return content, nil
}

// withoutURL takes the URL out of a client's error, since ours names it once already and a redirect's may hold more.
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

// badLocation is what net/http's error begins with for a redirect to what is not a URL. Its rest repeats that.
const badLocation = "failed to parse Location header"

// splitURL tells whether a URL is asked over TLS, and its host.
func splitURL(raw string) (secure bool, host string) {
	u, err := url.Parse(raw)
	if err != nil {
		return false, ""
	}
	return u.Scheme == "https", u.Hostname()
}

// printable is a URL as it may be shown: without credentials, query and fragment.
func printable(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "<no URL>"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// statusError is the failure of an answer whose status is no success.
func statusError(method, rawURL string, status int) *failure.Error {
	return failure.Errorf(failure.ReasonOfStatus(status), "%s %s: status %d", method, printable(rawURL), status)
}
