package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// shapes are the keys of JSON values with their types, by the path to the key.
type shapes map[string]map[string]bool

// named are the objects whose keys are names of things, which count as one.
var named = []string{
	"GET /api/v1/discovery 200[].labels",
	"state.json docker.containers",
	"state.json availability.span.latency",
}

// add takes a value in.
func (s shapes) add(path string, value any) {
	note := func(kind string) {
		if s[path] == nil {
			s[path] = map[string]bool{}
		}
		s[path][kind] = true
	}
	switch v := value.(type) {
	case map[string]any:
		note("object")
		for key, inner := range v {
			if slices.Contains(named, path) {
				key = "*"
			}
			s.add(path+"."+key, inner)
		}
	case []any:
		note("list")
		for _, inner := range v {
			s.add(path+"[]", inner)
		}
	case nil:
		note("null")
	case float64:
		note("number")
	case bool:
		note("true or false")
	default:
		note("text")
	}
}

// addJSON takes a JSON text in.
func (s shapes) addJSON(t *testing.T, path string, text []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v in %.200q", path, err, text)
	}
	s.add(path, value)
}

func (s shapes) lines() (lines []string) {
	for _, path := range slices.Sorted(maps.Keys(s)) {
		lines = append(lines, path+": "+strings.Join(slices.Sorted(maps.Keys(s[path])), ", "))
	}
	return lines
}

// told is a log that keeps which messages there were, with their keys.
type told struct {
	slog.Handler
	mu       *sync.Mutex
	messages map[string]bool
	keys     []string
}

// Handle implements slog.Handler.
func (l *told) Handle(_ context.Context, r slog.Record) error {
	keys := slices.Clone(l.keys)
	r.Attrs(func(a slog.Attr) bool { keys = append(keys, a.Key); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[strings.TrimSpace(fmt.Sprintf("%s %q %s", r.Level, r.Message, strings.Join(keys, " ")))] = true
	return nil
}

// Enabled implements slog.Handler.
func (l *told) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (l *told) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		with.keys = append(slices.Clone(with.keys), a.Key)
	}
	return &with
}

// site is a simulated stack with the exporter of the demo, in simulated time.
type site struct {
	*testing.T
	network *simstack.Network
	stack   *simstack.Stack
	file    string // of the configuration
	state   string // the state file
	log     *told
	app     *app.App
	url     string
	stop    func()
	answers shapes
}

// onSite runs the exporter on a site until the test ends.
func onSite(t *testing.T, do func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := &site{
			T:       t,
			network: new(simstack.Network),
			file:    filepath.Join(dir, "exporter.yaml"),
			state:   filepath.Join(dir, "state.json"),
			log:     &told{mu: new(sync.Mutex), messages: map[string]bool{}},
			answers: shapes{},
		}
		s.stack = simstacktest.Start(t, simstack.Options{Network: s.network, Coupled: true})
		demo, err := os.ReadFile("../../internal/app/demo.yaml")
		must(t, err)
		must(t, os.WriteFile(s.file, []byte(strings.NewReplacer(
			"interval: 5s", "interval: 30s", "@every 5s", "@every 30s", // which a user has
			"XMPP_CLIENTS", s.stack.XMPPClientAddress(), "XMPP_SERVERS", s.stack.XMPPServerAddress(), "IRC_CLIENTS", s.stack.IRCAddress(),
			"WEB_IRC", s.stack.URL("web_irc"), "WEB_PANEL", s.stack.URL("web_panel"), "LOG_VIEWER", s.stack.URL("log_viewer"),
			"CA_FILE", s.stack.CAFile(), "RELAY_PASSWORD", simstack.RelayPassword, "DATA_DIRECTORY", dir,
		).Replace(string(demo))+"peers: [{targets: ['other:9655'], labels: {part: containers}}]\n"), 0o600))
		s.start()
		t.Cleanup(func() { s.stop() })
		do(s)
	})
}

// start starts the exporter.
func (s *site) start() {
	s.Helper()
	address, none, env := []string{"127.0.0.1:0"}, "", s.stack.Environ()
	a, err := app.New(app.Options{
		ConfigFile:      s.file,
		Lookup:          func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		EnableLifecycle: true,
		Web:             &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none},
		Log:             slog.New(s.log),
		Listen:          s.network.Listen,
	})
	must(s.T, err)
	ctx, cancel := context.WithCancel(exchange.WithDialer(context.Background(), s.network.Dial))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	s.app, s.url = a, "http://"+a.Addresses()[0].String()
	s.stop = sync.OnceFunc(func() { cancel(); must(s.T, <-ended) })
}

