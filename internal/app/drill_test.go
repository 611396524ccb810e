package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// drillingExporter accepts drills.
func drillingExporter(t *testing.T) *exporter {
	t.Helper()
	log := &logBuffer{}
	o := options(nil, log).with("poll: {}\n")
	o.EnableLifecycle = true
	return startApp(t, o, log)
}

// drills are the ids of the drills on the page, with their severities.
func (e *exporter) drills(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, s := range e.scrape(t).Samples("chatstack_drill") {
		found[exportertest.Label(s, "id")] = exportertest.Label(s, "severity")
	}
	return found
}

// startDrill starts one, and returns its id.
func (e *exporter) startDrill(t *testing.T, body string) string {
	t.Helper()
	status, answer := e.exchange(t, http.MethodPost, "/api/v1/drill", body)
	var started struct{ Drill struct{ ID string } }
	if err := json.Unmarshal(answer, &started); err != nil || status != http.StatusCreated {
		t.Fatalf("start a drill: %d: %s", status, answer)
	}
	return started.Drill.ID
}

// TestDrillEndsByItself is what a killed command leaves to the exporter.
func TestDrillEndsByItself(t *testing.T) {
	for body, lasts := range map[string]time.Duration{
		`{"severity": "none"}`:                    2 * time.Minute,
		`{"severity": "none", "duration": "30s"}`: 30 * time.Second,
	} {
		inSimulatedTime(t, func(t *testing.T) {
			e := drillingExporter(t)
			if found := e.drills(t); len(found) > 0 {
				t.Errorf("drills %v before the first", found)
			}
			id, begun := e.startDrill(t, body), time.Now()
			e.wait(t, "the drill", func(page) bool { return e.drills(t)[id] == "none" })
			time.Sleep(lasts - 2*time.Second - time.Since(begun))
			if found := e.drills(t); len(found) != 1 {
				t.Errorf("drills %v before its end", found)
			}
			time.Sleep(5 * time.Second)
			if found := e.drills(t); len(found) > 0 {
				t.Errorf("drills %v after its end", found)
			}
			e.startDrill(t, body)
		})
	}
}

func TestOnlyOneDrillAtATime(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e := drillingExporter(t)
		d := describe(t, e)
		first := e.startDrill(t, `{"severity": "critical"}`)
		status, answer := e.exchange(t, http.MethodPost, "/api/v1/drill", `{"severity": "none"}`)
		if status != http.StatusConflict || !strings.Contains(string(answer), "a drill is running until ") ||
			!strings.Contains(string(answer), "DELETE /api/v1/drill/"+first) {
			t.Errorf("second drill: %d: %s", status, answer)
		}
		d.hold(t, "/components/schemas/Error", answer)
		if status, answer := e.exchange(t, http.MethodDelete, "/api/v1/drill/other", ""); status != http.StatusNotFound {
			t.Errorf("end of another: %d: %s", status, answer)
		}
		status, answer = e.exchange(t, http.MethodDelete, "/api/v1/drill/"+first, "")
		if status != http.StatusOK {
			t.Errorf("end: %d: %s", status, answer)
		}
		d.hold(t, schemaOf("/api/v1/drill/{id}", "delete", "200"), answer)
		status, answer = e.exchange(t, http.MethodPost, "/api/v1/drill", `{"severity": "warning"}`)
		if status != http.StatusCreated {
			t.Errorf("drill after the end: %d: %s", status, answer)
		}
		d.hold(t, schemaOf("/api/v1/drill", "post", "201"), answer)
		// The first one's time is over, the second one's is not.
		time.Sleep(time.Minute)
		if found := e.drills(t); len(found) != 1 || found[first] != "" {
			t.Errorf("drills %v", found)
		}
	})
}

