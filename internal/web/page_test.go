package web_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// must ends the test on an error that is not its subject.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reply is a handler's response.
type reply struct {
	StatusCode int
	Header     http.Header
	body       []byte
}

// fetch requests a path from a handler.
func fetch(t *testing.T, h http.Handler, path string, header ...string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

// pageOf returns the status page of a report.
func pageOf(t *testing.T, r *status.Report) string {
	t.Helper()
	return string(fetch(t, pagesOf(r), "/").body)
}

// holds fails the test unless the page contains all texts.
func holds(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

// allReports are the states that tests show the page in.
func allReports() map[string]*status.Report {
	return map[string]*status.Report{
		"healthy": healthyReport(), "fault": faultyReport(1), "faults": faultyReport(5), "many faults": faultyReport(30),
		"maintenance": maintenanceReport(), "large": largeReport(), "empty": emptyReport(), "hostile": hostileReport(),
	}
}

// hostileReport has texts that try to break out of their HTML context.
func hostileReport() *status.Report {
	r := faultyReport(3)
	nasty := `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "`'\x00\u202e" + `</p></li>{{.}}`
	r.Summary, r.ConfigError, r.Stale, r.Version = nasty, nasty, nasty, nasty
	for i := range r.Services {
		s := &r.Services[i]
		s.Error, s.Hint, s.Text, s.Maintenance, s.Notes, s.Kind = nasty, nasty, nasty, nasty, []string{nasty}, nasty
		s.Values = []status.Value{{Name: nasty, Text: nasty}}
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.Text, c.Hint, c.Health, c.Role, c.DockerHost = nasty, nasty, nasty, nasty, nasty
	}
	for i := range r.Thresholds {
		r.Thresholds[i].Text, r.Thresholds[i].Subject = nasty, nasty
	}
	r.Transitions[0].Text, r.Transitions[0].Name = nasty, nasty
	r.NotConfigured = []string{nasty}
	return r
}

// walk visits every element below n.
func walk(n *html.Node, visit func(*html.Node)) {
	if n.Type == html.ElementNode {
		visit(n)
	}
	for c := range n.ChildNodes() {
		walk(c, visit)
	}
}

func attribute(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func TestPageObeysItsPolicy(t *testing.T) {
	for state, report := range allReports() {
		t.Run(state, func(t *testing.T) {
			resp := fetch(t, pagesOf(report), "/")
			policy := resp.Header.Get("Content-Security-Policy")
			for _, want := range []string{
				"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
				"form-action 'none'",
			} {
				if !strings.Contains(policy, want) {
					t.Errorf("the policy lacks %q: %s", want, policy)
				}
			}
			if strings.Contains(policy, "unsafe") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("policy %q, headers %v", policy, resp.Header)
			}
			page, err := html.Parse(bytes.NewReader(resp.body))
			must(t, err)
			ids := map[string]bool{}
			walk(page, func(n *html.Node) {
				for _, a := range n.Attr {
					switch {
					case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
						t.Errorf("<%s %s=%q> is inline", n.Data, a.Key, a.Val)
					case a.Key == "id" && ids[a.Val]:
						t.Errorf("the id %q is there twice", a.Val)
					case a.Key == "id":
						ids[a.Val] = true
					case a.Key == "href" || a.Key == "src":
						if strings.HasPrefix(a.Val, "/") || regexp.MustCompile(`^[a-z]+:`).MatchString(a.Val) {
							t.Errorf("<%s %s=%q> is not relative to the page", n.Data, a.Key, a.Val)
						}
					}
				}
				if n.Data == "style" || n.Data == "img" || n.Data == "script" && n.FirstChild != nil {
					t.Errorf("a <%s> that is not ours, or inline", n.Data)
				}
			})
			walk(page, func(n *html.Node) {
				for _, key := range []string{"aria-labelledby", "for"} {
					if id, ok := attribute(n, key); ok && !ids[id] {
						t.Errorf("%s=%q leads nowhere", key, id)
					}
				}
				if href, ok := attribute(n, "href"); ok && strings.HasPrefix(href, "#") && !ids[href[1:]] {
					t.Errorf("the link %q leads nowhere", href)
				}
			})
		})
	}
}

// voidElements have no end tag. All others need one, even where HTML makes it optional.
var voidElements = []string{"meta", "link", "br", "img", "input", "hr"}

func TestPageClosesAllElements(t *testing.T) {
	for state, report := range allReports() {
		var open []string
		z := html.NewTokenizer(bytes.NewReader(fetch(t, pagesOf(report), "/").body))
		for {
			kind := z.Next()
			if kind == html.ErrorToken {
				break
			}
			name, _ := z.TagName()
			switch {
			case kind == html.StartTagToken && !slices.Contains(voidElements, string(name)):
				open = append(open, string(name))
			case kind == html.EndTagToken:
				if len(open) == 0 || open[len(open)-1] != string(name) {
					t.Fatalf("%s: </%s> ends %v", state, name, open)
				}
				open = open[:len(open)-1]
			}
		}
		if len(open) != 0 {
			t.Errorf("%s: %v stay open", state, open)
		}
	}
}

func TestPageShowsProblemsFirst(t *testing.T) {
	body := pageOf(t, faultyReport(5))
	last := -1
	for _, want := range []string{
		"<title>IRC server, IRC services and IRC server TLS port are down",
		"<h1>IRC server, IRC services and IRC server TLS port are down</h1>", "3 of 13 targets and 2 of 9 containers.", `id="problems"`,
		"irc_rpc", "nothing listens there", "What to do:", "docker compose ps",
		"<summary>Error</summary>", "connection refused", "debug/targets/irc_rpc", "Failed XMPP logins", `id="services"`, `id="containers"`,
		`id="thresholds"`, "33 /min to critical", `id="transitions"`, `id="unconfigured"`,
	} {
		at := strings.Index(body[last+1:], want)
		if at < 0 {
			t.Fatalf("%q is missing, or not in its place", want)
		}
		last += 1 + at
	}
}

// TestPageBeginsWithTheBridge: whether messages cross is below the headline, unless they do not, which is a problem.
func TestPageBeginsWithTheBridge(t *testing.T) {
	r := healthyReport()
	relay := status.Service{
		ServiceState: status.ServiceState{Name: "bridge", Kind: "relay", State: "up"},
		Row:          rowOf("relay"),
		Shown:        status.Shown{Values: []status.Value{{Name: "IRC to XMPP", Text: "400 ms"}, {Name: "XMPP to IRC", Text: "1 s"}}},
	}
	r.Services = append(r.Services, relay)
	const want = "</p>\n<p class=\"summary\">Messages cross the bridge in 400 ms / 1 s (IRC to XMPP / XMPP to IRC).</p>"
	if body := pageOf(t, r); !strings.Contains(body, want) {
		t.Errorf("the page lacks %q", want)
	}
	r.Services[len(r.Services)-1].State = "down"
	if body := pageOf(t, r); strings.Contains(body, "Messages cross") {
		t.Error("the page says that messages cross while they do not")
	}
}

// TestPageBeginsWithReceiversThatFail since whoever gets messages only there may look here.
func TestPageBeginsWithReceiversThatFail(t *testing.T) {
	r := faultyReport(1)
	r.Receivers = []status.Receiver{
		{Name: "phone", Failing: "status 401", Since: ago(time.Hour)},
		{Name: "mail"},
		{Name: "heartbeat", Failing: "refused", Since: ago(time.Hour)},
	}
	head, _, _ := strings.Cut(pageOf(t, r), "</header>")
	holds(t, head, "Messages to phone fail since ", "status 401", "The heartbeat fails since ", "refused")
	if strings.Contains(head, "mail fail") {
		t.Error("one that works is said to fail")
	}
}

func TestPageIsRenderedOncePerReport(t *testing.T) {
	report := healthyReport()
	source := &counted{shown: shown{report: report}}
	h := newHandler(source)
	first := fetch(t, h, "/").body
	made := source.charts
	for range 50 {
		if got := fetch(t, h, "/").body; !bytes.Equal(got, first) {
			t.Fatal("the same report makes another page")
		}
	}
	if made == 0 || source.charts != made {
		t.Errorf("charts were asked for %d times, then %d times more", made, source.charts-made)
	}
	source.report = faultyReport(1)
	source.report.Summarize()
	if !bytes.Contains(fetch(t, h, "/").body, []byte("<h1>IRC server is down</h1>")) {
		t.Error("a newer report is not shown")
	}
}

// counted counts the requests for charts.
type counted struct {
	shown

	charts int
}

func (c *counted) Chart(name string) (status.History, bool) {
	c.charts++
	return c.shown.Chart(name)
}

// TestPageIsCompressedOnRequest stops the clock, since both pages show it.
func TestPageIsCompressedOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pagesOf(largeReport())
		plain := fetch(t, h, "/").body
		resp := fetch(t, h, "/", "Accept-Encoding", "gzip")
		if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
			t.Fatalf("encoding %q", got)
		}
		packed := resp.body
		z, err := gzip.NewReader(bytes.NewReader(packed))
		must(t, err)
		unpacked, err := io.ReadAll(z)
		must(t, err)
		if !bytes.Equal(unpacked, plain) {
			t.Error("the compressed page is another one")
		}
		if len(packed) > 100<<10 {
			t.Errorf("200 containers make a page of %d bytes, compressed", len(packed))
		}
	})
}

