// Package app builds the exporter from its configuration and runs it. It does everything that main would do, so that tests can.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/heartbeat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// Options is what main knows from flags and the environment.
type Options struct {
	// ConfigFile is the path of exporter.yaml; "" means the environment alone.
	ConfigFile string
	// Lookup finds an environment variable, as os.LookupEnv does.
	Lookup func(string) (string, bool)
	// Environ lists all environment variables, as os.Environ does, to find mistakes in their names; nil skips that.
	Environ func() []string
	// DockerSocket is the Docker Engine's default socket: without a file, an engine there counts as configured; "" is none.
	DockerSocket string
	// MountInfo is the file that shows which container the exporter runs in, /proc/self/mountinfo; "" is none.
	MountInfo string
	// RuntimeDirectory is the directory of the socket for commands; "" means no socket. See RuntimeDirectory.
	RuntimeDirectory string
	// OtherRuntimeDirectories are those in which a command also looks for the socket. See OtherRuntimeDirectories.
	OtherRuntimeDirectories []string
	// Interval and Timeout, unless zero, override the configuration.
	Interval, Timeout time.Duration
	// Web has the listen addresses, and the file with TLS and authentication.
	Web *toolkit.FlagConfig
	Log *slog.Logger
	// CheckWrites lets Check send messages over a bridge.
	CheckWrites bool
	// Waiting shows the names of the targets that Check still waits for, every second once it takes long; nil shows nothing.
	Waiting func(targets []string)
	// EnableLifecycle allows changes over HTTP: POST /-/reload, to set and end maintenance, and to forget containers.
	EnableLifecycle bool
	ServiceManager
	// WithoutSecrets does not read the files of secrets. The result can be validated but not run.
	WithoutSecrets bool

	configContent []byte // read instead of ConfigFile
	switchboard   string // the URL of the demo's switchboard, for a link on the status page
	// Listen replaces net.Listen in tests with their own network; nil otherwise.
	Listen func(network, address string) (net.Listener, error)
	// pace sets a target's interval and, unless 0, its timeout. Tests probe more often than a configuration allows.
	pace func(target string) (every, timeout time.Duration)
}

// ServiceManager is the service manager that started the exporter, such as systemd.
type ServiceManager struct {
	// Notify reports the exporter's state to it, in assignments such as READY=1; nil without a service manager.
	Notify func(state string) error
	// Watchdog is how long it waits for a sign of life before it restarts the exporter; 0 means forever.
	Watchdog time.Duration
}

// App is an exporter. It listens from New on, but neither probes nor answers before Run.
type App struct {
	options Options
	// id is unique to this process.
	id          string
	log         *slog.Logger
	own         *ownMetrics
	state       *state.File
	maintenance *maintenance.Register
	drill       drillSwitch
	past        *past
	judge       *judge
	notifier    *notify.Notifier
	logins      *pacing.Logins
	recorder    *status.Recorder
	server      *http.Server
	listeners   []net.Listener
	public      publicServer
	local       *localServer
	reloads     chan reload
	manager     *serviceManager
	// started is when the exporter has seen for itself how its targets are.
	started time.Time
	// pageLimit is the largest metrics page that fits the memory limit of the process; 0 if no limit applies.
	pageLimit config.Bytes

	current     atomic.Pointer[generation]
	reloadError atomic.Pointer[error]
}

// generation is a configuration with its poller.
type generation struct {
	cfg       *config.Config
	poller    *poll.Poller
	heartbeat *heartbeat.Heartbeat // nil for none
}

// LoadConfig loads the configuration that the options name.
func LoadConfig(o Options) (*config.Config, error) {
	return config.Load(config.Source{
		File:           o.ConfigFile,
		Content:        o.configContent,
		Lookup:         o.Lookup,
		Environ:        o.Environ,
		Kinds:          o.configKinds(),
		Alerts:         alerts.Kinds(),
		Interval:       o.Interval,
		Timeout:        o.Timeout,
		WithoutSecrets: o.WithoutSecrets,
		CheckURL: func(receiver *config.Notify) error {
			_, err := senderOf(receiver)
			return err
		},
		HostOf: func(url string) string {
			r, err := service.Parse(url, service.Options{})
			if err != nil {
				return ""
			}
			return r.Host()
		},
	})
}

