//go:build realservers

package app

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

const alertmanagerDir = "../../deploy/alertmanager"

// amtools are those of the oldest and of the newest Alertmanager that the configuration is for.
var amtools = map[string][]string{
	"debian": {"amtool"},
	"newest": {"go", "tool", "-modfile=../../.ci/tools/amtool/go.mod", "amtool"},
}

func amtool(t *testing.T, tool []string, args ...string) string {
	t.Helper()
	args = append(tool[1:len(tool):len(tool)], args...)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), tool[0], args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v; amtool is in Debian's package prometheus-alertmanager\n%s%s", tool[0], args, err, &stdout, &stderr)
	}
	return stdout.String()
}

// shippedAlert is an alert of the shipped rules.
type shippedAlert struct {
	Alert       string
	Labels      map[string]string
	Annotations map[string]string
}

func shippedAlerts(t *testing.T) []shippedAlert {
	t.Helper()
	content := contentOf(t, "../../alerts/chatstack.rules.yml")
	var file struct {
		Groups []struct{ Rules []shippedAlert }
	}
	must(t, yaml.Unmarshal(content, &file))
	var alerts []shippedAlert
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts = append(alerts, r)
			}
		}
	}
	if len(alerts) < 20 {
		t.Fatalf("%d alerts in the rules, want all of them", len(alerts))
	}
	return alerts
}

func TestRealAmtoolAcceptsTheConfiguration(t *testing.T) {
	for name, tool := range amtools {
		out := amtool(t, tool, "check-config", filepath.Join(alertmanagerDir, "alertmanager.yml"))
		says(t, name, out, "SUCCESS", "4 receivers", "1 templates")
	}
}

func TestRealRoutesGoWhereTheSeveritySays(t *testing.T) {
	// The channel gets some critical alerts always, and all at night.
	receivers := map[string]string{"critical": "page,chat", "warning": "chat", "none": "heartbeat"}
	drills := map[string]string{"critical": "page", "warning": "chat", "none": "drill"}
	config := filepath.Join(alertmanagerDir, "alertmanager.yml")
	for name, tool := range amtools {
		tried := map[string]bool{}
		for _, a := range shippedAlerts(t) {
			severity := a.Labels["severity"]
			if severity == "" {
				continue // a drill's, see below
			}
			want := receivers[severity]
			if testing.Short() && tried[want] {
				continue // the tool is started 100 times otherwise
			}
			tried[want] = true
			got := amtool(t, tool, "config", "routes", "test", "--config.file="+config, "alertname="+a.Alert, "stack=chat",
				"severity="+severity)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: %s, %s goes to %q, want %q", name, a.Alert, severity, got, want)
			}
		}
		for severity, want := range drills {
			got := amtool(t, tool, "config", "routes", "test", "--config.file="+config, "alertname=ChatstackDrill", "stack=chat",
				"drill=true", "severity="+severity)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: a drill of severity %s goes to %q, want %q", name, severity, got, want)
			}
		}
		if got := amtool(t, tool, "config", "routes", "test", "--config.file="+filepath.Join(alertmanagerDir, "first.yml"),
			"alertname=ChatstackDrill", "stack=chat", "drill=true", "severity=none"); strings.TrimSpace(got) != "drill" {
			t.Errorf("%s: with first.yml, a drill goes to %q", name, got)
		}
		for _, other := range []string{
			"alertname=TargetDown severity=critical", "alertname=Watchdog severity=none",
			"alertname=ExporterDown severity=critical stack=other",
		} {
			args := append([]string{"config", "routes", "test", "--config.file=" + config}, strings.Fields(other)...)
			if got := amtool(t, tool, args...); strings.TrimSpace(got) != "chat" {
				t.Errorf("%s: the alert %s of other rules goes to %q, want chat", name, other, got)
			}
		}
	}
}