func TestAssetsAreCachedByHash(t *testing.T) {
	h := pagesOf(healthyReport())
	links := regexp.MustCompile(`assets/[A-Za-z.-]+\?v=[0-9a-f]+`).FindAllString(string(fetch(t, h, "/").body), -1)
	if len(links) < 5 {
		t.Fatalf("got %v, want the style sheets, the scripts and the icon", links)
	}
	for _, link := range links {
		resp := fetch(t, h, "/"+link)
		if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") ||
			resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status %d, %v", link, resp.StatusCode, resp.Header)
		}
		if again := fetch(t, h, "/"+link, "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: status %d to one who has it", link, again.StatusCode)
		}
		path, _, _ := strings.Cut(link, "?")
		if old := fetch(t, h, "/"+path+"?v=0123"); strings.Contains(old.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s is kept for good under another hash", path)
		}
	}
	if resp := fetch(t, h, "/assets/page.go"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an asset that is none: status %d", resp.StatusCode)
	}
}

func TestVendoredFilesAreUnchanged(t *testing.T) {
	for _, directory := range []string{"assets/uplot/"} {
		readme, err := os.ReadFile(directory + "README.md")
		must(t, err)
		rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(string(readme), -1)
		if len(rows) == 0 {
			t.Errorf("%s: no sums", directory)
		}
		for _, row := range rows {
			content, err := os.ReadFile(directory + row[1])
			must(t, err)
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != row[2] {
				t.Errorf("%s%s is not what came from its makers", directory, row[1])
			}
		}
	}
}

