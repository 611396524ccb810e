package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// receiverURL is the URL of a webhook, with something that is secret.
func receiverURL(server *httptest.Server) string {
	return "generic://" + strings.TrimPrefix(server.URL, "http://") + "/hook?disabletls=yes&@Authorization=s3cr3t"
}

// TestNotifyTestsReceivers prints what the services answer, and what is wrong.
func TestNotifyTestsReceivers(t *testing.T) {
	var messages atomic.Int64
	well := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Title, Level string }
		err := json.NewDecoder(r.Body).Decode(&m)
		if err != nil || !strings.HasPrefix(m.Title, "[TEST] ") || !strings.HasSuffix(m.Title, " (prod)") {
			t.Errorf("got %+v, %v", m, err)
		}
		messages.Add(1)
	}))
	t.Cleanup(well.Close)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refuses.Close)
	o := options(nil, &logBuffer{})
	o.ConfigFile = "exporter.yaml"
	o.configContent = fmt.Appendf(nil, "environment: prod\nnotify:\n"+
		"  - {name: phone, url: %q, hours: \"\"}\n  - {name: other, url: %q, hours: \"\"}\n", receiverURL(well), receiverURL(refuses))
	for _, c := range []struct {
		receiver, printed, failed string
	}{
		{"phone", "phone: delivered: status 200\n", ""},
		{"other", "other: not delivered: ", "no message to other"},
		{"", "phone: delivered: status 200\nother: not delivered: ", "no message to other"},
		{"nobody", "", `no receiver is called "nobody"; there are: phone, other`},
	} {
		var out strings.Builder
		err := TestNotify(t.Context(), o, c.receiver, &out)
		failed := ""
		if err != nil {
			failed = err.Error()
		}
		if !strings.HasPrefix(out.String(), c.printed) || failed != c.failed {
			t.Errorf("%q: printed %q and failed with %q, want %q and %q", c.receiver, out.String(), failed, c.printed, c.failed)
		}
		if strings.Contains(out.String(), "s3cr3t") || strings.Contains(out.String(), "/hook") {
			t.Errorf("%q: shows a secret: %s", c.receiver, out.String())
		}
	}
	if n := messages.Load(); n != 2 {
		t.Errorf("%d messages were sent, want 2", n)
	}
	o.configContent = []byte("poll: {interval: 30s}\n")
	if said := fmt.Sprint(TestNotify(t.Context(), o, "", &strings.Builder{})); !strings.Contains(said, "no receiver is configured") {
		t.Errorf("without receivers: %s", said)
	}
}

// TestReceiversAreShown with what they are told, and a heartbeat, which goes on after a reload.
func TestReceiversAreShown(t *testing.T) {
	var beats atomic.Int64
	alive := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { beats.Add(1) }))
	t.Cleanup(alive.Close)
	content := fmt.Sprintf("notify:\n  - {name: phone, url: %q, hours: \"\"}\nheartbeat: {url: %q}\ntargets:\n"+
		"  - {kind: http, name: self, url: %q}\n",
		receiverURL(alive), alive.URL+"/s3cr3t", alive.URL)
	e, path := startWithFile(t, nil, content, nil)
	if !exportertest.Eventually(patience, between(t), func() bool { return beats.Load() > 1 }) {
		t.Error("no heartbeat")
	}
	e.wait(t, "the receiver on the page", func(p page) bool {
		waiting, known := p.Value("chatstack_notification_queue_length", "receiver", "phone")
		sent, counts := p.Value("chatstack_notifications_total", "receiver", "phone", "outcome", "delivered")
		return known && counts && waiting+sent == 0
	})
	e.waitForPage(t, "<b>phone</b>: nothing sent yet", "<b>heartbeat</b>: last sent")
	for _, path := range append(e.pages(t), "/metrics", "/api/v1/status") {
		if r := e.get(t, path, http.Header{}); bytes.Contains(r.body, []byte("s3cr3t")) {
			t.Errorf("%s shows a secret", path)
		}
	}
	rewrite(t, path, strings.Replace(content, "name: phone", "name: desk", 1))
	must(t, e.app.Reload(t.Context()))
	e.wait(t, "another receiver on the page", func(p page) bool {
		_, known := p.Value("chatstack_notification_queue_length", "receiver", "desk")
		_, former := p.Value("chatstack_notification_queue_length", "receiver", "phone")
		return known && !former
	})
}