// configKinds returns the table of kinds. Without a configuration file, the Docker Engine's default socket counts as configured.
func (o Options) configKinds() []config.Kind {
	kinds := collectors.ConfigKinds()
	if o.ConfigFile != "" || o.DockerSocket == "" {
		return kinds
	}
	for i, k := range kinds {
		kinds[i].Defaults = func() config.Settings {
			s := k.Defaults()
			if d, ok := s.(*collectors.Docker); ok {
				d.UseDefaultSocket(o.DockerSocket)
			}
			return s
		}
	}
	return kinds
}

// New validates the configuration, makes the collectors and binds the listeners. On an error, it releases everything.
func New(o Options) (_ *App, err error) {
	cfg, err := LoadConfig(o)
	if err != nil {
		return nil, err
	}
	if o.Web.WebConfigFile != nil {
		if err := checkWebConfig(*o.Web.WebConfigFile); err != nil {
			return nil, err
		}
	}
	a := &App{
		options: o,
		log:     o.Log,
		own:     newOwnMetrics(),
		id:      newID(),
		logins:  pacing.NewLogins(),
		reloads: make(chan reload),
		manager: &serviceManager{notify: o.Notify, watchdog: o.Watchdog, log: o.Log},
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.listen(o.Web); err != nil {
		return nil, err
	}
	if err := a.openPublic(&cfg.Public); err != nil {
		return nil, err
	}
	a.logConfigFile()
	var notice string
	a.past = newPast(a.log)
	if a.state, notice, err = state.Open(cfg.StateFile, a.log, a.past); err != nil {
		return nil, err
	}
	a.own.keepsState(a.state)
	a.past.begin(a.state)
	if notice != "" {
		a.log.Warn("the state file has a problem", "problem", notice)
	}
	if a.maintenance, err = maintenance.New(a.state.Value("maintenance"), a.log); err != nil {
		a.log.Error("saved maintenance is lost", "err", err)
	}
	a.drill.log, a.drill.changed = a.log, func() { a.current.Load().poller.Refresh() }
	a.judge = newJudge(alerts.Rules(&cfg.Alerts), a.maintenance, a.state, a.past, a.log)
	starting := alerts.StartingTime(&cfg.Alerts)
	if notice == "" && a.judge.remembers && a.past.isRecent(starting) {
		starting = 0 // what was before is on its first page
	}
	a.started = time.Now().Add(starting)
	a.notifier = notify.New(a.state.Group("notify"), a.state.Flush, a.log)
	a.own.registry.MustRegister(a.maintenance, &a.drill, startingMetric(starting), notifications{a.notifier})
	if err := a.adopt(cfg); err != nil {
		return nil, err
	}
	a.recorder = status.NewRecorder(version.Version, a.statusInput)
	a.past.recorder = a.recorder
	stopping := make(chan struct{})
	handler := web.New(a, web.Options{
		Version:     version.Version,
		Documents:   config.Documents(version.Version),
		Lifecycle:   o.EnableLifecycle,
		Users:       o.webUsers,
		Log:         o.Log,
		Stopping:    stopping,
		Switchboard: o.switchboard,
		ExternalURL: func() string { return a.current.Load().cfg.Web.ExternalURL },
		Scraped:     func(who string, at time.Time) { a.current.Load().poller.Scraped(who, at) },
	})
	a.server = &http.Server{
		Handler: handler,
		// A client that stalls must not keep a connection forever, even one without a password.
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 30 * time.Second,
		// One client may have half of all connections, and its headers must fit into the memory limits of deploy/.
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		// A client that scrapes every minute keeps its connection.
		IdleTimeout: 75 * time.Second,
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	ownConnections(o.Log).limit(a.server)
	a.server.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	if a.local, err = newLocalServer(handler, o, a.listeners); err != nil {
		a.log.Warn("no socket for commands: healthcheck cannot check the poll loop if the port requires a password or a certificate, and "+
			"ack requires --url", "err", err)
	}
	return a, nil
}

// logConfigFile logs which configuration file is used, so that an operator notices a file in the wrong place.
func (a *App) logConfigFile() {
	switch {
	case a.options.configContent != nil:
	case a.options.ConfigFile == "":
		a.log.Info("no configuration file, using environment variables only", "looked_for", absolute(DefaultConfigFile))
	default:
		a.log.Info("using configuration file", "file", absolute(a.options.ConfigFile))
	}
}

// adopt replaces the current generation, whose poller must have ended, by one for a valid configuration. On an error, the current
// one stays.
func (a *App) adopt(cfg *config.Config) error {
	old := a.current.Load()
	a.fitMemory(cfg)
	receivers, err := receiversOf(cfg)
	if err != nil {
		return err
	}
	targets, err := a.targets(cfg, old)
	if err != nil {
		return err
	}
	a.own.describe(cfg)
	a.maintenance.Configure(cfg.Maintenance)
	a.judge.configure(cfg)
	var previous *poll.Poller
	if old != nil {
		previous = old.poller
	}
	poller, err := poll.New(targets, a.own, a.judge, a.log, previous)
	if err != nil {
		return err
	}
	a.notifier.Join(a.pairOf(cfg), time.Now())
	a.notifier.Configure(receivers, siteOf(cfg), func(alert string) (warning, critical health.Limit) {
		return alerts.Limits(&cfg.Alerts, alert)
	}, time.Now())
	poller.Notify(func() { a.recorder.Wake() })
	a.current.Store(&generation{cfg, poller, heartbeatOf(cfg, poller, a.log)})
	for _, t := range targets {
		if !t.Same {
			a.log.Info("target is configured", "target", t.Name, "kind", t.Kind.Name)
		}
	}
	if len(cfg.Unconfigured) > 0 {
		a.log.Info("targets are not configured and not polled", "targets", cfg.Unconfigured)
	}
	if lost := forgets(cfg); lost != "" && old == nil {
		a.log.Info("no state_file is configured, so a restart of the exporter forgets some things", "forgets", lost)
	}
	if len(cfg.LeftToFirst) > 0 {
		a.log.Info("pair: other leaves targets to the first exporter; this one does not poll them", "targets", cfg.LeftToFirst.Names())
	}
	if asks := whomItAsks(cfg); asks != "" {
		a.log.Info("the peers are asked", "how", "this exporter "+asks)
	}
	for _, o := range cfg.Overridden {
		a.log.Info("environment variable overrides the file", "variable", o.Variable, "key", o.Key, "line", o.Where)
	}
	for _, w := range Warnings(cfg) {
		a.log.Warn("likely mistake in the configuration", "target", w.Target, "warning", w.Text)
	}
	return nil
}

// targets makes the targets of a configuration. A target that has not changed since old is marked as the Same.
func (a *App) targets(cfg *config.Config, old *generation) ([]poll.Target, error) {
	targets := make([]poll.Target, 0, len(cfg.Targets))
	for _, settings := range cfg.Targets {
		t, err := a.options.newTarget(a.limitsOf(cfg, settings), settings, a.state, a.log, a.logins)
		if err != nil {
			return nil, err
		}
		if a.options.pace != nil {
			every, timeout := a.options.pace(t.Name)
			t.Schedule = cron.ConstantDelaySchedule{Delay: every}
			t.Timeout, t.Pace.Address = cmp.Or(timeout, t.Timeout), ""
		}
		t.Same = old != nil && old.cfg.Limits == cfg.Limits && reportsModules(old.cfg) == reportsModules(cfg) &&
			slices.ContainsFunc(old.cfg.Targets, func(s config.Settings) bool {
				return reflect.DeepEqual(s, settings)
			}) && (!t.Kind.Engine || reflect.DeepEqual(serversOf(old.cfg), serversOf(cfg))) &&
			(!t.Kind.ServesPage || old.cfg.Secrets.Equal(cfg.Secrets))
		targets = append(targets, t)
	}
	return targets, nil
}

// reportsModules reports whether a target reports the states of the XMPP server's modules.
func reportsModules(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Targets, func(s config.Settings) bool { return rowOf(s).ServesModules })
}

// servers are the containers and services that targets have configured.
type servers struct{ containers, services []string }

func serversOf(cfg *config.Config) (s servers) {
	for _, settings := range cfg.Targets {
		switch t := settings.Common(); {
		case t.Container != "":
			s.containers = append(s.containers, t.Container)
		case t.Service != "":
			s.services = append(s.services, t.Service)
		}
	}
	return s
}

// newTarget makes a target from valid settings. Without logins, it will be read only once, and its credential is sent at once.
func (o *Options) newTarget(
	cfg *config.Config, settings config.Settings, file *state.File, log *slog.Logger, logins *pacing.Logins,
) (poll.Target, error) {
	common := settings.Common()
	kind, ok := collectors.KindOf(common.Kind)
	if !ok {
		return poll.Target{}, fmt.Errorf("target %s: unknown kind %q", common.Name, common.Kind)
	}
	saved := file.Value(common.Kind + "/" + common.Name)
	if kind.Engine {
		saved = saved.Written() // its counts change often, and a power cut may cost the last second of them
	}
	named := serversOf(cfg)
	collector, err := kind.New(settings, collectors.Deps{
		Limits:       cfg.Limits,
		Log:          log.With("target", common.Name),
		State:        saved,
		UserAgent:    "chatstack_exporter/" + version.Version,
		Once:         logins == nil,
		ReadOnly:     logins == nil && !o.CheckWrites,
		Logins:       logins,
		ModuleStatus: reportsModules(cfg),
		Containers:   named.containers,
		Services:     named.services,
		MountInfo:    o.MountInfo,
		Secrets:      cfg.Secrets,
	})
	if err != nil {
		return poll.Target{}, fmt.Errorf("target %s: %w", common.Name, err)
	}
	schedule, err := config.ParseSchedule(common.Schedule)
	if err != nil {
		return poll.Target{}, fmt.Errorf("target %s: %w", common.Name, err)
	}
	dockerHost := ""
	if d, ok := settings.(*collectors.Docker); ok {
		dockerHost = d.Label
	}
	return poll.Target{
		DockerHost:    dockerHost,
		Name:          common.Name,
		Kind:          kind.Row,
		HostName:      settings.HostName(),
		Place:         placeOf(settings),
		Container:     common.Container,
		Service:       common.Service,
		ContainerHost: common.ContainerHost,
		ChatServer:    serverOf(common, &kind.Row),
		WarnOnly:      !common.Page,
		Slow:          common.SlowProbe(&kind.Row).Std(),
		Pace:          paceOf(settings, logins),
		Collector:     collector,
		Addresses:     collectors.AddressesOf(settings),
		Schedule:      schedule,
		Timeout:       common.Timeout.Std(),
		Redact:        config.Redactor(settings),
	}, nil
}

// serverOf returns the server that a target is part of; "" if that depends on the container that serves it, or may not.
func serverOf(t *config.Target, kind *config.Row) string {
	server := cmp.Or(t.ChatServer, kind.Role.ChatServer())
	if server == "" && kind.Local {
		return t.Name
	}
	return server
}

// placeOf identifies what a target is about, whatever its name. A URL may have a secret in its query, so it is a hash.
func placeOf(settings config.Settings) string {
	return hashOf(settings.Common().Kind + " " + settings.Place())
}

func hashOf(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text)) //nolint:gosec // a hash takes everything
	return fmt.Sprintf("%016x", h.Sum64())
}