func TestThresholdsShowDistance(t *testing.T) {
	day := 86400.0
	for _, test := range []struct {
		threshold status.Threshold
		now, want string
	}{
		{
			status.Threshold{
				Present:  ptr(0.4),
				Warning:  ptr(10),
				Critical: ptr(50),
				Unit:     "per_minute",
			},
			"0.4 /min",
			"9.6 /min to warning",
		},
		{
			status.Threshold{
				Present:  ptr(10),
				Warning:  ptr(10),
				Critical: ptr(50),
				Unit:     "per_minute",
			},
			"10 /min",
			"0 /min to warning",
		},
		{
			status.Threshold{
				Present:  ptr(17),
				Warning:  ptr(10),
				Critical: ptr(50),
				Unit:     "per_minute",
			},
			"17 /min",
			"33 /min to critical",
		},
		{
			status.Threshold{
				Present:  ptr(61 * day),
				Warning:  ptr(14 * day),
				Critical: ptr(3 * day),
				Unit:     "seconds",
				Below:    true,
			},
			"61 days left",
			"47 days to warning",
		},
		{
			status.Threshold{
				Present:  ptr(5 * day),
				Warning:  ptr(14 * day),
				Critical: ptr(3 * day),
				Unit:     "seconds",
				Below:    true,
			},
			"5 d left",
			"2 d to critical",
		},
		{
			status.Threshold{
				Present:  ptr(-day),
				Warning:  ptr(14 * day),
				Critical: ptr(3 * day),
				Unit:     "seconds",
				Below:    true,
			},
			"expired 1 d ago",
			"4 d beyond critical",
		},
		{
			status.Threshold{
				Present:  ptr(2.14e8),
				Warning:  ptr(5e8),
				Critical: ptr(1e9),
				Unit:     "bytes",
			},
			"214 MB",
			"286 MB to warning",
		},
		{status.Threshold{Present: ptr(1.26e9), Critical: ptr(1e9), Unit: "bytes"}, "1.3 GB", "260 MB beyond critical"},
		{
			status.Threshold{
				Present:  ptr(0.82),
				Warning:  ptr(0.8),
				Critical: ptr(0.95),
				Unit:     "ratio",
			},
			"82 %",
			"13 % to critical",
		},
		{status.Threshold{Present: ptr(3), Warning: ptr(0), Critical: ptr(3)}, "3", "1 to critical"},
		{status.Threshold{Present: ptr(0), Warning: ptr(0), Critical: ptr(3)}, "0", "none"},
		{status.Threshold{Warning: ptr(0), Critical: ptr(3), Text: "no engine is read"}, "not measured", "no engine is read"},
	} {
		report := emptyReport()
		report.Thresholds = []status.Threshold{test.threshold}
		body := pageOf(t, report)
		if !strings.Contains(body, "<b>"+test.now+"</b>") || !strings.Contains(body, ">"+test.want+"</span>") {
			t.Errorf("lacks %q or %q: %s", test.now, test.want, body[strings.Index(body, "<tbody"):strings.Index(body, "</tbody>")])
		}
	}
}

