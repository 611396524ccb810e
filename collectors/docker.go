package collectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// docker lists the containers of an engine and inspects those it watches. The list alone says less than it should:
// its health is words for people.
type docker struct {
	settings  *Docker
	endpoint  dockerEndpoint
	limit     int64
	userAgent string
	log       *slog.Logger
	empty     bool // at the last reading no container was watched
}

func newDocker(s *Docker, d Deps) (Collector, error) {
	e, err := s.endpoint()
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	return &docker{settings: s, endpoint: e, limit: int64(d.Limits.MetricsBody), userAgent: d.UserAgent, log: d.Log}, nil
}

// Collect implements Collector.
func (c *docker) Collect(ctx context.Context, b *Batch) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.transport.CloseIdleConnections()
	if c.endpoint.tls {
		defer s.watch.keep(b)
	}
	if err := s.negotiate(ctx, b); err != nil {
		return err
	}
	listed, err := s.list(ctx, b)
	if err != nil {
		return err
	}
	watched := c.watched(listed)
	found, err := s.inspectAll(ctx, b, watched)
	if err != nil {
		return err
	}
	statuses, err := c.statuses(found)
	if err != nil {
		return err
	}
	for _, status := range statuses {
		status.write(b, c.settings.Label)
		if trouble := status.trouble(); trouble != "" {
			b.Note(trouble)
		}
	}
	for _, name := range c.settings.Names {
		plain := !strings.ContainsAny(name, `*?[\`)
		if plain && !slices.ContainsFunc(statuses, func(s containerStatus) bool { return s.name == name }) {
			b.Note(fmt.Sprintf("names has %s, and there is no such container", foreignText(name)))
		}
	}
	if empty := len(statuses) == 0; empty != c.empty {
		c.empty = empty
		if empty {
			c.log.Warn("no container is watched: look at projects, labels, names and exclude", "listed", len(listed))
		}
	}
	b.Note(fmt.Sprintf("%d of %d containers are watched", len(statuses), len(listed)))
	if !slices.ContainsFunc(statuses, func(s containerStatus) bool { return s.role == "xmpp" }) {
		b.Note("no container has the role xmpp, so the rules for the XMPP server's container watch none; name it under roles")
	}
	return nil
}

// watched are the listed containers to inspect. One with a temporary name may bear its lasting one a moment
// later, so it is judged once it is inspected.
func (c *docker) watched(listed []container.Summary) []container.Summary {
	var chosen []container.Summary
	for _, l := range listed {
		if name := ownName(l.Names); name == "" || c.settings.watches(lastingName(name), l.Labels) {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// statuses are what is told of the inspected containers. A name that a swap gave to two of them in the meantime counts
// once.
func (c *docker) statuses(found []*container.InspectResponse) ([]containerStatus, error) {
	var statuses []containerStatus
	seen := map[string]bool{}
	for _, f := range found {
		if f == nil {
			continue
		}
		s, err := statusOf(f, c.settings.Roles)
		if err != nil {
			return nil, err
		}
		if seen[s.name] || temporaryName.MatchString(s.name) || !c.settings.watches(s.name, f.Config.Labels) {
			continue
		}
		seen[s.name] = true
		statuses = append(statuses, s)
	}
	return statuses, nil
}

// dockerSession is a client for one reading, on connections of its own.
type dockerSession struct {
	*docker
	client    *client.Client
	transport *http.Transport
	watch     *certificateWatch
}

// dockerDialTimeout bounds a dial that nobody waits for any more.
const dockerDialTimeout = 10 * time.Second

func (c *docker) open() (*dockerSession, error) {
	dialer := &net.Dialer{Timeout: dockerDialTimeout, KeepAlive: -1}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, c.endpoint.network, c.endpoint.address)
		},
		MaxConnsPerHost:        c.settings.Parallelism,
		MaxIdleConnsPerHost:    c.settings.Parallelism,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
	scheme, host := "http", "unix://"+c.endpoint.address
	watch := &certificateWatch{trust: &c.settings.TLS, host: hostOf(c.endpoint.address)}
	if c.endpoint.network != "unix" {
		host = "tcp://" + c.endpoint.address
	}
	if c.endpoint.tls {
		tlsConfig, err := c.settings.clientTLS(watch)
		if err != nil {
			return nil, Failf(TLS, "reach %s: %w", c.settings.Host, err)
		}
		scheme, transport.TLSClientConfig = "https", tlsConfig
	}
	guarded := dockerRecorder{next: dockerGuard{next: transport}, limit: c.limit}
	// WithHost configures the client's own transport, so ours replaces it afterwards.
	cli, err := client.NewClientWithOpts(
		client.WithHost(host),
		client.WithHTTPClient(&http.Client{Transport: guarded, CheckRedirect: client.CheckRedirect}),
		client.WithScheme(scheme),
		client.WithUserAgent(c.userAgent),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, Failf(Internal, "make docker client for %s: %w", c.settings.Host, err)
	}
	return &dockerSession{docker: c, client: cli, transport: transport, watch: watch}, nil
}

// apiVersion is what an engine's header Api-Version holds.
var apiVersion = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

// negotiate agrees with the engine on a version of its API. The client would do so by itself, but go on with a version
// of its own when that fails.
func (s *dockerSession) negotiate(ctx context.Context, b *Batch) error {
	ctx, call := recorded(ctx)
	ping, err := s.client.Ping(ctx)
	b.HTTPStatus = call.status
	if err != nil {
		return s.failure(ctx, "ping", call, err)
	}
	if !apiVersion.MatchString(ping.APIVersion) {
		return Failf(Malformed, "ping %s: the answer names no version of the docker API", s.settings.Host).
			WithHint("something else than a Docker Engine listens there")
	}
	s.client.NegotiateAPIVersionPing(ping)
	return nil
}

// list lists all containers that the engine's own filters let through: running ones and others.
func (s *dockerSession) list(ctx context.Context, b *Batch) ([]container.Summary, error) {
	wanted := filters.NewArgs()
	for _, label := range s.settings.Labels {
		wanted.Add("label", label)
	}
	// The engine wants all of the labels that it is given, so it can look for one project only.
	if len(s.settings.Projects) == 1 {
		wanted.Add("label", composeProject+"="+s.settings.Projects[0])
	}
	ctx, call := recorded(ctx)
	listed, err := s.client.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
	b.HTTPStatus = call.status
	if err != nil {
		return nil, s.failure(ctx, "list containers of", call, err)
	}
	return listed, nil
}

// inspectAll inspects containers, some at once. One that is gone by now is nil. The first failure ends it, but that the
// engine stumbles over one container hides no other: of that one, the list's words are taken.
func (s *dockerSession) inspectAll(ctx context.Context, b *Batch, listed []container.Summary) ([]*container.InspectResponse, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		found    = make([]*container.InspectResponse, len(listed))
		wg       sync.WaitGroup
		next     atomic.Int64
		stumbles atomic.Int64
		panicked atomic.Pointer[string]
		status   atomic.Int64
	)
	for range min(s.settings.Parallelism, len(listed)) {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					text := fmt.Sprintf("%v\n%s", v, debug.Stack())
					panicked.Store(&text)
					cancel(errors.New("panic"))
				}
			}()
			for i := int(next.Add(1)) - 1; i < len(listed) && inner.Err() == nil; i = int(next.Add(1)) - 1 {
				c, call, err := s.inspect(inner, listed[i].ID)
				if err != nil && call.status >= http.StatusInternalServerError && inner.Err() == nil && int(stumbles.Add(1)) < len(listed) {
					c, err = fromSummary(&listed[i]), nil
				}
				if err != nil {
					if inner.Err() == nil {
						status.Store(int64(call.status))
					}
					cancel(err)
					return
				}
				found[i] = c
			}
		})
	}
	wg.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text) // where the caller of Collect contains it
	}
	if inner.Err() == nil {
		if n := stumbles.Load(); n > 0 {
			b.Note(fmt.Sprintf("the engine cannot describe %d of %d containers; what its list says of them is told", n, len(listed)))
		}
		return found, nil
	}
	if n := status.Load(); n != 0 {
		b.HTTPStatus = int(n)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspect containers of %s: %w", s.settings.Host, ctx.Err())
	}
	return nil, context.Cause(inner)
}

// inspect describes one container, or gives nil if it no longer exists.
func (s *dockerSession) inspect(ctx context.Context, id string) (*container.InspectResponse, *dockerCall, error) {
	ctx, call := recorded(ctx)
	c, err := s.client.ContainerInspect(ctx, id)
	if err == nil {
		return &c, call, nil
	}
	// Another 404 comes from something in between and means more than one container.
	if call.status == http.StatusNotFound && strings.Contains(strings.ToLower(err.Error()), "no such container") {
		return nil, call, nil
	}
	return nil, call, s.failure(ctx, "inspect container of", call, err)
}

// recorded returns a context whose call fills in the dockerCall beside it.
func recorded(ctx context.Context) (context.Context, *dockerCall) {
	call := &dockerCall{}
	return context.WithValue(ctx, dockerCallKey{}, call), call
}

// What to do about failures that an engine's users meet most.
const (
	hintNoSocket = "no Docker Engine listens on this socket: start it, or mount the socket into the exporter's container"
	hintSocket   = "this user may not open the socket: add it to the socket's group, docker in most cases (group_add in compose), or put a socket proxy that only reads in front and write its tcp:// address"
	hintProxy    = "a proxy in front of the engine refuses this call: let it pass GET on /_ping, /containers/json and /containers/{id}/json, which most call PING=1 and CONTAINERS=1"
	hintTLS      = "the engine speaks TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1"
)

// failure turns what the client says of a failed call into why it failed.
func (s *dockerSession) failure(ctx context.Context, doing string, call *dockerCall, err error) error {
	what := doing + " " + s.settings.Host
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case call.err != nil:
		return s.withHint(fmt.Errorf("%s: %w", what, call.err))
	case call.status >= http.StatusMultipleChoices:
		text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
		failed := Failf(statusReason(call.status), "%s: status %d: %s", what, call.status, foreignText(text))
		if strings.Contains(text, "<") {
			// A page of somebody in between, or of no engine at all, is not repeated.
			failed = Failf(statusReason(call.status), "%s: status %d, with an answer that is no engine's", what, call.status)
		}
		switch {
		case failed.Reason == Forbidden:
			return failed.WithHint(hintProxy)
		case call.status == http.StatusBadRequest && strings.Contains(text, "to an HTTPS server"):
			failed.Reason = TLS
			return failed.WithHint(hintTLS)
		}
		return failed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Failf(Closed, "%s: read answer: %w", what, err)
	default:
		return Failf(Malformed, "%s: read answer: %w", what, err)
	}
}

// withHint adds what to do about a socket.
func (s *dockerSession) withHint(err error) error {
	if is[*Error](err) || s.endpoint.network != "unix" {
		return err
	}
	switch reason := ReasonOf(err); reason {
	case Refused:
		return Failf(reason, "%w", err).WithHint(hintNoSocket)
	case Forbidden:
		return Failf(reason, "%w", err).WithHint(hintSocket)
	default:
		return err
	}
}
