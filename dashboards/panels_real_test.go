//go:build realservers

package dashboards_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/dashboards"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// settings ask everything every second and shorten the times of the alerts, not their limits.
const settings = `
poll:
  interval: 1s
  timeout: 1s
alerts:
  interval: 1s
  lookback: 5s
  slow_lookback: 10s
  poll_stalled: {after: 25s}
  xmpp_auth_failure_rate: {window: 5s}
  container_restarts: {window: 20s}
  target_down:
    warning: {for: 2s, keep_firing_for: 1s}
    critical: {for: 4s, keep_firing_for: 1s}
`

// site are a pair of exporters of one simulated stack, an exporter of another stack, and a Prometheus that scrapes them all.
type site struct {
	*testing.T
	stack *simstack.Stack
	// exporter and other are the pair in production; staging watches the other stack. Each has a fault of its own.
	exporter, other, staging *realstack.Exporter
	prometheus               *realstack.Program
	config                   string
	// reachable is a target that the other exporter of the pair can reach until it is closed.
	reachable net.Listener
	// busy is how fast the families grow that the simulated XMPP server lacks.
	busy atomic.Int64
	// volume is a file system of our own; lost is a directory that a volume is on. certificate is a file bound to an endpoint, and
	// backup one that a job writes.
	volume, lost, certificate, backup string
	// seen are the names of all series that the exporter's page has had.
	seen map[string]bool
	// moves are the expressions whose values move all the time, such as the age of something.
	moves map[string]bool
	begun time.Time
}

// samples are the result of an expression: values by their series' labels.
type samples map[string]float64

// shows tells a fault's mark in a result. Without one, any change does.
type shows func(samples) bool

func above(limit float64) shows {
	return func(s samples) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(s)), func(v float64) bool { return v > limit })
	}
}

func below(limit float64) shows {
	return func(s samples) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(s)), func(v float64) bool { return v < limit })
	}
}

// of looks only at series in whose labels the word is.
func of(word string, mark shows) shows {
	return func(s samples) bool {
		s = maps.Clone(s)
		maps.DeleteFunc(s, func(series string, _ float64) bool { return !strings.Contains(series, word) })
		return mark(s)
	}
}

// lists tells a result in whose labels all of the words are.
func lists(words ...string) shows {
	return func(s samples) bool {
		all := strings.Join(slices.Collect(maps.Keys(s)), " ")
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
	}
}

// fault is what a stage switches, and the expressions that must tell of it.
type fault struct {
	name    string
	on, off func()
	// follow are the expressions by name; "uid/title" means all of a panel.
	follow map[string]shows
}

// TestRealEveryPanelFollowsItsFault runs every expression of every panel, annotation and variable against a Prometheus
// that scrapes a pair of exporters of one simulated stack and one of another, and switches on a fault for each that it must tell of.
func TestRealEveryPanelFollowsItsFault(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and a half, since every rate needs its window")
	}
	s := openSite(t)
	boards := shipped(t)
	s.await("every target has been read", func() bool {
		return len(s.query(`chatstack_probe_success{env="prod"}`)) == 2*16+1 &&
			len(s.query(`chatstack_relay_delivery_seconds_count > 0`)) == 2 && len(s.query(`chatstack:target_up{env="staging"}`)) == 3
	})
	// One of the pair cannot reach a target any more.
	if err := s.reachable.Close(); err != nil {
		t.Fatal(err)
	}
	s.await("a target is down at one exporter", func() bool { return len(s.query(`chatstack_probe_success{env="prod"} == 0`)) == 1 })
	s.checkVariables(boards)
	all := map[string]string{}
	for _, b := range boards {
		for _, e := range expressions(b) {
			all[e.name] = e.expr
		}
	}
	s.watchIdle(all)
	s.checkPair(boards)
	followed := map[string]bool{}
	for _, f := range s.faults() {
		s.visit(f, all, followed)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !followed[name] {
			t.Errorf("%s: no fault is known that it tells of", name)
		}
	}
	s.checkNames(all)
	s.checkRanges(boards)
}