func TestRealTemplatesReadWell(t *testing.T) {
	at := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	made := func(status, severity, container string) map[string]any {
		return map[string]any{
			"status": status, "startsAt": at, "endsAt": at.Add(time.Hour), "generatorURL": "http://prometheus/graph?g0.expr=a",
			"labels": map[string]string{
				"alertname": "ContainerDown", "severity": severity, "container": container, "docker_host": "a&b",
			},
			"annotations": map[string]string{
				"summary":     "Container " + container + " does not run.",
				"description": "It should.",
				"runbook_url": "https://runbooks/ContainerDown.md",
			},
		}
	}
	data := func(status string, alerts ...map[string]any) string {
		t.Helper()
		body, err := json.Marshal(map[string]any{
			"receiver": "page", "status": status, "externalURL": "http://alertmanager", "alerts": alerts,
			"groupLabels": map[string]string{}, "commonLabels": alerts[0]["labels"], "commonAnnotations": map[string]string{},
		})
		must(t, err)
		path := filepath.Join(t.TempDir(), "data.json")
		must(t, os.WriteFile(path, body, 0o600))
		return path
	}
	one := data("firing", made("firing", "critical", "irc"))
	two := data("firing", made("firing", "warning", "irc"), made("firing", "warning", "xmpp"), made("resolved", "warning", "docs"))
	over := data("resolved", made("resolved", "critical", "irc"))
	ended := data("resolved", made("resolved", "critical", "irc"), made("resolved", "critical", "xmpp"))
	later := made("firing", "critical", "xmpp")
	later["startsAt"] = at.Add(time.Minute)
	newest := data("firing", made("firing", "critical", "irc"), later)
	const silence = "http://alertmanager/#/silences/new?filter=%7Balertname%3D%22ContainerDown%22%2Ccontainer%3D%22irc%22%2Cdocker_host%3D%22a%26b%22%2Cseverity%3D%22critical%22%7D"
	for name, tool := range amtools {
		for _, c := range []struct {
			template, kind, data string
			want                 []string
			whole                bool
		}{
			{
				"subject",
				"text",
				one,
				[]string{"[CRITICAL] Container irc does not run."},
				true,
			},
			{
				"subject",
				"text",
				two,
				[]string{"[WARNING] Container irc does not run. Also firing: 1. Over: 1."},
				true,
			},
			{
				"subject",
				"text",
				newest,
				[]string{"[CRITICAL] Container xmpp does not run. Also firing: 1."},
				true,
			},
			{
				"subject",
				"text",
				ended,
				[]string{"[RESOLVED] It was: Container irc does not run. And 1 more."},
				true,
			},
			{
				"subject",
				"text",
				over,
				[]string{"[RESOLVED] It was: Container irc does not run."},
				true,
			},
			{
				"colour",
				"text",
				one,
				[]string{"danger"},
				true,
			},
			{
				"colour",
				"text",
				two,
				[]string{"warning"},
				true,
			},
			{
				"colour",
				"text",
				over,
				[]string{"good"},
				true,
			},
			{
				"text",
				"text",
				one,
				[]string{
					"CRITICAL  Container irc does not run.\nIt should.\nSince:   2026-05-01 03:00 UTC\n" +
						"To do:   https://runbooks/ContainerDown.md\nGraph:   http://prometheus/graph?g0.expr=a\nSilence: " + silence +
						"\nAlert:   ContainerDown container=irc docker_host=a&b",
				},
				true,
			},
			{
				"text",
				"text",
				over,
				[]string{
					"RESOLVED  It was: Container irc does not run.\nFrom 2026-05-01 03:00 UTC to 2026-05-01 04:00 UTC.\n",
					"Alert:   ContainerDown",
				},
				false,
			},
			{
				"chat",
				"text",
				one,
				[]string{
					"*Container irc does not run.*\nIt should.\nSince 2026-05-01 03:00 UTC · " +
						"<https://runbooks/ContainerDown.md|what to do> · <http://prometheus/graph?g0.expr=a|graph> · <" +
						silence + "|silence>\nContainerDown container=irc docker_host=a&amp;b",
				},
				true,
			},
			{
				"chat",
				"text",
				two,
				[]string{"*Container xmpp does not run.*", "Over: Container docs does not run.\nFrom 2026-05-01 03:00 UTC to "},
				false,
			},
			{
				"html",
				"html",
				one,
				[]string{
					`<strong>Container irc does not run.</strong>`, `<a href="https://runbooks/ContainerDown.md">`,
					`<a href="` + silence + `">`, "docker_host=a&amp;b",
				},
				false,
			},
			{
				"html",
				"html",
				two,
				[]string{"<strong>Over.</strong> It was: Container docs does not run."},
				false,
			},
		} {
			got := amtool(t, tool, "template", "render", "--template.glob="+filepath.Join(alertmanagerDir, "templates", "*.tmpl"),
				"--template.text={{ template \"chatstack."+c.template+"\" . }}", "--template.type="+c.kind, "--template.data="+c.data)
			for _, want := range c.want {
				if !strings.Contains(got, want) || c.whole && strings.TrimSpace(got) != want {
					t.Errorf("%s: %s = %q, want %q", name, c.template, got, want)
				}
			}
			if strings.Contains(got, "<no value>") || strings.Contains(got, "%!") {
				t.Errorf("%s: %s has holes: %q", name, c.template, got)
			}
		}
	}
}

