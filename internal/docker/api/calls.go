package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	dockerapi "github.com/docker/docker/api"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/versions"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// apiVersion matches a valid header Api-Version.
var apiVersion = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

// Negotiate agrees with the engine on the version of its API: the engine's, or the newest one known here. Other calls do so by
// themselves; make it first where several are to run at once.
func (s *Session) Negotiate(ctx context.Context) (Reply, error) {
	const doing = "ping"
	// Some proxies refuse HEAD.
	a, err := s.send(ctx, http.MethodHead, "/_ping", nil, bound{})
	if a != nil && err != nil && ctx.Err() == nil {
		a, err = s.send(ctx, http.MethodGet, "/_ping", nil, bound{})
	}
	if a == nil {
		return Reply{}, s.explain(ctx, doing, err)
	}
	if err != nil {
		return a.Reply, s.explain(ctx, doing, err)
	}
	a.Close()
	version := a.header.Get("Api-Version")
	if !apiVersion.MatchString(version) {
		return a.Reply, failure.Errorf(failure.Malformed, "ping %s: the answer has no version of the Docker API", s.Host).
			WithHint("the server at this address is not a Docker Engine")
	}
	if s.version = dockerapi.DefaultVersion; versions.LessThan(version, s.version) {
		s.version = version
	}
	return a.Reply, nil
}

// negotiated negotiates unless that was done before.
func (s *Session) negotiated(ctx context.Context) (Reply, error) {
	if s.version != "" {
		return Reply{}, nil
	}
	return s.Negotiate(ctx)
}

// List calls choose for every container, running or not, that has all of the labels ("key" or "key=value"). The container and
// its labels are valid only during that call.
func (s *Session) List(ctx context.Context, labels []string, choose func(*container.Summary)) (Reply, error) {
	query := url.Values{"all": {"1"}}
	if len(labels) > 0 {
		wanted := filters.NewArgs()
		for _, label := range labels {
			wanted.Add("label", label)
		}
		if err := addFilters(query, wanted); err != nil {
			return Reply{}, err
		}
	}
	return s.get(ctx, "list containers of", "/containers/json", query, bound{}, func(r io.Reader) error { return readList(r, choose) })
}

func addFilters(query url.Values, wanted filters.Args) error {
	text, err := filters.ToJSON(wanted)
	if err != nil {
		return failure.Errorf(failure.Internal, "encode filters: %w", err)
	}
	query.Set("filters", text)
	return nil
}

// maxInspection bounds the description of one container.
const maxInspection = 1 << 20

// Inspect describes one container. It returns nil if the container does not exist.
func (s *Session) Inspect(ctx context.Context, id string) (*container.InspectResponse, Reply, error) {
	var d container.InspectResponse
	reply, err := s.get(ctx, "inspect container of", "/containers/"+id+"/json", nil, bound{maxInspection, hintLargeContainer}, decode(&d))
	switch {
	case err == nil:
		return &d, reply, nil
	case isNoContainer(err):
		return nil, reply, nil
	}
	return nil, reply, err
}

// Log calls read with a container's log. An error of read is explained like an error of the call. Of the options, Since, Tail,
// ShowStdout, ShowStderr and Timestamps apply.
func (s *Session) Log(ctx context.Context, id string, options container.LogsOptions, read func(io.Reader) error) error {
	query := url.Values{"tail": {options.Tail}}
	for key, on := range map[string]bool{"stdout": options.ShowStdout, "stderr": options.ShowStderr, "timestamps": options.Timestamps} {
		if on {
			query.Set(key, "1")
		}
	}
	if options.Since != "" {
		query.Set("since", options.Since)
	}
	_, err := s.get(ctx, "read log of a container of", "/containers/"+id+"/logs", query, bound{}, read)
	return err
}

// EventsTimeout bounds the wait until the engine begins to answer a request for events.
const EventsTimeout = 10 * time.Second

// Events opens a stream of these container events, and returns its channels once the engine has answered. Since is the start of
// the stream in the API's format; "" is now. The stream ends when ctx is done, or
// with an error on the second channel, which is then closed.
func (s *Session) Events(ctx context.Context, since string, actions []events.Action) (<-chan events.Message, <-chan error, error) {
	const doing = "follow events of"
	wanted := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)))
	for _, a := range actions {
		wanted.Add("event", string(a))
	}
	query := url.Values{}
	if since != "" {
		query.Set("since", since)
	}
	if err := addFilters(query, wanted); err != nil {
		return nil, nil, err
	}
	if _, err := s.negotiated(ctx); err != nil {
		return nil, nil, err
	}
	streaming, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(EventsTimeout, func() { end(context.DeadlineExceeded) })
	a, err := s.send(streaming, http.MethodGet, "/v"+s.version+"/events", query, bound{})
	switch inTime := late.Stop(); {
	case inTime && err == nil:
		messages, errs := make(chan events.Message), make(chan error, 1)
		go func() {
			defer close(errs)
			defer end(nil)
			defer a.body.Close() //nolint:errcheck // only read
			errs <- readEvents(streaming, a.body, messages)
		}()
		return messages, errs, nil
	case inTime:
		err = s.explain(streaming, doing, err)
	default:
		err = fmt.Errorf("%s %s: %w", doing, s.Host, context.DeadlineExceeded)
	}
	end(nil)
	return nil, nil, err
}

// readEvents sends events until the stream ends. Its limit applies to each event.
func readEvents(ctx context.Context, body *boundedBody, messages chan<- events.Message) error {
	decoder := json.NewDecoder(body)
	for {
		body.left = body.bytes
		var event events.Message
		if err := decoder.Decode(&event); err != nil {
			if failure.HasType[*failure.Error](err) && failure.ReasonOf(err) == failure.TooLarge {
				err = failure.Errorf(failure.TooLarge, "one event has %w", err).
					WithHint("shorten the labels of the container, or raise limits.metrics_body in exporter.yaml")
			}
			return err
		}
		select {
		case messages <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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
