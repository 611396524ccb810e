package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// apiVersion matches a valid header Api-Version.
var apiVersion = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

// Negotiate agrees with the engine on the version of its API: the engine's, or the newest one that the client knows. It is the
// first call of a session.
func (s *Session) Negotiate(ctx context.Context) (Reply, error) {
	var ping types.Ping
	reply, err := s.call(ctx, "ping", func(ctx context.Context) (err error) {
		ping, err = s.docker.Ping(ctx)
		return err
	})
	if err == nil && !apiVersion.MatchString(ping.APIVersion) {
		err = failure.Errorf(failure.Malformed, "ping %s: the answer has no version of the Docker API", s.Host).
			WithHint("the server at this address is not a Docker Engine")
	}
	s.docker.NegotiateAPIVersionPing(ping)
	return reply, err
}

// maxID bounds an id. validID matches ids that are safe in the path of a call.
const maxID = 255

var validID = regexp.MustCompile(`^` + pathSegment + `$`)

// List returns every container, running or not, that has all of the labels ("key" or "key=value").
func (s *Session) List(ctx context.Context, labels []string) ([]container.Summary, Reply, error) {
	wanted := filters.NewArgs()
	for _, label := range labels {
		wanted.Add("label", label)
	}
	var listed []container.Summary
	reply, err := s.call(ctx, "list containers of", func(ctx context.Context) (err error) {
		listed, err = s.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
		for i := range listed {
			// The guard would refuse a call with it and report an internal error.
			if id := listed[i].ID; err == nil && (!validID.MatchString(id) || len(id) > maxID) {
				err = failure.Errorf(failure.Malformed, "%q is not a container id", failure.OneLine(id))
			}
		}
		return err
	})
	return listed, reply, err
}

// Inspect describes one container. It returns nil if the container does not exist.
func (s *Session) Inspect(ctx context.Context, id string) (*container.InspectResponse, Reply, error) {
	var d container.InspectResponse
	reply, err := s.call(ctx, "inspect container of", func(ctx context.Context) (err error) {
		d, err = s.docker.ContainerInspect(ctx, id)
		return err
	})
	switch {
	case err == nil:
		return &d, reply, nil
	case isNoContainer(err):
		return nil, reply, nil
	}
	return nil, reply, err
}

// stats returns the stats of one container, or nil if it is no longer running.
func (s *Session) stats(ctx context.Context, id string) (*container.StatsResponse, Reply, error) {
	var (
		d     container.StatsResponse
		empty bool // removed while the engine took the sample
	)
	reply, err := s.call(ctx, "measure container of", func(ctx context.Context) error {
		answer, err := s.docker.ContainerStatsOneShot(ctx, id)
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // only read
		err = json.NewDecoder(answer.Body).Decode(&d)
		if empty = err == io.EOF; empty { //nolint:errorlint // decoders return io.EOF unwrapped
			return nil
		}
		return err
	})
	switch {
	case isNoContainer(err) || err != nil && reply.Status == http.StatusConflict: // status 409: it is being removed
		return nil, reply, nil
	case err != nil:
		return nil, reply, err
	case empty || d.Read.IsZero():
		return nil, reply, nil
	}
	return &d, reply, nil
}

// Log calls read with a container's log. An error of read is explained like an error of the call.
func (s *Session) Log(ctx context.Context, id string, options container.LogsOptions, read func(io.Reader) error) error {
	_, err := s.call(ctx, "read log of a container of", func(ctx context.Context) error {
		log, err := s.docker.ContainerLogs(ctx, id, options)
		if err != nil {
			return err
		}
		defer log.Close() //nolint:errcheck // only read
		return read(log)
	})
	return err
}

// EventsTimeout bounds the wait until the engine begins to answer a request for events.
const EventsTimeout = 10 * time.Second

// Events opens a stream of these container events, and returns the client's channels once the engine has answered. Since is the
// start of the stream in the API's format; "" is now. Cancel ctx after use: it ends the stream, which else ends with an error on the
// second channel. That is then closed.
func (s *Session) Events(ctx context.Context, since string, actions []events.Action) (<-chan events.Message, <-chan error, error) {
	const doing = "follow events of"
	wanted := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)))
	for _, a := range actions {
		wanted.Add("event", string(a))
	}
	var met record
	streaming, end := context.WithCancel(context.WithValue(ctx, recordKey{}, &met))
	late := time.AfterFunc(EventsTimeout, end)
	messages, errs := s.docker.Events(streaming, events.ListOptions{Since: since, Filters: wanted})
	inTime := late.Stop()
	if inTime && met.Status == http.StatusOK {
		return messages, errs, nil
	}
	end()
	var err error
	for err = range errs { // the client's goroutine ends
		continue
	}
	if !inTime {
		return nil, nil, fmt.Errorf("%s %s: %w", doing, s.Host, context.DeadlineExceeded)
	}
	return nil, nil, s.explain(ctx, doing, false, cmp.Or(met.err, err))
}
