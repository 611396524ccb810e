package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNoSecretOfAnyTargetReachesAPage has a server that repeats the secrets of another target, and the token of its own URL.
func TestNoSecretOfAnyTargetReachesAPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Header().Set("Link", "</metrics?token=query-token>")
		//nolint:errcheck // read to its end
		io.WriteString(w,
			"a{x=\"sesame-street\"} 1\nb{x=\"token=query-token\"} 2\nc 3\nd{x=\"Y2hhdDpzZXNhbWUtc3RyZWV0\"} 4\nsesame-street\n")
	}))
	defer server.Close()
	e := startExporter(t, nil, fmt.Sprintf(`targets:
  - {kind: openmetrics, name: bridge, url: "%[1]s/metrics?token=query-token"}
  - {kind: irc_rpc, url: "%[1]s/api", user: chat, password: sesame-street}
`, server.URL))
	p := e.wait(t, "up", func(p page) bool { return p.Up("bridge") })
	if n, _ := p.Value("chatstack_upstream_dropped_series", "target", "bridge", "reason", "secret"); n != 3 {
		t.Errorf("%v series dropped for a secret, want 3", n)
	}
	if n, _ := p.Value("c", "target", "bridge"); n != 3 {
		t.Errorf("the series without a secret is %v, want 3", n)
	}
	for _, path := range []string{"/metrics", "/", "/api/v1/status", "/debug/targets/", "/debug/targets/bridge", "/debug/targets/irc_rpc"} {
		_, body := e.text(t, path)
		for _, secret := range []string{"sesame-street", "query-token", "Y2hhdDpz"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows %s", path, secret)
			}
		}
	}
	for _, secret := range []string{"sesame-street", "query-token", "Y2hhdDpz"} {
		if strings.Contains(e.log.String(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
}
