package story

import (
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/discord"
	"github.com/prometheus/alertmanager/notify/email"
	"github.com/prometheus/alertmanager/notify/pagerduty"
	"github.com/prometheus/alertmanager/notify/pushover"
	"github.com/prometheus/alertmanager/notify/slack"
	"github.com/prometheus/alertmanager/notify/telegram"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/receivers"
)

// TestReceiversOfTheDocumentSendWhatServicesTake has the newest Alertmanager's notifiers send easy and hostile alerts. A test of
// internal/app has the oldest Alertmanager do the same.
func TestReceiversOfTheDocumentSendWhatServicesTake(t *testing.T) {
	services, dir := receivers.Start(t), t.TempDir()
	content, files := services.Configuration(t, "../../..", realstack.ReceiveMail(t, services.Mail))
	files["alertmanager.yml"] = []byte(content)
	for path, content := range files {
		path = filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, content, 0o600))
	}
	t.Chdir(dir) // to which the paths of secrets are relative
	cfg, err := config.LoadFile("alertmanager.yml")
	must(t, err)
	tmpl, err := template.FromGlobs(cfg.Templates)
	must(t, err)
	tmpl.ExternalURL, err = url.Parse("http://alertmanager.example.org")
	must(t, err)
	for _, c := range receivers.Cases() {
		for _, r := range cfg.Receivers {
			ctx := notify.WithReceiverName(notify.WithGroupKey(t.Context(), c.Name), r.Name)
			ctx = notify.WithGroupLabels(ctx, model.LabelSet{"case": "x"})
			if _, err := notifierOf(t, &r, tmpl).Notify(ctx, alertsOf(&c)...); err != nil {
				t.Errorf("%s: %s: %v", c.Name, r.Name, err)
			}
		}
		services.Await(t, &c)
	}
}

// notifierOf returns the only notifier of a receiver.
func notifierOf(t *testing.T, r *config.Receiver, tmpl *template.Template) (n notify.Notifier) {
	t.Helper()
	var err error
	log := slog.New(slog.DiscardHandler)
	switch {
	case r.TelegramConfigs != nil:
		n, err = telegram.New(r.TelegramConfigs[0], tmpl, log)
	case r.DiscordConfigs != nil:
		n, err = discord.New(r.DiscordConfigs[0], tmpl, log)
	case r.SlackConfigs != nil:
		n, err = slack.New(r.SlackConfigs[0], tmpl, log)
	case r.PushoverConfigs != nil:
		n, err = pushover.New(r.PushoverConfigs[0], tmpl, log)
	case r.PagerdutyConfigs != nil:
		n, err = pagerduty.New(r.PagerdutyConfigs[0], tmpl, log)
	case r.EmailConfigs != nil:
		n = email.New(r.EmailConfigs[0], tmpl, log)
	default:
		t.Fatalf("the receiver %s has a notifier that this test does not know", r.Name)
	}
	must(t, err)
	return n
}

// alertsOf are the alerts of a case as Alertmanager has them.
func alertsOf(c *receivers.Case) (list []*alert.Alert) {
	set := func(of map[string]string) model.LabelSet {
		s := model.LabelSet{}
		for name, value := range of {
			s[model.LabelName(name)] = model.LabelValue(value)
		}
		return s
	}
	for _, a := range c.Alerts {
		one := &alert.Alert{Alert: model.Alert{
			Labels:       set(a.Labels),
			Annotations:  set(a.Annotations),
			StartsAt:     a.StartsAt,
			EndsAt:       a.EndsAt,
			GeneratorURL: a.GeneratorURL,
		}}
		if one.StartsAt.IsZero() {
			one.StartsAt = time.Now()
		}
		list = append(list, one)
	}
	return list
}
