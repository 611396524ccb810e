package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// description is the exporter's own of its answers.
type description struct {
	compiler *jsonschema.Compiler
	document map[string]any
}

// describe reads the description that an exporter serves.
func describe(t *testing.T, e *exporter) *description {
	t.Helper()
	_, content := e.exchange(t, http.MethodGet, "/api/v1/openapi.yaml", "")
	var doc any
	must(t, yaml.Unmarshal(content, &doc))
	// What JSON has no word for, such as dates, must not be in the tree.
	plain, err := json.Marshal(doc)
	must(t, err)
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("openapi.json", tree))
	document, ok := tree.(map[string]any)
	if !ok {
		t.Fatalf("the description is no object but %T", tree)
	}
	return &description{c, document}
}

// hold tells where an answer is not as the schema at the pointer has it.
func (d *description) hold(t *testing.T, pointer string, body []byte) {
	t.Helper()
	schema, err := d.compiler.Compile("openapi.json#" + pointer)
	must(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v in %.200s", pointer, err, body)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%v\nin %.2000s", err, body)
	}
}

// schemaOf is the pointer to the schema of an answer.
func schemaOf(path, method, code string) string {
	return "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + "/responses/" + code + "/content/application~1json/schema"
}

// TestDescriptionIsOpenAPI holds the document against the schema that the OpenAPI Initiative publishes, which leaves the
// schemas in it to those of JSON Schema, and says nothing of keys that are misspelt there.
func TestDescriptionIsOpenAPI(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		d := describe(t, startExporter(t, map[string]string{"XMPP_REST_URL": "http://127.0.0.1:1"}, ""))
		published := contentOf(t, "testdata/openapi/schema-3.1.json")
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(published))
		must(t, err)
		c := jsonschema.NewCompiler()
		must(t, c.AddResource("schema-3.1.json", schema))
		c.AssertFormat()
		openapi, err := c.Compile("schema-3.1.json")
		must(t, err)
		if err := openapi.Validate(d.document); err != nil {
			t.Error(err)
		}
		info, _ := d.document["info"].(map[string]any)
		if got, want := info["version"], strconv.Itoa(status.SchemaVersion); got != want {
			t.Errorf("the description has version %v, want that of the schema, %s", got, want)
		}
		broken := maps.Clone(d.document)
		delete(broken, "info")
		if openapi.Validate(broken) == nil {
			t.Error("a document without info passes")
		}
		components, _ := d.document["components"].(map[string]any)
		schemas, _ := components["schemas"].(map[string]any)
		if len(schemas) == 0 {
			t.Fatal("the description has no schemas")
		}
		for name, s := range schemas {
			if _, err := d.compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			object, _ := s.(map[string]any)
			properties, _ := object["properties"].(map[string]any)
			required, _ := object["required"].([]any)
			for _, key := range required {
				if name, isText := key.(string); !isText || properties[name] == nil {
					t.Errorf("%s requires %v, which it does not describe", name, key)
				}
			}
		}
	})
}

// exchange sends a request with a JSON body, or with none.
func (e *exporter) exchange(t *testing.T, method, path, body string) (int, []byte) {
	t.Helper()
	r := e.do(t, method, path, body, http.Header{"Content-Type": {"application/json"}})
	return r.status, r.body
}

// TestRefusedRPCMethodsArePartlyWorkingUntilAReload mends the account of the IRC server: a reload tries everything at once.
func TestRefusedRPCMethodsArePartlyWorkingUntilAReload(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		must(t, stack.Switch("irc_rpc", "numbers_forbidden", true))
		e := startExporter(t, only(stack, "IRC_RPC_"), "")
		e.wait(t, "irc_rpc up", func(p page) bool { return p.Verdict("irc_rpc") == "up" })
		if s := serviceOf(e.report(t), "irc_rpc"); s.Level != status.Warning ||
			s.Text != "partly working: stats.get is refused; server.list is refused; "+
				"user.list is refused; channel.list is refused; unknown whether services are linked" || s.Hint == "" {
			t.Errorf("level %s, %q, %q: want what does not work", s.Level, s.Text, s.Hint)
		}
		o := options(only(stack, "IRC_RPC_"), io.Discard)
		if text := tableOf(t, check(t, o)); !strings.Contains(text, "partly working: stats.get is refused") ||
			!strings.Contains(text, "; irc_rpc up, partly working") {
			t.Errorf("check does not say what does not work:\n%s", text)
		}
		must(t, stack.Switch("irc_rpc", "numbers_forbidden", false))
		must(t, e.app.Reload(t.Context()))
		e.wait(t, "services linked", func(p page) bool { n, ok := p.Value("chatstack_irc_services_linked"); return ok && n == 1 })
	})
}

