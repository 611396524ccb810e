package config_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// find returns the settings of the target of that name.
func find[S config.Settings](t *testing.T, cfg *config.Config, name string) (found S) {
	t.Helper()
	for _, s := range cfg.Targets {
		if own, ok := s.(S); ok && s.Common().Name == name {
			return own
		}
	}
	t.Fatalf("target %s is not configured", name)
	return found
}

// servicesEnv are the variables of the services with a token.
func servicesEnv(more ...string) map[string]string {
	env := map[string]string{
		"XMPP_REST_URL": "http://xmpp:5280", "XMPP_REST_TOKEN": "env-rest", "XMPP_DOMAIN": "env.test",
		"BRIDGE_IDENTITY_BASE_URL": "http://identity:3000/app", "BRIDGE_IDENTITY_TOKEN": "env-identity", "DOCS_SEARCH_URL": "http://docs:3000",
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

func TestServicesOfTheEnvironment(t *testing.T) {
	file := `targets:
  - kind: xmpp_rest
    url: http://file:5280
    token: file-rest
    domain: file.test
    path: /file
  - kind: identity
    url: http://file:3000
    token: file-identity
    cache_ttl: 2h
  - kind: docs_search
    url: http://file:3000/find
    query: file
`
	for name, content := range map[string]string{"alone": "", "over a file": file} {
		cfg, err := load(t, content, servicesEnv())
		if err != nil {
			t.Fatal(err)
		}
		rest := find[*collectors.XMPPRest](t, cfg, "xmpp_rest")
		if rest.URL != "http://xmpp:5280" || rest.Token.Reveal() != "env-rest" || rest.Domain != "env.test" {
			t.Errorf("%s: xmpp_rest: %s, token %s, domain %s", name, rest.URL, rest.Token.Reveal(), rest.Domain)
		}
		identity := find[*collectors.Identity](t, cfg, "identity")
		if identity.URL != "http://identity:3000/app" || identity.Token.Reveal() != "env-identity" {
			t.Errorf("%s: identity: %s, token %s", name, identity.URL, identity.Token.Reveal())
		}
		docs := find[*collectors.DocsSearch](t, cfg, "docs_search")
		if docs.URL != "http://docs:3000/api/search" {
			t.Errorf("%s: docs_search: %s", name, docs.URL)
		}
		if content != "" && (rest.Path != "/file" || identity.CacheTTL.Std() != 2*time.Hour || docs.Query != "file") {
			t.Errorf("%s: the keys without a variable are lost: %s, %s, %s", name, rest.Path, identity.CacheTTL.Std(), docs.Query)
		}
	}
	cfg, err := load(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rest, docs := find[*collectors.XMPPRest](t, cfg, "xmpp_rest"), find[*collectors.DocsSearch](t, cfg, "docs_search"); rest.Token.Reveal() != "file-rest" || docs.URL != "http://file:3000/find" {
		t.Errorf("file alone: token %s, docs %s", rest.Token.Reveal(), docs.URL)
	}
}

func TestSecretsOfServicesFromFiles(t *testing.T) {
	secret := func(value string) string { return write(t, filepath.Join(t.TempDir(), "secret"), value+"\n") }
	cfg, err := load(t, "", map[string]string{
		"XMPP_REST_URL": "http://xmpp:5280", "XMPP_REST_USERNAME": "admin@chat.test", "XMPP_REST_PASSWORD_FILE": secret("a"), "XMPP_REST_TOKEN_FILE": secret("b"),
		"BRIDGE_IDENTITY_BASE_URL": "http://identity:3000", "BRIDGE_IDENTITY_TOKEN_FILE": secret("c"),
		"DOCS_SEARCH_URL": "https://docs/wiki/search", "DOCS_SEARCH_FINGERPRINT": strings.Repeat("ab", 32),
	})
	if err != nil {
		t.Fatal(err)
	}
	rest, identity := find[*collectors.XMPPRest](t, cfg, "xmpp_rest"), find[*collectors.Identity](t, cfg, "identity")
	if rest.User != "admin@chat.test" || rest.Password.Reveal() != "a" || rest.Token.Reveal() != "b" || identity.Token.Reveal() != "c" {
		t.Errorf("got %s, %s, %s and %s", rest.User, rest.Password.Reveal(), rest.Token.Reveal(), identity.Token.Reveal())
	}
	if docs := find[*collectors.DocsSearch](t, cfg, "docs_search"); docs.URL != "https://docs/wiki/search" || docs.PinnedSHA256() == nil {
		t.Errorf("docs_search: %s, fingerprint %q", docs.URL, docs.Fingerprint)
	}
	for _, variable := range []string{"XMPP_REST_TOKEN", "XMPP_REST_PASSWORD", "BRIDGE_IDENTITY_TOKEN"} {
		if _, err := load(t, "", servicesEnv(variable, "x", variable+"_FILE", secret("y"))); err == nil || !strings.Contains(err.Error(), variable+": "+variable+"_FILE is set too") {
			t.Errorf("%s given twice: got %v", variable, err)
		}
	}
}

// TestXMPPServerNeedHaveNoRESTAPI, since XMPP_REST_URL names its other pages too.
func TestXMPPServerNeedHaveNoRESTAPI(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		want bool
	}{
		"url alone":                 {"", nil, false},
		"url and domain":            {"", []string{"XMPP_DOMAIN", "chat.test"}, false},
		"url and name":              {"", []string{"XMPP_REST_USERNAME", "admin@chat.test"}, false},
		"url and password":          {"", []string{"XMPP_REST_PASSWORD", "change_me"}, false},
		"url and token":             {"", []string{"XMPP_REST_TOKEN", "t"}, true},
		"url, name and password":    {"", []string{"XMPP_REST_USERNAME", "admin@chat.test", "XMPP_REST_PASSWORD", "p"}, true},
		"url here, token there":     {"targets:\n  - kind: xmpp_rest\n    token: t\n", nil, true},
		"url there, nothing else":   {"targets:\n  - kind: xmpp_rest\n    url: http://file:5280\n", nil, true},
		"block without an own word": {"targets:\n  - kind: xmpp_rest\n", nil, false},
	} {
		env := map[string]string{"XMPP_REST_URL": "http://xmpp:5280"}
		for i := 0; i < len(c.env); i += 2 {
			env[c.env[i]] = c.env[i+1]
		}
		cfg, err := load(t, c.file, env)
		if err != nil {
			t.Fatal(err)
		}
		if got := !slices.Contains(cfg.Unconfigured, "xmpp_rest"); got != c.want {
			t.Errorf("%s: configured is %v, want %v", name, got, c.want)
		}
		find[*collectors.XMPPStatus](t, cfg, "xmpp_status")
	}
}

func TestNothingIsConfiguredOfItself(t *testing.T) {
	cfg, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"xmpp_rest", "identity", "docs_search", "web_irc", "web_panel", "log_viewer", "http", "tcp", "openmetrics"} {
		if !slices.Contains(cfg.Unconfigured, name) {
			t.Errorf("%s is not told to be unconfigured", name)
		}
	}
}

func TestOwnTargetsMayBeMany(t *testing.T) {
	cfg, err := load(t, `targets:
  - kind: http
    name: wiki
    url: https://wiki/
    headers: {X-Api-Key: hunter2, Host: wiki.test, X-Unset: }
    expect_status: [200, 3xx]
  - kind: http
    name: forge
    url: https://forge/
  - kind: tcp
    name: redis
    address: redis:6379
    send: "PING\r\n"
    expect: ^\+PONG
  - kind: tcp
    name: ldap
    address: "[::1]:389"
  - kind: openmetrics
    name: bridge
    url: http://bridge:9090/metrics
  - kind: web_irc
    url: http://web:9000/
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Targets) != 6 {
		t.Errorf("%d targets, want 6", len(cfg.Targets))
	}
	for _, kind := range []string{"http", "tcp", "openmetrics"} {
		if slices.Contains(cfg.Unconfigured, kind) {
			t.Errorf("%s is called unconfigured beside one that is", kind)
		}
	}
	wiki := find[*collectors.Web](t, cfg, "wiki")
	if len(wiki.Headers) != 2 || wiki.Headers["X-Api-Key"].Reveal() != "hunter2" || !slices.Equal(wiki.ExpectStatus, []string{"200", "3xx"}) {
		t.Errorf("got %v, %v", wiki.Headers, wiki.ExpectStatus)
	}
	if shown := settingsOf(t, cfg, "wiki"); strings.Contains(shown, "hunter2") {
		t.Errorf("a header's value is printed: %s", shown)
	}
	if redis := find[*collectors.TCP](t, cfg, "redis"); redis.Send != "PING\r\n" {
		t.Errorf("sends %q", redis.Send)
	}
}

func TestDeprecatedAndDoubtfulCredentialsAreTold(t *testing.T) {
	cfg, err := load(t, "", map[string]string{
		"XMPP_REST_URL": "http://xmpp:5280", "XMPP_REST_USERNAME": "admin@chat.test", "XMPP_REST_PASSWORD": "change_me_xmpp",
		"BRIDGE_IDENTITY_BASE_URL": "http://identity:3000", "BRIDGE_IDENTITY_TOKEN": "replace_with_token",
	})
	if err != nil {
		t.Fatal(err)
	}
	rest := find[*collectors.XMPPRest](t, cfg, "xmpp_rest")
	if keys := config.Placeholders(rest); !slices.Equal(keys, []string{"password"}) {
		t.Errorf("xmpp_rest: placeholders: got %q", keys)
	}
	if w := rest.Warnings(); len(w) != 1 || !strings.Contains(w[0], "deprecated") {
		t.Errorf("xmpp_rest: warnings: got %q", w)
	}
	if keys := config.Placeholders(find[*collectors.Identity](t, cfg, "identity")); !slices.Equal(keys, []string{"token"}) {
		t.Errorf("identity: placeholders: got %q", keys)
	}
}
