package collectors

import "github.com/chatstack-exporter/chatstack_exporter/internal/config"

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

// newDocsSearch searches for one term. It accepts any JSON, because the schema of the results may change.
func newDocsSearch(s *DocsSearch, d Deps) (Collector, error) {
	search := parsed(s.URL)
	q := search.Query()
	q.Set("query", s.Query)
	search.RawQuery = q.Encode()
	c := &page{http: d.http(s.HTTP), defaultPath: docsSearchPath, json: true}
	c.http.Settings.URL = search.String()
	return c, nil
}