// operators are those who get notifications: over a webhook, in a channel, by mail, and the heartbeat's other side.
type operators struct {
	page, chat, heartbeat chan []byte
	mails                 chan *mail.Message
}

// listen starts their servers and fits the shipped configuration to them: addresses, waits and the hour, nothing else. It
// returns the files that the configuration wants beside it, too.
func listen(t *testing.T, config string) (o *operators, fitted string, files map[string][]byte) {
	t.Helper()
	o = &operators{
		page:      make(chan []byte, 100),
		chat:      make(chan []byte, 100),
		heartbeat: make(chan []byte, 100),
		mails:     make(chan *mail.Message, 100),
	}
	mux := http.NewServeMux()
	for path, got := range map[string]chan []byte{"/page": o.page, "/chat": o.chat, "/heartbeat": o.heartbeat} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // it is sent again
			}
			if want := "Bearer secret of " + path; path != "/chat" && r.Header.Get("Authorization") != want {
				t.Errorf("%s: authorization %q, want %q", path, r.Header.Get("Authorization"), want)
			}
			got <- body
			io.WriteString(w, "ok") //nolint:errcheck // nobody to tell
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	address := realstack.ReceiveMail(t, func(received []byte) {
		if m, err := mail.ReadMessage(bytes.NewReader(received)); err == nil {
			o.mails <- m
		}
	})
	config = realstack.FitAlertmanager(t, config, server.URL, address, [2]string{`group_wait: \S+`, "group_wait: 500ms"})
	return o, config, map[string][]byte{
		"secrets/chat_webhook_url": []byte(server.URL + "/chat"),
		"secrets/oncall_token":     []byte("secret of /page"),
		"secrets/heartbeat_token":  []byte("secret of /heartbeat"),
	}
}

// next waits for what comes next.
func next[T any](t *testing.T, what string, from chan T) (got T) {
	t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	select {
	case got = <-from:
	case <-patience.C:
		t.Fatalf("nothing came: %s", what)
	}
	return got
}