func TestBadDrillsAreRefused(t *testing.T) {
	e := drillingExporter(t)
	for body, want := range map[string]string{
		`{}`:                    `severity is \"\", must be one of none, warning, critical`,
		`{"severity": "fatal"}`: `severity is \"fatal\"`,
		`{"severity": "none", "duration": "11m"}`: "duration is 11m0s, must be at most 10m0s",
		`{"severity": "none", "duration": "0s"}`:  "must be at most",
		`{"severity": "none", "duration": "5"}`:   `duration is \"5\", must be one such as 90s`,
		`{"severity": "none", "id": "mine"}`:      `unknown key \"id\"; known keys: severity and duration`,
		`[]`:                                      "the body is not a drill: it is a JSON array",
	} {
		if status, answer := e.exchange(t, http.MethodPost, "/api/v1/drill", body); status != http.StatusBadRequest ||
			!strings.Contains(string(answer), want) {
			t.Errorf("%s: %d: %s", body, status, answer)
		}
	}
	if found := e.drills(t); len(found) > 0 {
		t.Errorf("drills %v", found)
	}
}

// chain is a Prometheus and an Alertmanager that exist only as answers, around a real exporter.
type chain struct {
	exporter *exporter
	flags    DrillOptions
	env      map[string]string
	changes  atomic.Int32 // requests that would change something in one of the two
	password string       // that both require
	stuck    bool         // Alertmanager sends nothing
	others   string       // the Alertmanagers that Prometheus has beside the first one
	failures string       // Prometheus' counters of failures to send
	own      string       // what Prometheus knows of these failures by scraping itself
	sent     atomic.Int32
	// edit changes the group of the loaded rules. unrecorded are recording rules without a series, dropped metrics that Prometheus lacks.
	edit                func(group map[string]any)
	unrecorded, dropped []string
	// repaired is when Prometheus has them, unless it is zero.
	repaired time.Time
	// lacks are paths that the server of the rules does not have.
	lacks []string
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{exporter: drillingExporter(t), env: map[string]string{}}
	c.flags = DrillOptions{Exporter: c.exporter.url, Severity: "none"}
	c.flags.Prometheus, c.flags.Alertmanager = serve(t, c.answer(t, c.prometheus)), serve(t, c.answer(t, c.alertmanager))
	return c
}

func (c *chain) answer(t *testing.T, body func(t *testing.T, r *http.Request) string) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			c.changes.Add(1)
		}
		if _, password, _ := r.BasicAuth(); password != c.password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if slices.Contains(c.lacks, r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, body(t, r)) //nolint:errcheck // the client is gone
	}
}

// drillID is the id of the drill that a scrape would find.
func (c *chain) drillID(t *testing.T) string {
	t.Helper()
	for id := range c.exporter.drills(t) {
		return id
	}
	return ""
}

func (c *chain) prometheus(t *testing.T, r *http.Request) string {
	t.Helper()
	id, data := c.drillID(t), "{}"
	labels := fmt.Sprintf(`{"alertname": "ChatstackDrill", "stack": "chat", "drill": "true", "severity": "none", "id": %q}`, id)
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); path {
	case "/metrics":
		return c.failures
	case "status/config":
		data = `{"yaml": "scrape_configs: [{job_name: chatstack_exporter, honor_labels: true}]"}`
	case "targets":
		data = `{"activeTargets": [{"labels": {"job": "chatstack_exporter"}, "scrapeUrl": "http://e", "health": "up", "scrapeInterval": ` +
			`"30s"}]}`
	case "rules":
		data = c.rules(t)
	case "alertmanagers":
		data = `{"activeAlertmanagers": [{"url": "http://a"}` + c.others + `]}`
	case "query":
		switch query := r.URL.Query().Get("query"); {
		case strings.Contains(query, "prometheus_notifications_errors_total"):
			if c.own != "" {
				data = vector(map[string]string{"alertmanager": "http://b", "fails": c.own})
			}
		case query == "chatstack_exporter_build_info":
			data = `{"result": [{"metric": {"job": "chatstack_exporter"}}]}`
		case query == "chatstack_label_check":
			own, _ := json.Marshal(alerts.LabelCheck()) //nolint:errchkjson // strings
			data = `{"result": [{"metric": ` + string(own) + `}]}`
		case id != "" && query == fmt.Sprintf("chatstack_drill{id=%q}", id):
			data = `{"result": [{"metric": {}}]}`
		case strings.HasPrefix(query, "absent("):
			name, _, _ := strings.Cut(strings.TrimPrefix(query, "absent("), ")")
			if c.lacksSeries() && slices.Contains(c.unrecorded, name) {
				data = vector(map[string]string{})
			}
		case strings.HasPrefix(query, "count_values "):
			data = c.counts(t)
		}
	case "alerts":
		if id != "" {
			data = `{"alerts": [{"state": "firing", "labels": ` + labels + `}]}`
		}
	}
	return `{"status": "success", "data": ` + data + `}`
}

