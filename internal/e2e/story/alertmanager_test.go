package story

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
)

// router is an Alertmanager with a shipped configuration: its routes, inhibitions and repetitions, without its servers.
type router struct {
	alerts *mem.Alerts
	// ahead is how far Prometheus' clock is before this one's.
	ahead time.Duration
	texts *template.Template

	mu       sync.Mutex
	received []notification
	// wrong are messages with the wrong words.
	wrong []string
}

// notification is a message that a person gets.
type notification struct {
	at       time.Time
	receiver string
	// alerts are those that it tells of, such as "TargetDown warning web" and "ContainerDown warning db is over".
	alerts []string
	// text is what a telephone shows, with the shipped texts.
	text string
}

// receiver writes down what it is to tell.
type receiver struct {
	name   string
	router *router
}

// Notify implements notify.Notifier.
func (r receiver) Notify(ctx context.Context, alerts ...*alert.Alert) (bool, error) {
	data := notify.GetTemplateData(ctx, r.router.texts, alerts, slog.New(slog.DiscardHandler))
	text, err := r.router.texts.ExecuteTextString("{{ template \"chatstack.subject\" . }}\n{{ template \"chatstack.brief\" . }}", data)
	if err != nil {
		return false, err
	}
	n := notification{at: time.Now(), receiver: r.name, text: text}
	for _, a := range alerts {
		line := a.Name()
		for _, label := range []model.LabelName{"severity", "env", "target", "of", "container", "endpoint", "instance"} {
			if v := a.Labels[label]; v != "" && v != "prod" {
				line += " " + string(v)
			}
		}
		if a.Resolved() {
			line += " is over"
		}
		n.alerts = append(n.alerts, line)
	}
	slices.Sort(n.alerts)
	r.router.mu.Lock()
	defer r.router.mu.Unlock()
	subject, _, _ := strings.Cut(text, "\n")
	if wrong := wrongWords(subject, data); wrong != "" && r.name != "heartbeat" {
		r.router.wrong = append(r.router.wrong, fmt.Sprintf("%s: %q, %s", r.name, subject, wrong))
	}
	r.router.received = append(r.router.received, n)
	return false, nil
}

// SendResolved implements notify.ResolvedSender.
func (receiver) SendResolved() bool { return true }

// newRouter starts one with the routes of a configuration file.
func newRouter(t *testing.T, file string) *router {
	t.Helper()
	content, err := os.ReadFile(file)
	must(t, err)
	r := &router{}
	quiet, registry, record := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), eventrecorder.NopRecorder()
	cfg, err := config.Load(routesOf(string(content)))
	must(t, err)
	r.alerts, err = mem.NewAlerts(t.Context(), 30*time.Minute, 0, nil, quiet, record, registry, featurecontrol.NoopFlags{})
	must(t, err)
	log, err := nflog.New(nflog.Options{Retention: 120 * time.Hour, Logger: quiet, Metrics: registry})
	must(t, err)
	silences, err := silence.New(silence.Options{
		Retention:     120 * time.Hour,
		Logger:        quiet,
		Metrics:       registry,
		EventRecorder: record,
	})
	must(t, err)
	tmpl, err := template.FromGlobs([]string{filepath.Join(filepath.Dir(file), "templates", "*.tmpl")})
	must(t, err)
	tmpl.ExternalURL, r.texts = &url.URL{}, tmpl
	receivers := map[string][]notify.Integration{}
	for _, given := range cfg.Receivers {
		one := receiver{given.Name, r}
		receivers[given.Name] = []notify.Integration{notify.NewIntegration(one, one, "story", 0, given.Name)}
	}
	times := map[string][]timeinterval.TimeInterval{}
	for _, i := range cfg.TimeIntervals {
		times[i.Name] = i.TimeIntervals
	}
	inhibitor := inhibit.NewInhibitor(r.alerts, cfg.InhibitRules, quiet, record)
	groups := marker.NewGroupMarker()
	pipeline := notify.NewPipelineBuilder(registry, featurecontrol.NoopFlags{}, record).New(receivers, func() time.Duration { return 0 },
		inhibitor, silence.NewSilencer(silences, quiet, record), timeinterval.NewIntervener(times), groups, log, nil)
	dispatcher := dispatch.NewDispatcher(r.alerts, dispatch.NewRoute(cfg.Route, nil), pipeline, groups,
		func(d time.Duration) time.Duration { return d + time.Minute }, 30*time.Second, nil, quiet, record, nil, tmpl)
	var running sync.WaitGroup
	running.Go(inhibitor.Run)
	inhibitor.WaitForLoading()
	running.Go(func() { dispatcher.Run(time.Now()) })
	t.Cleanup(func() {
		dispatcher.Stop()
		inhibitor.Stop()
		r.alerts.Close()
		running.Wait()
	})
	return r
}

// routesOf is a configuration with its routes, and receivers that have only their names.
func routesOf(content string) string {
	head, rest, _ := strings.Cut(content, "\nreceivers:\n")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ *- name: *"?([\w-]+)"?$`).FindAllStringSubmatch(rest, -1) {
		names = append(names, "  - name: "+m[1])
	}
	head = regexp.MustCompile(`(?m)^(templates|global):.*\n(?:^[ \t]+.*\n|^$\n)*`).ReplaceAllString(head+"\n", "")
	return head + "\nreceivers:\n" + strings.Join(names, "\n") + "\n"
}

// send takes what Prometheus has to tell.
func (r *router) send(ctx context.Context, _ string, alerts ...*rules.Alert) {
	var list []*alert.Alert
	set := func(l labels.Labels) model.LabelSet {
		s := model.LabelSet{}
		l.Range(func(l labels.Label) { s[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
		return s
	}
	for _, a := range alerts {
		starts, ends := a.FiredAt.Add(-r.ahead), a.ValidUntil.Add(-r.ahead)
		if !a.ResolvedAt.IsZero() {
			ends = a.ResolvedAt.Add(-r.ahead)
		}
		list = append(list, &alert.Alert{
			Alert: model.Alert{
				Labels:      set(a.Labels),
				Annotations: set(a.Annotations),
				StartsAt:    starts,
				EndsAt:      ends,
			},
			UpdatedAt: time.Now(),
		})
	}
	if err := r.alerts.Put(ctx, list...); err != nil {
		panic(err)
	}
}

// notifications are the messages, but for the heartbeat.
func (r *router) notifications() []notification {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.received), func(n notification) bool { return n.receiver == "heartbeat" })
}

// checkWords holds the words of every message.
func (r *router) checkWords(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wrong := range r.wrong {
		t.Errorf("a message to %s", wrong)
	}
}
