package alertpath

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
)

const (
	// requestTimeout bounds each request, drillTimeout one that waits for receivers.
	requestTimeout, drillTimeout = 10 * time.Second, 40 * time.Second
	// maxAnswer bounds each answer, in bytes. Alertmanager's list of a thousand alerts is far smaller.
	maxAnswer = 64 << 20
	// observeEvery is the time between two looks at a drill.
	observeEvery = time.Second
)

// Client asks one of the three servers.
type Client struct {
	exchange.HTTP
	exchange.Credentials
	// Name is that of the server, for hints.
	Name string
}

// NewClient returns a client; the URL and what to trust are in http. It ignores the query and fragment that a browser adds to the URL.
func NewClient(name string, http exchange.HTTP, credentials exchange.Credentials) *Client {
	if i := strings.IndexAny(http.Settings.URL, "?#"); i >= 0 {
		http.Settings.URL = http.Settings.URL[:i]
	}
	http.Settings.URL = strings.TrimSuffix(http.Settings.URL, "/")
	http.Limit = maxAnswer
	return &Client{http, credentials, name}
}

// do sends a request and returns the answer, which has a status of success, and how far the server's clock is ahead of ours.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*exchange.Answer, time.Duration, error) {
	timeout := requestTimeout
	if method == http.MethodPost && path == ownReceivers {
		timeout = drillTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	header := c.AuthHeader()
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	begun := time.Now()
	where := c.Settings.URL + path
	answer, err := c.Do(ctx, &exchange.Record{}, method, where, header, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if answer.Status/100 != 2 {
		err := answer.Refusal()
		if said := errorIn(answer.Body); said != "" {
			err.Err = fmt.Errorf("%w: %s", err.Err, said)
		}
		switch answer.Status {
		case http.StatusUnauthorized:
			advice := "set DRILL_%[1]s_TOKEN_FILE, or DRILL_%[1]s_USER and DRILL_%[1]s_PASSWORD_FILE"
			if header.Get("Authorization") != "" {
				advice = "it refuses what was sent: correct DRILL_%[1]s_TOKEN, or DRILL_%[1]s_USER and DRILL_%[1]s_PASSWORD, or their files"
			}
			err = err.WithHint(fmt.Sprintf(advice, strings.ToUpper(c.Name)))
		case http.StatusConflict:
			err = err.WithHint("another drill is under way: wait until it has ended, and try again")
		case http.StatusNotFound:
			err = err.WithHint("the URL is not that of " + c.Name + ": with a path prefix, write it into the URL")
		}
		return nil, 0, err
	}
	ahead := time.Duration(0)
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		// The header leaves out fractions of a second.
		ahead = date.Add(time.Second / 2).Sub(begun.Add(time.Since(begun) / 2)).Truncate(time.Second)
	}
	return answer, ahead, nil
}

// errorIn is the message in the body of an error: that of the exporter's or Prometheus' JSON, or a short line of text.
func errorIn(body []byte) string {
	var answer struct {
		Error string `json:"error"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &answer) == nil {
		text = answer.Error
	}
	if strings.HasPrefix(text, "<") {
		return ""
	}
	return failure.Printable(text, 300)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	answer, _, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return failure.Errorf(failure.Malformed, "GET %s: the answer is not the JSON of %s: %w",
			exchange.PrintableURL(c.Settings.URL+path), c.Name, err).
			WithHint("the URL is not that of " + c.Name)
	}
	return nil
}

// data decodes the data of an answer of Prometheus' API.
func (c *Client) data(ctx context.Context, path string, query url.Values, into any) error {
	return c.get(ctx, "/api/v1/"+path, query, &struct {
		Data any `json:"data"`
	}{into})
}

// series are the labels of the series that an instant query returns.
func (c *Client) series(ctx context.Context, query string) (labels []map[string]string, err error) {
	var result struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	err = c.data(ctx, "query", url.Values{"query": {query}}, &result)
	for _, r := range result.Result {
		labels = append(labels, r.Metric)
	}
	return labels, err
}

// Path are the servers along the path of an alert. Ruler evaluates the rules; it is Prometheus, unless that only has the series.
type Path struct {
	Exporter, Prometheus, Ruler, Alertmanager *Client
	// Others are the other Alertmanagers of its cluster. Any of them may send a message.
	Others   []*Client
	Expected Expected
}

// Ask asks all three servers. What fails is in the facts.
func (p *Path) Ask(ctx context.Context) *Facts {
	f := &Facts{
		Expected: p.Expected,
		Now:      time.Now(),
		begun:    "NaN",
		unserved: map[string]error{},
	}
	f.Exporter, f.Prometheus, f.Alertmanager = p.Exporter.server(), p.Prometheus.server(), p.Alertmanager.server()
	f.Exporter.Err = p.askExporter(ctx, f)
	f.Prometheus.Err = p.askPrometheus(ctx, f)
	p.askAlertmanagers(ctx, f)
	if f.missingErr = cmp.Or(f.Exporter.Err, f.Prometheus.Err); f.missingErr == nil {
		f.missingErr = p.askSeries(ctx, f)
	}
	return f
}

func (c *Client) server() Server { return Server{URL: exchange.PrintableURL(c.Settings.URL)} }

var (
	rulesInfo = regexp.MustCompile(`(?m)^chatstack_rules_info\{checksum="([0-9a-f]+)"\}`)
	startTime = regexp.MustCompile(`(?m)^process_start_time_seconds (\S+)`)
	buildInfo = regexp.MustCompile(`(?m)^chatstack_exporter_build_info\{.*?\bversion="([^"]*)"`)
)

