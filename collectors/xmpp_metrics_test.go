package collectors

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const prosodyType = "application/openmetrics-text; version=0.0.4"

// replayed serves a captured answer of a real server to everything.
func replayed(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "xmpp_metrics", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is behind it
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	status, contentType := resp.StatusCode, resp.Header.Get("Content-Type")
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		w.Write(body) //nolint:errcheck,gosec // a test's server
	})
}

// metricsPage serves a metrics page to everything.
func metricsPage(t *testing.T, contentType, page string) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, page) //nolint:errcheck // a test's server
	})
}

func readXMPPMetrics(t *testing.T, url string, d Deps) (*Batch, error) {
	t.Helper()
	s := newXMPPMetricsSettings()
	s.Name, s.URL = "xmpp_metrics", url+"/metrics"
	c, err := newXMPPMetrics(s, d)
	if err != nil {
		t.Fatal(err)
	}
	b, err := read(t, c, 10*time.Second)
	b.Target = s.Name
	return b, err
}

func TestXMPPMetricsOfRealServer(t *testing.T) {
	for _, name := range []string{"ok", "ok_proxied"} {
		b, err := readXMPPMetrics(t, replayed(t, name), deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Notes) != 1 || !strings.Contains(b.Notes[0], "authentication failures have no source") {
			t.Errorf("%s: notes: got %q, want one, that authentication failures have no source", name, b.Notes)
		}
		goldenPage(t, "xmpp_metrics/"+name, b)
	}
}

func TestXMPPMetricsRefusals(t *testing.T) {
	for name, want := range map[string]struct {
		reason failure.Reason
		hint   string
	}{
		"403":            {failure.Forbidden, "outside XMPP_OPENMETRICS_CIDR"},
		"404_statistics": {failure.NotFound, `statistics = "internal"`},
		"404_module":     {failure.NotFound, "http_openmetrics"},
		"502":            {failure.HTTPStatus, failure.Explain(failure.HTTPStatus)},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := readXMPPMetrics(t, replayed(t, name), deps(&memory{}))
			wantReason(t, err, want.reason)
			if !strings.Contains(failure.HintOf(err), want.hint) {
				t.Errorf("hint: got %q, want %q in it", failure.HintOf(err), want.hint)
			}
			goldenFailure(t, "xmpp_metrics/"+name, b, err)
		})
	}
}

func TestXMPPMetricsFailures(t *testing.T) {
	const page = "# TYPE up gauge\nup 1\n# EOF\n"
	small := deps(&memory{})
	small.Limits.MetricsBody = 10
	for name, c := range map[string]struct {
		url  string
		deps Deps
		want failure.Reason
	}{
		"html":      {metricsPage(t, "text/html; charset=utf-8", "<!DOCTYPE html>\n<h1>Welcome</h1>\n"), deps(&memory{}), failure.Malformed},
		"no_page":   {metricsPage(t, "text/html", ""), deps(&memory{}), failure.Malformed},
		"json":      {metricsPage(t, "application/json", `{"up":1}`), deps(&memory{}), failure.Malformed},
		"prose":     {metricsPage(t, prosodyType, "It works!\n"), deps(&memory{}), failure.Malformed},
		"too_large": {metricsPage(t, prosodyType, page), small, failure.TooLarge},
		"no_gzip": {answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, page) //nolint:errcheck // a test's server
		}), deps(&memory{}), failure.Malformed},
		"truncated": {answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, page) //nolint:errcheck // a test's server
		}), deps(&memory{}), failure.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := readXMPPMetrics(t, c.url, c.deps)
			wantReason(t, err, c.want)
			if families := b.Foreign(false); len(families) > 0 || len(metricsOf(b, false)) > 0 {
				t.Errorf("a failed reading leaves families %v, metrics %v", families, metricsOf(b, false))
			}
		})
	}
}

func TestXMPPMetricsEmptyPageIsUp(t *testing.T) {
	for _, page := range []string{"# EOF\n", "# TYPE prosody_x gauge\n# EOF\n", ""} {
		b, err := readXMPPMetrics(t, metricsPage(t, prosodyType, page), deps(&memory{}))
		if err != nil {
			t.Errorf("%q: %v", page, err)
			continue
		}
		if got, want := len(metricsOf(b, true)), 5+len(canonicalFamilies); got != want || len(b.Foreign(true)) != 0 {
			t.Errorf("%q: got %d metrics of ours and families %v, want %d and none", page, got, b.Foreign(true), want)
		}
	}
}

