package collectors

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func proxyProbe(t *testing.T, url string, trust config.TLS) Collector {
	t.Helper()
	s := &XMPPProxy{}
	s.URL, s.TLS = url, trust
	return newProbe(t, newXMPPProxy, s)
}

func TestConnectionsAreFresh(t *testing.T) {
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen[r.RemoteAddr] = true }))
	defer server.Close()
	probe := proxyProbe(t, server.URL, config.TLS{})
	for range 3 {
		if err := probe.Collect(context.Background(), &Batch{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d connections for 3 readings", len(seen))
	}
}
