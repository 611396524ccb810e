package collectors

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

const prosodyType = "application/openmetrics-text; version=0.0.4"

// metricsPage serves a metrics page to everything.
func metricsPage(t *testing.T, page string) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", prosodyType)
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
