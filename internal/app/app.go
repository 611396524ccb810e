// Package app builds the exporter of its configuration and runs it: everything that main would do, so that it can be
// tested.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// Options is what main knows from flags and the environment.
type Options struct {
	// ConfigFile is the path of exporter.yaml; "" means the environment alone.
	ConfigFile string
	// Lookup finds an environment variable, as os.LookupEnv does.
	Lookup func(string) (string, bool)
	// Interval and Timeout, where not zero, outweigh the configuration's.
	Interval, Timeout time.Duration
	// Web says where to listen, and with which TLS and authentication.
	Web *toolkit.FlagConfig
	Log *slog.Logger

	configContent []byte        // read instead of ConfigFile
	every         time.Duration // tests ask more often than a configuration can say
}

// App is an exporter that listens, but asks and answers nobody before Run.
type App struct {
	log       *slog.Logger
	web       *toolkit.FlagConfig
	poller    *poll.Poller
	closers   []io.Closer
	server    *http.Server
	listeners []net.Listener
}

// LoadConfig reads the configuration that the options name.
func LoadConfig(o Options) (*config.Config, error) {
	return config.Load(config.Source{
		File: o.ConfigFile, Content: o.configContent, Lookup: o.Lookup, Kinds: configKinds(o.ConfigFile), Interval: o.Interval, Timeout: o.Timeout,
	})
}

// configKinds is the table of kinds; without a file, the Docker Engine's default socket counts as configured.
func configKinds(file string) []config.Kind {
	kinds := collectors.ConfigKinds()
	if file != "" {
		return kinds
	}
	for i, k := range kinds {
		kinds[i].Defaults = func() config.Settings {
			s := k.Defaults()
			if d, ok := s.(interface{ UseDefaultSocket(path string) }); ok {
				d.UseDefaultSocket(defaultDockerSocket)
			}
			return s
		}
	}
	return kinds
}

const defaultDockerSocket = "/var/run/docker.sock"

// New validates everything, makes the collectors and binds the listeners. With an error, nothing is left behind.
func New(o Options) (_ *App, err error) {
	cfg, err := LoadConfig(o)
	if err != nil {
		return nil, err
	}
	if o.Web.WebConfigFile != nil {
		if err := toolkit.Validate(*o.Web.WebConfigFile); err != nil {
			return nil, fmt.Errorf("read web configuration %s: %w", *o.Web.WebConfigFile, err)
		}
	}
	a := &App{log: o.Log, web: o.Web}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.listen(o.Web); err != nil {
		return nil, err
	}
	targets, err := a.targets(cfg, o.every)
	if err != nil {
		return nil, err
	}
	if a.poller, err = poll.New(targets, ownMetrics(), o.Log); err != nil {
		return nil, err
	}
	a.server = &http.Server{
		Handler: web.New(a.poller, web.Options{Version: version.Version, Unconfigured: cfg.Unconfigured, Log: o.Log}),
		// A scraper that stalls must not hold a connection for ever.
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	for _, t := range targets {
		o.Log.Info("target is configured", "target", t.Name, "kind", t.Kind)
	}
	if len(cfg.Unconfigured) > 0 {
		o.Log.Info("targets are not configured and not polled", "targets", cfg.Unconfigured)
	}
	return a, nil
}

// targets makes a collector of each configured target.
func (a *App) targets(cfg *config.Config, every time.Duration) ([]poll.Target, error) {
	file, notice, err := state.Open(cfg.StateFile)
	if err != nil {
		return nil, err
	}
	if notice != "" {
		a.log.Error("state is lost", "notice", notice)
	}
	targets := make([]poll.Target, 0, len(cfg.Targets))
	for _, settings := range cfg.Targets {
		common := settings.Common()
		kind, ok := collectors.KindOf(common.Kind)
		if !ok {
			return nil, fmt.Errorf("target %s: there is no kind %q", common.Name, common.Kind)
		}
		collector, err := kind.New(settings, collectors.Deps{
			Limits: cfg.Limits, Log: a.log.With("target", common.Name), State: file.Value(common.Kind + "/" + common.Name),
			UserAgent: "chatstack_exporter/" + version.Version,
		})
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", common.Name, err)
		}
		if c, ok := collector.(io.Closer); ok {
			a.closers = append(a.closers, c)
		}
		schedule, err := config.ParseSchedule(common.Schedule)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", common.Name, err)
		}
		if every != 0 {
			schedule = cron.ConstantDelaySchedule{Delay: every}
		}
		targets = append(targets, poll.Target{
			Name: common.Name, Kind: common.Kind, Container: common.Container,
			Collector: collector, Schedule: schedule, Timeout: common.Timeout.Std(),
		})
	}
	return targets, nil
}

// allocatedTotal is a counter of the Go collector whose family has the same name in OpenMetrics as a gauge beside it.
// The gauge is kept.
const allocatedTotal = "go_memstats_alloc_bytes_total"

// ownMetrics are the exporter's own: of the Go runtime, of the process, and which build it is.
func ownMetrics() prometheus.Gatherer {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(
		promcollectors.NewGoCollector(),
		promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("chatstack_exporter"),
	)
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := r.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == allocatedTotal }), err
	})
}

func (a *App) listen(flags *toolkit.FlagConfig) error {
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		return nil // the toolkit takes the sockets that systemd hands over
	}
	for _, address := range *flags.WebListenAddresses {
		l, err := net.Listen("tcp", address) //nolint:noctx // lives as long as the process
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
	polling, stopPolling := context.WithCancel(ctx)
	defer stopPolling()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		a.poller.Run(polling)
	}()
	served := make(chan error, 1)
	go func() { served <- a.serve() }()

	var err error
	select {
	case err = <-served:
		stopPolling()
	case <-ctx.Done():
		a.log.Info("stopping", "cause", context.Cause(ctx))
	}
	<-polled
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

func (a *App) serve() error {
	if len(a.listeners) == 0 {
		return toolkit.ListenAndServe(a.server, a.web, a.log)
	}
	return toolkit.ServeMultiple(a.listeners, a.server, a.web, a.log)
}

// close gives back what New took, last first.
func (a *App) close() {
	for _, c := range slices.Backward(a.closers) {
		if err := c.Close(); err != nil {
			a.log.Debug("close", "err", err)
		}
	}
	for _, l := range a.listeners {
		l.Close() //nolint:errcheck,gosec // the server may have closed it already
	}
}
