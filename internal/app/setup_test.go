package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// startWithFile runs an exporter whose configuration is a file, and returns the path.
func startWithFile(t *testing.T, env map[string]string, content string, change func(*Options)) (*exporter, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exporter.yaml")
	rewrite(t, path, content)
	log := &logBuffer{}
	o := options(env, log)
	o.ConfigFile = path
	if change != nil {
		change(&o)
	}
	return startApp(t, o, log), path
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// must ends the test where something fails that is not its subject.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// contentOf is what is in a file.
func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// says wants a text to hold all of these.
func says(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}

// attempts is how many readings of a target were begun.
func attempts(p page, target string) float64 {
	n, _ := p.Value("chatstack_probe_attempts_total", "target", target)
	return n
}

// check reads every target once, as the command does.
func check(t *testing.T, o Options) []CheckResult {
	t.Helper()
	results, err := Check(contextOf(t), o)
	must(t, err)
	return results
}

// tableOf is what check prints of results.
func tableOf(t *testing.T, results []CheckResult) string {
	t.Helper()
	var table strings.Builder
	must(t, WriteTable(&table, results, false))
	return table.String()
}

func (e *exporter) post(t *testing.T, path string) (int, string) {
	t.Helper()
	r := e.do(t, http.MethodPost, path, "", http.Header{})
	return r.status, string(r.body)
}

func TestReloadKeepsWhatHasNotChanged(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		env := stack.Environ()
		block := func(kind, name, url string) string {
			return "  - kind: " + kind + "\n    name: " + name + "\n    url: " + url + "\n"
		}
		services := strings.TrimSuffix(env["IRC_SERVICES_JSONRPC_URL"], "jsonrpc")
		first := "targets:\n" + block("irc_services", "same", services) + block("irc_services", "changed", services) +
			block("irc_services", "gone", services)
		e, path := startWithFile(t, nil, first, nil)
		before := e.wait(t, "five readings", func(p page) bool { return attempts(p, "changed") >= 5 && p.Verdict("same") == "up" })

		rewrite(t, path, "targets:\n"+block("irc_services", "same", services)+block("irc_services", "changed", services+"?x")+
			block("irc_services", "new", services))
		must(t, e.app.Reload(t.Context()))
		// The very first page of the new generation already knows what has not changed.
		p := e.scrape(t)
		if got := p.Verdict("same"); got != "up" {
			t.Errorf("same is %q right after the reload", got)
		}
		for _, target := range []string{"same", "changed"} {
			if was, now := attempts(before, target), attempts(p, target); now < was {
				t.Errorf("%s: attempts fell from %v to %v", target, was, now)
			}
		}
		p = e.wait(t, "the new target up", func(p page) bool { return p.Verdict("new") == "up" && p.Verdict("changed") == "up" })
		if got := p.Verdict("gone"); got != "" {
			t.Errorf("gone is still %q", got)
		}
		if ok, _ := p.Value("chatstack_config_last_reload_successful"); ok != 1 {
			t.Error("the reload is not called successful")
		}
	})
}

func TestBadFileChangesNothingAndShows(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		e, path := startWithFile(t, only(stack, "IRC_SERVICES_"), "poll: {}\n", nil)
		e.wait(t, "irc_services up", func(p page) bool { return p.Up("irc_services") })
		loaded, _ := e.scrape(t).Value("chatstack_config_last_reload_success_timestamp_seconds")
		rewrite(t, path, "pol: {}\n")
		err := e.app.Reload(t.Context())
		if err == nil || !strings.Contains(err.Error(), `exporter.yaml:1: pol: unknown key`) {
			t.Errorf("got %v, want the fault", err)
		}
		p := e.wait(t, "the failure on the page", func(p page) bool {
			ok, known := p.Value("chatstack_config_last_reload_successful")
			return known && ok == 0
		})
		if !p.Up("irc_services") {
			t.Error("a bad file took a target down")
		}
		e.waitForPage(t, "exporter.yaml:1: unknown key")
		if now, _ := p.Value("chatstack_config_last_reload_success_timestamp_seconds"); now != loaded {
			t.Errorf("the time of the last success moved from %v to %v", loaded, now)
		}
		begun := attempts(p, "irc_services")
		e.wait(t, "polling goes on", func(p page) bool { return attempts(p, "irc_services") > begun+2 })
	})
}

