package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func open(t *testing.T) *Session {
	t.Helper()
	c := &Client{
		Host:      "tcp://engine.example:1",
		Endpoint:  Endpoint{Network: "tcp", Address: "engine.example:1"},
		Limit:     1 << 20,
		UserAgent: "test",
	}
	s, err := c.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answering is a session whose engine answers each call by do. It returns the calls so far.
func answering(
	t *testing.T, do func(r *http.Request) (status int, header http.Header, body io.Reader),
) (s *Session, calls func() []string) {
	t.Helper()
	s = open(t)
	var made []string
	docker, err := s.guarded("http", roundTrip(func(r *http.Request) (*http.Response, error) {
		made = append(made, r.Method+" "+r.URL.RequestURI())
		status, header, body := do(r)
		if status == 0 {
			return nil, errors.New("the engine hung up")
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	s.docker = docker
	return s, func() []string { return made }
}

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	if open(t).transport.Proxy != nil {
		t.Error("the transport looks for a proxy")
	}
}

func TestVersionIsNegotiated(t *testing.T) {
	// An engine, or what stands in its place, answers HEAD and GET with a status and a version, 0 not at all.
	negotiate := func(head, get int, version, calls string, reason failure.Reason) {
		t.Helper()
		s, made := answering(t, func(r *http.Request) (int, http.Header, io.Reader) {
			h := http.Header{"Api-Version": {version}}
			switch {
			case r.Method == http.MethodHead:
				return head, h, strings.NewReader("")
			case r.URL.Path == "/_ping":
				return get, h, strings.NewReader("OK")
			}
			return http.StatusOK, nil, strings.NewReader("[]\n")
		})
		_, err := s.Negotiate(t.Context())
		if err == nil {
			_, _, err = s.List(t.Context(), nil)
		}
		if got := strings.Join(made(), ", "); got != calls {
			t.Errorf("calls: got %s, want %s", got, calls)
		}
		if (err != nil) != (reason != "") || err != nil && failure.ReasonOf(err) != reason {
			t.Errorf("got %v, want reason %q", err, reason)
		}
	}
	const older, newer = "GET /v1.41/containers/json?all=1", "GET /v1.51/containers/json?all=1"
	negotiate(200, 200, "1.41", "HEAD /_ping, "+older, "")
	negotiate(200, 200, "1.99", "HEAD /_ping, "+newer, "")
	negotiate(405, 200, "1.41", "HEAD /_ping, GET /_ping, "+older, "")    // a proxy without HEAD
	negotiate(403, 403, "", "HEAD /_ping, GET /_ping", failure.Forbidden) // a proxy
	negotiate(200, 200, "", "HEAD /_ping", failure.Malformed)             // no engine
	negotiate(500, 500, "1.41", "HEAD /_ping", failure.HTTPStatus)
	negotiate(0, 200, "", "HEAD /_ping", failure.Internal)
}

func TestErrorsSayWhatTheEngineSays(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"the engine":            {500, `{"message":"cannot read\ncgroup"}`, "status 500: cannot read cgroup"},
		"a proxy":               {502, "bad gateway\n", "status 502: bad gateway"},
		"a proxy's page":        {502, "<html>secret</html>", "status 502, from a server that is not a Docker Engine"},
		"nothing":               {503, "", "status 503: no text says why"},
		"JSON without its text": {500, `{"error":"x"}`, `status 500: {"error":"x"}`},
		"a redirect":            {307, "", "status 307"},
		"another protocol":      {101, "never read", "status 101: the engine changes the protocol"},
		"very much":             {500, strings.Repeat("x", 10*maxRefusal), "status 500: xxx"},
		"half an answer":        {200, `[{"Id":"a"`, "unexpected EOF"},
		"no JSON":               {200, "It works!", "invalid character"},
		"too much":              {200, "[" + strings.Repeat(" ", 2<<20), "more than"},
	} {
		s, _ := answering(t, func(*http.Request) (int, http.Header, io.Reader) {
			return c.status, nil, strings.NewReader(c.body)
		})
		_, _, err := s.List(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), s.Host) ||
			strings.Contains(err.Error(), "secret") || len(err.Error()) > 2*maxRefusal {
			t.Errorf("%s: got %.200v, want %q and the engine's address", name, err, c.want)
		}
	}
}

// TestAnswerIsReadToItsEnd has an answer whose end comes after its value, as that of an engine's list does: a connection whose answer was
// not read to its end is lost.
func TestAnswerIsReadToItsEnd(t *testing.T) {
	content := strings.NewReader(`[{"Id":"1"}]` + "\n")
	s, _ := answering(t, func(*http.Request) (int, http.Header, io.Reader) {
		return http.StatusOK, nil, iotest.OneByteReader(content)
	})
	if listed, _, err := s.List(t.Context(), []string{"a=b"}); err != nil || len(listed) != 1 {
		t.Fatalf("got %v, %v; want one container", listed, err)
	}
	if content.Len() > 0 {
		t.Errorf("%d bytes were not read", content.Len())
	}
}
