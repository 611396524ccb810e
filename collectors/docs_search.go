package collectors

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// DocsSearch is the block of the documentation site's search.
type DocsSearch struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"`
	// Query is the search term: "help" by default. The probe succeeds even if nothing is found.
	Query string `yaml:"query"`
}

// docsSearchPath is where the site has its search by default.
const docsSearchPath = "/api/search"

func newDocsSearchSettings() *DocsSearch { return &DocsSearch{Query: "help"} }

// Environ implements config.Settings.
func (s *DocsSearch) Environ(e *config.Env) {
	e.String("url", "DOCS_SEARCH_URL", &s.URL)
	e.TLS("DOCS_SEARCH", &s.TLS)
}

// docsSearch searches for one term. It accepts any JSON, because the schema of the results may change.
type docsSearch struct {
	http exchange.HTTP
	url  string
}

func newDocsSearch(s *DocsSearch, d Deps) (Collector, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url: %w", err)
	}
	q := u.Query()
	q.Set("query", s.Query)
	u.RawQuery = q.Encode()
	return &docsSearch{d.http(s.HTTP), u.String()}, nil
}

// Collect implements Collector.
func (c *docsSearch) Collect(ctx context.Context, b *Batch) error {
	a, err := c.http.Do(ctx, &b.Record, http.MethodGet, c.url, nil, nil)
	if err != nil {
		return err
	}
	if err := a.WantOK(http.MethodGet, c.url, hintsForPage("url", c.url, docsSearchPath, "")); err != nil {
		return err
	}
	if !json.Valid(a.Body) {
		return failure.Errorf(failure.Malformed, "GET %s: status %d: the answer is not JSON", exchange.PrintableURL(c.url), a.Status)
	}
	return nil
}
