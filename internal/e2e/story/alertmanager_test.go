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
	// alerts are those that it tells of, such as "TargetDown warning web" and "ContainerDown warning db is over". facts are these with when
	// each began.
	alerts, facts []string
	// group is Alertmanager's key of the group, servers the values of chat_server of its alerts.
	group   string
	servers map[model.LabelValue]bool
	// text is what a telephone shows, with the shipped texts.
	text string
}

// receiver writes down what it is to tell.
type receiver struct {
	name   string
	router *router
	// reportsEnds is what the configuration has as send_resolved.
	reportsEnds bool
}

// Notify implements notify.Notifier.
func (r receiver) Notify(ctx context.Context, alerts ...*alert.Alert) (bool, error) {
	key, err := notify.ExtractGroupKey(ctx)
	if err != nil {
		return false, err
	}
	data := notify.GetTemplateData(ctx, r.router.texts, alerts, slog.New(slog.DiscardHandler))
	text, err := r.router.texts.ExecuteTextString("{{ template \"chatstack.subject\" . }}\n{{ template \"chatstack.brief\" . }}", data)
	if err != nil {
		return false, err
	}
	n := notification{
		at:       time.Now(),
		receiver: r.name,
		text:     text,
		group:    string(key),
		servers:  map[model.LabelValue]bool{},
	}
	for _, a := range alerts {
		n.servers[a.Labels["chat_server"]] = true
		line := a.Name()
		for _, label := range []model.LabelName{"severity", "env", "target", "of", "container", "endpoint", "instance"} {
			if v := a.Labels[label]; v != "" && v != "prod" {
				line += " " + string(v)
			}
		}
		if a.Resolved() {
			line += " is over"
		}
		n.alerts, n.facts = append(n.alerts, line), append(n.facts, line+a.StartsAt.String())
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
func (r receiver) SendResolved() bool { return r.reportsEnds }

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
		one := receiver{given.Name, r, reportsEnds(string(content), given.Name)}
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

// reportsEnds reports whether a receiver of a configuration sends messages about what is over. All its integrations agree.
func reportsEnds(content, name string) bool {
	_, rest, _ := strings.Cut(content, "\n  - name: "+name+"\n")
	own, _, _ := strings.Cut(rest, "\n  - name: ")
	return !strings.Contains(own, "send_resolved: false")
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

// repeats is the shortest repeat_interval of the routes.
const repeats = 2 * time.Hour

// checkGroups holds that every message is about one server, and that pages report no ends.
func (r *router) checkGroups(t *testing.T) {
	t.Helper()
	for _, n := range r.notifications() {
		if len(n.servers) != 1 {
			t.Errorf("a message of %s is about several servers: %q", n.receiver, n.alerts)
		}
		if n.receiver == "page" && slices.ContainsFunc(n.alerts, func(a string) bool { return strings.HasSuffix(a, " is over") }) {
			t.Errorf("a page reports what is over: %q", n.alerts)
		}
	}
}

// checkNews holds that every message says something that the last one of its group did not say.
func (r *router) checkNews(t *testing.T) {
	t.Helper()
	last := map[string]notification{}
	for _, n := range r.notifications() {
		before := last[n.group]
		last[n.group] = n
		isNew := func(fact string) bool { return !slices.Contains(before.facts, fact) }
		if !slices.ContainsFunc(n.facts, isNew) && n.at.Sub(before.at) < repeats {
			t.Errorf("a message of %s has no news: %q, %s after %q", n.receiver, n.facts, n.at.Sub(before.at), before.facts)
		}
	}
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