// send sends a request, and returns the status and the whole answer.
func (s *site) send(method, path, body string) (status int, answer []byte) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	must(s.T, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client().Do(request)
	must(s.T, err)
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	answer, err = io.ReadAll(response.Body)
	must(s.T, err)
	return response.StatusCode, answer
}

func (s *site) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.network.Dial, DisableKeepAlives: true}}
}

// ask sends a request, whose JSON answer belongs to the contract, and returns the answer. path may have {names} for what is in it.
func (s *site) ask(method, path, body string, with ...string) []byte {
	s.Helper()
	status, answer := s.send(method, strings.NewReplacer(with...).Replace(path), body)
	if status != http.StatusNoContent {
		s.answers.addJSON(s.T, fmt.Sprintf("%s %s %d", method, path, status), answer)
	}
	return answer
}

// listen reads the first event of the stream.
func (s *site) listen() {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+"/api/v1/events", http.NoBody)
	must(s.T, err)
	response, err := s.client().Do(request)
	must(s.T, err)
	defer response.Body.Close() //nolint:errcheck // a stream has no end
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		if field == "data" {
			s.answers.addJSON(s.T, "GET /api/v1/events", []byte(value))
			return
		}
		if field != "" {
			s.answers.add("GET /api/v1/events "+field, value)
		}
	}
	s.Error("the stream ends without an event")
}

// read asks for everything that there is to read.
func (s *site) read() {
	s.Helper()
	var report struct {
		Services, Containers []struct{ Charts []string }
	}
	must(s.T, json.Unmarshal(s.ask(http.MethodGet, "/api/v1/status", ""), &report))
	charts := map[string]string{} // one of a metric
	for _, shown := range slices.Concat(report.Services, report.Containers) {
		for _, name := range shown.Charts {
			charts[name[strings.LastIndex(name, "/")+1:]] = name
		}
	}
	for _, name := range charts {
		s.ask(http.MethodGet, "/api/v1/history/{name}", "", "{name}", name)
	}
	s.listen()
	s.ask(http.MethodGet, "/api/v1/availability", "")
	s.ask(http.MethodGet, "/api/v1/discovery", "")
	s.ask(http.MethodGet, "/api/v1/maintenance", "")
	var list struct{ Incidents []struct{ ID string } }
	must(s.T, json.Unmarshal(s.ask(http.MethodGet, "/api/v1/incidents", ""), &list))
	for _, i := range list.Incidents {
		s.ask(http.MethodGet, "/api/v1/incidents/{id}", "", "{id}", i.ID)
	}
}

// plain are words for the log of incidents, of which none is in an id.
type plain struct{}

func (plain) Name(health.Subject, string) string    { return "" }
func (plain) Headline(*health.Event) string         { return "" }
func (plain) Impact(string, []*health.Event) string { return "" }

