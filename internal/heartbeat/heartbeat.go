// Package heartbeat tells a dead man's switch outside that the exporter polls. When that ends, the switch raises the alarm.
package heartbeat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// sendTimeout is the deadline of one heartbeat, with its answer.
	sendTimeout = 15 * time.Second
	// recheckInterval is how soon to look again for a completed poll, and the least time between two heartbeats.
	recheckInterval = time.Second
	// maxAnswer bounds how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
	// maxRedirects is how many redirects on the same server are followed.
	maxRedirects = 5
)

// Options are what a heartbeat needs. All but UserAgent and Transport must be set.
type Options struct {
	// URL is where to send it, http or https. It contains the token, and so appears in no log, error or Status.
	URL config.Secret
	// Method is config.HeartbeatGet or config.HeartbeatPost.
	Method string
	// Every is the time between two heartbeats, PollInterval that between two polls.
	Every, PollInterval time.Duration
	// Completed returns when the last poll completed, with a monotonic clock reading; the zero time before the first one.
	Completed func() time.Time
	UserAgent string
	// Transport sends the requests; nil for a new connection each time, without a proxy.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Heartbeat sends heartbeats while Run runs. Its methods may be called from several goroutines.
type Heartbeat struct {
	options Options
	client  *http.Client
	redact  func(string) string
	status  atomic.Pointer[Status]
}

// Status is how it goes with the heartbeats.
type Status struct {
	// LastSuccess is when the last one arrived; zero if none has.
	LastSuccess time.Time
	// LastError is why the last one did not arrive, without the URL; "" if it did, or none was sent. FailingSince is when the first of
	// the failures in a row was.
	LastError    string
	FailingSince time.Time
	// Paused says that none is sent, because no poll completes.
	Paused bool
}

// New returns a heartbeat that sends nothing before Run.
func New(o Options) *Heartbeat {
	h := &Heartbeat{options: o, redact: config.RedactorOf(o.URL)}
	h.status.Store(&Status{})
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return exchange.DialWithin(ctx, sendTimeout, network, address)
			},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: exchange.MaxHeaderBytes,
		}
	}
	h.client = &http.Client{Transport: transport, CheckRedirect: followOnServer}
	return h
}

// Status returns how it goes now.
func (h *Heartbeat) Status() Status { return *h.status.Load() }

// Run sends heartbeats until ctx is done: one within a second after the first poll has completed, then one each Every. It sends none while
// the last completed poll is more than 2*Every + PollInterval ago, and goes on within a second after the next one. A heartbeat that is
// refused, or does not arrive within 15 s, is not repeated before the next is due; at most one is in flight. The log says when heartbeats
// begin to fail and when they arrive again, and when they pause and go on.
func (h *Heartbeat) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := recheckInterval
		if h.polls() {
			begun := time.Now()
			h.beat(ctx)
			wait = max(wait, h.options.Every-time.Since(begun))
		}
		timer.Reset(wait)
	}
}

// polls reports whether polls complete, and records when that ends or begins again.
func (h *Heartbeat) polls() bool {
	last := h.options.Completed()
	if last.IsZero() {
		return false
	}
	paused := time.Since(last) > 2*h.options.Every+h.options.PollInterval
	status := h.Status()
	if paused == status.Paused {
		return !paused
	}
	status.Paused = paused
	h.status.Store(&status)
	if paused {
		h.options.Log.Warn("no heartbeats are sent, because no poll completes", "last_completed", last.UTC().Format(time.RFC3339))
	} else {
		h.options.Log.Info("heartbeats are sent again")
	}
	return !paused
}

// beat sends one heartbeat and records how that went.
func (h *Heartbeat) beat(ctx context.Context) {
	err := h.send(ctx)
	if ctx.Err() != nil {
		return // the exporter stops
	}
	status, now := h.Status(), time.Now()
	failed := status.LastError != ""
	switch {
	case err != nil && !failed:
		h.options.Log.Warn("heartbeat does not arrive", "err", h.redact(err.Error()), "hint", h.redact(failure.HintOf(err)))
		status.FailingSince = now
	case err == nil && failed:
		h.options.Log.Info("heartbeat arrives again", "failed_for", now.Sub(status.FailingSince).Round(time.Second))
	}
	if err != nil {
		status.LastError = cmp.Or(h.redact(err.Error()), "unknown error")
	} else {
		status = Status{LastSuccess: now}
	}
	h.status.Store(&status)
}

// send sends one heartbeat. Its error may contain the token.
func (h *Heartbeat) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(h.options.Method), h.options.URL.Reveal(), nil)
	if err != nil {
		return failure.Errorf(failure.Internal, "make request: %w", err)
	}
	req.Header.Set("User-Agent", h.options.UserAgent)
	to := h.options.Method + " at " + req.URL.Host
	resp, err := h.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", to, withoutURL(err))
	}
	defer resp.Body.Close()                                     //nolint:errcheck // the body is read to its end or given up
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status counts, and most services send no body
	switch {
	case resp.StatusCode/100 == 3:
		return failure.OfStatus(resp.StatusCode, resp.Header, "%s: status %d: %w", to, resp.StatusCode, exchange.ErrRedirect).
			WithHint("the service redirects to another address: write the address that it names in heartbeat.url")
	case resp.StatusCode/100 != 2:
		return failure.OfStatus(resp.StatusCode, resp.Header, "%s: status %d: %s", to, resp.StatusCode, failure.OneLine(string(body)))
	}
	return refusal(to, body)
}

// refusal returns the error in the answer of an Uptime Kuma, which may refuse with status 200: {"ok":false,"msg":"..."}.
func refusal(to string, body []byte) error {
	var answer struct {
		OK  *bool  `json:"ok"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.OK == nil || *answer.OK {
		return nil //nolint:nilerr // what is not JSON is the affair of other services
	}
	return failure.Errorf(failure.Mismatch, `%s: the service answered "ok": false: %s`, to, failure.OneLine(answer.Msg)).
		WithHint("the service does not know the token, or its monitor is paused: copy the URL of its monitor into heartbeat.url again")
}

// followOnServer follows redirects on the same server, which alone may see the token.
func followOnServer(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || exchange.CanonicalServer(req.URL) != exchange.CanonicalServer(first) || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// withoutURL removes the URL from a client's error.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