// TestBarsAreFullerTheWorse, also for certificates, whose values fall.
func TestBarsAreFullerTheWorse(t *testing.T) {
	day := 86400.0
	last := -1.0
	for _, left := range []float64{61, 30, 14, 5, 3, 0, -2} {
		report := emptyReport()
		report.Thresholds = []status.Threshold{{
			Alert:    "TLSCertificateExpiry",
			Present:  ptr(left * day),
			Warning:  ptr(14 * day),
			Critical: ptr(3 * day),
			Unit:     "seconds",
			Below:    true,
		}}
		m := regexp.MustCompile(`class="fill" width="([0-9.]+)".*?M([0-9.]+) 0V8.*?M([0-9.]+) 0V8`).FindStringSubmatch(pageOf(t, report))
		if m == nil {
			t.Fatal("the row has no bar with two marks")
		}
		var fill, warning, critical float64
		for i, into := range []*float64{&fill, &warning, &critical} {
			v, err := strconv.ParseFloat(m[i+1], 64)
			must(t, err)
			*into = v
		}
		if fill < last || warning >= critical || (fill > warning) != (left < 14) || (fill > critical) != (left < 3) {
			t.Errorf("%g d left: the bar is %g %% full after %g %%, its marks are at %g and %g", left, fill, last, warning, critical)
		}
		last = fill
	}
}

func TestThresholdsFoldWhileAllIsWell(t *testing.T) {
	holds(t, pageOf(t, healthyReport()),
		`<details class="fold" id="fold-thresholds"><summary>7 of 8 within limits, 1 not measured</summary>`)
	for name, change := range map[string]func(*status.Threshold){
		"warning": func(r *status.Threshold) { r.Level = status.Warning },
		"pending": func(r *status.Threshold) { r.Pending = true },
	} {
		report := healthyReport()
		change(&report.Thresholds[1])
		if page := pageOf(t, report); strings.Contains(page, "fold-thresholds") || !strings.Contains(page, "<tbody") {
			t.Errorf("%s: the table is folded away", name)
		}
	}
	if strings.Contains(pageOf(t, emptyReport()), "fold-thresholds") {
		t.Error("without thresholds, they are within limits")
	}
}

func TestPendingThresholdIsNotOK(t *testing.T) {
	const text = "17 /min, over the threshold for 2 min; it alerts after 5 min"
	over := status.Threshold{
		Alert:    "XMPPAuthFailureRate",
		Present:  ptr(17),
		Warning:  ptr(10),
		Critical: ptr(50),
		Unit:     "per_minute",
		Text:     text,
	}
	rowOf := func(change func(*status.Threshold)) string {
		row := over
		change(&row)
		report := healthyReport()
		report.Thresholds = []status.Threshold{row}
		body := pageOf(t, report)
		return body[strings.Index(body, "<tbody"):strings.Index(body, "</tbody>")]
	}
	for name, c := range map[string]struct {
		change func(*status.Threshold)
		class  string
	}{
		"it waits":     {func(r *status.Threshold) { r.Pending = true }, "pending"},
		"it counts":    {func(r *status.Threshold) { r.Level = status.Warning }, "warning"},
		"maintenance":  {func(r *status.Threshold) { r.Level = status.Maintenance }, "maintenance"},
		"nobody knows": {func(r *status.Threshold) { r.Level = status.Unknown }, "unknown"},
	} {
		row := rowOf(c.change)
		if !strings.Contains(row, `<tr role="row" class="`+c.class+`">`) || !strings.Contains(row, "#i-"+c.class) {
			t.Errorf("%s: the class or icon is not %s: %s", name, c.class, row)
		}
		if got := strings.Contains(row, text); got != (c.class == "pending") {
			t.Errorf("%s: says that it waits: %t: %s", name, got, row)
		}
	}
}

