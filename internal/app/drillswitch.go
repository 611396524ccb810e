package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// longestDrill bounds a drill, whose command may have been killed.
const longestDrill = 10 * time.Minute

var drillDesc = prometheus.NewDesc("chatstack_drill",
	"1 during a drill, for which the alert ChatstackDrill fires with this severity; absent otherwise.", []string{"id", "severity"}, nil)

// drillSwitch has the drill that is running, if any. It is the prometheus.Collector of chatstack_drill. A restart ends the drill.
type drillSwitch struct {
	log *slog.Logger
	// changed is called when a drill has begun or ended.
	changed func()

	mu      sync.Mutex
	running *web.Drill
	timer   *time.Timer
}

// checkSeverity reports what is wrong with the severity of a drill.
func checkSeverity(severity string) error {
	if all := []string{alerts.None, alerts.Warning, alerts.Critical}; !slices.Contains(all, severity) {
		return fmt.Errorf("%w: severity is %q, must be one of %s", web.ErrDrillInvalid, severity, strings.Join(all, ", "))
	}
	return nil
}

// start begins a drill that ends by itself.
func (s *drillSwitch) start(severity string, lasts time.Duration) (web.Drill, error) {
	switch err := checkSeverity(severity); {
	case err != nil:
		return web.Drill{}, err
	case lasts <= 0 || lasts > longestDrill:
		return web.Drill{}, fmt.Errorf("%w: duration is %s, must be at most %s", web.ErrDrillInvalid, lasts, longestDrill)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return web.Drill{}, fmt.Errorf("%w until %s: wait, or end it with DELETE /api/v1/drill/%s",
			web.ErrDrillRunning, s.running.Until.UTC().Format(time.RFC3339), s.running.ID)
	}
	drill := web.Drill{ID: strings.ToLower(rand.Text()[:8]), Severity: severity, Until: time.Now().Add(lasts).Round(0)}
	s.running = &drill
	s.timer = time.AfterFunc(lasts, func() { s.end(drill.ID) }) //nolint:errcheck // it may have been ended just now
	s.log.Info("drill has begun", "id", drill.ID, "severity", severity, "until", drill.Until.UTC().Format(time.RFC3339))
	s.changed()
	return drill, nil
}

// end ends the drill with this id.
func (s *drillSwitch) end(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.ID != id {
		return web.ErrNoDrill
	}
	s.running = nil
	s.timer.Stop()
	s.log.Info("drill has ended", "id", id)
	s.changed()
	return nil
}

// close ends the drill of an exporter that stops.
func (s *drillSwitch) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.timer.Stop()
	}
}

// Describe implements prometheus.Collector.
func (s *drillSwitch) Describe(ch chan<- *prometheus.Desc) { ch <- drillDesc }

// Collect implements prometheus.Collector.
func (s *drillSwitch) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		ch <- prometheus.MustNewConstMetric(drillDesc, prometheus.GaugeValue, 1, s.running.ID, s.running.Severity)
	}
}

// StartDrill implements web.Source.
func (a *App) StartDrill(severity string, lasts time.Duration) (web.Drill, error) {
	return a.drill.start(severity, lasts)
}

// EndDrill implements web.Source.
func (a *App) EndDrill(id string) error { return a.drill.end(id) }

// DrillReceivers implements web.Source.
func (a *App) DrillReceivers(ctx context.Context, severity string, names []string) (receivers any, err error) {
	if err := checkSeverity(severity); err != nil {
		return nil, err
	}
	known := a.notifier.States()
	if len(known) == 0 {
		return nil, fmt.Errorf("%w: the exporter has no receivers of its own: add notify to its configuration", web.ErrDrillInvalid)
	}
	for _, name := range names {
		if !slices.ContainsFunc(known, func(r status.Receiver) bool { return r.Name == name }) {
			return nil, fmt.Errorf("%w: no receiver is called %q", web.ErrDrillInvalid, name)
		}
	}
	a.log.Info("receivers are drilled", "severity", severity, "receivers", names)
	drilled, err := a.notifier.Drill(ctx, severity, names)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", web.ErrDrillRunning, err)
	}
	return drilled, nil
}
