package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// singleCalls makes each call on a connection of its own, all of it in the caller's goroutine. An engine answers a call for
// stats after a second, so that there are as many connections as containers; net/http's own transport takes three goroutines
// more for each, one to dial, one to write and one to read. It knows neither TLS nor proxies.
type singleCalls struct{ dial exchange.DialFunc }

// singleBuffer is how much is read at once: most answers about stats have two to three kilobytes.
const singleBuffer = 4 << 10

var (
	singleReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, singleBuffer) }}
	singleWriters = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// RoundTrip implements http.RoundTripper.
func (s singleCalls) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	conn, err := s.dial(ctx, "tcp", req.URL.Host)
	if err != nil {
		return nil, err
	}
	a := &singleAnswer{ctx: ctx, conn: conn, reader: singleReaders.Get().(*bufio.Reader)}
	a.stop = context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck,gosec // which ends what waits for it
	resp, err := a.exchange(req)
	if err != nil {
		a.Close() //nolint:errcheck,gosec // it cannot fail
		return nil, a.reason(err)
	}
	return resp, nil
}

// singleAnswer is the body of an answer, and the connection that it comes by. That ends with the body, since the Docker client
// reads some answers to their end and never closes them.
type singleAnswer struct {
	ctx    context.Context //nolint:containedctx // of the one call that it is part of
	conn   net.Conn
	reader *bufio.Reader
	body   io.ReadCloser
	stop   func() bool
	closed sync.Once
	// end is what is read from now on, once there is nothing more.
	end error
}

// exchange sends the request and reads the answer's header.
func (a *singleAnswer) exchange(req *http.Request) (*http.Response, error) {
	last := *req
	last.Close = true // nothing is asked after it
	out := singleWriters.Get().(*bytes.Buffer)
	out.Reset()
	defer singleWriters.Put(out)
	if err := last.Write(out); err != nil {
		return nil, err
	}
	_, unsent := a.conn.Write(out.Bytes()) // who refuses may answer before everything was sent
	var rest *Rest
	if c, ok := req.Context().Value(callKey{}).(*call); ok && c.rest != nil {
		rest = c.rest
		if err := rest.wait(req.Context()); err != nil {
			return nil, err
		}
	}
	looked := time.Now()
	limited := &io.LimitedReader{R: a.conn, N: exchange.MaxHeaderBytes}
	a.reader.Reset(limited)
	resp, err := http.ReadResponse(a.reader, req)
	if rest != nil {
		rest.came(looked, time.Now())
	}
	for err == nil && resp.StatusCode < http.StatusOK && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(a.reader, req) // that was no more than a hint of the answer
	}
	switch {
	case err != nil && limited.N == 0:
		return nil, failure.Errorf(failure.TooLarge, "the header has more than %d bytes", exchange.MaxHeaderBytes)
	case err != nil && unsent != nil:
		return nil, unsent
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil && failure.ReasonOf(err) == failure.Internal:
		return nil, failure.Errorf(failure.Malformed, "read the answer's header: %w", err)
	case err != nil:
		return nil, err
	}
	limited.N = math.MaxInt64 // who reads the body bounds it
	a.body, resp.Body = resp.Body, a
	return resp, nil
}

// reason is why reading or writing failed: the end of the call, where that has closed the connection.
func (a *singleAnswer) reason(err error) error {
	if ended := a.ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// Read implements io.Reader.
func (a *singleAnswer) Read(p []byte) (int, error) {
	if a.end != nil {
		return 0, a.end
	}
	n, err := a.body.Read(p)
	if err != nil {
		if err != io.EOF { //nolint:errorlint // readers return it bare
			err = a.reason(err)
		}
		a.end = err
		a.Close() //nolint:errcheck,gosec // it cannot fail
	}
	return n, err
}

// Close implements io.Closer.
func (a *singleAnswer) Close() error {
	a.closed.Do(func() {
		a.stop()
		a.conn.Close() //nolint:errcheck,gosec // all was read that is wanted
		if a.end == nil {
			a.end = http.ErrBodyReadAfterClose
		}
		a.reader.Reset(nil)
		singleReaders.Put(a.reader)
	})
	return nil
}
