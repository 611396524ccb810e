package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Reply is what an engine's answer says beside its content.
type Reply struct {
	// Status is the HTTP status; 0 without an answer.
	Status int
	// Date is the engine's clock when it answered, to the second; zero if unknown.
	Date time.Time
}

// call is one call to the engine's API on the wire. The docker client replaces many causes by advice to a person at a
// terminal, so they are kept here.
type call struct {
	Reply
	// err is what broke the call or the reading of its answer.
	err error
	// decode, if set, reads a good answer, and the docker client gets null. What that would decode has ten times as many fields
	// as are used.
	decode func(io.Reader) error
	// events says that the answer is a stream of events: its limit is for each of them.
	events bool
	// most is the longest answer to this call, if that is less than the client's limit; 0 is no limit.
	most int64
}

type callKey struct{}

// record returns a context whose call fills in the record beside it.
func record(ctx context.Context) (context.Context, *call) {
	c := &call{}
	return context.WithValue(ctx, callKey{}, c), c
}

// recorder fills in the call of a request's context and bounds the bodies of answers.
type recorder struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		c = &call{}
	}
	*c = call{decode: c.decode, events: c.events, most: c.most}
	if req.Method == http.MethodHead {
		// The client makes a GET of the same request when this fails, and the transport may still be reading it.
		req = req.Clone(req.Context())
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		c.err = err
		return nil, err
	}
	c.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which has no end
		resp.Body.Close() //nolint:errcheck // nobody asked for another protocol
		resp.Body = http.NoBody
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.Date = date
	}
	limit := r.limit
	if c.most != 0 {
		limit = min(limit, c.most)
	}
	body := &boundedBody{ReadCloser: resp.Body, limit: limit, left: limit, call: c}
	resp.Body = body
	switch {
	case resp.StatusCode != http.StatusOK:
	case c.decode != nil:
		resp.Body = &decodedBody{boundedBody: body}
	case c.events:
		resp.Body = &eventsBody{boundedBody: body, decoder: json.NewDecoder(body)}
	}
	return resp, nil
}

// eventsBody is a stream of events, passed on one by one: each may be as long as the limit, and the stream may last for ever.
type eventsBody struct {
	*boundedBody
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
	*boundedBody
	instead *strings.Reader
}

func (b *decodedBody) Read(p []byte) (int, error) {
	if b.instead == nil {
		if err := b.call.decode(b.boundedBody); err != nil {
			if failure.HasType[*failure.Error](err) {
				b.call.err = err
			}
			return 0, err // as the client's own decoder says it
		}
		// The end of the answer stands behind it: unread, it would cost the connection.
		io.CopyN(io.Discard, b.boundedBody, 512) //nolint:errcheck // what more there is is of no use
		b.instead = strings.NewReader("null")
	}
	return b.instead.Read(p)
}

// boundedBody is an answer's body that ends in an error beyond its limit.
type boundedBody struct {
	io.ReadCloser
	limit, left int64
	call        *call
}

func (b *boundedBody) Read(p []byte) (int, error) {
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
