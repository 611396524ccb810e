package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// filesInterval is how often a running exporter looks whether files have changed that nothing announces.
const filesInterval = 10 * time.Second

// reload replaces the configuration in the goroutine that starts and stops pollers.
type reload struct {
	// apply returns the function that stops the poller that runs then.
	apply func(ctx context.Context, stop func()) (func(), error)
	done  chan error
}

// Reload loads the configuration again and applies it. An invalid configuration changes nothing.
func (a *App) Reload(ctx context.Context) error { return a.ask(ctx, a.reloadFile) }

func (a *App) ask(ctx context.Context, apply func(context.Context, func()) (func(), error)) error {
	done := make(chan error, 1)
	select {
	case a.reloads <- reload{apply, done}:
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

// reloadFile loads the configuration and, if it is valid, replaces the current one.
func (a *App) reloadFile(ctx context.Context, stop func()) (func(), error) {
	a.manager.reloading()
	cfg, err := LoadConfig(a.options)
	if err == nil {
		a.logins.Resume(time.Now())
		stop, err = a.replace(ctx, stop, cfg)
	}
	a.own.reloaded(err)
	a.reloadError.Store(&err)
	a.current.Load().poller.Refresh()
	if err != nil {
		a.manager.ready("the configuration was not reloaded; the log says why")
		a.log.Error("configuration was not reloaded; the exporter keeps the current one", "err", err)
		return stop, fmt.Errorf("reload configuration: %w", err)
	}
	a.manager.ready("the configuration was reloaded")
	a.log.Info("configuration reloaded", "targets", len(cfg.Targets))
	return stop, nil
}

// replace has the poller of a valid configuration replace the one that runs, unless the configuration requires a restart.
func (a *App) replace(ctx context.Context, stop func(), cfg *config.Config) (func(), error) {
	if err := a.restartFor(cfg); err != nil {
		return stop, err
	}
	if _, err := receiversOf(cfg); err != nil {
		return stop, err
	}
	stop()
	err := a.adopt(cfg)
	return a.poll(ctx), err
}

// reloadSecrets takes over the secrets of files that have changed. A configuration file that has changed too stays as it was loaded.
func (a *App) reloadSecrets(ctx context.Context, stop func()) (func(), error) {
	cfg, err := a.current.Load().cfg.WithSecretsOfNow()
	if err != nil {
		return stop, err
	}
	return a.replace(ctx, stop, cfg)
}

// watchSecretFiles has secrets reloaded when their files change, until ctx is done. It logs once why a file cannot be used.
func (a *App) watchSecretFiles(ctx context.Context) {
	tick := time.NewTicker(filesInterval)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		changed, err := a.current.Load().cfg.ChangedSecretFiles()
		if len(changed) > 0 {
			reloadErr := a.ask(ctx, a.reloadSecrets)
			if reloadErr == nil {
				a.log.Info("files of secrets have changed; their new secrets are in use", "files", changed)
			}
			err = errors.Join(err, reloadErr)
		}
		if err == nil {
			logged = ""
		} else if err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			a.log.Error("files of secrets cannot be used as they are; the exporter keeps their former secrets", "err", err)
		}
	}
}
