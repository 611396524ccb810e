package simstack

import "net/http"

// newProxy is the HTTPS proxy in front of the XMPP server: nginx. It answers /health by itself, and nothing else here.
func newProxy() *service {
	return &service{
		name:   "proxy",
		secure: true,
		plain:  func() *answer { return captured("proxy_plain_http") },
		handle: func(x *exchange) *answer {
			if x.req.URL.Path == "/health" {
				return captured("proxy_health")
			}
			return plainStatus(http.StatusNotFound)
		},
	}
}