// paceOf returns what decides whether a target waits on purpose.
func paceOf(settings config.Settings, logins *pacing.Logins) (p poll.Pace) {
	paced, ok := settings.(collectors.Paced)
	if !ok {
		return p
	}
	given := paced.Pacing()
	p.Gate = logins.Gate(given.Credential)
	for _, c := range given.Sessions {
		p.Sessions = append(p.Sessions, logins.Gate(c))
	}
	if given.Address != "" && !settings.Common().OwnSchedule {
		p.Address = exchange.CanonicalAddress(given.Address)
	}
	return p
}

// Probe implements web.Source.
func (a *App) Probe(target string) error { return a.current.Load().poller.Probe(target) }

// Snapshot implements web.Source.
func (a *App) Snapshot() *poll.Snapshot { return a.current.Load().poller.Snapshot() }

// Page returns the metrics page; see poll.Poller.Page.
func (a *App) Page(h http.Header) poll.Page { return a.current.Load().poller.Page(h) }

// Ready implements web.Source.
func (a *App) Ready() bool { return a.current.Load().poller.Ready() }

// Alive implements web.Source.
func (a *App) Alive() error { return a.current.Load().poller.Alive() }

// History implements web.Source.
func (a *App) History(target string) (poll.History, bool) {
	return a.current.Load().poller.History(target)
}