// reportWhen waits for a report that is as wanted, and returns it with its JSON.
func (e *exporter) reportWhen(t *testing.T, what string, wanted func(*status.Report) bool) (r status.Report, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		report, superseded := e.app.Watch()
		if wanted(report) {
			_, body = e.exchange(t, http.MethodGet, "/api/v1/status", "")
			r = status.Report{}
			must(t, json.Unmarshal(body, &r))
			return r, body
		}
		select {
		case <-superseded:
		case <-ctx.Done():
			t.Fatalf("no report with %s: %s", what, report.Summary)
		}
	}
}

func serviceOf(r *status.Report, name string) *status.Service {
	if i := slices.IndexFunc(r.Services, func(s status.Service) bool { return s.Name == name }); i >= 0 {
		return &r.Services[i]
	}
	return &status.Service{}
}

func TestAnswersAreAsTheirDescriptionSays(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		log := &logBuffer{}
		o := options(stack.Environ(), log)
		o.EnableLifecycle = true
		e := startApp(t, o, log)
		d := describe(t, e)
		all := func(r *status.Report) bool {
			return len(r.Services) > 5 && len(r.Containers) > 5 &&
				!slices.ContainsFunc(r.Services, func(s status.Service) bool { return s.State == "waiting" })
		}
		report, body := e.reportWhen(t, "every service and container", all)
		d.hold(t, schemaOf("/api/v1/status", "get", "200"), body)
		var charts []string
		for _, s := range report.Services {
			charts = append(charts, s.Charts...)
		}
		for _, c := range report.Containers {
			charts = append(charts, c.Charts...)
		}
		if len(charts) < 30 {
			t.Errorf("only %d charts", len(charts))
		}
		for _, name := range charts {
			code, body := e.exchange(t, http.MethodGet, "/api/v1/history/"+name, "")
			if code != http.StatusOK {
				t.Errorf("history %s: status %d", name, code)
			}
			d.hold(t, schemaOf("/api/v1/history/{name}", "get", "200"), body)
		}
		_, body = e.exchange(t, http.MethodGet, "/api/v1/availability", "")
		d.hold(t, schemaOf("/api/v1/availability", "get", "200"), body)
		if n := strings.Count(string(body), `"window":"90d"`); n != len(report.Services)+len(report.Containers) {
			t.Errorf("the availability of %d services and containers, want %d and %d", n, len(report.Services), len(report.Containers))
		}
		_, body = e.exchange(t, http.MethodGet, "/api/v1/history/none", "")
		d.hold(t, "/components/schemas/Error", body)
		_, body = e.exchange(t, http.MethodGet, "/api/v1/discovery", "")
		d.hold(t, schemaOf("/api/v1/discovery", "get", "200"), body)
		_, body = e.exchange(t, http.MethodGet, "/api/v1/notifications", "")
		d.hold(t, schemaOf("/api/v1/notifications", "get", "200"), body)

		const one = "/api/v1/maintenance/{kind}/{name}"
		wish := `{"kind": "target", "name": "irc_rpc", "duration": "1h", "reason": "test"}`
		d.hold(t, "/components/schemas/MaintenanceRequest", []byte(wish))
		_, body = e.exchange(t, http.MethodPost, "/api/v1/maintenance", wish)
		d.hold(t, schemaOf("/api/v1/maintenance", "post", "201"), body)
		_, body = e.exchange(t, http.MethodGet, "/api/v1/maintenance", "")
		d.hold(t, schemaOf("/api/v1/maintenance", "get", "200"), body)
		_, body = e.reportWhen(t, "a maintenance", func(r *status.Report) bool { return len(r.Maintenance) > 0 })
		d.hold(t, schemaOf("/api/v1/status", "get", "200"), body)
		_, body = e.exchange(t, http.MethodDelete, "/api/v1/maintenance/target/irc_rpc", "")
		d.hold(t, schemaOf(one, "delete", "200"), body)
		for _, wrong := range []struct{ method, path, body string }{
			{http.MethodPost, "/api/v1/maintenance", "{}"},
			{http.MethodPost, "/api/v1/maintenance", `{"kind": "target", "name": "x", "duration": "1h"}`},
			{http.MethodDelete, "/api/v1/maintenance/target/irc_rpc", ""},
		} {
			_, body = e.exchange(t, wrong.method, wrong.path, wrong.body)
			d.hold(t, "/components/schemas/Error", body)
		}
		for response, wrong := range map[string]struct {
			method, path string
			code         int
		}{
			"Error":      {http.MethodPost, "/api/v1/nowhere", http.StatusNotFound},
			"NotAllowed": {http.MethodPut, "/api/v1/status", http.StatusMethodNotAllowed},
		} {
			code, body := e.exchange(t, wrong.method, wrong.path, "")
			if code != wrong.code {
				t.Errorf("%s %s: got %d, want %d", wrong.method, wrong.path, code, wrong.code)
			}
			d.hold(t, "/components/responses/"+response+"/content/application~1json/schema", body)
		}
	})
}

// told reads the events of a stream.
func told(t *testing.T, e *exporter) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/api/v1/events", http.NoBody)
	must(t, err)
	resp, err := e.client.Do(req) //nolint:bodyclose // the goroutine below does
	must(t, err)
	events := make(chan string, 100)
	go func() {
		defer close(events)
		defer resp.Body.Close() //nolint:errcheck // it ends with the test
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				events <- data
			}
		}
	}()
	return events
}

