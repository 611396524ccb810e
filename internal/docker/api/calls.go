package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// apiVersion matches a valid header Api-Version.
var apiVersion = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

// Negotiate agrees with the engine on a version of its API. Make it the first call of a session: without it, the docker client
// would negotiate itself, and ignore a failure.
func (s *Session) Negotiate(ctx context.Context) (Reply, error) {
	ctx, c := record(ctx)
	ping, err := s.docker.Ping(ctx)
	if err != nil {
		return c.Reply, s.explain(ctx, "ping", c, err)
	}
	if !apiVersion.MatchString(ping.APIVersion) {
		return c.Reply, failure.Errorf(failure.Malformed, "ping %s: the answer names no version of the docker API", s.Host).
			WithHint("something else than a Docker Engine listens there")
	}
	s.docker.NegotiateAPIVersionPing(ping)
	return c.Reply, nil
}

// List calls choose for every container that has all of the labels ("key" or "key=value"), running or not. The container and
// its labels are valid only during the call.
func (s *Session) List(ctx context.Context, labels []string, choose func(*container.Summary)) (Reply, error) {
	wanted := filters.NewArgs()
	for _, label := range labels {
		wanted.Add("label", label)
	}
	ctx, c := record(ctx)
	c.decode = func(r io.Reader) error { return readList(r, choose) }
	_, err := s.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
	if err != nil {
		return c.Reply, s.explain(ctx, "list containers of", c, err)
	}
	return c.Reply, nil
}

// maxInspection bounds the description of one container.
const maxInspection = 1 << 20

// Inspect describes one container. It returns nil if there is no such container.
func (s *Session) Inspect(ctx context.Context, id string) (*container.InspectResponse, Reply, error) {
	ctx, c := record(ctx)
	c.most = maxInspection
	d, err := s.docker.ContainerInspect(ctx, id)
	switch {
	case err == nil:
		return &d, c.Reply, nil
	case c.missesContainer(err):
		return nil, c.Reply, nil
	}
	return nil, c.Reply, s.explain(ctx, "inspect container of", c, err)
}

// missesContainer reports whether the engine says that there is no such container. Another 404 comes from a proxy, and is not
// about one container.
func (c *call) missesContainer(err error) bool {
	return c.Status == http.StatusNotFound && strings.Contains(strings.ToLower(err.Error()), "no such container")
}

// Log calls read with a container's log. An error of read that is about the log itself is explained like one of the call.
func (s *Session) Log(ctx context.Context, id string, options container.LogsOptions, read func(io.Reader) error) error {
	const doing = "read log of a container of"
	ctx, c := record(ctx)
	body, err := s.docker.ContainerLogs(ctx, id, options)
	if err != nil {
		return s.explain(ctx, doing, c, err)
	}
	defer body.Close() //nolint:errcheck // only read
	if err := read(body); err != nil {
		return s.explain(ctx, doing, c, err)
	}
	return nil
}

// EventsTimeout bounds the wait for the beginning of the answer about events.
const EventsTimeout = 10 * time.Second

// Events opens the stream of these events of containers, and returns its messages once the engine has answered. Since is where
// it begins, as the API writes it; "" is now. The stream ends with ctx, and with an error on the second channel.
func (s *Session) Events(ctx context.Context, since string, actions []events.Action) (<-chan events.Message, <-chan error, error) {
	wanted := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)))
	for _, a := range actions {
		wanted.Add("event", string(a))
	}
	streaming, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(EventsTimeout, func() { end(context.DeadlineExceeded) })
	recording, c := record(streaming)
	c.events = true
	messages, errs := s.docker.Events(recording, events.ListOptions{Since: since, Filters: wanted})
	inTime := late.Stop()
	if c.Status == http.StatusOK && inTime {
		context.AfterFunc(ctx, func() { end(nil) })
		return messages, errs, nil
	}
	err := <-errs
	end(nil)
	if !inTime {
		return nil, nil, fmt.Errorf("follow events of %s: %w", s.Host, context.DeadlineExceeded)
	}
	return nil, nil, s.explain(ctx, "follow events of", c, err)
}

var errEnded = errors.New("the stream has ended")

// ExplainEnd explains the error that ended the stream of events; nil is its end.
func (s *Session) ExplainEnd(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = failure.Errorf(failure.Closed, "%w", errEnded)
	}
	err = s.wire.Explain(err)
	reason, hint := failure.ReasonOf(err), ""
	if known, ok := errors.AsType[*failure.Error](err); ok {
		hint = known.Hint
	}
	switch reason {
	case failure.Closed: // only a stream that was cut may have been cut by a proxy
		hint = HintEvents
	case failure.Internal: // the errors of a decoder have no reason
		reason = failure.Malformed
	default:
	}
	return failure.Errorf(reason, "follow events of %s: %w", s.Host, err).WithHint(hint)
}
