package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/heartbeat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// receiversOf makes the receivers of a configuration.
func receiversOf(cfg *config.Config) ([]notify.Receiver, error) {
	list := make([]notify.Receiver, 0, len(cfg.Notify))
	for i := range cfg.Notify {
		c := &cfg.Notify[i]
		sender, err := senderOf(c)
		if err != nil {
			return nil, fmt.Errorf("notify: receiver %s: %w", c.Name, err)
		}
		severity := health.Warning
		if c.Severity == config.SeverityCritical {
			severity = health.Critical
		}
		list = append(list, notify.Receiver{
			Name:    c.Name,
			Sender:  sender,
			Place:   hashOf(c.URL.Reveal()),
			Least:   severity,
			Hours:   c.Hours,
			Zone:    c.Location,
			Repeat:  c.Repeat.Std(),
			Targets: c.Targets,
			Notes:   c.Notes,
		})
	}
	return list, nil
}

func senderOf(c *config.Notify) (service.Receiver, error) {
	return service.Parse(c.URL.Reveal(), service.Options{CAFile: c.CAFile, ProxyURL: c.ProxyURL.Reveal()})
}

// TestNotify sends a test message to the receiver with a name, or to all if that is "". It prints what each service answered.
func TestNotify(ctx context.Context, o Options, name string, out io.Writer) error {
	cfg, err := LoadConfig(o)
	if err != nil {
		return err
	}
	receivers, err := receiversOf(cfg)
	if err != nil {
		return err
	}
	if len(receivers) == 0 {
		return UsageError{errors.New("no receiver is configured: add notify to the configuration file, or set NOTIFY_URL")}
	}
	var names, failed []string
	for i := range receivers {
		names = append(names, receivers[i].Name)
	}
	if name != "" && !slices.Contains(names, name) {
		return UsageError{fmt.Errorf("no receiver is called %q; there are: %s", name, strings.Join(names, ", "))}
	}
	site := siteOf(cfg)
	for i := range receivers {
		r := &receivers[i]
		if name != "" && r.Name != name {
			continue
		}
		result := "delivered"
		answer, err := r.Send(ctx, notify.TestMessage(time.Now(), &site))
		switch {
		case err != nil:
			result, failed = "not delivered: "+err.Error(), append(failed, r.Name)
			if hint := failure.HintOf(err); hint != "" {
				result += "\n  " + hint
			}
		case answer != "":
			result += ": " + answer
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", r.Name, result); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("no message to %s", strings.Join(failed, ", "))
	}
	return nil
}

// heartbeatOf makes the heartbeat of a configuration, nil for none.
func heartbeatOf(cfg *config.Config, p *poll.Poller, log *slog.Logger) *heartbeat.Heartbeat {
	if cfg.Heartbeat.URL.IsZero() {
		return nil
	}
	return heartbeat.New(heartbeat.Options{
		URL:          cfg.Heartbeat.URL,
		Method:       cfg.Heartbeat.Method,
		Every:        cfg.Heartbeat.Every.Std(),
		PollInterval: cfg.Poll.Interval.Std(),
		Completed:    p.LastCompleted,
		UserAgent:    "chatstack_exporter/" + version.Version,
		Log:          log,
	})
}

// siteOf is what messages say of the exporter.
func siteOf(cfg *config.Config) notify.Site {
	return notify.Site{
		URL:         strings.TrimSuffix(cfg.Web.ExternalURL, "/"),
		Environment: cfg.Environment,
		Cluster:     cfg.Cluster,
	}
}

// notifyView is what notifications are made from.
func (a *App) notifyView() notify.View {
	now := time.Now()
	return notify.View{
		Now:       now,
		Report:    a.recorder.Latest(),
		Incidents: a.Incidents(),
		Starting:  now.Before(a.started),
	}
}

// notifications are the metrics of a notifier.
type notifications struct{ *notify.Notifier }

var (
	notificationsTotal = prometheus.NewDesc("chatstack_notifications_total",
		"Attempts to send a notification that delivered it or failed, and notifications that were given up after 24 hours (expired) or "+
			"held back as too many within an hour (held).",
		[]string{"receiver", "outcome"}, nil)
	notificationFailing = prometheus.NewDesc("chatstack_notification_failing_seconds",
		"How long every attempt to send the receiver a notification has failed; 0 after one that delivered it.",
		[]string{"receiver"}, nil)
	notificationQueue = prometheus.NewDesc("chatstack_notification_queue_length",
		"Notifications that the receiver has not got yet.", []string{"receiver"}, nil)
)

// Describe implements prometheus.Collector.
func (notifications) Describe(descs chan<- *prometheus.Desc) {
	descs <- notificationsTotal
	descs <- notificationQueue
	descs <- notificationFailing
}

// Collect implements prometheus.Collector.
func (n notifications) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range n.States() {
		for _, outcome := range notify.Outcomes {
			n := float64(s.Counts[outcome])
			metrics <- prometheus.MustNewConstMetric(notificationsTotal, prometheus.CounterValue, n, s.Name, outcome)
		}
		metrics <- prometheus.MustNewConstMetric(notificationQueue, prometheus.GaugeValue, float64(s.Waiting), s.Name)
		failing := 0.0
		if !s.Since.IsZero() {
			failing = time.Since(s.Since).Seconds()
		}
		metrics <- prometheus.MustNewConstMetric(notificationFailing, prometheus.GaugeValue, failing, s.Name)
	}
}
