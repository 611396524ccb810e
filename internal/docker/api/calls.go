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

// Negotiate agrees with the engine on a version of its API. Make it the first call of a session: otherwise the docker client
// negotiates by itself and ignores a failure.
func (s *Session) Negotiate(ctx context.Context) (Reply, error) {
	ctx, c := record(ctx)
	ping, err := s.docker.Ping(ctx)
	if err != nil {
		return c.Reply, s.explain(ctx, "ping", c, err)
	}
	if !apiVersion.MatchString(ping.APIVersion) {
		return c.Reply, failure.Errorf(failure.Malformed, "ping %s: the answer has no version of the Docker API", s.Host).
			WithHint("the server at this address is not a Docker Engine")
	}
	s.docker.NegotiateAPIVersionPing(ping)
	return c.Reply, nil
}

// List calls choose for every container, running or not, that has all of the labels ("key" or "key=value"). The container and
// its labels are valid only during that call.
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

// Inspect describes one container. It returns nil if the container does not exist.
func (s *Session) Inspect(ctx context.Context, id string) (*container.InspectResponse, Reply, error) {
	ctx, c := record(ctx)
	c.limit = maxInspection
	d, err := s.docker.ContainerInspect(ctx, id)
	switch {
	case err == nil:
		return &d, c.Reply, nil
	case c.missesContainer(err):
		return nil, c.Reply, nil
	}
	return nil, c.Reply, s.explain(ctx, "inspect container of", c, err)
}

// missesContainer reports whether the engine's answer is that the container does not exist. Any other 404 comes from a proxy.
func (c *call) missesContainer(err error) bool {
	return c.Status == http.StatusNotFound && strings.Contains(strings.ToLower(err.Error()), "no such container")
}

// Log calls read with a container's log. An error of read is explained like an error of the call.
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

// EventsTimeout bounds the wait until the engine begins to answer a request for events.
const EventsTimeout = 10 * time.Second

// Events opens a stream of these container events, and returns its channels once the engine has answered. Since is the start of
// the stream in the API's format; "" is now. The stream ends when ctx is done, or with an error on the second channel.
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

// ExplainEnd explains the error that ended the stream of events; nil means that the engine closed it.
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
	case failure.Closed: // perhaps by a proxy
		hint = HintEvents
	case failure.Internal: // a decoder's errors have no reason
		reason = failure.Malformed
	default:
	}
	return failure.Errorf(reason, "follow events of %s: %w", s.Host, err).WithHint(hint)
}
