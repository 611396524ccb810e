// Package story plays what happens to a stack in virtual time, from its containers to whoever is woken: the exporter as it
// is, the shipped rules in Prometheus' own code, and the shipped routes in Alertmanager's. Nothing leaves the process.
package story

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // the routes are by the clock on the wall
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// world is everything at one moment.
type world struct {
	*testing.T
	network    *simstack.Network
	sites      map[string]*site // by env
	exporters  []*exporter
	prometheus *server
	router     *router
	began      time.Time
	// phone is whom a single exporter notifies by itself.
	phone phone
	// tick is when the next thing happens that happens by itself: a scrape, and a round of the rules 10 s later.
	tick  time.Time
	round bool
	// afterRound is called after each round of the rules; nil for nothing.
	afterRound func()
	// spared reports whether an exporter is not killed now; nil for none.
	spared func(*exporter) bool
}

// site is a stack: an engine, its containers, and the services in them.
type site struct {
	env      string
	engine   *simstack.Engine
	services map[string]*service
	// sick are the containers that pass no health check.
	sick map[string]bool
	// chat has the servers of a site with a bridge; nil for none. frozen says that the bridge in the container bridge hangs.
	chat   *simstack.Stack
	frozen bool
}

// service answers with 200 while it is well and its container runs.
type service struct {
	url           string
	broken, ended atomic.Bool
	// refuses says that it answers everything with 401.
	refuses atomic.Bool
	// takes is how long an answer takes, in nanoseconds.
	takes atomic.Int64
	// flaky is since when it fails for three quarters of each period; nil if it does not.
	flaky atomic.Pointer[time.Time]
}

// flakyPeriod has four readings.
const flakyPeriod = 4 * interval

// fails reports whether the service answers with an error now.
func (s *service) fails() bool {
	since := s.flaky.Load()
	return s.broken.Load() || s.ended.Load() || since != nil && time.Since(*since)%flakyPeriod < flakyPeriod*3/4
}

// exporter is one of those that watch a site.
type exporter struct {
	exporterSpec
	site      *site
	address   string
	stateFile string
	app       *app.App // nil while it does not run
	started   time.Time
	// configFile is its configuration, in which the target other has another name if renamed is not "".
	configFile, renamed string
	stop                func()
	// unreachable says that scrapes of it fail, offline that it reaches no service.
	unreachable bool
	// every is how many intervals there are between two scrapes, if that is set.
	every   int
	offline atomic.Bool
	// sees are series that its page has besides; nil for none.
	sees func() string
	// scraped is what the pages said that Prometheus has, oldest first.
	scraped []scraped
}

// scraped is what a page said, and when.
type scraped struct {
	at time.Time
	*health.Judgement
}

// exporterSpec is what an exporter is like.
type exporterSpec struct {
	name, env, part string
	// targets and containers are what it watches.
	targets, containers bool
	// misnamed is the target whose container has another name than the exporter knows.
	misnamed string
	// adds are labels that the scrape configuration adds.
	adds map[string]string
	// saves says that it has a state file.
	saves bool
	// quiet is a target with page: false, "" for none.
	quiet string
	// wide says that there are more containers, and five targets more that the container xmpp serves.
	wide bool
	// relay says that there are an IRC server, an XMPP server and the container of a bridge between them, which is checked.
	relay bool
	// notifies is the address of a receiver that it notifies by itself, of warnings too and of what is critical only; "" for none.
	notifies string
	// services says that there are the IRC server's RPC, the IRC services, and a target that the container docs serves.
	services bool
	// logins says that it reads the XMPP server's metrics, with the failed logins.
	logins bool
}

// containers are those of a site: the API needs the database, and the web client needs the API.
var containers = []simstack.ContainerSpec{
	{Name: "db", Restart: "always", Health: true},
	{
		Name:      "api",
		Restart:   "always",
		Health:    true,
		DependsOn: "db:service_started:false",
	},
	{
		Name:      "web",
		Restart:   "always",
		Health:    true,
		DependsOn: "api:service_started:false",
	},
	{Name: "other", Restart: "always", Health: true},
}

// wideContainers are more of them, that need nothing.
var wideContainers = []simstack.ContainerSpec{
	{Name: "xmpp", Restart: "always", Health: true},
	{Name: "irc", Restart: "always", Health: true},
	{Name: "docs", Restart: "always", Health: true},
}

// bridgeContainers are the container of a bridge.
var bridgeContainers = []simstack.ContainerSpec{{Name: "bridge", Restart: "always", Health: true}}

// served are the targets whose container is configured.
var served = []string{"api", "web"}

// morning is the hour at which most stories begin.
const morning = 10

// play runs a story in virtual time, which begins at ten in the morning. Containers need others than usual where needs
// says so.
func play(t *testing.T, exporters []exporterSpec, needs map[string]string, story func(w *world)) {
	t.Helper()
	playFrom(t, morning, exporters, needs, story)
}

