package web_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

func TestRoutesMatchOpenAPI(t *testing.T) {
	source, err := os.ReadFile("web.go")
	must(t, err)
	var routes []string
	for _, found := range regexp.MustCompile(`mux\.Handle(?:Func)?\("([A-Z]+) (/(?:api|badge)/[^"]+)"`).
		FindAllStringSubmatch(string(source), -1) {
		routes = append(routes, found[1]+" "+strings.ReplaceAll(found[2], "...", ""))
	}
	content, err := os.ReadFile("openapi.yaml")
	must(t, err)
	var doc struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	must(t, yaml.Unmarshal(content, &doc))
	var described []string
	for path, methods := range doc.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(described)
	if len(routes) < 8 {
		t.Errorf("only %d routes were found", len(routes))
	}
	if !slices.Equal(routes, described) {
		t.Errorf("served: %q\ndescribed: %q", routes, described)
	}
}

func TestKnownReportIsNotModified(t *testing.T) {
	h := pagesOf(healthyReport())
	for _, encoding := range []string{"identity", "gzip"} {
		first := fetch(t, h, "/api/v1/status", "Accept-Encoding", encoding)
		etag := first.Header.Get("ETag")
		if first.StatusCode != http.StatusOK || etag == "" {
			t.Fatalf("%s: got %d, ETag %q", encoding, first.StatusCode, etag)
		}
		if again := fetch(t, h, "/api/v1/status", "Accept-Encoding", encoding,
			"If-None-Match", `"x", W/`+etag); again.StatusCode != http.StatusNotModified || len(again.body) > 0 {
			t.Errorf("%s: asked again: got %d", encoding, again.StatusCode)
		}
		if other := fetch(t, h, "/api/v1/status", "Accept-Encoding", encoding, "If-None-Match", `"x"`); other.StatusCode != http.StatusOK {
			t.Errorf("%s: with another tag: got %d", encoding, other.StatusCode)
		}
	}
	plain := fetch(t, h, "/api/v1/status", "Accept-Encoding", "identity").Header.Get("ETag")
	if packed := fetch(t, h, "/api/v1/status", "Accept-Encoding", "gzip").Header.Get("ETag"); plain == packed {
		t.Errorf("two encodings have one tag: %s", plain)
	}
}

func TestBadgeShowsStateAndEscapes(t *testing.T) {
	r := &status.Report{}
	for _, s := range []struct {
		name, state string
		level       status.Level
	}{
		{"irc_rpc", "up", status.OK},
		{"xmpp_status", "up", status.Warning},
		{"docs_search", "down", status.Critical},
		{"identity", "down", status.Maintenance},
		{`<script>"&`, "waiting", status.Unknown},
	} {
		state := status.ServiceState{Name: s.name, State: s.state}
		r.Services = append(r.Services, status.Service{ServiceState: state, Shown: status.Shown{Level: s.level}})
	}
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"irc_rpc.svg", "irc_rpc | up", 200},
		{"xmpp_status.svg", "xmpp_status | up, warning", 200},
		{"docs_search.svg", "docs_search | down", 200},
		{"identity.svg", "identity | down, maintenance", 200},
		{"%3Cscript%3E%22&.svg", `<script>"& | waiting`, 200},
		{"nobody.svg", "nobody | no such target", 404},
		{"irc_rpc", "irc_rpc | no such target", 404},
		{strings.Repeat("x", 99) + ".svg", strings.Repeat("x", 40) + "… | no such target", 404},
	} {
		resp := fetch(t, pagesOf(r), "/badge/"+c.path)
		body := resp.body
		var svg struct {
			XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
			Label   string   `xml:"aria-label,attr"`
			Title   string   `xml:"title"`
			Texts   []string `xml:"g>text"`
		}
		if err := xml.Unmarshal(body, &svg); err != nil {
			t.Errorf("%s: %v in %s", c.path, err, body)
		}
		if resp.StatusCode != c.code || svg.Title != c.want || svg.Label != c.want || strings.Join(svg.Texts, " | ") != c.want {
			t.Errorf("%s: got %d %+v, want %d %q", c.path, resp.StatusCode, svg, c.code, c.want)
		}
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", c.path, got)
		}
	}
	r.Stale = "no probe has ended for 5 min"
	for _, s := range r.Services[:4] {
		if body := string(fetch(t, pagesOf(r), "/badge/"+s.Name+".svg").body); !strings.Contains(body,
			"<title>"+s.Name+" | unknown</title>") {
			t.Errorf("%s: got %s", s.Name, body)
		}
	}
}

// Clients that parse the API's errors as JSON must not get plain text.
func TestUnknownPathsAndMethodsAreJSONErrors(t *testing.T) {
	h := pagesOf(healthyReport())
	for _, c := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{
			"GET",
			"/api/",
			404,
			"",
		},
		{
			"GET",
			"/api/v1/",
			404,
			"",
		},
		{
			"GET",
			"/api/v1/services",
			404,
			"",
		},
		{
			"GET",
			"/api/v2/status",
			404,
			"",
		},
		{
			"GET",
			"/api/v1/status/",
			404,
			"",
		},
		{
			"POST",
			"/api/v1/services",
			404,
			"",
		},
		{
			"OPTIONS",
			"/api/",
			404,
			"",
		},
		{
			"GET",
			"/api/v1/history/nobody",
			404,
			"",
		},
		{
			"POST",
			"/api/v1/status",
			405,
			"GET, HEAD",
		},
		{
			"OPTIONS",
			"/api/v1/status",
			405,
			"GET, HEAD",
		},
		{
			"DELETE",
			"/api/v1/history/service/irc_rpc/up",
			405,
			"GET, HEAD",
		},
		{
			"PUT",
			"/api/v1/events",
			405,
			"GET, HEAD",
		},
		{
			"PUT",
			"/api/v1/maintenance",
			405,
			"GET, HEAD, POST",
		},
		{
			"DELETE",
			"/api/v1/maintenance",
			405,
			"GET, HEAD, POST",
		},
		{
			"GET",
			"/api/v1/maintenance/target/irc_rpc",
			405,
			"DELETE",
		},
		{
			"HEAD",
			"/api/v1/maintenance/target/irc_rpc",
			405,
			"DELETE",
		},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header(); w.Code != c.code || got.Get("Allow") != c.allow || got.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %d, Allow %q, %s; want %d, %q",
				c.method, c.path, w.Code, got.Get("Allow"), got.Get("Content-Type"), c.code, c.allow)
		}
		var answer map[string]any
		err := json.Unmarshal(w.Body.Bytes(), &answer)
		if text, _ := answer["error"].(string); err != nil || len(answer) != 2 || answer["schema"] != float64(status.SchemaVersion) ||
			!strings.Contains(text, "/api/v1/") {
			t.Errorf("%s %s: got %v, %s", c.method, c.path, err, w.Body)
		}
	}
}
