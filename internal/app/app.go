// Package app builds the exporter of its configuration and runs it: everything that main would do, so that it can be
// tested.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
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
	// Environ lists all environment variables, as os.Environ does; nil is none to look for mistakes in.
	Environ func() []string
	// DockerSocket is the Docker Engine's default socket: without a file, an engine there counts as configured; "" is none.
	DockerSocket string
	// MountInfo is the file that tells in which container the exporter runs, /proc/self/mountinfo; "" is none.
	MountInfo string
	// RuntimeDirectory is where the socket lies that healthcheck asks; "" is without one. See RuntimeDirectory.
	RuntimeDirectory string
	// Interval and Timeout, where not zero, outweigh the configuration's.
	Interval, Timeout time.Duration
	// Web says where to listen, and with which TLS and authentication.
	Web *toolkit.FlagConfig
	Log *slog.Logger
	// EnableLifecycle allows changes over HTTP: POST /-/reload, switches of maintenance, and containers to be forgotten.
	EnableLifecycle bool
	ServiceManager
	// WithoutSecrets takes the files of secrets as given. What is loaded so can be validated, and not run.
	WithoutSecrets bool

	configContent []byte // read instead of ConfigFile
	// Listen replaces net.Listen in tests with a network of their own; nil for all others.
	Listen func(network, address string) (net.Listener, error)
	// pace is how often a target of that name is asked, since tests ask more often than a configuration can say, and for
	// how long, where that is not 0.
	pace func(target string) (every, timeout time.Duration)
}

// ServiceManager is what started the exporter, such as systemd.
type ServiceManager struct {
	// Notify, where not nil, tells it of the exporter's state, in assignments such as READY=1.
	Notify func(state string) error
	// Watchdog is how long it waits for a sign of life before it starts the exporter anew; 0 is for ever.
	Watchdog time.Duration
}

// App is an exporter that listens, but asks and answers nobody before Run.
type App struct {
	options     Options
	log         *slog.Logger
	own         *ownMetrics
	state       *state.File
	maintenance *maintenance.Register
	judge       *judge
	recorder    *status.Recorder
	server      *http.Server
	listeners   []net.Listener
	health      *healthServer
	reloads     chan chan error
	manager     *serviceManager
	// pageLimit is how large a metrics page may be for the memory limit that the process is under; 0 is without one.
	pageLimit config.Bytes

	current     atomic.Pointer[generation]
	reloadError atomic.Pointer[error]
}

// generation is what one configuration made.
type generation struct {
	cfg    *config.Config
	poller *poll.Poller
}

// LoadConfig reads the configuration that the options name.
func LoadConfig(o Options) (*config.Config, error) {
	return config.Load(config.Source{
		File: o.ConfigFile, Content: o.configContent, Lookup: o.Lookup, Environ: o.Environ, Kinds: o.configKinds(), Interval: o.Interval, Timeout: o.Timeout,
		WithoutSecrets: o.WithoutSecrets,
	})
}

// socketDefaulter is implemented by settings for which the Docker Engine's default socket can count as configured.
type socketDefaulter interface {
	UseDefaultSocket(path string)
}

// configKinds is the table of kinds; without a file, the Docker Engine's default socket counts as configured.
func (o Options) configKinds() []config.Kind {
	kinds := collectors.ConfigKinds()
	if o.ConfigFile != "" || o.DockerSocket == "" {
		return kinds
	}
	for i, k := range kinds {
		kinds[i].Defaults = func() config.Settings {
			s := k.Defaults()
			if d, ok := s.(socketDefaulter); ok {
				d.UseDefaultSocket(o.DockerSocket)
			}
			return s
		}
	}
	return kinds
}

// New validates everything, makes the collectors and binds the listeners. With an error, nothing is left behind.
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
	a := &App{options: o, log: o.Log, own: newOwnMetrics(), reloads: make(chan chan error), manager: &serviceManager{notify: o.Notify, watchdog: o.Watchdog, log: o.Log}}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.listen(o.Web); err != nil {
		return nil, err
	}
	a.tellSource()
	var notice string
	if a.state, notice, err = state.Open(cfg.StateFile); err != nil {
		return nil, err
	}
	if notice != "" {
		a.log.Warn("the state file has a problem", "problem", notice)
	}
	if a.maintenance, err = maintenance.New(a.state.Value("maintenance"), a.log); err != nil {
		a.log.Error("switches of maintenance are lost", "err", err)
	}
	a.own.registry.MustRegister(a.maintenance)
	a.judge = newJudge(&cfg.Alerts, a.maintenance, a.state.Value("problems"), a.log)
	if err := a.adopt(cfg); err != nil {
		return nil, err
	}
	a.recorder = status.NewRecorder(version.Version, a.known)
	stopping := make(chan struct{})
	a.server = &http.Server{
		Handler: web.New(a, web.Options{
			Version: version.Version, Documents: config.Documents(version.Version), Lifecycle: o.EnableLifecycle, Log: o.Log, Stopping: stopping,
			Scraped: func(who string, at time.Time) { a.current.Load().poller.Scraped(who, at) },
		}),
		// A client that stalls must not hold a connection for ever, whether or not it may read anything.
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 30 * time.Second,
		// One client may have half of all connections, and what it sends on them must fit into the memory limits of deploy/.
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		// Those who scrape every minute keep their connection.
		IdleTimeout: 75 * time.Second,
		ConnState:   newConnections(o.Log).stateChanged,
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	a.server.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	if a.health, err = newHealthServer(a, o, a.listeners); err != nil {
		a.log.Warn("healthcheck cannot see the poll loop if the port asks for a password or a certificate", "err", err)
	}
	return a, nil
}