func TestFaultIsOnTheStreamAndInTheReport(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		e := startExporter(t, only(stack, "XMPP_PROXY_"), "")
		d := describe(t, e)
		e.reportWhen(t, "the proxy up", func(r *status.Report) bool { return serviceOf(r, "xmpp_proxy").State == "up" })
		events := told(t, e)
		must(t, stack.Switch("proxy", "status_502", true))
		r, body := e.reportWhen(t, "the proxy down", func(r *status.Report) bool { return serviceOf(r, "xmpp_proxy").State == "down" })
		d.hold(t, schemaOf("/api/v1/status", "get", "200"), body)
		s := serviceOf(&r, "xmpp_proxy")
		if s.Level != status.Pending || s.Reason != "http_status" || s.Text == "" || s.Hint == "" || s.Since.IsZero() {
			t.Errorf("got %+v", s)
		}
		if !slices.ContainsFunc(r.Transitions, func(t status.Transition) bool { return t.Name == "xmpp_proxy" && t.To == "down" }) {
			t.Errorf("no transition: %+v", r.Transitions)
		}
		enough := time.After(time.Minute)
		for {
			select {
			case data, ok := <-events:
				if !ok {
					t.Fatal("the stream has ended")
				}
				d.hold(t, "/components/schemas/Event", []byte(data))
				if strings.Contains(data, "XMPP over HTTPS is down") {
					return
				}
			case <-enough:
				t.Fatal("the stream tells nothing of it")
			}
		}
	})
}

// TestCheckUsesTheNamesOfTheAPI holds the JSON of check to the description, which takes its names and types from the report.
func TestCheckUsesTheNamesOfTheAPI(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		for _, f := range []simstack.Fault{
			{Service: "irc_rpc", Name: "numbers_forbidden"},
			{Service: "proxy", Name: "expired_certificate"},
			{Service: "docker", Name: "exited"},
			{Service: "identity", Name: "wrong_credentials"},
		} {
			must(t, stack.Switch(f.Service, f.Name, true))
		}
		o := options(only(stack, "IRC_RPC_", "XMPP_PROXY_", "DOCKER_", "BRIDGE_", "PLANT_"), io.Discard).with("pair: other\n" + canaryMode +
			"  - {kind: irc_tls, address: '127.0.0.1:1'}\n" +
			"maintenance: [{kind: target, name: docs_search, from: 1999-12-31T00:00:00Z, until: 2000-01-02T00:00:00Z}]\n")
		results := check(t, o)
		var body bytes.Buffer
		must(t, WriteJSON(&body, results))
		d := describe(t, startExporter(t, only(stack, "XMPP_PROXY_"), ""))
		d.hold(t, "/components/schemas/CheckReport", body.Bytes())
		var report checkReport
		must(t, json.Unmarshal(body.Bytes(), &report))
		if !slices.Equal(report.LeftToFirst, []string{"irc_tls"}) || !slices.Contains(report.NotConfigured, "docs_search") ||
			len(report.Warnings) != 1 || !strings.HasPrefix(report.Warnings[0], "docs_search: maintenance") ||
			report.Services[0].State != "down" {
			t.Errorf("got %s", body.Bytes())
		}
		for what, has := range map[string]func(CheckResult) bool{
			"a hint":                func(r CheckResult) bool { return r.Hint != "" && r.Reason != "" && r.Error != "" },
			"impairments":           func(r CheckResult) bool { return len(r.Impairments) > 0 },
			"a container's problem": func(r CheckResult) bool { return len(r.Problems) > 0 && r.Problems[0].Host != "" },
			"warnings":              func(r CheckResult) bool { return len(r.Warnings) > 0 },
		} {
			if !slices.ContainsFunc(report.Services, has) {
				t.Errorf("no service has %s: %s", what, body.Bytes())
			}
		}
		// A key that the description does not know must fail, or this test proves nothing.
		schema, err := d.compiler.Compile("openapi.json#/components/schemas/CheckReport")
		must(t, err)
		old, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(body.String(), `"state"`, `"verdict"`, 1)))
		must(t, err)
		if schema.Validate(old) == nil {
			t.Error("a service with verdict in the place of state passes")
		}
	})
}

func TestCheckOfNothingSaysSo(t *testing.T) {
	if table := tableOf(t, check(t, options(nil, &logBuffer{}))); !strings.Contains(table, "warning: "+NothingWatched) {
		t.Errorf("got %s", table)
	}
}

func TestCheckOutlivesMaintenanceThatIsOverAndOfNoTarget(t *testing.T) {
	results := []CheckResult{{Name: "irc_rpc"}}
	addWarnings(results, []Warning{{"maintenance", "is over"}, {"irc_rpc", "doubtful"}})
	if got := results[0].Warnings; !slices.Equal(got, []string{"doubtful"}) {
		t.Errorf("got %q", got)
	}
}