// ReloadError implements web.Source.
func (a *App) ReloadError() error {
	err := a.reloadError.Load()
	switch {
	case err == nil || *err == nil:
		return nil
	case errors.Is(*err, errStateFile), errors.Is(*err, errPublic):
		return *err
	}
	if faults, ok := errors.AsType[config.Faults](*err); ok {
		return fmt.Errorf("%s\n%s", faults.Places(), whereFaults)
	}
	return fmt.Errorf("the configuration cannot be read\n%s", whereFaults)
}

// errStateFile is why a configuration with another state file is not applied.
var errStateFile = errors.New("changing state_file requires a restart")

// whereFaults says where somebody who may read the configuration finds the faults.
const whereFaults = "see the log, or run chatstack_exporter check-config, for details"

// Peers implements web.Source.
func (a *App) Peers() []config.Peers { return a.current.Load().cfg.Peers }

func (a *App) listen(flags *toolkit.FlagConfig) error {
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		return nil // the toolkit takes the sockets that systemd hands over
	}
	for _, address := range *flags.WebListenAddresses {
		l, err := a.bind(address, "--web.listen-address")
		if err != nil {
			return err
		}
		a.listeners = append(a.listeners, l)
	}
	return nil
}

func listenHint(err error, key string) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process listens there: stop it, or choose another address with " + key
	case errors.Is(err, os.ErrPermission):
		return "this user may not listen there: choose a port above 1023 with " + key
	default:
		return "choose an address of this host with " + key
	}
}