// tellSource logs which file was read, since one that is looked for in the wrong place is missed by nobody.
func (a *App) tellSource() {
	switch {
	case a.options.configContent != nil:
	case a.options.ConfigFile == "":
		a.log.Info("no configuration file; the environment alone counts", "looked_for", absolute(DefaultConfigFile))
	default:
		a.log.Info("configuration file is read", "file", absolute(a.options.ConfigFile))
	}
}

// adopt makes a generation of a valid configuration and puts it in the place of the present one, whose poller must
// have ended. With an error, the present one stays.
func (a *App) adopt(cfg *config.Config) error {
	old := a.current.Load()
	a.fitMemory(cfg)
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
	poller.Notify(func() { a.recorder.Wake() })
	a.current.Store(&generation{cfg, poller})
	for _, t := range targets {
		if !t.Same {
			a.log.Info("target is configured", "target", t.Name, "kind", t.Kind)
		}
	}
	if len(cfg.Unconfigured) > 0 {
		a.log.Info("targets are not configured and not polled", "targets", cfg.Unconfigured)
	}
	if len(cfg.LeftToFirst) > 0 {
		a.log.Info("pair: other leaves targets to the first exporter; this one does not poll them", "targets", cfg.LeftToFirst)
	}
	for _, w := range Warnings(cfg) {
		a.log.Warn("configuration is doubtful", "target", w.Target, "warning", w.Text)
	}
	return nil
}

// targets makes a collector of each configured target that is not the same as before.
func (a *App) targets(cfg *config.Config, old *generation) ([]poll.Target, error) {
	targets := make([]poll.Target, 0, len(cfg.Targets))
	for _, settings := range cfg.Targets {
		t, err := a.options.newTarget(a.limitsOf(cfg, settings), settings, a.state, a.log, false)
		if err != nil {
			return nil, err
		}
		if a.options.pace != nil {
			every, timeout := a.options.pace(t.Name)
			t.Schedule = cron.ConstantDelaySchedule{Delay: every}
			t.Timeout = cmp.Or(timeout, t.Timeout)
		}
		t.Same = old != nil && old.cfg.Limits == cfg.Limits && tellsModules(old.cfg) == tellsModules(cfg) && slices.ContainsFunc(old.cfg.Targets, func(s config.Settings) bool {
			return reflect.DeepEqual(s, settings)
		}) && (t.Kind != "docker" || slices.Equal(namedContainers(old.cfg), namedContainers(cfg)))
		targets = append(targets, t)
	}
	return targets, nil
}

// tellsModules reports whether a target tells the states of the XMPP server's modules.
func tellsModules(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Targets, func(s config.Settings) bool { return s.Common().Kind == "xmpp_status" })
}

// namedContainers are the containers that targets name as theirs.
func namedContainers(cfg *config.Config) []string {
	var names []string
	for _, s := range cfg.Targets {
		if name := s.Common().Container; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// newTarget makes a target of settings that were found valid; once says that it will be read a single time.
func (o *Options) newTarget(cfg *config.Config, settings config.Settings, file *state.File, log *slog.Logger, once bool) (poll.Target, error) {
	common := settings.Common()
	kind, ok := collectors.KindOf(common.Kind)
	if !ok {
		return poll.Target{}, fmt.Errorf("target %s: there is no kind %q", common.Name, common.Kind)
	}
	collector, err := kind.New(settings, collectors.Deps{
		Limits: cfg.Limits, Log: log.With("target", common.Name), State: file.Value(common.Kind + "/" + common.Name),
		UserAgent: "chatstack_exporter/" + version.Version, Once: once, ModuleStatus: tellsModules(cfg), Containers: namedContainers(cfg),
		MountInfo: o.MountInfo,
	})
	if err != nil {
		return poll.Target{}, fmt.Errorf("target %s: %w", common.Name, err)
	}
	schedule, err := config.ParseSchedule(common.Schedule)
	if err != nil {
		return poll.Target{}, fmt.Errorf("target %s: %w", common.Name, err)
	}
	dockerHost, hostName := "", ""
	if d, ok := settings.(*collectors.Docker); ok {
		dockerHost = d.Label
	}
	if a, ok := settings.(config.Addressed); ok {
		hostName = a.HostName()
	}
	return poll.Target{
		DockerHost: dockerHost, Name: common.Name, Kind: common.Kind, HostName: hostName, Container: common.Container, ContainerHost: common.ContainerHost,
		WarnOnly:  !common.Page,
		Collector: collector, Schedule: schedule, Timeout: common.Timeout.Std(), Redact: config.Redactor(settings),
	}, nil
}

// Snapshot implements web.Source.
func (a *App) Snapshot() *poll.Snapshot { return a.current.Load().poller.Snapshot() }

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
	case errors.Is(*err, errStateFile):
		return *err
	}
	if faults, ok := errors.AsType[config.Faults](*err); ok {
		return fmt.Errorf("%s\n%s", faults.Places(), whereFaults)
	}
	return fmt.Errorf("the configuration cannot be read\n%s", whereFaults)
}