// rules are those of the exporter's configuration, in the shape in which Prometheus shows them.
func (c *chain) rules(t *testing.T) string {
	t.Helper()
	group := map[string]any{}
	must(t, json.Unmarshal(alerts.Loaded(alerts.Defaults()), &group))
	group["file"], group["lastEvaluation"], group["limit"] = "f", time.Now().Format(time.RFC3339), 0
	for _, r := range rulesIn(group) {
		r["health"], r["evaluationTime"], r["lastEvaluation"] = "ok", 0.0003, group["lastEvaluation"]
		if r["type"] == "recording" {
			delete(r, "duration")
			delete(r, "keepFiringFor")
			delete(r, "annotations")
		} else {
			r["alerts"], r["state"] = []any{}, "inactive"
		}
	}
	if c.edit != nil {
		c.edit(group)
	}
	text, err := json.Marshal(map[string]any{"groups": []any{group}})
	must(t, err)
	return string(text)
}

func rulesIn(group map[string]any) (all []map[string]any) {
	for _, r := range group["rules"].([]any) { //nolint:forcetypeassert // it is a group of rules
		all = append(all, r.(map[string]any)) //nolint:forcetypeassert // it is a rule
	}
	return all
}

// counts are how many series of each metric on the exporter's page Prometheus has.
func (c *chain) counts(t *testing.T) string {
	t.Helper()
	var all []map[string]string
	for name, family := range c.exporter.scrape(t) {
		if !c.lacksSeries() || !slices.Contains(c.dropped, name) {
			all = append(all, map[string]string{"__name__": name, "n": fmt.Sprint(len(family.GetMetric()))})
		}
	}
	return vector(all...)
}

func (c *chain) lacksSeries() bool { return c.repaired.IsZero() || time.Now().Before(c.repaired) }

// vector is the answer to an instant query.
func vector(series ...map[string]string) string {
	result := []any{}
	for _, labels := range series {
		result = append(result, map[string]any{"metric": labels, "value": []any{1777636800.123, "1"}})
	}
	text, _ := json.Marshal(map[string]any{"resultType": "vector", "result": result}) //nolint:errchkjson // strings
	return string(text)
}

func (c *chain) alertmanager(t *testing.T, r *http.Request) string {
	t.Helper()
	alert := `{"labels": {"alertname": %q, "stack": "chat", "severity": "none", "drill": %q, "id": %q}, "receivers": ` +
		`[{"name": %q}], "startsAt": "2026-05-01T12:00:00Z", "status": {"state": "active"}}`
	all := fmt.Sprintf(alert, "Watchdog", "", "", "heartbeat")
	if id := c.drillID(t); id != "" {
		all += "," + fmt.Sprintf(alert, "ChatstackDrill", "true", id, "drill")
		if !c.stuck {
			c.sent.Store(1)
		}
	}
	switch r.URL.Path {
	case "/api/v2/status":
		return `{"config": {"original": "{route: {receiver: page, routes: [{receiver: drill, group_wait: 0s, matchers: [drill=true]}]}, ` +
			`receivers: [{name: page, webhook_configs: [{}]}, {name: drill, email_configs: [{}]}, ` +
			`{name: heartbeat, webhook_configs: [{}]}]}"}}`
	case "/api/v2/alerts":
		return "[" + all + "]"
	case "/metrics":
		return fmt.Sprintf("alertmanager_notifications_total{integration=\"email\"} %[1]d\n"+
			"alertmanager_notification_requests_total{integration=\"email\"} %[1]d\n", c.sent.Load())
	}
	return "[]"
}