// TestXMPPMetricsBadLinesCostThemselves reads a page of which half is bad, and keeps the other half.
func TestXMPPMetricsBadLinesCostThemselves(t *testing.T) {
	page := "# HELP prosody_a First.\r\n# TYPE prosody_a gauge\r\nprosody_a{job=\"x\",host=\"chat.test\"} 1\r\n" +
		"prosody_a{host=\"chat.test\",instance=\"y\"} 2\r\n" + // equal without job and instance
		"this is no sample of alice@chat.test\r\n" +
		"# TYPE chatstack_probe_success gauge\r\nchatstack_probe_success{target=\"irc_rpc\"} 1\r\n" +
		"# TYPE process_open_fds gauge\r\nprocess_open_fds 5\r\n# TYPE go_goroutines gauge\r\ngo_goroutines 7\r\n" +
		"# TYPE prosody_b counter\r\nprosody_b_total 3 1700000000\r\n" +
		"prosody_long{a=\"" + strings.Repeat("x", 5000) + "\"} 1\r\n"
	b, err := readXMPPMetrics(t, metricsPage(t, prosodyType, page), deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	goldenPage(t, "xmpp_metrics/bad_lines", b)
	notes := strings.Join(b.Notes, "\n")
	for _, want := range []string{"line 4 of the metrics page: clash: prosody_a", "line 5", "line 6", "does not end in # EOF"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes: got\n%s\nwant %q in it", notes, want)
		}
	}
	for _, secret := range []string{"alice", "chat.test", "irc_rpc"} {
		if strings.Contains(notes, secret) {
			t.Errorf("notes tell %q:\n%s", secret, notes)
		}
	}
}

func TestXMPPMetricsStayWithinLimits(t *testing.T) {
	var page strings.Builder
	for i := range 500 {
		fmt.Fprintf(&page, "prosody_x{n=\"%d\"} 1\n", i)
	}
	page.WriteString("# EOF\n")
	d := deps(&memory{})
	d.Limits.Series = 30
	b, err := readXMPPMetrics(t, metricsPage(t, prosodyType, page.String()), d)
	if err != nil {
		t.Fatal(err)
	}
	families := b.Foreign(true)
	if len(families) != 1 || families[0].Series != 30 {
		t.Errorf("families: got %v, want one of 30 series", families)
	}
	for _, want := range []string{
		`chatstack_upstream_series{target="xmpp_metrics"} 30`,
		`chatstack_upstream_dropped_series{reason="limit",target="xmpp_metrics"} 470`,
		`chatstack_upstream_dropped_series{reason="clash",target="xmpp_metrics"} 0`,
		`chatstack_upstream_dropped_series{reason="malformed",target="xmpp_metrics"} 0`,
	} {
		if own := string(ownText(t, b)); !strings.Contains(own, want+"\n") {
			t.Errorf("got\n%s\nwant %s in it", own, want)
		}
	}
}

// ownText is what a batch says in its own name, as text.
func ownText(t *testing.T, b *Batch) []byte {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(batchCollector(metricsOf(b, true)))
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families, err := exposition.FromGathered(gathered)
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	for _, f := range families {
		lines = append(lines, f.Text...)
	}
	return lines
}

func TestXMPPMetricsAsksForOpenMetricsFirst(t *testing.T) {
	asked := make(chan http.Header, 1)
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, "# TYPE hits_total counter\nhits_total 5\n") //nolint:errcheck // a test's server
		z.Close()                                                      //nolint:errcheck,gosec // a test's server
	})
	b, err := readXMPPMetrics(t, url, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	header := <-asked
	if accept := header.Get("Accept"); !strings.HasPrefix(accept, "application/openmetrics-text;version=1.0.0,") {
		t.Errorf("Accept: got %q, want OpenMetrics 1.0 first", accept)
	}
	if got := header.Get("User-Agent"); got != "test" {
		t.Errorf("User-Agent: got %q, want test", got)
	}
	families := b.Foreign(true)
	if len(families) != 1 || families[0].Name != "hits" || !slices.Equal(families[0].Text, []byte("hits_total 5\n")) {
		t.Errorf("families: got %+v, want counter hits", families)
	}
}

func TestMarkupIsKnownByItsMediaType(t *testing.T) {
	for contentType, want := range map[string]bool{
		"text/html; charset=utf-8": true, "text/html; charset": true, "application/json": true,
		"text/plain; version=0.0.4": false, prosodyType: false, "": false, "/": false,
	} {
		if got := isMarkup(contentType); got != want {
			t.Errorf("%q: got %t, want %t", contentType, got, want)
		}
	}
}