// errStateFile is why a configuration is not taken over that has another state file.
var errStateFile = errors.New("state_file has changed, which takes a restart")

// whereFaults is where those read what is wrong who may read the configuration.
const whereFaults = "what is wrong there tell the log and chatstack_exporter check-config"

// Peers implements web.Source.
func (a *App) Peers() []config.Peers { return a.current.Load().cfg.Peers }

func (a *App) listen(flags *toolkit.FlagConfig) error {
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		return nil // the toolkit takes the sockets that systemd hands over
	}
	listen := a.options.Listen
	if listen == nil {
		listen = net.Listen
	}
	for _, address := range *flags.WebListenAddresses {
		l, err := listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w; %s", address, err, listenHint(err))
		}
		a.listeners = append(a.listeners, l)
	}
	return nil
}

func listenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process listens there: stop it, or choose another address with --web.listen-address"
	case errors.Is(err, os.ErrPermission):
		return "this user may not listen there: choose a port above 1023 with --web.listen-address"
	default:
		return "choose an address of this host with --web.listen-address"
	}
}

// Addresses are the addresses that the exporter listens on.
func (a *App) Addresses() []net.Addr {
	addresses := make([]net.Addr, len(a.listeners))
	for i, l := range a.listeners {
		addresses[i] = l.Addr()
	}
	return addresses
}

// Run polls and serves until ctx is done, or until serving fails. It returns within five seconds after the end of ctx:
// what was being asked is finished or given up, and requests get their answers meanwhile.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	served := make(chan error, 1)
	go func() { served <- a.serve() }()
	go a.health.serve()
	stopPolling := a.poll(ctx)
	beside, stopBeside := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { a.maintenance.Run(beside, func() { a.current.Load().poller.Refresh() }) })
	others.Go(func() { a.recorder.Run(beside) })
	// The listeners are bound and a page is there since New, so that whoever is started after this one gets an answer.
	a.manager.ready("serving; the first readings are under way")
	others.Go(func() {
		a.manager.keepAlive(beside, a.Alive, func() string { return inWords(a.Snapshot().Statuses) })
	})
	if path := a.options.Web.WebConfigFile; path != nil && *path != "" {
		others.Go(func() { watchWebConfig(beside, *path, a.log) })
	}
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
		case done := <-a.reloads:
			var reloadErr error
			stopPolling, reloadErr = a.reload(ctx, stopPolling)
			done <- reloadErr
		}
	}
	a.manager.stopping()
	stopPolling()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	if shutdownErr := a.server.Shutdown(stopping); shutdownErr != nil {
		a.server.Close() //nolint:errcheck,gosec // whoever is still connected had the time
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// poll runs the present generation's poller and returns the function that stops it and waits for its end.
func (a *App) poll(ctx context.Context) (stop func()) {
	polling, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	poller := a.current.Load().poller
	go func() {
		defer close(ended)
		poller.Run(polling)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Reload reads the configuration anew and goes on with it. A configuration that is not valid changes nothing.
func (a *App) Reload(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case a.reloads <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reload stops the poller, once the new configuration is known to be good, and goes on with the next generation's. It
// returns what stops the one that runs then.
func (a *App) reload(ctx context.Context, stop func()) (func(), error) {
	a.manager.reloading()
	cfg, err := LoadConfig(a.options)
	if err == nil && cfg.StateFile != a.current.Load().cfg.StateFile {
		err = errStateFile
	}
	if err == nil {
		stop()
		err = a.adopt(cfg)
		stop = a.poll(ctx)
	}
	a.own.reloaded(err)
	a.reloadError.Store(&err)
	a.current.Load().poller.Refresh()
	if err != nil {
		a.manager.ready("the configuration was not reloaded; the log says why")
		a.log.Error("configuration was not reloaded; the present one stays", "err", err)
		return stop, fmt.Errorf("reload configuration: %w", err)
	}
	a.manager.ready("the configuration was reloaded")
	a.log.Info("configuration reloaded", "targets", len(cfg.Targets))
	return stop, nil
}

func (a *App) serve() error {
	if len(a.listeners) == 0 {
		return toolkit.ListenAndServe(a.server, a.options.Web, a.log)
	}
	return toolkit.ServeMultiple(a.listeners, a.server, a.options.Web, a.log)
}

// close gives back what New took.
func (a *App) close() {
	a.health.close()
	if a.state != nil {
		if err := a.state.Close(); err != nil {
			a.log.Error("close state file", "err", err)
		}
	}
	for _, l := range a.listeners {
		l.Close() //nolint:errcheck,gosec // the server may have closed it already
	}
}
