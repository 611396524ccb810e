package app

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// Maintenance implements web.Source.
func (a *App) Maintenance() []maintenance.Entry { return a.maintenance.List() }

// SetMaintenance implements web.Source.
func (a *App) SetMaintenance(
	kind, name, reason string, until time.Time,
) (set maintenance.Entry, replaced bool, warnings []string, err error) {
	cfg := a.current.Load().cfg
	if kind == config.MaintenanceTarget &&
		!slices.ContainsFunc(cfg.Targets, func(s config.Settings) bool { return s.Common().Name == name }) {
		return set, false, nil, fmt.Errorf("%w: no configured target is called %q; the status page lists them all",
			maintenance.ErrUnknown, name)
	}
	set, replaced, err = a.maintenance.Set(kind, name, reason, until)
	if warnings, err = a.saveWarning(err); err != nil {
		return set, replaced, nil, err
	}
	if cfg.StateFile == "" {
		warnings = append(warnings, "no state_file is configured, so a restart of the exporter ends this maintenance")
	}
	if kind != config.MaintenanceTarget && !a.sees(kind, name) {
		warnings = append(warnings, fmt.Sprintf("the exporter sees no %s %q at the moment; check the name", kind, name))
	}
	return set, replaced, append(warnings, a.firingWarnings(kind, name)...), nil
}

// firingWarnings lists the alerts on the subject, and on the targets that a container serves, that maintenance does not hold back
// because they already fire.
func (a *App) firingWarnings(kind, name string) (warnings []string) {
	j := a.Snapshot().Judgement
	if j == nil {
		return nil
	}
	for i := range j.Problems {
		p := &j.Problems[i]
		served := kind == config.MaintenanceContainer && p.Kind == health.KindTarget && j.Servers[p.Name].Container == name
		if p.Severity < health.Warning || !served && (p.Kind != kind || p.Name != name) {
			continue
		}
		text := fmt.Sprintf("%s of %s has already fired and keeps firing; silence it in Alertmanager", p.Alert, p.Name)
		if !slices.Contains(warnings, text) { // one alert may be about several parts
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// EndMaintenance implements web.Source.
func (a *App) EndMaintenance(kind, name string) (warnings []string, err error) {
	if warnings, err = a.saveWarning(a.maintenance.End(kind, name)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(a.maintenance.List(), func(e maintenance.Entry) bool { return e.Active && e.Kind == kind && e.Name == name }) {
		warnings = append(warnings, "maintenance continues, because exporter.yaml sets it too")
	}
	return warnings, nil
}

// ForgetContainer implements web.Source.
func (a *App) ForgetContainer(dockerHost, name string) error {
	g := a.current.Load()
	var labels []string
	for _, s := range g.cfg.Targets {
		if d, ok := s.(*collectors.Docker); ok {
			if d.Label == dockerHost {
				return g.poller.Forget(d.Name, name)
			}
			labels = append(labels, d.Label)
		}
	}
	return fmt.Errorf("%w: no target has the docker_host %q; it can be one of %q", collectors.ErrContainerUnknown, dockerHost, labels)
}

// ForgetModule implements web.Source.
func (a *App) ForgetModule(host, module string) error {
	return a.current.Load().poller.ForgetMissing(host, module)
}

// saveWarning turns the error about a change that is in force but not saved into a warning; it returns any other error.
func (a *App) saveWarning(err error) ([]string, error) {
	if _, ok := errors.AsType[*maintenance.SaveError](err); !ok {
		return nil, err
	}
	a.log.Error("cannot save maintenance", "err", err)
	return []string{"the change applies, but a restart of the exporter undoes it, because it was not saved: " + err.Error()}, nil
}

// sees reports whether any engine has a container or workload of that name.
func (a *App) sees(kind, name string) bool {
	return slices.ContainsFunc(a.Snapshot().Statuses, func(s poll.Status) bool {
		return s.Engine != nil && slices.ContainsFunc(s.Engine.Containers, func(c health.Container) bool { return c.CoveredBy(kind, name) })
	})
}