func (p *Path) askExporter(ctx context.Context, f *Facts) error {
	answer, ahead, err := p.Exporter.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return err
	}
	f.Exporter.see(ahead, answer)
	build := buildInfo.FindSubmatch(answer.Body)
	if build == nil {
		return failure.Errorf(failure.Mismatch, "%s/metrics is not the page of a chatstack_exporter", f.Exporter.URL).
			WithHint("give --exporter the address of the exporter")
	}
	f.Exporter.Version = string(build[1])
	if begun := startTime.FindSubmatch(answer.Body); begun != nil {
		f.begun = string(begun[1])
	}
	for _, found := range rulesInfo.FindAllSubmatch(answer.Body, -1) {
		f.Checksums = append(f.Checksums, string(found[1]))
	}
	return nil
}

func (s *Server) see(ahead time.Duration, answer *exchange.Answer) {
	s.Ahead, s.ClockKnown = ahead, answer.Header.Get("Date") != ""
}

func (p *Path) askPrometheus(ctx context.Context, f *Facts) error {
	c := p.Prometheus
	answer, ahead, err := c.do(ctx, http.MethodGet, "/api/v1/query?query=1", nil)
	if err != nil {
		return err
	}
	f.Prometheus.see(ahead, answer)
	var said struct { // each answer has other keys
		Version       string    `json:"version"`
		Start         time.Time `json:"startTime"`
		YAML          string    `json:"yaml"`
		Targets       []Target  `json:"activeTargets"`
		Groups        []Group   `json:"groups"`
		Alertmanagers []struct {
			URL string `json:"url"`
		} `json:"activeAlertmanagers"`
	}
	const general, rules = "status/buildinfo status/runtimeinfo status/config targets?state=active ", "rules alertmanagers"
	for path := range strings.FieldsSeq(general + rules) {
		server := c
		if strings.Contains(rules, path) {
			server = p.Ruler
		}
		err := server.data(ctx, path, nil, &said)
		// Mimir, Thanos and VictoriaMetrics answer like this if they lack a path. All that evaluate rules list them.
		lacks := []failure.Reason{failure.NotFound, failure.HTTPStatus, failure.Malformed}
		if err != nil && (path == "rules" || !slices.Contains(lacks, failure.ReasonOf(err))) {
			return err
		}
		if name, _, _ := strings.Cut(path, "?"); err != nil {
			f.unserved[name] = err
		}
	}
	f.Prometheus.Version, f.Prometheus.Started, f.Targets, f.Groups = said.Version, said.Start, said.Targets, said.Groups
	for _, a := range said.Alertmanagers {
		f.Known = append(f.Known, exchange.PrintableURL(a.URL))
	}
	if err := yaml.Unmarshal([]byte(said.YAML), &f.Setup); err != nil {
		return fmt.Errorf("read the configuration of Prometheus: %w", err)
	}
	if p.Ruler != c { // what it adds to alerts, and where it sends them, is not in this configuration
		f.Setup.Global.ExternalLabels, f.Setup.Alerting, f.Setup.RuleFiles = nil, Setup{}.Alerting, nil
		f.unserved["status/config"] = errors.New("the server of --ruler does not show it")
	}
	if f.Builds, err = c.series(ctx, "chatstack_exporter_build_info"); err != nil {
		return err
	}
	if f.LabelChecks, err = c.series(ctx, "chatstack_label_check"); err != nil {
		return err
	}
	f.Own, err = c.series(ctx, fmt.Sprintf(`group without () (process_start_time_seconds{job=%q,target=""} == %s)`, f.Job, f.begun))
	if err != nil {
		return err
	}
	f.Subjects, err = c.series(ctx, fmt.Sprintf(
		"count without (%s) ({__name__=~%q} or ignoring (chat_server) chatstack_target_down_seconds)",
		strings.Join(p.Expected.ExporterLabels, ", "),
		"chatstack_(target|container)_chat_server|chatstack_exporter_build_info|chatstack_volume_used_ratio"))
	if err != nil {
		return err
	}
	if f.Quiet, err = c.series(ctx, "chatstack:target_pages == 0"); err != nil {
		return err
	}
	page, err := p.Ruler.page(ctx)
	if err != nil {
		return nil // a proxy may hide the page; only a hint comes from it
	}
	f.SendErrors = map[string]float64{}
	for _, s := range page["prometheus_notifications_errors_total"] {
		f.SendErrors[s.labels["alertmanager"]] = s.value
	}
	return p.askLost(ctx, f)
}

