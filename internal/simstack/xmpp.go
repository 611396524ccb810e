package simstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
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
	page    []line
	extra   []byte
	// failures grow with each scrape while auth_failures is on.
	failures atomic.Int64
}

// line is one line of the metrics page. A growing one is a sample that gains step with each scrape.
type line struct {
	text  string
	value float64
	step  float64
}

// growing are the samples that grow, by the beginning of their line. What they begin with is the capture's value.
var growing = map[string]float64{
	"process_cpu_seconds_total": 0.0123,
	`prosody_mod_measure_stanza_counts__received_total{session_type="c2s",stanza_kind="message"}`:  3,
	`prosody_mod_measure_stanza_counts__received_total{session_type="c2s",stanza_kind="presence"}`: 1,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="message"}`:      4,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="presence"}`:     2,
	`prosody_mod_measure_stanza_counts__sent_total{session_type="c2s",stanza_kind="iq"}`:           1,
}

// badLines are what somebody else's page should not hold: no sample, a sample twice, names that are the exporter's own,
// an interleaved family, a value out of its type's range, and bytes that are no UTF-8.
const badLines = `this is no sample at all
prosody_broken{host="chat.test" 1
prosody_broken{host=chat.test} 2
prosody_broken{host="chat.test"} nine

# TYPE chatstack_probe_success gauge
chatstack_probe_success{target="xmpp_status"} 0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1
# TYPE go_goroutines gauge
go_goroutines 7
# TYPE prosody_twice gauge
# TYPE prosody_twice counter
prosody_twice{host="chat.test"} 1
prosody_twice{host="chat.test"} 2
prosody_twice{host="chat.test",host="other.test"} 3
# TYPE prosody_torn gauge
prosody_torn{n="1"} 1
# TYPE prosody_between gauge
prosody_between 1
prosody_torn{n="2"} 2
# TYPE prosody_lowered counter
prosody_lowered_total -5
# TYPE prosody_set stateset
prosody_set{prosody_set="a"} 7
prosody_bytes{host="` + "\xff\xfe" + `"} 1
prosody_good_among_bad{host="chat.test"} 42
`

func newXMPP(o Options) *service {
	page := captured("xmpp_metrics").body
	x := &xmpp{
		token: o.Token + "-xmpp",
		page:  readPage(string(bytes.TrimSuffix(page, []byte(endOfPage)))),
		extra: moreSeries(o.UpstreamSeries),
	}
	x.service = &service{name: "xmpp", handle: x.handle, faults: []fault{
		{name: "wrong_credentials", description: "the admin API knows the token no more"},
		{name: "not_admin", description: "the admin API's token is known, but not an administrator's"},
		{name: "unknown_host", description: "no default host is set: the admin API answers only for the Host " + XMPPDomain},
		{name: "metrics_403", description: "the client is outside XMPP_OPENMETRICS_CIDR: only the metrics page is refused"},
		{name: "status_page_403", description: "the client is outside the status module's own allow list"},
		{name: "statistics_off", description: "the server was started without statistics: the metrics page is 404"},
		{name: "bad_page", description: "the metrics page has broken, doubled and clashing lines and no end"},
		{name: "no_eof", description: "the metrics page lacks its last line, # EOF"},
		{name: "not_json", description: "the status page is 200 with text that is no JSON"},
		{name: "module_error", description: "the status page reports one module in state error"},
		{name: "component_disconnected", description: "the status page says that the bridge's component is disconnected"},
		{name: "auth_failures", description: "100 logins fail between two readings"},
		{name: "no_auth_source", description: "the server was started without the module mod_measure_chatstack: no page counts logins"},
	}}
	return x.service
}

const endOfPage = "# EOF\n"

func readPage(text string) []line {
	var page []line
	for l := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		step := growing[name]
		if step == 0 {
			page = append(page, line{text: l})
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic(err) // a slip of ours: the capture is part of the binary
		}
		page = append(page, line{name, v, step})
	}
	return page
}

// perFamily is how many of the additional series share a family.
const perFamily = 500

// moreSeries writes n series as the real server would.
func moreSeries(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		name := fmt.Sprintf("prosody_mod_simulated__load%d", i/perFamily)
		if i%perFamily == 0 {
			fmt.Fprintf(&b, "# HELP %s mod_simulated/load%d amount\n# UNIT %s \n# TYPE %s gauge\n", name, i/perFamily, name, name)
		}
		fmt.Fprintf(&b, "%s{host=\"room%d.%s\",kind=\"simulated\"} %d\n", name, i%perFamily, XMPPDomain, i)
	}
	return b.Bytes()
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
	now := time.Now().UTC().Format(time.RFC3339)
	if p.service.on("module_error") {
		a.body = setModule(a.body, XMPPDomain, "storage_sql", map[string]string{"type": "error", "message": "Could not connect to the database", "time": now})
	}
	if p.service.on("component_disconnected") {
		a.body = setModule(a.body, "bridge."+XMPPDomain, "component", map[string]string{"type": "warn", "message": "Disconnected", "time": now})
	}
	return a
}

// setModule replaces one module's entry of a status page.
func setModule(page []byte, host, module string, entry map[string]string) []byte {
	var hosts map[string]map[string]map[string]string
	if err := json.Unmarshal(page, &hosts); err != nil {
		panic(err) // a slip of ours: the capture is part of the binary
	}
	hosts[host][module] = entry
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
	n := float64(p.scrapes.Add(1) - 1)
	var page bytes.Buffer
	page.Grow(len(a.body) + len(p.extra) + 1024)
	bad := p.service.on("bad_page")
	for i, l := range p.page {
		if bad && i == len(p.page)/2 {
			page.WriteString(badLines)
		}
		page.WriteString(l.text)
		if l.step != 0 {
			page.WriteString(" " + strconv.FormatFloat(l.value+n*l.step, 'g', 17, 64) + "\n")
		}
	}
	page.Write(p.extra)
	if p.service.on("auth_failures") {
		p.failures.Add(100)
	}
	if !p.service.on("no_auth_source") {
		page.WriteString(logins(p.failures.Load()))
	}
	if !bad && !p.service.on("no_eof") {
		page.WriteString(endOfPage)
	}
	a.body = page.Bytes()
	return a
}

// logins are the families that mod_measure_chatstack brings: the server itself counts no logins.
func logins(failures int64) string {
	var b strings.Builder
	for _, row := range []struct {
		name, help string
		n          int64
	}{{"c2s_auth_success", "Logins of clients that succeeded", 12}, {"c2s_auth_failure", "Logins of clients that failed", failures}} {
		name, labels := "prosody_mod_measure_chatstack__"+row.name, fmt.Sprintf(`{host=%q}`, XMPPDomain)
		fmt.Fprintf(&b, "# HELP %s %s\n# UNIT %s \n# TYPE %s counter\n", name, row.help, name, name)
		fmt.Fprintf(&b, "%s_created%s 1795188735.5\n%s_total%s %d\n", name, labels, name, labels, row.n)
	}
	return b.String()
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

// mustJSON writes a value that can always be written.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // a slip of ours
	}
	return raw
}