func TestRealAlertmanagerTellsTheRightPeople(t *testing.T) {
	shipped := contentOf(t, filepath.Join(alertmanagerDir, "alertmanager.yml"))
	o, config, files := listen(t, string(shipped))
	files["templates/chatstack.tmpl"] = contentOf(t, filepath.Join(alertmanagerDir, "templates", "chatstack.tmpl"))
	am := realstack.StartAlertmanager(t, config, files)
	labels := func(pairs ...string) map[string]string {
		l := map[string]string{"stack": "chat"}
		for i := 0; i < len(pairs); i += 2 {
			l[pairs[i]] = pairs[i+1]
		}
		return l
	}
	post := func(alerts ...map[string]string) {
		t.Helper()
		var body []map[string]any
		for _, l := range alerts {
			body = append(body, map[string]any{
				"labels": l, "generatorURL": "http://prometheus/graph",
				"annotations": map[string]string{
					"summary":     l["alertname"] + " is so.",
					"description": "Very.",
					"runbook_url": "https://runbooks/" + l["alertname"] + ".md",
				},
			})
		}
		raw, err := json.Marshal(body)
		must(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, am.URL()+"/api/v2/alerts", bytes.NewReader(raw))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close() //nolint:errcheck // read below where it matters
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("post alerts: status %d: %s", resp.StatusCode, text)
		}
	}
	post(
		labels("alertname", "Watchdog", "severity", "none"),
		labels("alertname", "ContainerDown", "severity", "warning", "container", "irc", "docker_host", "local", "chat_server", "irc"),
		labels("alertname", "ContainerDown", "severity", "critical", "container", "irc", "docker_host", "local", "chat_server", "irc"),
		labels("alertname", "ContainerRestarts", "severity", "warning", "container", "irc", "docker_host", "local", "chat_server", "irc"),
		labels("alertname", "ContainerRestarts", "severity", "critical", "container", "irc", "docker_host", "local", "chat_server", "irc"),
		labels("alertname", "ContainerUnhealthy", "severity", "warning", "container", "docs", "docker_host", "local",
			"chat_server", "docs"),
		labels("alertname", "ContainerDown", "severity", "warning", "container", "irc", "docker_host", "elsewhere", "chat_server", "irc"),
		labels("alertname", "ExporterDown", "severity", "warning", "instance", "one of two", "chat_server", "exporter"),
	)
	if beat := next(t, "the heartbeat", o.heartbeat); !bytes.Contains(beat, []byte(`"alertname":"Watchdog"`)) {
		t.Errorf("the heartbeat is %s", beat)
	}
	var page struct {
		Alerts []struct{ Labels map[string]string }
	}
	must(t, json.Unmarshal(next(t, "the page", o.page), &page))
	if len(page.Alerts) != 2 {
		t.Errorf("the page has %v, want both critical alerts in one", page.Alerts)
	}
	m := next(t, "the mail", o.mails)
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "[CRITICAL] ContainerDown is so. Also firing: 1." {
		t.Errorf("subject = %q, %v", subject, err)
	}
	parts := partsOf(t, m)
	if !strings.Contains(parts["text/plain"], "Alert:   ContainerRestarts chat_server=irc container=irc docker_host=local\n") ||
		!strings.Contains(parts["text/html"], `<a href="https://runbooks/ContainerDown.md">What to do</a>`) {
		t.Errorf("the mail says\n%s\n%s", parts["text/plain"], parts["text/html"])
	}
	// Of what is critical, the channel is told as a warning.
	told := map[string]bool{}
	for range 3 {
		var said struct {
			Attachments []struct{ Title, Text, Color string }
		}
		if err := json.Unmarshal(next(t, "the channel", o.chat), &said); err != nil || len(said.Attachments) != 1 {
			t.Fatalf("the channel: %+v, %v", said, err)
		}
		told[said.Attachments[0].Color+" "+said.Attachments[0].Title] = strings.Contains(said.Attachments[0].Text, "|what to do>")
	}
	if diff := cmp.Diff(map[string]bool{
		"warning [WARNING] ContainerUnhealthy is so.":            true,
		"warning [WARNING] ContainerDown is so. Also firing: 1.": true, // of both engines
		"warning [WARNING] ExporterDown is so.":                  true,
	}, told); diff != "" {
		t.Errorf("the channel was told (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"Watchdog": "active", "ContainerDown warning local": "active", "ContainerDown critical local": "active",
		"ContainerDown warning elsewhere": "active", "ContainerRestarts warning local": "suppressed",
		"ContainerRestarts critical local": "active",
		"ContainerUnhealthy warning local": "active", "ExporterDown warning": "active",
	}
	if got := awaitStates(t, am.URL(), want); !maps.Equal(got, want) {
		t.Errorf("states (-want +got):\n%s", cmp.Diff(want, got))
	}
	// Most targets being down explains single ones, each severity its own. An alert of other rules neither explains nor is explained.
	foreign := func(l map[string]string) map[string]string {
		delete(l, "stack")
		return l
	}
	post(
		labels("alertname", "MostTargetsDown", "severity", "warning"),
		labels("alertname", "MostTargetsDown", "severity", "critical", "env", "other"),
		foreign(labels("alertname", "TargetDown", "severity", "warning", "docker_host", "foreign")),
		foreign(labels("alertname", "ExporterDown", "severity", "critical", "docker_host", "foreign")),
		foreign(labels("alertname", "DataVolumeUsage", "severity", "critical", "volume", "data", "docker_host", "foreign")),
		labels("alertname", "DataVolumeFilling", "severity", "warning", "volume", "data"),
		labels("alertname", "TargetDown", "severity", "critical", "target", "a"),
	)
	maps.Copy(want, map[string]string{
		"MostTargetsDown warning": "active", "MostTargetsDown critical": "active", "TargetDown warning foreign": "active",
		"ExporterDown critical foreign": "active", "DataVolumeUsage critical foreign": "active", "DataVolumeFilling warning": "active",
		"ContainerDown warning local": "suppressed", "ContainerDown warning elsewhere": "suppressed",
		"ContainerUnhealthy warning local": "suppressed",
		"TargetDown critical":              "active",
	})
	if got := awaitStates(t, am.URL(), want); !maps.Equal(got, want) {
		t.Errorf("states while most targets are down (-want +got):\n%s", cmp.Diff(want, got))
	}
	// Without any exporter, nothing else is told but that.
	post(labels("alertname", "ExporterDown", "severity", "critical"),
		labels("alertname", "TLSCertificateExpiry", "severity", "critical", "target", "xmpp_c2s"))
	for alert := range want {
		if alert != "Watchdog" && alert != "ExporterDown warning" && alert != "MostTargetsDown critical" &&
			!strings.HasSuffix(alert, "foreign") {
			want[alert] = "suppressed"
		}
	}
	want["ExporterDown critical"], want["TLSCertificateExpiry critical"] = "active", "suppressed"
	if got := awaitStates(t, am.URL(), want); !maps.Equal(got, want) {
		t.Errorf("states without exporter (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// partsOf are the parts of a mail by their media types.
func partsOf(t *testing.T, m *mail.Message) map[string]string {
	t.Helper()
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	must(t, err)
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err != nil {
			return parts
		}
		media, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		must(t, err)
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		must(t, err)
		parts[media] = strings.ReplaceAll(string(body), "\r\n", "\n")
	}
}

// awaitStates returns the states of all alerts, by name, severity and engine, when they are as wanted, or at last.
func awaitStates(t *testing.T, url string, want map[string]string) (got map[string]string) {
	t.Helper()
	exportertest.Eventually(time.Minute, 20*time.Millisecond, func() bool {
		var alerts []struct {
			Labels map[string]string
			Status struct{ State string }
		}
		must(t, json.Unmarshal(fetch(t, url+"/api/v2/alerts"), &alerts))
		got = map[string]string{}
		for _, a := range alerts {
			name := strings.TrimSuffix(a.Labels["alertname"]+" "+a.Labels["severity"], " none")
			got[strings.TrimSpace(name+" "+a.Labels["docker_host"])] = a.Status.State
		}
		return maps.Equal(got, want)
	})
	return got
}
