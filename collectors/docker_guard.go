package collectors

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// dockerPaths are the calls that only read and that this exporter has a use for, as they stand on the wire. Anything
// else - another path, an escape, an empty or dotted segment - is not among them.
var dockerPaths = regexp.MustCompile(
	`^(/v1\.[0-9]{1,3})?/(_ping|events|containers/json|containers/[A-Za-z0-9][A-Za-z0-9_.-]*/(json|stats|logs))$`)

// dockerGuard lets only calls that read pass to a Docker Engine, since whoever may write to its socket is root on that
// machine. It looks at what would be sent, not at what a client meant, and refuses before a byte is.
type dockerGuard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g dockerGuard) RoundTrip(req *http.Request) (*http.Response, error) {
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
	// into, where not nil, points to what a good answer is decoded into. The client finds null in place of it: what it
	// would make of it has ten times as many fields as are used.
	into any
	// events says that the answer is a stream of events: its limit is for each of them.
	events bool
	// most, where not 0, is the longest answer to this call, if that is less than the target's limit.
	most int64
	// rest, where not nil, is over when a call on a connection of its own may look for its answer.
	rest *statsRest
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
	*call = dockerCall{into: call.into, events: call.events, most: call.most, rest: call.rest}
	if req.Method == http.MethodHead {
		// The client makes a GET of the same request when this fails, and the transport may still be reading it.
		req = req.Clone(req.Context())
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		call.err = err
		return nil, err
	}
	call.status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which has no end
		resp.Body.Close() //nolint:errcheck // nobody asked for another protocol
		resp.Body = http.NoBody
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		call.date = date
	}
	limit := r.limit
	if call.most != 0 {
		limit = min(limit, call.most)
	}
	body := &dockerBody{ReadCloser: resp.Body, limit: limit, left: limit, call: call}
	resp.Body = body
	switch {
	case resp.StatusCode != http.StatusOK:
	case call.into != nil:
		resp.Body = &decodedBody{dockerBody: body}
	case call.events:
		resp.Body = &eventsBody{dockerBody: body, decoder: json.NewDecoder(body)}
	}
	return resp, nil
}

// eventsBody is a stream of events, passed on one by one: each may be as long as the limit, and the stream may last for ever.
type eventsBody struct {
	*dockerBody
	decoder *json.Decoder
	event   json.RawMessage
	unread  bytes.Reader
}

func (b *eventsBody) Read(p []byte) (int, error) {
	if b.unread.Len() == 0 {
		b.left = b.limit
		if err := b.decoder.Decode(&b.event); err != nil {
			if failure.HasType[*failure.Error](err) && failure.ReasonOf(err) == failure.TooLarge {
				err = failure.Errorf(failure.TooLarge, "one event has %w", err).
					WithHint("shorten the labels of the container, or raise limits.metrics_body in exporter.yaml")
			}
			return 0, err
		}
		b.unread.Reset(b.event)
	}
	return b.unread.Read(p)
}

// decodedBody is an answer's body that is decoded when somebody reads it.
type decodedBody struct {
	*dockerBody
	instead *strings.Reader
}

func (b *decodedBody) Read(p []byte) (int, error) {
	if b.instead == nil {
		if err := b.decode(); err != nil {
			if failure.HasType[*failure.Error](err) {
				b.call.err = err
			}
			return 0, err // as the client's own decoder says it
		}
		// The end of the answer stands behind it: unread, it would cost the connection.
		io.CopyN(io.Discard, b.dockerBody, 512) //nolint:errcheck // what more there is is of no use
		b.instead = strings.NewReader("null")
	}
	return b.instead.Read(p)
}

func (b *decodedBody) decode() error {
	if whole, ok := b.call.into.(*selection); ok {
		return whole.read(b.dockerBody)
	}
	return json.NewDecoder(b.dockerBody).Decode(b.call.into)
}

// dockerBody is an answer's body that ends in an error beyond its limit.
type dockerBody struct {
	io.ReadCloser
	limit, left int64
	call        *dockerCall
}

func (b *dockerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = failure.Errorf(failure.TooLarge, "more than %d bytes", b.limit).WithHint("raise limits.metrics_body in exporter.yaml if the engine really runs so many containers")
		if b.call.most == b.limit {
			err = failure.Errorf(failure.TooLarge, "more than %d bytes", b.limit).WithHint(hintLargeContainer)
		}
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it bare
		b.call.err = err
	}
	return n, err
}
