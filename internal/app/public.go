package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/public"
)

// publicServer serves the page for users. The zero value serves nothing.
type publicServer struct {
	listener  net.Listener
	server    *http.Server
	webConfig string
}

// Public implements public.Source.
func (a *App) Public() *config.Public { return &a.current.Load().cfg.Public }

// openPublic binds the listener of the page for users.
func (a *App) openPublic(p *config.Public) error {
	if p.ListenAddress == "" {
		return nil
	}
	if p.WebConfigFile != "" {
		if err := checkWebConfig(p.WebConfigFile); err != nil {
			return err
		}
	}
	l, err := a.bind(p.ListenAddress, "public.listen_address")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:        public.New(a, a.log),
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    30 * time.Second,
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		ErrorLog:       slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	publicConnections(a.log, func() []netip.Prefix { return a.Public().TrustedNetworks }).limit(server)
	a.public = publicServer{l, server, p.WebConfigFile}
	return nil
}

// run serves until close. A page that cannot be served stops nothing else.
func (s *publicServer) run(log *slog.Logger) {
	if s.listener == nil {
		return
	}
	flags := &toolkit.FlagConfig{
		WebListenAddresses: &[]string{s.listener.Addr().String()},
		WebSystemdSocket:   new(bool),
		WebConfigFile:      &s.webConfig,
	}
	if err := toolkit.ServeMultiple([]net.Listener{s.listener}, s.server, flags, log); !errors.Is(err, http.ErrServerClosed) {
		log.Error("public page is not served any more", "err", err)
	}
}

// close ends run and releases the listener.
func (s *publicServer) close(ctx context.Context) {
	if s.listener == nil {
		return
	}
	if s.server.Shutdown(ctx) != nil {
		s.server.Close() //nolint:errcheck,gosec // the remaining clients had their chance
	}
	s.listener.Close() //nolint:errcheck,gosec // the server may have closed it already
}

// errPublic is why a configuration whose public page has another listener is not applied.
var errPublic = errors.New("changing public.listen_address or public.web_config_file requires a restart")

// restartFor returns why a configuration requires a restart; nil if it does not.
func (a *App) restartFor(cfg *config.Config) error {
	old, p := a.current.Load().cfg, &cfg.Public
	switch {
	case cfg.StateFile != old.StateFile:
		return errStateFile
	case p.ListenAddress != old.Public.ListenAddress || p.WebConfigFile != old.Public.WebConfigFile:
		return errPublic
	}
	return nil
}

// bind listens on an address, which the flag or key sets.
func (a *App) bind(address, key string) (net.Listener, error) {
	listen := a.options.Listen
	if listen == nil {
		listen = net.Listen
	}
	l, err := listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; %s", address, err, listenHint(err, key))
	}
	return l, nil
}