// drill runs the command, and returns its steps and their verdict.
func (c *chain) drill(ctx context.Context, t *testing.T) (steps []alertpath.Step, verdict alertpath.State, err error) {
	t.Helper()
	o := options(c.env, io.Discard).with("poll: {}\n")
	verdict, _, err = Drill(ctx, o, c.flags, func(known []alertpath.Step) { steps = append(steps, known...) }, func(string) {})
	return steps, verdict, err
}

// step is a step by its name, which is empty if there is none.
func stepOf(steps []alertpath.Step, name string) (found alertpath.Step) {
	for _, s := range steps {
		if s.Name == name {
			found = s
		}
	}
	return found
}

func TestDrillOnlyReadsPrometheusAndAlertmanager(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.flags.Alertmanager += "/#/alerts" // as browsers show it
		c.flags.Receivers = []string{"drill"}
		steps, verdict, err := c.drill(contextOf(t), t)
		if must(t, err); verdict != alertpath.Works || len(steps) != 23 {
			t.Errorf("%s, %d steps: %+v", verdict, len(steps), steps)
		}
		if n := c.changes.Load(); n > 0 {
			t.Errorf("%d requests change something", n)
		}
		if found := c.exporter.drills(t); len(found) > 0 {
			t.Errorf("the drills %v go on", found)
		}
		says(t, "the exporter's log", c.exporter.log.String(), "drill has begun", "drill has ended")
		var body bytes.Buffer
		must(t, WriteDrillJSON(&body, steps, nil))
		describe(t, c.exporter).hold(t, "/components/schemas/DrillReport", body.Bytes())
	})
}

func TestDryRunRaisesNothing(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.flags.DryRun, c.flags.Severity = true, "critical" // without --yes
		steps, verdict, err := c.drill(contextOf(t), t)
		if must(t, err); verdict != alertpath.Unknown || stepOf(steps, "raise").Name != "" ||
			stepOf(steps, "route").State != alertpath.Works {
			t.Errorf("%s: %+v", verdict, steps)
		}
		if got := stepOf(steps, "receiver"); got.State != alertpath.Unknown || got.By != alertpath.Assumed {
			t.Errorf("got %+v", got)
		}
		if log := c.exporter.log.String(); strings.Contains(log, "drill has begun") {
			t.Error("a drill was raised")
		}
	})
}

// TestInterruptedDrillEndsTheAlert interrupts a drill that has begun, and one whose id has not arrived yet.
func TestInterruptedDrillEndsTheAlert(t *testing.T) {
	for name, before := range map[string]bool{"before the answer": true, "after the answer": false} {
		t.Run(name, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				c := newChain(t)
				c.stuck = true
				ctx, interrupt := context.WithCancel(contextOf(t))
				defer interrupt()
				c.behindAnother(t, func(r *http.Request) {
					if before && r.Method == http.MethodPost {
						interrupt()
					}
				})
				time.AfterFunc(10*time.Second, interrupt)
				steps, verdict, err := c.drill(ctx, t)
				if err == nil {
					t.Error("no error although it was interrupted")
				}
				if verdict != alertpath.Unknown {
					t.Errorf("an interruption is no fault: %+v", steps)
				}
				says(t, "the exporter's log", c.exporter.log.String(), "drill has begun", "drill has ended")
				if found := c.exporter.drills(t); len(found) > 0 {
					t.Errorf("the drills %v go on", found)
				}
			})
		})
	}
}

// behindAnother puts a server before the exporter, which sees and may change each request.
func (c *chain) behindAnother(t *testing.T, see func(*http.Request)) {
	t.Helper()
	c.flags.Exporter = serve(t, func(w http.ResponseWriter, r *http.Request) {
		see(r)
		body, _ := io.ReadAll(r.Body)
		status, answer := c.exporter.exchange(t, r.Method, r.URL.Path, string(body)) //nolint:contextcheck // it outlives an interruption
		w.WriteHeader(status)
		w.Write(answer) //nolint:errcheck // the client is gone
	})
}

