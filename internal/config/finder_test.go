package config_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestSecretsOfAllTargetsAreFoundInTheFormsThatAreSent(t *testing.T) {
	cfg, err := load(t, `targets:
  - {kind: irc_rpc, url: "https://irc.test/api", user: chat, password: "sesame open"}
  - {kind: openmetrics, name: a, url: "http://a.test/metrics?format=prometheus&access_token=abc%2Fdef%2Fghi", token: long-token}
  - {kind: http, name: b, url: "http://b.test/", headers: {Authorization: "Basic YWRtaW46Y29ycmVjdC1ob3JzZQ==", X-Key: "Bearer of-good-news", X-Short: tiny}}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"x sesame open y", "sesame+open", "sesame%20open", "Basic Y2hhdDpzZXNhbWUgb3Blbg==", "abc%2Fdef%2Fghi", "abc/def/ghi", "long-token",
		"admin:correct-horse", "correct-horse", "YWRtaW46Y29ycmVjdC1ob3JzZQ", "of-good-news",
	} {
		if !cfg.Secrets.In([]byte(text)) {
			t.Errorf("%q is not found", text)
		}
	}
	for _, text := range []string{"", "sesame", "prometheus", "tiny", "chat", "irc.test", "Bearer", "long-tokem"} {
		if cfg.Secrets.In([]byte(text)) {
			t.Errorf("%q is taken for a secret", text)
		}
	}
	if keys := config.ShortSecrets(cfg.Targets[2]); len(keys) != 1 || !strings.HasSuffix(keys[0], "X-Short") {
		t.Errorf("short secrets: %q", keys)
	}
}

func TestTokenInAURLIsMasked(t *testing.T) {
	for _, query := range []string{
		"token=sesame", "a=1&api_key=sesame&b=2", "X-Amz-Signature=sesame", "PASSWORD=" + url.QueryEscape("sesame"), "auth=s%65same",
	} {
		s := &collectors.Web{HTTP: config.HTTP{URL: "http://x.test/?" + query}}
		redact := config.Redactor(s)
		if redact == nil {
			t.Errorf("%s: no redactor", query)
			continue
		}
		if got := redact("redirected to " + s.URL + ", sesame"); strings.Contains(got, "same") {
			t.Errorf("%s: %s", query, got)
		}
	}
	if config.Redactor(&collectors.Web{HTTP: config.HTTP{URL: "http://x.test/?format=prometheus&q=sesame"}}) != nil {
		t.Error("a query without a secret is masked")
	}
}