// playFrom runs a story that begins at another hour.
func playFrom(t *testing.T, hour int, exporters []exporterSpec, needs map[string]string, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(hour) * time.Hour)
		w := &world{
			T:       t,
			network: new(simstack.Network),
			sites:   map[string]*site{},
			began:   time.Now().Add(settling),
			tick:    time.Now().Add(interval - evaluation),
		}
		t.Cleanup(func() { time.Sleep(slowest) }) // what answers slowly does so until the end
		w.router = newRouter(t, "../../../deploy/alertmanager/alertmanager.yml")
		w.prometheus = newServer(t, w.router.send)
		if len(exporters) == 1 {
			exporters = slices.Clone(exporters)
			exporters[0].notifies = w.listenForMessages()
		}
		for _, spec := range exporters {
			if w.sites[spec.env] == nil {
				w.build(spec, needs)
			}
			e := &exporter{exporterSpec: spec, site: w.sites[spec.env]}
			if spec.saves {
				e.stateFile = filepath.Join(t.TempDir(), "state.json")
			}
			w.exporters = append(w.exporters, e)
			w.start(e)
		}
		t.Cleanup(func() {
			for _, e := range w.exporters {
				if e.app != nil {
					e.stop()
				}
			}
		})
		w.pass(settling)
		story(w)
		w.router.checkWords(t)
	})
}

const (
	// settling is how long a world runs before its story begins.
	settling = time.Minute
	// evaluation is how long after a scrape the rules are evaluated.
	evaluation = 10 * time.Second
	// slowest is how long a slow service takes: less than the deadline of a probe.
	slowest = 9 * time.Second
)

// build makes a site.
func (w *world) build(first exporterSpec, needs map[string]string) {
	engine, err := simstack.NewEngine(w.network)
	must(w.T, err)
	w.Cleanup(func() { must(w.T, engine.Close()) })
	s := &site{
		env:      first.env,
		engine:   engine,
		services: map[string]*service{},
		sick:     map[string]bool{},
	}
	list := containers
	if first.wide {
		list = slices.Concat(containers, wideContainers)
	}
	if first.relay {
		list = slices.Concat(list, bridgeContainers)
		s.chat, err = simstack.Start(simstack.Options{Network: w.network, Slow: 7 * time.Second})
		must(w.T, err)
		w.Cleanup(func() { must(w.T, s.chat.Close()) })
	}
	for _, spec := range list {
		spec.Service = spec.Name
		if other, given := needs[spec.Name]; given {
			spec.DependsOn = other + ":service_started:false"
		}
		engine.Add(spec)
		s.services[spec.Name] = w.serve()
	}
	w.sites[first.env] = s
}

// serve starts a service.
func (w *world) serve() *service {
	l, err := w.network.Listen("tcp", "127.0.0.1:0")
	must(w.T, err)
	s := &service{url: "http://" + l.Addr().String() + "/"}
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(s.takes.Load()))
		switch {
		case s.refuses.Load() && !s.ended.Load():
			out.WriteHeader(http.StatusUnauthorized)
		case s.fails():
			out.WriteHeader(http.StatusInternalServerError)
		}
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	w.Cleanup(func() {
		must(w.T, server.Close())
		running.Wait()
	})
	return s
}

// configuration is that of an exporter, which watches the API, the web client and something elsewhere.
func (e *exporter) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "state_file: %q\nweb: {external_url: \"https://status.example.org\"}\n", e.stateFile)
	if e.notifies != "" {
		b.WriteString(receiversAt(e.notifies))
	}
	b.WriteString("targets:\n")
	if e.containers {
		fmt.Fprintf(&b, "  - {kind: docker, host: %q}\n", e.site.engine.Host())
	}
	if e.targets {
		for _, name := range served {
			host := ""
			if !e.containers {
				host = ", container_host: local" // another exporter watches its engine
			}
			container := name
			if name == e.misnamed {
				container += "2"
			}
			fmt.Fprintf(&b, "  - {kind: http, name: %s, url: %q, page: %t, container: %s%s}\n",
				name, e.site.services[name].url, name != e.quiet, container, host)
		}
		fmt.Fprintf(&b, "  - {kind: http, name: %s, url: %q, page: %t}\n",
			cmp.Or(e.renamed, "other"), e.site.services["other"].url, e.quiet != "other")
		for n := 1; e.wide && n <= 5; n++ {
			fmt.Fprintf(&b, "  - {kind: http, name: xmpp%d, url: %q, container: xmpp}\n", n, e.site.services["xmpp"].url)
		}
		if e.relay {
			b.WriteString(e.site.bridgeTargets())
		}
		if e.services {
			b.WriteString(e.site.servicesTargets())
		}
		if e.logins {
			fmt.Fprintf(&b, "  - {kind: xmpp_metrics, url: \"%smetrics\"}\n", e.site.chat.URL("xmpp"))
		}
	}
	return b.String()
}