// TestDrillBehindALoadBalancerEnds has the request to end a drill reach the other exporter of a pair: twice, and always.
func TestDrillBehindALoadBalancerEnds(t *testing.T) {
	for misses, want := range map[int]time.Duration{2: time.Minute, 100: 2 * time.Minute} {
		inSimulatedTime(t, func(t *testing.T) {
			c := newChain(t)
			c.behindAnother(t, func(r *http.Request) {
				if r.Method == http.MethodDelete && misses > 0 {
					misses--
					r.URL.Path += "-of-another"
				}
			})
			begun := time.Now()
			c.flags.Receivers = []string{"drill"}
			steps, verdict, err := c.drill(contextOf(t), t)
			must(t, err)
			if took := time.Since(begun); took > want+30*time.Second || took < want-time.Minute {
				t.Errorf("took %s, want about %s", took, want)
			}
			got := stepOf(steps, "resolution")
			if noted := strings.Contains(strings.Join(got.Notes, " "), "the address of one exporter"); verdict != alertpath.Works ||
				got.State != alertpath.Works || noted != (misses > 0) {
				t.Errorf("got %+v", got)
			}
			if found := c.exporter.drills(t); len(found) > 0 {
				t.Errorf("the drills %v go on", found)
			}
		})
	}
}

func TestDrillAsksBeforeItRingsTelephones(t *testing.T) {
	_, _, err := (&chain{flags: DrillOptions{Severity: "critical"}}).drill(t.Context(), t)
	if err == nil || !strings.Contains(err.Error(), "add --yes") {
		t.Errorf("got %v", err)
	}
}

func TestDrillSaysHowToEnableIt(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.exporter, _ = startWithFile(t, nil, "poll: {}\n", nil)
		c.flags.Exporter = c.exporter.url
		steps, verdict, err := c.drill(contextOf(t), t)
		must(t, err)
		if got := stepOf(steps, "raise"); verdict != alertpath.Wrong || got.State != alertpath.Wrong || got.Reason != "forbidden" ||
			!strings.Contains(got.Hint, "--web.enable-lifecycle") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestDrillSaysThatAnotherIsUnderWay(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.exporter.startDrill(t, `{"severity": "none"}`)
		steps, verdict, err := c.drill(contextOf(t), t)
		must(t, err)
		if got := stepOf(steps, "raise"); verdict != alertpath.Wrong || !strings.Contains(got.Error, "a drill is running until ") ||
			!strings.HasPrefix(got.Hint, "another drill is under way") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestDrillReadsItsCredentials(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.password = "the-secret"
		steps, _, err := c.drill(contextOf(t), t)
		must(t, err)
		if got := stepOf(steps, "prometheus"); got.State != alertpath.Wrong || got.Reason != "unauthorized" ||
			!strings.Contains(got.Hint, "DRILL_PROMETHEUS_PASSWORD_FILE") {
			t.Errorf("without a password: %+v", got)
		}
		c.env = map[string]string{"DRILL_PROMETHEUS_USER": "me", "DRILL_PROMETHEUS_PASSWORD": "another"}
		steps, _, err = c.drill(contextOf(t), t)
		must(t, err)
		if got := stepOf(steps, "prometheus"); !strings.Contains(got.Hint, "refuses what was sent: correct DRILL_PROMETHEUS_TOKEN") {
			t.Errorf("with another password: %+v", got)
		}
		file := t.TempDir() + "/password"
		rewrite(t, file, "the-secret\n")
		c.env = map[string]string{
			"DRILL_PROMETHEUS_USER":          "me",
			"DRILL_PROMETHEUS_PASSWORD_FILE": file,
			"DRILL_ALERTMANAGER_USER":        "me",
			"DRILL_ALERTMANAGER_PASSWORD":    "the-secret",
		}
		c.flags.Receivers = []string{"drill"}
		steps, verdict, err := c.drill(contextOf(t), t)
		if must(t, err); verdict != alertpath.Works {
			t.Errorf("with a password: %+v", steps)
		}
		for _, tt := range []struct {
			url, want string
			env       map[string]string
		}{
			{"http://me:the-secret@prometheus", "--prometheus: url", nil},
			{"prometheus:9090", "--prometheus: url", nil},
			{
				"http://prometheus",
				"DRILL_PROMETHEUS_TOKEN_FILE",
				map[string]string{"DRILL_PROMETHEUS_TOKEN_FILE": "/nowhere/the-secret+/="},
			},
			{
				"http://prometheus",
				"keep one of them",
				map[string]string{"DRILL_PROMETHEUS_TOKEN_FILE": file, "DRILL_PROMETHEUS_TOKEN": "the-secret"},
			},
		} {
			c.flags.Prometheus, c.env = tt.url, tt.env
			_, _, err := c.drill(contextOf(t), t)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "the-secret") {
				t.Errorf("%s, %v: %v", tt.url, tt.env, err)
			}
		}
	})
}

