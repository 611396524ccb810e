package collectors

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// page requests a page, which must answer with status 200.
type page struct {
	http        exchange.HTTP
	defaultPath string
	json        bool // it must be JSON, of any schema
}

// Collect implements Collector.
func (c *page) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, nil)
	if err != nil {
		return err
	}
	if c.json && a.Status == http.StatusOK && !json.Valid(a.Body) {
		return a.Errorf(failure.Malformed, "the answer is not JSON")
	}
	return a.WantOK(hintsForPage("url", a.URL, c.defaultPath, ""))
}

// parsed returns a URL that Check has found valid.
func parsed(valid string) *url.URL {
	u, err := url.Parse(valid)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// seeTargets is the advice about a page whose server does not show what it is.
const seeTargets = "see in TARGETS.md what serves this page"

// hintsForPage returns the hint for a 404. The default path leads to what enables the page, which may be empty, any other path
// to the default one. Key is that of the URL.
func hintsForPage(key, url, defaultPath, enable string) map[int]string {
	asked := exchange.PathOf(url)
	hint := "the server answers, but has nothing at " + asked + ": "
	switch {
	case asked != defaultPath:
		hint += "by default this page is at " + defaultPath + "; correct the path or the port of " + key
	case enable != "":
		hint += enable + ", or correct the path of " + key
	default:
		hint += "correct the path or the port of " + key
	}
	return map[int]string{http.StatusNotFound: hint}
}
