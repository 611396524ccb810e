package config_test

import (
	"strings"
	"testing"
)

func TestPublicPageIsChecked(t *testing.T) {
	const good = "targets: [{kind: docs_search, url: \"http://127.0.0.1:1/\"}]\npublic:\n  listen_address: 127.0.0.1:9657\n" +
		"  services: [{name: Docs, targets: [docs_search]}]\n"
	cfg, err := load(t, good, nil)
	if err != nil || cfg.Public.Title != "chat stack" {
		t.Fatalf("%v, title %q", err, cfg.Public.Title)
	}
	for _, test := range []struct{ from, to, want string }{
		{"127.0.0.1:9657", "127.0.0.1", `public.listen_address: is "127.0.0.1", must be HOST:PORT or :PORT`},
		{"listen_address: 127.0.0.1:9657", "title: x", "public.listen_address: is not set, so nobody sees public.services"},
		{"  services: [{name: Docs, targets: [docs_search]}]\n", "", "public.services: is empty"},
		{"name: Docs", "name: \" \"", "public.services[0].name: is empty"},
		{"name: Docs", "name: \"a\\nb\"", "public.services[0].name: has control characters"},
		{"targets: [docs_search]}", "targets: []}", "public.services[0].targets: is empty"},
		{"[docs_search]}", "[docs]}", `public.services[0].targets: has "docs", but there is no such target`},
		{
			"}]\n",
			"}, {name: Docs, targets: [docs_search]}]\n",
			`public.services[1].name: is "Docs", already used by another public service`,
		},
		{
			"  services:",
			"  announcements: [{text: x, from: 2026-01-02T00:00:00Z}]\n  services:",
			"public.announcements[0].until: or from is missing",
		},
		{
			"  services:",
			"  announcements: [{text: \"\", from: 2026-01-02T00:00:00Z, until: 2026-01-01T00:00:00Z}]\n  services:",
			"public.announcements[0].until: is not after from",
		},
		{
			"  services:",
			"  trusted_proxies: [proxy]\n  services:",
			`public.trusted_proxies: has "proxy", must be an address or a network such as 10.0.0.0/8`,
		},
		{"public:", "web: {title: \"\"}\npublic:", "web.title: is empty"},
	} {
		at := strings.LastIndex(good, test.from)
		if at < 0 {
			t.Fatalf("%q changes nothing", test.from)
		}
		_, err := load(t, good[:at]+test.to+good[at+len(test.from):], nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q to %q: got %v, want %q", test.from, test.to, err, test.want)
		}
	}
}
