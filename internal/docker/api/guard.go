package api

import (
	"net/http"
	"regexp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// pathSegment matches a container's id or name in a path.
const pathSegment = `[A-Za-z0-9][A-Za-z0-9_.-]*`

// allowedPaths are the calls of this exporter, all of which only read, as they stand on the wire. Another path, an escape, an
// empty or a dotted segment does not match.
var allowedPaths = regexp.MustCompile(
	`^(/v1\.[0-9]{1,3})?/(_ping|events|containers/json|containers/` + pathSegment + `/(json|stats|logs))$`)

// guard lets only reading calls pass to an engine, because whoever may write to its socket is root on that machine. It judges
// what would be sent, and refuses before a byte is.
type guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !readsOnly(req) {
		if req.Body != nil {
			req.Body.Close() //nolint:errcheck // a RoundTripper closes the body, also of what it does not send
		}
		return nil, failure.Errorf(failure.Internal, "%s %s: refused, this exporter only reads from a docker engine", methodOf(req), req.URL.RequestURI())
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

// methodOf is the method that is sent: net/http reads an empty one as GET.
func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}