// TestWrongReceiversAreRefused with file and line, and without a token.
func TestWrongReceiversAreRefused(t *testing.T) {
	o := options(nil, &logBuffer{})
	o.ConfigFile = filepath.Join(t.TempDir(), "exporter.yaml")
	for url, want := range map[string]string{
		"telegram://123456:s3cr3t-s3cr3t@telegram":        "chats",
		"https://example.org/s3cr3t":                      "notify",
		"nfty://ntfy.sh/s3cr3t":                           "ntfy",
		"smtp://user:s3cr3t@mail.example.org/?from=a@b.c": "to",
	} {
		o.configContent = fmt.Appendf(nil, "notify:\n  - name: phone\n    url: %q\n", url)
		_, err := LoadConfig(o)
		said := fmt.Sprint(err)
		if !strings.Contains(said, "exporter.yaml:3") || !strings.Contains(said, want) || strings.Contains(said, "s3cr3t") {
			t.Errorf("%s: %s", url, said)
		}
	}
}

// TestDrillOfOwnReceivers follows a message on the way of all others, without Prometheus and Alertmanager.
func TestDrillOfOwnReceivers(t *testing.T) {
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(well.Close)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refuses.Close)
	log := &logBuffer{}
	o := options(nil, log).with(fmt.Sprintf("notify:\n  - {name: phone, url: %q}\n  - {name: desk, url: %q}\n"+
		"heartbeat: {url: %q}\n", receiverURL(well), receiverURL(refuses), well.URL))
	o.EnableLifecycle = true
	e := startApp(t, o, log)
	bare := startExporter(t, nil, "poll: {}\n")
	url := func(e *exporter) string { return e.url }
	for name, c := range map[string]struct {
		DrillOptions

		verdict alertpath.State
		steps   []string
	}{
		"all": {DrillOptions{Exporter: url(e), Severity: "none"}, alertpath.Wrong, []string{
			"exporter works version ", "receiver works phone got the message: status 200", "receiver wrong desk did not get the message: ",
		}},
		"one": {DrillOptions{Exporter: url(e), Severity: "warning", Receivers: []string{"phone"}}, alertpath.Works, []string{
			"exporter works version ", "receiver works phone got the message: status 200",
		}},
		"nobody": {DrillOptions{Exporter: url(e), Severity: "none", Receivers: []string{"fax"}}, alertpath.Wrong, []string{
			"exporter works version ", `receiver wrong the exporter has no receiver "fax"`,
		}},
		"no receivers": {DrillOptions{Exporter: url(bare), Severity: "none"}, alertpath.Wrong, []string{
			"exporter wrong the exporter has no receivers of its own",
		}},
		"no exporter": {DrillOptions{Exporter: "http://127.0.0.1:1", Severity: "none"}, alertpath.Wrong, []string{"exporter wrong GET "}},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []string
			verdict, _, err := Drill(t.Context(), o, c.DrillOptions, func(list []alertpath.Step) {
				for i := range list {
					s := &list[i]
					steps = append(steps, strings.Join([]string{s.Name, string(s.State), s.Text + s.Error}, " "))
				}
			}, func(string) {})
			same := slices.EqualFunc(steps, c.steps, strings.HasPrefix)
			if err != nil || verdict != c.verdict || !same {
				t.Errorf("%s, %v: %q, want %s: %q", verdict, err, steps, c.verdict, c.steps)
			}
			if said := strings.Join(steps, "\n"); strings.Contains(said, "s3cr3t") || strings.Contains(said, "/hook") {
				t.Errorf("shows a secret: %s", said)
			}
		})
	}
	e.reportWhen(t, "the last message", func(r *status.Report) bool { return !r.Receivers[0].Success.IsZero() })
	var dry []alertpath.Step
	verdict, _, err := Drill(t.Context(), o, DrillOptions{Exporter: url(e), Severity: "none", DryRun: true},
		func(list []alertpath.Step) { dry = append(dry, list...) }, func(string) {})
	if err != nil || verdict != alertpath.Unknown || len(dry) != 3 || dry[1].State != alertpath.Unknown {
		t.Errorf("dry: %s, %v: %+v", verdict, err, dry)
	}
	d := describe(t, e)
	wish := `{"severity": "none", "receivers": ["phone"]}`
	d.hold(t, "/components/schemas/ReceiversDrillRequest", []byte(wish))
	_, answer := e.exchange(t, http.MethodPost, "/api/v1/notifications", wish)
	d.hold(t, schemaOf("/api/v1/notifications", "post", "200"), answer)
	for _, wrong := range []string{`{"severity": "high"}`, `{"severity": "none", "receivers": ["fax"]}`} {
		status, answer := e.exchange(t, http.MethodPost, "/api/v1/notifications", wrong)
		d.hold(t, "/components/schemas/Error", answer)
		if status != http.StatusBadRequest {
			t.Errorf("%s: %d: %s", wrong, status, answer)
		}
	}
	const nowhere = "http://127.0.0.1:1"
	for _, flags := range []DrillOptions{{Prometheus: nowhere}, {Alertmanager: nowhere}, {EveryAlert: true}, {Ruler: nowhere}} {
		var usage UsageError
		if _, _, err := Drill(t.Context(), o, flags, nil, nil); !errors.As(err, &usage) {
			t.Errorf("%+v: %v", flags, err)
		}
	}
}