// askLost finds the Alertmanagers to which Prometheus fails to send now: by its own series, or if it does not scrape itself, those to which
// it has failed and that do not answer here either. A name may be known in its network only.
func (p *Path) askLost(ctx context.Context, f *Facts) error {
	const query = `count_values by (alertmanager) ("fails", increase(prometheus_notifications_errors_total[5m]) > bool 0)`
	series, err := p.Prometheus.series(ctx, query)
	if err != nil {
		return err
	}
	fails := map[string]string{}
	for _, labels := range series {
		fails[labels["alertmanager"]] = max(fails[labels["alertmanager"]], labels["fails"])
	}
	for _, address := range slices.Sorted(maps.Keys(f.SendErrors)) {
		lost := fails[address] == "1"
		if fails[address] == "" && f.SendErrors[address] > 0 {
			other := p.Alertmanager.HTTP
			_, err := other.Do(ctx, &exchange.Record{}, http.MethodGet, address, http.Header{}, http.NoBody)
			lost = err != nil && failure.ReasonOf(err) != failure.DNS
		}
		if lost && slices.Contains(f.Known, exchange.PrintableURL(address)) { // one that was removed keeps its counter
			f.Lost = append(f.Lost, exchange.PrintableURL(address))
		}
	}
	return nil
}

// askSeries asks for the series that Prometheus lacks. It asks twice, a scrape and an evaluation apart: some may have begun just now.
func (p *Path) askSeries(ctx context.Context, f *Facts) error {
	if f.scrape().State == Wrong {
		return errors.New("first repair the scrape")
	}
	first, err := p.missing(ctx, f)
	if err != nil || len(first) == 0 {
		return err
	}
	round := max(f.scrapeInterval(), seconds(f.Rules.Interval)+f.delay())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(round + slack):
	}
	f.missing, err = p.missing(ctx, f)
	f.missing = slices.DeleteFunc(f.missing, func(name string) bool { return !slices.Contains(first, name) })
	return err
}

