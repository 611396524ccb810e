package api

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// plainly is what an allowed call may look like, written apart from the guard's own list: segment by segment.
func plainly(method, requestURI string) bool {
	path, _, _ := strings.Cut(requestURI, "?")
	if method == http.MethodHead {
		return path == "/_ping"
	}
	if method != http.MethodGet && method != "" || !strings.HasPrefix(path, "/") {
		return false
	}
	segments := strings.Split(path[1:], "/")
	if regexp.MustCompile(`^v1\.\d{1,3}$`).MatchString(segments[0]) {
		segments = segments[1:]
	}
	switch len(segments) {
	case 1:
		return segments[0] == "_ping" || segments[0] == "events"
	case 2:
		return segments[0] == "containers" && segments[1] == "json"
	case 3:
		ids := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
		return segments[0] == "containers" && ids.MatchString(segments[1]) &&
			(segments[2] == "json" || segments[2] == "stats" || segments[2] == "logs")
	}
	return false
}

// TestNothingElseStandsOnTheWire tries every method with every path behind every prefix and before every suffix.
func TestNothingElseStandsOnTheWire(t *testing.T) {
	methods := []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "Post", "PROPFIND", "GET\t", "G\u0130T", "",
	}
	prefixes := []string{
		"", "/v1.41", "/v1.0", "/v1.9999", "/v2.1", "/V1.41", "/v1.41/v1.41", "/v1.41/..", "/v1.41/.", "/.", "/..", "/", "//", "//x",
		"/%2e%2e",
		"/v1%2e41", "/v1.41%2f..", "/containers/..", "/images/..", "/_ping/..",
	}
	paths := []string{
		"/_ping", "/version", "/info", "/events", "/containers/json", "/containers/x/json", "/containers/x/stats", "/containers/x/logs",
		"/containers/create", "/containers/x/start", "/containers/x/stop", "/containers/x/restart", "/containers/x/kill",
		"/containers/x/exec",
		"/containers/x/attach", "/containers/x/attach/ws", "/containers/x/archive", "/containers/x/export", "/containers/x/top",
		"/containers/x/changes",
		"/containers/x/update", "/containers/x/rename", "/containers/x/resize", "/containers/x/wait", "/containers/prune", "/containers/x",
		"/exec/x/start", "/exec/x/json", "/images/json", "/images/create", "/images/x/json", "/images/x/push", "/images/load",
		"/images/get", "/build",
		"/build/prune", "/commit", "/auth", "/networks", "/networks/create", "/volumes", "/volumes/create", "/volumes/prune",
		"/secrets", "/configs",
		"/swarm", "/swarm/init", "/swarm/unlockkey", "/nodes", "/services", "/tasks", "/plugins", "/plugins/pull", "/system/df",
		"/session", "/grpc",
		"/distribution/x/json", "/debug/pprof", "/metrics", "/Containers/json", "/containers/JSON",
		"", "/containers/chat_xmpp-1.a/json", "/containers/-x/json", "/containers/x y/json", "/containers/ü/json", "/containers//json",
		"/containers/../json",
		"/containers/x%2Fjson", "/containers/x%2F..%2Fy/json", "/containers/x%00/json", "/containers/x%0d%0aPOST/json",
		"/containers/x/json;archive",
	}
	suffixes := []string{
		"", "?all=1", "?x=/containers/create", "/", "//", "/.", "/..", "/../json", "/../../images/json", "%00", "%0a", "%0d%0aX:%20y",
		"%20", "%2f..", "%252f..",
		";x", "%3f", "%23", ".json", "\\", "?%0d%0aPOST%20/",
	}
	var line string // the first one of the last request
	guard := guard{next: roundTrip(func(r *http.Request) (*http.Response, error) {
		var wire bytes.Buffer
		if err := r.Write(&wire); err != nil {
			t.Errorf("%s %s: let through, and then: %v", r.Method, r.URL, err)
		}
		line, _, _ = strings.Cut(wire.String(), "\r\n")
		return &http.Response{Body: http.NoBody}, nil
	})}
	var tried, passed int
	for _, prefix := range prefixes {
		for _, path := range paths {
			for _, suffix := range suffixes {
				u, err := url.Parse("http://engine" + prefix + path + suffix)
				if err != nil {
					continue // a client could not even be asked for that
				}
				for _, method := range methods {
					req := &http.Request{Method: method, URL: u, Header: http.Header{}}
					tried++
					_, err := guard.RoundTrip(req.WithContext(t.Context())) //nolint:bodyclose // there is none
					if allowed := plainly(method, u.RequestURI()); allowed != (err == nil) {
						t.Errorf("%s %s: got error %v, want it let through: %v", method, u.RequestURI(), err, allowed)
					}
					if err != nil && (failure.ReasonOf(err) != failure.Internal || !strings.Contains(err.Error(), u.RequestURI())) {
						t.Errorf("%s %s: got %v, want one that names the path, reason %s", method, u.RequestURI(), err, failure.Internal)
					}
					if err != nil {
						continue
					}
					passed++
					if sent := strings.Fields(line); len(sent) != 3 || !plainly(sent[0], sent[1]) {
						t.Errorf("on the wire: %q", line)
					}
				}
			}
		}
	}
	if tried < 100_000 || passed == 0 {
		t.Errorf("%d calls tried and %d passed: the matrix is not what it was", tried, passed)
	}
}