// identify notes the id that the incident of each present problem would have, had the problem begun at a certain time. Those who were
// told of an incident before an upgrade know it by its id.
func (s *site) identify(ids map[string]bool) {
	s.Helper()
	for _, p := range s.app.Snapshot().Judgement.Problems {
		since := health.Milli(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
		e := health.Event{
			At:       since,
			Of:       health.Key(p.Subject),
			Alert:    p.Alert,
			Part:     p.Of,
			Since:    since,
			Severity: health.Critical,
		}
		opened := incident.New(plain{}).Apply(&health.Round{Tick: health.Tick{From: since, To: since}, Events: []health.Event{e}})
		if len(opened) != 1 {
			s.Errorf("%+v opens %d incidents, want one", p, len(opened))
			continue
		}
		ids[strings.Join(strings.Fields(strings.Join([]string{p.Kind, p.Host, p.Name, p.Alert, p.Of}, " ")), " ")+": "+opened[0].ID] = true
	}
}

// change does everything over HTTP that changes something.
func (s *site) change(kept shapes) {
	s.Helper()
	s.ask(http.MethodPost, "/api/v1/maintenance", `{"kind": "target", "name": "irc_rpc", "duration": "1h", "reason": "test"}`)
	time.Sleep(time.Minute)
	s.read()
	s.saved(kept)
	s.ask(http.MethodDelete, "/api/v1/maintenance/{kind}/{name}", "", "{kind}", "target", "{name}", "irc_rpc")
	s.ask(http.MethodPost, "/api/v1/targets/{target}/probe", "", "{target}", "irc_rpc")
	s.ask(http.MethodPost, "/api/v1/incidents/{id}/notes", `{"text": "test"}`, "{id}", "none")
	s.ask(http.MethodPost, "/api/v1/incidents/{id}/acknowledgement", `{"as": "test"}`, "{id}", "none")
	s.ask(http.MethodDelete, "/api/v1/containers/{docker_host}/{name}", "", "{docker_host}", "none", "{name}", "none")
	var started struct{ Drill struct{ ID string } }
	must(s.T, json.Unmarshal(s.ask(http.MethodPost, "/api/v1/drill", `{"severity": "none"}`), &started))
	s.ask(http.MethodDelete, "/api/v1/drill/{id}", "", "{id}", started.Drill.ID)
	s.ask(http.MethodPost, "/api/v1/notifications", `{"severity": "none"}`)
	s.ask(http.MethodGet, "/api/v1/nowhere", "")
	s.ask(http.MethodPut, "/api/v1/status", "")
}

// reload has the exporter read its configuration again, once as it is and once with a mistake in it.
func (s *site) reload() {
	s.Helper()
	right, err := os.ReadFile(s.file)
	must(s.T, err)
	for _, content := range []string{string(right) + "pol: {}\n", string(right)} {
		must(s.T, os.WriteFile(s.file, []byte(content), 0o600))
		s.send(http.MethodPost, "/-/reload", "")
		time.Sleep(10 * time.Second)
	}
}

// saved are the keys of what an exporter keeps.
func (s *site) saved(keys shapes) {
	s.Helper()
	content, err := os.ReadFile(s.state)
	must(s.T, err)
	_, lines, _ := strings.Cut(string(content), "\n")
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) < 4 || fields[2] == "-" {
			continue
		}
		kind, key, _ := strings.Cut(fields[1], "/")
		path := "state.json " + kind
		if section, _, many := strings.Cut(key, "/"); many || key == "saved" { // of the judge
			path += "/" + section
		}
		keys.addJSON(s.T, path, []byte(fields[3]))
	}
}

// TestContractOfARun plays the stories of the demo: what programs get as answers, what is kept, what is logged, and by which id
// an incident is known.
func TestContractOfARun(t *testing.T) {
	onSite(t, func(s *site) {
		kept, ids := shapes{}, map[string]bool{}
		time.Sleep(time.Minute)
		s.read()
		s.change(kept)
		for _, story := range simstack.Stories() {
			must(t, s.stack.SwitchStory(story.ID, true))
			time.Sleep(6 * time.Minute)
			s.read()
			s.saved(kept)
			s.identify(ids)
			must(t, s.stack.SwitchStory(story.ID, false))
			time.Sleep(2 * time.Minute)
		}
		s.reload()
		must(t, os.Remove(s.state)) // so that it is written whole, and then goes on
		time.Sleep(time.Minute)
		s.stop()
		s.saved(kept)
		s.start()
		time.Sleep(time.Minute)
		s.read()
		golden(t, "api.golden", s.answers.lines())
		golden(t, "state.golden", kept.lines())
		golden(t, "log.golden", slices.Sorted(maps.Keys(s.log.messages)))
		golden(t, "webhook_ids.golden", slices.Sorted(maps.Keys(ids)))
	})
}

// variablesRead are the environment variables that the program asks for.
func variablesRead(t *testing.T) map[string]bool {
	t.Helper()
	read := map[string]bool{}
	for _, name := range collectors.Variables() {
		read[name] = true
	}
	lookup := func(name string) (string, bool) { read[name] = true; return "", false }
	options := app.Options{Log: slog.New(slog.DiscardHandler), Lookup: lookup}
	options.RuntimeDirectory = app.RuntimeDirectory(options.Lookup)
	refused := exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })
	none := "http://127.0.0.1:1"
	servers := app.DrillOptions{
		Prometheus:   none,
		Alertmanager: none,
		Exporter:     none,
		DryRun:       true,
	}
	app.Drill(refused, options, servers, func([]alertpath.Step) {}, func(string) {}) //nolint:errcheck // nothing answers
	return read
}
