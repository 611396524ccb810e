package collectors

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestDocsSearchShapes(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   failure.Reason // "" is up
	}{
		"hits":         {200, `[{"id":"/docs","type":"page","content":"Help"}]`, ""},
		"nothing":      {200, `[]`, ""},
		"other schema": {200, `{"results":{"count":1}}`, ""},
		"page":         {200, `<!DOCTYPE html>`, failure.Malformed},
		"broken off":   {200, `[{"id":`, failure.Malformed},
		"empty":        {200, ``, failure.Malformed},
		"missing":      {404, `{}`, failure.NotFound},
		"error":        {500, `{}`, failure.HTTPStatus},
		"login":        {401, `{}`, failure.Unauthorized},
		"too long":     {200, `"` + strings.Repeat("x", 2<<20) + `"`, failure.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var got *url.URL
			site := answering(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.URL
				w.WriteHeader(c.status)
				io.WriteString(w, c.body) //nolint:errcheck // a test's server
			})
			s := newDocsSearchSettings()
			s.URL, s.Query = site+"/api/search?lang=en", "a b"
			probe, err := newDocsSearch(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := read(t, probe, 10*time.Second)
			if got.Path != "/api/search" || got.RawQuery != "lang=en&query=a+b" {
				t.Errorf("asked for %s", got)
			}
			if c.want != "" {
				wantReason(t, err, c.want)
				goldenFailure(t, "docs_search/"+strings.ReplaceAll(name, " ", "_"), b, err)
			} else if err != nil {
				t.Error(err)
			}
			if c.want == failure.NotFound && !strings.Contains(failure.HintOf(err), "DOCS_SEARCH_URL") {
				t.Errorf("hint: got %q", failure.HintOf(err))
			}
		})
	}
}