func TestHeldBackAlertsAreProblems(t *testing.T) {
	_, problems, _ := strings.Cut(pageOf(t, maintenanceReport()), `id="problems"`)
	problems, _, _ = strings.Cut(problems, "</section>")
	for _, want := range []string{`class="problem pending"`, "no alert: it needs chat-irc-1, which is not available", "Pending · for"} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems lack %q: %s", want, problems)
		}
	}
}

func TestProblemShowsWhenItBegan(t *testing.T) {
	r := healthyReport()
	c := &r.Containers[0]
	c.Level, c.Text, c.Since, c.ProblemSince = status.Warning, "uses 600 MB of memory", ago(3*time.Hour), ago(2*time.Minute)
	s := &r.Services[0]
	s.Level, s.State, s.Text, s.ProblemSince, s.ProblemSinceAtLeast = status.Warning, "down", "nothing listens there",
		ago(7*time.Minute), true
	page := pageOf(t, r)
	_, problems, _ := strings.Cut(page, `id="problems"`)
	problems, _, _ = strings.Cut(problems, "</section>")
	holds(t, problems, `for <time class="age" datetime="`+c.ProblemSince.UTC().Format(time.RFC3339)+`">2 min</time>, since`,
		"at least since <time", "watching began then")
	if strings.Contains(problems, "3 h") {
		t.Errorf("a card tells since when the container runs: %s", problems)
	}
}

func TestPageSays(t *testing.T) {
	healthy := func(*status.Report) {}
	began := time.Now().Add(-time.Hour)
	for what, c := range map[string]struct {
		report *status.Report
		change func(*status.Report)
		want   []string
	}{
		"ages of when it is made": {
			faultyReport(1),
			func(r *status.Report) { r.Services[0].ProblemSince = time.Now().Add(-90 * time.Minute) },
			[]string{`>1 h 30 min</time>`},
		},
		"that nothing is watched, which is no good news": {
			emptyReport(),
			healthy,
			[]string{"<title>Nothing is watched · chat stack</title>", "<h1>Nothing is watched</h1>", `data-level="unknown"`},
		},
		"that it is loaded anew without script": {
			healthyReport(), healthy, []string{
				`<noscript><meta http-equiv="refresh" content="30"></noscript>`, "this page reloads every 30 seconds",
				`href="api/v1/openapi.yaml"`,
			},
		},
		"where the probes are": {
			faultyReport(1), func(r *status.Report) {
				r.Services[0].Hint = "Read the service's log; the last probes are at /debug/targets/irc_rpc"
			}, []string{`the last probes are at <a href="debug/targets/irc_rpc">debug/targets/irc_rpc</a></p>`},
		},
		"once that a change came again": {
			healthyReport(), func(r *status.Report) {
				change := &r.Transitions[0]
				change.Name, change.To, change.Count, change.Until = "irc-services", "restarted", 38, began
				r.TransitionsLeftOut = 7
			}, []string{
				"38 times", ` to <time class="clock" datetime="` + began.UTC().Format(time.RFC3339), "7 older changes are no longer shown",
			},
		},
	} {
		c.change(c.report)
		page := pageOf(t, c.report)
		holds(t, page, c.want...)
		if strings.HasPrefix(what, "once") && strings.Count(page, c.want[0]) != 1 {
			t.Errorf("%s: it is told %d times", what, strings.Count(page, c.want[0]))
		}
	}
}

// TestCardsWriteNamesAsTheHeadlineDoes: an identifier keeps its letters, and words begin with a capital one.
func TestCardsWriteNamesAsTheHeadlineDoes(t *testing.T) {
	r := healthyReport()
	for i, name := range []string{"xmpp_s2s", "éclair"} {
		s := &r.Services[i]
		s.Name, s.Kind, s.Level, s.State, s.Text = name, "tls", status.Critical, "down", "nothing listens there"
		r.Level = status.Critical
	}
	r.Summarize()
	_, problems, _ := strings.Cut(pageOf(t, r), `id="problems"`)
	problems, _, _ = strings.Cut(problems, "</section>")
	holds(t, problems, "<span>xmpp_s2s is down", "<span>Éclair is down")
}