func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		T:     t,
		seen:  map[string]bool{},
		moves: map[string]bool{},
		begun: time.Now(),
	}
	s.busy.Store(1)
	s.stack = simstacktest.Start(t, simstack.Options{Slow: 400 * time.Millisecond})
	dir := t.TempDir()
	// Nobody else writes to either of them.
	other := filepath.Join(dir, "other")
	s.volume, s.lost, s.certificate = filepath.Join(dir, "volume"), filepath.Join(other, "lost"), filepath.Join(dir, "certificate.pem")
	s.backup = filepath.Join(dir, "backup.tar")
	s.write(s.backup, []byte("data"))
	if hourAgo := time.Now().Add(-time.Hour); os.Chtimes(s.backup, hourAgo, hourAgo) != nil {
		t.Fatal("the backup's time cannot be set")
	}
	for _, d := range []string{s.volume, other} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // nothing is in it
			t.Fatal(err)
		}
		if err := syscall.Mount("dashboards", d, "tmpfs", 0, "size=16m,nr_inodes=1000"); err != nil {
			t.Fatalf("mount a volume, which takes root: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(d, 0); err != nil {
				t.Errorf("unmount a volume: %v", err)
			}
		})
	}
	if err := os.Mkdir(s.lost, 0o755); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	s.write(s.certificate, s.served(s.stack.IRCAddress()))
	env := s.stack.Environ()
	xmpp := env["XMPP_REST_URL"]
	delete(env, "XMPP_REST_URL") // it outweighs the addresses below
	page := s.fuller(xmpp + "/metrics")
	s.config = settings + fmt.Sprintf(`
targets:
  - {kind: plant_store, mode: canary}
  - {kind: xmpp_status, url: %q}
  - {kind: xmpp_rest, url: %q}
  - {kind: xmpp_metrics, url: %q}
  - {kind: xmpp_c2s, address: %q}
  - {kind: irc_tls, address: %q, certificate_file: %q, schedule: "@every 1s"}
  - {kind: volume, name: data, path: %q}
  - {kind: volume, name: lost, path: %q}
  - {kind: backup, path: %q}
  - {kind: docker, missing_after: 1s}
`, xmpp+"/status", xmpp, page, s.stack.XMPPClientAddress(), s.stack.IRCAddress(), s.certificate, s.volume, s.lost, s.backup)
	// Each of the pair has its own way to this target. It ends at the other one, see above.
	var err error
	if s.reachable, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // ends at once
		t.Fatal(err)
	}
	elsewhere := "  - {kind: tcp, name: elsewhere, address: %q}\n"
	others := s.config + fmt.Sprintf(elsewhere, s.reachable.Addr())
	// The bridge is checked by one of the pair, in one channel and room.
	s.config += fmt.Sprintf(elsewhere, s.stack.XMPPClientAddress()) + fmt.Sprintf(`
  - kind: relay
    name: bridge
    schedule: "@every 4s"
    timeout: 4s
    deadline: 1s
    slow: 250ms
    irc: {address: %q, user: %s, password: %s, channel: %q, ca_file: %q}
    xmpp: {address: %q, user: %[2]s@%[7]s, password: %[3]s, room: %[8]s, ca_file: %[5]q}
`, s.stack.IRCAddress(), simstack.RelayUser, simstack.RelayPassword, simstack.RelayChannel, s.stack.CAFile(), s.stack.XMPPClientAddress(),
		simstack.XMPPDomain, simstack.RelayRoom)
	program := realstack.BuildExporter(t)
	s.exporter = realstack.StartExporter(t, program, s.config, env)
	s.other = realstack.StartExporter(t, program, others, env)
	// In staging, targets have other names, and one is down for ever.
	staging := simstacktest.Start(t, simstack.Options{})
	s.staging = realstack.StartExporter(t, program, settings+fmt.Sprintf("targets:\n  - {kind: xmpp_status, name: jabber, url: %q}\n"+
		"  - {kind: http, name: gone, url: 'http://127.0.0.1:1/'}\n",
		staging.Environ()["XMPP_REST_URL"]+"/status"), map[string]string{"DOCKER_HOST": staging.Environ()["DOCKER_HOST"]})
	a := alerts.Defaults()
	a.Interval = config.Duration(time.Second)
	var recording bytes.Buffer
	if err := alerts.WriteRecording(&recording, a); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(s.staging.Addr)
	if err != nil {
		t.Fatal(err)
	}
	// Staging is scraped once more, as by somebody who has no environments.
	s.prometheus = realstack.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [chatstack.rules.yml, chatstack.recording.yml]
scrape_configs:
  - job_name: chatstack_exporter
    honor_labels: true
    static_configs:
      - {targets: [%q, %q], labels: {cluster: east, env: prod}}
      - {targets: [%q], labels: {cluster: west, env: staging}}
      - {targets: [%q]}
