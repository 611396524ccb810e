package api

import (
	"net/http"
	"regexp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// pathSegment matches a container's id or name in a path.
const pathSegment = `[A-Za-z0-9][A-Za-z0-9_.-]*`

// allowedPaths matches the paths of all calls that the exporter makes, as sent. It does not match escapes, nor empty or dotted
// segments.
var allowedPaths = regexp.MustCompile(
	`^(/v1\.[0-9]{1,3})?/(_ping|events|containers/json|containers/` + pathSegment + `/(json|stats|logs))$`)

// guard passes only reading calls to an engine, because write access to its socket is root access to the machine. It checks
// each request as it would be sent, and refuses it before sending a byte.
type guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !readsOnly(req) {
		if req.Body != nil {
			req.Body.Close() //nolint:errcheck // a RoundTripper must close the body even if it does not send it
		}
		return nil, failure.Errorf(failure.Internal, "%s %s: refused, the exporter only reads from a Docker Engine",
			methodOf(req), req.URL.RequestURI())
	}
	return g.next.RoundTrip(req)
}

func readsOnly(req *http.Request) bool {
	if req.URL.Opaque != "" || (req.Body != nil && req.Body != http.NoBody) || req.Header.Get("Upgrade") != "" {
		return false
	}
	path := req.URL.EscapedPath()
	switch methodOf(req) {
	case http.MethodHead:
		return path == "/_ping"
	case http.MethodGet:
		return allowedPaths.MatchString(path)
	default:
		return false
	}
}

// methodOf returns the method that is sent: for net/http, "" is GET.
func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}