func TestDrillTableIsForPeople(t *testing.T) {
	var b bytes.Buffer
	seconds := 1.25
	since := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	must(t, WriteDrillSteps(&b, []alertpath.Step{
		{
			Name:  "rules",
			State: alertpath.Works,
			By:    alertpath.Asked,
			Text:  "loaded",
			Since: &since,
		},
		{
			Name:     "sample",
			State:    alertpath.Works,
			By:       alertpath.Asked,
			Text:     "scraped",
			Duration: &seconds,
		},
		{
			Name:  "route",
			State: alertpath.Wrong,
			By:    alertpath.Computed,
			Error: "nowhere\x1b[0m",
			Hint:  "add a route",
			Notes: []string{"a note"},
		},
	}, false))
	want := `rules            works    asked             loaded, since 2026-05-01 12:00:00 UTC
sample           works    asked       1.2s  scraped
route            WRONG    computed          nowhere [0m
                 what to do: add a route
                 note: a note
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDrillSaysThatOneOfTwoAlertmanagersIsDead has Prometheus' counters, and by what it scrapes from itself, whether they grow.
func TestDrillSaysThatOneOfTwoAlertmanagersIsDead(t *testing.T) {
	const counter = "prometheus_notifications_errors_total{alertmanager=\"%s\"} %d\n"
	for name, tt := range map[string]struct {
		url      string
		failures int
		own      string
		want     alertpath.State
	}{
		"no failure": {
			"http://b",
			0,
			"",
			alertpath.Works,
		},
		"it does not answer here either": {
			"http://b",
			3,
			"",
			alertpath.Unknown,
		},
		"it fails now": {
			"http://b",
			3,
			"1",
			alertpath.Unknown,
		},
		"it failed once": {
			"http://b",
			3,
			"0",
			alertpath.Works,
		},
		"it failed once, and it answers here": {
			"",
			3,
			"",
			alertpath.Works,
		},
		"it failed once, and its name is not known here": {
			"http://elsewhere",
			3,
			"",
			alertpath.Works,
		},
		"its password is not that of the other": {
			"secret",
			3,
			"",
			alertpath.Works,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				c := newChain(t)
				c.flags.DryRun = true
				switch tt.url {
				case "":
					tt.url = c.flags.Alertmanager
				case "secret":
					tt.url = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
				}
				c.failures, c.own = fmt.Sprintf(counter+counter, tt.url, tt.failures, "http://removed", 1), tt.own
				c.others = fmt.Sprintf(`, {"url": %q}`, tt.url)
				ctx := exchange.WithDialer(contextOf(t), func(ctx context.Context, network, address string) (net.Conn, error) {
					if strings.HasPrefix(address, "elsewhere") {
						return nil, &net.DNSError{Name: address, IsNotFound: true}
					}
					return networkOf(t).Dial(ctx, network, address)
				})
				steps, _, err := c.drill(ctx, t)
				must(t, err)
				if got := stepOf(steps, "sending"); got.State != tt.want ||
					tt.want == alertpath.Unknown && !strings.Contains(got.Error, "cannot send to http://b") {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

// TestDrillAsksTheAlertmanagerThatAnswers has a dead one given first.
func TestDrillAsksTheAlertmanagerThatAnswers(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.flags.Alertmanager, c.flags.Others, c.flags.Receivers = "http://dead", []string{c.flags.Alertmanager}, []string{"drill"}
		steps, verdict, err := c.drill(contextOf(t), t)
		must(t, err)
		if got := stepOf(steps, "alertmanager"); got.State != alertpath.Unknown || !strings.Contains(got.Error, "http://dead") {
			t.Errorf("got %+v", got)
		}
		if got := stepOf(steps, "receiver"); verdict != alertpath.Unknown || got.State != alertpath.Works {
			t.Errorf("%s: %+v", verdict, steps)
		}
	})
}

func TestEveryAlertIsALine(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.flags.EveryAlert, c.flags.Severity = true, "critical" // without --yes
		var steps []alertpath.Step
		verdict, told, err := Drill(contextOf(t), options(c.env, io.Discard).with("poll: {}\n"), c.flags,
			func(known []alertpath.Step) { steps = append(steps, known...) }, func(string) { t.Error("a drill was raised") })
		if must(t, err); verdict != alertpath.Unknown {
			t.Errorf("%s: %+v", verdict, steps)
		}
		if len(told) < 60 {
			t.Errorf("%d alerts, want all: %+v", len(told), told)
		}
		told = slices.DeleteFunc(told, func(t alertpath.Told) bool { return t.Alert != "ExporterDown" || t.Severity != "critical" })
		told = append(told, alertpath.Told{
			Alert:    "TargetDown",
			Severity: "critical",
			Now:      []string{"chat", "page"},
			Told:     "is told in the morning",
		})
		var table, body bytes.Buffer
		must(t, WriteTold(&table, told))
		want := `ALERT                       SEVERITY  A PROBLEM AT 3 AM       NOW; AT 3 AM
ExporterDown                critical  wakes somebody          page; page
TargetDown                  critical  is told in the morning  chat, page; -
`
		if got := table.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		must(t, WriteDrillJSON(&body, steps, told[:1]))
		describe(t, c.exporter).hold(t, "/components/schemas/DrillReport", body.Bytes())
	})
}

// TestDrillCountsTheMessagesOfACluster has another Alertmanager send the message, and one that does not answer.
func TestDrillCountsTheMessagesOfACluster(t *testing.T) {
	for name, tt := range map[string]struct {
		named bool
		dead  bool
		want  alertpath.State
	}{
		"it is not named":                 {false, false, alertpath.Wrong},
		"it is named":                     {true, false, alertpath.Works},
		"it is named, and another is not": {true, true, alertpath.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				c := newChain(t)
				c.stuck, c.flags.Receivers = true, []string{"drill"}
				other := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if sent := 0; r.URL.Path == "/metrics" {
						if c.drillID(t) != "" { //nolint:contextcheck // it asks for itself
							sent = 1
						}
						_, _ = fmt.Fprintf(w, "alertmanager_notifications_total{integration=\"email\"} %[1]d\n"+
							"alertmanager_notification_requests_total{integration=\"email\"} %[1]d\n", sent)
					}
				})
				if tt.named {
					c.flags.Others = []string{other}
				}
				if tt.dead {
					c.flags.Others = append(c.flags.Others, "http://dead")
				}
				steps, verdict, err := c.drill(contextOf(t), t)
				if must(t, err); verdict != tt.want {
					t.Errorf("%s: %+v", verdict, steps)
				}
				if got := stepOf(steps, "receiver"); (got.State == alertpath.Works) != tt.named {
					t.Errorf("got %+v", got)
				}
				if got := stepOf(steps, "alertmanager"); (got.State == alertpath.Unknown) != tt.dead {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}
