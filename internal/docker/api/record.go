package api

import (
	"bytes"
	"cmp"
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

// record is what the last request of a call met. The client itself drops the status and the cause of many errors.
type record struct {
	Reply
	err error // of the connection or of reading, or a statusError
}

// recordKey is the key of a call's record in its context.
type recordKey struct{}

// recorder bounds answers and records what requests meet.
type recorder struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	met, ok := req.Context().Value(recordKey{}).(*record)
	if !ok {
		met = &record{}
	}
	*met = record{}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		met.err = err
		return nil, err
	}
	met.Status = resp.StatusCode
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		met.Date = date
	}
	if resp.StatusCode == http.StatusOK {
		resp.Body = &boundedBody{ReadCloser: resp.Body, bound: boundOf(req.URL.Path, r.limit), met: met}
		return resp, nil
	}
	met.err = &statusError{resp.StatusCode, resp.Header, refusal(resp)}
	resp.Body.Close() //nolint:errcheck,gosec // only read
	resp.Body = http.NoBody
	return resp, nil
}

// statusError is an answer without success. It may have been made by a proxy.
type statusError struct {
	status int
	header http.Header
	text   string
}

func (e *statusError) Error() string { return failure.OneLine(e.text) }

// maxRefusal bounds the text of an answer without success.
const maxRefusal = 16 << 10

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

// bound is a limit of an answer, or of each of its lines, and what to do about an answer beyond it.
type bound struct {
	bytes      int64
	lines      bool
	what, hint string
}

// maxContainer bounds the description and the stats of one container.
const maxContainer = 1 << 20

// boundOf returns the bound of the answer to a path. Limit is the client's.
func boundOf(path string, limit int64) bound {
	b := bound{
		bytes: limit,
		what:  "the answer",
		hint:  "raise limits.metrics_body in exporter.yaml if the engine really has so many containers",
	}
	switch {
	case strings.HasSuffix(path, "/events"): // has one event in each line
		b.lines, b.what, b.hint = true, "one event", "shorten the labels of the container, or raise limits.metrics_body in exporter.yaml"
	case strings.HasSuffix(path, "/containers/json"):
		b.bytes = 2 * limit
	case strings.HasSuffix(path, "/json"):
		b.bytes = min(limit, maxContainer)
		b.hint = "the labels or the environment of one container exceed what the exporter reads (1 MiB): recreate it with less"
	case strings.HasSuffix(path, "/stats"):
		b.bytes, b.hint = min(limit, maxContainer), ""
	}
	return b
}

// boundedBody is an answer's body that fails with TooLarge beyond its limit.
type boundedBody struct {
	io.ReadCloser
	bound
	read int64 // since the last new line, if lines are bounded
	met  *record
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	over := b.read > b.bytes
	if line := bytes.IndexByte(p[:n], '\n'); b.lines && line >= 0 {
		over = b.read-int64(n-line) > b.bytes
		b.read = int64(n - 1 - bytes.LastIndexByte(p[:n], '\n'))
	}
	if over {
		n, err = 0, failure.Errorf(failure.TooLarge, "%s has more than %d bytes", b.what, b.bytes).WithHint(b.hint)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // readers return io.EOF unwrapped
		b.met.err = err
	}
	return n, err
}

// call makes one call of the client in the context that do gets, and explains its error.
func (s *Session) call(ctx context.Context, doing string, do func(context.Context) error) (Reply, error) {
	var met record
	err := do(context.WithValue(ctx, recordKey{}, &met))
	if err = cmp.Or(met.err, err); err != nil {
		err = s.explain(ctx, doing, met.Status == http.StatusOK, err)
	}
	return met.Reply, err
}