// start starts an exporter.
func (w *world) start(e *exporter) {
	w.Helper()
	none := ""
	e.configFile = filepath.Join(w.TempDir(), "exporter.yaml")
	must(w.T, os.WriteFile(e.configFile, []byte(e.configuration()), 0o600))
	address := []string{"127.0.0.1:0"}
	if e.address != "" {
		address[0] = e.address
	}
	a, err := app.New(app.Options{
		ConfigFile: e.configFile,
		Lookup:     func(string) (string, bool) { return "", false },
		Web:        &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none},
		Log:        slog.New(slog.DiscardHandler),
		Listen:     w.network.Listen,
	})
	must(w.T, err)
	ctx, cancel := context.WithCancel(exchange.WithDialer(w.Context(),
		func(ctx context.Context, network, address string) (net.Conn, error) {
			if network == "tcp" && e.offline.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
			}
			return w.network.Dial(ctx, network, address)
		}))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	e.app, e.address, e.started = a, a.Addresses()[0].String(), time.Now()
	e.stop = func() {
		cancel()
		must(w.T, <-ended)
		e.app = nil
	}
}

// kill ends an exporter as SIGKILL does: what it would save at its end is not saved.
func (w *world) kill(e *exporter) {
	w.Helper()
	if e.stateFile == "" {
		e.stop()
		return
	}
	content, err := os.ReadFile(e.stateFile)
	must(w.T, err)
	e.stop()
	must(w.T, os.WriteFile(e.stateFile, content, 0o600))
}

// page gets an exporter's metrics as Prometheus does, nil if that fails.
func (w *world) page(e *exporter) []byte {
	w.Helper()
	if e.app == nil || e.unreachable {
		return nil
	}
	client := http.Client{Transport: &http.Transport{DialContext: w.network.Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+e.address+"/metrics", nil)
	must(w.T, err)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	request.Header.Set("User-Agent", "Prometheus/3")
	response, err := client.Do(request)
	must(w.T, err)
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	body, err := io.ReadAll(response.Body)
	must(w.T, err)
	body = processStart.ReplaceAll(body, fmt.Appendf(nil, "process_start_time_seconds %d", e.started.Unix())) // it is that of the test
	if e.sees != nil {
		body = fmt.Appendf(bytes.TrimSuffix(body, []byte("# EOF\n")), "%s# EOF\n", e.sees())
	}
	return body
}

var processStart = regexp.MustCompile(`(?m)^process_start_time_seconds .*$`)

// pass lets time pass.
func (w *world) pass(d time.Duration) { w.Helper(); w.until(time.Now().Add(d)) }

// until lets time pass, with a scrape and a round of the rules in each interval.
func (w *world) until(end time.Time) {
	w.Helper()
	for !w.tick.After(end) {
		time.Sleep(time.Until(w.tick))
		synctest.Wait()
		if w.round {
			w.evaluate()
			w.tick = w.tick.Add(interval - evaluation)
		} else {
			w.scrape()
			w.tick = w.tick.Add(evaluation)
		}
		w.round = !w.round
	}
	time.Sleep(time.Until(end))
	synctest.Wait()
}

func (w *world) scrape() {
	for _, e := range w.exporters {
		if time.Since(w.began)/interval%time.Duration(max(1, e.every)) != 0 {
			continue
		}
		page := w.page(e)
		if w.prometheus.db == nil {
			continue
		}
		if w.prometheus.lost[e.name] {
			page = nil
		}
		given := map[string]string{"env": e.env, "part": e.part}
		maps.Copy(given, e.adds)
		w.prometheus.scrape(w.T, e.name, page, given)
		if page != nil {
			e.scraped = append(e.scraped[max(0, len(e.scraped)-4):], scraped{time.Now(), e.app.Snapshot().Judgement})
		}
	}
}

func (w *world) evaluate() {
	if w.prometheus.db == nil {
		return
	}
	w.prometheus.evaluate(w.T)
	if w.afterRound != nil {
		w.afterRound()
	}
}

// notifications returns the messages since the story began, such as "5m40s page: ContainerDown critical db; TargetDown critical api".
func (w *world) notifications() []string {
	var lines []string
	for _, n := range w.router.notifications() {
		lines = append(lines, fmt.Sprintf("%s %s: %s", n.at.Sub(w.began).Round(time.Second), n.receiver, strings.Join(n.alerts, "; ")))
	}
	return lines
}

// problems are those on an exporter's page, such as "db ContainerDown critical" and "web TargetDown pending, excused by db".
func (w *world) problems(e *exporter) []string {
	severities := [...]string{"pending", "warning", "critical"}
	lines := map[string]bool{}
	for _, p := range e.app.Snapshot().Judgement.Problems {
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Name, p.Alert, severities[p.Severity]))
		switch {
		case p.Excuse.Cause != "":
			line += fmt.Sprintf(", %s of %s", p.Excuse.Reason, p.Excuse.Cause)
		case p.Excuse.Holds():
			line += ", " + p.Excuse.Reason
		case p.Also != "":
			line += ", also " + p.Also
		}
		lines[line] = true
	}
	return slices.Sorted(maps.Keys(lines))
}
