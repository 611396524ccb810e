package collectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// docker watches the containers of an engine. Events tell of changes at once, and count restarts; a list at every reading
// is the truth, of which only what is new or doubtful is inspected. The list alone says less than it should: its health is
// words for people.
type docker struct {
	settings  *Docker
	endpoint  dockerEndpoint
	limit     int64
	userAgent string
	log       *slog.Logger
	state     State
	once      bool
	empty     bool // at the last reading no container was watched
	measuring chan dockerRound
	// looking is held while containers are described, so that an older description never comes after a newer one.
	looking chan struct{}
	// answered has Follow try again at once to open the stream of events.
	answered                 chan struct{}
	patience, quiet, lasting time.Duration // deafAfter, quietAfter, lastingStream

	following    atomic.Bool // while Follow runs
	readingFiles atomic.Bool // while files of containers are read
	usage        sync.Mutex  // guards groups
	// groups are where containers' groups were found last, nil while events are not followed.
	groups map[string]*cgroupGroup

	mu    sync.Mutex // guards what follows; nothing is asked while it is held
	fleet *fleet
	// unsure is true while everything is to be inspected: at the start, and after events may have been lost.
	unsure bool
	stream eventStream
	// rounds counts the readings that succeeded, measured is the last of them whose containers' resources are known, failed
	// the last one before a reading that failed.
	rounds, measured, failed int
	resources                map[string]runUsage
	// stats is how the last measurement ended, rest for how long the answers of the next one may be left alone.
	stats feature
	rest  time.Duration
	// hanging are the containers that the engine hangs at, by id, retried is when one of them was last inspected again.
	// answersAgain says that it answered about the last of them, stall when one is tried where it hangs at all.
	hanging      map[string]hang
	stall        hang
	retried      time.Time
	answersAgain bool
	// listed, beyond and misnamed are how many containers the last list had and left out, see selection.
	listed, beyond, misnamed int
	// touched says that there may be something else to keep than what was kept last.
	touched bool

	saving  sync.Mutex // guards saved, what was kept last, and unsaved, whether the last try has failed
	saved   []byte
	unsaved bool
}

// runUsage is what one run of a container used.
type runUsage struct {
	containerResources
	started time.Time
}

// feature is whether a part of the engine's API is at hand.
type feature struct {
	known bool
	err   error
}

func newDocker(s *Docker, d Deps) (Collector, error) {
	e, err := s.endpoint()
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c := &docker{
		settings: s, endpoint: e, limit: int64(d.Limits.MetricsBody), userAgent: d.UserAgent, log: d.Log, state: d.State, once: d.Once,
		measuring: make(chan dockerRound, 1), looking: make(chan struct{}, 1), answered: make(chan struct{}, 1),
		patience: deafAfter, quiet: quietAfter, lasting: lastingStream,
		fleet: newFleet(s), unsure: true, hanging: map[string]hang{},
	}
	c.fleet.served = d.Containers
	c.load()
	return c, nil
}

// Collect implements Collector. What it finds is told by Present.
func (c *docker) Collect(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if err != nil { // what was measured before is old by the time that the engine answers again
			c.locked(func() { c.resources, c.failed = nil, c.rounds })
			c.forgetGroups()
		}
	}()
	s, err := c.open(c.settings.Parallelism)
	if err != nil {
		return err
	}
	defer s.transport.CloseIdleConnections()
	if c.endpoint.tls {
		defer s.watch.Record(&b.Record)
	}
	if err := s.negotiate(ctx, b); err != nil {
		return err
	}
	early := c.measureEarly(ctx)
	defer early.cancel()
	listed, err := c.review(ctx, s, b)
	if err != nil {
		early.leave()
		return err
	}
	m := c.round()
	switch {
	case c.once:
		c.tryEvents(ctx, s)
		c.measure(ctx, m)
	case c.settings.Resources == resourcesCgroup:
		c.measureCgroups(ctx, m, early)
	default:
		c.askFor(m)
	}
	if !c.once {
		c.save()
		if !m.following {
			select {
			case c.answered <- struct{}{}:
			default:
			}
		}
	}
	c.tell(b, listed)
	return nil
}

// locked calls do with the lock, which it gives back whatever happens.
func (c *docker) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// claim waits until nobody else asks for descriptions, and returns what ends that.
func (c *docker) claim(ctx context.Context) (release func(), err error) {
	select {
	case c.looking <- struct{}{}:
		return func() { <-c.looking }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("describe containers of %s: %w", c.settings.Host, ctx.Err())
	}
}