var (
	seriesOnPage = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)[{ ]`)
	metricName   = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)
)

// missing are metrics that rules read of which Prometheus has fewer series than the exporter's page, and recording rules that have a
// result and no series.
func (p *Path) missing(ctx context.Context, f *Facts) (names []string, err error) {
	answer, _, err := p.Exporter.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	read, onPage := map[string]bool{}, map[string]float64{}
	for _, r := range f.Rules.Rules {
		for _, word := range metricName.FindAllString(fmt.Sprint(r.Query, r.Labels, r.Annotations), -1) {
			read[word] = true // words that do not name a metric are on no page
		}
		if r.Type == "recording" {
			lacking, err := p.Prometheus.series(ctx, fmt.Sprintf("absent(%s) and on () count(%s)", r.Name, r.Query))
			if err != nil {
				return nil, err
			}
			if len(lacking) > 0 {
				names = append(names, r.Name)
			}
		}
	}
	for _, found := range seriesOnPage.FindAllSubmatch(answer.Body, -1) {
		if name := string(found[1]); read[name] {
			onPage[name]++
		}
	}
	counts, err := p.Prometheus.series(ctx, fmt.Sprintf( // a label is the number of series of the exporter that has most
		`count_values by (__name__) ("n", max by (__name__) (count by (__name__, instance) ({__name__=~%q,job=%q})))`,
		strings.Join(slices.Sorted(maps.Keys(onPage)), "|"), f.Job))
	for _, labels := range counts {
		n, _ := strconv.ParseFloat(labels["n"], 64) // it is a number
		onPage[labels["__name__"]] -= n
	}
	maps.DeleteFunc(onPage, func(_ string, lacking float64) bool { return lacking <= 0 })
	return append(names, slices.Sorted(maps.Keys(onPage))...), err
}

// askAlertmanagers asks the first one that answers, and keeps those of the others that show their counters.
func (p *Path) askAlertmanagers(ctx context.Context, f *Facts) {
	all := append([]*Client{p.Alertmanager}, p.Others...)
	for _, c := range all {
		p.Alertmanager, f.Alertmanager = c, c.server()
		if f.Alertmanager.Err = p.askAlertmanager(ctx, f); f.Alertmanager.Err == nil {
			break
		}
	}
	p.Others = slices.DeleteFunc(all, func(c *Client) bool {
		if c == p.Alertmanager {
			return true
		}
		_, err := c.counters(ctx)
		f.Silent = cmp.Or(f.Silent, err)
		return err != nil
	})
	f.Asked = 1 + len(p.Others)
}

func (p *Path) askAlertmanager(ctx context.Context, f *Facts) error {
	c := p.Alertmanager
	answer, ahead, err := c.do(ctx, http.MethodGet, "/api/v2/status", nil)
	if err != nil {
		return err
	}
	f.Alertmanager.see(ahead, answer)
	var status struct {
		Uptime  time.Time `json:"uptime"`
		Version struct {
			Version string `json:"version"`
		} `json:"versionInfo"`
		Config struct {
			Original string `json:"original"`
		} `json:"config"`
		Cluster struct {
			Peers []any `json:"peers"`
		} `json:"cluster"`
	}
	if err := c.get(ctx, "/api/v2/status", nil, &status); err != nil {
		return err
	}
	f.Alertmanager.Version, f.Alertmanager.Started, f.Peers = status.Version.Version, status.Uptime, len(status.Cluster.Peers)
	// Alertmanager shows times with the offset of its machine.
	f.routing, f.routingErr = routing.Parse(status.Config.Original, status.Uptime.Location())
	if f.routingErr != nil {
		f.routing = nil
	}
	if err := c.get(ctx, "/api/v2/alerts", nil, &f.Alerts); err != nil {
		return err
	}
	return c.get(ctx, "/api/v2/silences", nil, &f.Silences)
}

// sample is one sample of a page of metrics.
type sample struct {
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// page reads the counters of notifications from the server's own metrics.
func (c *Client) page(ctx context.Context) (map[string][]sample, error) {
	answer, _, err := c.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	page := map[string][]sample{}
	for line := range strings.Lines(string(answer.Body)) {
		found := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil || !strings.Contains(found[1], "_notification") {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(found[2], -1) {
			labels[pair[1]] = routing.Unescaped(pair[2])
		}
		page[found[1]] = append(page[found[1]], sample{labels, value})
	}
	return page, nil
}

// counters are Alertmanager's counters of notifications.
func (c *Client) counters(ctx context.Context) (Counters, error) {
	page, err := c.page(ctx)
	if err != nil {
		return nil, err
	}
	counters := Counters{}
	for family, field := range map[string]func(*Count) *float64{
		"alertmanager_notifications_total":                func(c *Count) *float64 { return &c.Notifications },
		"alertmanager_notifications_failed_total":         func(c *Count) *float64 { return &c.GivenUp },
		"alertmanager_notification_requests_total":        func(c *Count) *float64 { return &c.Attempts },
		"alertmanager_notification_requests_failed_total": func(c *Count) *float64 { return &c.Failed },
	} {
		for _, s := range page[family] {
			key := Channel{s.labels["receiver_name"], s.labels["integration"]}
			count := counters[key]
			*field(&count) += s.value // over its reasons
			counters[key] = count
		}
	}
	return counters, nil
}

// counters are those of all Alertmanagers, added up.
func (p *Path) counters(ctx context.Context) (Counters, error) {
	sum := Counters{}
	for _, c := range append(slices.Clone(p.Others), p.Alertmanager) {
		more, err := c.counters(ctx)
		if err != nil {
			return nil, err // a sum without one of them is lower than before
		}
		for key, count := range more {
			sum[key] = sum[key].minus(Count{}.minus(count))
		}
	}
	return sum, nil
}

// Raise raises the alert of a drill, and returns how to follow it. Follow ends it.
func (p *Path) Raise(ctx context.Context, f *Facts, severity string, receivers []string) (*Plan, error) {
	before, err := p.counters(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]string{"severity": severity, "duration": f.Lasts(severity).String()})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	// An interruption must not hide the id of a drill that has begun.
	answer, _, err := p.Exporter.do(context.WithoutCancel(ctx), http.MethodPost, "/api/v1/drill", body)
	if err != nil {
		return nil, withRaiseHint(err)
	}
	var started struct {
		Drill struct {
			ID    string    `json:"id"`
			Until time.Time `json:"until"`
		} `json:"drill"`
	}
	if err := json.Unmarshal(answer.Body, &started); err != nil {
		return nil, fmt.Errorf("read the exporter's answer: %w", err)
	}
	// The exporter's clock may be another one.
	until := time.Now().Add(f.Lasts(severity))
	return &Plan{
		Facts:     f,
		ID:        started.Drill.ID,
		Receivers: receivers,
		Raised:    begun,
		Took:      time.Since(begun),
		Until:     until,
		Before:    before,
	}, nil
}

func withRaiseHint(err error) error {
	known, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return err
	}
	if known.Reason == failure.Forbidden {
		known.Hint = "start the exporter with --web.enable-lifecycle, or use --dry-run"
	}
	if known.Reason == failure.NotFound {
		known.Hint = "the exporter is older than drills: update it, or use --dry-run"
	}
	return known
}

// Follow looks at a drill until all is known about it, ends it, and looks until its alert has ended. If ctx is done, it ends the drill at
// once.
func (p *Path) Follow(ctx context.Context, plan *Plan) []Step {
	progress := NewProgress(plan)
	p.watch(ctx, plan, progress)
	if err := p.end(ctx, plan); err != nil && time.Now().Before(plan.Until) {
		progress.endErr = err
		select { // the drill ends by itself
		case <-ctx.Done():
			return progress.Steps()
		case <-time.After(time.Until(plan.Until)):
		}
	}
	progress.Ended(time.Now())
	p.watch(ctx, plan, progress)
	return progress.Steps()
}

// maxEndRequests is how often a drill is ended at most: the address may be that of several exporters, one of which has the drill.
const maxEndRequests = 5

func (p *Path) end(ctx context.Context, plan *Plan) (err error) {
	for range maxEndRequests {
		_, _, err = p.Exporter.do(context.WithoutCancel(ctx), http.MethodDelete, "/api/v1/drill/"+plan.ID, nil)
		if err == nil || failure.ReasonOf(err) != failure.NotFound {
			return err
		}
	}
	return err
}

// watch returns when all is known, or ctx is done.
func (p *Path) watch(ctx context.Context, plan *Plan, progress *Progress) {
	for tick := time.NewTicker(observeEvery); ; {
		observation := p.observe(ctx, plan)
		progress.interrupted = ctx.Err() != nil
		if progress.interrupted || progress.See(observation) {
			tick.Stop()
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *Path) observe(ctx context.Context, plan *Plan) *Observation {
	o := &Observation{}
	defer func() { o.At = time.Now() }()
	// The counters come first, so that those of a moment without the alert have nothing of its message.
	counters, countErr := p.counters(ctx)
	series, err := p.Prometheus.series(ctx, fmt.Sprintf("chatstack_drill{id=%q}", plan.ID))
	o.Sampled = len(series) > 0
	var alerts struct {
		Alerts []Alert `json:"alerts"`
	}
	err = errors.Join(err, p.Ruler.data(ctx, "alerts", nil, &alerts))
	for i := range alerts.Alerts {
		if a := &alerts.Alerts[i]; a.Labels["alertname"] == plan.Facts.Drill && a.Labels["id"] == plan.ID {
			o.Alert = a
		}
	}
	err = errors.Join(err, p.Alertmanager.get(ctx, "/api/v2/alerts", nil, &o.Alerts),
		p.Alertmanager.get(ctx, "/api/v2/silences", nil, &o.Silences))
	if received := o.received(plan.ID); received != nil {
		var groups []AlertGroup
		names := received.receivers()
		for i, name := range names {
			names[i] = regexp.QuoteMeta(name)
		}
		err = errors.Join(err,
			p.Alertmanager.get(ctx, "/api/v2/alerts/groups", url.Values{"receiver": {"^(" + strings.Join(names, "|") + ")$"}}, &groups))
		o.Groups = slices.DeleteFunc(groups, func(g AlertGroup) bool {
			return !slices.ContainsFunc(g.Alerts, func(a Received) bool { return a.Labels["id"] == plan.ID })
		})
	}
	o.Counters, o.Err = counters, errors.Join(err, countErr)
	return o
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
