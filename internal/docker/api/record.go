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

// Reply is the part of an engine's answer beside its content.
type Reply struct {
	// Status is the HTTP status; 0 without an answer.
	Status int
	// Date is the engine's clock when it answered, to the second; zero if unknown.
	Date time.Time
}

// call records one HTTP call to the engine. The docker client replaces many errors by advice for its command line, so the
// original ones are kept here.
type call struct {
	Reply
	// err is the error of the request, or of reading its answer.
	err error
	// decode, if set, reads a successful answer in place of the docker client, which gets null: the client would decode ten times as
	// many fields as the exporter uses.
	decode func(io.Reader) error
	// events is true if the answer is a stream of events: the limit applies to each event.
	events bool
	// limit bounds the answer in bytes, if it is lower than the client's limit; 0 for none.
	limit int64
}

type callKey struct{}

// record returns a context and the record of the next call with it.
func record(ctx context.Context) (context.Context, *call) {
	c := &call{}
	return context.WithValue(ctx, callKey{}, c), c
}

// recorder fills in the call in a request's context, and bounds the bodies of answers.
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
	*c = call{decode: c.decode, events: c.events, limit: c.limit}
	if req.Method == http.MethodHead {
		// If the HEAD fails, the client turns the same request into a GET while the transport may still read it.
		req = req.Clone(req.Context())
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		c.err = err
		return nil, err
	}
	c.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which never ends
		resp.Body.Close() //nolint:errcheck // the exporter never requests another protocol
		resp.Body = http.NoBody
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.Date = date
	}
	limit := r.limit
	if c.limit != 0 {
		limit = min(limit, c.limit)
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

// eventsBody is a stream of events, passed on one by one: the limit applies to each event, and the stream may last for ever.
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

// decodedBody is an answer's body that call.decode reads. Its reader gets null.
type decodedBody struct {
	*boundedBody
	replacement *strings.Reader
}

func (b *decodedBody) Read(p []byte) (int, error) {
	if b.replacement == nil {
		if err := b.call.decode(b.boundedBody); err != nil {
			if failure.HasType[*failure.Error](err) {
				b.call.err = err
			}
			return 0, err // like an error of the client's own decoder
		}
		// Read to the end of the answer, so that the connection can be reused.
		io.CopyN(io.Discard, b.boundedBody, 512) //nolint:errcheck // at worst the connection is closed
		b.replacement = strings.NewReader("null")
	}
	return b.replacement.Read(p)
}

// boundedBody is an answer's body that fails with TooLarge beyond its limit.
type boundedBody struct {
	io.ReadCloser
	limit, left int64
	call        *call
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = failure.Errorf(failure.TooLarge, "more than %d bytes", b.limit).WithHint("raise limits.metrics_body in exporter.yaml if the engine really has so many containers")
		if b.call.limit == b.limit {
			err = failure.Errorf(failure.TooLarge, "more than %d bytes", b.limit).WithHint(hintLargeContainer)
		}
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return io.EOF unwrapped
		b.call.err = err
	}
	return n, err
}
