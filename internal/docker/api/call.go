package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Reply is the part of an engine's answer beside its content.
type Reply struct {
	// Status is the HTTP status; 0 without an answer.
	Status int
	// Date is the engine's clock when it answered, to the second; zero if unknown.
	Date time.Time
}

// answer is an engine's answer, whose body is bounded. Close it after use.
type answer struct {
	Reply
	header http.Header
	body   *boundedBody
}

// Close reads what little may be left, so that the connection can be reused.
func (a *answer) Close() {
	io.CopyN(io.Discard, a.body, 512) //nolint:errcheck // at worst the connection is closed
	a.body.Close()                    //nolint:errcheck,gosec // only read
}

// statusError is an answer without success. It may have been made by a proxy.
type statusError struct {
	status int
	header http.Header
	text   string
}

func (e *statusError) Error() string { return failure.OneLine(e.text) }

// isNoContainer reports whether the engine says that a container does not exist. Any other 404 comes from a proxy.
func isNoContainer(err error) bool {
	refused, ok := errors.AsType[*statusError](err)
	return ok && refused.status == http.StatusNotFound && strings.Contains(strings.ToLower(refused.text), "no such container")
}

// bound is a limit of one kind of answer in bytes, and what to do about an answer beyond it. The zero value is the client's limit.
type bound struct {
	bytes int64
	hint  string
}

// maxRefusal bounds the text of an answer without success.
const maxRefusal = 16 << 10

// send makes one call. The error is that of the connection, or a statusError.
func (s *Session) send(ctx context.Context, method, path string, query url.Values, most bound) (*answer, error) {
	target := url.URL{
		Scheme:   s.scheme,
		Host:     s.Endpoint.Address,
		Path:     path,
		RawQuery: query.Encode(),
	}
	if s.Endpoint.Network == "unix" {
		target.Host = "docker"
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", s.UserAgent)
	resp, err := s.http.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if most.bytes == 0 || most.bytes > s.Limit {
		most = bound{s.Limit, "raise limits.metrics_body in exporter.yaml if the engine really has so many containers"}
	}
	a := &answer{Reply{Status: resp.StatusCode}, resp.Header, &boundedBody{ReadCloser: resp.Body, bound: most, left: most.bytes}}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.Date = date
	}
	if resp.StatusCode == http.StatusOK {
		return a, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	return a, &statusError{resp.StatusCode, resp.Header, refusal(resp)}
}

// refusal returns what an answer without success says.
func refusal(resp *http.Response) string {
	if resp.StatusCode < http.StatusOK { // another protocol follows, which never ends
		return "the engine changes the protocol"
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil && len(text) == 0 {
		return err.Error()
	}
	var from struct{ Message string }
	if json.Unmarshal(text, &from) == nil && from.Message != "" {
		return from.Message
	}
	return cmp.Or(strings.TrimSpace(string(text)), "no text says why")
}

// get makes one call of the negotiated version. Read the answer with read, which explains its errors; it is closed afterwards.
func (s *Session) get(ctx context.Context, doing, path string, query url.Values, most bound, read func(io.Reader) error) (Reply, error) {
	if reply, err := s.negotiated(ctx); err != nil {
		return reply, err
	}
	a, err := s.send(ctx, http.MethodGet, "/v"+s.version+path, query, most)
	if a == nil {
		return Reply{}, s.explain(ctx, doing, err)
	}
	if err != nil {
		return a.Reply, s.explain(ctx, doing, err)
	}
	defer a.Close()
	if err := read(a.body); err != nil {
		return a.Reply, s.explain(ctx, doing, &readError{cmp.Or(a.body.err, err)})
	}
	return a.Reply, nil
}

// decode returns a reader of one JSON value.
func decode(into any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(into) }
}

// readError is an error of reading an answer.
type readError struct{ error }

// Unwrap returns what failed.
func (e *readError) Unwrap() error { return e.error }

// boundedBody is an answer's body that fails with TooLarge beyond its limit.
type boundedBody struct {
	io.ReadCloser
	bound
	left int64
	err  error // of reading, but for the end
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = failure.Errorf(failure.TooLarge, "more than %d bytes", b.bytes).WithHint(b.hint)
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return io.EOF unwrapped
		b.err = err
	}
	return n, err
}

// explain gives an error of a call a reason and a hint.
func (s *Session) explain(ctx context.Context, doing string, err error) error {
	what := doing + " " + s.Host
	if ctx.Err() != nil {
		return wrap(what, s.wire.Explain(ctx.Err()))
	}
	refused, isStatus := errors.AsType[*statusError](err)
	reading, isReading := errors.AsType[*readError](err)
	switch {
	case isStatus:
		return s.explainStatus(what, refused)
	case isReading && errors.Is(err, io.ErrUnexpectedEOF):
		return failure.Errorf(failure.Closed, "%s: read answer: %w", what, reading.error)
	// A decoder's errors have no reason, and an empty answer is complete.
	case isReading && (errors.Is(err, io.EOF) || failure.ReasonOf(s.wire.Explain(reading.error)) == failure.Internal):
		return failure.Errorf(failure.Malformed, "%s: read answer: %w", what, reading.error)
	case isReading:
		err = reading.error
	}
	if s.wire.MetTLS() {
		return failure.Errorf(failure.TLS, "%s: %w", what, s.wire.Explain(err)).WithHint(hintTLS)
	}
	return s.withHint(wrap(what, s.wire.Explain(err)))
}

func (s *Session) explainStatus(what string, refused *statusError) error {
	failed := failure.OfStatus(refused.status, refused.header, "%s: status %d: %w", what, refused.status, refused)
	if refused.status < http.StatusMultipleChoices { // no answer of an engine
		failed.Reason = failure.Malformed
	}
	if strings.Contains(refused.text, "<") {
		// A web page comes from a proxy or another server. The error does not repeat it.
		failed.Err = fmt.Errorf("%s: status %d, from a server that is not a Docker Engine", what, refused.status)
	}
	switch {
	case failed.Reason == failure.Forbidden:
		return failed.WithHint(hintProxy)
	case exchange.WantsTLS(refused.status, []byte(refused.text)):
		failed.Reason = failure.TLS
		return failed.WithHint(hintTLS)
	}
	return failed
}