func TestPagesTellWhereAFaultIsAndNoValue(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		const hidden = "hunter6secret"
		for name, c := range map[string]struct{ content, want string }{
			"a value":             {"poll:\n  timeout: " + hidden + "\n", "exporter.yaml:2: poll.timeout\n"},
			"a key":               {"poll:\n  " + hidden + ": 1\n", "exporter.yaml:2: poll: unknown key\n"},
			"a key at the top":    {hidden + ": 1\n", "exporter.yaml:1: unknown key\n"},
			"a key that is twice": {hidden + ": 1\n" + hidden + ": 2\n", "exporter.yaml:2\n"},
			"a target's value": {
				"targets:\n  - {kind: http, name: \"" + hidden + "!\", url: \"http://u:" + hidden + "@127.0.0.1:1/\"}\n",
				"exporter.yaml:2: targets[0].name\nexporter.yaml:2: targets[0].url\n",
			},
			"a kind":  {"targets:\n  - {kind: " + hidden + "}\n", "exporter.yaml:2: targets[0]"},
			"a label": {"peers:\n  - targets: [a:1]\n    labels: {" + hidden + "-: x}\n", "peers[0].labels\n"},
			"no YAML": {"poll: *" + hidden + "\n", "exporter.yaml"},
		} {
			e, path := startWithFile(t, nil, "poll: {}\n", lifecycle)
			rewrite(t, path, c.content)
			status, answer := e.post(t, "/-/reload")
			if status != http.StatusInternalServerError || !strings.Contains(answer, c.want) || !strings.Contains(answer, "check-config") {
				t.Errorf("%s: status %d, %q, want %q", name, status, answer, c.want)
			}
			e.waitForPage(t, "check-config")
			for _, page := range []string{"/", "/api/v1/status", "/metrics"} {
				if _, body := e.exchange(t, http.MethodGet, page, ""); strings.Contains(string(body), hidden) {
					t.Errorf("%s: %s tells what stands in the file", name, page)
				}
			}
			if strings.Contains(answer, hidden) {
				t.Errorf("%s: the answer tells what stands in the file: %s", name, answer)
			}
		}
	})
}

func TestFailureIsStillThereWhenOneLooks(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{Password: "sesame-password", Token: "sesame-token"})
		log := &logBuffer{}
		o := options(stack.Environ(), log).with(canaryMode)
		o.pace = func(target string) (every, timeout time.Duration) {
			if target == "irc_rpc" {
				return 100 * time.Millisecond, 0
			}
			return time.Minute, 0
		}
		e := startApp(t, o, log)
		e.wait(t, "every target up", allUp)
		must(t, stack.Switch("irc_rpc", "rpc_error", true))
		e.wait(t, "irc_rpc down", func(p page) bool { return p.Verdict("irc_rpc") == "rpc_error" })
		must(t, stack.Switch("irc_rpc", "rpc_error", false))
		before := attempts(e.scrape(t), "irc_rpc")
		e.wait(t, "twenty readings later", func(p page) bool { return attempts(p, "irc_rpc") > before+20 })
		for accept, begin := range map[string]string{"text/html,*/*": "<!DOCTYPE html>", "*/*": "Last failed probes of irc_rpc\n"} {
			h := http.Header{"Accept": {accept}}
			r := e.get(t, "/debug/targets/irc_rpc", h)
			says(t, "the page", string(r.body), begin, "rpc_error: rpc.info: error -32603", "POST https://", "tls ", "first_byte ",
				"Server: UnrealIRCd")
			if got := r.header.Get("Content-Type"); !strings.HasPrefix(got, http.DetectContentType(r.body)) {
				t.Errorf("the type is %q", got)
			}
			for _, target := range allTargets {
				r := e.get(t, "/debug/targets/"+target, h)
				if r.status != http.StatusOK || bytes.Contains(r.body, []byte("sesame")) {
					t.Errorf("%s: status %d, or a secret on the page", target, r.status)
				}
			}
		}
		if r := e.get(t, "/debug/targets/none", http.Header{}); r.status != http.StatusNotFound {
			t.Errorf("an unknown target: status %d", r.status)
		}
	})
}