`, s.exporter.Addr, s.other.Addr, s.staging.Addr, "localhost:"+port),
		map[string][]byte{"chatstack.rules.yml": []byte(s.exporter.Rules()), "chatstack.recording.yml": recording.Bytes()})
	return s
}

// served is the certificate that a server shows, as a file has it.
func (s *site) served(address string) []byte {
	s.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // only looked at
	c, err := dialer.DialContext(s.Context(), "tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	var b bytes.Buffer
	for _, certificate := range c.(*tls.Conn).ConnectionState().PeerCertificates {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}); err != nil {
			s.Fatal(err)
		}
	}
	return b.Bytes()
}

// fuller serves the simulated XMPP server's metrics page with the canonical families that it lacks.
func (s *site) fuller(page string) string {
	var grown atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := exportertest.Fetch(r.Context(), time.Minute, page)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		n := grown.Add(s.busy.Load())
		w.Header().Set("Content-Type", "application/openmetrics-text; version=0.0.4") // as the server has it
		more := fmt.Sprintf(`# TYPE xmpp_c2s_connections counter
xmpp_c2s_connections_total{host="chat.test"} %[1]d
# TYPE xmpp_s2s_sessions gauge
xmpp_s2s_sessions{host="chat.test",type="s2sin"} %[2]d
# TYPE xmpp_storage_errors counter
xmpp_storage_errors_total{host="chat.test"} %[1]d
# TYPE xmpp_http_requests counter
xmpp_http_requests_total{host="chat.test"} %[1]d
# TYPE xmpp_http_request_duration_seconds histogram
xmpp_http_request_duration_seconds_bucket{host="chat.test",le="0.1"} %[1]d
xmpp_http_request_duration_seconds_bucket{host="chat.test",le="1.0"} %[3]d
xmpp_http_request_duration_seconds_bucket{host="chat.test",le="+Inf"} %[3]d
xmpp_http_request_duration_seconds_count{host="chat.test"} %[3]d
xmpp_http_request_duration_seconds_sum{host="chat.test"} %[3]d
# EOF
`, n, s.busy.Load(), 2*n)
		_, _ = w.Write(append(bytes.TrimSuffix(body, []byte("# EOF\n")), more...))
	}))
	s.Cleanup(server.Close)
	return server.URL + "/metrics"
}

func (s *site) write(path string, content []byte) {
	s.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.Fatal(err)
	}
}

// turn switches faults of the simulated stack, as service/fault.
func (s *site) turn(on bool, faults ...string) func() {
	return func() {
		s.Helper()
		for _, f := range faults {
			service, name, _ := strings.Cut(f, "/")
			if err := s.stack.Switch(service, name, on); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// simulated is a stage of faults of the simulated stack.
func (s *site) simulated(follow map[string]shows, faults ...string) fault {
	return fault{
		strings.Join(faults, ", "),
		s.turn(true, faults...),
		s.turn(false, faults...),
		follow,
	}
}

// atOnce are stages that have nothing to do with each other.
func atOnce(faults ...fault) fault {
	all := faults[0]
	for _, f := range faults[1:] {
		before := all
		all.name += "; " + f.name
		all.on = func() { before.on(); f.on() }
		all.off = func() { before.off(); f.off() }
		all.follow = join(all.follow, f.follow)
	}
	return all
}

// maintain puts targets and containers under maintenance, as kind/name.
func (s *site) maintain(subjects ...string) {
	for _, subject := range subjects {
		kind, name, _ := strings.Cut(subject, "/")
		s.exporter.Ask(http.MethodPost, "/api/v1/maintenance", fmt.Sprintf(`{"kind":%q,"name":%q,"duration":"10m"}`, kind, name))
	}
}

func (s *site) endMaintenance(subjects ...string) {
	for _, subject := range subjects {
		s.exporter.Ask(http.MethodDelete, "/api/v1/maintenance/"+subject, "")
	}
}

func (s *site) container(name string) *simstack.Container {
	c := s.stack.Engine().Container(name)
	if c == nil {
		s.Fatalf("the simulated engine has no container %s", name)
	}
	return c
}

// get reads one answer of Prometheus' API.
func (s *site) get(path string, query url.Values, data any) {
	s.Helper()
	if err := s.prometheus.API(s.Context(), path, query, data); err != nil {
		s.Fatal(err)
	}
}

// query runs an expression now.
func (s *site) query(expr string) samples { s.Helper(); return s.queryAt(expr, time.Now()) }

// queryAt runs an expression. No value may be one that nobody can read.
func (s *site) queryAt(expr string, at time.Time) samples {
	s.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	s.get("/api/v1/query", url.Values{"query": {expr}, "time": {at.Format(time.RFC3339Nano)}}, &data)
	result := samples{}
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			s.Errorf("%s\nof %s: got %v, want a number", expr, r.Metric, r.Value[1])
		}
		result[fmt.Sprint(r.Metric)] = v
	}
	return result
}

func (s *site) pause(d time.Duration) {
	if !exportertest.Pause(s.Context(), d) {
		s.Fatal(context.Cause(s.Context()))
	}
}

func (s *site) await(what string, reached func() bool) {
	s.Helper()
	if !exportertest.Eventually(time.Minute, 200*time.Millisecond, reached) {
		s.Fatalf("never reached: %s", what)
	}
}

// differs is whether a result has other series, or a value that is clearly another one.
func differs(a, b samples, values bool) bool {
	if len(a) != len(b) {
		return true
	}
	for series, v := range a {
		w, ok := b[series]
		if !ok || values && math.Abs(v-w) > min(1, 1e-3*max(math.Abs(v), math.Abs(w))) {
			return true
		}
	}
	return false
}

// checkPair holds that two exporters of the same stack do not count twice: only what is about an exporter itself tells them
// apart, and numbers that are known are not doubled.
func (s *site) checkPair(boards []board) {
	s.Helper()
	for _, b := range boards {
		for _, e := range expressions(b) {
			for series := range s.query(resolve(e.expr)) {
				apart := b.UID == dashboards.Exporter || e.name == b.UID+"/Exporter starts/annotation"
				if !apart && strings.Contains(series, "instance:") {
					s.Errorf("%s: tells exporters apart: %s", e.name, series)
				}
			}
		}
	}
	prod := func(name string) string { return resolveIn(environments[0], s.expr(boards, name)) }
	staging := func(name string) string { return resolveIn(environments[1], s.expr(boards, name)) }
	const o = dashboards.Overview
	for expr, want := range map[string]float64{
		"count(up == 1)": 4, prod(dashboards.IRC + "/Users/A"): 3, prod(dashboards.XMPP + "/Sessions/A"): 3,
		"count(" + prod(o+"/Targets over time/A") + ")": 17, "count(" + prod(o+"/Every target/D") + ")": 17,
		// One of the pair cannot reach it, which is a warning, but it is up.
		prod(o + "/Targets down/A"): 1, prod(o + "/Warnings/A"): 1, prod(o + "/Critical alerts/A"): 0,
		"(" + prod(o+"/Availability/A") + `) and on (target) chatstack:target_up{target="elsewhere"}`: 1,
		staging(o + "/Targets down/A"): 1, staging(o + "/Critical alerts/A"): 1,
		"(" + staging(o+"/Availability/A") + `) and on (target) chatstack:target_up{target="gone"}`: 0,
		// Names are the user's.
		"count(" + staging(dashboards.XMPP+"/Targets/A") + ")": 1, "count(" + staging(dashboards.IRC+"/Targets/A") + ")": 1,
	} {
		var got samples
		if !exportertest.Eventually(20*time.Second, 200*time.Millisecond, func() bool {
			got = s.query(expr)
			if len(got) > 1 {
				delete(got, "map[]") // an alert that no environment has is in every one
			}
			values := slices.Collect(maps.Values(got))
			return len(values) == 1 && values[0] == want
		}) {
			s.Errorf("%s: got %v, want %v", expr, got, want)
		}
	}
}

// environments are those of the site; the last one is that of series without the labels.
var environments = []environment{{"east", "prod"}, {"west", "staging"}, {"", ""}}

// checkApart holds that no number is one of several environments: what is shown of all is what is shown of each.
func (s *site) checkApart(name, expr string) {
	s.Helper()
	var all, each samples
	// A sample may come late for the time that is asked about.
	if !exportertest.Eventually(10*time.Second, 300*time.Millisecond, func() bool {
		at := time.Now().Add(-time.Second)
		all, each = s.queryAt(resolve(expr), at), samples{}
		for _, e := range environments {
			for series, v := range s.queryAt(resolveIn(e, expr), at) {
				own := strings.Contains(series, "cluster:"+e.cluster+" ") && strings.Contains(series, "env:"+e.env) && e.env != ""
				none := !strings.Contains(series, "cluster:") && !strings.Contains(series, "env:")
				if !own && (!none || e.env != "" && !strings.Contains(expr, "ALERTS")) {
					s.Errorf("%s, of %v: shows %s", name, e, series)
				}
				each[series] = v
			}
		}
		return !differs(all, each, true)
	}) {
		s.Errorf("%s: of all environments:\n%v\nof each:\n%v", name, all, each)
	}
}

// expr is an expression by its name.
func (s *site) expr(boards []board, name string) string {
	s.Helper()
	for _, b := range boards {
		for _, e := range expressions(b) {
			if e.name == name {
				return e.expr
			}
		}
	}
	s.Fatalf("no expression is called %s", name)
	return ""
}

// watchIdle finds out which expressions move while nothing happens.
func (s *site) watchIdle(all map[string]string) {
	s.Helper()
	s.pause(6 * time.Second) // longer than any window that the test resolves
	first := map[string]samples{}
	for range 3 {
		for name, expr := range all {
			now := s.query(resolve(expr))
			if first[name] == nil {
				first[name] = now
			}
			s.moves[name] = s.moves[name] || differs(first[name], now, true)
		}
		s.pause(1300 * time.Millisecond)
	}
}

// visit switches a fault on and waits until every expression that follows it tells of it. One that moves all the time
// tells of it by its series alone, or has a mark of its own, so that no change is taken for an answer which would have
// come anyway.
func (s *site) visit(f fault, all map[string]string, followed map[string]bool) {
	s.Helper()
	begun := time.Now()
	waiting := map[string]shows{}
	for want, mark := range f.follow {
		found := false
		for name := range all {
			if name == want || strings.HasPrefix(name, want+"/") {
				waiting[name], found, followed[name] = mark, true, true
			}
		}
		if !found {
			s.Errorf("%s: no panel is called %s", f.name, want)
		}
	}
	// The pair and the rules must have had the time to settle after the stage before.
	before := map[string]samples{}
	for end := time.Now().Add(time.Minute); ; {
		for name := range waiting {
			before[name] = s.query(resolve(all[name]))
		}
		s.pause(1100 * time.Millisecond)
		var restless []string
		for name, mark := range waiting {
			now := s.query(resolve(all[name]))
			if mark == nil && differs(before[name], now, !s.moves[name]) || mark != nil && mark(now) {
				restless = append(restless, name)
			}
			before[name] = now
		}
		if len(restless) == 0 {
			break
		}
		if time.Now().After(end) {
			s.Errorf("%s: %q move, or tell of it before it is switched on", f.name, restless)
			break
		}
	}
	f.on()
	empty := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(waiting) > 0; s.pause(300 * time.Millisecond) {
		for name, mark := range waiting {
			now := s.query(resolve(all[name]))
			told := mark == nil && differs(before[name], now, !s.moves[name]) || mark != nil && mark(now)
			if told {
				delete(waiting, name)
				empty[name] = len(now) == 0 && len(before[name]) == 0
			}
		}
		if time.Now().After(end) {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		s.Errorf("%s: %s does not tell of it (it moves by itself: %v)\n%s\nbefore: %v\nnow:    %v",
			f.name, name, s.moves[name], all[name], before[name], s.query(resolve(all[name])))
	}
	for name, nothing := range empty {
		if nothing {
			s.Errorf("%s: %s has been empty all the time", f.name, name)
		}
	}
	for name := range empty {
		s.checkApart(name, all[name])
	}
	s.note()
	f.off()
	s.Logf("%s: %d expressions, %s", f.name, len(empty), time.Since(begun).Round(100*time.Millisecond))
}

// note remembers what is on the exporter's page, as Prometheus has it.
func (s *site) note() {
	s.Helper()
	var names []string
	s.get("/api/v1/label/__name__/values", url.Values{}, &names)
	for _, name := range names {
		s.seen[name] = true
	}
}

// checkVariables holds that every variable finds values.
func (s *site) checkVariables(boards []board) {
	s.Helper()
	labelValues := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, b := range boards {
		for _, v := range b.Templating.List {
			if v.Type != "query" {
				continue
			}
			asked := labelValues.FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
			if asked == nil {
				s.Errorf("%s, variable %s: asks for no label's values: %v", b.UID, v.Name, v.Query)
				continue
			}
			var found []string
			s.get("/api/v1/label/"+asked[2]+"/values", url.Values{"match[]": {resolve(asked[1])}}, &found)
			want := map[string][]string{
				"cluster": {"east", "west"}, "env": {"prod", "staging"}, "job": {"chatstack_exporter"}, "docker_host": {"local"},
			}[v.Name]
			if len(found) == 0 || want != nil && !slices.Equal(found, want) {
				s.Errorf("%s, variable %s: %v finds %q", b.UID, v.Name, v.Query, found)
			}
			for _, e := range environments[:2] {
				s.get("/api/v1/label/env/values", url.Values{"match[]": {resolveIn(e, asked[1])}}, &found)
				if v.Name != "cluster" && v.Name != "env" && !slices.Equal(found, []string{e.env}) {
					s.Errorf("%s, variable %s: %v is asked of %q, want %s", b.UID, v.Name, v.Query, found, e.env)
				}
			}
		}
	}
}

// checkNames holds that each metric that is shown was there, and that each of ours that was there is shown.
func (s *site) checkNames(all map[string]string) {
	s.Helper()
	const flapping = "chatstack_container_calm_seconds" // takes three outages that have alerts
	shown := map[string]bool{}
	for name, text := range all {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(resolve(text))
		if err != nil {
			s.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if v, ok := node.(*parser.VectorSelector); ok && v.Name != flapping {
				shown[v.Name] = true
				if !s.seen[v.Name] {
					s.Errorf("%s: names %s, which nobody exports or records", name, v.Name)
				}
			}
			return nil
		})
	}
	// the container's own excuse is shown, which is the same or more
	shown["chatstack_container_memory_excused"] = true
	// only alerts use the first; panels show the sessions by type
	shown["chatstack_label_check"], shown["chatstack_xmpp_sessions"] = true, true
	shown["chatstack_volume_inodes"], shown["chatstack_volume_inodes_free"] = true, true // their ratio is shown
	shown["chatstack_probe_abandoned"] = true                                            // the row of the target tells
	shown["chatstack_tls_certificate_expiry_limit_seconds"] = true                       // the alert reads it
	// the panels of memory and CPU are the same for both sources
	shown["chatstack_container_resources_source"] = true
	// Alerts and their messages are made with these.
	for _, name := range []string{
		"container_chat_server", "container_recently_unhealthy_seconds", "container_workload", "docker_targets_down", "exporter_info",
		"exporter_starting", "relay_broken_cause", "target_calm_seconds", "target_chat_server", "target_recent_outages",
		"target_words",
	} {
		shown["chatstack_"+name] = true
	}
	// Alerts, the status page and check tell of these; the panel of the delivery time is drawn from the histogram's buckets.
	for _, name := range []string{
		"broken_at", "consecutive_failures", "delivery_seconds_count", "delivery_seconds_sum", "last_delivered_timestamp_seconds",
		"last_delivery_seconds",
	} {
		shown["chatstack_relay_"+name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.seen)) {
		if strings.HasPrefix(name, "chatstack_") && !shown[name] {
			s.Errorf("no panel shows %s", name)
		}
	}
}

// checkRanges runs what is drawn over time as charts do, over the whole test.
func (s *site) checkRanges(boards []board) {
	s.Helper()
	for _, b := range boards {
		for _, e := range expressions(b) {
			if !e.ranged {
				continue
			}
			var data struct {
				Result []struct{ Values [][2]any }
			}
			now := time.Now()
			s.get("/api/v1/query_range", url.Values{
				"query": {resolve(e.expr)}, "step": {"2"},
				"start": {strconv.FormatInt(s.begun.Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
			}, &data)
			if len(data.Result) == 0 {
				s.Errorf("%s: draws nothing", e.name)
			}
			for _, r := range data.Result {
				for _, v := range r.Values {
					if text := fmt.Sprint(v[1]); text == "NaN" || strings.HasSuffix(text, "Inf") {
						s.Errorf("%s: draws %s", e.name, text)
					}
				}
			}
		}
	}
}

// names makes a stage's list of panels of one dashboard whose change alone is told.
func names(uid string, titles ...string) map[string]shows {
	m := map[string]shows{}
	for _, title := range titles {
		m[uid+"/"+title] = nil
	}
	return m
}

func join(lists ...map[string]shows) map[string]shows {
	m := map[string]shows{}
	for _, l := range lists {
		maps.Copy(m, l)
	}
	return m
}

func (s *site) faults() []fault {
	const (
		o, x, i, c, d, e = dashboards.Overview, dashboards.XMPP, dashboards.IRC, dashboards.Containers,
			dashboards.TLSDisks, dashboards.Exporter
	)
	nothing := func() {}
	large := func() {
		s.container("docs").SetUsage(1_200_000_000, time.Hour)
		s.container("xmpp").SetUsage(700_000_000, time.Hour)
	}
	return []fault{
		s.simulated(map[string]shows{i + "/Delivery time": above(0.1)}, "bridge/late"),  // first, since it takes half of all messages
		s.simulated(map[string]shows{i + "/Messages cross": below(1)}, "bridge/frozen"), // whose end delivers what is late
		s.simulated(map[string]shows{i + "/Messages": of("outcome:late", above(0)), i + "/Copies": above(0)}, "bridge/twice"),
		s.simulated(join(
			names(o, "Targets down", "Every target/A", "Every target/B", "Every target/C", "Every target/F", "Firing alerts",
				"Targets over time", "Critical alerts", "Warnings", "Error budget left",
				"Availability, hour by hour", "Availability/A", "Availability/B"),
			names(i, "Targets", "Targets down"),
			map[string]shows{
				e + "/Since the last success": of("docs_search", above(5)),
				e + "/Failures by reason":     of("prod", above(2)),
				e + "/Share of failed probes": of("docs_search", above(0.01)),
			},
		), "docs_search/stopped", "irc_services/stopped"),
		atOnce(
			s.simulated(join(
				names(x, "Failed logins per minute", "Failed logins", "Logins/B"), names(o, "Failed logins per minute"),
			), "xmpp/auth_failures"),
			fault{
				"a volume is filled, another one is lost, and a backup is made",
				func() {
					s.write(s.backup, []byte("more data"))
					s.write(filepath.Join(s.volume, "file"), make([]byte, 14<<20))
					if err := os.Remove(s.lost); err != nil {
						s.Fatal(err)
					}
				},
				nothing,
				join(
					names(d, "Used", "Forecast for 7 days", "Readable", "Used over time", "Space/A", "Space/B", "Inodes used",
						"Size of the newest backup"),
					map[string]shows{d + "/Age of the newest backup": below(600)}, names(o, "Fullest volume"),
				),
			},
		),
		atOnce(
			s.simulated(join(
				names(x, "Modules in error", "Components", "Worst module by host", "Modules", "Modules missing"),
				names(o, "Other problems/A"),
			), "xmpp/module_error", "xmpp/component_disconnected", "xmpp/module_missing"),
			fault{
				"the volume grows",
				func() {
					if err := syscall.Mount("dashboards", s.volume, "tmpfs", syscall.MS_REMOUNT, "size=32m,nr_inodes=2000"); err != nil {
						s.Fatal(err)
					}
				},
				nothing,
				names(d, "Space/C"),
			},
		),
		atOnce(
			s.simulated(join(
				names(i, "Services linked", "Servers and operators/A"), names(e, "Dropped series", "Samples/B"),
			), "irc_rpc/services_unlinked", "xmpp/bad_page"),
			fault{
				"containers use much",
				large,
				nothing,
				join(
					names(o, "Memory of the XMPP server", "Largest container"), names(c, "Memory", "Memory against the container's limit"),
					map[string]shows{c + "/CPU": above(5)},
				),
			},
		),
		atOnce(
			s.simulated(join(
				names(i, "Users", "Channels", "Users and channels", "Servers and operators"), names(x, "Metric sources", "Logins/A"),
			), "irc_rpc/numbers_forbidden", "xmpp/no_auth_source"),
			s.simulated(map[string]shows{
				i + "/Identity cache left": below(3593), i + "/Test records left behind": nil, i + "/Plant store operations": nil,
			}, "identity/stopped", "plant_store/refuse_delete"),
		),
		s.simulated(map[string]shows{
			i + "/Probe duration": above(0.35), i + "/Plant store": above(0.35), x + "/HTTP durations/B": above(0.35),
			e + "/Probe duration": above(0.35),
		}, "xmpp/slow", "plant_store/slow", "docs_search/slow"),
		atOnce(
			fault{
				"the volume turns read-only",
				func() {
					if err := syscall.Mount("dashboards", s.volume, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY,
						"size=32m,nr_inodes=2000"); err != nil {
						s.Fatal(err)
					}
				},
				nothing,
				names(d, "Writable"),
			},
			fault{
				"the XMPP server is busy",
				func() { s.busy.Store(1000) },
				func() { s.busy.Store(1) },
				map[string]shows{
					x + "/New connections/B": above(500), x + "/Storage/B": above(500), x + "/HTTP requests/A": above(500),
					x + "/Sessions/B": nil,
				},
			},
			fault{
				"a deploy",
				func() {
					s.container("plant-store").Recreate(func(spec *simstack.ContainerSpec) {
						spec.Image, spec.MemoryLimit, spec.DependsOn, spec.Restart = "chat/plant-store:2.0.0", 256<<20,
							"irc:service_healthy:false", "no"
					})
				},
				nothing,
				join(
					names(o, "Deploys/annotation"), names(x, "Deploys/annotation"), names(i, "Deploys/annotation"),
					names(d, "Deploys/annotation"), names(e, "Deploys/annotation"),
					names(c, "Deploys/annotation", "Restarts and deploys/B", "Containers/A", "Containers/C",
						"Containers/D", "Dependencies", "Workloads/E"),
				),
			},
		),
		s.simulated(join(
			names(x, "Targets", "Sessions", "New connections", "Messages and presence", "Storage", "Memory", "CPU", "File descriptors",
				"HTTP requests/A", "HTTP durations/A"),
		), "xmpp/stopped"),
		s.simulated(join(
			names(d, "Days left", "Days left over time", "Certificate verifies", "Serves the certificate in its file"),
			map[string]shows{o + "/Next certificate to expire": below(0)}, names(e, "Overruns"),
		), "irc_tls/expired_certificate", "docs_search/hang"),
		{
			"containers go wrong",
			func() {
				s.container("docs").Stop()
				s.container("web-irc").OOM()
				s.container("irc-services").OOMChild()
				s.container("irc").Restart()
				s.turn(true, "docker/unhealthy")()
			},
			func() {
				s.container("docs").Start()
				s.turn(false, "docker/unhealthy")()
			},
			join(
				names(o, "Containers down", "Containers unhealthy", "Most restarts in 10 minutes", "Restarts/annotation"),
				names(c, "Container problems over time", "Container problems/A", "Container problems/C", "Container problems/D",
					"Restarts in 10 minutes", "Restarts and deploys/A", "Out of memory", "Containers/B", "Containers/F", "Containers/G",
					"Containers/H", "Workloads/A", "Workloads/C", "Workloads/D", "Restarts/annotation"),
				names(x, "Restarts/annotation"), names(i, "Restarts/annotation"), names(d, "Restarts/annotation"),
				names(e, "Restarts/annotation"),
			),
		},
		{
			"statistics are forbidden, and there is maintenance",
			func() {
				s.turn(true, "docker/forbidden_stats")()
				s.maintain("container/docs", "target/data", "target/irc_tls", "target/irc_rpc", "target/xmpp_metrics")
			},
			func() {
				s.turn(false, "docker/forbidden_stats")()
				s.endMaintenance("container/docs", "target/data", "target/irc_tls", "target/irc_rpc", "target/xmpp_metrics")
			},
			join(
				names(c, "Docker Engine API", "Maintenance", "Network", "CPU/A", "Container problems/E"), names(o, "Every target/E"),
				map[string]shows{o + "/Held back/A": lists("docs", "data", "certificate", "volume", "failed logins")},
			),
		},
		{
			"a problem is held back, and a container is removed",
			func() {
				s.maintain("target/xmpp_status", "target/docs_search")
				s.turn(true, "xmpp/component_disconnected", "docs_search/stopped")()
				s.container("web-irc").Remove()
				s.container("log-viewer").Stop()
				s.container("log-viewer").Remove()
			},
			func() {
				s.turn(false, "xmpp/component_disconnected", "docs_search/stopped")()
				s.endMaintenance("target/xmpp_status", "target/docs_search")
			},
			join(names(o, "Other problems/B"), map[string]shows{o + "/Held back/B": lists("docs_search")},
				names(c, "Container problems/B")),
		},
		atOnce(
			fault{
				"a container has done its work",
				func() { s.container("docs").Die(0) },
				nothing,
				names(c, "Containers/E", "Workloads/B"),
			},
			fault{
				"a configuration that is wrong",
				func() { s.exporter.Reconfigure("poll: {interval: never}\n") },
				func() { s.exporter.Reconfigure(s.config) },
				names(e, "Configuration"),
			},
		),
		{
			"another configuration",
			func() {
				s.exporter.Reconfigure(strings.Replace(s.config, "poll_stalled: {after: 25s}", "poll_stalled: {after: 26s}", 1) +
					"  - {kind: http, name: another, url: '" + s.stack.ControlURL() + "', token: change_me}\n")
			},
			nothing,
			join(
				names(o, "Every target/D", "Every target/G", "Availability/C"),
				names(e, "Configuration loaded", "Placeholder secrets", "Rules out of date", "Rules"),
			),
		},
		s.simulated(map[string]shows{i + "/Sessions": below(1)}, "bridge/kicked"),
		{
			"the exporters hang",
			func() { s.exporter.Hang(); s.other.Hang() },
			func() { s.exporter.Resume(); s.other.Resume() },
			join(
				map[string]shows{e + "/Poll loop heartbeat": above(13), e + "/Scrape duration": above(0.8)},
				names(e, "Scraped", "Version", "Samples/A", "Since the last probe", "Clock skew", "Memory", "CPU", "Goroutines"),
				names(x, "HTTP requests/B"),
				names(o, "Exporter starts/annotation"), names(x, "Exporter starts/annotation"), names(i, "Exporter starts/annotation"),
				names(c, "Exporter starts/annotation"), names(d, "Exporter starts/annotation"), names(e, "Exporter starts/annotation"),
			),
		},
	}
}
