package collectors

import (
	"io"
	"net/http"
	"regexp"
	"time"
)

// dockerPaths are the calls that only read and that this exporter has a use for, as they stand on the wire. Anything
// else - another path, an escape, an empty or dotted segment - is not among them.
var dockerPaths = regexp.MustCompile(
	`^(/v1\.[0-9]{1,3})?/(_ping|version|info|events|containers/json|containers/[A-Za-z0-9][A-Za-z0-9_.-]*/(json|stats|logs))$`)

// dockerGuard lets only calls that read pass to a Docker Engine, since whoever may write to its socket is root on that
// machine. It looks at what would be sent, not at what a client meant, and refuses before a byte is.
type dockerGuard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g dockerGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !readsOnly(req) {
		if req.Body != nil {
			req.Body.Close() //nolint:errcheck // a RoundTripper closes the body, also of what it does not send
		}
		return nil, Failf(Internal, "%s %s: refused, this exporter only reads from a docker engine", methodOf(req), req.URL.RequestURI())
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
		return dockerPaths.MatchString(path)
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

// dockerCall is what became of one call to the engine's API on the wire. The docker client replaces many causes by
// advice to a person at a terminal, so they are kept here.
type dockerCall struct {
	status int
	// date is the engine's clock when it answered, to the second; zero where it does not tell.
	date time.Time
	// err is what broke the call or the reading of its answer.
	err error
}

type dockerCallKey struct{}

// dockerRecorder fills in the dockerCall of a request's context and bounds the bodies of answers.
type dockerRecorder struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (r dockerRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	call, ok := req.Context().Value(dockerCallKey{}).(*dockerCall)
	if !ok {
		call = &dockerCall{}
	}
	*call = dockerCall{}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		call.err = err
		return nil, err
	}
	call.status = resp.StatusCode
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		call.date = date
	}
	resp.Body = &dockerBody{ReadCloser: resp.Body, limit: r.limit, left: r.limit, call: call}
	return resp, nil
}

// dockerBody is an answer's body that ends in an error beyond its limit.
type dockerBody struct {
	io.ReadCloser
	limit, left int64
	call        *dockerCall
}

func (b *dockerBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = Failf(TooLarge, "more than %d bytes", b.limit).
			WithHint("raise limits.metrics_body in exporter.yaml if the engine really runs so many containers")
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		b.call.err = err
	}
	return n, err
}