// TestCheckCountsContainersBehindAnEngineThatIsUp has containers fail whose engine answers: nothing is down, and the
// summary says all the same that not all is well.
func TestCheckCountsContainersBehindAnEngineThatIsUp(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		o := options(stack.Environ(), &logBuffer{})
		o.configContent, o.ConfigFile = []byte("targets:"+tlsPortBlocks(stack)+"\n  - kind: docker\n    expected: [chat-nobody-1]\n"),
			"exporter.yaml"
		check := func() (docker CheckResult, table string, allUp bool) {
			t.Helper()
			results := check(t, o)
			i := slices.IndexFunc(results, func(r CheckResult) bool { return r.Name == "docker" })
			if i < 0 {
				t.Fatalf("no docker among %+v", results)
			}
			return results[i], tableOf(t, results), AllUp(results)
		}
		docker, table, _ := check()
		if docker.State != "up" || len(docker.Problems) != 1 || docker.Problems[0].Name != "chat-nobody-1" {
			t.Errorf("got %+v, want chat-nobody-1", docker)
		}
		says(t, "the table", table, " pending: chat-nobody-1: does not exist\n", "; docker up, 1 container in trouble\n")
		o.configContent = []byte("targets:" + tlsPortBlocks(stack))
		if docker, table, _ = check(); docker.Problems != nil || strings.Contains(table, "in trouble") {
			t.Errorf("healthy containers: %+v\n%s", docker, table)
		}
		for _, fault := range []string{"unhealthy", "exited", "paused"} {
			must(t, stack.Switch("docker", fault, true))
		}
		docker, table, allUp := check()
		if len(docker.Problems) != 3 || !allUp {
			t.Errorf("got %+v, all up: %v; want three containers and nothing down", docker.Problems, allUp)
		}
		says(t, "the table", table, "  3 containers in trouble\n", ": its health check fails", ": is not running",
			"; docker up, 3 containers in trouble\n")
	})
}

func TestCheckNamesEveryFault(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		o := options(stack.Environ(), &logBuffer{})
		o.Timeout = time.Second
		o.configContent, o.ConfigFile = []byte("poll:\n  interval: 30s\ntargets:"+tlsPortBlocks(stack)), "exporter.yaml"
		results := check(t, o)
		if !AllUp(results) {
			t.Errorf("a healthy stack: %+v", results)
		}
		for service, fault := range map[string]string{
			"irc_rpc": "wrong_credentials", "irc_services": "stopped", "proxy": "expired_certificate", "plant_store": "accepts_invalid",
			"xmpp": "statistics_off",
		} {
			must(t, stack.Switch(service, fault, true))
		}
		results = check(t, o)
		if AllUp(results) {
			t.Error("five faults, and all is up")
		}
		table := tableOf(t, results)
		var coloured, asJSON bytes.Buffer
		must(t, WriteTable(&coloured, results, true))
		must(t, WriteJSON(&asJSON, results))
		says(t, "the table", table, "unauthorized: ", "the password is wrong, the rpc-user is unknown",
			"refused: ", "nothing listens there", "tls: ", "expired",
			"mismatch: ", "should be refused with 400", "not_found: ", `statistics = "internal"`, "5 down")
		if strings.Contains(table, "\x1b") || !strings.Contains(coloured.String(), "\x1b[31mDOWN") {
			t.Error("colours are where they should not be, or not where they should")
		}
		if t.Failed() {
			t.Log(table)
		}
		var decoded checkReport
		if err := json.Unmarshal(asJSON.Bytes(), &decoded); err != nil || len(decoded.Services)+len(decoded.NotConfigured) != len(results) {
			t.Errorf("json: %v, %d services and %d that are not configured of %d results",
				err, len(decoded.Services), len(decoded.NotConfigured), len(results))
		}
	})
}

