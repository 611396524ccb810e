package collectors

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func readOpenMetrics(t *testing.T, url string, change func(*OpenMetrics)) (*Batch, error) {
	t.Helper()
	s := newOpenMetricsSettings()
	s.Name, s.URL = "bridge", url
	if change != nil {
		change(s)
	}
	c, err := newOpenMetrics(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, c, 10*time.Second)
}

// bridgePage is a page such as a Python program has, with labels that are ours to give.
const bridgePage = `# HELP process_open_fds Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 12
# HELP relayed_messages_total Messages relayed.
# TYPE relayed_messages_total counter
relayed_messages_total{from="irc",to="discord",job="x",instance="y",target="z"} 7
relayed_messages_total{from="discord",to="irc"} 8
# TYPE chatstack_probe_success gauge
chatstack_probe_success{target="bridge"} 0
`

func TestOpenMetricsPageBearsItsTarget(t *testing.T) {
	for name, change := range map[string]func(*OpenMetrics){
		"plain":    nil,
		"prefixed": func(s *OpenMetrics) { s.Prefix = "bridge_" },
	} {
		b, err := readOpenMetrics(t, metricsPage(t, "text/plain; version=0.0.4", bridgePage), change)
		if err != nil {
			t.Fatal(err)
		}
		goldenPage(t, "openmetrics/"+name, b)
	}
}

func TestOpenMetricsFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   Reason
	}{
		"login":   {401, "", Unauthorized},
		"missing": {404, "", NotFound},
		"error":   {500, bridgePage, HTTPStatus},
		"no page": {200, "<html>\n", Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := readOpenMetrics(t, identityAPI(t, c.status, "text/html", c.body), nil)
			wantReason(t, err, c.want)
			goldenFailure(t, "openmetrics/"+strings.ReplaceAll(name, " ", "_"), b, err)
		})
	}
}

func TestOpenMetricsAsksForOpenMetricsWithItsCredential(t *testing.T) {
	var got http.Header
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		io.WriteString(w, bridgePage) //nolint:errcheck // a test's server
	})
	if _, err := readOpenMetrics(t, url, func(s *OpenMetrics) { s.Token = config.NewSecret("sesame") }); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "Bearer sesame" || !strings.HasPrefix(got.Get("Accept"), "application/openmetrics-text") {
		t.Errorf("got %v", got)
	}
}