// review brings the fleet up to the engine's list, and returns how many containers that has.
func (c *docker) review(ctx context.Context, s *dockerSession, b *Batch) (listed int, err error) {
	release, err := c.claim(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var (
		l             listing
		ahead, wanted []container.Summary
	)
	c.locked(func() {
		l.mark, l.following = c.fleet.mark, c.stream.open
		l.full = c.unsure || !l.following
		c.unsure = false
		// What was forgotten before the stream was opened is no fault of it.
		l.settling, c.stream.settling = c.stream.settling, false
		if !l.full {
			ahead = c.fleet.turnAhead(time.Now())
		}
	})
	defer func() {
		if err != nil {
			c.locked(func() { c.unsure = true })
		}
	}()
	looking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	early := s.inspectEarly(looking, ahead)
	l.all, l.made, err = s.list(ctx, b)
	if err != nil {
		giveUp()
		early()
		return 0, err
	}
	looked := early()
	l.chosen = c.watched(l.all)
	c.locked(func() {
		listed = c.listed
		c.forgetHangs(l.all)
		now := time.Now()
		if l.early, err = c.fleet.describedEarly(ahead, looked, l.mark, now); err != nil {
			return
		}
		wanted = c.fleet.listed(&l, now)
		for i, d := range looked {
			if d.stumbled {
				c.fleet.doubtMember(ahead[i].ID)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	found, err := s.inspectAll(ctx, b, wanted, len(l.chosen))
	if err != nil {
		return 0, err
	}
	for i := range found {
		if found[i].stumbled { // the list's words are better than none
			found[i].InspectResponse = fromSummary(&wanted[i])
		}
	}
	if err := c.describe(wanted, found, l.mark); err != nil {
		return 0, err
	}
	return listed, c.describeNew(ctx, s, b, wanted, l.mark)
}

// describeNew describes those again whom nobody knows yet, since an event has overtaken their description: the engine repeats
// the events of the last second when they are followed first. The reading would not know who has just been started.
func (c *docker) describeNew(ctx context.Context, s *dockerSession, b *Batch, wanted []container.Summary, mark uint64) error {
	var again []container.Summary
	c.locked(func() {
		for i := range wanted {
			if id := wanted[i].ID; c.fleet.member(id) == nil && c.fleet.newerThan(mark, id) {
				again = append(again, wanted[i])
			}
		}
		mark = c.fleet.mark
	})
	if len(again) == 0 {
		return nil
	}
	found, err := s.inspectAll(ctx, b, again, len(again)+1)
	if err != nil { // all others are known: the next reading finds these
		c.log.Debug("new containers were not inspected", "err", err)
		c.locked(func() { c.unsure = true })
		return nil
	}
	return c.describe(again, found, mark)
}

// describe takes in what inspections found, which began after the mark.
func (c *docker) describe(wanted []container.Summary, found []inspection, mark uint64) (err error) {
	c.locked(func() {
		c.touched = true
		now := time.Now()
		for i, d := range found {
			switch {
			case d.InspectResponse != nil:
				if err = c.fleet.described(d.InspectResponse, mark, d.made, now); err != nil {
					return
				}
			case d.stumbled:
				c.fleet.doubtMember(wanted[i].ID)
			case !c.fleet.newerThan(mark, wanted[i].ID):
				c.fleet.gone(wanted[i].ID, now)
			}
		}
		c.fleet.expect(now)
		c.fleet.tidy(now)
	})
	return err
}

// tell says what a person should know.
func (c *docker) tell(b *Batch, listed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	here, xmpp := 0, false
	for _, name := range slices.Sorted(maps.Keys(c.fleet.members)) {
		m := c.fleet.members[name]
		xmpp = xmpp || m.here && m.Role == "xmpp"
		switch {
		case m.here:
			here++
			if trouble := m.status.trouble(); trouble != "" {
				b.Note(trouble)
			}
		case c.fleet.missing(m, now):
			b.Note(name + " is missing")
		}
	}
	for _, name := range c.settings.Names {
		plain := !strings.ContainsAny(name, `*?[\`)
		if m := c.fleet.members[name]; plain && (m == nil || !m.here) {
			b.Note(fmt.Sprintf("names has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	for _, name := range c.settings.Expected {
		if m := c.fleet.members[name]; m == nil || !m.here && !c.fleet.missing(m, now) {
			b.Note(fmt.Sprintf("expected has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.settings.Roles)) {
		if c.fleet.members[name] == nil {
			b.Note(fmt.Sprintf("roles has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	if empty := here == 0; empty != c.empty {
		c.empty = empty
		if empty {
			c.log.Warn("no container is watched: look at projects, labels, names and exclude", "listed", listed)
		}
	}
	b.Note(fmt.Sprintf("%d of %d containers are watched", here, listed))
	c.tellLeftOut(b)
	if !xmpp {
		b.Note("no container has the role xmpp, so the rules for the XMPP server's container watch none; name it under roles")
	}
	// That nobody listens is disproved by the reading.
	if err := c.stream.err; err != nil && failure.ReasonOf(err) != failure.Refused && failure.ReasonOf(err) != failure.DNS {
		b.Note("changes are seen only when the engine is asked, since its events cannot be followed: " + withHintText(err))
	}
	if err := c.stats.err; err != nil {
		b.Note("memory, CPU and network of some containers are not known: " + withHintText(err))
	}
}

// withHintText is an error with what to do about it.
func withHintText(err error) string {
	if hint := failure.HintOf(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// watched are the listed containers that may be watched. One with a temporary name may bear its lasting one a moment
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

// dockerSession is a client for one reading, on connections of its own.
type dockerSession struct {
	*docker
	client    *client.Client
	transport *http.Transport
	watch     *exchange.CertificateWatch
	wire      *exchange.Wire
}

// dockerDialTimeout bounds a dial that nobody waits for any more.
const dockerDialTimeout = 10 * time.Second

// open makes a session that asks so much at once.
func (c *docker) open(parallelism int) (*dockerSession, error) {
	return c.session(&http.Transport{
		MaxConnsPerHost:        parallelism,
		MaxIdleConnsPerHost:    parallelism,
		MaxResponseHeaderBytes: exchange.MaxHeaderBytes,
		DisableCompression:     true,
	}, false)
}

// openSingle makes a session whose calls have a connection each, where that needs no handshake.
func (c *docker) openSingle(parallelism int) (*dockerSession, error) {
	if c.endpoint.tls {
		return c.open(parallelism)
	}
	return c.session(&http.Transport{}, true)
}

func (c *docker) session(transport *http.Transport, single bool) (*dockerSession, error) {
	seen := &exchange.Wire{AddressKey: "host"}
	if c.settings.wantsTLS() {
		seen.PlainHint = removeTLSKeys + " and write tcp:// in the host"
	}
	transport.DialContext = seen.Watch(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return exchange.DialWithin(ctx, dockerDialTimeout, c.endpoint.network, c.endpoint.address)
	})
	scheme, host := "http", "unix://"+c.endpoint.address
	watch := &exchange.CertificateWatch{Trust: &c.settings.TLS, Host: exchange.HostOf(c.endpoint.address)}
	if c.endpoint.network != "unix" {
		host = "tcp://" + c.endpoint.address
	}
	if c.endpoint.tls {
		tlsConfig, err := c.settings.clientTLS(watch)
		if err != nil {
			return nil, failure.Errorf(failure.TLS, "reach %s: %w", c.settings.Host, err)
		}
		scheme, transport.TLSClientConfig = "https", tlsConfig
	}
	var calls http.RoundTripper = transport
	if single {
		calls = singleCalls{transport.DialContext}
	}
	guarded := dockerRecorder{next: dockerGuard{next: calls}, limit: c.limit}
	// WithHost configures the client's own transport, so ours replaces it afterwards.
	caller := &http.Client{Transport: guarded, CheckRedirect: client.CheckRedirect}
	cli, err := client.NewClientWithOpts(
		client.WithHost(host),
		client.WithHTTPClient(caller),
		client.WithScheme(scheme),
		client.WithUserAgent(c.userAgent),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, failure.Errorf(failure.Internal, "make docker client for %s: %w", c.settings.Host, err)
	}
	// The client has put one around it that traces each call for nobody, at two fifths of what sending it costs.
	caller.Transport = guarded
	return &dockerSession{docker: c, client: cli, transport: transport, watch: watch, wire: seen}, nil
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
		return failure.Errorf(failure.Malformed, "ping %s: the answer names no version of the docker API", s.settings.Host).
			WithHint("something else than a Docker Engine listens there")
	}
	s.client.NegotiateAPIVersionPing(ping)
	s.begin(call.date)
	return nil
}

// list chooses among all containers that the engine's own filters let through, running ones and others, and tells when the
// list was made.
func (s *dockerSession) list(ctx context.Context, b *Batch) (listed []container.Summary, made clockSpan, err error) {
	wanted := filters.NewArgs()
	for _, label := range s.settings.Labels {
		wanted.Add("label", label)
	}
	// The engine wants all of the labels that it is given, so it can look for one project only.
	if len(s.settings.Projects) == 1 {
		wanted.Add("label", composeProject+"="+s.settings.Projects[0])
	}
	ctx, call := recorded(ctx)
	chosen := selection{settings: s.settings}
	s.locked(func() { chosen.served, chosen.known = s.fleet.served, s.fleet.knownIDs() })
	call.into = &chosen
	asked := time.Now()
	_, err = s.client.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
	b.HTTPStatus = call.status
	if err != nil {
		return nil, clockSpan{}, s.failure(ctx, "list containers of", call, err)
	}
	if !call.date.IsZero() {
		// The engine's clock is told to the second, and read when the list is ready.
		made = clockSpan{from: call.date.Add(-time.Since(asked)), to: call.date.Add(time.Second)}
	}
	listed = chosen.containers()
	s.locked(func() { s.leftOut(&chosen) })
	return listed, made, nil
}

// listedContainer is the part of a container in a list that is used.
type listedContainer struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	Created int64
	Labels  map[string]string
	State   string
	Status  string
}

// inspection is what became of the inspection of a container: it is nil where the container is gone, or where the engine
// has stumbled over it.
type inspection struct {
	*container.InspectResponse
	stumbled bool
	// made is when it was made by the engine's clock, at the earliest; zero where that does not tell.
	made time.Time
}

// inspectAll inspects containers, some at once. The first failure ends it, but that the engine stumbles over one container,
// or hangs at it, hides no other, unless it does so with all of so many.
func (s *dockerSession) inspectAll(ctx context.Context, b *Batch, listed []container.Summary, all int) ([]inspection, error) {
	var (
		found    = make([]inspection, len(listed))
		stumbles atomic.Int64
		status   atomic.Int64
		patience = s.settings.Timeout.Std() / inspectShare
	)
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(max(patience, time.Second), time.Until(deadline)/inspectShare)
	}
	if len(listed) >= all {
		s.tryStalled(listed, time.Now())
	}
	err := inParallel(ctx, len(listed), s.settings.Parallelism, func(inner context.Context, i int) error {
		one, cancel := context.WithTimeout(inner, patience)
		defer cancel()
		asked := time.Now()
		if !s.mayInspect(listed[i].ID, asked) {
			if int(stumbles.Add(1)) < max(all, 2) {
				found[i].stumbled = true
				return nil
			}
			return failure.Errorf(failure.Timeout, "inspect containers of %s: the engine answers about none of them", s.settings.Host)
		}
		d, call, err := s.inspect(one, listed[i].ID)
		hung := one.Err() != nil && inner.Err() == nil
		if err == nil || inner.Err() == nil {
			s.inspected(listed[i].ID, err != nil && hung, time.Now())
		}
		stumbled := call.status >= http.StatusInternalServerError || hung || err != nil && failure.ReasonOf(err) == failure.TooLarge
		if err != nil && stumbled && inner.Err() == nil && int(stumbles.Add(1)) < max(all, 2) {
			found[i].stumbled = true
			return nil
		}
		if err != nil && inner.Err() == nil {
			status.Store(int64(call.status))
		}
		if d != nil {
			s.settings.shorten(d)
		}
		found[i].InspectResponse = d
		if !call.date.IsZero() {
			found[i].made = call.date.Add(-time.Since(asked))
		}
		return err
	})
	if err == nil {
		if n := stumbles.Load(); n > 0 {
			b.Impair(fmt.Sprintf("the engine cannot describe %d of %d containers", n, all))
			b.Note(fmt.Sprintf("the engine cannot describe %d of %d containers; what its list says of them is told", n, all))
		}
		return found, nil
	}
	if n := status.Load(); n != 0 {
		b.HTTPStatus = int(n)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspect containers of %s: %w", s.settings.Host, ctx.Err())
	}
	return nil, err
}

// inspectEarly inspects containers while something else is asked, and returns what waits for what it found: nothing where that
// failed as a whole, so that they are inspected later.
func (s *dockerSession) inspectEarly(ctx context.Context, wanted []container.Summary) (wait func() []inspection) {
	if len(wanted) == 0 {
		return func() []inspection { return nil }
	}
	found := make(chan []inspection, 1)
	go func() {
		defer close(found)
		defer func() {
			if r := recover(); r != nil { // nobody else contains it here
				s.log.Error("inspecting containers panicked", "panic", fmt.Sprint(r))
			}
		}()
		if looked, err := s.inspectAll(ctx, &Batch{}, wanted, len(wanted)+1); err == nil {
			found <- looked
		}
	}()
	return func() []inspection { return <-found }
}

// inspectShare is the part of the time that is left which one inspection may take.
const inspectShare = 4

// inspect describes one container, or gives nil if it no longer exists.
func (s *dockerSession) inspect(ctx context.Context, id string) (*container.InspectResponse, *dockerCall, error) {
	ctx, call := recorded(ctx)
	call.most = maxInspection
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
	hintEvents   = "the engine, or a proxy in front of it, cuts GET /events again and again: look at the proxy's idle timeout and at the engine's log"
	hintNoSocket = "no Docker Engine listens on this socket: start it, or mount the socket into the exporter's container"
	hintSocket   = "this user may not open the socket: add it to the socket's group, docker in most cases (group_add in compose), or put a socket proxy that only reads in front and write its tcp:// address"
	hintProxy    = "a proxy in front of the engine refuses this call: let it pass GET on /_ping, /events, /containers/json, /containers/{id}/json and /containers/{id}/stats, which most call PING=1, EVENTS=1 and CONTAINERS=1"
	hintTLS      = "the engine speaks TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1"

	hintClientCertificate = "the engine wants a certificate of its clients: set cert_file and key_file, or DOCKER_CERT_PATH with DOCKER_TLS_VERIFY=1"
	hintClientAuthority   = "the engine refuses the certificate in cert_file: use one that the engine's own authority (its tlscacert) has signed for clients and that has not expired, with its key in key_file"
)

// failure turns what the client says of a failed call into why it failed.
func (s *dockerSession) failure(ctx context.Context, doing string, call *dockerCall, err error) error {
	what := doing + " " + s.settings.Host
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, s.wire.Explain(ctx.Err()))
	case call.err != nil && s.wire.MetTLS():
		return failure.Errorf(failure.TLS, "%s: %w", what, s.wire.Explain(call.err)).WithHint(hintTLS)
	case call.err != nil:
		return s.withHint(fmt.Errorf("%s: %w", what, s.wire.Explain(call.err)))
	case call.status >= http.StatusMultipleChoices:
		text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
		failed := failure.Errorf(failure.ReasonOfStatus(call.status), "%s: status %d: %s", what, call.status, failure.OneLine(text))
		if strings.Contains(text, "<") {
			// A page of somebody in between, or of no engine at all, is not repeated.
			failed = failure.Errorf(failure.ReasonOfStatus(call.status), "%s: status %d, with an answer that is no engine's", what, call.status)
		}
		switch {
		case failed.Reason == failure.Forbidden:
			return failed.WithHint(hintProxy)
		case exchange.WantsTLS(call.status, []byte(text)):
			failed.Reason = failure.TLS
			return failed.WithHint(hintTLS)
		}
		return failed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failure.Errorf(failure.Closed, "%s: read answer: %w", what, err)
	default:
		return failure.Errorf(failure.Malformed, "%s: read answer: %w", what, err)
	}
}

// withHint adds what to do about a socket, or about the client's certificate.
func (s *dockerSession) withHint(err error) error {
	unix, reason, hint := s.endpoint.network == "unix", failure.ReasonOf(err), ""
	switch {
	case reason == failure.TLS && s.endpoint.tls && exchange.RefusesClient(err):
		hint = hintClientCertificate
		if s.settings.CertFile != "" {
			hint = hintClientAuthority
		}
	case failure.HasType[*failure.Error](err):
	case unix && reason == failure.Refused:
		hint = hintNoSocket
	case unix && reason == failure.Forbidden:
		hint = hintSocket
	}
	if hint == "" {
		return err
	}
	return failure.Errorf(reason, "%w", err).WithHint(hint)
}