func TestPlaceholdersAreToldEverywhere(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		env := stack.Environ()
		env["IRC_RPC_PASSWORD"] = "change_me_please"
		e := startExporter(t, env, "targets:\n  - kind: plant_store\n    token: \"\"\n")
		p := e.wait(t, "the page", func(p page) bool { return p.Verdict("irc_rpc") != "" })
		if v, ok := p.Value("chatstack_placeholder_credential", "target", "irc_rpc"); !ok || v != 1 {
			t.Error("the metric does not tell")
		}
		if _, ok := p.Value("chatstack_placeholder_credential", "target", "plant_store"); ok {
			t.Error("the environment's token is called a placeholder")
		}
		if !strings.Contains(e.log.String(), "password: an obvious placeholder") {
			t.Error("the log does not tell")
		}
		delete(env, "PLANT_STORE_TOKEN")
		o := options(env, &logBuffer{}).with("targets:\n  - kind: plant_store\n    token: \"\"\n")
		results := check(t, o)
		told := map[string]bool{}
		for _, r := range results {
			for _, w := range r.Warnings {
				told[r.Name] = told[r.Name] || strings.Contains(w, "placeholder")
			}
		}
		if !told["irc_rpc"] || !told["plant_store"] {
			t.Errorf("check warns about the placeholders of %v, want irc_rpc and plant_store", told)
		}
	})
}

func TestCheckWritesNothingToTheStoreAndSaysSo(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		o := options(stack.Environ(), &logBuffer{}).with(canaryMode)
		results := check(t, o)
		for _, r := range results {
			if r.Name == "plant_store" && !strings.Contains(strings.Join(r.Notes, " "), "creating and deleting a plant was not tested") {
				t.Errorf("notes %q", r.Notes)
			}
		}
		if n := len(stack.Requests("plant_store")); n != 1 || len(stack.Plants()) != 0 {
			t.Errorf("%d requests, plants %v; want one that is refused", n, stack.Plants())
		}
	})
}

// TestTableHasNoRowThatAServiceForged has names and words of others that move the cursor, begin rows and turn the direction
// of writing.
func TestTableHasNoRowThatAServiceForged(t *testing.T) {
	const forged = "x\x1b[2K\r\nxmpp_status  up    1ms\u202e\u2066\u200b\xff\u009b31m"
	results := []CheckResult{
		{
			Name:        "docker",
			State:       "up",
			Problems:    []status.Problem{{Problem: health.Problem{Subject: health.ContainerSubject("local", forged)}, Text: forged}},
			Impairments: []string{forged},
			Notes:       []string{forged},
			Warnings:    []string{forged},
		},
		{
			Name:   "irc_rpc",
			State:  "down",
			Reason: "rpc_error",
			Error:  forged,
			Hint:   forged,
		},
	}
	table := tableOf(t, results)
	if rows := strings.Count(table, "\n"); rows != 9 {
		t.Errorf("%d lines, want 9", rows)
	}
	for line := range strings.Lines(table) {
		if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("shown: %q", line)
		}
	}
	if results[1].Error != forged {
		t.Error("the results themselves were changed")
	}
}

// TestEmptyPasswordOfASocketIsNoPlaceholder: the IRC server asks for none there. A placeholder that begins like one is told
// all the same, since the server's account may have it too.
func TestEmptyPasswordOfASocketIsNoPlaceholder(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		for _, c := range []struct {
			url, password string
			want          bool
		}{
			{"unix://" + stack.IRCSocket(), "", false},
			{"unix://" + stack.IRCSocket(), "change_me", true},
			{"https://127.0.0.1:1/api", "", true},
		} {
			e := startExporter(t, nil, "targets:\n  - {kind: irc_rpc, url: '"+c.url+"', password: '"+c.password+"'}\n")
			p := e.wait(t, "a reading", func(p page) bool { return p.Verdict("irc_rpc") != "" })
			if _, got := p.Value("chatstack_placeholder_credential", "target", "irc_rpc"); got != c.want {
				t.Errorf("%s, %q: a placeholder: %t, want %t", c.url, c.password, got, c.want)
			}
			if got := strings.Contains(e.log.String(), "obvious placeholder"); got != c.want {
				t.Errorf("%s, %q: told in the log: %t, want %t", c.url, c.password, got, c.want)
			}
		}
	})
}
