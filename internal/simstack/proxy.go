package simstack

import (
	"io"
	"net/http"
)

// newProxy is the HTTPS proxy in front of the XMPP server: nginx. It answers /health by itself and asks the XMPP server
// for everything else.
func newProxy(upstream func() string, memory *Network) *service {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if memory != nil {
		transport.DialContext = memory.Dial
	}
	return &service{
		name:   "proxy",
		secure: true,
		plain:  func() *answer { return captured("proxy_plain_http") },
		handle: func(x *exchange) *answer {
			if x.req.URL.Path == "/health" {
				return captured("proxy_health")
			}
			return forward(x, transport, upstream())
		},
	}
}

// maxForwarded bounds an answer that is passed on.
const maxForwarded = 64 << 20

// forward asks the server behind the proxy. It waits as long as that server hangs.
func forward(x *exchange, transport http.RoundTripper, upstream string) *answer {
	req, err := http.NewRequestWithContext(x.ctx, x.req.Method, "http://"+upstream+x.req.URL.RequestURI(), x.req.Body)
	if err != nil {
		return captured("proxy_502")
	}
	req.Host = x.req.Host
	req.ContentLength = x.req.ContentLength
	for _, name := range []string{"Accept", "Authorization", "Content-Type", "User-Agent"} {
		if v := x.req.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("X-Forwarded-For", "127.0.0.1")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return captured("proxy_502")
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or given up
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded))
	a := captured("proxy_health")
	a.status, a.body = resp.StatusCode, body
	a.set("Content-Type", resp.Header.Get("Content-Type"))
	for _, name := range []string{"Access-Control-Allow-Origin", "Authorization", "Content-Encoding", "Location"} {
		if v := resp.Header.Get(name); v != "" {
			a.set(name, v)
		}
	}
	if err != nil {
		a.missing, a.end = 1, endCut // nginx has sent the length by then
	}
	return a
}
