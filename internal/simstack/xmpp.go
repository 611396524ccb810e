package simstack

import (
	"bytes"
	_ "embed" // for the bad lines
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// xmpp is the XMPP server's HTTP side: Prosody's status page, metrics page and REST admin API.
type xmpp struct {
	service *service
	token   string
	scrapes atomic.Int64
	extra   string
	// failures grows with each scrape while auth_failures is on.
	failures atomic.Int64
	// restarted is when the server was last restarted; nil if it was not.
	restarted atomic.Pointer[time.Time]
}

// counterSteps has the increase per scrape of each counter, by the beginning of its line. The capture has the first values.
var counterSteps = map[string]float64{
	"process_cpu_seconds_total": 0.0123,
	`prosody_mod_measure_stanza_counts__received_total{session_type="c2s",stanza_kind="message"}`:  3,
	`prosody_mod_measure_stanza_counts__received_total{session_type="c2s",stanza_kind="presence"}`: 1,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="message"}`:      4,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="presence"}`:     2,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="iq"}`:           1,
}

// badLines are errors of a metrics page: a line that is not a sample, a duplicate sample, the exporter's own names, an interleaved
// family, a value out of its type's range, and bytes that are not UTF-8.
//
//go:embed bad_lines.txt
var badLines string

// loginLines are the families of mod_measure_chatstack, because the server itself does not count logins.
//
//go:embed login_lines.txt
var loginLines string

func newXMPP(o Options) *service {
	x := &xmpp{token: o.Token + "-xmpp", extra: moreSeries(o.UpstreamSeries)}
	x.service = &service{name: "xmpp", handle: x.handle, switched: map[string]func(bool){"module_missing": x.restart}}
	return x.service
}

const endOfPage = "# EOF\n"

// advanceCounters adds the increase of n scrapes to the counters of a page.
func advanceCounters(page string, n float64) string {
	for sample, step := range counterSteps {
		before, rest, _ := strings.Cut(page, "\n"+sample+" ")
		value, after, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic(err) // a programming error: the capture is part of the binary
		}
		page = before + "\n" + sample + " " + strconv.FormatFloat(v+n*step, 'g', 17, 64) + "\n" + after
	}
	return page
}

// perFamily is how many additional series share a family.
const perFamily = 500

// moreSeries returns n series in the real server's format.
func moreSeries(n int) string {
	var b strings.Builder
	for i := range n {
		name := fmt.Sprintf("prosody_mod_simulated__load%d", i/perFamily)
		if i%perFamily == 0 {
			fmt.Fprintf(&b, "# HELP %s mod_simulated/load%d amount\n# UNIT %s \n# TYPE %s gauge\n", name, i/perFamily, name, name)
		}
		fmt.Fprintf(&b, "%s{host=\"room%d.%s\",kind=\"simulated\"} %d\n", name, i%perFamily, XMPPDomain, i)
	}
	return b.String()
}

func (p *xmpp) handle(x *exchange) *answer {
	if x.req.Method != http.MethodGet && x.req.Method != http.MethodHead {
		return captured("xmpp_404")
	}
	switch path := x.req.URL.Path; {
	case path == "/status":
		return p.statusPage()
	case path == "/metrics":
		return p.metricsPage()
	case strings.HasPrefix(path, "/admin_api/"):
		return p.admin(x)
	default:
		return captured("xmpp_404")
	}
}

func (p *xmpp) statusPage() *answer {
	if p.service.on("status_page_403") {
		return captured("xmpp_metrics_403")
	}
	a := captured("xmpp_status")
	if p.service.on("not_json") {
		return reply(http.StatusOK, "text/plain", "Prosody is running\n")
	}
	if loaded := p.restarted.Load(); loaded != nil {
		a.body = captureTimes.ReplaceAllLiteral(a.body, []byte(`"time":"`+loaded.Format(time.RFC3339)+`"`))
	}
	if p.service.on("module_missing") {
		a.body = setModule(a.body, XMPPDomain, "groups_internal", nil)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	if p.service.on("module_error") {
		a.body = setModule(a.body, XMPPDomain,
			"storage_sql", map[string]string{"type": "error", "message": "Could not connect to the database", "time": now})
	}
	if p.service.on("component_disconnected") {
		a.body = setModule(a.body, "bridge."+XMPPDomain,
			"component", map[string]string{"type": "warn", "message": "Disconnected", "time": now})
	}
	return a
}

// restart loads all modules anew, an hour after the last time or now.
func (p *xmpp) restart(bool) {
	last := captureBegan
	if before := p.restarted.Load(); before != nil {
		last = *before
	}
	if last = last.Add(time.Hour); last.Before(time.Now()) {
		last = time.Now().UTC()
	}
	p.restarted.Store(&last)
}

// The times on the captured status page, and that of the server's start.
var (
	captureTimes = regexp.MustCompile(`"time":"[^"]*"`)
	captureBegan = time.Date(2026, 11, 20, 15, 48, 56, 0, time.UTC)
)

// setModule replaces one module's entry of a status page; nil removes it.
func setModule(page []byte, host, module string, entry map[string]string) []byte {
	var hosts map[string]map[string]map[string]string
	if err := json.Unmarshal(page, &hosts); err != nil {
		panic(err) // a programming error: the capture is part of the binary
	}
	if hosts[host][module] = entry; entry == nil {
		delete(hosts[host], module)
	}
	return mustJSON(hosts)
}

func (p *xmpp) metricsPage() *answer {
	switch {
	case p.service.on("metrics_403"):
		return captured("xmpp_metrics_403")
	case p.service.on("statistics_off"):
		return captured("xmpp_metrics_404")
	}
	a := captured("xmpp_metrics")
	page := strings.TrimSuffix(advanceCounters(string(a.body), float64(p.scrapes.Add(1)-1)), endOfPage)
	bad := p.service.on("bad_page")
	if bad {
		half := len(page)/2 + strings.IndexByte(page[len(page)/2:], '\n') + 1
		page = page[:half] + badLines + page[half:]
	}
	page += p.extra
	if p.service.on("auth_failures") {
		p.failures.Add(100)
	}
	if !p.service.on("no_auth_source") {
		page += fmt.Sprintf(loginLines, p.failures.Load())
	}
	if !bad && !p.service.on("no_eof") {
		page += endOfPage
	}
	a.body = []byte(page)
	return a
}

func (p *xmpp) admin(x *exchange) *answer {
	host := x.req.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host != XMPPDomain && p.service.on("unknown_host") {
		a := captured("xmpp_unknown_host")
		a.body = bytes.ReplaceAll(a.body, []byte("unknown.test"), []byte(host))
		return a
	}
	switch {
	case !x.bearer(p.token):
		a := captured("xmpp_admin_401")
		a.body = bytes.ReplaceAll(captured("xmpp_admin_403").body, []byte("403 Forbidden"), []byte("401 Unauthorized"))
		return a
	case p.service.on("not_admin"):
		return captured("xmpp_admin_403")
	}
	if x.req.URL.Path != "/admin_api/server/info" {
		return captured("xmpp_404")
	}
	return captured("xmpp_admin_server_info")
}

// mustJSON encodes a value that encoding cannot reject.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // a programming error
	}
	return raw
}