// Addresses returns the addresses that the exporter listens on.
func (a *App) Addresses() []net.Addr {
	addresses := make([]net.Addr, len(a.listeners))
	for i, l := range a.listeners {
		addresses[i] = l.Addr()
	}
	return addresses
}

// Run polls and serves until ctx is done, or until serving fails. It returns within five seconds after ctx is done: until then, probes
// can finish and requests are answered.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	served := make(chan error, 1)
	go func() { served <- a.serve() }()
	go a.local.serve()
	stopPolling := a.poll(ctx)
	beside, stopBeside := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { a.maintenance.Run(beside, func() { a.current.Load().poller.Refresh() }) })
	others.Go(func() { a.recorder.Run(beside) })
	others.Go(func() { a.notifier.Run(beside, a.notifyView) })
	others.Go(func() { a.public.run(a.log) })
	// New has bound the listeners and made a page, so services that start after this one get an answer.
	a.manager.ready("serving; the first probes are running")
	others.Go(func() {
		a.manager.keepAlive(beside, a.Alive, func() string { return summarize(a.Snapshot().Statuses) })
	})
	if path := a.options.Web.WebConfigFile; path != nil && *path != "" {
		others.Go(func() { watchWebConfig(beside, *path, a.log) })
	}
	others.Go(func() { a.watchSecretFiles(beside) })
	defer others.Wait()
	defer stopBeside()

	var err error
	for running := true; running; {
		select {
		case err = <-served:
			running = false
		case <-ctx.Done():
			a.log.Info("stopping", "cause", context.Cause(ctx))
			running = false
		case r := <-a.reloads:
			var reloadErr error
			stopPolling, reloadErr = r.apply(ctx, stopPolling)
			r.done <- reloadErr
		}
	}
	a.manager.stopping()
	stopPolling()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	a.public.close(stopping)
	if shutdownErr := a.server.Shutdown(stopping); shutdownErr != nil {
		a.server.Close() //nolint:errcheck,gosec // the remaining clients had their chance
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// poll runs the current generation's poller. The returned function stops the poller and waits for its end.
func (a *App) poll(ctx context.Context) (stop func()) {
	polling, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	g := a.current.Load()
	go func() {
		defer close(ended)
		var beside sync.WaitGroup
		if g.heartbeat != nil {
			beside.Go(func() { g.heartbeat.Run(polling) })
		}
		beside.Go(func() { a.askPeers(polling, g.cfg) })
		g.poller.Run(polling)
		beside.Wait()
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (a *App) serve() error {
	if len(a.listeners) == 0 {
		return toolkit.ListenAndServe(a.server, a.options.Web, a.log)
	}
	return toolkit.ServeMultiple(a.listeners, a.server, a.options.Web, a.log)
}

// close releases what New has acquired.
func (a *App) close() {
	a.local.close()
	a.drill.close()
	if a.state != nil {
		if err := a.state.Close(); err != nil {
			a.log.Error("close state file", "err", err)
		}
	}
	if a.public.listener != nil {
		a.public.listener.Close() //nolint:errcheck,gosec // the server may have closed it already
	}
	for _, l := range a.listeners {
		l.Close() //nolint:errcheck,gosec // the server may have closed it already
	}
}
